"""The text of .proto files becomes the descriptors that protoc makes."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2, message_factory

from klamm.registry import SchemaError
from klamm.registry.known_protos import _ENUMS, _MESSAGES, is_known, known_file
from klamm.registry.pools import pool_of
from klamm.registry.proto import lossless_text, parse

FIELD = descriptor_pb2.FieldDescriptorProto
PROTO2 = 'syntax = "proto2"; package shop;\n'


def pool(text, **imports):
    files = {f"{name}.proto": parse(each, f"{name}.proto") for name, each in imports.items()}
    return pool_of(parse(text, "m.proto"), files)


def message(text, name, **imports):
    return message_factory.GetMessageClass(pool(text, **imports).FindMessageTypeByName(name))


def test_a_type_name_can_be_on_two_lines():
    file = parse('syntax = "proto3"; message M { a.b // here\n\n  .C c = 1; }')
    assert file.message_type[0].field[0].type_name == "a.b.C"


def test_a_group_is_a_field_with_a_message():
    kind = message(PROTO2 + "message M { optional group Line = 1 { required string text = 2; } }", "shop.M")
    assert kind.DESCRIPTOR.fields_by_name["line"].type == FIELD.TYPE_GROUP
    assert kind.FromString(b"\x0b\x12\x01x\x0c").line.text == "x"


def test_extensions_are_read():
    text = PROTO2 + 'message M { extensions 4 to max; } extend M { optional string note = 9 [default = "n"]; }'
    file = parse(text)
    assert file.message_type[0].extension_range[0].end == 536_870_912
    assert (file.extension[0].extendee, file.extension[0].default_value) == ("M", "n")


def test_options_of_extension_ranges():
    file = parse(
        "message M { extensions 4, 6 [(a) = 1]; extensions 8 to 9 [(a) = 2]; extensions 100 [(a) = { x: [1] }]; }"
    )
    ranges = file.message_type[0].extension_range
    assert [(each.start, each.end) for each in ranges] == [(4, 5), (6, 7), (8, 10), (100, 101)]
    assert all(len(each.options.uninterpreted_option) == 1 for each in ranges)


def test_infinite_values_of_options():
    file = parse("message M { optional float a = 1 [(x) = -inf, default = -inf, (y) = - nan, (z) = inf]; }")
    options = file.message_type[0].field[0].options.uninterpreted_option
    assert file.message_type[0].field[0].default_value == "-inf"
    assert options[0].double_value == float("-inf")
    assert [each.identifier_value for each in options[1:]] == ["nan", "inf"]


class TestOptions:
    DECLARED = """syntax = "proto2"; package meta; import "google/protobuf/descriptor.proto";
        message Info { optional string doc = 1; repeated int32 sizes = 2; optional Info next = 3; extensions 10; }
        extend Info { optional bool deep = 10; }
        extend google.protobuf.FieldOptions { optional Info info = 5000; repeated string tag = 5001; }
        extend google.protobuf.EnumOptions { optional double weight = 5002; }"""

    def options(self, written):
        text = f'import "meta.proto"; package meta.user; message M {{ optional int32 id = 1 [{written}]; }}'
        found = pool(text, meta=self.DECLARED)
        field = descriptor_pb2.FileDescriptorProto()
        found.FindFileByName("m.proto").CopyToProto(field)
        raw = field.message_type[0].field[0].options
        known = message_factory.GetMessageClass(found.FindMessageTypeByName("google.protobuf.FieldOptions"))
        options = known.FromString(raw.SerializeToString())
        return options, lambda name: options.Extensions[found.FindExtensionByName(name)]

    def test_values_over_several_lines(self):
        options, value = self.options(
            '(meta.info) = {\n  doc: "a" # what\n  sizes: [1,\n 2]\n next { doc: "b" [meta.deep]: true } },\n deprecated = true'
        )
        assert (value("meta.info").doc, list(value("meta.info").sizes)) == ("a", [1, 2])
        assert value("meta.info").next.doc == "b"
        assert options.deprecated
        assert not options.uninterpreted_option

    def test_names_with_paths(self):
        _, value = self.options(
            '(info).doc = "a\\x00\\"b", (.meta.info).next.(deep) = true, (tag) = "x", (meta.tag) = "y"'
        )
        assert value("meta.info").doc == 'a\0"b'
        assert list(value("meta.tag")) == ["x", "y"]

    def test_an_option_of_the_same_file(self):
        text = self.DECLARED + "enum E { option (weight) = 1.5; A = 0; }"
        kind = pool(text).FindEnumTypeByName("meta.E")
        assert not kind.GetOptions().uninterpreted_option
        assert len(kind.GetOptions().SerializeToString()) == 11

    @pytest.mark.parametrize("written", ["(other.option) = 1", "(meta.info) = { unknown: 1 }", "(meta.info).doc = 3"])
    def test_an_unknown_option_stays_uninterpreted(self, written):
        options, _ = self.options(written + ", deprecated = true")
        assert len(options.uninterpreted_option) == 1
        assert options.deprecated

    def test_a_value_with_hundreds_of_levels_stays_uninterpreted(self):
        options, _ = self.options("(meta.info) = " + "{ next " * 5000 + "{}" + "}" * 5000)
        assert len(options.uninterpreted_option) == 1

    def test_an_invalid_value_of_protobufs_own_option(self):
        with pytest.raises(SchemaError, match="option packed"):
            parse("message M { repeated int32 a = 1 [packed = maybe]; }")


class TestEditions:
    def test_presence_and_encoding(self):
        text = """// a comment
            edition = "2023"; package shop; option features.field_presence = IMPLICIT;
            message M { string note = 1 [features.field_presence = EXPLICIT, default = "none"]; int64 id = 2;
              repeated int32 packed = 3; repeated int32 expanded = 4 [features.repeated_field_encoding = EXPANDED];
              M next = 5 [features.message_encoding = DELIMITED]; map<string, M> by_name = 6;
              oneof kind { string a = 7; M b = 8; } enum E { option allow_alias = true; X = 0; Y = 0; } E e = 9; }"""
        found = message(text, "shop.M")
        fields = found.DESCRIPTOR.fields_by_name
        assert [name for name, field in fields.items() if field.has_presence] == ["note", "next", "a", "b"]
        assert found().note == "none"
        assert found(packed=[1, 2], expanded=[1, 2]).SerializeToString() == b"\x1a\x02\x01\x02\x20\x01\x20\x02"
        assert found(next=found(id=1)).SerializeToString() == b"\x2b\x10\x01\x2c"

    def test_words_of_newer_editions(self):
        file = parse(
            'edition = "2024"; import option "o.proto"; export message M { reserved a, b; local enum E { A = 0; } }'
        )
        assert (file.syntax, file.edition, list(file.dependency)) == ("editions", 1001, [])
        assert list(file.message_type[0].reserved_name) == ["a", "b"]
        assert file.message_type[0].enum_type[0].name == "E"

    @pytest.mark.parametrize("written", ["message M {}", '(a) = "{ } ; message"', "message { message { a: 1 } }"])
    def test_option_values_are_not_rewritten(self, written):
        value = f"{{ text: '; int32 x' {written.replace('(a) =', 'a:')} }}"
        text = f'edition = "2023"; message M {{ int32 id = 1 [(o) = {value}, deprecated = true]; int32 b = 2; }}'
        options = parse(text).message_type[0].field[0].options
        assert "optional" not in options.uninterpreted_option[0].aggregate_value
        assert options.deprecated

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ('edition = "2019";', "edition"),
            ('edition = "2023"; message M {\n optional int32 a = 1; }', "line 2: .*label optional"),
            ('edition = "2023"; message M {\n\n int32 = 1; }', "line 3"),
        ],
    )
    def test_errors(self, text, why):
        with pytest.raises(SchemaError, match=why):
            parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "message A {" * 100_000 + "}" * 100_000,
        "option (x) = " + "{ a " * 100_000,
        "}" * 100_000,
        '"' * 100_001,
        'edition = "2023"; message M { int32 a = 1 [(x) = "' + "\\" * 100_001,
        'edition = "2023"; ' + "message A {" * 100_000,
        'edition = "2023"; ' + "{" * 100_000 + "}" * 200_000,
        "syntax = 'proto3'; message M { int32 a = " + "9" * 100_000 + "; }",
        "\ud800",
        "message M { /* " + "é" * 1000,
    ],
    ids=range(10),
)
def test_hostile_text_is_refused(text):
    with pytest.raises(SchemaError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "message M { optional group G = 1 {} }",
        "message M { extensions 4; }",
        'syntax = "proto3"; message M { int32 a = 1 [(x) = 2]; }',
        'edition = "2023"; message M { int32 a = 1; }',
        "service S { rpc A (B) returns (C); } message B {} message C {}",
    ],
)
def test_a_file_that_cannot_be_written_as_text_without_loss(text):
    assert lossless_text(parse(text)) is None


def test_the_text_of_a_descriptor_is_read_back():
    text = (
        'syntax = "proto3"; message M { map<string, N> a = 1; optional int32 b = 2; message N {} oneof o { N c = 3; } }'
    )
    again = lossless_text(parse(text))
    assert parse(again) == parse(text)


class TestKnownFiles:
    def test_all_are_valid(self):
        for stem in (*_MESSAGES, *_ENUMS, "confluent/meta", "google/protobuf/wrappers", "google/protobuf/descriptor"):
            assert is_known(f"{stem}.proto")
            pool_of(known_file(f"{stem}.proto"), {})

    def test_a_schema_imports_confluents_files(self):
        kind = message(
            """syntax = "proto3"; import "confluent/meta.proto"; import "confluent/type/decimal.proto";
            import "google/type/month.proto"; import "google/type/datetime.proto";
            message V { int32 id = 1 [(confluent.field_meta) = { params: [{ key: "connect.type", value: "int16" }] }];
              confluent.type.Decimal amount = 2; google.type.Month month = 3; google.type.DateTime at = 4; }""",
            "V",
        )
        value = kind.FromString(b"\x08\x07\x12\x08\x0a\x02\x04\xd2\x10\x26\x18\x02\x18\x02")
        assert (value.amount.value, value.amount.precision, value.amount.scale) == (b"\x04\xd2", 38, 2)
        assert value.month == kind.DESCRIPTOR.fields_by_name["month"].enum_type.values_by_name["FEBRUARY"].number

    def test_other_files_need_a_reference(self):
        with pytest.raises(SchemaError, match=r"imports 'google/type/none\.proto'"):
            pool('syntax = "proto3"; import "google/type/none.proto";')
