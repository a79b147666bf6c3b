"""Prints the output of commands: lines, tables, progress bars, questions, JSON and errors.

With `--json`, or if standard output is a pipe, standard output contains only the result. Progress bars and questions go
to standard error. Progress bars appear only on a terminal. Without the package rich, terminals get plain tables and no
progress bars. On a terminal, all text is escaped (`terminal.py`).
"""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from klamm.cli.color import RED, print_hint, print_labeled, print_warning
from klamm.cli.json_text import dumps
from klamm.cli.terminal import escaped_terminals, unescaped, visible
from klamm.errors import ArgumentError, BrokerError, ConfigError, KafkaError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Advance = Callable[[int, int], None]
"""Function that adds `(bytes, records)` to a progress bar."""

K = TypeVar("K")
V = TypeVar("V")

WAIT_SECONDS = 0.1


class CommandError(Exception):
    """A command cannot continue; `hint` says what the user can do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class UsageError(CommandError):
    """The command line is wrong. The exit code is 2."""


@dataclass(frozen=True)
class Output:
    """Prints the output of one run of a command, as text or as JSON."""

    json: bool = False
    failures: list[KafkaError] = field(default_factory=list)
    """Errors of the items that `found` left out. The command prints the first error at the end of the run."""

    @property
    def text(self) -> TextIO:
        """Return the stream for text: standard output, or standard error if JSON goes to standard output."""
        return sys.stderr if self.json else sys.stdout

    def say(self, line: str) -> None:
        """Print one line of text."""
        print(line, file=self.text, flush=True)

    def result(self, value: object) -> None:
        """Print the JSON object of this run."""
        print(dumps(value), flush=True)

    def result_or_lines(self, value: object, *lines: str) -> int:
        """Print the JSON object of this run with `--json`, otherwise lines of text. Return the exit code, which is 0."""
        if self.json:
            self.result(value)
        else:
            for line in lines:
                self.say(line)
        return 0

    def done(self, participle: str, names: Sequence[str], act: Callable[[str], None]) -> int:
        """Apply a function to each name. Print the names that succeeded, and the broker's errors for names that failed.

        Args:
            participle: Word for a success, such as "created".
            names: Names of topics or groups.
            act: Function that handles one name.

        Returns:
            The exit code: 1 if a name failed, otherwise 0.

        Raises:
            KafkaError: An error that concerns all names, such as a cluster that does not respond.
        """
        done = []
        for name in names:
            try:
                act(name)
            except BrokerError as error:
                print_error(error)
            else:
                done.append(name)
                if not self.json:
                    self.say(f"{participle} {name}")  # at once, so that a later error does not hide it
        if self.json:
            self.result({participle: done})
        return int(len(done) < len(names))

    def found(self, describe: Callable[[], Mapping[K, V]]) -> Mapping[K, V]:
        """Call `describe` and return its results. If only some items failed, keep the error until the end of the run.

        Raises:
            KafkaError: All items failed.
        """
        try:
            return describe()
        except KafkaError as error:
            if not error.results:
                raise
            self.failures.append(error)
            return error.results

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table: with a frame on a terminal, but with tabs and plain numbers into a file or pipe.

        If a terminal is too narrow, each row becomes a block of lines, so that no ID is cut or wrapped.
        """
        cells = [tuple(row) for row in rows]
        if not (self.text.isatty() and has_rich()):
            self.say("\t".join(columns))
            for row in cells:
                self.say("\t".join(map(plain, row)))
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        texts = [[visible(show(cell)) for cell in row] for row in cells]
        console = Console(file=unescaped(self.text))
        widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
        if sum(widths) + 3 * len(widths) + 1 > console.width:
            indent = max(map(len, columns))
            blocks = (
                "\n".join(f"{name:>{indent}}  {text}" for name, text in zip(columns, row, strict=True)) for row in texts
            )
            self.say("\n\n".join(blocks))
            return
        table = Table()
        for at, name in enumerate(columns):
            values = [row[at] for row in cells if row[at] is not None]
            numeric = bool(values) and all(isinstance(value, int | float) for value in values)
            table.add_column(name, justify="right" if numeric else "left", no_wrap=True)
        for texts_of_row in texts:
            table.add_row(*map(Text, texts_of_row))
        console.print(table)

    def result_or_table(self, value: object, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
        """Print the JSON object of this run with `--json`, otherwise a table. Return the exit code, which is 0."""
        if self.json:
            self.result(value)
        else:
            self.table(columns, rows)
        return 0

    def confirmed(self, args: argparse.Namespace, changes: Sequence[str]) -> bool:
        """Return whether a command may make the changes: with `--yes`, or after the user has confirmed the changes.

        With `--dry-run`, print the changes and return False.

        Raises:
            UsageError: A confirmation is needed, but there is no terminal and no answer in standard input.
        """
        if args.dry_run:
            if self.json:
                self.result({"dry_run": True, "changes": list(changes)})
            for change in changes:
                self.say(f"would {change}")
            return False
        if args.yes:
            return True
        for change in changes:
            print(f"will {change}", file=sys.stderr)
        print("continue? [y/N] ", end="", file=sys.stderr, flush=True)
        answer = read_answer()
        if not answer:
            print(file=sys.stderr)
            raise UsageError(
                "the command needs a confirmation", "pass --yes to confirm, or --dry-run to see the changes"
            )
        if answer.strip().lower() in ("y", "yes"):
            return True
        raise CommandError("nothing was changed")

    @contextmanager
    def progress(self, description: str, total: int | None, *, show: bool = True) -> Iterator[Advance]:
        """Show the progress in bytes as a bar, and the number of records. Without a terminal, show nothing.

        Args:
            description: Text in front of the bar.
            total: Total number of bytes, or None if it is unknown.
            show: Show the bar. Default True.
        """
        if not (show and sys.stderr.isatty() and has_rich()):
            yield lambda _bytes, _records: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[counted]}"),
            TimeElapsedColumn(),
            console=Console(file=unescaped(sys.stderr)),
            transient=True,
            # On a terminal, rich prints lines of text above the bar.
            redirect_stdout=sys.stdout.isatty(),
        )
        task = bar.add_task(visible(description), total=total or None, counted=counted(0, "record"))
        done = 0

        def advance(count: int, records: int) -> None:
            nonlocal done
            done += records
            bar.update(task, advance=count, counted=counted(done, "record"))

        with bar, escaped_terminals():  # rich has replaced the streams
            yield advance


