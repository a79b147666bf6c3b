"""`klamm decode`: its input forms, its output, and its errors for invalid bytes."""

from __future__ import annotations

import base64
import io
import json

import pytest

from cli_process import klamm, started
from klamm import protocol
from klamm.cli.decode import Decoder, json_parts


def request(api="Metadata", version=12, correlation_id=5, fields=None):
    """Encode a request with its header, with `klamm.protocol`."""
    row = next(row for row in protocol.apis() if row.name == api)
    flexible = row.flexible is not None and version >= row.flexible
    header = {
        "requestApiKey": row.key,
        "requestApiVersion": version,
        "correlationId": correlation_id,
        "clientId": "app",
    }
    head = protocol.encode("RequestHeader", "header", 2 if flexible else 1, header)
    return head + protocol.encode(api, "request", version, fields or {})


def response(api="Metadata", version=12, correlation_id=5, fields=None):
    head = protocol.encode("ResponseHeader", "header", 1, {"correlationId": correlation_id})
    return head + protocol.encode(api, "response", version, fields or {})


def framed(*frames):
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def decode(*arguments, stdin=b"", code=0):
    """Run the command and return the objects that it printed."""
    result = klamm("decode", *arguments, stdin=stdin)
    assert result.returncode == code, result.stderr.decode()
    return [json.loads(line) for line in result.stdout.splitlines()]


BATCH = protocol.encode_batch([protocol.BatchRecord(timestamp=1, key=b"k", value=b"\xff", headers=[("h", b"v")])])
CORRUPT = BATCH[:30] + b"\1" + BATCH[31:]


def test_both_directions_of_a_connection():
    asked = request(fields={"topics": [{"name": "t"}]})
    fetched = request("Fetch", 4, 3, {"topics": [{"topic": "t", "partitions": [{"partition": 0}]}]})
    first, second, third = decode(stdin=framed(asked, fetched, response(fields={"clusterId": "c"})))
    assert (first["at"], first["size"], first["api"], first["kind"]) == (0, len(asked), "Metadata", "request")
    assert first["header"] == {
        "requestApiKey": 3,
        "requestApiVersion": 12,
        "correlationId": 5,
        "clientId": "app",
    }
    assert first["body"]["topics"][0]["name"] == "t"
    assert (second["at"], second["api"], second["version"]) == (len(asked) + 4, "Fetch", 4)
    assert (third["api"], third["kind"], third["version"], third["body"]["clusterId"]) == (
        "Metadata",
        "response",
        12,
        "c",
    )


def test_a_request_that_looks_like_a_response():
    # Produce v3 begins with the bytes of correlation id 3, for which a request is waiting.
    waiting = request("Metadata", 12, 3)
    produce = request("Produce", 3, 4, {"acks": 1})
    kinds = [
        (found["api"], found["kind"]) for found in decode(stdin=framed(waiting, produce, response(correlation_id=3)))
    ]
    assert kinds == [("Metadata", "request"), ("Produce", "request"), ("Metadata", "response")]


def test_a_broker_that_does_not_know_the_version_of_api_versions_answers_in_version_0():
    refused = protocol.encode("ApiVersions", "response", 0, {"errorCode": 35})
    answer = protocol.encode("ResponseHeader", "header", 0, {"correlationId": 5}) + refused
    asked, answered = decode(stdin=framed(request("ApiVersions", 3, fields={"clientSoftwareName": "app"}), answer))
    assert (asked["version"], answered["version"]) == (3, 0)
    assert answered["body"] == {"errorCode": 35, "apiKeys": []}
    (decoded,) = decode("--as", "response", "--api", "ApiVersions", "--version", "3", answer.hex())
    assert decoded["body"] == answered["body"]


