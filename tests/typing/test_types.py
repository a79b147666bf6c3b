"""What a type checker says of programs that use klamm: right ones pass, wrong ones do not."""

from __future__ import annotations

import pytest

api = pytest.importorskip("mypy.api")

RIGHT = """
import asyncio
import json
from typing import Any
import klamm
from klamm.errors import BrokerError, OffsetOutOfRangeError, ProducerFencedError, FencedError
from google.protobuf.timestamp_pb2 import Timestamp
from klamm.registry import *
from klamm.testing import DevBroker
from typing_extensions import assert_type

def metadata(delivery: klamm.Delivery) -> klamm.RecordMetadata:
    return delivery.result()

def sync(tx: klamm.Transaction) -> None:
    with klamm.Producer({"bootstrap.servers": "b", "linger.ms": 5}, acks="all", compression_type="zstd") as producer:
        delivery = producer.send("t", b"v", key=memoryview(b"k"), headers=[("h", b"v"), ("n", None)])
        assert_type(delivery, "klamm.Delivery[klamm.RecordMetadata]")
        assert_type(delivery.result(timeout=5), klamm.RecordMetadata)
        assert_type(producer.send_arrow("t", object()), int)
    with klamm.Consumer(["a", "b"], group_id="g", topics="t", auto_offset_reset="earliest") as consumer:
        for record in consumer:
            assert_type(record, klamm.Record)
            assert_type(record.value, "bytes | None")
        records = consumer.poll(timeout=None, max_records=5)
        assert_type(records[0], klamm.Record)
        assert_type(records[1:], klamm.Records)
        assert_type(records.by_partition(), "dict[klamm.TopicPartition, klamm.Records]")
        assert_type(consumer.end_offsets([klamm.TopicPartition("t", 0)]), "dict[klamm.TopicPartition, int]")
        place = klamm.TopicPartition("t", 0)
        consumer.commit({place: klamm.OffsetAndMetadata(1, "one", leader_epoch=0)})
        consumer.commit_nowait({place: 2}, lambda offsets, error: print(offsets[place].offset, error is None))
    with klamm.Consumer("b", group_id="g", value_deserializer=json.loads) as consumer_of_any:
        for item in consumer_of_any:
            assert_type(item, "klamm.Record[bytes, Any]")
        tx.commit_offsets(consumer_of_any)
    with klamm.Consumer("b", key_deserializer=bytes.decode, value_deserializer=len) as consumer_of_both:
        assert_type(consumer_of_both.poll(), "klamm.Records[str, int]")
        assert_type(consumer_of_both.poll()[0].value, "int | None")
        assert_type(consumer_of_both.poll()[:1].by_partition(), "dict[klamm.TopicPartition, klamm.Records[str, int]]")
    with klamm.Producer("b", key_serializer=str.encode, value_serializer=bytes) as producer_of_both:
        producer_of_both.send("t", 5, key="k")
        producer_of_both.send_many("t", [1, None], keys=["a", None])
    class Order:
        note: str
    def to_bytes(order: Order) -> bytes:
        return order.note.encode()
    def publish(producer: "klamm.Producer[bytes, Order]", order: Order) -> None:
        producer.send("orders", order, key=b"k")
        with producer.transaction() as orders:
            orders.send("orders", order)
    with klamm.Producer("b", value_serializer=to_bytes) as producer_of_orders:
        publish(producer_of_orders, Order())
        assert_type(producer_of_orders.send_arrow("t", object(), value_format="avro", registry="http://r"), int)
    klamm.read_table("b", "t", value_format="json", value_schema="infer", flatten=True)
    klamm.read_table("b", ["t", "u"], start=5, end={klamm.TopicPartition("t", 0): 9}, progress=True)
    with klamm.Admin("b") as admin:
        assert_type(admin.describe_topics(["t"])["t"].partitions[0].leader, int)
    try:
        sync(klamm.Producer("b").transaction())
    except OffsetOutOfRangeError as error:
        assert_type(error.code, int)
        assert_type(error.hint, "str | None")
    except ProducerFencedError as error:
        fenced: FencedError = error
        refused: BrokerError = error

async def asynchronous() -> None:
    async with klamm.AsyncProducer("b", linger_ms=1) as producer, klamm.AsyncConsumer("b") as consumer:
        assert_type(await producer.send("t", b"v"), klamm.RecordMetadata)
        await producer.flush(timeout=1)
        async for record in consumer:
            assert_type(record, klamm.Record)
        assert_type(await consumer.poll(), klamm.Records)
        async for item in klamm.AsyncConsumer("b", key_deserializer=int):
            assert_type(item.key, "int | None")
        assert_type(consumer.lag(), "dict[klamm.TopicPartition, int | None]")

class Order:
    def __init__(self, **fields: Any) -> None: ...

def schemas(registry: SchemaRegistry, message: "type[Timestamp]") -> None:
    assert_type(AvroDeserializer(registry), AvroDeserializer[Any])
    assert_type(AvroDeserializer(registry, Order, id_bytes=8), AvroDeserializer[Order])
    assert_type(JsonDeserializer(registry).deserialize(b""), Any)
    assert_type(JsonDeserializer(registry, Order, use_latest_version=True).deserialize(b""), Order)
    assert_type(ProtobufDeserializer(registry), ProtobufDeserializer[Any])
    assert_type(ProtobufDeserializer(registry, message), "ProtobufDeserializer[Timestamp]")
    assert_type(ProtobufDeserializer(registry, message, to=Order), ProtobufDeserializer[Order])
    assert_type(ProtobufSerializer(registry, message, framing="guid"), "ProtobufSerializer[Timestamp]")

def testing(klamm_broker: DevBroker) -> None:
    assert_type(klamm_broker.bootstrap_servers, str)
"""
WRONG = {
    'klamm.Producer("b", linger_mss=5)': "linger_mss",
    'klamm.Producer("b", acks="some")': "acks",
    'klamm.Producer("b", linger_ms="soon")': "linger_ms",
    'klamm.Consumer("b", group_protocol="middle")': "group_protocol",
    'klamm.Producer("b").send("t", "text")': "str",
    'klamm.Producer("b", value_serializer=str.encode).send("t", 5)': "int",
    'klamm.Producer("b", value_serializer=str.encode).send("t", "x", key="k")': "key",
    'klamm.read_table("b", "t", value_format="xml")': "value_format",
    'klamm.Producer("b").send_nowait("t", 5)': "int",
    'klamm.AsyncProducer("b").send("t", b"v").offset': "offset",
    'klamm.Admin("b").create_topics(["t"])': "list[str]",
    'klamm.registry.AvroSerializer(klamm.registry.SchemaRegistry("r"), framing="header")': "framing",
    'klamm.registry.JsonDeserializer(klamm.registry.SchemaRegistry("r"), id_byte=8)': "id_byte",
    "klamm.errors.NoSuchThingError": "NoSuchThingError",
    "klamm.Produser": "Produser",
}


def check(tmp_path, program):
    source = tmp_path / "program.py"
    source.write_text(program)
    output, errors, _ = api.run(["--strict", "--no-incremental", str(source)])
    assert errors == ""
    return [line for line in output.splitlines() if "error:" in line]


def test_right_programs_pass(tmp_path):
    assert check(tmp_path, RIGHT) == []


def test_wrong_programs_do_not(tmp_path):
    program = "import klamm.errors\nimport klamm.registry\n" + "\n".join(WRONG)
    found = check(tmp_path, program)
    for number, (statement, says) in enumerate(WRONG.items(), 3):
        lines = [line for line in found if f"program.py:{number}:" in line]
        assert lines, f"nothing said about {statement}"
        assert any(says in line for line in lines), lines
