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
