"""Arguments that several commands share, and their forms."""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection


class Commands(Protocol):
    """Where a command's `add` declares itself: what `ArgumentParser.add_subparsers` returns, which has no public name."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        """Add a command."""


class Parser(argparse.ArgumentParser):
    """A parser that takes options in front of the command, or of its action, that they belong to."""

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
                self.error(f"there has to be one of {', '.join(self.names)}")
            words.insert(0, words.pop(at))
        return super().parse_known_args(words, namespace)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add where to connect, and `-X` for every other setting."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default="localhost:9092",
        help="brokers to start from, separated by commas (default: %(default)s)",
    )
    add_settings(parser, "any client setting by its Kafka name, as linger.ms=20; may be repeated")


def add_settings(parser: argparse.ArgumentParser, text: str) -> None:
    """Add `-X`; `text` says whose settings."""
    parser.add_argument("-X", dest="config", metavar="KEY=VALUE", type=pair, action="append", default=[], help=text)


def add_json(parser: argparse._ActionsContainer, text: str) -> None:
    """Add `--json`; `text` says what is printed."""
    parser.add_argument("--json", action="store_true", help=text)


def pair(text: str) -> tuple[str, str]:
    """Split `key=value` at the first `=`."""
    key, sign, value = text.partition("=")
    if not (key and sign):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


def positive(text: str) -> int:
    """Parse a whole number of at least one."""
    number = natural(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def natural(text: str) -> int:
    """Parse a whole number of at least zero."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


ALONE = ("-h", "--help", "--version")
"""What needs no command."""
VALUED = ("-b", "--bootstrap", "-X")
"""Options of all commands that take the word behind them, which then is no command."""
