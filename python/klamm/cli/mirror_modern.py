"""`klamm mirror`: copies a topic between two clusters of Kafka 0.11 or newer.

Each poll of the source becomes one transaction in the target. The transaction contains the records, and commits the
next source offset of each partition to a group in the target. An interrupted copy therefore continues without losing or
repeating a record. Each record gets a header with its source offset. The command uses the source offsets in the headers
to translate the committed offsets of groups.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import closing
from klamm.cli.color import print_warning
from klamm.cli.output import CommandError, counted
from klamm.errors import BrokerError, TopicAlreadyExistsError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from klamm.cli.output import Output

OFFSET_HEADER = "klamm.source.offset"
POLL_SECONDS = 0.25
POLL_RECORDS = 5_000
GROUPS_SECONDS = 10.0
"""With `--follow`, seconds between two translations of the groups' offsets."""
PROBE_SECONDS = 10.0


def run(
    args: argparse.Namespace,
    output: Output,
    source: Mapping[str, dict[str, str]],
    target: Mapping[str, dict[str, str]],
) -> int:
    """Copy until the current end of the topic, or with `--follow` until Ctrl+C.

    Args:
        args: The arguments of the command.
        output: Where to print.
        source: Configurations of the clients that connect to the source cluster.
        target: Configurations of the clients that connect to the target cluster.
    """
    started = time.monotonic()
    old, new = args.source.topic, args.target.topic
    reader = klamm.Consumer(
        {"isolation.level": "read_committed", "allow.auto.create.topics": "false", **source["consumer"]}
    )
    with closing(reader):
        numbers = sorted(reader.partitions_for(old))
        with klamm.Admin(source["admin"]) as admin:
            cluster = admin.describe_cluster().cluster_id or source["admin"]["bootstrap.servers"]
        make_topic(target["admin"], new, len(numbers))
        name = f"klamm-mirror/{cluster}/{old}"
        producer = klamm.Producer({**target["producer"], "transactional.id": f"{name}→{new}"})
        with closing(producer):
            check_partitions(producer, new, numbers)
            with producer.transaction():
                pass  # ends an open transaction of an earlier run, before this run reads the offsets
            copy = Copy(reader, producer, args, name)
            copy.start(target["consumer"], numbers)
            with output.progress(f"mirror {old}", None if args.follow else copy.remaining()) as advance:
                translated = time.monotonic()
                while args.follow or copy.remaining():
                    advance(copy.once(), 0)
                    if args.groups and args.follow and time.monotonic() - translated > GROUPS_SECONDS:
                        translate(args, source, target, copy.positions)
                        translated = time.monotonic()
            groups = translate(args, source, target, copy.positions) if args.groups else {}
    seconds = time.monotonic() - started
    if args.json:
        result = {"topic": new, "records": copy.records, "bytes": copy.bytes, "seconds": round(seconds, 3)}
        done = {str(number): offset for number, offset in copy.positions.items()}
        output.result({**result, "offsets": done, "groups": groups})
    else:
        output.say(summary(args, copy.records, copy.bytes, len(copy.positions), seconds))
        for group, offsets in groups.items():
            output.say(f"committed {counted(len(offsets), 'offset')} of group {group}")
    return 0


def summary(args: argparse.Namespace, records: int, size: int, partitions: int, seconds: float) -> str:
    """Return the line that says what the command has copied."""
    return (
        f"copied {counted(records, 'record')} ({counted(size, 'byte')}) of {counted(partitions, 'partition')} "
        f"from {args.source.topic} to {args.target.topic} in {seconds:.2f} s"
    )


class Copy:
    """The state of a copy. `positions` maps each partition to the next source offset to copy."""

    def __init__(self, reader: klamm.Consumer, producer: klamm.Producer, args: argparse.Namespace, name: str) -> None:
        self._reader = reader
        self._producer = producer
        self._args = args
        self._group = klamm.GroupMetadata(name)
        self._ends: dict[int, int] = {}
        self.positions: dict[int, int] = {}
        self.records = 0
        self.bytes = 0

    def start(self, target: dict[str, str], numbers: list[int]) -> None:
        """Look up the offsets at which the copy continues, and assign the partitions."""
        old, new = self._args.source.topic, self._args.target.topic
        sources = [klamm.TopicPartition(old, number) for number in numbers]
        begins, ends = self._reader.beginning_offsets(sources), self._reader.end_offsets(sources)
        with klamm.Consumer(target, group_id=self._group.group_id, enable_auto_commit=False) as stored:
            committed = stored.committed([klamm.TopicPartition(new, number) for number in numbers])
        for tp in sources:
            done = committed[klamm.TopicPartition(new, tp.partition)]
            if done is not None and done < begins[tp]:
                print_warning(
                    f"records of {old}-{tp.partition} from offset {done} to {begins[tp]} were deleted before they were copied"
                )
            self.positions[tp.partition] = begins[tp] if done is None else max(done, begins[tp])
            self._ends[tp.partition] = ends[tp]
        self._reader.assign([klamm.TopicPartition(old, number, self.positions[number]) for number in numbers])

    def remaining(self) -> int:
        """Return how many source offsets remain until the end offsets that the topic had when the copy started."""
        return sum(max(end - self.positions[number], 0) for number, end in self._ends.items())

    def once(self) -> int:
        """Copy the records of one poll in one transaction, and return the number of offsets by which the copy advanced."""
        batch = self._reader.poll(POLL_SECONDS, POLL_RECORDS)
        old, new = self._args.source.topic, self._args.target.topic
        after = {number: self._reader.position(klamm.TopicPartition(old, number)) for number in self.positions}
        if not batch and after == self.positions:
            return 0
        with self._producer.transaction() as transaction:
            for record in batch:
                headers = [*record.headers, (OFFSET_HEADER, b"%d" % record.offset)]
                transaction.send_nowait(
                    new,
                    record.value,
                    key=record.key,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
                    headers=headers,
                )
                self.bytes += len(record.value or b"")
            moved = {number: offset for number, offset in after.items() if offset != self.positions[number]}
            transaction.commit_offsets(
                self._group, {klamm.TopicPartition(new, number): offset for number, offset in moved.items()}
            )
        advanced = sum(after.values()) - sum(self.positions.values())
        self.positions.update(after)
        self.records += len(batch)
        return advanced


