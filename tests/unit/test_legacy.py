"""The codec of `klamm.legacy` against traffic that was captured from brokers of Kafka 0.6 and 0.7, in both directions."""

from __future__ import annotations

import gzip
import pickle
import struct
import zlib

import pytest

import golden
import klamm
from klamm import legacy
from klamm.errors import ArgumentError, ConfigError, DecodeError

CAPTURES = golden.lines("legacy.jsonl.gz")

REFUSED_REQUESTS = {
    "frame.type5": ("type", 4),
    "frame.type_neg": ("type", 4),
    "frame.size_huge": ("length", 0),
}
"""Frames that no broker takes: the field that is wrong, and its place."""

REFUSED_RESPONSES = {"fetch.size_minus1": 5, "fetch.size_minus2": 4}
"""Answers to a negative max_size, whose length is less than what follows it: no fields have that form."""

ANSWER_TO_A_LATER_FETCH = "byte_by_byte"
"""A produce request whose entry has the answer to a fetch that came later."""


def type_of(capture):
    if capture["name"] == ANSWER_TO_A_LATER_FETCH:
        return "fetch"
    return legacy.decode_request(bytes.fromhex(capture["request_hex"]))["type"]


def shortened(payload):
    """Return a payload in the captures' notation."""
    return payload.decode() if len(payload) <= 80 else f"({len(payload)} bytes) {payload[:16].decode()}"


def described(data, offset):
    """Return every message in the captures' notation, with its index among those of the same offset."""
    numbers = {"none": 0, "gzip": 1, "snappy": 2}
    return [
        (m.offset, m.next_offset, m.magic, numbers[m.compression], shortened(m.payload), m.index, m.count)
        for m in legacy.decode_messages(data, offset)
    ]


def leaves(message):
    """Return the messages inside a captured one; None for each that the capture omits."""
    if "..." in message:
        return [None] * message["..."]
    return [leaf for inner in message["inner"] for leaf in leaves(inner)] if "inner" in message else [message]


def expected(messages):
    found = []
    for outer in messages:
        inner = leaves(outer)
        span = outer["start"], outer["next"]
        found += [
            leaf and (*span, leaf["magic"], outer["codec"], leaf["payload"], index, len(inner))
            for index, leaf in enumerate(inner)
        ]
    return found


def check_messages(data, offset, fields):
    wanted = expected(fields["messages"])
    found = described(data, offset)
    assert len(found) == len(wanted)
    assert [message if want else None for message, want in zip(found, wanted, strict=True)] == wanted
    end = fields["messages"][-1]["next"] if fields["messages"] else offset
    assert len(data) - (end - offset) == fields.get("tail", fields.get("trailing_partial_bytes"))


def check_fetched(part, offset, fields):
    assert part["error"] == fields["error"]
    assert len(part["message_set"]) == fields.get("set_bytes", len(part["message_set"]))
    check_messages(part["message_set"], offset, fields)


def test_all_captures_are_there():
    assert len(CAPTURES) == 413


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda capture: f"{capture['broker']}-{capture['name']}")
def test_a_captured_exchange_is_read_and_written_as_it_was(capture):
    frame, response = bytes.fromhex(capture["request_hex"]), bytes.fromhex(capture["response_hex"])
    if capture["name"] in REFUSED_REQUESTS:
        with pytest.raises(DecodeError) as caught:
            legacy.decode_request(frame)
        assert (caught.value.path, caught.value.offset) == REFUSED_REQUESTS[capture["name"]]
        assert not response
        return
    request = legacy.decode_request(frame)
    assert legacy.encode_request(request) == frame
    decoded = capture["decoded"]
    if "request" in decoded:
        check_request(request, decoded["request"])
    if response:
        check_response(capture, request, response, decoded.get("response", decoded))


