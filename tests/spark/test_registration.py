"""`pyspark_klamm`, through which Spark finds the source. It must never break the sources of other packages. No Spark runs here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def imported(*lines):
    """Import the package in a new Python process, run these lines, and return the output."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout, done.stderr


def test_the_package_registers_the_source_silently():
    # Spark's workers talk over what would be printed.
    out, err = imported("import pyspark_klamm", "assert pyspark_klamm.DefaultSource.name() == 'klamm'")
    assert (out, err) == ("", "")


@pytest.mark.parametrize("missing", ["pyarrow", "pyspark.sql.datasource"])
def test_a_missing_dependency_is_logged_and_registers_nothing(missing):
    out, err = imported(
        f"import sys; sys.modules['{missing}'] = None",
        "import pyspark_klamm",
        "assert not hasattr(pyspark_klamm, 'DefaultSource')",
    )
    assert out == ""
    assert 'format("klamm") is not available' in err
    assert missing in err
