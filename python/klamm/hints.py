"""Errors for names of other clients and for wrong keywords. Each error names klamm's equivalent.

Names of other clients are descriptors that raise AttributeError, so that other attributes cost nothing. `__getattr__`
would slow down every call of a method. `dir()` and `help()` do not show names of other clients. Other calls explain
wrong arguments after Python has rejected them. The calls for single records are not wrapped: the core explains their
errors itself (`src/py/arguments.rs`).
"""

from __future__ import annotations

from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from klamm.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import CodeType

C = TypeVar("C", bound=type)
F = TypeVar("F", bound="Callable[..., Any]")

CO_COROUTINE = 0x80
"""The flag of `async def` in a code object, as in `inspect`."""

RECORD = ["topic", "value", "key", "partition", "timestamp_ms", "headers"]
"""The arguments of `send`."""

SYNONYMS = {
    "count": "max_records",
    "delay": "seconds",
    "max_messages": "max_records",
    "num_messages": "max_records",
    "num_partitions": "partitions",
    "on_assign": "on_rebalance",
    "on_revoke": "on_rebalance",
    "listener": "on_rebalance",
    "timeout_ms": "timeout",
    "timestamp": "timestamp_ms",
}
"""Keywords of other clients, and klamm's names for them."""


class ClientType(type):
    """The metaclass of classes that explain names of other clients. `dir()` does not show these names."""

    def __dir__(cls) -> list[str]:
        return visible(cls, super().__dir__())


class NameHint:
    """A method of another client. Using it raises AttributeError, whose message names klamm's equivalent."""

    def __init__(self, hint: str) -> None:
        self.hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{public_name(owner)} has no {self.name}; hint: {self.hint}")


def visible(cls: type, names: Iterable[str]) -> list[str]:
    """Return names without the names of other clients."""
    hidden = {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, NameHint)}
    return [name for name in names if name not in hidden]


def public_name(cls: type) -> str:
    """Return the public name of a class: without the underscore of a base class or of a subclass with hooks."""
    return cls.__name__.lstrip("_")


def hints_for_other_clients(names: Mapping[str, str], *, hot: Iterable[str] = ()) -> Callable[[C], C]:
    """Return a class decorator for helpful errors.

    Args:
        names: Names of other clients, and what to use instead.
        hot: Methods that programs call for each record. The decorator does not wrap them, so that they stay fast.
    """

    def decorate(cls: C) -> C:
        for name, hint in names.items():
            if not hasattr(cls, name):
                descriptor = NameHint(hint)
                descriptor.__set_name__(cls, name)
                setattr(cls, name, descriptor)
        for base in cls.__mro__:
            if not base.__module__.startswith("klamm.") or base.__module__ == "klamm._klamm":
                continue
            for name, value in list(vars(base).items()):
                is_ours = isinstance(value, FunctionType) and not hasattr(value, "__wrapped__")
                if is_ours and not name.startswith("_") and name not in hot:
                    setattr(base, name, with_argument_hints(value))
                elif (
                    isinstance(value, staticmethod) and name == "__new__" and not hasattr(value.__func__, "__wrapped__")
                ):
                    setattr(base, name, staticmethod(with_option_hints(value.__func__)))

        def __dir__(self: object) -> list[str]:  # noqa: N807 - a method of the class
            """Return the names of the attributes, without those of other clients."""
            return visible(type(self), object.__dir__(self))

        setattr(cls, "__dir__", __dir__)  # noqa: B010 - not for type checkers
        return cls

    return decorate


def with_argument_hints(method: FunctionType) -> Callable[..., Any]:
    """Return a method whose errors for wrong arguments name the class and the nearest right keyword."""
    if method.__code__.co_flags & CO_COROUTINE:

        @wraps(method)
        async def call(self: object, *args: Any, **keywords: Any) -> Any:
            try:
                coroutine = method(self, *args, **keywords)
            except TypeError as error:
                reject(error, f"{public_name(type(self))}.{method.__name__}", method)
            return await coroutine
    else:

        @wraps(method)
        def call(self: object, *args: Any, **keywords: Any) -> Any:
            try:
                return method(self, *args, **keywords)
            except TypeError as error:
                # An error without a second frame is about the call, and not from inside the method.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                reject(error, f"{public_name(type(self))}.{method.__name__}", method)

    return call


def with_option_hints(function: F) -> F:
    """Return a function whose errors name the nearest right argument.

    Other keywords of the function, if any, are Kafka's configuration keys.
    """

    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except ConfigError as error:
            wrong = str(error).removeprefix("there is no option ")
            if error.hint is None and wrong in keywords and (near := nearest(wrong, arguments_of(function))):
                raise ConfigError(error.message, hint=f"did you mean {near}?") from None
            raise
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            name = function.__name__
            reject(error, public_name(args[0]) if name == "__new__" else name, function)

    return call  # type: ignore[return-value]


def reject(error: TypeError, name: str, method: Callable[..., Any]) -> NoReturn:
    """Raise Python's error for wrong arguments again, with the public name of the class and a hint."""
    import re

    wrong = re.match(r"^[\w.]+\(\) (.*)", str(error))
    if isinstance(error, ArgumentError) or not wrong:
        raise error
    arguments = arguments_of(method)
    keyword = re.match(r"got an unexpected keyword argument '(\w+)'", wrong[1])
    if not keyword:
        raise ArgumentError(f"{name}() {wrong[1]}", hint=f"it takes {', '.join(arguments) or 'no arguments'}") from None
    raise ArgumentError(f"{name}() has no argument {keyword[1]}", hint=keyword_hint(keyword[1], arguments)) from None


def unknown_keywords(method: str, unknown: Mapping[str, object]) -> ArgumentError:
    """Return the error for keywords that a method of the core does not have. The core calls it."""
    wrong = next(iter(unknown))
    return ArgumentError(f"Producer.{method}() has no argument {wrong}", hint=keyword_hint(wrong, RECORD))


def wrong_record(method: str, named: Mapping[str, Any]) -> ArgumentError:
    """Return the error for wrong arguments of a record."""
    unknown = {name: value for name, value in named.items() if name not in RECORD}
    if unknown:
        return unknown_keywords(method, unknown)
    return ArgumentError(f"Producer.{method}() takes {', '.join(RECORD)}, each at most once")


def keyword_hint(wrong: str, known: list[str]) -> str:
    """Return what to write instead of a wrong keyword."""
    if (near := SYNONYMS.get(wrong)) in known:
        unit = ", in seconds" if near == "timeout" else ""
        return f"klamm calls it {near}{unit}"
    near = nearest(wrong, known)
    return f"did you mean {near}?" if near else f"it takes {', '.join(known) or 'no arguments'}"


def nearest(wrong: str, known: Sequence[str]) -> str | None:
    """Return the most similar name, if there is one."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(wrong, known, 1, 0.5)), None)


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments of a function of Python."""
    code: CodeType = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [name for name in names if name not in ("self", "cls")]
