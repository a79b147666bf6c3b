"""Writes streams in every output mode, through Spark's `foreachBatch`.

Spark rejects output mode update for the sinks of Python data sources. `foreachBatch` supports this mode: Spark passes
each micro-batch to a function on the driver, which writes the rows as a batch. The functions in this module write with
`format("klamm")`.

For exactly-once delivery, these functions pass the ID of the query and the number of the micro-batch as options
`txnAppId` and `txnVersion` to the module `exactly_once`. `writeStream.format("klamm")` uses the same query ID and
micro-batch number. A query may therefore switch between `foreachBatch` and a streaming write.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from klamm.errors import ConfigError
from klamm.spark import clients
from klamm.spark.options import write_options
from klamm.spark.session import check_session
from klamm.spark.settings import Settings
from klamm.spark.source import KlammDataSource
from klamm.spark.write import columns_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def write_stream(
    frame: DataFrame,
    options: Mapping[str, Any] | None = None,
    /,
    *,
    output_mode: str = "update",
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    **more: Any,
) -> StreamingQuery:
    """Start a streaming query that writes to Kafka in any output mode, including update.

    The options and guarantees are the same as for `writeStream.format("klamm")`. For the output modes append and
    complete, prefer `writeStream.format("klamm")`.

    Args:
        frame: Streaming DataFrame with the rows to write.
        options: Options of the write, such as `kafka.bootstrap.servers`, `topic`, `delivery` and `checkpointLocation`.
        output_mode: `update`, `append` or `complete`.
        trigger: Arguments of Spark's `trigger`, such as `{"processingTime": "10 seconds"}`. Default: no pause between
            batches.
        query_name: Name of the query in Spark's reports.
        **more: More options, which override `options`.

    Returns:
        The query, which is already running.

    Raises:
        ConfigError: An option is unknown, missing or invalid, a column has the wrong type, or the session has a setting
            that klamm does not support.

    Example:
        options = {"kafka.bootstrap.servers": "localhost:9092", "topic": "totals", "checkpointLocation": "checkpoint"}
        query = klamm.spark.write_stream(totals, options, output_mode="update")
    """
    check_session(frame.sparkSession)
    settings = _as_settings(options, more)
    checkpoint = settings.pop("checkpointlocation", None)
    function = _ForeachBatch(settings)
    columns_of(function.options, frame.schema)
    writer = frame.writeStream.foreachBatch(function).outputMode(output_mode)
    if checkpoint is not None:
        writer = writer.option("checkpointLocation", checkpoint)
    if query_name is not None:
        writer = writer.queryName(query_name)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


def foreach_batch(options: Mapping[str, Any] | None = None, /, **more: Any) -> Callable[[DataFrame, int], None]:
    """Return a function for Spark's `foreachBatch` that writes each micro-batch to Kafka.

    Your own function for `foreachBatch` can also call the returned function. With exactly-once delivery, your function
    can write each micro-batch to a topic only once. To write more than one DataFrame in a micro-batch, set option
    `txnAppId` to a different name for each write.

    Args:
        options: Options of the write, such as `kafka.bootstrap.servers`, `topic` and `delivery`.
        **more: More options, which override `options`.

    Returns:
        A function that takes a DataFrame and the number of the DataFrame's micro-batch.

    Raises:
        ConfigError: An option is unknown, missing or invalid.

    Example:
        write = klamm.spark.foreach_batch({"kafka.bootstrap.servers": "localhost:9092", "topic": "totals"})
        query = totals.writeStream.foreachBatch(write).outputMode("update").option("checkpointLocation", "checkpoint").start()
    """
    settings = _as_settings(options, more)
    if "checkpointlocation" in settings:
        raise ConfigError(
            "option 'checkpointLocation' has no effect in foreach_batch",
            hint="set it on the query: writeStream.option('checkpointLocation', ...)",
        )
    return _ForeachBatch(settings)


class _ForeachBatch:
    """Writes micro-batches. This is a class and not a closure, because Spark Connect must pickle the object."""

    def __init__(self, given: Settings) -> None:
        if "txnversion" in given:
            raise ConfigError(
                "option 'txnVersion' is the number of the micro-batch, which Spark provides", hint="leave it out"
            )
        # `write_options` requires a version together with an application, and accepts any number.
        self.options = write_options(given | ({"txnversion": "0"} if "txnappid" in given else {}))
        clients.check_producer(self.options.config, transactional=self.options.exactly_once)
        self._given = given

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        given = self._given
        if self.options.exactly_once:
            query, run = _query_and_run(frame)
            app = given.get("txnappid", query)
            if app is None:
                raise ConfigError(
                    "cannot write exactly once: Spark does not pass the ID of the query to foreachBatch here",
                    hint="set option 'txnAppId' to a permanent name that no other query uses, as with Spark Connect",
                )
            _check_is_only_write(frame, batch_id, (run, app, self.options.topic))
            given = given | {"txnappid": app, "txnversion": str(batch_id)}
        frame.write.format(KlammDataSource.name()).options(**given).mode("append").save()


def _query_and_run(frame: DataFrame) -> tuple[str | None, str | None]:
    """Return the ID of the query that calls `foreachBatch`, and the ID of its run. An ID is None if Spark lacks it."""
    try:
        from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
    except ModuleNotFoundError:  # pyspark-client has only Spark Connect
        return None, None
    if not isinstance(frame, ClassicDataFrame):
        return None, None
    context = frame.sparkSession.sparkContext
    return context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("spark.jobGroup.id")


def _check_is_only_write(frame: DataFrame, batch_id: int, write: _Write) -> None:
    """Raise an error if different rows of this micro-batch were already written to the topic as the same application.

    Without the error, klamm would treat the different rows as a repeated write, and skip them. The check allows equal
    rows, because the program may repeat a write after a failure.
    """
    rows = frame.semanticHash()
    with _lock:
        batch, known = _written.get(write, (None, None))
        if batch == batch_id and known != rows:
            raise ConfigError(
                f"cannot write batch {batch_id} to topic '{write[2]}' exactly once: other rows of this batch were already written",
                hint="write one union of the rows, or set option 'txnAppId' to a different name for each write",
            )
        _written[write] = batch_id, rows


def _as_settings(options: Mapping[str, Any] | None, more: Mapping[str, Any]) -> Settings:
    """Return the options with keys in lower case, and with values converted to strings as Spark's `options` does."""
    merged_options = {**(options or {}), **more}
    return Settings(
        {
            key.lower(): str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in merged_options.items()
            if value is not None
        }
    )


_Write = tuple["str | None", str, "str | None"]
_written: dict[_Write, tuple[int, int]] = {}
_lock = Lock()  # each query calls its function on its own thread
