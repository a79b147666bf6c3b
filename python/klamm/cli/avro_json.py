"""The JSON form of Avro values, for commands that print values and read them again.

The form is that of Avro's JSON encoding, with these differences: bytes are base64, decimals are strings, and times are ISO
8601. A value of a union may stand alone, as long as one branch fits it best. Otherwise it names its branch, as in Avro:
`{"string": "x"}`, `{"shop.Order": {"id": 7}}`. The Rust core parses schemas, and decodes and encodes values.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import struct
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from klamm._klamm import AvroReader
from klamm.cli.json_text import NOT_FINITE, dumps, finite
from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from klamm._klamm import AvroSchema

    _Read = tuple[int, Any, "_Type"]

_INTEGERS = {"int": 31, "long": 63}
_FLOATS = ("float", "double")
_DECIMALS = ("decimal", "big-decimal")
_TIMES: dict[str, Any] = {
    "date": dt.date,
    "time-millis": dt.time,
    "time-micros": dt.time,
    "timestamp-millis": dt.datetime,
    "timestamp-micros": dt.datetime,
    "timestamp-nanos": dt.datetime,
    "local-timestamp-millis": dt.datetime,
    "local-timestamp-micros": dt.datetime,
    "local-timestamp-nanos": dt.datetime,
}
# How well a value fits a branch of a union. A lower number fits better.
_SAME, _CONVERTED, _NUMBER, _EXTRA_FIELDS, _INEXACT = range(5)


class _Unfit(Exception):  # noqa: N818 - it becomes a SchemaError
    """A value does not fit a type. `path` begins at the type."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class _Ambiguous(_Unfit):
    """A value fits branches of a union equally well."""


@dataclass(eq=False)
class _Type:
    """A type of a schema. `name` is the name of a named type, and otherwise the same as `kind`."""

    kind: str = ""
    name: str = ""
    logical: str | None = None
    fields: dict[str, tuple[_Type, bool]] = field(default_factory=dict)
    """The fields of a record: their types, and whether they have a default."""
    items: list[_Type] = field(default_factory=list)
    """The branches of a union, or the type of the items of an array or map."""
    symbols: tuple[str, ...] = ()
    size: int = 0
    precision: int = 0
    scale: int = 0


