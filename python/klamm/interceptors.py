"""Interceptors of consumers and share consumers, which see records, commits and acknowledgements.

A consumer with interceptors is an instance of a subclass from this file. A consumer without interceptors therefore has
no overhead. Arrow columns have no Python objects for records, so `arrow()` does not call `on_consume`.

As in the Java client, the consumer logs an exception of an interceptor, and delivers the records unchanged. If it
raised the exception, the program would lose the records.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from klamm.arguments import check_function, list_of
from klamm.errors import ArgumentError
from klamm.record import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from klamm._klamm import Record, Records
    from klamm.record import OffsetAndMetadata
    from klamm.share import AckResults

__all__ = [
    "AcknowledgeInterceptor",
    "CommitInterceptor",
    "ConsumeInterceptor",
    "ConsumerInterceptor",
    "ShareInterceptor",
]

LOGGER = logging.getLogger("klamm.consumer")

OF_CONSUMER = ("on_consume", "on_commit")
"""Methods that an interceptor of a consumer can have."""
OF_SHARE = ("on_consume", "on_acknowledge")
"""Methods that an interceptor of a share consumer can have."""


class ConsumeInterceptor(Protocol):
    """An interceptor that sees records before the program gets them."""

    def on_consume(self, records: Sequence[Record[Any, Any]]) -> Sequence[Record[Any, Any]]:
        """Return the records that the program should get, for example only some of `records`.

        `poll` passes all its records to one call of `on_consume`. A loop over the consumer calls `on_consume` once for
        each record. Records that `on_consume` removes count as delivered, so the consumer commits their offsets. If
        `on_consume` returns more records than it got, the original record counts as delivered after the last of them.
        """


class CommitInterceptor(Protocol):
    """An interceptor that sees the results of commits, including background commits."""

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None) -> object:
        """Handle a completed commit.

        After the result arrives, the next poll, iteration, commit or close calls `on_commit`.
        """


class AcknowledgeInterceptor(Protocol):
    """An interceptor that sees the results of acknowledgements of a share consumer."""

    def on_acknowledge(self, results: AckResults) -> object:
        """Handle the results of acknowledgements: for each partition, None or the error."""


ConsumerInterceptor: TypeAlias = "ConsumeInterceptor | CommitInterceptor"
"""An object with `on_consume`, `on_commit` or both."""
ShareInterceptor: TypeAlias = "ConsumeInterceptor | AcknowledgeInterceptor"
"""An object with `on_consume`, `on_acknowledge` or both."""


class Interceptors:
    """The interceptors of one consumer, in the order in which they are called."""

    def __init__(self, interceptors: Sequence[object], methods: tuple[str, str]) -> None:
        self._methods = methods
        checked_interceptors = list_of("interceptors", interceptors)
        for each in checked_interceptors:
            if not any(hasattr(each, name) for name in methods):
                raise ArgumentError(
                    f"an interceptor has to have {methods[0]} or {methods[1]}, and {each!r} has neither"
                )
        self._consume = [each.on_consume for each in checked_interceptors if hasattr(each, "on_consume")]
        self._results = [getattr(each, methods[1]) for each in checked_interceptors if hasattr(each, methods[1])]

    def __bool__(self) -> bool:
        return bool(self._consume or self._results)

    def kind(self, cls: Any) -> Any:
        """Return a subclass of `cls` that calls the interceptors. If there are no interceptors, return `cls`."""
        return intercepted(cls, self._methods) if self else cls

    def attach(self, consumer: Any) -> None:
        """Store the interceptors in a consumer. Its class must be a class that `kind` returned."""
        if self:
            consumer._interceptors = self  # noqa: SLF001
            consumer._log_target.keep_commits()  # noqa: SLF001

    def consumed(self, records: Any) -> Any:
        """Pass records through all interceptors, and return the records that the program gets."""
        for on_consume in self._consume:
            try:
                kept = on_consume(records)
                len(kept)
            except Exception:
                LOGGER.warning(
                    "the interceptor %r raised; the records are delivered unchanged", on_consume, exc_info=True
                )
            else:
                records = kept
        return records

    def completed(self, *result: object) -> None:
        """Pass the result of a commit or of acknowledgements to the interceptors."""
        for on_result in self._results:
            try:
                on_result(*result)
            except Exception:
                LOGGER.warning("the interceptor %r raised", on_result, exc_info=True)


class _Intercepted:
    """The base class of all consumers with interceptors."""

    _interceptors: Interceptors
    _source: Record[Any, Any] | None = None
    """The record for which the interceptors returned more than one record.

    The record stays in the core's buffer until the program has all these records. If the program seeks, pauses or loses
    the partition, the core does not return the record next, and the consumer drops the rest.
    """
    _rest: deque[Record[Any, Any]]
    """The records that interceptors returned for `_source`, and that the program has not received yet."""

    def _next_of(self, record: Record[Any, Any]) -> tuple[Record[Any, Any], ...]:
        """Pass one record through the interceptors. Return the next record for the program, or an empty tuple."""
        if self._source is None or not self._source._is_same(record):  # noqa: SLF001
            self._rest = deque(self._interceptors.consumed([record]))
        self._source = None
        if not self._rest:
            return ()
        first = self._rest.popleft()
        if self._rest:
            self._source = record
            self._put_back(record)  # type: ignore[attr-defined]
        return (first,)

    def _report_results(self) -> None:
        """Pass the results that have arrived from brokers to the interceptors."""


class _Records:
    """The iterator of a blocking consumer with interceptors."""

    def __init__(self, consumer: _Intercepted, records: Iterator[Record[Any, Any]]) -> None:
        self._consumer, self._records = consumer, records

    def __iter__(self) -> _Records:
        return self

    def __next__(self) -> Record[Any, Any]:
        consumer = self._consumer
        while True:
            record = next(self._records)
            consumer._report_results()  # noqa: SLF001 - the iterator is a part of the consumer
            for first in consumer._next_of(record):  # noqa: SLF001
                return first


class _InterceptedBlocking(_Intercepted):
    def __iter__(self) -> Iterator[Record[Any, Any]]:
        return _Records(self, super().__iter__())  # type: ignore[misc]

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[Any, Any]:
        """Return the next records; see `Consumer.poll`."""
        try:
            records = super().poll(timeout, max_records)  # type: ignore[misc]
        finally:
            self._report_results()
        return self._interceptors.consumed(records) if records else records  # type: ignore[no-any-return]


class _InterceptedAsyncio(_Intercepted):
    async def __anext__(self) -> Record[Any, Any]:
        while True:
            record = await super().__anext__()  # type: ignore[misc]
            self._report_results()
            for first in self._next_of(record):
                return first

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Records[Any, Any]:
        """Return the next records; see `AsyncConsumer.poll`."""
        try:
            records = await super().poll(timeout, max_records)  # type: ignore[misc]
        finally:
            self._report_results()
        return self._interceptors.consumed(records) if records else records  # type: ignore[no-any-return]


class _Commits:
    """Passes the results of a consumer's commits to interceptors."""

    _interceptors: Interceptors

    def _report_results(self) -> None:
        for offsets, error in self._log_target.take_commits():  # type: ignore[attr-defined]
            by_partition = {TopicPartition(topic, partition): offset for topic, partition, offset in offsets}
            self._interceptors.completed(by_partition, error)

    def _run_commit_callbacks(self) -> None:
        super()._run_commit_callbacks()  # type: ignore[misc]
        self._report_results()

    async def _commit_and_notify(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None, timeout: float | None
    ) -> None:
        try:
            await super()._commit_and_notify(offsets, timeout)  # type: ignore[misc]
        finally:
            self._report_results()


