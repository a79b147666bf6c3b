"""Compares record batches of all formats in `klamm.protocol` with bytes of the Java client, in both directions."""

from __future__ import annotations

import copy
import re
import tracemalloc
from pathlib import Path

import pytest

import golden
from klamm import protocol
from klamm.errors import ArgumentError, ConfigError, DecodeError

RECORDS = golden.lines("records.jsonl.gz")
CORRUPT = golden.lines("records_corrupt.jsonl.gz")


def to_json(batch):
    """Return a batch in the form of the vectors. Formats 0 and 1 have fewer fields."""
    names = "magic size base_offset last_offset next_offset crc attributes compression timestamp_type max_timestamp"
    if batch.magic == 2:
        names += " partition_leader_epoch last_offset_delta base_timestamp producer_id producer_epoch base_sequence"
        names += " last_sequence count transactional control delete_horizon_ms"
    fields = {name: getattr(batch, name) for name in names.split()}
    return {**fields, "records": [record_to_json(record, batch) for record in batch.records]}


def record_to_json(record, batch):
    fields = {name: getattr(record, name) for name in ("offset", "timestamp", "timestamp_type")}
    fields |= {name: encoded and encoded.hex() for name, encoded in (("key", record.key), ("value", record.value))}
    fields |= {name: "" for name in ("key", "value") if fields[name] == b""}
    fields["headers"] = [
        {"key": as_in_java(key), "value": value if value is None else value.hex()} for key, value in record.headers
    ]
    if batch.producer_id >= 0:
        fields["sequence"] = record.sequence
    if record.control is not None:
        fields["control"] = {name: v for name, v in record.control._asdict().items() if v is not None}
    return fields


