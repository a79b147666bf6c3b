"""What a producer has counted since it was made; all times are sums over all batches or requests, in seconds."""

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
    """Records acknowledged."""
    bytes: int
    """Their size before compression."""
    batches: int
    """Batches acknowledged."""
    errors: int
    """Records that failed."""
    retries: int
    """Batches that were sent again."""
    queue_time: float
    """From a batch's first record to its first request."""

    @property
    def records_per_batch(self) -> float:
        """Records in a batch, on average."""
        return self.records / self.batches if self.batches else 0.0

    @property
    def bytes_per_batch(self) -> float:
        """The size of a batch before compression, on average."""
        return self.bytes / self.batches if self.batches else 0.0


@dataclass(frozen=True)
class BrokerMetrics:
    """Counters of one broker."""

    requests: int
    """Produce requests sent."""
    bytes: int
    """The size of the batches in those that are not under way any more, after compression; the few bytes around them do not count."""
    errors: int
    """Those that got no answer, or one that made no sense."""
    in_flight: int
    """Those under way."""
    request_latency: float
    """From request to answer."""
    max_request_latency: float
    """The longest of them."""
    throttled: float
    """How long the broker asked to be left alone (quotas, KIP-219)."""

    @property
    def mean_request_latency(self) -> float:
        """From request to answer, on average."""
        answered = self.requests - self.in_flight
        return self.request_latency / answered if answered else 0.0


@dataclass(frozen=True)
class ProducerMetrics:
    """Counters of a producer."""

    topics: dict[str, TopicMetrics]
    """By topic."""
    brokers: dict[int, BrokerMetrics]
    """By the broker's id."""
    buffered_bytes: int
    """Bytes of records that wait or are in flight, of `buffer_memory`."""
    outstanding: int
    """Records without an outcome."""


def of_producer(producer: ProducerCore) -> ProducerMetrics:
    """Return a producer's counters."""
    topics, brokers, buffered_bytes, outstanding = producer._metrics()  # noqa: SLF001
    return ProducerMetrics(
        {name: TopicMetrics(*numbers) for name, numbers in topics},
        {node: BrokerMetrics(*numbers) for node, numbers in brokers},
        buffered_bytes,
        outstanding,
    )
