"""Real recordings, and the real program: ``VRAMSCOPE_BIN``, else one that cargo has built here."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "testdata" / "recordings"


def pytest_configure() -> None:
    if "VRAMSCOPE_BIN" not in os.environ:
        built = [ROOT / "target" / profile / "vramscope" for profile in ("release", "dist", "debug")]
        found = next((str(path) for path in built if path.exists()), None) or shutil.which("vramscope")
        if found is None:
            raise pytest.UsageError("no vramscope program: cargo build, or set VRAMSCOPE_BIN")
        os.environ["VRAMSCOPE_BIN"] = found
    os.environ.setdefault("PYTHONPATH", str(ROOT / "python"))


@pytest.fixture
def recording() -> type[Recordings]:
    return Recordings


class Recordings:
    """Paths of recordings and of what PyTorch counted."""

    @staticmethod
    def path(name: str) -> str:
        return str(RECORDINGS / f"{name}.pickle.xz")

    @staticmethod
    def oracle(name: str) -> str:
        return str(RECORDINGS / f"{name}.oracle.json")
