"""Starts the process of the demo's Spark pipeline (`driver`), reads its events, and at the end kills all Spark processes."""

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
"""Spark 4 needs Java 17 or later."""

ERROR_LENGTH = 400
"""Maximum number of characters to print of one Spark error message, which can be pages long.

The log has the whole message.
"""


@contextmanager
def spark_job(bootstrap: str, source_topic: str, result_topic: str, folder: Path) -> Iterator[SparkJob]:
    """Run `klamm.cli.demo.driver` inside the `with` block.

    At the end of the block, kill all processes of the driver's session.
    """
    log = folder / "spark.log"
    with signals_deferred() as release, log.open("wb") as log_file:
        process = subprocess.Popen(
            [sys.executable, "-m", "klamm.cli.demo.driver", bootstrap, source_topic, result_topic, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            env={**spark_home(folder), **os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            start_new_session=True,
        )
        try:
            release()
            yield SparkJob(process, log)
        finally:
            end_session(process.pid)
            process.communicate()


def spark_home(folder: Path) -> dict[str, str]:
    """Return an environment variable `SPARK_HOME` that makes Spark's Python processes import the installed PySpark.

    Without `SPARK_HOME`, Spark's Python processes would import PySpark from a zip file, which has no compiled modules.
    The import from the zip file would delay the start of each process by 0.5 s.
    """
    spec = find_spec("pyspark")
    installed = Path(spec.origin or "").parent if spec is not None else None
    # If PySpark was not installed from a wheel, its JAR files are in another folder.
    if installed is None or not (installed / "jars").is_dir():
        return {}
    home = folder / "spark"
    home.mkdir()
    try:
        for name in ("bin", "jars"):
            (home / name).symlink_to(installed / name)
    except OSError:  # on Windows, only administrators may create links
        return {}
    return {"SPARK_HOME": str(home)}


@dataclass(frozen=True)
class SparkJob:
    """A running pipeline."""

    process: subprocess.Popen[bytes]
    log: Path

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the events of the pipeline until the pipeline has ended. Raise if the pipeline failed."""
        for line in self.process.stdout or ():
            event = json.loads(line)
            if "error" in event:
                raise CommandError(f"the Spark pipeline failed: {event['error'][:ERROR_LENGTH]}", self._keep_log())
            yield event
        if code := self.process.wait():
            raise CommandError(f"the Spark pipeline's process ended with exit code {code}", self._keep_log())

    def _keep_log(self) -> str:
        """Copy Spark's log out of the demo's folder, which will be deleted. Return a hint with the path of the copy."""
        with NamedTemporaryFile(prefix="klamm-demo-spark-", suffix=".log", delete=False) as kept:
            shutil.copyfile(self.log, kept.name)
        return f"see Spark's log: {kept.name}"


@contextmanager
def signals_deferred() -> Iterator[Callable[[], None]]:
    """Defer SIGINT and SIGTERM until the yielded function is called.

    If a signal raised an exception while a process starts, the ID of this process would be lost. The function sets
    signal handlers instead of a signal mask. A new process would inherit the mask and block SIGTERM, with which Spark
    ends its workers.
    """
    deferred: list[int] = []
    before = {
        each: signal.signal(each, lambda number, _: deferred.append(number)) for each in (signal.SIGINT, signal.SIGTERM)
    }

    def release() -> None:
        for each, handler in before.items():
            signal.signal(each, handler)
        before.clear()
        for number in deferred:
            signal.raise_signal(number)

    try:
        yield release
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def end_session(leader: int) -> None:
    """Kill every process of the session that `leader` started, and wait until all processes have ended.

    The JVM is in the leader's process group. Spark's Python daemon creates its own process group, but stays in the
    session. Without SIGKILL, each process would end only later, when its standard input is closed.
    """
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    while members := session_members(leader):
        for member in members:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


def session_members(session: int) -> list[int]:
    """Return the IDs of the live processes of a session, from Linux's /proc.

    On systems without /proc, return an empty list.
    """
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The fields are: pid (name) state parent group session …. The name may contain any character, even ")".
            state, _, _, member_of = path.read_text(errors="replace").rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(member_of) == session and state not in "ZX":
            members.append(int(path.parent.name))
    return members


def check_prerequisites() -> None:
    """Raise if PySpark or a suitable version of Java is missing."""
    if find_spec("pyspark") is None:
        raise CommandError("the demo needs PySpark", "install it with: pip install 'klamm[spark]'")
    hint = f"install Java {JAVA_NEEDED} or later, or set JAVA_HOME to such a Java"
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise CommandError(f"the demo needs Java {JAVA_NEEDED}, but there is no java on the PATH", hint)
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError) as error:
        raise CommandError(f"the demo needs Java {JAVA_NEEDED}, but {java} does not run: {error}", hint) from None
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if version is not None and int(version[1]) < JAVA_NEEDED:
        raise CommandError(f"the demo needs Java {JAVA_NEEDED}, but {java} is Java {version[1]}", hint)
