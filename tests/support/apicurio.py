"""Runs Apicurio Registry on loopback, as a schema registry that klamm did not write.

    with Apicurio() as registry:
        SchemaRegistry(registry.url)

Maven fetches it from Maven Central once (109 MB) and it stays in `$KLAMM_CACHE` or the user's cache directory. If the
machine lacks a requirement, `KafkaUnavailable` names it, and tests skip. Its contents are in memory.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_broker import (
    _LAUNCHER,
    HOST,
    MAVEN_TIMEOUT,
    KafkaUnavailable,
    _cache_directory,
    find_java,
    free_ports,
    tail,
)
from locked import locked

if TYPE_CHECKING:
    from typing_extensions import Self

VERSION = "3.0.9"
START_TIMEOUT = 90.0  # seconds; 8 on an idle machine
PATH = "/apis/ccompat/v7"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"


class Apicurio:
    """One process of Apicurio Registry."""

    def __init__(self) -> None:
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._home = Path()

    def __enter__(self) -> Self:
        java, jar = find_java(), _application()
        (port,) = free_ports(1)
        self._home = Path(tempfile.mkdtemp(prefix="klamm-apicurio-"))
        environment = {**os.environ, "QUARKUS_HTTP_HOST": HOST, "QUARKUS_HTTP_PORT": str(port)}
        environment["APICURIO_REST_DELETION_ARTIFACT_ENABLED"] = "true"
        environment["APICURIO_REST_DELETION_ARTIFACT_VERSION_ENABLED"] = "true"
        with (self._home / "log").open("wb") as log:
            command = [java, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", jar.name]
            self._process = subprocess.Popen(
                [sys.executable, "-c", _LAUNCHER, str(os.getpid()), *command],
                cwd=jar.parent,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait(port)
        except BaseException:
            self.__exit__()
            raise
        self.url = f"http://{HOST}:{port}{PATH}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                break
            connection = http.client.HTTPConnection(HOST, port, timeout=5)
            with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("GET", f"{PATH}/subjects")
                if connection.getresponse().status == http.client.OK:
                    return
            time.sleep(0.2)
        raise RuntimeError(f"Apicurio Registry did not start:\n{tail(self._home / 'log')}")


def _application() -> Path:
    """Return the jar that starts the registry. Maven fetches it the first time."""
    home = _cache_directory() / "apicurio" / VERSION
    jar = home / f"apicurio-registry-app-{VERSION}-runner.jar"
    home.parent.mkdir(parents=True, exist_ok=True)
    with locked(home.parent / f"{VERSION}.lock"):
        if not jar.exists():
            archive = _fetched()
            scratch = home.with_suffix(".new")
            shutil.rmtree(scratch, ignore_errors=True)
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
            scratch.rename(home)
    return jar


def _fetched() -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable("mvn is not installed (apt install maven, brew install maven)")
    command = [maven, "-B", "-q", "-ntp", "dependency:get", "-Dtransitive=false", f"-Dartifact={_ARTIFACT}"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=MAVEN_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise KafkaUnavailable(f"mvn did not fetch Apicurio Registry within {MAVEN_TIMEOUT:.0f} s") from None
    archive = Path.home() / f".m2/repository/io/apicurio/apicurio-registry-app/{VERSION}"
    archive /= f"apicurio-registry-app-{VERSION}-all.tar.gz"
    if done.returncode != 0 or not archive.exists():
        raise KafkaUnavailable("mvn could not fetch Apicurio Registry")
    return archive
