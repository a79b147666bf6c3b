"""`klamm mirror`: copies a topic into a cluster of a current Kafka.

This file copies from brokers of Kafka 0.6 and 0.7, and `mirror_modern` from current clusters. Each fetch becomes one
transaction, which contains the fetched records and the next byte offset to fetch. The transaction commits this offset
to a group in the target cluster. Each source partition has its own group. An interrupted copy therefore continues
without losing or repeating a record.
"""

from __future__ import annotations

import argparse
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import klamm
from klamm import legacy
from klamm.cli import mirror_modern
from klamm.cli.clients import closing
from klamm.cli.color import print_warning
from klamm.cli.options import add_json, add_settings, pair, positive
from klamm.cli.output import UsageError
from klamm.cli.settings import known_names
from klamm.config import verdict
from klamm.errors import ConfigError, KafkaTimeoutError, NetworkError, TopicAlreadyExistsError
from klamm.legacy.consumer import partitions_with_messages, source_headers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.cli.options import Commands
    from klamm.cli.output import Advance, Output

IDLE_SECONDS = 1.0
"""Pause between fetches at the end of the topic, and while the source broker is unreachable."""

OWN_KEYS = {
    "transactional.id": "a restarted copy needs the same ID",
    "group.id": "each old partition has a group of its own",
    "enable.auto.commit": "the transactions contain the offsets",
}
"""Configuration keys that only the command may set, and the reasons."""


@dataclass(frozen=True)
class Source:
    """A topic on a broker of Kafka 0.6 or 0.7, or in a current cluster. For a current cluster, `magic` is None."""

    magic: int | None
    broker: str
    topic: str


@dataclass(frozen=True)
class Target:
    """A topic in the target cluster."""

    bootstrap: str
    topic: str


@dataclass
class Copied:
    """Progress of the copy."""

    offsets: dict[int, int]
    """Next byte offset to fetch from each source partition."""
    ends: Mapping[int, int]
    """End offset of each source partition when the copy started."""
    records: int = 0
    bytes: int = 0
    is_away: bool = False
    """Whether the last fetch failed because the source broker did not respond."""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "mirror",
        help="copy a topic into another cluster",
        description="Copy a topic into another cluster, exactly once, and stop at the current end of the topic. If you "
        "start the command again, the copy continues where it stopped. Copied records keep their key, value, "
        "headers, timestamp and partition, and get a header klamm.source.offset. Records from Kafka 0.6 and 0.7 have "
        "no key. The copies of these old records have the headers source.broker, source.partition, source.offset (a "
        "byte offset), and source.index for messages that were compressed together.",
    )
    parser.add_argument(
        "--from",
        dest="source",
        metavar="HOST:PORT/TOPIC",
        type=source,
        required=True,
        help="copy from this cluster and topic; write 0.7://HOST:PORT/TOPIC for a broker of Kafka 0.7, and "
        "0.6://HOST:PORT/TOPIC for Kafka 0.6",
    )
    parser.add_argument(
        "--to",
        dest="target",
        metavar="HOST:PORT/TOPIC",
        type=target,
        required=True,
        help="copy to this cluster and topic; the topic is created if it does not exist",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="at the end of the topic, wait for new messages; also wait while an old broker is unreachable",
    )
    parser.add_argument(
        "--group",
        dest="groups",
        metavar="NAME",
        action="append",
        default=[],
        help="also translate the committed offsets of this group; may be repeated; not for Kafka 0.6 and 0.7",
    )
    parser.add_argument(
        "--source-option",
        dest="source_config",
        metavar="KEY=VALUE",
        type=pair,
        action="append",
        default=[],
        help="set an option of the source's clients by its Kafka name; may be repeated; not for Kafka 0.6 and 0.7",
    )
    parser.add_argument(
        "--fetch-size",
        metavar="BYTES",
        type=positive,
        default=1 << 20,
        help="fetch this many bytes at once from Kafka 0.6 and 0.7 (default: %(default)s)",
    )
    add_settings(
        parser,
        "set an option of the new cluster's clients by its Kafka name, such as max.request.size of the producer or "
        "isolation.level of the consumer; each client gets the options that it has; may be repeated",
    )
    add_json(
        parser,
        "print one JSON object at the end, with topic, records, bytes (of values), seconds, and offsets by source "
        "partition; between current clusters, the object also has groups",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, output: Output) -> int:
    """Copy until the end of the topic, or Ctrl+C."""
    old: Source = args.source
    new: Target = args.target
    started = time.monotonic()
    configs = client_configs({"bootstrap.servers": new.bootstrap, **dict(args.config)})
    if old.magic is None:
        sources = client_configs({"bootstrap.servers": old.broker, **dict(args.source_config)})
        return mirror_modern.run(args, output, sources, configs)
    if args.groups or args.source_config:
        raise UsageError(
            "--group and --source-option are for current clusters", "leave out both options for Kafka 0.6 and 0.7"
        )
    with legacy.Consumer07(old.broker, magic=old.magic, fetch_size=args.fetch_size) as consumer:
        partitions = partitions_with_messages(consumer, old.topic)
        make_topic(configs["admin"], new.topic, len(partitions))
        producer = klamm.Producer(configs["producer"] | {"transactional.id": f"{group(old, 0)}→{new.topic}"})
        with closing(producer):
            with producer.transaction():
                pass  # ends an open transaction of an earlier run, before this run reads the offsets
            offsets = start_offsets(configs["consumer"], old, new, consumer, partitions)
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
    else:
        output.say(mirror_modern.summary(args, copied.records, copied.bytes, len(offsets), seconds))
    return 0


