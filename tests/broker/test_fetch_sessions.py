"""Fetch sessions (KIP-227) with handmade requests: the dev broker and Apache Kafka answer and reject alike."""

from __future__ import annotations

from contextlib import closing

import pytest

import klamm
from by_hand import Line

FETCH_SESSION_ID_NOT_FOUND = 70
INVALID_FETCH_SESSION_EPOCH = 71
FETCH_SESSION_TOPIC_ID_ERROR = 106
VERSION = 13  # the first that names topics by id
NO_ID = "A" * 22
NO_WAIT = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20, "isolationLevel": 0, "rackId": ""}


class Reader:
    """A connection to the leader of a topic with three partitions."""

    def __init__(self, line, topic, topic_id):
        self._ask, self._topic, self._topic_id = line, topic, topic_id

    def __call__(self, session, epoch, offsets=None, forgotten=(), version=VERSION, **config):
        """Send a fetch for some partitions and offsets. Return the error code, the session and the partitions."""
        topic = {"topic": self._topic} if version < VERSION else {"topicId": self._topic_id}
        asked = [
            {"partition": n, "currentLeaderEpoch": -1, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
            | {"lastFetchedEpoch": -1, "logStartOffset": -1}
            for n, offset in (offsets or {}).items()
        ]
        fields = {
            "sessionId": session,
            "sessionEpoch": epoch,
            "topics": [{**topic, "partitions": asked}] if asked else [],
            "forgottenTopicsData": [{**topic, "partitions": list(forgotten)}] if forgotten else [],
        }
        answer = self._ask("Fetch", version, {**NO_WAIT, **fields, **config})
        partitions = [partition for topic in answer["responses"] for partition in topic["partitions"]]
        changed = [(p["partitionIndex"], p["errorCode"], p["highWatermark"], bool(p["records"])) for p in partitions]
        return answer["errorCode"], answer["sessionId"], changed


@pytest.fixture
def write(broker, topic):
    """Writes a record to a partition of the topic."""
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=3)})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        yield lambda partition: producer.send(topic, b"v", partition=partition).result(20)


@pytest.fixture
def ask(broker, topic, write):
    """Asks the first node, which has a replica of each partition, each with one record."""
    for partition in range(3):
        write(partition)
    host, port = broker.bootstrap_servers.split(",")[0].rsplit(":", 1)
    with closing(Line(host, int(port))) as line:
        wanted = [{"name": topic, "topicId": NO_ID}]
        found = line("Metadata", 12, {"topics": wanted, "allowAutoTopicCreation": False})["topics"][0]
        yield Reader(line, topic, found["topicId"])


@pytest.fixture
def session(ask):
    """A session with all three partitions, read to their ends."""
    code, session, changed = ask(0, 0, dict.fromkeys(range(3), 1))
    assert (code, sorted(changed)) == (0, [(n, 0, 1, False) for n in range(3)])
    assert session > 0
    return session


def test_partitions_without_changes_are_not_in_the_response(ask, session, write):
    assert ask(session, 1) == (0, session, [])
    write(1)
    assert ask(session, 2) == (0, session, [(1, 0, 2, True)])
    assert ask(session, 3) == (0, session, [(1, 0, 2, True)]), "the client has not acknowledged the change"
    assert ask(session, 4, {1: 2}) == (0, session, [])


def test_forgotten_partitions_are_not_in_the_response_and_an_empty_session_ends(ask, session, write):
    for partition in (0, 2):
        write(partition)
    assert ask(session, 1, forgotten=[0]) == (0, session, [(2, 0, 2, True)])
    assert ask(session, 2, {0: 1}, forgotten=[2]) == (0, session, [(0, 0, 2, True)])
    assert ask(session, 3, forgotten=[0, 1]) == (0, 0, [])
    assert ask(session, 4) == (FETCH_SESSION_ID_NOT_FOUND, 0, [])


def test_what_has_records_is_read_last_the_next_time(ask, session):
    assert ask(session, 1, dict.fromkeys(range(3), 0), maxBytes=1)[:2] == (0, session)
    order = []
    for epoch in range(2, 5):
        _, _, changed = ask(session, epoch, maxBytes=1)
        order += [partition for partition, _, _, has_records in changed if has_records]
    assert sorted(order) == [0, 1, 2]


def test_an_error_is_in_every_response(ask, session):
    beyond = (1, 1, -1, False)
    assert ask(session, 1, {1: 9}) == (0, session, [beyond])
    assert ask(session, 2) == (0, session, [beyond])
    assert ask(session, 3, {1: 1}) == (0, session, [(1, 0, 1, False)]), "what comes after an error is news"
    assert ask(session, 4) == (0, session, [])


def test_requests_are_counted_and_name_topics_in_one_way(ask, session):
    assert ask(session, 2) == (INVALID_FETCH_SESSION_EPOCH, 0, [])
    assert ask(session, -2) == (INVALID_FETCH_SESSION_EPOCH, 0, [])
    assert ask(session, 1, version=VERSION - 1) == (FETCH_SESSION_TOPIC_ID_ERROR, 0, [])
    assert ask(0, 1) == (FETCH_SESSION_ID_NOT_FOUND, 0, [])
    assert ask(session, 1) == (0, session, []), "none of that counted"
    assert ask(session, 1) == (INVALID_FETCH_SESSION_EPOCH, 0, [])


def test_a_full_request_ends_the_session_it_names(ask, session):
    code, other, changed = ask(session, 0, {0: 1})
    assert (code, changed) == (0, [(0, 0, 1, False)])
    assert other not in {0, session}
    assert ask(session, 1) == (FETCH_SESSION_ID_NOT_FOUND, 0, [])
    assert ask(other, -1, {0: 1}) == (0, 0, [(0, 0, 1, False)])
    assert ask(other, 1) == (FETCH_SESSION_ID_NOT_FOUND, 0, [])
