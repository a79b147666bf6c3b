"""`klamm elect`: elects leaders of partitions, as kafka-leader-election does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation
from klamm.cli.output import UsageError
from klamm.cli.values import add_partitions, as_json, expand

if TYPE_CHECKING:
    import argparse

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "elect",
        help="elect leaders of partitions",
        description="Elect the preferred leaders of partitions, and wait until all brokers know the new leaders.",
    )
    add_partitions(parser, "partitions to elect leaders of", nargs="*")
    parser.add_argument("--all", action="store_true", help="elect leaders of all partitions that need an election")
    parser.add_argument(
        "--unclean",
        action="store_true",
        help="if no in-sync replica is online, elect a replica that is not in sync, which can lose records",
    )
    parser.add_argument("--no-wait", action="store_true", help="do not wait until all brokers know the new leaders")
    add_confirmation(parser)
    add_common(parser, run, "print one JSON object, with the partitions and whether each had an election")


def run(args: argparse.Namespace, output: Output) -> int:
    """Elect leaders."""
    if args.all == bool(args.topics):
        raise UsageError(
            "elect needs either partitions or --all", "name partitions as TOPIC or TOPIC:0,1, or pass --all"
        )
    with klamm.Admin(admin_config(args)) as admin:
        partitions = None if args.all else expand(admin, args.topics)
        kind = "unclean" if args.unclean else "preferred"
        names = ["all partitions"] if partitions is None else [f"{tp.topic}-{tp.partition}" for tp in partitions]
        if (args.unclean or args.dry_run) and not output.confirmed(
            args, [f"elect {kind} leaders of {name}" for name in names]
        ):
            return 0
        results = admin.elect_leaders(partitions, "unclean" if args.unclean else "preferred", wait=not args.no_wait)
    listed = [{**as_json(tp), "elected": elected} for tp, elected in sorted(results.items())]
    rows = [(tp.topic, str(tp.partition), elected) for tp, elected in sorted(results.items())]
    return output.result_or_table({"partitions": listed}, ("topic", "partition", "elected"), rows)
