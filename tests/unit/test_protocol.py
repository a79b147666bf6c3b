"""Compares `klamm.protocol` with bytes of the Java client in both directions, and checks its errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import golden
from klamm import protocol
from klamm.errors import ArgumentError, ConfigError, DecodeError

MESSAGES = golden.lines("messages.jsonl.gz") + golden.lines("structures.jsonl.gz")


def message(vector):
    """Return the arguments of `decode` and `encode`: name, kind and version."""
    return vector.get("api") or vector["name"], vector["kind"], vector["version"]


@pytest.mark.parametrize("known", [*protocol.apis(), *protocol.structures()], ids=lambda known: known.name)
def test_every_message_reads_and_writes_as_java_does(known):
    vectors = [vector for vector in MESSAGES if message(vector)[0] == known.name]
    assert {vector["version"] for vector in vectors} == set(range(known.min, known.max + 1))
    for vector in vectors:
        body = bytes.fromhex(vector["hex"])
        fields = protocol.decode(*message(vector), body)
        assert golden.to_json(fields) == vector["json"]
        given = golden.from_json(vector["json"], fields)
        assert protocol.encode(*message(vector), given) == body
        if "hex_prefixed" in vector:
            version = vector["version"].to_bytes(2, "big")
            assert (version + protocol.encode(*message(vector), given)).hex() == vector["hex_prefixed"]


def test_nothing_java_wrote_is_unknown():
    known = {(api.name, kind) for api in protocol.apis() for kind in ("request", "response")}
    known |= {(structure.name, structure.kind) for structure in protocol.structures()}
    assert {message(vector)[:2] for vector in MESSAGES} == known


def test_unknown_tagged_fields_are_dropped():
    for vector in golden.lines("unknown_tags.jsonl.gz"):
        body = bytes.fromhex(vector["hex"])
        found = protocol.decode_prefix(*message(vector), body)
        assert golden.to_json(found.fields) == vector["json"]
        assert (found.unknown_tags, found.rest) == (len(vector["unknown_tags"]), b"")
        assert protocol.decode(*message(vector), body) == found.fields
        assert protocol.encode(*message(vector), found.fields).hex() == vector["hex_without"]


def test_prefixes_of_every_message_are_refused():
    # A hundred of each at most; the tests in Rust try all.
    for vector in MESSAGES:
        body = bytes.fromhex(vector["hex"])
        for cut in range(len(body) - 1, -1, -(len(body) // 100 + 1)):
            with pytest.raises(DecodeError):
                protocol.decode(*message(vector), body[:cut])


def test_bytes_after_a_body_are_an_error_unless_the_caller_asks_for_them():
    for vector in MESSAGES:
        body = bytes.fromhex(vector["hex"])
        with pytest.raises(DecodeError, match="2 bytes left over"):
            protocol.decode(*message(vector), body + b"ab")
        found = protocol.decode_prefix(*message(vector), body + b"ab")
        assert (golden.to_json(found.fields), found.unknown_tags, found.rest) == (vector["json"], 0, b"ab")


def test_a_body_is_found_after_the_header_that_java_writes():
    for row in golden.document("apis.json")["apis"]:
        for client in (
            row[release] for release in ("3.9.2", "4.4.0") if row[release] and row[release]["max"] is not None
        ):
            headers = zip(client["request_header"], client["response_header"], strict=True)
            for version, (asked, answered) in enumerate(headers, client["min"]):
                sent = {"requestApiKey": row["key"], "requestApiVersion": version, "correlationId": 7}
                if asked:
                    sent["clientId"] = "app"
                frame = protocol.encode("RequestHeader", "header", asked, sent) + b"body"
                assert protocol.decode_header("request", frame) == (sent, b"body")
                answer = protocol.encode("ResponseHeader", "header", answered, {"correlationId": 7}) + b"body"
                found = protocol.decode_header("response", answer, row["name"], version)
                assert found == ({"correlationId": 7}, b"body")


SMALL_ELEMENTS = """
import sys
from klamm import protocol

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

