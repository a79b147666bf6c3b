"""Describes and changes the settings of topics, brokers, groups and client metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Literal

from klamm.admin.calls import Calls, Code, Item, check, collect, instances, nothing
from klamm.admin.topics import setting, settings
from klamm.arguments import INT32, boolean, items_of, list_of_str, string
from klamm.errors import ConfigError
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    from klamm.admin.calls import Fields, Route

ConfigKind: TypeAlias = Literal["topic", "broker", "broker-logger", "client-metrics", "group"]
KINDS = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
KIND_NAMES = {number: name for name, number in KINDS.items()}


class ConfigSource(Code):
    """Where the value of a setting comes from."""

    UNKNOWN = -1
    TOPIC = 1
    BROKER_DYNAMIC = 2
    BROKERS_DYNAMIC = 3
    BROKER_FILE = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(Code):
    """Type of a setting's value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigOperation(IntEnum):
    """How a change affects a setting. APPEND adds items to a list, and SUBTRACT removes items from a list."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, order=True)
class ConfigResource:
    """An object that has settings, such as a topic or a broker.

    Args:
        kind: Type of the resource: `topic`, `broker`, `broker-logger`, `client-metrics` or `group`.
        name: Name of the resource. The name of a broker is its ID, and the empty name stands for all brokers.
    """

    kind: ConfigKind
    name: str


@dataclass(frozen=True)
class ConfigChange:
    """A change of a setting.

    Args:
        name: Name of the setting.
        value: The new value, or the items to append or to subtract, separated by commas. DELETE does not use `value`.
        operation: How to change the setting. DELETE resets the setting to its default.
    """

    name: str
    value: str | bool | float | None = None
    operation: ConfigOperation = ConfigOperation.SET


@dataclass(frozen=True)
class ConfigSynonym:
    """A setting from which another setting can take its value.

    A setting has the value of its first synonym that is set. The name of a synonym can differ from the name of the
    setting.
    """

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True)
class ConfigEntry:
    """A setting of a topic, broker or group.

    Attributes:
        value: Value as a string. None if the value is secret.
        read_only: True if no request can change the setting.
        sensitive: Whether the value is secret.
        type: Type of the value (Kafka 2.6).
        synonyms: Settings that can determine the value, with the most specific first. Empty if the caller did not
            request synonyms (Kafka 1.1).
        documentation: Description of the setting, if it was requested (Kafka 2.6).
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: ConfigType = ConfigType.UNKNOWN
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None


class ConfigCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _read_configs(
        self,
        resources: Iterable[ConfigResource],
        timeout: float | None,
        names: Iterable[str] | None = None,
        asked: Mapping[str, bool] | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        checked_resources = _checked(resources)
        keys = None if names is None else list_of_str("names", names)
        fields = {name: True for name, value in (asked or {}).items() if boolean(name, value)}

        items = {
            each: _item(each, _broker(each, None), "describe", {"configurationKeys": keys}, fields)
            for each in checked_resources
        }
        path = "results:resourceType,resourceName"
        return collect((await self._for_items("DescribeConfigs", items, _entries, timeout, path=path)).items())

    async def _change_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        timeout: float | None,
        validate_only: bool,
    ) -> None:
        changes_by_resource = {
            resource: [_change(each) for each in instances("changes", some, ConfigChange)]
            for resource, some in items_of("changes", changes)
        }
        boolean("validate_only", validate_only)
        changed_resources = [resource for resource in _checked(changes_by_resource) if changes_by_resource[resource]]
        await self._send_configs(
            "IncrementalAlterConfigs",
            "alter",
            changed_resources,
            changes_by_resource,
            timeout,
            validate_only=validate_only,
        )

    async def _replace_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | bool | float]],
        timeout: float | None,
        validate_only: bool,
    ) -> None:
        configs_by_resource = {
            resource: [{"name": name, "value": value} for name, value in settings(some)]
            for resource, some in items_of("configs", configs)
        }
        boolean("validate_only", validate_only)
        await self._send_configs(
            "AlterConfigs",
            "replace",
            _checked(configs_by_resource),
            configs_by_resource,
            timeout,
            validate_only=validate_only,
        )

    async def _send_configs(
        self,
        api: str,
        verb: str,
        wanted: list[ConfigResource],
        given: Mapping[ConfigResource, Sequence[Mapping[str, object]]],
        timeout: float | None,
        *,
        validate_only: bool,
    ) -> None:
        fields = {"validateOnly": validate_only}
        items = {each: _item(each, self._changer(each), verb, {"configs": given[each]}, fields) for each in wanted}
        path = "responses:resourceType,resourceName"
        collect((await self._for_items(api, items, nothing, timeout, path=path)).items())

    async def _list_resources(self, kinds: Iterable[ConfigKind], timeout: float | None) -> list[ConfigResource]:
        kind_numbers = [_kind(kind) for kind in list_of_str("kinds", kinds)]
        # Version 0 of ListConfigResources lists only client metrics.
        request = {} if kind_numbers == [KINDS["client-metrics"]] else {"resourceTypes": kind_numbers}
        response = await self._ask("ListConfigResources", request, timeout)
        check(response, "list config resources")
        by_kind = ((each.get("resourceType", KINDS["client-metrics"]), each) for each in response["configResources"])
        resources = [
            ConfigResource(KIND_NAMES[kind], each["resourceName"])  # type: ignore[arg-type]
            for kind, each in by_kind
            if kind in KIND_NAMES
        ]
        return sorted(each for each in resources if not kind_numbers or KINDS[each.kind] in kind_numbers)

    def _changer(self, resource: ConfigResource) -> Route:
        """Return the node to which klamm sends a change of a resource's settings.

        If the client talks to controllers, the active controller changes all settings except the log levels of a node.
        """
        route = _broker(resource, "controller")
        return "controller" if self._uses_controllers and resource.kind != "broker-logger" else route

    async def _read_config(self, resource: ConfigResource, timeout: float | None) -> dict[str, ConfigEntry]:
        return (await self._read_configs([resource], timeout))[resource]

    async def _client_metrics(self, timeout: float | None) -> list[str]:
        return [each.name for each in await self._list_resources(["client-metrics"], timeout)]