def test_an_unknown_version_affects_only_its_own_frame():
    # As a client that is newer than both klamm and the broker begins.
    newest = max(row.max for row in protocol.apis() if row.name == "ApiVersions")
    asked = bytearray(request("ApiVersions", 3, fields={"clientSoftwareName": "app"}))
    asked[2:4] = (newest + 1).to_bytes(2, "big")
    refused = protocol.encode("ApiVersions", "response", 0, {"errorCode": 35})
    answer = protocol.encode("ResponseHeader", "header", 0, {"correlationId": 5}) + refused
    stream = framed(request(correlation_id=6), bytes(asked), answer, response(correlation_id=6))
    first, unknown, answered, last = decode(stdin=stream, code=1)
    assert (first["api"], last["api"], last["kind"]) == ("Metadata", "Metadata", "response")
    assert f"ApiVersions request v{newest + 1}" in unknown["error"]
    assert (answered["version"], answered["body"]) == (0, {"errorCode": 35, "apiKeys": []})
    # One that knows the version answers in it, which is an answer all the same.
    known = protocol.encode("ResponseHeader", "header", 0, {"correlationId": 5}) + bytes(7)
    _, decoded, repeated = decode(stdin=framed(bytes(asked), known, request()), code=1)
    assert f"ApiVersions response v{newest + 1}" in decoded["error"]
    assert repeated["api"] == "Metadata"


def test_connections_of_a_capture_may_share_correlation_ids():
    refused = protocol.encode("ApiVersions", "response", 0, {"errorCode": 0})
    answer = protocol.encode("ResponseHeader", "header", 0, {"correlationId": 5}) + refused
    stream = framed(request("Metadata", 1), request("ApiVersions", 0), answer)
    assert [(found["api"], found["kind"]) for found in decode(stdin=stream)] == [
        ("Metadata", "request"),
        ("ApiVersions", "request"),
        ("ApiVersions", "response"),
    ]


