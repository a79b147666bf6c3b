"""Write docs/reference/errors.md from the error codes of the extension and `error_texts.txt`: `python scripts/write_errors.py`."""

from __future__ import annotations

from pathlib import Path

from klamm._klamm import error_codes
from klamm.errors import by_code

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "errors.md"
TEXTS = ROOT / "scripts" / "error_texts.txt"
HEAD = """# Errors

klamm has an exception class for each error code of Kafka. Catch the class, and read the attributes of the error:

```python
import klamm
from klamm.errors import MessageTooLargeError

with klamm.Producer("localhost:9092") as producer:
    try:
        producer.send("greetings", b"x" * 2_000_000).result(timeout=30)
    except MessageTooLargeError as error:
        print(error.name, error.code, error.topic, error.broker)
        print(error.hint)
```

All classes on this page are subclasses of `BrokerError`, which is a subclass of `KafkaError`. The page
[Exceptions](exceptions.md) describes the other exception classes. If a fix says that the client retries, the program
sees the error only after the client's timeout. `python scripts/write_errors.py` writes this page.
"""


def texts() -> dict[int, tuple[str, str, str]]:
    """Return the meaning, the cause and the fix for each error code."""
    found = {}
    for line in TEXTS.read_text(encoding="utf-8").splitlines():
        code, meaning, cause, fix = (part.strip() for part in line.split(" | "))
        found[int(code)] = meaning, cause, fix
    return found


def page() -> str:
    """Return the text of the page."""
    known = texts()
    parts = [HEAD]
    for code, name, retriable, _ in sorted(error_codes()):
        if code:
            meaning, cause, fix = known[code]
            also = [kind.__name__ for kind in by_code(code).__bases__[1:]]
            facts = [f"code {code}", *(["retriable"] if retriable else []), *(f"also `{kind}`" for kind in also)]
            parts.append(
                f"\n## {name}\n\n`{by_code(code).__name__}` ({', '.join(facts)})\n\n"
                f"* **Meaning:** {meaning}.\n* **Cause:** {cause}.\n* **Fix:** {fix}.\n"
            )
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
