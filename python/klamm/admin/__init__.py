"""`Admin` and `AsyncAdmin`, and the types of their arguments and results.

`client.py` defines `Admin` and `AsyncAdmin`. Each other file defines the methods of both classes for one subject, such
as topics. The package imports a file when a program first uses a name from the file, because importing all files takes
70 ms of CPU time.
"""

from __future__ import annotations

from importlib import import_module

# Like `klamm/__init__.py`, this file defines TYPE_CHECKING itself, so that it does not import `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from klamm.admin.acls import AclBinding, AclFilter, AclOperation, AclPatternType, AclPermission, AclResource
    from klamm.admin.client import Admin, AsyncAdmin
    from klamm.admin.cluster import (
        ClusterDescription,
        CoordinatorType,
        Features,
        FeatureUpdate,
        MetadataQuorum,
        Node,
        QuorumReplica,
        RaftEndpoint,
        VersionRange,
    )
    from klamm.admin.configs import (
        ConfigChange,
        ConfigEntry,
        ConfigKind,
        ConfigOperation,
        ConfigResource,
        ConfigSource,
        ConfigSynonym,
        ConfigType,
    )
    from klamm.admin.group_offsets import ShareGroupOffset
    from klamm.admin.groups import (
        GroupDescription,
        GroupListing,
        GroupMember,
        RemovedMember,
        StreamsSubtopology,
        StreamsTasks,
    )
    from klamm.admin.offsets import EpochEnd, ListedOffset, OffsetSpec
    from klamm.admin.partitions import Election, LogDir, LogDirReplica, Reassignment, Replica, ReplicaLogDirs
    from klamm.admin.quotas import QuotaEntity, QuotaName
    from klamm.admin.topics import CreatedTopic, NewPartitions, NewTopic, PartitionInfo, TopicDescription
    from klamm.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing
    from klamm.admin.users import DelegationToken, ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion

__all__ = [
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPatternType",
    "AclPermission",
    "AclResource",
    "Admin",
    "AsyncAdmin",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigKind",
    "ConfigOperation",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConfigType",
    "CoordinatorType",
    "CreatedTopic",
    "DelegationToken",
    "Election",
    "EpochEnd",
    "FeatureUpdate",
    "Features",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "ListedOffset",
    "LogDir",
    "LogDirReplica",
    "MetadataQuorum",
    "NewPartitions",
    "NewTopic",
    "Node",
    "OffsetSpec",
    "PartitionInfo",
    "ProducerState",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaName",
    "RaftEndpoint",
    "Reassignment",
    "RemovedMember",
    "Replica",
    "ReplicaLogDirs",
    "ScramCredential",
    "ScramDeletion",
    "ScramMechanism",
    "ScramUpsertion",
    "ShareGroupOffset",
    "StreamsSubtopology",
    "StreamsTasks",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
    "VersionRange",
]

_HOMES = {
    "AclBinding": "acls",
    "AclFilter": "acls",
    "AclOperation": "acls",
    "AclPatternType": "acls",
    "AclPermission": "acls",
    "AclResource": "acls",
    "Admin": "client",
    "AsyncAdmin": "client",
    "ClusterDescription": "cluster",
    "ConfigChange": "configs",
    "ConfigEntry": "configs",
    "ConfigKind": "configs",
    "ConfigOperation": "configs",
    "ConfigResource": "configs",
    "ConfigSource": "configs",
    "ConfigSynonym": "configs",
    "ConfigType": "configs",
    "CoordinatorType": "cluster",
    "CreatedTopic": "topics",
    "DelegationToken": "users",
    "Election": "partitions",
    "EpochEnd": "offsets",
    "FeatureUpdate": "cluster",
    "Features": "cluster",
    "FencedProducer": "transactions",
    "GroupDescription": "groups",
    "GroupListing": "groups",
    "GroupMember": "groups",
    "ListedOffset": "offsets",
    "LogDir": "partitions",
    "LogDirReplica": "partitions",
    "MetadataQuorum": "cluster",
    "NewPartitions": "topics",
    "NewTopic": "topics",
    "Node": "cluster",
    "OffsetSpec": "offsets",
    "PartitionInfo": "topics",
    "ProducerState": "transactions",
    "QuorumReplica": "cluster",
    "QuotaEntity": "quotas",
    "QuotaName": "quotas",
    "RaftEndpoint": "cluster",
    "Reassignment": "partitions",
    "RemovedMember": "groups",
    "Replica": "partitions",
    "ReplicaLogDirs": "partitions",
    "ScramCredential": "users",
    "ScramDeletion": "users",
    "ScramMechanism": "users",
    "ScramUpsertion": "users",
    "ShareGroupOffset": "group_offsets",
    "StreamsSubtopology": "groups",
    "StreamsTasks": "groups",
    "TopicDescription": "topics",
    "TransactionDescription": "transactions",
    "TransactionListing": "transactions",
    "VersionRange": "cluster",
}


# Type checkers must not see `__getattr__`, because they would then accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'klamm.admin' has no attribute {name!r}", name=name)
        value = getattr(import_module(f"klamm.admin.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
