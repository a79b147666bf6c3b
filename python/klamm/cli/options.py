"""Declares the arguments that commands share, and a parser that accepts options before a command.

If a command line is wrong, the parser prints one line that says what is wrong and what to do. The line goes to
standard error, and the exit code is 2.
"""

from __future__ import annotations

import argparse
import re
import sys
from difflib import get_close_matches
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from klamm.cli.color import RED, print_labeled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

MAX_PORT = 65_535


class Commands(Protocol):
    """Type of the result of `ArgumentParser.add_subparsers`, which has no public name."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        """Add a command."""


class Parser(argparse.ArgumentParser):
    """A parser that accepts the options of a command or action also before the name of the command or action."""

    parts: Mapping[str, Parser] = {}
    """Maps the name of each command or action to its parser."""

    def __init__(self, **options: Any) -> None:
        # Otherwise, argparse would accept a misspelled option as an abbreviation, such as `--form` for `--format`.
        super().__init__(**options, allow_abbrev=False)
        self.groups: dict[str, Collection[str]] = {}

    def add_subparsers(self, **options: Any) -> Any:
        """Declare commands or actions."""
        options.setdefault("dest", "action" if " " in self.prog else "command")
        parts = super().add_subparsers(**options)
        self.parts = parts.choices
        return parts

    def format_help(self) -> str:
        """Return the help. Commands with groups are listed under the titles of their groups."""
        if not self.groups:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        listed = [action for entry in self._actions if entry.nargs == argparse.PARSER for action in subactions(entry)]
        for title, names in self.groups.items():
            formatter.start_section(title)
            formatter.add_arguments(action for action in listed if action.dest in names)
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments(action for action in self._actions if action.option_strings)
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line."""
        words = sys.argv[1:] if args is None else list(args)
        if self.parts and words and words[0].startswith("-") and words[0] not in ALONE:
            pairs = enumerate(pairwise(words), 1)
            at = next((at for at, (before, word) in pairs if word in self.parts and before not in VALUED), None)
            if at is None:
                self.error(f"one of these is required: {', '.join(self.parts)}")
            words.insert(0, words.pop(at))
        elif self.parts and words and words[0] not in self.parts and not words[0].startswith("-"):
            kind = "action" if " " in self.prog else "command"
            hint = near(words[0], self.parts) or f"use one of: {', '.join(self.parts)}"
            self.fail(f"unknown {kind} {words[0]!r}; {hint}")
        return super().parse_known_args(words, namespace)

    def error(self, message: str) -> NoReturn:
        """Print one line and end the program."""
        text = " ".join(re.sub(r"^argument ", "", message).split())
        self.fail(f"{text}; see `{self.prog} --help`")

    def fail(self, text: str) -> NoReturn:
        """Print one line as it is and end the program."""
        print_labeled(f"{self.prog}: error:", text, RED)
        self.exit(2)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise an error if a value is none of the choices of its argument."""
        if action.choices is not None and value not in action.choices:
            hint = near(str(value), action.choices)
            text = f"{value!r} must be one of: {', '.join(action.choices)}" + (f"; {hint}" if hint else "")
            raise argparse.ArgumentError(action, text)

    def refuse(self, words: list[str], line: Iterable[str]) -> NoReturn:
        """Print an error about words that are not arguments of the command, and end the program."""
        leaf = self
        for word in line:
            leaf = leaf.parts.get(word, leaf)
        options = [option for action in leaf._actions for option in action.option_strings]  # noqa: SLF001 - no other way
        option = next((word for word in words if word.startswith("-") and word != "-"), None)
        if option is None:
            leaf.error(f"too many arguments: {' '.join(words)}")
        hint = near(option.partition("=")[0], options)
        leaf.error(f"unknown option {option}" + (f"; {hint}" if hint else ""))


def subactions(action: argparse.Action) -> Iterable[argparse.Action]:
    """Return the entries of the list of commands in the help, which have no public name in argparse."""
    entries: Iterable[argparse.Action] = action._get_subactions()  # type: ignore[attr-defined]  # noqa: SLF001
    return entries


def near(word: str, known: Iterable[str]) -> str | None:
    """Return a suggestion for a misspelled word, or None if no known word is similar."""
    # Compare without the leading dashes, which would make all options similar.
    names = {name.lstrip("-"): name for name in known}
    matches = get_close_matches(word.lstrip("-"), names, 1, 0.5)
    return f"did you mean {names[matches[0]]}?" if matches else None


def add_common(parser: argparse.ArgumentParser, run: Any, json_text: str, *, controllers: bool = False) -> None:
    """Add the options for the connection and `--json` to an action, and set the function that runs the action.

    With `controllers`, the action can also connect to controllers.
    """
    add_connection(parser, controllers=controllers)
    add_json(parser, json_text)
    parser.set_defaults(run=run)


def add_connection(parser: argparse.ArgumentParser, *, controllers: bool = False) -> None:
    """Add `--bootstrap`, and the options for all other settings of clients."""
    group = parser.add_argument_group("connection")
    nodes = group.add_mutually_exclusive_group() if controllers else group
    nodes.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        help="connect to these brokers, separated by commas (default: from the profile, or localhost:9092)",
    )
    if controllers:
        nodes.add_argument(
            "--bootstrap-controllers",
            metavar="HOST:PORT",
            help="connect to these controllers of a KRaft cluster instead of brokers, separated by commas (Kafka 3.7)",
        )
    group.add_argument(
        "--profile",
        metavar="NAME",
        help="use the options of [profiles.NAME] in ~/.config/klamm/config.toml (default: $KLAMM_PROFILE)",
    )
    group.add_argument(
        "-F",
        "--config-file",
        metavar="FILE",
        action="append",
        default=[],
        help="read client options from this file: Java properties, TOML or JSON if its name ends in .properties, .toml "
        "or .json, otherwise KEY=VALUE lines as in librdkafka's tools; may be repeated",
    )
    add_settings(group, "set a client option by its Kafka name, such as linger.ms=20; may be repeated")


def add_settings(parser: argparse._ActionsContainer, text: str) -> None:
    """Add `-X`, with `text` as its help."""
    parser.add_argument("-X", dest="config", metavar="KEY=VALUE", type=pair, action="append", default=[], help=text)


def add_repeated(
    parser: argparse._ActionsContainer,
    option: str,
    dest: str,
    metavar: str,
    text: str,
    *,
    parse: Callable[[str], object] = str,
) -> None:
    """Add an option that users may repeat. The value of the option is a list, and `parse` converts each item."""
    text = f"{text}; may be repeated"
    parser.add_argument(option, dest=dest, metavar=metavar, type=parse, action="append", default=[], help=text)


def add_json(parser: argparse._ActionsContainer, text: str) -> None:
    """Add `--json`, with `text` as its help."""
    parser.add_argument("--json", action="store_true", help=text)


def add_confirmation(parser: argparse._ActionsContainer) -> None:
    """Add the options of a command that deletes or overwrites something."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask for a confirmation")
    parser.add_argument("--dry-run", action="store_true", help="print the changes, but change nothing")


