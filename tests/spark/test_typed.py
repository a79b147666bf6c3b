"""Typed columns from a schema registry in Spark: batch and streaming, read and write, and what is never shown."""

from __future__ import annotations

import datetime as dt
import json
import traceback
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql.functions import lit

import klamm
from confluent_orders import FORMATS, ROWS, consumed, deserializer, produced, serializer
from klamm.errors import ConfigError
from klamm.registry import AvroSerializer, Schema, SchemaRegistry
from klamm.registry.dev import DevRegistry
from klamm.spark import KlammDataSource
from klamm.spark.options import read_options

pytestmark = pytest.mark.spark

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}}, "default": []},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}, "default": "ab"},
        {"name": "m", "type": {"type": "map", "values": "int"}, "default": {}},
    ],
}  # fmt: skip
FIELDS = "id:bigint,note:string,at:timestamp,lines:array<struct<sku:string>>,f:binary,m:map<string,int>"


@pytest.fixture
def kafka(kafka_at, pair):
    return kafka_at(pair[0].bootstrap_servers)


@pytest.fixture
def registry(pair):
    with SchemaRegistry(pair[1].url) as client:
        yield client


def send(kafka, registry, topic, *values, schema=None):
    serializer = AvroSerializer(registry, json.dumps(schema or ORDER))
    with klamm.Producer(kafka.bootstrap, value_serializer=serializer) as producer:
        for value in values:
            # fastavro does not convert the defaults of bytes.
            producer.send(topic, None if value is None else {"f": b"ab", **value})


def options(registry, topic, **more):
    return {"subscribe": topic, "value.format": "avro", "schema.registry.url": registry._settings.urls[0], **more}


def test_a_batch_read_is_typed_at_planning_time(kafka, registry, topic):
    send(kafka, registry, topic, {"id": 1, "note": "x", "lines": [{"sku": "s"}], "m": {"k": 1}}, None, {"id": 2})
    frame = kafka.read(**options(registry, topic))
    assert frame.schema["value"].dataType.simpleString() == f"struct<{FIELDS}>"
    rows = frame.orderBy("offset").select("value.*").collect()
    assert [(row.id, row.note, row.lines, row.m) for row in rows] == [
        (1, "x", [("s",)], {"k": 1}),
        (None, None, None, None),
        (2, None, [], {}),
    ]
    flat = kafka.read(**options(registry, topic, flatten="true", columns="offset,value"))
    assert flat.columns == ["offset", "id", "note", "at", "lines", "f", "m", "value_is_null"]
    rows = flat.orderBy("offset").collect()
    assert [(row.id, row.value_is_null) for row in rows] == [(1, False), (None, True), (2, False)]
    assert bytes(flat.first().f) == b"ab"


def test_a_stream_keeps_its_schema_and_drops_what_newer_writers_add(kafka, registry, topic, tmp_path):
    kafka.create(topic)
    send(kafka, registry, topic, {"id": 1})
    stream = kafka.stream(**options(registry, topic, flatten="true", startingOffsets="earliest"))
    query = stream.writeStream.format("memory").queryName("typed").option("checkpointLocation", str(tmp_path)).start()
    try:
        query.processAllAvailable()
        newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "new", "type": "int", "default": 0}]}
        send(kafka, registry, topic, {"id": 2, "new": 5}, schema=newer)
        query.processAllAvailable()
        found = stream.sparkSession.sql("select * from typed order by id")
        assert [row.id for row in found.collect()] == [1, 2]
        assert "new" not in found.columns
    finally:
        query.stop()
    assert "new" in kafka.read(**options(registry, topic, flatten="true")).columns


