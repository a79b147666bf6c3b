"""A member of a Kafka 0.7 group that behaves as the Java consumer does, for groups that mix it with klamm's members.

It registers what it is given, without any check, and follows the Java consumer's steps: it releases everything, computes its
assignment from the tree, and claims it. The live Java consumer was compared with it by hand. It reads no messages.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from klamm.legacy.zookeeper import create

if TYPE_CHECKING:
    from collections.abc import Callable


class JvmMember:
    """A member with one kazoo client. `data` is what a Java consumer registers, such as `*1*t|u` or `{ "t": 2 }`."""

    def __init__(self, client: Any, group: str, name: str, data: str) -> None:
        self._client, self._group = client, group
        self.member_id = f"{group}_{name}"
        self._owned: list[str] = []
        create(client, f"/consumers/{group}/ids/{self.member_id}", data.encode(), ephemeral=True, timeout=10)

    def rebalance(self, streams_of: Callable[[str, str], int]) -> bool:
        """Claim partitions, and return whether all claims succeeded. `streams_of(data, topic)` reads a registration."""
        from kazoo.exceptions import NodeExistsError

        self.release()
        claims = {}
        for topic in self._children("/brokers/topics"):
            partitions = sorted(
                f"{broker}-{number}"
                for broker in self._children(f"/brokers/topics/{topic}")
                for number in range(int(self._client.get(f"/brokers/topics/{topic}/{broker}")[0]))
            )
            streams = sorted(
                f"{member}-{number}"
                for member in self._children(f"/consumers/{self._group}/ids")
                for number in range(streams_of(self._data(member), topic))
            )
            each, more = divmod(len(partitions), len(streams)) if streams else (0, 0)
            for at, stream in enumerate(streams):
                start = each * at + min(at, more)
                if stream.rpartition("-")[0] == self.member_id:
                    claims |= {(topic, name): stream for name in partitions[start : start + each + (at < more)]}
        for (topic, name), stream in claims.items():
            path = f"/consumers/{self._group}/owners/{topic}/{name}"
            try:
                create(self._client, path, stream.encode(), ephemeral=True, timeout=10)
            except NodeExistsError:
                self.release()
                return False
            self._owned.append(path)
        return True

    def release(self) -> None:
        """Delete the owner nodes of this member."""
        for path in self._owned:
            self._client.delete(path)
        self._owned = []

    def leave(self) -> None:
        """Delete everything that a closed session would delete."""
        self.release()
        self._client.delete(f"/consumers/{self._group}/ids/{self.member_id}")

    def _data(self, member: str) -> str:
        data: bytes = self._client.get(f"/consumers/{self._group}/ids/{member}")[0]
        return data.decode()

    def _children(self, path: str) -> list[str]:
        from kazoo.exceptions import NoNodeError

        with suppress(NoNodeError):
            return list(self._client.get_children(path))
        return []


def streams_of(data: str, topic: str) -> int:
    """Read a registration as the Java consumer does, for expressions that mean the same in Python."""
    if match := re.fullmatch(r"\*(\d+)\*(.*)", data):
        return int(match[1]) if re.fullmatch(match[2].replace(",", "|").replace(" ", ""), topic) else 0
    if match := re.fullmatch(r"!(\d+)!(.*)", data):
        return 0 if re.fullmatch(match[2].replace(",", "|").replace(" ", ""), topic) else int(match[1])
    found = dict(re.findall(r'"([^"]*)"\s*:\s*(\d+)', data))
    return int(found.get(topic, 0))
