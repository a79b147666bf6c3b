"""Starts brokers for fixtures, and skips the tests on a machine that cannot run Apache Kafka."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

import pytest

from kafka_broker import KafkaUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

T = TypeVar("T")


@contextlib.contextmanager
def or_skip(nodes: AbstractContextManager[T], name: str = "real Kafka") -> Iterator[T]:
    """Start nodes, and stop them afterwards. Skip the test if the machine lacks something that they need."""
    with contextlib.ExitStack() as running:
        try:
            started = running.enter_context(nodes)
        except KafkaUnavailable as reason:
            pytest.skip(f"{name}: {reason}")
        yield started