class Configs(ConfigCalls):
    """Methods of `Admin` for settings."""

    def describe_configs(self, kind: ConfigKind, name: str, timeout: float | None = None) -> dict[str, ConfigEntry]:
        """Return all settings of a topic, broker or group.

        Args:
            kind: Type of the resource.
            name: Name of the topic or group, or the broker ID as a string.
            timeout: Seconds to wait.

        Returns:
            A dict from the name of each setting to a ConfigEntry with the value and its source.
        """
        return run(self._read_config(ConfigResource(kind, name), timeout))

    def describe_resources(
        self,
        resources: Iterable[ConfigResource],
        timeout: float | None = None,
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Return settings of any number of resources.

        Args:
            resources: The resources.
            timeout: Seconds to wait.
            names: Names of settings. None means all settings.
            synonyms: Also return the settings that can determine each value (Kafka 1.1).
            documentation: Also return the description of each setting (Kafka 2.6).

        Raises:
            UnknownTopicOrPartitionError: A topic does not exist.
            CombinedError: Several resources failed. `error.results` has the results of the resources that succeeded.
        """
        flags = {"includeSynonyms": synonyms, "includeDocumentation": documentation}
        return run(self._read_configs(resources, timeout, names, flags))

    def alter_configs(
        self,
        kind: ConfigKind,
        name: str,
        changes: Mapping[str, str | bool | float | None],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Change settings of a topic, broker or group.

        A setting that `changes` does not name keeps its value (KIP-339).

        Args:
            kind: Type of the resource.
            name: Name of the topic or group, or the broker ID as a string.
            changes: For each setting, the new value, or None to reset the setting to its default.
            timeout: Seconds to wait.
            validate_only: Only check whether the settings can be changed.

        Raises:
            InvalidConfigError: A setting does not exist, or its value is invalid.
        """
        run(self._change_configs({ConfigResource(kind, name): _plain_changes(changes)}, timeout, validate_only))

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Set or reset settings of any number of resources, or change the items of list settings (KIP-339).

        Args:
            changes: For each resource, the changes of its settings.
            timeout: Seconds to wait.
            validate_only: Only check whether the settings can be changed.

        Raises:
            InvalidConfigError: A setting does not exist, or its value is invalid.
            UnsupportedVersionError: The brokers are older than Kafka 2.3.
            CombinedError: The settings of some resources were not changed.
        """
        run(self._change_configs(changes, timeout, validate_only))

    def replace_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | bool | float]],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace all settings of any number of resources.

        If `configs` does not contain a setting of a resource, the brokers reset the setting to its default. Unlike
        `incremental_alter_configs`, this method also works with brokers before Kafka 2.3.

        Args:
            configs: For each resource, the values of all its settings.
            timeout: Seconds to wait.
            validate_only: Only check whether the settings can be changed.

        Raises:
            InvalidConfigError: A setting does not exist, or its value is invalid.
            CombinedError: The settings of some resources were not changed.
        """
        run(self._replace_configs(configs, timeout, validate_only))

    def list_config_resources(
        self, kinds: Iterable[ConfigKind] = (), timeout: float | None = None
    ) -> list[ConfigResource]:
        """Return the resources that can have settings (Kafka 4.1).

        Args:
            kinds: Types of resources. The default is all types.
            timeout: Seconds to wait.
        """
        return run(self._list_resources(kinds, timeout))

    def list_client_metrics_resources(self, timeout: float | None = None) -> list[str]:
        """Return the names of all client metrics subscriptions (KIP-714, Kafka 3.7)."""
        return run(self._client_metrics(timeout))


@documented_by(Configs)
class AsyncConfigs(ConfigCalls):
    """Methods of `AsyncAdmin` for settings."""

    async def describe_configs(
        self, kind: ConfigKind, name: str, timeout: float | None = None
    ) -> dict[str, ConfigEntry]:
        return await self._read_config(ConfigResource(kind, name), timeout)

    async def describe_resources(
        self,
        resources: Iterable[ConfigResource],
        timeout: float | None = None,
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        flags = {"includeSynonyms": synonyms, "includeDocumentation": documentation}
        return await self._read_configs(resources, timeout, names, flags)

    async def alter_configs(
        self,
        kind: ConfigKind,
        name: str,
        changes: Mapping[str, str | bool | float | None],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        await self._change_configs({ConfigResource(kind, name): _plain_changes(changes)}, timeout, validate_only)

    async def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Iterable[ConfigChange]],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        await self._change_configs(changes, timeout, validate_only)

    async def replace_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str | bool | float]],
        timeout: float | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        await self._replace_configs(configs, timeout, validate_only)

    async def list_config_resources(
        self, kinds: Iterable[ConfigKind] = (), timeout: float | None = None
    ) -> list[ConfigResource]:
        return await self._list_resources(kinds, timeout)

    async def list_client_metrics_resources(self, timeout: float | None = None) -> list[str]:
        return await self._client_metrics(timeout)


