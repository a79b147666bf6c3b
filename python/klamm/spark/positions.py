"""Where a read begins and ends, as the options say it: `earliest`, `latest`, offsets, or times.

Parsing only; what a position is in offsets the brokers know, and `lookup` asks them. Of several options that say where
to begin (or end) the first of this order counts, as in Spark's connector: `…Timestamp`, `…OffsetsByTimestamp`, `…Offsets`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klamm.errors import ConfigError
from klamm.spark.offsets import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from klamm.spark.offsets import Offsets, Partition


@dataclass(frozen=True)
class Times:
    """The first record at or after a time in ms: the same for all partitions, or one for each.

    A partition that has no such record is read from, or to, its end, or that is an error.
    """

    ms: int | dict[Partition, int]
    or_latest: bool


@dataclass(frozen=True)
class Position:
    """A place in every partition, and the option that said so.

    `at` is `earliest`, `latest`, an offset for each partition (-2 and -1 stand for those two), or times.
    """

    option: str
    at: str | Offsets | Times

    def says(self, word: str, number: int) -> bool:
        """Tell whether it is `word` for any partition."""
        return self.at == word or (isinstance(self.at, dict) and number in self.at.values())

    @property
    def follows_end(self) -> bool:
        """Tell whether it moves with the end of the topic."""
        return self.says("latest", LATEST) or (isinstance(self.at, Times) and self.at.or_latest)


def starting(given: Mapping[str, str], default: str) -> Position:
    """Read where to begin."""
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise ConfigError(
            f"option 'startingOffsetsByTimestampStrategy' must be error or latest, got '{strategy}'",
            hint="it says what to do where no record is as young as the time given",
        )
    return _position(given, "starting", default, strategy == "latest")


def ending(given: Mapping[str, str]) -> Position:
    """Read where to end."""
    return _position(given, "ending", "latest", True)


def assigned(text: str) -> tuple[Partition, ...]:
    """Read the value of `assign`."""
    form = f"""option 'assign' must be JSON such as {{"topic":[0,1]}}, got '{text}'"""
    named = _object(text, form)
    partitions: set[Partition] = set()
    for topic, numbers in named.items():
        if not isinstance(numbers, list) or not numbers or not all(_is_integer(number, 0) for number in numbers):
            raise ConfigError(form)
        partitions.update((topic, number) for number in numbers)
    return tuple(sorted(partitions))


def _position(given: Mapping[str, str], side: str, default: str, or_latest: bool) -> Position:
    option = f"{side}Timestamp"
    if (text := given.get(option.lower())) is not None:
        if not text.strip().isdecimal():
            raise ConfigError(f"option '{option}' must be milliseconds since 1970, got '{text}'")
        return Position(option, Times(int(text), or_latest))
    option = f"{side}OffsetsByTimestamp"
    if (text := given.get(option.lower())) is not None:
        form = f"""option '{option}' must be JSON such as {{"topic":{{"0":1700000000000}}}} (ms), got '{text}'"""
        return Position(option, Times(_by_partition(text, form, lambda value: _is_integer(value, 0)), or_latest))
    option = f"{side}Offsets"
    text = given.get(option.lower(), default).strip()
    if text.lower() in ("earliest", "latest"):
        return Position(option, text.lower())
    form = (
        f"option '{option}' must be earliest, latest or JSON such as "
        f"""{{"topic":{{"0":17,"1":-2}}}} (-2 earliest, -1 latest), got '{text}'"""
    )
    return Position(option, _by_partition(text, form, lambda value: _is_integer(value, EARLIEST)))


def _by_partition(text: str, form: str, is_valid: Callable[[Any], bool]) -> dict[Partition, int]:
    values: dict[Partition, int] = {}
    for topic, partitions in _object(text, form).items():
        if not isinstance(partitions, dict) or not partitions:
            raise ConfigError(form)
        for number, value in partitions.items():
            if not number.isdecimal() or not is_valid(value):
                raise ConfigError(form)
            values[topic, int(number)] = value
    return values


def _object(text: str, form: str) -> dict[str, Any]:
    try:
        named = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{form}: {error}") from None
    if not isinstance(named, dict) or not named:
        raise ConfigError(form)
    return named


def _is_integer(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
