"""As much of torch as the recorder touches, for machines without it. Snapshots are a real recording.

What only real torch can show is in tests/gpu.
"""

import lzma
import os
import pathlib
import types

__version__ = "0.0+stand_in"
RECORDING = pathlib.Path(__file__).resolve().parents[4] / "testdata" / "recordings" / "oom.pickle.xz"


class OutOfMemoryError(RuntimeError):
    pass


class _Calls:
    """What was called, for tests to read."""

    history = []
    observers = []
    queued = []
    initialized = False


def _lazy_call(function):
    if _Calls.initialized:
        function()
    else:
        _Calls.queued.append(function)


def init():
    """What the first use of a GPU does."""
    _Calls.initialized = True
    for function in _Calls.queued:
        function()
    _Calls.queued.clear()


def _dump_snapshot(path):
    if os.environ.get("STAND_IN_FAILS"):
        raise OSError(28, "No space left on device")
    with open(path, "wb") as file:
        file.write(lzma.decompress(RECORDING.read_bytes()))


def allocate_too_much(requested=1 << 25):
    """Runs out of memory as the allocator does: observers first, then the error."""
    init() if not _Calls.initialized else None
    for observer in _Calls.observers:
        observer(0, requested, 4 << 30, 0)
    raise OutOfMemoryError("CUDA out of memory.")


def _record_memory_history(enabled="all", **options):
    _Calls.history.append((enabled, options))


class _Tensor:
    def __init__(self, address, size, grad=None):
        self.address, self.size, self.grad = address, size, grad
        self.is_cuda, self.is_leaf, self.device = True, True, types.SimpleNamespace(index=0)

    def numel(self):
        return self.size

    def untyped_storage(self):
        return types.SimpleNamespace(data_ptr=lambda: self.address, nbytes=lambda: self.size)


class Tensor:
    """A tensor on the host."""

    def __init__(self, address, size, pinned):
        self.address, self.size, self.pinned, self.device = address, size, pinned, types.SimpleNamespace(type="cpu")

    def is_pinned(self):
        return self.pinned

    def untyped_storage(self):
        return types.SimpleNamespace(data_ptr=lambda: self.address, nbytes=lambda: self.size)


cuda = types.SimpleNamespace(
    OutOfMemoryError=OutOfMemoryError,
    _lazy_call=_lazy_call,
    device_count=lambda: 1,
    get_device_properties=lambda device: types.SimpleNamespace(name="stand-in", total_memory=80 << 30, uuid=""),
    mem_get_info=lambda device: (60 << 30, 80 << 30),
    memory_reserved=lambda device: 12 << 30,
    memory_allocated=lambda device: 11 << 30,
    get_per_process_memory_fraction=lambda device: 0.5,
    get_allocator_backend=lambda: "native",
    host_memory_stats=lambda: {"allocated_bytes.current": 8 << 20, "active_bytes.current": 8 << 20},
    memory=types.SimpleNamespace(_record_memory_history=_record_memory_history, _dump_snapshot=_dump_snapshot),
)
version = types.SimpleNamespace(cuda="13.0", hip=None)
distributed = types.SimpleNamespace(is_available=lambda: False)
_C = types.SimpleNamespace(
    _cuda_attach_out_of_memory_observer=_Calls.observers.append,
    _cuda_hasPrimaryContext=lambda device: True,
)


class Module:
    """A model with two parameters, one of them with a gradient, and a buffer."""

    def __init__(self):
        weight, bias = _Tensor(0x1000, 4096, _Tensor(0x9000, 4096)), _Tensor(0x3000, 512)
        self._modules, self._parameters = {}, {"weight": weight, "bias": bias}

    def named_parameters(self):
        return iter(self._parameters.items())

    def parameters(self):
        return iter(self._parameters.values())

    def named_buffers(self):
        return iter([("mean", _Tensor(0x5000, 1024))])


nn = types.SimpleNamespace(Module=Module)
from . import optim as optim  # noqa: E402
