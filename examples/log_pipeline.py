"""Produce log lines, run `klamm.pipeline` over these lines, and write a report as an HTML page.

    python examples/log_pipeline.py localhost:9092                      # 200,000 generated lines
    python examples/log_pipeline.py localhost:9092 --folder loghub      # the lines of *.log in a folder

You can kill this program while the pipeline runs. Then start `python -m klamm.pipeline` with the printed arguments. The counts will be
the same as without the interruption.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from pathlib import Path

import klamm
from klamm.cli import main as klamm_command
from klamm.examples import log_lines


def main() -> int:
    """Produce the lines, run the pipeline, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap_servers")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()

    run = f"logs-{uuid.uuid4().hex[:8]}"
    lines, counts, dead = (f"{run}-{what}" for what in ("lines", "counts", "dead"))
    with klamm.Admin(args.bootstrap_servers) as admin:
        admin.create_topics({topic: klamm.NewTopic(partitions=4) for topic in (lines, counts, dead)})
    made = log_lines.generated(args.lines) if args.folder is None else log_lines.of_folder(args.folder)
    sent = log_lines.send(args.bootstrap_servers, lines, made)
    log_lines.send(args.bootstrap_servers, lines, [log_lines.END])
    print(f"{sent:,} lines in topic {lines}", flush=True)

    options = ["--bootstrap", args.bootstrap_servers, "--source", lines, "--result", counts, "--dead-letters", dead]
    options += ["--checkpoint", f"{run}/checkpoint", "--progress", f"{run}/progress.jsonl", "--rows-per-batch", "20000"]
    if args.folder is not None:  # the logs may be from different years
        options += ["--window", "1 day", "--lateness", "10000 days", "--rows-per-batch", "1000000"]
    Path(run).mkdir()
    print("python -m klamm.pipeline", *options, flush=True)

    from klamm import pipeline

    pipeline.main(options)
    return klamm_command(["report", f"{run}/progress.jsonl", "-o", f"{run}/report.html"])


if __name__ == "__main__":
    sys.exit(main())
