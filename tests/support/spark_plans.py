"""Calls the readers of the Spark source as Spark calls them, without Spark."""

from __future__ import annotations

from klamm.spark.options import read_options
from klamm.spark.read import KlammReader
from klamm.spark.schema import source_schema
from klamm.spark.stream import KlammStreamReader


def parsed(cluster, streaming, options):
    return read_options({"kafka.bootstrap.servers": cluster.bootstrap, **options}, streaming)


def batch(cluster, **options):
    return KlammReader(parsed(cluster, False, options), source_schema(include_headers=False))


def stream(cluster, **options):
    options = {"startingOffsets": "earliest", "fetchOffset.retryIntervalMs": "10", **options}
    return KlammStreamReader(parsed(cluster, True, options), source_schema(include_headers=False))


def plan(reader):
    return [tuple(part) for task in reader.partitions() for part in task.value]


def values(reader, tasks):
    return [value for task in tasks for rows in reader.read(task) for value in rows.column("value").to_pylist()]


def begun(reader):
    """Call a reader as Spark does, up to the end of the first batch, which is empty."""
    start = reader.initialOffset()
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    assert reader.partitions(start, start) == []
    return start
