"""GPU memory budgets for pytest: ``@pytest.mark.vram(limit="2GiB")`` and the fixture ``vram_budget``.

A marked test is recorded. It fails if its peak of allocated memory exceeds the limit, or the stored baseline by more
than the tolerance. Without a GPU a marked test runs unmeasured. docs/python.md has examples.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

# Every run of pytest in an environment with vramscope loads this file, and few have budgets.
if TYPE_CHECKING:
    from . import budget


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("vramscope", "GPU memory budgets")
    group.addoption("--vram-update", action="store_true", help="store the peaks of this run as the baseline")
    group.addoption("--vram-baseline", metavar="FILE", help="baseline file (default: vram-baseline.json in the root)")
    group.addoption("--vram-growth", metavar="SIZE", help="growth over the baseline that passes (default: 5%%)")
    parser.addini("vram_baseline", "baseline file, relative to the root", default="vram-baseline.json")
    parser.addini("vram_growth", "growth over the baseline that passes, such as 5% or 20MiB", default="5%")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "vram(limit=None, growth=None): fail if the test uses more GPU memory")


_key: pytest.StashKey[budget.Baseline] = pytest.StashKey()


def _baseline(config: pytest.Config) -> budget.Baseline:
    """Read when the first test needs it: most runs have no budgets."""
    if _key not in config.stash:
        from . import budget

        named = config.getoption("--vram-baseline") or config.getini("vram_baseline")
        try:
            config.stash[_key] = budget.Baseline(os.path.join(config.rootpath, named))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[_key]


class Budget:
    """The budget of one test, and what it used."""

    def __init__(self, config: pytest.Config, test: str) -> None:
        self._config, self._test = config, test
        #: Bytes that the test may use; a number, or text such as ``"2GiB"``.
        self.limit: int | str | None = None
        #: Growth over the baseline that passes; a number of bytes, or text such as ``"5%"``.
        self.growth: int | str | None = None
        #: What was used, once it is known.
        self.usage: budget.Usage | None = None

    def snapshot(self, path: str | os.PathLike[str]) -> budget.Usage:
        """Judges a snapshot file, such as one of a program that the test ran. Fails the test if it is too much."""
        __tracebackhide__ = True
        from . import budget

        self.usage = usage = budget.Usage.of(path)
        stored = _baseline(self._config)
        if self._config.getoption("--vram-update"):
            stored.put(self._test, usage)
            before = None
        else:
            before = stored.get(self._test)
        growth = self.growth or self._config.getoption("--vram-growth") or self._config.getini("vram_growth")
        problem = budget.check(usage, limit=self.limit, before=before, growth=growth)
        if problem:
            pytest.fail(f"GPU memory: {problem}", pytrace=False)
        return usage


def _budget(item: pytest.Item) -> Budget:
    found: Budget | None = getattr(item, "_vram_budget", None)
    if found is None:
        found = Budget(item.config, item.nodeid)
        marker = item.get_closest_marker("vram")
        if marker is not None:
            known = {"limit", "growth"}
            if set(marker.kwargs) - known or len(marker.args) > 1:
                raise pytest.UsageError(f"{item.nodeid}: the marker is vram(limit=SIZE, growth=SIZE)")
            found.limit = marker.args[0] if marker.args else marker.kwargs.get("limit")
            found.growth = marker.kwargs.get("growth")
        item._vram_budget = found  # type: ignore[attr-defined]
    return found


@pytest.fixture
def vram_budget(request: pytest.FixtureRequest) -> Budget:
    """The budget of this test: set ``limit`` and ``growth``, or judge a snapshot file with ``snapshot(path)``."""
    return _budget(request.node)


def _can_measure() -> bool:
    if "torch" not in sys.modules and find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    if item.get_closest_marker("vram") is None:
        yield
        return
    if not _can_measure():
        item.add_report_section("call", "vram", "not measured: no GPU")
        yield
        return
    from .recorder import Recorder

    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(folder, on_exit=False, on_signal=False).start()
        outcome: Any = yield
        path = recorder.dump("call")
        recorder.stop(dump=False)
        # A test that judged a snapshot itself has its verdict.
        if outcome.excinfo is None and path is not None and _budget(item).usage is None:
            try:
                _budget(item).snapshot(path)
            except BaseException as error:
                outcome.force_exception(error)


def pytest_sessionfinish(session: pytest.Session) -> None:
    stored = session.config.stash.get(_key, None)
    if stored is not None and stored.changed:
        stored.save()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("--vram-update") and config.stash.get(_key, None) is not None:
        terminalreporter.write_line(f"vramscope: baseline written: {config.stash[_key].path}")
