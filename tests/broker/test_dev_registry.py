"""The schema registry of the dev broker: other clients, compatibility, what it keeps, and what it does with bad requests."""

from __future__ import annotations

import http.client
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import avro.compatibility
import avro.schema
import pytest
from confluent_kafka.schema_registry import (
    ConfigCompatibilityLevel,
    SchemaReference,
    SchemaRegistryClient,
    ServerConfig,
)
from confluent_kafka.schema_registry import Schema as ConfluentSchema
from confluent_kafka.schema_registry.error import SchemaRegistryError as ConfluentError

import klamm.registry
from cli_process import started
from klamm.errors import ConfigError
from klamm.registry import Schema, SchemaNotFoundError, SchemaRegistry
from klamm.registry.dev import DevRegistry
from klamm.registry.dev.avro import Avro
from klamm.registry.dev.avro import incompatibilities as avro_incompatibilities
from klamm.registry.dev.json_schema import Json
from klamm.registry.dev.json_schema import incompatibilities as json_incompatibilities
from klamm.registry.dev.protobuf import Protobuf
from klamm.registry.dev.protobuf import incompatibilities as protobuf_incompatibilities
from klamm.testing import DevBroker


@pytest.fixture
def dev():
    with DevRegistry() as running:
        yield running


def test_the_registry_of_a_cluster_starts_and_stops_with_it():
    with DevBroker(schema_registry=True) as broker:
        with SchemaRegistry(broker.schema_registry.url) as client:
            assert client.register("s", Schema('"string"')).version == 1
        url = broker.schema_registry.url
    assert broker.schema_registry.url == ""
    with (
        SchemaRegistry(url, max_retries=0) as client,
        pytest.raises(klamm.registry.RegistryUnavailableError),
    ):
        client.subjects()
    with DevBroker() as broker, pytest.raises(ConfigError, match="no schema registry"):
        broker.schema_registry  # noqa: B018


def test_the_registry_of_a_cluster_with_tls_uses_its_certificates():
    with DevBroker(schema_registry=True, tls=True, client_auth=True) as broker:
        certificate, key = broker.client_certificate()
        with SchemaRegistry(
            broker.schema_registry.url,
            ssl_ca_location=broker.ca_location,
            ssl_certificate_location=certificate,
            ssl_key_location=key,
        ) as client:
            assert client.subjects() == []


def test_a_port_that_is_taken_is_an_error_and_stops_the_cluster():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        broker = DevBroker(schema_registry=taken.getsockname()[1])
        with pytest.raises(ConfigError, match="cannot listen"):
            broker.start()
        assert broker.bootstrap_servers == ""


def test_data_dir_keeps_schemas_configuration_and_deletions(tmp_path):
    with (
        DevBroker(schema_registry=True, data_dir=tmp_path) as broker,
        SchemaRegistry(broker.schema_registry.url) as one,
    ):
        first = one.register("s", Schema('"string"'))
        one.set_config("FULL", "s")
        one.set_mode("READONLY", "t")
        one.register("u", Schema('"long"'))
        one.delete_subject("u")
    with (
        DevBroker(schema_registry=True, data_dir=tmp_path) as broker,
        SchemaRegistry(broker.schema_registry.url) as one,
    ):
        assert one.get_by_id(first.id).schema.text == '"string"'
        assert one.get_config("s")["compatibilityLevel"] == "FULL"
        assert one.get_mode("t") == "READONLY"
        assert one.subjects() == ["s"]
        assert one.subjects(deleted=True) == ["s", "u"]
        assert one.register("v", Schema('"int"')).id == 3


def test_the_command_prints_the_address_of_the_registry():
    with started("dev-broker", "--schema-registry", "0", "--json") as running:
        url = json.loads(running.stdout.readline())["schema.registry.url"]
        with SchemaRegistry(url) as client:
            assert client.subjects() == []


