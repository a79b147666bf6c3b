"""Compares reads and writes with a schema registry: klamm's typed columns and serializers, confluent-kafka and spark-avro.

    python benches/registry/run.py [read] [write] [spark] [--records N] [--dicts N] [--rounds N]

Each measurement of `read` and `write` runs in a separate process, and counts only the CPU time of this process. One dev broker with a
registry runs in another process. `read` builds the crate `arrow_avro` first. `spark_reads.py` describes the part `spark`. The targets
are in ../README.md.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import klamm
from klamm.registry import (
    AvroDeserializer,
    AvroSerializer,
    JsonDeserializer,
    JsonSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistry,
)
from klamm.testing import DevBroker

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 4
AVRO = json.dumps({"type": "record", "name": "Event", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "count", "type": "int"},
    {"name": "score", "type": "double"}, {"name": "note", "type": ["null", "string"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "ok", "type": "boolean"},
    {"name": "tags", "type": {"type": "array", "items": "string"}}]})  # fmt: skip
JSON = json.dumps({"title": "Event", "type": "object", "properties": {
    "id": {"type": "integer"}, "name": {"type": "string"}, "count": {"type": "integer"}, "score": {"type": "number"},
    "note": {"type": ["string", "null"]}, "at": {"type": "integer"}, "ok": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}}}})  # fmt: skip
PROTO = """syntax = "proto3";
message Event {
  int64 id = 1; string name = 2; int32 count = 3; double score = 4; optional string note = 5; int64 at = 6; bool ok = 7;
  repeated string tags = 8;
}
"""
FORMATS = ("avro", "protobuf", "json")
PARTS = ("read", "write", "spark")
DISTINCT = 20_000


def event(at: int) -> dict[str, Any]:
    """Return the value of one record. In Avro, the value has 85 bytes, including the schema ID."""
    return {
        "id": 1_000_000_000 + at, "name": f"customer-{at % 1000:04d}", "count": at % 100, "score": at / 3,
        "note": None if at % 3 == 0 else "left at the door", "at": 1_700_000_000_000 + at, "ok": at % 2 == 0,
        "tags": ["express", "insured-parcel"],
    }  # fmt: skip


def message_class() -> Any:
    """Return a class for the Protobuf messages of the schema `PROTO`."""
    from google.protobuf import message_factory

    from klamm.registry import Schema
    from klamm.registry.protobuf import parse_schema

    return message_factory.GetMessageClass(parse_schema(Schema(PROTO, "PROTOBUF"), {}).message((0,)))


def fill(servers: str, registry: SchemaRegistry, kind: str, records: int) -> None:
    """Create and fill the topic of a format. The topic has the name of the format."""
    with klamm.Admin(servers) as admin:
        admin.create_topics({kind: klamm.NewTopic(PARTITIONS)})
    some = encoded(registry, kind, min(records, DISTINCT))
    with klamm.Producer(servers, linger_ms=20) as producer:
        print(f"a record in {kind} has {statistics.mean(map(len, some)):.0f} bytes", file=sys.stderr)
        chunk = len(some) // PARTITIONS
        for start in range(0, records, len(some)):
            for partition in range(PARTITIONS):
                values = some[partition * chunk : (partition + 1) * chunk]
                producer.send_many(kind, values[: max((records - start) // PARTITIONS, 0)], partition=partition)
        producer.flush()


def encoded(registry: SchemaRegistry, kind: str, records: int) -> list[bytes]:
    """Return the serialized values of the first records."""
    if kind == "avro":
        encode: Any = AvroSerializer(registry, AVRO)
    elif kind == "json":
        encode = JsonSerializer(registry, JSON)
    else:
        encode = ProtobufSerializer(registry, message_class())
    return [encode.serialize(timed(event(at)) if kind == "avro" else event(at), kind) for at in range(records)]


def timed(value: dict[str, Any]) -> dict[str, Any]:
    """Return a value with its time as a `datetime`, because serializers for Avro need this type."""
    return {**value, "at": dt.datetime.fromtimestamp(value["at"] / 1000, dt.timezone.utc)}


def table(records: int) -> Any:
    """Return the first records as an Arrow table with typed columns."""
    import pyarrow as pa

    names = {"at": pa.timestamp("ms", "UTC"), "count": pa.int32()}
    rows = [timed(event(at)) for at in range(records)]
    return pa.table({name: pa.array([row[name] for row in rows], names.get(name)) for name in rows[0]})


# The programs that are measured.


def untyped(servers: str, url: str, kind: str, records: int) -> int:
    """Read keys and values as columns of bytes."""
    return klamm.read_table(servers, kind).num_rows


def columns(servers: str, url: str, kind: str, records: int) -> int:
    """Read typed columns with klamm."""
    return klamm.read_table(servers, kind, value_format=kind, registry=url).num_rows  # type: ignore[arg-type]


def dicts(servers: str, url: str, kind: str, records: int) -> int:
    """Read dicts, with klamm's deserializer."""
    registry = SchemaRegistry(url)
    if kind == "avro":
        decode: Any = AvroDeserializer(registry)
    elif kind == "json":
        decode = JsonDeserializer(registry)
    else:
        decode = ProtobufDeserializer(registry, message_class())
    done = 0
    with klamm.Consumer(servers, value_deserializer=decode) as consumer:
        consumer.assign([klamm.TopicPartition(kind, p, 0) for p in range(PARTITIONS)])
        for record in consumer:
            if record.value is not None:
                done += 1
            if done == records:
                return done
    return done


