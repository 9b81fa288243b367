"""Datasets and views: the same answers in our engine, DuckDB, DataFusion and Spark.

The gate has DuckDB and polars. ``cargo xtask spark`` runs this file with DataFusion and Spark too, nightly: Spark needs a Java
runtime and starts for a minute.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import vramscope
from vramscope import program, tables

#: Two runs of three ranks: training, a leak, private pools, memory that ran out, a late start; and what a crash left.
RUNS = {
    "a": ["llama_python", "oom", "cudagraph_pools"],
    "b": ["leak_graph", "late_start", "cudagraph_pools"],
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from conftest import Recordings

    folder = tmp_path_factory.mktemp("runs")
    for run, names in RUNS.items():
        (folder / run).mkdir()
        for rank, name in enumerate(names):
            shutil.copy(Recordings.path(name), folder / run / f"rank{rank}.pickle.xz")
    (folder / "b" / "rank3.pickle").write_bytes(b"")
    return folder


@pytest.fixture(scope="session")
def dataset(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> vramscope.tables.Dataset:
    folder = tmp_path_factory.mktemp("dataset") / "tables"
    # Exit status 2: a file could not be read.
    program.run(["export", str(runs), "--dataset", str(folder), "--no-cache"], accept=(2,))
    return vramscope.dataset(folder)


def ours(path: object, query: str) -> list[tuple[Any, ...]]:
    words = ["sql", os.fspath(path), query, "--no-cache", "--json"]  # type: ignore[call-overload]
    # Exit status 2 with an answer: a file could not be read.
    answer = json.loads(program.run(words, accept=(0, 2)) or program.run(words), object_hook=program.Answer)
    return [tuple(row[name] for name in answer.columns) for row in answer.rows]


@pytest.fixture(scope="session")
def expected(dataset: vramscope.tables.Dataset) -> dict[str, list[tuple[Any, ...]]]:
    return {name: ours(dataset.path, name) for name in vramscope.views()}


def plain(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Sums of DuckDB have a type of their own."""
    return [tuple(int(value) if type(value).__name__ == "Decimal" else value for value in row) for row in rows]


def test_snapshots_and_a_dataset_answer_alike(runs: Path, expected: dict[str, list[Any]]) -> None:
    assert len(expected) >= 15
    for name, rows in expected.items():
        assert ours(runs, name) == rows, name
        assert rows, f"{name} is not tested: it has no rows"


def test_peaks_are_those_of_pytorch(expected: dict[str, list[Any]], recording: Any) -> None:
    peaks = {(row[0], row[2]): row[4] for row in expected["peak_by_rank"]}
    for run, names in RUNS.items():
        for rank, name in enumerate(names):
            summary = vramscope.Snapshot(recording.path(name)).summary(no_cache=True)
            assert peaks[run, rank] == summary.devices[0].peak.requested.bytes, name
    with open(recording.oracle("llama_python")) as file:
        marks = json.load(file)["marks"]
    assert peaks["a", 0] == max(mark["requested_peak"] for mark in marks)


def test_duckdb(dataset: vramscope.tables.Dataset, expected: dict[str, list[Any]]) -> None:
    pytest.importorskip("duckdb")
    connection = dataset.duckdb()
    for name, sql in vramscope.views().items():
        assert plain(connection.sql(sql).fetchall()) == expected[name], name


def test_polars(dataset: vramscope.tables.Dataset, expected: dict[str, list[Any]]) -> None:
    import polars

    peaks = dataset.polars("ranks").group_by("run").agg(polars.col("peak_requested").max()).collect()
    for run, peak in peaks.iter_rows():
        assert peak == max(row[4] for row in expected["peak_by_rank"] if row[0] == run)


@pytest.mark.engines
def test_datafusion(dataset: vramscope.tables.Dataset, expected: dict[str, list[Any]]) -> None:
    import datafusion
    import pyarrow

    kinds = {"string": pyarrow.string(), "bigint": pyarrow.int64(), "int": pyarrow.int32()}
    context = datafusion.SessionContext()
    keys = [(key, kinds[kind]) for key, kind in tables.KEYS.items()]
    for table in tables.tables():
        context.register_parquet(table, f"{dataset.path}/{table}/", table_partition_cols=keys)
    for name, sql in vramscope.views().items():
        found = context.sql(sql).to_arrow_table()
        rows = [tuple(row.values()) for row in found.to_pylist()]
        assert plain(rows) == expected[name], name


@pytest.mark.engines
def test_ray(dataset: vramscope.tables.Dataset, expected: dict[str, list[Any]]) -> None:
    assert dataset.ray("ranks").max("peak_requested") == max(row[4] for row in expected["peak_by_rank"])


def test_a_file_is_read_with_its_keys(runs: Path) -> None:
    files = vramscope.files(runs)
    assert [(file.run, file.rank) for file in files] == [(run, rank) for run in "ab" for rank in range(3)] + [("b", 3)]
    table = files[1].table("events", ["event", "action"])
    assert table.column_names == ["run", "step", "rank", "device", "event", "action"]
    assert table["run"][0].as_py() == "a" and table["rank"][0].as_py() == 1


def test_what_cannot_be_read_is_a_problem(runs: Path, dataset: vramscope.tables.Dataset) -> None:
    for path in (runs, dataset.path):
        [(run, rank, problem)] = ours(path, "select run, rank, problem from problems where device = -1")
        assert (run, rank) == ("b", 3) and "rank3" in problem


def test_an_export_goes_on_where_it_stopped(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    export = ["export", str(runs), "--dataset", str(folder), "--no-cache"]
    first = program.run(export, accept=(2,)).decode()
    assert "7 files written" in first
    again = program.run(export, accept=(2,)).decode()
    assert "0 files written" in again and "7 files complete" in again
    # A file that is missing, and a line that was cut, as when the export was killed.
    next(folder.glob("events/run=a/**/*.parquet")).unlink()
    manifest = folder / "_manifest.jsonl"
    manifest.write_text(manifest.read_text()[:-10])
    third = program.run(export, accept=(2,)).decode()
    assert "2 files written" in third, third
    assert ours(folder, "peak_by_rank") == ours(runs, "peak_by_rank")


def test_queries_only_read(runs: Path) -> None:
    path = str(runs / "a" / "rank0.pickle.xz")
    for query in ("delete from ranks", "attach 'x.db' as x", "pragma hard_heap_limit = 0", "drop table ranks"):
        with pytest.raises(program.VramscopeError, match="only queries that read"):
            ours(path, query)
    with pytest.raises(program.VramscopeError, match="memory"):
        program.run(["sql", path, "select length(hex(zeroblob(20000000)))", "--memory", "4MiB"])
