"""Kafka clients of a Spark process: made where they are used, kept for the next task.

Spark forks its Python workers and reuses them, and a client must not cross a fork, so none is made
at import or pickled; idle ones are kept by process id and configuration. A task takes a client out
of the pool while it works, so that it is never shared, and puts it back only when all went well:
what a failed or cancelled task leaves in a client's buffers ends with it.

The workers themselves are told, once, to leave what they have loaded out of their garbage collections.
"""

from __future__ import annotations

import atexit
import gc
import os
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, TypeVar

from pyspark import TaskContext

import klamm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Client(Protocol):
    def close(self, timeout: float | None = None) -> None: ...


C = TypeVar("C", bound=_Client)
_Key = tuple[int, str, bytes]

_idle: dict[_Key, list[_Client]] = {}


@contextmanager
def consumer(config: dict[str, str]) -> Iterator[klamm.Consumer]:
    """Lend a consumer with this configuration."""
    of_bytes: type[klamm.Consumer] = klamm.Consumer
    with _lend(of_bytes, config) as client:
        yield client


@contextmanager
def producer(config: dict[str, str]) -> Iterator[klamm.Producer]:
    """Lend a producer with this configuration. The borrower flushes it."""
    with _lend(klamm.Producer, config) as client:
        yield client


def check_consumer(config: dict[str, str]) -> None:
    """Raise what is wrong with a configuration, before anything runs. Nothing is connected."""
    klamm.Consumer(config).close(timeout=0)


def check_producer(config: dict[str, str]) -> None:
    """Raise what is wrong with a configuration, before anything runs. Nothing is connected."""
    klamm.Producer(config).close(timeout=0)


def spare_collections() -> None:
    """Keep short what Spark does after each task: it collects garbage, and looks at every module that is loaded (14 ms measured)."""
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    """Take what is there out of all collections to come. Only once: what belongs to a task would never be collected."""
    gc.freeze()


@contextmanager
def _lend(make: Callable[[dict[str, str]], C], config: dict[str, str]) -> Iterator[C]:
    # A digest, since a configuration may hold secrets.
    key = (os.getpid(), make.__name__, sha256(repr(sorted(config.items())).encode()).digest())
    kept = _idle.setdefault(key, [])
    client: C = kept.pop() if kept else make(config)  # type: ignore[assignment]
    try:
        yield client
    except BaseException:
        client.close(timeout=0)
        raise
    kept.append(client)


@atexit.register
def _close_idle() -> None:
    for (pid, _, _), clients in _idle.items():
        # A child of a fork has only copies of its parent's clients: their threads are not here.
        if pid == os.getpid():
            for client in clients:
                client.close(timeout=CLOSE_SECONDS)


# Tasks flush what they send, so nothing waits in a buffer any more when a worker ends.
CLOSE_SECONDS = 1.0