class TestConfluentsClient:
    """confluent-kafka's client works unmodified."""

    AVRO = '{"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}'

    def test_registers_looks_up_and_deletes(self, dev):
        with SchemaRegistryClient({"url": dev.url}) as client:
            schema_id = client.register_schema("s", ConfluentSchema(self.AVRO, "AVRO"))
            assert json.loads(client.get_schema(schema_id).schema_str) == json.loads(self.AVRO)
            found = client.lookup_schema("s", ConfluentSchema(self.AVRO, "AVRO"))
            assert (found.schema_id, found.version) == (schema_id, 1)
            assert client.get_latest_version("s").version == client.get_version("s", 1).version == 1
            assert client.get_schema_by_guid(found.guid).schema_type == "AVRO"
            assert client.get_subjects() == ["s"]
            assert client.get_versions("s") == [1]
            assert client.get_subjects_by_schema_id(schema_id) == ["s"]
            assert [(v.subject, v.version) for v in client.get_schema_versions(schema_id)] == [("s", 1)]
            assert client.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
            assert client.get_contexts() == ["."]
            assert client.delete_version("s", 1) == 1
            assert client.delete_subject("s", permanent=True) == [1]
            with pytest.raises(ConfluentError) as caught:
                client.get_versions("s")
            assert (caught.value.http_status_code, caught.value.error_code) == (404, 40401)

    def test_references_compatibility_configuration_and_mode(self, dev):
        with SchemaRegistryClient({"url": dev.url}) as client:
            client.register_schema("a", ConfluentSchema(self.AVRO, "AVRO"))
            outer = '{"type": "record", "name": "B", "fields": [{"name": "a", "type": "A"}]}'
            schema = ConfluentSchema(outer, "AVRO", [SchemaReference("A", "a", 1)])
            schema_id = client.register_schema("b", schema)
            assert client.get_schema(schema_id).references[0].subject == "a"
            assert client.get_referenced_by("a", 1) == [schema_id]
            wider = ConfluentSchema(self.AVRO.replace('"int"', '"long"'), "AVRO")
            narrower = ConfluentSchema(self.AVRO.replace('"int"', '"string"'), "AVRO")
            assert client.test_compatibility("a", wider)
            assert not client.test_compatibility("a", narrower)
            assert client.test_compatibility_all_versions("a", wider)
            assert client.set_compatibility("a", "full") == {"compatibility": "FULL"}
            assert client.get_compatibility("a") == "FULL"
            assert client.set_config("a", ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
            assert client.get_config("a").compatibility_level == "NONE"
            assert client.update_mode("a", "READONLY") == "READONLY"
            assert client.get_mode("a") == "READONLY"
            assert client.delete_mode("a") == "READONLY"
            assert client.get_global_mode() == "READWRITE"
            client.delete_config("a")
            assert client.get_config().compatibility_level == "BACKWARD"


# Name, reader, writer, and whether the reader can read what the writer wrote.
def _record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def _field(name, kind, **more):
    return {"name": name, "type": kind, **more}


AVRO_PAIRS = [
    ("same", _record(_field("a", "int")), _record(_field("a", "int")), True),
    (
        "new field with default",
        _record(_field("a", "int"), _field("b", "int", default=1)),
        _record(_field("a", "int")),
        True,
    ),
    ("new field without default", _record(_field("a", "int"), _field("b", "int")), _record(_field("a", "int")), False),
    ("field removed", _record(_field("a", "int")), _record(_field("a", "int"), _field("b", "int")), True),
    ("int to long", "long", "int", True),
    ("long to int", "int", "long", False),
    ("float to double", "double", "float", True),
    ("string to bytes", "bytes", "string", True),
    ("bytes to string", "string", "bytes", True),
    ("string to int", "int", "string", False),
    ("union added", ["null", "int"], "int", True),
    ("union removed", "int", ["null", "int"], False),
    ("union widened", ["null", "int", "string"], ["int", "null"], True),
    ("union narrowed", ["null", "int"], ["int", "string"], False),
    ("branch promoted", ["null", "long"], ["null", "int"], True),
    ("array of promoted", {"type": "array", "items": "long"}, {"type": "array", "items": "int"}, True),
    ("array of others", {"type": "array", "items": "int"}, {"type": "array", "items": "string"}, False),
    ("map of promoted", {"type": "map", "values": "double"}, {"type": "map", "values": "int"}, True),
    ("map to array", {"type": "array", "items": "int"}, {"type": "map", "values": "int"}, False),
    (
        "symbol added",
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        {"type": "enum", "name": "E", "symbols": ["A"]},
        True,
    ),
    (
        "symbol removed",
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        False,
    ),
    (
        "symbol removed with default",
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
        {"type": "enum", "name": "E", "symbols": ["A", "B"]},
        True,
    ),
    ("fixed size", {"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 5}, False),
    ("fixed name", {"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "G", "size": 4}, False),
    ("other record", _record(_field("a", "int"), name="Q"), _record(_field("a", "int")), False),
    ("alias of a record", _record(_field("a", "int"), name="Q", aliases=["R"]), _record(_field("a", "int")), True),
    ("alias of a field", _record(_field("b", "int", aliases=["a"])), _record(_field("a", "int")), True),
    ("other namespace", _record(_field("a", "int"), namespace="x"), _record(_field("a", "int"), namespace="y"), True),
    (
        "recursion",
        _record(_field("next", ["null", "R"]), _field("v", "long")),
        _record(_field("next", ["null", "R"]), _field("v", "int")),
        True,
    ),
    (
        "recursion that differs",
        _record(_field("next", ["null", "R"]), _field("v", "int")),
        _record(_field("next", ["null", "R"]), _field("v", "string")),
        False,
    ),
]
JUDGED_OTHERWISE = {"symbol removed with default", "alias of a record", "alias of a field"}
"""Pairs that the checker of Apache Avro for Python does not know."""


@pytest.mark.parametrize(
    ("name", "reader", "writer", "is_compatible"), AVRO_PAIRS, ids=[pair[0] for pair in AVRO_PAIRS]
)
def test_compatibility_of_avro_schemas(name, reader, writer, is_compatible):
    found = avro_incompatibilities(Avro(json.dumps(reader), {}), Avro(json.dumps(writer), {}))
    assert (found == []) == is_compatible, found
    if name not in JUDGED_OTHERWISE:
        judge = avro.compatibility.ReaderWriterCompatibilityChecker()
        result = judge.get_compatibility(avro.schema.parse(json.dumps(reader)), avro.schema.parse(json.dumps(writer)))
        assert (result.compatibility is avro.compatibility.SchemaCompatibilityType.compatible) == is_compatible


def _object(properties, **more):
    return {"type": "object", "properties": properties, **more}


A, B = {"type": "integer"}, {"type": "string"}
CLOSED = {"additionalProperties": False}
JSON_PAIRS = [
    ("same", _object({"a": A}), _object({"a": A}), True),
    ("added to open", _object({"a": A, "b": B}), _object({"a": A}), False),
    ("added to closed", _object({"a": A, "b": B}, **CLOSED), _object({"a": A}, **CLOSED), True),
    ("required added", _object({"a": A}, required=["a"]), _object({"a": A}), False),
    (
        "required added with default",
        _object({"a": {**A, "default": 1}}, required=["a"]),
        _object({"a": {**A, "default": 1}}),
        True,
    ),
    ("required removed", _object({"a": A}), _object({"a": A}, required=["a"]), True),
    ("removed from open", _object({}), _object({"a": A}), True),
    ("removed from closed", _object({}, **CLOSED), _object({"a": A}, **CLOSED), False),
    ("closed", _object({"a": A}, **CLOSED), _object({"a": A}), False),
    ("opened", _object({"a": A}), _object({"a": A}, **CLOSED), True),
    ("integer to number", {"type": "number"}, A, True),
    ("number to integer", A, {"type": "number"}, False),
    ("type to types", {"type": ["integer", "null"]}, A, True),
    ("types to type", A, {"type": ["integer", "null"]}, False),
    ("any to type", A, {}, False),
    ("type to any", {}, A, True),
    ("enum extended", {"enum": [1, 2]}, {"enum": [1]}, True),
    ("enum narrowed", {"enum": [1]}, {"enum": [1, 2]}, False),
    ("maximum raised", {**A, "maximum": 9}, {**A, "maximum": 8}, True),
    ("maximum added", {**A, "maximum": 9}, A, False),
    ("minimum raised", {**A, "minimum": 9}, {**A, "minimum": 8}, False),
    ("items promoted", {"type": "array", "items": {"type": "number"}}, {"type": "array", "items": A}, True),
    ("items changed", {"type": "array", "items": B}, {"type": "array", "items": A}, False),
    ("oneOf extended", {"oneOf": [A, B]}, {"oneOf": [A]}, True),
    ("oneOf narrowed", {"oneOf": [A]}, {"oneOf": [A, B]}, False),
    ("type to oneOf", {"oneOf": [A, B]}, A, True),
    ("ref", {"$ref": "#/definitions/x", "definitions": {"x": {"type": "number"}}}, A, True),
    ("recursion", _object({"n": {"$ref": "#"}}, **CLOSED), _object({"n": {"$ref": "#"}}, **CLOSED), True),
]


@pytest.mark.parametrize(("name", "new", "old", "is_compatible"), JSON_PAIRS, ids=[pair[0] for pair in JSON_PAIRS])
def test_compatibility_of_json_schemas(name, new, old, is_compatible):
    found = json_incompatibilities(Json(json.dumps(new), {}), Json(json.dumps(old), {}))
    assert (found == []) == is_compatible, (name, found)


LEAF = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("reference", "schema"),
    [
        ("#/definitions/leaf", {"definitions": {"leaf": {}}}),
        ("#leaf", {"definitions": {"x": {"$id": "#leaf"}}}),
        ("#leaf", {"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": {"x": {"$anchor": "leaf"}}}),
        ("leaf.json", {"$id": "http://shop/all.json", "definitions": {"x": {"$id": "leaf.json"}}}),
        ("#/definitions/leaf", {"$id": "urn:uuid:1", "definitions": {"leaf": {}}}),
        ("leaf%20one.json", {}),
        ("http://shop/leaf", {}),
        ("leaf one.json#/definitions/inner", {}),
    ],
)
def test_compatibility_of_json_schemas_follows_references(reference, schema):
    def made(leaf):
        main = {**schema, "properties": {"list": {"type": "array", "items": {"$ref": reference}}}}
        for keyword in "definitions", "$defs":
            main |= (
                {keyword: {name: {**leaf, **each} for name, each in main[keyword].items()}} if keyword in main else {}
            )
        other = json.dumps({**leaf, "$id": "http://shop/leaf"} if "http" in reference else leaf)
        inner = json.dumps({"definitions": {"inner": {"$ref": "#/definitions/same"}, "same": leaf}})
        references = {} if schema else {"leaf one.json": inner if "#" in reference else other}
        return Json(json.dumps(main), references)

    changed = {**LEAF, "properties": {"a": {"type": "integer"}}}
    assert json_incompatibilities(made(LEAF), made(LEAF)) == []
    found = json_incompatibilities(made(changed), made(LEAF))
    assert [each.partition(" ")[0] for each in found] == ["TYPE_NARROWED"]


def test_a_json_schema_that_contains_itself_is_compared_once():
    tree = {
        "$ref": "#/definitions/Tree",
        "definitions": {"Tree": {"properties": {"next": {"$ref": "#/definitions/Tree"}}}},
    }
    assert json_incompatibilities(Json(json.dumps(tree), {}), Json(json.dumps(tree), {})) == []


def test_alternatives_in_alternatives_take_no_exponential_time():
    def nested(last):
        def level(at):
            inner = {"$ref": f"#/definitions/{at + 1}"}
            return {"oneOf": [_object({"a": inner}), _object({"b": inner}, **CLOSED), _object({"c": inner})]}

        definitions = {str(at): level(at) for at in range(40)} | {"40": last}
        return Json(json.dumps({"$ref": "#/definitions/0", "definitions": definitions}), {})

    started = time.monotonic()
    assert json_incompatibilities(nested({"type": "number"}), nested({"type": "integer"})) == []
    assert json_incompatibilities(nested({"type": "integer"}), nested({"type": "number"})) != []
    assert time.monotonic() - started < 30


PROTO = 'syntax = "proto3"; package p; '
PROTO_PAIRS = [
    ("same", "message A { int32 a = 1; }", "message A { int32 a = 1; }", True),
    ("field added", "message A { int32 a = 1; string b = 2; }", "message A { int32 a = 1; }", True),
    ("field removed", "message A { }", "message A { int32 a = 1; }", True),
    ("field renamed", "message A { int32 b = 1; }", "message A { int32 a = 1; }", True),
    ("int32 to int64", "message A { int64 a = 1; }", "message A { int32 a = 1; }", True),
    ("int32 to sint32", "message A { sint32 a = 1; }", "message A { int32 a = 1; }", False),
    ("int32 to string", "message A { string a = 1; }", "message A { int32 a = 1; }", False),
    ("string to bytes", "message A { bytes a = 1; }", "message A { string a = 1; }", True),
    ("single to repeated number", "message A { repeated int32 a = 1; }", "message A { int32 a = 1; }", False),
    ("message removed", "message A { }", "message A { } message B { }", False),
    ("message added", "message A { } message B { }", "message A { }", True),
    (
        "type of a field",
        "message A { C a = 1; } message B { } message C { }",
        "message A { B a = 1; } message B { } message C { }",
        False,
    ),
    (
        "oneof field removed",
        "message A { oneof o { int32 a = 1; } }",
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        False,
    ),
    ("one field into a oneof", "message A { oneof o { int32 a = 1; } }", "message A { int32 a = 1; }", True),
    (
        "two fields into a oneof",
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        "message A { int32 a = 1; int32 b = 2; }",
        False,
    ),
    ("enum to int", "message A { int32 a = 1; }", "message A { E a = 1; } enum E { X = 0; }", True),
    ("optional", "message A { optional int32 a = 1; }", "message A { int32 a = 1; }", True),
    ("nested", "message A { message B { string x = 1; } }", "message A { message B { int32 x = 1; } }", False),
]


@pytest.mark.parametrize(("name", "new", "old", "is_compatible"), PROTO_PAIRS, ids=[pair[0] for pair in PROTO_PAIRS])
def test_compatibility_of_protobuf_schemas(name, new, old, is_compatible):
    found = protobuf_incompatibilities(Protobuf(PROTO + new, {}), Protobuf(PROTO + old, {}))
    assert (found == []) == is_compatible, (name, found)


def test_required_fields_and_packages_of_protobuf_schemas():
    proto2 = 'syntax = "proto2"; message A { %s }'
    with_required, without = (Protobuf(proto2 % fields, {}) for fields in ("required int32 a = 1;", ""))
    assert protobuf_incompatibilities(with_required, without)
    assert protobuf_incompatibilities(without, with_required)
    assert protobuf_incompatibilities(Protobuf(PROTO, {}), Protobuf('syntax = "proto3"; package q;', {}))


@pytest.mark.parametrize(
    ("level", "rejected"),
    [
        ("NONE", set()),
        ("BACKWARD", {"add"}),
        ("FORWARD", {"remove"}),
        ("FULL", {"add", "remove"}),
        ("BACKWARD_TRANSITIVE", {"add", "first"}),
    ],
)
def test_levels_compare_in_their_direction_and_with_their_versions(dev, level, rejected):
    base = _record(_field("a", "int"), _field("d", "int"))
    candidates = {
        "add": _record(_field("a", "int"), _field("b", "int"), _field("c", "int", default=0)),
        "remove": _record(_field("c", "int", default=0)),
        # It reads the second version, which lacks d, but not a string d of a version before it.
        "first": _record(_field("a", "int"), _field("c", "int", default=0), _field("e", "int", default=0)),
    }
    with SchemaRegistry(dev.url) as client:
        client.set_config("NONE", "s")
        if level == "BACKWARD_TRANSITIVE":
            base = _record(_field("a", "string"))
        client.register("s", Schema(json.dumps(base)))
        client.register("s", Schema(json.dumps(_record(_field("a", "int"), _field("c", "int", default=0)))))
        client.set_config(level, "s")
        found = {name for name, schema in candidates.items() if not client.check("s", Schema(json.dumps(schema)))}
        assert found - ({"remove"} if "TRANSITIVE" in level else {"first"}) == rejected


def test_a_schema_of_another_type_is_incompatible(dev):
    with SchemaRegistry(dev.url) as client:
        client.register("s", Schema('"string"'))
        result = client.check("s", Schema("{}", "JSON"))
        assert not result
        assert "TYPE_CHANGED" in result.messages[0]


def test_schemas_that_mean_the_same_have_one_id_when_normalized(dev):
    one = '{"name": "R", "type": "record", "fields": [{"type": "int", "name": "a"}]}'
    other = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
    with SchemaRegistry(dev.url) as client:
        assert (
            client.register("s", Schema(one), normalize=True).id
            == client.register("s", Schema(other), normalize=True).id
        )
        client.set_config("NONE", "t", normalize=False)
        assert client.register("t", Schema(one)).version == 1
        proto = (
            'syntax="proto3";// text\nmessage A{int32 b=2;int32 a=1;}',
            'syntax = "proto3"; message A { int32 a = 1; int32 b = 2; }',
        )
        assert len({client.register("p", Schema(text, "PROTOBUF"), normalize=True).id for text in proto}) == 1


def test_ids_versions_and_subjects_are_those_of_import_mode(dev):
    with SchemaRegistry(dev.url) as client:
        client.set_mode("IMPORT", "s")
    connection = http.client.HTTPConnection(dev.url.removeprefix("http://"))
    for body, status in (
        ({"schema": '"int"'}, 422),
        ({"schema": '"int"', "id": 77, "version": 5}, 200),
        ({"schema": '"long"', "id": 77}, 422),
        ({"schema": '"long"', "id": 78, "version": 5}, 422),
    ):
        connection.request("POST", "/subjects/s/versions", json.dumps(body))
        response = connection.getresponse()
        response.read()
        assert response.status == status, body
    connection.close()
    with SchemaRegistry(dev.url) as client:
        assert client.get_version("s").version == 5
        assert client.get_by_id(77)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("GET", "/schemas/ids/x", None, 404),
        ("GET", "/subjects/s/versions/0", None, 422),
        ("POST", "/subjects/s/versions", b"{", 400),
        ("POST", "/subjects/s/versions", b"[]", 400),
        ("POST", "/subjects/s/versions", b"[" * 100_000, 400),
        ("POST", "/subjects/s/versions", b"{}", 422),
        ("POST", "/subjects/s/versions", b'{"schema": "\\"int\\"", "schemaType": "XML"}', 422),
        ("POST", "/subjects/s/versions", b'{"schema": "\\"int\\"", "references": [7]}', 422),
        ("POST", "/subjects/s/versions", b'{"schema": "syntax = 7", "schemaType": "PROTOBUF"}', 422),
        ("POST", "/subjects/s/versions", b'{"schema": "[]", "schemaType": "JSON"}', 422),
        ("PUT", "/config", b'{"compatibility": "UP"}', 422),
        ("PUT", "/subjects", b"{}", 404),
        ("DELETE", "/subjects/s", None, 404),
    ],
)
def test_bad_requests_have_an_error_code(dev, method, path, body, status):
    connection = http.client.HTTPConnection(dev.url.removeprefix("http://"))
    connection.request(method, path, body)
    response = connection.getresponse()
    assert response.status == status
    assert json.loads(response.read())["error_code"] // 100 in (status, status // 100)
    connection.close()


def test_bytes_that_are_not_http_do_not_stop_the_registry(dev):
    host, _, port = dev.url.removeprefix("http://").partition(":")
    for sent in (
        b"\x00" * 100,
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass
    with SchemaRegistry(dev.url) as client:
        assert client.subjects() == []


def test_many_clients_register_at_the_same_time(dev):
    def register(number):
        with SchemaRegistry(dev.url) as client:
            return client.register("s", Schema(json.dumps({"type": "fixed", "name": "F", "size": number % 5 + 1}))).id

    with SchemaRegistry(dev.url) as client:
        client.set_config("NONE")
    with ThreadPoolExecutor(10) as threads:
        ids = list(threads.map(register, range(50)))
    assert sorted(set(ids)) == [1, 2, 3, 4, 5]


def test_a_stopped_registry_keeps_its_contents_and_its_port(dev):
    with SchemaRegistry(dev.url, max_retries=0) as client:
        url, registered = dev.url, client.register("s", Schema('"int"'))
        dev.stop()
        client.clear_cache()
        with pytest.raises(klamm.registry.RegistryUnavailableError):
            client.get_by_id(registered.id)
        dev.start()
        assert dev.url == url
        assert client.get_by_id(registered.id)
        with pytest.raises(SchemaNotFoundError):
            client.get_by_id(2)
