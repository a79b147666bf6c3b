"""`klamm top`: shows brokers, throughput, consumer groups and busy partitions, and updates the display at an interval.

`klamm.Admin` reads the state of the cluster.

To compute rates, the command reads the end offsets of all partitions and the committed offsets of all groups twice. The
command does not need the brokers' own metrics.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import klamm
from klamm.admin.group_offsets import unread
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common
from klamm.cli.output import has_rich, one_line, show
from klamm.cli.terminal import unescaped, visible
from klamm.errors import KafkaError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

HOT = 10
"""Maximum number of busy partitions to show."""

SECTIONS = {
    "brokers": ("id", "address", "rack", "leaders", "replicas", "records_per_second"),
    "groups": ("group", "type", "state", "lag", "records_per_second"),
    "hot_partitions": ("topic", "partition", "leader", "records_per_second"),
    "under_replicated": ("topic", "partition", "leader", "replicas", "isr"),
}
"""The tables to show, and the columns of each table."""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "top",
        help="show brokers, throughput, groups and busy partitions",
        description="Show brokers, throughput in and out, groups with lag and rate, and under-replicated and busy "
        "partitions. On a terminal, the command updates the display until Ctrl+C. In a pipe or a file, the command "
        "prints one sample.",
    )
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=seconds,
        default=2.0,
        help="time between two samples (default: %(default)s)",
    )
    add_common(parser, run, "print one sample as a JSON object")


def seconds(text: str) -> float:
    """Parse an interval in seconds, from 0.1 to 3600."""
    value = float(text)
    if not 0.1 <= value <= 3600:  # noqa: PLR2004
        raise ValueError(text)
    return value


def run(args: argparse.Namespace, output: Output) -> int:
    """Show samples until Ctrl+C, or print one sample."""
    config = admin_config(args)
    with klamm.Admin(config) as admin, klamm.Consumer(config) as consumer:

        def sample() -> Look:
            return look(admin, consumer)

        if args.json:
            output.result(next(samples(sample, args.interval)))
        elif output.text.isatty() and has_rich():
            live(sample, args.interval, output)
        else:
            for found in samples(sample, args.interval):
                print_sample(found, output)
                if not output.text.isatty():
                    break
    return 0


@dataclass(frozen=True)
class Look:
    """The state of the cluster at one time."""

    at: float
    cluster: klamm.ClusterDescription
    topics: dict[str, klamm.TopicDescription]
    starts: dict[klamm.TopicPartition, int]
    ends: dict[klamm.TopicPartition, int]
    groups: list[klamm.GroupListing]
    committed: dict[str, dict[klamm.TopicPartition, int]]


def look(admin: klamm.Admin, consumer: klamm.Consumer) -> Look:
    """Read the state of the cluster from the brokers.

    Partitions without a leader are left out. If the command cannot read the offsets of a group, for example because the
    group was just deleted, the result has no offsets for the group.
    """
    cluster = admin.describe_cluster()
    topics = admin.describe_topics(admin.list_topics(internal=True))
    led = [
        klamm.TopicPartition(name, part.partition)
        for name, topic in topics.items()
        for part in topic.partitions
        if part.leader >= 0
    ]
    groups = [group for group in admin.list_groups() if group.protocol_type in {"consumer", "share", ""}]
    committed: dict[str, dict[klamm.TopicPartition, int]] = {}
    for group in groups:
        try:
            committed[group.group] = admin.group_offsets(group.group)
        except KafkaError:
            committed[group.group] = {}
    reached = {tp for offsets in committed.values() for tp in offsets}
    starts = consumer.beginning_offsets(tp for tp in led if tp in reached)
    # Read the end offsets last, so that no lag is negative.
    ends = consumer.end_offsets(led) if led else {}
    return Look(time.monotonic(), cluster, topics, starts, ends, groups, committed)


def samples(sample: Callable[[], Look], interval: float) -> Iterator[dict[str, Any]]:
    """Yield a sample after each interval. A sample compares the states before and after the interval."""
    before = sample()
    while True:
        time.sleep(max(before.at + interval - time.monotonic(), 0))
        now = sample()
        yield compare(before, now)
        before = now


def compare(before: Look, now: Look) -> dict[str, Any]:
    """Compute a sample from two states. Return the sample as a dict for JSON."""
    elapsed = max(now.at - before.at, 1e-6)
    written = {tp: max(end - before.ends.get(tp, end), 0) / elapsed for tp, end in now.ends.items()}
    leaders = {(name, part.partition): part.leader for name, topic in now.topics.items() for part in topic.partitions}

    def leader(tp: klamm.TopicPartition) -> int:
        return leaders.get((tp.topic, tp.partition), -1)

    def group(listing: klamm.GroupListing) -> dict[str, Any]:
        offsets, earlier = now.committed[listing.group], before.committed.get(listing.group, {})
        lags = [unread(offset, now.starts[tp], now.ends[tp]) for tp, offset in offsets.items() if tp in now.starts]
        moved = [max(offset - earlier.get(tp, offset), 0) for tp, offset in offsets.items()]
        return {
            "group": listing.group,
            "type": listing.type or None,
            "state": listing.state or None,
            "lag": sum(lags) if lags else None,
            "records_per_second": sum(moved) / elapsed,
        }

    brokers = [
        {
            "id": node.id,
            "address": f"{node.host}:{node.port}",
            "rack": node.rack,
            "leaders": sum(number == node.id for number in leaders.values()),
            "replicas": sum(node.id in part.replicas for topic in now.topics.values() for part in topic.partitions),
            "records_per_second": sum(rate for tp, rate in written.items() if leader(tp) == node.id),
        }
        for node in now.cluster.brokers
    ]
    groups = sorted(map(group, now.groups), key=lambda each: (-(each["lag"] or 0), each["group"]))
    hot = sorted((rate, tp.topic, tp.partition) for tp, rate in written.items() if rate > 0)[: -HOT - 1 : -1]
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "seconds": elapsed,
        "cluster_id": now.cluster.cluster_id,
        "controller": now.cluster.controller,
        "records_in_per_second": sum(written.values()),
        "records_out_per_second": sum(each["records_per_second"] for each in groups),
        "brokers": brokers,
        "groups": groups,
        "hot_partitions": [
            {
                "topic": topic,
                "partition": partition,
                "leader": leaders.get((topic, partition), -1),
                "records_per_second": rate,
            }
            for rate, topic, partition in hot
        ],
        "under_replicated": [
            {
                "topic": name,
                "partition": part.partition,
                "leader": part.leader,
                "replicas": part.replicas,
                "isr": part.isr,
            }
            for name, topic in sorted(now.topics.items())
            for part in topic.partitions
            if part.leader < 0 or len(part.isr) < len(part.replicas)
        ],
    }


def totals(found: dict[str, Any]) -> str:
    """Return the line above the tables: the cluster, the controller and the total rates."""
    return (
        f"cluster {found['cluster_id']}, controller {found['controller']}: "
        f"{show(found['records_in_per_second'])} records/s in, {show(found['records_out_per_second'])} records/s out"
    )


def rows(found: dict[str, Any], section: str) -> list[list[object]]:
    """Return the rows of one table of `SECTIONS`."""
    return [[each[column] for column in SECTIONS[section]] for each in found[section]]


def print_sample(found: dict[str, Any], output: Output) -> None:
    """Print one sample as text."""
    output.say(totals(found))
    for section, columns in SECTIONS.items():
        output.say(f"\n{section.replace('_', ' ')}")
        output.table([column.replace("_per_", "/") for column in columns], rows(found, section))


def live(sample: Callable[[], Look], interval: float, output: Output) -> None:
    """Update a display until Ctrl+C. If the brokers do not respond, show the error and continue."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    def table(found: dict[str, Any], section: str) -> Table:
        drawn = Table(title=section.replace("_", " "), title_justify="left", expand=False)
        for column in SECTIONS[section]:
            drawn.add_column(column.replace("_per_", "/"))
        for row in rows(found, section):
            drawn.add_row(*(Text(visible(show(cell))) for cell in row))
        return drawn

    with Live(console=Console(file=unescaped(output.text)), auto_refresh=False, screen=True) as display:
        while True:
            try:
                for found in samples(sample, interval):
                    parts = [table(found, section) for section in SECTIONS if found[section]]
                    display.update(Group(Text(visible(totals(found))), *parts), refresh=True)
            except KafkaError as error:
                display.update(Text(visible(one_line(str(error)))), refresh=True)
                time.sleep(interval)
