"""Encodes and decodes messages in Kafka's wire format, for tools, tests and inspection.

    body = klamm.protocol.encode("Metadata", "request", 12, {"topics": [{"name": "greetings"}]})
    klamm.protocol.decode("Metadata", "request", 12, body)

There are four types of messages: `request`, `response`, `header` and `data`. Each API has a request and a response. A
`data` message is a structure inside other messages, such as the subscription of a group member. Kafka sends a version
number in front of a subscription, and the `data` message does not include this number. `apis()` and `structures()` list
all messages, and `schema` describes the fields of a message.

A message is a dict with the field names of Kafka's schemas, such as `throttleTimeMs`. Fields of the types bytes and
records are `bytes` objects, and a UUID is a string of 22 base64 characters. The dict omits fields that the message's
version does not have, and tagged fields whose value is the default. For damaged data, the functions raise `DecodeError`
with the path of the damaged field and the offset of the byte. The Rust core does the encoding and decoding.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import eq
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from klamm import _klamm
from klamm._klamm import ScramClient, crc32c, decode, decode_header, encode, murmur2, schema
from klamm.arguments import INT16, INT32, INT64_MIN, boolean, integer, list_of, optional_integer, string
from klamm.errors import ArgumentError, ConfigError, DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from klamm._klamm import Buffer

__all__ = [
    "Api",
    "Batch",
    "BatchRecord",
    "BatchRecords",
    "Control",
    "Decoded",
    "ErrorCode",
    "ScramClient",
    "Structure",
    "apis",
    "crc32c",
    "decode",
    "decode_header",
    "decode_prefix",
    "decode_records",
    "encode",
    "encode_batch",
    "errors",
    "murmur2",
    "schema",
    "structures",
]


class Api(NamedTuple):
    """An API of Kafka and its versions.

    Attributes:
        max_stable: Newest stable version. If no version is stable, `max_stable` is less than `min`.
        flexible: First version with tagged fields, or None.
        internal: Whether only brokers and controllers use the API.
    """

    name: str
    key: int
    min: int
    max: int
    max_stable: int
    flexible: int | None
    internal: bool


class Structure(NamedTuple):
    """A message of the type `header` or `data`.

    Attributes:
        flexible: First version with tagged fields, or None.
    """

    name: str
    kind: str
    min: int
    max: int
    flexible: int | None


class ErrorCode(NamedTuple):
    """An error code of Kafka.

    Attributes:
        retriable: Whether the same request can succeed later.
        refresh_metadata: Whether the error means that the client's metadata about leaders or topics is outdated.
    """

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool


class Control(NamedTuple):
    """The content of a control record, such as a COMMIT or ABORT marker with the coordinator's epoch."""

    version: int
    type_id: int
    type: str
    coordinator_epoch: int | None


@dataclass
class BatchRecord:
    """A record of a batch.

    Attributes:
        timestamp: Milliseconds since 1970, or -1 for a record without a timestamp.
        headers: Pairs of name and value. In a name that is not UTF-8, the invalid bytes become surrogate escapes
            (`surrogateescape`).
        timestamp_type: `CreateTime` or `LogAppendTime`. `encode_batch` ignores the timestamp type.
        sequence: Sequence number, which `encode_batch` ignores.
        control: Content of a control record, which `encode_batch` ignores.
    """

    offset: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    timestamp_type: str = "CreateTime"
    sequence: int = -1
    control: Control | None = None


class BatchRecords(Sequence[BatchRecord]):
    """The records of a decoded batch, as a sequence that creates a new record object for every access.

    A `BatchRecords` object equals a list of the same records. To change records, convert the object to a `list` first.
    """

    def __init__(self, packed: _klamm.PackedRecords, rows: range | None = None) -> None:
        self._packed = packed
        self._rows = range(len(packed)) if rows is None else rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> BatchRecord: ...
    @overload
    def __getitem__(self, index: slice) -> BatchRecords: ...
    def __getitem__(self, index: int | slice) -> BatchRecord | BatchRecords:
        if isinstance(index, slice):
            return BatchRecords(self._packed, self._rows[index])
        try:
            return self._packed.open().record(self._rows[index])
        except IndexError:
            raise IndexError(f"there is no record {index}; the batch has {len(self)} records") from None

    def __iter__(self) -> Iterator[BatchRecord]:
        return map(self._packed.open().record, self._rows)

    def __reversed__(self) -> Iterator[BatchRecord]:
        return iter(self[::-1])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (BatchRecords, list)):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [repr(record) for record in self[:SHOWN]]
        more = [] if len(self) <= SHOWN else [f"... ({len(self)} records)"]
        return f"[{', '.join(shown + more)}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


