"""Lines of the user's own source around the frames of a snapshot, never from outside the project folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

#: Lines shown above and below a frame.
_AROUND = 3

#: Folders of other people's code that often lie inside a project.
_OTHERS = ("site-packages", "dist-packages", "node_modules")


def _frames(snapshot: dict[str, Any]) -> Iterator[dict[str, Any]]:
    seen: set[int] = set()
    lists = (event.get("frames") or () for trace in snapshot.get("device_traces", ()) for event in trace)
    for frames in lists:
        for frame in frames:
            # Events share their frames: a million events have a few thousand of them.
            if id(frame) not in seen:
                seen.add(id(frame))
                yield frame


def collect(snapshot: dict[str, Any], project: str) -> dict[str, dict[str, str]]:
    """For each file below ``project`` that is in a stack, its lines by number."""
    root = os.path.join(os.path.realpath(project), "")
    wanted: dict[str, set[int]] = {}
    for frame in _frames(snapshot):
        path, line = frame.get("filename", ""), frame.get("line", 0)
        if path.endswith(".py") and line > 0:
            wanted.setdefault(path, set()).update(range(max(1, line - _AROUND), line + _AROUND + 1))
    found: dict[str, dict[str, str]] = {}
    for path, numbers in wanted.items():
        real = os.path.realpath(path)
        inside = real.startswith(root) and not any(part in _OTHERS for part in real[len(root) :].split(os.sep))
        if not inside:
            continue
        lines = _read(real)
        found[path] = {str(n): lines[n - 1] for n in sorted(numbers) if n <= len(lines)}
    return found


def _read(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []
