"""Reads, sets and deletes committed offsets of groups and start offsets of share groups, and computes lag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from klamm.admin.calls import GROUP, by_topic, check, collect, numbers, partitions_of, plain, refusal
from klamm.admin.groups import GroupCalls
from klamm.admin.offsets import OffsetCalls, OffsetSpec
from klamm.arguments import boolean, integer, items_of, list_of_str, string
from klamm.errors import GroupIdNotFoundError, KafkaError, UnknownMemberIdError, UnsupportedVersionError
from klamm.record import OffsetAndMetadata, TopicPartition, committable
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from klamm.admin.calls import Fields
    from klamm.record import OffsetToCommit

    Partitions: TypeAlias = "Iterable[TopicPartition] | None"


@dataclass(frozen=True)
class ShareGroupOffset:
    """The start offset and the lag of a share group in a partition.

    Attributes:
        offset: Offset of the first record that is not acknowledged yet.
        leader_epoch: Leader epoch of the partition.
        lag: Number of records that are not acknowledged yet, or None if it is unknown (Kafka 4.2).
    """

    offset: int
    leader_epoch: int
    lag: int | None


def unread(committed: int, start: int, end: int) -> int:
    """Return the number of records from a committed offset to the end of a log that begins at the offset `start`."""
    return max(0, end - max(committed, start))


class GroupOffsetCalls(OffsetCalls, GroupCalls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _fetch_offsets(
        self, groups: Iterable[str] | Mapping[str, Partitions], stable: bool, timeout: float | None
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        partitions_by_group = _wanted(groups)
        boolean("require_stable", stable)
        deadline = self._deadline(timeout)

        async def attempt(
            names: list[str], left: float
        ) -> dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError]:
            # OffsetFetch has topic IDs instead of names from version 10 on. Version 0 reads from ZooKeeper.
            requests = {name: (_fetch(name, partitions_by_group[name], stable), (GROUP, name)) for name in names}
            responses = await self._ask_each("OffsetFetch", requests, left, (8, 9))
            old = [name for name, each in responses.items() if isinstance(each, UnsupportedVersionError)]
            requests = {name: (_fetch_one(name, partitions_by_group[name], stable), (GROUP, name)) for name in old}
            oldest = 2 if any(partitions_by_group[name] is None for name in old) else 1
            responses.update(await self._ask_each("OffsetFetch", requests, left, (oldest, 7)))
            return {name: _fetched(name, each) for name, each in responses.items()}

        return collect((await self._repeat(partitions_by_group, attempt, deadline.left())).items())

    async def _offsets_only(self, group: str, timeout: float | None) -> dict[TopicPartition, int]:
        offsets_by_group = await self._fetch_offsets([string("group", group)], False, timeout)
        return {tp: committed.offset for tp, committed in sorted(offsets_by_group[group].items())}

    async def _lag(self, group: str, timeout: float | None) -> dict[TopicPartition, int | None]:
        deadline = self._deadline(timeout)
        committed = await self._offsets_only(group, deadline.left())
        assigned = await self._assigned(group, deadline.left())
        topics = await self._metadata({tp.topic for tp in committed}, deadline.left())
        existing = {
            TopicPartition(topic, part["partitionIndex"])
            for topic, fields in topics.items()
            for part in fields["partitions"]
        }
        leaders = await self._leaders(committed, deadline.left()) if committed else {}
        led = [tp for tp, leader in leaders.items() if isinstance(leader, int)]
        starts, ends = [
            await self._list_offsets(dict.fromkeys(led, spec), "read_uncommitted", deadline.left())
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        ]

        def lag(tp: TopicPartition) -> int | None:
            start, end = (found[tp].offset if tp in found else None for found in (starts, ends))
            return None if start is None or end is None else unread(committed[tp], start, end)

        return {tp: lag(tp) for tp in sorted({*committed, *assigned, *existing})}

    async def _assigned(self, group: str, timeout: float) -> list[TopicPartition]:
        """Return the partitions that the members of a group read."""
        try:
            described = await self._describe_each_group([group], False, timeout)
        except (GroupIdNotFoundError, UnsupportedVersionError):  # only offsets exist, or Kafka 0.8
            return []
        return [tp for member in described[group].members for tp in member.assigned]

    async def _commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], timeout: float | None
    ) -> None:
        string("group", group)
        offsets_by_partition = {TopicPartition(each.topic, each.partition): each for each in committable(offsets)}
        timed = any(each.timestamp_ms is not None for each in offsets_by_partition.values())

        async def attempt(partitions: list[TopicPartition], left: float) -> dict[TopicPartition, KafkaError | None]:
            topics = [
                {"name": topic, "partitions": [_commit(offsets_by_partition[tp], timed) for tp in tps]}
                for topic, tps in by_topic(partitions)
            ]
            # Version 0 of OffsetCommit writes to ZooKeeper.
            request = {"groupId": group, "topics": topics}
            response = await self._ask("OffsetCommit", request, left, (GROUP, group), (1, 9))
            return {
                TopicPartition(topic, part["partitionIndex"]): _committed(group, topic, part)
                for topic, part in partitions_of(response["topics"], "name", "partitions")
            }

        collect((await self._repeat(offsets_by_partition, attempt, timeout)).items())

    async def _forget_offsets(self, group: str, partitions: Iterable[TopicPartition], timeout: float | None) -> None:
        requested_partitions = plain(partitions)
        tried = f"delete offsets of group {string('group', group)!r}"
        if not requested_partitions:
            return

        async def attempt(left_over: list[TopicPartition], left: float) -> dict[TopicPartition, KafkaError | None]:
            topics = [
                {"name": topic, "partitions": [{"partitionIndex": number} for number in numbers(tps)]}
                for topic, tps in by_topic(left_over)
            ]
            response = await self._ask("OffsetDelete", {"groupId": group, "topics": topics}, left, (GROUP, group))
            check(response, tried)
            return {
                TopicPartition(topic, part["partitionIndex"]): refusal(part, tried, topic, part["partitionIndex"])
                for topic, part in partitions_of(response["topics"], "name", "partitions")
            }

        collect((await self._repeat(requested_partitions, attempt, timeout)).items())

    async def _share_offsets(
        self, groups: Iterable[str] | Mapping[str, Partitions], timeout: float | None
    ) -> dict[str, dict[TopicPartition, ShareGroupOffset]]:
        partitions_by_group = _wanted(groups)

        async def attempt(
            names: list[str], left: float
        ) -> dict[str, dict[TopicPartition, ShareGroupOffset] | KafkaError]:
            requests = {
                name: (
                    {
                        "groups": [
                            {"groupId": name, "topics": _topics(partitions_by_group[name], "topicName", "partitions")}
                        ]
                    },
                    (GROUP, name),
                )
                for name in names
            }
            responses = await self._ask_each("DescribeShareGroupOffsets", requests, left)
            return {name: _share_fetched(name, each) for name, each in responses.items()}

        return collect((await self._repeat(partitions_by_group, attempt, timeout)).items())

    async def _set_share_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], timeout: float | None
    ) -> None:
        offsets_by_partition = dict(
            zip(plain(offsets), (integer("an offset", o, 0) for _, o in items_of("offsets", offsets)), strict=True)
        )
        tried = f"alter offsets of share group {string('group', group)!r}"
        topics = [
            {
                "topicName": topic,
                "partitions": [{"partitionIndex": tp.partition, "startOffset": offsets_by_partition[tp]} for tp in tps],
            }
            for topic, tps in by_topic(offsets_by_partition)
        ]
        if not topics:
            return
        request = {"groupId": group, "topics": topics}
        response = await self._ask("AlterShareGroupOffsets", request, timeout, (GROUP, group))
        check(response, tried)
        collect(
            (TopicPartition(topic, part["partitionIndex"]), refusal(part, tried, topic, part["partitionIndex"]))
            for topic, part in partitions_of(response["responses"], "topicName", "partitions")
        )

    async def _forget_share_offsets(self, group: str, topics: Iterable[str], timeout: float | None) -> None:
        tried = f"delete offsets of share group {string('group', group)!r}"
        request = {"groupId": group, "topics": [{"topicName": topic} for topic in list_of_str("topics", topics)]}
        if not request["topics"]:
            return
        response = await self._ask("DeleteShareGroupOffsets", request, timeout, (GROUP, group))
        check(response, tried)
        collect((each["topicName"], refusal(each, tried, each["topicName"])) for each in response["responses"])


class GroupOffsets(GroupOffsetCalls):
    """Methods of `Admin` for the offsets of groups."""

    def group_offsets(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return the offset that a group has committed for each partition: the offset of the next record to read."""
        return run(self._offsets_only(group, timeout))

    def list_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        timeout: float | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the committed offsets of consumer or streams groups, with metadata and leader epochs.

        Args:
            groups: Names of groups, or a dict from each name to partitions. In the dict, None means all partitions.
            timeout: Seconds to wait.
            require_stable: Wait for open transactions that commit offsets (Kafka 2.5).

        Returns:
            For each group, the offset of each partition with a committed offset.

        Raises:
            GroupAuthorizationFailedError: The user may not describe a group.
            CombinedError: Several groups failed. `error.results` has the results of the groups that succeeded.
        """
        return run(self._fetch_offsets(groups, require_stable, timeout))

    def group_lag(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int | None]:
        """Return the number of records that a group has not read yet, for each partition.

        The result has the partitions that members read, and all partitions of the topics in which the group has a
        committed offset. The number does not count records that retention has deleted. It is None in these cases:

        * The group has no committed offset for the partition, so `auto_offset_reset` decides where a member starts.
        * The partition does not exist any more, or has no leader.
        """
        return run(self._lag(group, timeout))

    def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], timeout: float | None = None
    ) -> None:
        """Set committed offsets of a group without members. If the group does not exist, this method creates the group.

        Args:
            group: Name of a consumer or streams group.
            offsets: For each partition, the offset of the next record to read.
            timeout: Seconds to wait.

        Raises:
            UnknownMemberIdError: The group has members.
            CombinedError: The offsets of some partitions were not set.
        """
        run(self._commit_offsets(group, offsets, timeout))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> None:
        """Delete committed offsets of a group. Members of the group must not subscribe to the topics of the partitions.

        Raises:
            GroupSubscribedToTopicError: A member subscribes to one of the topics.
            GroupIdNotFoundError: The group does not exist.
            CombinedError: The offsets of some partitions were not deleted.
        """
        run(self._forget_offsets(group, partitions, timeout))

    def share_group_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, ShareGroupOffset]]:
        """Return the start offsets and the lag of share groups (Kafka 4.1).

        Args:
            groups: Names of groups, or a dict from each name to partitions. In the dict, None means all partitions.
            timeout: Seconds to wait.

        Raises:
            GroupIdNotFoundError: A share group does not exist.
            CombinedError: Several groups failed. `error.results` has the results of the groups that succeeded.
        """
        return run(self._share_offsets(groups, timeout))

    def alter_share_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> None:
        """Set the start offsets of a share group without members (Kafka 4.1).

        Raises:
            NonEmptyGroupError: The group has members.
            CombinedError: The offsets of some partitions were not set.
        """
        run(self._set_share_offsets(group, offsets, timeout))

    def delete_share_group_offsets(self, group: str, topics: Iterable[str], timeout: float | None = None) -> None:
        """Delete the start offsets of topics in a share group without members (Kafka 4.1).

        Raises:
            NonEmptyGroupError: The group has members.
            GroupIdNotFoundError: The group does not exist.
            CombinedError: The offsets of some topics were not deleted.
        """
        run(self._forget_share_offsets(group, topics, timeout))


@documented_by(GroupOffsets)
class AsyncGroupOffsets(GroupOffsetCalls):
    """Methods of `AsyncAdmin` for the offsets of groups."""

    async def group_offsets(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int]:
        return await self._offsets_only(group, timeout)

    async def list_group_offsets(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        timeout: float | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        return await self._fetch_offsets(groups, require_stable, timeout)

    async def group_lag(self, group: str, timeout: float | None = None) -> dict[TopicPartition, int | None]:
        return await self._lag(group, timeout)

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], timeout: float | None = None
    ) -> None:
        await self._commit_offsets(group, offsets, timeout)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> None:
        await self._forget_offsets(group, partitions, timeout)

    async def share_group_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], timeout: float | None = None
    ) -> dict[str, dict[TopicPartition, ShareGroupOffset]]:
        return await self._share_offsets(groups, timeout)

    async def alter_share_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> None:
        await self._set_share_offsets(group, offsets, timeout)

    async def delete_share_group_offsets(self, group: str, topics: Iterable[str], timeout: float | None = None) -> None:
        await self._forget_share_offsets(group, topics, timeout)


def _wanted(groups: Iterable[str] | Mapping[str, Partitions]) -> dict[str, list[TopicPartition] | None]:
    if isinstance(groups, Mapping):
        named = {string("the name of a group", name): partitions for name, partitions in groups.items()}
        return {name: None if partitions is None else plain(partitions) for name, partitions in named.items()}
    return dict.fromkeys(list_of_str("groups", groups))


def _topics(wanted: list[TopicPartition] | None, name: str, partitions: str) -> list[Fields] | None:
    if wanted is None:
        return None
    return [{name: topic, partitions: numbers(tps)} for topic, tps in by_topic(wanted)]


def _fetch(group: str, wanted: list[TopicPartition] | None, stable: bool) -> Fields:
    return {
        "groups": [{"groupId": group, "topics": _topics(wanted, "name", "partitionIndexes")}],
        "requireStable": stable,
    }


def _fetch_one(group: str, wanted: list[TopicPartition] | None, stable: bool) -> Fields:
    """Return an OffsetFetch request for one group, in the form for brokers before Kafka 3.0."""
    fields: Fields = {"groupId": group, "topics": _topics(wanted, "name", "partitionIndexes")}
    return {**fields, "requireStable": True} if stable else fields


def _fetched(group: str, response: Fields | KafkaError) -> dict[TopicPartition, OffsetAndMetadata] | KafkaError:
    if isinstance(response, KafkaError):
        return response
    tried = f"fetch the offsets of group {group!r}"
    part = response["groups"][0] if response.get("groups") else {"errorCode": 0, **response}
    failed = refusal(part, tried)
    if isinstance(failed, GroupIdNotFoundError):
        return {}  # a group that does not exist has no offsets
    if failed is not None:
        return failed
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic, each in partitions_of(part["topics"], "name", "partitions"):
        failed = refusal(each, tried, topic, each["partitionIndex"])
        if failed is not None:
            return failed
        epoch = each.get("committedLeaderEpoch", -1)
        if each["committedOffset"] >= 0:
            found[TopicPartition(topic, each["partitionIndex"])] = OffsetAndMetadata(
                each["committedOffset"], each["metadata"] or "", None if epoch < 0 else epoch
            )
    return found


def _commit(offset: OffsetToCommit, timed: bool) -> Fields:
    fields: Fields = {
        "partitionIndex": offset.partition,
        "committedOffset": offset.offset,
        "committedMetadata": offset.metadata,
    }
    if timed:
        fields["commitTimestamp"] = -1 if offset.timestamp_ms is None else offset.timestamp_ms
    elif offset.leader_epoch is not None and offset.leader_epoch >= 0:
        fields["committedLeaderEpoch"] = offset.leader_epoch
    return fields


def _committed(group: str, topic: str, part: Fields) -> KafkaError | None:
    failed = refusal(part, f"alter offsets of group {group!r}", topic, part["partitionIndex"])
    if isinstance(failed, UnknownMemberIdError):
        failed.hint = "the group has members; stop them first"
    return failed


def _share_fetched(group: str, response: Fields | KafkaError) -> dict[TopicPartition, ShareGroupOffset] | KafkaError:
    if isinstance(response, KafkaError):
        return response
    tried = f"describe the offsets of share group {group!r}"
    part = response["groups"][0]
    failed = refusal(part, tried)
    if failed is not None:
        return failed
    found: dict[TopicPartition, ShareGroupOffset] = {}
    for topic, each in partitions_of(part["topics"], "topicName", "partitions"):
        failed = refusal(each, tried, topic, each["partitionIndex"])
        if failed is not None:
            return failed
        lag = each.get("lag", -1)
        if each["startOffset"] >= 0:
            found[TopicPartition(topic, each["partitionIndex"])] = ShareGroupOffset(
                each["startOffset"], each["leaderEpoch"], None if lag < 0 else lag
            )
    return found
