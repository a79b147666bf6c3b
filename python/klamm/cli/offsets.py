"""`klamm offsets`: looks up offsets of partitions, as kafka-get-offsets does. `klamm records`: deletes the oldest records."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import klamm
from klamm.admin import OffsetSpec
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, natural
from klamm.cli.output import UsageError
from klamm.cli.positions import parse_time
from klamm.cli.values import add_partitions, all_partitions, as_json, expand, moment, one_partition

if TYPE_CHECKING:
    from klamm.cli.options import Commands
    from klamm.cli.output import Output

SPECS = {
    "latest": OffsetSpec.LATEST,
    "earliest": OffsetSpec.EARLIEST,
    "max-timestamp": OffsetSpec.MAX_TIMESTAMP,
    "earliest-local": OffsetSpec.EARLIEST_LOCAL,
    "latest-tiered": OffsetSpec.LATEST_TIERED,
    "earliest-pending-upload": OffsetSpec.EARLIEST_PENDING_UPLOAD,
}


def add(commands: Commands) -> None:
    """Declare the two commands."""
    parser = commands.add_parser(
        "offsets",
        help="look up offsets of partitions",
        description="Look up offsets of partitions, by position or by time.",
    )
    add_partitions(parser, "partitions to look up (default: all)", nargs="*")
    parser.add_argument(
        "--at",
        metavar="WHAT",
        type=spec,
        default=OffsetSpec.LATEST,
        help=f"look up this offset: {', '.join(SPECS)}, or @TIME for the first record at or after a time (default: latest)",
    )
    parser.add_argument(
        "--committed",
        action="store_true",
        help="with --at latest, print the last stable offset, which is the end for read_committed consumers",
    )
    parser.add_argument("--internal", action="store_true", help="include Kafka's internal topics")
    add_common(parser, look_up, "print one JSON object, with the partitions and their offsets")

    parser = commands.add_parser(
        "records", help="delete records", description="Delete the oldest records of partitions."
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    part = parts.add_parser(
        "delete",
        help="delete the oldest records of partitions",
        description="Delete all records before an offset, or all records of partitions.",
    )
    part.add_argument(
        "before",
        metavar="TOPIC:N=OFFSET",
        nargs="*",
        type=before,
        default=[],
        help="delete records of this partition before this offset; `end` deletes all records",
    )
    part.add_argument(
        "--from-file",
        metavar="FILE",
        type=Path,
        help="read partitions and offsets from a JSON file in the format of kafka-delete-records",
    )
    add_confirmation(part)
    add_common(part, delete, "print one JSON object, with the partitions and their first offsets")


def spec(text: str) -> OffsetSpec | int:
    """Parse the offset or time to look up."""
    if text.startswith("@"):
        return parse_time(text[1:])
    if text not in SPECS:
        raise argparse.ArgumentTypeError(f"{text!r} must be one of: {', '.join(SPECS)}, @TIME")
    return SPECS[text]


def before(text: str) -> tuple[klamm.TopicPartition, int | None]:
    """Parse `topic:0=100` into a partition and an offset. The offset is None for `end`."""
    name, sign, offset = text.rpartition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r} must have the form TOPIC:N=OFFSET")
    return one_partition(name), None if offset == "end" else natural(offset)


def look_up(args: argparse.Namespace, output: Output) -> int:
    """Print offsets."""
    with klamm.Admin(admin_config(args)) as admin:
        partitions = expand(admin, args.topics) or all_partitions(admin, internal=args.internal)
        level = "read_committed" if args.committed else "read_uncommitted"
        offsets = admin.list_offsets(dict.fromkeys(partitions, args.at), isolation_level=level) if partitions else {}
    listed = [{**as_json(tp), **as_json(each)} for tp, each in sorted(offsets.items())]
    rows = [
        (tp.topic, str(tp.partition), each.offset, moment(each.timestamp_ms), each.leader_epoch)
        for tp, each in sorted(offsets.items())
    ]
    return output.result_or_table(
        {"partitions": listed}, ("topic", "partition", "offset", "time", "leader epoch"), rows
    )


def read_plan(path: Path) -> dict[klamm.TopicPartition, int | None]:
    """Read partitions and offsets from a JSON file in the format of kafka-delete-records.

    None stands for the end of a partition.
    """
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        return {
            klamm.TopicPartition(each["topic"], int(each["partition"])): None
            if int(each["offset"]) == -1
            else int(each["offset"])
            for each in plan["partitions"]
        }
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{path} does not list offsets",
            'the file needs the form {"partitions": [{"topic": "t", "partition": 0, "offset": 10}]}',
        ) from None


def delete(args: argparse.Namespace, output: Output) -> int:
    """Delete records."""
    before_by_partition = {**(read_plan(args.from_file) if args.from_file else {}), **dict(args.before)}
    if not before_by_partition:
        raise UsageError("there is nothing to delete", "name partitions as TOPIC:N=OFFSET, or pass --from-file")
    lines = [
        f"delete {'all records' if offset is None else f'the records before offset {offset}'} of {tp.topic}-{tp.partition}"
        for tp, offset in before_by_partition.items()
    ]
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(args, lines):
            return 0
        results = admin.delete_records(before_by_partition)
    listed = [{**as_json(tp), "first_offset": offset} for tp, offset in sorted(results.items())]
    rows = [(tp.topic, str(tp.partition), offset) for tp, offset in sorted(results.items())]
    return output.result_or_table({"partitions": listed}, ("topic", "partition", "first offset"), rows)
