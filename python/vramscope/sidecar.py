"""What a snapshot does not say: capacity, memory outside PyTorch, versions, roles. Written beside it as JSON.

docs/schema/sidecar.json describes the format. Each fact is collected on its own: one that this version of torch does
not have, or that fails at an out of memory, is ``null`` and takes no other fact with it.
"""

from __future__ import annotations

import json
import os
import platform
import time
from typing import Any, Callable, TypeVar

from . import naming, nvml
from . import roles as tensor_roles

SCHEMA = "vramscope/sidecar/1"

T = TypeVar("T")


def _try(fact: Callable[[], T]) -> T | None:
    try:
        return fact()
    except Exception:
        return None


def _settings() -> str | None:
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
    return next((os.environ[name] for name in names if name in os.environ), None)


def _has_context(torch: Any, device: int) -> bool:
    """Whether this process uses a device. Asking one that it does not use would create a context of 500 MiB there."""
    return bool(_try(lambda: torch._C._cuda_hasPrimaryContext(device)))


def _device(torch: Any, device: int, oom: dict[str, Any] | None) -> dict[str, Any]:
    cuda = torch.cuda
    properties = _try(lambda: cuda.get_device_properties(device))
    free = _try(lambda: cuda.mem_get_info(device)[0])
    if free is None and oom is not None and oom["device"] == device:
        free = oom["free"]
    capacity = getattr(properties, "total_memory", None)
    reserved = _try(lambda: cuda.memory_reserved(device))
    known = capacity is not None and free is not None and reserved is not None
    fraction = _try(lambda: cuda.get_per_process_memory_fraction(device))
    limited = fraction is not None and fraction < 1.0 and capacity is not None
    uuid = str(getattr(properties, "uuid", "") or "")
    return {
        "device": device,
        "name": getattr(properties, "name", None),
        "uuid": uuid or None,
        "capacity": capacity,
        "free": free,
        "reserved": reserved,
        "allocated": _try(lambda: cuda.memory_allocated(device)),
        "outside": max(0, capacity - free - reserved) if known else None,  # type: ignore[operator]
        "limit": int(fraction * capacity) if limited else None,  # type: ignore[operator]
        "processes": _try(lambda: nvml.processes(uuid)) if uuid else None,
    }


def _host(torch: Any) -> dict[str, int] | None:
    """Pinned memory; PyTorch rounds each request up to a power of two."""
    stats = torch.cuda.host_memory_stats()
    return {name: value for name, value in stats.items() if isinstance(value, int)}


def _pinned(torch: Any, host: dict[str, int]) -> dict[str, int] | None:
    """Tensors in pinned memory, and the blocks that they need. PyTorch counts blocks only."""
    if not host.get("active_bytes.current", 1):
        return None
    sizes = tensor_roles.pinned_sizes(torch)
    rounded = sum(1 << (size - 1).bit_length() for size in sizes)
    # Above pinned_max_round_threshold requests are not rounded.
    rounded = max(sum(sizes), min(rounded, host.get("active_bytes.current", rounded)))
    return {"count": len(sizes), "bytes": sum(sizes), "rounded": rounded}


def _nccl(torch: Any) -> list[dict[str, Any]]:
    """What communicators hold, by process group: torch 2.12 with NCCL 2.29.7 tells."""
    groups = torch.distributed.distributed_c10d._world.pg_names
    found = []
    for group, name in list(groups.items()):
        backend = _try(lambda: group._get_backend(torch.device("cuda")))
        stats = None
        for method in ("memory_stats", "get_memory_stats"):
            if stats is None and hasattr(backend, method):
                stats = _try(getattr(backend, method))
        if isinstance(stats, dict):
            found.append({"group": str(name), "stats": {str(key): int(value) for key, value in stats.items()}})
    return found


def _distributed(torch: Any) -> bool:
    return bool(_try(lambda: torch.distributed.is_available() and torch.distributed.is_initialized()))


def rank(torch: Any) -> int | None:
    """The global rank: what the process group says, else the launcher."""
    if _distributed(torch):
        return _try(lambda: int(torch.distributed.get_rank()))
    return naming.rank()


def collect(
    torch: Any,
    *,
    snapshot: str,
    reason: str,
    step: int | None,
    recording: dict[str, Any],
    oom: dict[str, Any] | None = None,
    roles: dict[str, Any] | None = None,
    sources: dict[str, dict[str, str]] | None = None,
    hostname: bool = False,
) -> dict[str, Any]:
    """All facts about this process at this moment."""
    host = _try(lambda: _host(torch))
    world = _try(torch.distributed.get_world_size) if _distributed(torch) else os.environ.get("WORLD_SIZE")
    devices = range(_try(torch.cuda.device_count) or 0)
    return {
        "schema": SCHEMA,
        "snapshot": os.path.basename(snapshot),
        "reason": reason,
        "time_us": time.time_ns() // 1000,
        "rank": rank(torch),
        "world_size": _try(lambda: int(world)) if world is not None else None,
        "pid": os.getpid(),
        "step": step,
        "hostname": platform.node() if hostname else None,
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "cuda": _try(lambda: torch.version.cuda),
            "hip": _try(lambda: torch.version.hip),
            "driver": _try(nvml.driver_version),
        },
        "recording": recording,
        "allocator": {"backend": _try(torch.cuda.get_allocator_backend), "settings": _settings()},
        "devices": [_device(torch, device, oom) for device in devices if _has_context(torch, device)],
        "host_memory": host,
        "pinned_tensors": _try(lambda: _pinned(torch, host)) if host else None,
        "nccl": (_try(lambda: _nccl(torch)) if _distributed(torch) else None) or [],
        "oom": oom,
        "roles": roles,
        "sources": sources,
    }


def write(path: str, facts: dict[str, Any]) -> None:
    """Writes a sidecar; a reader sees all of it or nothing."""

    def fill(part: str) -> None:
        with open(part, "w", encoding="utf-8") as file:
            json.dump(facts, file, separators=(",", ":"), default=str)

    naming.write_atomic(path, fill)
