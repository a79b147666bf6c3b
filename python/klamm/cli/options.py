"""Arguments that several commands share, and their forms."""

from __future__ import annotations

import argparse
from typing import Any, Protocol


class Commands(Protocol):
    """Where a command's `add` declares itself: what `ArgumentParser.add_subparsers` returns, which has no public name."""

    def add_parser(self, name: str, **options: Any) -> argparse.ArgumentParser:
        """Add a command."""


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
