"""Describes and changes quotas of users, client IDs and IP addresses (KIP-546)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import TYPE_CHECKING, Any

from klamm.admin.calls import Calls, check, collect, instances, refusal
from klamm.arguments import boolean, items_of, string
from klamm.errors import ArgumentError
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from klamm.admin.calls import Fields


class QuotaName(Enum):
    """A special name of a user, a client ID or an IP address."""

    DEFAULT = "default"
    """The default for all users, client IDs or IP addresses without a quota of their own."""
    ANY = "any"
    """Any name. Only filters can use `ANY`."""


@dataclass(frozen=True)
class QuotaEntity:
    """The entity that a quota applies to: a user, a client ID, a user with a client ID, or an IP address.

    Args:
        user: Name of a user, or a QuotaName. None means that the entity has no user.
        client_id: A client ID or a QuotaName, or None.
        ip: An IP address or a QuotaName, or None.
    """

    user: str | QuotaName | None = None
    client_id: str | QuotaName | None = None
    ip: str | QuotaName | None = None


TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
EXACT, DEFAULT, ANY = 0, 1, 2


class QuotaCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _find_quotas(
        self, entity: QuotaEntity, strict: bool, timeout: float | None
    ) -> dict[QuotaEntity, dict[str, float]]:
        components = [_component(kind, name) for kind, name in _parts(entity)]
        request = {"components": components, "strict": boolean("strict", strict)}
        response = await self._ask("DescribeClientQuotas", request, timeout)
        check(response, "describe client quotas")
        return {
            _entity(entry["entity"]): {value["key"]: value["value"] for value in entry["values"]}
            for entry in response["entries"] or ()
        }

    async def _set_quotas(
        self, quotas: Mapping[QuotaEntity, Mapping[str, float | None]], timeout: float | None, validate_only: bool
    ) -> None:
        entries = [
            {"entity": [_named(kind, name) for kind, name in _parts(entity)], "ops": _changes(values)}
            for entity, values in items_of("quotas", quotas)
        ]
        if entries:
            request = {"entries": entries, "validateOnly": boolean("validate_only", validate_only)}
            response = await self._ask("AlterClientQuotas", request, timeout, "controller")
            entities = ((_entity(entry["entity"]), entry) for entry in response["entries"])
            collect((entity, refusal(entry, f"alter quotas of {entity}")) for entity, entry in entities)


class Quotas(QuotaCalls):
    """Methods of `Admin` for quotas."""

    def describe_client_quotas(
        self, entity: QuotaEntity = QuotaEntity(), timeout: float | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return quotas (Kafka 2.6).

        Args:
            entity: Return only quotas of entities with this user, client ID or IP address. The default is all quotas.
            timeout: Seconds to wait.
            strict: Exclude entities with an additional user, client ID or IP address that `entity` does not have.

        Returns:
            For each entity, its quotas by name, such as `producer_byte_rate`.

        Raises:
            ClusterAuthorizationFailedError: The user may not describe the settings of the cluster.

        Example:
            admin.describe_client_quotas(QuotaEntity(user=QuotaName.ANY))
        """
        return run(self._find_quotas(entity, strict, timeout))

    def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Change quotas (Kafka 2.6). A quota that `quotas` does not name keeps its value.

        Args:
            quotas: For each entity, its quotas by name. None removes a quota.
            timeout: Seconds to wait.
            validate_only: Only check whether the quotas can be changed.

        Raises:
            InvalidRequestError: A quota does not exist, or its value is invalid.
            CombinedError: The quotas of some entities were not changed.

        Example:
            admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1e6}})
        """
        run(self._set_quotas(quotas, timeout, validate_only))


@documented_by(Quotas)
class AsyncQuotas(QuotaCalls):
    """Methods of `AsyncAdmin` for quotas."""

    async def describe_client_quotas(
        self, entity: QuotaEntity = QuotaEntity(), timeout: float | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        return await self._find_quotas(entity, strict, timeout)

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        await self._set_quotas(quotas, timeout, validate_only)


def _parts(entity: QuotaEntity) -> list[tuple[str, str | QuotaName]]:
    (checked,) = instances("entities", [entity], QuotaEntity)
    parts = ((TYPES[each.name], getattr(checked, each.name)) for each in fields(checked))
    return [
        (kind, name if isinstance(name, QuotaName) else string(f"the name of a {kind}", name))
        for kind, name in parts
        if name is not None
    ]


def _component(kind: str, name: str | QuotaName) -> Fields:
    if isinstance(name, QuotaName):
        return {"entityType": kind, "matchType": DEFAULT if name is QuotaName.DEFAULT else ANY, "match": None}
    return {"entityType": kind, "matchType": EXACT, "match": name}


def _named(kind: str, name: str | QuotaName) -> Fields:
    if name is QuotaName.ANY:
        raise ArgumentError("QuotaName.ANY is only for filters", hint="name each entity, or use QuotaName.DEFAULT")
    return {"entityType": kind, "entityName": None if name is QuotaName.DEFAULT else name}


def _changes(values: Mapping[str, float | None]) -> list[Fields]:
    return [
        {"key": string("the name of a quota", key), "value": 0.0, "remove": True}
        if value is None
        else {"key": string("the name of a quota", key), "value": _number(key, value), "remove": False}
        for key, value in items_of("the quotas of an entity", values)
    ]


def _number(key: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentError(f"the quota {key} has to be a number or None, not {type(value).__name__}")
    return float(value)


def _entity(parts: list[Fields]) -> QuotaEntity:
    attributes = {kind: attribute for attribute, kind in TYPES.items()}
    named: dict[str, Any] = {
        attributes[part["entityType"]]: QuotaName.DEFAULT if part["entityName"] is None else part["entityName"]
        for part in parts
        if part["entityType"] in attributes
    }
    return QuotaEntity(**named)
