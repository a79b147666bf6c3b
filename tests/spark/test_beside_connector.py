"""Compares queries through `format("kafka")`, Spark's own connector, and through `format("klamm")`, row by row."""

from __future__ import annotations

import ast
import json
import zipfile
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, IllegalArgumentException, PythonException, SparkRuntimeException
from pyspark.sql import functions as F

import klamm
import klamm.spark
from klamm.spark.lookup import MISMATCHES
from klamm.spark.option_names import OPTIONS
from klamm.spark.progress import source_metrics

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _needs_connector(connector):
    _, reason = connector
    if reason is not None:
        pytest.skip(f"Spark's own connector: {reason}")


BOTH = ("kafka", "klamm")


def rows(frame):
    return sorted(
        [
            {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict(True).items()}
            for row in frame.collect()
        ],
        key=lambda row: (row["topic"], row["partition"], row["offset"]),
    )


@pytest.fixture
def log(kafka, topic):
    return filled(kafka, topic)


@pytest.fixture
def real_log(real, topic):
    return filled(real, topic)


def filled(kafka, topic):
    """Fill a topic of three partitions with every kind of record that a log may contain."""
    kafka.create(topic, partitions=3)
    kafka.produce(
        topic,
        *(
            {
                "value": None if number % 7 == 0 else f"wert {number} €".encode() * (number % 5),
                "key": None if number % 3 == 0 else b"" if number % 3 == 1 else b"\x00\xff%d" % number,
                "partition": number % 2,
                "timestamp_ms": 1_700_000_000_000 + 1000 * number + number % 3,
                "headers": [("a", b"1"), ("b", None), ("a", b"")][: number % 4],
            }
            for number in range(40)
        ),
    )
    with klamm.Producer(kafka.bootstrap, transactional_id=topic) as producer:
        for number in range(4):
            with producer.transaction() as transaction:
                transaction.send_many(topic, [b"%d" % number] * 3, partition=2)
                if number % 2:
                    producer.flush()
                    transaction.abort()
    return topic


# What is compared, for a topic of the name `{t}`. `expected` rows where they are told by the options alone.
TPS = '{"{t}":{"0":3,"1":-2,"2":2}}'
ENDS = '{"{t}":{"0":17,"1":-1,"2":-1}}'
TIMES = '{"{t}":{"0":1700000011000,"1":1700000000000,"2":0}}'
LATE = {"startingTimestamp": "1700000030000", "startingOffsetsByTimestampStrategy": "latest"}
COMPARED = [
    ({"subscribePattern": "{t}.*", "includeHeaders": "true"}, 52),
    ({"subscribe": "{t}", "kafka.isolation.level": "read_committed"}, 46),
    ({"subscribe": "{t},", "startingOffsets": TPS, "fetchOffset.numRetries": "1"}, 17 + 20 + 10),
    ({"subscribe": "{t}", "startingTimestamp": "1700000020000", "fetchOffset.retryIntervalMs": "0"}, None),
    ({"subscribe": "{t}", "startingOffsetsByTimestamp": TIMES, "minPartitions": "5"}, None),
    ({"assign": '{"{t}":[0,2]}', "maxRecordsPerPartition": "6", "kafkaConsumer.pollTimeoutMs": "60000"}, 32),
    ({"subscribe": "{t}", "groupIdPrefix": "mine", "kafka.client.dns.lookup": "use_all_dns_ips", **LATE}, None),
]
COMPARED_BATCHES = [
    ({"subscribe": "{t}", "startingOffsets": TPS, "endingOffsets": ENDS}, 14 + 20 + 10),
    ({"subscribe": "{t}", "startingTimestamp": "1700000020000", "endingTimestamp": "1700000030000"}, None),
    ({"subscribe": "{t}", "endingOffsetsByTimestamp": TIMES}, None),
]
COMPARED_STREAMS = [
    {"subscribe": "{t}", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "28"},
    {"subscribe": "{t}", "startingOffsets": TPS, "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1s"},
]
# What the connector has not, what other tests here compare, and what writes.
ALONE = {
    "columns",
    "filterpushdown",
    "commitgroup",
    "maxbytespertrigger",
    "maxbytesperpartition",
    "failontimestamprange",
    "delivery",
    "value.format",
    "key.format",
    "value.schema",
    "key.schema",
    "value.message",
    "key.message",
    "recursiondepth",
    "timestampunit",
    "subject.name.strategy",
    "record.columns",
    "value.fields",
    "auto.register.schemas",
    "flatten",
    "onerror",
    "onnewfields",
    "txnappid",
    "txnversion",
}
ELSEWHERE = {"failondataloss", "topic"}


