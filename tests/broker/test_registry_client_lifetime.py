"""Clients of schema registries that are closed, forked or used on another event loop."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle

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
