"""Counters of a producer since it was created. Times are sums over all batches or requests, in seconds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BrokerMetrics", "ProducerMetrics", "TopicMetrics"]


@dataclass(frozen=True)
class TopicMetrics:
    """Counters of one topic.

    Attributes:
        records: Acknowledged records.
        bytes: Size of the acknowledged records before compression, in bytes.
        batches: Acknowledged batches.
        errors: Failed records.
        retries: Batches that were sent again.
        queue_time: Time from the first record of a batch to the first request with the batch.
    """

    records: int
    bytes: int
    batches: int
    errors: int
    retries: int
    queue_time: float

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
    """Counters of one broker.

    Attributes:
        requests: Produce requests that were sent.
        bytes: Size of the batches in completed requests after compression, in bytes, without the request headers.
        errors: Requests without a valid response.
        in_flight: Requests in flight.
        request_latency: Time from request to response.
        max_request_latency: Longest time from a request to its response.
        throttled: Time for which the broker throttled the producer (quotas, KIP-219).
    """

    requests: int
    bytes: int
    errors: int
    in_flight: int
    request_latency: float
    max_request_latency: float
    throttled: float

    @property
    def mean_request_latency(self) -> float:
        """Average time from request to response, in seconds."""
        completed = self.requests - self.in_flight
        return self.request_latency / completed if completed else 0.0


@dataclass(frozen=True)
class ProducerMetrics:
    """Counters of a producer.

    Attributes:
        topics: Counters by topic.
        brokers: Counters by broker ID.
        buffered_bytes: Bytes of queued and in-flight records, out of `buffer_memory`.
        outstanding: Records that are neither acknowledged nor failed.
    """

    topics: dict[str, TopicMetrics]
    brokers: dict[int, BrokerMetrics]
    buffered_bytes: int
    outstanding: int