def test_a_stream_can_refuse_what_newer_writers_add(kafka, registry, topic, tmp_path):
    kafka.create(topic)
    send(kafka, registry, topic, {"id": 1})
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "new", "type": "int", "default": 0}]}
    given = options(registry, topic, flatten="true", onNewFields="raise", startingOffsets="earliest")
    stream = kafka.stream(**given).select("id")
    start = {"queryName": "refusing", "format": "memory", "checkpointLocation": str(tmp_path)}
    query = stream.writeStream.start(**start)
    try:
        query.processAllAvailable()
        send(kafka, registry, topic, {"id": 2, "new": 5}, schema=newer)
        with pytest.raises(StreamingQueryException) as raised:
            query.processAllAvailable()
    finally:
        query.stop()
    schema_id = registry.get_version(f"{topic}-value").id
    for part in (f"{topic}-0 at offset 1", f"schema {schema_id}", "field new", "start again"):
        assert part in str(raised.value)
    # A restart with the new schema continues where the query failed.
    stream = kafka.stream(**given).select("id", "new")
    with pytest.raises(ConfigError, match="onNewFields"):
        read_options({**given, "kafka.bootstrap.servers": "x", "onNewFields": "skip"})
    kafka.create(f"{topic}-copy")
    write = {k: v for k, v in options(registry, topic).items() if k != "subscribe"}
    kafka.run(stream, tmp_path / "copy", topic=f"{topic}-copy", **write)
    copied = kafka.read(**options(registry, f"{topic}-copy", flatten="true")).orderBy("id").select("id", "new")
    assert [tuple(row) for row in copied.collect()] == [(1, 0), (2, 5)]


VERSIONS = {
    "json": [
        json.dumps({"type": "object", "properties": {name: {"type": "integer"} for name in names}})
        for names in ("a", "ab")
    ],
    "protobuf": [
        f'syntax = "proto3"; message R {{ int64 a = 1; {more} }}' for more in ("", "int64 b = 2;")
    ],
}  # fmt: skip
VALUES = {"json": [b'{"a": 1}', b'{"a": 2, "b": 5}'], "protobuf": [b"\0\x08\1", b"\0\x08\2\x10\5"]}


@pytest.mark.parametrize("kind", VERSIONS)
def test_a_stream_of_json_or_protobuf_drops_or_refuses_new_fields(dev, topic, tmp_path, kind):
    dev.create(topic)
    with DevRegistry() as one, SchemaRegistry(one.url) as registry:
        registry.set_config("NONE", f"{topic}-value")

        def produce(at):
            schema_id = registry.register(f"{topic}-value", Schema(VERSIONS[kind][at], kind.upper())).id
            dev.produce(topic, {"value": b"\0" + schema_id.to_bytes(4, "big") + VALUES[kind][at]})

        produce(0)
        given = options(registry, topic, flatten="true", startingOffsets="earliest", **{"value.format": kind})
        queries = []
        for mode in ("drop", "raise"):
            stream = dev.stream(**given, onNewFields=mode).select("a")
            start = {"queryName": f"{kind}_{mode}", "format": "memory", "checkpointLocation": str(tmp_path / mode)}
            queries.append(stream.writeStream.start(**start))
        dropping, refusing = queries
        try:
            for query in queries:
                query.processAllAvailable()
            produce(1)
            dropping.processAllAvailable()
            found = dev.spark.table(f"{kind}_drop").orderBy("a").collect()
            assert [row.a for row in found] == [1, 2]
            with pytest.raises(StreamingQueryException, match="field b"):
                refusing.processAllAvailable()
        finally:
            for query in queries:
                query.stop()


TIMES = {"ms": "timestamp-millis", "ns": "timestamp-nanos", "local": "local-timestamp-nanos"}


def test_times_that_spark_cannot_represent_are_bad_records(dev, topic):
    def fields_of(kind):
        return [{"name": name, "type": kind(logical)} for name, logical in TIMES.items()]

    plain = {"type": "record", "name": "R", "fields": fields_of(lambda _: "long")}
    typed = {
        "type": "record",
        "name": "R",
        "fields": fields_of(lambda logical: {"type": "long", "logicalType": logical}),
    }
    dev.create(topic)
    with DevRegistry() as one, SchemaRegistry(one.url) as registry:
        schema_id = registry.register(f"{topic}-value", Schema(json.dumps(typed))).id
        serializer = AvroSerializer(registry, json.dumps(plain))
        for ms, ns, local in ((1, 2000, 3000), (2**62, 0, 0), (0, 1, 0), (0, 0, 1), (-1, -2000, -3000)):
            value = serializer.serialize({"ms": ms, "ns": ns, "local": local}, "plain")
            dev.produce(topic, {"value": b"\0" + schema_id.to_bytes(4, "big") + value[5:]})
        given = options(registry, topic, flatten="true")
        with pytest.raises(PythonException, match=rf"{topic}-0 at offset 1.*field ms"):
            dev.read(**given).collect()
        rows = dev.read(**given, onError="column").orderBy("offset")
        whys = [row.value_error for row in rows.collect()]
        assert [why and why.rpartition("field ")[2].partition(",")[0] for why in whys] == [
            None,
            "ms",
            "ns",
            "local",
            None,
        ]
        micros = rows.selectExpr(
            "unix_micros(ms) ms", "unix_micros(ns) ns", "unix_micros(cast(local as timestamp)) local"
        )
        assert [tuple(row) for row in micros.collect()] == [(1000, 2, 3), *[(None,) * 3] * 3, (-1000, -2, -3)]
        assert dev.read(**given, onError="null").where("ms is null").count() == 3


