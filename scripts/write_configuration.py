"""Write docs/configuration.md from the table of keys in the extension: `python scripts/write_configuration.py`."""

from pathlib import Path

from klamm.config import Option, foreign, options

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
CLIENTS = {"producer": "Producer", "consumer": "Consumer", "share consumer": "Share consumer", "admin": "Admin"}
HEAD = """# Configuration

Names are the Java client's. They are keys of the dict that is a client's first argument (`{"linger.ms": 5}`), or keywords with
underscores (`linger_ms=5`). Unknown keys and bad values are refused with what is allowed. This page is written by
`python scripts/write_configuration.py`.
"""

FOREIGN_HEAD = """
## Options of other clients

Names of librdkafka that mean the same are taken, and stand under klamm's above. These are refused, with what is said here:

| option | clients | instead |
| --- | --- | --- |
"""


def row(option: Option) -> str:
    """Return one line of the table."""
    aliases = "".join(f"<br>`{alias}`" for alias in option.aliases)
    default = f"`{option.default}`" if option.default else ""
    allowed = option.allowed.replace("|", "\\|")
    return f"| `{option.name}`{aliases} | {default} | {allowed} | {option.doc} |"


def page() -> str:
    """Return the page: keys that all clients have, then each client's own."""
    sections = [("All clients", [o for o in options() if len(o.clients) == len(CLIENTS)])]
    for client, title in CLIENTS.items():
        own = [o for o in options() if client in o.clients and len(o.clients) < len(CLIENTS)]
        if own:
            sections.append((title, own))
    text = HEAD
    for title, of_section in sections:
        text += f"\n## {title}\n\n| key | default | allowed | what it does |\n| --- | --- | --- | --- |\n"
        text += "".join(row(option) + "\n" for option in of_section)
    text += FOREIGN_HEAD
    for names, clients, hint in foreign():
        who = "all" if len(clients) == len(CLIENTS) else ", ".join(CLIENTS[client] for client in clients)
        text += f"| {'<br>'.join(f'`{name}`' for name in names)} | {who} | {hint} |\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
