"""The end of a process: records of open producers are delivered, also in child processes and for late exit handlers."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import klamm


def run_file(tmp_path, program, *args):
    """Run a program from a file, which child processes can import."""
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    command = [sys.executable, str(path), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def values(broker, topic):
    return klamm.read_table(broker.bootstrap_servers, topic, columns=["value"])["value"].to_pylist()


@pytest.mark.parametrize("made", ["in the function", "in the module"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_child_process_delivers_its_records(broker, topic, tmp_path, method, made):
    if method != "spawn" and sys.platform == "win32":
        pytest.skip("there is no fork here")
    done = run_file(
        tmp_path,
        """
        import multiprocessing, sys, klamm
        servers, topic, method, made = sys.argv[1:]
        producers = []
        if made == "in the module" and (method == "fork" or multiprocessing.current_process().name != "MainProcess"):
            producers.append(klamm.Producer(servers, linger_ms=200))

        def work():
            if made == "in the function" or method == "fork":
                producers[:] = [klamm.Producer(servers, linger_ms=200)]
            for number in range(100):
                producers[0].send_nowait(topic, b"%d" % number)

        if __name__ == "__main__":
            child = multiprocessing.get_context(method).Process(target=work)
            child.start()
            child.join(30)
            sys.exit(child.exitcode)
        """,
        broker.bootstrap_servers,
        topic,
        method,
        made,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(values(broker, topic)) == 100


def test_a_child_process_says_what_it_loses(tmp_path):
    done = run_file(
        tmp_path,
        """
        import multiprocessing, klamm, klamm.producer
        klamm.producer.EXIT_FLUSH_S = 0.2

        def work():
            global producer
            producer = klamm.Producer("127.0.0.1:1")
            producer.send_nowait("t", b"v")

        if __name__ == "__main__":
            child = multiprocessing.get_context("fork").Process(target=work)
            child.start()
            child.join(30)
        """,
    )
    assert "1 record was not acknowledged before the producer ended, and may be lost: 1 in topic t" in done.stderr


@pytest.mark.parametrize("way", ["close", "flush", "neither"])
def test_an_exit_handler_older_than_klamm_can_send(broker, topic, tmp_path, way):
    done = run_file(
        tmp_path,
        """
        import atexit, sys

        def last():
            producer.send_nowait(topic, b"last")
            if way != "neither":
                getattr(producer, way)()

        atexit.register(last)
        import klamm
        servers, topic, way = sys.argv[1:]
        producer = klamm.Producer(servers, linger_ms=200, on_delivery=print if way == "neither" else None)
        producer.send_nowait(topic, b"first")
        """,
        broker.bootstrap_servers,
        topic,
        way,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert values(broker, topic) == [b"first", b"last"]
