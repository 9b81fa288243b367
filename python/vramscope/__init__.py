"""Record, read and test GPU memory of PyTorch programs.

Importing this package imports neither torch nor anything else that is slow: names are loaded on first use.

>>> import sys, vramscope
>>> sorted(vramscope.__all__)
['Recorder', 'Snapshot', 'current', 'dataset', 'dump', 'files', 'record', 'start', 'step', 'stop', 'views']
"""

from __future__ import annotations

# typing itself takes longer to import than all of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .recorder import Recorder as Recorder
    from .recorder import current as current
    from .recorder import dump as dump
    from .recorder import record as record
    from .recorder import start as start
    from .recorder import step as step
    from .recorder import stop as stop
    from .snapshot import Snapshot as Snapshot
    from .tables import dataset as dataset
    from .tables import files as files
    from .tables import views as views

__version__ = "0.1.0"

_HOME = {
    "Recorder": "recorder",
    "Snapshot": "snapshot",
    "current": "recorder",
    "dataset": "tables",
    "dump": "recorder",
    "files": "tables",
    "record": "recorder",
    "start": "recorder",
    "step": "recorder",
    "stop": "recorder",
    "views": "tables",
}

__all__ = ["Recorder", "Snapshot", "current", "dataset", "dump", "files", "record", "start", "step", "stop", "views"]


#: Modules that a program names without importing them.
_MODULES = ("spark", "tables")


def __getattr__(name: str) -> Any:
    import importlib

    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'vramscope' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
