"""Turns Spark's progress reports into rows with throughput and lag, and logs the rows to a file.

Spark has no metrics for Python data sources. The number of records is Spark's own count. The number of bytes comes from
an observation that `observed` adds to the query. Lag is the difference between the latest offsets and the end offsets
of the batch. The data source reports both.
"""

# klamm supports Python 3.10, which does not have `typing.override`.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from klamm.spark.offsets import count_offsets, from_json

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from klamm.spark.offsets import Offsets


def observed(rows: DataFrame) -> DataFrame:
    """Add an observation to a DataFrame, so that progress reports contain the numbers of records and bytes.

    Args:
        rows: DataFrame with the columns `key` and `value`, or with one of these columns.

    Returns:
        A DataFrame with the rows of `rows` and an observation. In a query's progress reports, `observedMetrics`
        contains `klamm` with the fields `records` and `bytes`.

    Example:
        query = observed(rows).writeStream.format("klamm").options(**options).start()
    """
    sizes = [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("key", "value") if name in rows.columns]
    size = sum(sizes, F.lit(0).cast("bigint"))
    return rows.observe(
        OBSERVATION, F.count(F.lit(1)).alias("records"), F.coalesce(F.sum(size), F.lit(0)).alias("bytes")
    )


def measured(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return throughput and lag from one progress report.

    Args:
        report: An element of `query.recentProgress`, or the attribute `progress` of a listener's event.

    Returns:
        A row with the keys `time`, `query`, `run`, `batch`, `seconds`, `records`, `bytes`, `lag` and `late`. `bytes` is
        None if the query does not use `observed`. `lag` is the number of records that are not read yet, or None if no
        source reports how far its topics reach, as before Spark 4.2. `late` is the number of rows that the watermark dropped.
    """
    seen = report["observedMetrics"].get(OBSERVATION)
    if seen is not None and "schema" in seen:  # Spark Connect
        seen = dict(zip((each["name"] for each in seen["schema"]["fields"]), seen["values"], strict=True))
    return {
        "time": report["timestamp"],
        "query": report["name"] or str(report["id"]),
        "run": str(report["runId"]),
        "batch": report["batchId"],
        "seconds": report["batchDuration"] / 1000,
        "records": sum(source["numInputRows"] for source in report["sources"]),  # Spark Connect reports no total
        "bytes": None if seen is None else seen["bytes"],
        "lag": _lag(report),
        "late": sum(operator["numRowsDroppedByWatermark"] for operator in report["stateOperators"]),
    }


def source_metrics(source: Mapping[str, Any]) -> dict[str, str]:
    """Compute the metrics that Spark's Kafka connector would report for a source.

    Spark leaves the field `metrics` of a Python data source empty. This function returns metrics with the connector's
    names and formats.

    Args:
        source: An element of `sources` of a progress report, such as `query.lastProgress["sources"][0]`.

    Returns:
        The metrics `minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest` over all partitions.
        The dict is empty if the report does not say how far the topic reaches. That is the case before Spark 4.2, where
        `latestOffset` is only the end of the batch. It is also the case for a batch that Spark repeats after a crash,
        and for a source that does not read from Kafka.

    Example:
        source_metrics(query.lastProgress["sources"][0])["maxOffsetsBehindLatest"]
    """
    reached, latest = _reached_and_latest(source)
    if reached is None or not latest:
        return {}
    behind = [latest[tp] - reached.get(tp, 0) for tp in latest]
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def _lag(report: Mapping[str, Any]) -> int | None:
    """Return the number of records that exist but are not read yet, or None if no source reports offsets."""
    record_count = None
    for source in report["sources"]:
        reached, latest = _reached_and_latest(source)
        if reached is not None and latest is not None:
            record_count = (record_count or 0) + count_offsets(reached, latest)
    return record_count


def _reached_and_latest(source: Mapping[str, Any]) -> tuple[Offsets | None, Offsets | None]:
    """Return the offsets up to which the query has read, and the latest offsets."""
    begin, end, latest = (_offsets(source[name]) for name in ("startOffset", "endOffset", "latestOffset"))
    if WITHOUT_LATEST in source.get("description", ""):
        latest = None
    return begin if end is None else end, latest


def _offsets(text: str | None) -> Offsets | None:
    """Parse offsets of partitions.

    Return None if the text does not contain offsets of Kafka partitions. PySpark uses the text `None` for missing
    offsets.
    """
    with suppress(ValueError):
        offsets_by_topic = None if text is None else json.loads(text)
        if isinstance(offsets_by_topic, dict) and all(
            isinstance(partitions, dict) for partitions in offsets_by_topic.values()
        ):
            return from_json(offsets_by_topic)
    return None


class ProgressLog(StreamingQueryListener):
    """Appends one line of JSON for each micro-batch to a file, for `klamm report`.

    Spark calls listeners with a delay. To lose no batch at the end of a program, pass each element of
    `query.recentProgress` to `note`. `note` skips batches that are already in the file.

    Args:
        path: Path of the file.

    Example:
        spark.streams.addListener(ProgressLog("progress.jsonl"))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._noted: set[tuple[str, int, str]] = set()
        self._lock = Lock()  # Spark calls listeners on its own thread

    def note(self, report: Mapping[str, Any]) -> None:
        """Append one progress report to the file, unless the file already contains the report."""
        row = measured(report)
        # An idle query reports its last batch again, with a new time.
        name = row["run"], row["batch"], row["time"]
        with self._lock:
            if name in self._noted:
                return
            self._noted.add(name)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Append the report of a finished batch to the file."""
        self.note(event.progress)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing."""


OBSERVATION = "klamm"

# The class of Python data sources in Spark 4.0 and 4.1, which reports the end of the batch as the latest offset.
WITHOUT_LATEST = ".PythonMicroBatchStream@"