@dataclass
class Batch:
    """A record batch: the fields of its header, and its records.

    In formats 0 and 1, each message is a batch of its own. The records of a compressed message are the messages inside
    it. If formats 0 and 1 do not have a field, its value is -1. In batches from `decode_records`, `records` is a
    `BatchRecords`.
    """

    magic: int
    size: int
    base_offset: int
    last_offset: int
    next_offset: int
    crc: int
    attributes: int
    compression: str
    timestamp_type: str
    base_timestamp: int
    max_timestamp: int
    partition_leader_epoch: int
    last_offset_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    count: int
    transactional: bool
    control: bool
    delete_horizon_ms: int | None
    records: Sequence[BatchRecord]


def apis() -> list[Api]:
    """Return all APIs."""
    return _klamm.apis()


def structures() -> list[Structure]:
    """Return all headers and structures."""
    return _klamm.structures()


def errors() -> list[ErrorCode]:
    """Return all error codes, including 0 (NONE). Every code except NONE has an exception class in `klamm.errors`."""
    return [ErrorCode(*fields) for fields in _klamm.error_codes()]


class Decoded(NamedTuple):
    """The result of `decode_prefix`.

    Attributes:
        fields: The decoded message.
        unknown_tags: Number of tagged fields that klamm does not know.
        rest: The bytes after the message.
    """

    fields: dict[str, Any]
    unknown_tags: int
    rest: bytes


def decode_prefix(name: str, kind: str, version: int, data: Buffer) -> Decoded:
    """Decode the message at the start of `data`.

    Unlike `decode`, `decode_prefix` accepts more bytes after the message, and counts unknown tagged fields.

    Args:
        name: Name of the API or structure.
        kind: `request`, `response`, `header` or `data`.
        version: Version of the message.
        data: Bytes that begin with the message.

    Raises:
        DecodeError: The message is damaged.
        ConfigError: The message or its version does not exist.
    """
    return Decoded(*_klamm.decode_prefix(name, kind, version, data))


def decode_records(data: Buffer, check_crcs: bool = True) -> list[Batch]:
    """Decode the `records` of a fetch response or a log segment, in any format.

    `decode_records` ignores an incomplete batch at the end, and checks all other data. Because a few KB of compressed
    data can hold millions of records, klamm creates a record object only when the program accesses the record. The
    batches keep `data` in memory, and the decompressed content of the last accessed batch (up to 256 MiB).

    Args:
        data: Bytes of consecutive record batches.
        check_crcs: Whether to verify the checksums of the batches.

    Returns:
        The batches, in order.

    Raises:
        DecodeError: A batch is damaged. The error's `batches` and `records` contain the valid data before the damage.
            The error's `path` begins with the index of the batch. The error's `offset` counts bytes from the start of
            the decompressed batch. For a compressed message, `offset` counts from the start of the first inner message.

    Example:
        for batch in klamm.protocol.decode_records(data):
            print(batch.base_offset, [record.value for record in batch.records])
    """
    found, partial, error = _klamm.decode_records(data, boolean("check_crcs", check_crcs))
    batches = [Batch(**{**fields, "records": BatchRecords(fields["records"])}) for fields in found]
    if error is None:
        return batches
    if isinstance(error, DecodeError):
        error.batches = batches
        error.records = [] if partial is None else BatchRecords(partial)
    raise error


