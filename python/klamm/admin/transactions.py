"""Describes producers, describes and lists transactions, and aborts hanging transactions (KIP-664)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from klamm.admin.calls import (
    BY_PARTITION,
    TRANSACTION,
    Calls,
    Item,
    collect,
    known,
    nothing,
    partition_item,
    plain,
)
from klamm.arguments import INT16, INT32, boolean, integer, list_of, list_of_str, optional_string
from klamm.errors import ArgumentError
from klamm.record import TopicPartition
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from klamm.admin.calls import Fields

FENCING_TIMEOUT_MS = 60_000


@dataclass(frozen=True)
class ProducerState:
    """The state of a producer in a partition.

    Attributes:
        producer_id: Producer ID.
        producer_epoch: Epoch of the producer.
        last_sequence: Sequence number of the last record, or -1.
        last_timestamp_ms: Time of the last record in milliseconds since 1970, or -1.
        coordinator_epoch: Epoch of the coordinator that wrote the producer's last marker, or None.
        transaction_start_offset: First offset of the producer's open transaction, or None.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    transaction_start_offset: int | None


@dataclass(frozen=True)
class TransactionListing:
    """A transactional producer, as `list_transactions` returns it.

    Attributes:
        transactional_id: The transactional ID.
        producer_id: Producer ID.
        state: State such as `Ongoing` or `CompleteCommit`.
        coordinator: Broker ID of the transaction coordinator.
    """

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True)
class TransactionDescription:
    """The state of a transactional producer and its transaction.

    Attributes:
        state: State such as `Ongoing` or `CompleteCommit`.
        producer_id: Producer ID.
        producer_epoch: Epoch of the producer.
        timeout_ms: Transaction timeout in milliseconds.
        start_ms: Start of the open transaction in milliseconds since 1970, or None.
        partitions: Partitions of the open transaction.
    """

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: list[TopicPartition]


@dataclass(frozen=True)
class FencedProducer:
    """Result of `fence_producers`: the producer ID, and the new epoch that fences older producers."""

    producer_id: int
    producer_epoch: int


class TransactionCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _producers(
        self, partitions: Iterable[TopicPartition], broker: int | None, timeout: float | None
    ) -> dict[TopicPartition, list[ProducerState]]:
        route = None if broker is None else integer("broker", broker, 0, INT32)
        items = {
            tp: partition_item(
                tp,
                "describe producers of",
                {"topics": [{"name": tp.topic, "partitionIndexes": [tp.partition]}]},
                route,
            )
            for tp in plain(partitions)
        }
        results = await self._for_items("DescribeProducers", items, _producers, timeout, path=BY_PARTITION)
        return collect(results.items())

    async def _describe_ids(
        self, transactional_ids: Iterable[str], timeout: float | None
    ) -> dict[str, TransactionDescription]:
        items = {
            each: Item({"transactionalIds": [each]}, (TRANSACTION, each), f"describe transactional ID {each!r}")
            for each in list_of_str("transactional_ids", transactional_ids)
        }
        return collect((await self._for_items("DescribeTransactions", items, _transaction, timeout)).items())

    async def _list_ids(self, filters: Fields, timeout: float | None) -> list[TransactionListing]:
        deadline = self._deadline(timeout)

        items = {
            broker: Item(filters, broker, f"list transactions of broker {broker}")
            for broker in await self._brokers(deadline.left())
        }
        results = await self._for_items("ListTransactions", items, _listed, deadline.left())
        return [each for found in collect(results.items()).values() for each in found]

    async def _write_markers(
        self,
        partitions: Iterable[TopicPartition],
        producer: tuple[int, int, int],
        commit: bool,
        timeout: float | None,
    ) -> None:
        producer_id, producer_epoch, coordinator_epoch = producer
        marker = {
            "producerId": integer("producer_id", producer_id, 0),
            "producerEpoch": integer("producer_epoch", producer_epoch, 0, INT16),
            "coordinatorEpoch": integer("coordinator_epoch", coordinator_epoch, -1, INT32),
            "transactionResult": boolean("commit", commit),
        }

        items = {
            tp: partition_item(
                tp,
                "write a transaction marker to",
                {"markers": [{**marker, "topics": [{"name": tp.topic, "partitionIndexes": [tp.partition]}]}]},
            )
            for tp in plain(partitions)
        }
        results = await self._for_items("WriteTxnMarkers", items, nothing, timeout, path=f"markers/{BY_PARTITION}")
        collect(results.items())

    async def _fence(self, transactional_ids: Iterable[str], timeout: float | None) -> dict[str, FencedProducer]:
        items = {
            each: Item(
                {"transactionalId": each, "transactionTimeoutMs": FENCING_TIMEOUT_MS},
                (TRANSACTION, each),
                f"fence producers of transactional ID {each!r}",
            )
            for each in list_of_str("transactional_ids", transactional_ids)
        }
        return collect((await self._for_items("InitProducerId", items, _fenced, timeout)).items())


