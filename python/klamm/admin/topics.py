"""Creates, lists, describes and deletes topics, and adds partitions to topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from klamm.admin.acls import AclOperation
from klamm.admin.calls import CHANGE_MS, NO_OPERATIONS, Calls, Condition, Item, collect, known, nothing, refusal
from klamm.arguments import INT16, INT32, boolean, integer, items_of, list_of, list_of_str, string
from klamm.errors import (
    ArgumentError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from klamm.admin.calls import Deadline, Fields, Route

NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True)
class NewTopic:
    """Settings of a topic to create.

    Args:
        partitions: Number of partitions. -1 means the default of the brokers.
        replication_factor: Number of replicas of each partition. -1 means the default of the brokers.
        configs: Topic settings by name, such as `{"retention.ms": "60000"}`.
        assignments: For each partition, the broker IDs of its replicas, the preferred leader first. The brokers assign
            the replicas by default. If you pass `assignments`, leave out `partitions` and `replication_factor`.
    """

    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()

    def __post_init__(self) -> None:
        given: object = self.partitions
        if isinstance(given, str) and not given.isdigit():
            hint = f"the name is the key of the dict: create_topics({{{given!r}: NewTopic(3)}})"
            raise ArgumentError("NewTopic() takes the number of partitions, and not the name of the topic", hint=hint)


@dataclass(frozen=True)
class NewPartitions:
    """Partitions to add to a topic.

    Args:
        count: The new total number of partitions.
        assignments: For each new partition, the broker IDs of its replicas. By default, the brokers assign the
            replicas.
    """

    count: int
    assignments: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class CreatedTopic:
    """A topic that was created. A field is None if the broker is too old to return it.

    Attributes:
        topic_id: ID of the topic (Kafka 2.8).
        partitions: Number of partitions (Kafka 2.4).
        replication_factor: Number of replicas of each partition (Kafka 2.4).
    """

    topic_id: str | None
    partitions: int | None
    replication_factor: int | None


@dataclass(frozen=True)
class PartitionInfo:
    """A partition and its replicas. A list is None if the broker is too old to return it.

    Attributes:
        leader: Broker ID of the leader, or -1 if there is none.
        replicas: Broker IDs of the replicas.
        isr: Broker IDs of the in-sync replicas.
        leader_epoch: Epoch of the leader, or -1 if it is unknown (Kafka 2.1).
        offline: Broker IDs of the replicas that are offline (Kafka 1.0).
        eligible_leaders: Broker IDs of replicas that are not in sync but can become leader (KIP-966, Kafka 4.0).
        last_known_eligible: Broker IDs of the replicas that were in sync last (KIP-966, Kafka 4.0).
    """

    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    leader_epoch: int = -1
    offline: list[int] | None = None
    eligible_leaders: list[int] | None = None
    last_known_eligible: list[int] | None = None


@dataclass(frozen=True)
class TopicDescription:
    """A topic and its partitions. `internal` topics belong to Kafka itself, such as `__consumer_offsets`.

    Attributes:
        topic_id: ID of the topic, or None if the brokers are older than Kafka 2.8.
        authorized_operations: Operations that the user may perform on the topic, if they were requested.
    """

    name: str
    internal: bool
    partitions: list[PartitionInfo]
    topic_id: str | None = None
    authorized_operations: frozenset[AclOperation] | None = None


class TopicCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _create(
        self, topics: Mapping[str, NewTopic], timeout: float | None, validate_only: bool, wait: bool
    ) -> dict[str, CreatedTopic]:
        shared = {"timeoutMs": CHANGE_MS, **_validating(validate_only)}
        items = {
            name: Item({"topics": [_creation(name, topic)], **shared}, *_topic(name, "create topic"))
            for name, topic in _new_topics(topics).items()
        }
        deadline = self._deadline(timeout)
        results = await self._for_items(
            "CreateTopics", items, _created, timeout, path="topics:name", refused=_not_created
        )
        if boolean("validate_only", validate_only):
            return collect(results.items())
        conditions = {
            name: Condition("has leaders", name, 1)
            for name, result in results.items()
            if isinstance(result, CreatedTopic)
        }
        what = f"CreateTopics of {', '.join(conditions)}"
        return await self._confirm(results, conditions, deadline, what, _knowing(wait))

    async def _add_partitions(
        self, counts: Mapping[str, int | NewPartitions], timeout: float | None, validate_only: bool, wait: bool
    ) -> None:
        new = {name: _more(name, count) for name, count in items_of("counts", counts)}
        shared = {"timeoutMs": CHANGE_MS, "validateOnly": boolean("validate_only", validate_only)}
        items = {
            name: Item({"topics": [fields], **shared}, *_topic(name, "create partitions of"))
            for name, fields in new.items()
        }
        deadline = self._deadline(timeout)
        results = await self._for_items("CreatePartitions", items, nothing, timeout, path="results:name")
        if validate_only:
            collect(results.items())
            return
        conditions = {
            name: Condition("has leaders", name, new[name]["count"])
            for name, result in results.items()
            if result is None
        }
        what = f"CreatePartitions of {', '.join(conditions)}"
        await self._confirm(results, conditions, deadline, what, _knowing(wait))

    async def _delete(self, topics: Iterable[str], ids: Iterable[str], timeout: float | None, wait: bool) -> None:
        names, wanted_ids = list_of_str("topics", topics), list_of_str("ids", ids)
        deadline = self._deadline(timeout)
        results = await self._delete_names(names, timeout, deadline)
        items = {
            each: Item(
                {"topics": [{"topicId": each}], "timeoutMs": CHANGE_MS}, "controller", f"delete topic {each!r}", (each,)
            )
            for each in wanted_ids
        }
        results.update(
            await self._for_items(
                "DeleteTopics", items, _topic_id, deadline.left(), path="responses:topicId", refused=_not_deleted
            )
        )
        conditions = {
            name: Condition("is deleted", name, topic_id=result)
            for name in names
            if not isinstance(result := results[name], KafkaError)
        }
        what = f"DeleteTopics of {', '.join(conditions)}"
        await self._confirm(results, conditions, deadline, what, _knowing(wait))

    async def _delete_names(
        self, names: list[str], timeout: float | None, deadline: Deadline
    ) -> dict[str, str | KafkaError | None]:
        """Delete topics by name. Return the ID of each deleted topic, or None if the broker did not return it."""
        results: dict[str, str | KafkaError | None] = {}
        # Versions of DeleteTopics before 6 have the names in another field.
        for is_old in (False, True):
            items = {
                name: Item(
                    {**({"topicNames": [name]} if is_old else {"topics": [{"name": name}]}), "timeoutMs": CHANGE_MS},
                    *_topic(name, "delete topic"),
                )
                for name in names
            }
            found = self._for_items(
                "DeleteTopics", items, _topic_id, timeout, path="responses:name", refused=_not_deleted
            )
            results.update(await found)
            timeout = deadline.left()
            names = [name for name in names if isinstance(results[name], UnsupportedVersionError)]
        return results

    async def _describe(
        self, topics: Iterable[str], ids: Iterable[str], operations: bool, timeout: float | None
    ) -> dict[str, TopicDescription]:
        names, wanted_ids = list(dict.fromkeys(list_of_str("topics", topics))), list_of_str("ids", ids)
        boolean("authorized_operations", operations)
        deadline = self._deadline(timeout)
        results: dict[str, TopicDescription | KafkaError] = {}
        if wanted_ids:
            request = {"topics": [{"topicId": each, "name": None} for each in wanted_ids], **_asking(operations)}
            response = await self._ask("Metadata", request, deadline.left(), versions=(12, 32767))
            results.update(_described(topic) for topic in response["topics"])
        if names:
            results.update(await self._describe_names(names, operations, deadline))
        order = [name for name in names if name in results]
        return collect((name, results[name]) for name in [*order, *(each for each in results if each not in order)])

    async def _describe_names(
        self, names: list[str], operations: bool, deadline: Deadline
    ) -> dict[str, TopicDescription | KafkaError]:
        try:
            topic_fields = await self._describe_pages(names, deadline)
        except UnsupportedVersionError:
            if operations:
                request = {"topics": [{"name": name} for name in names], **_asking(operations)}
                topic_fields = (await self._ask("Metadata", request, deadline.left()))["topics"]
            else:
                topic_fields = list((await self._metadata(names, deadline.left())).values())
        described = dict(map(_described, topic_fields))
        unknown = {"errorCode": UnknownTopicOrPartitionError.code}
        return {n: described.get(n) or refusal(unknown, f"describe topic {n!r}", n) for n in names}  # type: ignore[misc]

    async def _describe_pages(self, names: list[str], deadline: Deadline) -> list[Fields]:
        """Request all pages of DescribeTopicPartitions (KIP-966), and return the topics."""
        topics: dict[str, Fields] = {}
        cursor: Fields | None = None
        while True:
            request = {"topics": [{"name": name} for name in sorted(names)], "cursor": cursor}
            response = await self._ask("DescribeTopicPartitions", request, deadline.left())
            for topic in response["topics"]:
                known = topics.setdefault(topic["name"], topic)
                if known is not topic:
                    known["partitions"] += topic["partitions"]
            cursor = response["nextCursor"]
            if cursor is None:
                return list(topics.values())
            names = [name for name in names if name >= cursor["topicName"]]


class Topics(TopicCalls):
    """Methods of `Admin` for topics."""

    def create_topics(
        self,
        topics: Mapping[str, NewTopic],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
        wait: bool = False,
    ) -> dict[str, CreatedTopic]:
        """Create topics, and wait until a broker knows the leaders of all new partitions.

        Args:
            topics: For each name, a NewTopic.
            timeout: Seconds to wait.
            validate_only: Only check whether the topics can be created.
            wait: Wait until all brokers know the topics.

        Returns:
            For each name, the ID of the topic, and the numbers of partitions and replicas that the brokers chose.

        Raises:
            TopicAlreadyExistsError: A topic with this name exists.
            InvalidConfigError: A topic setting is invalid.
            KafkaTimeoutError: Topics were created, but no broker has returned the leaders of their partitions in time.
                `error.results` has the topics that were created.
            CombinedError: Several topics were not created. `error.results` has the successful results.
        """
        return run(self._create(topics, timeout, validate_only, wait))

    def delete_topics(
        self, topics: Iterable[str] = (), timeout: float | None = None, *, ids: Iterable[str] = (), wait: bool = False
    ) -> None:
        """Delete topics and all their records.

        Args:
            topics: Names of topics.
            timeout: Seconds to wait.
            ids: IDs of further topics (Kafka 2.8). A topic that was created again under the same name has a new ID.
            wait: Wait until no broker knows the topics any more. By default, klamm waits for one broker only.

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
            UnknownTopicIdError: No topic has this ID.
            CombinedError: Several topics were not deleted.
        """
        run(self._delete(topics, ids, timeout, wait))

    def create_partitions(
        self,
        counts: Mapping[str, int | NewPartitions],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
        wait: bool = False,
    ) -> None:
        """Add partitions to topics. New records can go to a different partition than earlier records with the same key.

        Args:
            counts: For each topic, the new total number of partitions, or NewPartitions.
            timeout: Seconds to wait.
            validate_only: Only check whether the partitions can be added.
            wait: Wait until all brokers know the partitions.

        Raises:
            InvalidPartitionsError: A topic already has at least the requested number of partitions.
            CombinedError: Several topics were not changed.
        """
        run(self._add_partitions(counts, timeout, validate_only, wait))

    def list_topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of all topics, sorted. With `internal`, the list includes Kafka's internal topics."""
        return self._list_topics(internal, timeout).result()

    def describe_topics(
        self,
        topics: Iterable[str] = (),
        timeout: float | None = None,
        *,
        ids: Iterable[str] = (),
        authorized_operations: bool = False,
    ) -> dict[str, TopicDescription]:
        """Return descriptions of topics by name.

        Args:
            topics: Names of topics.
            timeout: Seconds to wait.
            ids: IDs of further topics (Kafka 3.1).
            authorized_operations: Also return the operations that the user may perform on each topic (Kafka 2.3).

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
            UnknownTopicIdError: No topic has this ID.
            CombinedError: Several topics cannot be described. `error.results` has the successful results.
        """
        return run(self._describe(topics, ids, authorized_operations, timeout))


