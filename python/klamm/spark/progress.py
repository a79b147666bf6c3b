"""How fast a stream is and how far behind, from Spark's progress reports, as plain rows.

Spark has no metrics of their own for Python data sources: records are those Spark counts, bytes come from an observation that
a query takes along (`observed`), and lag is where topics ended less where the batch did, both of which the source reports.
"""

# typing.override is there from Python 3.12 on.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from klamm.spark.offsets import behind, from_json

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
    """Let progress reports tell the bytes of keys and values: their `observedMetrics` have `klamm` with `records` and `bytes`."""
    sizes = [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("key", "value") if name in rows.columns]
    size = sum(sizes, F.lit(0).cast("bigint"))
    return rows.observe(
        OBSERVATION, F.count(F.lit(1)).alias("records"), F.coalesce(F.sum(size), F.lit(0)).alias("bytes")
    )


def measured(report: Mapping[str, Any]) -> dict[str, Any]:
    """Say what one progress report says of throughput and lag."""
    seen = report["observedMetrics"].get(OBSERVATION)
    return {
        "time": report["timestamp"],
        "query": report["name"] or str(report["id"]),
        "run": str(report["runId"]),
        "batch": report["batchId"],
        "seconds": report["batchDuration"] / 1000,
        "records": report["numInputRows"],
        "bytes": None if seen is None else seen["bytes"],
        "lag": _lag(report),
        "late": sum(operator["numRowsDroppedByWatermark"] for operator in report["stateOperators"]),
    }


def _lag(report: Mapping[str, Any]) -> int | None:
    """Count the records that were there and are not read yet, if a source says so."""
    known = None
    for source in report["sources"]:
        begin, end, latest = (_offsets(source[name]) for name in ("startOffset", "endOffset", "latestOffset"))
        reached = begin if end is None else end
        if reached is not None and latest is not None:
            known = (known or 0) + behind(reached, latest)
    return known


def _offsets(text: str | None) -> Offsets | None:
    """Read offsets of partitions. Other sources write something else, and where there are none, PySpark has `None` as text."""
    with suppress(ValueError):
        named = None if text is None else json.loads(text)
        if isinstance(named, dict) and all(isinstance(partitions, dict) for partitions in named.values()):
            return from_json(named)
    return None


class ProgressLog(StreamingQueryListener):
    """Append a line of JSON for each batch to a file, which `klamm report` draws: `spark.streams.addListener(ProgressLog(path))`.

    Spark calls listeners a moment later, so a program that ends can `note` what `query.recentProgress` has; what the file has
    already is left out.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._noted: set[tuple[str, int, str]] = set()
        self._lock = Lock()  # Spark calls on a thread of its own

    def note(self, report: Mapping[str, Any]) -> None:
        """Write down one progress report."""
        row = measured(report)
        # A query at rest reports the batch it had last, under a new time.
        name = row["run"], row["batch"], row["time"]
        with self._lock:
            if name in self._noted:
                return
            self._noted.add(name)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Hear of a batch that is done."""
        self.note(event.progress)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is done yet."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing is done."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Nothing more is done."""


OBSERVATION = "klamm"