def test_a_schema_that_changes_after_load_asks_for_another_load(kafka, registry, topic):
    kafka.create(topic)
    send(kafka, registry, topic, {"id": 1})
    frame = kafka.read(**options(registry, topic))
    newer = {**ORDER, "fields": [*ORDER["fields"], {"name": "new", "type": "int", "default": 0}]}
    send(kafka, registry, topic, {"id": 2}, schema=newer)
    with pytest.raises(Exception, match=r"call load\(\) again"):
        frame.collect()
    assert kafka.read(**options(registry, topic)).count() == 2


def test_typed_columns_are_written_with_a_derived_or_given_schema(kafka, registry, topic, spark, tmp_path):
    rows = spark.sql("select id, concat('n', id) note, named_struct('sku', 's') line from range(3)")
    write = {k: v for k, v in options(registry, topic).items() if k != "subscribe"}
    kafka.create(topic)
    kafka.write(rows, topic=topic, **write)
    back = (
        kafka.read(**options(registry, topic, flatten="true")).orderBy("id").select("id", "note", "line.sku").collect()
    )
    assert [tuple(row) for row in back] == [(i, f"n{i}", "s") for i in range(3)]
    kafka.write(rows.selectExpr("struct(id, note, line) value"), topic=topic, **write, **{"value.schema": "latest"})
    assert kafka.read(**options(registry, topic)).count() == 6
    source = kafka.stream(**options(registry, topic, flatten="true", startingOffsets="earliest", columns="value"))
    kafka.create(f"{topic}-copy")
    copy = {"topic": f"{topic}-copy", "delivery": "exactly-once", "record.columns": "VALUE_is_null", **write}
    kafka.run(source, tmp_path, **copy)
    assert kafka.read(**options(registry, f"{topic}-copy")).count() == 6


def test_the_example_of_the_page_runs(kafka, registry, topic, spark, capsys):
    page = (Path(__file__).parents[2] / "docs" / "registry-columns.md").read_text(encoding="utf-8")
    (code,) = (
        part.partition("```")[0] for part in page.split("```python\n") if part.startswith("orders = (\n    spark")
    )
    with klamm.Producer(kafka.bootstrap) as producer:
        table = pa.table({"id": [1, 2], "note": ["fragile", None]})
        producer.send_arrow(topic, table, value_format="avro", registry=registry)
    code = code.replace("localhost:9092", kafka.bootstrap).replace("typed-orders", topic)
    code = code.replace("http://localhost:8081", registry._settings.urls[0])
    exec(compile(code, "docs/registry-columns.md", "exec"), {"spark": spark})  # noqa: S102 - our own page
    assert "fragile" in capsys.readouterr().out


def test_columns_become_parts_of_a_record_only_on_request(dev, topic, spark):
    rows = spark.sql(
        "select 1L id, timestamp '2024-01-02 12:00:00' timestamp, 7 partition, 'x' Topic, 9L offset, 'k' KEY"
    )
    dev.create(topic)
    dev.create(f"{topic}-2")
    with DevRegistry() as one, SchemaRegistry(one.url) as registry:
        given = {"topic": topic, **options(registry, topic)}
        del given["subscribe"]
        dev.write(rows, **given)
        (record,) = dev.records(topic)
        schema = json.loads(registry.get_version(f"{topic}-value").schema.text)
        assert [field["name"] for field in schema["fields"]] == [
            "id",
            "timestamp",
            "partition",
            "Topic",
            "offset",
            "KEY",
        ]
        assert (record.key, record.partition) == (None, 0)

        parts = rows.withColumn("partition", lit(0)).withColumn("Topic", lit(f"{topic}-2"))
        del given["topic"]
        dev.write(parts, **given, **{"record.columns": "key, timestamp,PARTITION,topic"})
        (record,) = dev.records(f"{topic}-2")
        schema = json.loads(registry.get_version(f"{topic}-2-value").schema.text)
        assert [field["name"] for field in schema["fields"]] == ["id", "offset"]
        assert (record.key, record.timestamp_ms) == (b"k", 1_704_196_800_000)

        for columns, more, why in (
            ("1.5D value, 'a' sensor", {"topic": topic}, "column `sensor`"),
            ("1.5D value, 9L offset", {"topic": topic}, "column `offset`"),
            ("1.5D value, 9L timestampType", {"topic": topic}, "column `timestampType`"),
            ("1 id", {"topic": topic, "record.columns": "key"}, "no column `key`"),
            ("1 id, 2 key", {"topic": topic, "record.columns": "key"}, "key attribute type must be a"),
            ("1 id", {}, "topic"),
            ("'t' topic, 1 id", {}, "topic"),
            ("1 new", {"topic": topic, "auto.register.schemas": "false"}, "40403"),
        ):
            with pytest.raises(Exception, match=why):
                dev.write(spark.sql(f"select {columns}"), **given, **more)
        assert len(registry.versions(f"{topic}-value")) == 1
        # A frame that klamm has read is written as it is.
        copied = dev.read(**options(registry, topic))
        dev.write(copied, topic=f"{topic}-2", **given)
        assert dev.read(**options(registry, f"{topic}-2", flatten="true")).where("id = 1").count() == 2


