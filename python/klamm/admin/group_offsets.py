"""Reads, sets and deletes committed offsets of groups and start offsets of share groups, and computes lag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from klamm.admin.calls import (
    BY_PARTITION,
    GROUP,
    Item,
    by_topic,
    check,
    collect,
    known,
    nothing,
    numbers,
    partitions_of,
    plain,
    refusal,
)
from klamm.admin.groups import GroupCalls
from klamm.admin.offsets import OffsetCalls, OffsetSpec
from klamm.arguments import boolean, integer, items_of, list_of_str, string
from klamm.errors import GroupIdNotFoundError, UnknownMemberIdError, UnsupportedVersionError
from klamm.record import OffsetAndMetadata, TopicPartition, committable
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from klamm.admin.calls import Fields
    from klamm.errors import KafkaError
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

        results: dict[str, dict[TopicPartition, OffsetAndMetadata] | KafkaError] = {}
        # OffsetFetch has topic IDs instead of names from version 10 on. Version 0 reads from ZooKeeper.
        oldest = 2 if None in partitions_by_group.values() else 1
        names: Iterable[str] = partitions_by_group
        for build, versions in ((_fetch, (8, 9)), (_fetch_one, (oldest, 7))):
            items = {
                name: Item(
                    build(name, partitions_by_group[name], stable),
                    (GROUP, name),
                    f"fetch the offsets of group {name!r}",
                )
                for name in names
            }
            found = self._for_items(
                "OffsetFetch", items, _fetched, deadline.left(), versions=versions, refused=_not_fetched
            )
            results.update(await found)
            names = [name for name in names if isinstance(results[name], UnsupportedVersionError)]
        return collect(results.items())

    async def _offsets_only(self, group: str, timeout: float | None) -> dict[TopicPartition, int]:
        offsets_by_group = await self._fetch_offsets([string("group", group)], False, timeout)
        return {tp: committed.offset for tp, committed in sorted(offsets_by_group[group].items())}

    async def _lag(self, group: str, timeout: float | None) -> dict[TopicPartition, int | None]:
        deadline = self._deadline(timeout)
        committed = await self._offsets_only(group, deadline.left())
        assigned = await self._assigned(group, deadline.left())
        topics = await self._metadata({tp.topic for tp in committed}, deadline.left())
        leaders = {
            TopicPartition(topic, part["partitionIndex"]): part["leaderId"]
            for topic, fields in topics.items()
            for part in fields["partitions"]
        }
        led = [tp for tp in committed if leaders.get(tp, -1) >= 0]
        starts, ends = [
            await self._list_offsets(dict.fromkeys(led, spec), "read_uncommitted", deadline.left())
            for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        ]

        def lag(tp: TopicPartition) -> int | None:
            start, end = (found[tp].offset if tp in found else None for found in (starts, ends))
            return None if start is None or end is None else unread(committed[tp], start, end)

        return {tp: lag(tp) for tp in sorted({*committed, *assigned, *leaders})}

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

        # Version 0 of OffsetCommit writes to ZooKeeper.
        items = {
            tp: _group_item(
                group,
                tp,
                "alter offsets of",
                {"groupId": group, "topics": [{"name": tp.topic, "partitions": [_commit(offset, timed)]}]},
            )
            for tp, offset in offsets_by_partition.items()
        }
        results = await self._for_items(
            "OffsetCommit", items, nothing, timeout, path=BY_PARTITION, versions=(1, 9), refused=_not_committed
        )
        collect(results.items())

    async def _forget_offsets(self, group: str, partitions: Iterable[TopicPartition], timeout: float | None) -> None:
        string("group", group)
        items = {
            tp: _group_item(
                group,
                tp,
                "delete offsets of",
                {
                    "groupId": group,
                    "topics": [{"name": tp.topic, "partitions": [{"partitionIndex": tp.partition}]}],
                },
            )
            for tp in plain(partitions)
        }
        collect((await self._for_items("OffsetDelete", items, nothing, timeout, path=BY_PARTITION)).items())

    async def _share_offsets(
        self, groups: Iterable[str] | Mapping[str, Partitions], timeout: float | None
    ) -> dict[str, dict[TopicPartition, ShareGroupOffset]]:
        items = {
            name: Item(
                {"groups": [{"groupId": name, "topics": _topics(wanted, "topicName", "partitions")}]},
                (GROUP, name),
                f"describe the offsets of share group {name!r}",
            )
            for name, wanted in _wanted(groups).items()
        }
        return collect((await self._for_items("DescribeShareGroupOffsets", items, _share_fetched, timeout)).items())

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


def _fetched(response: Fields) -> dict[TopicPartition, OffsetAndMetadata]:
    part = response["groups"][0] if response.get("groups") else response
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic, each in partitions_of(part["topics"], "name", "partitions"):
        epoch = each.get("committedLeaderEpoch", -1)
        if each["committedOffset"] >= 0:
            found[TopicPartition(topic, each["partitionIndex"])] = OffsetAndMetadata(
                each["committedOffset"], each["metadata"] or "", None if epoch < 0 else epoch
            )
    return found


def _not_fetched(
    error: KafkaError,
    is_repeated: bool,  # noqa: ARG001
) -> dict[TopicPartition, OffsetAndMetadata] | KafkaError:
    return {} if isinstance(error, GroupIdNotFoundError) else error  # a group that does not exist has no offsets


def _group_item(group: str, tp: TopicPartition, verb: str, fields: Fields) -> Item:
    tried = f"{verb} group {group!r}"
    return Item(fields, (GROUP, group), tried, (tp.topic, str(tp.partition)), (tp.topic, tp.partition))


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


def _not_committed(error: KafkaError, is_repeated: bool) -> KafkaError:  # noqa: ARG001
    if isinstance(error, UnknownMemberIdError):
        error.hint = "the group has members; stop them first"
    return error


def _share_fetched(response: Fields) -> dict[TopicPartition, ShareGroupOffset]:
    (group,) = response["groups"]
    return {
        TopicPartition(topic, each["partitionIndex"]): ShareGroupOffset(
            each["startOffset"], each["leaderEpoch"], known(each.get("lag", -1))
        )
        for topic, each in partitions_of(group["topics"], "topicName", "partitions")
        if each["startOffset"] >= 0
    }
