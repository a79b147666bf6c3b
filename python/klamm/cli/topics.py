"""`klamm topics`: lists, creates, changes, deletes and describes topics. `klamm.Admin` sends the requests."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import klamm
from klamm.admin import ConfigResource, ConfigSource, NewPartitions
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, add_repeated, expression, naturals, pair, positive
from klamm.cli.output import CommandError
from klamm.cli.values import words
from klamm.errors import TopicAlreadyExistsError, UnknownTopicOrPartitionError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

BROKER_DEFAULT = -1
"""In CreateTopics, -1 means the broker's default (Kafka 2.4 and later)."""
IN_SYNC = "min.insync.replicas"


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "topics",
        help="list, create, change, delete and describe topics",
        description="List, create, change, delete and describe topics.",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser("list", help="print the names of all topics", description="Print the names of all topics.")
    part.add_argument("--internal", action="store_true", help="include Kafka's internal topics")
    part.add_argument(
        "--matching",
        metavar="REGEX",
        type=expression,
        help="print only topics whose whole name matches this regular expression",
    )
    add_common(part, list_topics, "print one JSON object, with the topics")

    part = parts.add_parser("create", help="create topics", description="Create topics with the same settings.")
    part.add_argument("topics", metavar="TOPIC", nargs="+", help="topics to create")
    part.add_argument(
        "--partitions",
        metavar="N",
        type=positive,
        default=BROKER_DEFAULT,
        help="create N partitions (default: as configured on the broker)",
    )
    part.add_argument(
        "--replication-factor",
        metavar="N",
        type=positive,
        default=BROKER_DEFAULT,
        help="create N replicas of each partition (default: as configured on the broker)",
    )
    part.add_argument(
        "--replicas",
        metavar="ID:ID,ID:ID",
        type=assignments,
        default=[],
        help="brokers for the replicas of each partition, such as 1:2,2:3 for two partitions",
    )
    add_repeated(
        part, "--config", "settings", "KEY=VALUE", "set a topic option, such as retention.ms=3600000", parse=pair
    )
    part.add_argument("--if-not-exists", action="store_true", help="do nothing for topics that exist")
    part.add_argument("--dry-run", action="store_true", help="only check whether the topics can be created")
    add_common(part, create, "print one JSON object, with the created topics")

    part = parts.add_parser("delete", help="delete topics", description="Delete topics and all their records.")
    part.add_argument("topics", metavar="TOPIC", nargs="+", help="topics to delete")
    part.add_argument("--if-exists", action="store_true", help="do nothing for topics that do not exist")
    add_confirmation(part)
    add_common(part, delete, "print one JSON object, with the deleted topics")

    part = parts.add_parser(
        "add-partitions",
        help="add partitions to topics",
        description="Add partitions to topics. New records can then go to a different partition than earlier records "
        "with the same key.",
    )
    part.add_argument("topics", metavar="TOPIC", nargs="+", help="topics to change")
    part.add_argument("--total", metavar="N", type=positive, required=True, help="the new total number of partitions")
    part.add_argument(
        "--replicas",
        metavar="ID:ID,ID:ID",
        type=assignments,
        default=[],
        help="brokers for the replicas of each new partition",
    )
    part.add_argument("--dry-run", action="store_true", help="only check whether the partitions can be added")
    add_common(part, add_partitions, "print one JSON object, with the changed topics")

    part = parts.add_parser(
        "describe",
        help="print partitions, replicas and offsets",
        description="Print the leader, the replicas, the in-sync replicas, the first offset and the end offset of each partition.",
    )
    part.add_argument("topics", metavar="TOPIC", nargs="*", default=[], help="topics to describe (default: all)")
    part.add_argument("--internal", action="store_true", help="if no topic is named, include Kafka's internal topics")
    only = part.add_mutually_exclusive_group()
    for name, text in (
        ("under-replicated", "print only partitions with fewer in-sync replicas than replicas"),
        ("unavailable", "print only partitions without a leader"),
        ("under-min-isr", "print only partitions with fewer in-sync replicas than min.insync.replicas"),
        ("at-min-isr", "print only partitions with exactly min.insync.replicas in-sync replicas"),
    ):
        only.add_argument(f"--{name}", dest="only", action="store_const", const=name, help=text)
    part.add_argument("--configs", action="store_true", help="also print settings that topics override")
    add_common(part, describe, "print one JSON object, with the topics and their partitions")

    part = parts.add_parser(
        "sizes",
        help="print topics by their size on disk",
        description="Print topics by their size on disk, the largest first (Kafka 1.0).",
    )
    part.add_argument("topics", metavar="TOPIC", nargs="*", default=[], help="topics to print (default: all)")
    add_common(part, sizes, "print one JSON object, with the topics and their sizes")


