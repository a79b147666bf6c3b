"""`klamm produce`: each line of standard input or of files becomes one record, byte for byte."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import client_config, closing
from klamm.cli.lines import read_chunks, split_lines, total_size
from klamm.cli.options import add_connection, add_json, natural, pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from klamm.cli.options import Commands
    from klamm.cli.output import Output


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "produce",
        help="send lines to a topic",
        description="Send each line of standard input, or of files, as one record. Lines are bytes and stay exact.",
    )
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("files", metavar="FILE", nargs="*", help="files to read; - or none: standard input")
    add_connection(parser)
    parser.add_argument(
        "--key-separator",
        metavar="TEXT",
        type=separator,
        help=r"what stands before its first occurrence in a line is the key (\t: a tab); without it the key is null",
    )
    parser.add_argument(
        "--header",
        dest="headers",
        metavar="KEY=VALUE",
        type=header,
        action="append",
        default=[],
        help="a header of every record; may be repeated",
    )
    parser.add_argument("--partition", metavar="N", type=natural, help="send everything to this partition")
    parser.add_argument("--acks", choices=("0", "1", "all"), help="which replicas must have a record (default: all)")
    parser.add_argument("--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), help="codec of batches")
    parser.add_argument(
        "--null-value",
        metavar="TEXT",
        type=encoded,
        help="a line with this value is sent as a null value, which deletes its key from a compacted topic",
    )
    add_json(parser, "print one object at the end: records, bytes (of values), seconds")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, output: Output) -> int:
    """Send the lines; returns when every record is acknowledged."""
    files: list[str] = args.files or ["-"]
    typed = "-" in files and sys.stdin.isatty()
    started = time.monotonic()
    records = value_bytes = 0
    size = total_size(files)
    producer = klamm.Producer(client_config(args, acks=args.acks, compression_type=args.compression))
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
    """Lines taken apart; `keys` is None when lines have no keys at all."""

    values: Sequence[bytes]
    keys: Sequence[bytes | None] | None = None


def split_keys(lines: Sequence[bytes], separator: bytes | None) -> Batch:
    """Take the key off each line; a line without the separator is a value with a null key."""
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
    """Hand a batch to the producer: in one call, unless records need headers or null values."""
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
    r"""Parse a key separator; `\t` and the like are written out."""
    parsed = encoded(text.replace(r"\t", "\t").replace(r"\0", "\0"))
    if not parsed:
        raise argparse.ArgumentTypeError("must not be empty")
    return parsed


def header(text: str) -> tuple[str, bytes]:
    """Parse `key=value` of a header."""
    key, value = pair(text)
    return key, encoded(value)


def encoded(text: str) -> bytes:
    """Return an argument's bytes as the shell gave them."""
    return text.encode("utf-8", "surrogateescape")
