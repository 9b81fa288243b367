"""Recording: start the allocator's history, and write snapshots on exit, on a signal, every N steps and out of memory.

Nothing here raises into the program that is recorded: what fails is logged to the logger ``vramscope``.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
import time
import weakref
from typing import Any, Callable

from . import modules as module_paths
from . import naming, roles, sidecar
from . import source as source_lines

log = logging.getLogger("vramscope")

#: About 100 MB as a file, and a few hundred bytes of host memory per entry.
MAX_ENTRIES = 1_000_000

#: Snapshots at out of memory that one process leaves: the first, and the newest of the rest.
MAX_OOM_DUMPS = 4

#: Snapshots of steps that one process leaves, the newest.
MAX_STEP_DUMPS = 10

#: Beyond MAX_OOM_DUMPS, a program that keeps running into its limit spends at most a tenth of its time on dumps.
_OOM_PAUSE = 10


def _each(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


class Recorder:
    """One recording of this process. Use :func:`record` or :func:`start`.

    >>> recorder = Recorder("run/", every=100)
    >>> recorder.folder, recorder.active, recorder.written
    ('run/', False, [])
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = "vramscope-out",
        *,
        model: Any = None,
        optimizer: Any = None,
        stacks: str = "python",
        context: str = "all",
        max_entries: int = MAX_ENTRIES,
        annotations: bool = True,
        every: int | None = None,
        max_oom_dumps: int = MAX_OOM_DUMPS,
        max_step_dumps: int = MAX_STEP_DUMPS,
        on_exit: bool = True,
        on_signal: bool = True,
        modules: bool = False,
        source: bool = False,
        project: str | None = None,
        hostname: bool = False,
    ) -> None:
        self.folder = os.fspath(folder)
        self.every = every
        #: The snapshots written so far and not replaced by newer ones.
        self.written: list[str] = []
        #: How often memory ran out.
        self.oom_count = 0
        self.active = False
        self._how: dict[str, Any] = {"stacks": stacks, "context": context, "max_entries": max_entries}
        self._annotations, self._modules, self._hostname = annotations, modules, hostname
        self._source = (project or os.getcwd()) if source else None
        self._max_oom, self._max_step = max(1, max_oom_dumps), max(1, max_step_dumps)
        self._on_exit, self._on_signal = on_exit, on_signal
        self._models: list[weakref.ref[Any]] = []
        self._optimizers: list[weakref.ref[Any]] = []
        self._undo: list[Callable[[], None]] = []
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._step: int | None = None
        self._counts_itself = False
        self._pid: int | None = None  # The process whose allocator is recorded.
        self._started_us: int | None = None
        self._lock = threading.Lock()
        self._owner: int | None = None  # The thread that is writing.
        self._by_reason: dict[str, list[str]] = {}
        self._last_oom = (0.0, 0.0)  # When the last dump ended, and how long it took.
        self.watch(model, optimizer)

    def watch(self, model: Any = None, optimizer: Any = None) -> None:
        """Names the models and optimizers whose storages the sidecar lists. The recorder does not keep them alive."""
        for one in _each(model):
            self._models.append(weakref.ref(one))
            if self._modules:
                _safely(lambda: self._undo.append(module_paths.install(one)), "marking modules")
        for one in _each(optimizer):
            self._optimizers.append(weakref.ref(one))

    def start(self) -> Recorder:
        """Begins when CUDA is initialized, or at once if it is already. It does not initialize CUDA itself."""
        _safely(self._start, "starting to record")
        return self

    def _start(self) -> None:
        global _active
        import torch

        if self.active:
            return
        if _active is not None:
            _active.stop()
        self.active, _active = True, self
        if self._on_signal and hasattr(signal, "SIGUSR1") and threading.current_thread() is threading.main_thread():
            self._listen()
        # Initializing CUDA here would break programs that fork before they use it, or choose a device later.
        torch.cuda._lazy_call(self._attach)

    def _attach(self) -> None:
        _safely(self._attach_now, "recording memory history")

    def _attach_now(self) -> None:
        import torch

        if not self.active or self._pid == os.getpid():
            return
        history = torch.cuda.memory._record_memory_history
        annotated = {**self._how, "global_record_annotations": self._annotations}
        # Torch 2.14 records pinned memory, too, and torch before 2.7 has no annotations of all threads.
        for options in ({**annotated, "record_pinned_host_memory": True}, annotated, self._how):
            try:
                history(**options)
                break
            except TypeError:
                continue
        self._pid, self._started_us = os.getpid(), time.time_ns() // 1000
        _observe(torch)
        _count_steps()
        if self._on_exit:
            _at_exit()

    def _listen(self) -> None:
        before = signal.getsignal(signal.SIGUSR1)

        def handler(number: int, frame: Any) -> None:
            self.dump("signal")
            if callable(before):
                before(number, frame)

        signal.signal(signal.SIGUSR1, handler)

        def restore() -> None:
            if signal.getsignal(signal.SIGUSR1) is handler:
                signal.signal(signal.SIGUSR1, before)

        self._undo.append(restore)

    def stop(self, *, dump: bool = True) -> str | None:
        """Writes a last snapshot (unless ``dump=False``) and ends recording. Returns its path."""
        global _active
        if not self.active:
            return None
        path = self.dump("exit") if dump else None
        self.active = False
        if _active is self:
            _active = None
        for undo in self._undo:
            _safely(undo, "removing hooks")
        self._undo.clear()
        if self._pid == os.getpid():
            _safely(_forget, "ending the memory history")
            self._pid = None
        return path

    def step(self, number: int | None = None) -> None:
        """Tells that a training step is complete. Without calls, steps of the optimizer are counted."""
        self._counts_itself = True
        if number is None:
            number = 0 if self._step is None else self._step + 1
        self._advance(int(number))

    def _advance(self, number: int) -> None:
        if number == self._step:
            return
        self._step = number
        if self.every and number % self.every == 0:
            self.dump("step")

    def _optimizer_stepped(self, optimizer: Any) -> None:
        if self._counts_itself or not self.active:
            return
        self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        self._advance(max(self._steps.values()))

    def dump(self, reason: str = "call") -> str | None:
        """Writes a snapshot and its sidecar now. Returns the path; ``None`` if it failed or nothing is recorded."""
        path: str | None = _safely(lambda: self._dump(reason, None), "writing a snapshot")
        return path

    def _out_of_memory(self, device: int, segment_bytes: int, limit: int, free: int) -> None:
        self.oom_count += 1
        ended, took = self._last_oom
        many = len(self._by_reason.get("oom", ())) >= self._max_oom
        if many and time.monotonic() - ended < took * _OOM_PAUSE:
            return
        began = time.monotonic()
        oom = {
            "device": device,
            "segment_bytes": segment_bytes,
            "limit": limit,
            "free": free,
            "count": self.oom_count,
        }
        _safely(lambda: self._dump("oom", oom), "writing a snapshot at out of memory")
        now = time.monotonic()
        self._last_oom = (now, now - began)

    def _dump(self, reason: str, oom: dict[str, Any] | None) -> str | None:
        if not self.active or self._pid != os.getpid():
            return None
        if self._owner == threading.get_ident():
            return None  # A signal arrived during a dump on this thread.
        with self._lock:
            self._owner = threading.get_ident()
            try:
                return self._write(reason, oom)
            finally:
                self._owner = None

    def _write(self, reason: str, oom: dict[str, Any] | None) -> str:
        import torch

        os.makedirs(self.folder, exist_ok=True)
        rank = sidecar.rank(torch)
        path, beside = naming.free_paths(self.folder, step=self._step, oom=oom is not None, rank=rank)
        sources: dict[str, dict[str, str]] | None = None

        def fill(part: str) -> None:
            nonlocal sources
            if self._source is None:
                torch.cuda.memory._dump_snapshot(part)
            else:
                sources = _with_sources(torch, part, self._source)
            # The sidecar first: a snapshot that is there has its sidecar.
            _safely(lambda: sidecar.write(beside, self._facts(torch, path, reason, oom, sources)), "writing a sidecar")

        naming.write_atomic(path, fill)
        self._keep(reason, path)
        return path

    def _facts(self, torch: Any, path: str, reason: str, oom: Any, sources: Any) -> dict[str, Any]:
        recording = {
            **self._how,
            "annotations": self._annotations,
            "modules": self._modules,
            "started_us": self._started_us,
        }
        return sidecar.collect(
            torch,
            snapshot=path,
            reason=reason,
            step=self._step,
            recording=recording,
            oom=oom,
            roles=_safely(self._roles, "listing roles"),
            sources=sources,
            hostname=self._hostname,
        )

    def _roles(self) -> dict[str, Any]:
        models = [model for model in (ref() for ref in self._models) if model is not None]
        optimizers = [optimizer for optimizer in (ref() for ref in self._optimizers) if optimizer is not None]
        given = bool(models or optimizers)
        # What is not listed is no parameter, gradient or optimizer state, so the models of others are listed, too.
        # Those that the program named come first: their names count.
        found_models, found_optimizers = roles.discover()
        models += [model for model in found_models if all(model is not known for known in models)]
        optimizers += [found for found in found_optimizers if all(found is not known for known in optimizers)]
        return {"from": "given" if given else "found", "storages": roles.collect(models, optimizers)}

    def _keep(self, reason: str, path: str) -> None:
        """Bounds how many files of a kind stay. At out of memory the first tells most, so it stays."""
        self.written.append(path)
        of_kind = self._by_reason.setdefault(reason, [])
        of_kind.append(path)
        most = {"oom": self._max_oom, "step": self._max_step}.get(reason)
        if most is None or len(of_kind) <= most:
            return
        old = of_kind.pop(1 if reason == "oom" and most > 1 else 0)
        self.written.remove(old)
        for name in (old, old[: -len(".pickle")] + naming.SIDECAR):
            _safely(lambda: os.unlink(name), "removing an old snapshot")

    def __enter__(self) -> Recorder:
        return self.start()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.stop(dump=not (self._has_oom() and _is_out_of_memory(error)))

    def _has_oom(self) -> bool:
        return bool(self._by_reason.get("oom"))


