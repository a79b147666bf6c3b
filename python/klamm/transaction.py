"""Transactions: records to any number of topics, and a consumer's offsets, that are read all or not at all.

    with klamm.Producer("localhost:9092", transactional_id="orders-1") as producer:
        with producer.transaction() as tx:
            tx.send("invoices", b"...")
            tx.commit_offsets(consumer)

A `with` commits at its end and aborts on an exception. Consumers see it so with `isolation_level="read_committed"`. What the
broker does is KIP-98; brokers from Kafka 4.0 on add partitions by themselves and change the epoch with every end (KIP-890).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from klamm._klamm import ConsumerCore
from klamm.errors import ArgumentError, ConfigError, KafkaError
from klamm.record import committable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self

    from klamm._klamm import Pending, ProducerCore
    from klamm.producer import AsyncProducer, Producer
    from klamm.record import OffsetAndMetadata, TopicPartition

__all__ = ["AsyncTransaction", "GroupMetadata", "Transaction"]


@dataclass(frozen=True)
class GroupMetadata:
    """A consumer's place in its group, on whose behalf a transaction commits offsets (KIP-447).

    A consumer that is no member of the group has generation -1 and no member id.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class _Transaction:
    """What both transactions are made of."""

    def __init__(self, producer: ProducerCore) -> None:
        self._producer = producer
        self._is_open = False
        # The end that is under way, and whether it is a commit.
        self._ending: tuple[Pending[None], bool] | None = None

    def _start(self) -> Pending[None]:
        pending: Pending[None] = self._producer._start_transactions()  # type: ignore[attr-defined]  # noqa: SLF001
        return pending

    def _begin(self) -> None:
        self._producer._begin_transaction()  # noqa: SLF001
        self._is_open, self._ending = True, None

    def _end(self, *, commit: bool) -> Pending[None]:
        if self._ending is not None and self._ending[1] == commit:
            return self._ending[0]  # somebody's time to wait was over before
        if not self._is_open and self._ending is None:
            # The producer may have another one open by now.
            raise ConfigError("this transaction is not open", hint="use `with producer.transaction()` for each")
        try:
            pending = self._producer._end_transaction(commit)  # noqa: SLF001
        except KafkaError:
            # It is why records failed, so closing the producer need not tell of them.
            self._producer._failures(True)  # noqa: SLF001
            raise
        self._is_open, self._ending = False, (pending, commit)
        self._producer._last_end = pending  # type: ignore[attr-defined]  # noqa: SLF001
        return pending

    def _earlier_end(self) -> Pending[None] | None:
        """Return the end of the transaction before, if somebody who was interrupted did not wait for it."""
        pending: Pending[None] | None = self._producer._last_end  # type: ignore[attr-defined]  # noqa: SLF001
        return None if pending is None or pending.done() else pending

    def _ended(self, pending: Pending[None]) -> None:
        if pending.done():
            self._ending = None
        # What failed of the records is in the error of the transaction, or was asked for with an abort.
        self._producer._failures(True)  # noqa: SLF001

    def _is_over(self) -> bool:
        """Whether there is nothing left to do at the end of a `with`: a commit that was not waited for to its end is."""
        return not self._is_open and (self._ending is None or not self._ending[1])

    def _offsets(
        self,
        consumer: ConsumerCore[Any, Any] | GroupMetadata,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None,
    ) -> Pending[None]:
        if isinstance(consumer, GroupMetadata):
            group = consumer
            if offsets is None:
                raise ConfigError("a group's metadata has no offsets", hint="give the offsets, or the consumer itself")
        else:
            if not isinstance(consumer, ConsumerCore):
                raise ArgumentError(
                    f"offsets are those of a Consumer or a GroupMetadata, not of {type(consumer).__name__}",
                    hint="tx.commit_offsets(consumer)",
                )
            group = group_metadata(consumer)
            if consumer._auto_commits:  # noqa: SLF001
                raise ConfigError(
                    "the consumer commits offsets by itself, whatever becomes of the transaction",
                    hint="make the consumer with enable_auto_commit=False",
                )
        places: list[tuple[str, int, int, str, int | None, int | None]]
        if offsets is None:
            given_out = consumer._given_out()  # type: ignore[union-attr]  # noqa: SLF001
            places = [(topic, partition, offset, "", epoch, None) for topic, partition, offset, epoch in given_out]
        else:
            places = committable(offsets)
            if any(timestamp_ms is not None for *_, timestamp_ms in places):
                raise ConfigError("a transaction commits offsets at its end", hint="leave timestamp_ms out")
        return self._producer._commit_offsets(  # noqa: SLF001
            group.group_id, group.generation_id, group.member_id, group.group_instance_id, places
        )

    def __repr__(self) -> str:
        return f"<klamm.{type(self).__name__} of {self._producer!r}, {'open' if self._is_open else 'not open'}>"


