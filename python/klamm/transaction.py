"""Transactions, which can contain records of any number of topics and a consumer's offsets.

A transaction either commits all its records and offsets, or discards all of them.

    with klamm.Producer("localhost:9092", transactional_id="orders-1") as producer:
        producer.init_transactions()
        while records := consumer.poll():
            with producer.transaction(consumer) as tx:
                for record in records:
                    tx.send("invoices", record.value)

The transaction commits at the end of the block, and aborts if the block raises an exception. After an abort, the
consumer reads the records of the transaction again. A consumer with `isolation_level="read_committed"` reads only
committed records. KIP-98 describes the protocol of transactions. From
Kafka 4.0 on, brokers add partitions to a transaction automatically, and raise the producer epoch with every transaction
(KIP-890). The core keeps the state of a transaction.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from klamm._klamm import ConsumerCore, ProducerCore
from klamm.arguments import boolean
from klamm.errors import ArgumentError, ConfigError, KafkaError
from klamm.hints import hints_for_other_clients
from klamm.hooks import K_contra, V_contra
from klamm.other_clients import TRANSACTION
from klamm.record import committable
from klamm.waiting import Asyncio, Blocking, Waiting, documented_by, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

    from klamm._klamm import Pending
    from klamm.consumer import AsyncConsumer, Consumer
    from klamm.consumer_base import _Consumer
    from klamm.producer import AsyncProducer, Producer
    from klamm.record import OffsetAndMetadata, OffsetToCommit, TopicPartition

__all__ = ["AsyncTransaction", "GroupMetadata", "Transaction"]


@dataclass(frozen=True)
class GroupMetadata:
    """The membership of a consumer in its group, for transactions that commit the consumer's offsets (KIP-447).

    Args:
        group_id: Name of the group.
        generation_id: Generation of the group, or -1 if the consumer is not a member.
        member_id: ID of the member, or an empty string if the consumer is not a member.
        group_instance_id: Instance ID of a static member (KIP-345).
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class TransactionalProducer(Waiting, ProducerCore[K_contra, V_contra]):
    """The base class of producers, with the methods that transactions use."""

    _last_start: Pending[None] | None = None
    """Result of the last call of `_init_transactions`."""
    _last_end: Pending[None] | None = None
    """Result of the last commit or abort."""

    def _start_transactions(self) -> Pending[None]:
        # After a timeout or an interrupt, the next call continues to wait for the same result.
        if self._last_start is None or self._last_start.done():
            self._last_start = self._init_transactions()
        return self._last_start

    async def _drain_queue(self, what: str, timeout: float | None) -> float | None:  # noqa: ARG002
        """Wait until the send queue is empty, and return the rest of the timeout."""
        return timeout

    async def _wait_for_earlier(self) -> None:
        """Wait until queued records are appended to batches, so that a bulk call cannot append its records first."""

    def _fail_queued(self) -> None:
        """Fail the records in the send queue, because the transaction of these records is aborted."""