def confluent(servers: str, url: str, kind: str, records: int) -> int:
    """Read dicts, with confluent-kafka's consumer and deserializer."""
    from confluent_kafka import DeserializingConsumer, TopicPartition
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer as Avro
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer as Json
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer as Protobuf

    client = SchemaRegistryClient({"url": url})
    if kind == "avro":
        decode: Any = Avro(client)
    elif kind == "json":
        decode = Json(None, schema_registry_client=client)
    else:
        decode = Protobuf(message_class(), {"use.deprecated.format": False}, client)
    consumer = DeserializingConsumer(
        {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False, "value.deserializer": decode}
    )
    consumer.assign([TopicPartition(kind, p, 0) for p in range(PARTITIONS)])
    done = 0
    while done < records:
        message = consumer.poll(10)
        if message is None:
            raise RuntimeError("no record arrived")
        if message.value() is not None:
            done += 1
    consumer.close()
    return done


def send_columns(servers: str, url: str, kind: str, records: int) -> int:
    """Write typed columns."""
    data, done = table(DISTINCT), 0
    began = time.process_time()
    with klamm.Producer(servers, linger_ms=20) as producer:
        while done < records:
            options: Any = {"value_format": "avro", "registry": url, "value_schema": AVRO}
            done += producer.send_arrow("written", data.slice(0, min(records - done, DISTINCT)), **options)
    global BEGAN  # noqa: PLW0603 - the time for creating the table does not count
    BEGAN = began
    return done


def send_dicts(servers: str, url: str, kind: str, records: int) -> int:
    """Write dicts, with klamm's serializer."""
    rows = [timed(event(at)) for at in range(DISTINCT)]
    global BEGAN  # noqa: PLW0603
    BEGAN = time.process_time()
    with klamm.Producer(servers, linger_ms=20, value_serializer=AvroSerializer(SchemaRegistry(url), AVRO)) as producer:
        for at in range(records):
            producer.send_nowait("written", rows[at % DISTINCT])
    return records


