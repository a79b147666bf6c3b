"""Options: what is refused, and that the message says what to do instead. No broker, no Spark."""

from __future__ import annotations

import pytest

from klamm.errors import ConfigError
from klamm.spark.options import read_options, write_options

BOOTSTRAP = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = BOOTSTRAP | {"subscribe": "t"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "t"}, "'kafka.bootstrap.servers' is missing"),
        (BOOTSTRAP, "neither is given"),
        (BOOTSTRAP | {"topic": "t"}, "'topic' names the topic of a write"),
        (TOPIC | {"assign": '{"t":[0]}'}, "both are given"),
        (BOOTSTRAP | {"subscribe": "a,,b"}, "got 'a,,b'"),
        (BOOTSTRAP | {"assign": '{"t":0}'}, """such as {"topic":[0,1]}"""),
        (BOOTSTRAP | {"assign": "t"}, """such as {"topic":[0,1]}"""),
        (TOPIC | {"startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        (TOPIC | {"bootstrap.servers": "x"}, "did you mean 'kafka.bootstrap.servers'?"),
        (TOPIC | {"kafkabootstrap.servers": "x"}, "did you mean 'kafka.bootstrap.servers'?"),
        (TOPIC | {"fetch.min.bytes": "1"}, "did you mean 'kafka.fetch.min.bytes'?"),
        (TOPIC | {"colour": "blue"}, "known are subscribe, assign"),
        (TOPIC | {"path": "t"}, "option 'subscribe' to read"),
        (TOPIC | {"startingOffsets": "first"}, "must be earliest, latest or JSON"),
        (TOPIC | {"startingOffsets": '{"t":{"0":-3}}'}, "must be earliest, latest or JSON"),
        (TOPIC | {"startingOffsets": '{"t":{"zero":1}}'}, "must be earliest, latest or JSON"),
        (TOPIC | {"maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger' must be a whole number above 0, got '0'"),
        (TOPIC | {"maxOffsetsPerTrigger": "many"}, "got 'many'"),
        (TOPIC | {"failOnDataLoss": "no"}, "'failOnDataLoss' must be true or false, got 'no'"),
        (TOPIC | {"kafka.auto.offset.reset": "latest"}, "use option 'startingOffsets'"),
        (TOPIC | {"kafka.value.deserializer": "x"}, "cast the column instead"),
        (TOPIC | {"kafka.enable.auto.commit": "true"}, "keeps the positions"),
    ],
)
def test_a_read_with_a_wrong_option_is_refused(options, message):
    with pytest.raises(ConfigError) as refusal:
        read_options(options)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": "latest"}, "nothing would be left to read"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "nothing would be left to read"),
        ({"endingOffsets": "earliest"}, "nothing would be left to read"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "nothing would be left to read"),
    ],
)
def test_a_batch_read_of_nothing_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        read_options(TOPIC | options, streaming=False)


def test_a_stream_has_no_end():
    with pytest.raises(ConfigError, match="a stream has no end"):
        read_options(TOPIC | {"endingOffsets": "latest"}, streaming=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "t"}, "'kafka.bootstrap.servers' is missing"),
        (BOOTSTRAP | {"topics": "t"}, "did you mean 'topic'?"),
        (BOOTSTRAP | {"topic": " "}, "option 'topic' is empty"),
        (BOOTSTRAP | {"kafka.key.serializer": "x"}, "cast the column instead"),
    ],
)
def test_a_write_with_a_wrong_option_is_refused(options, message):
    with pytest.raises(ConfigError) as refusal:
        write_options(options)
    assert message in str(refusal.value)


def test_defaults_are_those_of_sparks_connector():
    batch, stream = (read_options(TOPIC, streaming=streaming) for streaming in (False, True))
    assert (batch.start, batch.end) == ("earliest", "latest")
    assert stream.start == "latest"
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert batch.max_offsets_per_trigger is None


def test_names_are_found_in_any_case_as_spark_lowers_them():
    options = read_options({"KAFKA.bootstrap.servers": "h:1", "SUBSCRIBE": "a, b", "includeheaders": "True"})
    assert options.topics == ("a", "b")
    assert options.include_headers


def test_client_options_reach_the_client_without_their_prefix():
    config = read_options(TOPIC | {"kafka.isolation.level": "read_committed"}).config
    assert config["isolation.level"] == "read_committed"
    assert config["bootstrap.servers"] == "localhost:9092"
    assert write_options(BOOTSTRAP | {"kafka.linger.ms": "5"}).config["linger.ms"] == "5"


def test_one_dict_of_options_serves_source_and_sink():
    options = TOPIC | {"topic": "out", "startingOffsets": "earliest", "checkpointLocation": "/c"}
    assert read_options(options, streaming=True).topics == ("t",)
    assert write_options(options).topic == "out"


def test_assigned_partitions_are_in_order():
    assigned = read_options(BOOTSTRAP | {"assign": '{"b":[10,2],"a":[0]}'}).assigned
    assert assigned == (("a", 0), ("b", 2), ("b", 10))
