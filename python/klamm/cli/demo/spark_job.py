"""The demo's side of the Spark pipeline: start its process, hear what it says, and leave nothing of it behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from klamm.cli.output import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JAVA_NEEDED = 17
"""Spark 4 runs on Java 17 and later."""

ERROR_LENGTH = 400
"""Spark's messages go on for pages; the log has the rest."""


@contextmanager
def spark_job(bootstrap: str, source_topic: str, result_topic: str, folder: Path) -> Iterator[SparkJob]:
    """Run `klamm.cli.demo.driver`. Leaving the context ends all its processes, whatever they are doing."""
    log = folder / "spark.log"
    with signals_held() as release, log.open("wb") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "klamm.cli.demo.driver", bootstrap, source_topic, result_topic, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            start_new_session=True,
        )
        try:
            release()
            yield SparkJob(process, log)
        finally:
            end_session(process.pid)
            process.communicate()


@dataclass(frozen=True)
class SparkJob:
    """A running pipeline."""

    process: subprocess.Popen[bytes]
    log: Path

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield what the pipeline reports until it has ended; raises when it failed."""
        for line in self.process.stdout or ():
            event = json.loads(line)
            if "error" in event:
                raise CommandError(f"the pipeline failed: {event['error'][:ERROR_LENGTH]}", self._keep_log())
            yield event
        if code := self.process.wait():
            raise CommandError(f"the pipeline's process ended with exit code {code}", self._keep_log())

    def _keep_log(self) -> str:
        """Save Spark's log from the folder that is removed, and say where it is."""
        with NamedTemporaryFile(prefix="klamm-demo-spark-", suffix=".log", delete=False) as kept:
            shutil.copyfile(self.log, kept.name)
        return f"Spark's log: {kept.name}"


@contextmanager
def signals_held() -> Iterator[Callable[[], None]]:
    """Hold SIGINT and SIGTERM back until the given function is called.

    One that raised while a process is being started would lose the id to end it by. They are held by handlers and not
    by a mask, because a new process would inherit the mask, and Spark ends its workers with SIGTERM.
    """
    held: list[int] = []
    before = {
        each: signal.signal(each, lambda number, _: held.append(number)) for each in (signal.SIGINT, signal.SIGTERM)
    }

    def release() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        before.clear()
        for number in held:
            signal.raise_signal(number)

    try:
        yield release
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def end_session(leader: int) -> None:
    """Kill every process of the session that `leader` started, and wait until the last one is gone.

    The JVM shares the leader's group; Spark's Python daemon makes a group of its own, but stays in the session. Each
    would end by itself when its standard input closes, only later than we want to return.
    """
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    while members := session_members(leader):
        for member in members:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


def session_members(session: int) -> list[int]:
    """List the living processes of a session, from Linux's /proc; where there is none, nothing."""
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (name) state parent group session …; the name may hold anything, also ")".
            state, _, _, member_of = path.read_text(errors="replace").rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(member_of) == session and state not in "ZX":
            members.append(int(path.parent.name))
    return members


def check_prerequisites() -> None:
    """Raise when what Spark needs is missing, before anything has been produced."""
    if find_spec("pyspark") is None:
        raise CommandError("the demo needs PySpark", "install it with: pip install 'klamm[spark]'")
    hint = f"install Java {JAVA_NEEDED} or later, or set JAVA_HOME to one"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise CommandError(f"the demo needs Java {JAVA_NEEDED}, and there is no java on the PATH", hint)
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise CommandError(f"the demo needs Java {JAVA_NEEDED}, and {java} does not run: {error}", hint) from None
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is not None and int(version[1]) < JAVA_NEEDED:
        raise CommandError(f"the demo needs Java {JAVA_NEEDED}, and {java} is Java {version[1]}", hint)