def as_in_java(name):
    """Return the name of a header with replacement characters for bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def from_json(record):
    def encoded(text):
        return None if text is None else bytes.fromhex(text)

    headers = [(header["key"], encoded(header["value"])) for header in record["headers"]]
    return protocol.BatchRecord(
        record["offset"], record["timestamp"], encoded(record["key"]), encoded(record["value"]), headers
    )


def encode(batch):
    """Return the bytes of a batch of the vectors."""
    fields = {"magic": batch["magic"], "compression": batch["compression"]}
    if batch["timestamp_type"] == "LogAppendTime":
        fields["log_append_time"] = batch["max_timestamp"]
    if batch["magic"] == 2:
        names = "partition_leader_epoch producer_id producer_epoch base_sequence transactional control"
        names += " delete_horizon_ms last_offset_delta max_timestamp"
        fields |= {name: batch[name] for name in names.split()}
    records = [from_json(record) for record in batch["records"]]
    return protocol.encode_batch(records, base_offset=batch["base_offset"], keep_offsets=True, **fields)


def test_every_batch_reads_as_java_reads_it():
    for vector in RECORDS:
        data = bytes.fromhex(vector["hex"])
        batches = protocol.decode_records(data)
        assert [to_json(batch) for batch in batches] == vector["expect"]["batches"], vector["id"]
        assert len(data) - sum(batch.size for batch in batches) == vector["expect"]["trailing_bytes"], vector["id"]


def test_every_batch_that_is_not_compressed_is_written_as_java_writes_it():
    for vector in RECORDS:
        if vector["exact"]:
            written = b"".join(encode(batch) for batch in vector["expect"]["batches"])
            cut = len(vector["hex"]) // 2 - vector["expect"]["trailing_bytes"]
            assert written.hex() == vector["hex"][: 2 * cut], vector["id"]


def test_every_batch_comes_back_as_it_was_written():
    for vector in RECORDS:
        for batch in vector["expect"]["batches"]:
            (found,) = protocol.decode_records(encode(batch))
            assert to_json(found)["records"] == batch["records"], vector["id"]


@pytest.mark.parametrize("check", ["check_crc", "skip_crc"])
def test_broken_batches_are_refused_where_java_refuses_them(check):
    for vector in CORRUPT:
        java, data = vector["java"][check], bytes.fromhex(vector["hex"])
        if check == "skip_crc" and re.fullmatch(r"v2-(gzip|snappy|lz4|zstd)-payload-flipped", vector["id"]):
            continue  # what a flipped bit decompresses to depends on the decompressor
        if java["ok"]:
            found = protocol.decode_records(data, check_crcs=check == "check_crc")
            assert [to_json(batch) for batch in found] == java["batches"], vector["id"]
            assert len(data) - sum(batch.size for batch in found) == java["trailing_bytes"], vector["id"]
        else:
            with pytest.raises(DecodeError) as caught:
                protocol.decode_records(data, check_crcs=check == "check_crc")
            good, begun = caught.value.batches, caught.value.records
            assert [to_json(batch) for batch in good] == java["batches"], vector["id"]
            assert len(begun) == java["records_before"], vector["id"]


MAGICS_AND_CODECS = [(magic, codec) for magic in (0, 1, 2) for codec in ("none", "gzip", "snappy", "lz4", "zstd")]


@pytest.mark.parametrize(
    ("magic", "codec"), [pair for pair in MAGICS_AND_CODECS if pair not in [(0, "zstd"), (1, "zstd")]]
)
def test_records_come_back_from_every_codec(magic, codec):
    headers = [("h", None), ("g", b"")] if magic == 2 else []
    kind = "CreateTime" if magic else "NoTimestampType"
    records = [
        protocol.BatchRecord(
            7 + i, 1000 + i if magic else -1, b"k%d" % i, None if i == 3 else b"v" * i, headers, timestamp_type=kind
        )
        for i in range(9)
    ]
    data = protocol.encode_batch(records, magic=magic, compression=codec, base_offset=7)
    found = protocol.decode_records(data)
    assert len(found) == (9 if magic < 2 and codec == "none" else 1)
    assert [record for batch in found for record in batch.records] == records
    assert {batch.compression for batch in found} == {codec}


def test_a_level_has_an_effect():
    records = [protocol.BatchRecord(value=b"%d" % (i * i)) for i in range(2000)]
    fast, small = (protocol.encode_batch(records, compression="zstd", level=level) for level in (-1000, 19))
    assert len(fast) > len(small)
    assert protocol.decode_records(fast)[0].records == protocol.decode_records(small)[0].records


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"compression": "zip"}, 'no compression "zip", only none, gzip'),
        ({"compression": "gzip", "level": 10}, "gzip has levels 1 to 9"),
        ({"level": 1}, "none has no levels"),
        ({"magic": 3}, "magic cannot be 3; hint: allowed: 0, 1 and 2"),
        ({"magic": 1, "compression": "zstd"}, "zstd needs magic 2"),
        ({"magic": 1, "producer_id": 5}, "producer_id needs magic 2"),
        ({"magic": 0, "log_append_time": 5}, "log_append_time needs"),
        ({"base_offset": 9, "keep_offsets": True}, "offset 0 cannot be in a batch with base offset 9"),
    ],
)
def test_what_a_format_lacks_is_refused(fields, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        protocol.encode_batch([protocol.BatchRecord()], **fields)


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (5, "records have to be a list, not int"),
        (protocol.BatchRecord(), "records have to be a list, not BatchRecord"),
        ([protocol.BatchRecord(), b"v"], "records[1] has to be a BatchRecord, not bytes"),
        ([protocol.BatchRecord(value="v")], "records[0].value is a str, but Kafka stores bytes"),
        ([protocol.BatchRecord(), protocol.BatchRecord(key=5)], "records[1].key has to be bytes-like or None, not int"),
        ([protocol.BatchRecord(timestamp=1.5)], "records[0].timestamp has to be an int, not float"),
        ([protocol.BatchRecord(headers=[("h", "v")])], "records[0].headers[0].value is a str"),
        ([protocol.BatchRecord(headers=5)], "records[0].headers have to be pairs of str and bytes, not int"),
        (
            [protocol.BatchRecord(), protocol.BatchRecord(headers=[(b"h", b"v")])],
            "records[1].headers have to be pairs of str and bytes, not tuple",
        ),
    ],
)
def test_records_that_cannot_be_used_are_named(records, says):
    with pytest.raises(ArgumentError, match=re.escape(says)):
        protocol.encode_batch(records)


def test_a_header_whose_name_is_no_text_is_named_with_its_record():
    records = [protocol.BatchRecord(), protocol.BatchRecord(headers=[("h", b""), ("\ud800", b"")])]
    with pytest.raises(
        ConfigError, match=r"^records\[1\]\.headers\[1\]\.name cannot be .*: it is not valid Unicode text"
    ):
        protocol.encode_batch(records)


BITS = {
    "base_offset": 64,
    "level": 32,
    "log_append_time": 64,
    "partition_leader_epoch": 32,
    "producer_id": 64,
    "producer_epoch": 16,
    "base_sequence": 32,
    "base_timestamp": 64,
    "delete_horizon_ms": 64,
    "last_offset_delta": 32,
    "max_timestamp": 64,
}


@pytest.mark.parametrize(("name", "bits"), BITS.items())
def test_numbers_of_a_batch_that_cannot_be_used_are_named(name, bits):
    with pytest.raises(ArgumentError, match=f"{name} has to be an int, not str"):
        protocol.encode_batch([protocol.BatchRecord()], **{name: "5"})
    for beyond in (1 << bits - 1, -(1 << bits - 1) - 1):
        with pytest.raises(ConfigError, match=f"{name} cannot be {beyond}; hint: allowed: a whole number from"):
            protocol.encode_batch([protocol.BatchRecord()], **{name: beyond})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"magic": "2"}, "magic has to be an int, not str"),
        ({"magic": 2.0}, "magic has to be an int, not float"),
        ({"compression": None}, "compression has to be a str, not NoneType"),
        ({"transactional": 1}, "transactional has to be a bool, not int"),
        ({"control": "yes"}, "control has to be a bool, not str"),
        ({"keep_offsets": 1}, "keep_offsets has to be a bool, not int"),
    ],
)
def test_fields_of_a_batch_that_cannot_be_used_are_named(fields, says):
    with pytest.raises(ArgumentError, match=says):
        protocol.encode_batch([protocol.BatchRecord()], **fields)


def test_offsets_and_times_beyond_64_bits_are_refused():
    with pytest.raises(ConfigError, match=r"records\[0\]\.offset cannot be 9223372036854775808"):
        protocol.encode_batch([protocol.BatchRecord(offset=1 << 63)], keep_offsets=True)
    with pytest.raises(ConfigError, match=r"records\[1\]\.offset cannot be 9223372036854775808"):
        protocol.encode_batch([protocol.BatchRecord()] * 2, base_offset=(1 << 63) - 1)
    with pytest.raises(ConfigError, match=r"records\[0\]\.timestamp cannot be 9223372036854775808"):
        protocol.encode_batch([protocol.BatchRecord(timestamp=1 << 63)])


def test_timestamps_are_relative_to_the_given_base():
    records = [protocol.BatchRecord(timestamp=1_000), protocol.BatchRecord(timestamp=2_000)]
    (batch,) = protocol.decode_records(protocol.encode_batch(records, base_timestamp=500))
    assert (batch.base_timestamp, batch.max_timestamp) == (500, 2_000)
    assert [record.timestamp for record in batch.records] == [1_000, 2_000]
    with pytest.raises(ConfigError, match="share a field"):
        protocol.encode_batch(records, base_timestamp=500, delete_horizon_ms=500)
    with pytest.raises(ConfigError, match="base_timestamp needs magic 2"):
        protocol.encode_batch(records, base_timestamp=500, magic=1)


@pytest.mark.parametrize(
    ("magic", "length", "says"),
    [
        (0, 13, "length 13 is less than the minimum, 14"),
        (1, 21, "length 21 is less than the minimum, 22"),
        (2, 48, "length 48 is less than the minimum, 49"),
        (2, -1, "length -1 is less than the minimum, 14"),
        (2, 2**31 - 12, "length 2147483636 exceeds the limit of 2147483635"),
    ],
)
def test_an_impossible_length_of_a_batch_is_an_error(magic, length, says):
    data = bytearray(protocol.encode_batch([protocol.BatchRecord()], magic=magic))
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(DecodeError, match=says) as caught:
        protocol.decode_records(data)
    assert caught.value.offset == 8


def test_headers_need_format_2():
    with pytest.raises(ConfigError, match="headers need magic 2"):
        protocol.encode_batch([protocol.BatchRecord(headers=[("h", b"")])], magic=1)


def test_a_damaged_batch_is_refused_unless_checksums_are_not_wanted():
    for magic in (0, 1, 2):
        data = bytearray(protocol.encode_batch([protocol.BatchRecord(value=b"intact")], magic=magic))
        data[data.index(b"intact")] ^= 1
        with pytest.raises(DecodeError, match="checksum"):
            protocol.decode_records(data)
        assert protocol.decode_records(data, check_crcs=False)[0].records[0].value == b"hntact"


def test_an_error_names_the_batch_and_the_record():
    good = protocol.encode_batch([protocol.BatchRecord(value=b"good"), protocol.BatchRecord(value=b"cut")])
    bad = bytearray(good)
    bad[bad.index(b"cut") - 1] = 0x7E
    with pytest.raises(DecodeError) as caught:
        protocol.decode_records(good + bad, check_crcs=False)
    assert caught.value.path == "[1].records[1]"
    assert caught.value.offset == good.index(b"cut") - 1


def test_bytes_may_be_anything_with_a_buffer():
    records = protocol.encode_batch([protocol.BatchRecord(value=b"v")])
    for form in bytes, bytearray, memoryview:
        assert len(protocol.decode_records(form(records))) == 1
        assert protocol.crc32c(form(b"123456789")) == 0xE3069283


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_records_become_objects_when_they_are_accessed(codec):
    packed = protocol.encode_batch([protocol.BatchRecord()] * 200_000, compression=codec)
    tracemalloc.start()
    try:
        (batch,) = protocol.decode_records(packed)
        assert (batch.count, len(batch.records), batch.records[-1].offset) == (200_000, 200_000, 199_999)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_one_batch_at_a_time_is_held_decompressed():
    packed = protocol.encode_batch([protocol.BatchRecord(value=bytes(32 << 20))], compression="zstd")
    before = resident()
    batches = protocol.decode_records(packed * 8)
    assert [len(record.value) for batch in batches for record in batch.records] == [32 << 20] * 8
    assert resident() - before < 96 << 20


def resident():
    """Return the resident memory of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10