class AvroJson:
    """Converts values of one schema from and to JSON.

    Attributes:
        schema: The parsed schema.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self.schema, self._root = schema, _root_of(schema)
        self._reader = AvroReader(schema, has_positions=True)

    def read(self, value: Any) -> Any:
        """Return the value for a serializer. In a union with several types, it is a tuple of the branch and the value.

        Raises:
            SchemaError: The value does not fit the schema, or fits branches of a union equally well.
        """
        try:
            return _Reading().read(self._root, value)[1]
        except _Unfit as error:
            message = f"the value does not fit the Avro schema: {error}"
            raise SchemaError(message, path=error.path.lstrip(".")) from None
        except RecursionError:
            raise SchemaError("the value is nested too deep") from None

    def decoded(self, data: bytes, start: int = 0) -> Any:
        """Decode the value that starts at a position, and return its JSON form."""
        return _shown(self._root, self._reader.read(data, start))


def _root_of(schema: AvroSchema) -> _Type:
    """Return the outermost type of a schema, with the types that it contains."""
    types: dict[int, _Type] = {}
    unseen: list[int] = []

    def at(index: int) -> _Type:
        if index not in types:
            types[index] = _Type()
            unseen.append(index)
        return types[index]

    root = at(schema.root)
    while unseen:
        index = unseen.pop()
        kind, node = types[index], schema.node(index)
        if isinstance(node, list):
            kind.kind = kind.name = "union"
            kind.items = [at(branch) for branch in node]
            continue
        kind.kind, kind.name = node["type"], node.get("name", node["type"])
        kind.logical, kind.symbols, kind.size = (
            node.get("logicalType"),
            tuple(node.get("symbols", ())),
            node.get("size", 0),
        )
        kind.precision, kind.scale = node.get("precision", 0), node.get("scale", 0)
        kind.fields = {each["name"]: (at(each["type"]), each["has_default"]) for each in node.get("fields", ())}
        kind.items = [at(node[key]) for key in ("items", "values") if key in node]
    return root


def _accepts_null(kind: _Type) -> bool:
    return kind.kind == "null" or (kind.kind == "union" and any(each.kind == "null" for each in kind.items))


def _branches(union: _Type) -> list[_Type]:
    return [branch for branch in union.items if branch.kind != "null"]


def _named(union: _Type, name: str) -> _Type | None:
    """Return the branch with a name. The name of a record, enum or fixed may lack its namespace."""
    found = [branch for branch in union.items if branch.name == name]
    found = found or [branch for branch in union.items if branch.name.rpartition(".")[2] == name]
    return found[0] if len(found) == 1 else None


class _Reading:
    """Reads one value. Each method returns how well the value fits the type, and the value for the serializer."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Read | _Unfit] = {}
        """The results for unions. Without them, the time could grow exponentially with the depth of a value."""

    def read(self, kind: _Type, value: Any) -> tuple[int, Any]:
        if kind.kind == "union":
            fit, found, branch = self.union(kind, value)
            return fit, (branch.name, found) if len(_branches(kind)) > 1 and branch.kind != "null" else found
        if kind.kind == "record" and isinstance(value, dict):
            return self._record(kind, value)
        if kind.kind == "array" and isinstance(value, list):
            return self._items(kind, value, (f"[{at}]" for at in range(len(value))))
        if kind.kind == "map" and isinstance(value, dict):
            fit, found = self._items(kind, list(value.values()), (f".{key}" for key in value))
            return fit, dict(zip(value, found, strict=True))
        return _single(kind, value)

    def _record(self, kind: _Type, value: dict[str, Any]) -> tuple[int, Any]:
        for name, (kind_of_field, has_default) in kind.fields.items():
            if name not in value and not has_default and not _accepts_null(kind_of_field):
                raise _Unfit(f"the field {name} of {kind.name} is missing")
        worst, found = _SAME, {}
        for name, item in value.items():
            if name not in kind.fields:
                worst, found[name] = max(worst, _EXTRA_FIELDS), item
                continue
            try:
                fit, found[name] = self.read(kind.fields[name][0], item)
            except _Unfit as error:
                error.path = f".{name}{error.path}"
                raise
            worst = max(worst, fit)
        return worst, found

    def _items(self, kind: _Type, values: list[Any], paths: Any) -> tuple[int, list[Any]]:
        worst, found = _SAME, []
        for value, path in zip(values, paths, strict=True):
            try:
                fit, item = self.read(kind.items[0], value)
            except _Unfit as error:
                error.path = f"{path}{error.path}"
                raise
            worst = max(worst, fit)
            found.append(item)
        return worst, found

    def union(self, union: _Type, value: Any) -> _Read:
        """Return the branch of a union that a value names, or that fits the value best."""
        key = id(union), id(value)
        known = self._known.get(key)
        if known is None:
            try:
                known = self._chosen(union, value)
            except _Unfit as error:
                known = error
            self._known[key] = known
        if isinstance(known, _Unfit):
            raise type(known)(str(known), known.path)
        return known

    def _chosen(self, union: _Type, value: Any) -> _Read:
        named = self._by_name(union, value)
        if isinstance(named, tuple) and named[0] < _EXTRA_FIELDS:
            return named
        failure = named if isinstance(named, _Unfit) else None
        is_choice = len(_branches(union)) > 1
        fitting: list[_Read] = []
        for branch in union.items:
            try:
                fit, found = self.read(branch, value)
            except _Ambiguous:
                raise
            except _Unfit as error:
                failure = failure or (None if is_choice or branch.kind == "null" else error)
                continue
            if fit < _INEXACT or not is_choice:
                fitting.append((fit, found, branch))
        if isinstance(named, tuple) and all(fit >= _EXTRA_FIELDS for fit, _, _ in fitting):
            return named
        return _best(union, value, fitting, failure)

    def _by_name(self, union: _Type, value: Any) -> _Read | _Unfit | None:
        """Read a value in Avro's form `{name: value}`. Return None if the value does not have this form."""
        if not isinstance(value, dict) or len(value) != 1:
            return None
        ((name, inner),) = value.items()
        branch = _named(union, name)
        try:
            return None if branch is None else (*self.read(branch, inner), branch)
        except _Ambiguous:
            raise
        except _Unfit as error:
            return error


def _best(union: _Type, value: Any, fitting: list[_Read], failure: _Unfit | None) -> _Read:
    names = ", ".join(branch.name for branch in union.items)
    if not fitting:
        raise failure or _Unfit(f"{_text(value)} fits none of the types {names}")
    best = [each for each in fitting if each[0] == min(fit for fit, _, _ in fitting)]
    if len(best) > 1 and not {branch.kind for _, _, branch in best} <= {*_INTEGERS, *_FLOATS}:
        fits = ", ".join(branch.name for _, _, branch in best)
        raise _Ambiguous(f'{_text(value)} fits the types {fits} equally well; name one: {{"{best[0][2].name}": …}}')
    # All numbers of Python are doubles, so a double keeps more than a float.
    return next((each for each in best if each[2].kind == "double"), best[0])


def _text(value: Any) -> str:
    text = dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"  # noqa: PLR2004


def _single(kind: _Type, value: Any) -> tuple[int, Any]:
    """Read a value of a type without parts."""
    if isinstance(value, float) and math.isfinite(value):
        value = Decimal(repr(value))  # as `loads` returns it
    found: tuple[int, Any] | None = None
    if kind.kind == "null":
        found = (_SAME, None) if value is None else None
    elif kind.kind == "boolean":
        found = (_SAME, value) if isinstance(value, bool) else None
    elif isinstance(value, str):
        found = _from_text(kind, value)
    elif isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        found = _from_number(kind, value)
    elif isinstance(value, float) and kind.kind in _FLOATS:  # NaN
        found = _SAME, value
    if found is None:
        raise _Unfit(f"{_text(value)} is not of type {kind.logical or kind.name}")
    return found


