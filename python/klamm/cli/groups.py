"""`klamm groups`: list and describe groups, reset their offsets, delete them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.clients import admin_config
from klamm.cli.options import add_connection, add_json, natural
from klamm.cli.output import CommandError
from klamm.cli.positions import Bounds, Kind, Position, parse_time
from klamm.errors import GroupIdNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command and its four parts."""
    parser = commands.add_parser("groups", help="list, describe, reset and delete groups", description=__doc__)
    parts = parser.add_subparsers(title="what to do", metavar="ACTION", required=True)

    part = parts.add_parser("list", help="print all groups", description="Print all groups, their type and state.")
    part.add_argument(
        "--state",
        dest="states",
        metavar="STATE",
        action="append",
        default=[],
        help="as Stable or Empty; may be repeated",
    )
    part.add_argument(
        "--type",
        dest="types",
        metavar="TYPE",
        action="append",
        default=[],
        help="classic, consumer or share; may be repeated",
    )
    finish(part, list_groups, "print one object: groups")

    part = parts.add_parser(
        "describe",
        help="print members, offsets and lag",
        description="Print what groups read: committed offset, end and lag of each partition, and the member that reads it.",
    )
    part.add_argument("groups", metavar="GROUP", nargs="*", help="default: all groups of consumers")
    finish(part, describe, "print one object: groups with their members and partitions")

    part = parts.add_parser(
        "reset-offsets",
        help="set what a group reads next",
        description="Set what a group reads next, of all it has committed or of the topics named. The group must have no "
        "members. Without --execute, print what would be set and change nothing.",
    )
    part.add_argument("group", metavar="GROUP")
    to = part.add_mutually_exclusive_group(required=True)
    to.add_argument(
        "--to-earliest", dest="to", action="store_const", const=Position(Kind.EARLIEST), help="all there is"
    )
    to.add_argument(
        "--to-latest", dest="to", action="store_const", const=Position(Kind.LATEST), help="nothing but news"
    )
    to.add_argument("--to-offset", dest="to", metavar="N", type=to_offset, help="this offset, or the nearest there is")
    to.add_argument(
        "--to-datetime",
        dest="to",
        metavar="TIME",
        type=to_time,
        help="the first record since: ISO 8601 or milliseconds",
    )
    to.add_argument(
        "--shift-by",
        dest="shift",
        metavar="N",
        type=int,
        help="as many records on, or back if negative (--shift-by=-5)",
    )
    part.add_argument(
        "--topic",
        dest="topics",
        metavar="TOPIC[:N,N]",
        type=topic_partitions,
        action="append",
        default=[],
        help="a topic, or some partitions of it; may be repeated",
    )
    part.add_argument("--execute", action="store_true", help="do it")
    finish(part, reset, "print one object: group, executed, partitions")

    part = parts.add_parser(
        "delete", help="delete groups", description="Delete groups without members, and all they committed."
    )
    part.add_argument("groups", metavar="GROUP", nargs="+")
    finish(part, delete, "print one object: deleted")


def finish(parser: argparse.ArgumentParser, run: Any, json_text: str) -> None:
    """Add what all four share."""
    add_connection(parser)
    add_json(parser, json_text)
    parser.set_defaults(run=run)


def to_offset(text: str) -> Position:
    """Parse an offset."""
    return Position(Kind.OFFSET, natural(text))


def to_time(text: str) -> Position:
    """Parse a time."""
    return Position(Kind.TIME, parse_time(text))


def topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """Parse `topic` or `topic:0,1`; None is all partitions."""
    topic, colon, numbers = text.partition(":")
    if not topic or (colon and not numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form TOPIC or TOPIC:0,1")
    return topic, [natural(number) for number in numbers.split(",")] if colon else None


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
        return output.done("deleted", args.groups, lambda group: admin.delete_groups([group]))


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print what groups read, and who reads it."""
    config = admin_config(args)
    with klamm.Admin(config) as admin:
        read = {"consumer", "share", ""}
        names = args.groups or [each.group for each in admin.list_groups() if each.protocol_type in read]
        groups = admin.describe_groups(names)
        offsets = {name: admin.group_offsets(name) for name in names}
        assigned = [place for group in groups.values() for member in group.members for place in member.assigned]
        led = with_leader(admin, {*assigned, *(place for of_group in offsets.values() for place in of_group)})
    with klamm.Consumer(config) as consumer:
        ends = consumer.end_offsets(led)
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


def with_leader(admin: klamm.Admin, places: Iterable[klamm.TopicPartition]) -> list[klamm.TopicPartition]:
    """Leave out partitions that are gone, or that nobody leads and so nobody can be asked about."""
    places = list(places)
    there = {place.topic for place in places} & set(admin.list_topics(internal=True))
    topics = admin.describe_topics(sorted(there))
    led = {(name, part.partition) for name, topic in topics.items() for part in topic.partitions if part.leader >= 0}
    return [place for place in places if (place.topic, place.partition) in led]


def group_fields(
    group: klamm.GroupDescription,
    offsets: dict[klamm.TopicPartition, int],
    ends: dict[klamm.TopicPartition, int],
) -> dict[str, Any]:
    """Describe a group in JSON's types: every partition that somebody reads, or of which an offset is committed.

    Once for each reader: members of a share group read partitions together.
    """
    readers: dict[klamm.TopicPartition, list[klamm.GroupMember | None]] = {place: [None] for place in offsets}
    for place in {place for member in group.members for place in member.assigned}:
        readers[place] = [member for member in group.members if place in member.assigned]
    parts = []
    by_place = sorted(readers.items(), key=lambda each: (each[0].topic, each[0].partition))
    for place, reader in ((place, reader) for place, several in by_place for reader in several):
        current, end = offsets.get(place), ends.get(place)
        parts.append(
            {
                "topic": place.topic,
                "partition": place.partition,
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
                "assigned": [[place.topic, place.partition] for place in member.assigned],
            }
            for member in group.members
        ],
        "partitions": parts,
    }


def reset(args: argparse.Namespace, output: Output) -> int:
    """Set a group's offsets, or print what would be set."""
    config = admin_config(args)
    with klamm.Admin(config) as admin:
        refuse_members(admin, args.group)
        current = admin.group_offsets(args.group)
        chosen = choose(admin, args.topics) if args.topics else list(current)
        if not chosen:
            raise CommandError(f"group {args.group!r} has committed nothing", hint="name topics with --topic")
        with klamm.Consumer(config) as consumer:
            bounds = Bounds.ask(consumer, chosen)
            new = shifted(bounds, current, args.shift) if args.to is None else bounds.locate(consumer, args.to)
        if args.execute:
            admin.alter_group_offsets(args.group, new)
    parts = [
        {"topic": place.topic, "partition": place.partition, "current_offset": current.get(place), "new_offset": offset}
        for place, offset in sorted(new.items(), key=lambda item: (item[0].topic, item[0].partition))
    ]
    if args.json:
        output.result({"group": args.group, "executed": args.execute, "partitions": parts})
        return 0
    output.table(("topic", "partition", "current", "new"), [tuple(part.values()) for part in parts])
    if not args.execute:
        output.say("nothing was changed; --execute does it")
    return 0


def refuse_members(admin: klamm.Admin, group: str) -> None:
    """Refuse what Kafka refuses: members would go on from where they are, and commit over what was set."""
    try:
        found = admin.describe_groups([group])[group]
    except GroupIdNotFoundError:
        return
    if found.state not in {"Empty", "Dead"}:
        raise CommandError(
            f"group {group!r} is in use: it is {found.state}, with {len(found.members)} members",
            hint="stop its members first; `klamm groups describe` shows where they are",
        )


def choose(admin: klamm.Admin, topics: list[tuple[str, list[int] | None]]) -> list[klamm.TopicPartition]:
    """List the partitions that `--topic` named, each of which has to be there."""
    found = admin.describe_topics([topic for topic, _ in topics])
    chosen: dict[klamm.TopicPartition, None] = {}
    for topic, numbers in topics:
        there = [part.partition for part in found[topic].partitions]
        for number in there if numbers is None else numbers:
            if number not in there:
                raise CommandError(f"topic {topic!r} has no partition {number}", hint=f"it has 0 to {len(there) - 1}")
            chosen[klamm.TopicPartition(topic, number)] = None
    return list(chosen)


def shifted(bounds: Bounds, current: dict[klamm.TopicPartition, int], shift: int) -> dict[klamm.TopicPartition, int]:
    """Move committed offsets by a number of records, within what partitions hold."""
    for place in bounds.begin:
        if place not in current:
            message = f"nothing is committed of {place.topic}-{place.partition} that could be shifted"
            raise CommandError(message, hint="--to-earliest, --to-latest or --to-offset need no offset to begin with")
    return {place: min(max(current[place] + shift, begin), bounds.end[place]) for place, begin in bounds.begin.items()}
