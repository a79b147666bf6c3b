"""`klamm demo`: produces real lines, runs a PySpark pipeline over these lines, and checks the counts.

The module `flow` contains the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.cli.options import add_json

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "demo",
        help="run a complete example with PySpark and check its counts",
        description="Produce real lines, run a PySpark streaming pipeline over these lines, read the result back, and compare the "
        "counts with the files on disk. If the counts differ, the exit code is 1.",
    )
    parser.add_argument(
        "--bootstrap", metavar="HOST:PORT", help="use this running cluster (default: start a dev broker)"
    )
    parser.add_argument(
        "--input",
        metavar="PATH",
        help="read lines from this file or folder, or - for standard input (default: the standard library of this Python)",
    )
    parser.add_argument("--keep", action="store_true", help="with --bootstrap, do not delete the two topics at the end")
    add_json(parser, "print the result as one JSON object, and everything else on standard error")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, output: Output) -> int:
    """Run the demo."""
    from klamm.cli.demo import flow

    return flow.run(args, output)
