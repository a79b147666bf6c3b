"""`klamm schemas`, and keys and values with schemas in `klamm consume`, `klamm produce` and `klamm decode`."""

from __future__ import annotations

import json
import math
import uuid

import pytest

import klamm
from cli_process import klamm as run
from klamm.registry import AvroDeserializer, AvroSerializer, JsonSerializer, Schema, SchemaRegistry
from klamm.registry.dev import DevRegistry
from klamm.testing import DevBroker

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "data", "type": ["null", "bytes"], "default": None},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0}]})  # fmt: skip
LINE = {"id": 7, "data": "AP8=", "at": "2024-01-02T03:04:05.678000+00:00"}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; }'


@pytest.fixture(scope="module")
def cluster():
    with DevBroker(schema_registry=True) as broker, SchemaRegistry(broker.schema_registry.url) as registry:
        yield broker, registry


@pytest.fixture
def topic():
    return f"t{uuid.uuid4().hex}"


@pytest.fixture
def cli(cluster):
    """Run a command with the broker or the registry, and return its exit code, output and errors."""
    broker, _ = cluster

    def call(*words, stdin=""):
        connection = ("--registry", broker.schema_registry.url)
        if words[0] in ("produce", "consume"):
            connection += ("-b", broker.bootstrap_servers)
        done = run(*words, *connection, stdin=stdin.encode())
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return call


def test_lines_of_json_become_values_and_are_printed_again(cluster, cli, topic, tmp_path):
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    line = json.dumps(LINE)
    code, _, errors = cli("produce", topic, "--value", "avro", "--schema", str(file), stdin=f"{line}\n{line}\n")
    assert (code, errors) == (0, "")
    code, out, _ = cli("consume", topic, "--value", "avro", "--exit")
    assert (code, [json.loads(each) for each in out.splitlines()]) == (0, [LINE] * 2)
    code, out, _ = cli("consume", topic, "--value", "avro", "--exit", "--json", "--max", "1")
    assert json.loads(out)["value"] == LINE
    code, out, _ = cli("consume", topic, "--value", "avro", "--exit", "--format", r"%o %v\n", "--max", "1")
    assert json.loads(out.removeprefix("0 ")) == LINE
    _, registry = cluster
    assert registry.get_version(f"{topic}-value").schema.text.replace(" ", "") == ORDER.replace(" ", "")
    code, _, _ = cli("produce", topic, "--value", "avro", "--schema", "latest", stdin=f"{line}\n")
    assert code == 0
    found = klamm.read_table(cluster[0].bootstrap_servers, topic, value_format="avro", registry=registry)
    assert found["value"].to_pylist()[2]["data"] == b"\x00\xff"


@pytest.mark.parametrize(("kind", "name", "text"), [
    ("json", "order.json", '{"type": "object", "properties": {"id": {"type": "integer"}}}'),
    ("protobuf", "order.proto", PROTO),
])  # fmt: skip
def test_other_formats(cli, topic, tmp_path, kind, name, text):  # noqa: PLR0917
    file = tmp_path / name
    file.write_text(text)
    keys = ("--key-separator", "|", "--key-format", "json", "--key-schema", str(tmp_path / "key.json"))
    (tmp_path / "key.json").write_text('{"type": "integer"}')
    code, _, errors = cli("produce", topic, "--value", kind, "--schema", str(file), *keys, stdin='5|{"id": 1}\n')
    assert (code, errors) == (0, "")
    code, out, _ = cli("consume", topic, "--value", kind, "--key-format", "json", "--exit", "--json")
    found = json.loads(out)
    assert (found["key"], int(found["value"]["id"])) == (5, 1)


