"""A Python data source that does almost nothing, to measure the cost of Spark's own interface for Python data sources.

The source reads rows from Arrow files, one file for each partition. The operating system maps the files into memory. The sink drops all
rows.
"""

# klamm supports Python 3.10, which does not have `typing.override`.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

# The same schema as klamm's data source.
SCHEMA = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"


def save(rows: DataFrame, partitions: int, folder: Path) -> None:
    """Write the rows of a topic into files that `FloorSource` reads."""
    folder.mkdir()
    for number in range(partitions):
        table = rows.where(rows.partition == number).toArrow().combine_chunks()
        with pa.OSFile(str(folder / f"{number}.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)


class FloorSource(DataSource):
    """The data source. Option `folder` names the folder with the files. `maxOffsetsPerTrigger` limits a micro-batch."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return Reader(self.options["folder"])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002
        return StreamReader(self.options["folder"], int(self.options["maxoffsetspertrigger"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        return Writer()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: ARG002
        return StreamWriter()


class _Files:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def _ends(self) -> dict[str, Any]:
        return {path.name: _rows(path).num_rows for path in sorted(Path(self._folder).iterdir())}

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        name, first, last = partition.value
        yield _rows(Path(self._folder) / name).slice(first, last - first)


class Reader(_Files, DataSourceReader):
    def partitions(self) -> list[InputPartition]:
        return [InputPartition((name, 0, end)) for name, end in self._ends().items()]


class StreamReader(_Files, DataSourceStreamReader):
    def __init__(self, folder: str, limit: int) -> None:
        super().__init__(folder)
        self._limit = limit

    def initialOffset(self) -> dict[str, Any]:
        return dict.fromkeys(self._ends(), 0)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002
        return {name: min(end, start[name] + self._limit // len(start)) for name, end in self._ends().items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return [InputPartition((name, start[name], end[name])) for name in end if start[name] < end[name]]


class Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _drop(iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _drop(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass


def _drop(batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
    for _ in batches:
        pass
    return WriterCommitMessage()


def _rows(path: Path) -> pa.RecordBatch:
    return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
