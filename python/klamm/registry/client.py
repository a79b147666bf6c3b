"""`SchemaRegistry` and `AsyncSchemaRegistry`: clients of a schema registry with Confluent's REST API.

`_Registry` builds the URL paths, caches schemas and checks responses. The methods of `_Registry` are coroutines that
the blocking and the asyncio client share. `klamm.registry.http` sends the requests. Serializers and deserializers,
which are in other modules, call the methods of `_Registry` whose names start with an underscore.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from klamm.arguments import integer, string
from klamm.errors import ArgumentError
from klamm.registry.cache import Cache
from klamm.registry.config import Settings
from klamm.registry.errors import SchemaNotFoundError
from klamm.registry.http import AsyncRequests, BlockingRequests, Requests
from klamm.registry.schema import Compatibility, RegisteredSchema, Schema, unexpected
from klamm.registry.subjects import context_of, in_context
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from klamm.registry.config import RegistryConfig, RegistryUrl
    from klamm.registry.schema import CompatibilityLevel, Mode

__all__ = ["AsyncSchemaRegistry", "SchemaRegistry"]

_log = logging.getLogger("klamm.registry")
_MAX_REFERENCES = 1000
"""Maximum number of schemas that one schema can reference, directly and indirectly."""


class _Registry(Requests):
    """The methods that the blocking and the asyncio client share."""

    def __init__(self, url: RegistryUrl | None = None, **config: Unpack[RegistryConfig]) -> None:
        super().__init__(Settings.of(url, config))
        self._cache = Cache(self._settings.cache_capacity)
        self._has_warned = False

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"<klamm.registry.{name} at {','.join(self._settings.urls)}>"

    def __reduce__(self) -> Any:
        raise ArgumentError(
            f"{type(self).__name__} cannot be pickled", hint="create one with the same configuration in each process"
        )

    def clear_cache(self) -> None:
        """Remove all schemas from the cache, so that the next calls request schemas from the registry again."""
        self._cache.clear()

    def _warn_of_rules(self, rule: str, schema_id: int | str | None) -> None:
        """Log once that the client ignores the rules of schemas."""
        if not self._has_warned:
            self._has_warned = True
            _log.warning("ignoring the rules of schemas, because rules=ignore: schema %s has the %s", schema_id, rule)

    async def _cached(self, key: tuple[Any, ...], fetch: Any, lifetime: float | None = None) -> Any:
        known = self._cache.get(key)
        if known is None:

            async def fetched() -> Any:
                value = await fetch()
                self._cache.put(key, value, lifetime)
                return value

            known = await self._once(key, fetched)
        return known

    async def _register(self, subject: str, schema: Schema, normalize: bool) -> RegisteredSchema:
        _checked(schema)

        async def fetch() -> RegisteredSchema:
            fields = await self._request(
                "POST",
                f"{_subject(subject)}/versions",
                f"registering a schema for subject {subject!r}",
                query={"normalize": normalize},
                body=schema.to_json(),
            )
            registered = _registered(fields, schema, subject)
            if registered.guid is not None:  # otherwise, do not cache: a request by ID returns more fields
                self._cache.put(("id", registered.id, registered.context), registered)
            return registered

        return await self._cached(("register", subject, schema, normalize), fetch)  # type: ignore[no-any-return]

    async def _lookup(self, subject: str, schema: Schema, normalize: bool, deleted: bool) -> RegisteredSchema:
        _checked(schema)

        async def fetch() -> RegisteredSchema:
            fields = await self._request(
                "POST",
                _subject(subject),
                f"looking up a schema in subject {subject!r}",
                query={"normalize": normalize, "deleted": deleted},
                body=schema.to_json(),
            )
            return _registered(fields, schema, subject)

        return await self._cached(("lookup", subject, schema, normalize, deleted), fetch)  # type: ignore[no-any-return]

    async def _get_by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        integer("schema_id", schema_id, -(1 << 63))

        async def fetch() -> RegisteredSchema:
            fields = await self._request(
                "GET", f"/schemas/ids/{schema_id}", f"reading schema {schema_id}", query={"subject": subject}
            )
            return _registered({"id": schema_id, **_object(fields)}, None, None, context)

        # Within a context, an ID has one schema. One request is therefore enough for all subjects of the context.
        context = context_of(subject)
        return await self._cached(("id", schema_id, context), fetch)  # type: ignore[no-any-return]

    async def _get_by_guid(self, guid: str, subject: str | None = None) -> RegisteredSchema:
        """Request a schema by its GUID. `subject` names the context of the schemas that the schema refers to."""
        string("guid", guid)
        context = context_of(subject)

        async def fetch() -> RegisteredSchema:
            path = f"/schemas/guids/{quote(guid, safe='')}"
            fields = await self._request("GET", path, f"reading schema {guid}")
            # Only some releases of the registry return the ID when a client requests a schema by its GUID.
            return _registered({"id": -1, "guid": guid, **_object(fields)}, None, None, context)

        return await self._cached(("guid", guid, context), fetch)  # type: ignore[no-any-return]

    async def _get_version(self, subject: str, version: int | str, deleted: bool = False) -> RegisteredSchema:
        path = f"{_subject(subject)}/versions/{_version(version)}"
        operation = f"reading version {version} of subject {subject!r}"

        async def fetch() -> RegisteredSchema:
            return _registered(await self._request("GET", path, operation, query={"deleted": deleted}), None, subject)

        if version in ("latest", -1):
            return await fetch()
        return await self._cached(("version", subject, version, deleted), fetch)  # type: ignore[no-any-return]

    async def _cached_latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject. The version can be up to `cache.latest.ttl.sec` seconds old."""

        async def fetch() -> RegisteredSchema:
            return await self._get_version(subject, "latest")

        return await self._cached(("latest", subject), fetch, self._settings.cache_latest_ttl)  # type: ignore[no-any-return]

    async def _resolve(self, schema: Schema, context: str = "") -> dict[str, Schema]:
        """Return all schemas that a schema references, directly and indirectly, by name.

        Each schema comes after the schemas that it references. A reference without a context means a subject in the
        context of the schema.
        """
        resolved: dict[str, Schema] = {}
        seen: set[str] = set()

        async def add(references: Iterable[Any], context: str) -> None:
            for reference in references:
                if reference.name in seen:
                    continue
                seen.add(reference.name)
                if len(seen) > _MAX_REFERENCES:
                    raise unexpected(f"with a schema that references more than {_MAX_REFERENCES} others")
                # A reference to a version stays valid after a soft delete of the version.
                subject = in_context(reference.subject, context)
                version = await self._get_version(subject, reference.version, deleted=True)
                await add(version.schema.references, context_of(subject))
                resolved[reference.name] = version.schema

        await add(schema.references, context)
        return resolved

    async def _check(self, subject: str, schema: Schema, version: int | str | None, normalize: bool) -> Compatibility:
        _checked(schema)
        path = f"/compatibility{_subject(subject)}/versions" + ("" if version is None else f"/{_version(version)}")
        try:
            fields = await self._request(
                "POST",
                path,
                f"checking a schema against subject {subject!r}",
                query={"verbose": True, "normalize": normalize},
                body=schema.to_json(),
            )
        except SchemaNotFoundError as error:
            # A new subject accepts every schema. But if the caller named a missing version, raise the error.
            if error.code == 40401 or (error.code == 40402 and version in ("latest", -1)):  # noqa: PLR2004
                return Compatibility(True)
            raise
        compatible, messages = _object(fields).get("is_compatible"), fields.get("messages") or ()
        if not isinstance(compatible, bool) or not isinstance(messages, (list, tuple)):
            raise unexpected("without is_compatible")
        return Compatibility(compatible, () if compatible else tuple(map(str, messages)))

    async def _list(self, path: str, what: str, kind: type, **query: Any) -> list[Any]:
        items = await self._request("GET", path, what, query=query)
        if not isinstance(items, list) or not all(isinstance(item, kind) for item in items):
            raise unexpected(f"that is not a list of {kind.__name__}")
        return items

    async def _versions_of(self, schema_id: int) -> list[tuple[str, int]]:
        path = f"/schemas/ids/{integer('schema_id', schema_id, -(1 << 63))}/versions"
        items = await self._list(path, f"reading the versions of schema {schema_id}", dict)
        try:
            return [(item["subject"], item["version"]) for item in items]
        except KeyError:
            raise unexpected("without subject and version") from None

    async def _referenced_by(self, subject: str, version: int | str) -> list[int]:
        path = f"{_subject(subject)}/versions/{_version(version)}/referencedby"
        return await self._list(path, f"reading what references subject {subject!r}", int)

    async def _delete_subject(self, subject: str, permanent: bool) -> list[int]:
        operation = f"deleting subject {subject!r}"
        versions: Any = []
        try:
            versions = await self._request("DELETE", _subject(subject), operation)
        except SchemaNotFoundError as error:
            if not permanent or error.code != 40404:  # noqa: PLR2004 - 40404: the subject is soft-deleted already
                raise
        finally:
            self._cache.clear(subject)
        if permanent:
            versions = await self._request("DELETE", _subject(subject), operation, query={"permanent": True})
        return list(versions or [])

    async def _delete_version(self, subject: str, version: int | str, permanent: bool) -> int:
        path = f"{_subject(subject)}/versions/{_version(version)}"
        operation = f"deleting version {version} of subject {subject!r}"
        deleted: Any = version
        try:
            deleted = await self._request("DELETE", path, operation)
        except SchemaNotFoundError as error:
            if not permanent or error.code != 40406:  # noqa: PLR2004 - 40406: the version is soft-deleted already
                raise
        finally:
            self._cache.clear(subject)
        if permanent:
            # The first request soft-deleted the version. "latest" in the second request would mean the version before.
            path = f"{_subject(subject)}/versions/{_version(deleted)}"
            deleted = await self._request("DELETE", path, operation, query={"permanent": True})
        return int(deleted)

    async def _setting(self, kind: str, subject: str | None, method: str, body: Any = None, **query: Any) -> Any:
        """Read, change or delete the configuration or mode of a subject, or of the whole registry."""
        verb = {"GET": "reading", "PUT": "changing", "DELETE": "deleting"}[method]
        path, whose = f"/{kind}", "of the schema registry"
        if subject is not None:
            path, whose = f"/{kind}/{quote(string('subject', subject), safe='')}", f"of subject {subject!r}"
        operation = f"{verb} the {'mode' if kind == 'mode' else 'configuration'} {whose}"
        return _object(await self._request(method, path, operation, body=body, query=query))

    async def _get_config(self, subject: str | None, default_to_global: bool) -> dict[str, Any]:
        fields = await self._setting(
            "config", subject, "GET", defaultToGlobal=default_to_global and subject is not None
        )
        if not isinstance(fields.get("compatibilityLevel"), str):
            raise unexpected("without compatibilityLevel")
        return {**fields}

    async def _get_mode(self, subject: str | None, default_to_global: bool) -> Any:
        fields = await self._setting("mode", subject, "GET", defaultToGlobal=default_to_global and subject is not None)
        if not isinstance(fields.get("mode"), str):
            raise unexpected("without mode")
        return fields["mode"]


