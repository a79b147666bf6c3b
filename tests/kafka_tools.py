"""Kafka's own command line tools."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from kafka_broker import TOOLS_VERSION, KafkaUnavailable, find_java, tools_jars

if TYPE_CHECKING:
    from conftest import Broker


def start_tool(name: str, broker: Broker, *arguments: str) -> subprocess.Popen[str]:
    """Start a tool by its class; the test is skipped where there are none."""
    try:
        java, jars = find_java(), tools_jars()
    except KafkaUnavailable as reason:
        pytest.skip(f"Kafka's tools {TOOLS_VERSION}: {reason}")
    options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command = [java, *options, "-cp", f"{jars}/*", name, "--bootstrap-server", broker.bootstrap_servers]
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_tool(name: str, broker: Broker, *arguments: str) -> str:
    """Return what a tool prints."""
    out, error = start_tool(name, broker, *arguments).communicate(timeout=60)
    return out + error
