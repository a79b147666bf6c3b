"""Lists, describes and deletes groups of all types, and removes members from groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from klamm._klamm import broker_error, decode_prefix
from klamm.admin.calls import GROUP, NO_OPERATIONS, Calls, Item, collect, nothing, refusal
from klamm.admin.topics import operations_in
from klamm.arguments import boolean, list_of_str, optional_string, string
from klamm.errors import DecodeError, GroupIdNotFoundError, UnknownMemberIdError, UnsupportedVersionError
from klamm.record import TopicPartition
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from klamm.admin.acls import AclOperation
    from klamm.admin.calls import Fields
    from klamm.errors import KafkaError

OLDEST_CONSUMER_PROTOCOL, NEWEST_CONSUMER_PROTOCOL = 0, 3


@dataclass(frozen=True)
class GroupListing:
    """A group in the list of all groups.

    Attributes:
        protocol_type: `consumer` for consumers. Empty for a group that only stores offsets.
        state: State of the group, such as `Stable`. Empty if the brokers are older than Kafka 2.6.
        type: `classic`, `consumer` (KIP-848), `share` or `streams`. Empty if the brokers are older than Kafka 3.8.
    """

    group: str
    protocol_type: str
    state: str
    type: str


@dataclass(frozen=True)
class StreamsTasks:
    """Tasks of a member of a streams group (KIP-1071): for each subtopology, the numbers of its partitions.

    Attributes:
        active: Tasks that process records.
        standby: Tasks that keep a copy of the state.
        warmup: Tasks that build up a copy of the state, so that an active task can move to this member.
    """

    active: Mapping[str, list[int]]
    standby: Mapping[str, list[int]]
    warmup: Mapping[str, list[int]]


@dataclass(frozen=True)
class StreamsSubtopology:
    """A part of the topology of a streams group.

    Attributes:
        source_topics: Topics that the subtopology reads.
        repartition_sink_topics: Repartition topics that the subtopology writes.
        changelog_topics: Changelog topics of the subtopology's state stores.
        repartition_source_topics: Repartition topics that the subtopology reads.
    """

    id: str
    source_topics: list[str]
    repartition_sink_topics: list[str]
    changelog_topics: list[str]
    repartition_source_topics: list[str]


@dataclass(frozen=True)
class GroupMember:
    """A member of a group.

    Attributes:
        instance_id: Instance ID of a static member (KIP-345).
        topic_pattern: Regular expression that the member subscribes to (KIP-848 groups only).
        assigned: Partitions that the member reads. Members of a share group can read the same partitions.
        target: Partitions that the coordinator wants the member to read (KIP-848 groups only). The member gets a target
            partition only after the partition's previous owner, if any, has released it.
        epoch: Epoch of the member, or None in classic groups.
        is_classic: Whether the member uses the classic protocol in a `consumer` or `streams` group (Kafka 4.0). None
            means unknown.
        process_id: ID of the member's process (streams groups only).
        tasks: Tasks of the member (streams groups only).
        target_tasks: Tasks that the member will have (streams groups only).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    topics: list[str]
    topic_pattern: str | None
    assigned: list[TopicPartition]
    target: list[TopicPartition] | None
    epoch: int | None = None
    is_classic: bool | None = None
    process_id: str | None = None
    tasks: StreamsTasks | None = None
    target_tasks: StreamsTasks | None = None


@dataclass(frozen=True)
class GroupDescription:
    """A group and its members.

    Attributes:
        type: `classic`, `consumer` (KIP-848), `share` (KIP-932) or `streams` (KIP-1071).
        protocol_type: `consumer` for consumers. Empty for a group that only stores offsets.
        coordinator: Broker ID of the group coordinator.
        epoch: Epoch of the group, or None in classic groups.
        assignment_epoch: Epoch of the target assignment, or None in classic groups.
        topology: Subtopologies of a streams group, or None.
        authorized_operations: Operations that the user may perform on the group, if they were requested.
    """

    group: str
    type: str
    protocol_type: str
    state: str
    assignor: str
    coordinator: int
    members: list[GroupMember]
    epoch: int | None = None
    assignment_epoch: int | None = None
    topology: list[StreamsSubtopology] | None = None
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True)
class RemovedMember:
    """Identifies a member to remove from a group, by instance ID or by member ID.

    Args:
        instance_id: Instance ID of a static member.
        member_id: ID of the member. A static member needs no `member_id`.
    """

    instance_id: str | None = None
    member_id: str = ""


class GroupCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _list(
        self, states: Iterable[str], types: Iterable[str], protocol_types: Iterable[str], timeout: float | None
    ) -> list[GroupListing]:
        filters = {"statesFilter": list_of_str("states", states), "typesFilter": list_of_str("types", types)}
        request = {name: wanted for name, wanted in filters.items() if wanted}
        protocols = list_of_str("protocol_types", protocol_types)
        deadline = self._deadline(timeout)

        items = {broker: Item(request, broker, "list groups") for broker in await self._brokers(deadline.left())}
        results = await self._for_items("ListGroups", items, _listed, deadline.left())
        listings = {each.group: each for found in collect(results.items()).values() for each in found}
        return [each for _, each in sorted(listings.items()) if not protocols or each.protocol_type in protocols]

    async def _describe_each_group(
        self, groups: Iterable[str], operations: bool, timeout: float | None
    ) -> dict[str, GroupDescription]:
        names = list(dict.fromkeys(list_of_str("groups", groups)))
        request = {"includeAuthorizedOperations": True} if boolean("authorized_operations", operations) else {}
        deadline = self._deadline(timeout)
        results: dict[str, GroupDescription | KafkaError] = {}
        remaining_groups = names
        for api, (name, described) in _DESCRIPTIONS.items():
            items = {
                group: Item({**request, name: [group]}, (GROUP, group), f"describe group {group!r}")
                for group in remaining_groups
            }
            is_first = api == "DescribeGroups"
            read = partial(_described, described=described, is_first=is_first)
            for group, result in (await self._for_items(api, items, read, deadline.left())).items():
                # Kafka 4.1 has StreamsGroupDescribe, but by default returns UNSUPPORTED_VERSION for each group.
                if result is None or (isinstance(result, UnsupportedVersionError) and not is_first):
                    results[group] = broker_error(GroupIdNotFoundError.code, f"describe group {group!r}")
                else:
                    results[group] = result
            # If a group has another type, this API responds that the group does not exist.
            remaining_groups = [group for group in remaining_groups if isinstance(results[group], GroupIdNotFoundError)]
            if not remaining_groups:
                break
        return collect(results.items())

    async def _delete_each(self, groups: Iterable[str], timeout: float | None) -> None:
        items = {
            group: Item({"groupsNames": [group]}, (GROUP, group), f"delete group {group!r}")
            for group in list_of_str("groups", groups)
        }
        collect((await self._for_items("DeleteGroups", items, nothing, timeout, refused=_not_deleted)).items())

    async def _remove(
        self, group: str, members: Iterable[RemovedMember | str] | None, reason: str | None, timeout: float | None
    ) -> None:
        string("group", group)
        deadline = self._deadline(timeout)
        if members is None:
            described = (await self._describe_each_group([group], False, deadline.left()))[group]
            removed_members = [RemovedMember(each.instance_id, each.member_id) for each in described.members]
        else:
            removed_members = [RemovedMember(each) if isinstance(each, str) else each for each in members]
        if not removed_members:
            return
        why = {} if optional_string("reason", reason) is None else {"reason": reason}
        fields = [{"memberId": each.member_id, "groupInstanceId": each.instance_id, **why} for each in removed_members]
        request = {"groupId": group, "members": fields}
        response = await self._ask("LeaveGroup", request, deadline.left(), (GROUP, group))
        failed = refusal(response, f"remove members from group {group!r}")
        if failed is not None:
            raise failed
        tried = (
            f"remove member {each.instance_id or each.member_id!r} from group {group!r}" for each in removed_members
        )
        results = zip(removed_members, response["members"], tried, strict=True)
        collect((each, _removed(result, text)) for each, result, text in results)


