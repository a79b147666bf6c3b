"""Servers that answer slowly or without end: a call of a registry client ends within its timeout."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from klamm.registry import (
    AsyncSchemaRegistry,
    RegistryTimeoutError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaRegistry,
    SchemaRegistryError,
)
from klamm.registry.dev import DevRegistry

FAST = {"retries_wait_ms": 1, "retries_max_wait_ms": 1}


@pytest.fixture
def dev():
    with DevRegistry() as running:
        yield running


@contextmanager
def dripping(first=b"HTTP/1.1 200 OK\r\n", more=b"X-More: 1\r\n"):
    """Run a server that answers with a piece every 20 milliseconds, and never ends. The result has its address."""
    stop = threading.Event()

    def serve(connection):
        with connection, suppress(OSError):
            connection.sendall(first)
            while not stop.wait(0.02):
                connection.sendall(more)

    def accept():
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],)).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stop.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def get_by_id(kind, *args, **config):
    """Request schema 1 with a client. Return the error and the duration in seconds."""

    async def on_loop():
        async with AsyncSchemaRegistry(*args, **config) as client:
            await client.get_by_id(1)

    def blocking():
        with SchemaRegistry(*args, **config) as client:
            client.get_by_id(1)

    began = time.monotonic()
    with pytest.raises(SchemaRegistryError) as caught:
        blocking() if kind == "blocking" else asyncio.run(on_loop())
    return caught.value, time.monotonic() - began


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
@pytest.mark.parametrize("answer", [{}, {"more": b"X"}, {"more": b"HTTP/1.1 100 Continue\r\n\r\n", "first": b""}])
def test_the_timeout_is_the_limit_of_all_attempts(kind, answer):
    with dripping(**answer) as url:
        error, seconds = get_by_id(kind, url, timeout=0.5, max_retries=1000, **FAST)
    assert isinstance(error, RegistryTimeoutError)
    assert seconds < 20  # 1000 retries would take minutes


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_a_token_endpoint_that_never_ends_its_response_takes_no_longer_than_the_timeout(kind, dev):
    with dripping() as url:
        config = {"bearer_auth_client_id": "a", "bearer_auth_client_secret": "b", "timeout": 0.5}
        error, seconds = get_by_id(kind, dev.url, bearer_auth_issuer_endpoint_url=url, **config)
    assert re.search(r"within 0\.[45]\d* s", str(error))
    assert seconds < 9  # less than the timeout of a token endpoint without a registry


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_an_address_that_does_not_answer_leaves_time_for_the_next_one(kind, dev):
    with dripping() as url:
        error, _ = get_by_id(kind, [url, dev.url], timeout=2)
    assert isinstance(error, SchemaNotFoundError)


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
def test_headers_are_bounded(kind):
    with dripping(more=b"X-More: " + b"x" * 60_000 + b"\r\n") as url:
        error, _ = get_by_id(kind, url, timeout=60, max_retries=0)
    assert isinstance(error, RegistryUnavailableError)
    assert not isinstance(error, RegistryTimeoutError)
