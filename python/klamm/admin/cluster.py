"""Describes the brokers, coordinators, features and metadata quorum of a cluster, and changes features and quorum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from klamm._klamm import __version__, apis
from klamm.admin.calls import (
    CHANGE_MS,
    GROUP,
    NO_OPERATIONS,
    SHARE,
    TRANSACTION,
    Calls,
    Item,
    check,
    choice,
    collect,
    known,
    refusal,
)
from klamm.admin.topics import NO_TOPIC_ID, operations_in
from klamm.arguments import INT16, INT32, boolean, integer, items_of, list_of, list_of_str, optional_string, string
from klamm.errors import ArgumentError, UnsupportedVersionError
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import TypeAlias

    from klamm.admin.acls import AclOperation
    from klamm.admin.calls import Fields
    from klamm.errors import KafkaError

CoordinatorType: TypeAlias = Literal["group", "transaction", "share"]
COORDINATORS = {"group": GROUP, "transaction": TRANSACTION, "share": SHARE}
UPGRADES = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}
METADATA_TOPIC = "__cluster_metadata"
CONTROLLERS = 2
"""Endpoint type of controllers in a DescribeCluster request."""


@dataclass(frozen=True)
class Node:
    """A broker or a controller. A fenced broker is registered, but clients do not use it."""

    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


@dataclass(frozen=True)
class ClusterDescription:
    """Description of a cluster.

    Attributes:
        cluster_id: ID of the cluster. None if the brokers are older than Kafka 0.10.1.
        controller: ID of the controller, or -1 if it is unknown.
        brokers: All brokers that are alive, and fenced brokers if they were requested. If the client talks to
            controllers, this list contains the controllers.
        authorized_operations: Operations that the user may perform on the cluster, if they were requested.
    """

    cluster_id: str | None
    controller: int
    brokers: list[Node]
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True)
class VersionRange:
    """The oldest and the newest version of an API or a feature."""

    min: int
    max: int


@dataclass(frozen=True)
class Features:
    """Features of the cluster (KIP-584).

    Attributes:
        finalized: Versions that the cluster uses, by name, such as `metadata.version`.
        epoch: Epoch of the finalized versions, or None if it is unknown.
        supported: Versions that the responding broker supports, by name.
    """

    finalized: dict[str, VersionRange]
    epoch: int | None
    supported: dict[str, VersionRange]


@dataclass(frozen=True)
class FeatureUpdate:
    """A change of a feature.

    Args:
        version: The new version. 0 disables the feature.
        change: `upgrade`, `safe_downgrade`, or `unsafe_downgrade`, which loses metadata.
    """

    version: int
    change: Literal["upgrade", "safe_downgrade", "unsafe_downgrade"] = "upgrade"


@dataclass(frozen=True)
class QuorumReplica:
    """A voter or observer of the metadata log.

    Attributes:
        id: ID of the node.
        directory_id: ID of the directory with the metadata log, or None if it is unknown (Kafka 3.9).
        end_offset: Offset after the last record of the replica.
        last_fetch_ms: Time of the replica's last fetch in milliseconds since 1970, or None if it is unknown.
        last_caught_up_ms: Time when the replica last had all records, in milliseconds since 1970. None if it is
            unknown.
    """

    id: int
    directory_id: str | None
    end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True)
class RaftEndpoint:
    """Address at which a controller listens.

    Args:
        name: Name of the listener, such as `CONTROLLER`.
        host: Host name.
        port: Port.
    """

    name: str
    host: str
    port: int


@dataclass(frozen=True)
class MetadataQuorum:
    """The replicas of the metadata log (KRaft).

    Attributes:
        leader: ID of the active controller.
        leader_epoch: Epoch of the leader.
        high_watermark: Offset after the last committed record.
        voters: Replicas that elect the leader.
        observers: Replicas that copy the log but do not vote, such as brokers.
        controllers: Endpoints of each voter, by voter ID. Empty if the brokers are older than Kafka 3.9.
    """

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: list[QuorumReplica]
    observers: list[QuorumReplica]
    controllers: dict[int, list[RaftEndpoint]]


class ClusterCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _cluster(self, fenced: bool, operations: bool, timeout: float | None) -> ClusterDescription:
        request: Fields = {}
        if boolean("fenced", fenced):
            request["includeFencedBrokers"] = True
        if boolean("authorized_operations", operations):
            request["includeClusterAuthorizedOperations"] = True
        if self._uses_controllers:
            if fenced:
                raise ArgumentError(
                    "controllers do not return fenced brokers", hint="create the client with bootstrap.servers"
                )
            request["endpointType"] = CONTROLLERS
        if not request:
            return await self._wait(self._describe_cluster(timeout))
        deadline = self._deadline(timeout)
        try:
            response = await self._ask("DescribeCluster", request, deadline.left())
        except UnsupportedVersionError:
            if fenced or self._uses_controllers:
                raise
            # Kafka 2.3 to 2.7 return the operations with the metadata.
            metadata = await self._ask("Metadata", {"topics": [], **request}, deadline.left(), versions=(8, 10))
            response = {**metadata, "errorCode": 0}
        check(response, "describe the cluster")
        brokers = [
            Node(
                each.get("brokerId", each.get("nodeId")),
                each["host"],
                each["port"],
                each["rack"],
                each.get("isFenced", False),
            )
            for each in sorted(response["brokers"], key=lambda each: each.get("brokerId", each.get("nodeId")))
        ]
        operations_bits = response["clusterAuthorizedOperations"] if operations else NO_OPERATIONS
        return ClusterDescription(
            response["clusterId"], response["controllerId"], brokers, operations_in(operations_bits)
        )

    async def _coordinators(self, keys: Iterable[str], kind: CoordinatorType, timeout: float | None) -> dict[str, Node]:
        checked_keys = list_of_str("keys", keys)
        number = choice("kind", kind, COORDINATORS)
        # Version 0 of FindCoordinator finds only the coordinators of groups, and has no key type.
        typed = {} if number == GROUP else {"keyType": number}
        newest = 6 if number == SHARE else 3

        items = {
            key: Item(
                {"coordinatorKeys": [key], **typed} if number == SHARE else {"key": key, **typed},
                None,
                f"find the {kind} coordinator of {key!r}",
            )
            for key in checked_keys
        }
        results = await self._for_items("FindCoordinator", items, _coordinator, timeout, versions=(0, newest))
        return collect(results.items())

    async def _versions(
        self, brokers: Iterable[int] | None, timeout: float | None
    ) -> dict[int, dict[str, VersionRange]]:
        deadline = self._deadline(timeout)
        broker_ids = (
            [node.id for node in (await self._cluster(False, False, deadline.left())).brokers]
            if brokers is None
            else [integer("one of brokers", broker, 0, INT32) for broker in list_of("brokers", brokers)]
        )
        results: dict[int, dict[str, VersionRange] | KafkaError] = {}
        for fields in (_SOFTWARE, {}):  # versions before 3 do not have the name and the version of the client
            items = {each: Item(fields, each, f"list API versions of broker {each}") for each in broker_ids}
            results.update(await self._for_items("ApiVersions", items, _ranges, deadline.left()))
            broker_ids = [each for each in broker_ids if isinstance(results[each], UnsupportedVersionError)]
        return collect(results.items())

    async def _features(self, timeout: float | None) -> Features:
        response = await self._ask("ApiVersions", _SOFTWARE, timeout)
        check(response, "describe features")
        # Brokers leave out fields for which they have no value.
        epoch = response.get("finalizedFeaturesEpoch", -1)
        return Features(
            {
                f["name"]: VersionRange(f["minVersionLevel"], f["maxVersionLevel"])
                for f in response.get("finalizedFeatures", ())
            },
            None if epoch < 0 else epoch,
            {f["name"]: VersionRange(f["minVersion"], f["maxVersion"]) for f in response.get("supportedFeatures", ())},
        )

    async def _change_features(
        self, updates: Mapping[str, FeatureUpdate | int], timeout: float | None, validate_only: bool
    ) -> None:
        changes = [_update(name, update) for name, update in items_of("updates", updates)]
        request: Fields = {"featureUpdates": changes, "timeoutMs": CHANGE_MS}
        if boolean("validate_only", validate_only):
            request["validateOnly"] = True
        response = await self._ask("UpdateFeatures", request, timeout, "controller")
        check(response, "update features")
        results = response.get("results", ())
        collect((each["feature"], refusal(each, f"update feature {each['feature']!r}")) for each in results)

    async def _quorum(self, timeout: float | None) -> MetadataQuorum:
        request = {"topics": [{"topicName": METADATA_TOPIC, "partitions": [{"partitionIndex": 0}]}]}
        response = await self._ask("DescribeQuorum", request, timeout)
        tried = "describe the metadata quorum"
        check(response, tried)
        part = response["topics"][0]["partitions"][0]
        check(part, tried)
        return MetadataQuorum(
            part["leaderId"],
            part["leaderEpoch"],
            part["highWatermark"],
            [_replica(each) for each in part["currentVoters"]],
            [_replica(each) for each in part["observers"]],
            {
                node["nodeId"]: [RaftEndpoint(each["name"], each["host"], each["port"]) for each in node["listeners"]]
                for node in response.get("nodes", ())
            },
        )

    async def _change(self, api: str, request: Fields, tried: str, timeout: float | None) -> None:
        """Send a request to the controller, and raise the error of the response, if it has one."""
        check(await self._ask(api, request, timeout, "controller"), tried)


class Clusters(ClusterCalls):
    """Methods of `Admin` for the cluster."""

    def describe_cluster(
        self, timeout: float | None = None, *, fenced: bool = False, authorized_operations: bool = False
    ) -> ClusterDescription:
        """Return the cluster ID, the controller and the brokers.

        If the client talks to controllers, return all controllers in place of the brokers.

        Args:
            timeout: Seconds to wait.
            fenced: Also return brokers that are registered, but not in use (Kafka 4.0).
            authorized_operations: Also return the operations that the user may perform on the cluster (Kafka 2.3).
        """
        return run(self._cluster(fenced, authorized_operations, timeout))

    def find_coordinators(
        self,
        keys: Iterable[str],
        kind: CoordinatorType = "group",
        timeout: float | None = None,
    ) -> dict[str, Node]:
        """Return the coordinators of groups, transactional IDs or partitions of share groups.

        Args:
            keys: Names of groups, transactional IDs, or partitions of share groups as `group:topic ID:partition`.
            kind: `group`, `transaction` (Kafka 0.11) or `share` (Kafka 4.1).
            timeout: Seconds to wait.

        Raises:
            GroupAuthorizationFailedError: The user may not describe a group.
            CombinedError: Several keys failed. `error.results` has the results of the keys that succeeded.
        """
        return run(self._coordinators(keys, kind, timeout))

    def api_versions(
        self, brokers: Iterable[int] | None = None, timeout: float | None = None
    ) -> dict[int, dict[str, VersionRange]]:
        """Return the versions of APIs that brokers support (Kafka 0.10).

        Args:
            brokers: IDs of brokers, or of controllers if the client talks to controllers. None means all nodes.
            timeout: Seconds to wait.

        Returns:
            For each broker ID, a dict from the name of an API to its versions.

        Raises:
            CombinedError: Several brokers failed. `error.results` has the results of the brokers that succeeded.
        """
        return run(self._versions(brokers, timeout))

    def describe_features(self, timeout: float | None = None) -> Features:
        """Return the feature versions that the cluster uses, and the versions that a broker supports (Kafka 2.7)."""
        return run(self._features(timeout))

    def update_features(
        self,
        updates: Mapping[str, FeatureUpdate | int],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Change the versions of features that the cluster uses (Kafka 2.7). Either all features change, or none.

        Args:
            updates: For each feature, a FeatureUpdate, or the version to upgrade to.
            timeout: Seconds to wait.
            validate_only: Only check whether the features can be changed (Kafka 3.3).

        Raises:
            InvalidUpdateVersionError: The cluster does not support a new version, or a downgrade would lose metadata.
            FeatureUpdateFailedError: The cluster cannot use one of the new versions.
        """
        run(self._change_features(updates, timeout, validate_only))

    def describe_metadata_quorum(self, timeout: float | None = None) -> MetadataQuorum:
        """Return the leader, the voters and the observers of the metadata log (KRaft, Kafka 3.3)."""
        return run(self._quorum(timeout))

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: str,
        endpoints: Iterable[RaftEndpoint],
        timeout: float | None = None,
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Make a controller a voter of the metadata quorum (KIP-853, Kafka 3.9).

        Args:
            voter_id: ID of the controller.
            directory_id: ID of the directory with the controller's metadata log. `describe_metadata_quorum` returns
                this ID.
            endpoints: Addresses at which the controller listens.
            timeout: Seconds to wait.
            cluster_id: Expected cluster ID. If the cluster's ID is different, the controller refuses the change.

        Raises:
            DuplicateVoterError: The controller is a voter already.
            UnsupportedVersionError: The quorum is static: `controller.quorum.voters` lists its voters.
        """
        fields = _voter(voter_id, directory_id, endpoints, cluster_id)
        run(self._change("AddRaftVoter", fields, f"add voter {voter_id}", timeout))

    def remove_raft_voter(
        self, voter_id: int, directory_id: str, timeout: float | None = None, *, cluster_id: str | None = None
    ) -> None:
        """Remove a voter from the metadata quorum (KIP-853, Kafka 3.9).

        Args:
            voter_id: ID of the controller.
            directory_id: ID of the directory with the controller's metadata log.
            timeout: Seconds to wait.
            cluster_id: Expected cluster ID. If the cluster's ID is different, the controller refuses the change.

        Raises:
            VoterNotFoundError: The controller is not a voter.
            UnsupportedVersionError: The quorum is static: `controller.quorum.voters` lists its voters.
        """
        fields = _voter(voter_id, directory_id, None, cluster_id)
        run(self._change("RemoveRaftVoter", fields, f"remove voter {voter_id}", timeout))

    def unregister_broker(self, broker: int, timeout: float | None = None) -> None:
        """Unregister a broker that was shut down permanently (KRaft, Kafka 3.7).

        Raises:
            BrokerIdNotRegisteredError: No broker with this ID is registered.
        """
        request = {"brokerId": integer("broker", broker, 0, INT32)}
        run(self._change("UnregisterBroker", request, f"unregister broker {broker}", timeout))

    def unregister_controller(self, controller: int, timeout: float | None = None) -> None:
        """Unregister a controller that was shut down permanently (Kafka 4.4)."""
        request = {"controllerId": integer("controller", controller, 0, INT32)}
        run(self._change("UnregisterController", request, f"unregister controller {controller}", timeout))


@documented_by(Clusters)
class AsyncClusters(ClusterCalls):
    """Methods of `AsyncAdmin` for the cluster."""

    async def describe_cluster(
        self, timeout: float | None = None, *, fenced: bool = False, authorized_operations: bool = False
    ) -> ClusterDescription:
        return await self._cluster(fenced, authorized_operations, timeout)

    async def find_coordinators(
        self,
        keys: Iterable[str],
        kind: CoordinatorType = "group",
        timeout: float | None = None,
    ) -> dict[str, Node]:
        return await self._coordinators(keys, kind, timeout)

    async def api_versions(
        self, brokers: Iterable[int] | None = None, timeout: float | None = None
    ) -> dict[int, dict[str, VersionRange]]:
        return await self._versions(brokers, timeout)

    async def describe_features(self, timeout: float | None = None) -> Features:
        return await self._features(timeout)

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate | int],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        await self._change_features(updates, timeout, validate_only)

    async def describe_metadata_quorum(self, timeout: float | None = None) -> MetadataQuorum:
        return await self._quorum(timeout)

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: str,
        endpoints: Iterable[RaftEndpoint],
        timeout: float | None = None,
        *,
        cluster_id: str | None = None,
    ) -> None:
        fields = _voter(voter_id, directory_id, endpoints, cluster_id)
        await self._change("AddRaftVoter", fields, f"add voter {voter_id}", timeout)

    async def remove_raft_voter(
        self, voter_id: int, directory_id: str, timeout: float | None = None, *, cluster_id: str | None = None
    ) -> None:
        fields = _voter(voter_id, directory_id, None, cluster_id)
        await self._change("RemoveRaftVoter", fields, f"remove voter {voter_id}", timeout)

    async def unregister_broker(self, broker: int, timeout: float | None = None) -> None:
        request = {"brokerId": integer("broker", broker, 0, INT32)}
        await self._change("UnregisterBroker", request, f"unregister broker {broker}", timeout)

    async def unregister_controller(self, controller: int, timeout: float | None = None) -> None:
        request = {"controllerId": integer("controller", controller, 0, INT32)}
        await self._change("UnregisterController", request, f"unregister controller {controller}", timeout)


_SOFTWARE = {"clientSoftwareName": "klamm", "clientSoftwareVersion": __version__}
_API_NAMES = {api.key: api.name for api in apis()}


def _voter(
    voter_id: int, directory_id: str, endpoints: Iterable[RaftEndpoint] | None, cluster_id: str | None
) -> Fields:
    fields: Fields = {
        "clusterId": optional_string("cluster_id", cluster_id),
        "voterId": integer("voter_id", voter_id, 0, INT32),
        "voterDirectoryId": string("directory_id", directory_id),
    }
    if endpoints is None:
        return fields
    listeners = [{"name": each.name, "host": each.host, "port": each.port} for each in list_of("endpoints", endpoints)]
    return {**fields, "listeners": listeners, "timeoutMs": CHANGE_MS}


def _update(name: str, update: FeatureUpdate | int) -> Fields:
    change = update if isinstance(update, FeatureUpdate) else FeatureUpdate(update)
    kind = choice("the change of a feature", change.change, UPGRADES)
    # Version 0 of UpdateFeatures has another field for downgrades.
    return {
        "feature": string("the name of a feature", name),
        "maxVersionLevel": integer(f"the version of {name}", change.version, 0, INT16),
        **({} if kind == UPGRADES["upgrade"] else {"upgradeType": kind}),
    }


def _coordinator(response: Fields) -> Node:
    coordinator = response["coordinators"][0] if response.get("coordinators") else response
    return Node(coordinator["nodeId"], coordinator["host"], coordinator["port"], None)


def _ranges(response: Fields) -> dict[str, VersionRange]:
    return {
        _API_NAMES.get(each["apiKey"], str(each["apiKey"])): VersionRange(each["minVersion"], each["maxVersion"])
        for each in response["apiKeys"]
    }


def _replica(fields: Fields) -> QuorumReplica:
    directory = fields.get("replicaDirectoryId", NO_TOPIC_ID)
    return QuorumReplica(
        fields["replicaId"],
        None if directory == NO_TOPIC_ID else directory,
        fields["logEndOffset"],
        known(fields.get("lastFetchTimestamp", -1)),
        known(fields.get("lastCaughtUpTimestamp", -1)),
    )
