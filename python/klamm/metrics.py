"""The result of `client.metrics()`: a snapshot of a client's metrics.

Attributes have the names of the Java client's metrics, with underscores instead of hyphens. Their meanings and units
are also those of the Java client: times are in milliseconds, and rates are per second. Attributes that end in `_total`
count since the client was created. Percentiles, and attributes that end in `_rate`, `_avg` or `_max`, cover the last 30
to 60 seconds, as in Java. If the Java client does not have a metric, the description of the attribute says so. For
exporters, `values` lists the metrics under the names of the Java client.

`==` compares the client ID, the broker IDs and, for producers, the topic names and the counters that only klamm has. It
ignores the metrics of the Java client, because rates and averages change even while the client does nothing.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from klamm.record import TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform

    from klamm._klamm import ClientCore

    Family = tuple[str, dict[str, str], dict[str, float]]
    """A group of metrics from the core: the group's name, its tags, and a dict from metric name to value."""
else:

    def dataclass_transform(**_: Any) -> Any:
        return lambda decorator: decorator


__all__ = [
    "AdminMetrics",
    "BrokerMetrics",
    "ClientMetrics",
    "ConsumerMetrics",
    "ConsumerTopicMetrics",
    "Metric",
    "PartitionMetrics",
    "ProducerMetrics",
    "RequestMetrics",
    "ShareConsumerMetrics",
    "TopicMetrics",
]

T = TypeVar("T")

