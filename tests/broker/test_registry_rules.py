"""Metadata and rules (`ruleSet`) of registered schemas: copies keep them, and klamm refuses values that need rules."""

from __future__ import annotations

import asyncio
import json
from contextlib import nullcontext

import pyarrow as pa
import pytest

import klamm
import registry_cluster
from cli_process import klamm as run
from klamm.errors import ConfigError
from klamm.registry import (
    AsyncSchemaRegistry,
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaError,
    SchemaRegistry,
    SchemaRegistryError,
)
from klamm.registry.dev import DevRegistry
from registry_samples import ORDER, ORDER_JSON, PROTO, PROTOS, VALUE

cluster, registry = registry_cluster.cluster, registry_cluster.registry

METADATA = {"tags": {"Order.note": ["PII"]}, "properties": {"owner": "shop"}, "sensitive": ["owner"]}
TEXTS = {"AVRO": ORDER, "JSON": ORDER_JSON, "PROTOBUF": PROTO}


def rule(kind="ENCRYPT", mode="WRITEREAD", **more):
    return {"name": "secret", "kind": "TRANSFORM", "type": kind, "mode": mode, "tags": ["PII"], **more}


@pytest.fixture(scope="module")
def dev(tmp_path_factory):
    path = tmp_path_factory.mktemp("registry") / "schemas.json"
    with DevRegistry(path=path) as running:
        yield running


@pytest.fixture
def client(dev):
    with SchemaRegistry(dev.url) as running:
        yield running


class TestCopies:
    @pytest.mark.parametrize("kind", TEXTS)
    def test_a_copy_of_a_schema_keeps_its_metadata_and_rules(self, dev, client, kind, topic):
        schema = Schema(TEXTS[kind], kind, metadata=METADATA, rule_set={"domainRules": [rule()]})
        first = client.register(topic, schema)
        fetched = client.get_version(topic).schema
        assert (fetched.metadata, fetched.rule_set) == (schema.metadata, schema.rule_set)
        copy = client.register(f"{topic}-copy", fetched)
        assert copy.id == first.id
        with SchemaRegistry(dev.url) as other:
            assert other.get_by_id(copy.id).schema == other.get_version(f"{topic}-copy").schema == fetched
            assert other.lookup(f"{topic}-copy", fetched).id == first.id

    def test_schemas_that_differ_in_rules_only_are_two_schemas(self, client, topic):
        plain = client.register(topic, Schema(ORDER))
        ruled = client.register(topic, Schema(ORDER, rule_set={"domainRules": [rule()]}))
        assert (plain.id != ruled.id, client.versions(topic)) == (True, [1, 2])
        assert client.get_by_id(plain.id).schema.rule_set is None

    def test_a_schema_without_rules_takes_those_of_the_latest_version(self, client, topic):
        client.register(topic, Schema(ORDER, metadata=METADATA, rule_set={"domainRules": [rule()]}))
        newer = json.loads(ORDER)
        newer["fields"].append({"name": "new", "type": "int", "default": 0})
        found = client.register(topic, Schema(json.dumps(newer)))
        assert found.schema.rule_set == {"domainRules": [rule()]}
        assert client.get_version(topic).schema.metadata == METADATA

    def test_the_dev_registry_keeps_metadata_and_rules_over_a_restart(self, dev, client, topic):
        schema = Schema(ORDER, metadata=METADATA, rule_set={"domainRules": [rule()]})
        client.register(topic, schema)
        dev.stop()
        dev.start()
        client.clear_cache()
        found = client.get_version(topic).schema
        assert (found.metadata, found.rule_set) == (METADATA, schema.rule_set)

    def test_the_command_line_copies_a_schema_with_its_rules(self, dev, client, topic, tmp_path):
        schema = Schema(PROTO, "PROTOBUF", metadata=METADATA, rule_set={"domainRules": [rule()]})
        first = client.register(topic, schema)
        got = run("schemas", "get", topic, "--json", "--registry", dev.url)
        file = tmp_path / "schema"
        file.write_bytes(got.stdout)
        done = run("schemas", "register", f"{topic}-copy", str(file), "--registry", dev.url)
        assert (done.returncode, done.stderr) == (0, b"")
        copy = client.get_version(f"{topic}-copy")
        assert (copy.id, copy.schema.metadata, copy.schema.rule_set) == (first.id, METADATA, schema.rule_set)

    @pytest.mark.parametrize("given", [7, [], {"domainRules": 7}, {"domainRules": ["x"]}])
    def test_a_rule_set_of_an_unknown_form_is_an_error(self, given):
        with pytest.raises(SchemaRegistryError, match="rule set"):
            Schema.from_json({"schema": ORDER, "ruleSet": given})
        with pytest.raises(SchemaRegistryError, match="metadata"):
            Schema.from_json({"schema": ORDER, "metadata": [7]})


