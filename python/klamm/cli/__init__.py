"""The command `klamm`. Exit codes: 0 for success, 1 for an error, 2 for wrong usage, 130 for Ctrl+C, 143 for SIGTERM.

An error is one line on standard error, often followed by a hint. Slow imports (rich, pyarrow, pyspark) happen inside
functions, and `klamm --version` imports nothing else of the command line, so that both it and `klamm --help` are fast.
"""

from __future__ import annotations

import sys

from klamm import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from klamm.cli.options import Parser

__all__ = ["build_parser", "main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: Arguments. Default: the arguments of this process.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["--version"]:
        print(f"klamm {__version__}")
        return 0
    from klamm.cli.command_line import run

    return run(words)


def build_parser() -> Parser:
    """Return the parser of the whole command line, with a subparser for each command."""
    from klamm.cli import command_line

    return command_line.build_parser()
