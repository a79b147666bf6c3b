"""`klamm.protocol` against brokers: handmade requests in all versions that the broker supports."""

from __future__ import annotations

import pytest

from by_hand import Line
from klamm import protocol
from settled import until

KEYS = {api.key: api for api in protocol.apis()}


@pytest.fixture
def ask(broker):
    """A connection to the first node."""
    line = Line.to(broker)
    yield line
    line.close()


@pytest.fixture
def versions(ask):
    answer = ask("ApiVersions", 0, {})
    assert answer["errorCode"] == 0
    spoken = {}
    for entry in answer["apiKeys"]:
        api = KEYS.get(entry["apiKey"])
        if api is not None:
            spoken[api.name] = range(max(entry["minVersion"], api.min), min(entry["maxVersion"], api.max) + 1)
    return spoken


def test_the_broker_speaks_every_api_the_client_uses(versions):
    client = "Produce Fetch ListOffsets Metadata OffsetCommit OffsetFetch FindCoordinator CreateTopics DeleteTopics"
    assert {*client.split(), "ApiVersions", "InitProducerId"} <= set(versions)


def test_versions_in_every_version(ask, versions):
    for version in versions["ApiVersions"]:
        answer = ask(
            "ApiVersions", version, {} if version < 3 else {"clientSoftwareName": "t", "clientSoftwareVersion": "1"}
        )
        assert answer["errorCode"] == 0


def test_metadata_in_every_version(ask, versions):
    for version in versions["Metadata"]:
        answer = ask("Metadata", version, {"topics": [] if version == 0 else None})
        assert answer["brokers"][0]["host"] == "127.0.0.1"


@pytest.fixture
def leader(ask, versions, topic):
    """A connection to the leader of a new topic's only partition, and the topic's ID."""
    newest = versions["Metadata"][-1]
    for _ in range(1_000):
        answer = ask("Metadata", newest, {"topics": [{"name": topic}], "allowAutoTopicCreation": True})
        (found,) = answer["topics"]
        nodes = {node["nodeId"]: node for node in answer["brokers"]}
        if found["errorCode"] == 0 and found["partitions"][0]["leaderId"] in nodes:
            break
    node = nodes[found["partitions"][0]["leaderId"]]
    line = Line(node["host"], node["port"])
    yield line, found["topicId"]
    line.close()


def test_names_are_not_looked_at_beside_ids(ask, versions, topic):
    newest = versions["Metadata"][-1]
    for name in (topic, f"{topic}-2"):
        ask("Metadata", newest, {"topics": [{"name": name}], "allowAutoTopicCreation": True})

    def described(topics):
        answer = ask("Metadata", newest, {"topics": topics, "allowAutoTopicCreation": False})
        return {t["name"]: t["topicId"] for t in answer["topics"] if t["errorCode"] == 0}

    names = [{"name": topic}, {"name": f"{topic}-2"}]
    until(lambda: len(described(names)) == 2)
    found = described(names)
    assert described([{"topicId": found[topic], "name": None}, names[1]]) == {topic: found[topic]}


def test_records_go_in_and_out_in_every_version(leader, versions, topic):
    ask, topic_id = leader
    written = 0
    for version in versions["Produce"]:
        if version < 3:
            continue  # older formats of records
        batch = protocol.encode_batch([protocol.BatchRecord(timestamp=1_000, value=b"v%d" % version)])
        name = {"topicId": topic_id} if version >= 13 else {"name": topic}
        data = [{**name, "partitionData": [{"index": 0, "records": batch}]}]
        answer = ask("Produce", version, {"acks": 1, "timeoutMs": 10_000, "topicData": data})
        (partition,) = answer["responses"][0]["partitionResponses"]
        assert (partition["errorCode"], partition["baseOffset"]) == (0, written), version
        written += 1
    for version in versions["Fetch"]:
        if version < 4:
            continue  # the broker would convert
        name = {"topicId": topic_id} if version >= 13 else {"topic": topic}
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
        fields = {"maxWaitMs": 100, "minBytes": 1, "topics": [{**name, "partitions": [partition]}]}
        (answer,) = ask("Fetch", version, fields)["responses"]
        batches = protocol.decode_records(answer["partitions"][0]["records"])
        assert batches[0].records[0].value == b"v3"
        assert sum(len(batch.records) for batch in batches) == written


def described(ask, kind, name):
    resource = {"resourceType": kind, "resourceName": name, "configurationKeys": []}
    answer = ask("DescribeConfigs", 4, {"resources": [resource], "includeSynonyms": True})["results"][0]
    assert answer["errorCode"] == 0
    return {config["name"]: config for config in answer["configs"]}


def synonyms(config):
    return [(synonym["name"], synonym["value"], synonym["source"]) for synonym in config["synonyms"]]


BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7


