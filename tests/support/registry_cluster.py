"""Fixtures of test modules that need one dev broker with a schema registry: a module imports the two fixtures.

The root `conftest` has other fixtures for tests of both brokers and both registries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from klamm.registry import SchemaRegistry
from klamm.testing import DevBroker

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cluster", "registry"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[DevBroker]:
    """A dev broker with a schema registry."""
    with DevBroker(schema_registry=True) as running:
        yield running


@pytest.fixture(scope="module")
def registry(cluster: DevBroker) -> Iterator[SchemaRegistry]:
    """A client of the registry."""
    with SchemaRegistry(cluster.schema_registry.url) as client:
        yield client
