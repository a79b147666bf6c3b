"""Read one topic and write another, each record exactly once, whatever happens in between.

    python examples/exactly_once.py localhost:9092 lines lengths --until-end

Every batch of records is one transaction, which also commits the offsets behind them. Kill the program at any moment and
start it again: it goes on where the last committed transaction ended, and readers with `isolation_level="read_committed"`
see nothing of the one that was cut short.
"""

from __future__ import annotations

import argparse

import klamm


def main() -> None:
    """Copy records with the length of their values until the end, or for ever."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap_servers")
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--until-end", action="store_true", help="stop where the source ends now")
    args = parser.parse_args()

    # The same name after a restart: it is what fences a predecessor that is not quite dead.
    name = f"{args.source}-to-{args.target}"
    with (
        klamm.Producer(args.bootstrap_servers, transactional_id=name) as producer,
        klamm.Consumer(
            args.bootstrap_servers,
            group_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer,
    ):
        producer.init_transactions()  # before offsets are read: it settles what a predecessor left open
        partitions = [klamm.TopicPartition(args.source, number) for number in consumer.partitions_for(args.source)]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        done = 0
        while not args.until_end or any(consumer.position(tp) < ends[tp] for tp in partitions):
            records = consumer.poll(timeout=1)
            if records:
                with producer.transaction() as tx:
                    for record in records:
                        tx.send_nowait(args.target, b"%d" % len(record.value or b""), key=record.value)
                    tx.commit_offsets(consumer)
                done += len(records)
                print(f"{done:,} records", flush=True)


if __name__ == "__main__":
    main()