@pytest.fixture
def ignoring(cluster):
    with SchemaRegistry(cluster.schema_registry.url, rules="ignore") as running:
        yield running


SERIALIZERS = {"AVRO": AvroSerializer, "JSON": JsonSerializer, "PROTOBUF": ProtobufSerializer}
DESERIALIZERS = {"AVRO": AvroDeserializer, "JSON": JsonDeserializer, "PROTOBUF": ProtobufDeserializer}
ORDERS = {"AVRO": VALUE, "JSON": {"id": 7}, "PROTOBUF": PROTOS["Order"](id=7)}
REFUSED = "rule 'secret' of type ENCRYPT, which klamm cannot carry out"


def serializer(kind, registry, **options):
    given = Schema(TEXTS[kind], kind)
    return (
        ProtobufSerializer(registry, **options) if kind == "PROTOBUF" else SERIALIZERS[kind](registry, given, **options)
    )


def send(cluster, topic, *values):
    with klamm.Producer(cluster.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value).result(10)


@pytest.mark.parametrize("kind", TEXTS)
class TestSerializers:
    @pytest.mark.parametrize("field", ["domainRules", "encodingRules"])
    def test_values_are_not_written_without_their_rules(self, registry, kind, field, topic):
        subject = f"{topic}-value"
        schema_id = registry.register(subject, Schema(TEXTS[kind], kind, rule_set={field: [rule()]})).id
        for options in (
            {},  # the registry adds the rules of the latest version
            {"auto_register_schemas": False},
            {"use_latest_version": True},
            {"use_schema_id": schema_id},
        ):
            for _ in range(2):
                with pytest.raises(SchemaError, match=REFUSED) as caught:
                    serializer(kind, registry, **options).serialize(ORDERS[kind], topic)
                assert kind == "PROTOBUF" or caught.value.schema_id == schema_id

    def test_values_are_not_read_without_their_rules(self, registry, ignoring, kind, topic):
        schema = Schema(TEXTS[kind], kind, rule_set={"domainRules": [rule()]})
        registry.register(f"{topic}-value", schema)
        data = serializer(kind, ignoring, use_latest_version=True).serialize(ORDERS[kind], topic)
        for options in ({}, {"use_latest_version": True}):
            with pytest.raises(SchemaError, match=REFUSED):
                DESERIALIZERS[kind](registry, **options).deserialize(data, topic)

    def test_a_client_that_ignores_rules_warns_once(self, registry, ignoring, kind, topic, caplog):
        registry.register(f"{topic}-value", Schema(TEXTS[kind], kind, rule_set={"domainRules": [rule()]}))
        data = serializer(kind, ignoring).serialize(ORDERS[kind], topic)
        found = DESERIALIZERS[kind](ignoring, use_latest_version=True).deserialize(data, topic)
        assert found == ORDERS[kind] or found.id == 7
        (warning,) = caplog.records
        assert "rules=ignore" in warning.getMessage()

    @pytest.mark.parametrize(
        ("given", "writes", "reads"),
        [
            (rule(mode="WRITE"), False, True),
            (rule(mode="READ"), True, False),
            (rule(disabled=True), True, True),
            ({"name": "secret", "type": "ENCRYPT"}, False, False),
        ],
    )
    def test_a_rule_applies_in_its_mode(  # noqa: PLR0917
        self, registry, ignoring, kind, given, writes, reads, topic
    ):
        registry.register(f"{topic}-value", Schema(TEXTS[kind], kind, rule_set={"domainRules": [given]}))
        data = serializer(kind, ignoring).serialize(ORDERS[kind], topic)
        for is_allowed, call in (
            (writes, lambda: serializer(kind, registry).serialize(ORDERS[kind], topic)),
            (reads, lambda: DESERIALIZERS[kind](registry).deserialize(data, topic)),
        ):
            with nullcontext() if is_allowed else pytest.raises(SchemaError, match=REFUSED):
                call()


