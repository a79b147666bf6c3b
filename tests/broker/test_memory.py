"""Reads batches that do not fit into memory. The process continues, and reads the batches when there is memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import klamm
from klamm.testing import DevBroker

SIZE = 100 << 20
COUNT = 3

PROGRAM = """
    import resource, sys
    from pathlib import Path
    import klamm

    servers, how, spare = sys.argv[1:]
    partition = klamm.TopicPartition("t", 0)

    def table():
        return klamm.read_table(servers, "t").num_rows

    def poll():
        with klamm.Consumer(servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([partition])
            count = 0
            while count < COUNT:
                count += sum(len(record.value) == SIZE for record in consumer.poll(20))
            return count

    def limit(to):
        resource.setrlimit(resource.RLIMIT_AS, (to, resource.RLIM_INFINITY))

    with klamm.Consumer(servers) as consumer:
        consumer.end_offsets([partition])
    import pyarrow
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    read = {"table": table, "poll": poll}[how]
    limit(size + (int(spare) << 20))
    try:
        print(read())
    except MemoryError as error:
        print(type(error).__name__)
    limit(resource.RLIM_INFINITY)
    print(read())
""".replace("COUNT", str(COUNT)).replace("SIZE", str(SIZE))


@pytest.fixture(scope="module", params=["gzip", "snappy", "lz4", "zstd"])
def filled(request):
    with DevBroker(config={"message.max.bytes": SIZE}) as broker:
        settings = {"compression_type": request.param, "max_request_size": 2 * SIZE, "buffer_memory": 2 * SIZE}
        with klamm.Producer(broker.bootstrap_servers, **settings) as producer:
            for _ in range(COUNT):
                producer.send("t", bytes(SIZE), partition=0).result(60)
        yield broker


@pytest.mark.skipif(sys.platform != "linux", reason="the program limits its address space")
@pytest.mark.parametrize("how", ["table", "poll"])
@pytest.mark.parametrize("spare", [60, 180])
def test_a_batch_without_memory_is_an_error_and_can_be_read_later(filled, how, spare):
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), filled.bootstrap_servers, how, str(spare)]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    first, second = done.stdout.split()
    assert first in (str(COUNT), "OutOfMemoryError", "MemoryError", "ArrowMemoryError")
    assert second == str(COUNT)
