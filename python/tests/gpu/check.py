"""Checks recording with real PyTorch on a machine with a GPU, and prints tables. No arguments; about 4 minutes.

    VRAMSCOPE_BIN=target/release/vramscope python python/tests/gpu/check.py [--out DIR] [--only PART]

Parts: import, oom, run, hooks, overhead, roles, outside, dumps. Needs torch; without VRAMSCOPE_BIN files are judged by
unpickling them. Ends with exit status 1 if something failed. DIR gets roles.pickle and roles.roles.json, which
roles_check.py reads, and a few of the snapshots.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import gc
import glob
import json
import os
import pickle
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [PACKAGE, HERE]

from cases import CASES  # noqa: E402

MIB = 1 << 20
FAILED: list[str] = []


def tell(part: str, what: str, value: object, ok: bool | None = None) -> None:
    mark = {True: "ok", False: "FAILED", None: ""}[ok]
    print(f"{part:9} {what:44} {value!s:42} {mark}", flush=True)
    if ok is False:
        FAILED.append(f"{part}: {what}")


def start(*command: str, **more: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "PYTHONPATH": PACKAGE, **more}
    try:
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=150, check=False)
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(command, 124, str(error.stdout), "timed out")


def has_program() -> bool:
    from vramscope import program

    try:
        program.run(["--version"])
    except program.VramscopeError:
        return False
    return True


def facts(path: str) -> dict:
    """The sidecar of a snapshot; the path of either."""
    with open(path.replace(".pickle", ".vramscope.json"), encoding="utf-8") as file:
        return json.load(file)


def judge(path: str) -> str:
    """Empty if a snapshot shows its out of memory, with a sidecar; else what is wrong."""
    beside = path[: -len(".pickle")] + ".vramscope.json"
    if not os.path.exists(beside):
        return "no sidecar"
    said = facts(path)
    if not said["oom"] or said["oom"]["segment_bytes"] <= 0:
        return "the sidecar has no out of memory"
    device = said["devices"][0]
    if None in (device["capacity"], device["free"], device["outside"]):
        return f"the sidecar lacks {device}"
    if has_program():
        from vramscope import Snapshot

        summary = Snapshot(path).summary().devices[0]
        requests = [oom.requested for oom in summary.oom]
        known = summary.verdict.status
    else:
        with open(path, "rb") as file:
            trace = pickle.load(file)["device_traces"][0]
        requests, known = [event["size"] for event in trace if event["action"] == "oom"], "unpickled"
    needed = said["oom"]["segment_bytes"]
    if not any(0 < request <= needed for request in requests):
        return f"needed {needed}, the trace says {requests} ({known})"
    return ""


def one_case(name: str, folder: str) -> tuple[list[str], str, int]:
    case = os.path.join(HERE, "cases.py")
    if name.startswith("run_"):
        command = ["-m", "vramscope", "run", "--no-summary", "-o", folder, "--", sys.executable, case, name, folder]
    else:
        command = [case, name, folder]
    done = start(sys.executable, *command)
    return sorted(glob.glob(f"{folder}/memory_oom_*.pickle")), done.stderr, done.returncode


def part_oom(out: str) -> None:
    """The injected errors: each must leave its files."""
    total = good = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(6) as pool:
        running = {name: pool.submit(one_case, name, os.path.join(folder, name)) for name in CASES}
        for name, future in running.items():
            paths, said, status = future.result()
            problems = [problem for problem in map(judge, paths) if problem]
            fine = max(0, min(len(paths), CASES[name]) - len(problems))
            total, good = total + CASES[name], good + fine
            ok = fine == CASES[name] and not problems
            tell("oom", name, f"{fine} of {CASES[name]} usable, exit {status}", ok)
            for line in problems or ([] if ok else said.splitlines()[-4:]):
                print(f"            {line}")
            if name == "modules" and paths:
                with open(paths[0], "rb") as file:
                    trace = pickle.load(file)["device_traces"][0]
                marked = sum(bool(event.get("user_metadata")) for event in trace)
                tell("oom", "modules: events with a path", f"{marked} of {len(trace)} (torch 2.10)")
            if name in ("backward", "capture", "optimizer") and paths:
                shutil.copy(paths[0], os.path.join(out, f"oom_{name}.pickle"))
                shutil.copy(paths[0][:-7] + ".vramscope.json", os.path.join(out, f"oom_{name}.vramscope.json"))
    tell("oom", "usable files in all", f"{good} of {total}", good == total)


def transformer(torch, width: int, layers: int):
    layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, dropout=0.0, norm_first=True)
    return torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).cuda()


def part_overhead(out: str) -> None:
    """Time per training step, with and without recording, in blocks that alternate."""
    import torch
    import vramscope

    for name, width, layers, batch, length, steps in (
        ("launch-bound", 256, 6, 8, 256, 30),
        ("8 layers of 1024", 1024, 8, 32, 256, 20),
        ("16 layers of 2048", 2048, 16, 16, 1024, 6),
    ):
        model = transformer(torch, width, layers)
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(batch, length, width, device="cuda")

        def step(model=model, optimizer=optimizer, x=x) -> float:
            began = time.perf_counter()
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.cuda.synchronize()
            return time.perf_counter() - began

        for _ in range(steps):
            step()
        ways = {
            "off": None,
            "on": {},
            "on, context=alloc": {"context": "alloc"},
            "on, no annotations": {"annotations": False},
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(6):
                for way, options in ways.items():
                    recorder = None if options is None else vramscope.start(folder, **options)
                    step()
                    times[way] += [step() for _ in range(steps)]
                    if recorder is not None:
                        recorder.stop(dump=False)
        off = statistics.median(times["off"])
        for way, taken in times.items():
            middle = statistics.median(taken)
            change = 100 * (middle / off - 1)
            ok = change <= 3 if way == "on" and length == 1024 else None
            tell("overhead", f"{name}: {way}", f"{1000 * middle:.3f} ms per step ({change:+.1f} %)", ok)
        del model, optimizer, x, step
        torch.cuda.empty_cache()


def listing(torch, model, optimizer) -> set:
    """What PyTorch knows of roles, listed without the package under test."""
    found: dict[int, tuple] = {}

    def add(tensor, role: str) -> None:
        if tensor is not None and tensor.is_cuda:
            storage = tensor.untyped_storage()
            if storage.nbytes():
                found.setdefault(storage.data_ptr(), (storage.data_ptr(), storage.nbytes(), role))

    for parameter in model.parameters():
        add(parameter.data, "parameter")
    for buffer in model.buffers():
        add(buffer, "buffer")
    for parameter in model.parameters():
        add(parameter.grad, "gradient")
    for state in optimizer.state.values():
        for value in state.values():
            if torch.is_tensor(value):
                add(value, "optimizer")
    return set(found.values())


def part_roles(out: str) -> None:
    """Roles in the sidecar against PyTorch's own objects, and against the blocks of the snapshot."""
    import torch
    import vramscope

    gc.collect()  # Models of other parts would be found, too.
    with tempfile.TemporaryDirectory() as folder:
        recorder = vramscope.start(folder)
        model = torch.nn.Sequential(
            torch.nn.Linear(512, 2048), torch.nn.BatchNorm1d(2048), torch.nn.Linear(2048, 512)
        ).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        recorder.watch(model, optimizer)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(128, 512, device="cuda")).square().mean().backward()
            optimizer.step()
        torch.cuda.synchronize()
        now, truth = time.time_ns(), listing(torch, model, optimizer)
        given = recorder.dump()
        recorder._models.clear()
        recorder._optimizers.clear()
        found = recorder.dump()
        recorder.stop(dump=False)
        for how, path in (("given", given), ("found", found)):
            roles = facts(path)["roles"]
            rows = roles["storages"]
            told = {(row["address"], row["bytes"], row["role"]) for row in rows}
            same = f"{len(told & truth)} of {len(truth)} equal, {sum(row['bytes'] for row in rows)} bytes"
            tell("roles", f"{how}: equal to PyTorch's own", same, told == truth and roles["from"] == how)
        with open(given, "rb") as file:
            segments = pickle.load(file)["segments"]
        blocks = {
            b["address"]: b["requested_size"] for s in segments for b in s["blocks"] if b["state"] == "active_allocated"
        }
        inside = sum(1 for address, size, _ in truth if blocks.get(address) == size)
        tell("roles", "are blocks of the snapshot, same bytes", f"{inside} of {len(truth)}", inside == len(truth))
        shutil.copy(given, os.path.join(out, "roles.pickle"))
        shutil.copy(given[:-7] + ".vramscope.json", os.path.join(out, "roles.vramscope.json"))
        marked = [[address, size, role, role] for address, size, role in sorted(truth)]
        with open(os.path.join(out, "roles.roles.json"), "w", encoding="utf-8") as file:
            json.dump({"marks": [{"label": "dump", "time_ns": now, "roles": marked}]}, file)


