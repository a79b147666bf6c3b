"""Compares klamm with other Kafka clients and a raw socket, in one run against one real broker.

    python benches/peers/run.py [--quick] [--records N] [--rounds N] [--only CASE,CLIENT,...]
                                [--bootstrap HOST:PORT] [--json FILE] [--markdown]

Every measurement runs in a separate process (`worker.py`). In each round, the clients run one after the other, in a rotating order. The
report shows medians. After each produce case, the script counts the records in the topic. If a client lost or duplicated a record, its
measurement fails. ../README.md explains how to read the report.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import json
import os
import platform
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import raw
import report
import workload
from clients import CLIENTS
from schedule import CASES, Broker, Schedule, Size, WorkerError, progress, worker
from topics import Topics

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).resolve().parents[2] / "tests" / "support"
sys.path.insert(0, str(TESTS))

FULL = Size(records=2_000_000, rounds=5, turns=100, imports=11)
QUICK = Size(records=200_000, rounds=2, turns=10, imports=3)

# The JVM options of Kafka's own start script. The small JVM that tests use would be the bottleneck.
JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")


def main() -> int:
    """Run the measurements and print the report. Return 1 if a measurement failed, otherwise 0."""
    options = arguments()
    size = QUICK if options.quick else FULL
    size = replace(size, records=options.records or size.records, rounds=options.rounds or size.rounds)
    described = {client: worker("describe", client) for client in CLIENTS}
    missing = {client: peer["missing"] for client, peer in described.items() if "missing" in peer}
    peers = {client: peer for client, peer in described.items() if client in options.clients and client not in missing}
    if not peers:
        sys.exit(
            "there is no client to measure: " + "; ".join(f"{client}: {reason}" for client, reason in missing.items())
        )
    facts: dict[str, Any] = {
        "date": dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine(),
        "load average at start": load_average(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        **{peer["name"]: peer["versions"] for peer in peers.values()},
        **{f"SKIPPED {client}": reason for client, reason in missing.items()},
        "size": f"{size.records:,} records (slow clients fewer), {size.rounds} rounds, {size.turns} turns of round trips",
        "settings": workload.summary(idempotence=options.idempotence),
    }
    began = time.monotonic()
    results = []
    with broker(options.bootstrap) as running, Topics(running.bootstrap) as topics:
        facts["broker"] = running.name
        schedule = Schedule(size, peers, topics, running, idempotence=options.idempotence)
        for case in options.cases:
            if case in workload.TLS and not running.tls:
                facts[f"SKIPPED {case}"] = "only the benchmark's own broker speaks TLS"
            else:
                results += schedule.run(case)
    progress("")
    facts["load average at end"] = load_average()
    facts["took"] = f"{time.monotonic() - began:.0f} s"
    if options.json:
        options.json.write_text(json.dumps({"facts": facts, "results": results}, indent=1), encoding="utf-8")
    print((report.markdown if options.markdown else report.text)(facts, results))
    return int(any("error" in result for result in results))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Compare klamm with other Kafka clients and a raw socket.")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"run {QUICK.records:,} records and {QUICK.rounds} rounds: a first look, not a result",
    )
    parser.add_argument(
        "--records",
        type=record_count,
        help=f"measure N records, a multiple of {workload.POOL:,} (default: {FULL.records:,})",
    )
    parser.add_argument("--rounds", type=int, help=f"run N rounds (default: {FULL.rounds})")
    parser.add_argument(
        "--only",
        default="",
        help=f"run only these, comma-separated: cases ({', '.join(CASES)}) and clients ({', '.join(CLIENTS)})",
    )
    parser.add_argument("--bootstrap", help="use this running cluster of one broker, instead of starting one")
    parser.add_argument(
        "--no-idempotence", dest="idempotence", action="store_false", help="disable idempotence in all producers"
    )
    parser.add_argument("--json", type=Path, help="write every single measurement to this file")
    parser.add_argument("--markdown", action="store_true", help="print the report as Markdown")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    for name in only:
        if name not in (*CASES, *CLIENTS):
            parser.error(f"--only: {name} is neither a case ({', '.join(CASES)}) nor a client ({', '.join(CLIENTS)})")
    options.cases = [case for case in CASES if case in only] or CASES
    options.clients = [client for client in CLIENTS if client in only] or CLIENTS
    return options


def record_count(text: str) -> int:
    count = int(text.replace("_", ""))
    if count <= 0 or count % workload.POOL:
        raise argparse.ArgumentTypeError(f"{text} is not a multiple of {workload.POOL:,}")
    return count


@contextlib.contextmanager
def broker(bootstrap: str | None) -> Iterator[Broker]:
    """Start a broker for the run, or use the broker that `--bootstrap` names."""
    if bootstrap:
        try:
            raw.Broker(bootstrap).close()
        except (OSError, ValueError) as problem:
            sys.exit(f"cannot connect to the broker at {bootstrap}: {problem}")
        yield Broker(bootstrap, f"{bootstrap}, started elsewhere")
        return
    from kafka_broker import KafkaUnavailable, RealKafka
    from klamm.testing import CertificateAuthority

    progress("starting Apache Kafka")
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as home:
        authority, server = Path(home, "ca.pem"), Path(home, "server.pem")
        vouching = CertificateAuthority()
        authority.write_text(vouching.pem, encoding="utf-8")
        server.write_text("".join(reversed(vouching.issue("broker", ["127.0.0.1"]))), encoding="utf-8")
        config = {"ssl.keystore.type": "PEM", "ssl.keystore.location": server}
        try:
            kafka = RealKafka(jvm_options=JVM, listeners={"SSL": "SSL"}, config=config).start()
        except KafkaUnavailable as reason:
            sys.exit(f"cannot start a broker: {reason}; pass --bootstrap to use a running one")
        name = f"Apache Kafka {kafka.version}, one node on loopback, {' '.join(JVM[:2])}"
        try:
            yield Broker(kafka.bootstrap_servers, name, kafka.addresses["SSL"], str(authority))
        finally:
            kafka.stop()


def machine() -> str:
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{model[1] if model else platform.machine()}, {os.cpu_count()} CPUs, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def load_average() -> str:
    return " ".join(f"{load:.2f}" for load in os.getloadavg())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except WorkerError as problem:
        sys.exit(f"the raw socket could not prepare the topic: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