def check_request(request, fields):
    assert request["type"] == fields["type"]
    if "produce" not in request["type"]:
        assert request == fields
        return
    for part, wanted in zip(request["parts"], fields["parts"], strict=True):
        assert (part["topic"], part["partition"]) == (wanted["topic"], wanted["partition"])
        assert len(part["message_set"]) == wanted["messages_length"]
        check_messages(part["message_set"], 0, wanted)


def check_response(capture, request, frame, fields):
    kind = type_of(capture)
    if capture["name"] in REFUSED_RESPONSES:
        with pytest.raises(DecodeError, match="bytes left over") as caught:
            legacy.decode_response(kind, frame)
        assert caught.value.offset == REFUSED_RESPONSES[capture["name"]]
        return
    response = legacy.decode_response(kind, frame)
    assert legacy.encode_response(kind, response) == frame
    offsets = [part.get("offset", 0) for part in request["parts"]]
    if kind == "fetch":
        check_fetched(response, offsets[0], fields)
    elif kind == "multifetch":
        assert response["outer_error"] == fields["outer_error"]
        for part, offset, wanted in zip(response["parts"], offsets, fields["parts"], strict=True):
            check_fetched(part, offset, wanted)
    else:
        assert response == {"error": fields["error"], "offsets": fields["offsets"]}


def message(payload, magic=1, attributes=0, crc=None):
    body = struct.pack(">B", magic) + (struct.pack(">B", attributes) if magic else b"")
    body += struct.pack(">I", zlib.crc32(payload) if crc is None else crc) + payload
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_are_written_as_brokers_know_them(magic):
    assert legacy.encode_messages([b"one", b""], magic=magic) == message(b"one", magic) + message(b"", magic)


def test_compressed_messages_are_in_one_wrapper_of_messages_of_magic_1():
    data = legacy.encode_messages([b"one", b"two"], compression="gzip")
    assert struct.unpack_from(">iBB", data) == (len(data) - 4, 1, 1)
    assert gzip.decompress(data[10:]) == legacy.encode_messages([b"one", b"two"])
    assert legacy.encode_messages([], compression="gzip") == b""


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_messages_come_back_with_their_offsets(compression):
    first = legacy.encode_messages([b"a", b"bb", b"ccc"], compression=compression)
    data = first + legacy.encode_messages([b"end"], magic=0)
    found = legacy.decode_messages(data, offset=7_000_000_000)
    assert [m.payload for m in found] == [b"a", b"bb", b"ccc", b"end"]
    assert [m.magic for m in found] == [1, 1, 1, 0]
    assert [m.compression for m in found] == [compression] * 3 + ["none"]
    if compression == "none":
        assert [m.next_offset - m.offset for m in found] == [11, 12, 13, 12]
        assert {(m.index, m.count) for m in found} == {(0, 1)}
    else:
        assert [(m.index, m.count) for m in found] == [(0, 3), (1, 3), (2, 3), (0, 1)]
        assert {(m.offset, m.next_offset) for m in found[:3]} == {(7_000_000_000, 7_000_000_000 + len(first))}
    assert found[-1].next_offset == 7_000_000_000 + len(data)
    assert legacy.encode_messages(found) == legacy.encode_messages([m.payload for m in found])