def pair(text: str) -> tuple[str, str]:
    """Split `key=value` at the first `=`."""
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form KEY=VALUE")
    return key, value


def positive(text: str) -> int:
    """Parse a whole number of at least 1."""
    number = natural(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def natural(text: str) -> int:
    """Parse a whole number of at least 0."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 0")
    return int(text)


def port(text: str) -> int:
    """Parse the number of a TCP port; 0 means a free port."""
    number = natural(text)
    if number > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} must be a port of at most {MAX_PORT}")
    return number


def naturals(text: str) -> list[int]:
    """Parse whole numbers that are separated by commas."""
    return [natural(number) for number in text.split(",")]


def duration(text: str) -> int:
    """Parse a duration into milliseconds: `90s`, `15m`, `2h`, `7d`, `500ms`, or ISO 8601 such as `PT1H30M`."""
    match = DURATION.fullmatch(text) or ISO_DURATION.fullmatch(text.upper())
    found = {unit: float(number) for unit, number in match.groupdict().items() if number} if match else {}
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} must be a duration, such as 90s, 15m, 2h, 7d or PT1H30M")
    return round(sum(number * UNIT_MS[unit] for unit, number in found.items()))


def topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """Parse `topic` or `topic:0,1`; None means all partitions."""
    topic, colon, numbers = text.partition(":")
    if not topic or (colon and not numbers):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form TOPIC or TOPIC:0,1")
    return topic, naturals(numbers) if colon else None


def expression(text: str) -> re.Pattern[str]:
    """Parse a regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from None


def encoded(text: str) -> bytes:
    """Return the original bytes of a command-line argument, even if they are not valid UTF-8."""
    return text.encode("utf-8", "surrogateescape")


ALONE = ("-h", "--help", "--version")
"""Options that need no command."""
VALUED = ("-b", "--bootstrap", "--bootstrap-controllers", "-X", "-F", "--config-file", "--profile")
"""Options of all commands that take a value. The word after one of these options is its value, not a command."""
UNIT_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
DURATION = re.compile(
    r"(?:(?P<d>\d+)d)?(?:(?P<h>\d+)h)?(?:(?P<m>\d+)m(?!s))?(?:(?P<s>\d+(?:\.\d+)?)s)?(?:(?P<ms>\d+)ms)?", re.ASCII
)
ISO_DURATION = re.compile(
    r"P(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?", re.ASCII
)