class Groups(GroupCalls):
    """Methods of `Admin` for groups."""

    def list_groups(
        self,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout: float | None = None,
        *,
        protocol_types: Iterable[str] = (),
    ) -> list[GroupListing]:
        """Return all groups, or only the groups with certain states or types.

        Args:
            states: States such as `Stable` or `Empty`. The default is all states.
            types: Types such as `classic` or `consumer`. The default is all types.
            timeout: Seconds to wait.
            protocol_types: Protocol types such as `consumer`. The default is all protocol types.

        Raises:
            UnsupportedVersionError: The brokers are too old. `states` needs Kafka 2.6, and `types` needs Kafka 3.8.
        """
        return run(self._list(states, types, protocol_types, timeout))

    def describe_groups(
        self, groups: Iterable[str], timeout: float | None = None, *, authorized_operations: bool = False
    ) -> dict[str, GroupDescription]:
        """Return descriptions of groups of any type.

        Args:
            groups: Names of groups.
            timeout: Seconds to wait.
            authorized_operations: Also return the operations that the user may perform on each group (Kafka 2.3).

        Raises:
            GroupIdNotFoundError: A group does not exist.
            CombinedError: Several groups cannot be described. `error.results` has the successful results.
        """
        return run(self._describe_each_group(groups, authorized_operations, timeout))

    def delete_groups(self, groups: Iterable[str], timeout: float | None = None) -> None:
        """Delete groups of any type and their committed offsets. The groups must not have members.

        Raises:
            NonEmptyGroupError: A group has members.
            GroupIdNotFoundError: A group does not exist.
            CombinedError: Several groups were not deleted.
        """
        run(self._delete_each(groups, timeout))

    def remove_group_members(
        self,
        group: str,
        members: Iterable[RemovedMember | str] | None = None,
        timeout: float | None = None,
        *,
        reason: str | None = None,
    ) -> None:
        """Remove members from a group, so that the group rebalances.

        A removed member that is still running joins again.

        Args:
            group: Name of the group.
            members: The members, or instance IDs of static members. The default is all members.
            timeout: Seconds to wait.
            reason: Text for the log of the coordinator (Kafka 3.2).

        Raises:
            UnknownMemberIdError: One of `members` does not belong to the group.
            UnsupportedVersionError: The brokers are older than Kafka 2.4.
        """
        run(self._remove(group, members, reason, timeout))


@documented_by(Groups)
class AsyncGroups(GroupCalls):
    """Methods of `AsyncAdmin` for groups."""

    async def list_groups(
        self,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout: float | None = None,
        *,
        protocol_types: Iterable[str] = (),
    ) -> list[GroupListing]:
        return await self._list(states, types, protocol_types, timeout)

    async def describe_groups(
        self, groups: Iterable[str], timeout: float | None = None, *, authorized_operations: bool = False
    ) -> dict[str, GroupDescription]:
        return await self._describe_each_group(groups, authorized_operations, timeout)

    async def delete_groups(self, groups: Iterable[str], timeout: float | None = None) -> None:
        await self._delete_each(groups, timeout)

    async def remove_group_members(
        self,
        group: str,
        members: Iterable[RemovedMember | str] | None = None,
        timeout: float | None = None,
        *,
        reason: str | None = None,
    ) -> None:
        await self._remove(group, members, reason, timeout)


def _listed(response: Fields) -> list[GroupListing]:
    return [
        GroupListing(each["groupId"], each["protocolType"], each.get("groupState", ""), each.get("groupType", ""))
        for each in response["groups"]
    ]


def _described(
    response: Fields, described: Callable[[Fields], GroupDescription], is_first: bool
) -> GroupDescription | None:
    """Return the group that a response describes, or None if there is no such group of this type."""
    found: Fields = next(iter(response["groups"]), {"groupState": "Dead"})
    # Before version 6 of DescribeGroups, a group that does not exist or is not classic has the state "Dead".
    is_missing = found["groupState"] == "Dead" and (is_first or len(found) == 1)
    return None if is_missing else described({**found, "broker": response["broker"]})


def _not_deleted(error: KafkaError, is_repeated: bool) -> KafkaError | None:
    # If the group is missing and an earlier attempt had no response, that attempt has deleted the group.
    return None if is_repeated and isinstance(error, GroupIdNotFoundError) else error


def _removed(result: Fields, tried: str) -> KafkaError | None:
    failed = refusal(result, tried)
    if isinstance(failed, UnknownMemberIdError):
        failed.hint = "describe_groups returns the members of the group"
    return failed


def _of_classic(group: Fields) -> GroupDescription:
    is_consumer = group["protocolType"] == "consumer"

    def member(each: Fields) -> GroupMember:
        subscription = _decoded("ConsumerProtocolSubscription", each["memberMetadata"]) if is_consumer else {}
        assignment = _decoded("ConsumerProtocolAssignment", each["memberAssignment"]) if is_consumer else {}
        return GroupMember(
            each["memberId"],
            each.get("groupInstanceId"),
            each["clientId"],
            each["clientHost"],
            subscription.get("rackId"),
            subscription.get("topics", []),
            None,
            _sorted(assignment.get("assignedPartitions", []), "topic"),
            None,
        )

    members = [member(each) for each in group["members"]]
    return replace(_description("classic", group, group["protocolType"], group["protocolData"]), members=members)


