"""klamm in programs that gevent has patched: its own threads run, and a wait lets the other greenlets run."""

from __future__ import annotations

import subprocess
import sys

import pytest

from klamm.testing import DevBroker

pytest.importorskip("gevent", reason="gevent is not installed")

HEAD = """
from gevent import monkey
monkey.patch_all()
import sys, gevent, klamm
servers = sys.argv[1]
"""


def run(program, broker):
    """Run a patched program, and return what it prints."""
    command = [sys.executable, "-c", HEAD + program, broker.bootstrap_servers]
    return subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=True, text=True).stdout.split()


def test_a_token_provider_runs_while_a_patched_program_waits():
    program = """
import base64, json, time

def encoded(part):
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")

def token():
    time.sleep(0.01)  # patched, so it needs a hub of the thread that calls this
    now = int(time.time())
    return f"{encoded({'alg': 'none'})}.{encoded({'sub': 'alice', 'iat': now, 'exp': now + 600})}.", now + 600

config = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": token}
with klamm.Producer(servers, **config) as producer:
    print(producer.send("t", b"v").result(20).offset)
"""
    with DevBroker(sasl={"OAUTHBEARER": None}) as dev:
        assert run(program, dev) == ["0"]


def test_klamm_starts_threads_of_the_operating_system_in_a_patched_program():
    program = """
import _thread
from klamm.threads import start_daemon

lock = monkey.get_original("_thread", "allocate_lock")()
lock.acquire()
start_daemon("test", lock.release)
print(lock.acquire(True, 20))  # a native wait: a greenlet could not run meanwhile
"""
    with DevBroker() as dev:
        assert run(program, dev) == ["True"]


@pytest.mark.parametrize(
    "wait",
    [
        "klamm.Consumer(servers, topics=['u'], allow_auto_create_topics=True).poll(0.5)",
        "klamm.Producer(servers).send('t', b'v').result(20)",
        "producer = klamm.Producer(servers); producer.send_nowait('t', b'v'); producer.flush(20)",
        "producer = klamm.Producer(servers); producer.send_nowait('t', b'v'); producer.close(20)",
        "try: klamm.Admin(servers).list_offsets({klamm.TopicPartition('none', 0): -1})\nexcept klamm.KafkaError: pass",
    ],
    ids=["poll", "result", "flush", "close", "retry"],
)
def test_a_wait_lets_other_greenlets_run(wait):
    program = f"""
ticks = 0

def tick():
    global ticks
    while True:
        gevent.sleep(0.01)
        ticks += 1

gevent.spawn(tick)
{wait}
print(ticks > 3)
"""
    with DevBroker() as dev:
        dev.fault("Produce", "delay", seconds=0.5)
        assert run(program, dev) == ["True"]


def test_greenlets_share_a_client_and_can_be_killed_while_they_wait():
    program = """
producer = klamm.Producer(servers)
jobs = [gevent.spawn(lambda n=n: producer.send("t", b"%d" % n, partition=0).result(20).offset) for n in range(20)]
gevent.joinall(jobs, timeout=20)
print(sorted(job.value for job in jobs) == list(range(20)))
consumer = klamm.Consumer(servers)
consumer.assign([klamm.TopicPartition("t", 0, 20)])
waiting = gevent.spawn(consumer.poll, None)
gevent.sleep(0)
waiting.kill(timeout=20)
print(waiting.dead)
with gevent.Timeout(0.05, False):
    consumer.poll(None)
producer.send("t", b"20", partition=0).result(20)
print([record.value for record in consumer.poll(20)])
"""
    with DevBroker() as dev:
        assert run(program, dev) == ["True", "True", "[b'20']"]


def test_a_retry_lets_other_greenlets_run_without_patches():
    """gevent replaces `time.sleep` only in programs that it has patched."""
    program = """
import sys, gevent, klamm
ticks = 0

def tick():
    global ticks
    while True:
        gevent.sleep(0.01)
        ticks += 1

gevent.spawn(tick)
from klamm.threads import sleep
sleep(0.5)
print(ticks > 3)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60, check=True, text=True)
    assert done.stdout.split() == ["True"]
