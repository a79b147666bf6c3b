"""Converts between plain values (dicts and lists) and the application's types: dataclasses, pydantic models and TypedDicts.

`to_plain` converts to plain values, which the serializers encode. `converter` returns a function that converts plain values to a
type. The converting function drops fields of the data that a class does not have, so that newer writers do not break
older readers.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import sys
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from klamm.errors import ArgumentError
from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

_LEAVES = {bool, bytes, dt.datetime, dt.date, dt.time, decimal.Decimal, float, int, str, type(None)}
"""Types that need no conversion.

Most values have one of these types. A lookup in this set is ten times as fast as the checks for other types.
"""
_UNIONS = (Union, types.UnionType)


def to_plain(value: Any, *, is_json: bool = False) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Return a value with dataclasses and pydantic models replaced by dicts, and enums by their values."""
    if type(value) in _LEAVES:
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if type(value) is dict or isinstance(value, Mapping):
        return {key: each if type(each) in _LEAVES else to_plain(each, is_json=is_json) for key, each in value.items()}
    if isinstance(value, (list, set, frozenset)):
        return [to_plain(each, is_json=is_json) for each in value]
    if type(value) is tuple:  # fastavro takes (name, value) as a branch of a union
        return tuple(to_plain(each, is_json=is_json) for each in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name), is_json=is_json) for f in dataclasses.fields(value)}
    if _is_model(type(value)):
        return to_plain(value.model_dump(mode="json" if is_json else "python", by_alias=True))
    return value


def _is_model(kind: Any) -> bool:
    # Do not import pydantic here: a program with pydantic models has already imported it.
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def converter(target: Any) -> Callable[[Any], Any]:
    """Return a function that converts plain values to a type. If `target` is a function, return `target` itself.

    Args:
        target: A dataclass, a pydantic model, a TypedDict, another type hint, or a function of the plain value.

    Raises:
        ArgumentError: The argument is neither a type nor a function.
    """
    if _is_model(target):
        return target.model_validate  # type: ignore[no-any-return]
    if dataclasses.is_dataclass(target) or is_typeddict(target) or get_origin(target) is not None:
        return lambda value: _convert(target, value, "")
    if callable(target):
        return target  # type: ignore[no-any-return]
    raise ArgumentError(f"cannot convert to {target!r}", hint="pass a dataclass, a model, a TypedDict or a function")


def _fail(target: Any, value: Any, path: str) -> SchemaError:
    name = getattr(target, "__name__", str(target))
    return SchemaError(f"cannot convert {type(value).__name__} to {name}", path=path)


def _convert(target: Any, value: Any, path: str) -> Any:  # noqa: PLR0911 - one for each kind of type
    origin = get_origin(target)
    if target is Any or target is None or isinstance(target, str):
        return value
    if origin is not None:
        return _convert_generic(target, origin, value, path)
    if dataclasses.is_dataclass(target) or is_typeddict(target):
        return _convert_fields(target, value, path)
    if _is_model(target):
        return target.model_validate(value)
    if isinstance(target, type) and issubclass(target, enum.Enum):
        try:
            return target(value)
        except ValueError:
            raise _fail(target, value, path) from None
    if target is float and type(value) is int:
        return float(value)
    if isinstance(target, type) and not isinstance(value, target):
        raise _fail(target, value, path)
    return value


def _convert_fields(target: Any, value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise _fail(target, value, path)
    hints = get_type_hints(target)
    if is_typeddict(target):
        missing = target.__required_keys__ - value.keys()
        known = hints
    else:
        fields = {field.name: field for field in dataclasses.fields(target) if field.init}
        missing = {
            name
            for name, field in fields.items()
            if name not in value
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        }
        known = {name: hints[name] for name in fields}
    if missing:
        raise SchemaError(f"{target.__name__} needs the field {min(missing)!r}, which the data lacks", path=path)
    found = {
        name: _convert(hint, value[name], f"{path}.{name}" if path else name)
        for name, hint in known.items()
        if name in value
    }
    return found if is_typeddict(target) else target(**found)


def _convert_generic(target: Any, origin: Any, value: Any, path: str) -> Any:
    arguments = get_args(target)
    if origin in _UNIONS:
        return _convert_union(target, arguments, value, path)
    if origin is Literal:
        if value not in arguments:
            raise _fail(target, value, path)
        return value
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise _fail(target, value, path)
        return {key: _convert(arguments[-1], each, f"{path}[{key!r}]") for key, each in value.items()}
    if isinstance(origin, type) and issubclass(origin, (Sequence, set, frozenset)):
        if not isinstance(value, (list, tuple)):
            raise _fail(target, value, path)
        items = [_convert(arguments[0], each, f"{path}[{i}]") for i, each in enumerate(value)]
        made: Any = list if origin is Sequence else origin
        return made(items)
    # For Annotated, Required, NotRequired and similar hints, the first argument is the type.
    return _convert(arguments[0], value, path) if arguments else value


def _convert_union(target: Any, arguments: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None and type(None) in arguments:
        return None
    exact = [kind for kind in arguments if kind is type(value)]
    candidates = exact or [kind for kind in arguments if kind is not type(None)]
    if len(candidates) == 1:
        return _convert(candidates[0], value, path)
    for kind in candidates:
        try:
            return _convert(kind, value, path)
        except (SchemaError, ValueError):
            continue
    raise _fail(target, value, path)