def test_only_the_named_fields_are_decoded(dev, topic):
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": "long"} for name in ("Id", "offset", "x")],
    }
    dev.create(topic)
    with DevRegistry() as one, SchemaRegistry(one.url) as registry:
        serializer = AvroSerializer(registry, json.dumps(schema))
        with klamm.Producer(dev.bootstrap, value_serializer=serializer) as producer:
            producer.send(topic, {"Id": 7, "offset": 8, "x": 9})
        given = options(registry, topic, **{"value.fields": "OFFSET, id"})
        assert (
            dev.read(**given, columns="value").schema.simpleString() == "struct<value:struct<Id:bigint,offset:bigint>>"
        )
        flat = dev.read(**given, flatten="true", columns="Offset,VALUE")
        assert flat.columns == ["offset", "Id", "value_offset", "value_is_null"]
        assert [tuple(row) for row in flat.where("ID = 7").select("iD", "value_offset").collect()] == [(7, 8)]
        with pytest.raises(Exception, match="no field 'new'"):
            dev.read(**{**given, "value.fields": "new"})


def test_avro_records_that_contain_themselves_become_columns_and_text(dev, topic):
    time = {"type": "long", "logicalType": "timestamp-millis"}
    kinds = {"at": time, "next": ["null", "R"]}
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    value = None
    for ms in (3, 2, 1):
        value = {"at": dt.datetime.fromtimestamp(ms / 1000, dt.timezone.utc), "next": value}
    dev.create(topic)
    with DevRegistry() as one, SchemaRegistry(one.url) as registry:
        with klamm.Producer(dev.bootstrap, value_serializer=AvroSerializer(registry, json.dumps(schema))) as producer:
            producer.send(topic, value)
        rows = dev.read(**options(registry, topic, flatten="true", columns="value", recursionDepth="1"))
        assert rows.select("next").schema.simpleString() == "struct<next:struct<at:timestamp,next:string>>"
        parsed = rows.selectExpr("from_json(next.next, 'at timestamp, next string') r").selectExpr("unix_millis(r.at)")
        assert [tuple(row) for row in parsed.collect()] == [(3,)]
        rows = dev.read(**options(registry, topic, columns="value", **{"value.fields": "at"}))
        assert rows.schema.simpleString() == "struct<value:struct<at:timestamp>>"
        assert rows.selectExpr("unix_millis(value.at)").first()[0] == 1


def test_bad_records_are_errors_nulls_or_columns(kafka, registry, topic):
    send(kafka, registry, topic, {"id": 1})
    kafka.produce(topic, {"value": b"bad"})
    with pytest.raises(PythonException, match=f"{topic}-0 at offset 1"):
        kafka.read(**options(registry, topic)).collect()
    assert kafka.read(**options(registry, topic, onError="null")).where("value is null").count() == 1
    rows = kafka.read(**options(registry, topic, onError="column")).orderBy("offset").collect()
    assert (rows[0].value_error, bytes(rows[1].value_raw)) == (None, b"bad")
    assert "first byte is 98" in rows[1].value_error


def test_json_without_a_registry_takes_a_json_schema(kafka, topic):
    kafka.produce(topic, {"value": b'{"a": 1, "b": [true]}'})
    schema = json.dumps({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "boolean"}}}})  # fmt: skip
    frame = kafka.read(subscribe=topic, **{"value.format": "json", "value.schema": schema, "flatten": "true"})
    assert frame.select("a", "b").collect() == [(1, [True])]


