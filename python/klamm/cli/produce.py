"""`klamm produce`: sends lines, JSON objects, or whole files. `records_in` parses the input."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import client_config, closing
from klamm.cli.lines import read_chunks, split_lines, total_size
from klamm.cli.options import add_connection, add_json, add_repeated, encoded, natural, pair, positive
from klamm.cli.output import CommandError, UsageError, counted, describe
from klamm.cli.records_in import Batch, parser, separator
from klamm.cli.typed_values import add_writing, writing
from klamm.errors import DecodeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

    from klamm.cli.options import Commands
    from klamm.cli.output import Output
    from klamm.cli.records_in import NewRecord, Parse


def add(commands: Commands) -> None:
    """Declare the command."""
    part = commands.add_parser(
        "produce",
        help="send lines to a topic",
        description="Send each line of standard input, or of files, as one record. The command sends the bytes "
        "unchanged.",
    )
    part.add_argument("topic", metavar="TOPIC", help="topic to send to")
    part.add_argument(
        "files",
        metavar="FILE",
        nargs="*",
        default=[],
        help="files to read; - is standard input (default: standard input)",
    )
    add_connection(part)
    form = part.add_mutually_exclusive_group()
    form.add_argument(
        "-D",
        "--delimiter",
        metavar="TEXT",
        type=separator,
        default=b"\n",
        help=r"split the input at TEXT instead of at the end of each line; \n, \t and \0 are escapes",
    )
    form.add_argument("--whole-files", action="store_true", help="send each file as one record")
    form.add_argument(
        "--json-lines",
        action="store_true",
        help="read each line as a JSON object in the form of `klamm consume --json`, and send the object's key, value, "
        "headers and timestamp_ms",
    )
    part.add_argument(
        "--keep-partitions",
        action="store_true",
        help="with --json-lines, send each record to the partition that the JSON object names",
    )
    part.add_argument(
        "--key-separator",
        metavar="TEXT",
        type=separator,
        help=r"split each line at the first TEXT into key and value; \t means a tab; a line without TEXT has a null key",
    )
    part.add_argument("--key", metavar="TEXT", type=encoded, help="send all records with this key")
    add_repeated(part, "--header", "headers", "KEY=VALUE", "add this header to each record", parse=header)
    part.add_argument(
        "--header-separator",
        metavar="TEXT",
        type=separator,
        help=r"read the start of each line, up to the first TEXT, as headers in the form name:value,name:value; \t means a tab",
    )
    part.add_argument(
        "--partition", metavar="N", type=natural, help="send all records to this partition (default: by key)"
    )
    part.add_argument(
        "--acks",
        choices=("0", "1", "all"),
        help="replicas that must store a record before it counts as sent: none (0), the leader (1), or all in-sync "
        "replicas (default: all)",
    )
    part.add_argument(
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        help="compress record batches with this codec (default: none)",
    )
    part.add_argument(
        "--null-value",
        metavar="TEXT",
        type=encoded,
        help="send null for each value that equals TEXT; in a compacted topic, a null value deletes its key",
    )
    part.add_argument("--null-key", metavar="TEXT", type=encoded, help="send null for each key that equals TEXT")
    part.add_argument(
        "--transactional-id",
        metavar="ID",
        help="send all records in one transaction with this ID; after an error, read_committed consumers see none of "
        "the records",
    )
    part.add_argument(
        "--transaction-size",
        metavar="N",
        type=positive,
        help="with --transactional-id, commit a transaction when it has at least N records",
    )
    add_json(part, "print one JSON object at the end, with topic, records, bytes (of values) and seconds")
    add_writing(part)
    part.set_defaults(run=run)


def run(args: argparse.Namespace, output: Output) -> int:
    """Send the input, and return when the broker has acknowledged every record."""
    check(args)
    files: list[str] = args.files or ["-"]
    typed = "-" in files and sys.stdin.isatty()
    started = time.monotonic()
    records = value_bytes = 0
    size = total_size(files)
    config = client_config(
        args, "producer", acks=args.acks, compression_type=args.compression, transactional_id=args.transactional_id
    )
    parse = writing(args, parser(args))
    producer = klamm.Producer(config)
    with closing(producer), output.progress(f"produce {args.topic}", size, show=not typed) as advance:
        with Sender(producer, args) as sender:
            for path in files:
                place = Place(path, args)
                for lines in parts(path, args):
                    batch = place.parsed(parse, lines, sender)
                    sender.send(batch)
                    records += len(batch.values if isinstance(batch, Batch) else batch)
                    values = batch.values if isinstance(batch, Batch) else [each.value for each in batch]
                    # In the number of bytes, a null value counts as the text that stands for null in the input.
                    value_bytes += sum(len(value if value is not None else args.null_value or b"") for value in values)
                    advance(sum(map(len, lines)) + len(lines) * len(args.delimiter), len(lines))
        producer.flush()
    seconds = time.monotonic() - started
    if args.json:
        output.result({"topic": args.topic, "records": records, "bytes": value_bytes, "seconds": round(seconds, 3)})
    elif sys.stderr.isatty():
        rate = records / seconds if seconds else 0.0
        print(
            f"{counted(records, 'record')}, {counted(value_bytes, 'byte')} in {seconds:.2f} s ({rate:,.0f} records/s)",
            file=sys.stderr,
        )
    return 0


def check(args: argparse.Namespace) -> None:
    """Raise if an option needs another option that is missing, or if two options exclude each other."""
    needs = (
        ("--keep-partitions", args.keep_partitions, "--json-lines", args.json_lines),
        ("--transaction-size", args.transaction_size, "--transactional-id", args.transactional_id),
        ("--null-key", args.null_key is not None, "--key-separator", args.key_separator is not None),
    )
    for option, is_given, other, is_there in needs:
        if is_given and not is_there:
            raise UsageError(f"{option} needs {other}", "add the missing option, or leave the other option out")
    excluded = (
        ("--json-lines", args.json_lines, "--key-separator", args.key_separator is not None),
        ("--json-lines", args.json_lines, "--header-separator", args.header_separator is not None),
        ("--json-lines", args.json_lines, "--null-value", args.null_value is not None),
        ("--json-lines", args.json_lines, "--key", args.key is not None),
        ("--key", args.key is not None, "--key-separator", args.key_separator is not None),
        ("--keep-partitions", args.keep_partitions, "--partition", args.partition is not None),
        ("--transactional-id", args.transactional_id, "--acks", args.acks in ("0", "1")),
    )
    for option, is_given, other, is_there in excluded:
        if is_given and is_there:
            raise UsageError(f"{option} and {other} exclude each other", "leave one of these options out")


def parts(path: str, args: argparse.Namespace) -> Iterator[list[bytes]]:
    """Yield lists of the parts of a file that become records: its lines, or the whole file."""
    if args.whole_files:
        yield [b"".join(read_chunks(path))]
    else:
        yield from split_lines(read_chunks(path), delimiter=args.delimiter)


class Place:
    """The place in a file that the command has reached, for errors. Lines count from 1, as `cat -n` counts them."""

    def __init__(self, path: str, args: argparse.Namespace) -> None:
        self._line = 1
        self._delimiter = b"" if args.whole_files else args.delimiter
        self._path = [] if path == "-" else [path]
        self._hint = None if args.transactional_id else "the records before this line were sent"

    def parsed(self, parse: Parse, lines: list[bytes], sender: Sender) -> Batch | list[NewRecord]:
        """Parse the next lines. If one of them fails, send the records before it.

        Raises:
            CommandError: A line is not a record, or does not fit its schema. The error names the line.
        """
        try:
            batch = parse(lines)
        except (CommandError, DecodeError):
            self._send_until_error(parse, lines, sender)
            raise
        self._advance(lines)
        return batch

    def _send_until_error(self, parse: Parse, lines: list[bytes], sender: Sender) -> None:
        for line in lines:
            try:
                batch = parse([line])
            except (CommandError, DecodeError) as error:
                where = ", ".join([*self._path, f"line {self._line}"] if self._delimiter else self._path)
                hints = [str(hint) for hint in (getattr(error, "hint", None), self._line > 1 and self._hint) if hint]
                raise CommandError(
                    f"{where}: {describe(error)}" if where else describe(error), "; ".join(hints) or None
                ) from error
            sender.send(batch)
            self._advance([line])

    def _advance(self, lines: list[bytes]) -> None:
        self._line += sum(line.count(b"\n") for line in lines) + len(lines) * self._delimiter.count(b"\n")


class Sender:
    """Sends batches, in transactions if the producer has a transactional ID."""

    def __init__(self, producer: klamm.Producer, args: argparse.Namespace) -> None:
        self._producer = producer
        self._args = args
        self._transaction: klamm.Transaction | None = None
        self._in_transaction = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._transaction is not None:
            self._transaction.__exit__(kind, error, None)

    def send(self, batch: Batch | list[NewRecord]) -> None:
        """Send a batch."""
        size = self._args.transaction_size
        if self._args.transactional_id is not None and self._transaction is None:
            self._transaction = self._producer.transaction().__enter__()
        if isinstance(batch, Batch):
            send_batch(self._producer, batch, self._args)
        else:
            send_records(self._producer, batch, self._args)
        self._in_transaction += len(batch.values if isinstance(batch, Batch) else batch)
        if self._transaction is not None and size is not None and self._in_transaction >= size:
            self._transaction.__exit__(None, None, None)
            self._transaction, self._in_transaction = None, 0


def send_batch(producer: klamm.Producer, batch: Batch, args: argparse.Namespace) -> None:
    """Send records that only have a value and a key, in one call of the producer."""
    keys: Sequence[bytes | None] | None = batch.keys if args.key is None else [args.key] * len(batch.values)
    producer.send_many(args.topic, batch.values, keys=keys, partition=args.partition)


def send_records(producer: klamm.Producer, records: list[NewRecord], args: argparse.Namespace) -> None:
    """Send records one by one, because they can have headers, partitions or timestamps."""
    for record in records:
        producer.send_nowait(
            args.topic,
            record.value,
            key=record.key if args.key is None else args.key,
            partition=args.partition if record.partition is None else record.partition,
            timestamp_ms=record.timestamp_ms,
            headers=record.headers or None,
        )


def header(text: str) -> tuple[str, bytes]:
    """Parse `key=value` into the name and the value of a header."""
    key, value = pair(text)
    return key, encoded(value)
