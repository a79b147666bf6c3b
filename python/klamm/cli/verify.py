"""`klamm verify`: reads topics from start to end, verifies checksums and offset order, and counts missing offsets."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import client_config, closing, side_config
from klamm.cli.options import add_common, duration
from klamm.cli.values import add_partitions, as_json, expand
from klamm.errors import KafkaError

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

POLL_SECONDS = 0.25


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "verify",
        help="read topics from start to end, and check their batches",
        description="Read partitions from start to end. Check that every batch has a valid checksum and can be decompressed, that "
        "offsets increase, and that the end offset is reached. Missing offsets are normal in compacted topics and in topics with "
        "transactions. The exit code is 1 if a partition is damaged.",
    )
    add_partitions(parser, "partitions to read")
    parser.add_argument(
        "--idle",
        metavar="DURATION",
        type=duration,
        default=30_000,
        help="stop reading a partition when no record arrives for this time (default: 30s)",
    )
    add_common(parser, run, "print one JSON object, with ok and the partitions")


@dataclass
class Checked:
    """The results for a partition."""

    topic: str
    partition: int
    begin: int
    end: int
    records: int = 0
    bytes: int = 0
    missing_offsets: int = 0
    """Number of offsets without a record, between the first and the last record."""
    out_of_order: int = 0
    """Number of records with a lower timestamp than the previous record."""
    error: str | None = None


def run(args: argparse.Namespace, output: Output) -> int:
    """Check partitions."""
    config = client_config(args, "consumer", check_crcs="true", allow_auto_create_topics="false")
    with klamm.Admin(side_config(args)) as admin:
        partitions = sorted(expand(admin, args.topics))
    with closing(klamm.Consumer(config)) as consumer:
        begins, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    found = []
    with output.progress("verify", sum(ends[tp] - begins[tp] for tp in partitions)) as advance:
        for tp in partitions:
            checked = Checked(tp.topic, tp.partition, begins[tp], ends[tp])
            # A consumer cannot continue after a damaged batch, so each partition gets a new consumer.
            with closing(klamm.Consumer(config)) as consumer:
                try:
                    check(consumer, tp, checked, args.idle)
                except KafkaError as error:
                    checked.error = error.message
            advance(ends[tp] - begins[tp], checked.records)
            found.append(checked)
    ok = all(each.error is None for each in found)
    columns = ("topic", "partition", "begin", "end", "records", "bytes", "missing", "out of order", "error")
    rows = [(each.topic, str(each.partition), *list(vars(each).values())[2:]) for each in found]
    output.result_or_table({"ok": ok, "partitions": as_json(found)}, columns, rows)
    return 0 if ok else 1


def check(consumer: klamm.Consumer, tp: klamm.TopicPartition, checked: Checked, idle: int) -> None:
    """Read a partition, and store the counts and the first error in `checked`."""
    if checked.begin >= checked.end:
        return
    consumer.assign([klamm.TopicPartition(tp.topic, tp.partition, checked.begin, checked.end)])
    previous = last_time = None
    progress = time.monotonic()
    while (position := consumer.position(tp)) < checked.end:
        batch = consumer.poll(POLL_SECONDS)
        for record in batch:
            if previous is not None:
                if record.offset <= previous:
                    checked.error = f"offset {record.offset} follows offset {previous}"
                    return
                checked.missing_offsets += record.offset - previous - 1
            if last_time is not None and record.timestamp_ms < last_time:
                checked.out_of_order += 1
            previous, last_time = record.offset, record.timestamp_ms
            checked.records += 1
            checked.bytes += len(record.key or b"") + len(record.value or b"")
            # Reading the headers decodes the rest of the record.
            checked.bytes += sum(len(value or b"") for _, value in record.headers)
        if batch or consumer.position(tp) > position:
            progress = time.monotonic()
        elif (time.monotonic() - progress) * 1000 > idle:
            checked.error = f"nothing after offset {position} arrived for {idle:,} ms"
            return
