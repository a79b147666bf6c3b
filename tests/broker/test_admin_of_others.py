"""Admin clients of other projects against the dev broker and Kafka."""

from __future__ import annotations

import warnings

import pytest

import klamm
from klamm.testing import DevBroker
from settled import until

confluent_kafka = pytest.importorskip("confluent_kafka")
kafka = pytest.importorskip("kafka")

from confluent_kafka import admin as confluent_admin  # noqa: E402 - only if it is there


@pytest.fixture
def librdkafka(broker):
    return confluent_admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


@pytest.fixture
def python(broker):
    client = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


@pytest.fixture
def made(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=2, configs={"segment.ms": "1000000"})})
        until(lambda: topic in admin.list_topics())
    return topic


def settings(broker, topic):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        return admin.describe_configs("topic", topic)


def test_the_old_alter_configs_replaces_all_of_them(broker, librdkafka, made):
    resource = confluent_admin.ConfigResource("topic", made, set_config={"max.message.bytes": "12345"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        librdkafka.alter_configs([resource], request_timeout=20)[resource].result(20)
    until(lambda: settings(broker, made)["max.message.bytes"].value == "12345")
    assert settings(broker, made)["segment.ms"].value == "604800000"


def test_records_are_deleted_and_the_rest_has_a_size(broker, librdkafka, python, made):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for n in range(4):
            producer.send(made, b"%d" % n, partition=0).result(timeout=20)
    tp = confluent_kafka.TopicPartition(made, 0, 3)
    assert librdkafka.delete_records([tp], request_timeout=20)[tp].result(20).low_watermark == 3
    topics = [topic for node in python.describe_log_dirs() for path in node["log_dirs"] for topic in path["topics"]]
    sizes = [
        partition["partition_size"] for topic in topics if topic["name"] == made for partition in topic["partitions"]
    ]
    assert len(sizes) >= 2
    assert max(sizes) > 0


def test_users_come_and_go(librdkafka, topic):
    user = topic
    sha256 = confluent_admin.ScramMechanism.SCRAM_SHA_256

    def alter(change):
        librdkafka.alter_user_scram_credentials([change], request_timeout=20)[user].result(20)

    def found():
        try:
            infos = librdkafka.describe_user_scram_credentials([user])[user].result(20).scram_credential_infos
        except confluent_kafka.KafkaException as error:
            if error.args[0].name() != "RESOURCE_NOT_FOUND":
                raise
            return None
        return [(info.mechanism, info.iterations) for info in infos]

    alter(
        confluent_admin.UserScramCredentialUpsertion(user, confluent_admin.ScramCredentialInfo(sha256, 8192), b"secret")
    )
    until(lambda: found() == [(sha256, 8192)])
    alter(confluent_admin.UserScramCredentialDeletion(user, sha256))
    until(lambda: found() is None)
    with pytest.raises(confluent_kafka.KafkaException, match="does not exist"):
        alter(confluent_admin.UserScramCredentialDeletion(user, sha256))
    few = confluent_admin.ScramCredentialInfo(sha256, 4095)
    with pytest.raises(confluent_kafka.KafkaException, match="Too few iterations"):
        alter(confluent_admin.UserScramCredentialUpsertion(user, few, b"secret"))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_new_user_logs_in(mechanism, tmp_path):
    logins = {"PLAIN": {"admin": "admin-secret"}, "SCRAM-SHA-256": {}, "SCRAM-SHA-512": {}}
    for _ in range(2):  # the second time from what was kept
        with DevBroker(sasl=logins, data_dir=tmp_path) as broker:
            admin = confluent_admin.AdminClient(broker.client_config("admin"))
            number = getattr(confluent_admin.ScramMechanism, mechanism.replace("-", "_"))
            if not admin.describe_user_scram_credentials().result(20):
                info = confluent_admin.ScramCredentialInfo(number, 5000)
                change = confluent_admin.UserScramCredentialUpsertion("alice", info, b"wonder,=land")
                admin.alter_user_scram_credentials([change])["alice"].result(20)
            login = {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": "wonder,=land"}
            config = {**broker.client_config("admin"), **login}
            with klamm.Producer(config) as producer:
                producer.send("t", b"v").result(timeout=20)
            with klamm.Producer({**config, "sasl.password": "other"}) as producer:
                assert isinstance(producer.send("t", b"v").exception(timeout=20), klamm.errors.KafkaError)


def test_leaders_that_need_no_election_stay(python, made):
    (answer,) = python.elect_leaders(0, {made: [0]}).replica_election_results
    assert answer.partition_result[0].error_code == 84  # ELECTION_NOT_NEEDED


def test_topics_and_the_cluster_are_described(broker, python, made):
    found = str(python.describe_topic_partitions([made]))
    assert made in found
    assert str(broker.bootstrap_servers.split(",")[0].rsplit(":", 1)[1]) in str(python.describe_cluster())
    assert not python.list_partition_reassignments()
