"""Defines the data classes of a registry client: schemas, references, versions and results of compatibility checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from klamm.errors import ArgumentError
from klamm.registry.errors import SchemaRegistryError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

__all__ = ["Compatibility", "CompatibilityLevel", "Mode", "Reference", "RegisteredSchema", "Schema", "SchemaType"]

SchemaType: TypeAlias = "Literal['AVRO', 'JSON', 'PROTOBUF']"
"""The registry's name for the type of a schema."""

CompatibilityLevel: TypeAlias = (
    "Literal['NONE', 'BACKWARD', 'BACKWARD_TRANSITIVE', 'FORWARD', 'FORWARD_TRANSITIVE', 'FULL', 'FULL_TRANSITIVE']"
)
"""A compatibility level says which earlier versions a new version must be compatible with, and in which direction."""

Mode: TypeAlias = "Literal['READWRITE', 'READONLY', 'READONLY_OVERRIDE', 'IMPORT']"
"""A mode says whether a subject, or the whole registry, accepts new schemas."""


@dataclass(frozen=True)
class Reference:
    """A reference from one schema to another schema.

    Attributes:
        name: Name by which the referencing schema refers to the referenced schema. The name is a full name in Avro, a
            URI in JSON Schema, and the name of an imported file in Protobuf.
        subject: Subject of the referenced schema.
        version: Version of the referenced schema.
    """

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Schema:
    """A schema as text.

    Attributes:
        text: The text: JSON for Avro and JSON Schema, the content of a .proto file for Protobuf.
        type: "AVRO", "JSON" or "PROTOBUF".
        references: Other registered schemas that the text uses.
        metadata: Metadata that the registry stores with the schema, such as tags, or None.
        rule_set: Rules that the registry stores with the schema, such as ENCRYPT rules, or None. klamm does not carry
            out rules; see docs/registry.md.
    """

    text: str
    type: SchemaType = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = field(default=None, hash=False)
    rule_set: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise ArgumentError(f"the text of a schema has to be a str, not {type(self.text).__name__}")
        object.__setattr__(self, "references", tuple(self.references))

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Schema:
        """Parse the schema in a response of the registry."""
        references = fields.get("references") or ()
        rule_set = _rule_set(fields.get("ruleSet"))
        metadata = fields.get("metadata")
        if not isinstance(metadata, (dict, type(None))):
            raise unexpected("with metadata that is not a JSON object")
        try:
            return cls(
                text=fields["schema"],
                type=fields.get("schemaType") or "AVRO",
                references=tuple(Reference(r["name"], r["subject"], int(r["version"])) for r in references),
                metadata=metadata,
                rule_set=rule_set,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise unexpected(f"without a valid schema: {type(error).__name__}: {error}") from None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that represents the schema in a request to the registry."""
        fields: dict[str, Any] = {"schema": self.text}
        if self.type != "AVRO":
            fields["schemaType"] = self.type
        if self.references:
            fields["references"] = [vars(reference) for reference in self.references]
        if self.metadata is not None:
            fields["metadata"] = dict(self.metadata)
        if self.rule_set is not None:
            fields["ruleSet"] = dict(self.rule_set)
        return fields


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema with its ID, subject and version in the registry.

    Attributes:
        schema: The schema.
        id: ID of the schema. All versions with the same text and references share the ID.
        subject: Subject, or None if the schema was read by its ID.
        version: Version within the subject, or None if the registry did not return the version.
        guid: GUID of the schema, or None if the registry has no GUIDs.
        context: Prefix that names the context of the schema, such as ":.staging:", or "" for the default context.
    """

    schema: Schema
    id: int
    subject: str | None = None
    version: int | None = None
    guid: str | None = None
    context: str = field(default="", repr=False, compare=False)


@dataclass(frozen=True)
class Compatibility:
    """The result of a compatibility check. The result is true if the schema is compatible.

    Attributes:
        is_compatible: Whether the registry would accept the schema.
        messages: The reasons why the registry would reject the schema. Empty if the schema is compatible.
    """

    is_compatible: bool
    messages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_compatible


def _rule_set(given: Any) -> Mapping[str, Any] | None:
    """Check the rule set in a response. An unknown form is an error, because klamm could overlook a rule in it."""
    if given is None:
        return None
    if not isinstance(given, dict) or not all(rules is None or _are_objects(rules) for rules in given.values()):
        raise unexpected("with a rule set that is not an object of lists")
    return given


def _are_objects(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(each, dict) for each in given)


def unexpected(how: str) -> SchemaRegistryError:
    """Return the error for an unexpected response. `how` completes the sentence "… sent a response"."""
    return SchemaRegistryError(
        f"the schema registry sent a response {how}", hint="check that `url` is the address of a schema registry"
    )
