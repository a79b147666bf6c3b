"""`klamm report`: draws throughput and lag of Spark streams over time, as an HTML page and as a PNG.

The command reads a file with one line of JSON for each micro-batch, from `klamm.spark.progress.ProgressLog` or `python
-m klamm.pipeline --progress`. The page is a single file without scripts or external resources. The PNG needs
matplotlib.
"""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from klamm.cli.options import add_json
from klamm.cli.output import CommandError, show

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "report",
        help="draw throughput and lag of Spark streams over time",
        description="Draw throughput and lag of Spark streams over time, from a file that "
        "klamm.spark.progress.ProgressLog wrote.",
    )
    parser.add_argument(
        "progress", metavar="PROGRESS", type=Path, help="file to read, with one line of JSON for each batch"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="HTML",
        type=Path,
        default=Path("report.html"),
        help="write the HTML page to this file (default: %(default)s)",
    )
    parser.add_argument(
        "--png", metavar="PNG", type=Path, help="also write the charts to this PNG file; needs klamm[report]"
    )
    add_json(parser, "print one JSON object, with queries (the totals of each query), html and png")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, output: Output) -> int:
    """Write the report, and print the table with the totals of each query."""
    batches = read(args.progress)
    sums = [summary(query, [batch for batch in batches if batch.query == query]) for query in queries(batches)]
    # Write the PNG first, so that nothing is written if matplotlib is missing.
    if args.png is not None:
        write_png(batches, args.png)
    args.output.write_text(page(batches, sums), encoding="utf-8")
    if output.json:
        output.result({"queries": sums, "html": str(args.output), "png": args.png and str(args.png)})
    else:
        output.table(list(sums[0]), [list(row.values()) for row in sums])
        for path in filter(None, (args.output, args.png)):
            output.say(f"wrote {path}")
    return 0


@dataclass(frozen=True)
class Batch:
    """One micro-batch."""

    query: str
    number: int
    begin: float
    seconds: float
    records: int
    bytes: int | None
    lag: int | None
    late: int

    @property
    def end(self) -> float:
        """Return the time at which the batch ended."""
        return self.begin + self.seconds


def read(path: Path) -> list[Batch]:
    """Read a progress file.

    If a batch occurs more than once, its last line counts. The function ignores an incomplete last line, because the
    program that wrote the file may have been killed.
    """
    found: dict[tuple[str, int], Batch] = {}
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            batch = _batch(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                continue
            raise CommandError(
                f"line {number} of {path} is not the progress of a stream ({type(error).__name__}: {error})",
                hint="pass a file that klamm.spark.progress.ProgressLog wrote",
            ) from None
        found[batch.query, batch.number] = batch
    if not found:
        raise CommandError(f"{path} contains no batch", hint="wait until the stream has finished a batch with data")
    return sorted(found.values(), key=lambda batch: batch.begin)


def _batch(row: dict[str, Any]) -> Batch:
    return Batch(
        query=str(row["query"]),
        number=int(row["batch"]),
        begin=datetime.fromisoformat(row["time"].replace("Z", "+00:00")).timestamp(),
        seconds=float(row["seconds"]),
        records=int(row["records"]),
        bytes=None if row["bytes"] is None else int(row["bytes"]),
        lag=None if row["lag"] is None else int(row["lag"]),
        late=int(row["late"]),
    )


def queries(batches: Iterable[Batch]) -> list[str]:
    """Return the names of the queries, sorted."""
    return sorted({batch.query for batch in batches})


def summary(query: str, batches: list[Batch]) -> dict[str, Any]:
    """Return one row of the report's table: the totals of one query."""
    rates = [batch.records / batch.seconds for batch in batches if batch.records and batch.seconds]
    sizes = [batch.bytes for batch in batches if batch.bytes is not None]
    lags = [batch.lag for batch in batches if batch.lag is not None]
    return {
        "query": query,
        "batches": len(batches),
        "records": sum(batch.records for batch in batches),
        "MB": sum(sizes) / 1e6 if sizes else None,
        "seconds": sum(batch.seconds for batch in batches),
        "records/s (median)": statistics.median(rates) if rates else None,
        "largest lag": max(lags, default=None),
        "last lag": lags[-1] if lags else None,
        "too late": sum(batch.late for batch in batches),
    }


class Point(NamedTuple):
    """A value of one chart, with its start and end in seconds since the first batch.

    A rate applies from the start to the end of a batch.
    """

    begin: float
    end: float
    value: float


Series = dict[str, list[Point]]
LAG = "lag in records"


def series(batches: list[Batch]) -> dict[str, Series]:
    """Return the points to draw, by chart and query. The lag is known only at the end of a batch."""
    first = batches[0].begin
    charts: dict[str, Series] = {"records per second": {}, "MB per second": {}, LAG: {}}
    for batch in sorted(batches, key=lambda batch: batch.end):
        values: dict[str, float | None] = {LAG: batch.lag}
        if batch.seconds:
            values["records per second"] = batch.records / batch.seconds
            values["MB per second"] = None if batch.bytes is None else batch.bytes / batch.seconds / 1e6
        for chart, value in values.items():
            if value is not None:
                begin = (batch.end if chart == LAG else batch.begin) - first
                charts[chart].setdefault(batch.query, []).append(Point(begin, batch.end - first, value))
    return {chart: lines for chart, lines in charts.items() if lines}


def page(batches: list[Batch], sums: list[dict[str, Any]]) -> str:
    """Return the HTML page with the charts and the table of totals."""
    names = queries(batches)
    legend = "".join(f'<span class="q{at % COLOURS}">● {escape(name)}</span> ' for at, name in enumerate(names))
    found = series(batches)
    x_end = last_second(found)
    charts = "".join(f"<h2>{escape(title)}</h2>\n{drawing(lines, names, x_end)}\n" for title, lines in found.items())
    title = escape(headline(batches))
    head = "".join(f"<th>{escape(name)}</th>" for name in sums[0])
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(show(cell))}</td>" for cell in row.values()) + "</tr>\n" for row in sums
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n<style>{STYLE}</style>'
        f"</head>\n<body><h1>{title}</h1>\n<p>{legend}</p>\n"
        f"{charts}<table><tr>{head}</tr>\n{rows}</table></body></html>\n"
    )


