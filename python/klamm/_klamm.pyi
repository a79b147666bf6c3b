"""Types of the Rust extension: the base classes of the clients, the records and the codec.

Names that begin with an underscore are for the package only. A name without an underscore is public if `klamm` exports
it.

`python scripts/write_stub.py` writes the docstrings, which are those of the Rust code.
"""

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, ClassVar, Generic, Literal, NoReturn, final, overload

from typing_extensions import Buffer as Buffer
from typing_extensions import Self, TypeVar, Unpack, disjoint_base

from klamm.admin import ClusterDescription
from klamm.admin.calls import Condition, Item
from klamm.assignors import Member
from klamm.config import (
    AdminConfig,
    Bootstrap,
    ConsumerConfig,
    ForeignOption,
    Option,
    ProducerConfig,
    ShareConsumerConfig,
)
from klamm.consumer import OnCommit
from klamm.errors import DecodeError, KafkaError
from klamm.legacy import FetchResponse, MultiFetchResponse, OffsetsResponse, Request
from klamm.metrics import Family
from klamm.protocol import Api, BatchRecord, Structure
from klamm.rebalance import RebalanceListener
from klamm.record import HeadersLike, OffsetAndMetadata, OffsetToCommit, TopicPartition
from klamm.testing import Request as SeenRequest
from klamm.transaction import GroupMetadata

__all__ = [
    "AdminCore",
    "ArrowBatch",
    "ArrowColumns",
    "ArrowRows",
    "AvroReader",
    "AvroSchema",
    "AvroWriter",
    "CertificateAuthority",
    "ClientCore",
    "ColumnDecoder",
    "ConsumerCore",
    "DecodedColumn",
    "Deserializers",
    "DevBrokerCore",
    "ErrorQueue",
    "Fetched07",
    "LegacyConnection",
    "LogLine",
    "LogQueue",
    "LogTarget",
    "LoginMailbox",
    "LoginQuestion",
    "Message07",
    "OpenRecords",
    "PackedRecords",
    "Pending",
    "ProducerCore",
    "Record",
    "RecordIterator",
    "RecordMetadata",
    "Records",
    "ScramClient",
    "ShareConsumerCore",
    "ShareRecordIterator",
    "ZooKeeperMember",
    "ZooKeeperOperation",
    "__version__",
    "apis",
    "assign",
    "broker_error",
    "config_keys",
    "crc32c",
    "decode",
    "decode_fetched",
    "decode_header",
    "decode_messages",
    "decode_prefix",
    "decode_records",
    "decode_request",
    "decode_response",
    "encode",
    "encode_batch",
    "encode_column",
    "encode_messages",
    "encode_request",
    "encode_response",
    "error_codes",
    "foreign_options",
    "framings",
    "log_components",
    "murmur2",
    "option_verdict",
    "parse_address",
    "parse_proto",
    "schema",
    "set_log_level",
    "structures",
    "user_data",
]
__version__: str

# What a pending call returns. `klamm.Delivery` without a parameter is the delivery of a record.
_T_co = TypeVar("_T_co", covariant=True, default=RecordMetadata)
# The types that deserializers return for keys and values that are not null.
_K_co = TypeVar("_K_co", covariant=True, default=bytes)
_V_co = TypeVar("_V_co", covariant=True, default=bytes)
_K_contra = TypeVar("_K_contra", contravariant=True, default=Buffer)
_V_contra = TypeVar("_V_contra", contravariant=True, default=Buffer)

@final
class Pending(Generic[_T_co]):
    """The result of an operation that may still be running.

    To wait for the result, call `result()`, or use `await` on an asyncio event loop. Any number of threads and tasks
    may wait for the same object, and each gets the same result. `klamm.Delivery`, the result of a sent record, is
    another name for this class.

    Example:
        delivery = producer.send("greetings", b"hello")
        metadata = delivery.result(timeout=5)
    """
    def result(self, timeout: float | None = None) -> _T_co:
        """Waits for the result and returns it.

        Args:
            timeout (float | None): Longest wait in seconds. None (the default) waits until there is a result.

        Returns:
            The result: a RecordMetadata for the Delivery of a record.

        Raises:
            KafkaTimeoutError: There is no result within the timeout. The operation continues.
            KafkaError: The operation failed. For a record, the error is for example a BrokerError or a NetworkError.
        """
    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the result and returns the error of the operation, or None if it succeeded.

        Args:
            timeout (float | None): Longest wait in seconds. None (the default) waits until there is a result.

        Returns:
            The exception that `result()` would raise, or None.

        Raises:
            KafkaTimeoutError: There is no result within the timeout. The operation continues.
        """
    def done(self) -> bool:
        """Returns True if the operation has succeeded or failed."""
    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Calls a function with this object when the operation ends, or immediately if it has ended.

        The thread that completes the operation calls the function. That thread is mostly the client's I/O thread, so
        the function must be short and must not wait. An exception of the function goes to `sys.unraisablehook`.

        Args:
            callback (Callable[[Pending], object]): The function.

        Raises:
            ArgumentError: `callback` is not callable.
        """
    def within(self, timeout: float | None) -> Awaitable[_T_co]:
        """Returns an awaitable that waits for the result, at most `timeout` seconds.

        Args:
            timeout (float | None): Longest wait in seconds. None waits until there is a result.

        Returns:
            An awaitable of the result.

        Raises:
            KafkaTimeoutError: The `await` raises this error if there is no result within the timeout. The operation
                continues.

        Example:
            metadata = await producer.send_nowait("greetings", b"hello").within(5)
        """
    def __await__(self) -> Generator[Any, Any, _T_co]: ...
    def send(self, _value: Any) -> Any:
        """Runs one step of a task. Together with `throw` and `close`, this method makes the object a coroutine, which
        `asyncio.create_task` requires.

        While the result is pending, each step starts its own wait, so that any number of tasks can share one object.
        """
    def throw(self, error: Any, *_more: Any) -> NoReturn: ...
    def close(self) -> None: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...

