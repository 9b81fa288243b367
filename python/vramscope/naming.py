"""Names of snapshots, as ``vramscope ranks`` reads them, and files that appear whole or not at all."""

from __future__ import annotations

import os
import time
from typing import Callable

#: What launchers tell each process: torchrun and accelerate, then Slurm, Open MPI, MPICH.
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")

SIDECAR = ".vramscope.json"


def rank() -> int | None:
    """The global rank of this process; ``None`` if nobody says so."""
    for name in _RANKS:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None


def stem(*, rank: int | None, step: int | None, pid: int, time_ms: int, oom: bool) -> str:
    """The name of a snapshot without its ending.

    >>> stem(rank=3, step=10, pid=991, time_ms=1790000000123, oom=False)
    'memory_rank3_step10_pid991_time1790000000123'
    >>> stem(rank=None, step=None, pid=991, time_ms=1790000000123, oom=True)
    'memory_oom_pid991_time1790000000123'
    """
    words = ["memory"]
    if oom:
        words.append("oom")
    if rank is not None:
        words.append(f"rank{rank}")
    if step is not None:
        words.append(f"step{step}")
    return "_".join([*words, f"pid{pid}", f"time{time_ms}"])


def free_paths(folder: str, *, step: int | None, oom: bool, rank: int | None) -> tuple[str, str]:
    """Paths for a snapshot and its sidecar that do not exist yet."""
    time_ms = time.time_ns() // 1_000_000
    while True:
        base = os.path.join(folder, stem(rank=rank, step=step, pid=os.getpid(), time_ms=time_ms, oom=oom))
        if not os.path.exists(base + ".pickle") and not os.path.exists(base + SIDECAR):
            return base + ".pickle", base + SIDECAR
        time_ms += 1  # Two dumps within a millisecond.


def temporary(path: str) -> str:
    """Where a file is written before it gets its name. Hidden, so that no reader takes it for a snapshot."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.{os.getpid()}.part")


def write_atomic(path: str, write: Callable[[str], None]) -> None:
    """Lets ``write`` fill a temporary file, and renames it to ``path``: a reader sees all of it or nothing."""
    part = temporary(path)
    try:
        write(part)
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        try:
            os.unlink(part)
        except OSError:
            pass