class SchemaRegistry(_Registry, BlockingRequests):
    """Read and register schemas in a schema registry with Confluent's REST API. Threads can share one client.

    The client caches schemas, and threads that need the same schema share one request. If an address of the registry
    fails, the client tries the next address. If all addresses fail, the client tries all addresses again after a pause.

    Args:
        url: Address of the registry, such as `"http://host:port"`. For several addresses, pass a list, or separate the
            addresses by commas. `url` can also be a dict of Confluent's dotted configuration keys.
        **config: Configuration keys of Confluent's clients in snake_case; see docs/registry.md.

    Raises:
        ConfigError: A configuration value is invalid.
        ArgumentError: An argument has the wrong type.

    Example:
        with SchemaRegistry("http://localhost:8081", basic_auth_user_info="alice:secret") as registry:
            registered = registry.register("orders-value", Schema('{"type": "string"}'))
            print(registry.get_by_id(registered.id).schema.text)
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def register(self, subject: str, schema: Schema, normalize: bool = False) -> RegisteredSchema:
        """Register a schema as a new version of a subject.

        If the subject already has the schema, the method returns the existing version.

        Args:
            subject: Name of the subject, such as "orders-value".
            schema: The schema.
            normalize: Let the registry normalize the schema before it compares and stores the schema.

        Returns:
            The registered schema. The version is None if the registry returns only the ID.

        Raises:
            IncompatibleSchemaError: The compatibility level of the subject does not allow the schema.
            InvalidSchemaError: The registry cannot parse the schema.
        """
        return run(self._register(subject, schema, normalize))

    def lookup(self, subject: str, schema: Schema, normalize: bool = False, deleted: bool = False) -> RegisteredSchema:
        """Return the version that a schema has in a subject, without registering the schema.

        Args:
            subject: Name of the subject.
            schema: The schema.
            normalize: Let the registry normalize the schemas before it compares them.
            deleted: Find soft-deleted versions too.

        Raises:
            SchemaNotFoundError: The subject does not have the schema.
        """
        return run(self._lookup(subject, schema, normalize, deleted))

    def get_by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        """Return the schema that has a given ID.

        Args:
            schema_id: ID of the schema.
            subject: A subject in the context of the schema. A registry with only one context does not need the subject.
                The client caches the schema for all subjects of the context.

        Raises:
            SchemaNotFoundError: The registry has no schema with this ID.
        """
        return run(self._get_by_id(schema_id, subject))

    def get_by_guid(self, guid: str) -> RegisteredSchema:
        """Return the schema that has a given GUID. The `id` of the result is -1 if the registry does not return the ID.

        Args:
            guid: GUID of the schema.

        Raises:
            SchemaNotFoundError: The registry has no schema with this GUID, or does not support GUIDs.
        """
        return run(self._get_by_guid(guid))

    def get_version(self, subject: str, version: int | str = "latest", deleted: bool = False) -> RegisteredSchema:
        """Return a version of a subject. For "latest", this method always asks the registry and not the cache.

        Args:
            subject: Name of the subject.
            version: Number of the version, or "latest".
            deleted: Find soft-deleted versions too.

        Raises:
            SchemaNotFoundError: The registry does not have the subject or the version.
        """
        return run(self._get_version(subject, version, deleted))

    def subjects(self, prefix: str = "", deleted: bool = False) -> list[str]:
        """Return the names of all subjects.

        Args:
            prefix: Return only subjects whose names start with this prefix.
            deleted: Return soft-deleted subjects too.
        """
        return run(self._list("/subjects", "reading the subjects", str, subjectPrefix=prefix or None, deleted=deleted))

    def versions(self, subject: str, deleted: bool = False) -> list[int]:
        """Return the version numbers of a subject.

        Args:
            subject: Name of the subject.
            deleted: Return soft-deleted versions too.

        Raises:
            SchemaNotFoundError: The registry does not have the subject.
        """
        path = f"{_subject(subject)}/versions"
        return run(self._list(path, f"reading the versions of subject {subject!r}", int, deleted=deleted))

    def versions_of(self, schema_id: int) -> list[tuple[str, int]]:
        """Return where a schema is registered, as pairs of a subject and a version.

        Args:
            schema_id: ID of the schema.

        Raises:
            SchemaNotFoundError: The registry has no schema with this ID.
        """
        return run(self._versions_of(schema_id))

    def referenced_by(self, subject: str, version: int | str) -> list[int]:
        """Return the IDs of the schemas that reference a version of a subject.

        Args:
            subject: Name of the subject.
            version: Number of the version, or "latest".
        """
        return run(self._referenced_by(subject, version))

    def schema_types(self) -> list[str]:
        """Return the types of schemas that the registry supports, such as "AVRO"."""
        return run(self._list("/schemas/types", "reading the types of schemas", str))

    def check(
        self, subject: str, schema: Schema, version: int | str | None = None, normalize: bool = False
    ) -> Compatibility:
        """Check whether a schema is compatible with a subject, without registering the schema.

        A subject that does not exist accepts every schema.

        Args:
            subject: Name of the subject.
            schema: The schema.
            version: Version to compare with, or "latest". Default: the versions that the compatibility level requires.
            normalize: Let the registry normalize the schemas before it compares them.

        Returns:
            A result that is true if the schema is compatible. If the schema is incompatible, the result is false and
            contains the reasons.

        Raises:
            InvalidSchemaError: The registry cannot parse the schema.
            SchemaNotFoundError: The subject does not have the version.
        """
        return run(self._check(subject, schema, version, normalize))

    def get_config(self, subject: str | None = None, default_to_global: bool = True) -> dict[str, Any]:
        """Return the configuration of a subject or of the registry, such as `{"compatibilityLevel": "BACKWARD"}`.

        Args:
            subject: Name of the subject. Default: the configuration of the whole registry.
            default_to_global: Return the registry's configuration if the subject has no configuration of its own.

        Raises:
            SchemaNotFoundError: The subject has no configuration of its own, and `default_to_global` is False.
        """
        return run(self._get_config(subject, default_to_global))

    def set_config(
        self, compatibility: CompatibilityLevel, subject: str | None = None, normalize: bool | None = None
    ) -> dict[str, Any]:
        """Change the compatibility level of a subject or of the registry. Return the registry's response.

        Args:
            compatibility: The compatibility level.
            subject: Name of the subject. Default: the whole registry.
            normalize: Whether the registry normalizes new schemas. Default: no change.

        Raises:
            InvalidSchemaError: The registry does not know the compatibility level.
        """
        return run(self._setting("config", subject, "PUT", _config_body(compatibility, normalize)))

    def delete_config(self, subject: str | None = None) -> None:
        """Delete the configuration of a subject, so that the registry's configuration applies to the subject.

        Without a subject, reset the registry's configuration.

        Args:
            subject: Name of the subject. Default: the whole registry.
        """
        run(self._setting("config", subject, "DELETE"))

    def get_mode(self, subject: str | None = None, default_to_global: bool = True) -> Mode:
        """Return the mode of a subject or of the registry, such as "READWRITE".

        Args:
            subject: Name of the subject. Default: the mode of the whole registry.
            default_to_global: Return the registry's mode if the subject has no mode of its own.
        """
        mode: Mode = run(self._get_mode(subject, default_to_global))
        return mode

    def set_mode(self, mode: Mode, subject: str | None = None, force: bool = False) -> None:
        """Change the mode of a subject or of the registry.

        Args:
            mode: The new mode, such as "READONLY".
            subject: Name of the subject. Default: the whole registry.
            force: Allow the mode IMPORT even if the registry already has schemas.

        Raises:
            InvalidSchemaError: The registry does not know or does not allow the mode.
        """
        run(self._setting("mode", subject, "PUT", {"mode": mode}, force=force))

    def delete_mode(self, subject: str) -> None:
        """Delete the mode of a subject, so that the registry's mode applies to the subject.

        Args:
            subject: Name of the subject.
        """
        run(self._setting("mode", subject, "DELETE"))

    def delete_version(self, subject: str, version: int | str, permanent: bool = False) -> int:
        """Delete a version of a subject and return its number.

        After a soft delete, clients can still request the schema by its ID. Records with this schema therefore stay
        readable.

        Args:
            subject: Name of the subject.
            version: Number of the version, or "latest".
            permanent: Delete the version permanently. Consumers can then no longer decode records with the schema's ID.
                The default is a soft delete.

        Raises:
            SchemaNotFoundError: The registry does not have the version.
            InvalidSchemaError: Another schema references the version.
        """
        return run(self._delete_version(subject, version, permanent))

    def delete_subject(self, subject: str, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject and return their numbers.

        Args:
            subject: Name of the subject.
            permanent: Delete the versions permanently. Consumers can then no longer decode records with the schemas'
                IDs. The default is a soft delete.

        Raises:
            SchemaNotFoundError: The registry does not have the subject.
            InvalidSchemaError: Another schema references a version of the subject.
        """
        return run(self._delete_subject(subject, permanent))

    def close(self) -> None:
        """Close the connections. Closing a closed client does nothing."""
        self._disconnect()