class _Acknowledgements:
    """Passes the results of a share consumer's acknowledgements to interceptors."""

    _interceptors: Interceptors

    def _listen(self, listener: Callable[[AckResults], object] | None) -> None:
        def both(results: AckResults) -> None:
            self._interceptors.completed(results)
            if listener is not None:
                listener(results)

        super()._listen(both)  # type: ignore[misc]

    def _acknowledge(self, records: Any, kind: str) -> None:
        for each in records if isinstance(records, list) else [records]:
            super()._acknowledge(each, kind)  # type: ignore[misc]


class _BlockingAcknowledgements(_Acknowledgements):
    def commit(self, timeout: float | None = None) -> AckResults:
        """Send the acknowledgements, and wait for their results; see `ShareConsumer.commit`."""
        results: AckResults = super().commit(timeout)  # type: ignore[misc]
        self._interceptors.completed(results)
        return results


class _AsyncioAcknowledgements(_Acknowledgements):
    async def commit(self, timeout: float | None = None) -> AckResults:
        """Send the acknowledgements, and wait for their results; see `AsyncShareConsumer.commit`."""
        results: AckResults = await super().commit(timeout)  # type: ignore[misc]
        self._interceptors.completed(results)
        return results


@cache
def intercepted(cls: Any, methods: tuple[str, str]) -> Any:
    """Return a subclass that calls interceptors and has the same name as the given consumer class."""
    is_async = hasattr(cls, "__aenter__")
    parts: tuple[type, ...]
    if methods[1] == "on_commit":
        parts = (_Commits,)
    else:
        parts = (_AsyncioAcknowledgements if is_async else _BlockingAcknowledgements,)
    parts = (*parts, _InterceptedAsyncio if is_async else _InterceptedBlocking, cls)
    return type(cls.__name__, parts, {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


def with_error_callback(config: Any, on_error: Callable[[Exception], object] | None) -> Any:
    """Return a configuration whose `error_cb` is `on_error`. Without `on_error`, return the configuration unchanged."""
    check_function("on_error", on_error)
    return config if on_error is None else {**config, "error_cb": on_error}