def part_run(out: str) -> None:
    """`run` on a program that knows nothing of vramscope."""
    with tempfile.TemporaryDirectory() as folder:
        case = [sys.executable, os.path.join(HERE, "cases.py"), "run_uncaught", "-"]
        done = start(sys.executable, "-m", "vramscope", "run", "-o", folder, "--", *case)
        tell("run", "exit status is the program's", done.returncode, done.returncode == 1)
        tell("run", "says where the snapshot is", "", "snapshot in" in done.stderr)
        if has_program():
            first = next((line for line in done.stdout.splitlines() if line.startswith("First finding")), "none")
            tell("run", "prints the finding", "", first != "none")
            print(f"            {first}")
        ranks = os.path.join(folder, "ranks")
        launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29534"]
        caught = [os.path.join(HERE, "cases.py"), "run_caught", "-"]
        start(sys.executable, "-m", "vramscope", "run", "-o", ranks, "--", *launch, *caught)
        found = sorted(facts(path)["rank"] for path in glob.glob(f"{ranks}/memory_oom_*.pickle"))
        tell("run", "torchrun: ranks with a snapshot", found, found == [0, 1])
        done = start(sys.executable, "-m", "vramscope", "run", "-o", folder, "--", sys.executable, "-c", "print(1)")
        tell("run", "a program without torch", done.stdout.strip(), done.stdout == "1\n")
        accelerated = os.path.join(folder, "accelerated")
        launch = [sys.executable, "-m", "accelerate.commands.launch", "--num_processes=1", "--mixed_precision=no"]
        done = start(sys.executable, "-m", "vramscope", "run", "-o", accelerated, "--", *launch, *caught)
        found = glob.glob(f"{accelerated}/memory_oom_*.pickle")
        tell("run", "accelerate launch: snapshots", len(found), len(found) == 1)
        if has_program():
            from vramscope import program

            verb = os.path.join(folder, "verb")
            done = start(program.find(), "run", "-o", verb, "--", *case)
            said = "First finding" in done.stdout and "snapshot in" in done.stderr
            tell("run", "the program's own verb", f"exit {done.returncode}", done.returncode == 1 and said)


