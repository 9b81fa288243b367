"""``python -m vramscope``: ``run`` is Python's own; every other command is the program's."""

from __future__ import annotations

import subprocess
import sys

from . import program, run


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["run"]:
        return run.main(words[1:])
    try:
        return subprocess.call([program.find(), *words])
    except program.VramscopeError as error:
        print(f"vramscope: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
