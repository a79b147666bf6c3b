"""Write the reference in docs/cli.md from the parser of `klamm`: `python scripts/write_cli.py`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from klamm.cli import build_parser

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from klamm.cli.options import Parser

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
START = "<!-- The rest is written by scripts/write_cli.py. -->\n"
EVERYWHERE = {"help", "bootstrap", "profile", "config_file", "config"}
"""Options of all commands that connect to a cluster. The page describes these options once, not in each section."""


def leaves(parser: Parser) -> Iterator[Parser]:
    """Yield the parser of each action, and of each command without actions, in order."""
    if not parser.parts:
        yield parser
    for part in parser.parts.values():
        yield from leaves(part)


def reference(parser: Parser) -> str:
    """Return the text of the reference: a section for each command and action."""
    text = "\n## Reference\n"
    for name, command in parser.parts.items():
        text += f"\n### `klamm {name}`\n\n{sentence(command.description)}\n"
        for leaf in leaves(command):
            text += section(leaf, of_action=leaf is not command)
    return text


def section(leaf: Parser, *, of_action: bool) -> str:
    """Return the section of a command or an action: description, usage and table of arguments."""
    text = f"\n#### `{leaf.prog}`\n\n{sentence(leaf.description)}\n" if of_action else ""
    usage = f"{leaf.prog} {' '.join(usage_words(leaf))}".strip()
    text += f"\n```text\n{usage}\n```\n"
    rows = [row(action) for action in leaf._actions if action.dest not in EVERYWHERE]  # noqa: SLF001 - argparse has no other list
    if rows:
        text += "\n| argument | meaning |\n| --- | --- |\n" + "".join(rows)
    if leaf.epilog and not of_action and "\n" not in leaf.epilog:
        text += f"\n{sentence(leaf.epilog)}\n"
    return text


def usage_words(leaf: Parser) -> Iterator[str]:
    """Yield the words of the usage line: positional arguments, required options, and `[OPTIONS]`."""
    for action in leaf._actions:  # noqa: SLF001
        if not action.option_strings:
            name = metavar(action)
            yield {"*": f"[{name}...]", "+": f"{name}...", "?": f"[{name}]"}.get(str(action.nargs), name)
        elif action.required:
            yield f"{action.option_strings[-1]} {metavar(action)}"
    yield "[OPTIONS]"


def metavar(action: argparse.Action) -> str:
    """Return the placeholder for the value of an argument, such as `HOST:PORT`."""
    if action.metavar is not None:
        return str(action.metavar)
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def row(action: argparse.Action) -> str:
    """Return the table row of an argument: its names and its help text."""
    value = "" if action.nargs == 0 else f" {metavar(action)}"
    names = ", ".join(
        f"`{option}{value if option.startswith('--') or len(action.option_strings) == 1 else ''}`"
        for option in action.option_strings
    )
    help_text = (
        (action.help or "") % {**vars(action), "prog": "klamm"} if "%" in (action.help or "") else action.help or ""
    )
    return f"| {escaped(names or f'`{metavar(action)}`')} | {escaped(help_text)} |\n"


def escaped(text: str) -> str:
    """Return a text on one line with escaped `|`, for a cell of a Markdown table."""
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def sentence(text: str | None) -> str:
    """Return a help text on one line, with argparse's `%%` replaced by `%`."""
    return " ".join((text or "").split()).replace("%%", "%")


def page() -> str:
    """Return the whole page: the part of the existing page that people have written, and then the new reference."""
    written = PAGE.read_text(encoding="utf-8").partition(START)[0]
    return written + START + reference(build_parser())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
