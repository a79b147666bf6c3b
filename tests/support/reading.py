"""Reads records with `poll`, which may return fewer records than were written.

A consumer that waits for records gets the first batch as soon as the broker has it. The rest arrives with later polls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from settled import until

if TYPE_CHECKING:
    import klamm
    from styles import Driven


def read_values(consumer: klamm.Consumer | Driven, count: int, max_records: int | None = None) -> list[bytes]:
    """Poll until `count` records have arrived, and return the values of all records. One poll returns `max_records`."""
    values: list[bytes] = []

    def is_complete() -> bool:
        most = None if max_records is None else max_records - len(values)
        values.extend(record.value for record in consumer.poll(0.5, most))
        return len(values) >= count

    until(is_complete)
    return values
