"""`klamm log-dirs`: shows the log directories of brokers, and moves replicas to another directory, as kafka-log-dirs does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import klamm
from klamm.admin import Replica
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, natural, naturals
from klamm.cli.output import counted
from klamm.cli.values import add_partitions, as_json, expand

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "log-dirs",
        help="show log directories, and move replicas to another directory",
        description="Show the log directories of brokers (Kafka 1.0), and move replicas to another directory (Kafka 1.1).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "describe",
        help="print directories and sizes",
        description="Print the directories, with the size of each replica of the given partitions.",
    )
    add_partitions(part, "print replicas of these partitions (default: only the directories)", nargs="*")
    part.add_argument(
        "--broker", dest="brokers", metavar="ID,ID", type=naturals, help="ask these brokers (default: all)"
    )
    part.add_argument("--all", action="store_true", help="print all replicas")
    add_common(part, describe, "print one JSON object, with the brokers, their directories and all replicas")

    part = parts.add_parser(
        "move",
        help="move replicas to another directory",
        description="Move replicas on a broker from one log directory to another.",
    )
    part.add_argument("broker", metavar="BROKER", type=natural, help="ID of the broker")
    part.add_argument("path", metavar="PATH", help="path of the new directory")
    add_partitions(part, "partitions to move")
    add_confirmation(part)
    add_common(part, move, "print one JSON object, with the moved replicas")


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print directories."""
    with klamm.Admin(admin_config(args)) as admin:
        partitions = expand(admin, args.topics) or None
        log_dirs = output.found(lambda: admin.describe_log_dirs(args.brokers, partitions))
    if output.json:
        listed = [
            {
                "broker": broker,
                "log_dirs": [
                    {
                        "path": path,
                        **{key: value for key, value in as_json(each).items() if key != "replicas"},
                        "replicas": [
                            {**as_json(tp), **as_json(replica)} for tp, replica in sorted(each.replicas.items())
                        ],
                    }
                    for path, each in sorted(paths.items())
                ],
            }
            for broker, paths in sorted(log_dirs.items())
        ]
        output.result({"brokers": listed})
        return 0
    output.table(
        ("broker", "directory", "replicas", "size", "total", "usable", "error"),
        [
            (
                str(broker),
                path,
                len(each.replicas),
                sum(replica.size for replica in each.replicas.values()),
                each.total_bytes,
                each.usable_bytes,
                each.error and each.error.message,
            )
            for broker, paths in sorted(log_dirs.items())
            for path, each in sorted(paths.items())
        ],
    )
    if partitions or args.all:
        rows = [
            (tp.topic, str(tp.partition), str(broker), path, replica.size, replica.offset_lag, replica.is_future)
            for broker, paths in sorted(log_dirs.items())
            for path, each in sorted(paths.items())
            for tp, replica in each.replicas.items()
        ]
        output.say("")
        output.table(("topic", "partition", "broker", "directory", "size", "lag", "moving in"), sorted(rows))
    return 0


def move(args: argparse.Namespace, output: Output) -> int:
    """Move replicas."""
    with klamm.Admin(admin_config(args)) as admin:
        replicas = [Replica(tp.topic, tp.partition, args.broker) for tp in expand(admin, args.topics)]
        lines = [f"move {each.topic}-{each.partition} of broker {each.broker} to {args.path}" for each in replicas]
        if not output.confirmed(args, lines):
            return 0
        admin.alter_replica_log_dirs(dict.fromkeys(replicas, args.path))
    line = f"started to move {counted(len(replicas), 'replica')} to {args.path}; `klamm log-dirs describe` shows the progress"
    return output.result_or_lines({"moved": as_json(replicas), "path": args.path}, line)