def test_a_message_that_is_cut_off_is_left_out():
    data = legacy.encode_messages([b"one", b"two"])
    for cut in range(len(data)):
        assert [m.payload for m in legacy.decode_messages(data[:cut])] == [b"one"][: cut // 13]


@pytest.mark.parametrize(
    ("data", "path", "offset", "says"),
    [
        (message(b"x", crc=1), "[0].checksum", 6, "does not match"),
        (message(b"") + message(b"x", magic=0, crc=1), "[1].checksum", 15, "does not match"),
        (message(gzip.compress(message(b"x", crc=1)), attributes=1), "[0].messages[0].checksum", 6, "does not match"),
        (message(b"x", attributes=3), "[0].attributes", 5, "codec 3"),
        (message(b"x", magic=2), "[0].magic", 4, "neither 0 nor 1"),
        (message(b"no gzip", attributes=1), "[0].payload", 10, "gzip"),
        (message(b"no snappy", attributes=2), "[0].payload", 10, "snappy"),
        (b"\xff\xff\xff\xff", "[0].length", 0, "length -1 is negative"),
        (b"\0\0\0\0", "[0].length", 0, "less than"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # gzip's bytes have the time
)
def test_damage_is_a_decode_error_that_says_where(data, path, offset, says):
    with pytest.raises(DecodeError, match=says) as caught:
        legacy.decode_messages(data)
    assert (caught.value.path, caught.value.offset) == (path, offset)


def test_wrappers_in_wrappers_end_at_a_depth():
    data = message(b"deep")
    for _ in range(8):
        data = message(gzip.compress(data), attributes=1)
    assert [(m.payload, m.next_offset, m.count) for m in legacy.decode_messages(data)] == [(b"deep", len(data), 1)]
    with pytest.raises(DecodeError, match="more than 8 wrappers"):
        legacy.decode_messages(message(gzip.compress(data), attributes=1))


def test_a_bomb_of_messages_without_payload_is_refused():
    bomb = message(gzip.compress(message(b"", magic=0) * 2_000_000, 9), attributes=1)
    assert len(bomb) < 100_000
    with pytest.raises(DecodeError, match="would take more than 268435456 bytes"):
        legacy.decode_messages(bomb)


def test_every_strict_prefix_of_a_frame_is_refused():
    span = {"topic": "t", "partition": -1}
    requests = [
        {"type": "produce", "parts": [{**span, "message_set": b"abc"}]},
        {"type": "multiproduce", "parts": [{**span, "message_set": b"abc"}] * 2},
        {"type": "multifetch", "parts": [{**span, "offset": 5, "max_size": 6}] * 2},
        {"type": "offsets", "parts": [{**span, "time": -1, "max_number": 3}]},
    ]
    for request in requests:
        frame = legacy.encode_request(request)
        assert legacy.decode_request(frame) == request
        for cut in range(len(frame)):
            with pytest.raises(DecodeError):
                legacy.decode_request(frame[:cut])
        with pytest.raises(DecodeError):
            legacy.decode_request(frame + b"\0")


@pytest.mark.parametrize("error", [-1, 0, 1, 2, 3, 4])
def test_every_error_comes_back(error):
    fetched = {"error": error, "message_set": b""}
    offsets = {"error": error, "offsets": [5, 0]}
    multi = {"outer_error": error, "parts": [fetched, {"error": 0, "message_set": b"abc"}]}
    for kind, response in (("fetch", fetched), ("offsets", offsets), ("multifetch", multi)):
        assert legacy.decode_response(kind, legacy.encode_response(kind, response)) == response


TP = {"topic": "t", "partition": 0}
FETCH = {**TP, "offset": 0, "max_size": 1}


@pytest.mark.parametrize(
    ("request_", "error", "says"),
    [
        ({"type": "metadata", "parts": []}, ConfigError, 'there is no request "metadata", only produce, fetch'),
        ({"parts": []}, ConfigError, "type is missing"),
        ({"type": "fetch"}, ConfigError, "parts is missing"),
        ({"type": "fetch", "parts": []}, ConfigError, "a fetch request has one part, not 0"),
        ({"type": "fetch", "parts": [FETCH, FETCH]}, ConfigError, "a fetch request has one part, not 2"),
        ({"type": "multifetch", "parts": [FETCH, TP]}, ConfigError, r"parts\[1\]\.offset is missing"),
        (
            {"type": "fetch", "parts": [{**FETCH, "topic": "t" * 32_768}]},
            ConfigError,
            "topic: length 32768 exceeds the limit of 32767",
        ),
        (
            {"type": "fetch", "parts": [{**FETCH, "offset": "5"}]},
            ArgumentError,
            r"parts\[0\]\.offset has to be an int of 64 bits, not '5'",
        ),
        (
            {"type": "fetch", "parts": [{**FETCH, "partition": 1 << 31}]},
            ArgumentError,
            "partition has to be an int of 32 bits, not 2147483648",
        ),
        (
            {"type": "produce", "parts": [{**TP, "message_set": "text"}]},
            ArgumentError,
            r"parts\[0\]\.message_set has to be bytes-like, not str",
        ),
        ({"type": 5, "parts": []}, ArgumentError, "type has to be a str, not 5"),
        ({"type": "fetch", "parts": 5}, ArgumentError, "parts has to be a list of dicts, not int"),
        ({"type": "fetch", "parts": [5]}, ArgumentError, r"parts\[0\]\.topic has to be a field of a dict"),
    ],
)
def test_a_request_that_cannot_be_written_says_why(request_, error, says):
    with pytest.raises(error, match=says):
        legacy.encode_request(request_)


@pytest.mark.parametrize("kind", ["produce", "multiproduce"])
def test_requests_without_a_response_have_no_codec_for_one(kind):
    with pytest.raises(ConfigError, match="has no response"):
        legacy.decode_response(kind, b"\0\0\0\2\0\0")
    with pytest.raises(ConfigError, match="has no response"):
        legacy.encode_response(kind, {"error": 0, "message_set": b""})


@pytest.mark.parametrize(
    ("messages", "how", "error", "says"),
    [
        ([b"x"], {"magic": 2}, ConfigError, "no magic 2"),
        ([b"x"], {"compression": "lz4"}, ConfigError, 'no compression "lz4" here, only none, gzip, snappy'),
        ([b"x"], {"magic": 0, "compression": "gzip"}, ConfigError, "messages of magic 0 cannot be compressed"),
        (["x"], {}, ArgumentError, "payload is a str"),
        ([None], {}, ArgumentError, "payload has to be bytes-like, not None"),
        (5, {}, ArgumentError, "messages has to be a list of payloads or messages, not int"),
        ([b"x"], {"magic": "1"}, ArgumentError, "magic has to be an int, not str"),
        ([b"x"], {"magic": 1 << 20}, ConfigError, "no magic 1048576"),
        ([b"x"], {"compression": None}, ArgumentError, "compression has to be a str, not NoneType"),
    ],
)
def test_messages_that_cannot_be_written_say_why(messages, how, error, says):
    with pytest.raises(error, match=says):
        legacy.encode_messages(messages, **how)


@pytest.mark.parametrize(
    ("read", "arguments", "says"),
    [
        (legacy.decode_request, ("frame",), "frame has to be bytes-like, not str"),
        (legacy.decode_response, (5, b""), "type has to be a str, not int"),
        (legacy.decode_response, ("fetch", [1]), "frame has to be bytes-like, not list"),
        (legacy.encode_response, ("fetch", {"error": "0"}), "error has to be an int of 16 bits, not '0'"),
        (legacy.encode_response, ("offsets", {"error": 0, "offsets": [""]}), "offsets has to be a list of ints"),
        (legacy.decode_messages, (None,), "data has to be bytes-like, not NoneType"),
        (legacy.decode_messages, (b"", "0"), "offset has to be an int, not str"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(read, arguments, says):
    with pytest.raises(ArgumentError, match=says):
        read(*arguments)


def test_a_message_is_plain_data():
    one, other = (legacy.Message07(b"x", 1, "gzip", 5, 50, 1, 2) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != legacy.Message07(b"y", 1, "gzip", 5, 50, 1, 2)
    assert one != b"x"
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301
    assert repr(one) == (
        "Message07(payload=b'x', magic=1, compression='gzip', offset=5, next_offset=50, index=1, count=2)"
    )


def test_the_module_is_there_without_an_import():
    assert klamm.legacy is legacy
