"""Serializers and deserializers of schema registries: formats, framings, subjects, conversion, other clients, bad input."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import io
import json
import uuid
from typing import TypedDict

import confluent_kafka.schema_registry as confluent
import fastavro
import pydantic
import pytest
from confluent_kafka.schema_registry.avro import AvroDeserializer as ConfluentAvroDeserializer
from confluent_kafka.schema_registry.avro import AvroSerializer as ConfluentAvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as ConfluentProtobufDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer as ConfluentProtobufSerializer
from confluent_kafka.serialization import SerializationContext

import klamm
from klamm.errors import ArgumentError, ConfigError, KafkaTimeoutError
from klamm.registry import (
    AsyncSchemaRegistry,
    AvroDeserializer,
    AvroSerializer,
    IncompatibleSchemaError,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    Reference,
    RegistryUnavailableError,
    Schema,
    SchemaError,
    SchemaNotFoundError,
    SchemaRegistry,
)
from klamm.registry.dev import DevRegistry
from klamm.testing import DevBroker
from registry_samples import (
    ORDER,
    ORDER_JSON,
    PERSONS,
    PROTOS,
    VALUE,
    field,
    fields,
)


@pytest.fixture
def client(registry):
    with SchemaRegistry(registry.url) as running:
        yield running


@pytest.fixture
def dev():
    with DevRegistry() as running:
        yield running


@pytest.fixture
def local(dev):
    with SchemaRegistry(dev.url, retries_wait_ms=1, max_retries=1) as running:
        yield running


class TestConfluent:
    """confluent-kafka reads what klamm writes and the other way round, with each strategy."""

    STRATEGIES = ("TOPIC", "RECORD", "TOPIC_RECORD")

    @pytest.fixture
    def other(self, registry):
        with confluent.SchemaRegistryClient({"url": registry.url}) as running:
            yield running

    @staticmethod
    def conf(strategy):
        functions = {
            "TOPIC": confluent.topic_subject_name_strategy,
            "RECORD": confluent.record_subject_name_strategy,
            "TOPIC_RECORD": confluent.topic_record_subject_name_strategy,
        }
        return {"subject.name.strategy": functions[strategy]}

    @pytest.mark.parametrize("field", ["key", "value"])
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_avro(self, client, other, topic, strategy, field):
        context = SerializationContext(topic, field)
        mine = AvroSerializer(client, ORDER, subject_name_strategy=strategy).serialize(VALUE, topic, field)
        theirs = ConfluentAvroSerializer(other, ORDER, conf=self.conf(strategy))(VALUE, context)
        assert mine == theirs
        assert ConfluentAvroDeserializer(other)(mine, context) == VALUE
        assert AvroDeserializer(client).deserialize(theirs, topic, field) == VALUE

    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_json(self, client, other, topic, strategy):
        context = SerializationContext(topic, "value")
        value = {"id": 7, "note": "é"}
        mine = JsonSerializer(client, ORDER_JSON, subject_name_strategy=strategy).serialize(value, topic)
        theirs = JSONSerializer(ORDER_JSON, other, conf=self.conf(strategy))(value, context)
        assert mine[:5] == theirs[:5]
        assert JSONDeserializer(ORDER_JSON)(mine, context) == value
        assert JsonDeserializer(client).deserialize(theirs, topic) == value

    @pytest.mark.parametrize("name", ["First", "Order", "Line"])
    @pytest.mark.parametrize("strategy", STRATEGIES)
    def test_protobuf(self, client, other, topic, strategy, name):
        context = SerializationContext(topic, "value")
        kind = PROTOS[name]
        value = {"First": {"x": 3}, "Order": {"id": 7, "prices": [1.5], "counts": {"a": 1}}, "Line": {"text": "t"}}
        message = kind(**value[name])
        mine = ProtobufSerializer(client, subject_name_strategy=strategy).serialize(message, topic)
        theirs = ConfluentProtobufSerializer(kind, other, {**self.conf(strategy), "use.deprecated.format": False})(
            message, context
        )
        assert mine[5:] == theirs[5:]
        reader = ConfluentProtobufDeserializer(kind, {"use.deprecated.format": False})
        assert reader(mine, context) == message
        assert ProtobufDeserializer(client, kind).deserialize(theirs, topic) == message
        dynamic = ProtobufDeserializer(client).deserialize(mine, topic)
        assert dynamic.SerializeToString(deterministic=True) == message.SerializeToString(deterministic=True)

    def test_a_guid_in_a_header(self, dev, local):
        with confluent.SchemaRegistryClient({"url": dev.url}) as other:
            headers = []
            mine = AvroSerializer(local, ORDER, framing="header_guid").serialize(VALUE, "t", "value", headers)
            context = SerializationContext("t", "value", headers)
            dual = {"schema.id.deserializer": confluent.dual_schema_id_deserializer}
            assert ConfluentAvroDeserializer(other, conf=dual)(mine, context) == VALUE
            context = SerializationContext("t", "key", [])
            conf = {"schema.id.serializer": confluent.header_schema_id_serializer}
            theirs = ConfluentAvroSerializer(other, ORDER, conf=conf)(VALUE, context)
            assert AvroDeserializer(local).deserialize(theirs, "t", "key", context.headers) == VALUE


@pytest.mark.parametrize("framing", ["id", "guid", "header_id", "header_guid", "apicurio", "single_object"])
@pytest.mark.parametrize("how", ["iterate", "poll"])
def test_a_consumer_reads_each_framing(framing, how):
    with DevBroker(schema_registry=True) as broker, SchemaRegistry(broker.schema_registry.url) as registry:
        keys = JsonSerializer(registry, '{"type": "integer"}', framing="id" if framing == "single_object" else framing)
        values = AvroSerializer(registry, ORDER, framing=framing)
        with klamm.Producer(broker.bootstrap_servers, key_serializer=keys, value_serializer=values) as producer:
            producer.send("t", VALUE, 5, headers={"mine": b"1"}).result(10)
            producer.send("t", None, None).result(10)
        id_bytes = 8 if framing == "apicurio" else 4
        keys, values = (
            JsonDeserializer(registry, id_bytes=id_bytes),
            AvroDeserializer(registry, id_bytes=id_bytes, schemas=[ORDER]),
        )
        with klamm.Consumer(broker.bootstrap_servers, key_deserializer=keys, value_deserializer=values) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 0, 2)])
            records = list(consumer) if how == "iterate" else consumer.poll(10)
            assert [(record.key, record.value) for record in records] == [(5, VALUE), (None, None)]
            assert records[0].headers[0] == ("mine", b"1")
            assert len(records[0].headers) == 1 + 2 * framing.startswith("header")


def test_records_of_a_poll_are_a_sequence_with_the_methods_of_records():
    pytest.importorskip("pyarrow")
    with DevBroker(schema_registry=True) as broker, SchemaRegistry(broker.schema_registry.url) as registry:
        with klamm.Producer(broker.bootstrap_servers, value_serializer=AvroSerializer(registry, '"long"')) as producer:
            producer.send_many("t", [1, 2, 3])
        with klamm.Consumer(broker.bootstrap_servers, value_deserializer=AvroDeserializer(registry)) as consumer:
            consumer.assign([klamm.TopicPartition("t", 0, 0, 3)])
            records = consumer.poll(10)
            assert [record.value for record in records] == [1, 2, 3]
            assert [record.value for record in records[1:]] == [2, 3]
            assert records[-1].value == 3
            assert len(records) == 3
            (part,) = records.by_partition().values()
            assert part == records
            assert records.to_arrow().num_rows == 3
            consumer.seek(klamm.TopicPartition("t", 0), 0)
            assert sum(batch.num_rows for batch in consumer.arrow()) == 3


class TestAsyncio:
    """Lookups do not block the event loop, and errors are raised where they belong."""

    @pytest.fixture(params=["asyncio", "blocking"])
    def kind(self, request):
        return {"asyncio": AsyncSchemaRegistry, "blocking": SchemaRegistry}[request.param]

    @staticmethod
    async def close(registry):
        closing = registry.close()
        if closing is not None:
            await closing

    @pytest.mark.parametrize("how", ["iterate", "poll"])
    def test_records_keep_their_order_while_a_schema_is_looked_up(self, kind, how):
        async def run():
            registry = kind(broker.schema_registry.url)
            broker.schema_registry.fault("delay", seconds=0.3)
            serializer = AvroSerializer(registry, '"long"')
            ticks = 0
            async with klamm.AsyncProducer(broker.bootstrap_servers, value_serializer=serializer) as producer:
                sent = [producer.send("t", number) for number in range(20)]
                while not sent[0].done():
                    await asyncio.sleep(0.01)
                    ticks += 1
                await asyncio.gather(*sent)
                await producer.send_many("t", range(20, 30))
                await producer.send_nowait("t", 30)
            assert ticks > 5  # the event loop was free
            broker.schema_registry.fault("delay", seconds=0.1)
            deserializer = AvroDeserializer(registry)
            async with klamm.AsyncConsumer(broker.bootstrap_servers, value_deserializer=deserializer) as consumer:
                consumer.assign([klamm.TopicPartition("t", 0, 0, 31)])
                if how == "iterate":
                    values = [record.value async for record in consumer]
                else:
                    values = []
                    while len(values) < 31:
                        values += [record.value for record in await consumer.poll(10)]
            assert values == list(range(31))
            await self.close(registry)

        with DevBroker(schema_registry=True) as broker:
            asyncio.run(run())

    def test_a_registry_that_fails_fails_the_record_and_works_again(self, kind):
        async def run():
            registry = kind(broker.schema_registry.url, max_retries=0)
            serializer = AvroSerializer(registry, '"long"')
            async with klamm.AsyncProducer(broker.bootstrap_servers, value_serializer=serializer) as producer:
                with pytest.raises(ConfigError, match="not known yet"):
                    producer.send_nowait("t", 1)
                broker.schema_registry.fault("error", status=503)
                with pytest.raises(RegistryUnavailableError):
                    await producer.send("t", 1)
                await producer.send("t", 2)
                await producer.send("t", 3)
            broker.schema_registry.fault("error", status=503)
            registry.clear_cache()
            deserializer = AvroDeserializer(registry)
            async with klamm.AsyncConsumer(broker.bootstrap_servers, value_deserializer=deserializer) as consumer:
                consumer.assign([klamm.TopicPartition("t", 0, 0, 2)])
                first = await anext(consumer)
                with pytest.raises(klamm.errors.DeserializationError) as caught:
                    first.value  # noqa: B018
                assert isinstance(caught.value.__cause__, RegistryUnavailableError)
                assert (await anext(consumer)).value == 3
                assert first.value == 2  # the schema is known now
            await self.close(registry)

        with DevBroker(schema_registry=True) as broker:
            asyncio.run(run())

    def test_a_lookup_ends_after_max_block_ms(self):
        async def run():
            async with AsyncSchemaRegistry(broker.schema_registry.url) as registry:
                broker.schema_registry.fault("delay", seconds=30)
                serializer = AvroSerializer(registry, '"long"')
                config = {"value_serializer": serializer, "max_block_ms": 200}
                async with klamm.AsyncProducer(broker.bootstrap_servers, **config) as producer:
                    with pytest.raises(KafkaTimeoutError, match="max_block_ms"):
                        await producer.send("t", 1)

        with DevBroker(schema_registry=True) as broker:
            asyncio.run(run())

    @pytest.mark.parametrize("how", ["iterate", "poll"])
    def test_a_cancelled_read_loses_no_record(self, how):
        async def run():
            with SchemaRegistry(broker.schema_registry.url) as registry:
                serializer = AvroSerializer(registry, '"long"')
                with klamm.Producer(broker.bootstrap_servers, value_serializer=serializer) as producer:
                    producer.send_many("t", range(3))
            async with AsyncSchemaRegistry(broker.schema_registry.url) as registry:
                deserializer = AvroDeserializer(registry)
                async with klamm.AsyncConsumer(broker.bootstrap_servers, value_deserializer=deserializer) as consumer:
                    consumer.assign([klamm.TopicPartition("t", 0, 0, 3)])
                    count = len(broker.schema_registry.requests())
                    broker.schema_registry.fault("delay", seconds=0.5)
                    reading = asyncio.ensure_future(anext(consumer) if how == "iterate" else consumer.poll(10))
                    async with asyncio.timeout(10):
                        while len(broker.schema_registry.requests()) == count:  # noqa: ASYNC110 - in another thread
                            await asyncio.sleep(0.01)
                    reading.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await reading
                    values = []
                    while len(values) < 3:
                        records = [await anext(consumer)] if how == "iterate" else await consumer.poll(10)
                        values += [record.value for record in records]
                    assert values == [0, 1, 2]

        with DevBroker(schema_registry=True) as broker:
            asyncio.run(run())

    def test_a_blocking_call_with_an_asyncio_client_says_what_to_do(self, dev):
        serializer = AvroSerializer(AsyncSchemaRegistry(dev.url), '"long"')
        with pytest.raises(ConfigError) as caught:
            serializer.serialize(1, "t")
        assert "prepare" in caught.value.hint


class TestRegistration:
    """Which schema a serializer writes with."""

    def test_without_auto_registration_the_schema_must_be_registered(self, client, topic):
        serializer = AvroSerializer(client, ORDER, auto_register_schemas=False)
        with pytest.raises(SchemaNotFoundError):
            serializer.serialize(VALUE, topic)
        registered = client.register(f"{topic}-value", Schema(ORDER))
        assert serializer.serialize(VALUE, topic)[1:5] == registered.id.to_bytes(4, "big")

    def test_the_latest_version_is_the_schema(self, client, topic):
        wider = ORDER.replace('"long"', '"double"')
        client.register(f"{topic}-value", Schema(ORDER))
        client.set_config("NONE", f"{topic}-value")
        latest = client.register(f"{topic}-value", Schema(wider))
        written = AvroSerializer(client, use_latest_version=True).serialize({"id": 1.5, "note": None}, topic)
        assert written[1:5] == latest.id.to_bytes(4, "big")
        assert AvroDeserializer(client).deserialize(written)["id"] == 1.5

    def test_a_schema_id_is_the_schema(self, client, topic):
        registered = client.register(f"{topic}-other", Schema('"long"'))
        serializer = AvroSerializer(client, use_schema_id=registered.id)
        assert AvroDeserializer(client).deserialize(serializer.serialize(7, topic)) == 7

    def test_the_latest_version_can_expire(self, dev):
        with SchemaRegistry(dev.url, cache_latest_ttl_sec=0) as client:
            client.register("t-value", Schema('"int"'))
            serializer = AvroSerializer(client, use_latest_version=True)
            first = serializer.serialize(1, "t")
            client.register("t-value", Schema('"long"'))
            assert serializer.serialize(1, "t") != first

    def test_an_incompatible_schema_is_refused(self, client, topic):
        AvroSerializer(client, '"long"').serialize(1, topic)
        client.set_config("BACKWARD", f"{topic}-value")  # Apicurio's default is none
        with pytest.raises(IncompatibleSchemaError):
            AvroSerializer(client, '"string"').serialize("x", topic)

    def test_a_function_chooses_the_subject(self, local):
        calls = []

        def strategy(topic, field, name):
            calls.append((topic, field, name))
            return "mine"

        AvroSerializer(local, ORDER, subject_name_strategy=strategy).serialize(VALUE, "t", "key")
        assert local.subjects() == ["mine"]
        assert calls == [("t", "key", "shop.Order")]

    def test_subjects_are_those_of_topic_and_field(self, local):
        serializer = AvroSerializer(local, '"long"')
        for topic in "ab":
            for part in ("key", "value"):
                serializer.serialize(1, topic, part)
        assert local.subjects() == ["a-key", "a-value", "b-key", "b-value"]

    def test_strategies_without_a_name_or_topic_are_errors(self, local):
        with pytest.raises(ConfigError, match="needs the topic"):
            AvroSerializer(local, '"long"')(1)
        with pytest.raises(ConfigError, match="name of a record type"):
            JsonSerializer(local, "{}", subject_name_strategy="RECORD").serialize(1, "t")
        assert AvroSerializer(local, ORDER, subject_name_strategy="RECORD")(VALUE)

    @pytest.mark.parametrize(
        "arguments",
        [
            {},
            {"schema": ORDER, "auto_register_schemas": True, "use_latest_version": True},
            {"use_latest_version": True, "use_schema_id": 1},
            {"schema": ORDER, "framing": "magic"},
            {"schema": ORDER, "subject_name_strategy": "MAGIC"},
            {"schema": Schema("{}", "JSON")},
        ],
    )
    def test_invalid_arguments(self, local, arguments):
        with pytest.raises(ConfigError):
            AvroSerializer(local, **arguments)
        with pytest.raises(ArgumentError):
            AvroSerializer("http://localhost", ORDER)

    def test_normalized_schemas_share_an_id(self, local):
        spaced = json.dumps(json.loads(ORDER), indent=2)
        ids = {
            AvroSerializer(local, text, normalize_schemas=True).serialize(VALUE, "t")[1:5] for text in (ORDER, spaced)
        }
        assert len(ids) == 1


class TestReferences:
    """Schemas that use other registered schemas."""

    def test_avro(self, client, topic):
        leaf = '{"type": "record", "name": "shop.Leaf", "fields": [{"name": "x", "type": "int"}]}'
        client.register(f"{topic}-leaf", Schema(leaf))
        tree = '{"type": "record", "name": "shop.Tree", "fields": [{"name": "leaf", "type": "shop.Leaf"}]}'
        schema = Schema(tree, "AVRO", (Reference("shop.Leaf", f"{topic}-leaf", 1),))
        written = AvroSerializer(client, schema).serialize({"leaf": {"x": 1}}, topic)
        with SchemaRegistry(client._settings.urls) as fresh:
            assert AvroDeserializer(fresh).deserialize(written) == {"leaf": {"x": 1}}
            assert AvroDeserializer(fresh, reader_schema=schema).deserialize(written) == {"leaf": {"x": 1}}

    def test_a_union_of_referenced_records(self, client, topic):
        for name in "AB":
            text = json.dumps({"type": "record", "name": name, "fields": [{"name": name.lower(), "type": "int"}]})
            client.register(f"{topic}-{name}", Schema(text))
        schema = Schema('["A", "B"]', "AVRO", tuple(Reference(name, f"{topic}-{name}", 1) for name in "AB"))
        serializer = AvroSerializer(client, schema)
        for value in {"a": 1}, {"b": 2}:
            assert AvroDeserializer(client).deserialize(serializer.serialize(value, topic)) == value

    def test_json(self, client, topic):
        draft = "http://json-schema.org/draft-07/schema#"
        client.register(f"{topic}-id", Schema(f'{{"$schema": "{draft}", "type": "integer", "minimum": 1}}', "JSON"))
        text = '{"title": "T", "type": "object", "properties": {"id": {"$ref": "id.json"}}}'
        schema = Schema(text, "JSON", (Reference("id.json", f"{topic}-id", 1),))
        serializer = JsonSerializer(client, schema)
        assert JsonDeserializer(client).deserialize(serializer.serialize({"id": 1}, topic)) == {"id": 1}
        with pytest.raises(SchemaError) as caught:
            serializer.serialize({"id": 0}, topic)
        assert caught.value.path == "id"

    def test_protobuf(self, client, topic):
        person = PERSONS["Person"](home={"street": "Road"})
        serializer = ProtobufSerializer(client, reference_subject_name=lambda name: f"{topic}-{name}")
        written = serializer.serialize(person, topic)
        with SchemaRegistry(client._settings.urls) as fresh:
            assert ProtobufDeserializer(fresh).deserialize(written).home.street == "Road"
            assert ProtobufDeserializer(fresh, to=dict).deserialize(written) == {"home": {"street": "Road"}}

    def test_a_reference_that_is_not_registered_is_not_fetched_from_the_network(self, local):
        text = '{"type": "object", "properties": {"id": {"$ref": "http://127.0.0.1:1/x.json"}}}'
        serializer = JsonSerializer(local, text)
        with pytest.raises(SchemaError, match="is not present in a registry"):
            serializer.serialize({"id": 1}, "t")


EVOLUTIONS = [
    (fields(field("a", "int")), fields(field("a", "long")), {"a": 1}),
    (fields(field("a", "int")), fields(field("a", "double")), {"a": 1}),
    (fields(field("a", "float")), fields(field("a", "double")), {"a": 0.5}),
    (fields(field("a", "string")), fields(field("a", "bytes")), {"a": "é"}),
    (fields(field("a", "bytes")), fields(field("a", "string")), {"a": b"x"}),
    (fields(field("a", "int")), fields(field("a", "int"), field("b", "string", default="d")), {"a": 1}),
    (fields(field("a", "int"), field("b", "string")), fields(field("a", "int")), {"a": 1, "b": "x"}),
    (fields(field("a", "int"), field("b", "int")), fields(field("b", "int"), field("a", "int")), {"a": 1, "b": 2}),
    (fields(field("a", "int")), fields(field("z", "int", aliases=["a"])), {"a": 1}),
    (fields(field("a", "int")), fields(field("a", ["null", "int"])), {"a": 1}),
    (fields(field("a", ["null", "int"])), fields(field("a", ["null", "long", "string"])), {"a": 5}),
    (fields(field("a", ["null", "int"])), fields(field("a", "int")), {"a": 5}),
    (fields(field("a", ["null", "int"])), fields(field("a", "int")), {"a": None}),
    (
        fields(field("a", {"type": "array", "items": "int"})),
        fields(field("a", {"type": "array", "items": "long"})),
        {"a": [1, 2]},
    ),
    (
        fields(field("a", {"type": "map", "values": "int"})),
        fields(field("a", {"type": "map", "values": "double"})),
        {"a": {"k": 1}},
    ),
    (
        fields(field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]})),
        fields(field("e", {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"})),
        {"e": "B"},
    ),
    (
        fields(field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]})),
        fields(field("e", {"type": "enum", "name": "E", "symbols": ["A"]})),
        {"e": "B"},
    ),
    (
        fields(field("n", fields(field("x", "int"), name="N"))),
        fields(field("n", fields(field("x", "long"), field("y", "int", default=2), name="N"))),
        {"n": {"x": 1}},
    ),
    (fields(field("a", "string")), fields(field("a", "int")), {"a": "x"}),
    (fields(field("a", "int")), fields(field("a", "int"), field("b", "int")), {"a": 1}),
    ("int", ["null", "long"], 3),
    (
        fields(field("f", {"type": "fixed", "name": "F", "size": 2})),
        fields(field("f", {"type": "fixed", "name": "F", "size": 2})),
        {"f": b"ab"},
    ),
]


@pytest.mark.parametrize(("writer", "reader", "value"), EVOLUTIONS, ids=range(len(EVOLUTIONS)))
def test_a_reader_schema_resolves_as_fastavro_does(local, writer, reader, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, writer, value)
    try:
        expected = fastavro.schemaless_reader(io.BytesIO(out.getvalue()), writer, reader)
    except Exception as error:  # noqa: BLE001 - what it raises is the point
        expected = error
    written = AvroSerializer(local, json.dumps(writer)).serialize(value, "t")
    local.set_config("NONE")
    local.register("t-value", Schema(json.dumps(reader)))
    for deserializer in (
        AvroDeserializer(local, reader_schema=json.dumps(reader)),
        AvroDeserializer(local, use_latest_version=True),
    ):
        if isinstance(expected, Exception):
            with pytest.raises(SchemaError):
                deserializer.deserialize(written, "t")
        else:
            assert deserializer.deserialize(written, "t") == expected


class Color(enum.Enum):
    RED = "RED"


@dataclasses.dataclass
class Line:
    price: float
    color: Color = Color.RED


@dataclasses.dataclass
class Order:
    id: int
    lines: list[Line]
    note: str | None = None
    tags: dict[str, int] = dataclasses.field(default_factory=dict)


class OrderModel(pydantic.BaseModel):
    id: int
    lines: list[dict]
    note: str | None = None
    tags: dict[str, int] = {}


class OrderDict(TypedDict):
    id: int
    lines: list[dict]


LINES = json.dumps(
    fields(
        field("id", "long"),
        field(
            "lines",
            {
                "type": "array",
                "items": fields(
                    field("price", "double"),
                    field("color", {"type": "enum", "name": "C", "symbols": ["RED"]}),
                    name="Line",
                ),
            },
        ),
        field("note", ["null", "string"], default=None),
        field("tags", {"type": "map", "values": "int"}, default={}),
    )
)


class TestConversion:
    """Dataclasses, pydantic models and TypedDicts."""

    ORDER = Order(7, [Line(1.5)], "n", {"a": 1})

    @pytest.mark.parametrize("kind", ["avro", "json"])
    def test_a_dataclass(self, local, kind):
        pair = {
            "avro": (AvroSerializer(local, LINES), AvroDeserializer(local, Order)),
            "json": (JsonSerializer(local, "{}"), JsonDeserializer(local, Order)),
        }[kind]
        assert pair[1].deserialize(pair[0].serialize(self.ORDER, "t"), "t") == self.ORDER

    def test_a_model(self, local):
        model = OrderModel(id=7, lines=[{"price": 1.5, "color": "RED"}], tags={"a": 1})
        assert AvroDeserializer(local, OrderModel)(AvroSerializer(local, LINES).serialize(model, "t")) == model
        assert JsonDeserializer(local, OrderModel)(JsonSerializer(local, "{}").serialize(model, "u")) == model

    def test_a_typed_dict(self, local):
        value = {"id": 7, "lines": []}
        written = AvroSerializer(local, LINES).serialize(value, "t")
        assert AvroDeserializer(local, OrderDict)(written) == value

    def test_a_function(self, local):
        written = AvroSerializer(local, '"long"', to_dict=len).serialize("abc", "t")
        assert AvroDeserializer(local, lambda number: number * 2)(written) == 6

    def test_protobuf(self, local):
        serializer = ProtobufSerializer(local, PROTOS["Order"])
        written = serializer.serialize({"id": 7, "note": "x"}, "t")
        assert ProtobufDeserializer(local, PROTOS["Order"]).deserialize(written).note == "x"
        with pytest.raises(SchemaError, match=r"store\.Order"):
            serializer.serialize({"nothing": 1}, "t")

    @pytest.mark.parametrize(
        ("value", "path"),
        [({"id": 7}, ""), ({"id": "x", "lines": []}, "id"), ({"id": 7, "lines": [{"price": "x"}]}, "lines[0].price")],
    )
    def test_a_value_that_does_not_fit_names_the_field(self, local, value, path):
        written = JsonSerializer(local, "{}").serialize(value, "t")
        with pytest.raises(SchemaError) as caught:
            JsonDeserializer(local, Order).deserialize(written, "t")
        assert caught.value.path == path
        assert caught.value.schema_id == 1

    def test_an_exception_of_a_function_is_the_cause(self, local):
        written = AvroSerializer(local, '"long"').serialize(0, "t")
        with pytest.raises(SchemaError, match="ZeroDivisionError"):
            AvroDeserializer(local, lambda number: 1 / number)(written)
        with pytest.raises(ArgumentError):
            AvroDeserializer(local, 7)


LOGICAL = json.dumps(
    fields(
        field("date", {"type": "int", "logicalType": "date"}),
        field("millis", {"type": "long", "logicalType": "timestamp-millis"}),
        field("micros", {"type": "long", "logicalType": "timestamp-micros"}),
        field("time", {"type": "int", "logicalType": "time-millis"}),
        field("uuid", {"type": "string", "logicalType": "uuid"}),
        field("decimal", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}),
        field(
            "fixed",
            {"type": {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 6, "scale": 2}}[
                "type"
            ],
        ),
    )
)


def test_logical_types(local):
    now = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.timezone.utc)
    value = {
        "date": now.date(),
        "millis": now,
        "micros": now,
        "time": now.time(),
        "uuid": uuid.uuid4(),
        "decimal": decimal.Decimal("-1234.56"),
        "fixed": decimal.Decimal("9999.99"),
    }
    assert AvroDeserializer(local)(AvroSerializer(local, LOGICAL).serialize(value, "t")) == value


@pytest.mark.parametrize("text", ['"bytes"', '{"type": "bytes"}', "bytes"])
def test_bytes_have_no_length(local, text):
    written = AvroSerializer(local, text).serialize(b"abc", "t")
    assert written[5:] == b"abc"
    assert AvroDeserializer(local)(written) == b"abc"
