"""Starts klamm's Python threads for work that waits in native code.

gevent and eventlet replace the threads of a program with greenlets. A native wait in a greenlet would stop the whole
program, so klamm always starts threads of the operating system.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def start_daemon(name: str, function: Callable[..., object], *args: Any) -> threading.Thread | None:
    """Start a daemon thread that calls a function.

    Return the thread. If gevent or eventlet has patched `threading`, there is no Thread object, so return None.
    """
    start = _unpatched()
    if start is None:
        thread = threading.Thread(target=function, args=args, name=name, daemon=True)
        thread.start()
        return thread
    start(function, args)
    return None


def sleep(seconds: float) -> None:
    """Sleep for a number of seconds.

    If the caller is a greenlet of gevent, other greenlets run during the sleep, even if gevent has not patched the
    program.
    """
    hubs = sys.modules.get("gevent._hub_local")
    hub = None if hubs is None else hubs.get_hub_if_exists()
    if hub is None or sys.modules["greenlet"].getcurrent() is hub:
        time.sleep(seconds)
    else:
        sys.modules["gevent"].sleep(seconds)


def _unpatched() -> Callable[[Callable[..., object], tuple[Any, ...]], object] | None:
    """Return Python's original function that starts a thread, or None if neither gevent nor eventlet replaced it."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        return monkey.get_original("_thread", "start_new_thread")  # type: ignore[no-any-return]
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        return patcher.original("_thread").start_new_thread  # type: ignore[no-any-return]
    return None
