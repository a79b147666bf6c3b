"""`flatten` gives another name to a field whose name is the name of one of klamm's columns."""

from __future__ import annotations

import json

import pytest

import klamm
import registry_cluster
from klamm.registry import AvroSerializer
from registry_samples import field, fields

cluster, registry = registry_cluster.cluster, registry_cluster.registry

OWN = ("key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type", "headers")
NAMES = (*OWN, "timestampType", "value_error", "value_raw")


def read(cluster, registry, topic, names, **options):
    """Write a record whose fields have the given names, and return the names and the row of the table."""
    schema = json.dumps(fields(*(field(name, "long") for name in names)))
    with klamm.Producer(cluster.bootstrap_servers, value_serializer=AvroSerializer(registry, schema)) as producer:
        producer.send(topic, {name: 90 + at for at, name in enumerate(names)}).result(10)
    options = {"value_format": "avro", "registry": registry, "flatten": True, **options}
    found = klamm.read_table(cluster.bootstrap_servers, topic, **options)
    return found.column_names, found.to_pylist()[0]


@pytest.mark.parametrize("change", [str, str.upper, str.title])
def test_fields_with_the_names_of_columns_get_another_name(cluster, registry, topic, change):
    names = [change(name) for name in (*NAMES, "value_is_null")]
    found, row = read(cluster, registry, topic, names, on_error="column")
    assert len({name.lower() for name in found}) == len(found)
    for at, name in enumerate(names):
        kept = name.lower() == "value"  # the column `value` itself is flattened
        assert row[name if kept else f"value_{name}"] == 90 + at
    assert (row["offset"], row["partition"], row["topic"], row["value_error"]) == (0, 0, topic, None)


def test_fields_keep_their_names_beside_columns_that_are_not_read(cluster, registry, topic):
    found, row = read(cluster, registry, topic, NAMES, columns=["value"])
    assert found == [*NAMES, "value_is_null"]
    assert list(row.values()) == [*range(90, 90 + len(NAMES)), False]


def test_fields_that_differ_in_case_only_get_different_names(cluster, registry, topic):
    found, row = read(cluster, registry, topic, ["id", "ID", "value_id"], columns=["value"])
    assert (len({name.lower() for name in found}), list(row.values())) == (4, [90, 91, 92, False])
