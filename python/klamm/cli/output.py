"""Prints what commands show: lines, tables, progress bars, JSON and errors.

With `--json`, or into a pipe, standard output contains the result and nothing else. Progress bars are shown on standard error, and
only on a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from klamm.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Advance = Callable[[int, int], None]
"""Function that adds `(bytes, records)` to a progress bar."""


class CommandError(Exception):
    """A command cannot continue; `hint` says what the user can do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Output:
    """Prints the output of one run of a command, as text or as JSON."""

    json: bool = False

    @property
    def text(self) -> TextIO:
        """Return the stream for text: standard output, or standard error if JSON goes to standard output."""
        return sys.stderr if self.json else sys.stdout

    def say(self, line: str) -> None:
        """Print one line of text."""
        print(line, file=self.text, flush=True)

    def result(self, value: object) -> None:
        """Print the JSON object of this run."""
        print(json.dumps(value, ensure_ascii=False), flush=True)

    def done(self, participle: str, names: Sequence[str], act: Callable[[str], None]) -> int:
        """Apply a function to each name, and print the names that succeeded and the broker's errors for the others.

        Args:
            participle: Word for a success, such as "created".
            names: Names of topics or groups.
            act: Function that handles one name.

        Returns:
            The exit code.

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

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table: framed on a terminal, plain aligned columns in a pipe. Numbers are aligned to the right."""
        cells = [tuple(row) for row in rows]
        values = [[row[at] for row in cells if row[at] is not None] for at in range(len(columns))]
        numeric = [bool(column) and all(isinstance(value, int | float) for value in column) for column in values]
        texts = [[show(cell) for cell in row] for row in cells]
        if self.text.isatty():
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text

            table = Table()
            for name, right in zip(columns, numeric, strict=True):
                table.add_column(name, justify="right" if right else "left")
            for row in texts:
                table.add_row(*(Text(cell) for cell in row))
            Console(file=self.text).print(table)
            return
        widths = [max(len(text) for text in column) for column in zip(columns, *texts, strict=True)]
        for row in [list(columns), *texts]:
            padded = (
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(row, widths, numeric, strict=True)
            )
            self.say("  ".join(padded).rstrip())

    @contextmanager
    def progress(self, description: str, total: int | None, *, show: bool = True) -> Iterator[Advance]:
        """Show a progress bar of bytes, and the number of records, on a terminal only.

        Args:
            description: Text in front of the bar.
            total: Total number of bytes, or None if it is unknown.
            show: Show the bar. Default True.
        """
        if not (show and sys.stderr.isatty()):
            yield lambda _bytes, _records: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[records]:,} records"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            # On a terminal, rich prints lines of text above the bar.
            redirect_stdout=sys.stdout.isatty(),
        )
        task = bar.add_task(description, total=total or None, records=0)

        def advance(count: int, records: int) -> None:
            bar.update(task, advance=count, records=bar.tasks[task].fields["records"] + records)

        with bar:
            yield advance


def show(cell: object) -> str:
    """Return the text of a table cell."""
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return "-" if cell is None else str(cell)


def print_error(error: BaseException) -> None:
    """Print an error on one line and its hint on a second. For a group, print the first error and the number of others."""
    errors = list(leaves(error))
    first = errors[0]
    more = f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""
    print(f"klamm: {one_line(describe(first))}{more}", file=sys.stderr)
    hint: Any = getattr(first, "hint", None)
    if hint:
        print(f"  hint: {one_line(str(hint))}", file=sys.stderr)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, or the error itself."""
    for nested in getattr(error, "exceptions", ()):
        yield from leaves(nested)
    if not hasattr(error, "exceptions"):
        yield error


def describe(error: BaseException) -> str:
    """Return the text of an error. A file's error is `path: reason`."""
    if isinstance(error, OSError) and error.strerror is not None and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    # The text of a KafkaError ends with its hint, which is printed on its own line here.
    return str(getattr(error, "message", error)) or type(error).__name__


def one_line(text: str) -> str:
    """Return a text on one line, with white space folded."""
    return " ".join(text.split())
