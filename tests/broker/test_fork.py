"""Forks and signals: a child gets an error and does not hang, and Ctrl+C ends every call."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
import traceback

import pytest

import klamm
from klamm.errors import ForkedClientError
from klamm.testing import DevBroker
from settled import wait_until_settled

pyarrow = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


def in_child(work, limit=20):
    """Run a function in a forked child, which must succeed within the limit."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(limit)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - nothing of the test run may go on in the child
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_a_forked_process_that_ends_leaves_the_dev_broker_of_its_parent_alone():
    program = """
import os, sys
import klamm
from klamm.testing import DevBroker
broker = DevBroker(tls=True, client_auth=True, schema_registry=True)
with broker:
    config = broker.client_config()
    files = [value for key, value in config.items() if key.endswith("location")]
    pid = os.fork()
    if pid == 0:
        assert not set(broker.client_certificate()) & set(files)
        sys.exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(files) == 3 and all(map(os.path.exists, files))
    with klamm.Producer(config) as producer:
        producer.send("t", b"v").result(20)
    assert broker.schema_registry.url
del broker
print(sum(map(os.path.exists, files)))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.returncode) == ("0\n", 0), run.stderr


@pytest.fixture
def clients(broker, topic):
    """Clients at work, and a Delivery."""
    producer = klamm.Producer(broker.bootstrap_servers)
    consumer = klamm.Consumer(broker.bootstrap_servers)
    admin = klamm.Admin(broker.bootstrap_servers)
    delivery = producer.send(topic, b"v")
    delivery.result(20)
    consumer.assign([klamm.TopicPartition(topic, 0, 0)])
    consumer.poll(timeout=20)
    admin.list_topics()
    yield producer, consumer, admin, delivery
    producer.close()
    consumer.close()
    admin.close()


def test_every_call_on_a_client_of_the_parent_raises_in_the_child(clients, topic):
    producer, consumer, admin, delivery = clients
    tp = klamm.TopicPartition(topic, 0)
    table = pyarrow.table({"value": [b"v"]})
    calls = {
        "send": lambda: producer.send(topic, b"v"),
        "send_nowait": lambda: producer.send_nowait(topic, b"v"),
        "send_many": lambda: producer.send_many(topic, [b"v"]),
        "send_arrow": lambda: producer.send_arrow(topic, table),
        "flush": producer.flush,
        "metrics": producer.metrics,
        "producer.partitions_for": lambda: producer.partitions_for(topic),
        "result": delivery.result,
        "done": delivery.done,
        "iteration": lambda: next(iter(consumer)),
        "poll": consumer.poll,
        "assign": lambda: consumer.assign([tp]),
        "seek": lambda: consumer.seek(tp, 0),
        "position": lambda: consumer.position(tp),
        "end_offsets": lambda: consumer.end_offsets([tp]),
        "lag": consumer.lag,
        "commit": consumer.commit,
        "list_topics": admin.list_topics,
        "create_topics": lambda: admin.create_topics({"x": klamm.NewTopic()}),
    }

    in_child(lambda: all_raise(calls))
    assert producer.send(topic, b"the parent goes on").result(20).offset == 1


def all_raise(calls):
    for name, call in calls.items():
        with pytest.raises(ForkedClientError) as caught:
            call()
        assert "fork" in str(caught.value), name
        assert caught.value.hint, name


def test_a_transaction_of_the_parent_raises_in_the_child_and_continues_in_the_parent(broker, topic):
    tp = klamm.TopicPartition(topic, 0)
    with klamm.Producer(broker.bootstrap_servers, transactional_id=f"tx-{topic}") as producer:
        with producer.transaction() as tx:
            tx.send(topic, b"before").result(20)
            calls = {
                "send": lambda: tx.send(topic, b"v"),
                "send_arrow": lambda: tx.send_arrow(topic, pyarrow.table({"value": [b"v"]})),
                "commit_offsets": lambda: tx.commit_offsets(klamm.GroupMetadata("g"), {tp: 1}),
                "commit": tx.commit,
                "abort": tx.abort,
                "init_transactions": producer.init_transactions,
                "another": producer.transaction().__enter__,
                "metrics": producer.metrics,
            }
            in_child(lambda: all_raise(calls))
            tx.send_nowait(topic, b"after")
        with producer.transaction() as tx:
            tx.send_nowait(topic, b"another")
    wait_until_settled(broker.bootstrap_servers, topic)
    table = klamm.read_table(broker.bootstrap_servers, topic, columns=["value"], isolation_level="read_committed")
    assert table["value"].to_pylist() == [b"before", b"after", b"another"]


def test_an_async_producer_of_the_parent_raises_in_the_child_and_continues_in_the_parent(broker, topic):
    async def live():
        async with klamm.AsyncProducer(broker.bootstrap_servers) as producer:
            delivery = producer.send_nowait(topic, b"before")
            await delivery

            async def await_(make):
                return await make()

            asynchronous = {
                "send": lambda: producer.send(topic, b"v"),
                "send_many": lambda: producer.send_many(topic, [b"v"]),
                "send_arrow": lambda: producer.send_arrow(topic, pyarrow.table({"value": [b"v"]})),
                "flush": producer.flush,
                "partitions_for": lambda: producer.partitions_for(topic),
                "delivery": lambda: delivery,
            }
            calls = {"send_nowait": lambda: producer.send_nowait(topic, b"v"), "metrics": producer.metrics}

            def work():
                # The child has no thread but this one, which is in the midst of the parent's loop.
                asyncio._set_running_loop(None)
                for name, make in asynchronous.items():
                    calls[name] = lambda make=make: asyncio.run(await_(make))
                all_raise(calls)

            in_child(work)
            return await producer.send(topic, b"the parent goes on")

    assert asyncio.run(live()).offset == 1


def test_a_child_can_close_and_drop_what_it_inherited(clients):
    def work():
        producer, consumer, admin, delivery = clients
        for client in producer, consumer, admin:
            client.close()
        producer = consumer = admin = delivery = None  # noqa: F841

    in_child(work)


@pytest.mark.usefixtures("clients")
def test_a_child_makes_clients_of_its_own(broker, topic):
    def work():
        with klamm.Producer(broker.bootstrap_servers) as producer:
            producer.send(topic, b"from the child").result(20)
        with klamm.Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([klamm.TopicPartition(topic, 0, 1, 2)])
            assert [record.value for record in consumer] == [b"from the child"]

    in_child(work)


def test_a_fork_while_the_io_thread_is_busy_does_not_hang(broker, topic):
    with klamm.Producer(broker.bootstrap_servers) as producer:
        for _ in range(20):
            producer.send_many(topic, [b"v" * 100] * 500)

            def work():
                with pytest.raises(ForkedClientError):
                    producer.send_nowait(topic, b"v")
                producer.close()

            in_child(work)


def test_the_embedded_broker_stays_with_the_parent(topic):
    with DevBroker() as broker:

        def work():
            broker.stop()

        in_child(work)
        with klamm.Producer(broker.bootstrap_servers) as producer:
            assert producer.send(topic, b"v").result(20).offset == 0


INTERRUPTED = {
    "result": "klamm.Producer(nowhere).send('t', b'v').result()",
    "flush": "p = klamm.Producer(nowhere); p.send_nowait('t', b'v'); p.flush()",
    "close": "p = klamm.Producer(nowhere); p.send_nowait('t', b'v'); p.close()",
    "with": "with klamm.Producer(nowhere, close_timeout=0) as p: p.send_nowait('t', b'v'); p.flush()",
    "full buffer": "klamm.Producer(nowhere, buffer_memory=5000).send_many('t', [b'x' * 1000] * 10)",
    "iteration": "c = klamm.Consumer(broker, topics=['t']); next(iter(c))",
    "poll": "c = klamm.Consumer(broker, topics=['t']); c.poll(timeout=None)",
    "consumer with": "with klamm.Consumer(broker, group_id='g', topics=['t']) as c: next(iter(c))",
    "arrow": "c = klamm.Consumer(broker, topics=['t']); next(c.arrow())",
    "position": "c = klamm.Consumer(nowhere); c.assign([klamm.TopicPartition('t', 0)]); c.position(klamm.TopicPartition('t', 0))",
    "admin": "klamm.Admin(nowhere).list_topics()",
    "read_table": "klamm.read_table(nowhere, 't')",
    "async result": "asyncio.run(delivery())",
    "async iteration": "asyncio.run(record())",
}
PROGRAM = """
import asyncio, sys, threading, time
import klamm
from klamm.testing import DevBroker

