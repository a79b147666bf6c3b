"""`klamm.protocol` against bytes of the Java client, in both directions, and what it says about bytes that are wrong."""

from __future__ import annotations

import re

import pytest

import golden
from klamm import protocol
from klamm.errors import ArgumentError, ConfigError, DecodeError

MESSAGES = golden.lines("messages.jsonl.gz") + golden.lines("structures.jsonl.gz")


def message(vector):
    """What `decode` and `encode` call it: name, kind and version."""
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


def test_nothing_java_wrote_is_unknown():
    known = {(api.name, kind) for api in protocol.apis() for kind in ("request", "response")}
    known |= {(structure.name, structure.kind) for structure in protocol.structures()}
    assert {message(vector)[:2] for vector in MESSAGES} == known


def test_unknown_tagged_fields_are_dropped():
    for vector in golden.lines("unknown_tags.jsonl.gz"):
        fields = protocol.decode(*message(vector), bytes.fromhex(vector["hex"]))
        assert golden.to_json(fields) == vector["json"]
        assert protocol.encode(*message(vector), fields).hex() == vector["hex_without"]


def test_every_prefix_of_a_message_is_refused():
    for vector in MESSAGES[::40]:
        body = bytes.fromhex(vector["hex"])
        for cut in {0, len(body) // 2, len(body) - 1} - {len(body)}:
            with pytest.raises(DecodeError):
                protocol.decode(*message(vector), body[:cut])


def test_batches_read_as_java_reads_them():
    for vector in golden.lines("records.jsonl.gz"):
        batches = protocol.decode_records(bytes.fromhex(vector["hex"]))
        expected = [batch for batch in vector["expect"]["batches"] if batch["magic"] == 2]
        if len(expected) < len(vector["expect"]["batches"]):
            continue  # older formats
        assert len(batches) == len(expected), vector["id"]
        for batch, wanted in zip(batches, expected, strict=True):
            for name in ("size", "base_offset", "last_offset", "crc", "compression", "producer_id", "base_sequence"):
                assert getattr(batch, name) == wanted[name], (vector["id"], name)
            found = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch.records]
            assert found == [plain(record) for record in wanted["records"]], vector["id"]


def test_batches_of_plain_records_are_written_as_java_writes_them():
    written = 0
    for vector in golden.lines("records.jsonl.gz"):
        batches = vector["expect"]["batches"]
        data = bytes.fromhex(vector["hex"])
        if not vector["exact"] or vector["expect"]["trailing_bytes"] or len(batches) != 1:
            continue
        wanted = batches[0]
        offsets = [record["offset"] for record in wanted["records"]]
        consecutive = offsets == list(range(wanted["base_offset"], wanted["last_offset"] + 1))
        if wanted["magic"] != 2 or wanted["attributes"] & ~16 or wanted["control"] or not offsets or not consecutive:
            continue  # what only a broker writes
        batch = protocol.encode_batch(
            [protocol.BatchRecord(*plain(record)) for record in wanted["records"]],
            base_offset=wanted["base_offset"],
            partition_leader_epoch=wanted["partition_leader_epoch"],
            producer_id=wanted["producer_id"],
            producer_epoch=wanted["producer_epoch"],
            base_sequence=wanted["base_sequence"],
            transactional=wanted["transactional"],
        )
        assert batch.hex() == data.hex(), vector["id"]
        written += 1
    assert written > 10


def plain(record):
    def octets(text):
        return None if text is None else bytes.fromhex(text)

    headers = [(header["key"], octets(header["value"])) for header in record["headers"]]
    return record["offset"], record["timestamp"], octets(record["key"]), octets(record["value"]), headers


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_batch_comes_back_from_every_codec(codec):
    records = [
        protocol.BatchRecord(i, 1000 + i, b"k%d" % i, None if i == 3 else b"v" * i, [("h", None)]) for i in range(9)
    ]
    (batch,) = protocol.decode_records(protocol.encode_batch(records, compression=codec))
    assert batch.records == records
    assert batch.compression == codec


def test_a_damaged_batch_is_refused_unless_checksums_are_not_wanted():
    data = bytearray(protocol.encode_batch([protocol.BatchRecord(value=b"intact")]))
    data[data.index(b"intact")] ^= 1
    with pytest.raises(DecodeError, match="checksum"):
        protocol.decode_records(data)
    assert protocol.decode_records(data, check_crcs=False)[0].records[0].value == b"hntact"


def test_corrupt_batches_are_refused_where_java_refuses_them():
    for vector in golden.lines("records_corrupt.jsonl.gz"):
        if vector["java"]["check_crc"]["ok"] or not vector["id"].startswith("v2-crc"):
            continue
        with pytest.raises(DecodeError):
            protocol.decode_records(bytes.fromhex(vector["hex"]))


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
        (("Metadata", "answer", 0, {}), ConfigError, "request, response, header or data, not"),
        (("ConsumerProtocolAsignment", "data", 0, {}), ConfigError, 'did you mean "ConsumerProtocolAssignment"'),
        (("EndTxnMarker", "header", 0, {}), ConfigError, 'there is no structure "EndTxnMarker"'),
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


def test_bytes_may_be_anything_with_a_buffer():
    records = protocol.encode_batch([protocol.BatchRecord(value=b"v")])
    for form in bytes, bytearray, memoryview:
        assert len(protocol.decode_records(form(records))) == 1
        assert protocol.crc32c(form(b"123456789")) == 0xE3069283


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


def test_a_header_is_taken_off_a_frame():
    sent = {"requestApiKey": 18, "requestApiVersion": 3, "correlationId": 7, "clientId": "app"}
    frame = protocol.encode("RequestHeader", "header", 2, sent) + b"body"
    assert protocol.decode_header("request", frame) == (sent, b"body")
    # What a response's header is depends on what it answers; ApiVersions never has tagged fields there.
    flexible, plain = b"\0\0\0\7\0body", b"\0\0\0\7body"
    assert protocol.decode_header("response", flexible, "Metadata", 12) == ({"correlationId": 7}, b"body")
    assert protocol.decode_header("response", plain, api="ApiVersions", version=3) == ({"correlationId": 7}, b"body")
    # An API nobody knows may be from the future; its header is as far as it can be read.
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
