"""Measures a client inside its own process: wall time, CPU time, peak memory, and single round trips.

CPU time is user plus system time of the whole process, including background threads. Peak memory is the kernel's high-water mark of
resident memory. The meter resets the high-water mark when the timed section begins. This module needs Linux.
"""

import gc
import json
import re
import resource
import sys
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


class Meter:
    """Measures one timed section: `with meter:`."""

    def __init__(self) -> None:
        self.result: dict[str, float] = {}

    def __enter__(self) -> None:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")
        self.before_kb = resident_kb("VmRSS")
        self.cpu = cpu_seconds()
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        wall = time.perf_counter() - self.began
        cpu = cpu_seconds() - self.cpu
        self.result = {"wall_s": wall, "cpu_s": cpu, "peak_kb": resident_kb("VmHWM"), "before_kb": self.before_kb}


class Turns:
    """Measures round trips in turns. The driver sends a number, and the client runs this number of round trips.

    Then the client returns the samples on one line. Between its turns, the client stays connected and waits for other clients.
    """

    def __init__(self, commands: TextIO, answers: TextIO) -> None:
        self.commands, self.answers = commands, answers
        self.samples = array("q")
        self.cpu = 0.0

    def __iter__(self) -> Iterator[int]:
        while count := self.wait():
            yield count

    def wait(self) -> int:
        """Send the samples of the last turn to the driver. Wait for the next number of round trips, or 0 at the end."""
        print(
            json.dumps(
                {"ns": self.samples.tolist(), "cpu_s": cpu_seconds() - self.cpu, "peak_kb": resident_kb("VmHWM")}
            ),
            file=self.answers,
            flush=True,
        )
        count = int(self.commands.readline() or 0)
        self.samples = array("q")
        self.cpu = cpu_seconds()
        return count


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_kb(line: str) -> int:
    found = re.search(rf"^{line}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if not found:
        sys.exit("this kernel reports no resident memory in /proc/self/status")
    return int(found[1])
