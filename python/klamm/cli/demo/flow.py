"""Runs the demo's four stages: start a broker, produce lines, run the pipeline, and read the result back.

At the end, the counts must be equal to the counts of the files on disk. The demo ends its processes even after an error or
a signal. The demo deletes its topics unless `--keep` is set.
"""

from __future__ import annotations

import secrets
import signal
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import klamm
from klamm.cli.clients import CLOSE_SECONDS, closing
from klamm.cli.demo.corpus import Count, find_corpus
from klamm.cli.demo.result import (
    Stage,
    differences,
    read_packages,
    show_packages,
    show_stages,
    show_verdict,
    total_of,
)
from klamm.cli.demo.spark_job import check_prerequisites, spark_job
from klamm.cli.output import CommandError, counted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from types import FrameType

    from klamm.cli.demo.corpus import Corpus
    from klamm.cli.output import Output

PARTITIONS = 4
NODES = 3


def run(args: argparse.Namespace, output: Output, corpus: Corpus | None = None) -> int:
    """Run the demo, with the lines of `corpus` or else of `--input`."""
    if args.keep and not args.bootstrap:
        raise CommandError(
            "--keep needs --bootstrap",
            "pass both options, or leave --keep out: the dev broker and its topics end with the demo",
        )
    check_prerequisites()
    corpus = corpus or find_corpus(args.input)
    with sigterm_as_exit(), ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="klamm-demo-", ignore_cleanup_errors=True)))
        try:
            topics = prepare(args, output, stack)
            return stages(topics, corpus, folder, output)
        except KeyboardInterrupt:
            # A second Ctrl+C must not interrupt the clean-up.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise


@dataclass(frozen=True)
class Topics:
    """Names of the demo's topics, and the bootstrap address of the cluster with these topics."""

    bootstrap: str
    lines: str
    result: str


def prepare(args: argparse.Namespace, output: Output, stack: ExitStack) -> Topics:
    """Stage 1: start a dev broker or use the cluster of `--bootstrap`, and create two topics. `stack` cleans up at the end."""
    if args.bootstrap:
        bootstrap = str(args.bootstrap)
        output.say(f"1/4 broker: the cluster at {bootstrap}")
    else:
        from klamm.testing import DevBroker

        bootstrap = stack.enter_context(DevBroker(brokers=NODES)).bootstrap_servers
        output.say(f"1/4 broker: {NODES} nodes in this process, at {bootstrap}")
    run_id = secrets.token_hex(4)
    topics = Topics(bootstrap, f"klamm-demo-lines-{run_id}", f"klamm-demo-result-{run_id}")
    names = [topics.lines, topics.result]
    if args.bootstrap and not args.keep:
        # Register the clean-up before the request, which may create the topics even if a signal interrupts the request.
        stack.push(lambda kind, *_: delete_topics(bootstrap, names, output, kind))
    with klamm.Admin(bootstrap) as admin:
        admin.create_topics(dict.fromkeys(names, klamm.NewTopic(partitions=PARTITIONS)))
    output.say(f"    topics {topics.lines} and {topics.result}, {PARTITIONS} partitions each")
    return topics


def delete_topics(bootstrap: str, names: list[str], output: Output, failure: type[BaseException] | None) -> None:
    """Delete the demo's topics, with a short timeout if the demo failed. If the deletion fails, print the error."""
    try:
        with klamm.Admin(bootstrap) as admin:
            admin.delete_topics(names, timeout=CLOSE_SECONDS if failure else None)
    except klamm.KafkaError as error:
        # If the demo failed because of the cluster, it has already reported that error.
        if failure is None or not issubclass(failure, klamm.KafkaError):
            output.say(f"could not delete topics {' and '.join(names)}: {error}")


def stages(topics: Topics, corpus: Corpus, folder: Path, output: Output) -> int:
    """Run stages 2 to 4 and compare the counts."""
    produced = produce(topics, corpus, output)
    piped = pipe(topics, corpus.total, folder, output)

    output.say(f"4/4 read back: reading the result from {topics.result}")
    started = time.monotonic()
    with closing(klamm.Consumer(topics.bootstrap)) as consumer:
        packages, read = read_packages(consumer, topics.result)
    timed = [produced, piped, Stage("read back", read, time.monotonic() - started)]

    expected = {name: count for name, count in corpus.counts.items() if count.records}
    wrong = differences(expected, packages)
    show_packages(output, packages)
    show_stages(output, timed)
    show_verdict(output, corpus.total, total_of(packages), wrong)
    if output.json:
        output.result(
            {
                "exact": not wrong,
                "expected": vars(corpus.total),
                "found": vars(total_of(packages)),
                "differences": wrong,
                "stages": [stage.fields() for stage in timed],
                "packages": {
                    name: {**vars(package.count), "identifiers": package.identifiers}
                    for name, package in sorted(packages.items())
                },
                "source_topic": topics.lines,
                "result_topic": topics.result,
            }
        )
    return 1 if wrong else 0


def produce(topics: Topics, corpus: Corpus, output: Output) -> Stage:
    """Stage 2: produce each line as one record."""
    output.say(f"2/4 produce: sending the lines of {counted(len(corpus.sources), 'file')} to {topics.lines}")
    started = time.monotonic()
    producer = klamm.Producer(topics.bootstrap)
    with closing(producer), output.progress("produce", corpus.size) as advance:
        for key, lines in corpus.batches():
            producer.send_many(topics.lines, lines, keys=[key] * len(lines))
            advance(sum(map(len, lines)) + len(lines), len(lines))
        producer.flush()
    stage = Stage("produce", corpus.total, time.monotonic() - started)
    output.say(f"    {counted(stage.count.records, 'record')}, {counted(stage.count.bytes, 'byte')}, all acknowledged")
    return stage


def pipe(topics: Topics, produced: Count, folder: Path, output: Output) -> Stage:
    """Stage 3: run the Spark pipeline in a separate process."""
    output.say("3/4 pipeline: starting Spark's JVM, which takes some seconds")
    result: dict[str, float] = {}
    with (
        spark_job(topics.bootstrap, topics.lines, topics.result, folder) as job,
        output.progress("pipeline", None) as advance,
    ):
        shown = 0
        for event in job.events():
            if "started" in event:
                output.say(f"    Spark {event['started']} is running; aggregating {topics.lines} into {topics.result}")
            rows = event.get("rows", shown)
            advance(rows - shown, rows - shown)
            shown = rows
            result = event.get("result", result)
    records = int(result["input_rows"])
    output.say(f"    {counted(records, 'row')} in {result['seconds']:.1f} s")
    return Stage("pipeline", Count(records, produced.bytes), result["seconds"])


@contextmanager
def sigterm_as_exit() -> Iterator[None]:
    """In the block, raise `SystemExit` for SIGTERM, so that the clean-up ends the JVM.

    After the block, restore the signal handlers.
    """

    def terminate(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    interrupt = signal.getsignal(signal.SIGINT)
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, interrupt)
