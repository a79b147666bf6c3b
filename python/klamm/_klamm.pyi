"""What the Rust core offers: the cores of the public classes, and the codec.

Names with an underscore are pieces for the package; everything else is public where `klamm` exports it.
"""

from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from os import PathLike
from typing import Any, ClassVar, Generic, Literal, NoReturn, final, overload

from typing_extensions import Buffer as Buffer
from typing_extensions import Self, TypeVar, Unpack, disjoint_base

from klamm.admin import ClusterTuple, GroupTuple
from klamm.config import AdminConfig, Bootstrap, ConsumerConfig, ProducerConfig, ShareConsumerConfig
from klamm.consumer import OnCommit
from klamm.errors import DecodeError, KafkaError
from klamm.legacy import FetchResponse, MultiFetchResponse, OffsetsResponse, Request
from klamm.rebalance import RebalanceListener
from klamm.record import HeadersLike, TopicPartition

__all__ = [
    "AdminCore",
    "ArrowBatch",
    "ArrowColumns",
    "ArrowRows",
    "CertificateAuthority",
    "ConsumerCore",
    "Deserializers",
    "DevBrokerCore",
    "LegacyConnection",
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
    "TokenDesk",
    "ZooKeeperMember",
    "__version__",
    "apis",
    "assign",
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
    "encode_messages",
    "encode_request",
    "encode_response",
    "error_codes",
    "foreign_keys",
    "foreign_values",
    "murmur2",
    "schema",
    "structures",
    "user_data",
]
__version__: str

_T_co = TypeVar("_T_co", covariant=True)
# What deserializers make of keys and values that are not null.
_K_co = TypeVar("_K_co", covariant=True, default=bytes)
_V_co = TypeVar("_V_co", covariant=True, default=bytes)

@final
class Pending(Generic[_T_co]):
    """Something under way: `.result(timeout)` waits for its outcome, and so does `await`."""

    def result(self, timeout: float | None = None) -> _T_co:
        """Waits for the outcome and returns it, or raises what went wrong."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits for the outcome and returns what went wrong, or None."""

    def done(self) -> bool:
        """Whether there is an outcome."""

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Calls `callback` with this object when there is an outcome, at once if there is one.

        It runs in the thread that brings the outcome, mostly the client's I/O thread, so it must be short and wait for
        nothing; what it raises goes to `sys.unraisablehook`.
        """

    def within(self, timeout: float | None) -> Awaitable[_T_co]:
        """Awaits the outcome, at most for so many seconds; KafkaTimeoutError is raised then, and the work goes on."""

    def __await__(self) -> Generator[Any, Any, _T_co]: ...
    def send(self, _value: Any) -> Any:
        """Does a step of a task; with `throw` and `close` this makes it a coroutine, as `asyncio.create_task` wants one.

        It looks whether there is an outcome and parks anew if there is none, so that any number of tasks may share one.
        """

    def throw(self, error: Any, *_more: Any) -> NoReturn: ...
    def close(self) -> None: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...

@final
class RecordMetadata:
    """Where a record went."""

    def __new__(cls, topic: str, partition: int, offset: int, timestamp_ms: int) -> Self: ...
    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def partition(self) -> int:
        """The partition."""

    @property
    def offset(self) -> int:
        """Its place there; -1 with acks=0, where the broker does not say."""

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970: the record's own, or the broker's if the topic is configured so."""

    def __getnewargs__(self) -> tuple[str, int, int, int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@disjoint_base
class Record(Generic[_K_co, _V_co]):
    """One record of a topic."""

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
        """The place in the partition."""

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970; -1 if the record has no timestamp."""

    @property
    def timestamp_type(self) -> int:
        """Who set the timestamp: 0 the producer, 1 the broker when it appended the record, -1 nobody."""

    @property
    def delivery_count(self) -> int:
        """How often a share group delivered the record, this time included; 0 outside of share groups."""

    @property
    def timestamp(self) -> datetime | None:
        """The timestamp as an aware datetime in UTC; None if there is none."""

    @property
    def key(self) -> _K_co | None:
        """The key; None for null."""

    @property
    def value(self) -> _V_co | None:
        """The value; None for null, which is a tombstone in a compacted topic."""

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """The headers, in order; keys may repeat."""

@final
class Records(Sequence[Record[_K_co, _V_co]]):
    """A sequence of records, made when they are asked for."""

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
        """The place of the first record that equals this one, as a list's; ValueError if none does."""

    def count(self, value: Any) -> int:
        """How many records equal this one."""

    def by_partition(self) -> dict[TopicPartition, Records[_K_co, _V_co]]:
        """The records of each partition, as a dict from TopicPartition to Records."""

    def to_arrow(self, columns: Sequence[str] | None = None) -> Any:
        """The records as a pyarrow.RecordBatch: all columns, or those named."""

    def _columns(self, columns: ArrowColumns) -> ArrowBatch: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def _deserialized(self, deserializers: Deserializers) -> Records[Any, Any]: ...

@final
class Deserializers:
    """What makes a program's own objects of keys and values: called with a record, it gives the record that does so."""

    def __new__(cls, key: Callable[[bytes], Any] | None, value: Callable[[bytes], Any] | None) -> Self: ...
    def __call__(self, record: Record, /) -> Record[Any, Any]: ...
    def __getnewargs__(self) -> tuple[Callable[[bytes], Any] | None, Callable[[bytes], Any] | None]: ...

@final
class RecordIterator(Generic[_K_co, _V_co]):
    """`for record in consumer`."""

    def __iter__(self) -> Self: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def __next__(self) -> Record[_K_co, _V_co]: ...

@final
class ArrowColumns:
    """The columns of a batch to build."""

    def __new__(cls, names: Sequence[str] | None = None, layout: str = "klamm") -> Self: ...
    def __arrow_c_schema__(self) -> Any: ...

@final
class ArrowBatch:
    """A record batch that any Arrow library can take over, as `pyarrow.record_batch(batch)`."""

    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]: ...

