"""`klamm decode`: decodes Kafka's requests, responses and record batches, and prints the content as JSON.

The input is raw bytes, hex text or base64 text. A request names its API and version, but a response does not. In a
stream of frames, the correlation ID of a response identifies its request, which must precede the response.
`klamm.protocol` does the decoding.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import re
import sys
from collections import defaultdict, deque
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from klamm import protocol
from klamm.cli.color import print_hint
from klamm.cli.flight import story
from klamm.cli.json_text import finite
from klamm.cli.options import natural
from klamm.cli.output import CommandError, counted
from klamm.cli.record_format import header_fields, text_field
from klamm.cli.terminal import unescaped
from klamm.cli.typed_values import add_decoding, decode_values
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
  klamm decode capture.bin                            # captured traffic of a connection
  klamm decode --as records 00000000000000000000.log  # a log segment of a broker
  klamm decode --as request 0012000000000001000561646d696e
  klamm decode --as response --api ApiVersions --version 0 response.b64
  klamm decode --flight shop.flight                   # what a client did last

In a stream of frames, each response must come after its request. To decode a response alone, pass --api and --version.
If a broker does not support the version of an ApiVersions request, it responds in version 0. The response is then
decoded as version 0.
Keys, values and header values are printed as text if they are UTF-8. Other bytes are printed as base64.
Floats that JSON does not have are printed as "NaN", "Infinity" or "-Infinity".
If a part of the input cannot be decoded, the command prints an object with an `error` and continues with the
next part. The exit code is then 1.
"""


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "decode",
        help="decode requests, responses and record batches",
        description="Decode Kafka's requests, responses and record batches, and print each as one JSON object on a line.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "input",
        metavar="INPUT",
        nargs="?",
        default="-",
        help="file, hex text, or base64 text to decode (default: standard input)",
    )
    parser.add_argument(
        "--as",
        dest="kind",
        choices=KINDS,
        default=FRAMES,
        help="what the input contains: frames with length prefixes (the default), a message with its header, a message "
        "body, or record batches; each line of hex or base64 text is decoded separately, except for frames",
    )
    parser.add_argument(
        "--form", choices=(RAW, HEX, BASE64), help="read the input in this encoding (default: detect it)"
    )
    parser.add_argument("--api", metavar="NAME", help="decode responses and message bodies of this API")
    parser.add_argument(
        "--version", dest="api_version", metavar="N", type=natural, help="with --api, decode this version of the API"
    )
    add_decoding(parser)
    parser.add_argument(
        "--flight", action="store_true", help="print a dump of a client's flight recorder that dump_flight() wrote"
    )
    parser.add_argument(
        "--plain-records",
        action="store_true",
        help="print the records in messages as base64, without decoding the records",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, _: Output) -> int:
    """Print the decoded input. Return 1 if a part of the input cannot be decoded, otherwise 0."""
    if args.value_format is not None:
        with open_input(args.input, args.form) as stream:
            whole = stream.read()
        form = args.form or detect_form(whole)
        lines = [whole] if form == RAW else [line for line in whole.splitlines() if line.strip()]
        return decode_values(args, [from_text(line, form) for line in lines])
    if args.flight:
        decoder = Decoder(FRAMES, None, expand=not args.plain_records)
        with open_input(args.input, RAW) as dump:
            texts = (line.decode("utf-8", "replace") for line in dump)
            for line in story(texts, lambda *message: json_parts(decoder.body(*message)["body"])):
                print(line)
        return 0
    if (args.api is None) != (args.api_version is None):
        raise CommandError("--api and --version belong together", "pass both options, or neither")
    api_version = None if args.api is None else (args.api, args.api_version)
    decoder = Decoder(args.kind, api_version, expand=not args.plain_records)
    if isinstance(out := unescaped(sys.stdout), io.TextIOWrapper):
        out.reconfigure(encoding="utf-8")  # JSON is always UTF-8 (RFC 8259, 8.1)
    with open_input(args.input, args.form) as stream:
        for found in decoder.objects(stream, args.form):
            sys.stdout.writelines(json_parts(found))
            print(flush=True)
    if decoder.failed and decoder.wrapped:
        join = "if the lines are one wrapped input, join them (base64 -w0, xxd -p -c0)"
        print_hint(f"each line was decoded separately; {join}")
    return 1 if decoder.failed else 0


def open_input(name: str, form: str | None) -> BinaryIO:
    """Return the input as a binary file: standard input, the file `name`, or the hex or base64 text that `name` is."""
    hint = "pass the name of a file, hex text, or base64 text"
    if not name:
        raise CommandError("INPUT is empty", hint)
    if name == "-":
        if sys.stdin is None:
            raise CommandError("standard input is closed", hint)
        return sys.stdin.buffer
    if not Path(name).exists() and (form or detect_form(name.encode())) != RAW:
        return io.BytesIO(name.encode())
    return Path(name).open("rb")


