"""Compares klamm's codec with other codecs, in one table: time, instructions, size of code, and time to build.

    make bench-codec                          # everything, about 25 minutes, most of it building
    make bench-codec ARGS='--only time'       # or python, instructions, size
    make bench-codec ARGS=--markdown          # the table for benches/README.md

Time is criterion's median. The speed of a machine can change within a second, so all codecs take turns in each round,
and a ratio compares times of the same round. The table shows the median over all rounds. For ratios, the table also
shows the smallest and the largest value.

Callgrind counts instructions, through gungraun, and every run gives the same counts. Size is how much a stripped, optimized program grows
if it uses every API in both directions and every record format. The build time is for klamm and its dependencies from scratch, with
default features, which exclude Python and the dev broker.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PACKAGE = "klamm-bench-codec"
ROUNDS = 5
SECONDS = ("--warm-up-time", "0.2", "--measurement-time", "0.5", "--sample-size", "20")
SHAPES = ("100 bytes", "1 KiB", "8 bytes")
RECORDS = 10_000


@dataclass
class Row:
    """A row of the table: the case, klamm's value, the values of other codecs, and the target."""

    what: str
    figure: str
    beside: str
    target: str = ""


def main() -> int:
    """Run the benches and print the table."""
    parser = argparse.ArgumentParser(description="Compare klamm's codec with other codecs.")
    parser.add_argument("--only", choices=tuple(PARTS), action="append", help="run only this part; may be repeated")
    parser.add_argument("--markdown", action="store_true", help="print the table for benches/README.md")
    parser.add_argument("--report", action="store_true", help="print the results of the last run, without running")
    args = parser.parse_args()
    rows: list[Row] = []
    for name, (run, report) in PARTS.items():
        if args.only and name not in args.only:
            continue
        if not args.report:
            print(f"==> {name}", file=sys.stderr, flush=True)
            run()
        rows += report()
    print_table(rows, markdown=args.markdown)
    return 0


def cargo(*arguments: str, folder: Path = ROOT, **variables: str) -> str:
    """Run cargo, and return the text of its standard output."""
    command = ["cargo", *arguments]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | variables, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}\n{done.stdout}")
    return done.stdout


def bench_command(*arguments: str, **variables: str) -> None:
    """Run `cargo bench` for the crate in this folder. The results go below the target folder of klamm."""
    folder = ROOT / "benches" / "codec"
    cargo("bench", "--locked", "-q", *arguments, folder=folder, CARGO_TARGET_DIR=str(TARGET), **variables)


def measured(file: Path, part: str) -> Any:
    """Return the parsed JSON file with the results of a part, such as "time". Exit if the part has not run yet."""
    if not file.exists():
        sys.exit(f"{file.relative_to(TARGET)} does not exist: run make bench-codec ARGS='--only {part}' first")
    return json.loads(file.read_text())


# Time.


def run_time() -> None:
    """Run the criterion benches."""
    for number in range(ROUNDS):
        for bench in ("records", "messages", "compress", "parts", "legacy"):
            options = ("--noplot", "--save-baseline", f"round-{number}", *SECONDS)
            bench_command("--bench", bench, "--", *options)


def rounds(*path: str) -> list[float]:
    """Return the duration of a bench in nanoseconds, for each round."""
    # In names of folders, criterion replaces special characters by underscores.
    folder = TARGET / "criterion"
    for part in path:
        folder /= re.sub(r'[?"/\\*<>:|^]', "_", part)
    estimates = [folder / f"round-{number}" / "estimates.json" for number in range(ROUNDS)]
    return [float(measured(file, "time")["median"]["point_estimate"]) for file in estimates]


def nanoseconds(*path: str) -> float:
    """Return the duration of a bench in nanoseconds: the median over all rounds."""
    return statistics.median(rounds(*path))


def ratio(these: list[float], those: list[float], digits: int = 1) -> str:
    """Return a text with the ratio of two times. Each round gives a ratio; show the median, the smallest and the largest."""
    found = [a / b for a, b in zip(these, those, strict=True)]
    middle, least, most = (f"{x:.{digits}f}" for x in (statistics.median(found), min(found), max(found)))
    return f"{middle} × ({least}–{most})"