@final
class ArrowRows:
    """Rows on their way to a producer: which batch of a stream, which row of it."""

    def __new__(cls, data: Any) -> Self: ...
    @property
    def sent(self) -> int:
        """Rows sent so far."""

@disjoint_base
class ProducerCore:
    """The core of a producer."""

    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        *,
        on_error: Callable[[Exception], object] | None = None,
        **config: Unpack[ProducerConfig],
    ) -> Self: ...
    def send(
        self,
        topic: str,
        value: Buffer | None = None,
        key: Buffer | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike | None = None,
    ) -> Pending[RecordMetadata]:
        """Sends a record; the returned Delivery is its acknowledgement."""

    def send_nowait(
        self,
        topic: str,
        value: Buffer | None = None,
        key: Buffer | None = None,
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        headers: HeadersLike | None = None,
    ) -> None:
        """Sends a record without a handle for it: what goes wrong reaches `on_error` and `flush`."""

    def _try_send(
        self,
        topic: str,
        value: Buffer | None,
        key: Buffer | None,
        partition: int | None,
        timestamp_ms: int | datetime | None,
        headers: HeadersLike | None,
    ) -> Pending[RecordMetadata]: ...
    def _send_values(
        self,
        topic: str,
        values: Sequence[Buffer | None],
        keys: Sequence[Buffer | None] | None,
        partition: int | None,
        start: int,
    ) -> int: ...
    def _send_rows(self, topic: str | None, rows: ArrowRows) -> bool: ...
    def _wait_for_room(self, done: int) -> None: ...
    def _pause(self) -> float | None: ...
    def _run_ahead(self) -> None: ...
    def _room(self, done: int, timeout: float) -> Awaitable[bool]: ...
    def _no_room(self) -> Exception: ...
    @property
    def _drops(self) -> bool: ...
    @property
    def _max_block(self) -> float: ...
    def _flush(self) -> Pending[None]: ...
    def _failures(self, take: bool) -> list[tuple[Exception, int]]: ...
    def _init_transactions(self) -> Pending[None]: ...
    def _begin_transaction(self) -> None: ...
    def _end_transaction(self, commit: bool) -> Pending[None]: ...
    def _abort_transaction(self) -> Pending[None] | None: ...
    def _fail_transaction(self, why: str) -> None: ...
    def _commit_offsets(
        self,
        group: str,
        generation: int,
        member: str,
        instance: str | None,
        offsets: Sequence[tuple[str, int, int, str, int | None, int | None]],
    ) -> Pending[None]: ...
    def _metrics(
        self,
    ) -> tuple[
        list[tuple[str, tuple[int, int, int, int, int, float]]],
        list[tuple[int, tuple[int, int, int, int, float, float, float]]],
        int,
        int,
    ]: ...
    def _partitions_for(self, topic: str) -> Pending[list[int]]: ...
    def _outstanding(self) -> int: ...
    def _close(self, timeout: float | None, waited: float = 0.0) -> None: ...

