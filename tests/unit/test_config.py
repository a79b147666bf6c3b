"""Configuration: all ways to pass it, the table of keys, and the errors."""

from __future__ import annotations

import logging
import re
from functools import partial
from pathlib import Path

import pytest

import klamm
import klamm.legacy
from klamm import config
from klamm.config import verdict
from klamm.errors import ConfigError, KafkaError

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "bootstrap",
    [
        NOWHERE,
        [NOWHERE, "127.0.0.1:2"],
        {"bootstrap.servers": NOWHERE, "linger.ms": "5"},
        {"metadata.broker.list": NOWHERE, "queue.buffering.max.ms": 5},
    ],
)
def test_a_producer_takes_text_a_list_or_a_dict(bootstrap):
    klamm.Producer(bootstrap, linger_ms=10, acks="all", enable_idempotence=None).close()


def test_keywords_alone_do():
    klamm.Admin(bootstrap_servers=NOWHERE, client_id="me").close()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"linger_mss": 5}, "linger_mss; hint: did you mean linger_ms?"),
        ({"kafka_acks": "all"}, "there is no option kafka_acks; hint: did you mean acks?"),
        ({"sasl_plain_username": "me"}, "use sasl_username and sasl_password"),
        (
            {"group_id": "g"},
            'unknown configuration key "group.id" for a producer; hint: it is a key of the consumer and share consumer',
        ),
        ({"zzz": 5}, "zzz"),
        ({"linger_ms": "soon"}, 'linger.ms cannot be "soon"; hint: allowed: a number from 0'),
        ({"linger_ms": -1}, "linger.ms cannot be -1"),
        ({"linger_ms": [1]}, "linger_ms cannot be a value of type list"),
        ({"linger_ms": object()}, "linger_ms cannot be a value of type object"),
        ({"linger_ms": 1 << 80}, "64 bits"),
        ({"acks": "some"}, 'acks cannot be "some"; hint: allowed: all, -1, 0, 1'),
        ({"compression_type": "rar"}, "none, gzip, snappy, lz4, zstd"),
        ({"enable_idempotence": True, "acks": 1}, "acks=all"),
        ({"transactional_id": ""}, 'transactional.id cannot be ""; hint: leave it out for a producer without'),
    ],
)
def test_an_error_names_the_wrong_keyword(options, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        klamm.Producer(NOWHERE, **options)


PASSWORD = {"sasl_mechanism": "PLAIN", "sasl_username": "me", "sasl_password": "secret"}
CLIENTS = {
    "producer": klamm.Producer,
    "async producer": klamm.AsyncProducer,
    "consumer": klamm.Consumer,
    "async consumer": klamm.AsyncConsumer,
    "share consumer": partial(klamm.ShareConsumer, group_id="g"),
    "async share consumer": partial(klamm.AsyncShareConsumer, group_id="g"),
    "admin": klamm.Admin,
    "async admin": klamm.AsyncAdmin,
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("servers", "options", "says"),
    [
        (f"SSL://{NOWHERE}", {}, "set security.protocol to SSL"),
        (f"{NOWHERE},sasl_ssl://{NOWHERE}", {}, "set security.protocol to SASL_SSL"),
        (f"SASL_SSL://{NOWHERE}", PASSWORD, "sasl.mechanism has no effect without security.protocol"),
        (f"SASL_SSL://{NOWHERE}", PASSWORD | {"security_protocol": "SASL_PLAINTEXT"}, "is SASL_PLAINTEXT"),
        (
            f"PLAINTEXT://{NOWHERE}",
            {"security_protocol": "SSL"},
            "a PLAINTEXT:// address, but security.protocol is SSL",
        ),
        (f"https://{NOWHERE}", {}, 'begins with "https://"'),
        (f"a://b://{NOWHERE}", {}, 'begins with "a://"'),
        (f"://{NOWHERE}", {}, 'begins with "://"'),
        (f"me:secret@{NOWHERE}", {}, "an address with a user name"),
        (f"kafka://me:secret@{NOWHERE}", {}, 'begins with "kafka://"'),
        (f"{NOWHERE}/?password=secret", {}, "write addresses as host:port"),
        (NOWHERE, {"sasl_password": "secret"}, "sasl.password has no effect without security.protocol"),
        (NOWHERE, {"sasl_oauth_token_provider": lambda: None}, "sasl.oauth.token.provider has no effect without"),
        (NOWHERE, {"ssl_ca_location": "ca.pem"}, "ssl.ca.location has no effect without security.protocol"),
        (NOWHERE, {"security_protocol": "SSL"} | PASSWORD, "has no effect with security.protocol=SSL"),
        (NOWHERE, {"security_protocol": "PLAINTEXT", "ssl_ca_pem": "secret"}, "with security.protocol=PLAINTEXT"),
        (NOWHERE, PASSWORD | {"security_protocol": "SASL_PLAINTEXT", "ssl_key_password": "secret"}, "ssl.key.password"),
        ("a\0b:1", {}, "bootstrap.servers has"),
        ("2001:db8::1:9092", {}, "write [2001:db8::1]:9092"),
    ],
)
def test_security_that_would_have_no_effect_is_refused(client, servers, options, says):
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        CLIENTS[client](servers, **options)
    assert "secret" not in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize("servers", [f"PLAINTEXT://{NOWHERE}", "[localhost]:1", "::1", "[fe80::1%lo]:1"])
def test_addresses_in_other_forms_are_accepted(servers):
    klamm.Admin(servers, security_protocol=None, sasl_username="", ssl_ca_location=None).close()
    klamm.Admin(servers.replace("PLAINTEXT", "SSL"), security_protocol="SSL").close()


@pytest.mark.parametrize("servers", ["SSL://127.0.0.1:1", "me:secret@127.0.0.1:1", "a\0b:1", "2001:db8::1:9092"])
def test_legacy_clients_refuse_the_same_addresses(servers):
    with pytest.raises(ConfigError) as caught:
        klamm.legacy.Consumer07(servers)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("option", ["group_id", "group_instance_id"])
def test_a_consumer_is_not_made_of_a_name_that_says_nothing(option):
    for blank in ("", " "):
        with pytest.raises(ConfigError, match=f'cannot be "{blank}"; hint: leave it out'):
            klamm.Consumer(NOWHERE, **{option: blank})
    klamm.Consumer(NOWHERE, client_id="").close()


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("", "names no assignor"),
        ([], "names no assignor"),
        (["range", ""], 'has ""'),
        (["range", "sticky", "range"], 'has "range" twice'),
        ("range,range", 'has "range" twice'),
        ("ranges", 'has "ranges"'),
    ],
)
def test_a_consumer_without_assignors_is_not_made(names, says):
    allowed = "hint: allowed are range, roundrobin, sticky, cooperative-sticky"
    for group in {"group_id": "g"}, {}:
        with pytest.raises(ConfigError, match=re.escape(f"partition.assignment.strategy {says}; {allowed}")):
            klamm.Consumer(NOWHERE, partition_assignment_strategy=names, **group)


