"""`klamm consume`: print the records of a topic, from a place to a place or for ever.

Partitions are assigned by hand: no group, nothing committed. Output is flushed whenever the broker has no more records
at once, and a reader that went away ends the command even while the topic is silent.
"""

from __future__ import annotations

import select
import sys
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import client_config, closing
from klamm.cli.options import add_connection, add_json, natural, positive
from klamm.cli.output import CommandError
from klamm.cli.positions import Bounds, Kind, Position, parse_position
from klamm.cli.record_format import parse_format, render_json, render_value

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output
    from klamm.cli.record_format import Render

POLL_SECONDS = 0.25
"""Longest wait for records before looking whether anybody still reads the output."""

POLL_RECORDS = 10_000
"""Records written in one go; more no longer makes it faster."""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "consume",
        help="print the records of a topic",
        description="Print the records of a topic: by default each value and a newline, and on for ever.",
        epilog="POSITION, for each partition: earliest, latest (or end), OFFSET, -N (the last N records), "
        "@TIME (ISO 8601, or milliseconds since 1970).",
    )
    parser.add_argument("topic", metavar="TOPIC")
    add_connection(parser)
    parser.add_argument(
        "--from",
        dest="start",
        metavar="POSITION",
        type=parse_position,
        default=Position(Kind.EARLIEST),
        help="first record to print (default: earliest)",
    )
    parser.add_argument(
        "--to", dest="stop", metavar="POSITION", type=parse_position, help="first record not to print; end there"
    )
    parser.add_argument(
        "-e", "--exit", action="store_true", help="stop at what is the end of the topic now (as --to end)"
    )
    parser.add_argument(
        "--partition", metavar="N", type=natural, action="append", help="only this partition; may be repeated"
    )
    parser.add_argument("--max", metavar="N", type=positive, help="stop after N records")
    written = parser.add_mutually_exclusive_group()
    written.add_argument(
        "--format",
        dest="render",
        metavar="TEXT",
        type=parse_format,
        help=r"what to print: %%k key, %%v value, %%t topic, %%p partition, %%o offset, %%T timestamp, %%h headers, "
        r"%%%% a percent sign; \n \t \r \0 \\ \xHH",
    )
    add_json(written, "print one object a record")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, _: Output) -> int:
    """Print records until the end, the wanted number, or Ctrl+C."""
    render: Render = render_json if args.json else args.render or render_value
    stop = args.stop or (Position(Kind.LATEST) if args.exit else None)
    # A name typed wrong must not become a topic.
    config = client_config(args, auto_offset_reset="earliest", allow_auto_create_topics="false")
    with closing(klamm.Consumer(config)) as consumer:
        assigned = assignment(consumer, args.topic, args.partition, args.start, stop)
        if assigned:
            consumer.assign(assigned)
            print_records(consumer, assigned, render, args.max)
    return 0


def assignment(
    consumer: klamm.Consumer, topic: str, wanted: list[int] | None, start: Position, stop: Position | None
) -> list[klamm.TopicPartition]:
    """Choose partitions and offsets; a partition that has nothing between `start` and `stop` is left out."""
    known = consumer.partitions_for(topic)
    for number in wanted or ():
        if number not in known:
            raise CommandError(
                f"topic {topic!r} has no partition {number}", f"it has {', '.join(map(str, sorted(known)))}"
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
    """Write records to standard output until all partitions reached their end, or `limit` are written."""
    out = sys.stdout.buffer
    unfinished = [partition for partition in assigned if partition.end_offset is not None]
    bounded = bool(unfinished)
    left = limit
    while True:
        count = POLL_RECORDS if left is None else min(left, POLL_RECORDS)
        records = consumer.poll(timeout=POLL_SECONDS, max_records=count)
        out.write(b"".join(map(render, records)))
        out.flush()
        if left is not None:
            left -= len(records)
            if left == 0:
                return
        if bounded:
            unfinished = [each for each in unfinished if consumer.position(each) < (each.end_offset or 0)]
            if not unfinished:
                return
        if not records and reader_is_gone(out.fileno()):
            raise BrokenPipeError


def reader_is_gone(descriptor: int) -> bool:
    """Say whether nobody reads our output any more."""
    watch = select.poll()
    watch.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))
