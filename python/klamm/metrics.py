"""Counters of a producer since it was created. Times are sums over all batches or requests, in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from klamm._klamm import ProducerCore

__all__ = ["BrokerMetrics", "ProducerMetrics", "TopicMetrics"]


@dataclass(frozen=True)
class TopicMetrics:
    """Counters of one topic."""

    records: int
    """Acknowledged records."""
    bytes: int
    """Size of the acknowledged records before compression, in bytes."""
    batches: int
    """Acknowledged batches."""
    errors: int
    """Failed records."""
    retries: int
    """Batches that were sent again."""
    queue_time: float
    """Time from the first record of a batch to the first request with it."""

    @property
    def records_per_batch(self) -> float:
        """Average number of records in a batch."""
        return self.records / self.batches if self.batches else 0.0

    @property
    def bytes_per_batch(self) -> float:
        """Average size of a batch before compression, in bytes."""
        return self.bytes / self.batches if self.batches else 0.0


@dataclass(frozen=True)
class BrokerMetrics:
    """Counters of one broker."""

    requests: int
    """Produce requests that were sent."""
    bytes: int
    """Size of the batches in completed requests after compression, in bytes, without the request headers."""
    errors: int
    """Requests without a valid response."""
    in_flight: int
    """Requests in flight."""
    request_latency: float
    """Time from request to response."""
    max_request_latency: float
    """Longest time from a request to its response."""
    throttled: float
    """Time for which the broker throttled the producer (quotas, KIP-219)."""

    @property
    def mean_request_latency(self) -> float:
        """Average time from request to response, in seconds."""
        completed = self.requests - self.in_flight
        return self.request_latency / completed if completed else 0.0


@dataclass(frozen=True)
class ProducerMetrics:
    """Counters of a producer."""

    topics: dict[str, TopicMetrics]
    """Counters by topic."""
    brokers: dict[int, BrokerMetrics]
    """Counters by broker ID."""
    buffered_bytes: int
    """Bytes of queued and in-flight records, out of `buffer_memory`."""
    outstanding: int
    """Records that are neither acknowledged nor failed."""


def of_producer(producer: ProducerCore) -> ProducerMetrics:
    """Return the counters of a producer."""
    topics, brokers, buffered_bytes, outstanding = producer._metrics()  # noqa: SLF001
    return ProducerMetrics(
        {name: TopicMetrics(*numbers) for name, numbers in topics},
        {node: BrokerMetrics(*numbers) for node, numbers in brokers},
        buffered_bytes,
        outstanding,
    )
