"""Requests by name, and what all calls on several items have in common.

The core finds the broker for each request, and retries while another broker is responsible. The calls of `Admin` and `AsyncAdmin`
are written once, as coroutines that wait with `_ask`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from klamm._klamm import AdminCore, broker_error
from klamm.errors import CombinedError, KafkaError
from klamm.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    from typing_extensions import Self

    K = TypeVar("K")
    V = TypeVar("V")

    Route: TypeAlias = Literal["controller"] | int | tuple[int, str] | None
    """The broker for a request: the controller, a broker ID, a coordinator by type and key, or any broker."""


class Code(IntEnum):
    """A number of the protocol. Numbers of newer brokers are `UNKNOWN`, which each subclass has."""

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        return cls["UNKNOWN"]


GROUP, TRANSACTION = 0, 1
"""Types of coordinators (FindCoordinator)."""


class Calls(Waiting, AdminCore):
    """Sends requests by name."""

    async def _ask(
        self, api: str, fields: Mapping[str, Any], timeout: float | None, route: Route = None
    ) -> dict[str, Any]:
        """Send a request and return the fields of the response, with Kafka's names."""
        return await self._wait(self._call(api, dict(fields), route, timeout))

    async def _ask_brokers(
        self, api: str, fields: Mapping[int, Mapping[str, Any]], timeout: float | None
    ) -> dict[int, dict[str, Any] | KafkaError]:
        """Send a request to each of some brokers at once. Return each response, or the error that took its place."""
        pending = {broker: self._call(api, dict(each), broker, timeout) for broker, each in fields.items()}
        responses: dict[int, dict[str, Any] | KafkaError] = {}
        for broker, each in pending.items():
            try:
                responses[broker] = await self._wait(each)
            except KafkaError as error:
                responses[broker] = error
        return responses

    async def _all_brokers(self, timeout: float | None) -> list[int]:
        """Return the IDs of all brokers that are alive."""
        return [node.id for node in (await self._wait(self._describe_cluster(timeout))).brokers]


def refusal(
    part: Mapping[str, Any], tried: str, topic: str | None = None, partition: int | None = None
) -> KafkaError | None:
    """Return the error of a response, or of one item of it: None if its code is 0."""
    code = part["errorCode"]
    return broker_error(code, tried, part.get("errorMessage"), topic, partition) if code else None


def check(part: Mapping[str, Any], tried: str) -> None:
    """Raise the error of a response."""
    error = refusal(part, tried)
    if error is not None:
        raise error


def collect(results: Iterable[tuple[K, V | KafkaError]]) -> dict[K, V]:
    """Return the results of items, or raise their errors.

    Every item is tried. If one item failed, its error is raised, and if several did, a `CombinedError`. The attribute
    `results` of the error has the results of the items that succeeded.
    """
    done: dict[K, V] = {}
    failed: dict[K, KafkaError] = {}
    for item, result in results:
        if isinstance(result, KafkaError):
            failed[item] = result
        else:
            done[item] = result
    if failed:
        error = next(iter(failed.values())) if len(failed) == 1 else CombinedError(failed)
        error.results = done
        raise error
    return done
