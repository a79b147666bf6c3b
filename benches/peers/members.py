"""Runs ten members of a group in one process, each on a thread that polls. `rebalance.py` starts this process.

    members.py klamm|confluent

Like `tests/support/JavaMembers.java`, the process reads one command per line from standard input and writes one response per line. The
commands are `open NAME TOPIC KEY=VALUE...`, `shares` and `close NAME`. Keys are Kafka's configuration keys, with dots.
"""

import sys
import threading
from collections.abc import Callable

POLL_S = 0.05


class Member(threading.Thread):
    """A thread that polls a consumer, which is a member of a group."""

    def __init__(self, consumer: object, poll: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.consumer, self.poll = consumer, poll
        self.assigned: list[int] = []
        self.ends = False
        self.start()

    def run(self) -> None:
        while not self.ends:
            self.poll()
            self.assigned = [tp.partition for tp in self.consumer.assignment()]
        self.consumer.close()


def klamm(topic: str, config: dict[str, str]) -> Member:
    import klamm

    consumer = klamm.Consumer(config)
    consumer.subscribe([topic])
    return Member(consumer, lambda: consumer.poll(POLL_S))


def confluent(topic: str, config: dict[str, str]) -> Member:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(config)
    consumer.subscribe([topic])
    return Member(consumer, lambda: consumer.consume(500, POLL_S))


def main() -> None:
    make = {"klamm": klamm, "confluent": confluent}[sys.argv[1]]
    members: dict[str, Member] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        command, *words = line.rstrip("\n").split("\t")
        answer = ""
        if command == "open":
            name, topic, *settings = words
            members[name] = make(topic, dict(setting.split("=", 1) for setting in settings))
        elif command == "shares":
            answer = ";".join(" ".join(map(str, member.assigned)) for member in members.values())
        elif command == "close":
            member = members.pop(words[0])
            member.ends = True
            member.join()
        print(answer, flush=True)


if __name__ == "__main__":
    main()
