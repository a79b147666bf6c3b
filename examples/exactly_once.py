"""Read records from one topic, and write results to another topic, exactly once for each record.

    python examples/exactly_once.py localhost:9092 lines lengths --until-end

The program processes each batch of records in one transaction, which also commits the consumer's offsets. If a transaction aborts, the
program reads its records again. You can kill the program at any moment and start it again. It then continues after the last
committed transaction. Consumers with
`isolation_level="read_committed"` do not see records of transactions that were not committed.
"""

from __future__ import annotations

import argparse

import klamm


def main() -> None:
    """Write the length of each record's value to the target topic, until the end or forever."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap_servers")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--until-end", action="store_true", help="stop at the current end of the source topic")
    args = parser.parse_args()

    # The transactional ID must stay the same after a restart, so that the new instance fences an old instance that still runs.
    name = f"{args.source}-to-{args.target}"
    with (
        klamm.Producer(args.bootstrap_servers, transactional_id=name) as producer,
        klamm.Consumer(
            args.bootstrap_servers,
            group_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            outage="wait",
        ) as consumer,
    ):
        producer.init_transactions()  # completes or aborts the old instance's transaction before offsets are read
        partitions = [klamm.TopicPartition(args.source, number) for number in consumer.partitions_for(args.source)]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        done = 0
        while not args.until_end or any(consumer.position(tp) < ends[tp] for tp in partitions):
            records = consumer.poll(timeout=1)
            if not records:
                continue
            try:
                with producer.transaction(consumer) as tx:  # commits the records and the consumer's offsets
                    for record in records:
                        tx.send_nowait(args.target, b"%d" % len(record.value or b""), key=record.value)
            except klamm.TransactionAbortedError as error:
                print(f"aborted, reading the records again: {error}", flush=True)  # the consumer has gone back
                continue
            done += len(records)
            print(f"{done:,} records", flush=True)


if __name__ == "__main__":
    main()