def of(topic, options):
    return {name: value.replace("{t}", topic) for name, value in options.items()}


def test_every_option_is_compared_or_is_klamms_own():
    named = [*(options for options, _ in COMPARED + COMPARED_BATCHES), *COMPARED_STREAMS]
    names = {name.lower() for options in named for name in options if not name.startswith("kafka.")}
    assert names | ALONE | ELSEWHERE == OPTIONS.keys()


def test_the_schema_is_the_same(real, topic):
    for headers in ("true", "false"):
        for reader in (real.read, real.stream):
            theirs, ours = (reader(source=source, subscribe=topic, includeHeaders=headers).schema for source in BOTH)
            assert ours == theirs


@pytest.mark.parametrize(("options", "expected"), COMPARED + COMPARED_BATCHES)
def test_batch_reads_give_the_same_rows(kafka, log, options, expected):
    theirs, ours = (rows(kafka.read(source=source, **of(log, options))) for source in BOTH)
    assert ours == theirs
    assert ours
    assert expected in (None, len(ours))


def test_patterns_find_the_same_topics(real, topic):
    names = [f"{topic}-a", f"{topic}-a-more", f"x{topic}-a"]
    for name in names:
        real.create(name)
        real.numbers(name, range(1))
    found = {
        pattern: []
        for pattern in (topic, f"{topic}-a$", f"^{topic}-a", f"^{topic}-a$", f" {topic}-b|{topic}-a ", "^__")
    }
    for pattern, topics in found.items():
        for source in BOTH:
            rows = real.read(source=source, subscribePattern=pattern).select("topic").collect()
            topics.append(sorted(row.topic for row in rows))
    assert all(ours == theirs for theirs, ours in found.values()), found
    assert found[topic][0] == names


@pytest.mark.parametrize("options", [*(options for options, _ in COMPARED), *COMPARED_STREAMS])
def test_streams_give_the_same_rows_in_the_same_batches(real, real_log, tmp_path, options):
    seen = {}
    for source in BOTH:
        options = {"startingOffsets": "earliest", **of(real_log, options)}
        written = real.stream(source=source, **options).writeStream.format("memory").queryName(f"seen_{source}")
        query = written.option("checkpointLocation", str(tmp_path / source)).trigger(availableNow=True).start()
        query.awaitTermination()
        sizes = [report["numInputRows"] for report in query.recentProgress if report["numInputRows"]]
        seen[source] = (rows(real.spark.table(f"seen_{source}")), sizes)
        assert seen[source][0]
    assert seen["klamm"] == seen["kafka"]


def test_times_that_the_broker_gave_are_the_same(kafka, topic):
    with klamm.Admin(kafka.bootstrap) as admin:
        admin.create_topics({topic: klamm.NewTopic(configs={"message.timestamp.type": "LogAppendTime"})})
    kafka.numbers(topic, range(5))
    theirs, ours = (rows(kafka.read(source=source, subscribe=topic)) for source in BOTH)
    assert ours == theirs
    assert [row["timestampType"] for row in ours] == [1] * 5


def test_deleted_records_fail_both_or_are_skipped(kafka, topic):
    kafka.create(topic)
    kafka.numbers(topic, range(10))
    with klamm.Admin(kafka.bootstrap) as admin:
        admin.delete_records({klamm.TopicPartition(topic, 0): 4})
    begin = json.dumps({topic: {"0": 1}})
    for source in BOTH:
        read = {"source": source, "subscribe": topic, "startingOffsets": begin}
        with pytest.raises((PythonException, Py4JJavaError, SparkRuntimeException)):
            kafka.read(**read).collect()
        found = kafka.read(**read, failOnDataLoss="false").selectExpr("cast(value as string)").collect()
        assert [row.value for row in found] == [str(number) for number in range(4, 10)]


