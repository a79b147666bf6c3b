"""`klamm share-groups` and `klamm streams-groups`: list, describe and delete groups, and reset and delete their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.clients import admin_config
from klamm.cli.group_resets import add_reset
from klamm.cli.options import add_common, add_confirmation, add_repeated, topic_partitions
from klamm.cli.output import CommandError, counted
from klamm.cli.values import as_json, expand, words

if TYPE_CHECKING:
    import argparse

    from klamm.admin import GroupDescription
    from klamm.cli.options import Commands
    from klamm.cli.output import Output

RELEASES = {"share": "KIP-932, Kafka 4.1", "streams": "KIP-1071, Kafka 4.1"}


def add(commands: Commands) -> None:
    """Declare the two commands."""
    for kind in ("share", "streams"):
        add_kind(commands, kind)


def add_kind(commands: Commands, kind: str) -> None:
    """Declare the command for one type of groups: "share" or "streams"."""
    parser = commands.add_parser(
        f"{kind}-groups",
        help=f"list, describe, reset and delete {kind} groups",
        description=f"List and describe {kind} groups, reset their offsets, and delete groups ({RELEASES[kind]}).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "list", help=f"print all {kind} groups", description=f"Print all {kind} groups with their states."
    )
    add_repeated(part, "--state", "states", "STATE", "print only groups in this state, such as Stable or Empty")
    part.set_defaults(kind=kind)
    add_common(part, list_groups, "print one JSON object, with the groups")

    part = parts.add_parser(
        "describe",
        help="print members, offsets and lag",
        description=f"Print the members, the offsets and the lag of {kind} groups.",
    )
    part.add_argument(
        "groups", metavar="GROUP", nargs="*", default=[], help=f"groups to describe (default: all {kind} groups)"
    )
    part.set_defaults(kind=kind)
    add_common(part, describe, "print one JSON object, with the groups, their members and partitions")

    add_reset(parts, kind)

    part = parts.add_parser(
        "delete-offsets",
        help="delete offsets of a group",
        description="Delete the group's offsets for the given topics.",
    )
    part.add_argument("group", metavar="GROUP", help="group that has the offsets")
    part.add_argument(
        "topics",
        metavar="TOPIC",
        type=topic_partitions,
        nargs="+",
        help="topics" if kind == "share" else "topics, or partitions as TOPIC:0,1",
    )
    part.set_defaults(kind=kind)
    add_confirmation(part)
    add_common(part, delete_offsets, "print one JSON object, with group and topics")

    part = parts.add_parser(
        "delete",
        help="delete groups",
        description="Delete groups that have no members, and delete the offsets of these groups.",
    )
    part.add_argument("groups", metavar="GROUP", nargs="+", help="groups to delete")
    part.set_defaults(kind=kind)
    add_confirmation(part)
    add_common(part, delete, "print one JSON object, with the deleted groups")


def list_groups(args: argparse.Namespace, output: Output) -> int:
    """Print groups."""
    with klamm.Admin(admin_config(args)) as admin:
        groups = admin.list_groups(states=args.states, types=[args.kind])
    listed = [{"group": each.group, "state": each.state} for each in groups]
    return output.result_or_table({"groups": listed}, ("group", "state"), [tuple(each.values()) for each in listed])


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print the members, the offsets and the lag of groups."""
    with klamm.Admin(admin_config(args)) as admin:
        names = args.groups or [each.group for each in admin.list_groups(types=[args.kind])]
        groups = output.found(lambda: admin.describe_groups(names)) if names else {}
        for group in groups.values():
            check_type(group, args.kind)
        offsets = {name: partitions_of(admin, name, args.kind) for name in groups}
    described = [
        {
            "group": name,
            "state": group.state,
            "assignor": group.assignor,
            "coordinator": group.coordinator,
            "epoch": group.epoch,
            "assignment_epoch": group.assignment_epoch,
            "members": as_json(group.members),
            "topology": as_json(group.topology),
            "partitions": offsets[name],
        }
        for name, group in groups.items()
    ]
    if output.json:
        output.result({"groups": described})
        return 0
    for at, group in enumerate(groups.values()):
        if at:
            output.say("")
        count = len(group.members)
        output.say(
            f"{group.group}: {group.state}, {args.kind}, coordinator {group.coordinator}, {counted(count, 'member')}"
        )
        start = "start" if args.kind == "share" else "current"
        rows = [(each["topic"], str(each["partition"]), each["offset"], each["lag"]) for each in offsets[group.group]]
        if rows:
            output.table(("topic", "partition", start, "lag"), rows)
        members = [(each.member_id, each.host, each.client_id, each.epoch, reads(each)) for each in group.members]
        if members:
            output.table(("member", "host", "client id", "epoch", "reads"), members)
    return 0


def reads(member: Any) -> str:
    """Return the names of the partitions or tasks that a member reads, as text."""
    if member.tasks is not None:
        return words(
            f"{subtopology}:{number}"
            for subtopology, numbers in sorted(member.tasks.active.items())
            for number in numbers
        )
    return words(f"{tp.topic}-{tp.partition}" for tp in sorted(member.assigned))


def check_type(group: GroupDescription, kind: str) -> None:
    """Raise if the type of a group is not `kind`."""
    if group.type != kind:
        other = f"`klamm {group.type}-groups`" if group.type in RELEASES else "`klamm groups`"
        raise CommandError(f"group {group.group!r} is of type {group.type}, not {kind}", f"use {other}")


def partitions_of(admin: klamm.Admin, group: str, kind: str) -> list[dict[str, Any]]:
    """Return a dict for each partition of a group, with topic, partition, offset and lag."""
    if kind == "share":
        found = admin.share_group_offsets([group])[group]
        return [{**as_json(tp), "offset": each.offset, "lag": each.lag} for tp, each in sorted(found.items())]
    offsets, lag = admin.group_offsets(group), admin.group_lag(group)
    return [{**as_json(tp), "offset": offsets.get(tp), "lag": each} for tp, each in sorted(lag.items())]


def delete_offsets(args: argparse.Namespace, output: Output) -> int:
    """Delete offsets."""
    names = [topic for topic, _ in args.topics]
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(args, [f"delete the offsets of {name} in group {args.group}" for name in names]):
            return 0
        if args.kind == "share":
            admin.delete_share_group_offsets(args.group, names)
        else:
            admin.delete_group_offsets(args.group, expand(admin, args.topics))
    line = f"deleted the offsets of {words(names)} in group {args.group}"
    return output.result_or_lines({"group": args.group, "topics": names}, line)


def delete(args: argparse.Namespace, output: Output) -> int:
    """Delete groups."""
    with klamm.Admin(admin_config(args)) as admin:
        for group in admin.describe_groups(args.groups).values():
            check_type(group, args.kind)
        if not output.confirmed(args, [f"delete group {group} and its offsets" for group in args.groups]):
            return 0
        return output.done("deleted", args.groups, lambda group: admin.delete_groups([group]))