def _from_text(kind: _Type, text: str) -> tuple[int, Any] | None:  # noqa: PLR0911 - one for each type
    try:
        if kind.kind == "string":
            return _SAME, uuid.UUID(text) if kind.logical == "uuid" else text
        if kind.kind in _FLOATS:
            return (_CONVERTED, float(text)) if text in NOT_FINITE.values() else None
        if kind.kind == "enum":
            return (_CONVERTED, text) if text in kind.symbols else None
        if kind.kind in ("bytes", "fixed"):
            if kind.logical in _DECIMALS:
                return _decimal(kind, Decimal(text))
            if kind.logical == "uuid":
                return _CONVERTED, uuid.UUID(text)
            data = base64.b64decode(text, validate=True)
            return (_CONVERTED, data) if kind.kind == "bytes" or len(data) == kind.size else None
        if kind.kind in _INTEGERS and kind.logical in _TIMES:
            return _CONVERTED, _time(kind.logical, text)
    except (ValueError, ArithmeticError) as error:
        raise _Unfit(f"{_text(text)} is not of type {kind.logical or kind.name}: {error}") from None
    return None


def _time(logical: str, text: str) -> Any:
    # Before Python 3.11, `fromisoformat` does not know Z.
    text = f"{text[:-1]}+00:00" if text.endswith("Z") else text
    found = _TIMES[logical].fromisoformat(text)
    if isinstance(found, dt.datetime):
        if len(text) <= len("2024-01-01"):
            raise ValueError("a timestamp needs a date and a time")
        if found.tzinfo is None and logical.startswith("timestamp"):
            return found.replace(tzinfo=dt.timezone.utc)
    return found


def _from_number(kind: _Type, value: int | Decimal) -> tuple[int, Any] | None:
    if kind.kind in ("bytes", "fixed") and kind.logical in _DECIMALS:
        return _decimal(kind, Decimal(value))
    if kind.kind in _INTEGERS:
        bound = 1 << _INTEGERS[kind.kind]
        if not -bound <= value < bound or value != int(value):
            return None
        fit = _CONVERTED if isinstance(value, Decimal) else _SAME
        return _NUMBER if kind.logical in _TIMES else fit, int(value)
    if kind.kind not in _FLOATS:
        return None
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise _Unfit(f"{_text(value)} is too large for the type {kind.kind}")
    is_exact = number == value
    if kind.kind == "float":
        try:
            single = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            raise _Unfit(f"{_text(value)} is too large for the type float") from None
        is_exact = single == value
    if isinstance(value, int):
        return _CONVERTED if is_exact else _INEXACT, number
    # Few decimal fractions are exact. A double is as close as JSON promises.
    return _SAME if is_exact or kind.kind == "double" else _CONVERTED, number


def _decimal(kind: _Type, value: Decimal) -> tuple[int, Decimal]:
    if not value.is_finite():
        raise ValueError("not a finite number")
    digits, exponent = value.as_tuple().digits, int(value.as_tuple().exponent)
    if not any(digits):
        return _CONVERTED, Decimal(0)
    if kind.logical == "big-decimal":  # each value has a scale of its own
        return _CONVERTED, value
    last_digit = exponent + next(at for at, digit in enumerate(reversed(digits)) if digit)
    if last_digit < -kind.scale or value.adjusted() + 1 + kind.scale > kind.precision:
        raise _Unfit(f"{_text(value)} does not fit decimal({kind.precision}, {kind.scale})")
    return _CONVERTED, value


def _shown(kind: _Type, value: Any) -> Any:  # noqa: PLR0911 - one for each type
    """Return the JSON form of a value. In a union, the value is a tuple of the branch's position and the value."""
    if kind.kind == "union":
        return None if value is None else _shown_branch(kind, _branches(kind)[value[0]], value[1])
    if kind.kind == "record":
        return {name: _shown(kind.fields[name][0], item) for name, item in value.items()}
    if kind.kind == "map":
        return {name: _shown(kind.items[0], item) for name, item in value.items()}
    if kind.kind == "array":
        return [_shown(kind.items[0], item) for item in value]
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return str(value) if isinstance(value, uuid.UUID) else value


def _shown_branch(union: _Type, branch: _Type, value: Any) -> Any:
    """Return the JSON form of a value of a union. It names the branch if the value alone would be read as another."""
    plain = _shown(branch, value)
    is_like_a_name = isinstance(plain, dict) and len(plain) == 1 and _named(union, next(iter(plain))) is not None
    if len(_branches(union)) == 1 and not is_like_a_name:
        return plain
    try:
        is_clear = _Reading().union(union, plain)[2] is branch
    except _Unfit:
        is_clear = False
    return plain if is_clear else {branch.name: plain}