EXACT = [
    ("avro", "s.avsc", json.dumps({"type": "record", "name": "R", "fields": [
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}},
        {"name": "n", "type": ["null", "string", "bytes", "long"]}]}),
     [('{"amount": 1234567890123456.78, "n": 9223372036854775807}', '{"amount": "1234567890123456.78", "n": 9223372036854775807}'),
      ('{"amount": "0", "n": {"string": "AP8="}}', '{"amount": "0.00", "n": "AP8="}'),
      ('{"amount": -1.5, "n": {"bytes": "AP8="}}', '{"amount": "-1.50", "n": {"bytes": "AP8="}}')]),
    ("avro", "s.avsc", json.dumps([
        {"type": "record", "name": "shop.Started", "fields": [{"name": "job", "type": "long"}]},
        {"type": "record", "name": "shop.Stopped", "fields": [{"name": "job", "type": "long"}]},
        {"type": "record", "name": "shop.Other", "fields": [
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
            {"name": "big", "type": ["null", {"type": "bytes", "logicalType": "big-decimal"}]},
            {"name": "id", "type": ["string", {"type": "fixed", "name": "Id", "size": 16, "logicalType": "uuid"}]}]}]),
     [(line, line) for line in (
        '{"shop.Started": {"job": 1}}', '{"shop.Stopped": {"job": 2}}',
        '{"at": "2026-03-01T12:00:00.000001+00:00", "big": "123456789012345678901234567890.10", "id": "x"}',
        '{"at": "2026-03-01T12:00:00+00:00", "big": null, "id": {"shop.Id": "6a0c2a3f-0f0e-4c1b-9d5f-2b1f3f1f0a01"}}')]),
    ("json", "s.json", '{"type": "object", "properties": {"amount": {"type": "number"}}}',
     [('{"amount": 1234567890123456.78}', '{"amount": 1234567890123456.78}'),
      ('{"amount": 12345678901234567890123456789, "s": "x"}', '{"amount": 12345678901234567890123456789, "s": "x"}')]),
    ("protobuf", "s.proto", 'syntax = "proto3"; message R { uint64 n = 1; double d = 2; bytes b = 3; }',
     [('{"n": 18446744073709551615, "d": "NaN", "b": "AP8="}', '{"n": "18446744073709551615", "d": "NaN", "b": "AP8="}'),
      ('{"n": 12345678901234567.0, "d": 0.1}', '{"n": "12345678901234567", "d": 0.1}')]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "schema", "lines"), EXACT, ids=["avro", "records", "json", "protobuf"])
def test_numbers_stay_exact_and_unions_name_their_branch(cli, topic, tmp_path, kind, name, schema, lines):  # noqa: PLR0917
    file = tmp_path / name
    file.write_text(schema)
    printed = "".join(f"{line}\n" for _, line in lines)
    for given in ("".join(f"{line}\n" for line, _ in lines), printed):
        code, _, errors = cli("produce", topic, "--value", kind, "--schema", str(file), stdin=given)
        assert (code, errors) == (0, "")
    code, out, errors = cli("consume", topic, "--value", kind, "--exit")
    assert (code, errors, out) == (0, "", printed * 2)


def test_a_value_that_does_not_fit_is_an_error(cli, topic, tmp_path):
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    for line, why in [("{", "not JSON"), ('{"id": "x"}', "does not fit")]:
        code, _, errors = cli("produce", topic, "--value", "avro", "--schema", str(file), stdin=f"{line}\n")
        assert (code, why in errors) == (1, True)
    code, _, errors = cli("produce", topic, "--value", "avro", stdin="{}\n")
    assert (code, "--schema" in errors) == (1, True)
    assert cli("produce", topic, stdin="plain\n")[0] == 0
    code, _, errors = cli("consume", topic, "--value", "avro", "--exit")
    assert (code, f"{topic}-" in errors, "offset 0" in errors) == (1, True, True)


def test_decode_reads_framed_values(cluster, cli, tmp_path):
    _, registry = cluster
    data = AvroSerializer(registry, ORDER).serialize({"id": 5}, "decode")
    assert AvroDeserializer(registry).deserialize(data, "decode")["id"] == 5
    code, out, _ = cli("decode", data.hex(), "--value", "avro")
    assert (code, json.loads(out)["value"]["id"]) == (0, 5)
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    done = run(
        "decode", "--value", "avro", "--schema", str(file), stdin=f"{data.hex()}\n{data[:6].hex()}\n00\n".encode()
    )
    first, second, third = (json.loads(line) for line in done.stdout.splitlines())
    assert (done.returncode, first["value"]["id"]) == (1, 5)
    assert "shorter" in second["error"]
    assert "needs 5 bytes" in third["error"]


