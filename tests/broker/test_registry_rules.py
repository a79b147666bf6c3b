"""Metadata and rules (`ruleSet`) of registered schemas: copies keep them, and klamm refuses values that need rules."""

from __future__ import annotations

import json

import pytest

from cli_process import klamm as run
from klamm.registry import Schema, SchemaRegistry, SchemaRegistryError
from klamm.registry.dev import DevRegistry
from registry_samples import ORDER, ORDER_JSON, PROTO

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
