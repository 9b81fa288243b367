"""Budgets judge real recordings; the plugin runs in a pytest of its own."""

from __future__ import annotations

import json

from vramscope.budget import Usage, check


def test_a_usage_is_the_allocated_peak_and_adds_up(recording) -> None:
    usage = Usage.of(recording.path("expandable"))
    with open(recording.oracle("expandable"), encoding="utf-8") as file:
        mark = json.load(file)["marks"][-1]
    assert usage.peak == mark["allocated_peak"]
    # Lines count requested bytes at the peak of requested.
    assert sum(row["bytes"] for row in usage.lines) == mark["requested_peak"]


def test_growth_names_the_functions_that_grew() -> None:
    def row(name: str, size: int, line: int) -> dict:
        return {"file": "model.py", "name": name, "line": line, "bytes": size}

    before = Usage(100 << 20, [row("attention", 60 << 20, 10), row("mlp", 40 << 20, 20)])
    after = Usage(120 << 20, [row("attention", 90 << 20, 13), row("mlp", 30 << 20, 23)])
    problem = check(after, before=before, growth="5%")
    assert problem == (
        "peak 120 MiB is 20.0 MiB above the baseline of 100 MiB\nlines that grew:\n    +30.0 MiB  model.py:13 attention"
    )
    assert check(after, before=before, growth="25%") is None


TEST = """
    import pytest

    @pytest.mark.vram({marker})
    def test_training(vram_budget):
        vram_budget.snapshot({path!r})
"""


def run(pytester, marker: str, path: str, *options: str):
    pytester.makepyfile(TEST.format(marker=marker, path=path))
    return pytester.runpytest("-p", "vramscope.pytest_plugin", "-p", "no:cacheprovider", *options)


def test_a_limit_that_holds(pytester, recording) -> None:
    run(pytester, 'limit="5GiB"', recording.path("oom")).assert_outcomes(passed=1)


def test_a_limit_that_is_exceeded_names_the_lines(pytester, recording) -> None:
    result = run(pytester, 'limit="2GiB"', recording.path("oom"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "GPU memory: peak 3.99 GiB exceeds the limit of 2.00 GiB by 1.99 GiB",
            "live at the peak:",
            "*modeling_llama.py:*",
        ]
    )


def test_a_baseline_is_stored_and_then_compared(pytester, recording) -> None:
    run(pytester, "", recording.path("expandable"), "--vram-update").assert_outcomes(passed=1)
    stored = json.loads((pytester.path / "vram-baseline.json").read_text())
    assert stored["schema"] == "vramscope/baseline/1"
    run(pytester, "", recording.path("expandable")).assert_outcomes(passed=1)
    result = run(pytester, "", recording.path("oom"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["GPU memory: peak 3.99 GiB is * above the baseline of *", "lines that grew:"])


def test_an_unknown_argument_of_the_marker_is_refused(pytester, recording) -> None:
    result = run(pytester, 'limits="5GiB"', recording.path("oom"))
    result.stdout.fnmatch_lines(["*the marker is vram(limit=SIZE, growth=SIZE)*"])


def test_without_a_gpu_a_marked_test_runs_unmeasured(pytester) -> None:
    pytester.makepyfile("import pytest\n\n@pytest.mark.vram(limit='1MiB')\ndef test_it(): assert True\n")
    pytester.runpytest("-p", "vramscope.pytest_plugin").assert_outcomes(passed=1)
