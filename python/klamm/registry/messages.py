"""Converts Protobuf messages to Python values and back.

`fields_of` compiles a function for a message type, and for all types that it contains. The function returns a dict, which
`klamm.registry.convert` can convert to the application's type. `json_form` converts such a dict to Protobuf's JSON form,
from which the package protobuf makes a message.
"""

from __future__ import annotations

import base64
import datetime as dt
import keyword
import math
from typing import TYPE_CHECKING, Any

from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from klamm.registry.convert import simplified, to_json, utc_text
from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_ANY_DEPTH = 8
"""Messages in this number of nested `Any` are decoded. Each level needs a copy of the bytes."""
_VALUES = "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"


class _Fields(dict[str, Any]):
    """The fields of a message for a class. Fields that are not set are missing, so that the defaults of the class apply.

    A class that has no default for the field gets None.
    """

    unset: frozenset[str] = frozenset()

    def __missing__(self, name: str) -> None:
        if name not in self.unset:
            raise KeyError(name)


class Compiler:
    """Compiles functions that convert messages to dicts.

    Args:
        has_none: Whether a field that is not set becomes None. Otherwise it is missing in the dict.
        depth: Number of messages of type `Any` around the messages.
    """

    def __init__(self, *, has_none: bool, depth: int = 0) -> None:
        self._has_none, self._depth = has_none, depth
        self._compiled: dict[Any, Callable[[Any], Any]] = {}
        self._inside_any: Compiler | None = None

    def fields_of(self, message: Any) -> Callable[[Any], Any]:
        """Return the function for a message type.

        Args:
            message: The descriptor of the message type.
        """
        found = self._compiled.get(message)
        if found is None:
            # A type can contain itself, so its fields find the function when they need it.
            self._compiled[message] = lambda value: self._compiled[message](value)  # noqa: PLW0108
            found = self._compiled[message] = self._made(message)
        return found

    def _made(self, message: Any) -> Callable[[Any], Any]:
        name = message.full_name
        if name == "google.protobuf.Timestamp":
            return lambda value: _time(value.ToDatetime, dt.timezone.utc)
        if name == "google.protobuf.Duration":
            return lambda value: _time(value.ToTimedelta)
        if name in _VALUES:
            return _json
        if name == "google.protobuf.Any":
            return self._any
        if message.file.name == "google/protobuf/wrappers.proto":
            return lambda value: value.value
        return self._dict(message)

    def _dict(self, message: Any) -> Callable[[Any], Any]:
        """Compile a function with an expression for each field. A loop over the fields takes twice as long."""
        names: dict[str, Any] = {}
        always, lines = [], []
        for number, field in enumerate(message.fields):
            is_name = field.name.isidentifier() and not keyword.iskeyword(field.name)
            got = f"m.{field.name}" if is_name else f"getattr(m, {field.name!r})"
            convert = self._convert(field)
            names[f"to{number}"] = convert
            text = got if convert is None else f"to{number}({got})"
            if convert is not None and field.message_type is not None:
                names[f"to{number}"] = _named(convert, field.name)
            if not field.has_presence:
                always.append(f"{field.name!r}: {text}")
            elif self._has_none:
                always.append(f"{field.name!r}: {text} if m.HasField({field.name!r}) else None")
            else:
                lines.append(f"if m.HasField({field.name!r}): found[{field.name!r}] = {text}")
        if lines:
            unset = frozenset(field.name for field in message.fields if field.has_presence)
            names["made"] = type("Fields", (_Fields,), {"unset": unset})
        found = f"{{{', '.join(always)}}}"
        body = ["def convert(m):", f"found = made({found})" if lines else f"found = {found}", *lines, "return found"]
        exec("\n ".join(body), names)  # noqa: S102 - the names of fields are quoted, or identifiers
        return names["convert"]  # type: ignore[no-any-return]

    def _convert(self, field: Any) -> Callable[[Any], Any] | None:
        """Return the function for the values of a field, or None if a value needs no conversion."""
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            item = self._single(field.message_type.fields_by_name["value"])
            return dict if item is None else lambda value: {key: item(each) for key, each in value.items()}
        single = self._single(field)
        if single is None or not is_repeated(field):
            return list if is_repeated(field) else single
        return lambda value: [single(each) for each in value]

    def _single(self, field: Any) -> Callable[[Any], Any] | None:
        if field.enum_type is not None:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return lambda value: names.get(value, value)
        return None if field.message_type is None else self.fields_of(field.message_type)

    def _any(self, value: Any) -> Any:
        packed = {"type_url": value.type_url, "value": value.value}
        try:
            found = value.DESCRIPTOR.file.pool.FindMessageTypeByName(value.type_url.rpartition("/")[2])
        except KeyError:
            return packed
        if self._depth == _MAX_ANY_DEPTH:
            return packed
        if self._inside_any is None:
            self._inside_any = Compiler(has_none=self._has_none, depth=self._depth + 1)
        message = message_factory.GetMessageClass(found)()
        try:
            message.ParseFromString(value.value)
        except (DecodeError, ValueError) as error:
            raise SchemaError(f"the value is not a {found.full_name}: {error}") from None
        plain = self._inside_any.fields_of(found)(message)
        if not isinstance(plain, dict) or found.full_name in _VALUES:
            plain = {"value": plain}
        plain["@type"] = value.type_url
        return plain