def send_confluent(servers: str, url: str, kind: str, records: int) -> int:
    """Write dicts, with confluent-kafka's producer and serializer."""
    from confluent_kafka import SerializingProducer
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer as Avro

    rows = [timed(event(at)) for at in range(DISTINCT)]
    global BEGAN  # noqa: PLW0603
    BEGAN = time.process_time()
    encode = Avro(SchemaRegistryClient({"url": url}), AVRO)
    config = {"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True, "value.serializer": encode}
    producer = SerializingProducer(config)
    for at in range(records):
        while True:
            try:
                producer.produce("written", value=rows[at % DISTINCT])
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(120):
        raise RuntimeError("records were not delivered")
    return records


BEGAN = 0.0
"""CPU time of the process when the measured part of a program began."""
PROGRAMS: dict[str, Callable[[str, str, str, int], int]] = {
    "untyped": untyped,
    "columns": columns,
    "dicts": dicts,
    "confluent": confluent,
    "send_columns": send_columns,
    "send_dicts": send_dicts,
    "send_confluent": send_confluent,
}


def measured(program: str, servers: str, url: str, kind: str, records: int) -> float:
    """Run a program in a new process. Return its CPU time in microseconds per record."""
    command = [sys.executable, __file__, "--run", program, servers, url, kind, str(records)]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    done, seconds = json.loads(found.splitlines()[-1])
    if done != records:
        raise RuntimeError(f"{program} read {done} of {records} records of {kind}")
    return float(seconds) * 1e6 / records


def run(program: str, servers: str, url: str, kind: str, records: str) -> None:
    """Run a program in this process, and print the number of records and the CPU time."""
    global BEGAN  # noqa: PLW0603
    BEGAN = time.process_time()
    done = PROGRAMS[program](servers, url, kind, int(records))
    print(json.dumps([done, time.process_time() - BEGAN]))


def serve() -> None:
    """Run a dev broker with a registry until the standard input ends."""
    with DevBroker(schema_registry=True) as broker:
        print(json.dumps([broker.bootstrap_servers, broker.schema_registry.url]), flush=True)  # type: ignore[union-attr]
        sys.stdin.read()


def read(servers: str, url: str, registry: SchemaRegistry, options: argparse.Namespace) -> None:
    """Measure reads, and print a table."""
    names = ("untyped", "columns", "dicts", "confluent")
    print(
        "| format | bytes as columns | typed columns | dicts | confluent-kafka | typed ÷ confluent | dicts ÷ confluent |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in FORMATS:
        fill(servers, registry, kind, options.records)
        found = medians(names, servers, url, kind, options)
        ratios = [f"1/{found['confluent'] / found['columns']:.0f}", f"{found['dicts'] / found['confluent']:.2f}"]
        print(f"| {kind} | {' | '.join(f'{found[name]:.2f}' for name in names)} | {' | '.join(ratios)} |", flush=True)
        if kind == "avro":
            in_avro = found
    alone = statistics.median(arrow_avro(registry, options.records) for _ in range(options.rounds))
    ratio = in_avro["columns"] / (alone + in_avro["untyped"])
    print(f"\narrow-avro alone: {alone:.2f}; typed columns of Avro ÷ (arrow-avro + bytes as columns): {ratio:.2f}\n")


def arrow_avro(registry: SchemaRegistry, records: int) -> float:
    """Return the CPU time that the crate arrow-avro needs to decode Avro, without Kafka, in microseconds per record."""
    values = encoded(registry, "avro", min(records, DISTINCT))
    schema_id = int.from_bytes(values[0][1:5], "big")
    rounds = records // len(values)
    manifest = Path(__file__).parent / "arrow_avro" / "Cargo.toml"
    command = [
        "cargo",
        "run",
        "-q",
        "--release",
        "--locked",
        "--target-dir",
        "target",
        "--manifest-path",
        manifest,
        "--",
    ]
    with tempfile.TemporaryDirectory() as folder:
        schema, data = Path(folder, "schema"), Path(folder, "values")
        schema.write_text(AVRO)
        data.write_bytes(b"".join(len(value).to_bytes(4, "big") + value for value in values))
        command += [schema, data, str(rounds), str(schema_id)]
        done, seconds = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    if done != rounds * len(values):
        raise RuntimeError(f"arrow-avro read {done} records")
    return float(seconds) * 1e6 / done


def write(servers: str, url: str, options: argparse.Namespace) -> None:
    """Measure writes, and print a table."""
    with klamm.Admin(servers) as admin:
        admin.create_topics({"written": klamm.NewTopic(PARTITIONS)})
    names = ("send_columns", "send_dicts", "send_confluent")
    found = medians(names, servers, url, "avro", options)
    print("| format | send_arrow | send dicts | confluent-kafka | columns ÷ confluent | dicts ÷ confluent |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    columns, of_dicts, other = (found[name] for name in names)
    ratios = f"1/{other / columns:.0f} | {of_dicts / other:.2f}"
    print(f"| avro | {columns:.2f} | {of_dicts:.2f} | {other:.2f} | {ratios} |", flush=True)


def medians(names: tuple[str, ...], servers: str, url: str, kind: str, options: argparse.Namespace) -> dict[str, float]:
    """Return the median CPU time of each program, in microseconds per record."""
    large = ("untyped", "columns", "send_columns")
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            records = options.records if name in large else options.dicts
            found[name].append(measured(name, servers, url, kind, records))
    return {name: statistics.median(some) for name, some in found.items()}


def main() -> None:
    """Run the chosen parts, and print a table for each part."""
    parser = argparse.ArgumentParser(description="Compare topics with a schema registry.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--records", type=int, default=1_000_000, help="records of each topic (default: 1,000,000)")
    parser.add_argument("--dicts", type=int, default=100_000, help="records that become dicts (default: 100,000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--run", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(*options.run)
        return
    if options.serve:
        serve()
        return
    parts = options.parts or PARTS
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        servers, url = json.loads(server.stdout.readline())  # type: ignore[union-attr]
        print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
        with SchemaRegistry(url) as registry:
            if "read" in parts:
                read(servers, url, registry, options)
            if "write" in parts:
                write(servers, url, options)
            if "spark" in parts:
                from spark_reads import measure

                if "read" not in parts:
                    fill(servers, registry, "avro", options.records)
                measure(servers, url, AVRO, "avro", options.rounds)
        server.stdin.close()  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
