"""Compares reading a topic with schemas: klamm's typed columns and deserializers beside confluent-kafka.

    python benches/registry/run.py [--records N] [--dicts N]

Each measurement runs in a process of its own, against one dev broker with its registry in another process, and counts the CPU time
of its own process only. The targets are in ../README.md.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import time
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


def event(at: int) -> dict[str, Any]:
    """Return one of the records: 85 bytes in Avro, with its framing."""
    return {
        "id": 1_000_000_000 + at, "name": f"customer-{at % 1000:04d}", "count": at % 100, "score": at / 3,
        "note": None if at % 3 == 0 else "left at the door", "at": 1_700_000_000_000 + at, "ok": at % 2 == 0,
        "tags": ["express", "insured-parcel"],
    }  # fmt: skip


def message_class() -> Any:
    """Return the class of the Protobuf messages."""
    from google.protobuf import message_factory

    from klamm.registry import Schema
    from klamm.registry.protobuf import parse_schema

    return message_factory.GetMessageClass(parse_schema(Schema(PROTO, "PROTOBUF"), {}).message((0,)))


def fill(servers: str, registry: SchemaRegistry, kind: str, records: int) -> None:
    """Fill a topic for a format."""
    with klamm.Admin(servers) as admin:
        admin.create_topics({kind: klamm.NewTopic(PARTITIONS)})
    if kind == "avro":
        encode: Any = AvroSerializer(registry, AVRO)
    elif kind == "json":
        encode = JsonSerializer(registry, JSON)
    else:
        encode = ProtobufSerializer(registry, message_class())
    with klamm.Producer(servers, linger_ms=20) as producer:
        some = []
        for at in range(min(records, 20_000)):
            value = event(at)
            if kind == "avro":
                value["at"] = dt.datetime.fromtimestamp(value["at"] / 1000, dt.timezone.utc)
            some.append(encode.serialize(value, kind))
        print(f"a record in {kind} has {statistics.mean(map(len, some)):.0f} bytes", file=sys.stderr)
        chunk = len(some) // PARTITIONS
        for start in range(0, records, len(some)):
            for partition in range(PARTITIONS):
                values = some[partition * chunk : (partition + 1) * chunk]
                producer.send_many(kind, values[: max((records - start) // PARTITIONS, 0)], partition=partition)
        producer.flush()


# The measured programs


def untyped(servers: str, url: str, kind: str, records: int) -> int:
    """Read bytes as columns."""
    return klamm.read_table(servers, kind).num_rows


def columns(servers: str, url: str, kind: str, records: int) -> int:
    """Read typed columns."""
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


PROGRAMS: dict[str, Callable[[str, str, str, int], int]] = {
    "untyped": untyped,
    "columns": columns,
    "dicts": dicts,
    "confluent": confluent,
}


def measured(program: str, servers: str, url: str, kind: str, records: int) -> float:
    """Return the CPU time of a program in microseconds a record."""
    command = [sys.executable, __file__, "--run", program, servers, url, kind, str(records)]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    done, seconds = json.loads(found.splitlines()[-1])
    if done != records:
        raise RuntimeError(f"{program} read {done} of {records} records of {kind}")
    return float(seconds) * 1e6 / records


def run(program: str, servers: str, url: str, kind: str, records: str) -> None:
    """Run a program in this process, and print the number of records and the CPU time."""
    began = time.process_time()
    done = PROGRAMS[program](servers, url, kind, int(records))
    print(json.dumps([done, time.process_time() - began]))


def serve() -> None:
    """Serve a dev broker with a registry, until the standard input ends."""
    with DevBroker(schema_registry=True) as broker:
        print(json.dumps([broker.bootstrap_servers, broker.schema_registry.url]), flush=True)  # type: ignore[union-attr]
        sys.stdin.read()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="Compare reading with a schema registry.")
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
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        servers, url = json.loads(server.stdout.readline())  # type: ignore[union-attr]
        print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
        print(
            "| format | bytes as columns | typed columns | dicts | confluent-kafka | typed ÷ confluent | dicts ÷ confluent |"
        )
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        with SchemaRegistry(url) as registry:
            for kind in FORMATS:
                fill(servers, registry, kind, options.records)
                found = {
                    name: statistics.median(
                        measured(
                            name,
                            servers,
                            url,
                            kind,
                            options.records if name in ("untyped", "columns") else options.dicts,
                        )
                        for _ in range(options.rounds)
                    )
                    for name in PROGRAMS
                }
                cells = [f"{found[name]:.2f}" for name in PROGRAMS]
                ratios = [
                    f"1/{found['confluent'] / found['columns']:.0f}",
                    f"{found['dicts'] / found['confluent']:.2f}",
                ]
                print(f"| {kind} | {' | '.join(cells)} | {' | '.join(ratios)} |", flush=True)
        server.stdin.close()  # type: ignore[union-attr]


if __name__ == "__main__":
    main()
