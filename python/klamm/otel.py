"""Exports metrics and traces of klamm's clients to OpenTelemetry. The module needs `klamm[otel]`.

    tracing = klamm.otel.Tracing()
    producer = klamm.Producer("localhost:9092", interceptors=[tracing])
    klamm.otel.observe(producer)
    for record in consumer:
        with tracing.process(record):
            ...

The names of metrics, spans and attributes follow OpenTelemetry's semantic conventions for messaging. With
`details=True`, `observe` also exports all other metrics of `client.metrics()`, under names such as
`kafka.consumer.fetch.manager.records.lag.max`. The attribute `klamm.client` is a number that distinguishes clients with
the same client ID.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from klamm.exporters import ExportedClients, exported_name
from klamm.hooks import header_pairs

try:
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.metrics import Observation
    from opentelemetry.trace import Link, SpanKind, StatusCode
except ImportError as error:
    raise ImportError("klamm.otel needs opentelemetry-api: pip install 'klamm[otel]'") from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, MeterProvider
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Span, TracerProvider

    from klamm._klamm import Record
    from klamm.exporters import Client
    from klamm.hooks import NewRecord
    from klamm.metrics import ClientMetrics, Metric

__all__ = ["Observer", "Tracing", "observe"]

_log = logging.getLogger("klamm.otel")
CACHED_S = 0.2
"""Time for which all instruments use the same snapshot of a client, in seconds.

Each collection of metrics calls all instruments. Without the cache, each instrument would create a snapshot of its own.
"""
MAX_LINKS = 128
"""Maximum number of records to which the span of a batch links. OpenTelemetry's SDK has the same limit by default."""


