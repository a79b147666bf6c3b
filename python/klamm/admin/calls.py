"""Sends the requests of the admin methods, and has the common code of methods that handle several items.

The core finds the broker for each request, and retries if another broker has become responsible. `Admin` and
`AsyncAdmin` share coroutines that wait with `_ask`, so the code of a method is written only once.
"""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from klamm._klamm import AdminCore, broker_error
from klamm.arguments import checked_partition, list_of, seconds
from klamm.errors import (
    ArgumentError,
    CombinedError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
    UnsupportedVersionError,
)
from klamm.record import TopicPartition
from klamm.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
    from typing import TypeAlias

    from typing_extensions import Self

    K = TypeVar("K", bound=Hashable)
    V = TypeVar("V")
    T = TypeVar("T")

    Route: TypeAlias = Literal["controller"] | int | tuple[int, str] | tuple[str, int] | None
    """The broker for a request.

    A route is the controller, a broker ID, a coordinator by type and key, the leader of a partition, or any broker.
    """
    Fields: TypeAlias = dict[str, Any]


class Code(IntEnum):
    """The base class of enums that give names to numbers of the Kafka protocol.

    Each subclass has the member `UNKNOWN`. A number that a subclass does not have, such as a number from a newer
    broker, becomes `UNKNOWN`.
    """

    @classmethod
    def _missing_(cls, _value: object) -> Self:
        return cls["UNKNOWN"]


# Types of coordinators (FindCoordinator).
GROUP = 0
TRANSACTION = 1
SHARE = 2
ANY_VERSION = (0, 32767)
BY_PARTITION = "topics:name/partitions:partitionIndex"
"""Lists of a response that has results by topic and partition."""
CHANGE_MS = 30_000
"""Time that the controller may take for a change, in milliseconds."""
NO_OPERATIONS = -(2**31)


def partition_item(tp: TopicPartition, verb: str, fields: Fields, broker: int | None = None) -> Item:
    """Return the item of a partition. The default of `broker` is the leader of the partition."""
    route = (tp.topic, tp.partition) if broker is None else broker
    tried = f"{verb} {tp.topic}-{tp.partition}"
    return Item(fields, route, tried, (tp.topic, str(tp.partition)), (tp.topic, tp.partition))


def nothing(fields: Fields) -> None:
    """Read the result of an item that has no fields of interest."""


class Deadline:
    """The deadline of a call that has several steps."""

    def __init__(self, length: float) -> None:
        self.length = f"{round(length, 3):g} s"
        self._end = monotonic() + length

    def left(self) -> float:
        """Return the number of seconds until the deadline."""
        return max(0.0, self._end - monotonic())


class Condition(NamedTuple):
    """The state of a topic or a partition after a change.

    Attributes:
        name: What has to hold.
        topic: Name of the topic.
        number: Number of the partition, or the number of partitions of the topic.
        topic_id: ID of a deleted topic, or None if it is unknown.
    """

    name: Literal["has leaders", "is deleted", "is led", "is led by first", "is reassigned"]
    topic: str
    number: int = 0
    topic_id: str | None = None


class Item(NamedTuple):
    """One item of a call for many items, such as a topic or a partition.

    Attributes:
        fields: Fields of a request that has only this item. The core joins the lists of items with the same broker.
        route: Broker of the item.
        tried: What klamm tries, for messages.
        key: Values of the fields that identify the result of the item in a response, as strings.
        location: Topic and partition, for errors.
    """

    fields: Fields
    route: Route
    tried: str
    key: tuple[str, ...] = ()
    location: tuple[str, int | None] | None = None


def _keep(error: KafkaError, is_repeated: bool) -> KafkaError:  # noqa: ARG001
    return error