def test_records_of_a_batch_are_a_sequence_equal_to_a_list():
    made = [protocol.BatchRecord(7 + i, i, b"k", b"%d" % i, [("h", None)]) for i in range(100)]
    first, second = protocol.decode_records(protocol.encode_batch(made, base_offset=7, compression="gzip") * 2)
    records = first.records
    assert records == made
    assert made == records
    assert records == second.records
    assert first == second
    assert records != made[1:]
    assert (len(records), bool(records), bool(records[:0])) == (100, True, False)
    assert [records[i] for i in (0, 31, 32, 99, -1, -100)] == [made[i] for i in (0, 31, 32, 99, -1, -100)]
    for cut in (slice(3, 70), slice(None, None, -7), slice(90, 200), slice(5, 5), slice(-3, None)):
        assert records[cut] == made[cut]
    assert records[10:50][5:7][1] == made[16]
    assert list(reversed(records)) == made[::-1]
    assert list(zip(records, second.records, strict=True)) == list(zip(made, made, strict=True))
    assert made[40] in records
    assert (records.index(made[40]), records.count(made[40])) == (40, 1)
    for wrong in (100, -101, 1 << 70):
        with pytest.raises(IndexError, match=f"no record {wrong}; the batch has 100 records"):
            records[wrong]
    copied = copy.deepcopy(first)
    assert copied == first
    copied.records[0].value = b"changed"
    assert (copied.records[0].value, records[0].value) == (b"changed", b"0")


def test_records_of_a_batch_show_the_first_of_them():
    made = [protocol.BatchRecord(offset=i) for i in range(5)]
    (batch,) = protocol.decode_records(protocol.encode_batch(made))
    assert repr(batch.records) == f"[{', '.join(map(repr, made[:4]))}, ... (5 records)]"
    assert repr(batch.records[:2]) == repr(made[:2])
