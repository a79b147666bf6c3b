"""The base class of the admin clients, which handles configuration, statistics, metrics and closing.

This file depends only on `calls.py`, so that a client with a few methods does not import the files of all methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.admin.calls import Calls
from klamm.statistics import pop_statistics_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self, Unpack

    from klamm.config import AdminConfig, Bootstrap
    from klamm.metrics import AdminMetrics


class _Admin(Calls):
    """The base class of all admin clients."""

    _close_timeout = 0.0

    def __new__(
        cls,
        bootstrap_servers: Bootstrap | None = None,
        *,
        stats_cb: Callable[[str], object] | None = None,
        **config: Unpack[AdminConfig],
    ) -> Self:
        bootstrap_servers, stats = pop_statistics_options(bootstrap_servers, stats_cb, config)
        self: Self = super().__new__(cls, bootstrap_servers, **config)
        if stats is not None:
            stats.start(self, "admin")
        return self

    def metrics(self) -> AdminMetrics:
        """Return a snapshot of the client's metrics. Metrics have the names that the Java client uses.

        After the client is closed, this method returns the last values.
        """
        from klamm.metrics import AdminMetrics

        return AdminMetrics._of(self)

    async def _end(self, timeout: float | None, processed: bool | None) -> None:  # noqa: ARG002
        self._close()