class Calls(Waiting, AdminCore):
    """The base class of all classes with admin methods, which sends their requests."""

    def _deadline(self, timeout: float | None) -> Deadline:
        length = seconds(timeout)
        return Deadline(self._api_timeout if length is None else length)

    async def _ask(
        self,
        api: str,
        fields: Mapping[str, Any],
        timeout: float | None,
        route: Route = None,
        versions: tuple[int, int] = ANY_VERSION,
    ) -> Fields:
        """Send a request and return the fields of the response, with the names from the Kafka protocol.

        `api` is the name of the request's API, such as `CreateTopics`. The core adds two fields to the response:
        `repeated` says whether an earlier attempt had no response, and `broker` is the ID of the broker that responded.
        """
        return await self._wait(self._call(api, dict(fields), route, timeout, versions))

    async def _for_items(
        self,
        api: str,
        items: Mapping[K, Item],
        read: Callable[[Fields], V],
        timeout: float | None,
        *,
        path: str = "",
        versions: tuple[int, int] = ANY_VERSION,
        refused: Callable[[KafkaError, bool], V | KafkaError] = _keep,
    ) -> dict[K, V | KafkaError]:
        """Return the result or the error of each item. The core retries items whose errors are transient.

        Args:
            api: Name of the API, such as `CreateTopics`.
            items: The items.
            read: Converts the fields of a result.
            timeout: Seconds to wait.
            path: Lists in a response that have the results, each with the fields that identify an element, such as
                `topics:name/partitions:partitionIndex`. With an empty path, each item has its own request, and the
                response is the result.
            versions: Versions of the API that klamm may use.
            refused: Converts the error of an item. The second argument says whether an earlier attempt had no response,
                so that the brokers may already have made the change.
        """
        if not items:
            return {}
        results = await self._wait(self._call_for_items(api, path, list(items.values()), timeout, versions))
        return {
            key: refused(result, is_repeated) if isinstance(result, KafkaError) else read(result)
            for key, (result, is_repeated) in zip(items, results, strict=True)
        }

    async def _ask_each(
        self,
        api: str,
        requests: Mapping[K, tuple[Mapping[str, Any], Route]],
        timeout: float | None,
        versions: tuple[int, int] = ANY_VERSION,
    ) -> dict[K, Fields | KafkaError]:
        """Send all requests at the same time. Return the response to each request, or the error if a request failed."""
        pending = {
            key: self._call(api, dict(fields), route, timeout, versions) for key, (fields, route) in requests.items()
        }
        responses: dict[K, Fields | KafkaError] = {}
        for key, each in pending.items():
            try:
                responses[key] = await self._wait(each)
            except KafkaError as error:
                responses[key] = error
        return responses

    async def _ask_brokers(
        self, api: str, fields: Mapping[str, Any], brokers: Iterable[int], timeout: float | None
    ) -> dict[int, Fields | KafkaError]:
        """Send the same request to each broker in a list."""
        return await self._ask_each(api, {broker: (fields, broker) for broker in brokers}, timeout)

    async def _metadata(self, topics: Collection[str], timeout: float | None) -> dict[str, Fields]:
        """Return the metadata of topics by name, without creating topics."""
        if not topics:
            return {}
        named = [{"name": name} for name in sorted(topics)]
        try:
            request = {"topics": named, "allowAutoTopicCreation": False}
            response = await self._ask("Metadata", request, timeout)
        except UnsupportedVersionError:
            # Brokers before Kafka 0.11 create each topic that a Metadata request names. Request all topics instead.
            try:
                response = await self._ask("Metadata", {"topics": None}, timeout, versions=(1, 3))
            except UnsupportedVersionError:
                response = await self._ask("Metadata", {"topics": []}, timeout, versions=(0, 0))
        return {topic["name"]: topic for topic in response["topics"] if topic["name"] in topics}

    async def _confirm(
        self,
        results: Mapping[K, V | KafkaError],
        conditions: Mapping[K, Condition],
        deadline: Deadline,
        what: str,
        knowing: Literal["one", "all", "controller"],
    ) -> dict[K, V]:
        """Wait until the brokers know a change, then return or raise the results of all items as `collect` does.

        Args:
            results: Results of all items.
            conditions: For each item that the brokers have changed, the condition that holds after the change.
            deadline: Deadline of the call.
            what: Names the request and the items.
            knowing: Brokers that have to know the change: any broker, all brokers, or the controller.

        If the wait fails, the error of the wait becomes an error of the changed items. Their results remain in
        `results` of the error.
        """
        late: dict[K, KafkaError] = {}
        if conditions:
            try:
                why = await self._wait(self._confirm_change(list(conditions.values()), knowing, deadline.left()))
            except KafkaError as error:
                why = error
            if why is not None:
                late = dict.fromkeys(conditions, _unconfirmed(what, why, deadline))
        return collect(results.items(), late)

    async def _brokers(self, timeout: float | None) -> list[int]:
        """Return the IDs of all brokers that are alive."""
        return [node.id for node in (await self._wait(self._describe_cluster(timeout))).brokers]


