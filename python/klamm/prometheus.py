"""Exports the metrics of klamm's clients to Prometheus. The module needs `klamm[prometheus]`.

    klamm.prometheus.register(producer, consumer)
    prometheus_client.start_http_server(8000)

The names of the metrics come from the Java client. For example, `records-lag-max` in the group
`consumer-fetch-manager-metrics` becomes `kafka_consumer_fetch_manager_records_lag_max`. As in the Java client, times
are in milliseconds. Names that Prometheus's rules forbid are changed: `connection-count` becomes `connections`, and a
time in nanoseconds becomes a time in seconds.
"""

from __future__ import annotations

import logging
import re
import threading
import weakref
from typing import TYPE_CHECKING

from klamm.exporters import ExportedClients, exported_name

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

    from klamm.exporters import Client
    from klamm.metrics import Metric

__all__ = ["KlammCollector", "register"]

_log = logging.getLogger("klamm.prometheus")


class KlammCollector(Collector):
    """A collector for the metrics of clients. `register` creates one collector for each registry.

    The collector does not keep the clients alive, and drops clients that were garbage-collected.
    """

    def __init__(self) -> None:
        self._clients = ExportedClients(_log)

    def add(self, client: Client) -> None:
        """Collect the metrics of a client from now on."""
        self._clients.add(client)

    def remove(self, client: Client) -> None:
        """Stop collecting the metrics of a client."""
        self._clients.remove(client)

    def collect(self) -> Iterator[Exported]:
        """Return the metrics of all clients, except clients whose `metrics()` raises an exception."""
        found: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for number, metrics in self._clients.snapshots():
            for metric in metrics.values:
                _add(found, metric, {"client_id": metrics.client_id, "client": str(number)})
        yield from found.values()

    def describe(self) -> list[Exported]:
        """Return an empty list, because the names of the metrics depend on the clients."""
        return []


_collectors: weakref.WeakKeyDictionary[CollectorRegistry, KlammCollector] = weakref.WeakKeyDictionary()
_registering = threading.Lock()


def metric_name(metric: Metric) -> str:
    """Return the Prometheus name of a metric, without the suffix `_total` of a counter."""
    # Prometheus reserves the suffix `_count` for histograms, and wants no abbreviated units.
    name = re.sub("-count$", "s", re.sub("-ns$", "-seconds", exported_name(metric)))
    return re.sub(r"[^a-zA-Z0-9_]", "_", f"kafka_{name}")


def _add(
    found: dict[str, CounterMetricFamily | GaugeMetricFamily], metric: Metric, client_labels: dict[str, str]
) -> None:
    name = metric_name(metric)
    labels = client_labels | {key.replace("-", "_"): value for key, value in metric.tags.items()}
    if "node_id" in labels:
        labels["node_id"] = labels["node_id"].removeprefix("node-")
    family = found.get(name)
    if family is None:
        kind = CounterMetricFamily if metric.name.endswith("-total") else GaugeMetricFamily
        family = found[name] = kind(name, f"{metric.name} of {metric.group} in Java's client", labels=list(labels))
    is_in_ns = metric.name.endswith("-ns-total")
    family.add_metric(list(labels.values()), metric.value / 1e9 if is_in_ns else metric.value)


def register(*clients: Client, registry: CollectorRegistry = REGISTRY) -> KlammCollector:
    """Export the metrics of clients through a registry.

    A registry has one collector of klamm. If you call `register` again, the collector exports the new clients as well.
    The label `client` of a client stays the same for the life of the client.

    Args:
        clients: Producers, consumers, share consumers and admin clients.
        registry: Registry of prometheus-client. The default is the global registry.

    Returns:
        The registry's collector. Its methods `add` and `remove` add and remove clients.
        `registry.unregister(collector)` removes all clients.

    Example:
        collector = klamm.prometheus.register(producer)
        collector.add(consumer)
    """
    with _registering:
        collector = _collectors.get(registry, KlammCollector())
        try:
            registry.unregister(collector)
        except KeyError:  # the first call, or the program has unregistered the collector
            collector = _collectors[registry] = KlammCollector()
        for client in clients:
            collector.add(client)
        registry.register(collector)
        return collector