nowhere = "127.0.0.1:1"

def announce(thread):
    # A thread that is offered the interpreter a thousand times and never takes it is waiting for something else.
    before, looks = None, 0
    while looks < 1000:
        frame = sys._current_frames()[thread]
        place = id(frame), frame.f_lasti
        before, looks = place, looks + 1 if place == before else 0
        time.sleep(0)
    print("waiting", flush=True)

async def delivery():
    async with klamm.AsyncProducer(nowhere, close_timeout=0) as producer:
        await producer.send("t", b"v")

async def record():
    async with klamm.AsyncConsumer(broker, topics=["t"]) as consumer:
        await consumer.__anext__()

with DevBroker() as running:
    broker = running.bootstrap_servers
    klamm.Admin(broker).create_topics({"t": klamm.NewTopic(partitions=1)})
    threading.Thread(target=announce, args=[threading.get_ident()]).start()
    STATEMENT
"""


@pytest.mark.parametrize("statement", INTERRUPTED.values(), ids=INTERRUPTED)
def test_ctrl_c_ends_a_call_at_once(statement):
    program = PROGRAM.replace("STATEMENT", textwrap.indent(statement, "    ").strip())
    command = [sys.executable, "-W", "ignore", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        seconds = time.monotonic() - began
    assert "KeyboardInterrupt" in errors
    assert process.returncode in (-signal.SIGINT, 130)
    assert seconds < 10


def test_ctrl_c_ends_a_program_with_an_open_producer_by_the_signal():
    program = """
    import klamm
    producer = klamm.Producer("127.0.0.1:1")
    producer.send_nowait("t", b"v")
    print("waiting", flush=True)
    while True:  # a call that waits could miss a signal that arrives right before it
        pass
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    # Python ends by the signal only if no module was imported at exit.
    assert process.returncode == -signal.SIGINT
    assert "1 record was not acknowledged before the producer ended" in errors


