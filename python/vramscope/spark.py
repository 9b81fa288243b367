"""Snapshots as a data source of Spark 4: each file is read by the program on the executor that has the task.

    spark.conf.set("spark.sql.python.filterPushdown.enabled", True)
    spark.dataSource.register(vramscope.spark.SnapshotSource)
    spark.read.format("vramscope").option("table", "allocations").load("runs/today/")

The options are ``table`` and ``path``. Filters on run, step and rank choose files before they are read,
which Spark wants to be enabled first. ``.schema("rank bigint, requested bigint")`` reads only these columns. A file
that cannot be read is a row of the table ``problems`` and no failed job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, In, InputPartition
from pyspark.sql.types import StructType

from . import tables
from .program import VramscopeError

#: What files can be chosen by.
CHOOSING = ("run", "step", "rank")


class SnapshotSource(DataSource):
    """Tables of snapshots, a partition per file."""

    @classmethod
    def name(cls) -> str:
        return "vramscope"

    def schema(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in tables.columns(self._table()).items())

    def reader(self, schema: StructType) -> SnapshotReader:
        path = self.options.get("path")
        if not path:
            raise ValueError('name files or a folder: .load("runs/today/")')
        known = tables.columns(self._table())
        unknown = [name for name in schema.names if name not in known]
        if unknown:
            raise ValueError(f"{self._table()} has no column {unknown[0]!r}; there are {', '.join(known)}")
        return SnapshotReader(path, self._table(), schema.names)

    def _table(self) -> str:
        return str(self.options.get("table", "allocations"))


class FilePartition(InputPartition):
    """One snapshot."""

    def __init__(self, file: tables.File) -> None:
        super().__init__(file)
        self.file = file


class SnapshotReader(DataSourceReader):
    """Lists files on the driver and reads each on an executor."""

    def __init__(self, path: str, table: str, columns: list[str]) -> None:
        self.path, self.table, self.columns = path, table, columns
        self.chosen: dict[str, set[Any]] = {}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for one in filters:
            if isinstance(one, EqualTo) and one.attribute[0] in CHOOSING and len(one.attribute) == 1:
                self._choose(one.attribute[0], {one.value})
            elif isinstance(one, In) and one.attribute[0] in CHOOSING and len(one.attribute) == 1:
                self._choose(one.attribute[0], set(one.value))
            else:
                yield one

    def _choose(self, key: str, values: set[Any]) -> None:
        self.chosen[key] = self.chosen.get(key, values) & values

    def partitions(self) -> list[InputPartition]:
        def is_chosen(file: tables.File) -> bool:
            return all(getattr(file, key) in values for key, values in self.chosen.items())

        return [FilePartition(file) for file in tables.files(self.path) if is_chosen(file)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # Without files Spark still asks for one partition.
        if not isinstance(partition, FilePartition):
            return
        import pyarrow

        file = partition.file
        own = [name for name in self.columns if name not in tables.KEYS]
        try:
            # The program writes all columns where none is named; one is enough to count rows.
            rows = file.table(self.table, own or list(tables.columns(self.table))[len(tables.KEYS) :][:1])
        except VramscopeError as error:
            if self.table != "problems":
                return
            row = {"run": file.run, "step": file.step, "rank": file.rank, "device": -1}
            row.update(path=file.path, severity="error", problem=str(error))
            kinds = {"string": pyarrow.string(), "bigint": pyarrow.int64(), "int": pyarrow.int32()}
            fields = [(name, kinds[kind]) for name, kind in tables.columns(self.table).items()]
            rows = pyarrow.Table.from_pylist([row], pyarrow.schema(fields))
        rows = rows.select(self.columns)
        # Spark takes columns only as it would declare them: all of them may be null.
        yield from rows.cast(pyarrow.schema([(field.name, field.type) for field in rows.schema])).to_batches()
