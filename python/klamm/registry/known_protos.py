"""Files that Protobuf schemas import without a reference: Protobuf's own files, and those that Confluent's registry knows.

The texts of Confluent's files and of `google/type` have the names, numbers and types of the fields, which is all that
encoding needs.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from google.protobuf import descriptor_pb2

from klamm.registry.proto import parse

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

_PROTOBUF = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type"),
    "wrappers",
)
"""Names of the files in `google/protobuf` that every implementation of Protobuf has."""

_MESSAGES = {
    "confluent/type/decimal": "Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    "confluent/type/variant": "Variant { bytes metadata = 1; bytes value = 2; }",
    "google/type/color": "Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }",
    "google/type/date": "Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "google/type/datetime": """DateTime {
        int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6;
        int32 nanos = 7; oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; }
        } message TimeZone { string id = 1; string version = 2; }""",
    "google/type/decimal": "Decimal { string value = 1; }",
    "google/type/expr": "Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }",
    "google/type/fraction": "Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "google/type/interval": """Interval {
        google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }""",
    "google/type/latlng": "LatLng { double latitude = 1; double longitude = 2; }",
    "google/type/localized_text": "LocalizedText { string text = 1; string language_code = 2; }",
    "google/type/money": "Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "google/type/phone_number": """PhoneNumber {
        message ShortCode { string region_code = 1; string number = 2; }
        oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }""",
    "google/type/postal_address": """PostalAddress {
        int32 revision = 1; string region_code = 2; string language_code = 3; string postal_code = 4;
        string sorting_code = 5; string administrative_area = 6; string locality = 7; string sublocality = 8;
        repeated string address_lines = 9; repeated string recipients = 10; string organization = 11; }""",
    "google/type/quaternion": "Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "google/type/timeofday": "TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
}
_ENUMS = {
    "google/type/calendar_period": "CalendarPeriod CALENDAR_PERIOD DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR",
    "google/type/dayofweek": "DayOfWeek DAY_OF_WEEK MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY",
    "google/type/month": "Month MONTH JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER",
}
"""Name of the enum, name of the value 0 without `_UNSPECIFIED`, and names of the values from 1 on."""

_META = """syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
    message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4; }
    message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; } """ + " ".join(
    f"extend google.protobuf.{kind}Options {{ Meta {field}_meta = 1088; }}"
    for kind, field in (
        *(("File", "file"), ("Message", "message"), ("Field", "field"), ("Enum", "enum")),
        ("EnumValue", "enum_value"),
    )
)


def is_known(name: str) -> bool:
    """Return whether a schema can import a file without a reference."""
    stem = name.removesuffix(".proto")
    is_protobuf = name.startswith("google/protobuf/") and stem[16:] in _PROTOBUF
    return name.endswith(".proto") and (is_protobuf or stem in _MESSAGES or stem in _ENUMS or stem == "confluent/meta")


@cache
def known_file(name: str) -> FileDescriptorProto:
    """Return the descriptor of a file for which `is_known` returns True."""
    stem = name.removesuffix(".proto")
    if name.startswith("google/protobuf/"):
        module = import_module(f"google.protobuf.{stem[16:]}_pb2")
        return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    if stem == "confluent/meta":
        return parse(_META, name)
    if stem in _MESSAGES:
        body = f"message {_MESSAGES[stem]}"
        used = [each for each in ("Duration", "Timestamp", "FloatValue") if each in body]
        files = {"FloatValue": "wrappers"}
        imports = [f'import "google/protobuf/{files.get(each, each.lower())}.proto";' for each in used]
    else:
        kind, prefix, *names = _ENUMS[stem].split()
        values = [f"{each} = {number};" for number, each in enumerate((f"{prefix}_UNSPECIFIED", *names))]
        body, imports = f"enum {kind} {{ {' '.join(values)} }}", []
    package = stem.rpartition("/")[0].replace("/", ".")
    return parse(f'syntax = "proto3"; package {package}; {" ".join(imports)} {body}', name)