class Transactions(TransactionCalls):
    """Methods of `Admin` for producers and transactions."""

    def describe_producers(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None, *, broker: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        """For each partition, return the producers whose state a replica keeps (Kafka 2.8).

        Args:
            partitions: The partitions.
            timeout: Seconds to wait.
            broker: Broker ID of a replica. The default is the leader of each partition.

        Raises:
            UnknownTopicOrPartitionError: A partition does not exist.
            CombinedError: Several partitions failed. `error.results` has the results of the partitions that succeeded.
        """
        return run(self._producers(partitions, broker, timeout))

    def describe_transactions(
        self, transactional_ids: Iterable[str], timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        """Return the states of transactional producers (Kafka 3.0).

        Raises:
            TransactionalIdNotFoundError: The cluster does not know one of the transactional IDs.
            CombinedError: Several IDs failed. `error.results` has the results of the IDs that succeeded.
        """
        return run(self._describe_ids(transactional_ids, timeout))

    def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        timeout: float | None = None,
        *,
        min_duration_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Return the transactional producers that the brokers of the cluster coordinate (Kafka 3.0).

        Args:
            states: States such as `Ongoing`. The default is all states.
            producer_ids: Producer IDs. The default is all producer IDs.
            timeout: Seconds to wait.
            min_duration_ms: Return only transactions that have been open for this many milliseconds (Kafka 3.8).
            pattern: Regular expression that the whole transactional ID has to match (Kafka 4.1).

        Raises:
            CombinedError: Several brokers failed. `error.results` has the lists of the brokers that succeeded, by
                broker ID.
        """
        return run(self._list_ids(_filters(states, producer_ids, min_duration_ms, pattern), timeout))

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout: float | None = None,
    ) -> None:
        """Abort a transaction that hangs in a partition and that the coordinator does not know (Kafka 3.0).

        `describe_producers` returns the producer ID, the producer epoch and the coordinator epoch. If the coordinator
        knows the transaction, use `fence_producers` instead.

        Args:
            partition: The partition.
            producer_id: Producer ID.
            producer_epoch: Epoch of the producer.
            coordinator_epoch: Epoch of the coordinator. Pass 0 if `describe_producers` returns None as the
                coordinator's epoch.
            timeout: Seconds to wait.

        Raises:
            InvalidProducerEpochError: The producer has a newer epoch.
            TransactionCoordinatorFencedError: The coordinator has a newer epoch.
        """
        run(self._write_markers([partition], (producer_id, producer_epoch, coordinator_epoch), False, timeout))

    def write_transaction_markers(
        self,
        partitions: Iterable[TopicPartition],
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout: float | None = None,
        *,
        commit: bool,
        force: bool = False,
    ) -> None:
        """End a transaction without its coordinator, by writing the commit or abort markers directly.

        Use this method only for repairs, because the transaction may no longer be atomic afterwards.

        Args:
            partitions: The partitions.
            producer_id: Producer ID.
            producer_epoch: Epoch of the producer.
            coordinator_epoch: Epoch of the coordinator.
            timeout: Seconds to wait.
            commit: Whether to commit the transaction (True) or to abort it (False).
            force: Must be True, as a confirmation.

        Raises:
            ArgumentError: `force` is not True.
            CombinedError: Several markers were not written.
        """
        if force is not True:
            raise ArgumentError(
                "writing transaction markers bypasses the coordinator", hint="to write them anyway, pass force=True"
            )
        run(self._write_markers(partitions, (producer_id, producer_epoch, coordinator_epoch), commit, timeout))

    def fence_producers(
        self, transactional_ids: Iterable[str], timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        """Fence the producers of transactional IDs, which aborts their open transactions (Kafka 0.11).

        Raises:
            TransactionalIdAuthorizationFailedError: The user may not write with one of the transactional IDs.
            CombinedError: Several IDs failed. `error.results` has the results of the IDs that succeeded.
        """
        return run(self._fence(transactional_ids, timeout))

    def force_terminate_transaction(self, transactional_id: str, timeout: float | None = None) -> None:
        """Abort the open transaction of a transactional ID, even a prepared transaction (two-phase commit, KIP-939)."""
        run(self._fence([transactional_id], timeout))


@documented_by(Transactions)
class AsyncTransactions(TransactionCalls):
    """Methods of `AsyncAdmin` for producers and transactions."""

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None, *, broker: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        return await self._producers(partitions, broker, timeout)

    async def describe_transactions(
        self, transactional_ids: Iterable[str], timeout: float | None = None
    ) -> dict[str, TransactionDescription]:
        return await self._describe_ids(transactional_ids, timeout)

    async def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        timeout: float | None = None,
        *,
        min_duration_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        return await self._list_ids(_filters(states, producer_ids, min_duration_ms, pattern), timeout)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout: float | None = None,
    ) -> None:
        await self._write_markers([partition], (producer_id, producer_epoch, coordinator_epoch), False, timeout)

    async def write_transaction_markers(
        self,
        partitions: Iterable[TopicPartition],
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        timeout: float | None = None,
        *,
        commit: bool,
        force: bool = False,
    ) -> None:
        if force is not True:
            raise ArgumentError(
                "writing transaction markers bypasses the coordinator", hint="to write them anyway, pass force=True"
            )
        await self._write_markers(partitions, (producer_id, producer_epoch, coordinator_epoch), commit, timeout)

    async def fence_producers(
        self, transactional_ids: Iterable[str], timeout: float | None = None
    ) -> dict[str, FencedProducer]:
        return await self._fence(transactional_ids, timeout)

    async def force_terminate_transaction(self, transactional_id: str, timeout: float | None = None) -> None:
        await self._fence([transactional_id], timeout)


def _filters(
    states: Iterable[str], producer_ids: Iterable[int], min_duration_ms: int | None, pattern: str | None
) -> Fields:
    fields: Fields = {
        "stateFilters": list_of_str("states", states),
        "producerIdFilters": [integer("a producer ID", each, 0) for each in list_of("producer_ids", producer_ids)],
    }
    if min_duration_ms is not None:
        fields["durationFilter"] = integer("min_duration_ms", min_duration_ms, 0)
    if optional_string("pattern", pattern) is not None:
        fields["transactionalIdPattern"] = pattern
    return fields


def _producers(part: Fields) -> list[ProducerState]:
    return [_producer(each) for each in part["activeProducers"]]


def _producer(fields: Fields) -> ProducerState:
    return ProducerState(
        fields["producerId"],
        fields["producerEpoch"],
        fields["lastSequence"],
        fields["lastTimestamp"],
        known(fields["coordinatorEpoch"]),
        known(fields["currentTxnStartOffset"]),
    )


def _transaction(response: Fields) -> TransactionDescription:
    (state,) = response["transactionStates"]
    return TransactionDescription(
        state["transactionState"],
        state["producerId"],
        state["producerEpoch"],
        state["transactionTimeoutMs"],
        known(state["transactionStartTimeMs"]),
        sorted(TopicPartition(topic["topic"], number) for topic in state["topics"] for number in topic["partitions"]),
    )


def _listed(response: Fields) -> list[TransactionListing]:
    return [
        TransactionListing(each["transactionalId"], each["producerId"], each["transactionState"], response["broker"])
        for each in response["transactionStates"]
    ]


def _fenced(response: Fields) -> FencedProducer:
    return FencedProducer(response["producerId"], response["producerEpoch"])