_active: Recorder | None = None
_observed: int | None = None  # The process that has the observer; torch cannot detach one.
_counting = False
_exit_pid: int | None = None


def _safely(action: Callable[[], Any], what: str) -> Any:
    try:
        return action()
    except Exception as error:
        log.warning("vramscope: %s failed: %s: %s", what, type(error).__name__, error)
        return None


def _with_sources(torch: Any, path: str, project: str) -> dict[str, dict[str, str]]:
    """Writes a snapshot as ``_dump_snapshot`` does, and collects source lines from it."""
    import pickle

    snapshot = torch.cuda.memory._snapshot()
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)
    return _safely(lambda: source_lines.collect(snapshot, project), "collecting source lines") or {}


def _forget() -> None:
    import torch

    torch.cuda.memory._record_memory_history(enabled=None)


def _observe(torch: Any) -> None:
    global _observed
    if _observed == os.getpid():
        return

    def observer(device: int, segment_bytes: int, limit: int, free: int) -> None:
        recorder = _active
        if recorder is not None:
            # An error here would replace the one that the program may expect.
            _safely(lambda: recorder._out_of_memory(device, segment_bytes, limit, free), "observing an out of memory")

    torch._C._cuda_attach_out_of_memory_observer(observer)
    _observed = os.getpid()


