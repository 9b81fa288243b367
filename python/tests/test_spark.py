"""Spark: the views over a dataset, and snapshots read on executors that are processes of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vramscope
from test_tables import dataset, expected, ours, plain, runs  # noqa: F401

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    session = builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
    yield session
    session.stop()


def test_views(spark: Any, dataset: vramscope.tables.Dataset, expected: dict[str, list[Any]]) -> None:  # noqa: F811
    dataset.spark(spark)
    for name, sql in vramscope.views().items():
        assert plain([tuple(row) for row in spark.sql(sql).collect()]) == expected[name], name


def test_snapshots_are_read_by_executors(spark: Any, runs: Path) -> None:  # noqa: F811
    from vramscope.spark import SnapshotSource

    spark.dataSource.register(SnapshotSource)

    def read(table: str) -> Any:
        return spark.read.format("vramscope").option("table", table).load(str(runs))

    read("at_peak").createOrReplaceTempView("at_peak")
    rows = spark.sql(vramscope.views()["peak_by_line"]).collect()
    assert plain([tuple(row) for row in rows]) == ours(runs, "peak_by_line")
    one = read("events").where("run = 'a' and rank = 1")
    assert one.rdd.getNumPartitions() == 1, "the filter chooses files before they are read"
    [(count,)] = ours(runs, "select count(*) from events where run = 'a' and rank = 1")
    assert one.count() == count
    narrow = spark.read.format("vramscope").schema("rank bigint, requested bigint").option("table", "allocations")
    [(bytes_,)] = ours(runs, "select sum(requested) from allocations where rank = 0")
    assert narrow.load(str(runs)).where("rank = 0").groupBy().sum("requested").collect()[0][0] == bytes_


def test_a_file_that_cannot_be_read_is_a_row(spark: Any, tmp_path: Path) -> None:
    from vramscope.spark import SnapshotSource

    spark.dataSource.register(SnapshotSource)
    (tmp_path / "rank0.pickle").write_bytes(b"\x80\x04not a snapshot at all")
    source = spark.read.format("vramscope").option("table", "problems").load(str(tmp_path / "rank0.pickle"))
    [row] = source.collect()
    assert row["severity"] == "error" and "rank0.pickle" in row["problem"]
