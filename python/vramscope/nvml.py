"""Which processes hold memory of a device, as the driver tells; the library that comes with it, without a package."""

from __future__ import annotations

import ctypes
from typing import Any

#: More processes on one device are cut off.
_MOST = 256

_UNKNOWN = 2**64 - 1


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("bytes", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


_library: Any = None


def _load() -> Any:
    """The library, initialized; ``None`` where there is none."""
    global _library
    if _library is None:
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            _library = library if library.nvmlInit_v2() == 0 else False
        except OSError:
            _library = False
    return _library or None


def driver_version() -> str | None:
    """The version of the driver, such as ``570.86.15``."""
    library = _load()
    text = ctypes.create_string_buffer(96)
    if library is None or library.nvmlSystemGetDriverVersion(text, 96) != 0:
        return None
    return text.value.decode("ascii", "replace")


def processes(uuid: str) -> list[dict[str, int]] | None:
    """Process ids and bytes on a device, this process included; ``None`` if the driver does not say.

    In a container the ids are those of the host, or the list lacks the processes of others.
    """
    library = _load()
    if library is None:
        return None
    device = ctypes.c_void_p()
    name = uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"
    if library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(device)) != 0:
        return None
    count, rows = ctypes.c_uint(_MOST), (_Process * _MOST)()
    try:
        code = library.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), rows)
    except AttributeError:  # Drivers before 510 have other structures.
        return None
    if code != 0:
        return None
    known = [row for row in rows[: count.value] if row.bytes != _UNKNOWN]
    return [{"pid": row.pid, "bytes": row.bytes} for row in known]
