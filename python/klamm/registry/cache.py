"""The cache of a registry client. Schemas never change, so entries live until the cache is full; the latest versions can expire.

Threads can share a cache. `klamm.registry.client` fills it. Other decoders can use it too, because an entry does not
refer to a connection.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Any


class Cache:
    """Values by key. The cache removes the least recently used entry first.

    Args:
        capacity: Maximum number of entries.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[Any, tuple[Any, float | None]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None if there is none or it has expired."""
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
        """Set the value of a key, for a number of seconds or without limit."""
        with self._lock:
            self._entries[key] = value, None if lifetime is None else time.monotonic() + lifetime
            self._entries.move_to_end(key)
            while len(self._entries) > self._capacity:
                self._entries.popitem(last=False)

    def clear(self, subject: str | None = None) -> None:
        """Remove all entries, or those of a subject. Keys of a subject are tuples that contain its name."""
        with self._lock:
            for key in [key for key in self._entries if subject is None or subject in key]:
                del self._entries[key]
