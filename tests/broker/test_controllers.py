"""An admin client that talks to the controllers of a KRaft cluster, and changes of their quorum."""

from __future__ import annotations

import contextlib
import json

import pytest

import klamm
from cli_process import klamm as command
from java_tools import java_tool
from kafka_cluster import KafkaCluster
from kafka_quorum import KafkaQuorum
from klamm.admin import ConfigChange, ConfigResource, RaftEndpoint
from klamm.errors import (
    ArgumentError,
    BrokerIdNotRegisteredError,
    ConfigError,
    ControllerIdNotRegisteredError,
    DuplicateVoterError,
    InvalidRequestError,
    MismatchedEndpointTypeError,
    SecurityDisabledError,
    UnsupportedEndpointTypeError,
    VoterNotFoundError,
)
from running import or_skip
from settled import until
from styles import Style


@pytest.fixture(scope="module")
def kafka():
    """Two controllers, one of which is a voter, and a broker beside the one in the first controller."""
    with or_skip(KafkaQuorum()) as running:
        yield running


@pytest.fixture
def admin(kafka):
    with klamm.Admin(bootstrap_controllers=kafka.controllers) as admin:
        yield admin


def run(kafka, line, code=0):
    result = command(*line.split(), "--bootstrap-controllers", ",".join(kafka.controllers))
    assert result.returncode == code, result.stderr.decode()
    return json.loads(result.stdout) if code == 0 else result.stderr.decode()


def test_brokers_and_controllers_cannot_both_be_set():
    with pytest.raises(ConfigError, match=r"bootstrap\.servers and bootstrap\.controllers cannot both be set"):
        klamm.Admin("a:1", bootstrap_controllers="b:1")
    with pytest.raises(ConfigError, match=r'bootstrap\.controllers has "b:x"'):
        klamm.Admin({"bootstrap.controllers": "b:x"})
    with pytest.raises(ConfigError, match="for a producer"):
        klamm.Producer({"bootstrap.controllers": "b:1"})
    with klamm.Admin({"bootstrap.controllers": "b:1", "bootstrap.servers": ""}) as admin:
        assert "b:1" in repr(admin)


def test_a_broker_is_not_a_controller(broker, style):
    with (
        style.admin(bootstrap_controllers=broker.bootstrap_servers) as admin,
        pytest.raises(MismatchedEndpointTypeError, match=r"belongs to a broker .*bootstrap\.servers for brokers"),
    ):
        admin.describe_cluster()


def test_a_controller_is_not_a_broker(kafka):
    first = kafka.controllers[0]
    with klamm.Admin(first) as admin, pytest.raises(MismatchedEndpointTypeError, match="belongs to a controller"):
        admin.describe_cluster()
    with klamm.Producer(first) as producer, pytest.raises(MismatchedEndpointTypeError):
        producer.send("t", b"v").result(10)
    with klamm.Admin(f"{first},{kafka.bootstrap_servers}") as admin:
        assert len(admin.describe_cluster().brokers) == 2


def test_controllers_describe_the_cluster(kafka, admin):
    cluster = admin.describe_cluster(authorized_operations=True)
    assert [f"{node.host}:{node.port}" for node in cluster.brokers] == kafka.controllers
    assert cluster.controller in {node.id for node in cluster.brokers}
    assert cluster.authorized_operations
    with klamm.Admin(kafka.bootstrap_servers) as other:
        assert other.describe_cluster().cluster_id == cluster.cluster_id
        assert other.describe_features().finalized == admin.describe_features().finalized
        assert other.describe_metadata_quorum().leader == admin.describe_metadata_quorum().leader
    versions = admin.api_versions()
    assert set(versions) == {1, 2}
    assert "Metadata" not in versions[1]
    with pytest.raises(ArgumentError, match="fenced"):
        admin.describe_cluster(fenced=True)


def test_controllers_change_configurations(kafka, admin):
    defaults, broker = ConfigResource("broker", ""), ConfigResource("broker", "3")
    admin.incremental_alter_configs(
        {defaults: [ConfigChange("message.max.bytes", 2000)], broker: [ConfigChange("message.max.bytes", 3000)]}
    )
    until(lambda: admin.describe_configs("broker", "")["message.max.bytes"].value == "2000")
    assert {admin.describe_configs("broker", str(node))["node.id"].value for node in (1, 2)} == {"1", "2"}
    with pytest.raises(InvalidRequestError, match="expected 1"):
        admin.describe_configs("broker", "3")
    with klamm.Admin(kafka.bootstrap_servers) as other:
        until(lambda: other.describe_configs("broker", "3")["message.max.bytes"].value == "3000")


