"""Client telemetry: the client's instance ID (KIP-714), and metrics that the application registers (KIP-1076).

The Rust core pushes metrics to brokers that subscribe to metrics. The core's I/O thread never runs Python, so a thread
of this module calls the functions of the application's metrics.
"""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING, Any

from klamm.arguments import check_function
from klamm.errors import ArgumentError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from klamm._klamm import ClientCore

__all__: list[str] = []

_log = logging.getLogger("klamm.telemetry")

SAMPLE_S = 1.0
"""Interval between two calls of a metric's function, in seconds."""


class _Registered:
    """The metrics that the application registered with one client, and the thread that calls their functions."""

    def __init__(self, client: ClientCore) -> None:
        self.functions: dict[str, tuple[Callable[[], float], bool, list[tuple[str, str]]]] = {}
        self.changed = threading.Event()
        self._failed: set[str] = set()
        # The thread must not keep the client alive.
        threading.Thread(target=self._run, args=(weakref.ref(client),), name="klamm-telemetry", daemon=True).start()

    def _run(self, client: weakref.ref[ClientCore]) -> None:
        while True:
            self.changed.clear()
            sampled = self._sample()
            alive = client()
            if alive is None or alive._is_closed():
                return
            alive._set_application_metrics(sampled)
            del alive
            self.changed.wait(SAMPLE_S)

    def _sample(self) -> list[tuple[str, bool, list[tuple[str, str]], float]]:
        found = []
        for name, (function, total, attributes) in list(self.functions.items()):
            try:
                found.append((name, total, attributes, float(function())))
            except Exception:  # noqa: BLE001 - the error is logged, and the other metrics have values
                if name not in self._failed:
                    _log.exception("the metric %s has no value; later failures are not logged", name)
                self._failed.add(name)
        return found


class Telemetry:
    """Telemetry methods that are the same in blocking and asyncio clients."""

    _registered: _Registered | None = None

    def register_metric(
        self: Any,
        name: str,
        function: Callable[[], float],
        *,
        total: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Push a metric of the application, with the client's metrics, to brokers that subscribe to it (KIP-1076).

        `metrics().values` also contains the metric. The metric replaces an earlier metric with the same name.

        Args:
            name: Name of the metric, such as `myapp.queue.depth`.
            function: Function that returns the metric's value. A thread of the client calls the function every second.
            total: Whether the metric is a counter, which never decreases.
            attributes: Labels of the metric.

        Raises:
            ArgumentError: An argument has the wrong type.
        """
        check_function("function", function)
        given: Any = name, function
        if not isinstance(given[0], str) or not name or given[1] is None:
            raise ArgumentError("a metric needs a name and a function")
        pairs = [(str(key), str(value)) for key, value in (attributes or {}).items()]
        if self._registered is None:
            self._registered = _Registered(self)
        self._registered.functions[name] = (function, total, pairs)
        self._registered.changed.set()

    def unregister_metric(self: Any, name: str) -> None:
        """Stop pushing a metric of the application.

        Raises:
            ConfigError: No metric of this name is registered.
        """
        if self._registered is None or self._registered.functions.pop(name, None) is None:
            raise ConfigError(f"there is no metric {name!r}", hint="register_metric adds metrics")
        self._registered.changed.set()


class BlockingTelemetry(Telemetry):
    """Telemetry methods of a blocking client."""

    def client_instance_id(self: Any, timeout: float | None = None) -> str:
        """Return the ID by which brokers identify the metrics of this client (KIP-714).

        Args:
            timeout: Seconds to wait for a broker. The default is `request_timeout_ms`.

        Raises:
            ConfigError: `enable_metrics_push` is off.
            UnsupportedVersionError: The brokers do not accept metrics, because they are older than Kafka 3.7 or have no
                metrics receiver.
            KafkaTimeoutError: No broker answered in time.
        """
        found: str = self._instance_id().result(timeout)
        return found


class AsyncTelemetry(Telemetry):
    """Telemetry methods of an asyncio client."""

    async def client_instance_id(self: Any, timeout: float | None = None) -> str:
        found: str = await self._instance_id().within(timeout)
        return found


AsyncTelemetry.client_instance_id.__doc__ = BlockingTelemetry.client_instance_id.__doc__