class _Transaction(Waiting, Generic[K_contra, V_contra]):
    """The base class of `Transaction` and `AsyncTransaction`."""

    def __init__(
        self,
        producer: TransactionalProducer[K_contra, V_contra],
        consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any] | None = None,
    ) -> None:
        if consumer is not None:
            _group_of(consumer)  # raises if the consumer does not fit
        self._producer = producer
        # The consumer whose offsets the end of the block commits, or None.
        self._consumer = consumer
        # The groups whose offsets the block has committed itself.
        self._groups: set[str] = set()
        self._is_open = False
        # The pending result of a commit or abort, and True for a commit.
        self._ending: tuple[Pending[None], bool] | None = None

    async def _begin(self) -> None:
        if self._consumer is not None:
            self._producer._bind_consumer(self._consumer)
        try:
            earlier = self._producer._last_end
            if earlier is not None and not earlier.done():
                with suppress(KafkaError):  # the call that started this commit or abort was interrupted
                    await self._wait(earlier)
            await self._wait(self._producer._start_transactions())
            self._producer._begin_transaction()
        except BaseException:
            self._producer._rewind_consumers()  # the records that the consumers returned are in no transaction
            raise
        self._is_open, self._ending = True, None
        self._groups.clear()

    async def _commit(self, timeout: float | None) -> None:
        if self._is_open:
            timeout = await self._producer._drain_queue("commit of the transaction", timeout)
        await self._wait_for_end(self._end_transaction(commit=True), timeout)

    async def _abort(self, timeout: float | None) -> None:
        await self._wait_for_end(self._end_transaction(commit=False), timeout)

    def _end_transaction(self, *, commit: bool) -> Pending[None]:
        pending = self._start_end(commit=commit)
        if not commit:
            self._producer._fail_queued()
        return pending

    def _start_end(self, *, commit: bool) -> Pending[None]:
        if self._ending is not None and self._ending[1] == commit:
            return self._ending[0]  # an earlier call timed out, and this call continues to wait
        if not self._is_open and self._ending is None:
            # Meanwhile, the program may have opened another transaction of this producer.
            raise ConfigError(
                "this transaction is not open", hint="use `with producer.transaction()` for each transaction"
            )
        offsets = self._processed_offsets() if commit else None
        try:
            pending = self._producer._end_transaction(commit, offsets)
        except KafkaError:
            self._producer._failures(False)
            raise
        self._is_open, self._ending = False, (pending, commit)
        self._producer._last_end = pending
        return pending

    def _processed_offsets(self) -> tuple[GroupMetadata, list[OffsetToCommit], ConsumerCore[Any, Any]] | None:
        """Return the offsets of the transaction's consumer, unless the block has committed offsets of its group."""
        if self._consumer is None:
            return None
        group = _group_of(self._consumer)
        if group.group_id in self._groups:
            return None
        return group, self._consumer._offsets_to_commit(), self._consumer

    async def _wait_for_end(self, pending: Pending[None], timeout: float | None) -> None:
        try:
            await self._wait(pending, timeout)
        finally:
            if pending.done():
                self._ending = None
            else:
                self._producer._hold_consumers()
            self._producer._failures(False)

    async def _exit(self, kind: type[BaseException] | None) -> None:
        # If a commit timed out, wait for its result. After any other commit or abort, nothing is left to do.
        if not self._is_open and (self._ending is None or not self._ending[1]):
            return
        if kind is None:
            try:
                await self._commit(None)
            except BaseException:
                if self._is_open:  # the commit has not started
                    with suppress(KafkaError):
                        self._end_transaction(commit=False)
                raise
            return
        with suppress(KafkaError):  # the exception that ends the block takes precedence
            if issubclass(kind, Exception):
                await self._abort(None)
            else:
                self._end_transaction(commit=False)

    def _offsets(
        self,
        consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any] | GroupMetadata,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None,
        rewind: bool,
    ) -> Pending[None]:
        if isinstance(consumer, GroupMetadata):
            group = consumer
            if offsets is None:
                raise ConfigError(
                    "a GroupMetadata has no offsets", hint="pass offsets as well, or pass the consumer itself"
                )
        else:
            group = _group_of(consumer)
            # The consumer is bound before the commit can fail, so that it also goes back if the commit fails.
            if boolean("rewind", rewind):
                self._producer._bind_consumer(consumer)
            else:
                self._producer._release_consumer(consumer)
        if offsets is None:
            checked_offsets = consumer._offsets_to_commit()  # type: ignore[union-attr]
        else:
            checked_offsets = committable(offsets)
            if any(offset.timestamp_ms is not None for offset in checked_offsets):
                raise ConfigError(
                    "offsets in a transaction cannot have a timestamp_ms", hint="remove timestamp_ms from the offsets"
                )
        member = None if isinstance(consumer, GroupMetadata) else consumer
        pending = self._producer._commit_offsets(group, checked_offsets, member)
        self._groups.add(group.group_id)
        return pending

    def __repr__(self) -> str:
        return f"<klamm.{type(self).__name__} of {self._producer!r}, {'open' if self._is_open else 'not open'}>"


