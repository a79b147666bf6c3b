"""Converts between plain values (dicts and lists) and the application's types: dataclasses, pydantic models and TypedDicts.

`simplified` returns the parts of one object, and `to_json` converts an object with all its parts. `converter` compiles a
type to a function that converts plain values to the type. The function drops fields of the data that a class does not
have, so that newer writers do not break older readers.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import numbers
import re
import sys
import types
import typing
import uuid
from collections import abc, defaultdict
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, is_typeddict

from klamm.errors import ArgumentError
from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    Convert: TypeAlias = Callable[[Any], Any]

_LEAVES = {bool, bytes, dt.datetime, dt.date, dt.time, decimal.Decimal, float, int, str, type(None)}
"""Types that need no conversion.

Most values have one of these types. A lookup in this set is ten times as fast as the checks for other types.
"""
_JSON_LEAVES = {bool, decimal.Decimal, float, int, str, type(None)}
_PLAIN: tuple[tuple[Any, Convert], ...] = (
    (str, str),
    (float, float),
    ((bytearray, memoryview), bytes),
    (numbers.Integral, int),
    (numbers.Real, float),
)
"""Base classes of values, and functions that convert these values to values of a type that each format knows."""
_UNIONS = (Union, types.UnionType)
_MISSING: Any = object()
_REQUIRED: Any = object()
_EXACT_INTEGERS = 1 << 53
"""Up to this number, every integer is a float."""
_MAX_ATTEMPTS = 1000
"""Longest search for the types of one value, in types that did not fit. Unions in unions could take exponential time."""


class NamedRecord(dict[str, Any]):
    """The fields of a record in a union, with the full name of the record."""

    __slots__ = ("name",)

    def __init__(self, name: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.name = name


def simplified(value: Any, *, is_json: bool = False) -> tuple[str | None, Any]:  # noqa: C901, PLR0911 - one for each kind
    """Return the class name and the fields of an object, or None and a plain value that stands for another value.

    The parts of the object stay as they are. The class name decides the branch of an Avro union. For JSON, dates, times
    and UUIDs become text.
    """
    kind = type(value)
    if kind is dict or (kind in _LEAVES and not is_json):
        return None, value
    if isinstance(value, enum.Enum):
        return None, value.value
    if dataclasses.is_dataclass(kind):
        return kind.__name__, {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    if getattr(kind, "__pydantic_root_model__", False) and not is_json:
        return simplified(value.root)
    if _is_model(kind):
        return kind.__name__, value.model_dump(mode="json", by_alias=True) if is_json else _model_fields(value)
    if isinstance(value, tuple) and hasattr(kind, "_fields") and not is_json:
        return kind.__name__, dict(zip(kind._fields, value, strict=True))
    if isinstance(value, abc.Mapping):
        return None, dict(value)
    for base, plain in _PLAIN:
        if isinstance(value, base):
            return None, plain(value)
    if isinstance(value, (abc.Sequence, abc.Set)) and not isinstance(value, bytes):
        return None, list(value)
    return None, _json_text(value) if is_json else value


def _model_fields(model: Any) -> dict[str, Any]:
    """Return the fields of a pydantic model. Inner models stay as they are, because their class decides a branch."""
    kind, own = type(model), type(model).__pydantic_decorators__
    if own.field_serializers or own.model_serializers or own.computed_fields:
        return model.model_dump(by_alias=True)  # type: ignore[no-any-return]
    fields = {
        field.serialization_alias or field.alias or name: getattr(model, name)
        for name, field in kind.model_fields.items()
    }
    return {**fields, **(model.model_extra or {})}


def to_json(value: Any) -> Any:
    """Return a value with all objects replaced by values for `json.dumps`, which may contain `Decimal`."""
    if type(value) in _JSON_LEAVES:
        return value
    if type(value) not in {dict, list}:
        value = simplified(value, is_json=True)[1]
    if isinstance(value, dict):
        return {key: each if type(each) in _JSON_LEAVES else to_json(each) for key, each in value.items()}
    return [to_json(each) for each in value] if isinstance(value, list) else value


def _json_text(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return utc_text(value)
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return str(value) if isinstance(value, uuid.UUID) else value


def utc_text(value: dt.datetime) -> str:
    """Return a datetime as text. A datetime without a time zone is UTC, as in `send_arrow`."""
    zoned = value.replace(tzinfo=dt.timezone.utc) if value.tzinfo is None else value.astimezone(dt.timezone.utc)
    return zoned.isoformat().replace("+00:00", "Z")


def _is_model(kind: Any) -> bool:
    # Do not import pydantic here: a program with pydantic models has already imported it.
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def converter(target: Any) -> Callable[[Any], Any]:
    """Return a function that converts plain values to a type. If `target` is a function, return `target` itself.

    A name in a string annotation can belong to the module of its class, or to one of the functions that call this
    function. If a name does not exist yet, the type is compiled when the first value is converted.

    A dataclass or `TypedDict` takes a dict, and a `NamedTuple` a dict or a list. For a union of classes, the name of the
    record decides, if the value is a pair of a name and a dict. Otherwise the first class decides that has all fields
    of the dict, or, if there is none, the first class to which the dict can be converted.

    Args:
        target: A dataclass, a pydantic model, a TypedDict, a NamedTuple, an enum, another type hint, or a function of the
            plain value.

    Raises:
        ArgumentError: The argument is neither a type nor a function.
    """
    target = _unwrapped(target)
    if _is_class(target) or get_origin(target) is not None or target in _SCALARS:
        try:
            return _Compiler().compile(target)
        except NameError:
            return _later(target)
    if callable(target):
        return target  # type: ignore[no-any-return]
    raise ArgumentError(f"cannot convert to {target!r}", hint="pass a dataclass, a model, a TypedDict or a function")


def _later(target: Any) -> Convert:
    compiled: list[Convert] = []

    def convert(value: Any) -> Any:
        if not compiled:
            compiled.append(_Compiler().compile(target))
        return compiled[0](value)

    vars(convert)["has_decimals"] = True  # the type may contain some
    return convert


def _is_class(target: Any) -> bool:
    """Return whether klamm converts a dict, list or enum value to a class, instead of calling the class."""
    return (
        dataclasses.is_dataclass(target)
        or is_typeddict(target)
        or _is_model(target)
        or (isinstance(target, type) and (issubclass(target, enum.Enum) or _is_named_tuple(target)))
    )


def _is_named_tuple(target: type) -> bool:
    return issubclass(target, tuple) and hasattr(target, "_fields")


def _unwrapped(target: Any) -> Any:
    """Return the type that an alias, a `NewType` or an annotated type stands for."""
    for _ in range(100):
        if hasattr(target, "__supertype__"):
            target = target.__supertype__
        elif type(target).__name__ == "TypeAliasType":
            target = target.__value__
        elif get_origin(target) is typing.Annotated:
            target = get_args(target)[0]
        else:
            break
    return target


def _unfit(target: Any, value: Any) -> SchemaError:
    name = target.__name__ if isinstance(target, type) and not get_args(target) else str(target)
    return SchemaError(f"cannot convert {type(value).__name__} to {name}")


class _Field(NamedTuple):
    """A field of a class.

    Attributes:
        kind: Values of exactly this type need no conversion; `_MISSING` if all values need one.
        takes_none: Whether None needs no conversion.
        default: Function that returns the default, `_REQUIRED`, or None if the class itself fills in a missing field.
    """

    name: str
    convert: Convert
    kind: Any
    takes_none: bool
    default: Callable[[], Any] | None


class _Class(NamedTuple):
    """A class in a union, with the names of its fields."""

    name: str
    fields: frozenset[str]
    convert: Convert


class _Compiler:
    """Compiles one type, with all types that it contains. A type that contains itself is compiled once."""

    def __init__(self) -> None:
        self._compiled: dict[Any, list[Convert]] = {}
        self._names: dict[str, Any] = {}
        self._failed_attempts: list[int] = []

    def compile(self, target: Any) -> Convert:
        """Return the function for a type that no other type contains.

        If the type contains `Decimal`, the function has the attribute `has_decimals`.
        """
        inner, failed = self.of(target), self._failed_attempts
        has_decimals = decimal.Decimal in self._compiled
        if not failed and not has_decimals:
            return inner

        def convert(value: Any) -> Any:
            failed[:] = [0]
            return inner(value)

        vars(convert)["has_decimals"] = has_decimals
        return convert

    def of(self, target: Any) -> Convert:
        target = _unwrapped(target)
        try:
            known = self._compiled.get(target)
        except TypeError:  # the type has metadata or literals without a hash
            return self._made(target)
        if known is None:
            made: list[Convert] = []
            self._compiled[target] = made
            made.append(self._made(target))
            return made[0]
        if not known:  # the type contains itself, and is not compiled yet
            return lambda value: known[0](value)  # noqa: PLW0108
        return known[0]

    def _made(self, target: Any) -> Convert:  # noqa: PLR0911 - one for each kind of type
        origin = get_origin(target)
        if target in (Any, object, None) or isinstance(target, TypeVar):
            return _same
        if origin in _UNIONS:
            return self._union(target, get_args(target))
        if origin is Literal:
            return _literal(target)
        record = target if origin is None else origin
        if hasattr(record, "__pydantic_validator__"):
            for field in getattr(record, "model_fields", {}).values():
                self.of(field.annotation)  # to find decimals; pydantic itself converts the fields
            return _validate(target)
        if dataclasses.is_dataclass(record):
            return _object(
                record, self._fields(target, {f.name: _default(f) for f in dataclasses.fields(record) if f.init})
            )
        if is_typeddict(record):
            return _object(record, self._fields(target, self._keys(record)))
        if isinstance(record, type) and _is_named_tuple(record):
            given: Any = record
            names = {name: _constant(given._field_defaults.get(name, _REQUIRED)) for name in given._fields}
            return _named_tuple(record, self._fields(target, names))
        if origin is not None:
            return self._generic(target, origin, get_args(target))
        return self._plain(target) if isinstance(target, type) else _same

    def _plain(self, target: type) -> Convert:
        """Return the function for a class without type arguments whose values are no dicts."""
        if issubclass(target, enum.Enum):
            return _enum(target)
        if target in {set, frozenset, tuple}:
            return _items(target, target, _same, _MISSING)
        return _SCALARS.get(target) or _instance(target)

    def _fields(self, target: Any, defaults: Mapping[str, Any]) -> list[_Field]:
        hints, bound = self._hints(get_origin(target) or target), _bound(target)
        fields = []
        for name, default in defaults.items():
            hint = _with_bound(hints.get(name, Any), bound)
            kinds = get_args(hint) if get_origin(hint) in _UNIONS else (hint,)
            fields.append(_Field(name, self.of(hint), _leaf(*kinds), type(None) in kinds, default))
        return fields

    def _keys(self, record: Any) -> dict[str, Any]:
        """Return the keys of a TypedDict. `__required_keys__` alone is wrong if the annotations are strings."""
        found = {}
        for name, hint in self._hints(record, include_extras=True).items():
            marker = str(get_origin(hint)).rpartition(".")[2]
            is_required = marker == "Required" or (name in record.__required_keys__ and marker != "NotRequired")
            found[name] = _REQUIRED if is_required else None
        return found

    def _hints(self, record: Any, *, include_extras: bool = False) -> dict[str, Any]:
        """Return the type hints of a class. Look up names that are not in its module in the calling functions."""
        while True:
            try:
                return typing.get_type_hints(record, localns=self._names or None, include_extras=include_extras)
            except NameError as error:
                if error.name is None or error.name in self._names:
                    raise
                self._names[error.name] = _named(record, error.name, error)

    def _union(self, target: Any, kinds: tuple[Any, ...]) -> Convert:
        kinds = tuple(map(_unwrapped, kinds))
        others = [kind for kind in kinds if kind is not type(None)]
        if len(others) == 1:
            inner = self.of(others[0])
            return lambda value: None if value is None else inner(value)
        exact = {kind for kind in kinds if kind in _LEAVES}
        candidates = [self.of(kind) for kind in others]
        classes = [
            _Class(record.__name__, frozenset(fields), convert)
            for kind, convert in zip(others, candidates, strict=True)
            if (fields := _field_names(record := get_origin(kind) or kind)) is not None
        ]

        failed = self._failed_attempts
        failed[:] = [0]

        def convert(value: Any) -> Any:
            if type(value) in exact:
                return value
            tried = candidates
            if classes:
                name, value = _name_and_fields(value)
                named = [each.convert for each in classes if name and each.name == name]
                if not named and isinstance(value, Mapping):
                    fitting = [each.convert for each in classes if each.fields >= value.keys()]
                    tried = [*fitting, *(each for each in candidates if each not in fitting)]
                tried = named or tried
            for each in tried:
                try:
                    return each(value)
                except (SchemaError, ValueError):
                    failed[0] += 1
                    if len(tried) == 1 or failed[0] > _MAX_ATTEMPTS:
                        raise
            raise _unfit(target, value)

        return convert

    def _generic(self, target: Any, origin: Any, arguments: tuple[Any, ...]) -> Convert:
        if isinstance(origin, type) and issubclass(origin, abc.Mapping):
            made: Any = origin if issubclass(origin, dict) else dict
            key, value = arguments or (Any, Any)
            return _mapping(target, made, _INTEGER_KEY if key is int else self.of(key), self.of(value), _leaf(value))
        if origin is tuple and arguments:
            if len(arguments) == 2 and arguments[1] is Ellipsis:  # noqa: PLR2004 - tuple[T, ...]
                return _items(target, tuple, self.of(arguments[0]), _leaf(arguments[0]))
            return _positions(target, [] if arguments == ((),) else [self.of(each) for each in arguments])
        if isinstance(origin, type) and issubclass(origin, abc.Iterable):
            is_abstract = origin.__module__ == "collections.abc"
            made = (set if issubclass(origin, abc.Set) else list) if is_abstract else origin
            (item,) = arguments or (Any,)
            return _items(target, made, self.of(item), _leaf(item))
        # For Final, ClassVar, Required and similar hints, the first argument is the type.
        return self.of(arguments[0]) if arguments else _same


def _named(record: type, name: str, error: NameError) -> Any:
    """Find a class that an annotation names: in the class itself, or in the functions that called `converter`."""
    for kind in record.__mro__:
        if kind.__name__ == name:
            return kind
        if name in vars(kind):
            return vars(kind)[name]
    frame = inspect.currentframe()
    while frame is not None:
        if name in frame.f_locals and not str(frame.f_globals.get("__name__")).startswith("klamm."):
            return frame.f_locals[name]
        frame = frame.f_back
    raise error


def _bound(target: Any) -> dict[Any, Any]:
    """Return the types that a class or a generic class with arguments has for its type variables."""
    origin = get_origin(target) or target
    parameters = getattr(origin, "__parameters__", ())
    bound = dict(zip(parameters, get_args(target), strict=False))
    for base in getattr(origin, "__orig_bases__", ()):
        if get_origin(base) not in (None, typing.Generic):
            bound |= {variable: _with_bound(of, bound) for variable, of in _bound(base).items()}
    return bound


def _with_bound(hint: Any, bound: Mapping[Any, Any]) -> Any:
    if isinstance(hint, TypeVar):
        return bound.get(hint, Any)
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(bound.get(variable, Any) for variable in variables)] if variables and get_args(hint) else hint


def _field_names(record: Any) -> Iterable[str] | None:
    """Return the names of the fields of a class, or None for other types."""
    if dataclasses.is_dataclass(record):
        return [field.name for field in dataclasses.fields(record)]
    if is_typeddict(record):
        return record.__annotations__  # type: ignore[no-any-return]
    if _is_model(record):
        return [name for key, field in record.model_fields.items() for name in (key, field.alias) if name]
    return record._fields if isinstance(record, type) and _is_named_tuple(record) else None  # type: ignore[attr-defined]


def _name_and_fields(value: Any) -> tuple[str | None, Any]:
    """Return the name of a record without its namespace, and its fields. The name is None if the format does not say it."""
    if type(value) is NamedRecord:
        return value.name.rpartition(".")[2], value
    if type(value) is tuple and len(value) == 2 and isinstance(value[0], str):  # noqa: PLR2004 - name and fields
        return value[0].rpartition(".")[2], value[1]
    return None, value


def _leaf(*kinds: Any) -> Any:
    """Return a type that a value may have without a conversion, or `_MISSING` if there is none."""
    return next((kind for kind in kinds if kind in _LEAVES and kind is not type(None)), _MISSING)


def _constant(value: Any) -> Any:
    return _REQUIRED if value is _REQUIRED else lambda: value


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return _constant(_REQUIRED if field.default is dataclasses.MISSING else field.default)


def _object(record: Any, fields: list[_Field]) -> Convert:
    """Compile a function that converts a dict to an object of a class.

    The function is Python code with a line for each field. A loop over the fields takes three times as long.
    """
    is_dict = is_typeddict(record)
    names: dict[str, Any] = {"made": record, "missing": _MISSING, "lacks": partial(_lacks, record)}
    names |= {"fields_of": partial(_fields_of, record), "SchemaError": SchemaError, "in_step": _in_step}
    lines = ["if type(value) is not dict: value = fields_of(value)", "found = {}", "at = None", "try:"]
    for number, (name, convert, kind, takes_none, default) in enumerate(fields):
        names |= {f"to{number}": convert, f"kind{number}": kind, f"default{number}": default}
        text = "v" if convert is _same else f"to{number}(v)"
        if takes_none:
            text = f"None if v is None else {text}"
        if kind is not _MISSING:
            text = f"v if type(v) is kind{number} else {text}"
        if default is not _REQUIRED:
            text = f"default{number}() if v is missing else {text}"
        get = f"value[{name!r}]" if default is _REQUIRED else f"value.get({name!r}, missing)"
        indent = "    "
        if default is None:  # a key that a TypedDict does not need
            lines.append(f"    if {name!r} in value:")
            get, indent, text = f"value[{name!r}]", "        ", text.partition(" is missing else ")[2]
        lines.append(f"{indent}at = {name!r}; v = {get}; {'found[at]' if is_dict else f'x{number}'} = {text}")
    lines += ["    pass", "except SchemaError as error: in_step(error, f'.{at}')", "except KeyError: lacks(value, at)"]
    made = "found" if is_dict else f"made({', '.join(f'{field.name}=x{n}' for n, field in enumerate(fields))})"
    source = "\n ".join(["def convert(value):", *lines, f"return {made}"])
    exec(source, names)  # noqa: S102 - the names of fields are quoted or are identifiers
    return names["convert"]  # type: ignore[no-any-return]


def _fields_of(record: Any, value: Any) -> Any:
    fields = _name_and_fields(value)[1]
    if not isinstance(fields, Mapping):
        raise _unfit(record, value)
    return fields


def _lacks(record: Any, value: Any, name: Any) -> None:
    """Raise the error for a field that is missing. Called in an `except` block for `KeyError`."""
    if name in value:
        raise  # noqa: PLE0704 - the application's code raised the error
    raise SchemaError(f"{record.__name__} needs the field {name!r}, which the data lacks") from None


def _in_step(error: SchemaError, step: str) -> None:
    """Put a step, which begins with `.` or `[`, in front of the path of an error. Called in an `except` block."""
    error.path = f"{step}{'' if error.path[:1] in ('', '[') else '.'}{error.path}".removeprefix(".")
    raise error


def _named_tuple(record: Any, fields: list[_Field]) -> Convert:
    by_name, by_position = _object(record, fields), _positions(record, [field.convert for field in fields])
    return lambda value: record(*by_position(value)) if isinstance(value, list) else by_name(value)


def _mapping(target: Any, made: Any, key_of: Convert, value_of: Convert, kind: Any) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _unfit(target, value)
        found, key = {}, None
        try:
            for key, each in value.items():
                found[key_of(key)] = each if type(each) is kind else value_of(each)
        except SchemaError as error:
            _in_step(error, f"[{key!r}]")
        return found if made is dict else made(None, found) if issubclass(made, defaultdict) else made(found)

    return convert


def _items(target: Any, made: Any, convert_item: Convert, kind: Any) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _unfit(target, value)
        found = []
        try:
            for item in value:
                found.append(item if type(item) is kind else convert_item(item))  # noqa: PERF401 - its length is the index
        except SchemaError as error:
            _in_step(error, f"[{len(found)}]")
        return found if made is list else made(found)

    return convert


def _positions(target: Any, converts: list[Convert]) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _unfit(target, value)
        if len(value) != len(converts):
            raise SchemaError(f"cannot convert {len(value)} items to {target}")
        found: list[Any] = []
        try:
            for item, convert_item in zip(value, converts, strict=True):
                found.append(convert_item(item))
        except SchemaError as error:
            _in_step(error, f"[{len(found)}]")
        return tuple(found)

    return convert


def _literal(target: Any) -> Convert:
    allowed = {(type(each), each) for each in get_args(target)}

    def convert(value: Any) -> Any:
        for kind, each in allowed:
            if each == value and (type(value) is kind or issubclass(kind, enum.Enum)):
                return each
        raise _unfit(target, value)

    return convert


def _enum(target: Any) -> Convert:
    def convert(value: Any) -> Any:
        try:
            return target(value)
        except ValueError:
            # Avro and Protobuf write the names of enums.
            found = target.__members__.get(value) if isinstance(value, str) else None
            if found is None:
                raise SchemaError(f"cannot convert {value!r} to {target.__name__}") from None
            return found

    return convert


def _validate(target: Any) -> Convert:
    """Return the function for a pydantic model or a dataclass of pydantic."""
    if _is_model(target):
        return target.model_validate  # type: ignore[no-any-return]
    return sys.modules["pydantic"].TypeAdapter(target).validate_python  # type: ignore[no-any-return]


def _same(value: Any) -> Any:
    return value


def _instance(target: type) -> Convert:
    def convert(value: Any) -> Any:
        if isinstance(value, target):
            return value
        raise _unfit(target, value)

    return convert


def _scalar(target: type, others: tuple[type, ...], made: Convert) -> Convert:
    """Return a function that keeps values of a type, and converts values of other types if they are valid."""

    def convert(value: Any) -> Any:
        if isinstance(value, others) and type(value) is not bool:
            try:
                return made(value)
            except (ValueError, ArithmeticError):
                raise SchemaError(f"cannot convert {value!r:.100} to {target.__name__}") from None
        if isinstance(value, target):
            return value
        raise _unfit(target, value)

    return convert


def _integer(value: float) -> int:
    if not value.is_integer() or abs(value) > _EXACT_INTEGERS:
        raise ValueError
    return int(value)


def _iso(text: str) -> str:
    """Return a date or time of RFC 3339 in the form that Python 3.10 reads. Digits after microseconds are dropped."""
    text = re.sub(r"[zZ]$", "+00:00", text)
    return re.sub(r"\.(\d+)", lambda found: f".{found[1][:6]:0<6}", text, count=1)


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.datetime):  # its time would be lost
        raise ValueError  # noqa: TRY004
    return value if isinstance(value, dt.date) else dt.date.fromisoformat(value)


_SCALARS: dict[Any, Convert] = {
    int: _scalar(int, (float,), _integer),
    float: _scalar(float, (int, decimal.Decimal), float),
    dt.date: _scalar(dt.date, (str, dt.datetime), _date),
    dt.datetime: _scalar(dt.datetime, (str,), lambda text: dt.datetime.fromisoformat(_iso(text))),
    dt.time: _scalar(dt.time, (str,), lambda text: dt.time.fromisoformat(_iso(text))),
    decimal.Decimal: _scalar(decimal.Decimal, (str, int), decimal.Decimal),
    uuid.UUID: _scalar(uuid.UUID, (str,), uuid.UUID),
}
"""The functions for types that a format without the type writes as text or numbers."""
_INTEGER_KEY = _scalar(int, (str,), int)
"""The function for keys of maps, which are text in Avro and JSON."""