body = sys.stdin.buffer.read()
before = peak()
found = protocol.decode("ListGroups", "response", 3, body)
print(len(found["groups"]), peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measures memory as Linux shows it")
def test_a_message_of_many_small_elements_takes_the_memory_that_is_documented():
    count = 300_000
    one = protocol.encode("ListGroups", "response", 3, {"groups": [{}]})
    element = protocol.encode("ListGroups", "response", 3, {"groups": [{}, {}]})[len(one) - 1 : -1]
    head = protocol.encode("ListGroups", "response", 3, {})[:-2]
    body = (
        head
        + bytes([(count + 1) & 0x7F | 0x80, (count + 1) >> 7 & 0x7F | 0x80, (count + 1) >> 14])
        + count * element
        + b"\0"
    )
    result = subprocess.run([sys.executable, "-c", SMALL_ELEMENTS], input=body, capture_output=True, check=True)
    groups, taken = map(int, result.stdout.split())
    assert groups == count
    assert taken < 256 * len(body) + (128 << 10), f"{taken / len(body):.0f} times as much"


def test_a_hash_is_javas():
    for vector in golden.lines("murmur2.jsonl"):
        found = protocol.murmur2(bytes.fromhex(vector["key"]))
        assert (found, found & 0x7FFFFFFF) == (vector["murmur2"], vector["positive"])
        assert {n: (found & 0x7FFFFFFF) % int(n) for n in vector["partition"]} == vector["partition"]


def test_a_decode_error_says_where():
    body = protocol.encode("Metadata", "request", 12, {"topics": [{"name": "a"}, {"name": "b"}]})
    at = body.index(b"b")
    with pytest.raises(DecodeError) as caught:
        protocol.decode("Metadata", "request", 12, body[:at] + b"\xff" + body[at + 1 :])
    assert caught.value.path == "topics[1].name"
    assert caught.value.offset == at
    assert "Metadata request v12" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        (("Metdata", "request", 0, {}), ConfigError, 'did you mean "Metadata"'),
        (("Metadata", "answer", 0, {}), ConfigError, "request, response, header or data, not"),
        (("ConsumerProtocolAsignment", "data", 0, {}), ConfigError, 'did you mean "ConsumerProtocolAssignment"'),
        (("EndTxnMarker", "header", 0, {}), ConfigError, 'there is no structure "EndTxnMarker"'),
        (("Metadata", "request", 99, {}), ConfigError, "known are 0 to"),
        (("Metadata", "request", 12, {"topicz": []}), ConfigError, 'did you mean "topics"'),
        (("Metadata", "request", 12, {"topics": 3}), ArgumentError, "topics: wants a list, got an integer"),
        (("Metadata", "request", 12, {"topics": [{"topicId": "short"}]}), ArgumentError, "22 characters"),
        (("Produce", "request", 9, {"timeoutMs": 1 << 40}), ArgumentError, "timeoutMs: wants a 32-bit integer"),
        (("Produce", "request", 9, {"timeoutMs": 1 << 70}), ArgumentError, "64 bits"),
        (
            ("Produce", "request", 9, {"acks": object()}),
            ArgumentError,
            "acks: wants a 16-bit integer, got an object of",
        ),
        (("Metadata", "request", 12, {5: 1}), ConfigError, 'has no field "5"'),
        (
            ("Metadata", "request", 0, {"topics": None}),
            ConfigError,
            "topics: is null, which this version does not allow",
        ),
    ],
)
def test_fields_that_do_not_fit_are_named(arguments, kind, says):
    with pytest.raises(kind, match=re.escape(says)):
        protocol.encode(*arguments)


COMMITTED = "OffsetCommit request v2: topics[1].partitions[0]"


@pytest.mark.parametrize(
    ("partition", "kind", "says"),
    [
        ({"partitionIndex": "x"}, ArgumentError, ".partitionIndex: wants a 32-bit integer, got a string"),
        ({"partitionIndex": 1 << 40}, ArgumentError, ".partitionIndex: wants a 32-bit integer, got 1099511627776"),
        ({"partitionIndex": 1 << 80}, ArgumentError, ".partitionIndex: wants a 32-bit integer, got an integer of more"),
        ({"partitionIndex": {1}}, ArgumentError, ".partitionIndex: wants a 32-bit integer, got an object of type set"),
        ({"committedMetadata": b"x"}, ArgumentError, ".committedMetadata: wants a string, got bytes"),
        ({"committedMetadata": "\udc80"}, ArgumentError, ".committedMetadata: wants a string, got a string with half"),
        (
            {"committedMetadata": "x" * 40_000},
            ConfigError,
            ".committedMetadata: length 40000 exceeds the limit of 32767",
        ),
        ({"partitionIndx": 0}, ConfigError, ': has no field "partitionIndx" in this version, did you mean'),
        (None, ArgumentError, ": wants a struct, got null"),
        ([], ArgumentError, ": wants a struct, got a list"),
    ],
)
def test_what_does_not_fit_deep_in_a_message_is_named_with_the_way_to_it(partition, kind, says):
    topics = [{"name": "a", "partitions": []}, {"name": "b", "partitions": [partition]}]
    with pytest.raises(kind, match=re.escape(COMMITTED + says)):
        protocol.encode("OffsetCommit", "request", 2, {"topics": topics})


