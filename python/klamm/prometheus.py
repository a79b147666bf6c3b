"""Exports the metrics of klamm's clients to Prometheus. The module needs `klamm[prometheus]`.

    klamm.prometheus.register(producer, consumer)
    prometheus_client.start_http_server(8000)

The names of the metrics come from the Java client. For example, `records-lag-max` in the group
`consumer-fetch-manager-metrics` becomes `kafka_consumer_fetch_manager_records_lag_max`. As in the Java client, times
are in milliseconds.
"""

from __future__ import annotations

import logging
import re
import weakref
from typing import TYPE_CHECKING, Protocol

try:
    from prometheus_client import REGISTRY
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ImportError("klamm.prometheus needs prometheus-client: pip install 'klamm[prometheus]'") from error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Exported

    from klamm.metrics import ClientMetrics, Metric

__all__ = ["KlammCollector", "register"]

_log = logging.getLogger("klamm.prometheus")
_TOTAL = "-total"


class Client(Protocol):
    """A client of klamm."""

    def metrics(self) -> ClientMetrics:
        """Return a snapshot of the client's metrics."""


class KlammCollector(Collector):
    """A collector for the metrics of clients.

    The collector does not keep the clients alive, and drops clients that were garbage-collected.
    """

    def __init__(self) -> None:
        self._clients: list[weakref.ref[Client]] = []
        self._has_failed = False

    def add(self, client: Client) -> None:
        """Collect the metrics of a client from now on."""
        self._clients.append(weakref.ref(client))

    def remove(self, client: Client) -> None:
        """Stop collecting the metrics of a client."""
        self._clients = [ref for ref in self._clients if ref() is not client]

    def collect(self) -> Iterator[Exported]:
        """Return the metrics of all clients, except clients whose `metrics()` raises an exception."""
        self._clients = [ref for ref in self._clients if ref() is not None]
        found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for number, ref in enumerate(self._clients):
            client = ref()
            if client is None:
                continue
            try:
                metrics = client.metrics()
            except Exception:  # noqa: BLE001 - the error is logged, and other clients' metrics are exported
                if not self._has_failed:
                    _log.exception("%r has no metrics; later failures are not logged", client)
                self._has_failed = True
                continue
            for metric in metrics.values:
                _add(found, metric, metrics.client_id, str(number))
        yield from found.values()

    def describe(self) -> list[Exported]:
        """Return an empty list, because the names of the metrics depend on the clients."""
        return []


def metric_name(metric: Metric) -> str:
    """Return the Prometheus name of a metric, without the suffix `_total` of a counter."""
    name = f"kafka_{metric.group.removesuffix('-metrics')}_{metric.name.removesuffix(_TOTAL)}"
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def _add(
    found: dict[str, CounterMetricFamily | GaugeMetricFamily], metric: Metric, client_id: str, instance: str
) -> None:
    # All metrics with the same name must have the same labels. The metrics of a topic or a partition therefore have
    # other names than the metrics of a whole client.
    name = metric_name(metric)
    if "partition" in metric.tags:
        name = name.replace("_fetch_manager_", "_partition_")
    elif "topic" in metric.tags and "_topic_" not in name:
        name = name.replace("_fetch_manager_", "_topic_")
    labels = {
        "client_id": client_id,
        "client": instance,
        **{key.replace("-", "_"): v for key, v in metric.tags.items()},
    }
    if "node_id" in labels:
        labels["node_id"] = labels["node_id"].removeprefix("node-")
    family = found.get(name)
    if family is None:
        kind = CounterMetricFamily if metric.name.endswith(_TOTAL) else GaugeMetricFamily
        family = found[name] = kind(name, f"{metric.name} of {metric.group} in Java's client", labels=list(labels))
    family.add_metric(list(labels.values()), metric.value)


def register(*clients: Client, registry: CollectorRegistry = REGISTRY) -> KlammCollector:
    """Register a collector for clients.

    Args:
        clients: Producers, consumers, share consumers and admin clients.
        registry: Registry of prometheus-client. The default is the global registry.

    Returns:
        The collector, whose method `add` adds more clients. `registry.unregister(collector)` removes the collector.

    Example:
        collector = klamm.prometheus.register(producer)
        collector.add(consumer)
    """
    collector = KlammCollector()
    for client in clients:
        collector.add(client)
    registry.register(collector)
    return collector
