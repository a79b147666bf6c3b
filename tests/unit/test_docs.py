"""The pages that are written from the code are those that the code would write."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_configuration_keys_is_up_to_date():
    spec = importlib.util.spec_from_file_location("write_configuration", ROOT / "scripts" / "write_configuration.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.PAGE.read_text(encoding="utf-8") == writer.page(), "run python scripts/write_configuration.py"