def json_form(message: Any, value: Any) -> Any:
    """Return an object in Protobuf's JSON form, which has text for bytes, times and special numbers.

    Values that already have the JSON form stay as they are. A datetime without a time zone is in UTC.

    Args:
        message: The descriptor of the message type.
        value: A dict or an object with the fields of a message, or the value of a type such as `google.protobuf.Timestamp`.
    """
    name, value = message.full_name, simplified(value)[1]
    if isinstance(value, dt.datetime) and name == "google.protobuf.Timestamp":
        return utc_text(value)
    if isinstance(value, dt.timedelta) and name == "google.protobuf.Duration":
        microseconds = value // dt.timedelta(microseconds=1)
        seconds, rest = divmod(abs(microseconds), 1_000_000)
        return f"{'-' if microseconds < 0 else ''}{seconds}.{rest:06}s"
    if message.file.name == "google/protobuf/wrappers.proto":
        return _field_json(message.fields_by_name["value"], value)
    if name in _VALUES or not isinstance(value, dict):
        return to_json(value)
    if name == "google.protobuf.Any" and "@type" in value:
        return _any_json(message, value)
    fields: Any = message.fields_by_camelcase_name, message.fields_by_name
    return {key: _field_json(fields[1].get(key) or fields[0].get(key), each) for key, each in value.items()}


def _any_json(message: Any, value: dict[str, Any]) -> dict[str, Any]:
    try:
        found = message.file.pool.FindMessageTypeByName(value["@type"].rpartition("/")[2])
    except KeyError:
        return value  # protobuf raises the error
    fields = {key: each for key, each in value.items() if key != "@type"}
    if found.file.name.startswith("google/protobuf/") and fields.keys() == {"value"}:
        return {"@type": value["@type"], "value": json_form(found, fields["value"])}
    return {"@type": value["@type"], **json_form(found, fields)}


def _field_json(field: Any, value: Any) -> Any:
    if field is None or value is None:
        return value
    if not is_repeated(field):
        return _single_json(field, value)
    value = simplified(value)[1]
    if field.message_type is not None and field.message_type.GetOptions().map_entry and isinstance(value, dict):
        item = field.message_type.fields_by_name["value"]
        return {
            str(key).lower() if isinstance(key, bool) else key: _field_json(item, each) for key, each in value.items()
        }
    return [_single_json(field, each) for each in value] if isinstance(value, list) else value


def _single_json(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return json_form(field.message_type, value)
    value = simplified(value)[1]
    if isinstance(value, bytes) and field.type == field.TYPE_BYTES:
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def is_repeated(field: Any) -> bool:
    """Return whether a field is a list or a map."""
    repeated = getattr(field, "is_repeated", None)  # protobuf 6.31 deprecates `label`
    return bool(field.label == field.LABEL_REPEATED) if repeated is None else bool(repeated)


def _named(convert: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """Return a function that puts the name of the field in front of the path of an error."""

    def named(value: Any) -> Any:
        try:
            return convert(value)
        except SchemaError as error:
            error.path = f"{name}.{error.path}" if error.path else name
            raise

    return named


def _time(convert: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return convert(*arguments)
    except (ValueError, OverflowError) as error:
        raise SchemaError(f"the time does not fit Python's type: {error}") from None


def _json(value: Any) -> Any:
    """Convert `Struct`, `Value` and `ListValue` to a dict, a list, or a single value."""
    name = value.DESCRIPTOR.name
    if name == "Struct":
        return {key: _json(each) for key, each in value.fields.items()}
    if name == "ListValue":
        return [_json(each) for each in value.values]
    kind = value.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    found = getattr(value, kind)
    return _json(found) if kind in ("struct_value", "list_value") else found