@pytest.mark.parametrize("client", [klamm.Consumer, klamm.AsyncConsumer])
@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ({"partition_assignment_strategy": "range"}, "group.remote.assignor"),
        ({"session_timeout_ms": 45_000}, "consumer.session.timeout.ms of the group"),
        ({"heartbeat_interval_ms": 3_000}, "consumer.heartbeat.interval.ms of the group"),
    ],
)
def test_what_the_coordinator_decides_is_not_set_by_its_members(client, option, instead):
    for group in {"group_id": "g"}, {}:
        with pytest.raises(ConfigError, match=rf"cannot be combined with group.protocol=consumer.*; hint: .*{instead}"):
            client(NOWHERE, group_protocol="consumer", **option, **group)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("pattern", "subscribe(pattern=...)"),
        ("max_records", "did you mean max_poll_records?"),
        ("consumer_timeout_ms", "poll(timeout=seconds)"),
        ("enable_auto_offset_store", "commit(offsets)"),
        ("queued_min_messages", "queued_max_bytes"),
        ("api_version", "broker_version_fallback"),
        ("auto_offset_rest", "did you mean auto_offset_reset?"),
    ],
)
def test_an_option_that_a_consumer_has_otherwise_is_pointed_to(option, says):
    with pytest.raises(ConfigError, match=re.escape(f"there is no option {option}; hint: ")) as caught:
        klamm.Consumer(NOWHERE, **{option: 1})
    assert says in caught.value.hint
    with pytest.raises(ConfigError, match="unknown configuration key") as caught:
        klamm.Consumer({"bootstrap.servers": NOWHERE, option.replace("_", "."): 1})
    assert says.replace("_", ".") in caught.value.hint.replace("_", ".")