class Transaction(_Transaction):
    """One transaction of a `Producer`; `producer.transaction()` makes it, and `with` begins and ends it.

    It has the producer's `send`, `send_nowait`, `send_many` and `send_arrow`.
    """

    def __init__(self, producer: Producer) -> None:
        super().__init__(producer)
        self.send = producer.send
        self.send_nowait = producer.send_nowait
        self.send_many = producer.send_many
        self.send_arrow = producer.send_arrow

    def commit_offsets(
        self,
        consumer: ConsumerCore[Any, Any] | GroupMetadata,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction, by default behind every record the consumer gave out.

        Each of `offsets` is that of the next record to read, alone or with a text to keep. The consumer needs a group and
        `enable_auto_commit=False`. Raises what the broker says of the group, for example that the consumer is no member any
        more (KIP-447): then only aborting is left, and the producer goes on with the next transaction. ConfigError for a
        negative offset.
        """
        self._offsets(consumer, offsets).result(timeout)

    def commit(self, timeout: float | None = None) -> None:
        """Wait for every record's acknowledgement, and commit.

        Raises TransactionAbortedError if a record was not acknowledged, and FencedError if another producer of the same
        `transactional_id` took over: nothing is committed then. Raises KafkaTimeoutError if it is not known: when the timeout
        is over, call it again to wait on.
        """
        pending = self._end(commit=True)
        try:
            pending.result(timeout)
        finally:
            self._ended(pending)

    def abort(self, timeout: float | None = None) -> None:
        """Give up everything sent in it; Deliveries of records that were not sent yet raise TransactionAbortedError."""
        pending = self._end(commit=False)
        try:
            pending.result(timeout)
        finally:
            self._ended(pending)

    def __enter__(self) -> Self:
        if (earlier := self._earlier_end()) is not None:
            earlier.exception()
        self._start().result(None)
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over():
            return
        if kind is None:
            self.commit()
        elif issubclass(kind, Exception):
            with suppress(KafkaError):  # the exception that is under way is the news
                self.abort()
        else:
            with suppress(KafkaError):
                self._end(commit=False)


class AsyncTransaction(_Transaction):
    """One transaction of an `AsyncProducer`: the methods of `Transaction`, awaited where those wait."""

    _producer: AsyncProducer

    def __init__(self, producer: AsyncProducer) -> None:
        super().__init__(producer)
        self.send = producer.send
        self.send_nowait = producer.send_nowait
        self.send_many = producer.send_many
        self.send_arrow = producer.send_arrow

    def _end(self, *, commit: bool) -> Pending[None]:
        pending = super()._end(commit=commit)
        if not commit:
            self._producer._fail_queued()  # noqa: SLF001
        return pending

    async def commit_offsets(
        self,
        consumer: ConsumerCore[Any, Any] | GroupMetadata,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction, as `Transaction.commit_offsets`."""
        await self._offsets(consumer, offsets).within(timeout)

    async def commit(self, timeout: float | None = None) -> None:
        """Wait for every record's acknowledgement, and commit, as `Transaction.commit`."""
        if self._is_open:
            timeout = await self._producer._drain_queue("end of the transaction", timeout)  # noqa: SLF001
        pending = self._end(commit=True)
        try:
            await pending.within(timeout)
        finally:
            self._ended(pending)

    async def abort(self, timeout: float | None = None) -> None:
        """Give up everything sent in it, as `Transaction.abort`."""
        pending = self._end(commit=False)
        try:
            await pending.within(timeout)
        finally:
            self._ended(pending)

    async def __aenter__(self) -> Self:
        if (earlier := self._earlier_end()) is not None:
            with suppress(KafkaError):  # it was for who was interrupted
                await earlier
        await self._start()
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_over():
            return
        if kind is None:
            await self.commit()
        elif issubclass(kind, Exception):
            with suppress(KafkaError):  # the exception that is under way is the news
                await self.abort()
        else:
            with suppress(KafkaError):
                self._end(commit=False)


def group_metadata(consumer: ConsumerCore[Any, Any]) -> GroupMetadata:
    """Return a consumer's place in its group."""
    place = consumer._group_metadata()  # noqa: SLF001
    if place is None:
        raise ConfigError("a consumer without group.id has no group", hint="give the consumer a group_id")
    return GroupMetadata(*place)
