"""Reads and writes Kafka topics as Spark DataFrames, in batches and streams, without a jar.

    lines = (
        spark.read.format("klamm")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "lines")
        .load()
    )

klamm is a Python data source with the option names, the schema and the offsets of Spark's own Kafka connector, so a
job only has to replace `format("kafka")` with `format("klamm")`. klamm and Spark exchange rows as Arrow batches. Spark
finds the data source through the package `pyspark_klamm`. If Spark does not find this package, call `register`.

The modules, in the order in which Spark's calls and the data pass through them:

* `source` receives Spark's calls; `options`, `client_options` and `positions` parse options; `schema` checks columns
* `lookup` and `offsets` find the offsets to read; `filters` narrows the offsets; `read` and `stream` plan tasks and
  read records; `columns` converts batches
* `write` and `exactly_once` write rows; `foreach` writes streams in every output mode
* `clients` caches the Kafka clients of a worker; `session` checks the settings of a Spark session
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from klamm.spark.columns import TimestampRangeError
    from klamm.spark.exactly_once import ExactlyOnceError
    from klamm.spark.foreach import foreach_batch, write_stream
    from klamm.spark.offsets import DataLossError
    from klamm.spark.source import KlammDataSource
except ModuleNotFoundError as error:
    if not (error.name or "").startswith(("pyarrow", "pyspark")):
        raise
    raise ImportError(f"klamm.spark needs {error.name}: pip install 'klamm[spark]'", name=error.name) from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DataLossError",
    "ExactlyOnceError",
    "KlammDataSource",
    "TimestampRangeError",
    "foreach_batch",
    "register",
    "write_stream",
]


def register(spark: SparkSession) -> None:
    """Register the data source `klamm` with a Spark session.

    A program only needs this function if the session does not find the package `pyspark_klamm`, for example with Spark
    Connect.

    Args:
        spark: The session.

    Raises:
        ConfigError: The session sets `spark.kafka.clusters.*`. Spark's connector uses these settings for delegation
            tokens, and klamm does not support them.

    Example:
        klamm.spark.register(spark)
        frame = spark.read.format("klamm").options(**{"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}).load()
    """
    from pyspark.errors import AnalysisException

    from klamm.spark.session import check_session

    check_session(spark)
    try:
        spark.dataSource.register(KlammDataSource)
    except AnalysisException as error:  # Spark 4.0 raises an error if the session has already found the package
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
