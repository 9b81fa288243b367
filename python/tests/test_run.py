"""``python -m vramscope run`` on unchanged programs, with a stand-in for torch and the real program for summaries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from test_recorder import environment, sidecars
from vramscope import program

TRAIN = """
import torch
torch.init()
try:
    torch.allocate_too_much()
except torch.OutOfMemoryError:
    raise SystemExit("died of memory")
"""


def run(folder: Path, script: str, *options: str, **more: str) -> subprocess.CompletedProcess:
    (folder / "train.py").write_text(script)
    command = [sys.executable, "-m", "vramscope", "run", *options, "--", sys.executable, "train.py"]
    return subprocess.run(command, cwd=folder, env=environment(**more), capture_output=True, text=True, check=False)


def test_the_program_runs_the_package(tmp_path) -> None:
    """`vramscope run` is `python -m vramscope run` with the Python of the command."""
    code = "import torch; torch.allocate_too_much()"
    words = [program.find(), "run", "-o", str(tmp_path / "run"), "--", sys.executable, "-c", code]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "vramscope: 1 snapshot in" in done.stderr
    assert "outside PyTorch" in done.stdout, "the sidecar is read"
    assert "First finding: out of memory" in done.stdout


def test_a_death_by_memory_is_explained_at_once(tmp_path) -> None:
    done = run(tmp_path, TRAIN, "-o", "out")
    assert done.returncode == 1 and "died of memory" in done.stderr
    assert "vramscope: 2 snapshots in" in done.stderr
    assert "exact: complete from the first allocation on" in done.stdout
    assert "First finding: out of memory at event 11 822" in done.stdout
    assert [facts["reason"] for facts in sidecars(tmp_path / "out")] == ["oom", "exit"]


def test_a_healthy_run_says_where_its_snapshot_is(tmp_path) -> None:
    done = run(tmp_path, "import torch\ntorch.init()\nprint('trained')", "--every", "5")
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "vramscope: 1 snapshot in" in done.stderr and "memory_pid" in done.stderr


def test_a_program_without_torch_loads_nothing_of_ours(tmp_path) -> None:
    done = run(tmp_path, "import sys; print('vramscope' in sys.modules, 'json' in sys.modules)")
    assert (done.returncode, done.stdout) == (0, "False False\n")
    assert "no snapshots" in done.stderr


def test_subprocesses_record_too(tmp_path) -> None:
    script = """
import os, subprocess, sys
for rank in "01":
    env = {**os.environ, "RANK": rank, "WORLD_SIZE": "2"}
    subprocess.check_call([sys.executable, "-c", "import torch; torch.init()"], env=env)
"""
    assert run(tmp_path, script, "-o", "out").returncode == 0
    assert [(facts["rank"], facts["world_size"]) for facts in sidecars(tmp_path / "out")] == [(0, 2), (1, 2)]


def test_an_existing_sitecustomize_still_runs(tmp_path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import os; os.environ['THEIRS'] = 'ran'")
    path = environment()["PYTHONPATH"]
    script = "import os, sitecustomize, torch\ntorch.init()\nprint(os.environ['THEIRS'], sitecustomize.__file__)"
    done = run(tmp_path, script, "-o", "out", PYTHONPATH=f"{theirs}:{path}")
    assert done.stdout == f"ran {theirs}/sitecustomize.py\n"
    assert len(sidecars(tmp_path / "out")) == 1


def test_options_reach_the_recorder(tmp_path) -> None:
    script = "import torch\ntorch.init()\nimport json; print(json.dumps(torch._Calls.history))"
    done = run(tmp_path, script, "--max-entries", "1234", "--stacks", "all")
    ((enabled, how),) = json.loads(done.stdout)
    assert (enabled, how["max_entries"], how["stacks"]) == ("all", 1234, "all")


def test_the_exit_status_is_the_programs(tmp_path) -> None:
    assert run(tmp_path, "raise SystemExit(7)").returncode == 7
    assert run(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)").returncode == 128 + 15


def test_a_command_that_does_not_exist(tmp_path) -> None:
    command = [sys.executable, "-m", "vramscope", "run", "--", "no-such-program"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (127, "vramscope: cannot run no-such-program: No such file or directory\n")
