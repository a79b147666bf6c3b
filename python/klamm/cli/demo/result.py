"""Reads the demo's result from the result topic, compares the counts with the files on disk, and prints the result."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import klamm
from klamm.cli.demo.corpus import Count
from klamm.cli.output import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.cli.output import Output

TOP_PACKAGES = 15
TOP_IDENTIFIERS = 5
SHOWN_DIFFERENCES = 10


@dataclass(frozen=True)
class Package:
    """The pipeline's result for one package: its counts and its frequent identifiers."""

    count: Count
    identifiers: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stage:
    """Counts and duration of one stage."""

    name: str
    count: Count
    seconds: float

    def fields(self) -> dict[str, Any]:
        """Return the stage as a dict for JSON, with the rate in records per second."""
        rate = self.count.records / self.seconds if self.seconds else 0.0
        return {
            "stage": self.name,
            "records": self.count.records,
            "bytes": self.count.bytes,
            "seconds": round(self.seconds, 3),
            "records_per_second": round(rate),
        }


def read_packages(consumer: klamm.Consumer, topic: str) -> tuple[dict[str, Package], Count]:
    """Read the result topic to its end. Return the last value of each key, and the counts of all records."""
    partitions = [klamm.TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
    begin, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    packages: dict[str, Package] = {}
    read = Count()
    bounded = [
        klamm.TopicPartition(topic, each.partition, begin[each], end[each])
        for each in partitions
        if begin[each] < end[each]
    ]
    if not bounded:
        return packages, read
    consumer.assign(bounded)
    for record in consumer:
        value = record.value or b""
        read += Count(1, len(value))
        packages[(record.key or b"").decode("utf-8", "replace")] = parse_package(value)
    return packages, read


def parse_package(value: bytes) -> Package:
    """Parse the JSON value of a record of the result topic."""
    fields = json.loads(value)
    return Package(Count(fields["lines"], fields["bytes"]), [str(name) for name in fields["identifiers"]])


def amount(count: Count, noun: str) -> str:
    """Return the number of records, as `noun`, and the number of bytes."""
    return f"{counted(count.records, noun)} and {counted(count.bytes, 'byte')}"


def differences(expected: Mapping[str, Count], found: Mapping[str, Package]) -> list[str]:
    """Return one line of text for each package whose counts differ from the counts on disk."""
    lines = []
    for package in sorted({*expected, *found}):
        want = expected.get(package, Count())
        got = found[package].count if package in found else Count()
        if want != got:
            lines.append(f"{package}: {amount(want, 'line')} on disk, {amount(got, 'line')} from the pipeline")
    return lines


def show_packages(output: Output, packages: Mapping[str, Package]) -> None:
    """Print a table of the largest packages and the total of all packages."""
    ranked = sorted(packages.items(), key=lambda item: (-item[1].count.records, item[0]))
    rows = [
        (name, package.count.records, package.count.bytes, ", ".join(package.identifiers[:TOP_IDENTIFIERS]))
        for name, package in ranked[:TOP_PACKAGES]
    ]
    total = total_of(packages)
    rows.append((f"all of {counted(len(packages), 'package')}", total.records, total.bytes, ""))
    output.table(("package", "lines", "bytes", "frequent identifiers"), rows)


def show_stages(output: Output, stages: list[Stage]) -> None:
    """Print the counts and the speed of each stage."""
    rows = [
        (each["stage"], each["records"], each["bytes"] / 1e6, each["seconds"], each["records_per_second"])
        for each in (stage.fields() for stage in stages)
    ]
    output.table(("stage", "records", "MB", "seconds", "records/s"), rows)


def show_verdict(output: Output, expected: Count, found: Count, wrong: list[str]) -> None:
    """Print whether the counts are exact, and the differences."""
    if not wrong:
        output.say(f"exact: {amount(found, 'record')}, as on disk")
        return
    output.say(f"NOT exact: {amount(expected, 'record')} on disk, {amount(found, 'record')} from the pipeline")
    for line in wrong[:SHOWN_DIFFERENCES]:
        output.say(f"  {line}")
    if len(wrong) > SHOWN_DIFFERENCES:
        output.say(f"  and {counted(len(wrong) - SHOWN_DIFFERENCES, 'more package')}")


def total_of(packages: Mapping[str, Package]) -> Count:
    """Return the sum of the counts of all packages."""
    return sum((package.count for package in packages.values()), Count())