def read_answer() -> str:
    """Read a line from standard input. Empty text means the end of the input."""
    # If a signal arrived right before a blocking read, Python would handle the signal only after the read. Ctrl+C would
    # do nothing.
    while os.name != "nt" and sys.stdin.isatty() and not select.select([sys.stdin], [], [], WAIT_SECONDS)[0]:
        pass
    return sys.stdin.readline()


@cache
def has_rich() -> bool:
    """Return whether rich is installed. If rich is missing, the first call prints how to install rich."""
    if find_spec("rich"):
        return True
    print_warning("output is plain, because rich is not installed")
    print_hint(INSTALL_RICH)
    return False


INSTALL_RICH = "pip install 'klamm[cli]' for tables and progress bars"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def plain(cell: object) -> str:
    """Return the text of a table cell for programs: without thousands separators, tabs and newlines."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return "-" if cell is None else re.sub(r"[\t\r\n]", " ", str(cell))


def show(cell: object) -> str:
    """Return the text of a table cell for people: with thousands separators, and "yes" or "no"."""
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return "-" if cell is None else str(cell)


def print_error(error: BaseException) -> None:
    """Print an error on one line and its hint on a second line.

    For an exception group, print the first error and the number of further errors. For an error of the command line, print
    the hint on the first line too.
    """
    errors = list(leaves(error))
    first = errors[0]
    more = f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""
    hint: Any = getattr(first, "hint", None)
    if hint and is_usage(first):
        more, hint = f"{more}; {one_line(str(hint))}", None
    print_labeled("klamm:", f"{one_line(describe(first))}{more}", RED)
    if hint:
        print_hint(one_line(str(hint)))


def is_usage(error: BaseException) -> bool:
    """Return whether an error concerns the command line, and not the cluster."""
    return isinstance(error, (UsageError, ConfigError, ArgumentError))


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, or the error itself."""
    for nested in getattr(error, "exceptions", ()):
        yield from leaves(nested)
    if not hasattr(error, "exceptions"):
        yield error


def describe(error: BaseException) -> str:
    """Return the text of an error. An error about a file becomes `path: reason`."""
    if isinstance(error, OSError) and error.strerror is not None and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    # The text of a KafkaError ends with its hint, which is printed on its own line here.
    if hasattr(error, "schema_id"):  # the text of a SchemaError also names the field
        return str(error).removesuffix(f"; hint: {getattr(error, 'hint', None)}")
    return str(getattr(error, "message", error)) or type(error).__name__


def one_line(text: str) -> str:
    """Return a text on one line, with each run of white space replaced by one space."""
    return " ".join(text.split())
