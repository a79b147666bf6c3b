"""The client cache of a Spark worker: reused for the next task, but not after a fork or a failure. No broker, no Spark."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from klamm import TopicPartition
from klamm.errors import ClosedError
from klamm.spark import clients

CONFIG = {"bootstrap.servers": "localhost:1"}


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch):
    monkeypatch.setattr(clients, "_idle", {})


def lent(config=CONFIG):
    with clients.consumer(config) as consumer:
        return consumer


def test_the_next_task_gets_the_client_of_the_last_one():
    assert lent() is lent()
    assert lent() is not lent(CONFIG | {"client.id": "other"})


def test_two_tasks_at_a_time_have_different_clients():
    with clients.consumer(CONFIG) as one, clients.consumer(CONFIG) as other:
        assert one is not other


def test_a_forked_child_creates_its_own_client(monkeypatch):
    parents = lent()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert lent() is not parents


@pytest.mark.parametrize(
    ("client", "use"),
    [
        (clients.producer, lambda producer: producer.send("t", b"v")),
        (clients.group_admin, lambda admin: admin.committed("g", TopicPartition("t", 0))),
    ],
    ids=["producer", "group_admin"],
)
def test_the_client_of_a_failed_task_is_not_reused(client, use):
    def fail():
        with client(CONFIG) as given:
            failed.append(given)
            raise RuntimeError("out of luck")

    failed = []
    with pytest.raises(RuntimeError, match="out of luck"):
        fail()
    with client(CONFIG) as given:
        assert given is not failed[0]
    with pytest.raises(ClosedError):
        use(failed[0])


def test_tasks_share_an_admin_client_of_one_configuration(monkeypatch):
    def lent(config=CONFIG):
        with clients.group_admin(config) as admin:
            return admin

    first = lent()
    assert lent() is first
    assert lent(CONFIG | {"client.id": "other"}) is not first
    with clients.group_admin(CONFIG) as one, clients.group_admin(CONFIG) as other:
        assert one is not other
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in a forked child
    assert lent() is not first


@pytest.mark.parametrize("module", ["exactly_once", "group_admin", "topic_admin", "lookup"])
def test_a_process_of_spark_does_not_import_all_admin_calls(module):
    code = f"import sys, klamm.spark.{module}; print([*filter(sys.modules.get, ['klamm.admin.client', 'klamm.admin.users'])])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_worker_freezes_loaded_modules_when_there_are_new_ones(monkeypatch):
    frozen = []
    modules = dict.fromkeys(("one", "two"))
    clients._freeze.cache_clear()
    with monkeypatch.context() as other:
        other.setattr(gc, "freeze", lambda: frozen.append(len(modules)))
        other.setattr(clients, "_use_one_arena", lambda: None)
        other.setattr(sys, "modules", modules)
        clients.prepare_process()
        in_a_program = list(frozen)
        modules["pyspark.worker_util"] = None
        for _ in range(3):
            clients.prepare_process()
        modules["klamm.producer"] = None
        for _ in range(3):
            clients.prepare_process()
    clients._freeze.cache_clear()
    assert (in_a_program, frozen) == ([], [3, 4])


@pytest.mark.parametrize(
    "module", ["worker", "sql.worker.write_into_data_source", "sql.worker.python_streaming_sink_runner"]
)
def test_the_processes_that_spark_forks_are_recognized(module):
    code = f"import sys, pyspark.{module}; from klamm.spark.clients import SPARK_PROCESS as it; sys.exit(it not in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_program_of_a_user_is_not_recognized():
    code = "import sys, pyspark.sql.functions, klamm.spark; from klamm.spark.clients import SPARK_PROCESS as it; sys.exit(it in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


ARENAS = """
import resource, sys, threading

_, most = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, most))
sys.modules["pyspark.worker_util"] = sys
from klamm.spark import clients

def reserved():
    with open("/proc/self/maps") as maps:
        spans = [line.split()[:2] for line in maps]
    sizes = [int(span.split("-")[1], 16) - int(span.split("-")[0], 16) for span, access in spans if access == "---p"]
    return sum(size for size in sizes if size > 32 << 20)

def allocate():
    held = [bytes(1000) for _ in range(1000)]
    holding.wait()
    holding.wait()

clients.prepare_process()
before = reserved()
holding = threading.Barrier(4)
threads = [threading.Thread(target=allocate) for _ in range(3)]
for thread in threads:
    thread.start()
holding.wait()
print(reserved() - before)
holding.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="arenas of glibc")
def test_threads_reserve_no_addresses_where_memory_is_limited():
    done = subprocess.run([sys.executable, "-c", ARENAS], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 0
