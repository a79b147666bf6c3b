"""The action `reset-offsets` of `klamm groups`, `share-groups` and `streams-groups`: computes, shows and sets offsets."""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_repeated, duration, natural, topic_partitions
from klamm.cli.output import CommandError, UsageError, counted
from klamm.cli.positions import Bounds, Kind, Position, parse_time, resolve
from klamm.cli.values import expand
from klamm.errors import GroupIdNotFoundError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

CURRENT = "current"
Offsets = dict[klamm.TopicPartition, int]


def add_reset(parts: Commands, kind: str) -> None:
    """Declare the action. `kind` is the type of the command's groups, such as "share"."""
    part = parts.add_parser(
        "reset-offsets",
        help="set the offsets of a group",
        description="Set the committed offsets of a group: for the partitions of --topic, or for all partitions that have a "
        "committed offset. The group must have no members. Without --execute, only print the new offsets.",
    )
    part.add_argument("group", metavar="GROUP", help="group to reset")
    to = part.add_mutually_exclusive_group(required=True)
    for option, where, text in (
        ("--to-earliest", Kind.EARLIEST, "set the first offset, to read all records"),
        ("--to-latest", Kind.LATEST, "set the end offset, to read only new records"),
    ):
        to.add_argument(option, dest="to", action="store_const", const=Position(where), help=text)
    to.add_argument(
        "--to-offset", dest="to", metavar="N", type=to_offset, help="set this offset, or the nearest existing offset"
    )
    to.add_argument(
        "--to-datetime",
        dest="to",
        metavar="TIME",
        type=to_time,
        help="set the offset of the first record at or after this time, in ISO 8601 or milliseconds since 1970",
    )
    to.add_argument(
        "--by-duration",
        dest="to",
        metavar="DURATION",
        type=ago,
        help="set the offset of the first record at or after the time DURATION ago, such as 90m, 7d or PT1H30M",
    )
    if kind != "share":
        to.add_argument(
            "--shift-by",
            dest="shift",
            metavar="N",
            type=int,
            help="move the committed offset by N records, backwards if N is negative (--shift-by=-5)",
        )
        to.add_argument(
            "--to-current",
            dest="to",
            action="store_const",
            const=CURRENT,
            help="keep the committed offset, or set the nearest existing offset",
        )
    to.add_argument(
        "--from-file",
        metavar="FILE",
        type=Path,
        help="set the offsets from a CSV file, with lines topic,partition,offset or group,topic,partition,offset",
    )
    add_repeated(
        part,
        "--topic",
        "topics",
        "TOPIC[:N,N]",
        "reset only this topic, or only these partitions of the topic",
        parse=topic_partitions,
    )
    mode = part.add_mutually_exclusive_group()
    mode.add_argument(
        "--execute", action="store_true", help="set the new offsets (default: only print the new offsets)"
    )
    mode.add_argument("--dry-run", action="store_true", help="only print the new offsets (the default)")
    mode.add_argument("--export", action="store_true", help="only print the new offsets, as CSV that --from-file reads")
    part.set_defaults(kind=kind, to=None, shift=None)
    add_common(part, reset, "print one JSON object, with group, executed and partitions")


def to_offset(text: str) -> Position:
    """Parse an offset."""
    return Position(Kind.OFFSET, natural(text))


def to_time(text: str) -> Position:
    """Parse a time."""
    return Position(Kind.TIME, parse_time(text))


def ago(text: str) -> Position:
    """Parse a duration that counts back from now."""
    return Position(Kind.TIME, max(round(time.time() * 1000) - duration(text), 0))


