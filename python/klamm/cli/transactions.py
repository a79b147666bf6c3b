"""`klamm transactions`: lists transactions and producers, and finds and aborts hanging transactions, as kafka-transactions does."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import admin_config
from klamm.cli.options import add_common, add_confirmation, add_repeated, duration, natural
from klamm.cli.output import CommandError
from klamm.cli.values import add_partitions, all_partitions, as_json, expand, moment, one_partition, words
from klamm.errors import TransactionalIdNotFoundError

if TYPE_CHECKING:
    import argparse

    from klamm.admin import ProducerState
    from klamm.cli.options import Commands
    from klamm.cli.output import Output

FIFTEEN_MINUTES = 900_000
"""Default of the brokers' `transaction.max.timeout.ms`."""
LEASE_MS = 300_000
"""Maximum time until the coordinator ends a transaction that has timed out, in milliseconds."""


def add(commands: Commands) -> None:
    """Declare the command and its actions."""
    parser = commands.add_parser(
        "transactions",
        help="list transactions, and find and abort hanging transactions",
        description="List transactions and producers, and find and abort hanging transactions (Kafka 3.0).",
    )
    parts = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    part = parts.add_parser(
        "list", help="print transactional IDs", description="Print transactional IDs with their states."
    )
    add_repeated(part, "--state", "states", "STATE", "print only transactions in this state, such as Ongoing")
    add_repeated(
        part,
        "--producer-id",
        "producer_ids",
        "N",
        "print only transactions of the producer with this ID",
        parse=natural,
    )
    part.add_argument(
        "--longer-than",
        metavar="DURATION",
        type=duration,
        help="print only transactions that have been open for longer than DURATION (Kafka 3.8)",
    )
    part.add_argument(
        "--matching", metavar="REGEX", help="print only IDs that this regular expression matches (Kafka 4.1)"
    )
    add_common(part, list_transactions, "print one JSON object, with the transactions")

    part = parts.add_parser(
        "describe", help="print the state of transactional IDs", description="Print the state of transactional IDs."
    )
    part.add_argument("ids", metavar="ID", nargs="+", help="transactional IDs")
    add_common(part, describe, "print one JSON object, with the transactions")

    part = parts.add_parser(
        "producers",
        help="print the producers of partitions",
        description="Print the idempotent and transactional producers that have written to partitions (Kafka 2.8).",
    )
    add_partitions(part, "partitions to look at")
    part.add_argument(
        "--broker", metavar="ID", type=natural, help="ask the replica on this broker (default: the leaders)"
    )
    add_common(part, producers, "print one JSON object, with the partitions and their producers")

    part = parts.add_parser(
        "find-hanging",
        help="find transactions that no coordinator will end",
        description="Find transactions that are open in a partition, but that no coordinator will end. A hanging "
        "transaction blocks consumers with read_committed. The exit code is 1 if the command finds a hanging "
        "transaction.",
    )
    add_partitions(part, "partitions to look at (default: all)", nargs="*")
    part.add_argument(
        "--max-timeout",
        metavar="DURATION",
        type=duration,
        default=FIFTEEN_MINUTES,
        help="transaction.max.timeout.ms of the brokers (default: 15m)",
    )
    add_common(part, find_hanging, "print one JSON object, with the hanging transactions")

    part = parts.add_parser(
        "abort",
        help="abort a transaction that hangs in a partition",
        description="Abort a transaction that hangs in a partition. `find-hanging` prints the partition and the start offset.",
    )
    part.add_argument("partition", metavar="TOPIC:N", type=one_partition, help="the partition")
    part.add_argument(
        "--start-offset", metavar="N", type=natural, required=True, help="first offset of the transaction"
    )
    add_confirmation(part)
    add_common(part, abort, "print one JSON object, with the aborted transaction")

    part = parts.add_parser(
        "terminate",
        help="abort the open transaction of a transactional ID",
        description="Abort the open transactions of transactional IDs, and fence the producers with these IDs.",
    )
    part.add_argument("ids", metavar="ID", nargs="+", help="transactional IDs")
    add_confirmation(part)
    add_common(part, terminate, "print one JSON object, with the terminated IDs")


def list_transactions(args: argparse.Namespace, output: Output) -> int:
    """Print transactional IDs."""
    with klamm.Admin(admin_config(args)) as admin:
        listed = admin.list_transactions(
            args.states, args.producer_ids, min_duration_ms=args.longer_than, pattern=args.matching
        )
    listed.sort(key=lambda each: each.transactional_id)
    rows = [(each.transactional_id, str(each.producer_id), each.state, str(each.coordinator)) for each in listed]
    columns = ("transactional id", "producer id", "state", "coordinator")
    return output.result_or_table({"transactions": as_json(listed)}, columns, rows)


def describe(args: argparse.Namespace, output: Output) -> int:
    """Print transactional IDs with their open transactions."""
    with klamm.Admin(admin_config(args)) as admin:
        descriptions = output.found(lambda: admin.describe_transactions(args.ids))
        coordinators = admin.find_coordinators(list(descriptions), "transaction")
    listed = [
        {"transactional_id": key, "coordinator": coordinators[key].id, **as_json(each)}
        for key, each in descriptions.items()
    ]
    columns = (
        "transactional id",
        "coordinator",
        "producer id",
        "epoch",
        "state",
        "timeout ms",
        "started",
        "partitions",
    )
    rows = [
        (
            key,
            str(coordinators[key].id),
            str(each.producer_id),
            each.producer_epoch,
            each.state,
            each.timeout_ms,
            moment(each.start_ms),
            words(f"{tp.topic}-{tp.partition}" for tp in sorted(each.partitions)),
        )
        for key, each in descriptions.items()
    ]
    return output.result_or_table({"transactions": listed}, columns, rows)


