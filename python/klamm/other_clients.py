"""Tables from method names of confluent-kafka, aiokafka and kafka-python to klamm's equivalents.

`docs/coming-from` shows programs side by side. klamm reads the tables only when it defines its client classes, and when
a program uses an unknown name.
"""

from __future__ import annotations

PRODUCER = {
    "abort_transaction": "leave `with producer.transaction()` by an exception, or call abort() of the transaction",
    "begin_transaction": "klamm calls this transaction(): with producer.transaction() as tx",
    "bootstrap_connected": "not needed: the first call that needs a broker connects, and its error says why it cannot",
    "cluster_id": "klamm has this in klamm.Admin: describe_cluster()",
    "commit_transaction": "the end of `with producer.transaction()` commits",
    "create_batch": "klamm batches by itself; for many records in one call, use send_many()",
    "list_topics": "use klamm.Admin: list_topics() and describe_topics()",
    "poll": "not needed: callbacks run without polling; to wait, call flush() or result() of a delivery",
    "produce": "klamm calls this send(), or send_nowait() without a result for each record",
    "produce_batch": "klamm calls this send_many()",
    "purge": "use close(timeout=0), which drops the records that are not sent",
    "send_and_wait": "klamm calls this send(): await producer.send(...), or producer.send(...).result()",
    "send_batch": "klamm calls this send_many()",
    "send_offsets_to_transaction": "klamm calls this commit_offsets() of the transaction: tx.commit_offsets(consumer)",
    "set_sasl_credentials": "pass the function sasl_oauth_token_provider; for another password, create a new client",
    "start": "not needed: a producer is ready at once; `async with` closes it",
    "stop": "klamm calls this close()",
}

CONSUMER = {
    "bootstrap": "not needed: the first call that needs a broker connects, and its error says why it cannot",
    "bootstrap_connected": "not needed: the first call that needs a broker connects, and its error says why it cannot",
    "cluster_id": "klamm has this in klamm.Admin: describe_cluster()",
    "commit_async": "klamm calls this commit_nowait()",
    "committed_offsets": "klamm calls this committed()",
    "consume": "klamm calls this poll(timeout, max_records)",
    "consumer_group_metadata": "klamm calls this group_metadata()",
    "get_watermark_offsets": "klamm calls these beginning_offsets() and end_offsets()",
    "getmany": "klamm calls this poll(timeout, max_records); by_partition() of its result groups the records",
    "getone": "iterate over the consumer, or call poll(max_records=1)",
    "highwater": "klamm calls this end_offsets(), or lag() for the difference to the position",
    "incremental_assign": "klamm calls this assign(): partitions that stay assigned keep their position",
    "incremental_unassign": "klamm calls this assign(): pass the partitions that remain",
    "last_stable_offset": "klamm has this in klamm.Admin: list_offsets() with isolation_level='read_committed'",
    "list_topics": "use klamm.Admin: list_topics() and describe_topics()",
    "memberid": "klamm has this in group_metadata()",
    "offsets_for_time": "klamm calls this offsets_for_times()",
    "partitions_for_topic": "klamm calls this partitions_for()",
    "seek_to_committed": "klamm calls this committed() and seek()",
    "set_sasl_credentials": "pass the function sasl_oauth_token_provider; for another password, create a new client",
    "start": "not needed: a consumer is ready at once; `async with` closes it",
    "stop": "klamm calls this close()",
    "store_offsets": "not needed: klamm commits what the loop has finished; with enable_auto_commit=False call commit()",
    "subscription": "klamm calls this assignment() for partitions; the topics are those that you subscribed to",
    "topics": "klamm has this in klamm.Admin: list_topics()",
    "unassign": "klamm calls this assign([])",
}

ADMIN = {
    "alter_consumer_group_offsets": "klamm calls this alter_group_offsets()",
    "cluster_id": "klamm has this in describe_cluster()",
    "create_topic": "klamm calls this create_topics([name])",
    "delete_consumer_groups": "klamm calls this delete_groups()",
    "delete_topic": "klamm calls this delete_topics([name])",
    "describe_consumer_groups": "klamm calls this describe_groups()",
    "describe_topic_partitions": "klamm calls this describe_topics()",
    "find_coordinator": "klamm calls this find_coordinators()",
    "find_hanging_transactions": "the command `klamm transactions find-hanging` finds them",
    "get_broker_version_data": "klamm calls this api_versions()",
    "list_consumer_group_offsets": "klamm calls this list_group_offsets()",
    "list_consumer_groups": "klamm calls this list_groups()",
    "list_partition_offsets": "klamm calls this list_offsets()",
    "poll": "not needed: each call returns its result",
    "reset_configs": "klamm calls this incremental_alter_configs(), with ConfigOperation.DELETE",
    "reset_group_offsets": "klamm calls this alter_group_offsets(); the command `klamm groups reset-offsets` resolves positions",
    "set_sasl_credentials": "pass the function sasl_oauth_token_provider; for another password, create a new client",
    "start": "not needed: an admin client is ready at once",
    "stop": "klamm calls this close()",
    "wait_for_topics": "klamm calls this describe_topics(), which raises for a topic that does not exist",
}

TRANSACTION = {
    "produce": "klamm calls this send() or send_nowait()",
    "send_offsets_to_transaction": "klamm calls this commit_offsets()",
}

DEV_BROKER = {
    "bootstrap": "klamm calls this bootstrap_servers",
    "bootstrap_server": "klamm calls this bootstrap_servers",
    "close": "klamm calls this stop(), or the end of the `with` block",
    "create_topic": "klamm has this in klamm.Admin: create_topics([name])",
    "create_topics": "klamm has this in klamm.Admin: Admin(broker.bootstrap_servers).create_topics([name])",
    "get_connection_string": "klamm calls this bootstrap_servers",
}

MODULE = {
    "AIOKafkaAdminClient": "AsyncAdmin",
    "AIOKafkaClient": "AsyncAdmin",
    "AIOKafkaConsumer": "AsyncConsumer",
    "AIOKafkaProducer": "AsyncProducer",
    "AdminClient": "Admin",
    "AsyncConsumerRebalanceListener": "RebalanceListener",
    "ConsumerGroupMetadata": "GroupMetadata",
    "ConsumerRebalanceListener": "RebalanceListener",
    "ConsumerRecord": "Record",
    "ConsumerStoppedError": "ClosedError",
    "DeserializingConsumer": "Consumer, with key_deserializer and value_deserializer",
    "DeserializingShareConsumer": "ShareConsumer, with key_deserializer and value_deserializer",
    "KafkaAdminClient": "Admin",
    "KafkaConsumer": "Consumer",
    "KafkaException": "KafkaError",
    "KafkaProducer": "Producer",
    "Message": "Record",
    "NoBrokersAvailable": "NetworkError",
    "OffsetAndTimestamp": "the result of Consumer.offsets_for_times()",
    "SchemaRegistryClient": "registry.SchemaRegistry",
    "SerializingProducer": "Producer, with key_serializer and value_serializer",
    "TopicCollection": "a list of names",
    "TopicMetadata": "TopicDescription",
    "TopicPartitionInfo": "PartitionInfo",
}


def module_hint(name: str) -> str:
    """Return the hint that ends the error message for a name that the module `klamm` does not have."""
    from difflib import get_close_matches

    import klamm

    if name in ("otel", "prometheus", "spark"):  # these modules need other packages
        return f"; hint: import klamm.{name}"
    if name in MODULE:
        return f"; hint: klamm calls this {MODULE[name]}"
    near = get_close_matches(name, dir(klamm), 1, 0.75)
    return f"; hint: did you mean {near[0]}?" if near else ""
