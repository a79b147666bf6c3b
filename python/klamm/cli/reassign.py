"""`klamm reassign`: plans, executes, verifies, throttles and cancels moves of partitions to other brokers.

The files have the format of kafka-reassign-partitions, so that both commands can read each other's files.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import klamm
from klamm.admin import ConfigChange, ConfigOperation, ConfigResource, Replica
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, naturals, positive
from klamm.cli.output import CommandError, counted
from klamm.cli.settings import CONTROLLERS
from klamm.cli.values import add_partitions, as_json, expand, words
from klamm.errors import CombinedError, ReplicaNotAvailableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
DEFAULTS = "any"
"""If a plan contains `any` instead of a directory, the broker chooses the directory."""

Plan = dict[klamm.TopicPartition, list[int]]


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "reassign",
        help="move partitions to other brokers",
        description="Plan, execute, verify and cancel moves of partitions to other brokers (Kafka 2.4).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "plan",
        help="print a plan that spreads topics over brokers",
        description="Print a plan that spreads the partitions of topics evenly over brokers and racks. Nothing is moved.",
    )
    add_partitions(part, "topics or partitions to move")
    part.add_argument(
        "--brokers",
        metavar="ID,ID",
        type=naturals,
        help="spread the partitions over these brokers (default: all live brokers)",
    )
    part.add_argument(
        "--replication-factor",
        metavar="N",
        type=positive,
        help="change the number of replicas to N (default: keep the number)",
    )
    part.add_argument("--ignore-racks", action="store_true", help="do not spread replicas over racks")
    part.add_argument(
        "--current",
        metavar="FILE",
        type=Path,
        help="write the current assignment to this file, so that you can undo the moves later",
    )
    add_common(part, plan, "no effect: the plan is always JSON")

    part = parts.add_parser(
        "execute",
        help="start the moves of a plan",
        description="Start the moves of a plan. First, print the current assignment, as a plan that undoes the moves.",
    )
    part.add_argument("plan", metavar="PLAN", type=read_plan, help="file with a plan; - is standard input")
    part.add_argument(
        "--throttle", metavar="BYTES", type=positive, help="limit the moves to this many bytes a second on each broker"
    )
    part.add_argument(
        "--log-dir-throttle",
        metavar="BYTES",
        type=positive,
        help="limit moves between directories to this many bytes a second on each broker",
    )
    part.add_argument("--wait", action="store_true", help="wait until the moves are finished, and remove the throttle")
    add_confirmation(part)
    add_common(part, execute, "print one JSON object, with the partitions and their previous and new replicas")

    part = parts.add_parser(
        "verify",
        help="print the progress of a plan, and remove its throttle",
        description="Print the progress of a plan. When no partition of the plan is moving any more, the command "
        "removes the throttle. If a move is not finished, the exit code is 1.",
    )
    part.add_argument("plan", metavar="PLAN", type=read_plan, help="file with a plan; - is standard input")
    part.add_argument("--keep-throttle", action="store_true", help="do not remove the throttle")
    add_common(part, verify, "print one JSON object, with the partitions and their states")

    part = parts.add_parser(
        "list", help="print moves that are not finished", description="Print the moves that are not finished."
    )
    add_common(part, list_moves, "print one JSON object, with the partitions", controllers=True)

    part = parts.add_parser(
        "cancel",
        help="cancel the moves of a plan",
        description="Cancel moves: the partitions return to their previous replicas.",
    )
    part.add_argument(
        "plan",
        metavar="PLAN",
        type=read_plan,
        nargs="?",
        help="file with a plan; - is standard input (default: cancel all moves)",
    )
    part.add_argument("--keep-throttle", action="store_true", help="do not remove the throttle")
    add_confirmation(part)
    add_common(part, cancel, "print one JSON object, with the partitions", controllers=True)


class PlanFile:
    """A plan, and the directories that the plan names for replicas."""

    def __init__(self, replicas: Plan, paths: dict[Replica, str]) -> None:
        self.replicas = replicas
        self.paths = paths


def read_plan(name: str) -> PlanFile:
    """Read a plan from a JSON file, or from standard input for `-`."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise argparse.ArgumentTypeError(f"cannot read {name}: {why}") from None
    try:
        replicas: Plan = {}
        paths: dict[Replica, str] = {}
        for each in json.loads(text)["partitions"]:
            tp = klamm.TopicPartition(str(each["topic"]), int(each["partition"]))
            replicas[tp] = [int(broker) for broker in each["replicas"]]
            dirs = each.get("log_dirs") or [DEFAULTS] * len(replicas[tp])
            paths |= {
                Replica(tp.topic, tp.partition, broker): path
                for broker, path in zip(replicas[tp], dirs, strict=True)
                if path != DEFAULTS
            }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise argparse.ArgumentTypeError(f"{name} is not a plan; `klamm reassign plan` prints one") from None
    if not replicas:
        raise argparse.ArgumentTypeError(f"{name} moves no partition")
    return PlanFile(replicas, paths)


