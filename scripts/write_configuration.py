"""Write docs/configuration.md from the extension's table of keys: `python scripts/write_configuration.py`."""

from pathlib import Path

from klamm.config import ForeignOption, Option, foreign_options, options

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
CLIENTS = {"producer": "Producer", "consumer": "Consumer", "share consumer": "Share consumer", "admin": "Admin"}
HEAD = """# Configuration

Pass keys as a dict, which is the first argument of a client, or as keywords with underscores:

```python
import klamm

klamm.Producer({"bootstrap.servers": "localhost:9092", "linger.ms": 5})
klamm.Producer("localhost:9092", linger_ms=5)
```

The keys have the names that the Java client uses, and librdkafka's names as aliases. An unknown key or a bad value
raises `ConfigError`, which names the nearest valid key or the allowed values. Clients of one program can share one dict. A
client ignores the keys of the other types of clients, and the [options of other clients](#options-of-other-clients) that
klamm does not need. It logs one line of level INFO with their names. Keywords must be keys of the client itself.
`python scripts/write_configuration.py` writes this page.
"""

IGNORED_HEAD = """
## Options of other clients

klamm has a verdict for every option of librdkafka and of the Java client: it is a key or an alias above, or it is in one
of these two tables. klamm ignores the options in this table:

| option | clients | why |
| --- | --- | --- |
"""

REJECTED_HEAD = """
klamm rejects the options in this table with an error that says what to use instead:

| option | clients | instead |
| --- | --- | --- |
"""


def section(option: Option) -> str:
    """Return the section for one configuration key: description, default, allowed values and aliases."""
    facts = [f"default `{option.default}`" if option.default else "no default", f"allowed: {option.allowed}"]
    if option.aliases:
        facts.append("aliases: " + ", ".join(f"`{alias}`" for alias in option.aliases))
    return f"\n### `{option.name}`\n\n{option.doc}\n\n" + "".join(f"* {fact}\n" for fact in facts)


def row(option: ForeignOption) -> str:
    """Return the row for options of other clients."""
    clients = "all" if len(option.clients) == len(CLIENTS) else ", ".join(CLIENTS[client] for client in option.clients)
    names = "<br>".join(f"`{name}`" for name in option.names)
    values = ", ".join(f"`{value}`" for value in option.ignored_values)
    hint = f"{option.hint} (klamm ignores the value {values})" if values else option.hint
    return f"| {names} | {clients} | {hint} |\n"


def page() -> str:
    """Return the page. The keys of all clients come first, then the keys of each client."""
    sections = [("All clients", [o for o in options() if len(o.clients) == len(CLIENTS)])]
    for client, title in CLIENTS.items():
        own = [o for o in options() if client in o.clients and len(o.clients) < len(CLIENTS)]
        if own:
            sections.append((title, own))
    text = HEAD
    for title, of_section in sections:
        text += f"\n## {title}\n" + "".join(map(section, of_section))
    text += IGNORED_HEAD + "".join(row(option) for option in foreign_options() if option.is_ignored)
    text += REJECTED_HEAD + "".join(row(option) for option in foreign_options() if not option.is_ignored)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
