"""Budgets of GPU memory for tests: sizes, baselines and the lines that grew. Knows nothing of pytest."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any

from . import naming
from .program import Answer
from .snapshot import Snapshot

SCHEMA = "vramscope/baseline/1"

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[f"{_letter}b"] = 1000**_power
    _UNITS[f"{_letter}ib"] = _UNITS[_letter] = 1024**_power

#: Where an allocation has no stack; autograd's threads have no Python frames.
_NO_FRAME = Answer(file="", name="(no Python frame)", line=0)

#: Lines that a message shows.
_SHOWN = 8


def parse_size(text: int | str) -> int:
    """Bytes.

    >>> parse_size("2GiB"), parse_size("1.5 GB"), parse_size("20M"), parse_size(512)
    (2147483648, 1500000000, 20971520, 512)
    >>> parse_size("12q")
    Traceback (most recent call last):
    ValueError: '12q' is not a valid size (try 512, 20MiB, 1.5GB)
    """
    if isinstance(text, int):
        return text
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", text)
    unit = _UNITS.get(found.group(2).lower()) if found else None
    if found is None or unit is None:
        raise ValueError(f"{text!r} is not a valid size (try 512, 20MiB, 1.5GB)")
    return int(float(found.group(1)) * unit)


def parse_growth(text: int | str, of: int) -> int:
    """Bytes that a peak of ``of`` bytes may grow by.

    >>> parse_growth("5%", 1000), parse_growth("1KiB", 1000)
    (50, 1024)
    """
    if isinstance(text, str) and text.strip().endswith("%"):
        return int(of * float(text.strip()[:-1]) / 100)
    return parse_size(text)


def amount(size: int) -> str:
    """Bytes for people, as the program writes them.

    >>> amount(512), amount(20971520), amount(-4473225216)
    ('512 B', '20.0 MiB', '-4.17 GiB')
    """
    value, units = float(abs(size)), iter(["B", "KiB", "MiB", "GiB", "TiB"])
    unit = next(units)
    while value >= 999.5 and unit != "TiB":
        value, unit = value / 1024, next(units)
    digits = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{'-' if size < 0 else ''}{value:.{digits}f} {unit}"


class Usage:
    """What a test used: its peak, and the functions whose memory was live then."""

    def __init__(self, peak: int, lines: Iterable[dict[str, Any]]) -> None:
        self.peak = peak
        self.lines = list(lines)

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Usage:
        """The usage that a snapshot shows: of all devices together, live at the peak of each."""
        snapshot = Snapshot(path)
        peak = 0
        functions: dict[tuple[str, str], dict[str, Any]] = {}
        for device in snapshot.summary().devices:
            peak += device.peak.allocated.bytes
            if not device.allocations:
                continue
            top = snapshot.top(device=device.device, of="lines", by="live")
            for row in top.rows:
                stack = top.stacks[row.stack]
                frame = top.frames[stack[0]] if stack else _NO_FRAME
                # Without the line number: editing a file moves lines, and that is no growth.
                new = {"file": frame.file, "name": frame.name, "line": frame.line, "bytes": 0}
                functions.setdefault((frame.file, frame.name), new)["bytes"] += row.live
        rows = [row for row in functions.values() if row["bytes"]]
        return cls(peak, sorted(rows, key=lambda row: (-row["bytes"], row["file"], row["name"])))

    def grown(self, before: Usage) -> list[tuple[int, dict[str, Any]]]:
        """Functions that hold more than before, the largest growth first."""
        old = {(row["file"], row["name"]): row["bytes"] for row in before.lines}
        changes = [(row["bytes"] - old.get((row["file"], row["name"]), 0), row) for row in self.lines]
        return sorted((c for c in changes if c[0] > 0), key=lambda change: -change[0])

    def as_json(self) -> dict[str, Any]:
        return {"peak": self.peak, "lines": self.lines}


class Baseline:
    """Usages by test, in a JSON file that can be reviewed and committed."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self.changed = False
        self._tests: dict[str, Any] = {}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as file:
                stored = json.load(file)
            if stored.get("schema") != SCHEMA:
                raise ValueError(f"not a baseline of memory budgets: no schema {SCHEMA}: {self.path}")
            self._tests = stored["tests"]

    def get(self, test: str) -> Usage | None:
        stored = self._tests.get(test)
        return Usage(stored["peak"], stored["lines"]) if stored else None

    def put(self, test: str, usage: Usage) -> None:
        self._tests[test] = usage.as_json()
        self.changed = True

    def save(self) -> None:
        def fill(part: str) -> None:
            with open(part, "w", encoding="utf-8") as file:
                json.dump({"schema": SCHEMA, "tests": dict(sorted(self._tests.items()))}, file, indent=1)
                file.write("\n")

        naming.write_atomic(self.path, fill)
        self.changed = False


def _place(row: dict[str, Any]) -> str:
    place = f"{os.path.basename(row['file'])}:{row['line']} " if row["file"] else ""
    return f"{place}{row['name']}"


def explain(usage: Usage, before: Usage | None) -> list[str]:
    """The lines to look at: those that grew, or the largest ones if there is nothing to compare with."""
    if before is None:
        rows = [f"  {amount(row['bytes']):>10}  {_place(row)}" for row in usage.lines[:_SHOWN]]
        return ["live at the peak:", *rows] if rows else []
    grown = usage.grown(before)
    rows = [f"  {'+' + amount(change):>11}  {_place(row)}" for change, row in grown[:_SHOWN]]
    if len(grown) > _SHOWN:
        rows.append(f"  and {len(grown) - _SHOWN} more")
    return ["lines that grew:", *rows] if rows else []


def check(
    usage: Usage,
    *,
    limit: int | str | None = None,
    before: Usage | None = None,
    growth: int | str = "5%",
) -> str | None:
    """Why a usage is too much; ``None`` if it is within its budget.

    >>> print(check(Usage(3 << 20, []), limit="2MiB"))
    peak 3.00 MiB exceeds the limit of 2.00 MiB by 1.00 MiB
    >>> check(Usage(103, []), before=Usage(100, []))
    """
    problem = None
    if limit is not None and usage.peak > parse_size(limit):
        over = usage.peak - parse_size(limit)
        problem = f"peak {amount(usage.peak)} exceeds the limit of {amount(parse_size(limit))} by {amount(over)}"
    elif before is not None and usage.peak - before.peak > parse_growth(growth, before.peak):
        change = usage.peak - before.peak
        problem = f"peak {amount(usage.peak)} is {amount(change)} above the baseline of {amount(before.peak)}"
    return problem and "\n".join([problem, *explain(usage, before)])
