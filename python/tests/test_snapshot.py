"""Snapshot asks the program; numbers are those that PyTorch counted."""

from __future__ import annotations

import json

import pytest
from vramscope import Snapshot


def counted(recording, name: str) -> dict:
    with open(recording.oracle(name), encoding="utf-8") as file:
        return json.load(file)["marks"][-1]


def test_the_peaks_are_pytorchs(recording) -> None:
    device = Snapshot(recording.path("expandable")).summary().devices[0]
    mark = counted(recording, "expandable")
    assert device.verdict.status == "exact"
    for counter in ("requested", "allocated", "active", "reserved"):
        assert device.peak[counter].bytes == mark[f"{counter}_peak"]


def test_findings_come_with_advice(recording) -> None:
    finding = Snapshot(recording.path("oom")).insights()[0]
    assert (finding.kind, finding.severity, finding.bytes) == ("out_of_memory", "high", 32 << 20)
    assert "expandable_segments:True" in finding.advice


def test_every_question_names_its_schema(recording) -> None:
    snapshot = Snapshot(recording.path("oom"))
    for name in ("at", "categories", "top", "tree", "phases", "pools", "segments", "fragmentation", "doctor"):
        assert getattr(snapshot, name)().schema.startswith(f"vramscope/{name}/"), name
    assert snapshot.whatif(set="expandable_segments:True").schema.startswith("vramscope/whatif/")


def test_options_are_those_of_the_program(recording) -> None:
    answer = Snapshot(recording.path("oom")).at(oom=True, limit=3)
    assert len(answer.live) == 3 and answer.live[0].requested >= answer.live[1].requested


def test_a_difference_past_its_limit_is_an_answer_and_no_error(recording) -> None:
    answer = Snapshot(recording.path("expandable")).diff(recording.path("oom"), fail_on="peak+5%")
    assert answer.requested_change > 0 and len(answer.exceeded) == 1


def test_tables_are_arrow(recording) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    snapshot = Snapshot(recording.path("oom"))
    table = snapshot.table("events")
    assert isinstance(table, pyarrow.Table)
    assert table.num_rows == snapshot.summary().devices[0].events


def test_a_notebook_shows_the_summary_and_a_picture(recording) -> None:
    shown = Snapshot(recording.path("oom"))._repr_html_()
    assert "out of memory at event" in shown and 'src="data:image/svg+xml;base64,' in shown
    assert "<script" not in shown


def test_the_viewer_is_shown_inside_a_frame(recording) -> None:
    shown = Snapshot(recording.path("empty")).show(height=300)._repr_html_()
    assert shown.startswith('<iframe sandbox="allow-scripts"') and "height:300px" in shown
    assert "<script" not in shown, "the page is an attribute, escaped"
