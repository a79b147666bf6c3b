"""A confluent-kafka consumer in a separate process. `Confluent` in `members.py` writes one command a line and reads one
answer a line.

librdkafka may hang when it is closed during a rebalance (librdkafka #4362, confluent-kafka-python #1667), and then
holds the GIL. Its whole process stops, including test timeouts.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import confluent_kafka


def answer(consumer: Any, command: str) -> Any:
    """Run a command and return its result."""
    if command == "poll":
        message = consumer.poll(0.1)
        return [] if message is None or message.error() else [message.value().decode()]
    if command == "partitions":
        return [tp.partition for tp in consumer.assignment()]
    try:
        consumer.commit(asynchronous=False)
    except confluent_kafka.KafkaException as error:
        if error.args[0].code() != confluent_kafka.KafkaError._NO_OFFSET:  # nothing was read since the last time
            return {"error": str(error)}
    return None


def main() -> None:
    """Join the group, run the commands from standard input, and leave when the input ends."""
    consumer = confluent_kafka.Consumer(json.loads(sys.argv[1]))
    consumer.subscribe([sys.argv[2]])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(consumer, line.strip())) + "\n")
        sys.stdout.flush()
    consumer.close()


if __name__ == "__main__":
    main()
