"""Defines the names of all options of the source and the sink."""

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
        "value.message",
        "key.message",
        "recursionDepth",
        "flatten",
        "onError",
        "onNewFields",
        "timestampUnit",
        "subject.name.strategy",
        "record.columns",
        "value.fields",
        "auto.register.schemas",
    )
}

# Options for columns whose types come from a schema registry. Options of the registry client have the prefix REGISTRY.
TYPED = frozenset(
    {"value.format", "key.format", "value.schema", "key.schema", "value.message", "key.message", "value.fields"}
    | {
        "recursiondepth",
        "flatten",
        "onerror",
        "onnewfields",
        "timestampunit",
        "record.columns",
        "auto.register.schemas",
    }
)
REGISTRY = "schema.registry."

# Options of Spark's own writer. Spark passes these options to klamm too.
SPARK_OPTIONS = frozenset({"checkpointlocation", "queryname"})
