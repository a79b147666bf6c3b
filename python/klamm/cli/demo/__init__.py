"""`klamm demo`: real lines in, a PySpark pipeline over klamm, exact counts out. `flow.py` tells it from top to bottom."""

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
        help="the main job, end to end, with exact counts",
        description="Produce real lines, run a PySpark streaming pipeline over them, read its result back and compare "
        "with the disk: exact, or exit code 1.",
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="a running cluster (default: an embedded one)")
    parser.add_argument(
        "--input",
        metavar="PATH",
        help="a file, a folder, or - for standard input (default: the standard library of this Python)",
    )
    parser.add_argument("--keep", action="store_true", help="with --bootstrap: leave the two topics there")
    add_json(parser, "print the result as one object; everything else goes to standard error")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, output: Output) -> int:
    """Run the demo."""
    from klamm.cli.demo import flow

    return flow.run(args, output)
