"""Formats the tables: medians over rounds, and ratios of a client's time per record to another client's time.

A ratio below 1 means that the client is faster. The report compares each client with the raw socket in the same case,
and with the best row of confluent-kafka for each value. In the bulk cases, the best row is the better of
confluent-kafka's bulk call and confluent-kafka's loop over the same records.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rebalance

if TYPE_CHECKING:
    from collections.abc import Iterable

RAW, PEER = "raw socket", "confluent-kafka"
TITLES = {
    "produce-loop": "produce, one call per record",
    "produce-bulk": "produce in bulk",
    "produce-callbacks": "produce, and take the result of each record",
    "consume-loop": "consume, touching each value",
    "consume-arrow": "consume to Arrow",
    "produce-tls": "produce over TLS, one call per record",
    "consume-tls": "consume over TLS, touching each value",
    "latency": "one send and its acknowledgement, linger 0",
    "end-to-end": "one send by a raw socket, until the consumer has the record",
    "rebalance": f"a group of {rebalance.MEMBERS} members with {rebalance.PARTITIONS} partitions",
    "import": "import",
}
LOOPS = {"produce-bulk": "produce-loop", "consume-arrow": "consume-loop"}

Result = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """The table of one case."""

    title: str
    header: list[str]
    rows: list[list[str]]


def text(facts: dict[str, Any], results: list[Result]) -> str:
    """Return the report as aligned text."""
    lines = [f"{name}: {value}" for name, value in facts.items()]
    for table in tables(results):
        widths = [max(map(len, column)) for column in zip(table.header, *table.rows, strict=True)]
        lines += ["", table.title]
        for row in [table.header, *table.rows]:
            cells = [
                cell.ljust(width) if at < 2 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join([*lines, *errors(results)])


def markdown(facts: dict[str, Any], results: list[Result]) -> str:
    """Return the report as Markdown, for README.md."""
    lines = [f"- {name}: {value}" for name, value in facts.items()]
    for table in tables(results):
        lines += [
            "",
            f"**{table.title}**",
            "",
            line(table.header),
            line(["---", "---", *["---:"] * (len(table.header) - 2)]),
        ]
        lines += [line(row) for row in table.rows]
    return "\n".join([*lines, *errors(results)])


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def errors(results: list[Result]) -> list[str]:
    return [
        f"\nFAILED {each['case']}, {each['client']}, {each['variant']}: {each['error']}"
        for each in results
        if "error" in each
    ]


def tables(results: list[Result]) -> list[Table]:
    """Return one table for each case that has results, in the order of the results."""
    makers = {"latency": latency, "end-to-end": latency, "rebalance": rebalances, "import": imports}
    return [makers.get(case, throughput)(case, results) for case in dict.fromkeys(each["case"] for each in results)]


def throughput(case: str, results: list[Result]) -> Table:
    peer_cases = (case, LOOPS.get(case, case))
    rows = []
    for (client, variant), runs in groups(results, case).items():
        walls = [run["wall_s"] for run in runs]
        wall, cpu = per_record(runs, "wall_s"), per_record(runs, "cpu_s")
        rows.append(
            [
                client,
                variant,
                f"{runs[0]['records']:,}",
                f"{statistics.median(walls):.2f}",
                f"{min(walls):.2f}–{max(walls):.2f}",
                f"{1e-3 / wall:,.0f}",
                f"{cpu * 1e6:.3f}",
                mebibytes(run["peak_kb"] for run in runs),
                mebibytes(run["peak_kb"] - run["before_kb"] for run in runs),
                ratio(wall, best(results, peer_cases, PEER, "wall_s")),
                ratio(cpu, best(results, peer_cases, PEER, "cpu_s")),
                ratio(wall, best(results, (case,), RAW, "wall_s")),
                ratio(cpu, best(results, (case,), RAW, "cpu_s")),
            ]
        )
    header = [
        "client",
        "how",
        "records",
        "wall s",
        "min–max",
        "k records/s",
        "CPU µs/record",
        "peak MiB",
        "growth MiB",
        "wall ÷ confluent",
        "CPU ÷ confluent",
        "wall ÷ raw",
        "CPU ÷ raw",
    ]
    note = "; ÷ confluent: the better of its bulk call and its loop" if case in LOOPS else ""
    return Table(TITLES[case] + note, header, rows)


def latency(case: str, results: list[Result]) -> Table:
    peer, raw = base(results, case, PEER), base(results, case, RAW)
    rows = []
    for (client, variant), runs in groups(results, case).items():
        count = len(runs[0]["ns"])
        rows.append(
            [
                client,
                variant,
                f"{count:,}",
                f"{percentile(runs, 50):.0f}",
                f"{percentile(runs, 99):.0f}",
                f"{runs[0]['cpu_s'] / count * 1e6:.0f}",
                mebibytes(run["peak_kb"] for run in runs),
                *(
                    ratio(percentile(runs, rank), percentile(against, rank))
                    for against in (peer, raw)
                    for rank in (50, 99)
                ),
            ]
        )
    header = [
        "client",
        "how",
        "sends",
        "p50 µs",
        "p99 µs",
        "CPU µs/send",
        "peak MiB",
        "p50 ÷ confluent",
        "p99 ÷ confluent",
        "p50 ÷ raw",
        "p99 ÷ raw",
    ]
    return Table(TITLES[case], header, rows)


def rebalances(case: str, results: list[Result]) -> Table:
    found = groups(results, case)
    rows = []
    for (client, variant), runs in found.items():
        java = found.get((rebalance.NAMES["java"], variant), [])
        cells = [client, variant]
        for event in rebalance.EVENTS:
            took, against = ([run[event] * 1e3 for run in side] for side in (runs, java))
            cells += [
                f"{statistics.median(took):.0f}",
                f"{min(took):.0f}–{max(took):.0f}",
                ratio(statistics.median(took), statistics.median(against) if against else 0),
            ]
        rows.append(cells)
    header = ["client", "how"]
    for event in rebalance.EVENTS:
        header += [f"{event}, ms", "min–max", "÷ Java"]
    return Table(TITLES[case], header, rows)


def imports(case: str, results: list[Result]) -> Table:
    peer = milliseconds(base(results, case, PEER))
    rows = []
    for (client, variant), runs in groups(results, case).items():
        took = [run["wall_s"] * 1e3 for run in runs]
        rows.append(
            [
                client,
                variant,
                f"{milliseconds(runs):.1f}",
                f"{min(took):.1f}–{max(took):.1f}",
                mebibytes(run["peak_kb"] for run in runs),
                ratio(milliseconds(runs), peer),
            ]
        )
    return Table(TITLES[case], ["client", "how", "ms", "min–max", "peak MiB", "÷ confluent"], rows)


def groups(results: list[Result], case: str) -> dict[tuple[str, str], list[Result]]:
    """Group the successful measurements of a case by client and variant, in the order of the first round."""
    found: dict[tuple[str, str], list[Result]] = {}
    for each in results:
        if each["case"] == case and "error" not in each:
            found.setdefault((each["client"], each["variant"]), []).append(each)
    return found


def base(results: list[Result], case: str, client: str) -> list[Result]:
    """Return the results of a client's first variant, or an empty list if the run did not include the client."""
    return next((runs for (name, _), runs in groups(results, case).items() if name == client), [])


def best(results: list[Result], cases: Iterable[str], client: str, key: str) -> float:
    """Return a client's lowest value per record in the given cases, or 0 if the run did not include the client."""
    rows = [row for case in dict.fromkeys(cases) for row in groups(results, case).items()]
    return min((per_record(runs, key) for (name, _), runs in rows if name == client), default=0.0)


def per_record(runs: list[Result], key: str) -> float:
    return statistics.median(run[key] / run["records"] for run in runs)


def percentile(runs: list[Result], rank: int) -> float:
    """Return a percentile of the round trips of all turns, in microseconds."""
    return statistics.quantiles(runs[0]["ns"], n=100, method="inclusive")[rank - 1] / 1e3 if runs else 0.0


def milliseconds(runs: list[Result]) -> float:
    return statistics.median([run["wall_s"] * 1e3 for run in runs] or [0.0])


def mebibytes(kibibytes: Iterable[int]) -> str:
    return f"{statistics.median(kibibytes) / 1024:.0f}"


def ratio(figure: float, against: float) -> str:
    return f"{figure / against:.2f}" if against else "–"
