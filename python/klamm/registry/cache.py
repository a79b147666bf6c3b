"""The cache of a registry client.

Schemas never change, so entries stay until the cache is full. Only an entry for the latest version of a subject can
expire. Threads can share a cache. `klamm.registry.client` fills the cache. An entry does not refer to a connection, so
other decoders could use the cache too.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def fork_safe_lock() -> Any:
    """Return a lock that is free in a forked process, even if another thread of the parent holds it during the fork."""
    lock = _Lock()
    _locks.add(lock)
    return lock


class _Lock:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        self._lock = threading.Lock()


def _renew_locks() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


class Cache:
    """Stores values by key. If the cache is full, it removes the least recently used entry.

    Args:
        capacity: Maximum number of entries.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[Any, tuple[Any, float | None]] = OrderedDict()
        self._lock = fork_safe_lock()

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None if the key has no value or the value has expired."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            value, until = entry
            if until is not None and time.monotonic() >= until:
                del self._entries[key]
                return None
            self._entries.move_to_end(key)
            return value

    def put(self, key: Any, value: Any, lifetime: float | None = None) -> None:
        """Set the value of a key. The value expires after `lifetime` seconds, or never if `lifetime` is None."""
        with self._lock:
            self._entries[key] = value, None if lifetime is None else time.monotonic() + lifetime
            self._entries.move_to_end(key)
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)

    def clear(self, subject: str | None = None) -> None:
        """Remove all entries. With `subject`, remove only the entries whose keys contain the name of this subject."""
        with self._lock:
            for key in [key for key in self._entries if subject is None or subject in key]:
                del self._entries[key]
