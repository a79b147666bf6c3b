"""Shipping klamm as an archive to executors that do not have it, on a cluster of two executors."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import klamm
import pyspark_klamm

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(300),
]

PACKAGES = [Path(package.__file__).parent for package in (klamm, pyspark_klamm)]

DRIVER = """
import os
import sys
from pathlib import Path
from local_spark import SHORT_LIVED, builder

bootstrap, topic, scratch, python, *settings = sys.argv[1:]
described = builder(Path(scratch), master="local-cluster[2,1,1024]", jvm=SHORT_LIVED)
for setting in settings:
    described = described.config(*setting.split("=", 1))
os.environ["PYSPARK_PYTHON"] = python
spark = described.getOrCreate()
options = {"kafka.bootstrap.servers": bootstrap}
numbers = spark.range(100).selectExpr("cast(id as string) as value")
numbers.write.format("klamm").options(**options, topic=topic).mode("append").save()
assert spark.read.format("klamm").options(**options, subscribe=topic).load().count() == 100

def place(_):
    import klamm
    return [klamm.__file__]

print(*spark.sparkContext.parallelize(range(2), 2).mapPartitions(place).collect(), sep="\\n")
spark.stop()
"""


def locations(broker, topic, scratch, python, *settings):
    """Write and read on a cluster; return where its executors found klamm."""
    # Executors get PySpark from SPARK_HOME, which must be that of the installed PySpark and not that of other tests.
    env = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, broker.bootstrap_servers, topic, str(scratch), python, *settings],
        cwd=scratch,
        env={**env, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "SPARK_WORKER_DIR": str(scratch / "work")},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_the_wheel_alone_as_a_zip(dev_broker, topic, tmp_path):
    archive = tmp_path / "klamm.zip"
    with zipfile.ZipFile(archive, "w") as out:
        for package in PACKAGES:
            for path in package.rglob("*"):
                if "__pycache__" not in path.parts:
                    out.write(path, path.relative_to(package.parent))
    settings = [f"spark.archives={archive}#kl", "spark.executorEnv.PYTHONPATH=kl"]
    found = locations(dev_broker, topic, tmp_path, sys.executable, *settings)
    assert [Path(location).parts[-3:] for location in found] == [("kl", "klamm", "__init__.py")] * 2


@pytest.mark.skipif(importlib.util.find_spec("venv_pack") is None, reason="a packed environment: pip install venv-pack")
def test_a_packed_environment(dev_broker, topic, tmp_path):
    env = tmp_path / "env"
    # Executors get pyspark from Spark; klamm and pyarrow are all that has to come along. The driver, which plans with a Python of the
    # same name, finds this one.
    subprocess.run([sys.executable, "-m", "venv", env], check=True)
    subprocess.run([env / "bin" / "python", "-m", "pip", "install", "-q", "pyarrow"], check=True, timeout=200)
    (packages,) = env.glob("lib/python*/site-packages")
    for package in PACKAGES:
        shutil.copytree(package, packages / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    archive = tmp_path / "klamm.tar.gz"
    subprocess.run([sys.executable, "-m", "venv_pack", "-q", "-p", env, "-o", archive], check=True)
    settings = [f"spark.archives={archive}#env", "spark.executorEnv.PYTHONPATH="]
    found = locations(dev_broker, topic, tmp_path, "./env/bin/python", *settings)
    assert all("/env/lib/python" in location for location in found)
    assert len(found) == 2