def copy_once(
    consumer: legacy.Consumer07,
    producer: klamm.Producer,
    args: argparse.Namespace,
    copied: Copied,
    advance: Advance,
) -> bool:
    """Copy one fetch from each partition that is not at its end; return whether any message arrived."""
    old: Source = args.source
    new: Target = args.target
    any_arrived = False
    targets = producer.partitions_for(new.topic)
    for number, offset in copied.offsets.items():
        if not args.follow and offset >= copied.ends[number]:
            continue
        fetched = fetch(consumer, args, copied, number)
        if fetched is None or fetched.next_offset == offset:
            continue
        any_arrived = True
        with producer.transaction() as tx:
            for message in fetched.messages:
                headers = source_headers(message, old.broker, number)
                to = targets[number % len(targets)]
                tx.send_nowait(new.topic, message.payload, partition=to, headers=headers)
                copied.bytes += len(message.payload)
            tp = klamm.TopicPartition(new.topic, targets[0])
            tx.commit_offsets(klamm.GroupMetadata(group(old, number)), {tp: fetched.next_offset})
        copied.offsets[number] = fetched.next_offset
        copied.records += len(fetched.messages)
        advance(fetched.next_offset - offset, len(fetched.messages))
    if args.follow and not any_arrived:
        time.sleep(IDLE_SECONDS)
    return any_arrived


def fetch(consumer: legacy.Consumer07, args: argparse.Namespace, copied: Copied, number: int) -> legacy.Fetched | None:
    """Fetch from a partition of the source broker. With `--follow`, return None while this broker is unreachable."""
    try:
        fetched = consumer.fetch(args.source.topic, number, copied.offsets[number])
    except (NetworkError, KafkaTimeoutError) as error:
        if not args.follow:
            raise
        if not copied.is_away:
            print_warning(f"{error.message}; the copy continues when the old broker responds again")
        copied.is_away = True
        return None
    copied.is_away = False
    return fetched


def client_configs(config: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the configurations for the clients "admin", "producer" and "consumer".

    Each configuration gets only the keys that its client has.
    """
    configs: dict[str, dict[str, str]] = {"admin": {}, "producer": {}, "consumer": {}}
    for name, value in config.items():
        if name in OWN_KEYS:
            raise ConfigError(f"option {name} cannot be set: {OWN_KEYS[name]}", hint="leave this option out")
        verdicts = {client: verdict(client, name, value) for client in configs}
        kinds = {found.kind for found in verdicts.values()}
        # A key of a client that this command does not have would have no effect.
        if "key" not in kinds and (name in known_names() or "ignored" not in kinds):
            hint = next(
                (found.text for found in verdicts.values() if found.text), "see docs/configuration.md for all keys"
            )
            raise ConfigError(f"unknown option {name}: no client of this command has it", hint=hint)
        for client, found in verdicts.items():
            if found.kind == "key":
                configs[client][name] = value
    return configs


def group(old: Source, partition: int) -> str:
    """Return the name of the target group that stores the next byte offset of a source partition."""
    return f"klamm-mirror/{old.broker}/{old.topic}/{partition}"


def make_topic(config: Mapping[str, str], topic: str, partitions: int) -> None:
    """Create the target topic, if the topic does not exist."""
    with klamm.Admin(dict(config)) as admin, suppress(TopicAlreadyExistsError):
        admin.create_topics({topic: klamm.NewTopic(partitions=partitions)})


def start_offsets(
    config: Mapping[str, str], old: Source, new: Target, consumer: legacy.Consumer07, partitions: list[int]
) -> dict[int, int]:
    """Return the byte offset to start from in each partition: after the copied messages, or at the beginning."""
    offsets = {}
    for number in partitions:
        with klamm.Consumer(dict(config), group_id=group(old, number), enable_auto_commit=False) as reader:
            tp = klamm.TopicPartition(new.topic, reader.partitions_for(new.topic)[0])
            committed = reader.committed([tp])[tp]
        earliest = consumer.earliest(old.topic, number)
        if committed is not None and committed < earliest:
            print_warning(
                f"messages of {old.topic}-{number} from offset {committed} to {earliest} were deleted before they "
                "were copied"
            )
        offsets[number] = earliest if committed is None else max(committed, earliest)
    return offsets


def source(text: str) -> Source:
    """Parse the broker and topic to copy from."""
    scheme, sign, rest = text.partition("://")
    broker, slash, topic = (rest if sign else text).partition("/")
    magics = {"0.6": 0, "0.7": 1}
    if (sign and scheme not in magics) or not (broker and slash and topic):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form HOST:PORT/TOPIC or 0.7://HOST:PORT/TOPIC")
    return Source(magics.get(scheme) if sign else None, broker, topic)


def target(text: str) -> Target:
    """Parse the cluster and topic to copy to."""
    bootstrap, slash, topic = text.partition("/")
    if not (bootstrap and slash and topic):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form HOST:PORT/TOPIC")
    return Target(bootstrap, topic)
