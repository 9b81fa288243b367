"""What the recorder writes and when, on a stand-in for torch in a process of its own. tests/gpu has real torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from vramscope import program

STAND_IN = Path(__file__).parent / "stand_in"


def environment(**more: str) -> dict:
    paths = [str(STAND_IN), str(Path(__file__).parents[1])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def python(code: str, folder: Path, **more: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, cwd=folder, env=environment(**more), capture_output=True, text=True, check=False)


def sidecars(folder: Path) -> list:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.vramscope.json"))]


def test_a_block_leaves_a_snapshot_and_its_sidecar(tmp_path) -> None:
    done = python("import torch, vramscope\nwith vramscope.record('run'): torch.init()", tmp_path, RANK="3")
    assert (done.returncode, done.stderr) == (0, "")
    (snapshot,) = (tmp_path / "run").glob("*.pickle")
    assert snapshot.name.startswith("memory_rank3_pid")
    (facts,) = sidecars(tmp_path / "run")
    assert (facts["snapshot"], facts["reason"], facts["rank"]) == (snapshot.name, "exit", 3)
    device = facts["devices"][0]
    # Capacity 80 GiB, free 60, reserved 12; half of it is allowed.
    assert (device["outside"], device["limit"]) == (8 << 30, 40 << 30)


def test_sidecars_keep_to_their_schema(tmp_path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    code = """
        import torch, vramscope
        model = torch.nn.Module()
        with vramscope.record('run', model=model, optimizer=torch.optim.Optimizer(model.parameters()), hostname=True):
            torch.init()
            try: torch.allocate_too_much()
            except torch.OutOfMemoryError: pass
    """
    assert python(code, tmp_path).stderr == ""
    schema = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "sidecar.json").read_text())
    found = sidecars(tmp_path / "run")
    assert [facts["reason"] for facts in found] == ["oom", "exit"]
    for facts in found:
        jsonschema.validate(facts, schema)


def test_models_that_nobody_named_are_listed_after_the_one_that_was(tmp_path) -> None:
    code = """
        import torch, vramscope
        student, teacher = torch.nn.Module(), torch.nn.Module()
        teacher._parameters = {"frozen": torch._Tensor(0xf000, 2048)}
        with vramscope.record('run', model=student): torch.init()
    """
    assert python(code, tmp_path).stderr == ""
    roles = sidecars(tmp_path / "run")[0]["roles"]
    names = [row["name"] for row in roles["storages"]]
    assert (roles["from"], names[:2], "frozen" in names) == ("given", ["weight", "bias"], True)


def test_pinned_tensors_need_blocks_of_powers_of_two(tmp_path) -> None:
    code = """
        import torch, vramscope
        kept = [torch.Tensor(0x100, 5 << 20, True), torch.Tensor(0x100, 5 << 20, True), torch.Tensor(0x200, 1, False)]
        with vramscope.record('run'): torch.init()
    """
    assert python(code, tmp_path).stderr == ""
    # Both tensors have one storage of 5 MiB, in a block of 8.
    assert sidecars(tmp_path / "run")[0]["pinned_tensors"] == {"count": 1, "bytes": 5 << 20, "rounded": 8 << 20}


def test_roles_are_named_by_address(tmp_path) -> None:
    code = """
        import torch, vramscope
        model = torch.nn.Module(); optimizer = torch.optim.Optimizer(model.parameters())
        optimizer.state[model._parameters["weight"]] = {"step": 3, "moments": [torch._Tensor(0xb000, 4096)]}
        with vramscope.record('run', model=model, optimizer=optimizer): torch.init()
    """
    assert python(code, tmp_path).stderr == ""
    roles = sidecars(tmp_path / "run")[0]["roles"]
    assert roles["from"] == "given"
    assert [(r["role"], r["name"], r["address"], r["bytes"]) for r in roles["storages"]] == [
        ("parameter", "weight", 0x1000, 4096),
        ("parameter", "bias", 0x3000, 512),
        ("buffer", "mean", 0x5000, 1024),
        ("gradient", "weight", 0x9000, 4096),
        ("optimizer", "weight.moments.0", 0xB000, 4096),
    ]


def test_roles_are_found_without_being_given(tmp_path) -> None:
    code = "import torch, vramscope\nmodel = torch.nn.Module()\nwith vramscope.record('run'): torch.init()"
    assert python(code, tmp_path).stderr == ""
    roles = sidecars(tmp_path / "run")[0]["roles"]
    assert (roles["from"], len(roles["storages"])) == ("found", 4)


def test_nothing_is_recorded_before_cuda_is_used(tmp_path) -> None:
    code = "import torch, vramscope\nvramscope.start('run'); print(torch._Calls.history)"
    assert python(code, tmp_path).stdout == "[]\n"
    assert not (tmp_path / "run").exists()


def test_caught_errors_are_recorded_and_bounded(tmp_path) -> None:
    code = """
        import time, torch, vramscope
        recorder = vramscope.start('run', max_oom_dumps=3, on_exit=False)
        for step in range(6):
            try: torch.allocate_too_much()
            except torch.OutOfMemoryError: time.sleep(11 * recorder._last_oom[1])
        print(recorder.oom_count, len(recorder.written))
    """
    done = python(code, tmp_path)
    assert (done.stdout, done.stderr) == ("6 3\n", "")
    # The first and the two newest stay.
    assert [facts["oom"]["count"] for facts in sidecars(tmp_path / "run")] == [1, 5, 6]
    assert len(list((tmp_path / "run").iterdir())) == 6


def test_what_died_of_memory_leaves_one_snapshot(tmp_path) -> None:
    done = python("import torch, vramscope\nvramscope.start('run')\ntorch.allocate_too_much()", tmp_path)
    assert done.returncode == 1
    assert [facts["reason"] for facts in sidecars(tmp_path / "run")] == ["oom"]


def test_steps_of_the_optimizer_are_counted(tmp_path) -> None:
    code = """
        import torch, vramscope
        vramscope.start('run', every=2); torch.init()
        optimizer = torch.optim.Optimizer([])
        for _ in range(5): optimizer.step()
    """
    assert python(code, tmp_path).stderr == ""
    found = [(facts["reason"], facts["step"]) for facts in sidecars(tmp_path / "run")]
    assert found == [("step", 2), ("step", 4), ("exit", 5)]


def test_own_steps_take_precedence(tmp_path) -> None:
    code = """
        import torch, vramscope
        vramscope.start('run', every=10); torch.init()
        optimizer = torch.optim.Optimizer([])
        for number in range(100, 121, 5): optimizer.step(); vramscope.step(number)
        vramscope.stop()
    """
    assert python(code, tmp_path).stderr == ""
    assert [facts["step"] for facts in sidecars(tmp_path / "run")] == [100, 110, 120, 120]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal here")
def test_a_signal_writes_a_snapshot_and_calls_the_handler_before(tmp_path) -> None:
    code = """
        import os, signal, torch, vramscope
        signal.signal(signal.SIGUSR1, lambda *_: print("theirs"))
        vramscope.start('run', on_exit=False); torch.init()
        os.kill(os.getpid(), signal.SIGUSR1)
    """
    assert python(code, tmp_path).stdout == "theirs\n"
    assert [facts["reason"] for facts in sidecars(tmp_path / "run")] == ["signal"]


def test_a_full_disk_does_not_reach_the_program(tmp_path) -> None:
    code = """
        import torch, vramscope
        with vramscope.record('run'):
            torch.init()
            assert vramscope.dump() is None
        print("trained")
    """
    done = python(code, tmp_path, STAND_IN_FAILS="1")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "No space left on device" in done.stderr
    assert list((tmp_path / "run").iterdir()) == []


def test_forked_workers_write_their_own(tmp_path) -> None:
    code = """
        import multiprocessing, torch, vramscope
        vramscope.start('run')
        workers = [multiprocessing.get_context("fork").Process(target=torch.init) for _ in range(2)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
    """
    assert python(code, tmp_path).stderr == ""
    found = sidecars(tmp_path / "run")
    assert len({facts["pid"] for facts in found}) == len(found) == 2


def test_ranks_reads_the_names(tmp_path) -> None:
    for rank in range(4):
        code = "import torch, vramscope\nwith vramscope.record('run'): torch.init(); vramscope.step(7)"
        assert python(code, tmp_path, RANK=str(rank)).stderr == ""
    files = program.ask(["summary", str(tmp_path / "run")]).files
    assert [(file.rank, file.step) for file in files] == [(0, 7), (1, 7), (2, 7), (3, 7)]
    assert len({file.group for file in files}) == 1, "one run"
    assert program.ask(["ranks", str(tmp_path / "run")]).schema.startswith("vramscope/ranks/")