def reset(args: argparse.Namespace, output: Output) -> int:
    """Compute and print new offsets of a group. With `--execute`, also set the new offsets."""
    config = admin_config(args)
    with klamm.Admin(config) as admin:
        if not args.export:
            check_empty(admin, args.group)
        current = current_offsets(admin, args.group, args.kind)
        offsets_from_file = read_csv(args.from_file, args.group) if args.from_file else None
        chosen = (
            expand(admin, args.topics)
            if args.topics
            else list(current if offsets_from_file is None else offsets_from_file)
        )
        if offsets_from_file is not None:
            chosen = [tp for tp in chosen if tp in offsets_from_file]
        if not chosen:
            raise CommandError(f"group {args.group!r} has no committed offsets", hint="name topics with --topic")
        with klamm.Consumer(config) as consumer:
            bounds = Bounds.ask(consumer, chosen)
            if offsets_from_file is not None:
                new = limited(bounds, offsets_from_file)
            elif args.to == CURRENT:
                new = shifted(bounds, current, 0)
            elif args.to is None:
                new = shifted(bounds, current, args.shift)
            else:
                new = bounds.locate(consumer, args.to)
        if args.execute:
            set_offsets = admin.alter_share_group_offsets if args.kind == "share" else admin.alter_group_offsets
            set_offsets(args.group, new)
    show(args, output, current, new)
    return 0


def show(args: argparse.Namespace, output: Output, current: Offsets, new: Offsets) -> None:
    """Print the current and the new offset of each partition."""
    parts = [
        {"topic": tp.topic, "partition": tp.partition, "current_offset": current.get(tp), "new_offset": offset}
        for tp, offset in sorted(new.items())
    ]
    if args.json:
        output.result({"group": args.group, "executed": args.execute, "partitions": parts})
        return
    if args.export:
        csv.writer(sys.stdout, lineterminator="\n").writerows(
            (tp.topic, tp.partition, offset) for tp, offset in sorted(new.items())
        )
        return
    rows = [(part["topic"], str(part["partition"]), part["current_offset"], part["new_offset"]) for part in parts]
    output.table(("topic", "partition", "current", "new"), rows)
    if args.execute:
        output.say(f"reset {counted(len(parts), 'partition')} of group {args.group}")
    else:
        output.say("nothing was changed; use --execute to set the new offsets")


def current_offsets(admin: klamm.Admin, group: str, kind: str) -> Offsets:
    """Return the committed offsets of a group, or the start offsets of a share group."""
    if kind != "share":
        return admin.group_offsets(group)
    return {tp: each.offset for tp, each in admin.share_group_offsets([group])[group].items()}


def read_csv(path: Path, group: str) -> Offsets:
    """Return the offsets that a CSV file contains for a group."""
    found: Offsets = {}
    with path.open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if len(cells) == 4 and cells[0] != group:  # noqa: PLR2004 - a line with a group name
                continue
            try:
                topic, partition, offset = cells[-3:]
                found[klamm.TopicPartition(topic, int(partition))] = int(offset)
            except ValueError:
                raise UsageError(
                    f"{path}:{number}: {','.join(row)!r} is not topic,partition,offset or group,topic,partition,offset"
                ) from None
    if not found:
        raise UsageError(f"{path} has no offsets of group {group!r}")
    return found


def check_empty(admin: klamm.Admin, group: str) -> None:
    """Raise if the group has members.

    Active members would continue from their positions and overwrite the new offsets.
    """
    try:
        description = admin.describe_groups([group])[group]
    except GroupIdNotFoundError:
        return
    if description.state not in {"Empty", "Dead"}:
        raise CommandError(
            f"cannot reset offsets: group {group!r} is in use, in state {description.state} with "
            f"{counted(len(description.members), 'member')}",
            hint="stop its members first; `klamm groups describe` shows their hosts",
        )


def limited(bounds: Bounds, offsets: Mapping[klamm.TopicPartition, int]) -> Offsets:
    """Return the offsets. An offset outside the range of existing offsets becomes the nearest existing offset."""
    return {
        tp: resolve(Position(Kind.OFFSET, offsets[tp]), begin, bounds.end[tp]) for tp, begin in bounds.begin.items()
    }


def shifted(bounds: Bounds, current: Mapping[klamm.TopicPartition, int], shift: int) -> Offsets:
    """Return the committed offsets plus `shift`, limited to the range of existing offsets."""
    for tp in bounds.begin:
        if tp not in current:
            message = (
                f"cannot shift the offset of {tp.topic}-{tp.partition}: the group has no committed offset for this "
                "partition"
            )
            raise CommandError(
                message, hint="use --to-earliest, --to-latest or --to-offset, which need no committed offsets"
            )
    return limited(bounds, {tp: current[tp] + shift for tp in bounds.begin})
