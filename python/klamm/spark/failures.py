"""Shortens klamm's errors in Spark's error messages.

Spark's Python processes send a failure to the JVM as a traceback of up to forty lines, with the message at its end. The
message of a klamm error already says what failed and what to do. Therefore, this module makes Spark send the message
without the traceback, as Spark does with its setting `spark.sql.execution.pyspark.udf.hideTraceback.enabled`. klamm
logs the traceback at level DEBUG. Exceptions that are not klamm errors keep their traceback.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from contextlib import contextmanager
from functools import wraps
from inspect import isgeneratorfunction
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import TaskContext

from klamm.errors import ArgumentError, DeliveryError, KafkaError, MessageTooLargeError
from klamm.spark import clients

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

F = TypeVar("F", bound="Callable[..., Any]")

log = logging.getLogger("klamm.spark")


def short_errors(method: F) -> F:
    """Decorate a method that Spark calls: if it raises a klamm error, Spark shows only the message of the error."""

    @wraps(method)  # Spark inspects the signature of the method
    def call(*args: Any, **kwargs: Any) -> Any:
        with _without_traceback():
            return method(*args, **kwargs)

    @wraps(method)
    def generate(*args: Any, **kwargs: Any) -> Any:
        with _without_traceback():
            yield from method(*args, **kwargs)

    return generate if isgeneratorfunction(method) else call  # type: ignore[return-value]


@contextmanager
def _without_traceback() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        first = error.exceptions[0] if isinstance(error, DeliveryError) else error
        log.debug("a klamm error in a Python process of Spark", exc_info=True)
        if clients.SPARK_PROCESS in sys.modules:
            # Spark's Python processes read this variable when they send an exception. Then the process ends.
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        if first is error:
            raise
        first.message = error.message
        raise first from None


@contextmanager
def rows_after(first: int) -> Iterator[None]:
    """If a row of a batch causes an error, add the number of the task and of the row within the task to the message.

    Args:
        first: Number of rows in earlier batches of the task.
    """
    try:
        yield
    except (ArgumentError, MessageTooLargeError) as error:
        if match := re.match(r"row (\d+): ", error.message):
            context = TaskContext.get()
            task = 0 if context is None else context.partitionId()
            error.message = f"row {first + int(match[1])} of task {task}: {error.message[match.end() :]}"
        raise
