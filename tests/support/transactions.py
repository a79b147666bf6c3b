"""Runs transactions in both styles, and reads what they committed."""

from __future__ import annotations

import klamm
from settled import wait_until_settled


class DeliberateError(Exception):
    """The exception of a program under test."""


def committed(bootstrap, topic, *, settled=True):
    """Return the values that a `read_committed` reader sees, by default once no transaction is open."""
    if settled:
        wait_until_settled(bootstrap, topic)
    with klamm.Consumer(bootstrap, isolation_level="read_committed") as consumer:
        partitions = [klamm.TopicPartition(topic, number) for number in consumer.partitions_for(topic)]
        ends = consumer.end_offsets(partitions)
        consumer.assign([klamm.TopicPartition(topic, tp.partition, 0, ends[tp]) for tp in partitions])
        return [record.value for record in consumer]


def make(broker, *topics, partitions=1):
    with klamm.Admin(broker.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=partitions) for topic in topics})


def enter(style, transaction):
    return style.wait((getattr(transaction, "__aenter__", None) or transaction.__enter__)())


def leave(style, transaction, *error):
    return style.wait((getattr(transaction, "__aexit__", None) or transaction.__exit__)(*(error or (None, None, None))))