@disjoint_base
class ConsumerCore(Generic[_K_co, _V_co]):
    """The core of a consumer."""

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
    def _unsubscribe(self) -> None: ...
    def _next_change(self) -> tuple[str, list[tuple[str, int]]] | None: ...
    def _handled(self) -> None: ...
    def _group_metadata(self) -> tuple[str, int, str, str | None] | None: ...
    def _records(self) -> RecordIterator[_K_co, _V_co]: ...
    def _next_ready(self) -> Awaitable[Record[_K_co, _V_co]] | None: ...
    def _poll(
        self, timeout: float | None, max_records: int | None, max_bytes: int | None = None
    ) -> Records[_K_co, _V_co] | None: ...
    def _ready(self, timeout: float | None) -> Awaitable[bool]: ...
    def _unwatch(self) -> None: ...
    def _assign(self, partitions: Sequence[tuple[str, int, int | None, int | None]], waits: bool) -> None: ...
    def _assignment(self) -> list[tuple[str, int]]: ...
    def _seek(self, topic: str, partition: int, offset: int) -> None: ...
    def _seek_to(self, places: Sequence[tuple[str, int]], timestamp: int) -> None: ...
    def _position(self, topic: str, partition: int) -> Pending[int]: ...
    def _pause(self, places: Sequence[tuple[str, int]]) -> None: ...
    def _resume(self, places: Sequence[tuple[str, int]]) -> None: ...
    def _paused(self) -> list[tuple[str, int]]: ...
    def _commit(self, offsets: Sequence[tuple[str, int, int, str, int | None, int | None]] | None) -> Pending[None]: ...
    def _commit_nowait(
        self, offsets: Sequence[tuple[str, int, int, str, int | None, int | None]] | None, on_commit: OnCommit | None
    ) -> Pending[None]: ...
    def _tell_commits(self) -> None: ...
    def _given_out(self) -> list[tuple[str, int, int, int | None]]: ...
    @property
    def _listener(self) -> RebalanceListener | None: ...
    @property
    def _defers(self) -> bool: ...
    @property
    def _auto_commits(self) -> bool: ...
    def _committed(
        self, places: Sequence[tuple[str, int]], timeout: float | None
    ) -> Pending[list[tuple[int, str, int | None] | None]]: ...
    def _list_offsets(
        self, asked: Sequence[tuple[str, int, int]], timeout: float | None, of_led: bool = False
    ) -> Pending[list[tuple[int, int] | None]]: ...
    def _lag(self) -> list[tuple[tuple[str, int], int | None]]: ...
    def _partitions_for(self, topic: str, timeout: float | None) -> Pending[list[int]]: ...
    @property
    def _is_member(self) -> bool: ...
    def _is_closed(self) -> bool: ...
    def _is_finished(self) -> bool: ...
    def _close(self, timeout: float | None, handled: bool | None) -> None: ...

@final
class ShareRecordIterator(Generic[_K_co, _V_co]):
    """`for record in consumer`."""

    def __iter__(self) -> Self: ...
    @classmethod
    def __class_getitem__(cls, key: Any) -> Any: ...
    def __next__(self) -> Record[_K_co, _V_co]: ...

@disjoint_base
class ShareConsumerCore(Generic[_K_co, _V_co]):
    """The core of a share consumer."""

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
    def _next_ready(self) -> Awaitable[Record[_K_co, _V_co]] | None: ...
    def _poll(self, timeout: float | None, max_records: int | None) -> Records[_K_co, _V_co]: ...
    def _ready(self, timeout: float | None) -> Awaitable[bool]: ...
    def _acknowledge(self, records: Record[Any, Any] | Records[Any, Any], what: str) -> None: ...
    def _commit(self) -> Pending[dict[TopicPartition, KafkaError | None]]: ...
    def _lock(self) -> float | None: ...
    def _is_closed(self) -> bool: ...
    def _close(self, timeout: float | None, handled: bool) -> None: ...