def assignments(text: str) -> list[list[int]]:
    """Parse the brokers for the replicas of each partition, such as `1:2,2:3` for two partitions."""
    return [naturals(part.replace(":", ",")) for part in text.split(",")]


def list_topics(args: argparse.Namespace, output: Output) -> int:
    """Print the names of all topics."""
    with klamm.Admin(admin_config(args)) as admin:
        names = sorted(admin.list_topics(internal=args.internal))
    if args.matching is not None:
        names = [name for name in names if args.matching.fullmatch(name)]
    return output.result_or_lines({"topics": names}, *names)


def create(args: argparse.Namespace, output: Output) -> int:
    """Create topics with the same settings."""
    new = klamm.NewTopic(
        partitions=args.partitions,
        replication_factor=args.replication_factor,
        configs=dict(args.settings),
        assignments=args.replicas,
    )
    with klamm.Admin(admin_config(args)) as admin:

        def create_one(topic: str) -> None:
            with suppress(*([TopicAlreadyExistsError] if args.if_not_exists else [])):
                admin.create_topics({topic: new}, validate_only=args.dry_run)

        return output.done("valid" if args.dry_run else "created", args.topics, create_one)


def delete(args: argparse.Namespace, output: Output) -> int:
    """Delete topics."""
    with klamm.Admin(admin_config(args)) as admin:

        def delete_one(topic: str) -> None:
            with suppress(*([UnknownTopicOrPartitionError] if args.if_exists else [])):
                admin.delete_topics([topic])

        if not output.confirmed(args, [f"delete topic {topic} and all its records" for topic in args.topics]):
            return 0
        return output.done("deleted", args.topics, delete_one)