def make_topic(config: dict[str, str], topic: str, partitions: int) -> None:
    """Create the target topic, if it does not exist."""
    with klamm.Admin(config) as admin, suppress(TopicAlreadyExistsError):
        admin.create_topics({topic: klamm.NewTopic(partitions=partitions)}, wait=True)


def check_partitions(producer: klamm.Producer, topic: str, numbers: list[int]) -> None:
    """Raise if the target topic has too few partitions: each record keeps the number of its partition."""
    there = producer.partitions_for(topic)
    if not set(numbers) <= set(there):
        raise CommandError(
            f"topic {topic!r} of the target has {counted(len(there), 'partition')}, and the source has {len(numbers)}",
            f"run `klamm topics add-partitions {topic} --total {len(numbers)}` on the target",
        )


def translate(
    args: argparse.Namespace,
    source: Mapping[str, dict[str, str]],
    target: Mapping[str, dict[str, str]],
    positions: Mapping[int, int],
) -> dict[str, dict[str, int]]:
    """Commit the translated offsets of groups in the target. Return the committed offsets by group and partition."""
    old, new = args.source.topic, args.target.topic
    result: dict[str, dict[str, int]] = {}
    with (
        klamm.Admin(source["admin"]) as reading,
        klamm.Admin(target["admin"]) as writing,
        closing(klamm.Consumer({**target["consumer"], "isolation.level": "read_committed"})) as probe,
    ):
        for group in args.groups:
            committed = {
                tp.partition: offset
                for tp, offset in reading.group_offsets(group).items()
                if tp.topic == old and tp.partition in positions
            }
            offsets = {
                number: target_offset(probe, klamm.TopicPartition(new, number), offset)
                for number, offset in committed.items()
            }
            try:
                writing.alter_group_offsets(
                    group, {klamm.TopicPartition(new, number): offset for number, offset in offsets.items()}
                )
            except BrokerError as error:
                print_warning(f"group {group} was not translated: {error.message}")
                continue
            result[group] = {str(number): offset for number, offset in sorted(offsets.items())}
    return result


def target_offset(probe: klamm.Consumer, tp: klamm.TopicPartition, wanted: int) -> int:
    """Return the target offset of the first record whose source offset is at least `wanted`.

    If all source offsets are below `wanted`, return an offset after the last copied record.
    """
    low, end = probe.beginning_offsets([tp])[tp], probe.end_offsets([tp])[tp]
    high = end
    # Source offsets increase with target offsets, so a binary search finds the record.
    while low < high:
        middle = (low + high) // 2
        record = first_record(probe, tp, middle, end)
        if record is None:
            high = middle
        elif record[1] < wanted:
            low = record[0] + 1
        elif middle == low:
            return record[0]
        else:
            high = middle
    return low


def first_record(probe: klamm.Consumer, tp: klamm.TopicPartition, offset: int, end: int) -> tuple[int, int] | None:
    """Return the target offset and the source offset of the first copied record at or after `offset`.

    Return None if there is no copied record at or after `offset`.
    """
    probe.assign([klamm.TopicPartition(tp.topic, tp.partition, offset, end)])
    limit = time.monotonic() + PROBE_SECONDS
    while probe.position(tp) < end:
        for record in probe.poll(POLL_SECONDS, 1):
            for name, value in record.headers:
                if name == OFFSET_HEADER and value is not None:
                    return record.offset, int(value)
        if time.monotonic() > limit:
            raise CommandError(
                f"cannot read {tp.topic}-{tp.partition} of the target at offset {offset}",
                "check the brokers of the target",
            )
    return None
