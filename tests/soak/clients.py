"""The client process of the soak test: producers, group members, and the records that they saw.

The test measures the memory of this process. Records are therefore marked in tables that have their full size from the
start. The only argument is the settings (JSON). With `registry`, the keys of records are Avro values, and one group
reads them on an event loop. With `late`, this share of transactions is open for longer than its timeout.

`stop` on standard input ends the producers, and then the members when they have read everything. Each line of standard
output is a JSON object: `progress` every second, and `report` at the end.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import sys
import threading
import time
import traceback
from collections import Counter, deque
from contextlib import ExitStack, suppress
from pathlib import Path

import klamm
from klamm._klamm import crc32c
from klamm.errors import DeserializationError, FencedError, KafkaError, KafkaTimeoutError, TransactionAbortedError
from klamm.registry import AsyncSchemaRegistry, AvroDeserializer, AvroSerializer, SchemaRegistry

TICK_S = 0.05
OUTSTANDING = 5_000
READ_ALL_S = 90
"""Time for members to read the remaining records."""
LIVES_S = (20, 120)
"""Range of times after which a member leaves its group and joins again."""
FAR_BACK, MAX_BACKS = 1_000, 20
"""A member reports positions that go back by more offsets than this, and at most this many of them."""
ON_LOOP = "soak-async"
"""The group whose member reads on an event loop."""
KEY = '"long"'
"""The schema of keys."""


class Worker(threading.Thread):
    """A client on a thread. `died` has unexpected exceptions."""

    def __init__(self, name):
        super().__init__(name=name)
        self.errors, self.died = Counter(), None
        self.count, self.longest_gap, self.last = 0, 0.0, time.monotonic()

    def run(self):
        try:
            self.work()
        except BaseException:  # noqa: BLE001 - reported
            self.died = traceback.format_exc()

    def note(self, error):
        self.errors[f"{type(error).__name__}: {error}"[:300]] += 1

    def got_on(self, count):
        now = time.monotonic()
        self.longest_gap = max(self.longest_gap, now - self.last)
        self.last = now
        self.count += count

    def report(self):
        return {
            "count": self.count,
            "longest_gap": round(max(self.longest_gap, 0), 1),
            "errors": dict(self.errors),
            "died": self.died,
        }


class Producing(Worker):
    """Sends numbers at a steady rate. All numbers that are not in `failed` were acknowledged."""

    def __init__(self, settings, topic, **config):
        super().__init__(f"producer {topic}")
        self.settings, self.topic, self.config = settings, topic, config | settings["config"]
        self.stops = threading.Event()
        self.sent, self.failed = 0, []

    def paced(self):
        """Yield the numbers to send, at intervals."""
        each = max(int(self.settings["rate"] * TICK_S), 1)
        while not self.stops.wait(TICK_S) and self.sent + each <= self.settings["capacity"]:
            numbers = range(self.sent, self.sent + each)
            self.sent += each
            yield numbers

    def work(self):
        waiting = deque()

        def acknowledged(most):
            while len(waiting) > most or (waiting and waiting[0][1].done()):
                number, delivery = waiting.popleft()
                try:
                    delivery.result(None)
                    self.got_on(1)
                except KafkaError as error:
                    self.note(error)
                    self.failed.append(number)

        partitions, url = self.settings["partitions"], self.settings.get("registry")
        with ExitStack() as running:
            if url:
                registry = running.enter_context(SchemaRegistry(url))
                self.config["key_serializer"] = AvroSerializer(registry, KEY)
            producer = running.enter_context(klamm.Producer(self.settings["servers"], **self.config))
            for numbers in self.paced():
                for number in numbers:
                    key = number if url else None
                    delivery = producer.send(self.topic, b"%d" % number, key=key, partition=number % partitions)
                    waiting.append((number, delivery))
                acknowledged(OUTSTANDING)
            acknowledged(0)


class Transacting(Producing):
    """Sends numbers in transactions. It repeats aborted ones; those with an unknown result are in `unknown`."""

    def __init__(self, settings, topic):
        self.timeout = settings.get("transaction_timeout_ms", 20_000)
        super().__init__(settings, topic, transactional_id=topic, transaction_timeout_ms=self.timeout)
        self.unknown, self.transactions = [], 0
        self.chance = random.Random(topic)

    def work(self):
        left = iter(self.paced())
        numbers = next(left, None)
        while numbers is not None:
            with klamm.Producer(self.settings["servers"], **self.config) as producer:
                try:
                    while numbers is not None:
                        if self.transact(producer, numbers):
                            numbers = next(left, None)
                except FencedError as error:  # the broker ended a transaction that took too long
                    self.note(error)

    def transact(self, producer, numbers):
        partitions = self.settings["partitions"]
        try:
            with producer.transaction() as tx:
                for number in numbers:
                    tx.send_nowait(self.topic, b"%d" % number, partition=number % partitions)
                if self.chance.random() < self.settings.get("late", 0):
                    self.stops.wait(1.5 * self.timeout / 1000)
        except KafkaTimeoutError as error:
            self.note(error)
            self.unknown += numbers
            return True
        except TransactionAbortedError as error:
            self.note(error)
            return False
        self.transactions += 1
        self.got_on(len(numbers))
        return True


class Member(Worker):
    """Reads all topics in a group, leaves and rejoins it, and marks the records in the group's tables."""

    def __init__(self, settings, group, number, tables, **config):
        super().__init__(f"member {number} of {group}")
        self.settings, self.group, self.tables = settings, group, tables
        self.config = {
            "group_id": group,
            "topics": list(tables),
            "auto_offset_reset": "earliest",
            "isolation_level": "read_committed",
            "auto_commit_interval_ms": 1_000,
            **config,
            **settings["config"],
        }
        self.stops, self.keeps_running = threading.Event(), threading.Event()
        self.lives, self.repeated, self.assigned, self.positions = 0, 0, 0, {}
        self.next, self.backs = {}, []

    def work(self):
        chance = random.Random(self.name)
        while not self.stops.is_set():
            try:
                self.live(time.monotonic() + chance.uniform(*LIVES_S))
            except KafkaError as error:  # the commit at the end was refused
                self.note(error)
            self.lives += 1

    def live(self, until):
        self.assigned = 0
        with klamm.Consumer(self.settings["servers"], **self.config) as consumer:
            while self.is_alive_until(until):
                try:
                    records = consumer.poll(0.2)
                    self.assigned = len(consumer.assignment())
                except KafkaError as error:
                    self.note(error)
                    continue
                self.take(records)
            if self.stops.is_set():
                for tp in consumer.assignment():
                    self.positions[f"{tp.topic}-{tp.partition}"] = consumer.position(tp, timeout=5)

    def is_alive_until(self, until):
        return not self.stops.is_set() and (self.keeps_running.is_set() or time.monotonic() < until)

    def take(self, records):
        for record in records:
            table, number = self.tables[record.topic], int(record.value)
            tp = f"{record.topic}-{record.partition}"
            if table[number]:
                self.note_repeated(tp, record.offset)
            table[number] = 1
            self.next[tp] = record.offset + 1
        if records:
            self.got_on(len(records))

    def note_repeated(self, tp, offset):
        self.repeated += 1
        after = self.next.get(tp, 0)
        if after - offset > FAR_BACK and len(self.backs) < MAX_BACKS:
            self.backs.append((time.monotonic(), tp, offset, after))

    def report(self):
        more = {
            "lives": self.lives,
            "again": self.repeated,
            "backs": self.backs,
            "assigned": self.assigned,
            "places": self.positions,
        }
        return super().report() | more


