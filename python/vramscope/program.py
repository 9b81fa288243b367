"""The ``vramscope`` program: where it is, and how to ask it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from typing import Any

#: In a checkout: the program to use instead of the one that the wheel installs.
VARIABLE = "VRAMSCOPE_BIN"


class VramscopeError(RuntimeError):
    """The program is missing, or refused. The message is what it printed."""


class Answer(dict[str, Any]):
    """A JSON object whose fields are attributes too.

    >>> answer = Answer(peak=Answer(bytes=512))
    >>> answer.peak.bytes, answer["peak"]["bytes"]
    (512, 512)
    """

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no field {name!r}; there are {', '.join(self)}") from None

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self]


def find() -> str:
    """The path of the program: ``$VRAMSCOPE_BIN``, then the one of this environment, then the one on the path."""
    named = os.environ.get(VARIABLE)
    if named:
        return named
    name = "vramscope.exe" if sys.platform == "win32" else "vramscope"
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable)]
    user = "nt_user" if os.name == "nt" else "posix_user"
    if user in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", user))
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    if found is None:
        raise VramscopeError(f"the vramscope program is not installed here (pip install vramscope, or set {VARIABLE})")
    return found


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Keyword arguments as options of the program.

    >>> arguments({"min_size": "1MiB", "oom": True, "peak": False, "device": None})
    ['--min-size', '1MiB', '--oom']
    """
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.strip("_").replace("_", "-")
        if value is True:
            words.append(flag)
        elif isinstance(value, (list, tuple)):
            for one in value:
                words += [flag, str(one)]
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


def run(words: Sequence[str], *, accept: Sequence[int] = (0,)) -> bytes:
    """What the program prints on standard output; an error if its exit status is not one of ``accept``."""
    try:
        done = subprocess.run([find(), *words], capture_output=True, check=False)
    except OSError as error:
        raise VramscopeError(f"cannot start the vramscope program: {error}") from error
    if done.returncode not in accept:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise VramscopeError(said or f"vramscope {words[0]} ended with exit status {done.returncode}")
    return done.stdout


def ask(words: Sequence[str], *, accept: Sequence[int] = (0,)) -> Any:
    """The answer to a command as JSON, objects as :class:`Answer`."""
    return json.loads(run([*words, "--json"], accept=accept), object_hook=Answer)
