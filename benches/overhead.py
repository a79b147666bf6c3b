"""Measures the cost of metrics and flight recorder, as their fraction of the instructions in produce and consume loops.

    cargo build --locked --lib --profile extension --features python
    python benches/overhead.py target/extension/libklamm.so

Each loop runs in valgrind's callgrind, which counts the instructions of each source line. So the counts do not depend on the
load of the machine. The cost of a source file includes the functions that its lines call. Callgrind does not count the
instructions of the kernel. The script measures the CPU time without valgrind, so the CPU time includes the kernel. The
extension needs line tables, which the extension in a wheel does not have. The loop `start` measures the cost of
starting a client, and the script subtracts this cost.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python" / "klamm"
RECORDS = 400_000
PARTS = {
    "metrics": re.compile(r"src/engine/(metrics/|network/metrics\.rs|\w+/(measured|families)\.rs)"),
    "flight recorder": re.compile(r"src/(logging/\w+|engine/connection/traces)\.rs"),
}

BROKER = "import klamm.testing as t, sys; b = t.DevBroker().start(); print(b.bootstrap_servers, flush=True); sys.stdin.read()"
PRODUCER = "klamm.Producer(servers, linger_ms=5, buffer_memory=1 << 28)"
LOOPS = {
    "start": f"""
with {PRODUCER} as producer:
    producer.send("start", b"x").result()
with klamm.Consumer(servers) as consumer:
    consumer.assign([klamm.TopicPartition("start", 0, offset=0)])
    consumer.poll(10)
""",
    "send": f"""
with {PRODUCER} as producer:
    value = b"v" * 100
    for _ in range({RECORDS}):
        producer.send_nowait("send", value)
""",
    "send_many": f"""
with {PRODUCER} as producer:
    for _ in range(4):
        producer.send_many("many", [b"v" * 100] * {RECORDS // 4})
""",
    "send and wait": """
with klamm.Producer(servers) as producer:
    for _ in range(2000):
        producer.send("round-trips", b"x").result()
""",
    "poll": f"""
with klamm.Consumer(servers) as consumer:
    consumer.assign([klamm.TopicPartition("full", 0, offset=0, end_offset={RECORDS})])
    while consumer.poll(10):
        pass
""",
    "iterate": f"""
with klamm.Consumer(servers) as consumer:
    consumer.assign([klamm.TopicPartition("full", 0, offset=0, end_offset={RECORDS})])
    for record in consumer:
        record.value
""",
}
FILL = f"""
with {PRODUCER} as producer:
    producer.send_many("full", [b"v" * 100] * {RECORDS}, partition=0)
"""


def counted(profile: Path) -> Counter[str]:
    """Return the number of instructions of each part, and of the whole program as "all"."""
    counts: Counter[str] = Counter()
    file, callee, is_call = "", "", False

    def part(name: str) -> str | None:
        return next((part for part, pattern in PARTS.items() if pattern.search(name)), None)

    for line in profile.read_text(errors="replace").splitlines():
        if line.startswith(("fl=", "fi=", "fe=")):
            file = callee = line[3:]
        elif line.startswith(("cfi=", "cfl=")):
            callee = line[4:]
        elif line.startswith("calls="):
            is_call = True
        elif line and line[0] in "0123456789+-*" and len(fields := line.split()) > 1:
            cost, here = int(fields[1]), part(file)
            # Do not count a call from a part to the same part here, because the called lines already count for the
            # part.
            if here and (not is_call or part(callee) != here):
                counts[here] += cost
            counts["all"] += 0 if is_call else cost
            is_call, callee = False, file
    return counts


def main() -> None:
    """Print the fraction of each part in each loop."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extension", type=Path, help="an optimised extension with line tables")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE, Path(folder, "klamm"), ignore=shutil.ignore_patterns("*.so"))
        shutil.copy(parser.parse_args().extension, Path(folder, "klamm", "_klamm.abi3.so"))
        environment = os.environ | {"PYTHONPATH": folder}
        with subprocess.Popen(
            [sys.executable, "-c", BROKER], stdin=-1, stdout=-1, text=True, env=environment
        ) as broker:
            assert broker.stdin
            assert broker.stdout
            servers = broker.stdout.readline().strip()

            def run(loop: str, *tool: str) -> None:
                program = f"import klamm\nservers = {servers!r}\n{loop}"
                subprocess.run([*tool, sys.executable, "-c", program], env=environment, check=True, capture_output=True)

            def profiled(loop: str) -> Counter[str]:
                profile = Path(folder, "profile")
                options = "--dump-line=yes", "--compress-strings=no", "--compress-pos=no"
                run(loop, "valgrind", "--tool=callgrind", f"--callgrind-out-file={profile}", *options)
                return counted(profile)

            def cpu_seconds(loop: str) -> float:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                run(loop)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

            run(FILL)
            start, cpu_of_start = profiled(LOOPS["start"]), cpu_seconds(LOOPS["start"])
            print("| loop | CPU ms | million instructions |", *(f"{name} |" for name in PARTS))
            print("|---" * (3 + len(PARTS)) + "|")
            for name, loop in LOOPS.items():
                if name == "start":
                    continue
                spent = profiled(loop) - start
                shares = [f"{spent[part] / spent['all']:.2%} |" for part in PARTS]
                cpu = 1000 * (cpu_seconds(loop) - cpu_of_start)
                print(f"| {name} | {cpu:,.0f} | {spent['all'] / 1e6:,.0f} |", *shares)
            broker.stdin.close()


if __name__ == "__main__":
    main()
