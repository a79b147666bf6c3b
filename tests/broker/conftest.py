"""Fixtures for tests that talk to a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import klamm
from styles import Style

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Broker


@pytest.fixture(params=["sync", "async"])
def style(request: pytest.FixtureRequest) -> Iterator[Style]:
    """Both styles of the API."""
    chosen = Style(request.param)
    yield chosen
    chosen.close()


@pytest.fixture
def partitioned(broker: Broker, topic: str) -> str:
    """A topic with four partitions."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=4)})
    return topic
