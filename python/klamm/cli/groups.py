"""`klamm groups`: lists, describes and deletes groups, and removes members and offsets. `group_resets` resets offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import klamm
from klamm.admin import RemovedMember
from klamm.admin.group_offsets import unread
from klamm.cli.clients import admin_config
from klamm.cli.group_resets import add_reset
from klamm.cli.options import add_common, add_confirmation, add_repeated
from klamm.cli.output import counted
from klamm.cli.typed_groups import delete_offsets
from klamm.cli.values import add_partitions

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
    add_repeated(part, "--state", "states", "STATE", "print only groups in this state, such as Stable or Empty")
    add_repeated(part, "--type", "types", "TYPE", "print only groups of this type: classic, consumer or share")
    add_common(part, list_groups, "print one JSON object, with the groups")

    part = parts.add_parser(
        "describe",
        help="print members, offsets and lag",
        description="Print the committed offset, the end offset and the lag of each partition, and the member that reads the partition.",
    )
    part.add_argument(
        "groups", metavar="GROUP", nargs="*", help="groups to describe (default: all consumer and share groups)"
    )
    add_common(part, describe, "print one JSON object, with the groups, their members and partitions")

    add_reset(parts, "consumer")

    part = parts.add_parser(
        "delete-offsets",
        help="delete offsets of a group",
        description="Delete the group's committed offsets for the given topics. No member of the group may be "
        "subscribed to these topics.",
    )
    part.add_argument("group", metavar="GROUP", help="group that has the offsets")
    add_partitions(part, "topics, or partitions as TOPIC:0,1")
    part.set_defaults(kind="consumer")
    add_confirmation(part)
    add_common(part, delete_offsets, "print one JSON object, with group and topics")

    part = parts.add_parser(
        "remove-members",
        help="remove members from a group",
        description="Remove members from a group, so that the group rebalances. A removed member joins again if it still runs.",
    )
    part.add_argument("group", metavar="GROUP", help="group that has the members")
    add_repeated(part, "--member", "members", "ID", "remove only this member")
    add_repeated(part, "--instance", "instances", "ID", "remove only the static member with this instance ID")
    add_confirmation(part)
    add_common(part, remove_members, "print one JSON object, with group and removed")

    part = parts.add_parser(
        "delete",
        help="delete groups",
        description="Delete groups that have no members, and delete the committed offsets of these groups.",
    )
    part.add_argument("groups", metavar="GROUP", nargs="+", help="groups to delete")
    add_confirmation(part)
    add_common(part, delete, "print one JSON object, with the deleted groups")


def list_groups(args: argparse.Namespace, output: Output) -> int:
    """Print all groups."""
    with klamm.Admin(admin_config(args)) as admin:
        groups = admin.list_groups(states=args.states, types=args.types)
    fields = [
        {"group": each.group, "type": each.type, "protocol_type": each.protocol_type, "state": each.state}
        for each in groups
    ]
    rows = [(each.group, each.type or None, each.protocol_type or None, each.state or None) for each in groups]
    return output.result_or_table({"groups": fields}, ("group", "type", "protocol", "state"), rows)


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
        groups = output.found(lambda: admin.describe_groups(names))
        offsets = {name: admin.group_offsets(name) for name in groups}
        assigned = [tp for group in groups.values() for member in group.members for tp in member.assigned]
        parts = partitions_of(admin, {tp.topic for tps in (assigned, *offsets.values()) for tp in tps})
    available = [tp for tp, has_leader in parts.items() if has_leader]
    with klamm.Consumer(config) as consumer:
        starts, ends = consumer.beginning_offsets(available), consumer.end_offsets(available)
    described = [group_fields(group, offsets[name], parts, starts, ends) for name, group in groups.items()]
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
            f"{counted(count, 'member')}"
        )
        columns = ("topic", "partition", "current_offset", "end_offset", "lag", "member_id", "host", "client_id")
        rows = [tuple(part[column] for column in columns) for part in group["partitions"]]
        reading = {part["member_id"] for part in group["partitions"]}
        idle = [member for member in group["members"] if member["member_id"] not in reading]
        rows += [(*[None] * 5, member["member_id"], member["host"], member["client_id"]) for member in idle]
        if rows:
            output.table(("topic", "partition", "current", "end", "lag", "member", "host", "client id"), rows)
    return 0


def partitions_of(admin: klamm.Admin, topics: set[str]) -> dict[klamm.TopicPartition, bool]:
    """Return the partitions of the topics that exist, and whether each partition has a leader."""
    described = admin.describe_topics(sorted(topics & set(admin.list_topics(internal=True))))
    return {
        klamm.TopicPartition(name, part.partition): part.leader >= 0
        for name, topic in described.items()
        for part in topic.partitions
    }


def group_fields(
    group: klamm.GroupDescription,
    offsets: dict[klamm.TopicPartition, int],
    existing: Iterable[klamm.TopicPartition],
    starts: dict[klamm.TopicPartition, int],
    ends: dict[klamm.TopicPartition, int],
) -> dict[str, Any]:
    """Return a group as a dict for JSON.

    The dict has the partitions that are assigned, and all partitions of the topics with a committed offset. If more
    than one member of a share group reads a partition, the list of partitions has one entry for each member.
    """
    topics = {tp.topic for tp in offsets}
    known = [*offsets, *(tp for tp in existing if tp.topic in topics)]
    readers: dict[klamm.TopicPartition, list[klamm.GroupMember | None]] = {tp: [None] for tp in known}
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
                "lag": None if current is None or end is None else unread(current, starts[tp], end),
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


def remove_members(args: argparse.Namespace, output: Output) -> int:
    """Remove members."""
    chosen: list[RemovedMember | str] = [*args.instances, *(RemovedMember(member_id=each) for each in args.members)]
    names = [*args.instances, *args.members]
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(args, [f"remove {name} from group {args.group}" for name in names or ["all members"]]):
            return 0
        admin.remove_group_members(args.group, chosen or None)
    line = f"removed {', '.join(names) or 'all members'} from group {args.group}"
    return output.result_or_lines({"group": args.group, "removed": names or "all"}, line)