def run_program(text, *arguments, **options):
    # From 3.12 on CPython warns of every fork beside threads, which is what these programs are about.
    quiet = ("-W", "ignore:This process:DeprecationWarning")
    return subprocess.run(
        [sys.executable, *quiet, "-c", textwrap.dedent(text), *arguments],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
        **options,
    )


@pytest.mark.parametrize("kind", ["Producer", "AsyncProducer"])
def test_the_end_of_the_program_waits_for_records_under_way(broker, topic, kind):
    done = run_program(
        """
        import sys, klamm
        producer = getattr(klamm, sys.argv[3])(sys.argv[1], linger_ms=300)
        core = super(type(producer), producer)
        for number in range(500):
            core.send(sys.argv[2], b"%d" % number)
        """,
        broker.bootstrap_servers,
        topic,
        kind,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert klamm.read_table(broker.bootstrap_servers, topic).num_rows == 500


def test_the_end_of_the_program_waits_no_longer_than_its_bound():
    done = run_program(
        """
        import klamm, klamm.producer
        klamm.producer.EXIT_FLUSH_S = 0.3
        producer = klamm.Producer("127.0.0.1:1")
        producer.send_nowait("t", b"v")
        """
    )
    assert done.returncode == 0
    # The I/O thread may log its next attempt after the line about the record.
    lines = [line for line in done.stderr.splitlines() if "no broker can be reached" not in line]
    lost = "1 record was not acknowledged before the producer ended, and may be lost: 1 in topic t; flush() waits for all records"
    assert lines == [f"[klamm] {lost}"]


def test_a_prefork_server_makes_clients_in_its_workers(broker, topic):
    """A parent with an active producer forks workers, as gunicorn does. Each worker has its own producer and ends
    normally.
    """
    done = run_program(
        """
        import os, sys, klamm
        servers, topic = sys.argv[1:]
        parent = klamm.Producer(servers)
        parent.send(topic, b"parent").result(20)
        workers = []
        for number in range(3):
            pid = os.fork()
            if pid == 0:
                try:
                    parent.send_nowait(topic, b"never")
                except klamm.errors.ForkedClientError:
                    own = klamm.Producer(servers)
                    own.send_nowait(topic, b"worker %d" % number)
                    sys.exit()  # neither flushed nor closed
                os._exit(1)
            workers.append(pid)
        for pid in workers:
            assert os.waitpid(pid, 0)[1] == 0
        parent.send(topic, b"parent again").result(20)
        """,
        broker.bootstrap_servers,
        topic,
    )
    assert (done.returncode, done.stderr) == (0, "")
    values = klamm.read_table(broker.bootstrap_servers, topic, columns=["value"])["value"].to_pylist()
    assert values[0] == b"parent"
    assert sorted(values[1:]) == [b"parent again", b"worker 0", b"worker 1", b"worker 2"]


def test_multiprocessing_by_fork_works_with_clients_of_its_own(broker, topic):
    done = run_program(
        """
        import multiprocessing, sys, klamm
        servers, topic = sys.argv[1:]

        def work(number):
            with klamm.Producer(servers) as producer:
                return producer.send(topic, b"%d" % number).result(20).offset

        parent = klamm.Producer(servers)
        parent.send(topic, b"parent").result(20)
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert sorted(pool.map(work, range(4))) == [1, 2, 3, 4]
        parent.close()
        """,
        broker.bootstrap_servers,
        topic,
    )
    assert (done.returncode, done.stderr) == (0, "")
