"""`klamm mirror`: copy a topic of Kafka 0.6 or 0.7 into a cluster of today.

A transaction for what one fetch gave: the records, and the byte offset behind them as the offset of a group of its own, one
for each old partition. So a copy that was interrupted goes on where it was, and no record is there twice.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import klamm
from klamm import legacy
from klamm.cli.clients import closing
from klamm.cli.options import add_json, add_settings, positive
from klamm.cli.output import CommandError
from klamm.errors import TopicAlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.cli.options import Commands
    from klamm.cli.output import Advance, Output

IDLE_SECONDS = 1.0
"""Between looks for more at the end of the topic."""


@dataclass(frozen=True)
class Source:
    """A topic of an old broker."""

    magic: int
    broker: str
    topic: str


@dataclass(frozen=True)
class Target:
    """A topic of a cluster of today."""

    bootstrap: str
    topic: str


@dataclass
class Copied:
    """What was done so far."""

    offsets: dict[int, int]
    """Where each old partition goes on."""
    ends: Mapping[int, int]
    """Where each ended at the start."""
    records: int = 0
    bytes: int = 0


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "mirror",
        help="copy a topic of Kafka 0.6 or 0.7 into a cluster of today",
        description="Copy a topic of a broker of Kafka 0.6 or 0.7 into a cluster of today, and end at what is its end now. "
        "Started again it goes on where it was. Records have no key, and headers: source.broker, source.partition, "
        "source.offset (a byte offset), and source.index where several messages came compressed at one offset.",
    )
    parser.add_argument("--from", dest="source", metavar="0.7://HOST:PORT/TOPIC", type=source, required=True)
    parser.add_argument("--to", dest="target", metavar="HOST:PORT/TOPIC", type=target, required=True)
    parser.add_argument("--follow", action="store_true", help="go on at the end, for ever")
    parser.add_argument(
        "--fetch-size", metavar="BYTES", type=positive, default=1 << 20, help="of one fetch (default: %(default)s)"
    )
    add_settings(parser, "any setting of the new cluster's clients by its Kafka name; may be repeated")
    add_json(parser, "print one object at the end: records, bytes (of values), seconds, offsets by old partition")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, output: Output) -> int:
    """Copy until the end, or Ctrl+C."""
    old: Source = args.source
    new: Target = args.target
    started = time.monotonic()
    config = {"bootstrap.servers": new.bootstrap, **dict(args.config)}
    with legacy.Consumer07(old.broker, magic=old.magic, fetch_size=args.fetch_size) as consumer:
        partitions = old_partitions(consumer, old.topic)
        make_topic(config, new.topic, len(partitions))
        producer = klamm.Producer(config | {"transactional.id": f"{group(old, 0)}→{new.topic}"})
        with closing(producer):
            with producer.transaction():
                pass  # ends what an earlier run left open, before its offsets are asked for
            offsets = positions(config, old, new, consumer, partitions)
            copied = Copied(offsets, {number: consumer.latest(old.topic, number) for number in partitions})
            total = sum(max(0, copied.ends[number] - offsets[number]) for number in partitions)
            with output.progress(f"mirror {old.topic}", None if args.follow else total) as advance:
                while copy_once(consumer, producer, args, copied, advance) or args.follow:
                    pass
    seconds = time.monotonic() - started
    if args.json:
        done = {str(number): offset for number, offset in offsets.items()}
        result = {"topic": new.topic, "records": copied.records, "bytes": copied.bytes, "seconds": round(seconds, 3)}
        output.result(result | {"offsets": done})
    elif sys.stderr.isatty():
        print(f"{copied.records:,} records, {copied.bytes:,} bytes in {seconds:.2f} s", file=sys.stderr)
    return 0


def copy_once(
    consumer: legacy.Consumer07,
    producer: klamm.Producer,
    args: argparse.Namespace,
    copied: Copied,
    advance: Advance,
) -> bool:
    """Copy a fetch of each partition that is not at its end; say whether there was any."""
    old: Source = args.source
    new: Target = args.target
    any_came = False
    targets = producer.partitions_for(new.topic)
    for number, offset in copied.offsets.items():
        if not args.follow and offset >= copied.ends[number]:
            continue
        fetched = consumer.fetch(old.topic, number, offset)
        if fetched.next_offset == offset:
            continue
        any_came = True
        with producer.transaction() as tx:
            for message in fetched.messages:
                headers = [
                    ("source.broker", old.broker.encode()),
                    ("source.partition", b"%d" % number),
                    ("source.offset", b"%d" % message.offset),
                ]
                if message.count > 1:
                    headers.append(("source.index", b"%d" % message.index))
                to = targets[number % len(targets)]
                tx.send_nowait(new.topic, message.payload, partition=to, headers=headers)
                copied.bytes += len(message.payload)
            place = klamm.TopicPartition(new.topic, targets[0])
            tx.commit_offsets(klamm.GroupMetadata(group(old, number)), {place: fetched.next_offset})
        copied.offsets[number] = fetched.next_offset
        copied.records += len(fetched.messages)
        advance(fetched.next_offset - offset, len(fetched.messages))
    if args.follow and not any_came:
        time.sleep(IDLE_SECONDS)
    return any_came


def group(old: Source, partition: int) -> str:
    """Name the group that holds the offset of an old partition."""
    return f"klamm-mirror/{old.broker}/{old.topic}/{partition}"


def old_partitions(consumer: legacy.Consumer07, topic: str) -> list[int]:
    """Return the partitions that a broker has of a topic."""
    found = consumer.partitions(topic)
    if not any(consumer.latest(topic, number) for number in found):
        raise CommandError(
            f"broker {consumer.broker} has nothing in topic {topic!r}", "old brokers know any topic: is the name right?"
        )
    return found


def make_topic(config: Mapping[str, str], topic: str, partitions: int) -> None:
    """Create the new topic, unless it is there."""
    with klamm.Admin(dict(config)) as admin, suppress(TopicAlreadyExistsError):
        admin.create_topics({topic: klamm.NewTopic(partitions=partitions)})


def positions(
    config: Mapping[str, str], old: Source, new: Target, consumer: legacy.Consumer07, partitions: list[int]
) -> dict[int, int]:
    """Return where to go on: behind what was copied, or at the beginning."""
    offsets = {}
    for number in partitions:
        with klamm.Consumer(dict(config), group_id=group(old, number), enable_auto_commit=False) as reader:
            place = klamm.TopicPartition(new.topic, reader.partitions_for(new.topic)[0])
            kept = reader.committed([place])[place]
        earliest = consumer.earliest(old.topic, number)
        if kept is not None and kept < earliest:
            print(
                f"klamm: {old.topic}-{number} begins at {earliest}: what was from {kept} on is deleted", file=sys.stderr
            )
        offsets[number] = earliest if kept is None else max(kept, earliest)
    return offsets


def source(text: str) -> Source:
    """Parse where to copy from."""
    scheme, sign, rest = text.partition("://")
    broker, slash, topic = rest.partition("/")
    if scheme not in ("0.6", "0.7") or not (sign and broker and slash and topic):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 0.7://host:port/topic")
    return Source(0 if scheme == "0.6" else 1, broker, topic)


def target(text: str) -> Target:
    """Parse where to copy to."""
    bootstrap, slash, topic = text.partition("/")
    if not (bootstrap and slash and topic):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form host:port/topic")
    return Target(bootstrap, topic)
