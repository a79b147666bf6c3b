"""Errors of `klamm produce` name the line of the input, and the records before the line are sent."""

from __future__ import annotations

import json

import pytest

import klamm
from klamm.cli import main
from klamm.testing import DevBroker

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}, {"name": "l", "type": {
    "type": "array", "items": "int"}, "default": []}]})  # fmt: skip
TYPED = ("--value", "avro", "--schema", "{schema}")


@pytest.fixture(scope="module")
def cluster():
    with DevBroker(schema_registry=True) as broker:
        yield broker


@pytest.fixture
def produce(cluster, tmp_path, capfd):
    """Send a file, and return the exit code, the errors, and the number of records that the topic has."""
    (tmp_path / "schema.avsc").write_text(SCHEMA)

    def call(topic, text, *options):
        (tmp_path / "in").write_bytes(text)
        options = [each.format(schema=tmp_path / "schema.avsc") for each in options]
        connection = ("-b", cluster.bootstrap_servers, "--registry", cluster.schema_registry.url)
        code = main(["produce", topic, str(tmp_path / "in"), *options, *connection])
        errors = capfd.readouterr().err.replace(f"{tmp_path / 'in'}, ", "")
        with klamm.Admin(cluster.bootstrap_servers) as admin:
            if topic not in admin.list_topics():
                return code, errors, 0
        with klamm.Consumer(cluster.bootstrap_servers) as consumer:
            return code, errors, sum(consumer.end_offsets([klamm.TopicPartition(topic, 0)]).values())

    return call


@pytest.mark.parametrize(("text", "options", "line", "why"), [
    (b'{"n": 1}\n{"n": 2}\n{"n": "x"}\n', TYPED, 3, '"x" is not of type long (field n'),
    (b'{"n": 1}\n{"n": 2, "l": [1, "x"]}\n{}\n', TYPED, 2, "field l[1]"),
    (b'{"n": 1}\n{"n": 1}\n\n{"n": 1}', TYPED, 3, "is not JSON"),
    (b'{"n": 1}\n{"n": 1', TYPED, 2, "is not JSON"),
    (b"1|2\nx|3\n", ("--key-separator", "|", "--key-format", "avro", "--key-schema", "{schema}"), 1, "fit the Avro schema"),
    (b'\n\n{"value": "a"}\n\n{"value": }\n', ("--json-lines",), 5, "not JSON"),
    (b'{"value": "a"}\n{"valve": "b"}\n', ("--json-lines",), 2, "no field 'value'"),
    (b'{"value": {"n": 1}}\n{"value": {"n": []}}\n', ("--json-lines", *TYPED), 2, "not of type long"),
    (b"a:b#1\na#2\n", ("--header-separator", "#"), 2, "a header has no name or value"),
    (b"a:b#1\na:b#1\nxxx\n", ("--header-separator", "#"), 3, "a line has no headers"),
    (b'{"n": 1};{"n":\n1};{"n":\n"x"};', ("-D", ";", *TYPED), 2, "not of type long"),
])  # fmt: skip
def test_the_error_names_the_line(produce, topic, text, options, line, why):  # noqa: PLR0917
    code, errors, count = produce(topic, text, *options)
    assert (code, errors.startswith(f"klamm: line {line}: ")) == (1, True), errors
    assert why in errors
    before = text.split(b"\n")[: line - 1] if "-D" not in options else text.split(b";")[:2]
    assert count == sum(1 for each in before if each)


def test_lines_are_counted_over_chunks_of_the_file(produce, topic):
    lines = [b'{"value": "%s"}' % (b"x" * 1000)] * 1000
    code, errors, count = produce(topic, b"\n".join([*lines, b"bad", *lines]), "--json-lines")
    assert (code, count) == (1, 1000)
    assert "line 1001: a line is not JSON" in errors
    assert "the records before this line were sent" in errors


