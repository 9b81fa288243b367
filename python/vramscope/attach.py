"""How a process learns from its environment that it shall record: written by ``run``, read when torch is imported."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

#: Options of :class:`vramscope.Recorder` as JSON.
VARIABLE = "VRAMSCOPE_RECORD"


def site() -> str:
    """The folder that holds our ``sitecustomize``."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "_site")


def environment(options: Mapping[str, Any], existing: Mapping[str, str]) -> dict[str, str]:
    """The environment in which every Python process records.

    >>> changed = environment({"folder": "run"}, {"PYTHONPATH": "lib"})
    >>> changed["VRAMSCOPE_RECORD"], changed["PYTHONPATH"].endswith("_site" + os.pathsep + "lib")
    ('{"folder": "run"}', True)
    """
    path = existing.get("PYTHONPATH")
    return {
        **existing,
        VARIABLE: json.dumps(dict(options)),
        "PYTHONPATH": os.pathsep.join([site(), path] if path else [site()]),
    }


def from_environment() -> None:
    """Starts to record as the environment says."""
    from .recorder import start

    text = os.environ.get(VARIABLE)
    if text:
        start(**json.loads(text))
