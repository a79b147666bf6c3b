"""`Admin`, `AsyncAdmin`, and what they return: topics, groups, settings, access rules and the cluster.

`client.py` has the two classes. Each other file has the calls of one topic, for both of them.
"""

from __future__ import annotations

from klamm.admin.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResource,
)
from klamm.admin.client import (
    Admin,
    AsyncAdmin,
    ClusterDescription,
    ConfigEntry,
    ConfigKind,
    ConfigSource,
    GroupDescription,
    GroupListing,
    GroupMember,
    NewTopic,
    Node,
    PartitionInfo,
    TopicDescription,
)

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
    "ConfigEntry",
    "ConfigKind",
    "ConfigSource",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "NewTopic",
    "Node",
    "PartitionInfo",
    "TopicDescription",
]
