"""A wall clock that jumps: waits, sessions and timeouts use elapsed time, and timestamps follow the clock."""

from __future__ import annotations

import mmap
import os
import shutil
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "support" / "clock.c"
# A broker refuses timestamps that are more than an hour ahead.
JUMPS_S = [0, 1_800, -86_400, 0]
LEEWAY_S = 60

# Says what the clock is, waits for a line, and does a bit of everything that has a timeout.
PROGRAM = """
    import sys, time
    import klamm
    servers, topic = sys.argv[1:]
    group = {"group_id": topic, "topics": [topic], "auto_offset_reset": "earliest", "auto_commit_interval_ms": 100}
    plain = klamm.Producer(servers, delivery_timeout_ms=20_000, request_timeout_ms=5_000, linger_ms=20)
    packed = klamm.Producer(servers, transactional_id=topic, transaction_timeout_ms=10_000)
    with plain, packed, klamm.Consumer(servers, **group, session_timeout_ms=6_000, max_poll_interval_ms=20_000) as consumer:
        for line in sys.stdin:
            sent = plain.send(topic, line.encode()).result(timeout=20)
            with packed.transaction() as tx:
                tx.send(topic, line.encode())
            found = []
            while len(found) < 2:
                records = consumer.poll(timeout=20)
                assert records, f"nothing came within 20 s: {found}"
                found += [record.value for record in records]
            assert found == [line.encode()] * 2, found
            # A producer looks at the clock once a second.
            assert not consumer.poll(timeout=1.1), "what was read came again"
            print(time.time(), sent.timestamp_ms / 1000, flush=True)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("the wrong clock is a library for Linux, made by a C compiler")
    path = tmp_path_factory.mktemp("clock") / "clock.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", path, SOURCE], check=True)
    return path


def test_a_clock_that_jumps_only_moves_timestamps(broker, topic, library, tmp_path):
    page = tmp_path / "seconds"
    page.write_bytes(bytes(mmap.PAGESIZE))
    environment = {**os.environ, "LD_PRELOAD": str(library), "KLAMM_TEST_CLOCK": str(page)}
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), broker.bootstrap_servers, topic]
    with (
        page.open("r+b") as file,
        mmap.mmap(file.fileno(), mmap.PAGESIZE) as clock,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as process,
    ):
        for jump in JUMPS_S:
            clock[:8] = struct.pack("=q", jump)
            process.stdin.write(f"jump of {jump}\n")
            process.stdin.flush()
            words = process.stdout.readline().split()
            assert words, process.stderr.read()
            for moment in map(float, words):
                assert abs(moment - time.time() - jump) < LEEWAY_S
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