@pytest.mark.parametrize(
    ("call", "arguments", "kind", "says"),
    [
        (protocol.encode, (5, "request", 0, {}), ArgumentError, "name has to be a str, not int"),
        (protocol.encode, ("Metadata", 5, 0, {}), ArgumentError, "kind has to be a str, not int"),
        (protocol.encode, ("Metadata", "request", "0", {}), ArgumentError, "version has to be an int, not str"),
        (
            protocol.decode,
            ("Metadata", "request", 1 << 20, b""),
            ConfigError,
            "version cannot be 1048576; hint: allowed",
        ),
        (protocol.decode, ("Metadata", "request", 0, "body"), ArgumentError, "body has to be bytes-like, not str"),
        (protocol.decode_header, (5, b""), ArgumentError, "kind has to be a str, not int"),
        (protocol.decode_header, ("request", 5), ArgumentError, "frame has to be bytes-like, not int"),
        (protocol.decode_header, ("response", b"", 5, 1), ArgumentError, "api has to be a str, not int"),
        (protocol.decode_header, ("response", b"", "Fetch", "1"), ArgumentError, "version has to be an int, not str"),
        (protocol.schema, (None, "request"), ArgumentError, "name has to be a str, not NoneType"),
        (protocol.crc32c, ("123",), ArgumentError, "data has to be bytes-like, not str"),
        (protocol.murmur2, (None,), ArgumentError, "data has to be bytes-like, not NoneType"),
        (protocol.decode_records, ([b""],), ArgumentError, "data has to be bytes-like, not list"),
        (protocol.decode_records, (b"", "no"), ArgumentError, "check_crcs has to be a bool, not str"),
    ],
)
def test_an_argument_that_cannot_be_used_is_named(call, arguments, kind, says):
    with pytest.raises(kind, match=re.escape(says)):
        call(*arguments)


def test_a_list_in_itself_is_refused():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ArgumentError, match=re.escape("topics[0]: wants a struct, got a list")):
        protocol.encode("Metadata", "request", 12, {"topics": endless})


def test_a_schema_is_in_the_form_of_kafkas_own():
    schema = protocol.schema("OffsetFetch", "request")
    fields = {field["name"]: field for field in schema.pop("fields")}
    assert schema == {
        "apiKey": 9,
        "type": "request",
        "name": "OffsetFetch",
        "validVersions": "0-10",
        "flexibleVersions": "6+",
        "latestVersionUnstable": False,
    }
    topics = fields["topics"]
    assert [topics[key] for key in ("type", "versions", "nullableVersions", "default")] == ["[]Topic", "0-7", "2-7", []]
    assert [(field["name"], field["type"]) for field in topics["fields"]] == [
        ("name", "string"),
        ("partitionIndexes", "[]int32"),
    ]
    cluster = protocol.schema("Fetch", "request")["fields"][0]
    assert cluster == {
        "name": "clusterId",
        "type": "string",
        "versions": "12+",
        "nullableVersions": "12+",
        "tag": 0,
        "taggedVersions": "12+",
        "default": None,
    }
    assert protocol.schema("EndTxnMarker", "data")["flexibleVersions"] == "none"
    with pytest.raises(ConfigError, match="OffsetFetch"):
        protocol.schema("OfsetFetch", "request")


def test_a_header_is_decoded_from_a_frame():
    sent = {"requestApiKey": 18, "requestApiVersion": 3, "correlationId": 7, "clientId": "app"}
    frame = protocol.encode("RequestHeader", "header", 2, sent) + b"body"
    assert protocol.decode_header("request", frame) == (sent, b"body")
    # What a response's header is depends on what it answers; ApiVersions never has tagged fields there.
    flexible, plain = b"\0\0\0\7\0body", b"\0\0\0\7body"
    assert protocol.decode_header("response", flexible, "Metadata", 12) == ({"correlationId": 7}, b"body")
    assert protocol.decode_header("response", plain, api="ApiVersions", version=3) == ({"correlationId": 7}, b"body")
    # An unknown API may be from a newer release. Only its header can be read.
    assert protocol.decode_header("request", b"\x7f\0\0\0\0\0\0\7\xff\xffbody")[1] == b"body"


def test_a_header_that_cannot_be_read_says_why():
    with pytest.raises(DecodeError, match="RequestHeader"):
        protocol.decode_header("request", b"\0\3\0\1\0\0")
    with pytest.raises(ConfigError, match="needs its api and version"):
        protocol.decode_header("response", b"\0\0\0\7")
    with pytest.raises(ConfigError, match="request or a response"):
        protocol.decode_header("data", b"")
    with pytest.raises(ConfigError, match="Metadata"):
        protocol.decode_header("response", b"\0\0\0\7", "Metdata", 1)
