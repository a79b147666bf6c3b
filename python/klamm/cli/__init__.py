"""The command `klamm`: one parser, one file per command, one place where errors become lines and exit codes.

Exit codes: 0 done, 1 an error (one line, and a hint where there is one), 2 wrong usage, 130 Ctrl+C.
A command module offers `add(commands)`, which declares its arguments, and `run(args, output)`, which does the work.
Modules import lazily what is slow to import (rich, pyarrow, pyspark), so that `klamm --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from klamm.cli import consume, decode, demo, dev_broker, groups, mirror, produce, report, topics
from klamm.cli.options import Parser
from klamm.cli.output import CommandError, Output, print_error
from klamm.errors import KafkaError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

__all__ = ["build_parser", "main"]

INTERRUPTED = 130
"""What a shell reports for a program that Ctrl+C ended (128 + SIGINT)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        args = parse(argv)
        if args.version:
            print(f"klamm {installed_version()}")
            return 0
        code: int = args.run(args, Output(json=args.json))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has what it wanted (`klamm consume t | head`): that is success.
        # Python flushes stdout once more at exit; into the closed pipe that would print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KafkaError, CommandError, OSError) as error:
        print_error(error)
        return 1
    except Exception as error:
        # flush() raises an ExceptionGroup; Python 3.10 has none of its own, so it is known by its attribute.
        if not hasattr(error, "exceptions"):
            raise
        print_error(error)
        return 1
    return code


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse a command line; a wrong one ends the program with exit code 2."""
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    # argparse gives up on `TOPIC [FILE...]` at the first option behind TOPIC; what is left over are the files.
    if rest and "files" in args and all(word == "-" or not word.startswith("-") for word in rest):
        args.files += rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if args.run is None and not args.version:
        parser.error(
            "a command is needed: produce, consume, topics, groups, mirror, decode, report, dev-broker or demo"
        )
    return args


def build_parser() -> argparse.ArgumentParser:
    """Declare the command line."""
    parser = Parser(prog="klamm", description="A Kafka client: produce, consume, look after topics.")
    parser.add_argument("--version", action="store_true", help="print klamm's version")
    parser.set_defaults(run=None, json=False)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in (produce, consume, topics, groups, mirror, decode, report, dev_broker, demo):
        command.add(commands)
    return parser


def installed_version() -> str:
    """Return the version of the installed package."""
    from importlib.metadata import version

    return version("klamm")
