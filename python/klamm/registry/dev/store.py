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
    """A subject with its versions, in order."""

    versions: list[Version] = field(default_factory=list)

    def next(self) -> int:
        """Return the number of the next version. It follows the last version, also if that version is soft-deleted."""
        return max((version.version for version in self.versions), default=0) + 1

    def live(self) -> list[Version]:
        """Return the versions that are not deleted."""
        return [version for version in self.versions if not version.deleted]


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


def context_of(subject: str) -> str:
    """Return the context of a subject: ".shop" for ":.shop:orders", and "." for "orders"."""
    return subject[1:].partition(":")[0] if subject.startswith(":.") else "."


def canonical(subject: str) -> str:
    """Return the only name that the registry uses for a subject: ":.:orders" is "orders", and ":.shop" is ":.shop:"."""
    context, name = context_of(subject), subject
    if subject.startswith(":."):
        name = subject[1:].partition(":")[2]
    return qualified(context, name)


def qualified(context: str, subject: str) -> str:
    """Return a subject in a context. A subject that names its own context does not change."""
    return subject if context == "." or subject.startswith(":.") else f":{context}:{subject}"


def merged(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the metadata or rule set `old` with the changes of `new`. A new rule replaces the rule of the same name."""
    if not old or not new:
        found = new or old
        return None if found is None else dict(found)
    result = dict(old)
    for name, value in new.items():
        before = old.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            result[name] = {**before, **value}
        elif isinstance(value, list) and isinstance(before, list):
            names = [each.get("name") if isinstance(each, dict) else each for each in value]
            kept = [each for each in before if (each.get("name") if isinstance(each, dict) else each) not in names]
            result[name] = kept + value
        elif value is not None:
            result[name] = value
    return result


def _parent(subject: str) -> str:
    """Return the name under which the registry stores the settings of a subject's context."""
    context = context_of(subject)
    return "" if context == "." else f":{context}:"


def _property(schema: Stored, name: str) -> Any:
    return ((schema.attached.get("metadata") or {}).get("properties") or {}).get(name)


def _with_attached(config: Mapping[str, Any], latest: Stored | None, schema: Stored) -> Stored:
    """Return a schema with the metadata and rules that the configuration and the latest version add."""
    attached = {}
    for name in _ATTACHED:
        own = schema.attached.get(name) or (latest.attached.get(name) if latest else None)
        kind = name[0].upper() + name[1:]
        found = merged(merged(config.get(f"default{kind}"), own), config.get(f"override{kind}"))
        if found:
            attached[name] = found
    return replace(schema, attached=attached)


def _check_name(subject: str) -> None:
    name = subject.rpartition(":")[2] if subject.startswith(":.") else subject
    if not name.strip() or name in ("__GLOBAL", "__EMPTY") or any(ord(letter) < ord(" ") for letter in name):
        raise Rejected(42208, f"The specified subject '{subject}' is not a valid.")


class Store:
    """The contents of a registry. Each context has schema IDs of its own.

    Args:
        path: File that stores the contents, or None for memory only. Each change replaces the file atomically.
    """

    def __init__(self, path: Path | None) -> None:
        self.lock = threading.RLock()
        self._path = path
        self._subjects: dict[str, Subject] = {}
        self._schemas: dict[tuple[str, int], Stored] = {}
        """The schemas by context and ID."""
        self._config: dict[str, dict[str, Any]] = {"": {"compatibilityLevel": "BACKWARD"}}
        self._modes: dict[str, str] = {"": "READWRITE"}
        self._parsed: dict[tuple[str, bool], Any] = {}
        if path is not None and path.exists():
            self._load(json.loads(path.read_text(encoding="utf-8")))

    def _load(self, kept: Mapping[str, Any]) -> None:
        for name, subject in kept["subjects"].items():
            self._subjects[name] = Subject([Version(**each) for each in subject["versions"]])
        for key, schema in kept["schemas"].items():
            self._schemas[context_of(key), int(key.rpartition(":")[2])] = Stored(**schema)
        self._config, self._modes = kept["config"], kept["modes"]

    def _keep(self) -> None:
        if self._path is None:
            return
        contents = {
            "subjects": {name: asdict(subject) for name, subject in self._subjects.items()},
            "schemas": {qualified(*map(str, key)): asdict(schema) for key, schema in self._schemas.items()},
            "config": self._config,
            "modes": self._modes,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(contents), encoding="utf-8")
        new.replace(self._path)  # atomic: after a crash, the file has the old or the new contents

    # Schemas

    def parse(self, body: Mapping[str, Any], normalize: bool = False, context: str = ".") -> tuple[Stored, Any]:
        """Parse the schema of a request. Return the schema as the registry stores it, and the parsed schema.

        References without a context belong to the context of the schema.
        """
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
        key = json.dumps([kind, text, references, context]), normalize
        known = self._parsed.get(key)
        if known is None:
            try:
                parsed = TYPES[kind][0](text, self._texts(references, kind, context))
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

    def _texts(self, references: list[dict[str, Any]], kind: str, context: str) -> dict[str, str]:
        """Return the texts of all referenced schemas by name.

        Each schema comes after the schemas that it references.
        """
        found: dict[str, str] = {}

        def add(items: list[dict[str, Any]], context: str, depth: int) -> None:
            for reference in items:
                if reference["name"] in found:
                    continue
                if depth > _MAX_REFERENCES:
                    raise Rejected(42201, "Invalid schema: references are nested too deep")
                subject = qualified(context, canonical(reference["subject"]))
                try:
                    version = self._version(subject, reference["version"], deleted=True)
                except Rejected as error:
                    raise Rejected(
                        42201, f"Invalid schema: no schema reference found for {reference}: {error}"
                    ) from None
                schema = self._stored(subject, version)
                if schema.type != kind:
                    raise Rejected(42201, f"Invalid schema: reference {reference['name']} is of type {schema.type}")
                add(schema.references, context_of(subject), depth + 1)
                found[reference["name"]] = schema.text

        add(references, context, 0)
        return found

    def _stored(self, subject: str, version: Version) -> Stored:
        return self._schemas[context_of(subject), version.id]

    def _as_parsed(self, schema: Stored, context: str) -> Any:
        body = {"schemaType": schema.type, "schema": schema.text, "references": schema.references}
        return self.parse(body, context=context)[1]

    def locate(self, schema_id: int, subject: str | None) -> str:
        """Return the context in which a client means an ID. The subject can name a context, or be in any context."""
        name = canonical(subject or "")
        context = context_of(name)
        at = [found for found, version in self._all_versions() if version.id == schema_id]
        if name.endswith(":") or not name:  # a context without a subject
            found = [each for each in at if context_of(each) == context]
        elif context != ".":
            found = [each for each in at if each == name]
        else:
            found = [each for each in at if each == name or each.partition(":.")[2].partition(":")[2] == name]
            found = sorted(found, key=context_of) or [each for each in at if context_of(each) == "."]
        if not found:
            raise Rejected(40403, f"Schema {schema_id} not found")
        return context_of(found[0])

    def _all_versions(self) -> list[tuple[str, Version]]:
        return [(name, version) for name, subject in sorted(self._subjects.items()) for version in subject.versions]

    def contexts(self) -> list[str]:
        """Return the names of all contexts. The default context is "."."""
        return sorted({".", *map(context_of, self._subjects)})

    def describe(self, context: str, schema_id: int, how: str | None = None) -> dict[str, Any]:
        """Return a schema as the JSON object for a response."""
        schema = self._schemas[context, schema_id]
        is_serialized = schema.type == "PROTOBUF" and how == "serialized"
        text = self._as_parsed(schema, context).serialized() if is_serialized else schema.text
        fields: dict[str, Any] = {"id": schema_id, "guid": schema.guid(), "schema": text}
        if schema.type != "AVRO":
            fields["schemaType"] = schema.type
        if schema.references:
            fields["references"] = schema.references
        return {**fields, **schema.attached}

    def by_guid(self, guid: str) -> list[tuple[str, int]]:
        """Return the contexts and IDs of the schema with a GUID."""
        found = sorted(key for key, schema in self._schemas.items() if schema.guid() == guid)
        if not found:
            raise Rejected(40403, f"Schema {guid} not found")
        return found

    def versions_of(self, schema_id: int, subject: str | None, deleted: bool) -> list[dict[str, Any]]:
        """Return where a schema is registered: a list of subjects and versions."""
        context = self.locate(schema_id, subject)
        return [
            {"subject": name, "version": version.version}
            for name, version in self._all_versions()
            if version.id == schema_id and context_of(name) == context and (deleted or not version.deleted)
        ]

    # Subjects

    def subjects(self, prefix: str | None, deleted: bool, only_deleted: bool) -> list[str]:
        """Return the names of the subjects with a prefix. The prefix ":*:" means all contexts."""
        prefix = ":*:" if prefix is None else prefix

        def is_shown(name: str, subject: Subject) -> bool:
            if prefix.startswith(":*:"):
                is_wanted = name.startswith((prefix[3:], f":{context_of(name)}:{prefix[3:]}"))
            else:
                is_wanted = name.startswith(canonical(prefix)) and context_of(name) == context_of(prefix)
            is_live = bool(subject.live())
            return is_wanted and (not is_live if only_deleted else deleted or is_live)

        return sorted(name for name, subject in self._subjects.items() if is_shown(name, subject))

    def versions(self, subject: str, deleted: bool = False, only_deleted: bool = False) -> list[Version]:
        """Return the versions of a subject, by default without deleted versions."""
        entry = self._subject(subject)
        versions = entry.versions if deleted or only_deleted else entry.live()
        if only_deleted:
            return [version for version in versions if version.deleted]
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
        subject = self._in_any_context(subject)
        version = self._version(subject, number, deleted)
        described = self.describe(context_of(subject), version.id, how)
        return {"subject": subject, "version": version.version, **described}

    def _in_any_context(self, subject: str) -> str:
        """Return the subject. If the default context does not have it, return the subject of this name in another one."""
        names = [subject, *(qualified(context, subject) for context in self.contexts())]
        return next((name for name in names if name in self._subjects), subject)

    def all_versions(self, prefix: str | None, deleted: bool, only_latest: bool) -> list[dict[str, Any]]:
        """Return the versions of all subjects with a prefix."""
        found = []
        for name in self.subjects(prefix, deleted, False):
            versions = self.versions(name, deleted)
            found += [
                self.version(name, v.version, None, deleted) for v in (versions[-1:] if only_latest else versions)
            ]
        return found

    def with_metadata(self, subject: str, wanted: Mapping[str, str], deleted: bool) -> dict[str, Any]:
        """Return the latest version of a subject whose metadata has all the properties."""
        for version in reversed(self.versions(subject, deleted)):
            metadata = self._stored(subject, version).attached.get("metadata") or {}
            if wanted.items() <= (metadata.get("properties") or {}).items():
                return self.version(subject, version.version, None, deleted)
        raise Rejected(40403, "Schema not found")

    def register(self, subject: str, body: Mapping[str, Any], normalize: bool) -> dict[str, Any]:
        """Add a schema to a subject as a new version. If the subject already has the schema, change nothing.

        A schema without metadata or rules takes those of the latest version, as in Confluent's registry. A request
        without a schema takes the text of the latest version too.
        """
        _check_name(subject)
        mode, config, context = self.mode(subject), self.config(subject), context_of(subject)
        live = self._subjects.get(subject, Subject()).live()
        latest = self._stored(subject, live[-1]) if live else None
        if latest is not None and not body.get("schema"):
            body = {**body, "schemaType": latest.type, "schema": latest.text, "references": latest.references}
        schema, parsed = self.parse(body, normalize or bool(config.get("normalize")), context)
        if mode != "IMPORT":
            schema = _with_attached(config, latest, schema)
        existing = self._find(subject, schema)
        if existing is not None and not existing.deleted:
            return self._as_registered(subject, existing)
        self._check_writable(subject)
        wanted = body.get("id")
        wanted = wanted if isinstance(wanted, int) and wanted >= 0 else None
        if mode == "IMPORT" and wanted is None:
            raise Rejected(42205, f"Subject {subject} in context {context} is not in read-write mode")
        if mode != "IMPORT" and wanted is not None:
            raise Rejected(42205, f"Subject {subject} in context {context} is not in import mode")
        why = [] if mode == "IMPORT" else self._incompatibilities(subject, schema, parsed, None)
        if why:
            raise Rejected(
                409,
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: {why}',
            )
        version = self._add(subject, schema, wanted, body.get("version"))
        return self._as_registered(subject, version)

    def _add(self, subject: str, schema: Stored, wanted: int | None, number: object) -> Version:
        entry = self._subjects.get(subject, Subject())
        following = entry.next()
        if not isinstance(number, int) or number <= 0:
            number = following
        if wanted is None and number != following:
            raise Rejected(42201, "Version is not one more than previous version")
        if any(version.version == number for version in entry.versions):
            raise Rejected(42205, f"Subject '{subject}' already has version {number}")
        version = Version(number, self._id_of(context_of(subject), schema, wanted))
        for old in [
            each for each in entry.versions if each.deleted and each.id == version.id and each.version < number
        ]:
            if not self.referenced_by(subject, old.version):  # the new version takes the place of the deleted one
                entry.versions.remove(old)
        entry.versions = sorted([*entry.versions, version], key=lambda each: each.version)
        self._subjects[subject] = entry
        self._keep()
        return version

    def _as_registered(self, subject: str, version: Version) -> dict[str, Any]:
        """Return the response to a registration.

        Like the response of Confluent's registry, the response only contains a schema that has metadata or rules. If
        the response contained each schema, a client that registered a Protobuf file as a descriptor would cache the
        text of the file.
        """
        schema = self._stored(subject, version)
        short = {"id": version.id, "version": version.version, "guid": schema.guid()}
        return {**short, **self.describe(context_of(subject), version.id)} if schema.attached else short

    def _id_of(self, context: str, schema: Stored, wanted: int | None) -> int:
        known = {schema_id: each for (where, schema_id), each in self._schemas.items() if where == context}
        for schema_id, each in known.items():
            if each.key() == schema.key() and wanted in (None, schema_id):
                return schema_id
        if wanted is not None and wanted in known:
            raise Rejected(42205, f"Overwrite new schema with id {wanted} is not permitted.")
        schema_id = wanted if wanted is not None else max(known, default=0) + 1
        self._schemas[context, schema_id] = schema
        return schema_id

    def _find(self, subject: str, schema: Stored) -> Version | None:
        """Return the newest version of a subject with this schema, or None. Prefer versions that are not deleted."""
        entry = self._subjects.get(subject)
        versions = entry.versions if entry else []
        matching_versions = [v for v in versions if self._stored(subject, v).key() == schema.key()]
        return max(matching_versions, key=lambda version: (not version.deleted, version.version), default=None)

    def lookup(self, subject: str, body: Mapping[str, Any], normalize: bool, deleted: bool) -> dict[str, Any]:
        """Return the version that a schema has in a subject, as the JSON object for a response."""
        subject = self._in_any_context(subject)
        live, context, config = self.versions(subject, deleted), context_of(subject), self.config(subject)
        schema, _ = self.parse(body, normalize or bool(config.get("normalize")), context)
        attached = _with_attached(config, self._stored(subject, live[-1]), schema)
        existing = self._find(subject, attached) or self._find(subject, schema)
        if existing is None or (existing.deleted and not deleted):
            raise Rejected(40403, "Schema not found")
        return {"subject": subject, "version": existing.version, **self.describe(context, existing.id)}

    def referenced_by(self, subject: str, number: int | str) -> list[int]:
        """Return the IDs of the schemas that reference a version."""
        wanted = subject, self._version(subject, number, deleted=True).version
        return sorted(
            {
                version.id
                for name, version in self._all_versions()
                for each in self._stored(name, version).references
                if not version.deleted
                and (qualified(context_of(name), canonical(each["subject"])), each["version"]) == wanted
            }
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
            raise Rejected(42205, f"Subject {subject} in context {context_of(subject)} is in read-only mode")

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
            used = {(context_of(name), version.id) for name, version in self._all_versions()}
            self._schemas = {key: schema for key, schema in self._schemas.items() if key in used}
        self._keep()

    # Compatibility

    def check(self, subject: str, number: str | None, body: Mapping[str, Any], normalize: bool) -> list[str]:
        """Return the reasons why a schema is incompatible with a version.

        Without a version number, compare with the versions that the compatibility level requires.
        """
        normalize = normalize or bool(self.config(subject).get("normalize"))
        schema, parsed = self.parse(body, normalize, context_of(subject))
        against = None
        if number in ("latest", "-1"):
            against = self._subjects.get(subject, Subject()).live()[-1:]
        elif number is not None:
            against = [self._version(subject, number)]
        return self._incompatibilities(subject, schema, parsed, against)

    def _incompatibilities(self, subject: str, schema: Stored, parsed: Any, against: list[Version] | None) -> list[str]:
        config = self.config(subject)
        level, group = config["compatibilityLevel"], config.get("compatibilityGroup")
        if level == "NONE":
            return []
        if against is None:
            against = self._subjects.get(subject, Subject()).live()
            if group:  # schemas with another value of this property of the metadata are not compared
                against = [v for v in against if _property(self._stored(subject, v), group) == _property(schema, group)]
            if not level.endswith("_TRANSITIVE"):
                against = against[-1:]
        found = []
        for version in reversed(against):
            old = self._stored(subject, version)
            if old.type != schema.type:
                return [f"TYPE_CHANGED: {old.type} became {schema.type} (version {version.version})"]
            other, compare = self._as_parsed(old, context_of(subject)), TYPES[schema.type][1]
            if level.startswith(("BACKWARD", "FULL")):
                found += [f"{why} (version {version.version})" for why in compare(parsed, other)]
            if level.startswith(("FORWARD", "FULL")):
                found += [f"{why} (version {version.version}, old schema as reader)" for why in compare(other, parsed)]
        return found

    # Configuration and mode

    def config(self, subject: str) -> dict[str, Any]:
        """Return the configuration that applies to a subject. An empty subject name means the whole registry.

        A subject without a configuration has that of its context, whose name is the subject `:.context:`.
        """
        return {**self._config[""], **(self._config.get(subject) or self._config.get(_parent(subject), {}))}

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
            if subject not in self._config:
                raise Rejected(40401, f"Subject '{subject}' not found.")
            old = self._config.pop(subject)
        else:
            old, self._config[""] = self._config[""], {"compatibilityLevel": "BACKWARD"}
        self._keep()
        return old

    def mode(self, subject: str) -> str:
        """Return the mode that applies to a subject. An empty subject name means the whole registry."""
        if self._modes[""] == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return self._modes.get(subject) or self._modes.get(_parent(subject), self._modes[""])

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
        is_context = not subject or subject == _parent(subject)
        has_schemas = any(name == subject or (is_context and _parent(name) == subject) for name in self._subjects)
        if mode == "IMPORT" and has_schemas and not force:
            raise Rejected(42205, "Cannot import since found existing subjects")
        self._modes[subject] = mode
        self._keep()
        return {"mode": mode}

    def delete_mode(self, subject: str) -> dict[str, Any]:
        """Delete the mode of a subject."""
        if subject not in self._modes:
            raise Rejected(40401, f"Subject '{subject}' not found.")
        mode = self._modes[subject]
        if subject:
            del self._modes[subject]
        else:
            self._modes[""] = "READWRITE"
        self._keep()
        return {"mode": mode}
