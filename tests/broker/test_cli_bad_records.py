"""Records that `klamm consume` cannot decode: what it prints before them, and how a group gets past them."""

from __future__ import annotations

import json

import pytest

import klamm
from klamm.cli import main
from klamm.registry import AvroSerializer, SchemaRegistry
from klamm.testing import DevBroker


@pytest.fixture(scope="module")
def cluster():
    with DevBroker(schema_registry=True) as broker, SchemaRegistry(broker.schema_registry.url) as registry:
        yield broker, registry


@pytest.fixture
def consume(cluster, topic, capfd):
    """Fill a topic with five records, of which the fourth is not Avro, and return a function that runs the command."""
    broker, registry = cluster
    serializer = AvroSerializer(registry, '"long"')
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for at in range(5):
            value = b"plain text" if at == 3 else serializer.serialize(at, topic)
            producer.send(topic, value, partition=0).result(10)

    def call(*options):
        connection = ("-b", broker.bootstrap_servers, "--registry", broker.schema_registry.url)
        code = main(["consume", topic, "--value", "avro", *options, *connection])
        out, errors = capfd.readouterr()
        found = [json.loads(line) for line in out.splitlines()]
        errors = [line for line in errors.splitlines() if "assigned" not in line and "revoked" not in line]
        return code, [each["value"] if isinstance(each, dict) else each for each in found], errors

    return call


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_records_before_a_bad_record_are_printed(topic, consume, form):
    code, found, errors = consume("--exit", *form)
    assert (code, found) == (1, [0, 1, 2])
    assert f"{topic}-0 at offset 3: the first byte is 112" in errors[0]
    assert (len(errors), errors[1].startswith("  hint: use the deserializer only")) == (2, True)
    assert "hint" not in errors[0]


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_skip_errors_goes_on_with_the_next_record(topic, consume, form):
    code, found, errors = consume("--exit", "--skip-errors", *form)
    assert (code, found) == (0, [0, 1, 2, 4])
    assert f"{topic}-0 at offset 3" in errors[0]


def test_a_group_stays_before_a_bad_record_and_gets_past_it_with_skip_errors(cluster, topic, consume):
    broker, _ = cluster
    place = klamm.TopicPartition(topic, 0)

    def committed():
        with klamm.Admin(broker.bootstrap_servers) as admin:
            return admin.group_offsets(topic)[place]

    group = ("--group", topic, "--idle", "2s")
    code, found, errors = consume(*group)
    assert (code, found, f"{topic}-0 at offset 3" in errors[0]) == (1, [0, 1, 2], True)
    assert committed() == 3
    code, found, errors = consume(*group)
    assert (code, found, f"{topic}-0 at offset 3" in errors[0]) == (1, [], True)
    assert committed() == 3
    code, found, _ = consume(*group, "--skip-errors")
    assert (code, found) == (0, [4])
    assert committed() == 5


def test_skip_errors_does_not_skip_records_while_the_registry_fails(cluster, topic, consume):
    broker, _ = cluster
    broker.schema_registry.fault("error", status=503, times=None)
    try:
        code, found, errors = consume("--group", topic, "--idle", "2s", "--skip-errors", "-R", "max.retries=0")
    finally:
        broker.schema_registry.clear_faults()
    assert (code, found, "503" in errors[0] or "50301" in errors[0]) == (1, [], True)
    code, found, _ = consume("--group", topic, "--idle", "2s", "--skip-errors")
    assert (code, found) == (0, [0, 1, 2, 4])
