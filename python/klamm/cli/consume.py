"""`klamm consume`: prints the records of topics.

With `--group` or `--share`, the command is a member of a group, and commits or accepts the printed records. Without
`--group` and `--share`, the command assigns partitions itself and commits nothing. The command flushes the output after
each poll, and ends when the program that reads the output ends, even if no record arrives.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import time
from difflib import get_close_matches
from itertools import takewhile
from typing import TYPE_CHECKING, BinaryIO

import klamm
from klamm.cli.clients import client_config, closing, side_config
from klamm.cli.options import add_connection, add_json, duration, expression, natural, positive
from klamm.cli.output import CommandError, UsageError, print_error
from klamm.cli.positions import Bounds, Kind, Position, parse_position
from klamm.cli.record_format import parse_format, render_json, render_value
from klamm.cli.terminal import unescaped
from klamm.cli.typed_values import add_reading, is_bad_record, reading
from klamm.errors import DeserializationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Collection, Mapping

    from klamm.cli.options import Commands
    from klamm.cli.output import Output
    from klamm.cli.record_format import Render

POLL_SECONDS = 0.25
"""Longest wait for records before the command checks whether another program still reads the output."""

POLL_RECORDS = 10_000
"""Maximum number of records in one write. Larger writes are not faster."""

RESETS = {Kind.EARLIEST: "earliest", Kind.LATEST: "latest"}
"""Value of `auto.offset.reset` for each value of `--from` that a group supports."""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "consume",
        help="print the records of topics",
        description="Print the records of topics. By default, print each value on a line of its own, and wait for new "
        "records forever.",
        epilog="POSITION applies to each partition, and is one of: earliest, latest (or end), OFFSET, -N (the last N "
        "records), or @TIME (the first record at or after a time). TIME is ISO 8601, milliseconds since 1970, or a duration "
        "before now, such as -15m.",
    )
    parser.add_argument("topics", metavar="TOPIC", nargs="*", default=[], help="topics to read")
    parser.add_argument(
        "--matching",
        metavar="REGEX",
        type=expression,
        help="read all topics whose whole name matches this regular expression",
    )
    add_connection(parser)
    parser.add_argument(
        "--from",
        dest="start",
        metavar="POSITION",
        type=parse_position,
        default=Position(Kind.EARLIEST),
        help="start at this position (default: earliest); with --group, the position must be earliest or latest, and "
        "applies to partitions without a committed offset",
    )
    parser.add_argument(
        "--to",
        dest="stop",
        metavar="POSITION",
        type=parse_position,
        help="stop before this position (default: never stop)",
    )
    parser.add_argument(
        "-e", "--exit", action="store_true", help="stop at the current end of the topics, as with --to end"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--group",
        metavar="NAME",
        help="read as a member of this consumer group: start at the group's committed offsets, and commit the printed "
        "records; the next member may print the last records again if a signal ends this command",
    )
    group.add_argument(
        "--share",
        metavar="NAME",
        help="read as a member of this share group (Kafka 4.1), and acknowledge the printed records",
    )
    parser.add_argument(
        "--partition", metavar="N", type=natural, action="append", help="read only this partition; may be repeated"
    )
    parser.add_argument("-c", "--max", metavar="N", type=positive, help="stop after N records")
    parser.add_argument(
        "--idle", metavar="DURATION", type=duration, help="stop when no record arrives for this time, such as 5s"
    )
    output_form = parser.add_mutually_exclusive_group()
    output_form.add_argument(
        "-f",
        "--format",
        dest="render",
        metavar="TEXT",
        type=parse_format,
        help=r"print each record in this format: %%k key, %%v or %%s value, %%t topic, %%p partition, %%o offset, "
        r"%%T timestamp, %%h headers, %%K and %%S sizes of key and value (-1 for null), %%R size of the value as 4 bytes, "
        r"%%%% a percent sign, and the escapes \n \t \r \0 \\ \xHH",
    )
    add_json(output_form, "print each record as one JSON object on a line")
    parser.add_argument(
        "--raw",
        action="store_true",
        help="print control characters in records to a terminal as they are; a file or a pipe always gets them",
    )
    add_reading(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, _: Output) -> int:
    """Print records until the end position, the maximum number, or Ctrl+C."""
    if bool(args.topics) == (args.matching is not None):
        raise UsageError("consume needs either topics or --matching", "name topics, or pass --matching 'logs-.*'")
    render: Render = reading(args, render_json if args.json else args.render or render_value)
    stop = args.stop or (Position(Kind.LATEST) if args.exit else None)
    refuse_group_settings(args)
    if args.share is not None:
        return run_share(args, render)
    # A misspelled name must not create a topic.
    reset = "earliest" if args.group is None else group_reset(args)
    config = client_config(args, "consumer", auto_offset_reset=reset, allow_auto_create_topics="false")
    if args.group is not None:
        config["group.id"] = args.group
    with closing(klamm.Consumer(config)) as consumer:
        topics = existing_topics(args)
        if args.group is not None:
            shown = ShownRebalances()
            if args.matching is None:
                consumer.subscribe(topics, on_rebalance=shown)
            else:
                consumer.subscribe(pattern=args.matching.pattern, on_rebalance=shown)
            auto_commit = config.get("enable.auto.commit", config.get("enable_auto_commit", "true"))
            commit = None if auto_commit.lower() == "false" else consumer.commit
            print_records(consumer.poll, render, args, commit=commit)
            return 0
        assigned = assignment(consumer, topics, args.partition, args.start, stop)
        if assigned:
            consumer.assign(assigned)
            print_records(consumer.poll, render, args, Ends(consumer, assigned).reached)
    return 0


def run_share(args: argparse.Namespace, render: Render) -> int:
    """Print records of a share group."""
    refuse_with("--share", [*not_for_groups(args), ("--matching", args.matching)])
    if args.start != Position(Kind.EARLIEST):
        raise UsageError(
            "--share and --from exclude each other: the group decides where its members start",
            "leave out --from, and use `klamm share-groups reset-offsets`",
        )
    config = client_config(args, "share consumer")
    config["group.id"] = args.share
    with closing(klamm.ShareConsumer(config)) as consumer:
        consumer.subscribe(existing_topics(args))
        print_records(consumer.poll, render, args)
        consumer.commit()
    return 0


def refuse_group_settings(args: argparse.Namespace) -> None:
    """Raise if `-X` sets the group and the command line has neither `--group` nor `--share`."""
    if args.group is None and args.share is None and {"group.id", "group_id"} & dict(args.config).keys():
        raise UsageError(
            "a group that -X sets has no effect: without --group, the command starts at --from and not at committed "
            "offsets",
            "use --group NAME to read as a member of a group",
        )


def existing_topics(args: argparse.Namespace) -> list[str]:
    """Return the topics to read; raise if a topic does not exist.

    This check fails at once, whereas a consumer would wait for its timeout.
    """
    with klamm.Admin(side_config(args)) as admin:
        names = admin.list_topics(internal=True)
    if args.matching is not None:
        matching_names = [name for name in names if args.matching.fullmatch(name)]
        if not matching_names and args.group is None:
            raise CommandError(f"no topic matches {args.matching.pattern!r}", "see `klamm topics list`")
        return matching_names
    for topic in args.topics:
        if topic not in names:
            close = get_close_matches(topic, names, 1)
            raise CommandError(
                f"topic {topic!r} does not exist", f"did you mean {close[0]}?" if close else "see `klamm topics list`"
            )
    return list(dict.fromkeys(args.topics))


def not_for_groups(args: argparse.Namespace) -> list[tuple[str, object]]:
    """Return the options that cannot be combined with a group, with their values."""
    return [("--partition", args.partition), ("--to", args.stop), ("--exit", args.exit)]


def refuse_with(option: str, others: list[tuple[str, object]]) -> None:
    """Raise if the command line has one of the options `others`, which cannot be combined with `option`."""
    set_options = [name for name, value in others if value not in (None, False)]
    if set_options:
        raise UsageError(
            f"{option} and {set_options[0]} exclude each other: a member reads the partitions that its group assigns, "
            "without an end",
            "leave one of these options out, or use --max or --idle to stop",
        )


def group_reset(args: argparse.Namespace) -> str:
    """Return the value of `auto.offset.reset` for a group: "earliest" or "latest".

    Raise an error if the command line has an option that cannot be combined with a group.
    """
    refuse_with("--group", not_for_groups(args))
    if args.start.kind not in RESETS:
        raise UsageError(
            "with --group, --from must be earliest or latest: a group reads from its committed offsets",
            "to move a group to another position, use `klamm groups reset-offsets`",
        )
    return RESETS[args.start.kind]


class ShownRebalances(klamm.RebalanceListener):
    """Prints to standard error which partitions the group assigns to this member, and which the group revokes."""

    def assigned(self, partitions: set[klamm.TopicPartition]) -> None:
        """Show partitions that this member now reads."""
        show_partitions("assigned", partitions)

    def revoked(self, partitions: set[klamm.TopicPartition]) -> None:
        """Show partitions that this member must give up."""
        show_partitions("revoked", partitions)

    def lost(self, partitions: set[klamm.TopicPartition]) -> None:
        """Show partitions that this member has lost, and that another member may already read."""
        show_partitions("lost", partitions)


def show_partitions(participle: str, partitions: Collection[klamm.TopicPartition]) -> None:
    """Print what happened (`participle`, such as "revoked") and the names of the partitions, on standard error."""
    names = ", ".join(f"{each.topic}-{each.partition}" for each in sorted(partitions)) or "no partitions"
    print(f"klamm: {participle}: {names}", file=sys.stderr, flush=True)


def assignment(
    consumer: klamm.Consumer, topics: list[str], wanted: list[int] | None, start: Position, stop: Position | None
) -> list[klamm.TopicPartition]:
    """Return the partitions to read, with their start and end offsets.

    Partitions that have no record between `start` and `stop` are left out.
    """
    partitions = []
    for topic in topics:
        known = consumer.partitions_for(topic)
        for number in wanted or ():
            if number not in known:
                raise CommandError(
                    f"topic {topic!r} has no partition {number}",
                    f"use one of its partitions: {', '.join(map(str, sorted(known)))}",
                )
        partitions += [klamm.TopicPartition(topic, number) for number in sorted(set(wanted or known))]
    bounds = Bounds.ask(consumer, partitions)
    first = bounds.locate(consumer, start)
    if stop is None:
        return [klamm.TopicPartition(each.topic, each.partition, first[each]) for each in partitions]
    last = bounds.locate(consumer, stop)
    return [
        klamm.TopicPartition(each.topic, each.partition, first[each], last[each])
        for each in partitions
        if first[each] < last[each]
    ]


class Ends:
    """Detects when all assigned partitions have reached their ends."""

    def __init__(self, consumer: klamm.Consumer, assigned: list[klamm.TopicPartition]) -> None:
        self._consumer = consumer
        self._unfinished = [each for each in assigned if each.end_offset is not None]
        self._bounded = bool(self._unfinished)

    def reached(self) -> bool:
        """Return whether the consumer has read all partitions to their end offsets. Return False without end offsets."""
        self._unfinished = [each for each in self._unfinished if self._consumer.position(each) < (each.end_offset or 0)]
        return self._bounded and not self._unfinished


def print_records(
    poll: Callable[[float, int], klamm.Records],
    render: Render,
    args: argparse.Namespace,
    at_end: Callable[[], bool] = lambda: False,
    commit: Callable[[Mapping[klamm.TopicPartition, int]], None] | None = None,
) -> None:
    """Write records to standard output.

    Return when `at_end` returns True, after `--max` records, or when no record arrives for the time of `--idle`. If a
    record cannot be decoded, call `commit` with the offsets after the records that were written.
    """
    out = (unescaped(sys.stdout) if args.raw else sys.stdout).buffer
    remaining = args.max
    last = time.monotonic()
    while True:
        count = POLL_RECORDS if remaining is None else min(remaining, POLL_RECORDS)
        records = poll(POLL_SECONDS, count)
        try:
            write(records, render, out, skip_errors=args.skip_errors)
        except DeserializationError as error:
            if commit is not None:
                commit(offsets_before(error.record, records))
            raise
        if remaining is not None:
            remaining -= len(records)
            if remaining == 0:
                return
        if at_end():
            return
        if records:
            last = time.monotonic()
        elif args.idle is not None and (time.monotonic() - last) * 1000 >= args.idle:
            return
        if not records and is_pipe_closed(out.fileno()):
            raise BrokenPipeError


def offsets_before(record: klamm.Record, records: klamm.Records) -> dict[klamm.TopicPartition, int]:
    """Return the offsets after the records that come before a record in the result of a poll."""
    bad = record.topic, record.partition, record.offset
    before = takewhile(lambda each: (each.topic, each.partition, each.offset) != bad, records)
    return {klamm.TopicPartition(each.topic, each.partition): each.offset + 1 for each in before}


def write(records: klamm.Records, render: Render, out: BinaryIO, *, skip_errors: bool) -> None:
    """Write records. The records before an error are always written.

    Raises:
        DeserializationError: A record cannot be decoded. With `skip_errors`, print the error instead, and continue.
    """
    rendered: list[bytes] = []

    def flush() -> None:
        out.write(b"".join(rendered))
        out.flush()
        rendered.clear()

    try:
        for record in records:
            try:
                rendered.append(render(record))
            except DeserializationError as error:
                if not (skip_errors and is_bad_record(error)):
                    raise
                flush()
                print_error(error)
    finally:
        flush()


def is_pipe_closed(descriptor: int) -> bool:
    """Return whether the other end of a pipe is closed. On Windows, only the next write detects a closed pipe."""
    if os.name == "nt" or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        return False
    # The writing end of a pipe becomes readable when the last reader has closed the pipe.
    return bool(select.select([descriptor], [], [], 0)[0])
