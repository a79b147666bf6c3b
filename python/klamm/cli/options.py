"""Arguments that commands share, and the parser that accepts options before a command."""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection


class Commands(Protocol):
    """Type of the result of `ArgumentParser.add_subparsers`, which has no public name."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        """Add a command."""


class Parser(argparse.ArgumentParser):
    """A parser that accepts an option before the command or action that it belongs to."""

    names: Collection[str] = ()

    def add_subparsers(self, **options: Any) -> Any:
        """Declare commands or actions."""
        parts = super().add_subparsers(**options)
        self.names = parts.choices
        return parts

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line."""
        words = sys.argv[1:] if args is None else list(args)
        if self.names and words and words[0].startswith("-") and words[0] not in ALONE:
            pairs = enumerate(pairwise(words), 1)
            at = next((at for at, (before, word) in pairs if word in self.names and before not in VALUED), None)
            if at is None:
                self.error(f"one of these is required: {', '.join(self.names)}")
            words.insert(0, words.pop(at))
        return super().parse_known_args(words, namespace)


def add_common(parser: argparse.ArgumentParser, run: Any, json_text: str) -> None:
    """Add the connection and `--json` to an action, and set its function."""
    add_connection(parser)
    add_json(parser, json_text)
    parser.set_defaults(run=run)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add `--bootstrap`, and `-X` for every other setting."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default="localhost:9092",
        help="connect to these brokers, separated by commas (default: %(default)s)",
    )
    add_settings(parser, "set a client option by its Kafka name, such as linger.ms=20; may be repeated")


def add_settings(parser: argparse.ArgumentParser, text: str) -> None:
    """Add `-X`, with `text` as its help."""
    parser.add_argument("-X", dest="config", metavar="KEY=VALUE", type=pair, action="append", default=[], help=text)


def add_json(parser: argparse._ActionsContainer, text: str) -> None:
    """Add `--json`, with `text` as its help."""
    parser.add_argument("--json", action="store_true", help=text)


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


ALONE = ("-h", "--help", "--version")
"""Options that need no command."""
VALUED = ("-b", "--bootstrap", "-X")
"""Options of all commands whose value is the next word, which therefore is not a command."""
