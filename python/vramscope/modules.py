"""Module paths on every event: forward hooks that set the allocator's metadata to the module that is running."""

from __future__ import annotations

import threading
from typing import Any, Callable


def install(model: Any) -> Callable[[], None]:
    """Marks allocations with the path of the module whose ``forward`` makes them; returns how to undo it.

    Needs ``torch.cuda.memory._set_memory_metadata`` (torch 2.10); without it nothing is installed.
    """
    import torch

    mark = getattr(torch.cuda.memory, "_set_memory_metadata", None)
    if mark is None:
        return lambda: None
    handles: list[Any] = []
    running = threading.local()  # As the metadata itself: one per thread.

    def paths() -> list[str]:
        stack: list[str] = running.__dict__.setdefault("stack", [])
        return stack

    def enter(path: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            paths().append(path)
            mark(path)

        return hook

    def leave(*_: Any) -> None:
        stack = paths()
        if stack:
            stack.pop()
        mark(stack[-1] if stack else "")

    for path, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(enter(path or type(module).__name__)))
        # always_call: an error inside must not leave the path behind.
        handles.append(module.register_forward_hook(leave, always_call=True))

    def remove() -> None:
        for handle in handles:
            handle.remove()
        mark("")

    return remove
