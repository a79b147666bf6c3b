"""The dev registry: a schema registry in memory, for tests and development. The class is `DevRegistry`."""

from __future__ import annotations

from klamm.registry.dev.server import DevRegistry, RegistryAction, RegistryRequest

__all__ = ["DevRegistry", "RegistryAction", "RegistryRequest"]