TRANSFORMERS = """
import sys, torch, transformers
from vramscope.hooks.transformers import VramscopeCallback
callback = VramscopeCallback(sys.argv[1], every=2)
config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=128)
model = transformers.GPT2LMHeadModel(config)
rows = [{"input_ids": torch.arange(32), "labels": torch.arange(32)} for _ in range(16)]
arguments = transformers.TrainingArguments(
    sys.argv[1] + "/trainer", max_steps=4, per_device_train_batch_size=4, report_to=[], save_strategy="no"
)
transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[callback]).train()
"""

LIGHTNING = """
import sys, torch, pytorch_lightning as lightning
from vramscope.hooks.lightning import VramscopeCallback

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
    def training_step(self, batch, index):
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

data = torch.utils.data.DataLoader(torch.randn(64, 64), batch_size=16)
options = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, default_root_dir=sys.argv[1])
callback = VramscopeCallback(sys.argv[1], every=2)
lightning.Trainer(max_steps=4, accelerator="gpu", devices=1, callbacks=[callback], **options).fit(Model(), data)
"""


def part_hooks(out: str) -> None:
    """The callbacks of two frameworks: snapshots every second step and at the end, with roles."""
    for name, code in (("transformers", TRANSFORMERS), ("Lightning", LIGHTNING)):
        with tempfile.TemporaryDirectory() as folder:
            done = start(sys.executable, "-c", code, folder)
            beside = [facts(path) for path in glob.glob(f"{folder}/*.pickle")]
            steps = sorted(said["step"] for said in beside)
            roles = {row["role"] for said in beside for row in said["roles"]["storages"]}
            # The Trainer of transformers drops gradients before it says that a step has ended.
            wanted = {"parameter", "optimizer"} | ({"gradient"} if name == "Lightning" else set())
            ok = steps == [2, 4, 4] and wanted <= roles
            tell("hooks", f"{name}: steps, roles", f"{steps} {sorted(roles)}", ok)
            if not ok:
                print(done.stderr[-2000:])