@disjoint_base
class AdminCore:
    """The core of an admin client."""

    def __new__(cls, bootstrap_servers: Bootstrap | None = None, **config: Unpack[AdminConfig]) -> Self: ...
    def _create_topics(
        self,
        topics: Sequence[tuple[str, int, int, Sequence[tuple[str, str]]]],
        validate_only: bool,
        timeout: float | None,
    ) -> Pending[None]: ...
    def _create_partitions(
        self, counts: Sequence[tuple[str, int]], validate_only: bool, timeout: float | None
    ) -> Pending[None]: ...
    def _describe_configs(
        self, kind: str, name: str, timeout: float | None
    ) -> Pending[list[tuple[str, str | None, int, bool, bool]]]: ...
    def _alter_configs(
        self,
        kind: str,
        name: str,
        changes: Sequence[tuple[str, str | None]],
        validate_only: bool,
        timeout: float | None,
    ) -> Pending[None]: ...
    def _delete_topics(self, topics: Sequence[str], timeout: float | None) -> Pending[None]: ...
    def _offsets_before(
        self, wanted: Sequence[tuple[str, int, int]], limit: int, timeout: float | None
    ) -> Pending[list[list[int]]]: ...
    def _delete_records(self, wanted: Sequence[tuple[str, int, int]], timeout: float | None) -> Pending[list[int]]: ...
    def _describe(self, topics: Sequence[str] | None, timeout: float | None) -> Pending[ClusterTuple]: ...
    def _list_groups(
        self, states: Sequence[str], types: Sequence[str], timeout: float | None
    ) -> Pending[list[tuple[str, str, str, str]]]: ...
    def _describe_group(self, group: str, timeout: float | None) -> Pending[GroupTuple]: ...
    def _delete_group(self, group: str, timeout: float | None) -> Pending[None]: ...
    def _group_offsets(self, group: str, timeout: float | None) -> Pending[list[tuple[tuple[str, int], int]]]: ...
    def _alter_group_offsets(
        self, group: str, offsets: Sequence[tuple[str, int, int, str, int | None, int | None]], timeout: float | None
    ) -> Pending[None]: ...
    def _delete_group_offsets(
        self, group: str, places: Sequence[tuple[str, int]], timeout: float | None
    ) -> Pending[None]: ...
    def _group_lag(self, group: str, timeout: float | None) -> Pending[list[tuple[tuple[str, int], int | None]]]: ...
    def _close(self) -> None: ...

@disjoint_base
class DevBrokerCore:
    """A cluster in this process, on a thread of its own."""

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
    def _requests(self) -> list[tuple[int, str, int, str | None, int, float]]: ...
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
    def _clear_faults(self) -> None: ...

def assign(
    name: str,
    topics: Sequence[tuple[str, Sequence[Sequence[str]]]],
    members: Sequence[
        tuple[str, str | None, str | None, Sequence[str], Sequence[tuple[str, int]], int | None, Buffer | None]
    ],
) -> dict[str, list[tuple[str, int]]]:
    """What each member gets of topics, of whose partitions the racks are given."""

def user_data(name: str, owned: Sequence[tuple[str, int]], generation: int | None) -> bytes | None:
    """What a member tells the leader besides its subscription."""

def config_keys() -> list[tuple[str, list[str], str, str, str, list[str], str]]:
    """`(name, aliases, kind, default, allowed, roles, doc)` of every key."""

def foreign_keys() -> list[tuple[list[str], list[str], str]]:
    """`(names, clients, hint)` of the options of other clients that klamm has not."""

def foreign_values() -> list[tuple[str, str, str]]:
    """`(key, value, klamm's value)` of the values of other clients that klamm takes."""

@final
class CertificateAuthority:
    """Signs certificates for a dev broker and its clients; nobody else has reason to trust it."""

    def __new__(cls) -> Self: ...
    @property
    def pem(self) -> str:
        """Its certificate, as PEM text."""

    def issue(self, name: str, hosts: Sequence[str] = ..., *, expired: bool = False) -> tuple[str, str]:
        """Make a certificate for hosts, or for a client by its name, and return it with its private key, as PEM texts."""

