"""Raises helpful errors for method names of other Kafka clients, such as kafka-python, and for wrong keyword arguments.

Each error about a method name contains klamm's equivalent. For each method name of another client, a class has a
descriptor that raises AttributeError. klamm uses no `__getattr__` method, because it would slow down every method call.
`dir()` and `help()` omit the names of other clients.

A wrapper around each public method adds a hint after Python has rejected the arguments of a call. Methods for single
records have no wrapper, because the core itself adds hints to their errors (`src/py/arguments.rs`).
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
"""Flag in the code object of an `async def` function. The flag has the same value as `inspect.CO_COROUTINE`."""

RECORD = ["topic", "value", "key", "partition", "timestamp_ms", "headers"]
"""Names of the arguments of `send`."""

SYNONYMS = {
    "count": "max_records",
    "delay": "seconds",
    "max_messages": "max_records",
    "nodes": "brokers",
    "num_messages": "max_records",
    "num_partitions": "partitions",
    "on_assign": "on_rebalance",
    "on_revoke": "on_rebalance",
    "listener": "on_rebalance",
    "timeout_ms": "timeout",
    "timestamp": "timestamp_ms",
}
"""Dict from argument names of other Kafka clients to klamm's names for the same arguments."""


class ClientType(type):
    """Metaclass of classes that have hints for method names of other Kafka clients.

    `dir()` of the class omits the names of other clients.
    """

    def __dir__(cls) -> list[str]:
        return visible(cls, super().__dir__())


class NameHint:
    """Descriptor for a method name of another Kafka client. Reading the attribute raises AttributeError with a hint."""

    def __init__(self, hint: str) -> None:
        self.hint = hint

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(f"{public_name(owner)} has no {self.name}; hint: {self.hint}")


def visible(cls: type, names: Iterable[str]) -> list[str]:
    """Return `names` without the method names of other Kafka clients."""
    hidden = {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, NameHint)}
    return [name for name in names if name not in hidden]


def public_name(cls: type) -> str:
    """Return the name of a class without leading underscores, such as `Consumer` for `_Consumer`."""
    return cls.__name__.lstrip("_")


def hints_for_other_clients(names: Mapping[str, str], *, hot: Iterable[str] = ()) -> Callable[[C], C]:
    """Return a class decorator that adds hints to errors about wrong names and arguments.

    Args:
        names: Dict from method names of other Kafka clients to hints that say what to use instead.
        hot: Methods that programs call for each record. The decorator does not wrap hot methods, so that they stay
            fast.
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

        def __dir__(self: object) -> list[str]:  # noqa: N807 - this function becomes a method of the class
            """Return the names of the attributes, without the method names of other Kafka clients."""
            return visible(type(self), object.__dir__(self))

        setattr(cls, "__dir__", __dir__)  # noqa: B010 - type checkers should not see the method
        return cls

    return decorate


def with_argument_hints(method: FunctionType) -> Callable[..., Any]:
    """Wrap a method. If a caller passes wrong arguments, the error names the class and suggests valid arguments."""
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
                # If the traceback has more than one frame, the error comes from inside the method and not from the
                # call.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                reject(error, f"{public_name(type(self))}.{method.__name__}", method)

    return call


def with_option_hints(function: F) -> F:
    """Wrap a function. If a caller passes an unknown keyword argument, the error suggests the most similar valid name.

    The function may also accept Kafka's configuration keys as keyword arguments.
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
    """Raise an ArgumentError in place of Python's TypeError. The ArgumentError has the public class name and a hint."""
    import re

    wrong = re.match(r"^[\w.]+\(\) (.*)", str(error))
    if isinstance(error, ArgumentError) or not wrong:
        raise error
    arguments = arguments_of(method)
    keyword = re.match(r"got an unexpected keyword argument '(\w+)'", wrong[1])
    if not keyword:
        raise ArgumentError(f"{name}() {wrong[1]}", hint=f"it takes {', '.join(arguments) or 'no arguments'}") from None
    raise ArgumentError(f"{name}() has no argument {keyword[1]}", hint=keyword_hint(keyword[1], arguments)) from None


def wrong_record(method: str, named: Mapping[str, Any]) -> ArgumentError:
    """Return the error for a call with wrong arguments to a method that sends a record."""
    wrong = next((name for name in named if name not in RECORD), None)
    if wrong is not None:
        return ArgumentError(f"Producer.{method}() has no argument {wrong}", hint=keyword_hint(wrong, RECORD))
    return ArgumentError(f"Producer.{method}() takes {', '.join(RECORD)}, each at most once")


def keyword_hint(wrong: str, known: list[str]) -> str:
    """Return a hint for a wrong keyword argument.

    The hint is klamm's name for the argument, the most similar valid name, or all valid names.
    """
    if (near := SYNONYMS.get(wrong)) in known:
        unit = ", in seconds" if near == "timeout" else ""
        return f"klamm calls it {near}{unit}"
    near = nearest(wrong, known)
    return f"did you mean {near}?" if near else f"it takes {', '.join(known) or 'no arguments'}"


def nearest(wrong: str, known: Sequence[str]) -> str | None:
    """Return the name in `known` that is most similar to a wrong name, or None if no name is similar."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(wrong, known, 1, 0.5)), None)


def arguments_of(function: Callable[..., Any]) -> list[str]:
    """Return the argument names of a Python function, without `self` and `cls`."""
    code: CodeType = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [name for name in names if name not in ("self", "cls")]