def producers(args: argparse.Namespace, output: Output) -> int:
    """Print the state of each producer of the partitions."""
    with klamm.Admin(admin_config(args)) as admin:
        producers = output.found(lambda: admin.describe_producers(expand(admin, args.topics), broker=args.broker))
    listed = [{**as_json(tp), "producers": as_json(each)} for tp, each in producers.items()]
    rows = [
        (
            tp.topic,
            str(tp.partition),
            str(each.producer_id),
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            moment(each.last_timestamp_ms),
            each.transaction_start_offset,
        )
        for tp, states in producers.items()
        for each in states
    ]
    columns = (
        "topic",
        "partition",
        "producer id",
        "epoch",
        "coordinator epoch",
        "last sequence",
        "last record",
        "open from",
    )
    return output.result_or_table({"partitions": listed}, columns, rows)


@dataclass(frozen=True)
class Hanging:
    """A transaction that hangs in a partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int
    transactional_id: str | None


def find_hanging(args: argparse.Namespace, output: Output) -> int:
    """Print transactions that hang."""
    with klamm.Admin(admin_config(args)) as admin:
        partitions = expand(admin, args.topics) or all_partitions(admin, internal=True)
        hanging_transactions = hanging(admin, partitions, args.max_timeout + LEASE_MS)
    rows = [
        (
            each.topic,
            str(each.partition),
            str(each.producer_id),
            each.producer_epoch,
            each.coordinator_epoch,
            each.start_offset,
            moment(each.last_timestamp_ms),
            each.transactional_id,
        )
        for each in hanging_transactions
    ]
    columns = (
        "topic",
        "partition",
        "producer id",
        "epoch",
        "coordinator epoch",
        "start offset",
        "last record",
        "transactional id",
    )
    output.result_or_table({"hanging": as_json(hanging_transactions)}, columns, rows)
    return 1 if hanging_transactions else 0


def hanging(admin: klamm.Admin, partitions: list[klamm.TopicPartition], timeout_ms: int) -> list[Hanging]:
    """Return the open transactions that no coordinator will end.

    The last record of a hanging transaction is older than `timeout_ms`, and no coordinator knows that the transaction
    is open.
    """
    latest = time.time() * 1000 - timeout_ms
    producers = admin.describe_producers(partitions) if partitions else {}
    old = [
        (tp, state)
        for tp, states in producers.items()
        for state in states
        if state.transaction_start_offset is not None and state.last_timestamp_ms < latest
    ]
    ids: dict[int, str] = {}
    if old:
        listed = admin.list_transactions(producer_ids=sorted({state.producer_id for _, state in old}))
        ids = {each.producer_id: each.transactional_id for each in listed}
    return [hang(tp, state, ids) for tp, state in old if not is_known(admin, tp, state, ids.get(state.producer_id))]


def is_known(admin: klamm.Admin, tp: klamm.TopicPartition, state: ProducerState, transactional_id: str | None) -> bool:
    """Return whether the coordinator knows that a transaction is open in a partition, and will therefore end it."""
    if transactional_id is None:
        return False
    try:
        description = admin.describe_transactions([transactional_id])[transactional_id]
    except TransactionalIdNotFoundError:
        return False
    return description.producer_id == state.producer_id and tp in description.partitions


def hang(tp: klamm.TopicPartition, state: ProducerState, ids: dict[int, str]) -> Hanging:
    """Return a hanging transaction: its partition, its producer, and its transactional ID if the ID is in `ids`."""
    return Hanging(
        tp.topic,
        tp.partition,
        state.producer_id,
        state.producer_epoch,
        # The coordinator epoch is unknown until the coordinator has written a transaction marker.
        state.coordinator_epoch if state.coordinator_epoch is not None else 0,
        state.transaction_start_offset or 0,
        state.last_timestamp_ms,
        ids.get(state.producer_id),
    )


def abort(args: argparse.Namespace, output: Output) -> int:
    """Abort a transaction in a partition."""
    tp = args.partition
    with klamm.Admin(admin_config(args)) as admin:
        states = admin.describe_producers([tp])[tp]
        state = next((each for each in states if each.transaction_start_offset == args.start_offset), None)
        if state is None:
            raise CommandError(
                f"no open transaction of {tp.topic}-{tp.partition} starts at offset {args.start_offset}",
                "see `klamm transactions producers` or `klamm transactions find-hanging`",
            )
        hanging_transaction = hang(tp, state, {})
        question = f"abort the transaction of producer {hanging_transaction.producer_id} in {tp.topic}-{tp.partition} from offset {hanging_transaction.start_offset}"
        if not output.confirmed(args, [question]):
            return 0
        admin.abort_transaction(
            tp,
            hanging_transaction.producer_id,
            hanging_transaction.producer_epoch,
            hanging_transaction.coordinator_epoch,
        )
    line = f"aborted the transaction from offset {hanging_transaction.start_offset} of {tp.topic}-{tp.partition}"
    return output.result_or_lines({"aborted": as_json(hanging_transaction)}, line)


def terminate(args: argparse.Namespace, output: Output) -> int:
    """Abort open transactions of transactional IDs."""
    with klamm.Admin(admin_config(args)) as admin:
        if not output.confirmed(
            args, [f"abort the open transaction of {each} and fence its producers" for each in args.ids]
        ):
            return 0
        return output.done("terminated", args.ids, admin.force_terminate_transaction)
