"""Kafka topics as Spark DataFrames, batch and streaming, without a jar.

A Python data source with the option names, the schema and the offsets of Spark's own Kafka
connector: `format("kafka")` becomes `format("klamm")`. Rows travel as Arrow batches both ways.

    lines = (
        spark.read.format("klamm")
        .option("kafka.bootstrap.servers", "localhost:9092")
        .option("subscribe", "lines")
        .load()
    )

Spark finds the source by itself, through the package `pyspark_klamm`; `register` does the same
by hand. Files, in the order data takes: source, options and positions, schema, lookup and offsets (what to
read), filters, read, stream, columns, write, exactly_once; clients keeps the Kafka clients of a worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.spark.exactly_once import ExactlyOnceError
from klamm.spark.offsets import DataLossError
from klamm.spark.source import KlammDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DataLossError", "ExactlyOnceError", "KlammDataSource", "register"]


def register(spark: SparkSession) -> None:
    """Make `format("klamm")` known to a session that does not find `pyspark_klamm` by itself."""
    spark.dataSource.register(KlammDataSource)
