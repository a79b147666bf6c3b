"""The dev registry has the rules of Confluent's registry for new versions of a Protobuf schema."""

from __future__ import annotations

import pytest

from klamm.registry.dev.protobuf import Protobuf, incompatibilities

HEAD = 'syntax = "proto3"; '


def changes(old, new, head=HEAD, imports=("", "")):
    texts = [head + text for text in (old, new)]
    files = [{"a.proto": f'syntax = "proto3"; package a; {text}'} if text else {} for text in imports]
    old_schema, new_schema = (Protobuf(text, references) for text, references in zip(texts, files, strict=True))
    return [why.split(" at ")[0] for why in incompatibilities(new_schema, old_schema)]


def fields(old, new, head=HEAD):
    return changes(f"message M {{ {old} }}", f"message M {{ {new} }}", head)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int32 a = 1;", ""),
        ("", "int32 a = 1;"),
        ("int32 a = 1;", "int32 b = 1;"),
        ("int32 a = 1;", "bool a = 1;"),
        ("uint64 a = 1;", "E a = 1; enum E { Z = 0; }"),
        ("string a = 1;", "repeated bytes a = 1;"),
        ("map<string, int32> a = 1;", ""),
        ("map<string, int32> a = 1;", "map<string, int64> b = 1;"),
        ("enum E { Z = 0; A = 1; } E a = 1;", "enum F { Z = 0; } F a = 1;"),
        ("oneof o { int32 a = 1; int32 b = 2; }", ""),
        ("oneof o { int32 a = 1; int32 b = 2; }", "int32 a = 1; int32 b = 2;"),
        ("oneof o { int32 a = 1; }", "oneof p { int32 a = 1; int32 b = 2; }"),
        ("int32 a = 1;", "oneof o { int32 a = 1; int32 b = 2; }"),
        ("int32 a = 1;", "optional int32 a = 1;"),
        ("message A {} message B {} A a = 1;", "message B {} message A {} A a = 1;"),
    ],
)
def test_compatible_changes(old, new):
    assert fields(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("int32 a = 1;", "string a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        ("float a = 1;", "double a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        ("int32 a = 1;", "A a = 1; message A {}", "FIELD_KIND_CHANGED"),
        ("map<string, int32> a = 1;", "map<string, string> a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        ("map<string, int32> a = 1;", "repeated A a = 1; message A {}", "FIELD_KIND_CHANGED"),
        ("message A {} A a = 1; message B {}", "message B {} B a = 1; message A {}", "FIELD_NAMED_TYPE_CHANGED"),
        ("message A {}", "", "MESSAGE_REMOVED"),
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof o { int32 a = 1; }", "ONEOF_FIELD_REMOVED"),
        ("oneof o { int32 a = 1; int32 b = 2; }", "oneof p { int32 a = 1; }", "ONEOF_FIELD_REMOVED"),
        ("int32 a = 1; int32 b = 2;", "oneof o { int32 a = 1; int32 b = 2; }", "MULTIPLE_FIELDS_MOVED_TO_ONEOF"),
        ("int32 a = 1; oneof o { int32 b = 2; }", "oneof o { int32 a = 1; int32 b = 2; }", "FIELD_MOVED_TO_EXISTING_ONEOF"),
        ("oneof o { int32 a = 1; } oneof p { int32 b = 2; }", "oneof o { int32 a = 1; int32 b = 2; }", "FIELD_MOVED_TO_EXISTING_ONEOF"),
    ],
)  # fmt: skip
def test_incompatible_changes(old, new, why):
    assert fields(old, new) == [why]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("required int32 a = 1;", "", ["REQUIRED_FIELD_REMOVED"]),
        ("", "required int32 a = 1;", ["REQUIRED_FIELD_ADDED"]),
        ("optional int32 a = 1;", "required int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED"]),
        ("optional int32 a = 1;", "repeated int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED"]),
        ("optional string a = 1;", "required string a = 1;", []),
    ],
)
def test_labels_of_proto2(old, new, why):
    assert fields(old, new, head='syntax = "proto2"; ') == why


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("message A { int32 a = 1; A b = 2; }", "message A { int32 a = 1; A b = 2; int32 c = 3; }", []),
        ("message A { int32 a = 1; }", "message A { string a = 1; }", ["FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED"]),
    ],
)  # fmt: skip
def test_types_of_imported_files_are_compared(old, new, why):
    text = 'import "a.proto"; message M { a.A a = 1; a.A b = 2; }'
    assert changes(text, text, imports=(old, new)) == why


def test_another_package():
    assert changes("package a; message M {}", "package b; message M {}") == ["PACKAGE_CHANGED"]