class AsyncMember(Member):
    """Reads with a deserializer that looks up schemas. It cancels some polls."""

    def live(self, until):
        asyncio.run(self.live_on_loop(until))

    async def live_on_loop(self, until):
        self.assigned = 0
        async with AsyncSchemaRegistry(self.settings["registry"]) as registry:
            keys = AvroDeserializer(registry)
            async with klamm.AsyncConsumer(self.settings["servers"], key_deserializer=keys, **self.config) as consumer:
                while self.is_alive_until(until):
                    try:
                        records = await asyncio.wait_for(consumer.poll(0.2), random.choice([0.1, 5]))
                        self.assigned = len(consumer.assignment())
                    except asyncio.TimeoutError:
                        continue
                    except KafkaError as error:
                        self.note(error)
                        continue
                    self.take_typed(consumer, records)
                if self.stops.is_set():
                    for tp in consumer.assignment():
                        self.positions[f"{tp.topic}-{tp.partition}"] = await consumer.position(tp, timeout=5)

    def take_typed(self, consumer, records):
        """Mark records, and read the rest again if the registry is away."""
        good, left = [], set()
        for record in records:
            tp = klamm.TopicPartition(record.topic, record.partition)
            if tp in left:
                continue
            try:
                assert record.key in (None, int(record.value))
            except DeserializationError as error:
                self.note(error)
                left.add(tp)
                consumer.seek(tp, record.offset)
            else:
                good.append(record)
        self.take(good)


