"""Runs one measurement in a separate process, which `run.py` starts.

    worker.py describe CLIENT     print the client's name, versions and cases
    worker.py measure JOB         run the job, a `workload.Job` as a JSON object

The result is JSON on standard output. The output of libraries goes to standard error.
"""

import importlib
import json
import os
import sys

from meter import Meter, Turns
from workload import TURNS, Job, Load


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    action, word = sys.argv[1:]
    if action == "describe":
        print(json.dumps(describe(word)), file=answers)
        return
    job = Job(**json.loads(word))
    run = importlib.import_module(f"clients.{job.client}").CASES[job.case][job.variant]
    if job.case in TURNS:
        run(job, Load(), Turns(sys.stdin, answers))
        return
    meter = Meter()
    moved = run(job, Load(), meter)
    print(json.dumps(meter.result | {"records": moved}), file=answers)


def describe(client: str) -> dict[str, object]:
    try:
        module = importlib.import_module(f"clients.{client}")
    except ImportError as problem:
        return {"missing": str(problem)}
    return {
        "name": module.NAME,
        "versions": module.versions(),
        "import": module.IMPORT,
        "share": module.SHARE,
        "cases": {case: list(variants) for case, variants in module.CASES.items()},
    }


if __name__ == "__main__":
    main()
