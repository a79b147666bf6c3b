"""`klamm groups`: lists and describes groups, resets their offsets, and deletes groups. `klamm.Admin` does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, natural, topic_partitions
from klamm.cli.output import CommandError
from klamm.cli.positions import Bounds, Kind, Position, parse_time
from klamm.errors import GroupIdNotFoundError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "groups",
        help="list, describe, reset and delete groups",
        description="List and describe groups, reset their offsets, and delete groups.",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser("list", help="print all groups", description="Print all groups with their type and state.")
    part.add_argument(
        "--state",
        dest="states",
        metavar="STATE",
        action="append",
        default=[],
        help="print only groups in this state, such as Stable or Empty; may be repeated",
    )
    part.add_argument(
        "--type",
        dest="types",
        metavar="TYPE",
        action="append",
        default=[],
        help="print only groups of this type: classic, consumer or share; may be repeated",
    )
    add_common(part, list_groups, "print one JSON object, with the groups")

    part = parts.add_parser(
        "describe",
        help="print members, offsets and lag",
        description="Print the committed offset, the end offset and the lag of each partition, and the member that reads it.",
    )
    part.add_argument(
        "groups", metavar="GROUP", nargs="*", help="groups to describe (default: all consumer and share groups)"
    )
    add_common(part, describe, "print one JSON object, with the groups, their members and partitions")

    part = parts.add_parser(
        "reset-offsets",
        help="set the offsets of a group",
        description="Set the committed offsets of a group, for all partitions with a committed offset or for the topics "
        "of --topic. The group must have no members. Without --execute, only print the new offsets.",
    )
    part.add_argument("group", metavar="GROUP", help="group to reset")
    to = part.add_mutually_exclusive_group(required=True)
    to.add_argument(
        "--to-earliest",
        dest="to",
        action="store_const",
        const=Position(Kind.EARLIEST),
        help="set the first offset, to read all records",
    )
    to.add_argument(
        "--to-latest",
        dest="to",
        action="store_const",
        const=Position(Kind.LATEST),
        help="set the end offset, to read only new records",
    )
    to.add_argument(
        "--to-offset", dest="to", metavar="N", type=to_offset, help="set this offset, or the nearest existing one"
    )
    to.add_argument(
        "--to-datetime",
        dest="to",
        metavar="TIME",
        type=to_time,
        help="set the offset of the first record at or after this time, in ISO 8601 or milliseconds since 1970",
    )
    to.add_argument(
        "--shift-by",
        dest="shift",
        metavar="N",
        type=int,
        help="move the committed offset by N records, backwards if N is negative (--shift-by=-5)",
    )
    part.add_argument(
        "--topic",
        dest="topics",
        metavar="TOPIC[:N,N]",
        type=topic_partitions,
        action="append",
        default=[],
        help="reset only this topic, or only these partitions of it; may be repeated",
    )
    part.add_argument("--execute", action="store_true", help="set the offsets, instead of only printing them")
    add_common(part, reset, "print one JSON object, with group, executed and partitions")

    part = parts.add_parser(
        "delete", help="delete groups", description="Delete groups without members, and their committed offsets."
    )
    part.add_argument("groups", metavar="GROUP", nargs="+", help="groups to delete")
    add_confirmation(part)
    add_common(part, delete, "print one JSON object, with the deleted groups")


def to_offset(text: str) -> Position:
    """Parse an offset."""
    return Position(Kind.OFFSET, natural(text))


def to_time(text: str) -> Position:
    """Parse a time."""
    return Position(Kind.TIME, parse_time(text))


def list_groups(args: argparse.Namespace, output: Output) -> int:
    """Print all groups."""
    with klamm.Admin(admin_config(args)) as admin:
        found = admin.list_groups(states=args.states, types=args.types)
    if args.json:
        fields = [
            {"group": each.group, "type": each.type, "protocol_type": each.protocol_type, "state": each.state}
            for each in found
        ]
        output.result({"groups": fields})
    else:
        rows = [(each.group, each.type or None, each.protocol_type or None, each.state or None) for each in found]
        output.table(("group", "type", "protocol", "state"), rows)
    return 0


def delete(args: argparse.Namespace, output: Output) -> int:
    """Delete groups."""
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(args, [f"delete group {group} and its committed offsets" for group in args.groups]):
            return 0
        return output.done("deleted", args.groups, lambda group: admin.delete_groups([group]))


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print the partitions of groups with their offsets, lag and members."""
    config = admin_config(args)
    with klamm.Admin(config) as admin:
        protocols = {"consumer", "share", ""}
        names = args.groups or [each.group for each in admin.list_groups() if each.protocol_type in protocols]
        groups = admin.describe_groups(names)
        offsets = {name: admin.group_offsets(name) for name in names}
        assigned = [tp for group in groups.values() for member in group.members for tp in member.assigned]
        available = with_leader(admin, {*assigned, *(tp for of_group in offsets.values() for tp in of_group)})
    with klamm.Consumer(config) as consumer:
        ends = consumer.end_offsets(available)
    described = [group_fields(group, offsets[name], ends) for name, group in groups.items()]
    if args.json:
        output.result({"groups": described})
        return 0
    for at, group in enumerate(described):
        if at:
            output.say("")
        assignor = f", {group['assignor']}" if group["assignor"] else ""
        count = len(group["members"])
        output.say(
            f"{group['group']}: {group['state']}, {group['type']}{assignor}, coordinator {group['coordinator']}, "
            f"{count} member{'' if count == 1 else 's'}"
        )
        columns = ("topic", "partition", "current_offset", "end_offset", "lag", "member_id", "host", "client_id")
        rows = [tuple(part[column] for column in columns) for part in group["partitions"]]
        reading = {part["member_id"] for part in group["partitions"]}
        idle = [member for member in group["members"] if member["member_id"] not in reading]
        rows += [(*[None] * 5, member["member_id"], member["host"], member["client_id"]) for member in idle]
        if rows:
            output.table(("topic", "partition", "current", "end", "lag", "member", "host", "client id"), rows)
    return 0


