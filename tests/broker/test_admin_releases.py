"""Each admin call on each older release: it works, or it raises an error that names the first release with the call."""

from __future__ import annotations

import inspect
import re

import pytest

import klamm
from klamm.admin import (
    AclBinding,
    AclOperation,
    AclResource,
    ConfigChange,
    ConfigResource,
    Features,
    OffsetSpec,
    QuotaEntity,
    RaftEndpoint,
    Replica,
    ScramDeletion,
)
from klamm.errors import DecodeError, KafkaError, KafkaTimeoutError, NetworkError, UnsupportedVersionError
from klamm.testing import DevBroker

RELEASES = ["0.8.0", "0.8.2", "0.9.0", "0.10.0", "0.10.1", "0.10.2", "0.11.0", "1.0", "1.1", "2.0", "2.1", "2.2", "2.3"]
RELEASES += ["2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.3", "3.7", "3.9", "4.0", "4.1", "4.4"]
TP = klamm.TopicPartition("t", 0)
ID = "AAAAAAAAAAAAAAAAAAAAAQ"
TOPIC = ConfigResource("topic", "t")
ARGUMENTS = {
    "abort_transaction": (TP, 1, 0, 0),
    "add_raft_voter": (9, ID, [RaftEndpoint("CONTROLLER", "localhost", 1)]),
    "alter_client_quotas": ({QuotaEntity(user="u"): {"producer_byte_rate": 1.0}},),
    "alter_configs": ("topic", "t", {"retention.ms": 1}),
    "alter_group_offsets": ("g", {TP: 0}),
    "alter_partition_reassignments": ({TP: [1]},),
    "alter_replica_log_dirs": ({Replica("t", 0, 1): "/nowhere"},),
    "alter_share_group_offsets": ("g", {TP: 0}),
    "alter_user_scram_credentials": ([ScramDeletion("u")],),
    "create_acls": ([AclBinding(AclResource.TOPIC, "t", "User:u", AclOperation.READ)],),
    "create_partitions": ({"t": 1},),
    "create_topics": ({"other": klamm.NewTopic()},),
    "delete_acls": ([],),
    "delete_group_offsets": ("g", [TP]),
    "delete_groups": (["g"],),
    "delete_records": ({TP: 0},),
    "delete_share_group_offsets": ("g", ["t"]),
    "delete_topics": (["missing"],),
    "describe_configs": ("topic", "t"),
    "describe_groups": (["g"],),
    "describe_producers": ([TP],),
    "describe_replica_log_dirs": ([Replica("t", 0, 1)],),
    "describe_resources": ([TOPIC],),
    "describe_topics": (["t"],),
    "describe_transactions": (["x"],),
    "expire_delegation_token": (b"x",),
    "fence_producers": (["x"],),
    "find_coordinators": (["g"],),
    "force_terminate_transaction": ("x",),
    "group_lag": ("g",),
    "group_offsets": ("g",),
    "incremental_alter_configs": ({TOPIC: [ConfigChange("retention.ms", 1)]},),
    "list_group_offsets": (["g"],),
    "list_offsets": ({TP: OffsetSpec.LATEST},),
    "offsets_before": ({TP: -1},),
    "offsets_for_leader_epochs": ({TP: 0},),
    "remove_group_members": ("g", ["m"]),
    "remove_raft_voter": (9, ID),
    "renew_delegation_token": (b"x",),
    "replace_configs": ({TOPIC: {"retention.ms": 1}},),
    "share_group_offsets": (["g"],),
    "unregister_broker": (9,),
    "unregister_controller": (9,),
    "update_features": ({"f": 1},),
    "write_transaction_markers": ([TP], 1, 0, 0),
}
KEYWORDS = {"write_transaction_markers": {"commit": False, "force": True}}
# They send no request of their own.
OTHERS = {"close", "metrics", "client_instance_id", "register_metric", "unregister_metric", "dump_flight"}

UNSERVED = {
    "abort_transaction",
    "add_raft_voter",
    "remove_raft_voter",
    "unregister_broker",
    "unregister_controller",
    "update_features",
    "write_transaction_markers",
}
"""Calls that the dev broker serves as no release."""


def number(release):
    return tuple(int(part) for part in release.split("."))


def methods():
    """Return the names of all calls of `Admin` that send a request."""
    public = (name for name in dir(klamm.Admin) if not name.startswith("_") and name not in OTHERS)
    return [name for name in public if inspect.isfunction(getattr(klamm.Admin, name))]


@pytest.fixture(scope="module")
def clusters():
    """An admin client of a dev broker of each release."""
    brokers = {release: DevBroker(as_version=release).start() for release in RELEASES}
    admins = {release: klamm.Admin(broker.bootstrap_servers) for release, broker in brokers.items()}
    for broker in brokers.values():
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send("t", b"v")
    yield admins
    for release, broker in brokers.items():
        admins[release].close()
        broker.stop()


@pytest.mark.parametrize("name", methods())
def test_a_release_without_the_call_is_named(clusters, name):
    for release, admin in clusters.items():
        named = lacking(admin, name)
        if name == "offsets_before":
            assert (named is not None) == (number(release) >= (4, 0))
        elif name in UNSERVED:
            assert named
        else:
            assert named is None or number(named) > number(release), f"{release} names {named}"


def lacking(admin, name):
    """Call a method. Return the release that its error names, or None if the brokers have the call."""
    try:
        getattr(admin, name)(*ARGUMENTS.get(name, ()), timeout=5, **KEYWORDS.get(name, {}))
    except UnsupportedVersionError as error:
        hint = str(error.hint)
        found = re.search(r"requires Kafka ([\d.]+\d)", hint)
        return found[1] if found else hint
    except (KafkaTimeoutError, NetworkError, DecodeError):
        raise
    except KafkaError:
        return None
    return None


def test_a_cluster_without_features_has_none(clusters):
    for release in ("2.4", "2.8", "3.0"):
        assert clusters[release].describe_features() == Features({}, None, {})