def test_schemas_are_listed_printed_registered_checked_and_deleted(cluster, cli, topic, tmp_path):
    _, registry = cluster
    file = tmp_path / "order.avsc"
    file.write_text(ORDER)
    code, out, _ = cli("schemas", "register", f"{topic}-value", str(file))
    assert (code, f"{topic}-value" in out) == (0, True)
    found = registry.get_version(f"{topic}-value")
    assert json.loads(cli("schemas", "get", f"{topic}-value", "--json")[1])["id"] == found.id
    assert cli("schemas", "get", str(found.id))[1].replace(" ", "").strip() == ORDER.replace(" ", "")
    assert cli("schemas", "get", f"{topic}-value", "1")[1].replace(" ", "").strip() == ORDER.replace(" ", "")
    assert f"{topic}-value" in cli("schemas", "list")[1].splitlines()
    assert json.loads(cli("schemas", "list", f"{topic}-value", "--json")[1])["versions"] == [1]
    assert cli("schemas", "check", f"{topic}-value", str(file))[:2] == (0, "compatible\n")
    file.write_text(ORDER.replace('"long"}, {"name": "data"', '"string"}, {"name": "data"'))
    code, out, _ = cli("schemas", "check", f"{topic}-value", str(file))
    assert (code, out.startswith("not compatible\n")) == (1, True)
    assert cli("schemas", "config", f"{topic}-value", "--set", "none")[1] == "NONE\n"
    assert cli("schemas", "config")[1] == "BACKWARD\n"
    assert cli("schemas", "register", f"{topic}-value", str(file))[0] == 0
    assert "would delete version 2" in cli("schemas", "delete", f"{topic}-value", "2", "--dry-run")[1]
    assert (
        cli("schemas", "delete", f"{topic}-value", "2", "--yes")[1] == f"deleted version 2 of subject {topic}-value\n"
    )
    assert json.loads(cli("schemas", "delete", f"{topic}-value", "--permanent", "--json", "--yes")[1])["deleted"] == [
        1,
        2,
    ]
    code, _, errors = cli("schemas", "get", f"{topic}-value")
    assert (code, "hint" in errors or topic in errors) == (1, True)


def test_a_reference_and_a_type_are_given_as_options(cluster, cli, topic, tmp_path):
    _, registry = cluster
    registry.register(
        f"{topic}-address", Schema('syntax = "proto3"; message Address { string street = 1; }', "PROTOBUF")
    )
    file = tmp_path / "person"
    file.write_text('syntax = "proto3"; import "address.proto"; message Person { Address home = 1; }')
    options = ("--type", "protobuf", "--reference", f"address.proto={topic}-address:1")
    assert cli("schemas", "register", topic, str(file), *options)[0] == 0
    assert registry.get_version(topic).schema.references[0].subject == f"{topic}-address"
    assert cli("schemas", "register", topic, str(file), "--reference", "x")[0] == 2


def test_credentials_are_options_that_no_error_shows():
    with DevRegistry(users={"alice": "s3cret"}) as dev:
        for password, code in (("s3cret", 0), ("s3cretwrong", 1)):
            done = run("schemas", "list", "--registry", dev.url, "-R", f"basic.auth.user.info=alice:{password}")
            assert done.returncode == code
            assert b"s3cret" not in done.stdout + done.stderr
    done = run("schemas", "list")
    assert (done.returncode, b"--registry" in done.stderr) == (1, True)


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_each_line_is_json(cluster, cli, topic, form):
    broker, registry = cluster
    key = AvroSerializer(registry, '{"type": "array", "items": "double"}')
    value = JsonSerializer(registry, "true")
    with klamm.Producer(broker.bootstrap_servers) as producer:
        data = value.serialize("\u00e9", topic)
        numbers = [math.nan, math.inf, -math.inf, 1.5]
        producer.send(topic, data, key=key.serialize(numbers, topic, "key"), headers=[("h", b"\xff")]).result(10)

    def refuse(text):
        raise AssertionError(f"{text} is not JSON")

    typed = ("--value", "json", "--key-format", "avro")
    code, out, errors = cli("consume", topic, *typed, "--exit", *(form or ("--format", r"%v\n%k\n")))
    found = [json.loads(line, parse_constant=refuse) for line in out.splitlines()]
    assert (code, errors) == (0, "")
    if form:
        found = [found[0]["value"], found[0]["key"]]
    assert found == ["\u00e9", ["NaN", "Infinity", "-Infinity", 1.5]]