def _kind(kind: str) -> int:
    if kind not in KINDS:
        raise ConfigError(f'unknown resource type "{kind}"', hint=f"allowed: {', '.join(KINDS)}")
    return KINDS[kind]


def _checked(resources: Iterable[ConfigResource]) -> list[ConfigResource]:
    wanted = instances("resources", resources, ConfigResource)
    for each in wanted:
        _kind(string("kind", each.kind))
        string("name", each.name)
        _broker(each, None)
    return wanted


def _broker(resource: ConfigResource, otherwise: Route) -> Route:
    """Return the ID of the broker that a resource names. If the resource is not a single broker, return `otherwise`."""
    if resource.kind not in ("broker", "broker-logger") or not resource.name:
        return otherwise
    if resource.name.isdecimal() and int(resource.name) <= INT32:
        return int(resource.name)
    raise ConfigError(f'broker "{resource.name}" is not a number', hint="the name of a broker is its ID")


def _item(
    resource: ConfigResource, route: Route, verb: str, part: Mapping[str, object], fields: Mapping[str, object]
) -> Item:
    """Return the item of a resource with the fields of the resource, and the other fields of the request."""
    kind = KINDS[resource.kind]
    return Item(
        {**fields, "resources": [{"resourceType": kind, "resourceName": resource.name, **part}]},
        route,
        f'{verb} configs of {resource.kind} "{resource.name}"',
        (str(kind), resource.name),
        (resource.name, None) if resource.kind == "topic" else None,
    )


def _change(change: ConfigChange) -> Fields:
    operation = ConfigOperation(change.operation)
    value = None if operation is ConfigOperation.DELETE else setting(change.value)
    return {"name": string("the name of a setting", change.name), "configOperation": operation, "value": value}


def _plain_changes(changes: Mapping[str, str | bool | float | None]) -> list[ConfigChange]:
    return [
        ConfigChange(name, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
        for name, value in settings(changes)
    ]


def _entries(result: Fields) -> dict[str, ConfigEntry]:
    return {each["name"]: _entry(each) for each in result["configs"]}


def _entry(config: Fields) -> ConfigEntry:
    # Version 0 of DescribeConfigs returns no source, but only whether the value is the default.
    source = config.get("configSource", ConfigSource.DEFAULT if config.get("isDefault") else ConfigSource.UNKNOWN)
    return ConfigEntry(
        config["name"],
        None if config["isSensitive"] else config["value"],
        ConfigSource(source),
        config["readOnly"],
        config["isSensitive"],
        ConfigType(config.get("configType", ConfigType.UNKNOWN)),
        tuple(
            ConfigSynonym(each["name"], each["value"], ConfigSource(each["source"]))
            for each in config.get("synonyms", ())
        ),
        config.get("documentation"),
    )
