"""A Kafka cluster inside the process, for tests of your own.

    def test_orders(klamm_broker):
        with klamm.Producer(klamm_broker.bootstrap_servers) as producer: ...

The fixture `klamm_broker` comes with the package (pytest finds it by itself); `DevBroker` is the same by hand. Other
clients than klamm work with it, too. It is in memory and replicates nothing: not for production.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from klamm._klamm import DevBrokerCore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["DevBroker"]


class DevBroker(DevBrokerCore):
    """A small Kafka cluster in this process.

        with DevBroker(brokers=3) as broker:
            producer = klamm.Producer(broker.bootstrap_servers)

    It runs while the `with` lasts, or from `start()` to `stop()`. `port` is that of the first node; 0 takes a free one.
    """

    @property
    def bootstrap_servers(self) -> str:
        """Where its nodes listen, as `host:port,host:port`; empty while it does not run."""
        return ",".join(self._addresses())

    def start(self) -> Self:
        """Start the cluster, and return it. Starting one that runs does nothing."""
        self._start()
        return self

    def stop(self) -> None:
        """End the cluster and everything in it."""
        self._stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<klamm.testing.DevBroker at {self.bootstrap_servers or 'rest'}>"


# pytest has imported itself when it loads this as its plugin; a program that only wants a broker needs no pytest.
if "pytest" in sys.modules:
    import pytest

    @pytest.fixture
    def klamm_broker() -> Iterator[DevBroker]:
        """Give a test a Kafka cluster of its own: one node, in this process."""
        with DevBroker() as broker:
            yield broker
