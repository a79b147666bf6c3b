"""Creates, lists and deletes access rules (ACLs, KIP-140, KIP-290)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from klamm.admin.calls import Calls, Code, check, collect, instances, refusal
from klamm.errors import UnsupportedVersionError
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from klamm.admin.calls import Route
    from klamm.errors import KafkaError


class AclResource(Code):
    """Type of a resource that rules protect."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPatternType(Code):
    """How Kafka compares the name in a rule with the name of a resource.

    A filter can also use `ANY` (any type) and `MATCH` (every rule that applies to the name).
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(Code):
    """An operation that a rule allows or denies. Only filters can use `ANY`."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(Code):
    """Whether a rule allows or denies its operation. Only filters can use `ANY`."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True)
class AclBinding:
    """One access rule.

    Args:
        resource: Type of the resource.
        name: Name of the resource, or `*` for all resources of the type. The name of the cluster is `kafka-cluster`.
        principal: User to whom the rule applies, such as `User:alice`, or `User:*` for all users.
        operation: Operation that the rule allows or denies.
        permission: Whether the rule allows or denies the operation. The default is `ALLOW`.
        host: IP address of the clients to which the rule applies. The default is `*`, which means all clients.
        pattern: How to compare `name` with the names of resources. `LITERAL` (the default) compares whole names.
            `PREFIXED` compares `name` only with the beginning of a resource's name.
    """

    resource: AclResource
    name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern: AclPatternType = AclPatternType.LITERAL


@dataclass(frozen=True)
class AclFilter:
    """Selects access rules. The defaults select all rules.

    Args:
        resource: Type of the resource.
        name: Name of the resource. None means any name.
        principal: User of the rule. None means any user.
        operation: Operation of the rule.
        permission: Permission of the rule.
        host: Host of the rule. None means any host.
        pattern: Type of the rule's pattern.
    """

    resource: AclResource = AclResource.ANY
    name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern: AclPatternType = AclPatternType.ANY


class AclCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _create_rules(self, rules: Iterable[AclBinding], timeout: float | None) -> None:
        checked_rules = instances("rules", rules, AclBinding)
        if checked_rules:
            request = {"creations": [_creation(rule) for rule in checked_rules]}
            response = await self._ask("CreateAcls", request, timeout, "controller")
            results = zip(checked_rules, response["results"], strict=True)
            collect((rule, refusal(result, f"create {_words(rule)}")) for rule, result in results)

    async def _describe_rules(self, filter: AclFilter, timeout: float | None) -> list[AclBinding]:  # noqa: A002
        (wanted,) = instances("filters", [filter], AclFilter)
        response = await self._ask_with_patterns([wanted], lambda fields: ("DescribeAcls", fields[0]), timeout, None)
        check(response, "describe access rules")
        return [_binding({**resource, **rule}) for resource in response["resources"] for rule in resource["acls"]]

    async def _delete_rules(
        self, filters: Iterable[AclFilter | AclBinding], timeout: float | None
    ) -> dict[AclFilter | AclBinding, list[AclBinding]]:
        checked_filters = instances("filters", filters, (AclFilter, AclBinding))
        if not checked_filters:
            return {}
        response = await self._ask_with_patterns(
            checked_filters, lambda fields: ("DeleteAcls", {"filters": fields}), timeout, "controller"
        )
        return collect(
            (each, _deleted(result)) for each, result in zip(checked_filters, response["filterResults"], strict=True)
        )

    async def _ask_with_patterns(
        self,
        filters: Sequence[AclFilter | AclBinding],
        request: Callable[[list[dict[str, Any]]], tuple[str, dict[str, Any]]],
        timeout: float | None,
        route: Route,
    ) -> dict[str, Any]:
        """Send a request with filters.

        Brokers before Kafka 2.0 know only literal names. If a broker does not accept the pattern type ANY, send
        LITERAL, which selects the same rules if all names are literal.
        """
        try:
            return await self._ask(*request([_filter_fields(each) for each in filters]), timeout, route)
        except UnsupportedVersionError:
            if any(each.pattern not in (AclPatternType.ANY, AclPatternType.LITERAL) for each in filters):
                raise
            literal = [replace(each, pattern=AclPatternType.LITERAL) for each in filters]
            return await self._ask(*request([_filter_fields(each) for each in literal]), timeout, route)


class Acls(AclCalls):
    """Methods of `Admin` for access rules."""

    def create_acls(self, rules: Iterable[AclBinding], timeout: float | None = None) -> None:
        """Create access rules. A rule that exists already does not change.

        Args:
            rules: The rules.
            timeout: Seconds to wait.

        Raises:
            SecurityDisabledError: The brokers have no authorizer.
            ClusterAuthorizationFailedError: The user may not alter the cluster.

        Example:
            admin.create_acls([AclBinding(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)])
        """
        run(self._create_rules(rules, timeout))

    def describe_acls(self, filter: AclFilter = AclFilter(), timeout: float | None = None) -> list[AclBinding]:  # noqa: A002
        """Return the access rules that a filter selects. The default filter selects all rules.

        Raises:
            SecurityDisabledError: The brokers have no authorizer.
            ClusterAuthorizationFailedError: The user may not describe the cluster.
        """
        return run(self._describe_rules(filter, timeout))

    def delete_acls(
        self, filters: Iterable[AclFilter | AclBinding], timeout: float | None = None
    ) -> dict[AclFilter | AclBinding, list[AclBinding]]:
        """Delete the access rules that at least one of the filters selects.

        If a filter is an `AclBinding`, the filter selects only that rule.

        Returns:
            For each filter, the deleted rules that the filter selected.

        Raises:
            SecurityDisabledError: The brokers have no authorizer.
            ClusterAuthorizationFailedError: The user may not alter the cluster.
        """
        return run(self._delete_rules(filters, timeout))


@documented_by(Acls)
class AsyncAcls(AclCalls):
    """Methods of `AsyncAdmin` for access rules."""

    async def create_acls(self, rules: Iterable[AclBinding], timeout: float | None = None) -> None:
        await self._create_rules(rules, timeout)

    async def describe_acls(self, filter: AclFilter = AclFilter(), timeout: float | None = None) -> list[AclBinding]:  # noqa: A002
        return await self._describe_rules(filter, timeout)

    async def delete_acls(
        self, filters: Iterable[AclFilter | AclBinding], timeout: float | None = None
    ) -> dict[AclFilter | AclBinding, list[AclBinding]]:
        return await self._delete_rules(filters, timeout)


def _creation(rule: AclBinding) -> dict[str, Any]:
    return {
        "resourceType": rule.resource,
        "resourceName": rule.name,
        **_pattern("resourcePatternType", rule.pattern),
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation,
        "permissionType": rule.permission,
    }


def _filter_fields(each: AclFilter | AclBinding) -> dict[str, Any]:
    return {
        "resourceTypeFilter": each.resource,
        "resourceNameFilter": each.name,
        **_pattern("patternTypeFilter", each.pattern),
        "principalFilter": each.principal,
        "hostFilter": each.host,
        "operation": each.operation,
        "permissionType": each.permission,
    }


def _pattern(field: str, pattern: AclPatternType) -> dict[str, int]:
    """Return the field for a pattern type. LITERAL needs no field, because old brokers know no other type (KIP-290)."""
    return {} if pattern is AclPatternType.LITERAL else {field: pattern}


def _binding(fields: Mapping[str, Any]) -> AclBinding:
    return AclBinding(
        AclResource(fields["resourceType"]),
        fields["resourceName"],
        fields["principal"],
        AclOperation(fields["operation"]),
        AclPermission(fields["permissionType"]),
        fields["host"],
        AclPatternType(fields.get("patternType", AclPatternType.LITERAL)),
    )


def _deleted(result: Mapping[str, Any]) -> list[AclBinding] | KafkaError:
    """Return the deleted rules that one filter selected, or the first error."""
    parts = [result, *result["matchingAcls"]]
    failed = next((error for error in (refusal(part, "delete access rules") for part in parts) if error), None)
    return failed or [_binding(rule) for rule in result["matchingAcls"]]


def _words(rule: AclBinding) -> str:
    return f"the rule for {rule.principal} to {rule.operation.name} {rule.resource.name} {rule.name!r}"
