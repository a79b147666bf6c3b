"""`Token`, the class of the OAuth tokens that token providers return.

`Token` has a module of its own, because both `klamm.oauth` and `klamm.aws` use the class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

__all__ = ["Token", "TokenProvider"]


@dataclass(frozen=True)
class Token:
    """A token for a login with OAUTHBEARER.

    Args:
        value: The token itself, which `repr()` does not show.
        expires_at: Time when the token expires, in seconds since 1970.
        extensions: SASL extensions to send with the token (RFC 7628).
    """

    value: str = field(repr=False)
    expires_at: float
    extensions: Mapping[str, str] = field(default_factory=dict)


TokenProvider: TypeAlias = "Callable[[], Token | tuple[str, float]]"
"""A function that returns a Token or a tuple `(token, expires_at)`. The tuple may also have the four parts of
confluent-kafka: `(token, expires_at, principal, extensions)`."""