@final
class TokenDesk:
    """Where `klamm.oauth` leaves the tokens that it fetches for a client, and `klamm.kerberos` answers questions."""

    def put(self, token: str, extensions: Sequence[tuple[str, str]]) -> None: ...
    def fail(self, message: str, hint: str) -> None: ...
    def question(self, seconds: float) -> tuple[int, str, str, bytes] | None: ...
    def answer(self, connection: int, token: bytes, is_established: bool) -> None: ...
    def refuse(self, connection: int, message: str, hint: str) -> None: ...
    def wait(self, seconds: float) -> bool: ...

@final
class ScramClient:
    """The client's side of one SCRAM exchange (RFC 5802), as brokers take it over SaslAuthenticate.

        client = ScramClient("SCRAM-SHA-256", "user", "pencil")
        client.first()                  # to the broker
        client.final(server_first)      # its challenge, and the answer to it
        client.verify(server_final)     # raises AuthenticationError unless the broker knows the password too

    The mechanism is `SCRAM-SHA-256` or `SCRAM-SHA-512`; the nonce is random unless given; a delegation token has the extension
    `("tokenauth", "true")`.
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
        """The client's first message."""

    def final(self, server_first: str) -> str:
        """The client's answer to the broker's first message; AuthenticationError if that makes no sense."""

    def verify(self, server_final: str) -> None:
        """Checks the broker's last message; AuthenticationError if the broker refused, or is not who it says it is."""

def error_codes() -> list[tuple[int, str, bool, bool]]:
    """`(code, name, retriable, refresh_metadata)` of every error code Kafka has; `klamm.errors` makes its classes of it."""

def apis() -> list[tuple[str, int, int, int, int, int | None, bool]]:
    """`(name, key, min, max, max_stable, flexible or None, internal)` of every API."""

def structures() -> list[tuple[str, str, int, int, int | None]]:
    """`(name, kind, min, max, flexible or None)` of every header and structure."""

def schema(name: str, kind: str) -> dict[str, Any]:
    """What a message is made of, in the form of Kafka's own schema files.

    Ranges of versions are text (`3`, `3-5`, `3+`), arrays `[]int32`, and structs have their `fields` in place. Records are
    `bytes`, and a default is a value as `decode` gives it. Names of structs are klamm's own.
    """

def decode(name: str, kind: str, version: int, body: Buffer) -> dict[str, Any]:
    """The fields of a body; bytes left over are refused.

    Takes at most 256 times the memory of the body, and 128 KiB: half of that while it reads, half for the dicts.
    """

def decode_prefix(name: str, kind: str, version: int, data: Buffer) -> tuple[dict[str, Any], int, bytes]:
    """The fields of the body that bytes begin with, how many tagged fields were dropped, and the bytes behind it."""

def encode(name: str, kind: str, version: int, fields: Mapping[str, Any]) -> bytes:
    """The bytes of a body; fields left out take their defaults."""

def decode_header(
    kind: str, frame: Buffer, api: str | None = None, version: int | None = None
) -> tuple[dict[str, Any], bytes]:
    """The fields of the header that a frame begins with, and the body behind it.

    A request says itself what it is, a response does not: it needs the name of its API and the version. Exceptions from the
    rule of header versions (ApiVersions, ControlledShutdown) are kept, and a newer version than klamm knows has the header
    of the newest.
    """

def decode_records(
    data: Buffer, check_crcs: bool
) -> tuple[list[dict[str, Any]], PackedRecords | None, Exception | None]:
    """The record batches in `data`; if one is broken, its records before that, and the error."""

@final
class PackedRecords:
    """The records of a batch as they came."""

    def __len__(self) -> int: ...
    def open(self) -> OpenRecords:
        """The records, decompressed."""

@final
class OpenRecords:
    """The records of a batch, decompressed."""

    def row(self, index: int) -> tuple[Any, ...]:
        """The fields of a record."""

def encode_batch(
    records: Sequence[tuple[int, int, Buffer | None, Buffer | None, Sequence[tuple[str, Buffer | None]]]],
    fields: Mapping[str, Any],
) -> bytes:
    """One batch of magic 2, or the messages of magic 0 or 1, one after the other or in a compressed one."""