def plan_text(replicas: Mapping[klamm.TopicPartition, Sequence[int]]) -> str:
    """Return a plan as JSON text, with the fields in the order of kafka-reassign-partitions."""
    parts = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(brokers), "log_dirs": [DEFAULTS] * len(brokers)}
        for tp, brokers in sorted(replicas.items())
    ]
    return json.dumps({"version": 1, "partitions": parts})


def current_replicas(admin: klamm.Admin, topics: Iterable[str]) -> Plan:
    """Return the broker IDs of the replicas, for all partitions of the topics."""
    descriptions = admin.describe_topics(sorted(set(topics)))
    return {
        klamm.TopicPartition(name, part.partition): list(part.replicas)
        for name, topic in descriptions.items()
        for part in topic.partitions
    }


def plan(args: argparse.Namespace, _: Output) -> int:
    """Compute and print a plan."""
    with klamm.Admin(admin_config(args)) as admin:
        nodes = {node.id: node for node in admin.describe_cluster().brokers}
        unknown = sorted(set(args.brokers or ()) - nodes.keys())
        if unknown:
            raise CommandError(f"broker {unknown[0]} is not alive", f"use brokers of {words(sorted(nodes))}")
        chosen = sorted(set(args.brokers or nodes))
        partitions = expand(admin, args.topics)
        now = current_replicas(admin, {tp.topic for tp in partitions})
    racks = {broker: None if args.ignore_racks else nodes[broker].rack for broker in chosen}
    before = {tp: now[tp] for tp in partitions}
    factor = args.replication_factor
    too_many = max(factor or len(replicas) for replicas in before.values())
    if too_many > len(chosen):
        raise CommandError(
            f"cannot place {counted(too_many, 'replica')} on {counted(len(chosen), 'broker')}",
            "name more brokers with --brokers",
        )
    if args.current is not None:
        args.current.write_text(plan_text(before) + "\n", encoding="utf-8")
    print(plan_text(spread({tp: factor or len(replicas) for tp, replicas in before.items()}, racks)), file=sys.stdout)
    return 0


def spread(factors: Mapping[klamm.TopicPartition, int], racks: Mapping[int, str | None]) -> Plan:
    """Return an assignment that distributes leaders and replicas evenly, and each partition's replicas over racks."""
    of_rack: dict[str | None, list[int]] = defaultdict(list)
    for broker in sorted(racks):
        of_rack[racks[broker]].append(broker)
    # Neighbours in the ring are in different racks: first comes one broker of each rack, then a second broker of each
    # rack.
    ring = [broker for row in zip_longest(*of_rack.values()) for broker in row if broker is not None]
    assignment: Plan = {}
    shift = 0
    for at, (tp, factor) in enumerate(sorted(factors.items())):
        first = at % len(ring)
        if at and first == 0:
            shift += 1
        # A leader's followers differ from round to round. If the leader fails, its followers share its load.
        others = [
            ring[(first + 1 + (shift + step) % max(len(ring) - 1, 1)) % len(ring)] for step in range(len(ring) - 1)
        ]
        replicas = [ring[first]]
        while len(replicas) < factor:
            used = {racks[broker] for broker in replicas}
            fresh = [broker for broker in others if broker not in replicas and racks[broker] not in used]
            replicas.append((fresh or [broker for broker in others if broker not in replicas])[0])
        assignment[tp] = replicas
    return assignment


def execute(args: argparse.Namespace, output: Output) -> int:
    """Start moves."""
    wanted: Plan = args.plan.replicas
    with klamm.Admin(admin_config(args)) as admin:
        now = current_replicas(admin, {tp.topic for tp in wanted})
        missing = sorted(tp for tp in wanted if tp not in now)
        if missing:
            raise CommandError(f"topic {missing[0].topic!r} has no partition {missing[0].partition}", "make a new plan")
        before = {tp: now[tp] for tp in wanted}
        lines = [
            f"move {tp.topic}-{tp.partition} from {words(before[tp])} to {words(wanted[tp])}" for tp in sorted(wanted)
        ]
        if not output.confirmed(args, lines):
            return 0
        if not output.json:
            print(f"current assignment, to move back later:\n{plan_text(before)}", file=sys.stderr)
        if args.throttle is not None or args.log_dir_throttle is not None:
            throttle(admin, before, wanted, args.throttle, args.log_dir_throttle)
        if args.plan.paths:
            # If a broker does not have the replica yet, it stores the directory for later, but still responds with an error.
            with suppress(ReplicaNotAvailableError, CombinedError):
                admin.alter_replica_log_dirs(args.plan.paths)
        admin.alter_partition_reassignments(wanted, wait=args.wait)
        if args.wait and args.throttle is not None:
            remove_throttle(admin, wanted)
    listed = [
        {"topic": tp.topic, "partition": tp.partition, "previous": before[tp], "replicas": wanted[tp]}
        for tp in sorted(wanted)
    ]
    progress = "" if args.wait else "; `klamm reassign verify` shows the progress"
    line = f"{'finished' if args.wait else 'started'} {counted(len(listed), 'move')}{progress}"
    return output.result_or_lines({"finished": args.wait, "partitions": listed}, line)


