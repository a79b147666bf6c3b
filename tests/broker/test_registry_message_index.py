"""A Protobuf serializer writes the position that a message type has in the registered schema."""

from __future__ import annotations

import asyncio

import pytest

from klamm.registry import (
    AsyncSchemaRegistry,
    ProtobufDeserializer,
    ProtobufSerializer,
    Reference,
    Schema,
    SchemaError,
    SchemaRegistry,
)
from klamm.registry.dev import DevRegistry
from registry_samples import messages

ORDER = "message Order { string customer = 1; int64 cents = 2; message Line { string text = 1; } Line line = 3; }"
REFUND = "message Refund { string reason = 1; int64 days = 2; }"
HEAD = 'syntax = "proto3"; package shop; '
CLASSES = messages(HEAD + ORDER, "order.proto")
VALUES = {"Order": CLASSES["Order"](customer="anna", cents=250), "Line": CLASSES["Line"](text="bell")}


@pytest.fixture
def registry():
    with DevRegistry() as dev, SchemaRegistry(dev.url) as client:
        yield client


def registered(registry, text, *references):
    return registry.register("t-value", Schema(text, "PROTOBUF", references)).id


@pytest.mark.parametrize("name", ["Order", "Line"])
@pytest.mark.parametrize("how", ["latest", "id"])
@pytest.mark.parametrize("framing", ["id", "header_id"])
def test_the_position_is_taken_from_the_registered_schema(registry, name, how, framing):
    schema_id = registered(registry, HEAD + REFUND + ORDER)
    options = {"use_latest_version": True} if how == "latest" else {"use_schema_id": schema_id}
    headers = []
    serializer = ProtobufSerializer(registry, CLASSES[name], framing=framing, **options)
    data = serializer.serialize(VALUES[name], "t", headers=headers)
    found = ProtobufDeserializer(registry).deserialize(data, "t", headers=headers)
    assert found.DESCRIPTOR.full_name == CLASSES[name].DESCRIPTOR.full_name
    assert found.SerializeToString() == VALUES[name].SerializeToString()


def test_an_asyncio_client_writes_the_position_of_the_registered_schema(registry):
    registered(registry, HEAD + REFUND + ORDER)

    async def main():
        async with AsyncSchemaRegistry(registry._settings.urls) as client:
            serializer = ProtobufSerializer(client, use_latest_version=True)
            await serializer.prepare(VALUES["Order"], "t")
            return serializer.serialize(VALUES["Order"], "t")

    assert ProtobufDeserializer(registry).deserialize(asyncio.run(main())).customer == "anna"


def test_a_message_that_only_an_imported_file_declares_is_an_error(registry):
    registry.register("order.proto", Schema(HEAD + ORDER, "PROTOBUF"))
    text = HEAD + 'import "order.proto"; ' + REFUND + "message Holder { Order order = 1; }"
    schema_id = registered(registry, text, Reference("order.proto", "order.proto", 1))
    with pytest.raises(SchemaError, match=r"has no message shop\.Order") as caught:
        ProtobufSerializer(registry, use_latest_version=True).serialize(VALUES["Order"], "t")
    assert (caught.value.schema_id, caught.value.subject) == (schema_id, "t-value")


@pytest.mark.parametrize("text", [HEAD + REFUND, HEAD.replace("shop", "store") + ORDER])
def test_a_schema_without_the_message_is_an_error(registry, text):
    schema_id = registered(registry, text)
    for options in ({"use_latest_version": True}, {"use_schema_id": schema_id}):
        serializer = ProtobufSerializer(registry, CLASSES["Order"], **options)
        for _ in range(2):
            with pytest.raises(SchemaError, match=r"has no message shop\.Order"):
                serializer.serialize(VALUES["Order"], "t")


def test_a_schema_that_the_serializer_registers_or_finds_keeps_the_position(registry):
    for options in ({}, {"auto_register_schemas": False}, {"normalize_schemas": True}):
        data = ProtobufSerializer(registry, **options).serialize(VALUES["Line"], "t")
        assert ProtobufDeserializer(registry).deserialize(data).text == "bell"


def test_a_registry_can_return_a_file_in_a_form_that_klamm_cannot_parse(registry, monkeypatch):
    from_json = Schema.from_json
    monkeypatch.setattr(Schema, "from_json", lambda fields: from_json({**fields, "schema": "message {"}))
    ProtobufSerializer(registry).serialize(VALUES["Line"], "t")  # registers the file
    data = ProtobufSerializer(registry, auto_register_schemas=False).serialize(VALUES["Line"], "t")
    monkeypatch.undo()
    registry.clear_cache()
    assert ProtobufDeserializer(registry).deserialize(data).text == "bell"