def report_time() -> list[Row]:
    """Return the table rows for criterion's times."""
    rows = []
    for shape in SHAPES:
        usual = shape == "100 bytes"
        base = nanoseconds("decode", "floor", shape) / RECORDS
        for what, group, peers, target in (
            ("encode", "encode", ("kafka-protocol",), "15 ns, 5 × kafka-protocol"),
            ("decode to views, CRC checked", "decode", ("kafka-protocol", "barnabas"), "13 ns, 5 × and 1.3 ×"),
        ):
            ours = rounds(group, "klamm", shape)
            times = ", ".join(f"{peer} {ratio(rounds(group, peer, shape), ours)}" for peer in peers)
            figure = f"{statistics.median(ours) / RECORDS:.1f} ns per record"
            beside = f"{times}, copy and CRC {base:.1f} ns"
            rows.append(Row(f"{what}, {shape}", figure, beside, target if usual else ""))
        arrow = nanoseconds("decode", "klamm to Arrow", shape) / RECORDS
        old, new = rounds("legacy", "magic 1", shape), rounds("legacy", "magic 2", shape)
        rows.append(
            Row(
                f"decode a fetch of Kafka 0.7, {shape}",
                f"{statistics.median(old) / RECORDS:.1f} ns per message",
                f"records of magic 2 {ratio(new, old)}",
                "0.5 ×" if usual else "",
            )
        )
        rows.append(Row(f"decode to Arrow, {shape}", f"{arrow:.1f} ns per record", "", "25 ns" if usual else ""))
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        for way in ("compress", "decompress"):
            ours, library = rounds(codec, way, "klamm"), rounds(codec, way, "library")
            figure = f"{statistics.median(ours) / 1e3:,.0f} µs"
            beside = f"library called directly {statistics.median(library) / 1e3:,.0f} µs"
            rows.append(Row(f"{codec} {way}, 1.2 MB", figure, beside, f"1.10 ×, is {ratio(ours, library, digits=2)}"))
    for message in ("metadata", "fetch"):
        for way in ("decode", "encode"):
            group = f"{message} of 1,000 partitions"
            ours, theirs = rounds(group, f"{way}/klamm"), rounds(group, f"{way}/kafka-protocol")
            figure = f"{statistics.median(ours) / 1e3:.1f} µs"
            rows.append(Row(f"{way} {group}", figure, f"kafka-protocol {ratio(theirs, ours)}"))
    rows += [Row(f"varint {way}", f"{nanoseconds('varint', way) / RECORDS:.2f} ns", "") for way in ("decode", "encode")]
    rows.append(Row("CRC-32C of 16 KiB", f"{(16 << 10) / nanoseconds('checksum', '16384 bytes'):.1f} GB/s", ""))
    return rows


# Python records.


