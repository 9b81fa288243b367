"""Tables of many snapshots: a dataset that ``vramscope export --dataset`` wrote, and the files of a run one by one."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from . import program

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow

#: The columns that say where a row is from; folders of a dataset.
KEYS = {"run": "string", "step": "bigint", "rank": "bigint", "device": "int"}


@lru_cache(maxsize=None)
def _definitions() -> Any:
    return program.ask(["sql", "--list"])


def views() -> dict[str, str]:
    """The named queries: SQL that DuckDB, DataFusion, Spark and ``vramscope sql`` run unchanged."""
    return {view.name: view.sql for view in _definitions().views}


def columns(table: str) -> dict[str, str]:
    """Names and types of a table's columns, as Spark and DuckDB call them."""
    for found in _definitions().tables:
        if found.name == table:
            return {column.name: column.type for column in found.columns}
    names = ", ".join(found.name for found in _definitions().tables)
    raise ValueError(f"no table {table!r}; there are {names}")


def tables() -> list[str]:
    """The names of all tables."""
    return [table.name for table in _definitions().tables]


@dataclass(frozen=True)
class File:
    """One snapshot of a run."""

    path: str
    run: str
    step: int
    rank: int

    def table(self, name: str, columns: Sequence[str] = ()) -> pyarrow.Table:
        """A table of docs/tables.md with run, step, rank and device in front, as Arrow."""
        from pyarrow import ipc

        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "table.arrow")
            words = ["export", self.path, "--table", name, "--format", "arrow", "--output-file", target]
            words += ["--keys", f"{self.run},{self.step},{self.rank}", "--no-cache"]
            if columns:
                words += ["--columns", ",".join(columns)]
            program.run(words)
            with open(target, "rb") as file:
                return ipc.open_file(file.read()).read_all()


def files(*paths: str | os.PathLike[str]) -> list[File]:
    """The snapshots that files and folders stand for."""
    found = program.ask(["sql", *map(os.fspath, paths), "--files"]).files
    return [File(file.path, file.run, file.step, file.rank) for file in found]


class Dataset:
    """A folder that ``vramscope export --dataset`` wrote."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def __repr__(self) -> str:
        return f"Dataset({self.path!r})"

    def _folder(self, table: str) -> str:
        columns(table)
        return os.path.join(self.path, table)

    def _tables(self) -> list[str]:
        # A table whose every row would be of a file that could not be read has no folder.
        return [table for table in tables() if os.path.isdir(self._folder(table))]

    def duckdb(self, connection: Any = None) -> Any:
        """A DuckDB connection with all tables and views."""
        import duckdb

        connection = connection or duckdb.connect()
        types = ", ".join(f"'{key}': {kind}" for key, kind in KEYS.items())
        for table in self._tables():
            pattern = os.path.join(self._folder(table), "**", "*.parquet").replace("'", "''")
            source = f"read_parquet('{pattern}', hive_partitioning=true, hive_types={{{types}}})"
            connection.execute(f"create or replace view {table} as select * from {source}")
        for name, sql in views().items():
            connection.execute(f"create or replace view {name} as {sql}")
        return connection

    def polars(self, table: str) -> Any:
        """A polars LazyFrame of a table."""
        import polars

        kinds = {"string": polars.String, "bigint": polars.Int64, "int": polars.Int32}
        schema = {key: kinds[kind] for key, kind in KEYS.items()}
        return polars.scan_parquet(self._folder(table), hive_partitioning=True, hive_schema=schema)

    def spark(self, session: Any) -> Any:
        """The Spark session, with all tables and views as temporary views."""
        for table in self._tables():
            schema = ", ".join(f"{name} {kind}" for name, kind in columns(table).items())
            session.read.schema(schema).parquet(self._folder(table)).createOrReplaceTempView(table)
        for name, sql in views().items():
            session.sql(sql).createOrReplaceTempView(name)
        return session

    def ray(self, table: str) -> Any:
        """A Ray Dataset of a table."""
        import ray.data
        from ray.data.datasource.partitioning import Partitioning

        kinds = {"string": str, "bigint": int, "int": int}
        hive = Partitioning("hive", field_types={key: kinds[kind] for key, kind in KEYS.items()})
        return ray.data.read_parquet(self._folder(table), partitioning=hive)


def dataset(path: str | os.PathLike[str]) -> Dataset:
    """The tables that ``vramscope export --dataset PATH`` wrote, for DuckDB, polars, Spark and Ray."""
    return Dataset(path)
