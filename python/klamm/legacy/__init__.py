"""What Kafka 0.6 and 0.7 speak: a codec and clients for brokers whose archives are still there.

    with klamm.legacy.Consumer07("old:9092") as consumer:
        for message in consumer.messages("words", 0, consumer.earliest("words", 0)):
            print(message.offset, message.payload)

`Consumer07`, `Producer07` and `GroupConsumer07` are the clients; below them is the codec:

    frame = klamm.legacy.encode_request(
        {"type": "fetch", "parts": [{"topic": "words", "partition": 0, "offset": 0, "max_size": 1 << 20}]}
    )
    answer = klamm.legacy.decode_response("fetch", frame_that_came_back)
    for message in klamm.legacy.decode_messages(answer["message_set"], offset=0):
        print(message.offset, message.payload)

Frames are whole: they begin with their length. A request is a `Request`, a dict with its type and its parts, of which a
single request has one. A response does not say what it answers, so that the type of the request is needed to read it: to
`fetch` it is a `FetchResponse`, to `multifetch` a `MultiFetchResponse`, to `offsets` an `OffsetsResponse`; `produce` and
`multiproduce` are never answered. An error is a number: 0 none, 1 offset out of range, 2 invalid message, 3 wrong partition,
4 invalid fetch size, -1 anything else.

Offsets are bytes: the next message begins where this one ends. Messages that came compressed have no offset of their own:
all that were in one share its `offset` and `next_offset`, and `index` counts them.

Bytes that are wrong are a `DecodeError` with the path of the field and the offset of the byte; fields that cannot be written
are a `ConfigError`, or an `ArgumentError` if their type is wrong. The wire is that of brokers 0.6.1 and 0.7.0 to 0.7.2,
of which captures are in the tests; `docs/legacy.md` draws it.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from klamm._klamm import (
    Message07,
    decode_messages,
    decode_request,
    decode_response,
    encode_messages,
    encode_request,
    encode_response,
)
from klamm.legacy.consumer import Consumer07, Fetched
from klamm.legacy.group import GroupConsumer07, GroupMessage
from klamm.legacy.producer import Producer07
from klamm.legacy.zookeeper import ZooKeeperOffsets

__all__ = [
    "Consumer07",
    "FetchResponse",
    "Fetched",
    "GroupConsumer07",
    "GroupMessage",
    "Message07",
    "MultiFetchResponse",
    "OffsetsResponse",
    "Part",
    "Producer07",
    "Request",
    "ZooKeeperOffsets",
    "decode_messages",
    "decode_request",
    "decode_response",
    "encode_messages",
    "encode_request",
    "encode_response",
]


class _Place(TypedDict):
    topic: str
    partition: int


class Part(_Place, total=False):
    """What is asked of a partition.

    `message_set` in a produce or multiproduce request, `offset` and `max_size` in a fetch or multifetch request, `time` (-1
    latest, -2 earliest) and `max_number` in an offsets request. Partition -1 lets the broker choose, in a produce request.
    """

    message_set: bytes
    offset: int
    max_size: int
    time: int
    max_number: int


class Request(TypedDict):
    """A request; all but multifetch and multiproduce have one part."""

    type: Literal["produce", "fetch", "multifetch", "multiproduce", "offsets"]
    parts: list[Part]


class FetchResponse(TypedDict):
    """Bytes of a partition, cut at the size that was asked for."""

    error: int
    message_set: bytes


class MultiFetchResponse(TypedDict):
    """Bytes of several partitions, in the order of the request."""

    outer_error: int
    parts: list[FetchResponse]


class OffsetsResponse(TypedDict):
    """Where segments of a partition begin, and its end, newest first."""

    error: int
    offsets: list[int]
