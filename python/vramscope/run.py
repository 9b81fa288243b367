"""``python -m vramscope run -- COMMAND``: runs a program unchanged and records every process of it that uses a GPU."""

from __future__ import annotations

import argparse
import glob
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from . import attach, program

#: Paths that are listed; a run of many ranks and steps has more.
_LISTED = 12


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vramscope run",
        usage="python -m vramscope run [OPTIONS] -- COMMAND [ARGUMENT...]",
        description="Runs a program unchanged and records every process of it that uses a GPU.",
        epilog="Example: python -m vramscope run -o run/ -- torchrun --nproc-per-node=8 train.py",
    )
    parser.add_argument(
        "-o", "--output", default="vramscope-out", metavar="DIR", help="folder for snapshots (%(default)s)"
    )
    parser.add_argument("--every", type=int, metavar="N", help="also write a snapshot every N optimizer steps")
    parser.add_argument("--max-entries", type=int, metavar="N", help="events that the ring buffer holds (1000000)")
    parser.add_argument("--stacks", choices=["python", "all"], help="Python frames only (default), or C++ frames too")
    parser.add_argument("--source", action="store_true", help="store source lines of this folder beside the snapshot")
    parser.add_argument("--hostname", action="store_true", help="store the name of this machine")
    parser.add_argument("--no-summary", action="store_true", help="do not summarize after out of memory")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings for the recorder of each process."""
    told: dict[str, Any] = {"folder": os.path.abspath(arguments.output)}
    for name in ("every", "max_entries", "stacks"):
        if getattr(arguments, name) is not None:
            told[name] = getattr(arguments, name)
    for name in ("source", "hostname"):
        if getattr(arguments, name):
            told[name] = True
    return told


def _wait(child: subprocess.Popen[bytes]) -> int:
    """The exit status of the command. Signals for us are for it; Ctrl+C reaches it from the terminal."""

    def forward(number: int, _: Any) -> None:
        child.send_signal(number)

    for name in ("SIGTERM", "SIGHUP", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), forward)
    signal.signal(signal.SIGINT, lambda *_: None)
    return child.wait()


def _new(folder: str, before: dict[str, int]) -> list[str]:
    found = sorted(glob.glob(os.path.join(glob.escape(folder), "*.pickle")))
    return [path for path in found if path not in before]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _first_finding(path: str) -> str | None:
    """The worst finding of a snapshot, with its advice."""
    answer = program.ask(["insights", path])
    findings = answer.across_ranks or [finding for file in answer.files for finding in file.findings]
    if not findings:
        return None
    advice = findings[0].get("advice")
    return f"{findings[0].what}\n  → {advice}" if advice else str(findings[0].what)


def tell(folder: str, paths: Sequence[str], status: int, *, summarize: bool) -> None:
    """Says where snapshots are, and what the first one at out of memory shows."""
    if not paths:
        _say(f"vramscope: no snapshots: no process used a GPU through torch, or none could write to {folder}")
        return
    _say(f"vramscope: {len(paths)} snapshot{'s' if len(paths) > 1 else ''} in {folder}")
    for path in paths[:_LISTED]:
        _say(f"  {os.path.basename(path)}")
    if len(paths) > _LISTED:
        _say(f"  and {len(paths) - _LISTED} more")
    ooms = [path for path in paths if os.path.basename(path).startswith("memory_oom_")]
    if not ooms:
        return
    first = min(ooms, key=os.path.getmtime)
    if status != 0 and summarize:
        _say("vramscope: out of memory")
        sys.stderr.flush()
        try:
            print(program.run(["summary", first]).decode("utf-8", "replace"), flush=True)
            finding = _first_finding(first)
            if finding:
                print(f"First finding: {finding}", flush=True)
        except program.VramscopeError as error:
            _say(f"vramscope: no summary: {error}")
    _say(f"vramscope: look closer: vramscope {first}")


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    arguments = _parser().parse_args(words)
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        _parser().error("no command: python -m vramscope run -- python train.py")
    told = options(arguments)
    folder: str = told["folder"]
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        _say(f"vramscope: cannot create the folder for snapshots: {error}")
        return 2
    before = dict.fromkeys(glob.glob(os.path.join(glob.escape(folder), "*.pickle")), 1)
    began = time.monotonic()
    try:
        child = subprocess.Popen(command, env=attach.environment(told, os.environ))
    except OSError as error:
        _say(f"vramscope: cannot run {command[0]}: {error.strerror}")
        return 127
    status = _wait(child)
    if status == -getattr(signal, "SIGKILL", 9):
        _say(f"vramscope: killed after {time.monotonic() - began:.0f} s: the host's own memory may have run out")
    tell(folder, _new(folder, before), status, summarize=not arguments.no_summary)
    return status if status >= 0 else 128 - status