@documented_by(Topics)
class AsyncTopics(TopicCalls):
    """Methods of `AsyncAdmin` for topics."""

    async def create_topics(
        self,
        topics: Mapping[str, NewTopic],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
        wait: bool = False,
    ) -> dict[str, CreatedTopic]:
        return await self._create(topics, timeout, validate_only, wait)

    async def delete_topics(
        self, topics: Iterable[str] = (), timeout: float | None = None, *, ids: Iterable[str] = (), wait: bool = False
    ) -> None:
        await self._delete(topics, ids, timeout, wait)

    async def create_partitions(
        self,
        counts: Mapping[str, int | NewPartitions],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
        wait: bool = False,
    ) -> None:
        await self._add_partitions(counts, timeout, validate_only, wait)

    async def list_topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        return await self._list_topics(internal, timeout)

    async def describe_topics(
        self,
        topics: Iterable[str] = (),
        timeout: float | None = None,
        *,
        ids: Iterable[str] = (),
        authorized_operations: bool = False,
    ) -> dict[str, TopicDescription]:
        return await self._describe(topics, ids, authorized_operations, timeout)


def operations_in(bits: int) -> frozenset[AclOperation] | None:
    """Return the operations in a bit field, or None if the broker did not return any operations."""
    if bits == NO_OPERATIONS:
        return None
    return frozenset(operation for operation in AclOperation if bits >> operation & 1)


