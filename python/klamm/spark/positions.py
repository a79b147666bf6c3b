"""Parses the options for the start and the end of a read: `earliest`, `latest`, offsets, or times.

If more than one option sets the start or the end, klamm uses the first of these options, like Spark's connector:
`…Timestamp`, `…OffsetsByTimestamp`, `…Offsets`. The module `lookup` turns positions into offsets.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klamm.errors import ConfigError
from klamm.spark.offsets import EARLIEST, LATEST
from klamm.spark.settings import MAX_INT, MAX_LONG, shortened, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from klamm.spark.offsets import Offsets, Partition


log = logging.getLogger("klamm.spark")


@dataclass(frozen=True)
class Times:
    """A position at the first record at or after a time.

    Attributes:
        ms: Time in milliseconds since 1970: one number for all partitions, or one for each partition.
        or_latest: Whether to use the end of a partition that has no record at or after the time, or to raise an error.
    """

    ms: int | dict[Partition, int]
    or_latest: bool


@dataclass(frozen=True)
class Position:
    """A position to look up in every partition.

    Attributes:
        option: The option that set the position, for error messages.
        at: "earliest", "latest", an offset for each partition (-2 means earliest, -1 latest), or times.
    """

    option: str
    at: str | Offsets | Times

    def says(self, word: str, number: int) -> bool:
        """Return whether the position is `word`, or `number` for at least one partition."""
        return self.at == word or (isinstance(self.at, dict) and number in self.at.values())

    @property
    def is_fixed(self) -> bool:
        """Return whether the position has a fixed offset for each partition, so that lookups never change it."""
        return isinstance(self.at, dict) and min(self.at.values(), default=0) >= 0

    @property
    def follows_end(self) -> bool:
        """Return whether the position depends on the current end of the topic."""
        return self.says("latest", LATEST) or (isinstance(self.at, Times) and self.at.or_latest)


def starting(given: Mapping[str, str], default: str) -> Position:
    """Parse the options for the start of a read. If no option sets the start, the start is `default`."""
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise ConfigError(
            f"option 'startingOffsetsByTimestampStrategy' must be error or latest, got '{strategy}'",
            hint="the option decides what happens if a partition has no record at or after the starting time",
        )
    return _position(given, "starting", default, strategy == "latest")


def ending(given: Mapping[str, str]) -> Position:
    """Parse the options for the end of a read."""
    return _position(given, "ending", "latest", True)


def assigned(text: str) -> tuple[Partition, ...]:
    """Parse the value of option `assign`, such as `{"topic":[0,1]}`, into sorted partitions."""
    form = f"""option 'assign' must be JSON such as {{"topic":[0,1]}}, got '{shortened(text)}'"""
    named = _object(text, form)
    partitions: set[Partition] = set()
    for topic, numbers in named.items():
        if (
            not isinstance(numbers, list)
            or not numbers
            or not all(_is_integer(number, 0, MAX_INT) for number in numbers)
        ):
            raise ConfigError(form)
        partitions.update((topic, number) for number in numbers)
    return tuple(sorted(partitions))


def _position(given: Mapping[str, str], side: str, default: str, or_latest: bool) -> Position:
    option = f"{side}Timestamp"
    if (text := given.get(option.lower())) is not None:
        ms = whole_number(text)
        if ms is None:
            raise ConfigError(f"option '{option}' must be milliseconds since 1970, got '{shortened(text)}'")
        if 0 < ms < SMALLEST_LIKELY_MS:
            log.warning("option '%s' is %s ms, which is before 1973; is it in seconds?", option, text)
        return Position(option, Times(ms, or_latest))
    option = f"{side}OffsetsByTimestamp"
    if (text := given.get(option.lower())) is not None:
        form = f"""option '{option}' must be JSON such as {{"topic":{{"0":1700000000000}}}} (ms), got '{shortened(text)}'"""
        return Position(option, Times(_by_partition(text, form, lambda value: _is_integer(value, 0)), or_latest))
    option = f"{side}Offsets"
    text = given.get(option.lower(), default).strip()
    if text.lower() in ("earliest", "latest"):
        return Position(option, text.lower())
    form = (
        f"option '{option}' must be earliest, latest or JSON such as "
        f"""{{"topic":{{"0":17,"1":-2}}}} (-2 earliest, -1 latest), got '{shortened(text)}'"""
    )
    return Position(option, _by_partition(text, form, lambda value: _is_integer(value, EARLIEST)))


def _by_partition(text: str, form: str, is_valid: Callable[[Any], bool]) -> dict[Partition, int]:
    values: dict[Partition, int] = {}
    for topic, partitions in _object(text, form).items():
        if not isinstance(partitions, dict) or not partitions:
            raise ConfigError(form)
        for number, value in partitions.items():
            partition = whole_number(number, MAX_INT)
            if partition is None or not is_valid(value):
                raise ConfigError(form)
            values[topic, partition] = value
    return values


def _object(text: str, form: str) -> dict[str, Any]:
    try:
        named = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{form}: {error}") from None
    if not isinstance(named, dict) or not named:
        raise ConfigError(form)
    return named


def _is_integer(value: Any, least: int, most: int = MAX_LONG) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


# A smaller number is probably a time in seconds. Until the year 5138, times in seconds are smaller than this number.
SMALLEST_LIKELY_MS = 10**11
