"""Collects log lines of klamm for tests."""

from __future__ import annotations

import logging
import re
import threading
from contextlib import contextmanager


class Lines(logging.Handler):
    """Collects log records, and waits for one that matches."""

    def __init__(self):
        super().__init__()
        self.records = []
        self.arrived = threading.Condition()

    def emit(self, record):
        with self.arrived:
            self.records.append(record)
            self.arrived.notify_all()

    def texts(self):
        return [record.getMessage() for record in self.records]

    def find(self, pattern, seconds=10.0, level=None):
        """Return the first record that matches. Fail if none does in time."""

        def found():
            return next(
                (r for r in self.records if re.search(pattern, r.getMessage()) and level in (None, r.levelno)), None
            )

        with self.arrived:
            assert self.arrived.wait_for(found, seconds), (pattern, self.texts())
            return found()


@contextmanager
def collected(level=logging.INFO, name="klamm"):
    """Collect the lines of a logger."""
    logger, lines = logging.getLogger(name), Lines()
    before = logger.level
    logger.setLevel(level)
    logger.addHandler(lines)
    try:
        yield lines
    finally:
        logger.removeHandler(lines)
        logger.setLevel(before)
