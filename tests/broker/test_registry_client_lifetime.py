"""Clients of schema registries that are closed, forked or used on another event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import subprocess
import sys

import pytest

from klamm.errors import (
    ArgumentError,
    ClosedError,
)
from klamm.registry import (
    AsyncSchemaRegistry,
    Schema,
    SchemaNotFoundError,
    SchemaRegistry,
)
from klamm.registry.dev import DevRegistry

SCHEMA = Schema('{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}')


@pytest.fixture
def dev():
    with DevRegistry() as running:
        yield running


def test_a_closed_client_says_so(dev):
    client = SchemaRegistry(dev.url)
    client.close()
    client.close()
    with pytest.raises(ClosedError):
        client.subjects()
    with pytest.raises(ArgumentError, match="same configuration"):
        pickle.dumps(client)


def test_a_client_works_after_a_fork(dev):
    with SchemaRegistry(dev.url) as client:
        client.register("s", SCHEMA)
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            os._exit(0 if client.get_version("s").version == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert client.get_version("s").version == 1


# An event loop that ended cannot close its connections any more.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_client_works_on_one_event_loop_after_another(dev):
    client = AsyncSchemaRegistry(dev.url)
    for _ in range(2):
        assert asyncio.run(client.subjects()) == []

    async def end():
        await client.subjects()
        await client.close()

    asyncio.run(end())
    gc.collect()


def test_errors_can_be_pickled():
    error = SchemaNotFoundError("x", status=404, code=40403, url="http://h", hint="y")
    copied = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (copied.status, copied.code, copied.url, str(copied)) == (404, 40403, "http://h", str(error))


def test_a_fork_during_the_first_request_of_another_thread_does_not_hang():
    program = """
import os, signal, sys, threading
from klamm.registry import Schema, SchemaRegistry
from klamm.registry import http
from klamm.registry.dev import DevRegistry

started, waits = threading.Event(), threading.Event()
arguments = http._client_arguments

def slow(settings):  # creates the connections while the thread holds the lock of the client
    if threading.current_thread().name == "first":
        started.set()
        waits.wait()
    return arguments(settings)

with DevRegistry() as dev, SchemaRegistry(dev.url) as writer:
    schema = writer.register("s", Schema('"int"'))
    http._client_arguments = slow
    client = SchemaRegistry(dev.url)
    thread = threading.Thread(target=client.get_by_id, args=(schema.id,), name="first")
    thread.start()
    started.wait()
    client._cache._lock.__enter__()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # ends a process that hangs
        assert client.get_by_id(schema.id).schema.text == '"int"'
        os._exit(0)
    client._cache._lock.__exit__()
    waits.set()
    thread.join()
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