def test_an_unknown_key_of_an_admin_client_is_named_with_the_right_article():
    with pytest.raises(ConfigError, match=r'unknown configuration key "zz\.top" for an admin client'):
        klamm.Admin({"bootstrap.servers": NOWHERE, "zz.top": 1})


def test_options_of_other_clients_with_the_same_meaning_are_accepted():
    klamm.Consumer(NOWHERE, fetch_message_max_bytes=5, max_poll_records=5, auto_offset_reset="smallest").close()


@pytest.mark.parametrize(
    ("bootstrap", "says"),
    [
        (None, "bootstrap.servers is missing"),
        ("", "bootstrap.servers is empty"),
        ("host:port", "bootstrap.servers"),
        ({"bootstrap.servers": NOWHERE, "linger.mss": 5}, "did you mean linger.ms?"),
        ({"bootstrap.servers": NOWHERE, 5: 5}, "has to be a str"),
        (5, "bootstrap.servers"),
        ([("localhost", 9092)], 'write each address as "host:port"'),
    ],
)
def test_an_error_describes_the_wrong_first_argument(bootstrap, says):
    with pytest.raises(ConfigError, match=re.escape(says)):
        klamm.Producer(bootstrap)


# What librdkafka, Java's client and those of kafka-python's kind have, and klamm under another name or not at all.
ELSEWHERE = {
    "queue.buffering.max.kbytes": ("buffer.memory", "in bytes"),
    "queue.buffering.max.messages": ("buffer.memory", "bytes, not records"),
    "batch.num.messages": ("batch.size", "the bytes of a batch"),
    "compression.level": ("compression.zstd.level", "snappy and lz4 have none"),
    "partitioner.ignore.keys": ("partitioner", "=uniform"),
    "socket.timeout.ms": ("request.timeout.ms", "milliseconds"),
    "dr_msg_cb": ("", "`on_delivery`"),
    "value.serializer": ("", "`value_serializer`"),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_an_option_of_another_client_is_refused_with_what_klamm_has(name):
    key, says = ELSEWHERE[name]
    with pytest.raises(ConfigError) as dotted:
        klamm.Producer({"bootstrap.servers": NOWHERE, name: 5})
    assert key in dotted.value.hint
    assert says in dotted.value.hint
    if name == "value.serializer":
        return  # as a keyword it is klamm's own
    with pytest.raises(ConfigError) as keyword:
        klamm.Producer(NOWHERE, **{name.replace(".", "_"): 5})
    assert key.replace(".", "_") in keyword.value.hint
    assert says in keyword.value.hint


def test_clients_of_one_program_share_one_dict(caplog):
    """Confluent Cloud hands out such a dict for producers, consumers and admin clients."""
    shared = {
        "bootstrap.servers": NOWHERE,
        "session.timeout.ms": "45000",
        "client.dns.lookup": "use_all_dns_ips",
        "acks": "all",
        "log.connection.close": False,
    }
    for client, other in ((klamm.Producer, "session.timeout.ms"), (klamm.Consumer, "acks"), (klamm.Admin, "acks")):
        caplog.clear()
        with caplog.at_level(logging.INFO, "klamm"):
            client(shared).close()
        (line,) = [record.getMessage() for record in caplog.records if "without effect" in record.getMessage()]
        assert other in line
        assert "client.dns.lookup" in line
        assert "log.connection.close" in line
    for wrong in ({"client.dns.lookup": "resolve_canonical_bootstrap_servers_only"}, {"ssl.crl.location": "crl.pem"}):
        with pytest.raises(ConfigError, match="unknown configuration key"):
            klamm.Admin(shared | wrong)


def test_topic_settings_of_confluent_kafka_are_read():
    topic = {"auto.offset.reset": "smallest", "acks": "all"}
    klamm.Consumer({"bootstrap.servers": NOWHERE, "default.topic.config": topic}).close()
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset cannot be"):
        klamm.Consumer({"bootstrap.servers": NOWHERE, "default.topic.config": {"auto.offset.reset": "soon"}})


@pytest.mark.parametrize("name", ["dr_cb", "partitioner_cb", "on_commit", "rebalance_cb", "throttle_cb", "log_cb"])
def test_a_callback_of_another_client_is_refused_with_klamms_way(name):
    client = klamm.Consumer if name in {"on_commit", "rebalance_cb"} else klamm.Producer
    with pytest.raises(ConfigError, match=f'unknown configuration key "{name}"') as caught:
        client({"bootstrap.servers": NOWHERE, name: print})
    assert caught.value.hint.startswith(("pass ", "`metrics()`"))


@pytest.mark.parametrize("peer", ["java", "librdkafka"])
def test_every_option_of_the_java_client_and_librdkafka_has_a_verdict(peer):
    lines = (
        (Path(__file__).parents[1] / "data" / "option_names" / f"{peer}.txt").read_text(encoding="utf-8").split("\n")
    )
    names = [line.split() for line in lines if line and not line.startswith("#")]
    assert len(names) > 190
    clients = ["producer", "consumer", "admin"]
    verdicts = {(client, name): verdict(client, name).kind for *of, name in names for client in of or clients}
    known = {name for (client, name), kind in verdicts.items() if kind != "unknown"}
    assert [name for *_, name in names if name not in known] == []
    if peer == "java":  # whose list names the client of each option
        assert "unknown" not in verdicts.values()


def test_an_alias_of_an_option_is_accepted():
    klamm.Producer(
        {
            "metadata.broker.list": NOWHERE,
            "queue.buffering.max.ms": 5,
            "request.required.acks": -1,
            "compression.codec": "lz4",
            "message.send.max.retries": 3,
            "message.timeout.ms": 5000,
            "message.max.bytes": 100_000,
            "max.in.flight": 2,
        }
    ).close()


@pytest.mark.parametrize(
    "name",
    [
        "Murmur2_Random",
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
        "org.apache.kafka.clients.producer.RoundRobinPartitioner",
        "org.apache.kafka.clients.producer.UniformStickyPartitioner",
    ],
)
@pytest.mark.parametrize("key", ["partitioner", "partitioner.class"])
def test_partitioners_have_the_names_of_other_clients(name, key):
    klamm.Producer({"bootstrap.servers": NOWHERE, key: name}).close()


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("murmur2", "murmur2_random"),
        ("consistent", "consistent_random"),
        ("fnv1a", "fnv1a_random"),
        ("random", "uniform"),
        ("com.example.MyPartitioner", "a Python function"),
        ("sticky", "murmur2_random, consistent_random"),
    ],
)
def test_a_partitioner_that_klamm_has_not_is_refused_with_the_nearest(name, instead):
    with pytest.raises(ConfigError, match=f'partitioner cannot be "{name}"') as caught:
        klamm.Producer(NOWHERE, partitioner=name)
    assert instead in caught.value.hint


def test_a_config_error_is_one_error_and_a_value_error():
    with pytest.raises(ValueError, match="linger_mss") as caught:
        klamm.Producer(NOWHERE, linger_mss=1)
    assert isinstance(caught.value, KafkaError)


@pytest.mark.parametrize(
    ("client", "options", "extra"),
    [
        ("producer", config.ProducerConfig, {"stats_cb"}),
        ("consumer", config.ConsumerConfig, {"group_id", "stats_cb"}),
        ("share consumer", config.ShareConsumerConfig, {"group_id", "stats_cb"}),
        ("admin", config.AdminConfig, set()),
    ],
)
def test_the_types_have_the_keys_of_the_table(client, options, extra):
    table = {option.name.replace(".", "_") for option in config.options() if client in option.clients}
    assert set(options.__annotations__) | extra | {"bootstrap_servers"} == table


def test_every_option_is_documented():
    for option in config.options():
        assert option.doc.endswith("."), option.name
        assert option.allowed, option.name


def test_a_repr_shows_where_it_goes_and_nothing_else():
    producer = klamm.Producer({"bootstrap.servers": NOWHERE, "client.id": "secret"})
    assert repr(producer) == f"<klamm.Producer of {NOWHERE}>"
    producer.close()
