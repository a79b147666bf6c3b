"""`klamm dump`: prints the files in a log directory of a broker as JSON, as kafka-dump-log does.

The command reads segments, their indexes, and snapshots of the metadata and of the producer state. `internal_records`
decodes the records of `__consumer_offsets`, `__transaction_state` and the metadata log.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm import protocol
from klamm.cli.internal_records import KINDS, decoder_of
from klamm.cli.json_text import dumps
from klamm.cli.output import CommandError, UsageError
from klamm.cli.record_format import header_fields, text_field
from klamm.errors import DecodeError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from typing import BinaryIO

    from klamm.cli.options import Commands
    from klamm.cli.output import Output

HEADER = struct.Struct(">qi")
LARGEST_BATCH = 1 << 30
OFFSETS, TIMES, ABORTED = struct.Struct(">ii"), struct.Struct(">qi"), struct.Struct(">hqqqq")
SNAPSHOT, PRODUCER = struct.Struct(">hIi"), struct.Struct(">qhiqiqiq")


def add(commands: Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "dump",
        help="print files of a broker's log directory as JSON",
        description="Print files of a broker's log directory as JSON, one object on a line: segments (.log), snapshots of the "
        "metadata (.checkpoint), indexes (.index, .timeindex, .txnindex) and snapshots of the producer state (.snapshot). "
        "The exit code is 1 if a file is damaged.",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", help="files to print")
    parser.add_argument(
        "--records", action="store_true", help="also print the records of segments (default: only the batches)"
    )
    parser.add_argument(
        "--as",
        dest="kind",
        choices=KINDS,
        help="decode the records of a segment as committed offsets, transactions or metadata (default: depends on the "
        "name of the folder); implies --records",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace, _: Output) -> int:
    """Print files."""
    damaged = False
    for name in args.files:
        path = Path(name)
        printer = PRINTERS.get(path.suffix)
        if printer is None:
            raise UsageError(f"{name} has no known ending", f"use files that end in {', '.join(PRINTERS)}")
        with path.open("rb") as file:
            for found in printer(path, file, args):
                damaged |= "error" in found
                sys.stdout.write(dumps(found) + "\n")
    sys.stdout.flush()
    return int(damaged)


def segment(path: Path, file: BinaryIO, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the batches of a segment, and their records."""
    kind = args.kind or next((each for each in KINDS if FOLDERS[each] in path.resolve().parent.name), None)
    decode = decoder_of(kind) if kind is not None else None
    position = 0
    while start := file.read(HEADER.size):
        if not any(start):
            return  # the rest of a preallocated segment contains only zeros
        if len(start) < HEADER.size:
            yield {"file": str(path), "position": position, "error": "the last batch is incomplete"}
            return
        _, length = HEADER.unpack(start)
        if not 0 <= length <= LARGEST_BATCH:
            yield {"file": str(path), "position": position, "error": f"a batch cannot have {length} bytes"}
            return
        data = start + file.read(length)
        if len(data) < HEADER.size + length:
            yield {"file": str(path), "position": position, "error": "the last batch is incomplete"}
            return
        try:
            batches = protocol.decode_records(data)
        except DecodeError as error:
            yield {"file": str(path), "position": position, "size": len(data), "error": error.message}
            position += len(data)
            continue
        for batch in batches:
            yield batch_fields(path, position, len(data), batch)
            if args.records or decode is not None:
                for record in batch.records:
                    yield record_fields(record, decode)
        position += len(data)


def batch_fields(path: Path, position: int, size: int, batch: protocol.Batch) -> dict[str, Any]:
    """Return a batch as a dict for JSON, with the number of records instead of the records."""
    fields = {name: value for name, value in vars(batch).items() if name != "records"}
    return {"file": str(path), "position": position, "size": size, **fields, "count": len(batch.records)}


def record_fields(record: protocol.BatchRecord, decode: Any) -> dict[str, Any]:
    """Return a record as a dict for JSON. If `decode` is not None, the function uses it for the key and the value."""
    fields: dict[str, Any] = {"offset": record.offset, "timestamp_ms": record.timestamp}
    if record.control is not None:
        return {**fields, "control": record.control._asdict()}
    if decode is not None:
        return {**fields, **decode(record.key, record.value)}
    return {
        **fields,
        **text_field("key", record.key),
        **text_field("value", record.value),
        "headers": header_fields(record.headers),
    }


def base_offset(path: Path) -> int:
    """Return the first offset of a segment: the name of the file without its suffix."""
    if not path.stem.isdigit():
        raise CommandError(
            f"{path} is not named after its first offset", "keep the names that the broker gave to the files"
        )
    return int(path.stem)


def index(path: Path, file: BinaryIO, _: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the entries of an offset index."""
    base = base_offset(path)
    previous = -1
    for number, (relative, position) in enumerate(OFFSETS.iter_unpack(whole(file, OFFSETS.size))):
        if number and not relative and not position:
            return
        entry: dict[str, Any] = {"file": str(path), "offset": base + relative, "position": position}
        if relative < previous:
            entry["error"] = "the offsets decrease"
        previous = relative
        yield entry


def time_index(path: Path, file: BinaryIO, _: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the entries of a time index."""
    base = base_offset(path)
    previous = -1
    for number, (timestamp, relative) in enumerate(TIMES.iter_unpack(whole(file, TIMES.size))):
        if number and not timestamp and not relative:
            return
        entry: dict[str, Any] = {"file": str(path), "timestamp_ms": timestamp, "offset": base + relative}
        if timestamp < previous:
            entry["error"] = "the timestamps decrease"
        previous = timestamp
        yield entry


def transaction_index(path: Path, file: BinaryIO, _: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the aborted transactions of a segment."""
    for version, producer, first, last, stable in ABORTED.iter_unpack(whole(file, ABORTED.size)):
        names = {"version": version, "producer_id": producer, "first_offset": first, "last_offset": last}
        yield {"file": str(path), **names, "last_stable_offset": stable}


def producers(path: Path, file: BinaryIO, _: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the header of a snapshot of the producer state, and then the state of each producer."""
    data = file.read()
    if len(data) < SNAPSHOT.size:
        yield {"file": str(path), "error": "the file is too short"}
        return
    version, crc, count = SNAPSHOT.unpack_from(data)
    checksum = protocol.crc32c(data[6:])
    head: dict[str, Any] = {"file": str(path), "version": version, "producers": count}
    yield head if crc == checksum else {**head, "error": f"the checksum is {checksum:#010x} and should be {crc:#010x}"}
    names = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_offset",
        "offset_delta",
        "timestamp_ms",
        "coordinator_epoch",
        "transaction_first_offset",
    )
    rest = data[SNAPSHOT.size :]
    for values in PRODUCER.iter_unpack(rest[: len(rest) // PRODUCER.size * PRODUCER.size]):
        yield dict(zip(names, values, strict=True))


def whole(file: BinaryIO, size: int) -> bytes:
    """Return the complete entries of an index file. Each entry has `size` bytes."""
    data = file.read()
    return data[: len(data) // size * size]


PRINTERS = {
    ".log": segment,
    ".checkpoint": segment,
    ".index": index,
    ".timeindex": time_index,
    ".txnindex": transaction_index,
    ".snapshot": producers,
}
FOLDERS = {"offsets": "__consumer_offsets", "transactions": "__transaction_state", "metadata": "__cluster_metadata"}
