"""Caches the Kafka clients of a Spark worker between tasks.

Spark forks its Python workers and reuses them, and a forked process must not use the clients of its parent. Therefore
clients are never created at import and never pickled, and the cache key includes the process ID. A task removes a
client from the cache while it uses the client, so two tasks never share a client. The task puts the client back only on
success: after a failure, the client's buffers may hold records of the failed task.

This module also prepares the process: it tunes garbage collection and the use of address space.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol, TypeVar

import klamm
from klamm.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from klamm.spark.group_admin import GroupAdmin


class _Client(Protocol):
    def close(self, timeout: float | None = None) -> None: ...


C = TypeVar("C", bound=_Client)
_Key = tuple[int, str, bytes]

_idle: dict[_Key, list[_Client]] = {}


@contextmanager
def consumer(config: dict[str, str]) -> Iterator[klamm.Consumer]:
    """Provide a consumer with this configuration, if possible from the cache."""
    of_bytes: type[klamm.Consumer] = klamm.Consumer
    with _cached(of_bytes, config) as client:
        yield client


@contextmanager
def producer(config: dict[str, str]) -> Iterator[klamm.Producer]:
    """Provide a producer with this configuration, if possible from the cache. The caller must flush the producer."""
    of_bytes: type[klamm.Producer] = klamm.Producer
    with _cached(of_bytes, config) as client:
        yield client


@contextmanager
def group_admin(config: dict[str, str]) -> Iterator[GroupAdmin]:
    """Provide an admin client for offsets of groups with this configuration, if possible from the cache.

    The client serves tasks of any group, so all exactly-once tasks of a worker share the client's connections.
    """
    from klamm.spark.group_admin import GroupAdmin  # only exactly-once writes need this import

    with _cached(GroupAdmin, config) as client:
        yield client


def check_consumer(config: dict[str, str]) -> None:
    """Raise `ConfigError` if a configuration is invalid, without connecting."""
    klamm.Consumer(config).close(timeout=0)


def check_producer(config: dict[str, str], *, transactional: bool = False) -> None:
    """Raise `ConfigError` if a configuration is invalid, without connecting."""
    klamm.Producer(config | ({"transactional.id": "klamm"} if transactional else {})).close(timeout=0)


def prepare_process() -> None:
    """Prepare a Spark process that runs tasks, plans reads or commits writes.

    klamm's functions for Spark call this function first.

    * The function excludes loaded modules from garbage collection. Spark's processes collect garbage after each call,
      and scanning all modules takes 14 ms of CPU time (measured).
    * If virtual memory is limited (`spark.executor.pyspark.memory`), the function lets all threads allocate from one
      arena.
    """
    if SPARK_PROCESS in sys.modules:
        _use_one_arena()
        _freeze(len(sys.modules))


@cache
def _use_one_arena() -> None:
    """Limit glibc's `malloc` to one arena if virtual memory is limited.

    By default, glibc reserves 64 MB of addresses for each thread that allocates. With a limit of 512 MB, three threads
    used all addresses (measured). The next memory allocation in native code then failed, which ended the worker.
    """
    try:
        import resource
    except ImportError:  # Windows, where Spark does not limit memory
        return
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        import ctypes  # not at the top of the file, where every worker would import ctypes

        with suppress(AttributeError):  # musl has neither arenas nor this function
            ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


@cache
def _freeze(modules: int) -> None:  # noqa: ARG001
    """Exclude all existing objects from garbage collection, if modules were loaded since the last call.

    `gc.freeze()` also excludes the current task's temporary objects from garbage collection. Python never frees reference cycles of
    excluded objects, so this function must not call `gc.freeze()` for every task.
    """
    gc.freeze()


@contextmanager
def _cached(create: Callable[[dict[str, str]], C], config: dict[str, str]) -> Iterator[C]:
    # The key contains a digest of the configuration, because the configuration may contain secrets.
    key = (os.getpid(), create.__name__, sha256(repr(sorted(config.items())).encode()).digest())
    idle = _idle.setdefault(key, [])
    client: C = idle.pop() if idle else create(config)  # type: ignore[assignment]
    try:
        yield client
    except BaseException:
        with suppress(KafkaError):  # `close` raises an error for unsent records of the failed task
            client.close(timeout=0)
        raise
    idle.append(client)


@atexit.register
def _close_idle() -> None:
    for (pid, _, _), clients in _idle.items():
        # After a fork, the child process has copies of its parent's clients, but not the threads of these clients.
        if pid == os.getpid():
            for client in clients:
                client.close(timeout=CLOSE_SECONDS)


# The parameter of mallopt(3) for the maximum number of arenas.
M_ARENA_MAX = -8

# A module that Spark's Python processes import, but the application on the driver does not.
SPARK_PROCESS = "pyspark.worker_util"

# Tasks flush their records, so buffers are empty when a worker ends.
CLOSE_SECONDS = 1.0
