"""`klamm cluster`: describes a cluster as `kcat -L` does, lists versions of APIs, and unregisters nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, natural, naturals
from klamm.cli.output import counted
from klamm.cli.settings import CONTROLLERS
from klamm.cli.values import as_json

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "cluster",
        help="describe the cluster and its brokers",
        description="Describe the cluster and its brokers, and unregister nodes.",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "describe",
        help="print brokers and topics",
        description="Print the cluster ID, the controller, the brokers and the topics, as `kcat -L` does.",
    )
    part.add_argument(
        "--fenced",
        action="store_true",
        help="also print fenced brokers, which are registered but not in use (Kafka 4.0)",
    )
    add_common(
        part, describe, "print one JSON object, with cluster_id, controller, brokers and topics", controllers=True
    )

    part = parts.add_parser(
        "api-versions",
        help="print the versions of each API that brokers support",
        description="Print the oldest and newest version of each API that brokers support.",
    )
    part.add_argument(
        "--broker", dest="brokers", metavar="ID,ID", type=naturals, help="ask these brokers (default: all)"
    )
    add_common(part, api_versions, "print one JSON object, with the brokers and their APIs", controllers=True)

    part = parts.add_parser(
        "coordinators",
        help="print the broker that coordinates a group or transaction",
        description="Print the brokers that coordinate groups or transactional IDs.",
    )
    part.add_argument("keys", metavar="NAME", nargs="+", help="names of groups, or transactional IDs")
    part.add_argument(
        "--type",
        dest="kind",
        choices=("group", "transaction", "share"),
        default="group",
        help="what the names stand for (default: group)",
    )
    add_common(part, coordinators, "print one JSON object, with the coordinators")

    part = parts.add_parser(
        "unregister",
        help="unregister a node that was shut down permanently",
        description="Unregister a broker or controller that was shut down permanently (KRaft).",
    )
    which = part.add_mutually_exclusive_group(required=True)
    which.add_argument("--broker", metavar="ID", type=natural, help="unregister this broker (Kafka 3.7)")
    which.add_argument("--controller", metavar="ID", type=natural, help="unregister this controller (Kafka 4.4)")
    add_confirmation(part)
    add_common(part, unregister, "print one JSON object, with the node", controllers=True)


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print brokers and topics."""
    config = admin_config(args)
    controllers = CONTROLLERS in config
    with klamm.Admin(config) as admin:
        cluster = admin.describe_cluster(fenced=args.fenced)
        # Controllers do not return topics.
        names = [] if controllers else admin.list_topics(internal=True)
        topics = admin.describe_topics(names) if names else {}
    listed = [
        {
            "name": name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(part.replicas) for part in topic.partitions), default=0),
            "under_replicated": sum(len(part.isr) < len(part.replicas) for part in topic.partitions),
            "internal": topic.internal,
        }
        for name, topic in sorted(topics.items())
    ]
    if output.json:
        cells = {"cluster_id": cluster.cluster_id, "controller": cluster.controller}
        nodes = as_json(sorted(cluster.brokers, key=lambda node: node.id))
        output.result({**cells, **({"controllers": nodes} if controllers else {"brokers": nodes, "topics": listed})})
        return 0
    kind = "controller" if controllers else "broker"
    count = "" if controllers else f", {counted(len(listed), 'topic')}"
    output.say(f"cluster {cluster.cluster_id or '-'}, {counted(len(cluster.brokers), kind)}{count}")
    active = "active" if controllers else "controller"
    output.table(
        (kind, "host", "port", "rack", "state"),
        [
            (
                str(node.id),
                node.host,
                str(node.port),
                node.rack,
                "fenced" if node.is_fenced else active if node.id == cluster.controller else "alive",
            )
            for node in sorted(cluster.brokers, key=lambda node: node.id)
        ],
    )
    if listed:
        output.say("")
        output.table(
            ("topic", "partitions", "replicas", "under replicated", "internal"),
            [tuple(topic.values()) for topic in listed],
        )
    return 0


def api_versions(args: argparse.Namespace, output: Output) -> int:
    """Print the oldest and newest version of each API, for each broker."""
    with klamm.Admin(admin_config(args)) as admin:
        apis_by_broker = sorted(admin.api_versions(args.brokers).items())
    rows = [
        (str(broker), name, versions.min, versions.max)
        for broker, apis in apis_by_broker
        for name, versions in sorted(apis.items())
    ]
    listed = [{"broker": broker, "apis": as_json(apis)} for broker, apis in apis_by_broker]
    return output.result_or_table({"brokers": listed}, ("broker", "api", "min", "max"), rows)


def coordinators(args: argparse.Namespace, output: Output) -> int:
    """Print coordinators."""
    with klamm.Admin(admin_config(args)) as admin:
        coordinators = admin.find_coordinators(args.keys, args.kind)
    listed = [
        {"name": key, "broker": node.id, "host": node.host, "port": node.port} for key, node in coordinators.items()
    ]
    rows = [(key, str(node.id), node.host, str(node.port)) for key, node in coordinators.items()]
    return output.result_or_table({"coordinators": listed}, ("name", "broker", "host", "port"), rows)


def unregister(args: argparse.Namespace, output: Output) -> int:
    """Unregister a broker or controller."""
    kind, node = ("broker", args.broker) if args.broker is not None else ("controller", args.controller)
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(args, [f"unregister {kind} {node}"]):
            return 0
        (admin.unregister_broker if kind == "broker" else admin.unregister_controller)(node)
    return output.result_or_lines({"unregistered": {kind: node}}, f"unregistered {kind} {node}")