def add_partitions(args: argparse.Namespace, output: Output) -> int:
    """Add partitions to topics."""
    new = NewPartitions(args.total, args.replicas)
    with klamm.Admin(admin_config(args)) as admin:

        def change(topic: str) -> None:
            admin.create_partitions({topic: new}, validate_only=args.dry_run)

        return output.done("valid" if args.dry_run else "changed", args.topics, change)


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print the partitions of topics."""
    config = admin_config(args)
    with klamm.Admin(config) as admin:
        names = args.topics or sorted(admin.list_topics(internal=args.internal))
        descriptions = output.found(lambda: admin.describe_topics(names)) if names else {}
        names = [name for name in names if name in descriptions]
        minimum = least_in_sync(admin, names) if args.only in ("under-min-isr", "at-min-isr") else {}
        settings = overridden(admin, names) if args.configs else {}
    shown = {
        name: [part for part in descriptions[name].partitions if is_wanted(part, args.only, minimum.get(name, 1))]
        for name in dict.fromkeys(names)
    }
    # Only a leader can return the offsets of its partition.
    led = [
        klamm.TopicPartition(name, part.partition)
        for name, parts in shown.items()
        for part in parts
        if part.leader >= 0
    ]
    with klamm.Consumer(config) as consumer:
        begin = consumer.beginning_offsets(led)
        end = consumer.end_offsets(led)
    described = [
        topic_fields(descriptions[name], parts, begin, end) | ({"configs": settings[name]} if args.configs else {})
        for name, parts in shown.items()
        if parts or args.only is None
    ]
    if args.json:
        output.result({"topics": described})
        return 0
    if args.configs:
        rows = [(name, key, value) for name, values in settings.items() for key, value in values.items()]
        output.table(("topic", "setting", "value"), rows)
        output.say("")
    rows_of_parts = [
        (
            topic["name"],
            str(part["partition"]),
            "none" if part["leader"] < 0 else str(part["leader"]),
            words(part["replicas"]),
            words(part["isr"]),
            part["begin_offset"],
            part["end_offset"],
        )
        for topic in described
        for part in topic["partitions"]
    ]
    output.table(("topic", "partition", "leader", "replicas", "isr", "begin", "end"), rows_of_parts)
    return 0


def is_wanted(part: klamm.PartitionInfo, only: str | None, minimum: int) -> bool:
    """Return whether a partition matches the filter `only`, such as "unavailable"."""
    return {
        None: True,
        "under-replicated": len(part.isr) < len(part.replicas),
        "unavailable": part.leader < 0,
        "under-min-isr": len(part.isr) < minimum,
        "at-min-isr": len(part.isr) == minimum,
    }[only]


def least_in_sync(admin: klamm.Admin, names: list[str]) -> dict[str, int]:
    """Return the value of min.insync.replicas for each topic."""
    resources = [ConfigResource("topic", name) for name in names]
    configs_by_resource = admin.describe_resources(resources, names=[IN_SYNC]) if resources else {}
    return {resource.name: int(entries[IN_SYNC].value or 1) for resource, entries in configs_by_resource.items()}


def overridden(admin: klamm.Admin, names: list[str]) -> dict[str, dict[str, str | None]]:
    """Return the settings of each topic that override the broker's settings."""
    resources = [ConfigResource("topic", name) for name in names]
    configs_by_resource = admin.describe_resources(resources) if resources else {}
    return {
        resource.name: {
            name: entry.value for name, entry in sorted(entries.items()) if entry.source is ConfigSource.TOPIC
        }
        for resource, entries in configs_by_resource.items()
    }


def topic_fields(
    topic: klamm.TopicDescription,
    parts: list[klamm.PartitionInfo],
    begin: Mapping[klamm.TopicPartition, int],
    end: Mapping[klamm.TopicPartition, int],
) -> dict[str, Any]:
    """Return a topic as a dict for JSON. The offsets of a partition without a leader are None."""
    numbered = {klamm.TopicPartition(topic.name, part.partition): part for part in parts}
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "partitions": [
            {
                "partition": part.partition,
                "leader": part.leader,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "offline": part.offline,
                "begin_offset": begin.get(each),
                "end_offset": end.get(each),
            }
            for each, part in sorted(numbered.items(), key=lambda item: item[0].partition)
        ],
    }


def sizes(args: argparse.Namespace, output: Output) -> int:
    """Print the size of each topic on disk: the sum of the sizes of its replicas."""
    with klamm.Admin(admin_config(args)) as admin:
        log_dirs = admin.describe_log_dirs()
    totals: dict[str, list[int]] = {}
    for paths in log_dirs.values():
        for directory in paths.values():
            for tp, replica in directory.replicas.items():
                totals.setdefault(tp.topic, []).append(replica.size)
    missing = [topic for topic in args.topics if topic not in totals]
    if missing:
        raise CommandError(f"no broker has a replica of topic {missing[0]!r}", "see `klamm topics list`")
    chosen = args.topics or list(totals)
    listed = [{"topic": name, "replicas": len(totals[name]), "bytes": sum(totals[name])} for name in chosen]
    listed.sort(key=lambda each: (-int(each["bytes"]), str(each["topic"])))
    rows = [tuple(each.values()) for each in listed]
    return output.result_or_table({"topics": listed}, ("topic", "replicas", "bytes"), rows)
