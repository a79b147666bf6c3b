"""Checks the rules of a registered schema (`ruleSet`), such as ENCRYPT rules and CEL conditions.

klamm cannot carry out rules. It therefore refuses the values of a schema whose rules apply. Without its rule, a field
that should be encrypted would be in clear text. With the key `rules=ignore` of the registry client, klamm ignores rules.
This module does not parse the expressions of rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from typing import TypeAlias

    from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
    from klamm.registry.schema import Schema

Use: TypeAlias = "Literal['write', 'read', 'migrate']"
"""What klamm does with the values of a schema. "migrate" converts values of one version to another version."""

_MODES = {"write": ("WRITE", "WRITEREAD"), "read": ("READ", "WRITEREAD"), "migrate": ("UPGRADE", "DOWNGRADE", "UPDOWN")}
_LISTS = {
    "write": ("domainRules", "encodingRules"),
    "read": ("domainRules", "encodingRules"),
    "migrate": ("migrationRules",),
}


def check_rules(
    registry: SchemaRegistry | AsyncSchemaRegistry, schema: Schema, use: Use, schema_id: int | str | None = None
) -> None:
    """Refuse a use of a schema for which the schema has rules, unless the registry client ignores rules.

    Args:
        registry: The client that looked up the schema.
        schema: The schema.
        use: What klamm does with the values of the schema.
        schema_id: ID or GUID of the schema, for the error.

    Raises:
        SchemaError: The schema has a rule that applies.
    """
    rule = _first(schema, use)
    if rule is None:
        return
    name, kind = rule.get("name"), rule.get("type")
    if registry._settings.ignores_rules:  # noqa: SLF001
        registry._warn_of_rules(f"rule {name!r} of type {kind}", schema_id)  # noqa: SLF001
        return
    verb = {"write": "written", "read": "read", "migrate": "converted to another version of their schema"}[use]
    raise SchemaError(
        f"the schema has the rule {name!r} of type {kind}, which klamm cannot carry out, so its values cannot be {verb}",
        hint="use a client that carries out the rule, or create the registry client with rules='ignore'",
        schema_id=schema_id,
    )


def _first(schema: Schema, use: Use) -> Any:
    """Return the first enabled rule that applies to a use of the schema, or None."""
    found = schema.rule_set or {}
    rules = [rule for name in _LISTS[use] for rule in found.get(name) or ()]
    return next((r for r in rules if not r.get("disabled") and (r.get("mode") or _MODES[use][-1]) in _MODES[use]), None)