def run_python() -> None:
    """Run the bench of `klamm.protocol` in the virtual environment, which has klamm and kafka-python."""
    command = [str(ROOT / ".venv/bin/python"), str(ROOT / "benches/codec/python_records.py"), str(4 * ROUNDS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    PYTHON_TIMES.parent.mkdir(parents=True, exist_ok=True)
    PYTHON_TIMES.write_text(done.stdout)


def report_python() -> list[Row]:
    """Return the table rows for the bench of `klamm.protocol`."""
    rows = []
    for shape, times in measured(PYTHON_TIMES, "python").items():
        figure = f"{statistics.median(times['klamm']):,.0f} ns per record"
        beside = f"kafka-python {ratio(times['kafka-python'], times['klamm'])}"
        rows.append(Row(f"decode to Python records, {shape}", figure, beside))
    return rows


# Instructions.


def run_instructions() -> None:
    """Run the benches in callgrind, which counts instructions."""
    bench_command("--bench", "instructions", GUNGRAUN_SAVE_SUMMARY="json")


def instructions(function: str, case: str) -> float:
    """Return the number of instructions per record in one case of a bench function."""
    folder = TARGET / "gungraun" / PACKAGE / "instructions"
    summary = next(folder.rglob(f"{function}.{case}/summary.json"), folder / f"{function}.{case}")
    (profile,) = measured(summary, "instructions")["profiles"]
    values = profile["data"]["total"]["metrics"]["Ir"]["values"]
    # After an earlier run, the summary contains the new and the old value.
    found = values["new"] if "new" in values else values["both"][0]
    return float(found) / RECORDS


def report_instructions() -> list[Row]:
    """Return the table rows for callgrind's instruction counts."""
    floor = f"copy and CRC {instructions('lower_bound', 'copy_and_checksum'):.0f}"
    encode, decode = instructions("encode", "klamm"), instructions("decode", "klamm")
    peer = instructions("encode_peer", "kafka_protocol") / encode
    beside = ", ".join(
        f"{name} {instructions('decode', case) / decode:.1f} ×"
        for name, case in (("kafka-protocol", "kafka_protocol"), ("barnabas", "barnabas"))
    )
    return [
        Row("instructions, encode, 100 bytes", f"{encode:.0f} per record", f"kafka-protocol {peer:.1f} ×, {floor}"),
        Row("instructions, decode to views", f"{decode:.0f} per record", f"{beside}, {floor}"),
        Row("instructions, decode to Arrow", f"{instructions('decode_to_arrow', 'klamm'):.0f} per record", floor),
    ]


# Size and build.


def run_size() -> None:
    """Build a program without the codec and with the codec. Then build klamm from scratch."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="klamm-size-") as scratch:
        folder = Path(scratch)
        (folder / "src").mkdir()
        (folder / "Cargo.toml").write_text(SIZE_MANIFEST.format(root=ROOT))
        shutil.copy(ROOT / "Cargo.lock", folder / "Cargo.lock")
        for name, program in (("without", SIZE_WITHOUT), ("with", SIZE_WITH)):
            (folder / "src" / "main.rs").write_text(program)
            cargo("build", "-q", "--release", folder=folder, CARGO_TARGET_DIR=str(folder / "target"))
            found[name] = (folder / "target" / "release" / "size").stat().st_size
        began = time.monotonic()
        cargo("build", "-q", "--locked", "--release", CARGO_TARGET_DIR=str(folder / "clean"))
        found["build"] = time.monotonic() - began
    SIZES.parent.mkdir(parents=True, exist_ok=True)
    SIZES.write_text(json.dumps(found))


def report_size() -> list[Row]:
    """Return the table rows for the size of the code and the build time."""
    found = measured(SIZES, "size")
    added = (found["with"] - found["without"]) / 1e6
    cores = os.cpu_count()
    return [
        Row("code a program grows by", f"{added:.2f} MB", "95 APIs, both directions, all record formats", "0.8 MB"),
        Row(
            "clean release build",
            f"{found['build']:.0f} s",
            f"{cores} cores, without Python and the dev broker",
            "60 s",
        ),
    ]


PYTHON_TIMES = TARGET / "bench-codec" / "python.json"
SIZES = TARGET / "bench-codec" / "size.json"
SIZE_MANIFEST = """\
[package]
name = "size"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
bytes = "1"
klamm = {{ path = "{root}", default-features = false }}
[profile.release]
lto = "fat"
codegen-units = 1
panic = "abort"
strip = true
"""
SIZE_WITHOUT = 'fn main() { println!("{}", std::env::args().count()); }\n'
SIZE_WITH = """\
use klamm::compress::Compression;
use klamm::record::{BatchBuilder, Producer, batches, down_convert, up_convert};

fn main() {
    let data: bytes::Bytes = std::env::args().flat_map(String::into_bytes).collect::<Vec<u8>>().into();
    let mut written = 0;
    for api in klamm::api::APIS {
        for message in [&api.request, &api.response] {
            if let Ok(value) = message.decode(data.len() as i16, data.clone()) {
                written += message.encode(data.len() as i16, value).map_or(0, |body| body.len());
            }
        }
    }
    for batch in batches(data.clone()).flatten() {
        let good = batch.check_crc().is_ok();
        written += usize::from(good) + batch.records(1 << 20).map_or(0, Iterator::count);
    }
    written += down_convert(data.clone(), 0, 0, 1 << 20).map_or(0, |d| d.len());
    written += up_convert(data.clone(), 2, 1 << 20).map_or(0, |d| d.len());
    let mut builder = BatchBuilder::with_capacity(100);
    builder.append(0, Some(&data), None, &[]);
    written += builder.seal(Compression::None, Producer::NONE).map_or(0, |sealed| sealed.data.len());
    println!("{written}");
}
"""


def print_table(rows: list[Row], *, markdown: bool) -> None:
    """Print the rows, as aligned text or as a Markdown table."""
    lines = [
        ("what", "klamm", "compared with", "target"),
        *((row.what, row.figure, row.beside, row.target) for row in rows),
    ]
    if markdown:
        lines.insert(1, ("---", "---:", "---", "---"))
        print("\n".join(f"| {' | '.join(line)} |" for line in lines))
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


PARTS = {
    "time": (run_time, report_time),
    "python": (run_python, report_python),
    "instructions": (run_instructions, report_instructions),
    "size": (run_size, report_size),
}


if __name__ == "__main__":
    sys.exit(main())
