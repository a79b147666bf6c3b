"""Runs Kafka's Java client and command line tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kafka_broker import VERSION, KafkaUnavailable, find_java, tools_jars

CLIENTS = (VERSION, "3.9.2")
TIMEOUT = 60.0  # seconds; 1 to 3 where nothing else runs
_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
TOOLS = {
    "Acls": "org.apache.kafka.tools.AclCommand",
    "Configs": "org.apache.kafka.tools.ConfigCommand",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "ConsoleShareConsumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "ConsumerGroups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "Features": "org.apache.kafka.tools.FeatureCommand",
    "GetOffsets": "org.apache.kafka.tools.GetOffsetShell",
    "LogDirs": "org.apache.kafka.tools.LogDirsCommand",
    "MetadataQuorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "ProducerPerformance": "org.apache.kafka.tools.ProducerPerformance",
    "Reassign": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "ShareGroups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "Transactions": "org.apache.kafka.tools.TransactionsCommand",
    "Topics": "org.apache.kafka.tools.TopicCommand",
}


def java(version: str = VERSION) -> list[str]:
    """Return the command that runs a class or source file with a version of the client, or skip the test."""
    try:
        return [find_java(), *_OPTIONS, "-cp", f"{tools_jars(version)}/*"]
    except KafkaUnavailable as reason:
        pytest.skip(f"Kafka's Java client and tools {version}: {reason}")


def run(command: list[str]) -> str:
    """Run a program that must succeed, and return its output."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def java_tool(name: str, bootstrap_servers: str, *arguments: str, version: str = VERSION) -> str:
    """Run one of Kafka's tools and return its output. Some tools take the broker's address in another way."""
    where = ["--bootstrap-server", bootstrap_servers] if bootstrap_servers else []
    return run([*java(version), TOOLS[name], *where, *arguments])


def java_source(name: str, *arguments: str, version: str = VERSION) -> str:
    """Run a Java source file of these tests and return its output."""
    command = java(version)
    if not Path(command[0]).resolve().with_name("javac").exists():
        pytest.skip("javac is not installed: programs are run from their source, with a JDK")
    return run([*command, str(Path(__file__).with_name(name)), *arguments])