def throttle(admin: klamm.Admin, before: Plan, after: Plan, rate: int | None, dir_rate: int | None) -> None:
    """Limit the rate of the moves. Only replicas that move are throttled, so that in-sync followers keep up."""
    # Each broker changes its own configuration, so the limits of a broker that is down cannot change.
    alive = {node.id for node in admin.describe_cluster().brokers}
    brokers = alive & {broker for replicas in (*before.values(), *after.values()) for broker in replicas}
    changes: dict[ConfigResource, list[ConfigChange]] = {
        ConfigResource("broker", str(broker)): [] for broker in sorted(brokers)
    }
    limits = [ConfigChange(name, rate) for name in RATES if rate is not None]
    limits += [ConfigChange(LOG_DIR_RATE, dir_rate)] if dir_rate is not None else []
    changes.update(dict.fromkeys(changes, limits))
    if rate is not None:
        sources: dict[str, list[str]] = defaultdict(list)
        targets: dict[str, list[str]] = defaultdict(list)
        for tp, replicas in sorted(after.items()):
            new = [broker for broker in replicas if broker not in before[tp]]
            if new:
                sources[tp.topic] += [f"{tp.partition}:{broker}" for broker in before[tp]]
                targets[tp.topic] += [f"{tp.partition}:{broker}" for broker in new]
        for topic, replicas_of_topic in sources.items():
            changes[ConfigResource("topic", topic)] = [
                ConfigChange(THROTTLED[0], ",".join(replicas_of_topic)),
                ConfigChange(THROTTLED[1], ",".join(targets[topic])),
            ]
    admin.incremental_alter_configs(changes)


def remove_throttle(admin: klamm.Admin, plan: Plan, brokers: Iterable[int] | None = None) -> None:
    """Remove the limits from the topics of a plan, and from the given brokers (default: all brokers)."""

    def resets(*names: str) -> list[ConfigChange]:
        return [ConfigChange(name, None, ConfigOperation.DELETE) for name in names]

    topics = {ConfigResource("topic", topic): resets(*THROTTLED) for topic in {tp.topic for tp in plan}}
    if brokers is None:
        brokers = [node.id for node in admin.describe_cluster().brokers]
    admin.incremental_alter_configs(
        topics | {ConfigResource("broker", str(broker)): resets(*RATES, LOG_DIR_RATE) for broker in brokers}
    )


def verify(args: argparse.Namespace, output: Output) -> int:
    """Print the progress of a plan, and remove the throttle when no partition moves any more."""
    wanted: Plan = args.plan.replicas
    with klamm.Admin(admin_config(args)) as admin:
        now = current_replicas(admin, {tp.topic for tp in wanted})
        moving = admin.list_partition_reassignments(wanted)
        listed: list[dict[str, Any]] = []
        for tp in sorted(wanted):
            state = "moving" if tp in moving else "finished" if now.get(tp) == wanted[tp] else "differs"
            listed.append({"topic": tp.topic, "partition": tp.partition, "state": state, "replicas": now.get(tp, [])})
        if not moving and not args.keep_throttle:
            remove_throttle(admin, wanted)
    finished = all(each["state"] == "finished" for each in listed)
    rows = [(each["topic"], str(each["partition"]), each["state"], words(each["replicas"])) for each in listed]
    value = {"finished": finished, "partitions": listed}
    output.result_or_table(value, ("topic", "partition", "state", "replicas"), rows)
    return 0 if finished else 1


def list_moves(args: argparse.Namespace, output: Output) -> int:
    """Print the moves that are not finished."""
    with klamm.Admin(admin_config(args)) as admin:
        reassignments = admin.list_partition_reassignments()
    listed = [{**as_json(tp), **as_json(each)} for tp, each in sorted(reassignments.items())]
    rows = [
        (tp.topic, str(tp.partition), words(each.replicas), words(each.adding), words(each.removing))
        for tp, each in sorted(reassignments.items())
    ]
    return output.result_or_table(
        {"partitions": listed}, ("topic", "partition", "replicas", "adding", "removing"), rows
    )


def cancel(args: argparse.Namespace, output: Output) -> int:
    """Cancel moves."""
    config = admin_config(args)
    with klamm.Admin(config) as admin:
        wanted: Plan | None = args.plan.replicas if args.plan else None
        moving = admin.list_partition_reassignments(wanted)
        if not moving:
            raise CommandError("no partition is being moved", "see `klamm reassign list`")
        if not output.confirmed(args, [f"cancel the move of {tp.topic}-{tp.partition}" for tp in sorted(moving)]):
            return 0
        admin.alter_partition_reassignments(dict.fromkeys(moving))
        if not args.keep_throttle:
            plan = {tp: each.replicas for tp, each in moving.items()}
            # Controllers do not return a list of all brokers.
            own = {broker for replicas in plan.values() for broker in replicas} if CONTROLLERS in config else None
            remove_throttle(admin, plan, own)
    listed = [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(moving)]
    return output.result_or_lines({"cancelled": listed}, f"cancelled {counted(len(listed), 'move')}")
