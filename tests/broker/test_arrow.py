"""Arrow input and output: exact types, every form of input, and tables of whole topics."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pyarrow as pa
import pytest

import klamm
from klamm.batches import batches_of
from klamm.errors import ArgumentError, ConfigError, MessageTooLargeError

SCHEMA = pa.schema(
    [
        ("topic", pa.dictionary(pa.int32(), pa.utf8())),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))),
    ]
)
SPARK = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.utf8()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.utf8()), ("value", pa.binary())])))),
    ]
)


@pytest.fixture
def filled(broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"v0", key=b"k0", timestamp_ms=1_000, headers=[("a", b"1"), ("b", None)]).result(20)
        producer.send(topic, None, key=None, timestamp_ms=2_000).result(20)
        producer.send(topic, b"", key=b"", timestamp_ms=3_000).result(20)
    return topic


def test_batches_have_the_schema_that_is_promised(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(filled, 0, 0, 3)])
        table = pa.Table.from_batches(list(consumer.arrow()))
    assert table.schema.equals(SCHEMA, check_metadata=True)
    at = [datetime.fromtimestamp(n, timezone.utc) for n in (1, 2, 3)]
    assert table.to_pydict() == {
        "topic": [filled] * 3,
        "partition": [0] * 3,
        "offset": [0, 1, 2],
        "timestamp": at,
        "timestamp_type": [0] * 3,
        "key": [b"k0", None, b""],
        "value": [b"v0", None, b""],
        "headers": [[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], [], []],
    }


def test_sparks_layout_is_that_of_its_own_connector(broker, filled):
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(filled, 0, 0, 3)])
        table = pa.Table.from_batches(list(consumer._arrow(10, 20, batches_of(None, {}, "spark"))))
    assert table.schema.equals(SPARK, check_metadata=True)
    assert table.schema.field("headers").type.value_field.name == "element"
    assert table.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        None,
    ]
    assert table.column("topic").to_pylist() == [filled] * 3
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [1_000_000, 2_000_000, 3_000_000]


def test_columns_can_be_chosen_and_ordered(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(filled, 0, 0, 3)])
        (batch,) = list(consumer.arrow(columns=["value", "offset"]))
        assert batch.schema.names == ["value", "offset"]
        consumer.seek(klamm.TopicPartition(filled, 0), 0)
        assert [batch.num_rows for batch in consumer.arrow(columns=[], max_rows=2)] == [2, 1]
        with pytest.raises(ConfigError, match='no column "nope"'):
            list(consumer.arrow(columns=["nope"]))


def test_batches_hold_at_most_so_many_rows_and_lose_none(style, broker, topic):
    with style.producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"%d" % i for i in range(1_000)])
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, 1_000)])
        batches = list(consumer.arrow(max_rows=64))
    assert max(batch.num_rows for batch in batches) <= 64
    assert [int(v) for batch in batches for v in batch.column("value").to_pylist()] == list(range(1_000))


def test_arrow_gives_up_after_a_silence(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(filled, 0, 0)])
        assert sum(batch.num_rows for batch in consumer.arrow(timeout=0.5)) == 3


def test_arrow_batches_end_in_bytes_too(style, broker, topic):
    """Small records first, then large ones in the same batch. Half of their size is headers."""
    sizes = [1] * 1_000 + [100_000] * 40
    with style.producer(broker.bootstrap_servers, compression_type="zstd", batch_size=100_000_000) as producer:
        for size in sizes:
            producer.send_nowait(topic, bytes(size // 2), headers=[("h", bytes(size // 2))], partition=0)
        producer.flush()
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(topic, 0, 0, len(sizes))])
        batches = list(consumer.arrow(max_bytes=1_000_000, columns=["offset"]))
    assert [o for batch in batches for o in batch.column("offset").to_pylist()] == list(range(len(sizes)))
    taken = [sum(sizes[batch.column("offset")[0].as_py() :][: batch.num_rows]) for batch in batches]
    assert max(taken) <= 1_100_000
    assert batches[0].num_rows > 1_000  # as many as fit


def test_polled_records_become_a_batch(style, broker, filled):
    with style.consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(filled, 0, 0, 3)])
        records = consumer.poll(timeout=20)
        while len(records) < 3:
            consumer.seek_to_beginning()
            records = consumer.poll(timeout=20)
    assert records.to_arrow(["key", "offset"]).to_pydict() == {"key": [b"k0", None, b""], "offset": [0, 1, 2]}
    assert records[1:].to_arrow(["offset"]).to_pydict() == {"offset": [1, 2]}


def test_a_table_that_was_read_can_be_sent_again(style, broker, filled):
    table = klamm.read_table(broker.bootstrap_servers, filled)
    copy = f"{filled}-copy"
    with style.producer(broker.bootstrap_servers) as producer:
        assert producer.send_arrow(copy, table) == 3
    copied = klamm.read_table(broker.bootstrap_servers, copy)
    for column in ("timestamp", "key", "value", "headers"):
        assert copied.column(column).to_pylist() == table.column(column).to_pylist()


VALUES = [b"a", None, b"", b"ccc"]


@pytest.mark.parametrize(
    "array",
    [
        pa.array(VALUES, pa.binary()),
        pa.array(VALUES, pa.large_binary()),
        pa.array(VALUES, pa.binary_view()),
        pa.array([None if v is None else v.decode() for v in VALUES], pa.utf8()),
        pa.array([None if v is None else v.decode() for v in VALUES], pa.large_utf8()),
        pa.array([None if v is None else v.decode() for v in VALUES], pa.string_view()),
        pa.array(VALUES, pa.binary()).dictionary_encode(),
        pa.array([b"x", *VALUES], pa.binary()).slice(1),
        pa.chunked_array([VALUES[:1], VALUES[1:]], pa.binary()),
    ],
    ids=["binary", "large_binary", "binary_view", "utf8", "large_utf8", "utf8_view", "dictionary", "sliced", "chunked"],
)
def test_text_and_bytes_come_in_every_form(broker, topic, array):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        assert producer.send_arrow(topic, pa.table({"value": array, "key": array})) == 4
    table = klamm.read_table(broker.bootstrap_servers, topic, columns=["value", "key"])
    assert table.to_pydict() == {"value": VALUES, "key": VALUES}


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns", None])
def test_timestamps_come_in_every_unit(broker, topic, unit):
    at = pa.array([1_000, 0, 5_000], pa.int64())
    if unit is not None:
        at = at.cast(pa.timestamp("ms")).cast(pa.timestamp(unit, tz="Europe/Vienna"))
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_arrow(topic, pa.table({"value": [b"v"] * 3, "timestamp": at}))
    table = klamm.read_table(broker.bootstrap_servers, topic, columns=["timestamp"])
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [1_000, 0, 5_000]


def test_every_column_of_a_record_can_be_sent(style, broker, partitioned):
    rows = pa.table(
        {
            "topic": pa.array([partitioned] * 3).dictionary_encode(),
            "partition": pa.array([2, None, 1], pa.int32()),
            "value": [b"a", b"b", b"c"],
            "key": [None, b"k", None],
            "headers": pa.array(
                [[{"key": "h", "value": b"1"}, {"key": "n", "value": None}], None, []],
                pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())])),
            ),
        }
    )
    with style.producer(broker.bootstrap_servers) as producer:
        assert producer.send_arrow(None, rows) == 3
    table = klamm.read_table(broker.bootstrap_servers, partitioned)
    found = {row["value"]: row for row in table.to_pylist()}
    assert found[b"a"]["partition"] == 2
    assert found[b"a"]["headers"] == [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    assert found[b"c"]["partition"] == 1
    assert found[b"b"]["partition"] == (klamm.protocol.murmur2(b"k") & 0x7FFFFFFF) % 4


def test_what_is_before_a_bad_row_is_sent(style, broker, topic):
    """Rows go to two topics in turns. There are more than one call of the core takes, and one header has no name."""
    names, bad = [f"{topic}-a", f"{topic}-b"], 1_001
    headers = [[{"key": None if i == bad else f"h{i}", "value": b"%d" % i}] * (i % 3) for i in range(2_000)]
    rows = pa.table(
        {
            "topic": [names[i % 2] for i in range(2_000)],
            "value": [b"%d" % i for i in range(2_000)],
            "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))),
        }
    )
    with style.producer(broker.bootstrap_servers) as producer:
        with pytest.raises(ArgumentError, match="row 1001: column `headers`: the key of header 0 is null"):
            producer.send_arrow(None, rows)
        producer.flush(timeout=20)
    for first, name in enumerate(names):
        found = klamm.read_table(broker.bootstrap_servers, name, columns=["value", "headers"]).to_pylist()
        assert [int(row["value"]) for row in found] == list(range(first, bad, 2))
        assert [row["headers"] for row in found] == [headers[i] for i in range(first, bad, 2)]


def test_headers_may_be_a_map(broker, topic):
    headers = pa.array([[("a", b"1")], [], None], pa.map_(pa.utf8(), pa.binary()))
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_arrow(topic, pa.record_batch({"value": [b"v"] * 3, "headers": headers}))
    table = klamm.read_table(broker.bootstrap_servers, topic, columns=["headers"])
    assert table.column("headers").to_pylist() == [[{"key": "a", "value": b"1"}], [], []]


def test_more_rows_than_the_buffer_holds_wait(style, broker, topic):
    rows = pa.table({"value": [b"%05d" % i * 20 for i in range(2_000)]})
    with style.producer(broker.bootstrap_servers, buffer_memory=20_000, batch_size=5_000) as producer:
        assert producer.send_arrow(topic, rows) == 2_000
    table = klamm.read_table(broker.bootstrap_servers, topic, columns=["value"])
    assert table.column("value").to_pylist() == rows.column("value").to_pylist()


def test_a_stream_that_python_makes_is_sent(style, broker, topic):
    def batches():
        for i in range(3):
            yield pa.record_batch({"value": [b"%d" % i] * 2})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("value", pa.binary())]), batches())
    with style.producer(broker.bootstrap_servers) as producer:
        assert producer.send_arrow(topic, reader) == 6


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"key": [b"k"]}, "no column `value`"),
        ({"value": [1]}, "column `value` is Int64, but has to be binary or utf8"),
        ({"value": [b"v"], "vlaue": [b"v"]}, "a record has no column `vlaue`"),
        ({"value": [b"v"], "partition": ["1"]}, "column `partition` is Utf8"),
        ({"value": [b"v"], "partition": [1 << 40]}, "is not a partition number"),
        ({"value": [b"v"], "timestamp": ["now"]}, "column `timestamp` is Utf8"),
        ({"value": [b"v"], "headers": [b"h"]}, "column `headers` is Binary"),
        ({"value": [b"v"], "topic": [b"t"]}, "column `topic` has to be utf8"),
    ],
)
def test_columns_that_cannot_be_sent_are_named(columns, says):
    producer = klamm.Producer("127.0.0.1:1")
    with pytest.raises(ArgumentError, match=says):
        producer.send_arrow("t", pa.table(columns))
    producer.close(0)


@pytest.mark.parametrize(
    ("data", "says", "hint"),
    [
        (pa.table({"value": [b"v"], "vlaue": [1]}), "a record has no column `vlaue`", "rename the column, or drop it"),
        (pa.table({"key": [b"k"]}), "no column `value`", "rename the column that has the values"),
        (pa.table({"value": [b"v"], "partition": [0.0]}), "`partition` is Float64", 'astype("Int32")'),
        (
            pa.table({"value": [b"v"], "partition": pa.array([0], pa.uint32())}),
            "`partition` is UInt32, but has to be int32 or int64",
            "cast the column",
        ),
        (
            pa.table({"value": pa.RunEndEncodedArray.from_arrays([1], pa.array([b"v"]))}),
            "column `value` is RunEndEncoded",
            "pyarrow.compute.run_end_decode",
        ),
        (pa.chunked_array([[b"v"]]), "a single array or chunked array", 'pyarrow.table({"value": array})'),
        (pa.array([b"v"]), "a single array or chunked array", 'pyarrow.table({"value": array})'),
        (pa.Table.from_arrays([[b"v"]] * 2, ["value"] * 2), "two columns `value`", "rename one of the columns"),
    ],
)
def test_what_cannot_be_sent_has_a_hint(data, says, hint):
    with klamm.Producer("127.0.0.1:1") as producer, pytest.raises(ArgumentError) as caught:
        producer.send_arrow("t", data)
    assert says in caught.value.message
    assert hint in (caught.value.hint or "")


def with_index(name="__index_level_0__", described=True):
    """Return a table as pandas makes it from a frame whose index is stored as a column."""
    table = pa.table({"value": [b"a", b"c"], name: pa.array([0, 2])})
    if not described:
        return table
    return table.replace_schema_metadata({"pandas": json.dumps({"index_columns": [name]})})


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (with_index(), "__index_level_0__"),
        (with_index().to_batches()[0], "__index_level_0__"),
        (with_index("ts").to_batches()[0], "ts"),
        (with_index("__index_level_11__"), "__index_level_11__"),
        (with_index(described=False), "__index_level_0__"),
        (with_index("ts"), "ts"),
        (with_index("ts").append_column("__index_level_1__", [[1, 2]]), "`ts`, `__index_level_1__`"),
    ],
)
def test_the_index_of_pandas_is_left_out_with_a_warning(style, broker, topic, data, name):
    with style.producer(broker.bootstrap_servers) as producer:
        with pytest.warns(UserWarning, match=f"leaves out the index of a pandas frame .*{name}") as seen:
            assert producer.send_arrow(topic, data) == 2
        producer.flush(20)
    assert len(seen) == 1
    assert klamm.read_table(broker.bootstrap_servers, topic)["value"].to_pylist() == [b"a", b"c"]


def test_an_index_with_the_name_of_a_field_is_sent(broker, topic):
    table = pa.table({"key": [b"k"], "value": [b"v"]})
    table = table.replace_schema_metadata({"pandas": json.dumps({"index_columns": ["key"]})})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_arrow(topic, table)
    assert klamm.read_table(broker.bootstrap_servers, topic)["key"].to_pylist() == [b"k"]


@pytest.mark.parametrize("metadata", ["", "[]", "{", '{"index_columns": 3}', '{"index_columns": [{"kind": "range"}]}'])
def test_odd_metadata_of_pandas_is_no_reason_to_fail(broker, topic, metadata):
    table = pa.table({"value": [b"v"]}).replace_schema_metadata({"pandas": metadata})
    with klamm.Producer(broker.bootstrap_servers) as producer:
        assert producer.send_arrow(topic, table) == 1


def test_other_columns_are_refused_beside_an_index():
    data = with_index().append_column("vlaue", [[1, 2]])
    with (
        klamm.Producer("127.0.0.1:1") as producer,
        pytest.warns(UserWarning, match="index"),
        pytest.raises(ArgumentError, match="no column `vlaue`"),
    ):
        producer.send_arrow("t", data)


@pytest.mark.parametrize("name", ["value", "key", "timestamp", "offset"])
def test_two_columns_of_one_name_are_refused(name):
    table = pa.table({"value": [b"v"], "key": [b"k"], "timestamp": [5], "offset": [0]})
    with klamm.Producer("127.0.0.1:1") as producer, pytest.raises(ArgumentError, match=f"are two columns `{name}`"):
        producer.send_arrow("t", table.append_column(name, table.column(name)))


def test_a_topic_is_required_as_an_argument_or_a_column():
    producer = klamm.Producer("127.0.0.1:1")
    with pytest.raises(ArgumentError, match="row 0: there is no topic"):
        producer.send_arrow(None, pa.table({"value": [b"v"]}))
    with pytest.raises(ArgumentError, match="not a table"):
        producer.send_arrow("t", pa.array([b"v"]))
    producer.close(0)


def test_a_topic_is_read_as_a_table(broker, partitioned):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_many(partitioned, [b"%d" % i for i in range(500)], keys=[b"%d" % i for i in range(500)])
    table = klamm.read_table(broker.bootstrap_servers, partitioned)
    assert table.schema.equals(SCHEMA)
    assert sorted(int(v) for v in table.column("value").to_pylist()) == list(range(500))
    assert set(table.column("partition").to_pylist()) == {0, 1, 2, 3}


def test_a_table_can_begin_and_end_anywhere(broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for i in range(10):
            producer.send(topic, b"%d" % i, timestamp_ms=i * 1_000).result(20)

    def values(**bounds):
        table = klamm.read_table(broker.bootstrap_servers, topic, columns=["value"], **bounds)
        return [int(value) for value in table.column("value").to_pylist()]

    def second(n):
        return datetime.fromtimestamp(n, timezone.utc)

    assert values(start={0: 7}) == [7, 8, 9]
    assert values(end={0: 2}) == [0, 1]
    assert values(start="latest") == []
    assert values(start=second(3), end=second(5)) == [3, 4]
    assert values(end=second(100)) == list(range(10))
    with pytest.raises(ConfigError, match="start names a partition that does not exist: 7"):
        values(start={7: 0})
    for position in ("yesterday", datetime(2020, 1, 1)):  # noqa: DTZ001 - without a zone, on purpose
        with pytest.raises(ConfigError, match="start cannot be"):
            values(start=position)


def test_an_empty_topic_is_an_empty_table(broker, partitioned):
    table = klamm.read_table(broker.bootstrap_servers, partitioned)
    assert table.num_rows == 0
    assert table.schema.equals(SCHEMA)


def test_a_header_that_is_null_is_refused(broker, topic):
    headers = pa.array([[None]], pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())])))
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for column in (headers, pa.array([[None]])):
            with pytest.raises(ArgumentError, match="row 0: column `headers`: header 0 is null"):
                producer.send_arrow(topic, pa.table({"value": [b"v"], "headers": column}))


def test_a_row_that_is_too_large_is_refused_by_its_number(broker, topic):
    rows = pa.table({"value": [b"v"] * 700 + [b"v" * 5_000, b"v"]})
    with klamm.Producer(broker.bootstrap_servers, max_request_size=2_000) as producer:
        with pytest.raises(
            MessageTooLargeError, match=r"row 700: produce a record of \d+ bytes .* max.request.size is 2000"
        ):
            producer.send_arrow(topic, rows)
        producer.flush(timeout=20)
    assert klamm.read_table(broker.bootstrap_servers, topic).num_rows == 700


def test_columns_without_any_value_may_have_no_type(broker, topic):
    names = ["key", "headers", "timestamp", "partition"]
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_arrow(topic, pa.table({"value": [b"v"], **{name: pa.nulls(1) for name in names}}))
        producer.send_arrow(topic, pa.table({"value": [b"w"], "headers": [[]]}))
    table = klamm.read_table(broker.bootstrap_servers, topic, columns=["key", "value", "headers"])
    assert sorted(table["value"].to_pylist()) == [b"v", b"w"]
    assert (table["key"].null_count, table["headers"].to_pylist()) == (2, [[], []])


def test_a_number_that_stands_for_no_timestamp_is_refused_with_its_row(broker, topic):
    times = pa.array([0, -1, -(2**63)], pa.timestamp("ms"))
    with klamm.Producer(broker.bootstrap_servers) as producer:
        with pytest.raises(ArgumentError, match="row 1: timestamp cannot be -1 ms, which stands for a record without"):
            producer.send_arrow(topic, pa.table({"value": [b"0", b"1", b"2"], "timestamp": times}))
        with pytest.raises(ArgumentError, match="row 0: timestamp cannot be -9223372036854775808 ms"):
            producer.send_arrow(topic, pa.table({"value": [b"2"], "timestamp": times[2:]}))


def test_header_names_that_are_not_utf8_stay_apart_and_can_be_sent_as_bytes(broker, topic):
    names = [b"name-\xe4b", b"name-\xf6b", "n\u00e4me".encode()]
    headers = pa.array(
        [[(name, b"1") for name in names]], pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
    )
    with klamm.Producer(broker.bootstrap_servers) as producer:
        producer.send_arrow(topic, pa.table({"value": [b"v"], "headers": headers}))
    table = klamm.read_table(broker.bootstrap_servers, topic)
    assert [header["key"] for header in table["headers"][0].as_py()] == ["name-\\xe4b", "name-\\xf6b", "n\u00e4me"]
    with klamm.Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign([klamm.TopicPartition(topic, partition, 0) for partition in consumer.partitions_for(topic)])
        record = next(iter(consumer))
    assert [name.encode("utf-8", "surrogateescape") for name, _ in record.headers] == names
