"""Programs that run out of GPU memory, each in its own way: cases.py NAME FOLDER. `check.py` runs all of them.

Cases that `check.py` starts with `run` know nothing of vramscope; FOLDER is then not used.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading

GIB = 1 << 30

#: Which cases there are, how many files each must leave.
CASES = {
    "caught": 1,
    "uncaught": 1,
    "backward": 1,
    "loader_thread": 1,
    "two_processes": 2,
    "torchrun": 2,
    "capture": 1,
    "expandable": 1,
    "expandable_caught": 1,
    "optimizer": 1,
    "inference": 1,
    "stacks_all": 1,
    "modules": 1,
    "fork": 1,
    "mempool": 1,
    "huge": 1,
    "run_uncaught": 1,
    "run_caught": 1,
}


def limit(torch, gib: float = 1.0) -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(gib * GIB / total)


def fill(torch, keep: list) -> None:
    """Allocates until it fails."""
    while True:
        keep.append(torch.empty(48 << 20, dtype=torch.uint8, device="cuda"))


def mlp(torch, width: int = 1024, layers: int = 4):
    parts = [layer for _ in range(layers) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
    return torch.nn.Sequential(*parts).cuda()


def caught(torch, record):
    with record():
        limit(torch)
        try:
            fill(torch, [])
        except torch.cuda.OutOfMemoryError:
            print("went on")


def uncaught(torch, record):
    record().start()
    limit(torch)
    fill(torch, [])


def backward(torch, record):
    """The error is raised on autograd's thread."""

    class Greedy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            fill(torch, [])

    model = mlp(torch)
    record(model=model).start()
    limit(torch)
    Greedy.apply(model(torch.randn(64, 1024, device="cuda"))).sum().backward()


def loader_thread(torch, record):
    """A thread that puts batches on the device ahead of time."""
    record().start()
    limit(torch)
    errors = []

    def load():
        try:
            fill(torch, [])
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    raise errors[0]


def _worker(index: int, folder: str) -> None:
    import torch
    import vramscope

    with vramscope.record(folder):
        limit(torch)
        try:
            fill(torch, [])
        except torch.cuda.OutOfMemoryError:
            pass


def two_processes(torch, record):
    context = torch.multiprocessing.get_context("spawn")
    workers = [context.Process(target=_worker, args=(index, sys.argv[2])) for index in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def torchrun(torch, record):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port=29533"]
    subprocess.run([*command, __file__, "torchrun_rank", sys.argv[2]], check=False)


def torchrun_rank(torch, record):
    torch.distributed.init_process_group("gloo")
    record().start()
    limit(torch)
    x = torch.ones(1 << 20, device="cuda")
    try:
        fill(torch, [x])
    finally:
        torch.distributed.barrier()  # torchrun ends the other rank as soon as one fails.


def capture(torch, record):
    """Inside a CUDA graph's capture, where most driver calls are forbidden."""
    record().start()
    limit(torch)
    torch.ones(8, device="cuda").add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fill(torch, [])


def expandable(torch, record):
    uncaught(torch, record)


def expandable_caught(torch, record):
    caught(torch, record)


def optimizer(torch, record):
    """The first step allocates twice the parameters."""
    model = mlp(torch, 4096, 6)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    record(model=model, optimizer=optimizer).start()
    model(torch.randn(8, 4096, device="cuda")).sum().backward()
    limit(torch, torch.cuda.memory_reserved() / GIB + 0.2)
    optimizer.step()


def inference(torch, record):
    model = mlp(torch)
    record(model=model).start()
    limit(torch)
    with torch.inference_mode():
        batch = 1 << 14
        while True:
            model(torch.randn(batch, 1024, device="cuda"))
            batch *= 2


def stacks_all(torch, record):
    record(stacks="all").start()
    limit(torch)
    fill(torch, [])


def modules(torch, record):
    model = mlp(torch)
    record(model=model, modules=True).start()
    limit(torch)
    model(torch.randn(1 << 17, 1024, device="cuda"))


def _forked(record, torch) -> None:
    limit(torch)
    try:
        fill(torch, [])
    except torch.cuda.OutOfMemoryError:
        pass


def fork(torch, record):
    """CUDA is used in the forked child only, after recording began in the parent."""
    record().start()
    worker = torch.multiprocessing.get_context("fork").Process(target=_forked, args=(record, torch))
    worker.start()
    worker.join()


def mempool(torch, record):
    record().start()
    limit(torch)
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        fill(torch, [])


def huge(torch, record):
    """More than any device has, without a limit of the process."""
    record().start()
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")


def run_uncaught(torch, record):
    limit(torch)
    model = mlp(torch)
    activations = [model(torch.randn(4096, 1024, device="cuda"))]
    fill(torch, activations)


def run_caught(torch, record):
    try:
        run_uncaught(torch, record)
    except torch.cuda.OutOfMemoryError:
        print("went on")


def main() -> None:
    name = sys.argv[1]
    if name.startswith("expandable"):
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"
    import torch

    def record(**options):
        import vramscope

        return vramscope.record(sys.argv[2], **options)

    globals()[name](torch, record)


if __name__ == "__main__":
    main()