class Decoder:
    """Decodes one input into dicts for JSON.

    Args:
        kind: Content of the input, one of `KINDS`.
        api_version: API and version of responses and bodies, or None.
        expand: Also decode the records inside messages.
    """

    def __init__(self, kind: str, api_version: tuple[str, int] | None, *, expand: bool) -> None:
        self.kind = kind
        self.api_version = api_version
        self.expand = expand
        self.failed = False
        """Whether a part of the input could not be decoded."""
        self.wrapped = False
        """Whether the lines of the input look like one wrapped text."""
        self.apis = {api.key: api.name for api in protocol.apis()}
        self.unanswered: defaultdict[int, deque[tuple[str, int]]] = defaultdict(lambda: deque(maxlen=MAX_UNANSWERED))
        """API and version of unanswered requests, by correlation ID.

        Several connections in one capture may use the same correlation ID.
        """

    def objects(self, stream: BinaryIO, form: str | None) -> Iterator[dict[str, Any]]:
        """Decode the whole input. Yield one dict for each frame, message or batch."""
        start = read_available(stream)
        form = form or detect_form(start)
        if self.kind == FRAMES:
            chunks = read_chunks(start, stream) if form == RAW else iter([from_text(start + stream.read(), form)])
            yield from self.frames(chunks)
            return
        whole = start + stream.read()
        lines = [whole] if form == RAW else [line for line in whole.splitlines() if line.strip()]
        self.wrapped = len(lines) > 1 and len({len(line) for line in lines[:-1]}) == 1
        for data in [from_text(line, form) for line in lines]:
            yield from self.batches(data) if self.kind == RECORDS else [self.attempt(self.message, data)]

    def frames(self, chunks: Iterator[bytes]) -> Iterator[dict[str, Any]]:
        """Decode the frames of a stream as they arrive."""
        buffer, at = bytearray(), 0
        for chunk in chunks:
            buffer += chunk
            start = 0
            while len(buffer) >= start + LENGTH:
                begin = start + LENGTH
                size = int.from_bytes(buffer[start:begin], "big", signed=True)
                if size < 0:
                    message = f"invalid frame length {size}: the input is not a stream of frames; see --as and --form"
                    yield {"at": at, **self.failure(message)}
                    return
                if len(buffer) < begin + size:
                    break
                start = begin + size
                yield {"at": at, "size": size, **self.attempt(self.frame, bytes(buffer[begin:start]))}
                at += LENGTH + size
            del buffer[:start]
        if buffer:
            yield {"at": at, **self.failure(f"the input ends {counted(len(buffer), 'byte')} into a frame")}

    def failure(self, message: str) -> dict[str, Any]:
        """Return an object with an `error`, and remember that decoding failed."""
        self.failed = True
        return {"error": message}

    def attempt(self, decode: Callable[[bytes], dict[str, Any]], data: bytes) -> dict[str, Any]:
        """Return the decoded data, or an object with an `error` if decoding fails."""
        try:
            return decode(data)
        except DecodeError as error:
            return self.failure(error.message)
        except ConfigError as error:  # klamm does not know this version
            if self.api_version:
                raise
            return self.failure(error.message)

    def frame(self, data: bytes) -> dict[str, Any]:
        """Decode a frame as the response to an earlier request with the same correlation ID, or else as a request."""
        if self.api_version:
            return self.response(data, *self.api_version)
        unanswered = self.unanswered.get(int.from_bytes(data[:LENGTH], "big", signed=True), deque())
        unknown = None
        for index, (api, version) in enumerate(unanswered):
            try:
                decoded = self.response(data, api, version)
            except DecodeError:
                continue  # the first bytes of a request may look like a correlation id
            except ConfigError as error:
                unknown = unknown or (index, error)
                continue
            del unanswered[index]
            return decoded
        try:
            return self.request(data, is_answered=True)
        except DecodeError:
            if unknown is None:
                raise
            index, version_error = unknown
            del unanswered[index]
            raise version_error from None

    def message(self, data: bytes) -> dict[str, Any]:
        """Decode one message of the type that `--as` names."""
        if self.kind == "request":
            return self.request(data)
        if self.api_version is None:
            raise CommandError(
                f"--as {self.kind} needs --api and --version",
                "pass both options: the bytes do not contain the API and its version",
            )
        if self.kind == "response":
            return self.response(data, *self.api_version)
        return self.body(*self.api_version, self.kind.removesuffix("-body"), data)

    def request(self, data: bytes, *, is_answered: bool = False) -> dict[str, Any]:
        """Decode a request with its header.

        With `is_answered`, remember the request, because the input may also contain its response.
        """
        header, api, body = self.request_header(data)
        number, version = header["correlationId"], header["requestApiVersion"]
        try:
            decoded = self.body(api, version, "request", body)
        except ConfigError:
            # The broker may know the version, or respond in a version that klamm knows.
            if is_answered:
                self.unanswered[number].append((api, version))
            raise
        if is_answered and not (api == "Produce" and decoded["body"]["acks"] == 0):
            self.unanswered[number].append((api, version))
        return {"header": header, **decoded}

    def request_header(self, data: bytes) -> tuple[dict[str, Any], str, bytes]:
        """Decode the header of a request. Return the header, the name of the API, and the bytes of the body."""
        header, body = protocol.decode_header("request", data)
        key = header["requestApiKey"]
        if key not in self.apis:
            raise DecodeError(f"unknown API key {key}: this is not a request", path="requestApiKey", offset=0)
        return header, self.apis[key], body

    def response(self, data: bytes, api: str, version: int) -> dict[str, Any]:
        """Decode a response with its header."""
        header, body = protocol.decode_header("response", data, api=api, version=version)
        if api == "ApiVersions" and body.startswith(UNSUPPORTED_VERSION):
            # The broker does not know the requested version, and responds in version 0, which every client understands.
            version = 0
        return {"header": header, **self.body(api, version, "response", body)}

    def body(self, api: str, version: int, kind: str, data: bytes) -> dict[str, Any]:
        """Decode the body of a message."""
        fields = protocol.decode(api, kind, version, data)
        return {"kind": kind, "api": api, "version": version, "body": self.plain(fields)}

    def plain(self, value: Any, name: str = "") -> Any:
        """Convert a decoded value to types that JSON has."""
        if isinstance(value, dict):
            return {key: self.plain(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if isinstance(value, bytes):
            if self.expand and name == "records":
                return list(self.batches(value))
            return base64.b64encode(value).decode()
        return finite(value) if isinstance(value, float) else value

    def batches(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Decode record batches, up to the first damaged batch."""
        at, broken = 0, None
        try:
            decoded = protocol.decode_records(data)
        except DecodeError as error:
            decoded, broken = error.batches, error
        for batch in decoded:
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
    """Records of a batch. The command converts each record only when it prints the record.

    As one string, the JSON text of 500,000 records from a compressed batch of 400 KB would take 380 MB.
    """

    def __init__(self, records: Iterable[protocol.BatchRecord]) -> None:
        self.records = records


class ContainsRows(Exception):  # noqa: N818 (this is not an error)
    """Signals that a value contains `Rows` and must therefore be printed in parts."""


def reject_rows(_: object) -> object:
    """Raise `ContainsRows`. `json.dumps` calls this function for `Rows`, the only type that it cannot encode."""
    raise ContainsRows


def json_parts(value: Any) -> Iterator[str]:
    """Yield the JSON text of a value. If the value contains `Rows`, yield the text in parts."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=reject_rows)
    except ContainsRows:
        pass
    else:
        yield text
        return
    if isinstance(value, dict):
        yield "{"
        for index, (name, item) in enumerate(value.items()):
            yield f"{', ' if index else ''}{json.dumps(name, ensure_ascii=False)}: "
            yield from json_parts(item)
        yield "}"
        return
    yield "["
    items = map(record_fields, value.records) if isinstance(value, Rows) else value
    for index, item in enumerate(items):
        if index:
            yield ", "
        yield from json_parts(item)
    yield "]"


def record_fields(record: protocol.BatchRecord) -> dict[str, Any]:
    """Return a record as a dict for JSON."""
    return {
        **asdict(record),
        **text_field("key", record.key),
        **text_field("value", record.value),
        "control": record.control and record.control._asdict(),
        "headers": header_fields(record.headers),
    }


def batch_fields(batch: protocol.Batch) -> dict[str, Any]:
    """Return a batch as a dict for JSON, with the records as `Rows`."""
    fields = {name: value for name, value in vars(batch).items() if name != "records"}
    return {**fields, "records": Rows(batch.records)}


def read_available(stream: BinaryIO) -> bytes:
    """Wait until the input has bytes, and return the available bytes. Return empty bytes at the end of the input."""
    return stream.read1(CHUNK) if isinstance(stream, io.BufferedIOBase) else stream.read(CHUNK)


def read_chunks(start: bytes, stream: BinaryIO) -> Iterator[bytes]:
    """Yield `start` and then the rest of the input as it arrives."""
    while start:
        yield start
        start = read_available(stream)


def detect_form(data: bytes) -> str:
    """Return the encoding that the input appears to have: hex, base64 or raw."""
    text = data.strip()
    if HEX_TEXT.fullmatch(text):
        return HEX
    return BASE64 if BASE64_TEXT.fullmatch(text) else RAW


def from_text(text: bytes, form: str) -> bytes:
    """Decode hex or base64 text. Raw input is not changed."""
    try:
        if form == HEX:
            return bytes.fromhex(re.sub(r"0x|[:\s]", "", text.decode()))
        if form == BASE64:
            return base64.b64decode(b"".join(text.split()).translate(FROM_URL_SAFE), validate=True)
    except ValueError as error:
        raise CommandError(f"the input is not valid {form}: {error}", "use --form to set its encoding") from None
    return text


LENGTH = 4
# Maximum number of unanswered requests for each correlation ID. In a capture without responses, all requests stay
# unanswered.
MAX_UNANSWERED = 16
UNSUPPORTED_VERSION = (35).to_bytes(2, "big")
CHUNK = 1 << 16
# The patterns match stripped text. Each byte can match only one repetition, so that matching takes linear time.
HEX_TEXT = re.compile(rb"(0x)?[0-9a-fA-F:\s]*")
FROM_URL_SAFE = bytes.maketrans(b"-_", b"+/")
BASE64_TEXT = re.compile(rb"[A-Za-z0-9+/\s]+={0,2}")
