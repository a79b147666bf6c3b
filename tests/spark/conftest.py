"""Fixtures of the Spark tests: one Spark session for the whole run, and brokers with helpers to fill and read topics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

import klamm
from kafka_broker import RealKafka
from klamm.spark.stream import ADMISSION_CONTROL
from local_spark import builder, connector_jars
from running import or_skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from conftest import Broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of Spark more time: a timeout breaks the connection to the JVM, and then all later tests fail."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(400))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests that an old PySpark does not support."""
    if not ADMISSION_CONTROL and item.get_closest_marker("limits"):
        pytest.skip("limits of micro-batches: PySpark 4.2")


@pytest.fixture(scope="session")
def connector() -> tuple[list[Path], str | None]:
    """Return the jars of Spark's own Kafka connector, or none and the reason."""
    return connector_jars()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, connector: tuple[list[Path], str | None]) -> Iterator[SparkSession]:
    """Provide one session for the whole run, with Spark's own connector if it is available."""
    jars, _ = connector
    session = (
        builder(tmp_path_factory.mktemp("spark"), jars=jars)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@dataclass(frozen=True)
class Cluster:
    """A broker, with helpers to fill and read topics without Spark."""

    bootstrap: str

    def create(self, topic: str, partitions: int = 1) -> None:
        with klamm.Admin(self.bootstrap) as admin:
            # Tests give records timestamps of their own choice; the dev broker looks after retention every five minutes.
            admin.create_topics({topic: klamm.NewTopic(partitions=partitions, configs={"retention.ms": "-1"})})

    def delete(self, topic: str) -> None:
        with klamm.Admin(self.bootstrap) as admin:
            admin.delete_topics([topic])
            while topic in admin.list_topics():
                pass

    def produce(self, topic: str, *records: dict[str, Any]) -> None:
        """Send records, in order, each described by the keywords of `Producer.send`."""
        with klamm.Producer(self.bootstrap) as producer:
            for delivery in [producer.send(topic, **record) for record in records]:
                delivery.result(timeout=30)

    def numbers(self, topic: str, numbers: range, partition: int | None = None) -> None:
        """Send numbers as values."""
        self.produce(topic, *({"value": str(number).encode(), "partition": partition} for number in numbers))

    def records(self, topic: str, **config: str) -> list[klamm.Record]:
        """Return all records of a topic, read by klamm without Spark, in order of partition and offset."""
        with klamm.Consumer(self.bootstrap) as consumer:
            partitions = [klamm.TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
            first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        # Up to the end that it has for all, as readers of committed records may see a transaction a moment after its commit.
        with klamm.Consumer(self.bootstrap, **config) as consumer:
            consumer.assign(
                [
                    klamm.TopicPartition(tp.topic, tp.partition, offset=first[tp], end_offset=end[tp])
                    for tp in partitions
                ]
            )
            return sorted(consumer, key=lambda record: (record.partition, record.offset))

    def committed(self, group: str, topic: str, partitions: int) -> list[int | None]:
        """Return the committed offset of a group for each partition of a topic."""
        wanted = [klamm.TopicPartition(topic, number) for number in range(partitions)]
        with klamm.Consumer(self.bootstrap, group_id=group, enable_auto_commit=False) as consumer:
            return list(consumer.committed(wanted).values())


@dataclass(frozen=True)
class Kafka(Cluster):
    """A broker and Spark, with the calls that most tests make."""

    spark: SparkSession

    def read(self, schema: str | None = None, source: str = "klamm", **options: str) -> DataFrame:
        reader = self.spark.read.format(source).option("kafka.bootstrap.servers", self.bootstrap).options(**options)
        return (reader if schema is None else reader.schema(schema)).load()

    def stream(self, source: str = "klamm", **options: str) -> DataFrame:
        return (
            self.spark.readStream.format(source)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .options(**options)
            .load()
        )

    def write(self, rows: DataFrame, sink: str = "klamm", **options: str) -> None:
        rows.write.format(sink).option("kafka.bootstrap.servers", self.bootstrap).options(**options).mode(
            "append"
        ).save()

    def run(
        self,
        rows: DataFrame,
        checkpoint: Path,
        output_mode: str = "append",
        trigger: Mapping[str, bool] = MappingProxyType({"availableNow": True}),
        sink: str = "klamm",
        **options: str,
    ) -> StreamingQuery:
        """Run a streaming write with Trigger.AvailableNow to its end."""
        query = (
            rows.writeStream.format(sink)
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("checkpointLocation", str(checkpoint))
            .options(**options)
            .outputMode(output_mode)
            .trigger(**trigger)
            .start()
        )
        query.awaitTermination()
        return query


@pytest.fixture
def kafka(spark: SparkSession, broker: Broker) -> Kafka:
    return Kafka(broker.bootstrap_servers, spark)


@pytest.fixture
def cluster(broker: Broker) -> Cluster:
    return Cluster(broker.bootstrap_servers)


@pytest.fixture
def cluster_at() -> Callable[[str], Cluster]:
    """Return a `Cluster` for the test's own broker."""
    return Cluster


@pytest.fixture
def kafka_at(spark: SparkSession) -> Callable[[str], Kafka]:
    """Return a `Kafka` for Spark and the test's own broker."""
    return lambda bootstrap: Kafka(bootstrap, spark)


@pytest.fixture
def real(spark: SparkSession, real_kafka: Broker) -> Kafka:
    """Provide Apache Kafka only, for expensive tests that do not concern the dev broker."""
    return Kafka(real_kafka.bootstrap_servers, spark)


@pytest.fixture
def dev(spark: SparkSession, dev_broker: Broker) -> Kafka:
    """Provide the dev broker only, for tests that do not depend on the broker."""
    return Kafka(dev_broker.bootstrap_servers, spark)


@pytest.fixture
def real_cluster(real_kafka: Broker) -> Cluster:
    """Provide Apache Kafka only, without Spark."""
    return Cluster(real_kafka.bootstrap_servers)


@pytest.fixture
def compacting() -> Iterator[Cluster]:
    """An Apache Kafka that compacts logs at once, not every 15 seconds."""
    config = {"log.cleaner.backoff.ms": 100, "log.cleaner.io.buffer.size": 1 << 16}
    with or_skip(RealKafka(config=config)) as kafka:
        yield Cluster(kafka.bootstrap_servers)


@pytest.fixture
def timed(cluster, topic):
    """Fill two partitions with ten records each, ten seconds apart; the second partition's are one second later."""
    cluster.create(topic, partitions=2)
    for partition in range(2):
        cluster.produce(
            topic,
            *(
                {
                    "value": b"v",
                    "partition": partition,
                    "timestamp_ms": 1_700_000_000_000 + 10_000 * number + partition * 1000,
                }
                for number in range(10)
            ),
        )
    return topic
