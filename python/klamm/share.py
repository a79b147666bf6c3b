"""Share consumers (KIP-932): members of a group that read the same partitions, and get each record one at a time.

A record is the consumer's until it says what became of it, or the record's lock ends. What is not accepted is delivered again,
up to a number of times that the group's configuration says (`share.delivery.count.limit`).
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from klamm._klamm import ShareConsumerCore
from klamm.arguments import seconds
from klamm.errors import KafkaError
from klamm.hooks import deserializers, hooked
from klamm.record import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import TypeAlias

    from typing_extensions import Self, Unpack

    from klamm._klamm import Deserializers, Record, Records
    from klamm.config import Bootstrap, ShareConsumerConfig

__all__ = ["AsyncShareConsumer", "ShareConsumer"]

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    K_co = TypeVarWithDefault("K_co", covariant=True, default=bytes)
    V_co = TypeVarWithDefault("V_co", covariant=True, default=bytes)
else:
    K_co, V_co = TypeVar("K_co", covariant=True), TypeVar("V_co", covariant=True)

AcknowledgeType: TypeAlias = Literal["accept", "release", "reject", "renew"]
Outcomes: TypeAlias = "dict[TopicPartition, KafkaError | None]"
"""What became of acknowledgements, by partition: None if the broker took them."""


class _ShareConsumer(ShareConsumerCore[K_co, V_co], Generic[K_co, V_co]):
    """What both share consumers are made of: everything that waits for nobody."""

    _deserializers: Deserializers

    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        group_id: str | None = None,
        topics: Sequence[str] | str | None = None,
        *,
        key_deserializer: Callable[[bytes], K_co] | None = None,
        value_deserializer: Callable[[bytes], V_co] | None = None,
        on_acknowledged: Callable[[Outcomes], object] | None = None,
        **config: Unpack[ShareConsumerConfig],
    ) -> Self:
        made_by = deserializers(key_deserializer, value_deserializer)
        kind: type[Self] = cls if made_by is None else hooked(cls)  # type: ignore[arg-type]
        self: Self = super().__new__(kind, bootstrap_servers, group_id, topics, **config)
        if made_by is not None:
            self._deserializers = made_by
        self._listen(on_acknowledged)
        return self

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Read these topics and no others."""
        self._subscribe(topics)

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group; records in hand may still be acknowledged."""
        self._unsubscribe()

    def subscription(self) -> set[str]:
        """Return the topics that are read."""
        return set(self._subscription())

    def acknowledge(
        self, records: Record[K_co, V_co] | Records[K_co, V_co], acknowledge_type: AcknowledgeType = "accept"
    ) -> None:
        """Say what became of a record, or of all records of a poll.

        `accept`: it is done with; `release`: somebody may have it again, up to the group's limit; `reject`: nobody is to
        have it again; `renew`: its lock begins anew (Kafka 4.2 and later), at once, and it has to be acknowledged again.
        The rest is sent with the next poll or commit. Raises `InvalidRecordStateError` for a record that is not in
        this consumer's hands.
        """
        self._acknowledge(records, acknowledge_type)

    @property
    def member_id(self) -> str:
        """The name that the group knows this consumer by."""
        return self._member()[1]

    @property
    def acquisition_lock_timeout(self) -> float | None:
        """How long a record is the consumer's, seconds; None before the first fetch."""
        return self._lock()


class ShareConsumer(_ShareConsumer[K_co, V_co]):
    """Reads records that a share group hands out one by one. One thread uses it at a time; Kafka 4.1 and later.

        with klamm.ShareConsumer("localhost:9092", group_id="workers", topics=["jobs"]) as consumer:
            for record in consumer:
                if not work(record.value):
                    consumer.acknowledge(record, "release")

    A record that the loop goes on from is accepted, unless it was acknowledged as something else. With
    `share_acknowledgement_mode="explicit"` nothing is accepted by itself, and all records have to be acknowledged before
    there are more. Where a new group starts is the group's configuration (`share.auto.offset.reset`), by default at the
    end.

    `on_acknowledged` is called by whoever polls, iterates or closes, with what became of acknowledgements that no `commit`
    waited for. Deserializers are those of `klamm.Consumer`.
    """

    def __iter__(self) -> Iterator[Record[K_co, V_co]]:
        return self._records()

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[K_co, V_co]:
        """Return records as soon as there are some, at most `max_records` (`max_poll_records`, 500); none at a timeout.

        With implicit acknowledgement this accepts the records of the poll before.
        """
        return self._poll(timeout, max_records)

    def commit(self, timeout: float | None = None) -> Outcomes:
        """Send acknowledgements, and return what became of them, and of those before that `on_acknowledged` did not hear of.

        With implicit acknowledgement this accepts all records given out so far.
        """
        return self._commit().result(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Send acknowledgements, give back the records in hand, leave the group and end the client."""
        self._close(timeout, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # If it ends well, the last record given out was handled, too.
        if kind is None:
            self._close(None, True)
        else:
            with suppress(KafkaError):  # the exception that is under way is the news
                self._close(None if issubclass(kind, Exception) else 0, False)


class AsyncShareConsumer(_ShareConsumer[K_co, V_co]):
    """A share consumer on an asyncio event loop: the methods of `ShareConsumer`, awaited where those wait.

        async with klamm.AsyncShareConsumer("localhost:9092", group_id="workers", topics=["jobs"]) as consumer:
            async for record in consumer:
                await work(record.value)

    One task uses it at a time.
    """

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Record[K_co, V_co]]:
        return self._next_ready() or self._next_record()

    async def _next_record(self) -> Record[K_co, V_co]:
        while True:
            await self._ready(None)
            if ready := self._next_ready():
                return await ready

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[K_co, V_co]:
        """Return records as soon as there are some, as `ShareConsumer.poll`."""
        left = seconds(timeout)
        end = None if left is None else time.monotonic() + left
        while not (records := self._poll(0, max_records)):
            if not await self._ready(None if end is None else end - time.monotonic()):
                break
        return records

    async def commit(self, timeout: float | None = None) -> Outcomes:
        """Send acknowledgements, and return what became of them, as `ShareConsumer.commit`."""
        return await self._commit().within(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Send acknowledgements, give back the records in hand, leave the group and end the client."""
        await self._end(timeout, False)

    async def _end(self, timeout: float | None, handled: bool) -> None:
        import asyncio

        await asyncio.to_thread(self._close, timeout, handled)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._end(None, True)
        else:
            with suppress(KafkaError):
                await self._end(None if issubclass(kind, Exception) else 0, False)


def outcomes(found: Iterable[tuple[str, int, Any]]) -> Outcomes:
    """Name the partitions of outcomes."""
    return {TopicPartition(topic, partition): error for topic, partition, error in found}