def test_a_call_that_needs_brokers_says_so(admin):
    for call in (
        admin.list_topics,
        lambda: admin.create_topics({"t": klamm.NewTopic()}),
        lambda: admin.delete_topics(["t"]),
        lambda: admin.describe_topics(["t"]),
        admin.list_groups,
        admin.describe_log_dirs,
        admin.describe_client_quotas,
        lambda: admin.elect_leaders(None, wait=True),
        lambda: admin.offsets_before({klamm.TopicPartition("t", 0): -1}),
    ):
        with pytest.raises(UnsupportedEndpointTypeError, match=r"needs a broker.*bootstrap\.servers"):
            call()


def test_other_calls_reach_the_active_controller(admin):
    assert admin.list_partition_reassignments() == {}
    assert admin.elect_leaders(None) == {}
    with pytest.raises(SecurityDisabledError):
        admin.describe_acls()
    with pytest.raises(BrokerIdNotRegisteredError):
        admin.unregister_broker(77)
    with pytest.raises(ControllerIdNotRegisteredError):
        admin.unregister_controller(77)


def test_commands_talk_to_controllers(kafka):
    described = run(kafka, "cluster describe --json")
    assert [node["id"] for node in described["controllers"]] == [1, 2]
    assert run(kafka, "quorum describe --json")["leader"] == 1
    assert run(kafka, "features describe --json")["features"]
    assert run(kafka, "reassign list --json") == {"partitions": []}
    assert run(kafka, "config check --json")["ok"]
    assert "needs a broker" in run(kafka, "configs describe topic --json", code=1)
    listed = java_tool("MetadataQuorum", "", "--bootstrap-controller", kafka.controllers[0], "describe", "--status")
    assert "LeaderId:               1" in listed


def test_a_voter_is_added_and_removed(kafka, admin, style):
    host, port = kafka.controllers[1].split(":")
    (observer,) = (each for each in admin.describe_metadata_quorum().observers if each.id == 2)
    endpoints = [RaftEndpoint("CONTROLLER", host, int(port))]

    def voters():
        return {each.id for each in admin.describe_metadata_quorum().voters}

    with style.admin(bootstrap_controllers=kafka.controllers) as both:
        both.add_raft_voter(2, observer.directory_id, endpoints)
    until(lambda: voters() == {1, 2})
    assert admin.describe_metadata_quorum().controllers[2] == endpoints
    with pytest.raises(DuplicateVoterError):
        admin.add_raft_voter(2, observer.directory_id, endpoints)
    with style.admin(bootstrap_controllers=kafka.controllers) as both:
        both.remove_raft_voter(2, observer.directory_id)
    until(lambda: voters() == {1})
    with pytest.raises(VoterNotFoundError):
        admin.remove_raft_voter(2, observer.directory_id)
    # The commands do the same.
    run(kafka, f"quorum add-voter 2 {observer.directory_id} --endpoint CONTROLLER://{host}:{port} --yes --json")
    until(lambda: voters() == {1, 2})
    run(kafka, f"quorum remove-voter 2 {observer.directory_id} --yes --json")
    until(lambda: voters() == {1})


def test_a_broker_that_was_shut_down_is_forgotten(kafka, admin):
    with klamm.Admin(kafka.bootstrap_servers) as other:
        known = lambda: {node.id for node in other.describe_cluster(fenced=True).brokers}  # noqa: E731
        assert known() == {1, 3}
        kafka.kill(3)
        until(lambda: len(other.describe_cluster().brokers) == 1)
        assert known() == {1, 3}
        admin.unregister_broker(3)
        until(lambda: known() == {1})
        with pytest.raises(BrokerIdNotRegisteredError):
            admin.unregister_broker(3)


def test_clients_follow_the_active_controller_when_it_dies():
    with or_skip(KafkaCluster()) as cluster, contextlib.ExitStack() as clients:
        styles = [clients.enter_context(contextlib.closing(Style(name))) for name in ("sync", "async")]
        admins = [clients.enter_context(style.admin(bootstrap_controllers=cluster.controllers)) for style in styles]
        (active,) = {admin.describe_cluster().controller for admin in admins}
        cluster.kill(active)
        for threads, admin in enumerate(admins, 2):
            change = ConfigChange("log.cleaner.threads", threads)
            admin.incremental_alter_configs({ConfigResource("broker", ""): [change]})
            until(lambda admin=admin: admin.describe_cluster().controller != active)
            until(lambda admin=admin: admin.describe_metadata_quorum().leader != active)