def with_leader(admin: klamm.Admin, partitions: Iterable[klamm.TopicPartition]) -> list[klamm.TopicPartition]:
    """Return the partitions that exist and have a leader, so that their offsets can be looked up."""
    partitions = list(partitions)
    existing = {tp.topic for tp in partitions} & set(admin.list_topics(internal=True))
    topics = admin.describe_topics(sorted(existing))
    led = {(name, part.partition) for name, topic in topics.items() for part in topic.partitions if part.leader >= 0}
    return [tp for tp in partitions if (tp.topic, tp.partition) in led]


def group_fields(
    group: klamm.GroupDescription,
    offsets: dict[klamm.TopicPartition, int],
    ends: dict[klamm.TopicPartition, int],
) -> dict[str, Any]:
    """Return a group in JSON's types, with every partition that is assigned or has a committed offset.

    A partition that more than one member of a share group reads is listed once for each of them.
    """
    readers: dict[klamm.TopicPartition, list[klamm.GroupMember | None]] = {tp: [None] for tp in offsets}
    for tp in {tp for member in group.members for tp in member.assigned}:
        readers[tp] = [member for member in group.members if tp in member.assigned]
    parts = []
    in_order = sorted(readers.items(), key=lambda each: (each[0].topic, each[0].partition))
    for tp, reader in ((tp, reader) for tp, members in in_order for reader in members):
        current, end = offsets.get(tp), ends.get(tp)
        parts.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "current_offset": current,
                "end_offset": end,
                "lag": None if current is None or end is None else max(end - current, 0),
                "member_id": reader and reader.member_id,
                "host": reader and reader.host,
                "client_id": reader and reader.client_id,
            }
        )
    return {
        "group": group.group,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": [
            {
                "member_id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "rack": member.rack,
                "topics": member.topics,
                "topic_pattern": member.topic_pattern,
                "assigned": [[tp.topic, tp.partition] for tp in member.assigned],
            }
            for member in group.members
        ],
        "partitions": parts,
    }


def reset(args: argparse.Namespace, output: Output) -> int:
    """Set the offsets of a group, or only print the new ones."""
    config = admin_config(args)
    with klamm.Admin(config) as admin:
        check_empty(admin, args.group)
        current = admin.group_offsets(args.group)
        chosen = choose(admin, args.topics) if args.topics else list(current)
        if not chosen:
            raise CommandError(f"group {args.group!r} has no committed offsets", hint="name topics with --topic")
        with klamm.Consumer(config) as consumer:
            bounds = Bounds.ask(consumer, chosen)
            new = shifted(bounds, current, args.shift) if args.to is None else bounds.locate(consumer, args.to)
        if args.execute:
            admin.alter_group_offsets(args.group, new)
    parts = [
        {"topic": tp.topic, "partition": tp.partition, "current_offset": current.get(tp), "new_offset": offset}
        for tp, offset in sorted(new.items(), key=lambda item: (item[0].topic, item[0].partition))
    ]
    if args.json:
        output.result({"group": args.group, "executed": args.execute, "partitions": parts})
        return 0
    output.table(("topic", "partition", "current", "new"), [tuple(part.values()) for part in parts])
    if not args.execute:
        output.say("nothing was changed; use --execute to set the new offsets")
    return 0


def check_empty(admin: klamm.Admin, group: str) -> None:
    """Raise if the group has members. They would continue from their positions and overwrite the new offsets."""
    try:
        found = admin.describe_groups([group])[group]
    except GroupIdNotFoundError:
        return
    if found.state not in {"Empty", "Dead"}:
        raise CommandError(
            f"cannot reset offsets: group {group!r} is in use, in state {found.state} with {len(found.members)} members",
            hint="stop its members first; `klamm groups describe` shows their hosts",
        )


def choose(admin: klamm.Admin, topics: list[tuple[str, list[int] | None]]) -> list[klamm.TopicPartition]:
    """Return the partitions that `--topic` names; raise if one does not exist."""
    found = admin.describe_topics([topic for topic, _ in topics])
    chosen: dict[klamm.TopicPartition, None] = {}
    for topic, numbers in topics:
        existing = [part.partition for part in found[topic].partitions]
        for number in existing if numbers is None else numbers:
            if number not in existing:
                raise CommandError(f"topic {topic!r} has no partition {number}", hint=f"use 0 to {len(existing) - 1}")
            chosen[klamm.TopicPartition(topic, number)] = None
    return list(chosen)


def shifted(bounds: Bounds, current: dict[klamm.TopicPartition, int], shift: int) -> dict[klamm.TopicPartition, int]:
    """Return committed offsets moved by a number of records, limited to the offsets that exist."""
    for tp in bounds.begin:
        if tp not in current:
            message = f"cannot shift the offset of {tp.topic}-{tp.partition}: the group has no committed offset for it"
            raise CommandError(message, hint="use --to-earliest, --to-latest or --to-offset, which need none")
    return {tp: min(max(current[tp] + shift, begin), bounds.end[tp]) for tp, begin in bounds.begin.items()}
