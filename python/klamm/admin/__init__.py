"""`Admin` and `AsyncAdmin`, and the types of their arguments and results.

`client.py` has the two classes. Each other file has the calls about one subject, for both classes.
"""

from __future__ import annotations

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
