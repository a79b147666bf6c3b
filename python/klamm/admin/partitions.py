"""Elects leaders of partitions, moves replicas to other brokers or log directories, and describes log directories."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from klamm.admin.calls import (
    CHANGE_MS,
    Calls,
    Condition,
    by_topic,
    check,
    choice,
    collect,
    instances,
    known,
    numbers,
    partitions_of,
    plain,
    refusal,
)
from klamm.arguments import INT32, boolean, integer, items_of, list_of, string
from klamm.errors import ElectionNotNeededError, KafkaError
from klamm.record import TopicPartition
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    from klamm.admin.calls import Fields

Election: TypeAlias = Literal["preferred", "unclean"]
ELECTIONS = {"preferred": 0, "unclean": 1}


@dataclass(frozen=True)
class Reassignment:
    """A partition that moves to other brokers.

    Attributes:
        replicas: Broker IDs of all replicas during the move.
        adding: IDs of the brokers that get a replica.
        removing: IDs of the brokers that lose their replica.
    """

    replicas: list[int]
    adding: list[int]
    removing: list[int]


@dataclass(frozen=True, order=True)
class Replica:
    """The replica of a partition on a broker."""

    topic: str
    partition: int
    broker: int


@dataclass(frozen=True)
class LogDirReplica:
    """A replica in a log directory.

    Attributes:
        size: Size of the log in bytes.
        offset_lag: Number of records that the replica still has to copy.
        is_future: Whether the replica is an unfinished copy that will replace the broker's current replica.
    """

    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True)
class LogDir:
    """A log directory of a broker.

    Attributes:
        error: Error that explains why the directory is offline, or None.
        replicas: For each partition in the directory, its replica.
        total_bytes: Size of the volume, or None if it is unknown (Kafka 3.3).
        usable_bytes: Free space of the volume, or None if it is unknown (Kafka 3.3).
        is_cordoned: Whether the broker creates no new replicas in the directory (Kafka 4.3).
    """

    error: KafkaError | None
    replicas: dict[TopicPartition, LogDirReplica]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


@dataclass(frozen=True)
class ReplicaLogDirs:
    """The log directories of a replica.

    Attributes:
        path: Current directory, or None if the broker has no replica.
        offset_lag: Number of records that the replica still has to copy, or None.
        future_path: Directory that the replica moves to, or None.
        future_offset_lag: Number of records that the move still has to copy, or None.
    """

    path: str | None = None
    offset_lag: int | None = None
    future_path: str | None = None
    future_offset_lag: int | None = None


class PartitionCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _elect(
        self, partitions: Iterable[TopicPartition] | None, election: Election, timeout: float | None, wait: bool
    ) -> dict[TopicPartition, bool]:
        kind = choice("election", election, ELECTIONS)
        deadline = self._deadline(timeout)
        requested_partitions = None if partitions is None else plain(partitions)
        if boolean("wait", wait):
            self._check_served("Metadata")
        if requested_partitions == []:
            return {}
        topics = (
            None
            if requested_partitions is None
            else [{"topic": t, "partitions": numbers(tps)} for t, tps in by_topic(requested_partitions)]
        )
        # Version 0 of ElectLeaders has no election type, and elects only preferred leaders.
        request = {"topicPartitions": topics, "timeoutMs": CHANGE_MS, **({"electionType": kind} if kind else {})}
        response = await self._ask("ElectLeaders", request, deadline.left(), "controller")
        check({"errorCode": 0, **response}, "elect leaders")
        results = {
            TopicPartition(topic, part["partitionId"]): _elected(topic, part)
            for topic, part in partitions_of(response["replicaElectionResults"], "topic", "partitionResult")
        }
        held: Literal["is led by first", "is led"] = "is led by first" if kind == ELECTIONS["preferred"] else "is led"
        conditions = {
            tp: Condition(held, tp.topic, tp.partition) for tp, result in results.items() if wait and result is True
        }
        return await self._confirm(results, conditions, deadline, "ElectLeaders", "all")

    async def _reassign(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        timeout: float | None,
        wait: bool,
        same_factor: bool,
    ) -> None:
        targets = [_targets(ids) for _, ids in items_of("replicas", replicas)]
        replicas_by_partition = dict(zip(plain(replicas), targets, strict=True))
        deadline = self._deadline(timeout)
        if not replicas_by_partition:
            return
        topics = [
            {
                "name": topic,
                "partitions": [{"partitionIndex": tp.partition, "replicas": replicas_by_partition[tp]} for tp in tps],
            }
            for topic, tps in by_topic(replicas_by_partition)
        ]
        request = {
            "topics": topics,
            "timeoutMs": CHANGE_MS,
            **({"allowReplicationFactorChange": False} if same_factor else {}),
        }
        response = await self._ask("AlterPartitionReassignments", request, deadline.left(), "controller")
        check(response, "reassign partitions")
        results = {
            TopicPartition(topic, part["partitionIndex"]): refusal(
                part, f"reassign {topic}-{part['partitionIndex']}", topic, part["partitionIndex"]
            )
            for topic, part in partitions_of(response["responses"], "name", "partitions")
        }
        is_waiting = boolean("wait", wait)
        conditions = {
            tp: Condition("is reassigned", tp.topic, tp.partition)
            for tp, failed in results.items()
            if failed is None and is_waiting
        }
        await self._confirm(results, conditions, deadline, "AlterPartitionReassignments", "controller")

    async def _reassignments(
        self, partitions: Iterable[TopicPartition] | None, timeout: float | None
    ) -> dict[TopicPartition, Reassignment]:
        topics = (
            None
            if partitions is None
            else [{"name": topic, "partitionIndexes": numbers(tps)} for topic, tps in by_topic(plain(partitions))]
        )
        request = {"topics": topics, "timeoutMs": CHANGE_MS}
        response = await self._ask("ListPartitionReassignments", request, timeout, "controller")
        check(response, "list reassignments")
        return {
            TopicPartition(topic, part["partitionIndex"]): Reassignment(
                part["replicas"], part["addingReplicas"], part["removingReplicas"]
            )
            for topic, part in partitions_of(response["topics"], "name", "partitions")
        }

    async def _log_dirs(
        self, brokers: Iterable[int] | None, partitions: Iterable[TopicPartition] | None, timeout: float | None
    ) -> dict[int, dict[str, LogDir]]:
        deadline = self._deadline(timeout)
        broker_ids = await self._brokers(deadline.left()) if brokers is None else _ids("brokers", brokers)
        topics = (
            None
            if partitions is None
            else [{"topic": topic, "partitions": numbers(tps)} for topic, tps in by_topic(plain(partitions))]
        )
        responses = await self._ask_brokers("DescribeLogDirs", {"topics": topics}, broker_ids, deadline.left())
        return collect((broker, _dirs(broker, response)) for broker, response in responses.items())

    async def _move_replicas(self, paths: Mapping[Replica, str], timeout: float | None) -> None:
        instances("replicas", [replica for replica, _ in items_of("paths", paths)], Replica)
        of_broker: dict[int, dict[str, list[TopicPartition]]] = defaultdict(lambda: defaultdict(list))
        for replica, path in paths.items():
            of_broker[replica.broker][string("a path", path)].append(TopicPartition(replica.topic, replica.partition))
        requests = {
            broker: (
                {
                    "dirs": [
                        {
                            "path": path,
                            "topics": [{"name": topic, "partitions": numbers(tps)} for topic, tps in by_topic(moved)],
                        }
                        for path, moved in dirs.items()
                    ]
                },
                broker,
            )
            for broker, dirs in of_broker.items()
        }
        results: dict[Replica, KafkaError | None] = {}
        for broker, response in (await self._ask_each("AlterReplicaLogDirs", requests, timeout)).items():
            if isinstance(response, KafkaError):
                results.update((replica, response) for replica in paths if replica.broker == broker)
                continue
            for topic, part in partitions_of(response["results"], "topicName", "partitions"):
                number = part["partitionIndex"]
                tried = f"move the replica of {topic}-{number} on broker {broker}"
                results[Replica(topic, number, broker)] = refusal(part, tried, topic, number)
        collect(results.items())

    async def _replica_dirs(self, replicas: Iterable[Replica], timeout: float | None) -> dict[Replica, ReplicaLogDirs]:
        checked_replicas = instances("replicas", replicas, Replica)
        of_broker: dict[int, list[TopicPartition]] = defaultdict(list)
        for replica in checked_replicas:
            of_broker[replica.broker].append(TopicPartition(replica.topic, replica.partition))
        requests = {
            broker: ({"topics": [{"topic": t, "partitions": numbers(tps)} for t, tps in by_topic(each)]}, broker)
            for broker, each in of_broker.items()
        }
        responses = await self._ask_each("DescribeLogDirs", requests, timeout)
        dirs_by_broker = {broker: _dirs(broker, response) for broker, response in responses.items()}
        return collect((replica, _dirs_of(replica, dirs_by_broker[replica.broker])) for replica in checked_replicas)


class Partitions(PartitionCalls):
    """Methods of `Admin` for replicas of partitions."""

    def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        election: Election = "preferred",
        timeout: float | None = None,
        *,
        wait: bool = False,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders of partitions (Kafka 2.2). Unclean elections need Kafka 2.4.

        Args:
            partitions: The partitions. None means all partitions.
            election: `preferred` elects the first replica. If no in-sync replica is online, `unclean` elects a replica
                that is not in sync. An unclean election can lose records.
            timeout: Seconds to wait.
            wait: Wait until all brokers know the new leaders.

        Returns:
            For each partition, whether there was an election. False means that no election was needed.

        Raises:
            PreferredLeaderNotAvailableError: The first replica is offline or not in sync.
            EligibleLeadersNotAvailableError: No replica is online.
            CombinedError: Several elections failed. `error.results` has the successful results.
        """
        return run(self._elect(partitions, election, timeout, wait))

    def alter_partition_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        timeout: float | None = None,
        *,
        wait: bool = False,
        keep_replication_factor: bool = False,
    ) -> None:
        """Move partitions to other brokers, or cancel moves (Kafka 2.4).

        Args:
            replicas: For each partition, the broker IDs of its replicas, the preferred leader first. None cancels the
                move of the partition.
            timeout: Seconds to wait.
            wait: Wait until the moves are finished.
            keep_replication_factor: Reject moves that change the number of replicas (Kafka 4.1).

        Raises:
            InvalidReplicaAssignmentError: A broker does not exist.
            NoReassignmentInProgressError: A partition has no move to cancel.
            KafkaTimeoutError: The moves are not finished yet. The brokers continue to move the replicas.
            CombinedError: Several moves were rejected.
        """
        run(self._reassign(replicas, timeout, wait, keep_replication_factor))

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the unfinished moves of the given partitions (default: all partitions). The method needs Kafka 2.4."""
        return run(self._reassignments(partitions, timeout))

    def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> dict[int, dict[str, LogDir]]:
        """Return the log directories of brokers, with the size of each replica (Kafka 1.0).

        Args:
            brokers: Broker IDs. None means all brokers.
            partitions: Return only replicas of these partitions. None means all partitions.
            timeout: Seconds to wait.

        Returns:
            For each broker ID, its directories by path.

        Raises:
            ClusterAuthorizationFailedError: The user may not describe the cluster.
            CombinedError: Several brokers failed. `error.results` has the successful results.
        """
        return run(self._log_dirs(brokers, partitions, timeout))

    def alter_replica_log_dirs(self, paths: Mapping[Replica, str], timeout: float | None = None) -> None:
        """Move replicas to other log directories of their brokers (Kafka 1.1).

        The brokers copy the logs after the call has returned.

        Args:
            paths: For each replica, the path of the directory.
            timeout: Seconds to wait.

        Raises:
            LogDirNotFoundError: A broker does not have the directory.
            CombinedError: Several replicas cannot be moved.
        """
        run(self._move_replicas(paths, timeout))

    def describe_replica_log_dirs(
        self, replicas: Iterable[Replica], timeout: float | None = None
    ) -> dict[Replica, ReplicaLogDirs]:
        """Return the current directories of replicas, and the directories to which the replicas move (Kafka 1.1)."""
        return run(self._replica_dirs(replicas, timeout))


@documented_by(Partitions)
class AsyncPartitions(PartitionCalls):
    """Methods of `AsyncAdmin` for replicas of partitions."""

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        election: Election = "preferred",
        timeout: float | None = None,
        *,
        wait: bool = False,
    ) -> dict[TopicPartition, bool]:
        return await self._elect(partitions, election, timeout, wait)

    async def alter_partition_reassignments(
        self,
        replicas: Mapping[TopicPartition, Sequence[int] | None],
        timeout: float | None = None,
        *,
        wait: bool = False,
        keep_replication_factor: bool = False,
    ) -> None:
        await self._reassign(replicas, timeout, wait, keep_replication_factor)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        return await self._reassignments(partitions, timeout)

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        timeout: float | None = None,
    ) -> dict[int, dict[str, LogDir]]:
        return await self._log_dirs(brokers, partitions, timeout)

    async def alter_replica_log_dirs(self, paths: Mapping[Replica, str], timeout: float | None = None) -> None:
        await self._move_replicas(paths, timeout)

    async def describe_replica_log_dirs(
        self, replicas: Iterable[Replica], timeout: float | None = None
    ) -> dict[Replica, ReplicaLogDirs]:
        return await self._replica_dirs(replicas, timeout)


def _elected(topic: str, part: Fields) -> bool | KafkaError:
    failed = refusal(part, f"elect the leader of {topic}-{part['partitionId']}", topic, part["partitionId"])
    return False if isinstance(failed, ElectionNotNeededError) else failed or True


def _targets(ids: Sequence[int] | None) -> list[int] | None:
    return None if ids is None else _ids("replicas", ids)


def _ids(name: str, ids: Iterable[int]) -> list[int]:
    return [integer(f"one of {name}", broker, 0, INT32) for broker in list_of(name, ids)]


def _dirs(broker: int, response: Fields | KafkaError) -> dict[str, LogDir] | KafkaError:
    if isinstance(response, KafkaError):
        return response
    tried = f"describe the log directories of broker {broker}"
    return refusal({"errorCode": 0, **response}, tried) or {
        each["logDir"]: LogDir(
            refusal(each, f"describe directory {each['logDir']} of broker {broker}"),
            {
                TopicPartition(topic, part["partitionIndex"]): LogDirReplica(
                    part["partitionSize"], part["offsetLag"], part["isFutureKey"]
                )
                for topic, part in partitions_of(each["topics"], "name", "partitions")
            },
            known(each.get("totalBytes", -1)),
            known(each.get("usableBytes", -1)),
            each.get("isCordoned", False),
        )
        for each in response["results"]
    }


def _dirs_of(replica: Replica, dirs: dict[str, LogDir] | KafkaError) -> ReplicaLogDirs | KafkaError:
    if isinstance(dirs, KafkaError):
        return dirs
    tp = TopicPartition(replica.topic, replica.partition)
    current: tuple[str | None, int | None] = (None, None)
    future: tuple[str | None, int | None] = (None, None)
    for path, found in dirs.items():
        each = found.replicas.get(tp)
        if each is not None and each.is_future:
            future = (path, each.offset_lag)
        elif each is not None:
            current = (path, each.offset_lag)
    return ReplicaLogDirs(*current, *future)