def test_tasks_are_divided_alike(kafka, log):
    # Alone, maxRecordsPerPartition divides nothing in a batch read of the connector, which does not know sizes by then.
    for options in ({"minPartitions": "7"}, {"maxRecordsPerPartition": "15", "minPartitions": "8"}):
        theirs, ours = (
            {
                (row["partition"], row["first"], row["last"])
                for row in kafka.read(source=source, subscribe=log, **options)
                .groupBy(F.spark_partition_id().alias("task"), "partition")
                .agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
                .collect()
            }
            for source in BOTH
        )
        assert ours == theirs, options


def of_every_kind(number):
    """Return rows to write, with and without key, value, partition and headers."""
    return [
        F.when(number % 5 > 0, F.concat(F.lit("schlüssel "), number)).alias("key"),
        F.when(number % 7 > 0, number.cast("string").cast("binary")).alias("value"),
        F.when(number % 5 == 0, (number % 3).cast("int")).alias("partition"),
        F.when(
            number % 2 > 0,
            F.array(
                F.struct(F.lit("h").alias("key"), F.lit("1").cast("binary").alias("value")),
                F.struct(F.lit("n").alias("key"), F.lit(None).cast("binary").alias("value")),
            ),
        ).alias("headers"),
    ]


def held(kafka, topic):
    return sorted(
        (r.partition, r.key or b"", r.value or b"", r.value is None, r.key is None, list(r.headers))
        for r in kafka.records(topic)
    )


def test_batch_writes_leave_the_same_records(kafka, topic):
    frame = kafka.spark.range(200).select(of_every_kind(F.col("id")))
    found = {}
    for sink in BOTH:
        kafka.create(f"{topic}-{sink}", partitions=3)
        kafka.write(frame, sink=sink, topic=f"{topic}-{sink}")
        found[sink] = held(kafka, f"{topic}-{sink}")
    assert len(found["klamm"]) == 200
    assert found["klamm"] == found["kafka"]


def test_streams_leave_the_same_records_in_the_topics_that_rows_name(kafka, topic, tmp_path):
    kafka.create(topic)
    kafka.numbers(topic, range(200))
    found = {}
    for sink in BOTH:
        names = [f"{topic}-{sink}-{part}" for part in range(2)]
        for name in names:
            kafka.create(name, partitions=3)
        number = F.col("value").cast("string").cast("long")
        to = F.concat(F.lit(f"{topic}-{sink}-"), (number % 11 % 2).cast("string")).alias("topic")
        rows = kafka.stream(subscribe=topic, startingOffsets="earliest").select(*of_every_kind(number), to)
        kafka.run(rows, tmp_path / sink, sink=sink)
        found[sink] = [held(kafka, name) for name in names]
    assert [len(records) for records in found["klamm"]] == [109, 91]
    assert found["klamm"] == found["kafka"]


@pytest.mark.parametrize(
    "columns",
    [
        ["'k' key"],
        ["1 value"],
        ["'v' value", "1 key"],
        ["'v' value", "'1' partition"],
        ["'v' value", "array('h') headers"],
        ["'v' value", "1 topic"],
    ],
)
def test_both_refuse_what_cannot_be_written(real, topic, columns):
    for sink in BOTH:
        options = {} if "1 topic" in columns else {"topic": topic}
        with pytest.raises(AnalysisException):
            real.write(real.spark.range(1).selectExpr(*columns), sink=sink, **options)


def test_both_refuse_what_cannot_be_read(real, topic):
    real.create(topic)
    for options in (
        {},
        {"assign": f'{{"{topic}":[0]}}'},
        {"startingOffsets": "latest"},
        {"startingOffsets": f'{{"{topic}":{{"0":-1}}}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": f'{{"{topic}":{{"0":-2}}}}'},
        {"minPartitions": "0"},
        {"maxRecordsPerPartition": "0"},
        {"kafka.auto.offset.reset": "earliest"},
        {"kafka.key.deserializer": "x"},
        {"kafka.value.deserializer": "x"},
        {"kafka.enable.auto.commit": "true"},
        {"kafka.interceptor.classes": "x"},
        {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
        {"startingTimestamp": "1800000000000"},
    ):
        for source in BOTH:
            if not options:
                assert real.read(source=source, subscribe=topic).collect() == []
                continue
            with pytest.raises((AnalysisException, IllegalArgumentException, PythonException)):
                real.read(source=source, subscribe=topic, **options).collect()


def condition(error):
    """Return Spark's error condition of the connector's error."""
    java = getattr(error, "java_exception", None)
    return error.getCondition() if java is None else java.getCondition()


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": {"0": 1}},
        {"startingOffsetsByTimestamp": {"0": 1}},
        {"endingOffsetsByTimestamp": {"0": 1}},
        {"startingOffsets": {"0": 1, "1": 0}, "endingOffsets": {"0": 3}},
        {"startingOffsets": {"0": 5, "1": 0}, "endingOffsets": {"0": 3, "1": 0}},
        {"startingOffsets": {"0": 500, "1": 0}},
    ],
    ids=str,
)
def test_impossible_positions_have_the_same_error_condition(real, topic, options):
    real.create(topic, partitions=2)
    real.numbers(topic, range(10), 0)
    options = {name: json.dumps({topic: offsets}) for name, offsets in options.items()}
    errors = []
    for source in BOTH:
        with pytest.raises((AnalysisException, IllegalArgumentException, Py4JJavaError)) as error:
            real.read(source=source, subscribe=topic, **options).collect()
        errors.append(error.value)
    theirs, ours = errors
    assert f"ConfigError: [{condition(theirs)}] " in str(ours)


