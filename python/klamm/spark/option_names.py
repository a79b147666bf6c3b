"""The names of all options of the source and the sink."""

OPTIONS = {
    name.lower(): name
    for name in (
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "failOnDataLoss",
        "failOnTimestampRange",
        "minPartitions",
        "maxRecordsPerPartition",
        "maxBytesPerPartition",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "maxBytesPerTrigger",
        "includeHeaders",
        "columns",
        "filterPushdown",
        "commitGroup",
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        "topic",
        "delivery",
        "txnAppId",
        "txnVersion",
        "value.format",
        "key.format",
        "value.schema",
        "key.schema",
        "flatten",
        "onError",
        "onNewFields",
        "subject.name.strategy",
    )
}

# Options of columns whose types come from a schema registry, and the prefix of its client's configuration.
TYPED = frozenset({"value.format", "key.format", "value.schema", "key.schema", "flatten", "onerror", "onnewfields"})
REGISTRY = "schema.registry."

# Options of Spark's own writer, which it also passes to the sink.
SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname"})
