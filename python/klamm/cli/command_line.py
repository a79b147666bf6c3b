"""Runs one command: builds the parser, runs the command, and turns errors into messages and exit codes.

Each command is a module. The module's function `add(commands)` declares the arguments, and `run(args, output)` runs the
command. Only the modules of the commands that a command line names are imported.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING

from klamm import __version__
from klamm.cli.options import ALONE, Parser
from klamm.cli.output import CommandError, Output, is_usage, print_error
from klamm.cli.settings import BROKERS, CONTROLLERS, effective
from klamm.cli.terminal import escaped_terminals
from klamm.cli.watch import watching
from klamm.errors import KafkaError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

COMMANDS = {
    "records": ("produce", "consume"),
    "topics": ("topics", "configs", "offsets", "records"),
    "groups and transactions": ("groups", "share-groups", "streams-groups", "transactions"),
    "schemas": ("schemas",),
    "cluster": ("cluster", "log-dirs", "reassign", "elect", "features", "quorum"),
    "users and permissions": ("acls", "quotas", "users", "tokens"),
    "copies and checks": ("mirror", "verify", "report"),
    "files and bytes": ("dump", "decode"),
    "measurements": ("perf", "top"),
    "setup and tests": ("config", "completion", "dev-broker", "demo"),
}
"""Maps the title of each group of commands in the help to the commands."""
NAMES = tuple(name for names in COMMANDS.values() for name in names)
MODULES = {"records": "offsets", "share-groups": "typed_groups", "streams-groups": "typed_groups"}
"""Maps the commands whose modules have other names to the modules."""
USAGE = 2
"""Exit code of a wrong command line, as in argparse."""
INTERRUPTED = 130
"""Exit code of a program that Ctrl+C ended (128 + SIGINT)."""
TERMINATED = 143
"""Exit code of a program that SIGTERM ended (128 + SIGTERM)."""


def run(words: Sequence[str]) -> int:
    """Run one command on terminals that show no control characters, and return its exit code."""
    with escaped_terminals():
        return run_unescaped(words)


def run_unescaped(words: Sequence[str]) -> int:
    """Run one command, and return its exit code."""
    try:
        args = parse(words)
        with ended_by_sigterm(), watched(args):
            output = Output(json=args.json)
            code: int = args.run(args, output)
            if output.failures:
                raise output.failures[0]
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The program that reads our output ended early (`klamm consume t | head`). This is a success.
        # Python flushes stdout again at exit, which would print an error because the pipe is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KafkaError, CommandError, OSError) as error:
        print_error(error)
        return USAGE if is_usage(error) else 1
    return code


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Return a context manager that turns SIGTERM into an exception, so that clients close and commit."""
    if threading.current_thread() is not threading.main_thread():  # Python allows handlers only in the main thread
        yield
        return

    def end(*_: object) -> None:
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def watched(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Return a context manager that prints a message if no broker can be reached.

    The message appears long before the command times out. For a command that does not connect, the context manager does
    nothing.
    """
    if "target" in args:  # `klamm mirror` has two clusters
        return watching(args.target.bootstrap)
    if "profile" not in args:
        return nullcontext()
    found = effective(args)
    return watching(found[CONTROLLERS if CONTROLLERS in found else BROKERS].value)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. An invalid command line ends the program with exit code 2."""
    parser = build_parser(named(words))
    args: argparse.Namespace
    args, rest = parser.parse_known_args(words)
    # argparse stops parsing `TOPIC [FILE...]` at the first option after TOPIC; the remaining words are the files.
    if rest and "files" in args and all(word == "-" or not word.startswith("-") for word in rest):
        args.files += rest
    elif rest:
        parser.refuse(rest, words)
    if args.run is None:
        parser.print_help()
        parser.exit()
    return args


def named(words: Sequence[str]) -> Collection[str]:
    """Return the commands that a command line may mean. Return all commands if the parser has to list the commands."""
    if not words or words[0] in ALONE or (words[0] not in NAMES and not words[0].startswith("-")):
        return NAMES
    return set(words) & set(NAMES) or NAMES


def build_parser(names: Collection[str] = NAMES) -> Parser:
    """Return the parser of the command line, with a subparser for each of the commands `names`."""
    parser = Parser(
        prog="klamm",
        description="Produce and consume Kafka records, and administer a cluster.",
        epilog="Run `klamm COMMAND --help` for the options of a command. Exit codes: 0 success, 1 an error, 2 wrong usage, "
        "130 Ctrl+C, 143 SIGTERM.",
    )
    parser.add_argument(
        "--version", action="version", version=f"klamm {__version__}", help="print the version of klamm"
    )
    parser.set_defaults(run=None, json=False, build_parser=build_parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    for module in dict.fromkeys(MODULES.get(name, name.replace("-", "_")) for name in NAMES if name in names):
        import_module(f"klamm.cli.{module}").add(commands)
    if names is NAMES:
        parser.groups.update(COMMANDS)
    return parser
