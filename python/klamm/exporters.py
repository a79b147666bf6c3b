"""The clients whose metrics an exporter reads, and the names of their metrics.

`klamm.prometheus` and `klamm.otel` share this module. It does not need the packages of either.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator

    from klamm.metrics import ClientMetrics, Metric


class Client(Protocol):
    """A client of klamm."""

    def metrics(self) -> ClientMetrics:
        """Return a snapshot of the client's metrics."""


_numbers: weakref.WeakKeyDictionary[Client, int] = weakref.WeakKeyDictionary()
_next_number = itertools.count()


def client_number(client: Client) -> int:
    """Return the number of a client. It differs from the numbers of all other clients of this process.

    Clients may have the same client ID. The number tells their metrics apart.
    """
    number = _numbers.get(client)
    return _numbers.setdefault(client, next(_next_number)) if number is None else number


class ExportedClients:
    """The clients of an exporter.

    An exporter does not keep its clients alive, and drops clients that were garbage-collected.

    Args:
        log: Logger for the first client whose `metrics()` raises an exception. The other clients are still exported.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._clients: dict[int, weakref.ref[Client]] = {}
        self._has_failed = False

    def add(self, client: Client) -> None:
        """Add a client. Adding a client again changes nothing."""
        self._clients[client_number(client)] = weakref.ref(client)

    def remove(self, client: Client) -> None:
        """Remove a client, if it was added."""
        self._clients.pop(client_number(client), None)

    def snapshots(self) -> Iterator[tuple[int, ClientMetrics]]:
        """Yield the number and the metrics of each client, except clients whose `metrics()` raises an exception."""
        for number, ref in list(self._clients.items()):
            client = ref()
            if client is None:
                self._clients.pop(number, None)
                continue
            try:
                yield number, client.metrics()
            except Exception:  # noqa: BLE001 - the error is logged, and other clients' metrics are exported
                if not self._has_failed:
                    self._log.exception("%r has no metrics; later failures are not logged", client)
                self._has_failed = True


def exported_name(metric: Metric) -> str:
    """Return the name of a metric with its group, and without the suffix `-total` of a counter.

    In the Java client, one name can stand for a client, a topic and a partition. Here, all metrics with the same name
    have the same tags. A sum over a name therefore counts nothing twice.
    """
    group = metric.group.removesuffix("-metrics")
    if "request" in metric.tags:
        # `latency-avg` of the group `producer-request` is not `request-latency-avg` of the group `producer`.
        group = group.removesuffix("-request") + "-api"
    elif "partition" in metric.tags:
        group = group.replace("-fetch-manager", "-partition")
    elif "topic" in metric.tags and not group.endswith("-topic"):
        group = group.replace("-fetch-manager", "-topic")
    return f"{group}-{metric.name.removesuffix('-total')}"
