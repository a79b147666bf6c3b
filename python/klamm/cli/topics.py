"""`klamm topics`: lists, creates, deletes and describes topics. `klamm.Admin` does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, pair, positive

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

BROKER_DEFAULT = -1
"""In CreateTopics, -1 means the broker's default (Kafka 2.4 and later)."""


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "topics",
        help="list, create, delete and describe topics",
        description="List, create, delete and describe topics.",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser("list", help="print the names of all topics", description="Print the names of all topics.")
    part.add_argument("--internal", action="store_true", help="include Kafka's internal topics")
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
        "--config",
        dest="settings",
        metavar="KEY=VALUE",
        type=pair,
        action="append",
        default=[],
        help="set a topic option, such as retention.ms=3600000; may be repeated",
    )
    add_common(part, create, "print one JSON object, with the created topics")

    part = parts.add_parser("delete", help="delete topics", description="Delete topics and all their records.")
    part.add_argument("topics", metavar="TOPIC", nargs="+", help="topics to delete")
    add_confirmation(part)
    add_common(part, delete, "print one JSON object, with the deleted topics")

    part = parts.add_parser(
        "describe",
        help="print partitions, replicas and offsets",
        description="Print the leader, the replicas, the in-sync replicas, the first offset and the end offset of each partition.",
    )
    part.add_argument("topics", metavar="TOPIC", nargs="*", help="topics to describe (default: all)")
    add_common(part, describe, "print one JSON object, with the topics and their partitions")


def list_topics(args: argparse.Namespace, output: Output) -> int:
    """Print the names of all topics."""
    with klamm.Admin(admin_config(args)) as admin:
        names = sorted(admin.list_topics(internal=args.internal))
    if args.json:
        output.result({"topics": names})
    else:
        for name in names:
            output.say(name)
    return 0


def create(args: argparse.Namespace, output: Output) -> int:
    """Create topics with the same settings."""
    new = klamm.NewTopic(
        partitions=args.partitions, replication_factor=args.replication_factor, configs=dict(args.settings)
    )
    with klamm.Admin(admin_config(args)) as admin:

        def create_one(topic: str) -> None:
            admin.create_topics({topic: new})

        return output.done("created", args.topics, create_one)


def delete(args: argparse.Namespace, output: Output) -> int:
    """Delete topics."""
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(args, [f"delete topic {topic} and all its records" for topic in args.topics]):
            return 0
        return output.done("deleted", args.topics, lambda topic: admin.delete_topics([topic]))


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print the partitions of topics."""
    config = admin_config(args)
    with klamm.Admin(config) as admin:
        found = admin.describe_topics(args.topics or sorted(admin.list_topics()))
    topics = [found[name] for name in args.topics or sorted(found)]
    # Only a leader can return the offsets of its partition.
    led = [
        klamm.TopicPartition(topic.name, part.partition)
        for topic in topics
        for part in topic.partitions
        if part.leader >= 0
    ]
    with klamm.Consumer(config) as consumer:
        begin = consumer.beginning_offsets(led)
        end = consumer.end_offsets(led)
    described = [topic_fields(topic, begin, end) for topic in topics]
    if args.json:
        output.result({"topics": described})
        return 0
    rows = [
        (
            topic["name"],
            str(part["partition"]),
            "none" if part["leader"] < 0 else str(part["leader"]),
            ", ".join(map(str, part["replicas"])),
            ", ".join(map(str, part["isr"])),
            part["begin_offset"],
            part["end_offset"],
        )
        for topic in described
        for part in topic["partitions"]
    ]
    output.table(("topic", "partition", "leader", "replicas", "isr", "begin", "end"), rows)
    return 0


def topic_fields(
    topic: klamm.TopicDescription, begin: dict[klamm.TopicPartition, int], end: dict[klamm.TopicPartition, int]
) -> dict[str, Any]:
    """Return a topic in JSON's types. A partition without a leader has no offsets."""
    parts = {klamm.TopicPartition(topic.name, part.partition): part for part in topic.partitions}
    return {
        "name": topic.name,
        "internal": topic.internal,
        "partitions": [
            {
                "partition": part.partition,
                "leader": part.leader,
                "replicas": list(part.replicas),
                "isr": list(part.isr),
                "begin_offset": begin.get(each),
                "end_offset": end.get(each),
            }
            for each, part in sorted(parts.items(), key=lambda item: item[0].partition)
        ],
    }