def _asking(operations: bool) -> dict[str, bool]:
    return {"allowAutoTopicCreation": False, **({"includeTopicAuthorizedOperations": True} if operations else {})}


def _validating(validate_only: bool) -> dict[str, bool]:
    """Return the field `validateOnly` if it is True. Version 0 of CreateTopics does not have this field."""
    return {"validateOnly": True} if boolean("validate_only", validate_only) else {}


def _new_topics(topics: Mapping[str, NewTopic]) -> dict[str, NewTopic]:
    if not hasattr(topics, "items") or not all(isinstance(topic, NewTopic) for topic in topics.values()):
        raise ArgumentError(
            f"topics have to be a dict with a NewTopic for each name, not {topics!r}",
            hint='pass {"events": NewTopic()}',
        )
    return dict(topics.items())


def _creation(name: str, topic: NewTopic) -> Fields:
    assigned = _replicas(name, topic.assignments)
    partitions = integer(f"the number of partitions of {name}", topic.partitions, -1, INT32)
    return {
        "name": string("the name of a topic", name),
        "numPartitions": partitions,
        "replicationFactor": integer(f"the replication factor of {name}", topic.replication_factor, -1, INT16),
        "assignments": [{"partitionIndex": number, "brokerIds": ids} for number, ids in enumerate(assigned)],
        "configs": [{"name": key, "value": value} for key, value in settings(topic.configs) if value is not None],
    }


