"""What the asyncio classes share: waiting with a timeout, with the error of the classes that block."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from klamm._klamm import Pending

T = TypeVar("T")


async def within(pending: Pending[T], timeout: float | None) -> T:
    """Await an outcome, at most for so many seconds."""
    if timeout is None or pending.done():
        return await pending
    outcome = asyncio.ensure_future(_of(pending))
    try:
        return await asyncio.wait_for(outcome, max(timeout, 0))
    except asyncio.TimeoutError:
        raise pending._timed_out(timeout) from None  # noqa: SLF001


async def _of(pending: Pending[T]) -> T:
    return await pending


async def is_done_within(future: asyncio.Future[Any], timeout: float | None) -> bool:
    """Wait for a future without cancelling it; say whether it is done."""
    done, _ = await asyncio.wait([future], timeout=None if timeout is None else max(timeout, 0))
    return bool(done)