@final
class RecordMetadata:
    """The acknowledgement of a record by the broker, with the position of the record.

    Args:
        topic (str): The topic.
        partition (int): The partition.
        offset (int): The offset in the partition. With acks=0, the offset is -1, because the broker does not report it.
        timestamp_ms (int): The timestamp in milliseconds since 1970.
    """
    def __new__(cls, topic: str, partition: int, offset: int, timestamp_ms: int) -> Self: ...
    @property
    def topic(self) -> str:
        """The topic."""
    @property
    def partition(self) -> int:
        """The partition."""
    @property
    def offset(self) -> int:
        """The offset in the partition. With acks=0, the offset is -1, because the broker does not report it."""
    @property
    def timestamp_ms(self) -> int:
        """The timestamp in milliseconds since 1970. The producer sets it, or the broker if the topic uses LogAppendTime."""
    def __getnewargs__(self) -> tuple[str, int, int, int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@disjoint_base
class Record(Generic[_K_co, _V_co]):
    """One record of a topic.

    Consumers return records. Create a record yourself only to test code that handles records.

    Args:
        topic (str): The topic.
        partition (int): The partition. Defaults to 0.
        offset (int): The offset in the partition. Defaults to 0.
        timestamp_ms (int | datetime): Milliseconds since 1970, or a datetime. Defaults to -1, which means no timestamp.
        key (bytes-like | None): The key. Defaults to None.
        value (bytes-like | None): The value. Defaults to None.
        headers (sequence or mapping): The headers, in the same form as for `Producer.send`. Defaults to no headers.
        timestamp_type (int): 0 (the default) if the producer set the timestamp, 1 if the broker set it.
        delivery_count (int): Number of deliveries by a share group. Defaults to 0.

    Raises:
        ArgumentError: An argument has the wrong type.
        ConfigError: The timestamp type does not exist.
    """
    def __new__(
        cls,
        topic: str,
        partition: int = 0,
        offset: int = 0,
        timestamp_ms: int = ...,
        key: Buffer | None = None,
        value: Buffer | None = None,
        headers: HeadersLike | None = None,
        timestamp_type: int = 0,
        delivery_count: int = 0,
    ) -> Self: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def _is_same(self, other: Record[Any, Any]) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def topic(self) -> str:
        """The topic."""
    @property
    def partition(self) -> int:
        """The partition."""
    @property
    def offset(self) -> int:
        """The offset in the partition."""
    @property
    def timestamp_ms(self) -> int:
        """The timestamp in milliseconds since 1970, or -1 if the record has no timestamp."""
    @property
    def timestamp_type(self) -> int:
        """The origin of the timestamp: 0 for the producer, 1 for the broker when it appended the record, -1 for a record
        without a timestamp.
        """
    @property
    def delivery_count(self) -> int:
        """The number of deliveries of the record by a share group, including this delivery. Outside of share groups, the
        number is 0.
        """
    @property
    def timestamp(self) -> datetime | None:
        """The timestamp as an aware datetime in UTC, or None if the record has no timestamp.

        The result is also None if a datetime cannot represent the timestamp. `timestamp_ms` always has the number.
        """
    @property
    def key(self) -> _K_co | None:
        """The key as bytes, or the result of the key deserializer. None stands for a null key."""
    @property
    def value(self) -> _V_co | None:
        """The value as bytes, or the result of the value deserializer. None stands for a null value, which is a tombstone
        in a compacted topic.
        """
    @property
    def raw_key(self) -> bytes | None:
        """The bytes of the key, even if the consumer has a key deserializer. None stands for a null key."""
    @property
    def raw_value(self) -> bytes | None:
        """The bytes of the value, even if the consumer has a value deserializer. None stands for a null value."""
    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers in order, as (name, value) pairs. Names may repeat.

        If bytes of a name are not UTF-8, the name contains them as lone surrogates, as with Python's error handler
        `surrogateescape`.
        """

@final
class Records(Sequence[Record[_K_co, _V_co]]):
    """The sequence of records that `Consumer.poll` returns.

    The sequence behaves like an immutable list: it has a length, indexes, slices and iteration. Each record is created
    when the program reads it.

    Example:
        records = consumer.poll(timeout=1.0)
        for record in records:
            print(record.offset, record.value)
    """
    def __new__(cls) -> Self: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> Record[_K_co, _V_co]: ...
    @overload
    def __getitem__(self, index: slice, /) -> Records[_K_co, _V_co]: ...
    def __iter__(self) -> Iterator[Record[_K_co, _V_co]]: ...
    def __eq__(self, other: object, /) -> bool: ...
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def index(self, value: Any, start: int | None = None, stop: int | None = None) -> int:
        """Returns the index of the first record that equals `value`, like `list.index`.

        Args:
            value (Record): The record to look for.
            start (int | None): First index of the search. Defaults to 0.
            stop (int | None): Index before which the search stops. Defaults to the end.

        Returns:
            The index.

        Raises:
            ValueError: No record equals `value`.
        """
    def count(self, value: Any) -> int:
        """Returns the number of records that equal `value`."""
    def by_partition(self) -> dict[TopicPartition, Records[_K_co, _V_co]]:
        """Groups the records by partition.

        Returns:
            A dict from TopicPartition to Records, in the order in which the partitions first appear.
        """
    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """Converts the records to Arrow.

        Args:
            columns (list[str] | None): Names of the columns, in order. None (the default) selects all columns: topic,
                partition, offset, timestamp, timestamp_type, key, value, headers.

        Returns:
            A pyarrow.RecordBatch. Keys and values are bytes, even if the consumer has deserializers.

        Raises:
            ConfigError: A column does not exist.
        """
    def _columns(self, columns: ArrowColumns) -> ArrowBatch: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def _deserialized(self, deserializers: Deserializers) -> Records[Any, Any]: ...

@final
class Deserializers:
    def __new__(cls, key: Callable[[bytes], Any] | None, value: Callable[[bytes], Any] | None) -> Self: ...
    def __call__(self, record: Record, /) -> Record[Any, Any]: ...
    def __getnewargs__(self) -> tuple[Callable[[bytes], Any] | None, Callable[[bytes], Any] | None]: ...

@final
class RecordIterator(Generic[_K_co, _V_co]):
    def __iter__(self) -> Self: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def __next__(self) -> Record[_K_co, _V_co]: ...

@final
class ArrowColumns:
    def __new__(cls, names: Sequence[str] | None = None, layout: str = "klamm") -> Self: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class ArrowBatch:
    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...

@final
class ColumnDecoder:
    def __new__(cls, schema: Any, is_key: bool, is_framed: bool, id_bytes: int, kind: str) -> Self: ...
    def add(self, prefix: bytes, plan: str | AvroReader) -> None: ...
    def remove(self, prefix: bytes) -> None: ...
    def decode(self, records: Records[Any, Any], start: int, stop_at_failure: bool) -> DecodedColumn: ...
    def unknown(self, records: Records[Any, Any]) -> list[tuple[bytes, bool]]: ...

@final
class AvroSchema:
    def __new__(cls, text: str, references: list[str]) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def is_bytes(self) -> bool: ...
    @property
    def canonical(self) -> str | None: ...
    @property
    def fingerprint(self) -> bytes: ...
    @property
    def root(self) -> int: ...
    def node(self, index: int) -> Any: ...
    def chosen(self, names: set[str]) -> AvroSchema | None: ...
    def incompatibilities(self, writer: AvroSchema) -> list[str]: ...

@final
class AvroReader:
    def __new__(
        cls,
        writer: AvroSchema,
        reader: AvroSchema | None = None,
        named: Callable[[str, dict[str, Any]], Any] | None = None,
        is_always_named: bool = False,
        has_positions: bool = False,
    ) -> Self: ...
    @property
    def skipped(self) -> str | None: ...
    def read(self, data: Any, start: int) -> Any: ...

@final
class AvroWriter:
    def __new__(
        cls, schema: AvroSchema, simplify: Callable[[Any], tuple[str | None, Any]], is_strict: bool
    ) -> Self: ...
    def write(self, value: Any) -> bytes: ...

@final
class DecodedColumn:
    @property
    def failures(self) -> list[tuple[int, bytes, str, str]]: ...
    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...

def framings(records: Records[Any, Any], is_key: bool, id_bytes: int, kind: str) -> list[bytes]: ...
def parse_proto(text: str, name: str) -> bytes: ...
def encode_column(column: Any, plan: str, prefix: bytes) -> DecodedColumn: ...

@final
class ArrowRows:
    def __new__(cls, data: Any) -> Self: ...
    @property
    def sent(self) -> int: ...

@disjoint_base
class ClientCore:
    @property
    def _log_target(self) -> LogTarget: ...
    @property
    def _client_id(self) -> str: ...
    def _families(self, detail: bool = False) -> list[Family]: ...
    def _instance_id(self) -> Pending[str]: ...
    def _set_application_metrics(self, metrics: list[tuple[str, bool, list[tuple[str, str]], float]]) -> None: ...
    def _is_closed(self) -> bool: ...

@disjoint_base
class ProducerCore(ClientCore, Generic[_K_contra, _V_contra]):
    """The base class of the producers."""
    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        *,
        on_error: Callable[[Exception], object] | None = None,
        on_delivery: Callable[[Pending[RecordMetadata]], object] | None = None,
        delivery_interceptors: Sequence[Callable[[Pending[RecordMetadata]], object]] = ...,
        **config: Unpack[ProducerConfig],
    ) -> Self: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def send(
        self,
        topic: str,
        value: _V_contra | None = None,
        key: _K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike | None = None,
    ) -> Pending[RecordMetadata]:
        """Sends a record.

        The call copies the record into the buffer and returns immediately. The call waits only while the buffer is
        full, at most `max_block_ms`.

        If the delivery fails, and the program has dropped the Delivery without taking its result, the producer calls
        `on_error` with the error, and `flush()` and `close()` raise the error.

        Args:
            topic (str): The topic.
            value (bytes-like | None): The value. None (the default) is a null value.
            key (bytes-like | None): The key, which selects the partition unless `partition` is given. Defaults to None.
            partition (int | None): The partition, from 0. None (the default) lets the partitioner choose.
            timestamp_ms (int | datetime | None): Milliseconds since 1970, or a datetime. None (the default) means the
                current time.
            headers (sequence of (str, bytes-like | None), or mapping | None): The headers. Defaults to no headers.

        Returns:
            A Delivery. Its method `result(timeout)` waits for the acknowledgement and returns it as a RecordMetadata.

        Raises:
            KafkaTimeoutError: The buffer had no room within `max_block_ms`.
            BufferFullError: The buffer is full, and `drop_when_full` is set.
            ArgumentError: An argument has the wrong type.
            ConfigError: The value of an argument is invalid, for example a partition that the topic does not have.
            BrokerError: The record is larger than `max_request_size`, or the topic name is invalid.
            ClosedError: The producer is closed.

        Example:
            delivery = producer.send("greetings", b"hello", key=b"world", headers={"lang": b"en"})
            print(delivery.result(timeout=5).offset)
        """
    def send_nowait(
        self,
        topic: str,
        value: _V_contra | None = None,
        key: _K_contra | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike | None = None,
    ) -> None:
        """Sends a record without returning a Delivery, which is faster than `send()`.

        If the delivery fails, the producer calls `on_error` with the error, and `flush()` and `close()` raise the
        error.

        Args:
            topic (str): The topic.
            value (bytes-like | None): The value. None (the default) is a null value.
            key (bytes-like | None): The key, which selects the partition unless `partition` is given. Defaults to None.
            partition (int | None): The partition, from 0. None (the default) lets the partitioner choose.
            timestamp_ms (int | datetime | None): Milliseconds since 1970, or a datetime. None (the default) means the
                current time.
            headers (sequence of (str, bytes-like | None), or mapping | None): The headers. Defaults to no headers.

        Raises:
            KafkaTimeoutError: The buffer had no room within `max_block_ms`.
            BufferFullError: The buffer is full, and `drop_when_full` is set.
            ArgumentError: An argument has the wrong type.
            ConfigError: The value of an argument is invalid, for example a partition that the topic does not have.
            BrokerError: The record is larger than `max_request_size`, or the topic name is invalid.
            ClosedError: The producer is closed.

        Example:
            for line in lines:
                producer.send_nowait("lines", line)
            producer.flush()
        """
    def _try_send(
        self,
        topic: str,
        value: _V_contra | None,
        key: _K_contra | None,
        partition: int | None,
        timestamp_ms: int | datetime | None,
        headers: HeadersLike | None,
    ) -> Pending[RecordMetadata]: ...
    def _send_values(
        self,
        topic: str,
        values: Sequence[_V_contra | None],
        keys: Sequence[_K_contra | None] | None,
        partition: int | None,
        start: int,
    ) -> int: ...
    def _send_rows(self, topic: str | None, rows: ArrowRows) -> bool: ...
    def _wait_for_room(self, done: int) -> None: ...
    def _pause(self) -> float | None: ...
    def _run_ahead(self) -> None: ...
    def _room_future(self, done: int, timeout: float) -> Awaitable[bool]: ...
    def _room_timeout_error(self) -> Exception: ...
    @property
    def _drops(self) -> bool: ...
    @property
    def _max_block(self) -> float: ...
    def _flush(self) -> Pending[None]: ...
    def _failures(self, take: bool) -> list[tuple[KafkaError, int]]: ...
    def _note_failure(self, error: BaseException | None) -> bool: ...
    def _init_transactions(self) -> Pending[None]: ...
    def _begin_transaction(self) -> None: ...
    def _bind_consumer(self, consumer: ConsumerCore[Any, Any]) -> None: ...
    def _release_consumer(self, consumer: ConsumerCore[Any, Any]) -> None: ...
    def _rewind_consumers(self) -> None: ...
    def _hold_consumers(self) -> None: ...
    def _end_transaction(
        self,
        commit: bool,
        offsets: tuple[GroupMetadata, Sequence[OffsetToCommit], ConsumerCore[Any, Any]] | None = None,
    ) -> Pending[None]: ...
    def _abort_transaction(self) -> Pending[None] | None: ...
    def _fail_transaction(self, why: str) -> None: ...
    def _commit_offsets(
        self,
        group: GroupMetadata,
        offsets: Sequence[OffsetToCommit],
        consumer: ConsumerCore[Any, Any] | None = None,
    ) -> Pending[None]: ...
    def _partitions_for(self, topic: str) -> Pending[list[int]]: ...
    def _outstanding(self) -> int: ...
    def _close(self, timeout: float | None, waited: float = 0.0) -> None: ...
    @property
    def _close_timeout(self) -> float: ...
    @property
    def _default_close_timeout(self) -> float: ...

@disjoint_base
class ConsumerCore(ClientCore, Generic[_K_co, _V_co]):
    """The base class of the consumers."""
    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        group_id: str | None = None,
        topics: Sequence[str] | str | None = None,
        **config: Unpack[ConsumerConfig],
    ) -> Self: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def _subscribe(
        self,
        topics: Iterable[str] | str | None,
        pattern: str | None,
        listener: RebalanceListener | None,
        defers: bool,
        waits: bool,
    ) -> None: ...
    def _unsubscribe(self, handled: bool | None) -> None: ...
    def _next_change(self) -> tuple[str, list[tuple[str, int]]] | None: ...
    def _handled(self) -> None: ...
    def _group_metadata(self) -> GroupMetadata | None: ...
    def _records(self) -> RecordIterator[_K_co, _V_co]: ...
    def _try_next(self) -> Record[_K_co, _V_co] | None: ...
    def _poll(
        self, timeout: float | None, max_records: int | None, max_bytes: int | None = None
    ) -> Records[_K_co, _V_co] | None: ...
    def _ready(self, timeout: float | None) -> Awaitable[bool]: ...
    def _unwatch(self) -> None: ...
    def _assign(self, partitions: Sequence[tuple[str, int, int | None, int | None]], waits: bool) -> None: ...
    def _assignment(self) -> list[tuple[str, int]]: ...
    def _put_back(self, records: Any) -> None: ...
    def _take_again(self, records: Any) -> bool: ...
    def _seek(self, topic: str, partition: int, offset: int) -> None: ...
    def _seek_to(self, partitions: Sequence[tuple[str, int]], timestamp: int) -> None: ...
    def _position(self, topic: str, partition: int) -> Pending[int]: ...
    def _pause(self, partitions: Sequence[tuple[str, int]]) -> None: ...
    def _resume(self, partitions: Sequence[tuple[str, int]]) -> None: ...
    def _paused(self) -> list[tuple[str, int]]: ...
    def _commit(self, offsets: Sequence[OffsetToCommit] | None) -> Pending[None]: ...
    def _commit_nowait(self, offsets: Sequence[OffsetToCommit] | None, on_commit: OnCommit | None) -> Pending[None]: ...
    def _run_commit_callbacks(self) -> None: ...
    def _offsets_to_commit(self) -> list[OffsetToCommit]: ...
    @property
    def _listener(self) -> RebalanceListener | None: ...
    @property
    def _defers(self) -> bool: ...
    @property
    def _auto_commits(self) -> bool: ...
    def _committed(
        self, partitions: Sequence[tuple[str, int]], timeout: float | None
    ) -> Pending[list[OffsetAndMetadata | None]]: ...
    def _list_offsets(
        self, asked: Sequence[tuple[str, int, int]], timeout: float | None, of_led: bool = False
    ) -> Pending[list[tuple[int, int] | None]]: ...
    def _lag(self) -> list[tuple[tuple[str, int], int | None]]: ...
    def _partitions_for(self, topic: str, timeout: float | None) -> Pending[list[int]]: ...
    @property
    def _is_member(self) -> bool: ...
    def _is_finished(self) -> bool: ...
    def _close(self, timeout: float | None, handled: bool | None, commit: bool) -> None: ...
    def _hurry(self, seconds: float) -> None: ...
    @property
    def _close_timeout(self) -> float: ...
    @property
    def _default_close_timeout(self) -> float: ...

@final
class ShareRecordIterator(Generic[_K_co, _V_co]):
    def __iter__(self) -> Self: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def __next__(self) -> Record[_K_co, _V_co]: ...

@disjoint_base
class ShareConsumerCore(ClientCore, Generic[_K_co, _V_co]):
    """The base class of the share consumers."""
    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        group_id: str | None = None,
        topics: Sequence[str] | str | None = None,
        **config: Unpack[ShareConsumerConfig],
    ) -> Self: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def _listen(self, listener: Callable[[dict[TopicPartition, KafkaError | None]], object] | None) -> None: ...
    def _subscribe(self, topics: Iterable[str] | str) -> None: ...
    def _unsubscribe(self) -> None: ...
    def _subscription(self) -> list[str]: ...
    def _member(self) -> tuple[str, str]: ...
    def _records(self) -> ShareRecordIterator[_K_co, _V_co]: ...
    def _try_next(self) -> Record[_K_co, _V_co] | None: ...
    def _poll(self, timeout: float | None, max_records: int | None) -> Records[_K_co, _V_co]: ...
    def _put_back(self, records: Any) -> None: ...
    def _ready(self, timeout: float | None) -> Awaitable[bool]: ...
    def _acknowledge(self, records: Record[Any, Any] | Records[Any, Any], kind: str) -> None: ...
    def _commit(self) -> Pending[dict[TopicPartition, KafkaError | None]]: ...
    def _lock(self) -> float | None: ...
    def _close(self, timeout: float | None, handled: bool | None) -> None: ...
    def _hurry(self, seconds: float) -> None: ...
    @property
    def _close_timeout(self) -> float: ...

@disjoint_base
class AdminCore(ClientCore):
    """The base class of the admin clients."""
    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        *,
        on_error: Callable[[Exception], object] | None = None,
        **config: Unpack[AdminConfig],
    ) -> Self: ...
    def _call(
        self,
        api: str,
        fields: Mapping[str, Any],
        route: Literal["controller"] | int | tuple[int, str] | tuple[str, int] | None,
        timeout: float | None,
        versions: tuple[int, int] = ...,
    ) -> Pending[dict[str, Any]]: ...
    def _call_for_items(
        self,
        api: str,
        path: str,
        items: Sequence[Item],
        timeout: float | None,
        versions: tuple[int, int] = ...,
    ) -> Pending[list[tuple[dict[str, Any] | KafkaError, bool]]]: ...
    def _confirm_change(
        self, conditions: Sequence[Condition], knowing: Literal["one", "all", "controller"], timeout: float | None
    ) -> Pending[KafkaError | None]: ...
    @property
    def _api_timeout(self) -> float: ...
    @property
    def _uses_controllers(self) -> bool: ...
    def _check_served(self, api: str) -> None: ...
    def _offsets_before(
        self, wanted: Sequence[tuple[str, int, int]], limit: int, timeout: float | None
    ) -> Pending[list[list[int]]]: ...
    def _describe_cluster(self, timeout: float | None) -> Pending[ClusterDescription]: ...
    def _list_topics(self, internal: bool, timeout: float | None) -> Pending[list[str]]: ...
    def _close(self) -> None: ...

@disjoint_base
class DevBrokerCore:
    def __new__(
        cls,
        brokers: int = 1,
        auto_create_topics: bool = True,
        default_partitions: int = 1,
        port: int = 0,
        transaction_version: int = 2,
        as_version: str | None = None,
        config: Mapping[str, object] | None = None,
        zookeeper: str | None = None,
        *,
        max_bytes: int = ...,
        data_dir: str | PathLike[str] | None = None,
        fsync: bool = False,
        sasl: Mapping[str, Mapping[str, str] | None] | None = None,
        sasl_session: float | None = None,
        super_users: Sequence[str] | None = None,
        allow_everyone_if_no_acl_found: bool = False,
        tls: tuple[str, str] | None = None,
        client_ca: str | None = None,
        racks: Sequence[str] = ...,
        first_node: int = 1,
        telemetry: bool = False,
    ) -> Self: ...
    @property
    def _zookeeper(self) -> str | None: ...
    def _start(self) -> None: ...
    def _stop(self) -> None: ...
    def _addresses(self) -> list[str]: ...
    def _kill(self, node: int) -> None: ...
    def _start_node(self, node: int) -> None: ...
    def _add_node(self) -> int: ...
    def _move_leader(self, topic: str, partition: int, node: int) -> None: ...
    def _truncate(self, topic: str, partition: int, offset: int) -> None: ...
    def _compact(self, topic: str) -> None: ...
    def _move_coordinator(self, key: str, node: int) -> None: ...
    def _advance(self, seconds: float) -> None: ...
    def _requests(self) -> list[SeenRequest]: ...
    def _telemetry(
        self,
    ) -> list[tuple[str, bool, str, dict[str, str], list[tuple[str, str, dict[str, str], float]]]]: ...
    def _want_telemetry(self, metrics: list[str], interval_ms: int, delta: bool) -> None: ...
    def _registered(self) -> list[tuple[int, str, int]]: ...
    def _fault(
        self,
        action: str,
        *,
        api: str | None,
        seconds: float | None,
        error: str | None,
        times: int | None,
        node: int | None,
        topic: str | None,
        probability: float,
        seed: int,
    ) -> None: ...
    def _repeat(
        self,
        topics: Mapping[str, int],
        records: Mapping[tuple[str, int], Sequence[bytes]],
        versions: Mapping[str, int],
        results: Sequence[tuple[str, tuple[str, float | None, str | None] | None]],
    ) -> None: ...
    def _clear_faults(self) -> None: ...

def assign(
    name: str,
    topics: Sequence[tuple[str, Sequence[Sequence[str]]]],
    members: Sequence[Member],
) -> dict[str, list[tuple[str, int]]]: ...
def user_data(name: str, owned: Sequence[tuple[str, int]], generation: int | None) -> bytes | None: ...
def config_keys() -> list[Option]: ...
def foreign_options() -> list[ForeignOption]: ...
def option_verdict(
    client: str, name: str, value: str | None = None, prefix: str = ""
) -> tuple[Literal["key", "ignored", "rejected", "unknown"], str]: ...

@final
class CertificateAuthority:
    """A certificate authority for tests, which signs certificates for a dev broker and its clients.

    Example:
        authority = klamm.testing.CertificateAuthority()
        certificate, key = authority.issue("broker", ["localhost"])
    """
    def __new__(cls) -> Self: ...
    @property
    def pem(self) -> str:
        """The certificate of the authority, in PEM."""
    def issue(self, name: str, hosts: Sequence[str] = ..., *, expired: bool = False) -> tuple[str, str]:
        """Creates a certificate.

        Args:
            name (str): The common name of the broker or client.
            hosts (list[str]): Host names and IP addresses of a broker. Defaults to an empty list, for a client.
            expired (bool): Whether the certificate has expired. Defaults to False.

        Returns:
            The certificate and its private key, both in PEM.

        Raises:
            ConfigError: A name is not valid in a certificate.
        """

@final
class LoginQuestion:
    @property
    def connection(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def token(self) -> bytes: ...

@final
class LoginMailbox:
    def put(self, token: str, extensions: Sequence[tuple[str, str]], seconds: float) -> None: ...
    def fail(self, message: str, hint: str) -> None: ...
    def question(self, seconds: float) -> LoginQuestion | None: ...
    def answer(self, connection: int, token: bytes, is_established: bool) -> None: ...
    def refuse(self, connection: int, message: str, hint: str) -> None: ...
    def take_refusal(self) -> bool: ...
    def wait(self, seconds: float) -> bool: ...

@final
class LogLine:
    @property
    def loggers(self) -> Sequence[Any]: ...
    @property
    def component(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def text(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    @property
    def broker(self) -> str | None: ...
    @property
    def topic(self) -> str | None: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def created(self) -> float: ...
    @property
    def is_demanded(self) -> bool: ...

@final
class LogQueue:
    def __new__(cls) -> Self: ...
    def take(
        self,
    ) -> tuple[list[LogLine], int] | None: ...
    def flush(self, seconds: float) -> bool: ...
    def close(self) -> None: ...

@final
class ErrorQueue:
    def __new__(cls) -> Self: ...
    def take(self) -> Exception | None: ...
    def close(self) -> None: ...

@final
class LogTarget:
    def __new__(cls, queue: LogQueue, loggers: Sequence[Any], errors: ErrorQueue | None) -> Self: ...
    @property
    def loggers(self) -> Sequence[Any]: ...
    def set_levels(self, levels: Sequence[int]) -> None: ...
    def dump_flight(self, path: str | PathLike[str]) -> bool: ...
    def keep_commits(self) -> None: ...
    def take_commits(self) -> list[tuple[list[tuple[str, int, OffsetAndMetadata]], Exception | None]]: ...

def log_components() -> list[str]: ...
def set_log_level(level: int) -> None: ...

@final
class ScramClient:
    """The client's side of one SCRAM exchange (RFC 5802). The client sends its messages in SaslAuthenticate requests.

    Args:
        mechanism (str): "SCRAM-SHA-256" or "SCRAM-SHA-512".
        username (str): The user name.
        password (str): The password.
        nonce (str | None): The client's nonce. None (the default) creates a random nonce.
        extensions (list[(str, str)] | None): SCRAM extensions. A delegation token needs `("tokenauth", "true")`.

    Raises:
        ConfigError: The mechanism does not exist.

    Example:
        client = klamm.protocol.ScramClient("SCRAM-SHA-256", "user", "pencil")
        client.first()                  # send this to the broker
        client.final(server_first)      # send this as the response to its challenge
        client.verify(server_final)     # raises unless the broker knows the password
    """
    def __new__(
        cls,
        mechanism: str,
        username: str,
        password: str,
        *,
        nonce: str | None = None,
        extensions: Sequence[tuple[str, str]] | None = None,
    ) -> Self: ...
    def first(self) -> str:
        """Returns the client's first message."""
    def final(self, server_first: str) -> str:
        """Returns the client's response to the broker's first message.

        Args:
            server_first (str): The broker's first message.

        Returns:
            The client's final message.

        Raises:
            AuthenticationError: The broker's message is invalid.
        """
    def verify(self, server_final: str) -> None:
        """Checks the broker's final message.

        Args:
            server_final (str): The broker's final message.

        Raises:
            AuthenticationError: The broker rejected the login, or does not know the password.
            ConfigError: `final()` was not called before.
        """

def broker_error(
    code: int, tried: str, why: str | None = None, topic: str | None = None, partition: int | None = None
) -> KafkaError: ...
def error_codes() -> list[tuple[int, str, bool, bool]]: ...
def apis() -> list[Api]: ...
def structures() -> list[Structure]: ...
def schema(name: str, kind: str) -> dict[str, Any]:
    """Returns the schema of a message in the form of Kafka's schema files.

    Version ranges are strings (`3`, `3-5`, `3+`) and arrays have types such as `[]int32`. A struct contains the list of
    its `fields`. Records are `bytes`. Defaults have the same form as the values that `decode` returns. The names of
    structs are klamm's names.

    Args:
        name (str): The name of the API or structure, for example "Fetch".
        kind (str): "request", "response", "header" or "data".

    Returns:
        The schema as a dict.

    Raises:
        ConfigError: The message does not exist.
    """

def decode(name: str, kind: str, version: int, body: Buffer) -> dict[str, Any]:
    """Decodes the body of a message.

    Decoding takes at most 128 KiB plus 256 times the memory of the body. Half of this memory is for reading, and half
    is for the dicts.

    Args:
        name (str): The name of the API or structure, for example "Fetch".
        kind (str): "request", "response", "header" or "data".
        version (int): The version of the message.
        body (bytes-like): The bytes. All of them must belong to the message.

    Returns:
        A dict of the fields, with Kafka's names.

    Raises:
        DecodeError: The bytes are damaged, or bytes are left over. `path` and `offset` of the error say where.
        ConfigError: The message or the version does not exist.

    Example:
        fields = klamm.protocol.decode("Fetch", "request", 17, body)
    """

def decode_prefix(name: str, kind: str, version: int, data: Buffer) -> tuple[dict[str, Any], int, bytes]: ...
def encode(name: str, kind: str, version: int, fields: Mapping[str, Any]) -> bytes:
    """Encodes the body of a message.

    Args:
        name (str): The name of the API or structure, for example "Fetch".
        kind (str): "request", "response", "header" or "data".
        version (int): The version of the message.
        fields (dict): The fields, with Kafka's names. Missing fields take their defaults.

    Returns:
        The bytes of the body.

    Raises:
        ArgumentError: A field has the wrong type.
        ConfigError: The message, the version or a field does not exist, or a value does not fit its field.

    Example:
        body = klamm.protocol.encode("ApiVersions", "request", 3, {"clientSoftwareName": "test"})
    """

def decode_header(
    kind: str, frame: Buffer, api: str | None = None, version: int | None = None
) -> tuple[dict[str, Any], bytes]:
    """Decodes the header at the start of a frame.

    A request contains its API and version. A response does not, so the caller must pass the API and the version. The
    header versions follow Kafka's rules, including the exceptions for ApiVersions and ControlledShutdown. A version
    that is too new for klamm has the header of the newest version that klamm knows.

    Args:
        kind (str): "request" or "response".
        frame (bytes-like): The frame without its length prefix.
        api (str | None): The name of the API. Required for a response.
        version (int | None): The version of the API. Required for a response.

    Returns:
        The fields of the header as a dict, and the body as bytes.

    Raises:
        DecodeError: The header is damaged.
        ConfigError: The kind, the API or the version is missing or does not exist.
    """

def decode_records(
    data: Buffer, check_crcs: bool
) -> tuple[list[dict[str, Any]], PackedRecords | None, Exception | None]: ...

@final
class PackedRecords:
    def __len__(self) -> int: ...
    def open(self) -> OpenRecords: ...

@final
class OpenRecords:
    def record(self, index: int) -> BatchRecord: ...

def encode_batch(
    records: Sequence[tuple[int, int, Buffer | None, Buffer | None, Sequence[tuple[str, Buffer | None]]]],
    fields: Mapping[str, Any],
) -> bytes: ...
def murmur2(data: Buffer) -> int:
    """Computes the hash that selects the partition of a key.

    Args:
        data (bytes-like): The key.

    Returns:
        The murmur2 hash of Kafka's Java client, a signed 32-bit integer.
    """

def crc32c(data: Buffer) -> int:
    """Computes the CRC-32C (Castagnoli) checksum of magic 2.

    Args:
        data (bytes-like): The bytes.

    Returns:
        The checksum, an unsigned 32-bit integer.
    """

@final
class LegacyConnection:
    def __new__(cls, host: str, port: int, max_frame: int) -> Self: ...
    def send(self, frame: Buffer, timeout: float | None) -> None: ...
    def receive(self, timeout: float | None) -> bytes: ...
    def is_open(self) -> bool: ...
    def close(self) -> None: ...

@final
class ZooKeeperOperation:
    @property
    def number(self) -> int: ...
    @property
    def kind(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def names(self) -> list[str]: ...

@final
class ZooKeeperMember:
    def __new__(
        cls,
        group: str,
        member: str,
        topics: Mapping[str, int],
        pattern: tuple[bool, int, str] | None,
        backoff: float,
        session_timeout: float,
    ) -> Self: ...
    def connected(self, now: float, is_new: bool) -> None: ...
    def suspended(self, now: float) -> None: ...
    def expired(self, now: float) -> None: ...
    def changed(self, now: float, path: str) -> None: ...
    def answered(
        self, now: float, number: int, what: str, names: Sequence[str] | None = None, data: str | None = None
    ) -> None: ...
    def stopped(self, now: float, offsets: Sequence[tuple[tuple[str, int, int], int]]) -> None: ...
    def commit(self, now: float, offsets: Sequence[tuple[tuple[str, int, int], int]]) -> None: ...
    def tick(self, now: float) -> None: ...
    def due(self) -> float | None: ...
    def operation(self) -> ZooKeeperOperation | None: ...
    def event(self) -> tuple[str, list[tuple[tuple[str, int, int], int, int | None]]] | None: ...
    def problem(self, now: float) -> tuple[tuple[str, str, str] | None, float | None]: ...
    def is_settled(self) -> bool: ...

@final
class Fetched07:
    @property
    def error(self) -> int: ...
    @property
    def messages(self) -> Collection[Message07]: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def left(self) -> int: ...
    @property
    def damage(self) -> DecodeError | None: ...

@final
class Message07:
    """A message of Kafka 0.6 or 0.7 and its position in the log.

    Encoding uses only the payload. The other attributes are results of decoding.

    Args:
        payload (bytes-like): The payload.
        magic (int): The message format, 0 or 1 (the default).
        compression (str): "none" (the default), "gzip" or "snappy".
        offset (int): The byte offset of the outermost message. Defaults to 0.
        next_offset (int): The byte offset of the next outermost message. Defaults to 0.
        index (int): The index among the messages with this offset. Defaults to 0.
        count (int): The number of messages with this offset. Defaults to 1.
    """
    def __new__(
        cls,
        payload: Buffer,
        magic: int = 1,
        compression: str = "none",
        offset: int = 0,
        next_offset: int = 0,
        index: int = 0,
        count: int = 1,
    ) -> Self: ...
    @property
    def payload(self) -> bytes:
        """The payload."""
    @property
    def magic(self) -> int:
        """The format of the message itself, 0 or 1. A compressed message that contains this message has format 1."""
    @property
    def compression(self) -> str:
        """The compression of the outermost message that contains this message: `none`, `gzip` or `snappy`."""
    @property
    def offset(self) -> int:
        """The byte offset of the outermost message that contains this message."""
    @property
    def next_offset(self) -> int:
        """The byte offset of the next outermost message."""
    @property
    def index(self) -> int:
        """The index among the messages with this offset."""
    @property
    def count(self) -> int:
        """The number of messages with this offset."""
    def __getnewargs__(self) -> tuple[bytes, int, str, int, int, int, int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def decode_request(frame: Buffer) -> Request:
    """Decodes a request of Kafka 0.6 or 0.7.

    Args:
        frame (bytes-like): The frame, with its length prefix.

    Returns:
        A dict: `type` and the list `parts`.

    Raises:
        DecodeError: The frame is damaged.
    """

def parse_address(text: str) -> tuple[str, int]: ...
def encode_request(request: Request) -> bytes:
    """Encodes a request of Kafka 0.6 or 0.7.

    Args:
        request (dict): `type` and the list `parts`, as `decode_request` returns them.

    Returns:
        The frame, with its length prefix.

    Raises:
        ArgumentError: A field has the wrong type.
        ConfigError: A field is missing, or a value does not fit its field.
    """

@overload
def decode_response(type: Literal["fetch"], frame: Buffer) -> FetchResponse:
    """Decodes the response to a request of Kafka 0.6 or 0.7.

    Args:
        type (str): The type of the request: "fetch", "multifetch" or "offsets".
        frame (bytes-like): The frame, with its length prefix.

    Returns:
        A dict of the fields.

    Raises:
        DecodeError: The frame is damaged.
        ConfigError: The request type does not exist or has no response.
    """

@overload
def decode_response(type: Literal["multifetch"], frame: Buffer) -> MultiFetchResponse: ...
@overload
def decode_response(type: Literal["offsets"], frame: Buffer) -> OffsetsResponse: ...
@overload
def decode_response(type: str, frame: Buffer) -> FetchResponse | MultiFetchResponse | OffsetsResponse: ...
def encode_response(
    type: str,  # noqa: A002
    response: FetchResponse | MultiFetchResponse | OffsetsResponse,
) -> bytes:
    """Encodes the response to a request of Kafka 0.6 or 0.7.

    Args:
        type (str): The type of the request: "fetch", "multifetch" or "offsets".
        response (dict): The fields, as `decode_response` returns them.

    Returns:
        The frame, with its length prefix.

    Raises:
        ArgumentError: A field has the wrong type.
        ConfigError: A field is missing, a value does not fit, or the request type has no response.
    """

def decode_fetched(body: Buffer, multi: bool, offsets: Sequence[int]) -> list[Fetched07]: ...
def decode_messages(data: Buffer, offset: int = 0) -> list[Message07]:
    """Decodes a message set of Kafka 0.6 or 0.7. The result contains the messages inside a compressed message instead of
    the compressed message.

    The function ignores a truncated message at the end.

    Args:
        data (bytes-like): The message set.
        offset (int): The byte offset of the first message in the log. Defaults to 0.

    Returns:
        A list of Message07.

    Raises:
        DecodeError: A message is damaged, is inside more than 8 compressed messages, or decompresses to more than
            256 MiB. The error also occurs if the list would take more than 256 MiB and more than 64 times the memory of
            the data.
    """

def encode_messages(messages: Iterable[Buffer | Message07], *, magic: int = 1, compression: str = "none") -> bytes:
    """Encodes a message set of Kafka 0.6 or 0.7.

    Args:
        messages (iterable of bytes-like or Message07): The payloads. The function uses only the payload of a Message07.
        magic (int): The message format: 1 (the default), or 0 for Kafka 0.6, which has no compression.
        compression (str): "none" (the default), "gzip" or "snappy". Snappy requires Kafka 0.7.1 or later. With
            compression, one message contains all payloads.

    Returns:
        The bytes of the message set.

    Raises:
        ArgumentError: A payload is not bytes-like.
        ConfigError: The magic or the compression does not exist.
    """
