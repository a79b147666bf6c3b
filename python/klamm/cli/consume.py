"""`klamm consume`: prints the records of a topic.

With `--group` it is a member of a consumer group, which commits what was printed. Otherwise it assigns partitions itself and
commits nothing. It flushes the output after each poll, and ends when the program that reads the output ends, even if no record
arrives.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import client_config, closing
from klamm.cli.options import add_connection, add_json, natural, positive
from klamm.cli.output import CommandError, UsageError
from klamm.cli.positions import Bounds, Kind, Position, parse_position
from klamm.cli.record_format import parse_format, render_json, render_value

if TYPE_CHECKING:
    import argparse
    from collections.abc import Collection

    from klamm.cli.options import Commands
    from klamm.cli.output import Output
    from klamm.cli.record_format import Render

POLL_SECONDS = 0.25
"""Longest wait for records before checking whether the output is still being read."""

POLL_RECORDS = 10_000
"""Maximum number of records for each write; more are no faster."""

RESETS = {Kind.EARLIEST: "earliest", Kind.LATEST: "latest"}
"""Values of `auto.offset.reset`."""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "consume",
        help="print the records of a topic",
        description="Print the records of a topic. By default, print each value on a line of its own, and wait for new "
        "records forever.",
        epilog="POSITION applies to each partition. It is one of: earliest, latest (or end), OFFSET, -N (the last N "
        "records), or @TIME (the first record at or after a time, in ISO 8601 or milliseconds since 1970).",
    )
    parser.add_argument("topic", metavar="TOPIC", help="topic to read")
    add_connection(parser)
    parser.add_argument(
        "--from",
        dest="start",
        metavar="POSITION",
        type=parse_position,
        default=Position(Kind.EARLIEST),
        help="start at this position (default: earliest); with --group only earliest or latest, where the group "
        "has no committed offset",
    )
    parser.add_argument(
        "--to",
        dest="stop",
        metavar="POSITION",
        type=parse_position,
        help="stop before this position (default: never stop)",
    )
    parser.add_argument(
        "-e", "--exit", action="store_true", help="stop at the current end of the topic, as with --to end"
    )
    parser.add_argument(
        "--group",
        metavar="NAME",
        help="read as a member of this consumer group: start at its committed offsets, and commit what was printed",
    )
    parser.add_argument(
        "--partition", metavar="N", type=natural, action="append", help="read only this partition; may be repeated"
    )
    parser.add_argument("--max", metavar="N", type=positive, help="stop after N records")
    output_form = parser.add_mutually_exclusive_group()
    output_form.add_argument(
        "--format",
        dest="render",
        metavar="TEXT",
        type=parse_format,
        help=r"print each record in this format: %%k key, %%v value, %%t topic, %%p partition, %%o offset, %%T timestamp, "
        r"%%h headers, %%%% a percent sign, and the escapes \n \t \r \0 \\ \xHH",
    )
    add_json(output_form, "print each record as one JSON object on a line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, _: Output) -> int:
    """Print records until the end position, the maximum number, or Ctrl+C."""
    render: Render = render_json if args.json else args.render or render_value
    stop = args.stop or (Position(Kind.LATEST) if args.exit else None)
    # A misspelled name must not create a topic.
    reset = "earliest" if args.group is None else group_reset(args)
    config = client_config(args, "consumer", auto_offset_reset=reset, allow_auto_create_topics="false")
    if args.group is not None:
        config["group.id"] = args.group
    elif "group.id" in config or "group_id" in config:
        raise UsageError(
            "a group set with -X would be ignored: this command would read from --from and not from the committed offsets",
            "use --group NAME to read as a member of a group",
        )
    with closing(klamm.Consumer(config)) as consumer:
        if args.group is not None:
            consumer.partitions_for(args.topic)  # a topic that does not exist is an error at once
            consumer.subscribe([args.topic], on_rebalance=ShownRebalances())
            print_records(consumer, [], render, args.max)
            return 0
        assigned = assignment(consumer, args.topic, args.partition, args.start, stop)
        if assigned:
            consumer.assign(assigned)
            print_records(consumer, assigned, render, args.max)
    return 0


def group_reset(args: argparse.Namespace) -> str:
    """Return where a group without committed offsets starts; refuse options that a member of a group cannot have."""
    given = [
        name
        for name, value in (("--partition", args.partition), ("--to", args.stop), ("--exit", args.exit))
        if value not in (None, False)
    ]
    if given:
        raise UsageError(
            f"--group and {given[0]} exclude each other: the group decides which partitions a member reads, and until when",
            "leave one of them out, or use --max to stop",
        )
    if args.start.kind not in RESETS:
        raise UsageError(
            "with --group, --from must be earliest or latest: a group reads from its committed offsets",
            "to move a group to another position, use `klamm groups reset-offsets`",
        )
    return RESETS[args.start.kind]


class ShownRebalances(klamm.RebalanceListener):
    """Shows on standard error which partitions the group gives to this member, and takes back."""

    def assigned(self, partitions: set[klamm.TopicPartition]) -> None:
        """Show new partitions."""
        show_partitions("assigned", partitions)

    def revoked(self, partitions: set[klamm.TopicPartition]) -> None:
        """Show partitions that go to another member."""
        show_partitions("revoked", partitions)

    def lost(self, partitions: set[klamm.TopicPartition]) -> None:
        """Show partitions that another member may already have."""
        show_partitions("lost", partitions)


def show_partitions(participle: str, partitions: Collection[klamm.TopicPartition]) -> None:
    """Print one line about partitions on standard error."""
    names = ", ".join(f"{each.topic}-{each.partition}" for each in sorted(partitions)) or "no partitions"
    print(f"klamm: {participle}: {names}", file=sys.stderr, flush=True)


def assignment(
    consumer: klamm.Consumer, topic: str, wanted: list[int] | None, start: Position, stop: Position | None
) -> list[klamm.TopicPartition]:
    """Return the partitions and offsets to read, without partitions that have no record between `start` and `stop`."""
    known = consumer.partitions_for(topic)
    for number in wanted or ():
        if number not in known:
            raise CommandError(
                f"topic {topic!r} has no partition {number}",
                f"use one of its partitions: {', '.join(map(str, sorted(known)))}",
            )
    partitions = [klamm.TopicPartition(topic, number) for number in sorted(set(wanted or known))]
    bounds = Bounds.ask(consumer, partitions)
    first = bounds.locate(consumer, start)
    if stop is None:
        return [klamm.TopicPartition(topic, each.partition, first[each]) for each in partitions]
    last = bounds.locate(consumer, stop)
    return [
        klamm.TopicPartition(topic, each.partition, first[each], last[each])
        for each in partitions
        if first[each] < last[each]
    ]


def print_records(
    consumer: klamm.Consumer, assigned: list[klamm.TopicPartition], render: Render, limit: int | None
) -> None:
    """Write records to standard output, until all partitions have reached their end or `limit` records are written."""
    out = sys.stdout.buffer
    unfinished = [partition for partition in assigned if partition.end_offset is not None]
    bounded = bool(unfinished)
    remaining = limit
    while True:
        count = POLL_RECORDS if remaining is None else min(remaining, POLL_RECORDS)
        records = consumer.poll(timeout=POLL_SECONDS, max_records=count)
        out.write(b"".join(map(render, records)))
        out.flush()
        if remaining is not None:
            remaining -= len(records)
            if remaining == 0:
                return
        if bounded:
            unfinished = [each for each in unfinished if consumer.position(each) < (each.end_offset or 0)]
            if not unfinished:
                return
        if not records and is_pipe_closed(out.fileno()):
            raise BrokenPipeError


def is_pipe_closed(descriptor: int) -> bool:
    """Return whether the other end of an output pipe is closed. On Windows, only the next write finds out."""
    if os.name == "nt" or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return False
    # The writing end of a pipe becomes readable when its last reader has closed it.
    return bool(select.select([descriptor], [], [], 0)[0])
