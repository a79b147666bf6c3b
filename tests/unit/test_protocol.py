"""`klamm.protocol` against bytes of the Java client, in both directions, and what it says about bytes that are wrong."""

from __future__ import annotations

import re

import pytest

import golden
from klamm import protocol
from klamm.errors import ArgumentError, ConfigError, DecodeError

MESSAGES = golden.lines("messages.jsonl.gz")


@pytest.mark.parametrize("api", protocol.apis(), ids=lambda api: api.name)
def test_every_message_reads_and_writes_as_java_does(api):
    vectors = [vector for vector in MESSAGES if vector["api"] == api.name]
    assert {vector["version"] for vector in vectors} == set(range(api.min, api.max + 1))
    for vector in vectors:
        body = bytes.fromhex(vector["hex"])
        fields = protocol.decode(api.name, vector["kind"], vector["version"], body)
        assert golden.to_json(fields) == vector["json"]
        given = golden.from_json(vector["json"], fields)
        assert protocol.encode(api.name, vector["kind"], vector["version"], given) == body


def test_unknown_tagged_fields_are_dropped():
    for vector in golden.lines("unknown_tags.jsonl.gz"):
        if "api" not in vector:
            continue
        name = (vector["api"], vector["kind"], vector["version"])
        fields = protocol.decode(*name, bytes.fromhex(vector["hex"]))
        assert golden.to_json(fields) == vector["json"]
        assert protocol.encode(*name, fields).hex() == vector["hex_without"]


def test_every_prefix_of_a_message_is_refused():
    for vector in MESSAGES[::40]:
        body = bytes.fromhex(vector["hex"])
        for cut in {0, len(body) // 2, len(body) - 1} - {len(body)}:
            with pytest.raises(DecodeError):
                protocol.decode(vector["api"], vector["kind"], vector["version"], body[:cut])


def test_a_hash_is_javas():
    for vector in golden.lines("murmur2.jsonl"):
        assert protocol.murmur2(bytes.fromhex(vector["key"])) == vector["murmur2"]


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
        (("Metadata", "answer", 0, {}), ConfigError, "request or a response"),
        (("Metadata", "request", 99, {}), ConfigError, "known are 0 to"),
        (("Metadata", "request", 12, {"topicz": []}), ConfigError, 'did you mean "topics"'),
        (("Metadata", "request", 12, {"topics": 3}), ArgumentError, "topics: wants a list, got an integer"),
        (("Metadata", "request", 12, {"topics": [{"topicId": "short"}]}), ArgumentError, "22 characters"),
        (("Produce", "request", 9, {"timeoutMs": 1 << 40}), ArgumentError, "timeoutMs: wants a 32-bit integer"),
        (("Produce", "request", 9, {"timeoutMs": 1 << 70}), ArgumentError, "64 bits"),
        (("Produce", "request", 9, {"acks": object()}), ArgumentError, "object"),
    ],
)
def test_fields_that_do_not_fit_are_named(arguments, kind, says):
    with pytest.raises(kind, match=re.escape(says)):
        protocol.encode(*arguments)


def test_a_list_in_itself_is_refused():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ArgumentError, match="deeper"):
        protocol.encode("Metadata", "request", 12, {"topics": endless})
