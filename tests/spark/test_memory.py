"""Memory of Python workers: below 256 MB for any size and number of records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import NamedTuple

import pytest

import klamm

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(200),
    pytest.mark.skipif(sys.platform != "linux", reason="memory of processes: /proc"),
]

MOST_MB = 256
MB = 1_000_000


class Records(NamedTuple):
    """Records of a topic."""

    count: int
    size: int
    compression: str
    before: int = 0
    """Of a few bytes each, which come first, so that a reader that goes by them expects little of the next."""

    @property
    def value(self) -> bytes:
        """Return a value that compresses to almost nothing, or one that does not compress."""
        return b"v" * self.size if self.compression == "zstd" else os.urandom(self.size)


RECORDS = {
    "tiny": Records(300_000, 8, "none"),
    "text": Records(20_000, 10_000, "zstd"),
    "noise": Records(6_000, 10_000, "none"),
    "large-text": Records(200, MB, "zstd"),
    "large-noise": Records(60, MB, "none"),
    "huge-text": Records(40, 5 * MB, "zstd"),
    "large-after-tiny": Records(200, MB, "zstd", before=200_000),
}

DRIVER = """
import json
import sys
from pathlib import Path
from local_spark import builder, worker_peaks

bootstrap, scratch, expected, largest = sys.argv[1:]
spark = builder(Path(scratch)).config("spark.sql.execution.arrow.maxBytesPerBatch", "16m").getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap, "kafka.max.request.size": largest, "kafka.compression.type": "zstd"}
for topic, count in json.loads(expected).items():
    rows = spark.read.format("klamm").options(**options, subscribe=topic).load().select("value")
    assert rows.selectExpr("count(value)").first()[0] == count
    print(json.dumps([f"read {topic}", max(worker_peaks().values())]))
    rows.write.format("klamm").options(**options, topic=f"{topic}-copy").mode("append").save()
    print(json.dumps([f"write {topic}", max(worker_peaks().values())]))
spark.stop()
"""


def test_workers_need_little_whatever_the_records(real_cluster, topic, tmp_path):
    topics = {f"{topic}-{name}": records for name, records in RECORDS.items()}
    for name, records in topics.items():
        real_cluster.create(name, partitions=2)
        real_cluster.create(f"{name}-copy", partitions=2)
        with klamm.Producer(
            real_cluster.bootstrap, compression_type=records.compression, max_request_size=2 * records.size + MB
        ) as producer:
            producer.send_many(name, [b"tiny"] * records.before)
            sent, value = 0, records.value
            while sent < records.count:
                some = min(records.count - sent, max(1, 10 * MB // records.size))
                producer.send_many(name, [value] * some)
                sent += some
            producer.flush()
    expected = json.dumps({name: records.before + records.count for name, records in topics.items()})
    largest = str(2 * max(records.size for records in topics.values()))
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, real_cluster.bootstrap, str(tmp_path), expected, largest],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    peaks = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(peaks) == 2 * len(topics)
    most = max(peak for _, peak in peaks)
    assert most < MOST_MB, ", ".join(f"{what.replace(topic, '')} {peak:.0f}" for what, peak in peaks)
    for name, records in topics.items():
        with klamm.Consumer(real_cluster.bootstrap) as consumer:
            ends = consumer.end_offsets([klamm.TopicPartition(f"{name}-copy", number) for number in range(2)])
        assert sum(ends.values()) == records.before + records.count