def held():
    """Return what the descriptors of this process are, and the names of its threads, both sorted."""
    # An exception and its frames form a cycle, which may hold a closed client.
    gc.collect()
    # An event loop's wake-up stays until the core is called again if the loop's thread has ended: it ended without the GIL.
    crc32c(b"")
    descriptors, threads = [], []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the directory itself, which is closed by now
            descriptors.append(str(path.readlink()).split(":")[0])
    for path in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            threads.append((path / "comm").read_text().strip())
    return sorted(descriptors), sorted(threads)


def say(kind, **more):
    sys.stdout.write(json.dumps({"kind": kind, **more}) + "\n")
    sys.stdout.flush()


def unread(producer, table):
    """Return how many acknowledged numbers a group did not see."""
    missed = set(producer.failed) | set(getattr(producer, "unknown", ()))
    return table.count(0, 0, producer.sent) - sum(1 for number in missed if not table[number])


def first_unread(settings, producer, table):
    """Return the first acknowledged number that a group did not see, and their count, by partition."""
    missed = set(producer.failed) | set(getattr(producer, "unknown", ()))
    found = {}
    for number in range(producer.sent):
        if not table[number] and number not in missed:
            first, count = found.get(number % settings["partitions"], (number, 0))
            found[number % settings["partitions"]] = (first, count + 1)
    return found


def read_all(producers, tables):
    left = sum(unread(producer, mine[producer.topic]) for producer in producers for mine in tables.values())
    return left == 0


def wait(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.2)


def read_settings():
    settings = json.loads(sys.argv[1])
    settings["config"] = {"request_timeout_ms": 3_000, "socket_connection_setup_timeout_ms": 3_000}
    if "registry" in settings:
        settings["groups"][ON_LOOP] = (1, {})
    return settings


def main():
    settings = read_settings()
    stop = threading.Event()

    def listen():
        if sys.stdin.readline() != "stop\n":
            os._exit(1)  # the parent process has ended
        stop.set()

    # The first client of a process starts the thread that writes log lines, and that thread stays.
    with klamm.Admin(settings["servers"], **settings["config"]) as admin:
        admin.list_topics()
    before = held()
    threading.Thread(target=listen, daemon=True).start()
    plain, packed, transactional = settings["topics"]
    producers = [
        Producing(settings, plain),
        Producing(settings, packed, linger_ms=20, compression_type="lz4"),
        Transacting(settings, transactional),
    ]
    # Written once, so that the memory is there from the start.
    tables = {
        group: {topic: bytearray(b"\0") * settings["capacity"] for topic in settings["topics"]}
        for group in settings["groups"]
    }
    members = [
        (AsyncMember if group == ON_LOOP else Member)(settings, group, number, tables[group], **config)
        for group, (count, config) in settings["groups"].items()
        for number in range(1, count + 1)
    ]
    workers = [*producers, *members]
    for worker in workers:
        worker.start()
    while not stop.wait(1):
        say("progress", counts={worker.name: worker.count for worker in workers})
    for member in members:
        member.keeps_running.set()
    wait(lambda: all(member.assigned for member in members), READ_ALL_S)
    assigned = {member.name: member.assigned for member in members}
    for producer in producers:
        producer.stops.set()
    for producer in producers:
        producer.join(150)
    wait(lambda: read_all(producers, tables), READ_ALL_S)
    for member in members:
        member.stops.set()
    for member in members:
        member.join(60)
    stuck = [worker.name for worker in workers if worker.is_alive()]
    wait(lambda: held() == before, 10)
    say(
        "report",
        producers={
            p.topic: p.report()
            | {"sent": p.sent, "failed": p.failed}
            | {key: getattr(p, key) for key in ("unknown", "transactions") if hasattr(p, key)}
            for p in producers
        },
        members={member.name: member.report() | {"assigned": assigned[member.name]} for member in members},
        unread={group: {p.topic: unread(p, mine[p.topic]) for p in producers} for group, mine in tables.items()},
        first_unread={
            group: {p.topic: first_unread(settings, p, mine[p.topic]) for p in producers}
            for group, mine in tables.items()
        },
        stuck=stuck,
        held={"before": before, "after": held()},
    )


if __name__ == "__main__":
    main()
