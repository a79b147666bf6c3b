"""Kafka's wire format, by name: for tools, tests, and curiosity.

    body = klamm.protocol.encode("Metadata", "request", 12, {"topics": [{"name": "greetings"}]})
    klamm.protocol.decode("Metadata", "request", 12, body)

A message is a `request` or `response` of an API, a `header`, or `data`: a structure that travels inside others, such as
the subscription of a group's member, of which the version that precedes it is no part. `apis()` and `structures()` list
them, and `schema` says what each is made of, for tools that build on it.

Messages are dicts with the names of Kafka's schemas (`throttleTimeMs`): bytes and records are `bytes`, a uuid is its 22
characters of base64, and fields that a version lacks are absent, as are tagged fields that hold their default. What is
wrong with data is a `DecodeError` that says where: the path of the field and the offset of the byte, for records in their
batch.
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
    """An API: its versions, the newest that Kafka calls stable, the first with tagged fields (None: none).

    Internal ones are spoken between brokers and controllers only. Without a stable version `max_stable` is below `min`.
    """

    name: str
    key: int
    min: int
    max: int
    max_stable: int
    flexible: int | None
    internal: bool


class Structure(NamedTuple):
    """A header, or a structure that travels inside others (`data`)."""

    name: str
    kind: str
    min: int
    max: int
    flexible: int | None


class ErrorCode(NamedTuple):
    """An error code."""

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool
    """Whether leaders or topics are not where the client believes them."""


class Control(NamedTuple):
    """What a control record says: COMMIT or ABORT of a transaction, by which coordinator, or something between brokers."""

    version: int
    type_id: int
    type: str
    coordinator_epoch: int | None


@dataclass
class BatchRecord:
    """A record of a batch. Timestamps are milliseconds since 1970, -1 for none.

    The last three are for reading: the batch says them when one is encoded.
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
    """The records of a batch that was decoded, each made when somebody looks at it: equal to a list of them.

    They are made anew every time, so that whoever wants to change some makes a `list` of them first.
    """

    def __init__(self, packed: _klamm.PackedRecords, places: range | None = None) -> None:
        self._packed = packed
        self._places = range(len(packed)) if places is None else places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> BatchRecord: ...
    @overload
    def __getitem__(self, index: slice) -> BatchRecords: ...
    def __getitem__(self, index: int | slice) -> BatchRecord | BatchRecords:
        if isinstance(index, slice):
            return BatchRecords(self._packed, self._places[index])
        try:
            return _record(self._packed.open().row(self._places[index]))
        except IndexError:
            raise IndexError(f"there is no record {index}, only {len(self)} of them") from None

    def __iter__(self) -> Iterator[BatchRecord]:
        return map(_record, map(self._packed.open().row, self._places))

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

    In formats 0 and 1 that is a message, with all the messages inside if it is compressed; what these formats lack is -1.
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
    """From `decode_records`: `BatchRecords`."""


def apis() -> list[Api]:
    """List every API there is."""
    return [Api(*fields) for fields in _klamm.apis()]


def structures() -> list[Structure]:
    """List every header and structure there is."""
    return [Structure(*fields) for fields in _klamm.structures()]


def errors() -> list[ErrorCode]:
    """List every error code there is, 0 (NONE) included; each has an exception class in `klamm.errors`."""
    return [ErrorCode(*fields) for fields in _klamm.error_codes()]


class Decoded(NamedTuple):
    """From `decode_prefix`: a body, how many tagged fields of it nobody knows, and the bytes behind it."""

    fields: dict[str, Any]
    unknown_tags: int
    rest: bytes


def decode_prefix(name: str, kind: str, version: int, data: Buffer) -> Decoded:
    """Decode the body that bytes begin with: `decode` for what more may follow, and for who counts unknown tags."""
    return Decoded(*_klamm.decode_prefix(name, kind, version, data))


def decode_records(data: Buffer, check_crcs: bool = True) -> list[Batch]:
    """Decode the `records` of a fetch or a log segment, of any format; a batch that is cut off at the end is left out.

    The DecodeError of a broken batch has what was good before it, as `batches` and (in that batch) `records`. Its `offset`
    counts from the start of the batch, as if the batch were not compressed, or from the first of the messages that are inside
    of another; the number of the batch begins its `path`.

    Everything is checked here, but a record becomes an object when somebody looks at it: a few KB that were compressed may
    be millions. Until the last batch is gone, `data` is kept, and what the batch that was looked at last decompresses to,
    256 MiB at most.
    """
    found, begun, error = _klamm.decode_records(data, boolean("check_crcs", check_crcs))
    batches = [Batch(**{**fields, "records": BatchRecords(fields["records"])}) for fields in found]
    if error is None:
        return batches
    if isinstance(error, DecodeError):
        error.batches = batches
        error.records = [] if begun is None else BatchRecords(begun)
    raise error


def _record(row: tuple[Any, ...]) -> BatchRecord:
    *fields, control = row
    record = BatchRecord(*fields)
    if control is not None:
        record.control = Control(*control)
    return record


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
    """Encode records of one partition: a batch of format 2, or messages of format 0 or 1, which end up in one if compressed.

    Offsets rise by one from `base_offset` (0) or, with `keep_offsets`, are those of the records, of which the first is the
    base unless another is given. `level` is one of the compression's own; of lz4 all give the same. With
    `log_append_time` (not in format 0) that is when all records were written. Timestamps are written as differences from
    `base_timestamp`, the first record's unless another is given; a batch with a delete horizon has that in its place. The
    last offset and the largest timestamp are those of the records unless compaction took some away.
    """
    records = list_of("records", records)
    for place, record in enumerate(records):
        if not isinstance(record, BatchRecord):
            raise ArgumentError(f"records[{place}] has to be a BatchRecord, not {type(record).__name__}")
    if integer("magic", magic, INT64_MIN) not in (0, 1, 2):
        raise ConfigError(f"there is no magic {magic!r}, only 0, 1 and 2")
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
    given = [name for name, (value, default) in of_magic_2.items() if value != default]
    if magic in (0, 1) and given:
        raise ConfigError(f"{given[0]} needs magic 2")
    if base_timestamp is not None and delete_horizon_ms is not None:
        raise ConfigError("base_timestamp and delete_horizon_ms share a field: give one of them")
    offsets: Iterable[int]
    if boolean("keep_offsets", keep_offsets):
        offsets = [integer(f"records[{place}].offset", r.offset, INT64_MIN) for place, r in enumerate(records)]
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
