"""Filters that Spark gives to a batch read."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import datasource as spark

from klamm.spark.read import KlammFilteringReader
from klamm.spark.schema import source_schema
from spark_plans import parsed, plan

if not hasattr(spark, "Filter"):
    pytest.skip("filters: PySpark 4.1", allow_module_level=True)


def narrowed(cluster, topic, *filters):
    reader = KlammFilteringReader(parsed(cluster, False, {"subscribe": topic}), source_schema(include_headers=False))
    assert list(reader.pushFilters(list(filters))) == list(filters)  # Spark checks the rows again
    return [span[1:] for span in plan(reader)]


def test_filters_skip_partitions_and_offsets(cluster, timed):
    whole = [(0, 0, 10), (1, 0, 10)]
    partition, offset, timestamp, name = ("partition",), ("offset",), ("timestamp",), ("topic",)
    moment = datetime.fromtimestamp(1_700_000_020, timezone.utc)
    for filters, expected in [
        ([], whole),
        ([spark.IsNotNull(partition)], whole),
        ([spark.EqualTo(partition, 1)], whole[1:]),
        ([spark.In(partition, (0, 7))], whole[:1]),
        ([spark.Not(spark.EqualTo(partition, 1))], whole[:1]),
        ([spark.GreaterThan(partition, 1)], []),
        ([spark.LessThanOrEqual(partition, 0)], whole[:1]),
        ([spark.GreaterThan(offset, 3), spark.LessThanOrEqual(offset, 5)], [(0, 4, 6), (1, 4, 6)]),
        ([spark.GreaterThanOrEqual(offset, 3), spark.LessThan(offset, 5), spark.EqualTo(partition, 0)], [(0, 3, 5)]),
        ([spark.EqualTo(offset, 9)], [(0, 9, 10), (1, 9, 10)]),
        ([spark.In(offset, (2, 4))], [(0, 2, 5), (1, 2, 5)]),
        ([spark.EqualTo(offset, 77)], []),
        ([spark.Not(spark.EqualTo(offset, 0))], whole),
        ([spark.GreaterThanOrEqual(timestamp, moment)], [(0, 2, 10), (1, 2, 10)]),
        ([spark.GreaterThan(timestamp, moment.replace(year=2030))], []),
        ([spark.LessThan(timestamp, moment)], whole),  # an older record may follow
        ([spark.EqualTo(timestamp, moment), spark.LessThan(offset, 4)], [(0, 2, 4), (1, 2, 4)]),
        ([spark.GreaterThan(timestamp, datetime(1960, 1, 1, tzinfo=timezone.utc))], whole),
        ([spark.EqualTo(name, timed)], whole),
        ([spark.EqualTo(name, "another")], []),
        (
            [
                spark.StringStartsWith(name, timed[:3]),
                spark.StringEndsWith(name, timed[3:]),
                spark.StringContains(name, timed),
            ],
            whole,
        ),
        ([spark.EqualTo(("value",), b"v"), spark.EqualTo(("headers", "key"), "k")], whole),
    ]:
        assert narrowed(cluster, timed, *filters) == expected, filters


@pytest.mark.spark
def test_filters_reach_the_source_if_pushdown_is_enabled(dev, topic):
    dev.create(topic, partitions=2)
    dev.numbers(topic, range(3), partition=0)
    # Reading everything would fail: there are three records.
    frame = dev.read(subscribe=topic, filterPushdown="true", endingOffsets=json.dumps({topic: {"0": 8, "1": 4}}))
    wanted = frame.where("partition = 0 and offset < 3 and value <> cast('1' as binary)")
    with pytest.raises(AnalysisException, match="filterPushdown"):
        wanted.collect()
    dev.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found = wanted.orderBy("offset").collect()  # a new plan, because Spark keeps the failure of the old one
        assert [bytes(row.value) for row in found] == [b"0", b"2"]
        assert [bytes(row.value) for row in dev.read(subscribe=topic).where("offset = 1").collect()] == [b"1"]
    finally:
        dev.spark.conf.unset("spark.sql.python.filterPushdown.enabled")
