"""Credentials of a schema registry reach the registry, but nothing that Spark shows: plans, the UI, checkpoints and logs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid

import pytest

import klamm
from klamm.registry import AvroSerializer, SchemaRegistry
from klamm.registry.dev import DevRegistry
from klamm.spark.stream import ADMISSION_CONTROL

pytestmark = pytest.mark.spark

ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})

# A driver of its own, because its log and its UI belong to a whole process.
DRIVER = """
import json, sys, urllib.request
from pathlib import Path

from local_spark import builder

scratch, servers, url, secret, topic = sys.argv[1:]
scratch = Path(scratch)
spark = builder(scratch).config("spark.ui.enabled", "true").config("spark.ui.port", "0").getOrCreate()
spark.sparkContext.setLogLevel("DEBUG")
common = {"kafka.bootstrap.servers": servers, "value.format": "avro"}
common["schema.registry.url"] = url.replace("://", "://alice:" + secret + "@")
read = common | {"subscribe": topic, "flatten": "true"}
frame = spark.read.format("klamm").options(**read).load()
for mode in ("extended", "formatted", "cost", "codegen"):
    frame.explain(mode)
assert [row.id for row in frame.collect()] == [7]
frame.select("id").write.format("klamm").options(**common, topic=topic + "-copy").mode("append").save()
stream = spark.readStream.format("klamm").options(**read, startingOffsets="earliest").load()
stream.explain("extended")

def run(checkpoint, **more):
    options = common | {"topic": topic + "-copy", "checkpointLocation": str(scratch / checkpoint)} | more
    query = stream.select("id").writeStream.format("klamm").options(**options).trigger(availableNow=True).start()
    query.awaitTermination()
    query.explain(extended=True)
    print(query.lastProgress)

run("checkpoint")
try:
    run("failed", delivery="never")
except Exception as error:
    assert "delivery" in str(error)
    print(error)
else:
    raise AssertionError("the query ran")
try:
    spark.read.format("klamm").options(**{k: v.replace(secret, secret + "!") for k, v in read.items()}).load()
except Exception as error:
    assert "401" in str(error)
    print(error)
else:
    raise AssertionError("the wrong password was accepted")
shown = common | {"schema.registry.url": url, "schema.registry.basic.auth.user.info": "alice:" + secret}
try:
    spark.readStream.format("klamm").options(**shown, subscribe=topic).load()
except Exception as error:
    assert "is not accepted, because Spark shows" in str(error)
    print(error)
else:
    raise AssertionError("an option that Spark shows was accepted")
ui = spark.sparkContext.uiWebUrl
application = f"/api/v1/applications/{spark.sparkContext.applicationId}"
pages = ["/jobs/", "/stages/", "/SQL/", "/environment/", "/StreamingQuery/", "/executors/"]
pages += [application + "/sql?details=true&planDescription=true&length=100", application + "/environment", application + "/jobs"]
for page in pages:
    with urllib.request.urlopen(ui + page) as response:
        print(page, response.read().decode())
spark.stop()
"""


@pytest.mark.timeout(200)  # a Spark of its own
def test_nothing_of_spark_shows_a_password_of_the_registry(dev_broker, topic, tmp_path):
    secret = f"s{uuid.uuid4().hex}"
    with (
        DevRegistry(users={"alice": secret}) as running,
        SchemaRegistry(running.url, basic_auth_user_info=f"alice:{secret}") as registry,
    ):
        with klamm.Producer(dev_broker.bootstrap_servers, value_serializer=AvroSerializer(registry, ORDER)) as producer:
            producer.send(topic, {"id": 7})
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, str(tmp_path), dev_broker.bootstrap_servers, running.url, secret, topic],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "DEBUG" in done.stderr
    assert "schema.registry.url=*" in done.stdout
    lines = (done.stdout + done.stderr).splitlines()
    if not ADMISSION_CONTROL:  # before 4.2, Spark logs the plan of a streaming write with its options
        lines = [line for line in lines if not line.startswith("~WriteToMicroBatchDataSource")]
    assert [line[:300] for line in lines if secret in line] == []
    files = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert len(files) > 2
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    copied = klamm.read_table(dev_broker.bootstrap_servers, f"{topic}-copy")
    assert copied.num_rows == 2
