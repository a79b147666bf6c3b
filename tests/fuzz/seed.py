"""Writes start corpora for the fuzz targets from the golden vectors: valid inputs in the form of each target.

python tests/fuzz/seed.py FOLDER        # FOLDER/<target>/<number>
"""

from __future__ import annotations

import gzip
import json
import random
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

VECTORS = Path(__file__).parent.parent / "vectors"
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
HEADER = 61
"""Size of a batch header of format 2."""
TYPES = range(5)
"""Request types of Kafka 0.6 and 0.7."""
FETCH = 1
"""The type whose response has messages after its error."""
BARE = 128
"""Authentication messages shorter than this are put into a frame."""


def lines(name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file of vectors."""
    path = VECTORS / name
    with gzip.open(path, "rt", encoding="utf-8") if name.endswith(".gz") else path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield a target and an input for it."""
    for line in [*lines("messages.jsonl.gz"), *lines("unknown_tags.jsonl.gz")]:
        if "api" in line:
            body = bytes.fromhex(line["hex"])
            yield f"api_{line['kind']}", bytes([line["key"], line["version"]]) + body
            yield "frame", bytes([7]) + len(body).to_bytes(4, "big") + body
    for name in ("records.jsonl.gz", "records_corrupt.jsonl.gz"):
        for line in lines(name):
            data = bytes.fromhex(line["hex"])
            yield "record_batch", data
            yield "message_set", b"\0" + data
            yield "message_set", b"\1" + data
            for batch in line.get("expect", {}).get("batches", ()):
                if batch["magic"] == 2 and batch["compression"] != "none":
                    yield "compress", bytes([CODECS[batch["compression"]]]) + data[HEADER : batch["size"]]
    for line in lines("legacy.jsonl.gz"):
        request, response = bytes.fromhex(line["request_hex"]), bytes.fromhex(line["response_hex"])
        kind = int.from_bytes(request[4:6], "big")
        yield "legacy", b"\1" + request[4:]
        if response and kind in TYPES:
            yield "legacy", bytes([2 + kind]) + response[4:]
            if kind == FETCH:
                yield "legacy", b"\0" + response[6:]


def logins() -> Iterator[tuple[str, bytes]]:
    """Yield the predictable messages of a successful login, for the target of logins."""
    for line in lines("scram.jsonl"):
        kind = 2 * (2 + (line["mechanism"] == "SCRAM-SHA-512"))
        for speaker, names in ((0, ("client_first", "client_final")), (1, ("server_first", "server_final"))):
            messages = [line[name].encode() for name in names]
            if all(len(message) < BARE for message in messages):
                yield (
                    "login",
                    bytes([kind + speaker]) + b"".join(bytes([len(message)]) + message for message in messages),
                )
    # GSSAPI: tokens of which the last one ends the making of the context, and the offer of no layer.
    tokens = (b"`token", b"a token", b"\x01\0\0\0", b"")
    yield "login", bytes([2 * 4 + 1]) + b"".join(bytes([len(token)]) + token for token in tokens)
    for message in (b"\0alice\0secret", b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.\x01\x01"):
        yield "login", bytes([2 if message[0] == 0 else 0, len(message)]) + message


def requests() -> Iterator[tuple[str, bytes]]:
    """Yield every request of the vectors, for the target of the dev broker."""
    for line in lines("messages.jsonl.gz"):
        if line.get("kind") == "request":
            body = bytes.fromhex(line["hex"])
            yield "dev_broker", bytes([0, line["key"], line["version"]]) + len(body).to_bytes(2, "big") + body


def registry() -> Iterator[tuple[str, bytes]]:
    """Yield values of the schemas in the target of schema registries."""
    line, entry = b"\x02\x0e\x00", b"\x02\x02k\x00\x00"
    rest = b"\x02\x05\x00\x0aabc\x01\x00\x00\x80\x3f"
    union = b"\x02" + bytes(range(16))
    yield "registry", b"\0\x02\x0e\x04ab" + line + entry + rest + union + b"\x02" + b"\xff" * 40 + b"\x02\x04{}"
    yield "registry", b"\0\x00\x00\x00\x00\x00\x00\x00abc\x00\x00\x00\x00\x00\x00\x00" + bytes(40) + b"\x00\x00"
    message = (
        b"\x08\x07\x1a\x02\x08\x05\x1a\x00\x22\x05\x0a\x01k\x10\x02\x2a\x01d\x32\x04\x08\x05\x10\x06\x3a\x03abc\x40\x01"
    )
    message += (
        b"\x4d\x00\x00\x80\x3f\x52\x03\x0a\x01x\x52\x05\x15\x01\x00\x00\x00\x58\x03\x60\x09\xc5\x0c\x01\x00\x00\x00"
    )
    yield "registry", b"\1" + message + b"\x72\x03\x0a\x01w"
    for text in (
        {
            "n": -1,
            "s": "x",
            "l": [{"x": 1, "y": 2.5}, None],
            "m": {"k": "v"},
            "d": 1.25,
            "t": "2024-01-02T03:04:05.5+02:00",
        },
        {
            "f": "YWJj",
            "b": True,
            "g": 1e3,
            "u": {"x": "a", "y": [1, None]},
            "day": "2024-02-29",
            "w": "1.5",
            "c": "01:02:03",
        },
        {"j": [1, {"a": None}], "more": [[]], "n": 18446744073709551615, "d": "12.5e-1", "t": 7, "s": None},
    ):
        yield "registry", b"\2" + json.dumps(text).encode()
    yield "registry", b"\3text"


def schema_texts() -> Iterator[tuple[str, bytes]]:
    """Yield schema texts, and the bytes of random schemas with a value."""
    for text in (
        {"type": "record", "name": "a.R", "aliases": ["Q"], "fields": [
            {"name": "next", "type": ["null", "R"], "default": None}, {"name": "e", "type": {
                "type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}},
            {"name": "f", "type": {"type": "fixed", "name": "F", "namespace": "b", "size": 16, "logicalType": "uuid"}},
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "double"}}, "default": {"k": [1]}},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}]},
        "string", ["null", {"type": "long", "logicalType": "timestamp-millis"}],
    ):  # fmt: skip
        yield "schema", b"\0" + json.dumps(text).encode()
    yield (
        "schema",
        b"""\1syntax = "proto3"; package p; import "google/protobuf/any.proto"; option java_package = "x";
message M { reserved 4 to 6, 9; oneof o { int32 a = 1 [json_name = "b"]; string c = 2; } map<string, M> m = 3;
enum E { option allow_alias = true; Z = 0; Y = 0; } repeated E e = 7 [(p.x).y = { k: [1, -2.5], s: "\\x41" }]; }
service S { rpc R(stream M) returns (M); }""",
    )
    yield (
        "schema",
        b'\1edition = "2023"; message M { extensions 100 to max; int32 x = 1 [features.field_presence = IMPLICIT]; }',
    )
    yield (
        "schema",
        b'\1syntax = "proto2"; message M { optional group G = 1 { required bytes b = 2 [default = "\\001"]; } }',
    )
    for seed in range(40):
        yield "schema", b"\2" + random.Random(seed).randbytes(160)


def main() -> None:
    """Write the seeds."""
    folder = Path(sys.argv[1])
    for number, (target, data) in enumerate(chain(seeds(), logins(), requests(), registry(), schema_texts())):
        (folder / target).mkdir(parents=True, exist_ok=True)
        (folder / target / str(number)).write_bytes(data)


if __name__ == "__main__":
    main()
