"""The command `klamm`: builds the parser, runs a command, and turns errors into messages and exit codes.

Exit codes: 0 for success, 1 for an error, 2 for wrong usage, 130 for Ctrl+C, 143 for SIGTERM. An error is one line on
standard error, often followed by a hint. Each command is a module. The module's function `add(commands)` declares the
arguments, and `run(args, output)` runs the command. Slow imports (rich, pyarrow, pyspark) happen inside functions, so
that `klamm --help` is fast.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from klamm.cli import (
    acls,
    cluster,
    completion,
    config,
    configs,
    consume,
    decode,
    demo,
    dev_broker,
    dump,
    elect,
    features,
    groups,
    log_dirs,
    mirror,
    offsets,
    perf,
    produce,
    quorum,
    quotas,
    reassign,
    report,
    schemas,
    tokens,
    top,
    topics,
    transactions,
    typed_groups,
    users,
    verify,
)
from klamm.cli.options import Parser
from klamm.cli.output import CommandError, Output, is_usage, print_error
from klamm.cli.settings import BROKERS, CONTROLLERS, effective
from klamm.cli.terminal import escaped_terminals
from klamm.cli.watch import watching
from klamm.errors import KafkaError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

__all__ = ["build_parser", "main"]

COMMANDS = {
    "records": (produce, consume),
    "topics": (topics, configs, offsets),
    "groups and transactions": (groups, typed_groups, transactions),
    "schemas": (schemas,),
    "cluster": (cluster, log_dirs, reassign, elect, features, quorum),
    "users and permissions": (acls, quotas, users, tokens),
    "copies and checks": (mirror, verify, report),
    "files and bytes": (dump, decode),
    "measurements": (perf, top),
    "setup and tests": (config, completion, dev_broker, demo),
}
"""Maps the title of each group of commands in the help to the modules of the commands."""
USAGE = 2
"""Exit code of a wrong command line, as in argparse."""
INTERRUPTED = 130
"""Exit code of a program that Ctrl+C ended (128 + SIGINT)."""
TERMINATED = 143
"""Exit code of a program that SIGTERM ended (128 + SIGTERM)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: Arguments. Default: the arguments of this process.
    """
    with escaped_terminals():
        return run(argv)


def run(argv: Sequence[str] | None) -> int:
    """Run one command, and return its exit code."""
    try:
        args = parse(argv)
        if args.version:
            print(f"klamm {installed_version()}")
            return 0
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


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse a command line. An invalid command line ends the program with exit code 2."""
    parser = build_parser()
    words = list(sys.argv[1:] if argv is None else argv)
    args: argparse.Namespace
    args, rest = parser.parse_known_args(words)
    # argparse stops parsing `TOPIC [FILE...]` at the first option after TOPIC; the remaining words are the files.
    if rest and "files" in args and all(word == "-" or not word.startswith("-") for word in rest):
        args.files += rest
    elif rest:
        parser.refuse(rest, words)
    if args.run is None and not args.version:
        parser.print_help()
        parser.exit()
    return args


def build_parser() -> Parser:
    """Return the parser of the whole command line, with a subparser for each command."""
    parser = Parser(
        prog="klamm",
        description="Produce and consume Kafka records, and administer a cluster.",
        epilog="Run `klamm COMMAND --help` for the options of a command. Exit codes: 0 success, 1 an error, 2 wrong usage, "
        "130 Ctrl+C, 143 SIGTERM.",
    )
    parser.add_argument("--version", action="store_true", help="print the version of klamm")
    parser.set_defaults(run=None, json=False, build_parser=build_parser)
    commands = parser.add_subparsers(metavar="COMMAND")
    for title, modules in COMMANDS.items():
        before = set(parser.parts)
        for module in modules:
            module.add(commands)
        parser.groups[title] = parser.parts.keys() - before
    return parser


def installed_version() -> str:
    """Return the version of the installed package klamm, as text."""
    from importlib.metadata import version

    return version("klamm")