OWN_GROUPS = "klamm-"
"""Prefix of metric groups that the Java client does not have."""
COUNTERS = "klamm-producer-counters"
"""Group of klamm's own producer counters. `BrokerMetrics` and `TopicMetrics` have the counters as attributes."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
def snapshot(cls: type[T]) -> type[T]:
    """Convert a class to a frozen dataclass.

    A field without a default is a measurement. Measurements get the default 0, and `==` ignores them.
    """
    for name in inspect.get_annotations(cls):
        if name not in cls.__dict__:
            setattr(cls, name, field(default=0, compare=False))
    return dataclass(frozen=True, kw_only=True)(cls)


class Metric(NamedTuple):
    """One metric, under the name of the Java client.

    Attributes:
        group: Group of the metric, such as `consumer-fetch-manager-metrics`.
        name: Name of the metric, such as `records-lag-max`.
        tags: Labels of the object that the metric describes: `node-id`, `topic`, `partition` or `request`. A metric of
            the whole client has no tags.
        value: Value of the metric, in the unit of the Java client. Most times are in milliseconds.
    """

    group: str
    name: str
    tags: dict[str, str]
    value: float


@snapshot
class RequestMetrics:
    """Metrics of the responses of one API, such as `Produce` or `OffsetCommit` (not in the Java client).

    Attributes:
        response_total: Number of responses. `response_rate` is the number of responses per second.
        latency_avg: Average time from request to response. `latency_max` is the longest time, and `latency_p50`,
            `latency_p99` and `latency_p999` are percentiles.
    """

    response_total: int
    response_rate: float
    latency_avg: float
    latency_max: float
    latency_p50: float
    latency_p99: float
    latency_p999: float


@snapshot
class BrokerMetrics:
    """Metrics of one broker.

    Only klamm has the attributes from `requests` to `throttled`, which cover all Produce requests since the producer
    was created.

    Attributes:
        requests: Number of Produce requests that the producer sent.
        bytes: Size of the compressed batches in completed Produce requests, in bytes, without the request headers.
        errors: Number of Produce requests without a valid response.
        in_flight: Number of Produce requests in flight.
        request_latency: Total time from Produce requests to their responses, in seconds.
        max_request_latency: Longest time from a Produce request to its response, in seconds.
        throttled: Time for which the broker throttled the producer because of a quota (KIP-219), in seconds.
        request_total: Number of requests of all APIs that the client sent.
        request_size_avg: Average size of a request in bytes.
        outgoing_byte_total: Number of bytes in requests.
        response_total: Number of responses of all APIs.
        incoming_byte_total: Number of bytes in responses.
        request_latency_avg: Average time from request to response in milliseconds, for all APIs.
    """

    requests: int = 0
    bytes: int = 0
    errors: int = 0
    in_flight: int = 0
    request_latency: float = 0.0
    max_request_latency: float = 0.0
    throttled: float = 0.0
    request_total: int
    request_rate: float
    request_size_avg: float
    request_size_max: float
    outgoing_byte_total: int
    outgoing_byte_rate: float
    response_total: int
    response_rate: float
    incoming_byte_total: int
    incoming_byte_rate: float
    request_latency_avg: float
    request_latency_max: float
    request_latency_p50: float
    request_latency_p99: float
    request_latency_p999: float

    @property
    def mean_request_latency(self) -> float:
        """Average time from a Produce request to its response, in seconds."""
        completed = self.requests - self.in_flight
        return self.request_latency / completed if completed else 0.0


@snapshot
class TopicMetrics:
    """Metrics of one topic of a producer.

    Only klamm has the attributes from `records` to `queue_time`, which count since the producer was created.

    Attributes:
        records: Number of acknowledged records.
        bytes: Size of the acknowledged records before compression, in bytes.
        batches: Number of acknowledged batches.
        errors: Number of failed records.
        retries: Number of batches that the producer sent again.
        queue_time: Total time of all batches from their first record to the first request with the batch, in seconds.
        record_send_total: Number of records in completed requests. A retried record counts again.
        byte_total: Number of bytes in completed requests, after compression.
        compression_rate: Size after compression divided by size before compression.
        record_retry_total: Number of records that the producer sent again.
        record_error_total: Number of records that failed.
    """

    records: int = 0
    bytes: int = 0
    batches: int = 0
    errors: int = 0
    retries: int = 0
    queue_time: float = 0.0
    record_send_total: int
    record_send_rate: float
    byte_total: int
    byte_rate: float
    compression_rate: float
    record_retry_total: int
    record_retry_rate: float
    record_error_total: int
    record_error_rate: float

    @property
    def records_per_batch(self) -> float:
        """Average number of records in a batch."""
        return self.records / self.batches if self.batches else 0.0

    @property
    def bytes_per_batch(self) -> float:
        """Average size of a batch before compression, in bytes."""
        return self.bytes / self.batches if self.batches else 0.0


@snapshot
class ConsumerTopicMetrics:
    """Metrics of one topic of a consumer or share consumer.

    Attributes:
        records_consumed_total: Number of records that the application received.
        bytes_consumed_total: Size of the records that the application received, before compression, in bytes.
        fetch_size_avg: Average size of the topic's records in a fetch response, in bytes.
        records_per_request_avg: Average number of the topic's records in a fetch response.
    """

    records_consumed_total: int
    records_consumed_rate: float
    bytes_consumed_total: int
    bytes_consumed_rate: float
    fetch_size_avg: float
    fetch_size_max: float
    records_per_request_avg: float


@snapshot
class PartitionMetrics:
    """Metrics of one assigned partition of a consumer.

    Attributes:
        records_lag: Number of records between the position and the end of the partition, or None before the first fetch
            response.
        records_lag_avg: Average lag when a fetch response arrives. `records_lag_max` is the largest lag.
        records_lead: Number of records between the start of the partition and the position, or None before the first
            fetch response.
        preferred_read_replica: Broker ID of the follower that the consumer reads from, or -1 for the leader.
    """

    records_lag: int | None = None
    records_lag_avg: float
    records_lag_max: float
    records_lead: int | None = None
    preferred_read_replica: int


@snapshot
class ClientMetrics:
    """Metrics that all clients have.

    Attributes:
        client_id: Configured `client_id`.
        connection_count: Number of open connections.
        connection_creation_total: Number of connections that the client opened. `connection_close_total` counts the
            connections that were closed.
        connection_failure_total: Number of failed attempts to connect (not in the Java client).
        reconnection_total: Number of new connections to brokers to which the client had already been connected (not in
            the Java client).
        successful_authentication_total: Number of successful SASL authentications or, without SASL, of successful TLS
            handshakes.
        successful_reauthentication_total: Number of successful SASL re-authentications of open connections (KIP-368).
        failed_authentication_total: Number of failed SASL authentications and TLS handshakes.
        network_io_total: Number of requests and responses.
        outgoing_byte_total: Number of bytes in requests.
        incoming_byte_total: Number of bytes in responses.
        request_total: Number of requests that the client sent.
        request_size_avg: Average size of a request in bytes.
        response_total: Number of responses.
        request_latency_avg: Average time from request to response. As in Java, a producer measures only Produce
            requests.
        metadata_age: Age of the metadata in seconds.
        brokers: Metrics of each broker, by broker ID.
        requests: Metrics of each API, by API name.
        values: All metrics, under the names of the Java client.
    """

    client_id: str = ""
    connection_count: int
    connection_creation_total: int
    connection_creation_rate: float
    connection_close_total: int
    connection_close_rate: float
    connection_failure_total: int
    connection_failure_rate: float
    reconnection_total: int
    reconnection_rate: float
    successful_authentication_total: int
    successful_authentication_rate: float
    successful_reauthentication_total: int
    successful_reauthentication_rate: float
    failed_authentication_total: int
    failed_authentication_rate: float
    network_io_total: int
    network_io_rate: float
    outgoing_byte_total: int
    outgoing_byte_rate: float
    incoming_byte_total: int
    incoming_byte_rate: float
    request_total: int
    request_rate: float
    request_size_avg: float
    request_size_max: float
    response_total: int
    response_rate: float
    request_latency_avg: float
    request_latency_max: float
    request_latency_p50: float
    request_latency_p99: float
    request_latency_p999: float
    metadata_age: float
    brokers: dict[int, BrokerMetrics] = field(default_factory=dict)
    requests: dict[str, RequestMetrics] = field(default_factory=dict, compare=False)
    values: tuple[Metric, ...] = field(default=(), compare=False, repr=False)

    @classmethod
    def _of(cls, client: ClientCore) -> Self:
        """Build the snapshot of a client."""
        families = client._families()
        whole: dict[str, Any] = {}
        brokers: dict[int, dict[str, Any]] = {}
        requests: dict[str, RequestMetrics] = {}
        topics: dict[str, dict[str, float]] = {}
        partitions: dict[TopicPartition, PartitionMetrics] = {}
        for group, tags, values in families:
            if group.startswith((OWN_GROUPS, "application")) and group != COUNTERS:
                continue
            match tags:
                case {"topic": topic, "partition": partition}:
                    partitions[TopicPartition(topic, int(partition))] = PartitionMetrics(**_fields(values))
                case {"topic": topic}:
                    topics.setdefault(topic, {}).update(_fields(values))
                case {"node-id": node}:
                    brokers.setdefault(int(node.removeprefix("node-")), {}).update(_fields(values))
                case {"request": request}:
                    requests[request] = RequestMetrics(**_fields(values))
                case _:
                    whole.update(_fields(values))
        return cls(
            client_id=client._client_id,
            brokers={
                node: BrokerMetrics(**values)
                for node, values in sorted(brokers.items())
                if node >= 0 and cls._has_broker(values)
            },
            requests=requests,
            values=tuple(
                Metric(group, name, tags, value)
                for group, tags, values in families
                if not group.startswith(OWN_GROUPS)
                for name, value in values.items()
            ),
            **whole,
            **cls._parts(topics, partitions),
        )

    @classmethod
    def _has_broker(cls, values: dict[str, float]) -> bool:  # noqa: ARG003
        """Return whether the attribute `brokers` includes a broker with these metric values."""
        return True

    @classmethod
    def _parts(
        cls,
        topics: dict[str, dict[str, float]],  # noqa: ARG003
        partitions: dict[TopicPartition, PartitionMetrics],  # noqa: ARG003
    ) -> dict[str, Any]:
        """Return the values of the fields `topics` and `partitions`, if the class has them."""
        return {}


def _fields(values: dict[str, float]) -> dict[str, Any]:
    return {name.replace("-", "_"): value for name, value in values.items()}


@snapshot
class AdminMetrics(ClientMetrics):
    """Metrics of an admin client."""


@snapshot
class ProducerMetrics(ClientMetrics):
    """Metrics of a producer.

    Attributes:
        topics: Metrics of each topic, by topic name.
        brokers: Metrics of each broker to which the producer sent Produce requests, by broker ID.
        buffered_bytes: Number of bytes of `buffer_memory` that queued and in-flight records use (not in the Java
            client).
        outstanding: Number of records that are neither acknowledged nor failed (not in the Java client).
        record_send_total: Number of records in completed requests. A retried record counts again.
        byte_total: Number of bytes in completed requests, after compression (not in the Java client).
        record_retry_total: Number of records that the producer sent again.
        record_error_total: Number of records that failed.
        batch_size_avg: Average size of a batch after compression, in bytes.
        batch_split_total: Number of batches that were split because they were too large for the broker.
        compression_rate_avg: Average ratio of a batch's size after compression to its size before compression.
        record_size_avg: Average size of a record before compression, in bytes.
        records_per_request_avg: Average number of records in a Produce request.
        record_queue_time_avg: Average time from the first record of a batch to the Produce request with the batch.
        produce_throttle_time_avg: Average time for which a broker throttled the producer. The average covers only
            responses that report throttling.
        requests_in_flight: Number of Produce requests in flight.
        buffer_total_bytes: Size of the buffer in bytes, as configured by `buffer_memory`.
        buffer_available_bytes: Free space of the buffer in bytes.
        bufferpool_wait_time_ns_total: Time during which records waited for room in the buffer, in nanoseconds.
        bufferpool_wait_ratio: `bufferpool_wait_time_ns_total` divided by the age of the producer.
    """

    topics: dict[str, TopicMetrics] = field(default_factory=dict)
    buffered_bytes: int = 0
    outstanding: int = 0
    record_send_total: int
    record_send_rate: float
    byte_total: int
    byte_rate: float
    record_retry_total: int
    record_retry_rate: float
    record_error_total: int
    record_error_rate: float
    batch_size_avg: float
    batch_size_max: float
    batch_size_p50: float
    batch_size_p99: float
    batch_size_p999: float
    batch_split_total: int
    batch_split_rate: float
    compression_rate_avg: float
    record_size_avg: float
    records_per_request_avg: float
    record_queue_time_avg: float
    record_queue_time_max: float
    record_queue_time_p50: float
    record_queue_time_p99: float
    record_queue_time_p999: float
    produce_throttle_time_avg: float
    produce_throttle_time_max: float
    requests_in_flight: int
    buffer_total_bytes: int
    buffer_available_bytes: int
    bufferpool_wait_time_ns_total: int
    bufferpool_wait_ratio: float

    @classmethod
    def _has_broker(cls, values: dict[str, float]) -> bool:
        return "requests" in values

    @classmethod
    def _parts(
        cls,
        topics: dict[str, dict[str, float]],
        partitions: dict[TopicPartition, PartitionMetrics],  # noqa: ARG003
    ) -> dict[str, Any]:
        fields: dict[str, dict[str, Any]] = topics
        return {"topics": {topic: TopicMetrics(**values) for topic, values in fields.items()}}


@snapshot
class _ReaderMetrics(ClientMetrics):
    """Metrics that consumers and share consumers have."""

    topics: dict[str, ConsumerTopicMetrics] = field(default_factory=dict, compare=False)
    records_consumed_total: int
    records_consumed_rate: float
    bytes_consumed_total: int
    bytes_consumed_rate: float
    fetch_size_avg: float
    fetch_size_max: float
    records_per_request_avg: float
    fetch_total: int
    fetch_rate: float
    fetch_latency_avg: float
    fetch_latency_max: float
    fetch_latency_p50: float
    fetch_latency_p99: float
    fetch_latency_p999: float
    fetch_throttle_time_avg: float
    fetch_throttle_time_max: float
    end_to_end_latency_avg: float
    end_to_end_latency_max: float
    end_to_end_latency_p50: float
    end_to_end_latency_p99: float
    end_to_end_latency_p999: float
    time_between_poll_avg: float
    time_between_poll_max: float
    time_between_poll_p50: float
    time_between_poll_p99: float
    time_between_poll_p999: float
    poll_idle_ratio_avg: float
    last_poll_seconds_ago: float
    heartbeat_total: int
    heartbeat_rate: float
    heartbeat_response_time_max: float
    last_heartbeat_seconds_ago: float = field(default=-1.0, compare=False)
    rebalance_total: int
    rebalance_rate: float
    rebalance_rate_per_hour: float
    rebalance_latency_avg: float
    rebalance_latency_max: float
    rebalance_latency_p50: float
    rebalance_latency_p99: float
    rebalance_latency_p999: float

    @classmethod
    def _parts(
        cls, topics: dict[str, dict[str, float]], partitions: dict[TopicPartition, PartitionMetrics]
    ) -> dict[str, Any]:
        fields: dict[str, dict[str, Any]] = topics
        found: dict[str, Any] = {"topics": {topic: ConsumerTopicMetrics(**values) for topic, values in fields.items()}}
        return found | ({"partitions": partitions} if "partitions" in cls.__dataclass_fields__ else {})


@snapshot
class ConsumerMetrics(_ReaderMetrics):
    """Metrics of a consumer.

    Attributes:
        topics: Metrics of each topic, by topic name.
        partitions: Metrics of each assigned partition, by `TopicPartition`.
        records_consumed_total: Number of records that the application received.
        bytes_consumed_total: Size of the records that the application received, before compression, in bytes.
        fetch_size_avg: Average size of the records in a fetch response, in bytes.
        records_per_request_avg: Average number of records in a fetch response.
        records_lag_max: Largest lag of a partition when a fetch response arrives.
        fetch_total: Number of fetch responses.
        fetch_latency_avg: Average time from a fetch request to its response. The average includes the time for which a
            broker waits for new records.
        fetch_throttle_time_avg: Average time for which brokers throttled the consumer.
        end_to_end_latency_avg: Average time from a record's timestamp to its delivery to the application. The consumer
            measures only the last record of each batch. The Java client does not have end-to-end latencies.
        time_between_poll_avg: Average time from one poll to the next. A loop over the consumer polls when no fetched
            record is left.
        poll_idle_ratio_avg: Fraction of the time that the application waits in polls. A value close to 0 means that the
            application is slower than the consumer.
        last_poll_seconds_ago: Seconds since the last poll, or -1 before the first poll.
        assigned_partitions: Number of assigned partitions.
        commit_total: Number of offset commits.
        commit_latency_avg: Average time from a commit request to its response.
        heartbeat_total: Number of heartbeats.
        heartbeat_response_time_max: Longest time from a heartbeat to its response.
        last_heartbeat_seconds_ago: Seconds since the last response to a heartbeat, or -1 before the first response.
        join_total: Number of JoinGroup responses. `join_time_avg` is the average time from a JoinGroup request to its
            response.
        sync_total: Number of SyncGroup responses. `sync_time_avg` is the average time from a SyncGroup request to its
            response.
        rebalance_total: Number of rebalances that this member completed.
        rebalance_latency_avg: Average time from the start of a rebalance until all partitions are assigned.
        failed_rebalance_total: Number of rebalances in which this member lost its partitions.
        last_rebalance_seconds_ago: Seconds since the last rebalance, or -1 before the first rebalance.
        partition_assigned_latency_avg: Average time that the rebalance listener takes for new partitions.
        partition_revoked_latency_avg: Average time that the rebalance listener takes for revoked partitions.
        partition_lost_latency_avg: Average time that the rebalance listener takes for lost partitions.
    """

    partitions: dict[TopicPartition, PartitionMetrics] = field(default_factory=dict, compare=False)
    records_lag_max: float
    assigned_partitions: int
    commit_total: int
    commit_rate: float
    commit_latency_avg: float
    commit_latency_max: float
    commit_latency_p50: float
    commit_latency_p99: float
    commit_latency_p999: float
    join_total: int
    join_rate: float
    join_time_avg: float
    join_time_max: float
    sync_total: int
    sync_rate: float
    sync_time_avg: float
    sync_time_max: float
    rebalance_latency_total: float
    failed_rebalance_total: int
    failed_rebalance_rate_per_hour: float
    last_rebalance_seconds_ago: float = field(default=-1.0, compare=False)
    partition_assigned_latency_avg: float
    partition_assigned_latency_max: float
    partition_revoked_latency_avg: float
    partition_revoked_latency_max: float
    partition_lost_latency_avg: float
    partition_lost_latency_max: float


@snapshot
class ShareConsumerMetrics(_ReaderMetrics):
    """Metrics of a share consumer. `ConsumerMetrics` describes the metrics that both types of consumers have.

    Attributes:
        topics: Metrics of each topic, by topic name.
        acknowledgements_send_total: Number of acknowledged records for which a broker has sent a response.
        acknowledgements_error_total: Number of acknowledgements that brokers rejected.
        rebalance_total: Number of times that the member joined the group.
    """

    acknowledgements_send_total: int
    acknowledgements_send_rate: float
    acknowledgements_error_total: int
    acknowledgements_error_rate: float