def encode_batch(
    records: Iterable[BatchRecord],
    *,
    magic: int = 2,
    base_offset: int | None = None,
    keep_offsets: bool = False,
    compression: str = "none",
    level: int | None = None,
    log_append_time: int | None = None,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    base_timestamp: int | None = None,
    delete_horizon_ms: int | None = None,
    last_offset_delta: int | None = None,
    max_timestamp: int | None = None,
) -> bytes:
    """Encode records of one partition as a batch of format 2, or as messages of format 0 or 1.

    In format 0 or 1, compression puts all messages into one compressed message.

    Args:
        records: The records.
        magic: Format: 0, 1 or 2. The argument `partition_leader_epoch` and all arguments after it need format 2.
        base_offset: Offset of the first record. The default is 0. With `keep_offsets`, the default is the first
            record's own offset.
        keep_offsets: Whether to use the records' own offsets instead of consecutive offsets.
        compression: `none`, `gzip`, `snappy`, `lz4` or `zstd`.
        level: Compression level. The level has no effect on lz4.
        log_append_time: Timestamp of all records, in milliseconds since 1970. Format 0 has no log append time.
        partition_leader_epoch: Epoch of the partition leader.
        producer_id: ID of an idempotent producer.
        producer_epoch: Epoch of the idempotent producer.
        base_sequence: Sequence number of the first record.
        transactional: Whether the records belong to a transaction.
        control: Whether the records are control records.
        base_timestamp: Timestamp in the batch header. The batch stores the records' timestamps relative to the base
            timestamp. The default is the timestamp of the first record.
        delete_horizon_ms: Delete horizon of a compacted batch. The batch stores the delete horizon in place of the base
            timestamp.
        last_offset_delta: Difference between the last and the first offset of the batch. The argument is only needed if
            compaction removed the last records.
        max_timestamp: Largest timestamp of the batch, only needed if compaction removed the record with this timestamp.

    Returns:
        The encoded bytes.

    Raises:
        ConfigError: A value is out of range, or the format does not support an argument.
        ArgumentError: An argument has the wrong type.
    """
    records = list_of("records", records)
    for index, record in enumerate(records):
        if not isinstance(record, BatchRecord):
            raise ArgumentError(f"records[{index}] has to be a BatchRecord, not {type(record).__name__}")
    if integer("magic", magic, INT64_MIN) not in (0, 1, 2):
        raise ConfigError(f"magic cannot be {magic!r}", hint="allowed: 0, 1 and 2")
    base_offset = optional_integer("base_offset", base_offset, INT64_MIN)
    log_append_time = optional_integer("log_append_time", log_append_time, INT64_MIN)
    if magic == 0 and log_append_time is not None:
        raise ConfigError("log_append_time needs magic 1 or 2")
    of_magic_2: dict[str, tuple[Any, Any]] = {
        "partition_leader_epoch": (integer("partition_leader_epoch", partition_leader_epoch, -INT32 - 1, INT32), -1),
        "producer_id": (integer("producer_id", producer_id, INT64_MIN), -1),
        "producer_epoch": (integer("producer_epoch", producer_epoch, -INT16 - 1, INT16), -1),
        "base_sequence": (integer("base_sequence", base_sequence, -INT32 - 1, INT32), -1),
        "transactional": (boolean("transactional", transactional), False),
        "control": (boolean("control", control), False),
        "base_timestamp": (optional_integer("base_timestamp", base_timestamp, INT64_MIN), None),
        "delete_horizon_ms": (optional_integer("delete_horizon_ms", delete_horizon_ms, INT64_MIN), None),
        "last_offset_delta": (optional_integer("last_offset_delta", last_offset_delta, -INT32 - 1, INT32), None),
        "max_timestamp": (optional_integer("max_timestamp", max_timestamp, INT64_MIN), None),
    }
    changed_fields = [name for name, (value, default) in of_magic_2.items() if value != default]
    if magic in (0, 1) and changed_fields:
        raise ConfigError(f"{changed_fields[0]} needs magic 2")
    if base_timestamp is not None and delete_horizon_ms is not None:
        raise ConfigError(
            "base_timestamp and delete_horizon_ms share a field of the batch", hint="pass only one of them"
        )
    offsets: Iterable[int]
    if boolean("keep_offsets", keep_offsets):
        offsets = [integer(f"records[{index}].offset", r.offset, INT64_MIN) for index, r in enumerate(records)]
        base_offset = next(iter(offsets), 0) if base_offset is None else base_offset
    else:
        base_offset = 0 if base_offset is None else base_offset
        offsets = itertools.count(base_offset)
    fields = {name: value for name, (value, _) in of_magic_2.items()}
    fields |= {"magic": magic, "base_offset": base_offset, "log_append_time": log_append_time}
    return _klamm.encode_batch(
        [(offset, r.timestamp, r.key, r.value, r.headers) for offset, r in zip(offsets, records, strict=False)],
        {
            **fields,
            "compression": string("compression", compression),
            "level": optional_integer("level", level, -INT32 - 1, INT32),
        },
    )


SHOWN = 4
