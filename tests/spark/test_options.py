"""Options: which are rejected, and the hints of the errors. No broker, no Spark."""

from __future__ import annotations

import pytest

from klamm.errors import ConfigError
from klamm.spark.options import read_options, write_options
from klamm.spark.positions import Times

BOOTSTRAP = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = BOOTSTRAP | {"subscribe": "t"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "t"}, "'kafka.bootstrap.servers' is missing"),
        (BOOTSTRAP, "none is set"),
        (BOOTSTRAP | {"topic": "t"}, "use 'subscribe' to read"),
        (TOPIC | {"assign": '{"t":[0]}'}, "both subscribe and assign are set"),
        (BOOTSTRAP | {"subscribePattern": "("}, "must be a regular expression"),
        (BOOTSTRAP | {"subscribePattern": " "}, "'subscribePattern' is empty"),
        (BOOTSTRAP | {"subscribe": " , "}, "got ' , '"),
        (BOOTSTRAP | {"assign": '{"t":0}'}, """such as {"topic":[0,1]}"""),
        (BOOTSTRAP | {"assign": "t"}, """such as {"topic":[0,1]}"""),
        (TOPIC | {"startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        (TOPIC | {"bootstrap.servers": "x"}, "did you mean 'kafka.bootstrap.servers'?"),
        (TOPIC | {"kafkabootstrap.servers": "x"}, "did you mean 'kafka.bootstrap.servers'?"),
        (TOPIC | {"fetch.min.bytes": "1"}, "did you mean 'kafka.fetch.min.bytes'?"),
        (TOPIC | {"taste": "sweet"}, "valid options are subscribe, subscribePattern, assign"),
        (TOPIC | {"path": "t"}, "option 'subscribe' to read"),
        (TOPIC | {"startingOffsets": "first"}, "must be earliest, latest or JSON"),
        (TOPIC | {"startingOffsets": '{"t":{"0":-3}}'}, "must be earliest, latest or JSON"),
        (TOPIC | {"startingOffsets": '{"t":{"zero":1}}'}, "must be earliest, latest or JSON"),
        (TOPIC | {"startingTimestamp": "yesterday"}, "must be milliseconds since 1970, got 'yesterday'"),
        (TOPIC | {"startingOffsetsByTimestamp": "17"}, """such as {"topic":{"0":1700000000000}}"""),
        (TOPIC | {"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, """such as {"topic":{"0":1700000000000}}"""),
        (TOPIC | {"startingOffsetsByTimestampStrategy": "earliest"}, "must be error or latest, got 'earliest'"),
        (TOPIC | {"minPartitions": "0"}, "'minPartitions' must be a whole number above 0"),
        (TOPIC | {"maxRecordsPerPartition": "-5"}, "'maxRecordsPerPartition' must be a whole number above 0"),
        (TOPIC | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "more than 'maxOffsetsPerTrigger', 5"),
        (TOPIC | {"maxTriggerDelay": "soon"}, "must be a duration such as 500ms, 10s, 15m or 2h, got 'soon'"),
        (TOPIC | {"columns": "key,,value"}, "list of different names"),
        (TOPIC | {"columns": "key,key"}, "list of different names"),
        (TOPIC | {"columns": "key,KEY"}, "list of different names"),
        (TOPIC | {"fetchOffset.numRetries": "none"}, "'fetchOffset.numRetries' must be a whole number"),
        (TOPIC | {"maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger' must be a whole number above 0, got '0'"),
        (TOPIC | {"maxOffsetsPerTrigger": "many"}, "got 'many'"),
        (TOPIC | {"failOnDataLoss": "no"}, "'failOnDataLoss' must be true or false, got 'no'"),
        (TOPIC | {"kafka.auto.offset.reset": "latest"}, "use option 'startingOffsets'"),
        (TOPIC | {"kafka.value.deserializer": "x"}, "cast the column instead"),
        (TOPIC | {"kafka.key.deserializer": "x"}, "cast the column instead"),
        (TOPIC | {"kafka.enable.auto.commit": "true"}, "keeps the positions"),
        (TOPIC | {"kafka.interceptor.classes": "x"}, "could change what is read"),
    ],
)
def test_a_read_with_a_wrong_option_is_refused(options, message):
    with pytest.raises(ConfigError) as refusal:
        read_options(options)
    assert message in str(refusal.value)


# Python raises ValueError for 5,000 digits, and OverflowError for 400 digits as a float.
@pytest.mark.parametrize("digits", [19, 400, 5000])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(
            (option, "{}")
            for option in (
                "kafkaConsumer.pollTimeoutMs",
                "fetchOffset.numRetries",
                "fetchOffset.retryIntervalMs",
                "minPartitions",
                "maxOffsetsPerTrigger",
                "maxTriggerDelay",
                "startingTimestamp",
            )
        ),
        ("maxTriggerDelay", "{}s"),
        ("startingOffsets", '{{"t":{{"0":{}}}}}'),
        ("startingOffsets", '{{"t":{{"{}":0}}}}'),
        ("startingOffsetsByTimestamp", '{{"t":{{"0":{}}}}}'),
    ],
)
def test_a_number_that_java_has_no_type_for_is_refused_by_name(option, value, digits):
    with pytest.raises(ConfigError, match=f"option '{option}' must be ") as refusal:
        read_options(TOPIC | {option: value.format("9" * digits)})
    assert len(str(refusal.value)) < 500


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


@pytest.mark.parametrize(
    "option", [{"endingOffsets": "latest"}, {"endingTimestamp": "1"}, {"endingOffsetsByTimestamp": '{"t":{"0":1}}'}]
)
def test_a_stream_has_no_end(option):
    with pytest.raises(ConfigError, match="a stream has no end"):
        read_options(TOPIC | option, streaming=True)


def test_a_timestamp_beats_timestamps_by_partition_and_these_beat_offsets():
    by_partition = {"startingOffsetsByTimestamp": '{"t":{"0":7}}', "startingOffsets": "earliest"}
    assert read_options(TOPIC | by_partition | {"startingTimestamp": "5"}).start.at == Times(5, or_latest=False)
    assert read_options(TOPIC | by_partition).start.at == Times({("t", 0): 7}, or_latest=False)
    # Latest is no place to begin a batch read, but here it is not the place.
    hidden = {"startingTimestamp": "5", "startingOffsets": "latest"}
    assert read_options(TOPIC | hidden, streaming=False).start.option == "startingTimestamp"


def test_a_read_ends_at_the_latest_record_if_none_is_after_the_ending_time():
    options = TOPIC | {"startingTimestamp": "5", "endingTimestamp": "9"}
    assert read_options(options).end.at == Times(9, or_latest=True)
    latest = read_options(options | {"startingOffsetsByTimestampStrategy": "LATEST"})
    assert latest.start.at == Times(5, or_latest=True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("10s", 10), ("15m", 900), ("2min", 120), ("1h", 3600), ("250", 0.25)]
)
def test_a_delay_is_written_as_spark_writes_times(text, seconds):
    assert read_options(TOPIC | {"maxTriggerDelay": text}).limits.max_delay_seconds == seconds


def test_offsets_are_committed_for_the_group_that_is_named():
    assert read_options(TOPIC).commit_group is None
    options = read_options(TOPIC | {"kafka.group.id": "g"})
    assert options.commit_group == "g"
    assert "group.id" not in options.config
    assert read_options(TOPIC | {"kafka.group.id": "g", "commitGroup": "h"}).commit_group == "h"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "t"}, "'kafka.bootstrap.servers' is missing"),
        (BOOTSTRAP | {"topics": "t"}, "did you mean 'topic'?"),
        (BOOTSTRAP | {"topic": " "}, "option 'topic' is empty"),
        (BOOTSTRAP | {"kafka.key.serializer": "x"}, "cast the column instead"),
        (BOOTSTRAP | {"kafka.value.serializer": "x"}, "cast the column instead"),
        (BOOTSTRAP | {"kafka.transactional.id": "x"}, "set option 'delivery'"),
        (BOOTSTRAP | {"delivery": "once"}, "must be at-least-once or exactly-once, got 'once'"),
        (BOOTSTRAP | {"delivery": "exactly-once"}, "needs option 'topic'"),
    ],
)
def test_a_write_with_a_wrong_option_is_refused(options, message):
    with pytest.raises(ConfigError) as refusal:
        write_options(options)
    assert message in str(refusal.value)


def test_defaults_are_those_of_sparks_connector():
    batch, stream = (read_options(TOPIC, streaming=streaming) for streaming in (False, True))
    assert (batch.start.at, batch.end.at) == ("earliest", "latest")
    assert stream.start.at == "latest"
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert not batch.limits.are_set
    assert batch.limits.max_delay_seconds == 15 * 60
    assert (batch.poll_seconds, batch.retries, batch.retry_seconds) == (120, 3, 1)
    assert not write_options(BOOTSTRAP | {"topic": "t"}).exactly_once


@pytest.mark.parametrize(
    ("given", "room"),
    [
        ({}, "16777216"),
        ({"kafka.max.request.size": "2000000"}, "16777216"),
        ({"kafka.max.request.size": "20000000"}, "40000000"),
        ({"kafka.message.max.bytes": "20000000"}, "40000000"),
        ({"kafka.max.request.size": "20000000", "kafka.buffer.memory": "30000000"}, "30000000"),
        ({"kafka.max.request.size": "large"}, "16777216"),
    ],
)
def test_a_write_has_room_for_the_records_that_it_may_send(given, room):
    assert write_options(BOOTSTRAP | {"topic": "t"} | given).config["buffer.memory"] == room


def test_names_are_found_in_any_case_as_spark_lowers_them():
    options = read_options({"KAFKA.bootstrap.servers": "h:1", "SUBSCRIBE": "a, b,", "includeheaders": "True"})
    assert options.topics == ("a", "b")
    assert options.include_headers


def test_client_options_reach_the_client_without_their_prefix():
    config = read_options(TOPIC | {"kafka.isolation.level": "read_committed"}).config
    assert config["isolation.level"] == "read_committed"
    assert config["bootstrap.servers"] == "localhost:9092"
    assert write_options(BOOTSTRAP | {"kafka.linger.ms": "5"}).config["linger.ms"] == "5"


def test_one_dict_of_options_serves_source_and_sink():
    options = TOPIC | {"topic": "out", "startingOffsets": "earliest", "checkpointLocation": "/c"}
    options |= {"kafka.group.id": "g", "kafka.isolation.level": "read_committed", "kafka.acks": "all"}
    assert read_options(options, streaming=True).topics == ("t",)
    assert write_options(options).topic == "out"


def test_assigned_partitions_are_in_order():
    assigned = read_options(BOOTSTRAP | {"assign": '{"b":[10,2],"a":[0]}'}).assigned
    assert assigned == (("a", 0), ("b", 2), ("b", 10))


@pytest.mark.parametrize(
    ("text", "is_odd"), [("0", False), ("1795675721", True), ("1795675721000", False), ("99999999999", True)]
)
def test_a_time_in_seconds_is_warned_of(caplog, text, is_odd):
    assert read_options(TOPIC | {"startingTimestamp": text}).start.at.ms == int(text)
    assert ("is it in seconds?" in caplog.text) == is_odd


JSON = {"value.format": "json", "value.schema": "{}"}


def test_the_unit_of_json_numbers_reaches_the_columns():
    for given, unit in (("MS", "ms"), ("", None)):
        assert read_options(TOPIC | JSON | {"timestampUnit": given}).typed.arguments()["timestamp_unit"] == unit
    with pytest.raises(ConfigError, match="'timestampUnit' must be s, ms, us or ns, got 'days'"):
        read_options(TOPIC | JSON | {"timestampUnit": "days"})
    with pytest.raises(ConfigError, match="needs option 'value"):
        read_options(TOPIC | {"timestampUnit": "ms"})
    for option, message in (("onError", "must be raise, null or column"), ("onNewFields", "must be drop or raise")):
        with pytest.raises(ConfigError, match=message):
            read_options(TOPIC | JSON | {option: "skip"})