def _of_consumer(group: Fields) -> GroupDescription:
    members = [
        GroupMember(
            each["memberId"],
            each["instanceId"],
            each["clientId"],
            each["clientHost"],
            each["rackId"],
            each["subscribedTopicNames"],
            each["subscribedTopicRegex"] or None,
            _sorted(each["assignment"]["topicPartitions"]),
            _sorted(each["targetAssignment"]["topicPartitions"]),
            each["memberEpoch"],
            {0: True, 1: False}.get(each.get("memberType", -1)),
        )
        for each in group["members"]
    ]
    return replace(_description("consumer", group, "consumer", group["assignorName"]), members=members)


def _of_share(group: Fields) -> GroupDescription:
    members = [
        GroupMember(
            each["memberId"],
            None,
            each["clientId"],
            each["clientHost"],
            each["rackId"],
            each["subscribedTopicNames"],
            None,
            _sorted(each["assignment"]["topicPartitions"]),
            None,
            each["memberEpoch"],
        )
        for each in group["members"]
    ]
    return replace(_description("share", group, "share", group["assignorName"]), members=members)


def _of_streams(group: Fields) -> GroupDescription:
    subtopologies = (group["topology"] or {}).get("subtopologies") or []
    sources = {
        each["subtopologyId"]: [*each["sourceTopics"], *_names(each["repartitionSourceTopics"])]
        for each in subtopologies
    }

    def member(each: Fields) -> GroupMember:
        active = each["assignment"]["activeTasks"]
        assigned = [
            TopicPartition(topic, partition)
            for task in active
            for topic in sources.get(task["subtopologyId"], [])
            for partition in task["partitions"]
        ]
        return GroupMember(
            each["memberId"],
            each["instanceId"],
            each["clientId"],
            each["clientHost"],
            each["rackId"],
            sorted({topic for topics in sources.values() for topic in topics}),
            None,
            sorted(assigned),
            None,
            each["memberEpoch"],
            each["isClassic"],
            each["processId"],
            _tasks(each["assignment"]),
            _tasks(each["targetAssignment"]),
        )

    members = [member(each) for each in group["members"]]
    topology = [
        StreamsSubtopology(
            each["subtopologyId"],
            each["sourceTopics"],
            each["repartitionSinkTopics"],
            _names(each["stateChangelogTopics"]),
            _names(each["repartitionSourceTopics"]),
        )
        for each in subtopologies
    ]
    description = _description("streams", group, "streams", group.get("assignorName") or "")
    return replace(description, members=members, topology=topology)


def _description(kind: str, group: Fields, protocol_type: str, assignor: str) -> GroupDescription:
    return GroupDescription(
        group["groupId"],
        kind,
        protocol_type,
        group["groupState"],
        assignor,
        group["broker"],
        [],
        group.get("groupEpoch"),
        group.get("assignmentEpoch"),
        None,
        operations_in(group.get("authorizedOperations", NO_OPERATIONS)),
    )


_DESCRIPTIONS = {
    "DescribeGroups": ("groups", _of_classic),
    "ConsumerGroupDescribe": ("groupIds", _of_consumer),
    "ShareGroupDescribe": ("groupIds", _of_share),
    "StreamsGroupDescribe": ("groupIds", _of_streams),
}
"""For the API of each type of group: the field with the group names, and the function that reads a group."""


def _decoded(name: str, data: bytes) -> Fields:
    """Decode data that the members of a group send each other.

    Malformed data counts as empty, and so does data that is missing during a rebalance.
    """
    version = int.from_bytes(data[:2], "big", signed=True)
    if version < OLDEST_CONSUMER_PROTOCOL:
        return {}
    try:
        fields: Fields = decode_prefix(name, "data", min(version, NEWEST_CONSUMER_PROTOCOL), data[2:])[0]
    except DecodeError:
        return {}
    return fields


def _sorted(topics: Iterable[Fields], name: str = "topicName") -> list[TopicPartition]:
    return sorted(TopicPartition(topic[name], number) for topic in topics for number in topic["partitions"])


def _tasks(assignment: Fields) -> StreamsTasks:
    parts = (assignment["activeTasks"], assignment["standbyTasks"], assignment["warmupTasks"])
    return StreamsTasks(*({task["subtopologyId"]: task["partitions"] for task in tasks} for tasks in parts))


def _names(topics: Iterable[Fields]) -> list[str]:
    return [topic["name"] for topic in topics]
