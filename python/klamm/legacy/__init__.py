"""Clients and a codec for brokers of Kafka 0.6 and 0.7.

The clients are `Consumer07`, `Producer07` and `GroupConsumer07`:

    with klamm.legacy.Consumer07("old:9092") as consumer:
        for message in consumer.messages("words", 0, consumer.earliest("words", 0)):
            print(message.offset, message.payload)

The codec functions convert between dicts and bytes, and need no broker:

    frame = klamm.legacy.encode_request(
        {"type": "fetch", "parts": [{"topic": "words", "partition": 0, "offset": 0, "max_size": 1 << 20}]}
    )
    response = klamm.legacy.decode_response("fetch", received_frame)
    for message in klamm.legacy.decode_messages(response["message_set"], offset=0):
        print(message.offset, message.payload)

A frame includes its length prefix. A response does not contain its type. To decode a response, pass the type of its
request: `fetch` returns a `FetchResponse`, `multifetch` a `MultiFetchResponse`, and `offsets` an `OffsetsResponse`.
Brokers never respond to `produce` and `multiproduce`. The error codes are 0 (no error), 1 (offset out of range), 2
(invalid message), 3 (wrong partition), 4 (invalid fetch size), and -1 (any other error).

Offsets count bytes: the `next_offset` of a message is the offset at which the next message begins. Messages that were
compressed together have the same `offset` and `next_offset`, and different values of `index`.

Decoding raises `DecodeError` with the field path and the byte offset. Encoding raises `ConfigError` for an invalid
value and `ArgumentError` for a wrong type. docs/legacy.md describes the wire format of brokers 0.6.1 and 0.7.0 to
0.7.2.
"""

from __future__ import annotations

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
from klamm.legacy.group import GroupConsumer07
from klamm.legacy.messages import FetchResponse, MultiFetchResponse, OffsetsResponse, Part, Request
from klamm.legacy.producer import Producer07
from klamm.legacy.readers import GroupMessage
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