def test_json_is_utf_8_whatever_the_terminal_is(monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    (found,) = decode(stdin=framed(request(fields={"topics": [{"name": "\u00e9"}]})))
    assert found["body"]["topics"][0]["name"] == "\u00e9"


def test_text_that_is_neither_hex_nor_base64_is_detected_in_linear_time():
    # A pattern that tries every way to divide the blanks never ends here.
    (found,) = decode(stdin=b" " * 60_000 + b"!", code=1)
    assert "into a frame" in found["error"]


def test_frames_are_found_however_they_arrive():
    stream = framed(request(), request("Fetch", 4, 6), response())
    whole = list(Decoder("frames", None, expand=True).objects(io.BytesIO(stream), "raw"))
    for size in (1, 3, 50):
        chunks = (stream[at : at + size] for at in range(0, len(stream), size))
        assert list(Decoder("frames", None, expand=True).frames(chunks)) == whole


def test_floats_that_json_lacks_are_text():
    for value, shown in ((float("nan"), "NaN"), (float("-inf"), "-Infinity"), (float("inf"), "Infinity"), (1.5, 1.5)):
        entry = {"entity": [], "values": [{"key": "producer_byte_rate", "value": value}]}
        body = protocol.encode("DescribeClientQuotas", "response", 0, {"entries": [entry]})
        decoded = ("--as", "response-body", "--api", "DescribeClientQuotas", "--version", "0")
        (found,) = decode(*decoded, stdin=body)
        assert found["body"]["entries"][0]["values"][0]["value"] == shown


@pytest.mark.parametrize("form", ["raw", "hex", "base64"])
def test_bytes_may_be_written_in_three_ways(form, tmp_path):
    data = request()
    text = {"raw": data, "hex": data.hex(":").encode(), "base64": base64.encodebytes(data).replace(b"\n", b"")}[form]
    path = tmp_path / "request"
    path.write_bytes(text)
    assert decode("--as", "request", str(path))[0]["api"] == "Metadata"
    assert decode("--as", "request", "--form", form, stdin=text)[0]["api"] == "Metadata"
    if form != "raw":
        assert decode("--as", "request", text.decode())[0]["api"] == "Metadata"


def test_base64_may_be_of_the_url_safe_alphabet():
    data = request(correlation_id=-0x04000001)
    text = base64.urlsafe_b64encode(data).decode()
    assert {"-", "_"} & set(text)
    assert decode("--as", "request", "--form", "base64", text)[0]["header"]["correlationId"] == -0x04000001


def test_lines_of_text_are_a_message_each():
    text = b"\n".join(request(version=version).hex().encode() for version in (1, 12)) + b"\n"
    assert [found["version"] for found in decode("--as", "request", stdin=text)] == [1, 12]


def test_lines_that_look_like_a_wrapped_input_come_with_a_hint():
    for text, says in ((base64.encodebytes(4 * BATCH), True), (4 * BATCH[:40] + b"\0", False)):
        result = klamm("decode", "--as", "records", stdin=text)
        assert (b"hint: each line was decoded separately" in result.stderr) == says


def test_an_empty_input_is_an_error():
    result = klamm("decode", "")
    assert (result.returncode, b"INPUT is empty" in result.stderr) == (1, True)


def test_frames_written_as_text():
    assert decode(stdin=framed(request(), request()).hex().encode())[1]["api"] == "Metadata"


def test_a_body_and_a_response_need_their_api_and_version():
    assert decode("--as", "response", "--api", "Metadata", "--version", "12", response().hex())[0]["header"] == {
        "correlationId": 5
    }
    body = protocol.encode("Metadata", "request", 12, {})
    assert decode("--as", "request-body", "--api", "Metadata", "--version", "12", stdin=body)[0]["body"]["topics"] == []
    result = klamm("decode", "--as", "response", "00")
    assert result.returncode == 1
    assert b"--api and --version" in result.stderr


def test_record_batches_and_records_within_messages():
    record = {
        "offset": 0,
        "timestamp": 1,
        "key": "k",
        "value": "/w==",
        "value_encoding": "base64",
        "headers": [{"name": "h", "value": "v"}],
    }
    first, second, rest = decode("--as", "records", stdin=BATCH + BATCH + BATCH[:20])
    assert (first["at"], second["at"], rest) == (0, len(BATCH), {"at": 2 * len(BATCH), "cut_off": 20})
    assert record.items() <= first["records"][0].items()
    partition = {"index": 0, "records": BATCH}
    fields = {"acks": -1, "topicData": [{"name": "t", "partitionData": [partition]}]}
    produce = request("Produce", 9, 1, fields)
    (found,) = decode("--as", "request", stdin=produce)
    assert record.items() <= found["body"]["topicData"][0]["partitionData"][0]["records"][0]["records"][0].items()
    (found,) = decode("--as", "request", "--plain-records", stdin=produce)
    plain = found["body"]["topicData"][0]["partitionData"][0]["records"]
    assert base64.b64decode(plain) == BATCH


def test_records_are_described_one_by_one_as_they_are_written():
    """A few KB of compressed data may contain millions of records."""
    batch = protocol.encode_batch([protocol.BatchRecord(value=b"v")] * 1000, compression="zstd")
    decoder = Decoder("records", None, expand=True)
    (found,) = decoder.objects(io.BytesIO(batch), "raw")
    pieces = list(json_parts(found))
    assert max(map(len, pieces)) < 1000
    assert [record["offset"] for record in json.loads("".join(pieces))["records"]] == list(range(1000))


def test_a_broken_part_is_an_error_and_the_rest_is_decoded():
    first, second, third = decode(stdin=framed(request()[:-1], request()) + b"\0\0", code=1)
    assert "Metadata request v12" in first["error"]
    assert second["api"] == "Metadata"
    assert "ends 2 bytes into a frame" in third["error"]
    bad = {
        "acks": 1,
        "topicData": [{"name": "t", "partitionData": [{"index": 0, "records": CORRUPT}]}],
    }
    (found,) = decode("--as", "request", stdin=request("Produce", 9, 1, bad), code=1)
    assert found["body"]["topicData"][0]["partitionData"][0]["records"][0]["error"]
    (broken,) = decode("--as", "records", stdin=CORRUPT, code=1)
    assert "checksum" in broken["error"]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["--api", "Metadata"], 1, b"belong together"),
        (["--as", "request-body", "--api", "Metdata", "--version", "1", "00"], 2, b"Metadata"),
        (["no-such-file!"], 1, b"No such file"),
        (["--as", "request", "--form", "hex", "zz"], 1, b"not valid hex"),
    ],
)
def test_wrong_use_is_one_line(arguments, code, complaint):
    result = klamm("decode", *arguments)
    assert result.returncode == code
    assert complaint in result.stderr
    assert b"Traceback" not in result.stderr


def test_frames_are_printed_as_they_come():
    with started("decode") as process:
        for version in (1, 12):
            process.stdin.write(framed(request(version=version)))
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["version"] == version
