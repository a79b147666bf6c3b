"""Prints errors, warnings and hints on standard error. On a terminal, the first words of the line have a color.

The line has no color in a pipe or file, if the environment variable NO_COLOR is not empty, and if TERM is `dumb`.
"""

from __future__ import annotations

import os
import sys

from klamm.cli.terminal import unescaped, visible

RED, YELLOW, CYAN = "31", "33", "36"
"""Colors of errors, warnings and hints, as numbers of the escape sequence SGR."""


def print_labeled(label: str, text: str, color: str) -> None:
    """Print one line on standard error: the label, in color on a terminal, and the text."""
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb":
        print(f"\033[1;{color}m{visible(label)}\033[0m {visible(text)}", file=unescaped(sys.stderr), flush=True)
    else:
        print(label, text, file=sys.stderr, flush=True)


def print_warning(text: str) -> None:
    """Print a warning on standard error."""
    print_labeled("klamm:", text, YELLOW)


def print_hint(text: str) -> None:
    """Print what the user can do on standard error, below an error or a warning."""
    print_labeled("  hint:", text, CYAN)
