"""Kafka's wire format, by name: for tools, tests, and curiosity.

    body = klamm.protocol.encode("Metadata", "request", 12, {"topics": [{"name": "greetings"}]})
    klamm.protocol.decode("Metadata", "request", 12, body)

A message is a `request` or `response` of an API, a `header`, or `data`: a structure that travels inside others, such as
the subscription of a group's member, of which the version that precedes it is no part. `apis()` and `structures()` list
them, and `schema` says what each is made of, for tools that build on it.

Messages are dicts with the names of Kafka's schemas (`throttleTimeMs`): bytes and records are `bytes`, a uuid is its 22
characters of base64, and fields that a version lacks are absent, as are tagged fields that hold their default. What is
wrong with data is a `DecodeError` that says where: the path of the field and the offset of the byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from klamm import _klamm
from klamm._klamm import ScramClient, crc32c, decode, decode_header, encode, murmur2, schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from klamm._klamm import Buffer

__all__ = [
    "Api",
    "Batch",
    "BatchRecord",
    "ErrorCode",
    "ScramClient",
    "Structure",
    "apis",
    "crc32c",
    "decode",
    "decode_header",
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


@dataclass
class BatchRecord:
    """A record of a batch. Timestamps are milliseconds since 1970, -1 for none."""

    offset: int = 0
    timestamp: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)


@dataclass
class Batch:
    """A record batch: the fields of its header, and its records."""

    magic: int
    size: int
    base_offset: int
    last_offset: int
    crc: int
    attributes: int
    compression: str
    timestamp_type: int
    base_timestamp: int
    max_timestamp: int
    partition_leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    transactional: bool
    control: bool
    delete_horizon_ms: int | None
    records: list[BatchRecord]


def apis() -> list[Api]:
    """List every API there is."""
    return [Api(*fields) for fields in _klamm.apis()]


def structures() -> list[Structure]:
    """List every header and structure there is."""
    return [Structure(*fields) for fields in _klamm.structures()]


def errors() -> list[ErrorCode]:
    """List every error code there is, 0 (NONE) included; each has an exception class in `klamm.errors`."""
    return [ErrorCode(*fields) for fields in _klamm.error_codes()]


def decode_records(data: Buffer, check_crcs: bool = True) -> list[Batch]:
    """Decode the `records` of a fetch or a log segment; a batch that is cut off at the end is left out, as brokers cut."""
    found, _ = _klamm.decode_records(data, check_crcs)
    return [Batch(**{**fields, "records": [BatchRecord(*record) for record in fields["records"]]}) for fields in found]


def encode_batch(
    records: Iterable[BatchRecord],
    *,
    base_offset: int = 0,
    compression: str = "none",
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """Encode a batch of format 2; offsets rise by one from `base_offset`, whatever the records say."""
    return _klamm.encode_batch(
        [(record.timestamp, record.key, record.value, record.headers) for record in records],
        base_offset,
        compression,
        partition_leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        transactional,
    )
