"""Secrets among the options reach the client, but no output: no plan, no repr, no traceback with local variables."""

from __future__ import annotations

import pickle
import traceback

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from klamm.errors import ConfigError
from klamm.spark import KlammDataSource, clients
from klamm.spark.options import read_options, write_options

SECRET = "hunter2"
SECURE = {
    "kafka.bootstrap.servers": "localhost:1",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": f'PlainLoginModule required username="alice" password="{SECRET}";',
    "kafka.sasl.password": SECRET,
    "kafka.ssl.key.password": SECRET,
    "kafka.ssl.truststore.location": "/etc/trust.pem",
}
ROWS = StructType([StructField("value", StringType())])


def test_options_of_tls_and_sasl_reach_the_client_as_they_are():
    expected = {key.removeprefix("kafka."): value for key, value in SECURE.items()}
    for options in (read_options(SECURE | {"subscribe": "t"}), write_options(SECURE | {"topic": "t"})):
        assert expected.items() <= options.config.items()
        assert (options.config | {"group.id": "g"}).items() >= {**expected, "group.id": "g"}.items()
        assert pickle.loads(pickle.dumps(options)) == options  # noqa: S301 - our own


def test_options_are_shown_by_name_only():
    for options in (read_options(SECURE | {"subscribe": "t"}), write_options(SECURE | {"topic": "t"})):
        for shown in (
            repr(options),
            str(options.config | {"group.id": "g"}),
            repr(options.config.only({"sasl.password"})),
        ):
            assert SECRET not in shown
            assert "sasl.password" in shown


def message_of(call):
    """Return the traceback of an exception, with the local variables of every frame below this one."""
    with pytest.raises(ConfigError) as caught:
        call()
    below = caught.value.__traceback__.tb_next.tb_next
    shown = traceback.TracebackException(type(caught.value), caught.value, below, capture_locals=True)
    return "".join(shown.format())


@pytest.mark.parametrize(
    "wrong",
    [
        {"nonsense": "1"},
        {"startingOffsets": "nowhere"},
        {"kafka.enable.auto.commit": "true"},
        {"failOnDataLoss": "perhaps"},
    ],
)
def test_errors_about_options_show_no_secret(wrong):
    source = KlammDataSource(SECURE | {"subscribe": "t"} | wrong)
    text = message_of(lambda: source.schema())  # noqa: PLW0108 - one more frame
    assert "given = <Settings" in text or "options = <Settings" in text
    assert SECRET not in text


def test_errors_about_a_write_show_no_secret():
    source = KlammDataSource(SECURE | {"topic": "t", "delivery": "maybe"})
    assert SECRET not in message_of(lambda: source.streamWriter(ROWS, overwrite=False))


def test_keys_of_cached_clients_contain_no_secret(monkeypatch):
    monkeypatch.setattr(clients, "_idle", {})
    with clients.producer({"bootstrap.servers": "localhost:1", "client.id": SECRET}):
        pass
    assert clients._idle
    assert SECRET not in repr(clients._idle)


@pytest.mark.spark
def test_no_plan_shows_a_secret(dev, topic, capsys):
    dev.create(topic)
    # A setting that every client has: Spark hides values by the names of options, and here hides none.
    options = {"subscribe": topic, "kafka.client.id": SECRET}
    dev.read(**options).explain("extended")
    rows = dev.read(**options).selectExpr("cast(value as string) value")
    rows.explain("formatted")
    dev.write(rows, topic=topic, **{"kafka.client.id": SECRET})
    shown = capsys.readouterr().out
    assert "klamm" in shown
    assert SECRET not in shown


@pytest.mark.spark
def test_spark_hides_options_whose_names_look_secret(dev, topic, tmp_path, capsys):
    """Spark prints the options of a stream that failed to start, and hides those that match spark.redaction.regex."""
    dev.create(topic)
    dev.spark.conf.set("spark.sql.redaction.options.regex", "client[.]id")
    try:
        rows = dev.stream(subscribe=topic, startingOffsets="earliest", **{"kafka.client.id": SECRET}).select("value")
        rows.explain("extended")
        query = dev.run(rows, tmp_path, topic=topic, **{"kafka.client.id": SECRET})
        query.explain(extended=True)
        shown = capsys.readouterr().out
        assert "client.id=*" in shown
        assert SECRET not in shown
    finally:
        dev.spark.conf.unset("spark.sql.redaction.options.regex")
