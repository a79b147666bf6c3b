"""`klamm produce`: sends each line of standard input, or of files, as one record. `lines` splits the input."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import client_config, closing
from klamm.cli.lines import read_chunks, split_lines, total_size
from klamm.cli.options import add_connection, add_json, encoded, natural, pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "produce",
        help="send lines to a topic",
        description="Send each line of standard input, or of files, as one record. Bytes are sent unchanged.",
    )
    parser.add_argument("topic", metavar="TOPIC", help="topic to send to")
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        default=[],
        help="files to read; - is standard input (default: standard input)",
    )
    add_connection(parser)
    parser.add_argument(
        "--key-separator",
        metavar="TEXT",
        type=separator,
        help=r"split each line at the first TEXT into key and value; \t means a tab; a line without TEXT has a null key",
    )
    parser.add_argument(
        "--header",
        dest="headers",
        metavar="KEY=VALUE",
        type=header,
        action="append",
        default=[],
        help="add this header to each record; may be repeated",
    )
    parser.add_argument(
        "--partition", metavar="N", type=natural, help="send all records to this partition (default: by key)"
    )
    parser.add_argument(
        "--acks",
        choices=("0", "1", "all"),
        help="wait until a record is stored by no replica (0), by the leader (1), or by all in-sync replicas (default: all)",
    )
    parser.add_argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        help="compress record batches with this codec (default: none)",
    )
    parser.add_argument(
        "--null-value",
        metavar="TEXT",
        type=encoded,
        help="send a null value for lines with this value, which deletes the key from a compacted topic",
    )
    add_json(parser, "print one JSON object at the end, with topic, records, bytes (of values) and seconds")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, output: Output) -> int:
    """Send the lines, and return when every record is acknowledged."""
    files: list[str] = args.files or ["-"]
    typed = "-" in files and sys.stdin.isatty()
    started = time.monotonic()
    records = value_bytes = 0
    size = total_size(files)
    producer = klamm.Producer(client_config(args, "producer", acks=args.acks, compression_type=args.compression))
    with closing(producer), output.progress(f"produce {args.topic}", size, show=not typed) as advance:
        for path in files:
            for lines in split_lines(read_chunks(path)):
                batch = split_keys(lines, args.key_separator)
                send(producer, batch, args)
                records += len(lines)
                value_bytes += sum(map(len, batch.values))
                advance(sum(map(len, lines)) + len(lines), len(lines))
        producer.flush()
    seconds = time.monotonic() - started
    if args.json:
        output.result({"topic": args.topic, "records": records, "bytes": value_bytes, "seconds": round(seconds, 3)})
    elif sys.stderr.isatty():
        rate = records / seconds if seconds else 0.0
        print(
            f"{records:,} records, {value_bytes:,} bytes in {seconds:.2f} s ({rate:,.0f} records/s)",
            file=sys.stderr,
        )
    return 0


@dataclass(frozen=True)
class Batch:
    """Values and keys of lines. `keys` is None if all keys are null."""

    values: Sequence[bytes]
    keys: Sequence[bytes | None] | None = None


def split_keys(lines: Sequence[bytes], separator: bytes | None) -> Batch:
    """Split each line into key and value; a line without the separator gets a null key."""
    if separator is None:
        return Batch(lines)
    values: list[bytes] = []
    keys: list[bytes | None] = []
    for line in lines:
        key, found, value = line.partition(separator)
        values.append(value if found else line)
        keys.append(key if found else None)
    return Batch(values, keys)


def send(producer: klamm.Producer, batch: Batch, args: argparse.Namespace) -> None:
    """Send a batch: in one call, unless records need headers or null values."""
    if not args.headers and args.null_value is None:
        producer.send_many(args.topic, batch.values, keys=batch.keys, partition=args.partition)
        return
    keys = batch.keys if batch.keys is not None else [None] * len(batch.values)
    for value, key in zip(batch.values, keys, strict=True):
        producer.send_nowait(
            args.topic,
            None if value == args.null_value else value,
            key=key,
            partition=args.partition,
            headers=args.headers or None,
        )


def separator(text: str) -> bytes:
    r"""Parse a key separator, with the escapes `\t` and `\0`."""
    parsed = encoded(text.replace(r"\t", "\t").replace(r"\0", "\0"))
    if not parsed:
        raise argparse.ArgumentTypeError("the separator must not be empty")
    return parsed


def header(text: str) -> tuple[str, bytes]:
    """Parse a header, `key=value`."""
    key, value = pair(text)
    return key, encoded(value)