def _more(name: str, new: int | NewPartitions) -> Fields:
    wanted = new if isinstance(new, NewPartitions) else NewPartitions(new)
    assigned = _replicas(name, wanted.assignments)
    return {
        "name": string("the name of a topic", name),
        "count": integer(f"the number of partitions of {name}", wanted.count, -1, INT32),
        "assignments": [{"brokerIds": ids} for ids in assigned] or None,
    }


def _replicas(name: str, assignments: Sequence[Sequence[int]]) -> list[list[int]]:
    return [
        [integer(f"a replica of {name}", broker, 0, INT32) for broker in list_of("the replicas of a partition", ids)]
        for ids in list_of("the assignments", assignments)
    ]


def settings(changes: Mapping[str, str | bool | float | None]) -> list[tuple[str, str | None]]:
    """Return pairs of the name and the value of each setting, with the values as strings."""
    return [(string("the name of a setting", name), setting(value)) for name, value in items_of("settings", changes)]


def setting(value: str | bool | float | None) -> str | None:
    """Return the value of a setting as a string."""
    if value is not None and not isinstance(value, (str, int, float)):
        raise ArgumentError(f"a setting has to be a str, a number, a bool or None, not {type(value).__name__}")
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def _topic(name: str, verb: str) -> tuple[Route, str, tuple[str], tuple[str, None]]:
    """Return the fields of an Item after its first, for a topic that the controller changes."""
    return "controller", f"{verb} {name!r}", (name,), (name, None)


def _knowing(wait: bool) -> Literal["one", "all"]:
    return "all" if boolean("wait", wait) else "one"


def _created(topic: Fields) -> CreatedTopic:
    return CreatedTopic(
        _topic_id(topic), *(known(topic.get(name, -1)) for name in ("numPartitions", "replicationFactor"))
    )


def _not_created(error: KafkaError, is_repeated: bool) -> KafkaError:
    if is_repeated and isinstance(error, TopicAlreadyExistsError):
        error.hint = "this call may have created the topic: an earlier attempt had no response"
    return error


def _topic_id(topic: Fields) -> str | None:
    found: str = topic.get("topicId", NO_TOPIC_ID)
    return None if found == NO_TOPIC_ID else found


def _not_deleted(error: KafkaError, is_repeated: bool) -> KafkaError | None:
    # If the topic is missing and an earlier attempt had no response, that attempt has deleted the topic.
    return None if is_repeated and isinstance(error, UnknownTopicOrPartitionError) else error


def _described(topic: Fields) -> tuple[str, TopicDescription | KafkaError]:
    name = topic["name"] or topic["topicId"]
    failed = refusal(topic, f"describe topic {name!r}", topic["name"])
    if failed is not None:
        return name, failed
    partitions = sorted(topic["partitions"], key=lambda part: part["partitionIndex"])
    return name, TopicDescription(
        name,
        topic.get("isInternal", False),
        [
            PartitionInfo(
                part["partitionIndex"],
                part["leaderId"],
                part["replicaNodes"],
                part["isrNodes"],
                part.get("leaderEpoch", -1),
                part.get("offlineReplicas"),
                part.get("eligibleLeaderReplicas"),
                part.get("lastKnownElr"),
            )
            for part in partitions
        ],
        _topic_id(topic),
        operations_in(topic.get("topicAuthorizedOperations", NO_OPERATIONS)),
    )
