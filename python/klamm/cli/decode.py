"""`klamm decode`: print Kafka's bytes as JSON, one object a line.

Two halves: where the bytes come from and how they are written (raw, hex, base64), and what they are. A request says what
it is; a response does not. In a stream of frames it is known by the request it answers, which has to come first.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import math
import re
import sys
from collections import defaultdict, deque
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from klamm import protocol
from klamm.cli.options import natural
from klamm.cli.output import CommandError
from klamm.cli.record_format import text_field
from klamm.errors import ConfigError, DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

FRAMES, RECORDS = "frames", "records"
KINDS = (FRAMES, "request", "response", "request-body", "response-body", RECORDS)
HEX, BASE64, RAW = "hex", "base64", "raw"

EXAMPLES = """\
examples:
  klamm decode capture.bin                           # both directions of a connection, or one
  klamm decode --as records 00000000000000000000.log # a segment of a broker's log
  klamm decode --as request 0012000000000001000561646d696e
  klamm decode --as response --api ApiVersions --version 0 answer.b64

In a stream of frames, a response needs the request it answers before it, or --api and --version.
An ApiVersions response that refuses the version it was asked in is of version 0, in which brokers write it.
Bytes are text where they are UTF-8 keys, values or header values, and base64 elsewhere. A float that is no number of
JSON's is "NaN", "Infinity" or "-Infinity".
What cannot be decoded is an object with an `error`; the rest is decoded all the same, and the exit code is 1.
"""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "decode",
        help="print requests, responses and record batches as JSON",
        description="Print Kafka's bytes as JSON, one object a line.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "input", metavar="INPUT", nargs="?", default="-", help="a file, or hex or base64 (default: standard input)"
    )
    parser.add_argument(
        "--as",
        dest="kind",
        choices=KINDS,
        default=FRAMES,
        help="frames with their lengths (default); a message with its header, or its body alone; record batches. "
        "Of text, every line is one, but for frames",
    )
    parser.add_argument("--form", choices=(RAW, HEX, BASE64), help="how the bytes are written (default: as it looks)")
    parser.add_argument("--api", metavar="NAME", help="what a body, or every response, belongs to")
    parser.add_argument("--version", dest="api_version", metavar="N", type=natural, help="and in which version")
    parser.add_argument("--plain-records", action="store_true", help="leave the records of messages as base64")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, _: Output) -> int:
    """Print what is in the input; return 1 if something in it is not what it should be."""
    if (args.api is None) != (args.api_version is None):
        raise CommandError("--api and --version go together")
    told = None if args.api is None else (args.api, args.api_version)
    decoder = Decoder(args.kind, told, expand=not args.plain_records)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # JSON is that, whatever the terminal is (RFC 8259, 8.1)
    with opened(args.input, args.form) as stream:
        for found in decoder.objects(stream, args.form):
            sys.stdout.writelines(written(found))
            print(flush=True)
    if decoder.failed and decoder.wrapped:
        join = "join them (base64 -w0, xxd -p -c0) if they are one that was wrapped"
        print(f"hint: each line was taken as a whole; {join}", file=sys.stderr)
    return 1 if decoder.failed else 0


def opened(name: str, form: str | None) -> BinaryIO:
    """Open standard input, a file, or the argument itself, where it is text."""
    if not name:
        raise CommandError("INPUT is empty", "name a file, or give hex or base64")
    if name == "-":
        if sys.stdin is None:
            raise CommandError("standard input is closed", "name a file, or give hex or base64")
        return sys.stdin.buffer
    if not Path(name).exists() and (form or form_of(name.encode())) != RAW:
        return io.BytesIO(name.encode())
    return Path(name).open("rb")


class Decoder:
    """Decodes one input; `told` is the API and version of what does not say it itself."""

    def __init__(self, kind: str, told: tuple[str, int] | None, *, expand: bool) -> None:
        self.kind = kind
        self.told = told
        self.expand = expand
        self.failed = False
        """Whether something was not what it should be."""
        self.wrapped = False
        """Whether lines of text look like parts of one."""
        self.apis = {api.key: api.name for api in protocol.apis()}
        self.asked: defaultdict[int, deque[tuple[str, int]]] = defaultdict(lambda: deque(maxlen=MOST_ASKED))
        """What was asked last under a correlation id and not answered yet; connections in one capture may share ids."""

    def objects(self, stream: BinaryIO, form: str | None) -> Iterator[dict[str, Any]]:
        """Describe all there is in the input."""
        start = read_some(stream)
        form = form or form_of(start)
        if self.kind == FRAMES:
            chunks = pieces(start, stream) if form == RAW else iter([from_text(start + stream.read(), form)])
            yield from self.frames(chunks)
            return
        whole = start + stream.read()
        lines = [whole] if form == RAW else [line for line in whole.splitlines() if line.strip()]
        self.wrapped = len(lines) > 1 and len({len(line) for line in lines[:-1]}) == 1
        for data in [from_text(line, form) for line in lines]:
            yield from self.batches(data) if self.kind == RECORDS else [self.attempt(self.message, data)]

    def frames(self, chunks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
        """Describe the frames of a stream as they come."""
        held, at = bytearray(), 0
        for chunk in chunks:
            held += chunk
            start = 0
            while len(held) >= start + LENGTH:
                begin = start + LENGTH
                size = int.from_bytes(held[start:begin], "big", signed=True)
                if size < 0:
                    yield {"at": at, **self.failure(f"a frame of {size} bytes: this is no stream of frames")}
                    return
                if len(held) < begin + size:
                    break
                start = begin + size
                yield {"at": at, "size": size, **self.attempt(self.frame, bytes(held[begin:start]))}
                at += LENGTH + size
            del held[:start]
        if held:
            yield {"at": at, **self.failure(f"the input ends {len(held)} bytes into a frame")}

    def failure(self, message: str) -> dict[str, Any]:
        """Describe what is wrong."""
        self.failed = True
        return {"error": message}

    def attempt(self, decode: Callable[[bytes], dict[str, Any]], data: bytes) -> dict[str, Any]:
        """Describe data, or what is wrong with it."""
        try:
            return decode(data)
        except DecodeError as error:
            return self.failure(error.message)
        except ConfigError as error:  # a version that klamm does not know
            if self.told:
                raise
            return self.failure(error.message)

    def frame(self, data: bytes) -> dict[str, Any]:
        """Describe a frame of either direction: an answer to something that was asked, or else a request."""
        if self.told:
            return self.response(data, *self.told)
        asked = self.asked.get(int.from_bytes(data[:LENGTH], "big", signed=True), deque())
        unknown = None
        for place, (api, version) in enumerate(asked):
            try:
                described = self.response(data, api, version)
            except DecodeError:
                continue  # the first bytes of a request may look like a correlation id
            except ConfigError as error:
                unknown = unknown or (place, error)
                continue
            del asked[place]
            return described
        try:
            return self.asking(data)
        except DecodeError:
            if unknown is None:
                raise
            place, refusal = unknown
            del asked[place]
            raise refusal from None

    def asking(self, data: bytes) -> dict[str, Any]:
        """Describe a request that may be answered."""
        header, api, body = self.request_header(data)
        number, version = header["correlationId"], header["requestApiVersion"]
        try:
            described = self.body(api, version, "request", body)
        except ConfigError:
            # The broker may know the version, or refuse it in one that klamm knows.
            self.asked[number].append((api, version))
            raise
        if not (api == "Produce" and described["body"]["acks"] == 0):
            self.asked[number].append((api, version))
        return {"header": header, **described}

    def message(self, data: bytes) -> dict[str, Any]:
        """Describe one message of the kind that was asked for."""
        if self.kind == "request":
            return self.request(data)
        if self.told is None:
            raise CommandError(f"--as {self.kind} needs --api and --version", "the bytes do not say what they are")
        if self.kind == "response":
            return self.response(data, *self.told)
        return self.body(*self.told, self.kind.removesuffix("-body"), data)

    def request(self, data: bytes) -> dict[str, Any]:
        """Describe a request with its header."""
        header, api, body = self.request_header(data)
        return {"header": header, **self.body(api, header["requestApiVersion"], "request", body)}

    def request_header(self, data: bytes) -> tuple[dict[str, Any], str, bytes]:
        """Read a request's header; return it, the API and the body."""
        header, body = protocol.decode_header("request", data)
        key = header["requestApiKey"]
        if key not in self.apis:
            raise DecodeError(f"there is no API {key}: this is no request", path="requestApiKey", offset=0)
        return header, self.apis[key], body

    def response(self, data: bytes, api: str, version: int) -> dict[str, Any]:
        """Describe a response with its header."""
        header, body = protocol.decode_header("response", data, api=api, version=version)
        if api == "ApiVersions" and body.startswith(UNSUPPORTED_VERSION):
            # The broker does not know the version that was asked for, and says so in one that every client reads.
            version = 0
        return {"header": header, **self.body(api, version, "response", body)}

    def body(self, api: str, version: int, kind: str, data: bytes) -> dict[str, Any]:
        """Describe a body."""
        fields = protocol.decode(api, kind, version, data)
        return {"kind": kind, "api": api, "version": version, "body": self.plain(fields)}

    def plain(self, value: Any, name: str = "") -> Any:
        """Turn a decoded value into what JSON has."""
        if isinstance(value, dict):
            return {key: self.plain(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, bytes):
            if self.expand and name == "records":
                return list(self.batches(value))
            return base64.b64encode(value).decode()
        if isinstance(value, float) and not math.isfinite(value):
            return NOT_FINITE[str(value)]
        return value

    def batches(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Describe record batches, good ones until the first that is not."""
        at, broken = 0, None
        try:
            found = protocol.decode_records(data)
        except DecodeError as error:
            found, broken = error.batches, error
        for batch in found:
            yield {"at": at, **batch_fields(batch)}
            at += batch.size
        if broken:
            yield {
                "at": at,
                **self.failure(broken.message),
                "records": Rows(broken.records),
            }
        elif at < len(data):
            yield {"at": at, "cut_off": len(data) - at}


class Rows:
    """Records that are described when they are written: a text of all, 500,000 in 400 KB of a batch, takes 380 MB."""

    def __init__(self, records: Iterable[protocol.BatchRecord]) -> None:
        self.records = records


class WithRows(Exception):  # noqa: N818 (nothing went wrong)
    """Tells that a value has rows within, and has to be written part by part."""


def has_rows(_: object) -> object:
    """Stop writing a value at once; nothing but rows is unknown to JSON."""
    raise WithRows


def written(value: Any) -> Iterator[str]:
    """Write a value as JSON: in one piece, or in many if it has rows within."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=has_rows)
    except WithRows:
        pass
    else:
        yield text
        return
    if isinstance(value, dict):
        yield "{"
        for place, (name, item) in enumerate(value.items()):
            yield f"{', ' if place else ''}{json.dumps(name, ensure_ascii=False)}: "
            yield from written(item)
        yield "}"
        return
    yield "["
    items = map(record_fields, value.records) if isinstance(value, Rows) else value
    for place, item in enumerate(items):
        if place:
            yield ", "
        yield from written(item)
    yield "]"


def record_fields(record: protocol.BatchRecord) -> dict[str, Any]:
    """Describe a record in JSON's types."""
    headers = [{"name": name, **text_field("value", value)} for name, value in record.headers]
    return {
        **asdict(record),
        **text_field("key", record.key),
        **text_field("value", record.value),
        "control": record.control and record.control._asdict(),
        "headers": headers,
    }


def batch_fields(batch: protocol.Batch) -> dict[str, Any]:
    """Describe a batch in JSON's types."""
    fields = {name: value for name, value in vars(batch).items() if name != "records"}
    return {**fields, "records": Rows(batch.records)}


def read_some(stream: BinaryIO) -> bytes:
    """Read what is there now, at least a byte unless the input is at its end."""
    return stream.read1(PIECE) if isinstance(stream, io.BufferedIOBase) else stream.read(PIECE)


def pieces(start: bytes, stream: BinaryIO) -> Iterator[bytes]:
    """Yield the input as it comes."""
    while start:
        yield start
        start = read_some(stream)


def form_of(data: bytes) -> str:
    """Guess how bytes are written."""
    text = data.strip()
    if HEX_TEXT.fullmatch(text):
        return HEX
    return BASE64 if BASE64_TEXT.fullmatch(text) else RAW


def from_text(text: bytes, form: str) -> bytes:
    """Turn hex or base64 into the bytes it stands for."""
    try:
        if form == HEX:
            return bytes.fromhex(re.sub(r"0x|[:\s]", "", text.decode()))
        if form == BASE64:
            return base64.b64decode(b"".join(text.split()).translate(FROM_URL_SAFE), validate=True)
    except ValueError as error:
        raise CommandError(f"the input is not {form}: {error}", "--form says how it is written") from None
    return text


LENGTH = 4
# Each is tried with what may be an answer, and where one direction alone was captured nothing is ever answered.
MOST_ASKED = 16
UNSUPPORTED_VERSION = (35).to_bytes(2, "big")
NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
PIECE = 1 << 16
# Of what has no blanks around it, and each byte is of one repetition alone, so that a match takes linear time.
HEX_TEXT = re.compile(rb"(0x)?[0-9a-fA-F:\s]*")
FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
BASE64_TEXT = re.compile(rb"[A-Za-z0-9+/\s]+={0,2}")