def test_names_of_errors_are_those_of_the_connector(connector):
    jars, _ = connector
    (jar,) = (jar for jar in jars if jar.name.startswith("spark-sql-kafka"))
    with zipfile.ZipFile(jar) as archive:
        known = json.loads(archive.read("error/kafka-error-conditions.json"))
    lost = {lost.args[1] for lost in calls_of("report_loss")}
    assert all(isinstance(how, ast.Constant) and how.value in known["KAFKA_DATA_LOSS"]["subClass"] for how in lost)
    assert set(MISMATCHES.values()) < set(known)
    assert "KAFKA_NULL_TOPIC_IN_DATA" in known


def calls_of(name):
    """Yield every call of a function in klamm's source."""
    for path in Path(klamm.spark.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield node


TRIGGERS = [
    {"availableNow": True},
    {"once": True},
    {"processingTime": "0 seconds"},
    {"processingTime": "200 milliseconds"},
]


@pytest.mark.parametrize(
    "trigger", TRIGGERS, ids=lambda trigger: " ".join(f"{name} {value}" for name, value in trigger.items())
)
@pytest.mark.parametrize("first", BOTH)
@pytest.mark.timeout(300)  # three queries
def test_a_checkpoint_of_every_trigger_passes_from_one_to_the_other_and_back(real, topic, tmp_path, first, trigger):
    source, result = f"{topic}-in", f"{topic}-out"
    real.create(source, partitions=2)
    real.create(result)
    sent = 0
    second = BOTH[1 - BOTH.index(first)]
    for reader in (first, second, first):
        real.numbers(source, range(sent, sent + 10))
        sent += 10
        query = (
            real.stream(source=reader, subscribe=source, startingOffsets="earliest")
            .select("value")
            .writeStream.format(reader)
            .options(**{"kafka.bootstrap.servers": real.bootstrap}, topic=result, checkpointLocation=str(tmp_path))
            .trigger(**trigger)
            .start()
        )
        if "processingTime" in trigger:
            query.processAllAvailable()
            query.stop()
        else:
            query.awaitTermination()
        assert sorted(int(record.value) for record in real.records(result)) == list(range(sent)), reader


def test_metrics_of_progress_are_those_of_the_connector(real, topic, tmp_path):
    """The limit leaves each batch behind the end of the topic, by a different number of offsets in each partition."""
    real.create(topic, partitions=3)
    real.numbers(topic, range(30), 0)
    real.numbers(topic, range(7), 1)
    found = {}
    for source in BOTH:
        options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
        query = real.run(real.stream(source=source, **options), tmp_path / source, sink="noop")
        found[source] = [report for report in query.recentProgress if report["numInputRows"]]
    theirs = [report["sources"][0]["metrics"] for report in found["kafka"]]
    ours = [source_metrics(report["sources"][0]) for report in found["klamm"]]
    assert [metrics.keys() for metrics in ours] == [metrics.keys() for metrics in theirs]
    # The connector rounds each partition's part of the limit down.
    assert ours[-1] == theirs[-1] == dict.fromkeys(theirs[-1], "0") | {"avgOffsetsBehindLatest": "0.0"}
    assert ours[0]["avgOffsetsBehindLatest"] == str(27 / 3)  # klamm uses the limit up to the last offset
    assert float(theirs[0]["avgOffsetsBehindLatest"]) >= 27 / 3
