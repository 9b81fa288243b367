"""Peaks of all ranks of a folder through Spark's data source, beside a plain map of pickle.load in the same session.

    cargo xtask bench gen --help                               # makes ranks of any size
    VRAMSCOPE_BIN=target/release/vramscope python python/bench/spark.py runs/today/

Prints seconds of wall time. Both must find the same peak.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import vramscope
from vramscope.spark import SnapshotSource


def peak(path: str) -> int:
    """The highest sum of live sizes, as a script without a tool finds it: no blocks, no lines."""
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    highest = 0
    for trace in snapshot["device_traces"]:
        live = 0
        for event in trace:
            if event["action"] == "alloc":
                live += event["size"]
                highest = max(highest, live)
            elif event["action"] == "free_completed":
                live -= event["size"]
    return highest


def timed(name: str, work: Callable[[], Any]) -> Any:
    """Runs work twice, since Spark compiles at the first time."""
    for which in ("first", "again"):
        start = time.perf_counter()
        result = work()
        print(f"{name}, {which}: {time.perf_counter() - start:.1f} s", flush=True)
    return result


def main() -> None:
    folder = Path(sys.argv[1])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "ERROR")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.python.filterPushdown.enabled", "true").getOrCreate()
    spark.dataSource.register(SnapshotSource)

    def read(table: str) -> Any:
        return spark.read.format("vramscope").option("table", table).load(str(folder))

    read("at_peak").createOrReplaceTempView("at_peak")
    lines = timed("peak_by_line from the data source", lambda: spark.sql(vramscope.views()["peak_by_line"]).collect())
    ours = timed("peaks from the data source", lambda: read("ranks").agg({"peak_requested": "max"}).collect()[0][0])
    files = [file.path for file in vramscope.files(str(folder))]
    context = spark.sparkContext
    plain = timed("pickle.load and a sum", lambda: context.parallelize(files, len(files)).map(peak).max())
    print(f"{len(files)} files, {len(lines)} lines; highest peak {ours} and {plain}")
    spark.stop()
    if ours != plain:
        sys.exit("the peaks differ")


if __name__ == "__main__":
    main()
