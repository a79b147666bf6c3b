"""References, drafts and limits of JSON Schemas, for the values of serializers and for typed columns."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from klamm.registry import JsonDeserializer, JsonSerializer, Reference, Schema, SchemaError, SchemaRegistry
from klamm.registry.columns.json_types import arrow_field
from klamm.registry.dev import DevRegistry
from klamm.registry.framing import written

D4 = "http://json-schema.org/draft-04/schema#"
D7 = "http://json-schema.org/draft-07/schema#"
D19 = "https://json-schema.org/draft/2019-09/schema"
D20 = "https://json-schema.org/draft/2020-12/schema"
SITE = "https://shop.example/schemas"


@pytest.fixture(scope="module")
def registry():
    with DevRegistry() as dev, SchemaRegistry(dev.url) as client:
        yield client


@pytest.fixture
def serializer(registry, topic):
    """Return a function that makes the serializer of a schema. References are given by name."""

    def make(schema, references=None):
        named = []
        for number, (name, content) in enumerate((references or {}).items()):
            known = [reference for reference in named if reference.name in json.dumps(content)]
            subject = f"{topic}-{number}"
            registry.register(subject, Schema(json.dumps(content), "JSON", tuple(known)))
            named.append(Reference(name, subject, 1))
        return JsonSerializer(registry, Schema(json.dumps(schema), "JSON", tuple(named)))

    return make


def fits(serializer, value, topic):
    try:
        return serializer.serialize(value, topic) is not None
    except SchemaError as error:
        if not error.message.startswith("the value does not fit"):
            raise
        return False


FIRST_IS_INTEGER = {"$schema": D20, "prefixItems": [{"type": "integer"}]}
ABOVE_FIVE = {"$schema": D4, "minimum": 5, "exclusiveMinimum": True}
NUMBERS = {"$schema": D7, "items": [{"type": "integer"}]}


@pytest.mark.parametrize("draft", [None, D4, D7, D19, D20])
@pytest.mark.parametrize(
    ("child", "valid", "invalid"),
    [
        (FIRST_IS_INTEGER, [1], ["a"]),
        (ABOVE_FIVE, 6, 5),
        (NUMBERS, [1, "x"], ["x"]),
        ({"items": [{"type": "integer"}]}, [1, "x"], ["x"]),  # without a draft, draft 7 applies
        (False, None, 1),
    ],
)
def test_a_referenced_schema_is_read_by_its_own_draft(serializer, topic, draft, child, valid, invalid):  # noqa: PLR0917
    schema = {"properties": {"x": {"$ref": "child.json"}}} | ({} if draft is None else {"$schema": draft})
    to_bytes = serializer(schema, {"child.json": child})
    assert child is False or fits(to_bytes, {"x": valid}, topic)
    assert not fits(to_bytes, {"x": invalid}, topic)


INTEGER = {"type": "integer"}
REFERENCES = {
    "pointer": ({"definitions": {"n": INTEGER}, "$ref": "#/definitions/n"}, {}),
    "anchor": ({"$schema": D19, "$defs": {"n": {"$anchor": "number", **INTEGER}}, "$ref": "#number"}, {}),
    "dynamic anchor": (
        {"$schema": D20, "$defs": {"n": {"$dynamicAnchor": "number", **INTEGER}}, "$dynamicRef": "#number"},
        {},
    ),
    "id of a part": ({"definitions": {"n": {"$id": "#number", **INTEGER}}, "anyOf": [{"$ref": "#number"}]}, {}),
    "anchor of another schema": (
        {"$schema": D20, "$ref": "n.json#number"},
        {"n.json": {"$schema": D20, "$defs": {"n": {"$anchor": "number", **INTEGER}}}},
    ),
    "name": ({"$ref": "n.json"}, {"n.json": INTEGER}),
    "name relative to the id": ({"$id": f"{SITE}/a.json", "anyOf": [{"$ref": "n.json"}]}, {"n.json": INTEGER}),
    "name above the id": ({"$id": f"{SITE}/a.json", "anyOf": [{"$ref": "../n.json"}]}, {"../n.json": INTEGER}),
    "URI with a relative name": (
        {"$id": f"{SITE}/a.json", "anyOf": [{"$ref": f"{SITE}/n.json"}]},
        {"n.json": INTEGER},
    ),
    "own id": ({"$ref": f"{SITE}/n.json"}, {"other": {"$id": f"{SITE}/n.json", **INTEGER}}),
    "id of draft 4": (
        {"$schema": D4, "id": f"{SITE}/a.json", "anyOf": [{"$ref": "n.json"}]},
        {"other": {"$schema": D4, "id": f"{SITE}/n.json", **INTEGER}},
    ),
    "reference of a reference": (
        {"$ref": "parts/m.json"},
        {"n.json": INTEGER, "parts/m.json": {"anyOf": [{"$ref": "n.json"}]}},
    ),
    "name of another site": ({"$ref": "urn:shop:n"}, {"urn:shop:n": INTEGER}),
    "space": ({"definitions": {"a b": INTEGER}, "$ref": "#/definitions/a b"}, {}),
    "encoded space": ({"definitions": {"a b": INTEGER}, "$ref": "#/definitions/a%20b"}, {}),
    "percent sign": ({"definitions": {"100%": INTEGER}, "$ref": "#/definitions/100%"}, {}),
    "encoded percent sign": ({"definitions": {"a%b": INTEGER}, "$ref": "#/definitions/a%25b"}, {}),
    "type arguments": ({"definitions": {"List<ü[0]>": INTEGER}, "$ref": "#/definitions/List<ü[0]>"}, {}),
    "name with a space": ({"$ref": "a number.json"}, {"a number.json": INTEGER}),
    "name with a percent sign": ({"$ref": "100%.json"}, {"100%.json": INTEGER}),
    "slash and tilde": ({"definitions": {"a/b~": INTEGER}, "$ref": "#/definitions/a~1b~0"}, {}),
    "a property named default": (
        {"definitions": {"default": {"$ref": "#/definitions/a b"}, "a b": INTEGER}, "$ref": "#/definitions/default"},
        {},
    ),
}


@pytest.mark.parametrize("schema", REFERENCES.values(), ids=REFERENCES.keys())
def test_references(serializer, topic, schema):
    to_bytes = serializer(*schema)
    assert fits(to_bytes, 7, topic)
    assert not fits(to_bytes, "x", topic)


@pytest.mark.parametrize("name", sorted(REFERENCES.keys() - {"dynamic anchor"}))
def test_references_of_columns(name):
    schema, references = REFERENCES[name]
    texts = {key: json.dumps(value) for key, value in references.items()}
    assert arrow_field(json.dumps(schema), texts, "value").type == pa.int64()


def test_an_id_inside_a_schema_changes_the_base_of_its_references(serializer, topic):
    inner = {"$id": f"{SITE}/inner/", "properties": {"n": {"$ref": "n.json"}}}
    schema = {"$schema": D7, "type": "object", "properties": {"inner": {"type": "object", **inner}}}
    references = {f"{SITE}/inner/n.json": INTEGER}
    to_bytes = serializer(schema, references)
    assert fits(to_bytes, {"inner": {"n": 1}}, topic)
    assert not fits(to_bytes, {"inner": {"n": "x"}}, topic)
    texts = {name: json.dumps(content) for name, content in references.items()}
    assert arrow_field(json.dumps(schema), texts, "v").type == pa.struct([("inner", pa.struct([("n", pa.int64())]))])


@pytest.mark.parametrize("reference", ["#/definitions/n", "n.json", f"{SITE}/n.json", "#n"])
def test_a_missing_schema_is_named(registry, topic, reference):
    text = json.dumps({"properties": {"x": {"$ref": reference}}})
    for call in (
        lambda: JsonSerializer(registry, text).serialize({"x": 1}, topic),
        lambda: arrow_field(text, {}, "value"),
    ):
        with pytest.raises(SchemaError) as caught:
            call()
        assert reference.lstrip("#") in caught.value.message
        assert "schema.invalid" not in caught.value.message


def test_text_that_describes_its_content_is_not_checked(serializer, topic):
    schema = {
        "properties": {
            "a": {"contentEncoding": "base64"},
            "b": {"contentMediaType": "application/json"},
            "contentEncoding": {"type": "integer"},
        }
    }
    to_bytes = serializer(schema)
    assert fits(to_bytes, {"a": "not base64!", "b": ""}, topic)
    assert not fits(to_bytes, {"contentEncoding": "x"}, topic)
    column = arrow_field(json.dumps({"type": "string", "contentEncoding": "base64"}), {}, "value")
    assert column.type == pa.binary()


def test_a_deep_value_is_an_error(registry, topic):
    text = '{"properties": {"x": {"$ref": "#"}}}'
    registered = registry.register(f"{topic}-value", Schema(text, "JSON"))
    deserializer, framing = JsonDeserializer(registry), written("id", registered.id, None, None)
    deep = b'{"x":' * 400 + b"1" + b"}" * 400
    assert deserializer.deserialize(framing + deep, topic)
    wide = b"[" + b"[]," * 1000 + b"1]"
    assert len(deserializer.deserialize(framing + wide, topic)) == 1001
    for depth in 600, 100_000:
        with pytest.raises(SchemaError, match=r"nested|RecursionError"):
            deserializer.deserialize(framing + b'{"x":' * depth + b"1" + b"}" * depth, topic)


def test_a_schema_that_describes_too_many_columns_is_an_error():
    definitions = {"d0": {"type": "string"}}
    for level in range(1, 9):
        properties = {f"p{n}": {"$ref": f"#/definitions/d{level - 1}"} for n in range(10)}
        definitions[f"d{level}"] = {"type": "object", "properties": properties}
    with pytest.raises(SchemaError, match="10,000 fields"):
        arrow_field(json.dumps({"definitions": definitions, "$ref": "#/definitions/d8"}), {}, "value")