class Tracing:
    """Creates spans for records, as an interceptor of producers and with context managers for consumers.

    Args:
        tracer_provider: Provider of the tracer. The default is OpenTelemetry's global provider.
        propagator: Object that writes the trace context to headers and reads it from headers. The default is
            OpenTelemetry's global propagator, which uses the header `traceparent`.
        per_record: Whether to create a span for each record. If False, the headers of a sent record get the current
            trace context, and `process` does nothing.
        per_batch: Whether `receive` creates a span. If False, `receive` does nothing.
        inject: Whether to add the trace context to the headers of records.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
        *,
        per_record: bool = True,
        per_batch: bool = True,
        inject: bool = True,
    ) -> None:
        self._tracer = trace.get_tracer("klamm", tracer_provider=tracer_provider)
        self._propagator = propagator
        self._per_record = per_record
        self._per_batch = per_batch
        self._inject = inject

    def on_send(self, record: NewRecord) -> NewRecord:
        """Create a producer span for a record, and add the span's context to the headers.

        The producer calls this method.
        """
        if not self._per_record:
            return self._injected(record, None)
        attributes = _attributes("send", "create", record.topic, record.partition)
        if isinstance(record.key, str):
            attributes["messaging.kafka.message.key"] = record.key
        if record.value is None:
            attributes["messaging.kafka.message.tombstone"] = True
        with self._tracer.start_as_current_span(
            f"create {record.topic}", kind=SpanKind.PRODUCER, attributes=attributes
        ) as span:
            return self._injected(record, trace.set_span_in_context(span))

    def _injected(self, record: NewRecord, context: Context | None) -> NewRecord:
        if not self._inject:
            return record
        carrier: dict[str, str] = {}
        if self._propagator is None:
            propagate.inject(carrier, context)
        else:
            self._propagator.inject(carrier, context)
        if not carrier:
            return record
        kept = [pair for pair in header_pairs(record.headers) if pair[0] not in carrier]
        return record._replace(headers=[*kept, *((name, value.encode()) for name, value in carrier.items())])

    @contextmanager
    def process(self, record: Record[Any, Any], group: str | None = None) -> Iterator[Span | None]:
        """Return a context manager that creates a consumer span for a record. The span links to the producer's span.

        Args:
            record: Record that the consumer returned.
            group: Name of the consumer group, for the attributes.
        """
        if not self._per_record:
            yield None
            return
        attributes = _attributes("process", "process", record.topic, record.partition, group)
        attributes["messaging.kafka.offset"] = record.offset
        if record.raw_value is None:  # `value` would deserialize the value, which can fail
            attributes["messaging.kafka.message.tombstone"] = True
        with self._span(f"process {record.topic}", attributes, [record]) as span:
            yield span

    @contextmanager
    def receive(self, records: Sequence[Record[Any, Any]], group: str | None = None) -> Iterator[Span | None]:
        """Return a context manager that creates one consumer span for the records of a poll.

        The span links to the producer spans of the first 128 records.

        Args:
            records: Records that `poll` returned.
            group: Name of the consumer group, for the attributes.
        """
        if not self._per_batch or not records:
            yield None
            return
        topics = {record.topic for record in records[:MAX_LINKS]}
        topic = topics.pop() if len(topics) == 1 else None
        attributes = _attributes("poll", "receive", topic, None, group)
        attributes["messaging.batch.message_count"] = len(records)
        with self._span(f"poll {topic}" if topic else "poll", attributes, records[:MAX_LINKS]) as span:
            yield span

    @contextmanager
    def _span(self, name: str, attributes: dict[str, Any], records: Sequence[Record[Any, Any]]) -> Iterator[Span]:
        links = [link for record in records if (link := self._link(record)) is not None]
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.CONSUMER, attributes=attributes, links=links, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(StatusCode.ERROR)
                raise

    def _link(self, record: Record[Any, Any]) -> Link | None:
        carrier = {name: value.decode("ascii", "replace") for name, value in record.headers if value is not None}
        context = propagate.extract(carrier) if self._propagator is None else self._propagator.extract(carrier)
        producer = trace.get_current_span(context).get_span_context()
        return Link(producer) if producer.is_valid and producer.is_remote else None


def _attributes(
    name: str, kind: str, topic: str | None, partition: int | None, group: str | None = None
) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "messaging.system": "kafka",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }
    if topic is not None:
        attributes["messaging.destination.name"] = topic
    if partition is not None:
        attributes["messaging.destination.partition.id"] = str(partition)
    if group is not None:
        attributes["messaging.consumer.group.name"] = group
    return attributes


def observe(*clients: Client, meter_provider: MeterProvider | None = None, details: bool = False) -> Observer:
    """Export the metrics of clients.

    By default, the exported metrics are `messaging.client.sent.messages` and `messaging.client.consumed.messages`, for
    each topic.

    Args:
        clients: Producers, consumers, share consumers and admin clients. `observe` does not keep the clients alive.
        meter_provider: Provider of the meter. The default is OpenTelemetry's global provider.
        details: Whether to export the metrics of `client.metrics()` as well, such as
            `kafka.consumer.fetch.manager.records.lag.max`.

    Returns:
        The observer, whose method `add` adds more clients.
    """
    observer = Observer(metrics.get_meter("klamm", meter_provider=meter_provider), details=details)
    for client in clients:
        observer.add(client)
    return observer


class Observer:
    """Reads the metrics of clients whenever OpenTelemetry collects metrics. `observe` creates an `Observer`."""

    def __init__(self, meter: metrics.Meter, *, details: bool) -> None:
        self._meter = meter
        self._details = details
        self._clients = ExportedClients(_log)
        self._instruments: set[str] = set()
        self._cached: tuple[float, list[tuple[int, ClientMetrics]]] = (0.0, [])
        for name, counted, what in (
            ("messaging.client.sent.messages", "record-send-total", "sent to brokers"),
            ("messaging.client.consumed.messages", "records-consumed-total", "delivered to the application"),
        ):
            meter.create_observable_counter(
                name, [_Callback(self, counted)], unit="{message}", description=f"Number of messages {what}"
            )

    def add(self, client: Client) -> None:
        """Export the metrics of a client from now on."""
        self._clients.add(client)
        if self._details:
            self._create_later(list(client.metrics().values))

    def _create_later(self, found: list[Metric]) -> None:
        """Create instruments for new metrics, for example after the client has used its first topic."""
        new = {detail_name(metric): metric for metric in found if detail_name(metric) not in self._instruments}
        self._instruments.update(new)
        if new:
            # The SDK holds a lock while it collects metrics, and needs the same lock to create an instrument.
            threading.Thread(target=self._create_all, args=(new,), name="klamm-otel", daemon=True).start()

    def _create_all(self, new: dict[str, Metric]) -> None:
        for name, metric in new.items():
            self._create(name, metric)

    def _create(self, name: str, metric: Metric) -> None:
        is_total = metric.name.endswith("-total")
        create = self._meter.create_observable_counter if is_total else self._meter.create_observable_gauge
        create(name, [_Detail(self, name)], description=f"{metric.name} of {metric.group} in Java's client")

    def found(self) -> Iterator[tuple[dict[str, str], Metric]]:
        """Yield each metric of all clients with the attributes of the client. Skip a client whose `metrics()` raises."""
        taken_at, snapshots = self._cached
        if time.monotonic() - taken_at > CACHED_S:
            snapshots = list(self._clients.snapshots())
            self._cached = time.monotonic(), snapshots
            if self._details:
                self._create_later([metric for _, snapshot in snapshots for metric in snapshot.values])
        for number, snapshot in snapshots:
            client = {"messaging.client.id": snapshot.client_id, "klamm.client": str(number)}
            for metric in snapshot.values:
                yield client, metric


def detail_name(metric: Metric) -> str:
    """Return the OpenTelemetry name of a metric, such as `kafka.consumer.fetch.manager.records.lag.max`."""
    return f"kafka.{exported_name(metric)}".replace("-", ".")


class _Callback:
    """Observes one metric of each topic, under the name from the semantic conventions."""

    def __init__(self, observer: Observer, counted: str) -> None:
        self._observer = observer
        self._counted = counted

    def __call__(self, _: CallbackOptions) -> Iterable[Observation]:
        for client, metric in self._observer.found():
            if metric.name == self._counted and metric.tags.keys() == {"topic"}:
                name = "send" if self._counted == "record-send-total" else "poll"
                attributes = {
                    "messaging.system": "kafka",
                    "messaging.operation.name": name,
                    "messaging.destination.name": metric.tags["topic"],
                }
                yield Observation(int(metric.value), attributes | client)


class _Detail:
    """Observes one metric of all clients."""

    def __init__(self, observer: Observer, name: str) -> None:
        self._observer = observer
        self._name = name

    def __call__(self, _: CallbackOptions) -> Iterable[Observation]:
        for client, metric in self._observer.found():
            if detail_name(metric) == self._name:
                attributes = {key.replace("-", "."): value for key, value in metric.tags.items()}
                yield Observation(metric.value, attributes | client)
