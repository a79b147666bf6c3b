"""Stores the contents of the dev registry: subjects, versions, compatibility levels and modes, as in Confluent's registry.

`Store` has one method for each operation of the REST API, and raises `Rejected` with the registry's error code. A
`Store` can write its contents to a file. `klamm.registry.dev.server` has the HTTP server.
"""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from klamm.registry.dev import avro, json_schema, protobuf

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
TYPES: dict[str, tuple[Any, Any]] = {
    "AVRO": (avro.Avro, avro.incompatibilities),
    "JSON": (json_schema.Json, json_schema.incompatibilities),
    "PROTOBUF": (protobuf.Protobuf, protobuf.incompatibilities),
}
_MAX_REFERENCES = 100
_ATTACHED = ("metadata", "ruleSet")


class Rejected(Exception):  # noqa: N818 - the exception becomes the registry's response
    """An error with which the registry responds to a request.

    Args:
        code: The registry's error code. The first three digits of the code are the HTTP status.
        message: The text of the response.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = int(str(code)[:3])


@dataclass
class Version:
    """A version of a subject."""

    version: int
    id: int
    deleted: bool = False


@dataclass
class Subject:
    """A subject with its versions. The registry does not use the number of a deleted version again."""

    versions: list[Version] = field(default_factory=list)
    last: int = 0


@dataclass
class Stored:
    """A schema. Any number of versions, also of different subjects, can share a schema."""

    type: str
    text: str
    references: list[dict[str, Any]]
    attached: dict[str, Any] = field(default_factory=dict)
    """The fields `metadata` and `ruleSet`, if the schema has them."""

    def key(self) -> str:
        """Return a text by which to compare schemas: equal schemas have equal texts."""
        attached = [self.attached] if self.attached else []
        return json.dumps([self.type, self.text, self.references, *attached], sort_keys=True)

    def guid(self) -> str:
        """Return the GUID, which is a hash of the schema."""
        return str(uuid.UUID(hashlib.md5(self.key().encode(), usedforsecurity=False).hexdigest()))


class Store:
    """The contents of a registry.

    Args:
        path: File that stores the contents, or None for memory only. Each change replaces the file atomically.
    """

    def __init__(self, path: Path | None) -> None:
        self.lock = threading.RLock()
        self._path = path
        self._subjects: dict[str, Subject] = {}
        self._schemas: dict[int, Stored] = {}
        self._config: dict[str, dict[str, Any]] = {"": {"compatibilityLevel": "BACKWARD"}}
        self._modes: dict[str, str] = {"": "READWRITE"}
        self._parsed: dict[tuple[str, bool], Any] = {}
        if path is not None and path.exists():
            self._load(json.loads(path.read_text(encoding="utf-8")))

    def _load(self, kept: Mapping[str, Any]) -> None:
        for name, subject in kept["subjects"].items():
            self._subjects[name] = Subject([Version(**each) for each in subject["versions"]], subject["last"])
        self._schemas = {int(number): Stored(**schema) for number, schema in kept["schemas"].items()}
        self._config, self._modes = kept["config"], kept["modes"]

    def _keep(self) -> None:
        if self._path is None:
            return
        contents = {
            "subjects": {name: asdict(subject) for name, subject in self._subjects.items()},
            "schemas": {number: asdict(schema) for number, schema in self._schemas.items()},
            "config": self._config,
            "modes": self._modes,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(contents), encoding="utf-8")
        new.replace(self._path)  # atomic: after a crash, the file has the old or the new contents

    # Schemas

    def parse(self, body: Mapping[str, Any], normalize: bool = False) -> tuple[Stored, Any]:
        """Parse the schema of a request. Return the schema as the registry stores it, and the parsed schema."""
        kind = body.get("schemaType") or "AVRO"
        text, references = body.get("schema"), body.get("references") or []
        if kind not in TYPES or not isinstance(text, str) or not text.strip():
            raise Rejected(42201, f"Invalid schema: schemaType {kind!r} with an empty or unknown schema")
        try:
            references = [
                {"name": r["name"], "subject": r["subject"], "version": int(r["version"])} for r in references
            ]
        except (KeyError, TypeError, ValueError):
            raise Rejected(42201, "Invalid schema: a reference needs name, subject and version") from None
        key = json.dumps([kind, text, references]), normalize
        known = self._parsed.get(key)
        if known is None:
            try:
                parsed = TYPES[kind][0](text, self._texts(references, kind))
            except ValueError as error:
                raise Rejected(
                    42201, f"Invalid schema {text[:200]} with refs {references} of type {kind}, details: {error}"
                ) from None
            known = Stored(kind, parsed.normalized() if normalize else parsed.canonical(), references), parsed
            if len(self._parsed) > 1000:  # noqa: PLR2004 - the limit of the cache
                self._parsed.clear()
            self._parsed[key] = known
        schema, parsed = known
        return replace(schema, attached={name: body[name] for name in _ATTACHED if body.get(name)}), parsed

    def _texts(self, references: list[dict[str, Any]], kind: str) -> dict[str, str]:
        """Return the texts of all referenced schemas by name.

        Each schema comes after the schemas that it references.
        """
        found: dict[str, str] = {}

        def add(items: list[dict[str, Any]], depth: int) -> None:
            for reference in items:
                if reference["name"] in found:
                    continue
                if depth > _MAX_REFERENCES:
                    raise Rejected(42201, "Invalid schema: references are nested too deep")
                try:
                    version = self._version(reference["subject"], reference["version"], deleted=True)
                except Rejected as error:
                    raise Rejected(
                        42201, f"Invalid schema: no schema reference found for {reference}: {error}"
                    ) from None
                schema = self._schemas[version.id]
                if schema.type != kind:
                    raise Rejected(42201, f"Invalid schema: reference {reference['name']} is of type {schema.type}")
                add(schema.references, depth + 1)
                found[reference["name"]] = schema.text

        add(references, 0)
        return found

    def _as_parsed(self, schema: Stored) -> Any:
        return self.parse({"schemaType": schema.type, "schema": schema.text, "references": schema.references})[1]

    def describe(self, schema_id: int, how: str | None = None) -> dict[str, Any]:
        """Return a schema as the JSON object for a response."""
        schema = self._schemas.get(schema_id)
        if schema is None:
            raise Rejected(40403, f"Schema {schema_id} not found")
        is_serialized = schema.type == "PROTOBUF" and how == "serialized"
        text = self._as_parsed(schema).serialized() if is_serialized else schema.text
        fields: dict[str, Any] = {"id": schema_id, "guid": schema.guid(), "schema": text}
        if schema.type != "AVRO":
            fields["schemaType"] = schema.type
        if schema.references:
            fields["references"] = schema.references
        return {**fields, **schema.attached}

    def by_guid(self, guid: str) -> int:
        """Return the ID of the schema with a GUID."""
        for schema_id, schema in self._schemas.items():
            if schema.guid() == guid:
                return schema_id
        raise Rejected(40403, f"Schema {guid} not found")

    def versions_of(self, schema_id: int, deleted: bool) -> list[dict[str, Any]]:
        """Return where a schema is registered: a list of subjects and versions."""
        self.describe(schema_id)
        return [
            {"subject": name, "version": version.version}
            for name, subject in sorted(self._subjects.items())
            for version in subject.versions
            if version.id == schema_id and (deleted or not version.deleted)
        ]

    # Subjects

    def subjects(self, prefix: str, deleted: bool, only_deleted: bool) -> list[str]:
        """Return the names of the subjects with a prefix."""

        def is_shown(subject: Subject) -> bool:
            is_live = any(not version.deleted for version in subject.versions)
            return not is_live if only_deleted else deleted or is_live

        return sorted(n for n, subject in self._subjects.items() if n.startswith(prefix) and is_shown(subject))

    def versions(self, subject: str, deleted: bool = False) -> list[Version]:
        """Return the versions of a subject, by default without deleted versions."""
        versions = [v for v in self._subject(subject).versions if deleted or not v.deleted]
        if not versions:
            raise Rejected(40401, f"Subject '{subject}' not found.")
        return versions

    def _subject(self, name: str) -> Subject:
        if name not in self._subjects:
            raise Rejected(40401, f"Subject '{name}' not found.")
        return self._subjects[name]

    def _version(self, subject: str, number: int | str, deleted: bool = False) -> Version:
        if number in ("latest", -1, "-1"):
            return self.versions(subject, deleted)[-1]
        try:
            requested_version = int(number)
        except ValueError:
            requested_version = 0
        if not 1 <= requested_version < 1 << 31:
            raise Rejected(
                42202,
                f"The specified version '{number}' is not a valid version id. Allowed values are between"
                ' [1, 2^31-1] and the string "latest"',
            )
        for version in self.versions(subject, deleted):
            if version.version == requested_version:
                return version
        raise Rejected(40402, f"Version {requested_version} not found.")

    def version(self, subject: str, number: int | str, how: str | None, deleted: bool) -> dict[str, Any]:
        """Return a version of a subject as the JSON object for a response."""
        version = self._version(subject, number, deleted)
        return {"subject": subject, "version": version.version, **self.describe(version.id, how)}

    def register(self, subject: str, body: Mapping[str, Any], normalize: bool) -> dict[str, Any]:
        """Add a schema to a subject as a new version. If the subject already has the schema, change nothing.

        A schema without metadata or rules takes those of the latest version, as in Confluent's registry.
        """
        schema, parsed = self.parse(body, normalize or bool(self.config(subject).get("normalize")))
        schema = self._with_attached(subject, schema)
        existing = self._find(subject, schema)
        if existing is not None and not existing.deleted:
            return self._as_registered(existing)
        mode = self.mode(subject)
        if mode in ("READONLY", "READONLY_OVERRIDE"):
            raise Rejected(42205, f"Subject '{subject}' is not in read-write mode")
        wanted, number = body.get("id"), body.get("version")
        if mode == "IMPORT" and not isinstance(wanted, int):
            raise Rejected(42205, f"Subject '{subject}' is in import mode, which needs an id")
        if mode != "IMPORT":
            if wanted is not None and wanted != -1:
                raise Rejected(42205, f"Subject '{subject}' is not in import mode")
            why = self._incompatibilities(subject, schema, parsed, None)
            if why:
                raise Rejected(
                    409,
                    f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: {why}',
                )
            wanted, number = None, None
        schema_id = self._id_of(schema, wanted)
        entry = self._subjects.setdefault(subject, Subject())
        if not isinstance(number, int) or number <= 0:
            number = entry.last + 1
        if any(version.version == number for version in entry.versions):
            raise Rejected(42205, f"Subject '{subject}' already has version {number}")
        version = Version(number, schema_id)
        entry.versions.append(version)
        entry.versions.sort(key=lambda version: version.version)
        entry.last = max(entry.last, number)
        self._keep()
        return self._as_registered(version)

    def _with_attached(self, subject: str, schema: Stored) -> Stored:
        entry = self._subjects.get(subject)
        versions = [version for version in entry.versions if not version.deleted] if entry else []
        latest = self._schemas[versions[-1].id].attached if versions else {}
        return replace(schema, attached={**latest, **schema.attached})

    def _as_registered(self, version: Version) -> dict[str, Any]:
        """Return the response to a registration.

        Like the response of Confluent's registry, the response only contains a schema that has metadata or rules. If
        the response contained each schema, a client that registered a Protobuf file as a descriptor would cache the
        text of the file.
        """
        schema = self._schemas[version.id]
        short = {"id": version.id, "version": version.version, "guid": schema.guid()}
        return {**short, **self.describe(version.id)} if schema.attached else short

    def _id_of(self, schema: Stored, wanted: int | None) -> int:
        for schema_id, known in self._schemas.items():
            if known.key() == schema.key() and wanted in (None, schema_id):
                return schema_id
        if wanted is not None and wanted in self._schemas:
            raise Rejected(42205, f"Overwrite new schema with id {wanted} is not permitted.")
        schema_id = wanted if wanted is not None else max(self._schemas, default=0) + 1
        self._schemas[schema_id] = schema
        return schema_id

    def _find(self, subject: str, schema: Stored) -> Version | None:
        """Return the newest version of a subject with this schema, or None. Prefer versions that are not deleted."""
        entry = self._subjects.get(subject)
        matching_versions = [v for v in entry.versions if self._schemas[v.id].key() == schema.key()] if entry else []
        return max(matching_versions, key=lambda version: (not version.deleted, version.version), default=None)

    def lookup(self, subject: str, body: Mapping[str, Any], normalize: bool, deleted: bool) -> dict[str, Any]:
        """Return the version that a schema has in a subject, as the JSON object for a response."""
        self.versions(subject, deleted)
        schema, _ = self.parse(body, normalize or bool(self.config(subject).get("normalize")))
        existing = self._find(subject, self._with_attached(subject, schema)) or self._find(subject, schema)
        if existing is None or (existing.deleted and not deleted):
            raise Rejected(40403, "Schema not found")
        return {"subject": subject, "version": existing.version, **self.describe(existing.id)}

    def referenced_by(self, subject: str, number: int | str) -> list[int]:
        """Return the IDs of the schemas that reference a version."""
        version = self._version(subject, number, deleted=True).version
        used = {v.id for entry in self._subjects.values() for v in entry.versions if not v.deleted}
        return sorted(
            schema_id
            for schema_id in used
            for reference in self._schemas[schema_id].references
            if (reference["subject"], reference["version"]) == (subject, version)
        )

    def delete_version(self, subject: str, number: int | str, permanent: bool) -> int:
        """Delete a version. A permanent delete is only possible after a soft delete."""
        self._check_writable(subject)
        version = self._version(subject, number, deleted=True) if number != "latest" else self._version(subject, number)
        if permanent and not version.deleted:
            raise Rejected(
                40407,
                f"Subject '{subject}' Version {version.version} was not deleted first before being permanently deleted",
            )
        if version.deleted and not permanent:
            raise Rejected(
                40406,
                f"Subject '{subject}' Version {version.version} was soft deleted.Set permanent=true to delete permanently",
            )
        self._delete(subject, [version], permanent)
        return version.version

    def delete_subject(self, subject: str, permanent: bool) -> list[int]:
        """Delete all versions of a subject. A permanent delete is only possible after a soft delete."""
        self._check_writable(subject)
        versions = list(self._subject(subject).versions)
        live = [version for version in versions if not version.deleted]
        if permanent and live:
            raise Rejected(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")
        if not permanent and not live:
            raise Rejected(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")
        self._delete(subject, versions if permanent else live, permanent)
        return [version.version for version in (versions if permanent else live)]

    def _check_writable(self, subject: str) -> None:
        if self.mode(subject) in ("READONLY", "READONLY_OVERRIDE"):
            raise Rejected(42205, f"Subject '{subject}' is not in read-write mode")

    def _delete(self, subject: str, versions: list[Version], permanent: bool) -> None:
        for version in versions:
            if self.referenced_by(subject, version.version):
                raise Rejected(
                    42206,
                    f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},version={version.version}}}.",
                )
        if not permanent:
            for version in versions:
                version.deleted = True
        else:
            entry = self._subjects[subject]
            entry.versions = [version for version in entry.versions if version not in versions]
            if not entry.versions:
                del self._subjects[subject]
                self._config.pop(subject, None)
            used = {version.id for each in self._subjects.values() for version in each.versions}
            self._schemas = {number: schema for number, schema in self._schemas.items() if number in used}
        self._keep()

    # Compatibility

    def check(self, subject: str, number: str | None, body: Mapping[str, Any], normalize: bool) -> list[str]:
        """Return the reasons why a schema is incompatible with a version.

        Without a version number, compare with the versions that the compatibility level requires.
        """
        schema, parsed = self.parse(body, normalize)
        against = None if number is None else [self._version(subject, number)]
        return self._incompatibilities(subject, schema, parsed, against)

    def _incompatibilities(self, subject: str, schema: Stored, parsed: Any, against: list[Version] | None) -> list[str]:
        level = self.config(subject)["compatibilityLevel"]
        if level == "NONE":
            return []
        if against is None:
            entry = self._subjects.get(subject, Subject())
            against = [version for version in entry.versions if not version.deleted]
            if not level.endswith("_TRANSITIVE"):
                against = against[-1:]
        found = []
        for version in reversed(against):
            old = self._schemas[version.id]
            if old.type != schema.type:
                return [f"TYPE_CHANGED: {old.type} became {schema.type} (version {version.version})"]
            other, compare = self._as_parsed(old), TYPES[schema.type][1]
            if level.startswith(("BACKWARD", "FULL")):
                found += [f"{why} (version {version.version})" for why in compare(parsed, other)]
            if level.startswith(("FORWARD", "FULL")):
                found += [f"{why} (version {version.version}, old schema as reader)" for why in compare(other, parsed)]
        return found

    # Configuration and mode

    def config(self, subject: str) -> dict[str, Any]:
        """Return the configuration that applies to a subject. An empty subject name means the whole registry."""
        return {**self._config[""], **self._config.get(subject, {})}

    def own_config(self, subject: str) -> dict[str, Any]:
        """Return the subject's own configuration."""
        if subject not in self._config:
            raise Rejected(40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        return self._config[subject]

    def set_config(self, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change the configuration of a subject. An empty subject name means the whole registry."""
        changes = {name: value for name, value in body.items() if name != "compatibility" and value is not None}
        if body.get("compatibility") is not None:
            level = str(body["compatibility"]).upper()
            if level not in LEVELS:
                raise Rejected(42203, f"Invalid compatibility level. Valid values are {', '.join(LEVELS)}")
            changes["compatibilityLevel"] = level
        self._config[subject] = {**self._config.get(subject, {}), **changes}
        self._keep()
        return dict(body)

    def delete_config(self, subject: str) -> dict[str, Any]:
        """Delete the configuration of a subject, or reset the registry's configuration."""
        if subject:
            old = self.own_config(subject)
            del self._config[subject]
        else:
            old, self._config[""] = self._config[""], {"compatibilityLevel": "BACKWARD"}
        self._keep()
        return old

    def mode(self, subject: str) -> str:
        """Return the mode that applies to a subject. An empty subject name means the whole registry."""
        if self._modes[""] == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return self._modes.get(subject, self._modes[""])

    def own_mode(self, subject: str) -> str:
        """Return the subject's own mode."""
        if subject not in self._modes:
            raise Rejected(40409, f"Subject '{subject}' does not have subject-level mode configured")
        return self._modes[subject]

    def set_mode(self, subject: str, body: Mapping[str, Any], force: bool) -> dict[str, Any]:
        """Change the mode of a subject. An empty subject name means the whole registry."""
        mode = str(body.get("mode")).upper()
        if mode not in MODES:
            raise Rejected(42204, f"Invalid mode. Valid values are {', '.join(MODES)}")
        has_schemas = bool(self._subjects) if not subject else subject in self._subjects
        if mode == "IMPORT" and has_schemas and not force:
            raise Rejected(42205, "Cannot import since found existing subjects")
        self._modes[subject] = mode
        self._keep()
        return {"mode": mode}

    def delete_mode(self, subject: str) -> dict[str, Any]:
        """Delete the mode of a subject."""
        mode = self.own_mode(subject)
        if subject:
            del self._modes[subject]
        else:
            self._modes[""] = "READWRITE"
        self._keep()
        return {"mode": mode}
