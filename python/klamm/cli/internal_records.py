"""Decodes the records that brokers keep in `__consumer_offsets`, `__transaction_state` and the metadata log.

The field names come from Kafka's schemas. A record of an unknown type or version is returned as base64, because newer
brokers may write such records.
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Callable
from typing import Any

KINDS = ("offsets", "transactions", "metadata")
Decode = Callable[["bytes | None", "bytes | None"], dict[str, Any]]

TRANSACTION_STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
METADATA_TYPES = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
}
SECRET_TYPES = {10, 11}
"""Types of records whose content is not printed, because it contains secrets."""


class Reader:
    """Reads fields one after the other. If there is too little data, the methods raise `struct.error`."""

    def __init__(self, data: bytes, *, flexible: bool = False) -> None:
        self._data = data
        self._at = 0
        self.flexible = flexible

    def number(self, form: str) -> int:
        """Read a big-endian number. `form` is a format character of the module `struct`."""
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def varint(self) -> int:
        """Read an unsigned varint."""
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - the last byte
                return value
            if shift > 63:  # noqa: PLR2004 - a number has at most 64 bits
                raise struct.error("a number has too many bytes")

    def size(self, form: str) -> int:
        """Read the length of a string or an array, or -1 for null."""
        return self.varint() - 1 if self.flexible else self.number(form)

    def text(self) -> str | None:
        """Read a string, or None for null."""
        size = self.size("h")
        return None if size < 0 else self.raw(size).decode("utf-8", "replace")

    def raw(self, size: int) -> bytes:
        """Read `size` bytes."""
        if size > len(self._data) - self._at:
            raise struct.error("the record is too short")
        self._at += size
        return self._data[self._at - size : self._at]

    def topic_id(self) -> str:
        """Read a topic ID."""
        return base64.urlsafe_b64encode(uuid.UUID(bytes=self.raw(16)).bytes).decode().rstrip("=")


def decoder_of(kind: str) -> Decode:
    """Return the function that decodes the key and value of a record. `kind` is one of `KINDS`."""
    return {"offsets": offsets, "transactions": transactions, "metadata": metadata}[kind]


def decoded(decode: Callable[[], dict[str, Any]], key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Return the result of `decode`. If decoding fails, return the key and the value as base64, with an `error`."""
    try:
        return decode()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        return {"key": as_base64(key), "value": as_base64(value), "error": f"cannot decode the record: {error}"}


def as_base64(data: bytes | None) -> str | None:
    """Return bytes as base64 text, or None for null."""
    return None if data is None else base64.b64encode(data).decode()


