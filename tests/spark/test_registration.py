"""`pyspark_klamm`, through which Spark finds the source: it never stands in the way of the sources of others. No Spark runs here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def imported(*lines):
    """What a new Python says to these lines after the import."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout, done.stderr


def test_it_names_the_source_and_says_nothing():
    # Spark's workers talk over what would be printed.
    out, err = imported("import pyspark_klamm", "assert pyspark_klamm.DefaultSource.name() == 'klamm'")
    assert (out, err) == ("", "")


@pytest.mark.parametrize("missing", ["pyarrow", "pyspark.sql.datasource"])
def test_where_something_is_missing_it_says_so_and_names_no_source(missing):
    out, err = imported(
        f"import sys; sys.modules['{missing}'] = None",
        "import pyspark_klamm",
        "assert not hasattr(pyspark_klamm, 'DefaultSource')",
    )
    assert out == ""
    assert 'format("klamm") is not available' in err
    assert missing in err