def test_json_without_a_registry_takes_columns_in_ddl(kafka, topic):
    kafka.produce(topic, {"value": b'{"a": 1, "b": {"c": "1.50"}, "t": "2026-01-02T03:04:05Z"}'})
    schema = "a INT, b STRUCT<c: DECIMAL(4,2)>, t timestamp_ntz, m MAP<STRING, SMALLINT>"
    frame = kafka.read(subscribe=topic, **{"value.format": "json", "value.schema": schema, "flatten": "true"})
    assert frame.select("a", "b", "t", "m").schema.simpleString() == (
        "struct<a:int,b:struct<c:decimal(4,2)>,t:timestamp_ntz,m:map<string,smallint>>"
    )
    row = frame.first()
    assert (row.a, str(row.b.c), row.t, row.m) == (1, "1.50", dt.datetime(2026, 1, 2, 3, 4, 5), None)  # noqa: DTZ001


def test_protobuf_types_that_spark_lacks_become_larger_ones(kafka, registry, topic):
    text = 'syntax = "proto3"; message M { uint32 a = 1; uint64 b = 2; repeated string c = 3; }'
    schema_id = registry.register(f"{topic}-value", Schema(text, "PROTOBUF")).id
    kafka.produce(topic, {"value": b"\0" + schema_id.to_bytes(4, "big") + b"\0\x08\x07\x10" + b"\xff" * 9 + b"\x01"})
    frame = kafka.read(**options(registry, topic, flatten="true", **{"value.format": "protobuf"}))
    assert frame.select("a", "b", "c").dtypes == [("a", "bigint"), ("b", "decimal(20,0)"), ("c", "array<string>")]
    assert [(row.a, int(row.b), row.c) for row in frame.collect()] == [(7, 2**64 - 1, [])]


@pytest.mark.parametrize("kind", FORMATS)
def test_spark_reads_and_writes_what_confluent_kafka_writes_and_reads(kafka, registry, topic, kind):
    plain = {"value.format": kind, "schema.registry.url": registry._settings.urls[0]}
    with SchemaRegistryClient({"url": registry._settings.urls[0]}) as other:
        produced(kafka.bootstrap, topic, serializer(other, kind), ROWS)
        frame = kafka.read(subscribe=topic, flatten="true", columns="offset,value", **plain).orderBy("offset")
        frame = frame.drop("value_is_null")
        rows = [row.asDict(recursive=True) for row in frame.drop("offset").collect()]
        assert [{**row, "at": row["at"].replace(tzinfo=dt.timezone.utc)} for row in rows] == ROWS
        schema = registry.get_version(f"{topic}-value").schema
        registry.register(f"{topic}-copy-value", schema)
        written = frame.drop("offset").coalesce(1).selectExpr("*", "0 as partition")
        kafka.write(
            written, topic=f"{topic}-copy", **plain, **{"value.schema": "latest", "record.columns": "partition"}
        )
        found = consumed(kafka.bootstrap, f"{topic}-copy", deserializer(other, kind), len(ROWS))
    assert sorted((message.value() for message in found), key=lambda row: -row["id"]) == ROWS