def test_configurations_have_types_and_synonyms(ask, topic):
    new = {
        "name": topic,
        "numPartitions": 1,
        "replicationFactor": 1,
        "configs": [{"name": "retention.ms", "value": "60000"}],
    }
    ask("CreateTopics", 7, {"topics": [new], "timeoutMs": 5000})
    until(lambda: ask("Metadata", 12, {"topics": [{"name": topic}]})["topics"][0]["errorCode"] == 0)
    configs = described(ask, 2, topic)
    assert len(configs) == 37
    types = {"preallocate": BOOLEAN, "compression.type": STRING, "max.message.bytes": INT, "retention.ms": LONG}
    types |= {"min.cleanable.dirty.ratio": DOUBLE, "cleanup.policy": LIST}
    assert {name: configs[name]["configType"] for name in types} == types
    assert synonyms(configs["retention.ms"])[0] == ("retention.ms", "60000", 1)
    assert synonyms(configs["max.message.bytes"]) == [("message.max.bytes", "1048588", 5)]
    assert synonyms(configs["min.insync.replicas"])[-1] == ("min.insync.replicas", "1", 5)
    assert synonyms(configs["segment.ms"]) == []
    groups = described(ask, 32, topic)
    assert len(groups) == 21
    assert synonyms(groups["share.auto.offset.reset"]) == [("share.auto.offset.reset", "latest", 5)]
    assert synonyms(groups["consumer.session.timeout.ms"]) == [("group.consumer.session.timeout.ms", "45000", 5)]
    assert groups["share.renew.acknowledge.enable"]["configType"] == BOOLEAN
    brokers = ask("Metadata", 12, {"topics": []})["brokers"]
    nodes = described(ask, 4, str(brokers[0]["nodeId"]))
    assert nodes["log.retention.hours"]["configType"] == INT
    assert nodes["log.retention.hours"]["readOnly"]
    assert nodes["node.id"]["configSource"] == 4
    assert list(described(ask, 4, "")) == ["min.insync.replicas"]


def test_resources_with_configurations_are_listed(ask, topic):
    change = {"name": "share.auto.offset.reset", "configOperation": 0, "value": "earliest"}
    resource = {"resourceType": 32, "resourceName": topic, "configs": [change]}
    ask("IncrementalAlterConfigs", 1, {"resources": [resource]})

    def listed(*kinds):
        answer = ask("ListConfigResources", 1, {"resourceTypes": list(kinds)})
        return answer["errorCode"], [
            (found["resourceType"], found["resourceName"]) for found in answer["configResources"]
        ]

    until(lambda: (32, topic) in listed(32)[1])
    nodes = {str(node["nodeId"]) for node in ask("Metadata", 12, {"topics": []})["brokers"]}
    assert set(listed(4)[1]) == {(4, node) for node in nodes}
    assert {(32, topic), *((kind, node) for kind in (4, 8) for node in nodes)} <= set(listed()[1])
    assert listed(3)[0] == 35


def test_the_controllers_are_described(ask):
    def quorum(topic, partition):
        topics = [{"topicName": topic, "partitions": [{"partitionIndex": partition}]}]
        answer = ask("DescribeQuorum", 2, {"topics": topics})
        return answer, answer["topics"][0]["partitions"][0]

    answer, partition = quorum("__cluster_metadata", 0)
    assert (answer["errorCode"], partition["errorCode"]) == (0, 0)
    assert partition["leaderId"] in [voter["replicaId"] for voter in partition["currentVoters"]]
    assert [node["nodeId"] for node in answer["nodes"]] == [voter["replicaId"] for voter in partition["currentVoters"]]
    assert quorum("other", 0)[1]["errorCode"] == 3
    assert quorum("__cluster_metadata", 1)[1]["errorCode"] == 3


def test_a_replica_stays_in_the_only_log_directory(leader, topic):
    ask, _ = leader
    directory = ask("DescribeLogDirs", 4, {"topics": None})["results"][0]["logDir"]

    def moved(path, name, *partitions):
        dirs = [{"path": path, "topics": [{"name": name, "partitions": list(partitions)}]}]
        answer = ask("AlterReplicaLogDirs", 2, {"dirs": dirs})
        return {partition["partitionIndex"]: partition["errorCode"] for partition in answer["results"][0]["partitions"]}

    assert moved(directory, topic, 0, 7) == {0: 0, 7: 3}
    assert moved(directory, topic + "-not", 0) == {0: 3}
    assert moved("/no-such-directory", topic, 0) == {0: 57}


def test_features_are_those_of_kafka(ask):
    software = {"clientSoftwareName": "klamm", "clientSoftwareVersion": "1"}
    answer = ask("ApiVersions", 4, software)
    supported = {f["name"]: (f["minVersion"], f["maxVersion"]) for f in answer["supportedFeatures"]}
    assert supported == {
        "eligible.leader.replicas.version": (0, 1),
        "group.version": (0, 1),
        "kraft.version": (0, 1),
        "metadata.version": (7, 33),
        "share.version": (0, 2),
        "streams.version": (0, 1),
        "transaction.version": (0, 2),
    }
    finalized = {f["name"]: f["maxVersionLevel"] for f in answer["finalizedFeatures"]}
    assert finalized["share.version"] == 2
    assert "kraft.version" not in finalized
    assert [f["name"] for f in ask("ApiVersions", 3, software)["supportedFeatures"]] == ["metadata.version"]


def test_internal_topics_are_listed_and_closed_to_clients(ask, topic):
    def found():
        answer = ask("FindCoordinator", 4, {"keyType": 0, "coordinatorKeys": [topic]})
        return answer["coordinators"][0]["errorCode"] == 0

    until(found)
    topics = {t["name"]: t for t in ask("Metadata", 12, {"topics": None})["topics"]}
    assert topics["__consumer_offsets"]["isInternal"]
    configs = described(ask, 2, "__consumer_offsets")
    assert configs["cleanup.policy"]["value"] == "compact"
    records = protocol.encode_batch([protocol.BatchRecord(timestamp=1_000, value=b"v")])
    data = {"name": "__consumer_offsets", "partitionData": [{"index": 0, "records": records}]}
    answer = ask("Produce", 12, {"acks": -1, "timeoutMs": 5000, "topicData": [data]})
    assert answer["responses"][0]["partitionResponses"][0]["errorCode"] == 17