def test_values_are_not_migrated_without_their_rules(registry, topic):
    newer = json.loads(ORDER)
    newer["fields"].append({"name": "new", "type": "int", "default": 0})
    old = AvroSerializer(registry, ORDER).serialize(VALUE, topic)
    migration = {"migrationRules": [rule("JSONATA", "UPGRADE")]}
    registry.register(f"{topic}-value", Schema(json.dumps(newer), rule_set=migration))
    new = AvroSerializer(registry, use_latest_version=True).serialize({**VALUE, "new": 1}, topic)
    latest = AvroDeserializer(registry, use_latest_version=True)
    assert latest.deserialize(new, topic)["new"] == 1
    with pytest.raises(SchemaError, match="rule 'secret' of type JSONATA"):
        latest.deserialize(old, topic)
    assert AvroDeserializer(registry).deserialize(old, topic) == VALUE


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_columns_are_not_written_or_read_without_rules(cluster, registry, ignoring, kind, topic):
    servers, data = cluster.bootstrap_servers, pa.table({"id": [7], "note": ["x"], "prices": [[1.5]]})
    schema = Schema(TEXTS[kind.upper()], kind.upper(), rule_set={"domainRules": [rule()]})
    data = data if kind == "avro" else data.drop(["prices"])
    registry.register(f"{topic}-value", schema)
    with klamm.Producer(servers) as producer:
        for given in (schema, TEXTS[kind.upper()], "latest", 1):
            with pytest.raises(SchemaError, match=REFUSED):
                producer.send_arrow(topic, data, value_format=kind, registry=registry, value_schema=given)
        producer.send_arrow(topic, data, value_format=kind, registry=ignoring, value_schema="latest")
    with pytest.raises(SchemaError, match=REFUSED):
        klamm.read_table(servers, topic, value_format=kind, registry=registry)
    with pytest.raises(klamm.DeserializationError, match=REFUSED):
        klamm.read_table(servers, topic, value_format=kind, registry=registry, value_schema=TEXTS[kind.upper()])
    found = klamm.read_table(
        servers, topic, value_format=kind, registry=registry, value_schema=TEXTS[kind.upper()], on_error="column"
    )
    assert (found["value"].to_pylist(), found["value_raw"].null_count) == ([None], 0)
    assert REFUSED in found["value_error"][0].as_py()
    found = klamm.read_table(servers, topic, value_format=kind, registry=ignoring, flatten=True)
    assert found["id"].to_pylist() == [7]


def test_columns_are_not_migrated_without_rules(cluster, registry, topic):
    newer = json.loads(ORDER)
    newer["fields"].append({"name": "new", "type": "int", "default": 0})
    old = AvroSerializer(registry, ORDER).serialize(VALUE, topic)
    migration = {"migrationRules": [rule("JSONATA", "UPGRADE")]}
    registry.register(f"{topic}-value", Schema(json.dumps(newer), rule_set=migration))
    new = AvroSerializer(registry, use_latest_version=True).serialize({**VALUE, "new": 1}, topic)
    send(cluster, topic, new, old)
    found = klamm.read_table(
        cluster.bootstrap_servers, topic, value_format="avro", registry=registry, on_error="column"
    ).to_pylist()
    assert found[0]["value"]["new"] == 1
    assert "rule 'secret' of type JSONATA" in found[1]["value_error"]


def test_an_asyncio_consumer_does_not_read_values_without_their_rules(cluster, registry, ignoring, topic):
    registry.register(f"{topic}-value", Schema(ORDER, rule_set={"domainRules": [rule()]}))
    send(cluster, topic, AvroSerializer(ignoring, ORDER).serialize(VALUE, topic))

    async def main(rules):
        async with (
            AsyncSchemaRegistry(cluster.schema_registry.url, rules=rules) as client,
            klamm.AsyncConsumer(cluster.bootstrap_servers, value_deserializer=AvroDeserializer(client)) as consumer,
        ):
            consumer.assign([klamm.TopicPartition(topic, 0, 0, 1)])
            (record,) = await consumer.poll(10)
            return record.value

    with pytest.raises(klamm.DeserializationError) as caught:
        asyncio.run(main("refuse"))
    assert REFUSED in str(caught.value.__cause__)
    assert asyncio.run(main("ignore")) == VALUE


def test_the_command_line_refuses_or_ignores_rules(cluster, registry, topic):
    registry.register(f"{topic}-value", Schema(ORDER, rule_set={"domainRules": [rule()]}))
    options = ("--value", "avro", "-b", cluster.bootstrap_servers, "--registry", cluster.schema_registry.url)
    line = json.dumps(VALUE).encode()
    done = run("produce", topic, *options, "--schema", "latest", stdin=line)
    assert (done.returncode, REFUSED in done.stderr.decode()) == (1, True)
    done = run("produce", topic, *options, "--schema", "latest", "-R", "rules=ignore", stdin=line)
    assert (done.returncode, done.stderr.decode().count("rules=ignore")) == (0, 1)
    done = run("consume", topic, *options, "--exit")
    assert (done.returncode, REFUSED in done.stderr.decode()) == (1, True)
    done = run("consume", topic, *options, "--exit", "-R", "rules=ignore")
    assert (done.returncode, json.loads(done.stdout)) == (0, VALUE)


def test_the_key_rules_has_two_values():
    with pytest.raises(ConfigError, match="allowed: refuse, ignore"):
        SchemaRegistry("http://127.0.0.1:1", rules="skip")
