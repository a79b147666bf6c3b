"""`klamm.pipeline`: its counts and its progress reports. `make soak-spark` also kills its driver."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from klamm import pipeline
from klamm.examples import log_lines
from klamm.spark.progress import ProgressLog
from local_spark import short_lived
from settled import wait_until_settled

pytestmark = [pytest.mark.spark, pytest.mark.limits]

SEEDS = int(os.environ.get("KLAMM_SPARK_SEEDS", "1"))

QUERIES = ("counts", "dead letters")

# A copy of loghub, which is not part of the project.
LOGHUB = os.environ.get("KLAMM_LOGHUB")


@pytest.fixture
def topics(real, topic):
    """Create topics for lines, counts and dead letters."""
    names = [f"{topic[:60]}-{topic[-3:]}-{what}" for what in ("lines", "counts", "dead")]
    for name in names:
        real.create(name, partitions=2)
    return names


def expected(lines):
    """Count the valid lines, by the rules of the generated lines."""
    lines_of, bytes_of, dead = Counter(), Counter(), Counter()
    for system, line in lines:
        found = re.match(rb"(\S{16})\S+ ([A-Z]+) ", line)
        if system not in pipeline.SYSTEMS:
            dead["unknown system", line] += 1
        elif found is None:
            dead["no time", line] += 1
        else:
            name = f"{found[1].decode()}:00", system, found[2].decode()
            lines_of[name] += 1
            bytes_of[name] += len(line)
    return {name: (count, bytes_of[name]) for name, count in lines_of.items()}, dead


def found(kafka, counts, dead):
    """Read the results, and fail if a row of counts is missing or duplicated."""
    for topic in (counts, dead):
        wait_until_settled(kafka.bootstrap, topic)
    rows = [json.loads(record.value) for record in kafka.records(counts, isolation_level="read_committed")]
    windows = {(row["from"], row["system"], row["level"]): (row["lines"], row["bytes"]) for row in rows}
    assert len(windows) == len(rows)
    letters = kafka.records(dead, isolation_level="read_committed")
    return windows, Counter((dict(record.headers)["why"].decode(), record.value) for record in letters)


def run(kafka, topics, checkpoint, progress=None, **options):
    """Run the pipeline over the existing lines."""
    queries = pipeline.start(kafka.spark, kafka.bootstrap, pipeline.Topics(*topics), checkpoint, **options)
    pipeline.wait(queries, None if progress is None else ProgressLog(progress))


def kill_in_mid_run(kafka, topics, tmp_path, seed):
    """Run the pipeline in a process of its own, and kill it after one or more batches."""
    chance = random.Random(seed)
    names = [f"--{name}={topic}" for name, topic in zip(("source", "result", "dead-letters"), topics, strict=True)]
    progress = tmp_path / "progress.jsonl"
    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            [
                *(sys.executable, "-m", "klamm.pipeline", f"--bootstrap={kafka.bootstrap}", *names),
                *(f"--checkpoint={tmp_path}/checkpoint", "--rows-per-batch=500", f"--progress={progress}"),
            ],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "JDK_JAVA_OPTIONS": short_lived()},
        )
    try:
        while not progress.exists() or progress.read_bytes().count(b"\n") < 1 + seed % 5:
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 1))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    return progress


def check(kafka, topics, lines, progress):
    """Compare the results with the input."""
    windows, dead = found(kafka, *topics[1:])
    assert (windows, dead) == expected(lines)
    assert len(dead) > 10
    batches = {(row["query"], row["batch"]): row for row in map(json.loads, progress.read_text().splitlines())}
    done = {name: [row for (query, _), row in sorted(batches.items()) if query == name] for name in QUERIES}
    for rows in done.values():
        lags = [row["lag"] for row in rows if row["lag"] is not None]  # a batch that was begun before has not asked
        assert lags[-1] == 0 < max(lags)
        assert sum(row["late"] for row in rows) == 0
        assert all(row["seconds"] > 0 and row["bytes"] > 20 * row["records"] for row in rows if row["records"])
    return [sum(row["records"] for row in rows) for rows in done.values()]


def test_a_run_continues_where_the_last_one_ended_and_counts_every_line_once(real, topics, tmp_path):
    lines = list(log_lines.generated(5_000))
    progress = tmp_path / "progress.jsonl"
    for part in (lines[:3000], [*lines[3000:], log_lines.END]):
        log_lines.send(real.bootstrap, topics[0], part)
        run(real, topics, tmp_path / "checkpoint", progress, rows_per_batch=2_000)
    assert check(real, topics, lines, progress) == [5_001, 5_001]


def test_a_continuous_pipeline_counts_lines_that_arrive_while_it_runs(real, topics, tmp_path):
    lines = list(log_lines.generated(2_000))
    queries = pipeline.start(real.spark, real.bootstrap, pipeline.Topics(*topics), tmp_path / "checkpoint", follow=True)
    try:
        for part in (lines[:1_000], [*lines[1_000:], log_lines.END]):
            log_lines.send(real.bootstrap, topics[0], part)
            for query in queries:
                query.processAllAvailable()
        assert all(query.isActive for query in queries)
    finally:
        for query in queries:
            query.stop()
    assert found(real, *topics[1:]) == expected(lines)


@pytest.mark.timeout(200)
def test_the_example_counts_and_draws(dev_broker, tmp_path):
    example = Path(__file__).parents[2] / "examples" / "log_pipeline.py"
    done = subprocess.run(
        [sys.executable, example, dev_broker.bootstrap_servers, "--lines", "2000"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "JDK_JAVA_OPTIONS": short_lived()},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith("2,000 lines in topic logs-")
    (report,) = tmp_path.glob("logs-*/report.html")
    assert "<svg" in report.read_text()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_counts_are_exact_though_the_driver_is_killed(real, topics, tmp_path, seed):
    lines = list(log_lines.generated(5_000, seed))
    log_lines.send(real.bootstrap, topics[0], lines)
    progress = kill_in_mid_run(real, topics, tmp_path, seed)
    log_lines.send(real.bootstrap, topics[0], [log_lines.END])
    run(real, topics, tmp_path / "checkpoint", progress, rows_per_batch=2_000)
    # A batch that ended with its driver was not reported.
    assert all(0 < records <= 5_001 for records in check(real, topics, lines, progress))


@pytest.mark.skipif(LOGHUB is None, reason="KLAMM_LOGHUB names no copy of loghub")
def test_real_logs_are_counted_or_explained(real, topics, tmp_path):
    """
    Real log lines from loghub, https://github.com/logpai/loghub: Jieming Zhu, Shilin He, Pinjia He, Jinyang Liu, Michael R. Lyu. Loghub: A
    Large Collection of System Log Datasets for AI-driven Log Analytics. ISSRE, 2023. Free for research under the LICENSE in their folder.
    """
    lines = list(log_lines.of_folder(Path(LOGHUB)))
    log_lines.send(real.bootstrap, topics[0], lines)
    options = {"window": "1 day", "lateness": "10000 days"}  # the years of the systems are not the same
    run(real, topics, tmp_path, **options)
    log_lines.send(real.bootstrap, topics[0], [log_lines.END])
    run(real, topics, tmp_path, **options)
    windows, dead = found(real, *topics[1:])
    counted = Counter()
    for (_, system, _), (count, _) in windows.items():
        counted[system] += count
    total = Counter(system for system, _ in lines)
    # One file of HDFS and its like is 2,000 lines, all of which have a time; systems whose times have no year are unknown.
    assert counted == {system: total[system] for system in pipeline.SYSTEMS if system in total}
    assert Counter(why for why, _ in dead.elements()) == {"unknown system": 32_000 - counted.total()}