def _unconfirmed(what: str, error: KafkaError, deadline: Deadline) -> KafkaError:
    if not isinstance(error, (KafkaTimeoutError, NetworkError)):
        return error
    return KafkaTimeoutError(
        f"{what} is not confirmed after {deadline.length}: {error.message}",
        hint="the brokers continue with the change; describe the item later to see the result",
    )


def refusal(
    part: Mapping[str, Any], tried: str, topic: str | None = None, partition: int | None = None
) -> KafkaError | None:
    """Return the error of a response or of one of its items, or None if the error code is 0."""
    code = part["errorCode"]
    return broker_error(code, tried, part.get("errorMessage"), topic, partition) if code else None


def check(part: Mapping[str, Any], tried: str) -> None:
    """Raise the error of a response, if it has one."""
    error = refusal(part, tried)
    if error is not None:
        raise error


def collect(results: Iterable[tuple[K, V | KafkaError]], late: Mapping[K, KafkaError] | None = None) -> dict[K, V]:
    """Return the results of items, or raise their errors. `late` has the errors of items with unconfirmed results.

    If one item failed, raise the error of the item. If several items failed, raise a `CombinedError` with the error of
    each item. If all failed items share one error, or all of them timed out, raise only the first error. The attribute
    `results` of the raised error has the results of the items that succeeded.
    """
    done: dict[K, V] = {}
    failed: dict[K, KafkaError] = {}
    for item, result in results:
        if isinstance(result, KafkaError):
            failed[item] = result
        else:
            done[item] = result
    failed.update(late or {})
    if failed:
        first = next(iter(failed.values()))
        is_shared = all(each is first or _timed_out(each, first) for each in failed.values())
        error = first if is_shared else CombinedError(failed)
        error.results = done
        raise error
    return done


def _timed_out(*errors: KafkaError) -> bool:
    return all(isinstance(error, KafkaTimeoutError) for error in errors)


def partitions_of(topics: Iterable[Mapping[str, Any]], name: str, partitions: str) -> Iterator[tuple[str, Fields]]:
    """Iterate over the partitions in a list of topics, as pairs of topic name and fields of the partition."""
    return ((topic[name], part) for topic in topics for part in topic[partitions])


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[TopicPartition]]]:
    """Group partitions by topic. The topics, and the partitions of each topic, are sorted."""
    topics: dict[str, list[TopicPartition]] = defaultdict(list)
    for tp in sorted(partitions):
        topics[tp.topic].append(tp)
    return list(topics.items())


def numbers(partitions: Iterable[TopicPartition]) -> list[int]:
    """Return the partition number of each partition."""
    return [tp.partition for tp in partitions]


def plain(partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Check a list of partitions. Return new objects that have only the topic and the number of each partition."""
    return [TopicPartition(*checked_partition(tp)) for tp in list_of("partitions", partitions)]


def instances(name: str, items: Iterable[T], kinds: type | tuple[type, ...]) -> list[T]:
    """Convert items to a list. Raise ArgumentError if an item is not an instance of one of the classes in `kinds`."""
    given = list_of(name, items)
    for each in given:
        if not isinstance(each, kinds):
            names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
            raise ArgumentError(f"one of {name} has to be of type {names}, not {type(each).__name__}")
    return given


def choice(name: str, value: str, allowed: Mapping[str, T]) -> T:
    """Return the value that `allowed` has for a name. Raise ArgumentError if the name is not in `allowed`."""
    if value not in allowed:
        raise ArgumentError(f"{name} cannot be {value!r}", hint=f"allowed: {', '.join(allowed)}")
    return allowed[value]


def known(number: int) -> int | None:
    """Return a number from a response. Return None for a negative number, which means unknown."""
    return None if number < 0 else number