AVRO_AT = {"value.format": "avro", "schema.registry.url": "http://localhost:1"}


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"value.format": "xml"}, "value.format"),
        ({"value.format": "avro", "schema.registry.bearer.auth.token": "hunter2"}, "schema.registry.url' is missing"),
        ({**AVRO_AT, "schema.registry.basic.auth.user.info": "a:hunter2"}, "basic.auth.user.info' is not accepted"),
        ({**AVRO_AT, "schema.registry.proxy": "http://a:hunter2@h:1"}, "proxy' has credentials"),
        ({"schema.registry.url": "http://localhost:1"}, "value.format"),
        ({"flatten": "true"}, "value.format"),
        ({"value.format": "json", "value.schema": "infer"}, "infer"),
        ({"value.format": "json", "value.schema": "id bigint, note strin"}, "unknown type strin"),
        ({**AVRO_AT, "onError": "skip"}, "onError"),
        ({"value.format": "avro"}, "needs a registry"),
    ],
)
def test_wrong_options_are_named_and_secrets_are_not(more, why):
    source = KlammDataSource({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", **more})
    with pytest.raises(ConfigError, match=why) as raised:
        source.schema()
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


def test_credentials_are_not_shown(kafka, topic, capfd):
    kafka.create(topic)
    secret = f"s{uuid.uuid4().hex}"
    with (
        DevRegistry(users={"alice": secret}) as one,
        SchemaRegistry(one.url, basic_auth_user_info=f"alice:{secret}") as client,
    ):
        client.register(f"{topic}-value", Schema(json.dumps(ORDER)))
        with_password = one.url.replace("://", f"://alice:{secret}@")
        given = options(client, topic, **{"schema.registry.url": with_password})
        frame = kafka.read(**given)
        frame.explain(extended=True)
        assert frame.count() == 0
        shown = repr(read_options({**given, "kafka.bootstrap.servers": "x"}))
        wrong = options(client, topic, **{"schema.registry.url": with_password.replace(secret, f"{secret}wrong")})
        with pytest.raises(Exception, match="401") as raised:
            kafka.read(**wrong)
    out = "".join(capfd.readouterr())
    for text in (shown, out, "".join(traceback.format_exception(raised.value))):
        assert secret not in text


def test_values_with_rules_are_neither_read_nor_written(dev, topic, spark):
    rules = {"domainRules": [{"name": "secret", "kind": "TRANSFORM", "type": "ENCRYPT", "mode": "WRITEREAD"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    dev.create(topic)
    with DevRegistry() as one, SchemaRegistry(one.url) as registry:
        registry.register(f"{topic}-value", Schema(json.dumps(schema), rule_set=rules))
        given, rows = options(registry, topic), spark.sql("select 7L id")
        write = {"topic": topic, "value.schema": "latest", **given}
        del write["subscribe"]
        with pytest.raises(Exception, match="rule 'secret' of type ENCRYPT"):
            dev.write(rows, **write)
        with pytest.raises(Exception, match="rule 'secret' of type ENCRYPT"):
            dev.read(**given)
        ignored = {"schema.registry.rules": "ignore"}
        dev.write(rows, **write, **ignored)
        assert dev.read(**given, **ignored, flatten="true").first().id == 7


COLLIDING = ("Key", "Topic", "Partition", "OFFSET", "Timestamp", "timestampType", "timestamp_type", "headers", "value_error")  # fmt: skip


def test_fields_with_the_names_of_columns_are_read_and_filtered_as_fields(dev, topic):
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": "long"} for name in COLLIDING]}
    dev.create(topic)
    with DevRegistry() as one, SchemaRegistry(one.url) as registry:
        serializer = AvroSerializer(registry, json.dumps(schema))
        with klamm.Producer(dev.bootstrap, value_serializer=serializer) as producer:
            for base in (100, 0):
                producer.send(topic, {name: base + at for at, name in enumerate(COLLIDING)})
        given = options(registry, topic, flatten="true", onError="column", includeHeaders="true")
        frame = dev.read(**given).orderBy("offset")
        assert [row.offset for row in frame.collect()] == [0, 1]
        names = [f"value_{name}" for name in COLLIDING]
        assert [tuple(row) for row in frame.select(*names).collect()] == [
            tuple(base + at for at in range(len(COLLIDING))) for base in (100, 0)
        ]
        # Without klamm's columns, the fields keep their names. A filter on a field must not skip offsets.
        alone = dev.read(**{**given, "onError": "raise", "includeHeaders": "false"}, columns="value")
        assert alone.columns == [*COLLIDING, "value_is_null"]
        assert sorted(row.OFFSET for row in alone.collect()) == [3, 103]
        assert [row.Key for row in alone.where("OFFSET = 103 and Partition = 102").collect()] == [100]


def test_an_option_names_the_protobuf_message(kafka, registry, topic):
    text = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; } message Order { string customer = 1; }'
    chosen = {"value.format": "protobuf", "value.message": "shop.Order"}
    frame = kafka.spark.createDataFrame([("anna",)], "customer string")
    url = {"schema.registry.url": registry._settings.urls[0]}
    kafka.write(frame, topic=topic, **{"value.schema": text, **chosen, **url})
    assert registry.get_version(f"{topic}-value").schema.text.count("message") == 2
    found = kafka.read(**options(registry, topic, flatten="true", **chosen))
    assert [row.customer for row in found.collect()] == ["anna"]
    with pytest.raises(ConfigError, match=r"value\.message"):
        read_options({**options(registry, topic), "kafka.bootstrap.servers": kafka.bootstrap, "value.message": "Order"})
