"""Types of the requests and responses of Kafka 0.6 and 0.7, for the codec functions of `klamm.legacy`."""

from __future__ import annotations

from typing import Literal, TypedDict


class _Partition(TypedDict):
    topic: str
    partition: int


class Part(_Partition, total=False):
    """The part of a request for one partition.

    `produce` and `multiproduce` requests have `message_set`. In a `produce` or `multiproduce` request, the partition -1
    lets the broker choose a partition. `fetch` and `multifetch` requests have `offset` and `max_size`, both in bytes.
    `offsets` requests have `max_number` and `time`. A `time` of -1 means the latest offset, and -2 the earliest.
    """

    message_set: bytes
    offset: int
    max_size: int
    time: int
    max_number: int


class Request(TypedDict):
    """A request. Only `multifetch` and `multiproduce` requests can have more than one part."""

    type: Literal["produce", "fetch", "multifetch", "multiproduce", "offsets"]
    parts: list[Part]


class FetchResponse(TypedDict):
    """Messages of one partition. The broker cuts messages at the requested size, even in the middle of a message."""

    error: int
    message_set: bytes


class MultiFetchResponse(TypedDict):
    """One `FetchResponse` for each part of the request, in the same order."""

    outer_error: int
    parts: list[FetchResponse]


class OffsetsResponse(TypedDict):
    """The end of a partition's log and the offsets at which its segments begin, newest first."""

    error: int
    offsets: list[int]
