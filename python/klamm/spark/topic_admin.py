"""An admin client for topics, in the processes that plan reads.

A process of Spark imports this client in 15 ms of CPU time, and `klamm.Admin` in 70 ms (measured).
"""

from __future__ import annotations

from klamm.admin.base import _Admin
from klamm.admin.topics import Topics
from klamm.waiting import Blocking


class TopicAdmin(Blocking, _Admin, Topics):
    """Has the calls of `klamm.Admin` for topics."""

    def close(self) -> None:
        """Close the client."""
        self._close()
