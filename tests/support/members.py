"""Group members of several clients with the same few methods."""

from __future__ import annotations

import asyncio
import json
import queue
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

import klamm

pytest.importorskip("confluent_kafka")
aiokafka = pytest.importorskip("aiokafka")
kafka = pytest.importorskip("kafka")

PARTITIONS = 6
TIMEOUT = 30  # seconds for a group to settle


def sixty_records(broker, topic):
    """Create the topic with ten records in each partition."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS)})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for n in range(60):
            producer.send_nowait(topic, b"%d" % n, partition=n % PARTITIONS)
    return topic


class Klamm:
    """A klamm consumer."""

    def __init__(self, broker, group, topic, **config):
        if config.get("group_protocol") != "consumer":
            config["heartbeat_interval_ms"] = 300
        self.consumer = klamm.Consumer(
            broker.bootstrap_servers,
            group_id=group,
            topics=[topic],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **config,
        )

    def poll(self):
        return [record.value for record in self.consumer.poll(0.1)]

    def partitions(self):
        return {tp.partition for tp in self.consumer.assignment()}

    def commit(self):
        self.consumer.commit()

    def close(self):
        self.consumer.close()


class Confluent:
    """A confluent-kafka consumer in a separate process (`confluent_member.py`)."""

    def __init__(self, broker, group, topic, **config):
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{key.replace("_", "."): value for key, value in config.items()},
        }
        program = Path(__file__).with_name("confluent_member.py")
        self.process = subprocess.Popen(
            [sys.executable, str(program), json.dumps(settings), topic],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line.endswith("\n"), f"confluent-kafka ended at {command!r}: {self.process.wait(TIMEOUT)}"
        answer = json.loads(line)
        assert not isinstance(answer, dict), answer
        return answer

    def poll(self):
        return [value.encode() for value in self.ask("poll")]

    def partitions(self):
        return set(self.ask("partitions"))

    def commit(self):
        self.ask("commit")

    def close(self):
        with self.process:
            self.process.stdin.close()
            try:
                self.process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:  # one that does not come back has left its group by then
                self.process.kill()


class KafkaPython:
    """A kafka-python consumer that a separate thread polls.

    Version 3.0.12 gives up a rebalance that takes longer than its poll and starts another one. Polled in turn with the
    members that it waits for, it might never finish.
    """

    def __init__(self, broker, group, topic, **config):
        self.consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=300,
            metadata_max_age_ms=1000,  # it may join before it knows the topic, and looks again only then
            **config,
        )
        self.changed = threading.Condition()
        self.found, self.positions = [], set()
        self.asked = queue.SimpleQueue()
        self.is_over = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.is_over:
            found = self.consumer.poll(timeout_ms=1000)
            with self.changed:
                self.found += [record.value for records in found.values() for record in records]
                self.positions = {tp.partition for tp in self.consumer.assignment()}
                self.changed.notify_all()
            while not self.asked.empty():
                method, outcome = self.asked.get()
                try:
                    outcome.set_result(method())
                except kafka.errors.KafkaError as error:
                    outcome.set_exception(error)

    def ask(self, method):
        assert self.thread.is_alive()
        outcome = Future()
        self.asked.put((method, outcome))
        return outcome.result(TIMEOUT)

    def poll(self):
        assert self.thread.is_alive()
        with self.changed:
            self.changed.wait_for(lambda: self.found, 0.1)
            found, self.found = self.found, []
        return found

    def partitions(self):
        with self.changed:
            return set(self.positions)

    def commit(self):
        # With `cooperative-sticky` it may join once more when everybody has a share already, and refuses until it polls.
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return self.ask(self.consumer.commit)
            except kafka.errors.RebalanceInProgressError:
                assert time.monotonic() < deadline

    def close(self):
        self.is_over = True
        self.thread.join(TIMEOUT)
        self.consumer.close()


class Aiokafka:
    """An aiokafka consumer with its own event loop."""

    def __init__(self, broker, group, topic, **config):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()

        async def start():
            self.consumer = aiokafka.AIOKafkaConsumer(
                topic,
                bootstrap_servers=broker.bootstrap_servers,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=300,
                **config,
            )
            await self.consumer.start()

        self.run(start())

    def run(self, task):
        return asyncio.run_coroutine_threadsafe(task, self.loop).result(TIMEOUT)

    def poll(self):
        found = self.run(self.consumer.getmany(timeout_ms=100))
        return [record.value for records in found.values() for record in records]

    def partitions(self):
        return {tp.partition for tp in self.consumer.assignment()}

    def commit(self):
        self.run(self.consumer.commit())

    def close(self):
        if self.loop.is_closed():
            return
        try:
            self.run(self.consumer.stop())
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()


def settle(members, count=PARTITIONS):
    """Poll until the members own all partitions, and return the records read in the meantime."""
    found = []
    deadline = time.monotonic() + TIMEOUT
    while True:
        for member in members:
            found += member.poll()
        shares = [member.partitions() for member in members]
        if all(shares) and sum(map(len, shares)) == len(set().union(*shares)) == count:
            return found
        assert time.monotonic() < deadline, f"the members have {shares}"


def read(members, count):
    found = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} records came"
        for member in members:
            found += member.poll()
    return found
