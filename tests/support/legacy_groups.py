"""Members of Kafka 0.7 groups, and what tests ask about them."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from klamm import legacy
from settled import LIMIT_S, until

if TYPE_CHECKING:
    from collections.abc import Callable

SESSION = 2.0


def eventually(condition):
    # Most conditions are about what another thread does, and take no time to ask for.
    until(lambda: condition() or time.sleep(0.02))


def member(zookeeper, group, *topics, **options):
    options = {"session_timeout": SESSION, "auto_commit_interval": None, **options}
    return legacy.GroupConsumer07(zookeeper.hosts, group, list(topics) or None, **options)


def fill(zookeeper, topic, n=40):
    """Produce to all four partitions. Because the topic is new, the first messages go to partition 0 of each broker."""
    with legacy.Producer07(zookeeper=zookeeper.hosts) as producer:
        for index in (1, 0):  # the other order would depend on how fast the first broker registers the topic
            producer.send(topic, b"first%d" % index, partition=index)
        eventually(lambda: len(producer._registry.partitions(topic)) == 4)
        for number in range(n - 2):
            producer.send(topic, b"%d" % number, partition=number % 4)
        producer.flush(confirm=True)
    return sorted([b"first0", b"first1", *(b"%d" % number for number in range(n - 2))])


def read(consumers, n, timeout=20.0):
    found = []
    deadline = time.monotonic() + timeout
    while len(found) < n and time.monotonic() < deadline:
        for consumer in consumers:
            found += consumer.poll(0.05)
    return found


def payloads(found):
    return sorted(message.payload for message in found)


def owners(tree, group, topic):
    path = f"/consumers/{group}/owners/{topic}"
    if tree.exists(path) is None:
        return {}
    return {name: tree.get(f"{path}/{name}")[0].decode() for name in sorted(tree.get_children(path))}


def expire(client):
    """Expire a session as the server would: another connection takes it over and closes it."""
    from kazoo.client import KazooClient

    other = KazooClient(client.hosts and ",".join(f"{h}:{p}" for h, p in client.hosts), client_id=client.client_id)
    other.start(30)
    other.stop()
    other.close()


def bounded(call: Callable[[], Any]) -> Any:
    """Call something that once waited forever, and fail if it still does. Return its result or its exception."""
    found = []

    def run():
        try:
            found.append(call())
        except Exception as error:  # noqa: BLE001 - the caller examines it
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert found, f"not back after {LIMIT_S} s"
    return found[0]