HOLD = """
import sys, torch
x = torch.ones(3 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("held", flush=True)
sys.stdin.read()
"""


def part_outside(out: str) -> None:
    """Memory outside this process's allocator, against nvidia-smi, while another process holds 3 GiB."""
    import torch
    import vramscope

    other = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    other.stdout.readline()
    try:
        with tempfile.TemporaryDirectory() as folder:
            recorder = vramscope.start(folder)
            kept = torch.ones(1 << 30, dtype=torch.uint8, device="cuda")
            torch.cuda.synchronize()
            path = recorder.dump()
            smi = subprocess.check_output(
                ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"], text=True
            )
            recorder.stop(dump=False)
            said = facts(path)
            del kept
    finally:
        other.communicate()
    device = said["devices"][0]
    expected = int(smi.split()[0]) * MIB - device["reserved"]
    difference = (device["outside"] - expected) / MIB
    tell(
        "outside",
        "against nvidia-smi minus reserved",
        f"{device['outside'] / MIB:.0f} MiB, {difference:+.0f} MiB",
        abs(difference) <= 64,
    )
    tell("outside", "processes that the driver tells", device["processes"])
    tell("outside", "versions", said["versions"])
    tell("outside", "pinned memory is reported", len(said["host_memory"] or {}), None)


def part_dumps(out: str) -> None:
    """Snapshots every N steps, by the optimizer's own count, and how long a dump takes."""
    import torch
    import vramscope

    with tempfile.TemporaryDirectory() as folder:
        with vramscope.record(folder, every=2) as recorder:
            model = torch.nn.Linear(512, 512).cuda()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(5):
                model(torch.randn(8, 512, device="cuda")).sum().backward()
                optimizer.step()
            held = [torch.empty(1, device="cuda") for _ in range(200)]
            for _ in range(1000):
                held = [torch.empty(1, device="cuda") for _ in range(200)]
            began = time.perf_counter()
            path = recorder.dump()
            took = time.perf_counter() - began
            del held
        steps = sorted(facts(f)["step"] for f in glob.glob(f"{folder}/*.vramscope.json") if "step" in f)
        tell("dumps", "steps with a snapshot", steps, steps == [2, 4, 5, 5])
        tell(
            "dumps",
            "a dump of 0.6 million events",
            f"{took:.1f} s, {os.path.getsize(path) / MIB:.0f} MiB" if os.path.exists(path) else "gone",
        )


def part_import(out: str) -> None:
    code = "import time; t = time.perf_counter(); import vramscope; print(1000 * (time.perf_counter() - t))"
    taken = statistics.median(float(start(sys.executable, "-c", code).stdout) for _ in range(5))
    tell("import", "import vramscope", f"{taken:.1f} ms", taken <= 50)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=os.environ.get("OUT") or tempfile.mkdtemp(), help="folder for a few files")
    parser.add_argument("--only", action="append", help="only this part")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    for part in ("import", "oom", "run", "hooks", "overhead", "roles", "outside", "dumps"):
        if arguments.only and part not in arguments.only:
            continue
        began = time.monotonic()
        try:
            globals()[f"part_{part}"](arguments.out)
        except Exception as error:
            tell(part, f"{type(error).__name__}: {error}", "", False)
        tell(part, "took", f"{time.monotonic() - began:.0f} s")
    print(f"\n{len(FAILED)} failed: {'; '.join(FAILED)}" if FAILED else "\nall passed")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