def murmur2(data: Buffer) -> int:
    """The hash that chooses a key's partition, as a signed 32-bit integer."""

def crc32c(data: Buffer) -> int:
    """The checksum of magic 2 (Castagnoli)."""

@final
class LegacyConnection:
    """A connection to a broker; one thread at a time."""

    def __new__(cls, host: str, port: int, max_frame: int) -> Self: ...
    def send(self, frame: Buffer, timeout: float | None) -> None:
        """Writes a frame; returns when the system has taken all of it."""

    def receive(self, timeout: float | None) -> bytes:
        """The body of the next answer."""

    def is_open(self) -> bool:
        """Whether there is a connection that the broker has not closed, as far as is known here."""

    def close(self) -> None:
        """Ends the connection; using it again makes a new one."""

@final
class ZooKeeperMember:
    """The machine; times are seconds of any one clock."""

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
    ) -> None:
        """The answer to an operation: `done`, `missing`, `exists` or `failed`, `names` with them, `data` with that."""

    def stopped(self, now: float, offsets: Sequence[tuple[tuple[str, int, int], int]]) -> None: ...
    def commit(self, now: float, offsets: Sequence[tuple[tuple[str, int, int], int]]) -> None: ...
    def tick(self, now: float) -> None:
        """Does what is due."""

    def due(self) -> float | None:
        """When something is due."""

    def operation(self) -> tuple[int, str, str, str, list[str]] | None:
        """What to do with the tree next."""

    def event(self) -> tuple[str, list[tuple[tuple[str, int, int], int, int | None]]] | None:
        """What to say to readers next: `start`, `stop` or `lost`."""

    def is_committing(self) -> bool:
        """Whether offsets are still to be written."""

    def is_settled(self) -> bool:
        """Whether it owns all that it should."""

@final
class Message07:
    """A message of Kafka 0.6 or 0.7, and where it was found.

    All but the payload is for reading: what writes messages takes that alone.
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
        """What the producer sent."""

    @property
    def magic(self) -> int:
        """Its own format, 0 or 1; what is compressed is of 1 outside."""

    @property
    def compression(self) -> str:
        """How the outermost message around it is compressed: `none`, `gzip` or `snappy`."""

    @property
    def offset(self) -> int:
        """Where the outermost message around it begins."""

    @property
    def next_offset(self) -> int:
        """Where the next outermost message begins."""

    @property
    def index(self) -> int:
        """Its place among the messages that have this offset."""

    @property
    def count(self) -> int:
        """How many messages have this offset."""

    def __getnewargs__(self) -> tuple[bytes, int, str, int, int, int, int]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

def decode_request(frame: Buffer) -> Request:
    """The fields of a request, whose frame begins with its length."""

def encode_request(request: Request) -> bytes:
    """The frame of a request, which begins with its length."""

@overload
def decode_response(type: Literal["fetch"], frame: Buffer) -> FetchResponse:
    """The fields of the response to a request of a type; its frame begins with its length."""

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
    """The frame of the response to a request of a type; it begins with its length."""

def decode_fetched(
    body: Buffer, multi: bool, offsets: Sequence[int]
) -> list[tuple[int, Collection[Message07], int, int, DecodeError | None]]:
    """The messages of each part of the answer to a fetch, or to a multifetch of more than one offset, by where they begin.

    As many as come before damage; what is damaged is an exception that nobody has raised.
    """

def decode_messages(data: Buffer, offset: int = 0) -> list[Message07]:
    """The messages in a message set that begins at a byte offset; those of compressed ones in their place.

    A message that is cut off at the end is left out. DecodeError for damage, wherever it is; for more than 8 wrappers around
    a message; for more than 256 MiB out of one; and where the list would take more than that and than 64 times the data.
    """

def encode_messages(messages: Iterable[Buffer | Message07], *, magic: int = 1, compression: str = "none") -> bytes:
    """A message set of payloads, those of messages being taken; compressed (`gzip`, `snappy`), all are in one message.

    Magic 0 is what Kafka 0.6 takes, which has no compression. Snappy needs 0.7.1.
    """