def _count_steps() -> None:
    global _counting
    if _counting:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def stepped(optimizer: Any, *_: Any) -> None:
        if _active is not None:
            _active._optimizer_stepped(optimizer)

    register_optimizer_step_post_hook(stepped)
    _counting = True


def _at_exit() -> None:
    global _exit_pid
    if _exit_pid == os.getpid():
        return
    _exit_pid = os.getpid()
    atexit.register(_last)
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        # Forked workers end by os._exit(), which runs the finalizers of multiprocessing but not atexit.
        from multiprocessing.util import Finalize

        Finalize(None, _last, exitpriority=100)


def _is_out_of_memory(error: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.cuda.OutOfMemoryError)


def _last() -> None:
    recorder = _active
    if recorder is not None and recorder._pid == os.getpid():
        # What died of memory has its snapshot from before the stack unwound.
        died = _is_out_of_memory(getattr(sys, "last_value", None))
        recorder.stop(dump=not (recorder._has_oom() and died))


def record(folder: str | os.PathLike[str] = "vramscope-out", **options: Any) -> Recorder:
    """A context manager that records what happens inside, and writes a snapshot at its end.

    ::

        with vramscope.record("run/", model=model, optimizer=optimizer):
            train()

    Takes the options of :class:`Recorder`.
    """
    return Recorder(folder, **options)


def start(folder: str | os.PathLike[str] = "vramscope-out", **options: Any) -> Recorder:
    """Starts to record until :func:`stop`, or until the process ends. Takes the options of :class:`Recorder`."""
    return Recorder(folder, **options).start()


def stop() -> str | None:
    """Writes a last snapshot and ends recording. Does nothing if nothing is recorded."""
    return _active.stop() if _active is not None else None


def step(number: int | None = None) -> None:
    """Tells the recording that a training step is complete. Does nothing if nothing is recorded."""
    if _active is not None:
        _active.step(number)


def dump() -> str | None:
    """Writes a snapshot now. Does nothing if nothing is recorded."""
    return _active.dump() if _active is not None else None


def current() -> Recorder | None:
    """The recording that is active in this process."""
    return _active