@hints_for_other_clients(TRANSACTION)
class Transaction(Blocking, _Transaction[K_contra, V_contra]):
    """A transaction of a `Producer`. `producer.transaction()` creates the transaction, and `with` begins and ends it.

    A transaction has the methods `send`, `send_nowait`, `send_many` and `send_arrow` of the producer.

    Example:
        with producer.transaction() as tx:
            tx.send("invoices", b"...")
            tx.commit_offsets(consumer)
    """

    def __init__(
        self,
        producer: Producer[K_contra, V_contra],
        consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any] | None = None,
    ) -> None:
        super().__init__(producer, consumer)
        self.send = producer.send
        self.send_nowait = producer.send_nowait
        self.send_many = producer.send_many
        self.send_arrow = producer.send_arrow

    def commit_offsets(
        self,
        consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any] | GroupMetadata,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
        *,
        rewind: bool = True,
    ) -> None:
        """Commit offsets of a consumer group together with the transaction (KIP-447).

        From this call on, the consumer belongs to the transactions of the producer. If this transaction or a later
        transaction of the producer aborts, the consumer returns to the offsets of the last committed transaction, and
        reads the records again. A GroupMetadata names no consumer, so the program must seek itself.

        Args:
            consumer: A consumer with a group and `enable_auto_commit=False`, or its `group_metadata()`.
            offsets: Dict from partition to the offset of the next record to read. By default, the transaction commits
                the offset after the last record that the consumer returned from each partition.
            timeout: Seconds to wait. `None` waits without limit.
            rewind: Whether the consumer returns to the last committed offsets after an abort. With False, the program
                must seek itself, or close the consumer.

        Raises:
            BrokerError: The group coordinator rejected the offsets, for example because the consumer is no longer a
                member of the group. The program can only abort this transaction. The error does not affect the next
                transaction.
            ConfigError: The consumer commits automatically or has no group, or an offset is negative.
            KafkaTimeoutError: The timeout passed.
        """
        run(self._wait(self._offsets(consumer, offsets, rewind), timeout))

    def commit(self, timeout: float | None = None) -> None:
        """Wait until brokers have acknowledged all records of the transaction, and commit it.

        Args:
            timeout: Seconds to wait. `None` waits without limit.

        Raises:
            TransactionAbortedError: A record of the transaction failed. The transaction commits nothing.
            FencedError: Another producer with the same `transactional_id` has started. The transaction commits nothing.
            KafkaTimeoutError: The result is not known yet. Call `commit` again to continue waiting.
            ConfigError: The transaction is not open.
        """
        run(self._commit(timeout))

    def abort(self, timeout: float | None = None) -> None:
        """Discard the records and offsets of the transaction.

        The Delivery of a record that was not sent yet raises TransactionAbortedError.

        Args:
            timeout: Seconds to wait. `None` waits without limit.

        Raises:
            KafkaTimeoutError: The result is not known yet. Call `abort` again to continue waiting.
            ConfigError: The transaction is not open.
        """
        run(self._abort(timeout))

    def __enter__(self) -> Self:
        run(self._begin())
        return self


@hints_for_other_clients(TRANSACTION)
@documented_by(Transaction)
class AsyncTransaction(Asyncio, _Transaction[K_contra, V_contra]):
    """A transaction of an `AsyncProducer`. The methods of `AsyncTransaction` are those of `Transaction`, as coroutines.

    Example:
        async with producer.transaction() as tx:
            await tx.send("invoices", b"...")
            await tx.commit_offsets(consumer)
    """

    def __init__(
        self,
        producer: AsyncProducer[K_contra, V_contra],
        consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any] | None = None,
    ) -> None:
        super().__init__(producer, consumer)
        self.send = producer.send
        self.send_nowait = producer.send_nowait
        self.send_many = producer.send_many
        self.send_arrow = producer.send_arrow

    async def commit_offsets(
        self,
        consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any] | GroupMetadata,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
        *,
        rewind: bool = True,
    ) -> None:
        await self._wait(self._offsets(consumer, offsets, rewind), timeout)

    async def commit(self, timeout: float | None = None) -> None:
        await self._commit(timeout)

    async def abort(self, timeout: float | None = None) -> None:
        await self._abort(timeout)

    async def __aenter__(self) -> Self:
        await self._begin()
        return self


def _group_of(consumer: Consumer[Any, Any] | AsyncConsumer[Any, Any]) -> GroupMetadata:
    """Return the GroupMetadata of a consumer. Raise an error if a transaction cannot commit the consumer's offsets."""
    if not isinstance(consumer, ConsumerCore):
        raise ArgumentError(
            f"a transaction commits the offsets of a Consumer or a GroupMetadata, not of {type(consumer).__name__}",
            hint="call producer.transaction(consumer) or tx.commit_offsets(consumer)",
        )
    group = group_metadata(consumer)
    if consumer._auto_commits:
        raise ConfigError(
            "the consumer commits its offsets automatically, even if the transaction aborts",
            hint="create the consumer with enable_auto_commit=False",
        )
    return group


def group_metadata(consumer: _Consumer[Any, Any]) -> GroupMetadata:
    """Return the GroupMetadata of a consumer. Raise ConfigError if the consumer has no group."""
    metadata = consumer._group_metadata()
    if metadata is None:
        raise ConfigError("this consumer has no group", hint="pass a group_id to the consumer")
    return metadata
