"""What a command shows: lines, tables, progress and JSON.

One rule: standard output carries the result and nothing else when `--json` is given or a pipe reads it. Progress bars
go to standard error, and only to a terminal.
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
"""Tell a progress bar of `(bytes, records)` more."""


class CommandError(Exception):
    """Something a command needs is missing or failed; `hint` says what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Output:
    """Where one run of a command writes to."""

    json: bool = False

    @property
    def text(self) -> TextIO:
        """The stream for people: standard output, or standard error when JSON has that."""
        return sys.stderr if self.json else sys.stdout

    def say(self, line: str) -> None:
        """Print one line for people."""
        print(line, file=self.text, flush=True)

    def result(self, value: object) -> None:
        """Print the one JSON object of this run."""
        print(json.dumps(value, ensure_ascii=False), flush=True)

    def done(self, what: str, names: Sequence[str], act: Callable[[str], None]) -> int:
        """Do something to each of some names; say to which it was done, and what a broker has against the others.

        Gives the exit code. What concerns all of them, as a cluster that does not answer, is raised.
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
                    self.say(f"{what} {name}")  # at once: what is raised later does not hide it
        if self.json:
            self.result({what: done})
        return int(len(done) < len(names))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table: framed on a terminal, plain aligned columns in a pipe. Numbers stand to the right."""
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
        """Show a bar of `total` bytes (`None`: not known) and the records so far, on a terminal only."""
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
            # Lines for people keep their place above the bar, unless they go elsewhere.
            redirect_stdout=sys.stdout.isatty(),
        )
        task = bar.add_task(description, total=total or None, records=0)

        def advance(count: int, records: int) -> None:
            bar.update(task, advance=count, records=bar.tasks[task].fields["records"] + records)

        with bar:
            yield advance


def show(cell: object) -> str:
    """Write one table cell."""
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return "-" if cell is None else str(cell)


def print_error(error: BaseException) -> None:
    """Print an error in one line, its hint in a second. Of a group: the first, and how many more there are."""
    errors = list(leaves(error))
    first = errors[0]
    more = f" (and {len(errors) - 1:,} more)" if len(errors) > 1 else ""
    print(f"klamm: {one_line(describe(first))}{more}", file=sys.stderr)
    hint: Any = getattr(first, "hint", None)
    if hint:
        print(f"  {one_line(str(hint))}", file=sys.stderr)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, or the error itself."""
    for nested in getattr(error, "exceptions", ()):
        yield from leaves(nested)
    if not hasattr(error, "exceptions"):
        yield error


def describe(error: BaseException) -> str:
    """Say an error in words; a file's error as `path: reason`."""
    if isinstance(error, OSError) and error.strerror is not None and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    # The text of a KafkaError ends with its hint, which has a line of its own here.
    return str(getattr(error, "message", error)) or type(error).__name__


def one_line(text: str) -> str:
    """Fold white space, so that a message stays one line."""
    return " ".join(text.split())