def test_a_transaction_with_a_bad_line_sends_nothing(produce, topic, cluster):
    code, errors, _ = produce(topic, b'{"value": "a"}\nbad\n', "--json-lines", "--transactional-id", topic)
    assert (code, "line 2" in errors, "were sent" in errors) == (1, True, False)
    with klamm.Consumer(cluster.bootstrap_servers, isolation_level="read_committed") as consumer:
        end = sum(consumer.end_offsets([klamm.TopicPartition(topic, 0)]).values())
        consumer.assign([klamm.TopicPartition(topic, 0, 0, end)])
        assert list(consumer) == []


def test_printed_records_with_schemas_can_be_sent_again(cluster, produce, topic, tmp_path, capfd):
    lines = [
        {
            "key": "k",
            "value": {"n": 1, "l": []},
            "headers": [{"name": "h", "value": "/w==", "value_encoding": "base64"}],
        },
        {"key": "5", "value": None},
        {"key": 5, "value": {"n": 2, "l": [3]}},
    ]
    text = "".join(f"{json.dumps(each)}\n" for each in lines).encode()
    (tmp_path / "key.json").write_text("true")
    keys = ("--key-format", "json", "--key-schema", str(tmp_path / "key.json"))
    printed = []
    for name in (f"{topic}-a", f"{topic}-b"):
        assert produce(name, text, "--json-lines", *TYPED, *keys) == (0, "", 3)
        connection = ("-b", cluster.bootstrap_servers, "--registry", cluster.schema_registry.url)
        assert main(["consume", name, "--exit", "--json", "--value", "avro", "--key-format", "json", *connection]) == 0
        text = capfd.readouterr().out.encode()
        printed.append([{**json.loads(line), "topic": ""} for line in text.splitlines()])
    assert printed[0] == printed[1]
    assert [{name: each[name] for name in ("key", "value")} for each in printed[0]] == [
        {name: each[name] for name in ("key", "value")} for each in lines
    ]
    assert produce(f"{topic}-c", b'{"n": 1}\n', *TYPED, *keys, "--key", '"k"') == (0, "", 1)
    assert main(["consume", f"{topic}-c", "--exit", "-f", "%k", "--key-format", "json", *connection]) == 0
    assert capfd.readouterr().out == '"k"'


@pytest.mark.parametrize(("name", "content", "kind", "why"), [
    ("s.avsc", b'{"type": "record"', "avro", "s.avsc: the Avro schema is invalid: not JSON: "),
    ("s.avsc", b'{"type": "record", "name": "R", "fields": [{"name": "n", "type": "lnog"}]}', "avro", "s.avsc: the Avro schema"),
    ("s.json", b'{"type": "objct"}', "json", "s.json: the JSON Schema is invalid"),
    ("s.proto", b"message {", "protobuf", "s.proto: cannot parse the Protobuf schema"),
    ("s.bin", b"\xff\xfe", "avro", "s.bin: the file is not UTF-8 text"),
    ("latest", b"", "avro", "schemas register {topic}-value FILE"),
])  # fmt: skip
def test_a_schema_that_cannot_be_used_is_named(produce, topic, tmp_path, name, content, kind, why):  # noqa: PLR0917
    (tmp_path / name).write_bytes(content)
    schema = "latest" if name == "latest" else str(tmp_path / name)
    code, errors, count = produce(topic, b"{}\n", "--value", kind, "--schema", schema)
    assert (code, count, why.format(topic=topic) in errors) == (1, 0, True), errors
    assert errors.count("klamm: ") == 1


def test_a_schema_of_another_type_and_a_missing_subject_have_hints(cluster, produce, topic, capfd):
    assert produce(topic, b'{"n": 1}\n', *TYPED)[0] == 0
    _, errors, _ = produce(topic, b'{"n": 1}\n', "--value", "json", "--schema", "latest")
    assert "hint: pass --value avro" in errors
    assert main(["schemas", "get", f"{topic}-x", "--registry", cluster.schema_registry.url]) == 1
    assert "klamm schemas list" in capfd.readouterr().err
    assert main(["consume", topic, "--skip-errors", "-b", cluster.bootstrap_servers]) == 2
    assert "--skip-errors needs --value" in capfd.readouterr().err