@documented_by(SchemaRegistry)
class AsyncSchemaRegistry(_Registry, AsyncRequests):
    """Read and register schemas from an asyncio event loop.

    `AsyncSchemaRegistry` has the methods and the arguments of `SchemaRegistry`.

    Tasks that need the same schema share one request.

    Example:
        async with AsyncSchemaRegistry("http://localhost:8081") as registry:
            latest = await registry.get_version("orders-value")
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def register(self, subject: str, schema: Schema, normalize: bool = False) -> RegisteredSchema:
        return await self._register(subject, schema, normalize)

    async def lookup(
        self, subject: str, schema: Schema, normalize: bool = False, deleted: bool = False
    ) -> RegisteredSchema:
        return await self._lookup(subject, schema, normalize, deleted)

    async def get_by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        return await self._get_by_id(schema_id, subject)

    async def get_by_guid(self, guid: str) -> RegisteredSchema:
        return await self._get_by_guid(guid)

    async def get_version(self, subject: str, version: int | str = "latest", deleted: bool = False) -> RegisteredSchema:
        return await self._get_version(subject, version, deleted)

    async def subjects(self, prefix: str = "", deleted: bool = False) -> list[str]:
        return await self._list("/subjects", "reading the subjects", str, subjectPrefix=prefix or None, deleted=deleted)

    async def versions(self, subject: str, deleted: bool = False) -> list[int]:
        path = f"{_subject(subject)}/versions"
        return await self._list(path, f"reading the versions of subject {subject!r}", int, deleted=deleted)

    async def versions_of(self, schema_id: int) -> list[tuple[str, int]]:
        return await self._versions_of(schema_id)

    async def referenced_by(self, subject: str, version: int | str) -> list[int]:
        return await self._referenced_by(subject, version)

    async def schema_types(self) -> list[str]:
        return await self._list("/schemas/types", "reading the types of schemas", str)

    async def check(
        self, subject: str, schema: Schema, version: int | str | None = None, normalize: bool = False
    ) -> Compatibility:
        return await self._check(subject, schema, version, normalize)

    async def get_config(self, subject: str | None = None, default_to_global: bool = True) -> dict[str, Any]:
        return await self._get_config(subject, default_to_global)

    async def set_config(
        self, compatibility: CompatibilityLevel, subject: str | None = None, normalize: bool | None = None
    ) -> dict[str, Any]:
        fields: dict[str, Any] = await self._setting("config", subject, "PUT", _config_body(compatibility, normalize))
        return fields

    async def delete_config(self, subject: str | None = None) -> None:
        await self._setting("config", subject, "DELETE")

    async def get_mode(self, subject: str | None = None, default_to_global: bool = True) -> Mode:
        mode: Mode = await self._get_mode(subject, default_to_global)
        return mode

    async def set_mode(self, mode: Mode, subject: str | None = None, force: bool = False) -> None:
        await self._setting("mode", subject, "PUT", {"mode": mode}, force=force)

    async def delete_mode(self, subject: str) -> None:
        await self._setting("mode", subject, "DELETE")

    async def delete_version(self, subject: str, version: int | str, permanent: bool = False) -> int:
        return await self._delete_version(subject, version, permanent)

    async def delete_subject(self, subject: str, permanent: bool = False) -> list[int]:
        return await self._delete_subject(subject, permanent)

    async def close(self) -> None:
        await self._disconnect()


def _subject(subject: str) -> str:
    if not string("subject", subject):
        raise ArgumentError("the subject is empty")
    return f"/subjects/{quote(subject, safe='')}"


def _version(version: int | str) -> int | str:
    if version in ("latest", -1):
        return "latest"
    return integer("version", version, 1, (1 << 31) - 1)  # type: ignore[arg-type]


def _checked(schema: Schema) -> None:
    if not isinstance(schema, Schema):
        raise ArgumentError(f"the schema has to be a Schema, not {type(schema).__name__}", hint="pass Schema(text)")


def _config_body(compatibility: str, normalize: bool | None) -> dict[str, Any]:
    body: dict[str, Any] = {"compatibility": string("compatibility", compatibility)}
    return body if normalize is None else {**body, "normalize": normalize}


def _object(fields: Any) -> Any:
    if not isinstance(fields, dict):
        raise unexpected("that is not a JSON object")
    return fields


def _registered(
    fields: Any, schema: Schema | None, subject: str | None, context: str | None = None
) -> RegisteredSchema:
    """Return the schema in a response. If a response to a registration lacks the schema, use the schema that was sent."""
    _object(fields)
    schema_id, version, guid = fields.get("id"), fields.get("version"), fields.get("guid")
    if not isinstance(schema_id, int) or not isinstance(version, (int, type(None))):
        raise unexpected("without a valid schema ID")
    found = Schema.from_json(fields) if schema is None or "schema" in fields else schema
    return RegisteredSchema(
        found,
        schema_id,
        fields.get("subject") or subject,
        version,
        guid if isinstance(guid, str) else None,
        context_of(subject) if context is None else context,
    )