def offsets(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Decode a record of `__consumer_offsets`."""

    def decode() -> dict[str, Any]:
        of_key = Reader(key or b"")
        version = of_key.number("h")
        if version <= 1:
            named = {
                "type": "OffsetCommit",
                "group": of_key.text(),
                "topic": of_key.text(),
                "partition": of_key.number("i"),
            }
            return {**named, "value": None if value is None else offset_value(value)}
        if version == 2:  # noqa: PLR2004 - the version is the type
            named = {"type": "GroupMetadata", "group": of_key.text()}
            return {**named, "value": None if value is None else group_value(value)}
        # Groups of the newer protocols (KIP-848, KIP-932, KIP-1071).
        return {"type": f"type {version}", "key": as_base64(key), "value": as_base64(value)}

    return decoded(decode, key, value)


def offset_value(value: bytes) -> dict[str, Any]:
    """Decode the value of a record that contains a committed offset."""
    reader = Reader(value)
    version = reader.number("h")
    reader.flexible = version >= 4  # noqa: PLR2004 - the first flexible version
    found: dict[str, Any] = {"version": version, "offset": reader.number("q")}
    if version >= 3:  # noqa: PLR2004 - KIP-320
        found["leader_epoch"] = reader.number("i")
    found["metadata"] = reader.text()
    found["commit_timestamp_ms"] = reader.number("q")
    if version == 1:
        found["expire_timestamp_ms"] = reader.number("q")
    return found


def group_value(value: bytes) -> dict[str, Any]:
    """Decode the value of a record about a classic group. The result has the number of members, but not the members."""
    reader = Reader(value)
    version = reader.number("h")
    reader.flexible = version >= 4  # noqa: PLR2004 - the first flexible version
    found: dict[str, Any] = {
        "version": version,
        "protocol_type": reader.text(),
        "generation": reader.number("i"),
        "protocol": reader.text(),
        "leader": reader.text(),
    }
    if version >= 2:  # noqa: PLR2004 - since Kafka 2.1
        found["current_state_timestamp_ms"] = reader.number("q")
    return {**found, "members": reader.size("i")}


def transactions(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Decode a record of `__transaction_state`."""

    def decode() -> dict[str, Any]:
        of_key = Reader(key or b"")
        version = of_key.number("h")
        found: dict[str, Any] = {"type": "Transaction", "version": version, "transactional_id": of_key.text()}
        return {**found, "value": None if value is None else transaction_value(value)}

    return decoded(decode, key, value)


def transaction_value(value: bytes) -> dict[str, Any]:
    """Decode the value of a record about a transaction."""
    reader = Reader(value)
    version = reader.number("h")
    reader.flexible = version >= 1
    found: dict[str, Any] = {
        "version": version,
        "producer_id": reader.number("q"),
        "producer_epoch": reader.number("h"),
        "timeout_ms": reader.number("i"),
    }
    state = reader.number("b")
    found["state"] = TRANSACTION_STATES[state] if state < len(TRANSACTION_STATES) else state
    partitions = []
    for _ in range(max(reader.size("i"), 0)):
        topic = reader.text()
        partitions.append({"topic": topic, "partitions": [reader.number("i") for _ in range(max(reader.size("i"), 0))]})
        if reader.flexible:
            skip_tags(reader)
    return {
        **found,
        "partitions": partitions,
        "last_update_ms": reader.number("q"),
        "start_ms": reader.number("q"),
    }


def skip_tags(reader: Reader) -> None:
    """Skip tagged fields."""
    for _ in range(reader.varint()):
        reader.varint()
        reader.raw(reader.varint())


def metadata(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """Decode a record of the metadata log.

    Records about topics, partitions, settings and features are decoded completely or in part. For records that klamm
    cannot decode, the result has the type and the bytes as base64. If a record contains secrets, the result has only
    the type.
    """

    def decode() -> dict[str, Any]:
        reader = Reader(value or b"", flexible=True)
        frame = reader.varint()
        number, version = reader.varint(), reader.varint()
        found: dict[str, Any] = {
            "type": METADATA_TYPES.get(number, f"type {number}"),
            "frame": frame,
            "version": version,
        }
        content = METADATA.get(number)
        if content is not None:
            return {**found, **content(reader)}
        return found if number in SECRET_TYPES else {**found, "value": as_base64(value)}

    return decoded(decode, key, value)


def topic_record(reader: Reader) -> dict[str, Any]:
    """Decode the name and the ID of a topic."""
    return {"name": reader.text(), "topic_id": reader.topic_id()}


def partition_record(reader: Reader) -> dict[str, Any]:
    """Decode the first fields of a partition's record, up to the partition epoch."""
    found: dict[str, Any] = {"partition": reader.number("i"), "topic_id": reader.topic_id()}
    for name in ("replicas", "isr", "removing_replicas", "adding_replicas"):
        found[name] = [reader.number("i") for _ in range(max(reader.size("i"), 0))]
    return {
        **found,
        "leader": reader.number("i"),
        "leader_epoch": reader.number("i"),
        "partition_epoch": reader.number("i"),
    }


def config_record(reader: Reader) -> dict[str, Any]:
    """Decode the resource and the name of a setting, but not the value, which can be a password."""
    return {"resource_type": reader.number("b"), "resource_name": reader.text(), "name": reader.text()}


def feature_record(reader: Reader) -> dict[str, Any]:
    """Decode the name of a feature and its version."""
    return {"name": reader.text(), "level": reader.number("h")}


METADATA: dict[int, Callable[[Reader], dict[str, Any]]] = {
    2: topic_record,
    3: partition_record,
    4: config_record,
    9: lambda reader: {"topic_id": reader.topic_id()},
    12: feature_record,
    20: lambda _: {},
}
