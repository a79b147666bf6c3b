"""A consumer whose application does not read holds little more than its prefetch limit, for topics of any size.

`KLAMM_PREFETCH_MB` is the size of the topic; `make soak` has 1,000.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import klamm

MB = int(os.environ.get("KLAMM_PREFETCH_MB") or 200)
PARTITIONS = 64
BESIDES = 32 << 20
"""A response of which the application holds records, up to 8 MiB, and the client itself."""

PROGRAM = """
    import resource, sys, time
    from pathlib import Path
    import klamm

    ROWS = 5_000

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def until_idle():
        sizes = [0]
        while len(sizes) < 10 or max(sizes[-10:]) != min(sizes[-10:]):  # half a second in which nothing came
            time.sleep(0.05)
            sizes.append(resident())

    servers, topic, partitions, bound, records, how = sys.argv[1:]
    places = [klamm.TopicPartition(topic, number) for number in range(int(partitions))]
    with klamm.Consumer(servers, queued_max_bytes=int(bound)) as consumer:
        ends = consumer.end_offsets(places)
        consumer.partitions_for(topic)
        if how == "arrow":
            import pyarrow
        before, most, count = resident(), 0, 0
        consumer.assign([klamm.TopicPartition(topic, p.partition, 0, end) for p, end in ends.items()])
        parts = iter(consumer.arrow(max_rows=ROWS)) if how == "arrow" else iter(lambda: consumer.poll(10, max_records=ROWS), [])
        steps = [int(records) * part // 4 for part in range(1, 4)]
        while count < int(records):
            part = next(parts)
            count += part.num_rows if how == "arrow" else len(part)
            if steps and count > steps[0]:
                steps.pop(0)
                until_idle()
            most = max(most, resident())
        print(most - before)
"""


@pytest.fixture(scope="module", params=["none", "zstd"])
def filled(broker, request):
    """Create a topic. A compressed one fits into a single response."""
    compression = request.param
    topic, value = f"soak-prefetch-{compression}", os.urandom(1_000) if compression == "none" else bytes(1_000)
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=PARTITIONS)})
        settings = {"batch_size": 1_000_000, "compression_type": compression}
        with klamm.Producer(broker.bootstrap_servers, **settings) as producer:
            for number in range(MB):
                producer.send_many(topic, [value] * 1_000, partition=number % PARTITIONS)
            producer.flush(300)
        yield topic
        admin.delete_topics([topic])


@pytest.mark.skipif(sys.platform != "linux", reason="memory comes from /proc")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["poll", "arrow"])
@pytest.mark.parametrize("bound", [8 << 20, 64 << 20], ids=["8 MiB", "64 MiB"])
def test_what_is_fetched_ahead_is_bounded(broker, filled, bound, how):
    """The limit of klamm's own memory. docs/fetching.md describes what the allocator keeps in addition."""
    arguments = [broker.bootstrap_servers, filled, str(PARTITIONS), str(bound), str(MB * 1_000), how]
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), *arguments]
    # Else glibc takes large answers from its heap after the first one, and keeps the holes they leave.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": str(128 << 10)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0, ended.stderr
    grown = int(ended.stdout)
    assert grown < bound + BESIDES, f"{grown >> 20} MiB"