def headline(batches: list[Batch]) -> str:
    """Return the title of the page: the names of the queries, and the start time of the first batch."""
    begin = datetime.fromtimestamp(batches[0].begin).astimezone()
    return f"{', '.join(queries(batches))} from {begin:%Y-%m-%d %H:%M:%S %Z}"


def last_second(charts: dict[str, Series]) -> float:
    """Return the time of the last point in all charts, in seconds since the first batch."""
    return max(point.end for lines in charts.values() for line in lines.values() for point in line)


def drawing(lines: Series, names: list[str], last: float) -> str:
    """Return one chart as SVG: a line of steps for each query, and a dot with a tooltip for each batch."""
    largest = max(point.value for line in lines.values() for point in line)
    x_step, y_step = nice_step(last), nice_step(largest)
    x_end = max(1, math.ceil(last / x_step)) * x_step
    y_end = max(1, math.ceil(largest / y_step)) * y_step

    def to_pixels(x: float, y: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT) * x / x_end, HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * y / y_end

    parts = [f'<svg viewBox="0 0 {WIDTH + TOP} {HEIGHT}" role="img">']
    for tick in range(round(y_end / y_step) + 1):
        x, y = to_pixels(0, tick * y_step)
        zero = ' class="zero"' if tick == 0 else ""
        parts.append(f'<line{zero} x1="{x:.1f}" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" class="left">{tick * y_step:,g}</text>')
    for tick in range(round(x_end / x_step) + 1):
        x, y = to_pixels(tick * x_step, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}">{tick * x_step:,g} s</text>')
    for name, line in lines.items():
        colour = f"q{names.index(name) % COLOURS}"
        corners = [corner for point in line for corner in ((point.begin, point.value), (point.end, point.value))]
        track = " ".join("{:.1f},{:.1f}".format(*to_pixels(*corner)) for corner in corners)
        parts.append(f'<polyline class="{colour}" points="{track}"/>')
        for point in line:
            x, y = to_pixels(point.end, point.value)
            tooltip = escape(f"{name}: {show(round(point.value, 2))} at {point.end:.1f} s")
            parts.append(f'<circle class="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"><title>{tooltip}</title></circle>')
    return "\n".join([*parts, "</svg>"])


def nice_step(largest: float) -> float:
    """Return a round step that divides the range up to `largest` into about five parts."""
    if largest <= 0:
        return 1.0
    magnitude: float = 10.0 ** math.floor(math.log10(largest / 5))
    return next(magnitude * factor for factor in (1, 2, 5, 10) if largest / (magnitude * factor) <= 5)  # noqa: PLR2004


def write_png(batches: list[Batch], path: Path) -> None:
    """Draw the charts into a PNG file."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise CommandError(
            "--png needs matplotlib, which is not installed", hint="pip install 'klamm[report]'"
        ) from None
    charts = series(batches)
    figure = Figure(figsize=(9, 3 * len(charts)), layout="constrained")
    figure.suptitle(headline(batches))
    panels = figure.subplots(len(charts), squeeze=False, sharex=True).flat
    for axes, (title, lines) in zip(panels, charts.items(), strict=True):
        for at, (name, line) in enumerate(lines.items()):
            colour = f"C{at}"
            corners = [corner for point in line for corner in ((point.begin, point.value), (point.end, point.value))]
            axes.plot(*zip(*corners, strict=True), color=colour, label=name)
            axes.plot([point.end for point in line], [point.value for point in line], ".", color=colour)
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set(title=title, xlabel="seconds", xlim=(0, last_second(charts) or 1), ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(path, format="png")


WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 900, 240, 80, 30, 30

# Number of colours in `STYLE`. Colour-blind people can tell these colours apart (Okabe and Ito).
COLOURS = 6
STYLE = """
body { font: 15px system-ui, sans-serif; max-width: 960px; margin: 2em auto; padding: 0 1em; color-scheme: light dark; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-bottom: 0; }
svg { width: 100%; } svg line { stroke: currentColor; opacity: .15; } svg line.zero { opacity: .6; }
svg text { font-size: 12px; fill: currentColor; text-anchor: middle; } svg text.left { text-anchor: end; }
polyline { fill: none; stroke: currentColor; stroke-width: 2; } circle { fill: currentColor; }
.q0 { color: #0072b2; } .q1 { color: #d55e00; } .q2 { color: #009e73; }
.q3 { color: #cc79a7; } .q4 { color: #e69f00; } .q5 { color: #56b4e9; }
table { border-collapse: collapse; } th, td { padding: .3em .8em; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
"""
