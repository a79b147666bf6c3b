"""Manages SCRAM credentials of users (KIP-554) and delegation tokens (KIP-48)."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import pbkdf2_hmac
from secrets import token_bytes
from typing import TYPE_CHECKING

from klamm.admin.calls import Calls, Code, check, collect, instances, refusal
from klamm.arguments import INT32, integer, list_of_str, optional_string, string
from klamm.errors import ArgumentError
from klamm.waiting import documented_by, run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from klamm.admin.calls import Fields
    from klamm.errors import KafkaError

SALT_BYTES = 24


class ScramMechanism(Code):
    """A SASL mechanism with a salted password."""

    UNKNOWN = 0
    SHA_256 = 1
    SHA_512 = 2


HASHES = {ScramMechanism.SHA_256: "sha256", ScramMechanism.SHA_512: "sha512"}


@dataclass(frozen=True)
class ScramCredential:
    """A SCRAM credential as a broker describes it: the mechanism and the number of hash iterations."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True)
class ScramUpsertion:
    """A password to set. The client sends only a salted hash of the password.

    Args:
        user: Name of the user.
        password: The password.
        mechanism: Mechanism of the credential.
        iterations: Number of hash iterations, from 4096 to 16384.
        salt: The salt. The default is random.
    """

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SHA_256
    iterations: int = 4096
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ScramDeletion:
    """A SCRAM credential to delete."""

    user: str
    mechanism: ScramMechanism = ScramMechanism.SHA_256


@dataclass(frozen=True)
class DelegationToken:
    """A delegation token. A client logs in with the ID and HMAC of the token, by SCRAM with `tokenauth=true`.

    Attributes:
        token_id: ID of the token.
        owner: Principal whose rights the token has, such as `User:alice`.
        requester: Principal that created the token. The principal is empty if the brokers are older than Kafka 3.3.
        issued_ms: Time of creation in milliseconds since 1970.
        expires_ms: Time when the token expires if it is not renewed, in milliseconds since 1970.
        max_ms: Time until which the token can be renewed, in milliseconds since 1970.
        renewers: Principals that may renew the token, besides the owner.
        hmac: Secret of the token.
    """

    token_id: str
    owner: str
    requester: str
    issued_ms: int
    expires_ms: int
    max_ms: int
    renewers: list[str]
    hmac: bytes = field(repr=False)


class UserCalls(Calls):
    """Coroutines that the methods of `Admin` and `AsyncAdmin` share."""

    async def _credentials(
        self, users: Iterable[str] | None, timeout: float | None
    ) -> dict[str, list[ScramCredential]]:
        names = None if users is None else [{"name": user} for user in list_of_str("users", users)]
        response = await self._ask("DescribeUserScramCredentials", {"users": names}, timeout)
        check(response, "describe SCRAM credentials")
        return collect((each["user"], _described(each)) for each in response["results"])

    async def _change_credentials(
        self, changes: Iterable[ScramUpsertion | ScramDeletion], timeout: float | None
    ) -> None:
        checked_changes = instances("changes", changes, (ScramUpsertion, ScramDeletion))
        upsertions = [_upsertion(each) for each in checked_changes if isinstance(each, ScramUpsertion)]
        deletions = [_named(each) for each in checked_changes if isinstance(each, ScramDeletion)]
        if checked_changes:
            request = {"deletions": deletions, "upsertions": upsertions}
            response = await self._ask("AlterUserScramCredentials", request, timeout, "controller")
            collect(
                (each["user"], refusal(each, f"alter SCRAM credentials of user {each['user']!r}"))
                for each in response["results"]
            )

    async def _new_token(
        self, owner: str | None, renewers: Iterable[str], max_lifetime_ms: int, timeout: float | None
    ) -> DelegationToken:
        names = list_of_str("renewers", renewers)
        request: Fields = {
            "renewers": [_principal(name) for name in names],
            "maxLifetimeMs": integer("max_lifetime_ms", max_lifetime_ms, -1),
        }
        if optional_string("owner", owner) is not None:
            principal = _principal(owner or "")
            request["ownerPrincipalType"] = principal["principalType"]
            request["ownerPrincipalName"] = principal["principalName"]
        response = await self._ask("CreateDelegationToken", request, timeout, "controller")
        check(response, "create a delegation token")
        times = {name: response[f"{name}Ms"] for name in ("issueTimestamp", "expiryTimestamp", "maxTimestamp")}
        return _token({**response, **times, "renewers": request["renewers"]})

    async def _renew_token(self, hmac: bytes, period_ms: int, timeout: float | None) -> int:
        request = {"hmac": _secret(hmac), "renewPeriodMs": integer("renew_period_ms", period_ms, -1)}
        response = await self._ask("RenewDelegationToken", request, timeout, "controller")
        check(response, "renew a delegation token")
        expires: int = response["expiryTimestampMs"]
        return expires

    async def _expire_token(self, hmac: bytes, period_ms: int, timeout: float | None) -> int:
        request = {"hmac": _secret(hmac), "expiryTimePeriodMs": integer("expiry_period_ms", period_ms, -1)}
        response = await self._ask("ExpireDelegationToken", request, timeout, "controller")
        check(response, "expire a delegation token")
        expires: int = response["expiryTimestampMs"]
        return expires

    async def _tokens(self, owners: Iterable[str] | None, timeout: float | None) -> list[DelegationToken]:
        principals = None if owners is None else [_principal(owner) for owner in list_of_str("owners", owners)]
        response = await self._ask("DescribeDelegationToken", {"owners": principals}, timeout)
        check(response, "describe delegation tokens")
        return [_token(each) for each in response["tokens"]]


class Users(UserCalls):
    """Methods of `Admin` for SCRAM credentials and delegation tokens."""

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, timeout: float | None = None
    ) -> dict[str, list[ScramCredential]]:
        """Return the SCRAM credentials of users, without secrets (Kafka 2.7).

        Args:
            users: Names of users. None means all users with a credential.
            timeout: Seconds to wait.

        Raises:
            ResourceNotFoundError: A user has no credential.
            CombinedError: Several users failed. `error.results` has the results of the users that succeeded.
        """
        return run(self._credentials(users, timeout))

    def alter_user_scram_credentials(
        self, changes: Iterable[ScramUpsertion | ScramDeletion], timeout: float | None = None
    ) -> None:
        """Set and delete SCRAM credentials of users (Kafka 2.7).

        Args:
            changes: Credentials to set and to delete.
            timeout: Seconds to wait.

        Raises:
            ResourceNotFoundError: A credential to delete does not exist.
            UnacceptableCredentialError: A number of iterations is too low or too high.
            CombinedError: The credentials of some users were not changed.

        Example:
            admin.alter_user_scram_credentials([ScramUpsertion("alice", password, ScramMechanism.SHA_512)])
        """
        run(self._change_credentials(changes, timeout))

    def create_delegation_token(
        self,
        renewers: Iterable[str] = (),
        timeout: float | None = None,
        *,
        owner: str | None = None,
        max_lifetime_ms: int = -1,
    ) -> DelegationToken:
        """Create a delegation token (Kafka 1.1). The user must have authenticated by SASL or TLS, not by a token.

        Args:
            renewers: Principals that may renew the token, such as `User:spark`.
            timeout: Seconds to wait.
            owner: Principal whose rights the token gets (Kafka 3.3). The default is the authenticated user.
            max_lifetime_ms: Milliseconds for which the token can be renewed. -1 means the limit of the brokers.

        Raises:
            DelegationTokenAuthDisabledError: The brokers have no `delegation.token.secret.key`.
            DelegationTokenRequestNotAllowedError: The connection is not authenticated, or is authenticated with a
                token.
        """
        return run(self._new_token(owner, renewers, max_lifetime_ms, timeout))

    def renew_delegation_token(self, hmac: bytes, timeout: float | None = None, *, renew_period_ms: int = -1) -> int:
        """Renew a delegation token (Kafka 1.1).

        Args:
            hmac: HMAC of the token.
            timeout: Seconds to wait.
            renew_period_ms: Milliseconds from now until the token expires. -1 means the default of the brokers.

        Returns:
            The time when the token expires, in milliseconds since 1970.

        Raises:
            DelegationTokenNotFoundError: No token has this HMAC.
            DelegationTokenExpiredError: The token has expired.
        """
        return run(self._renew_token(hmac, renew_period_ms, timeout))

    def expire_delegation_token(self, hmac: bytes, timeout: float | None = None, *, expiry_period_ms: int = -1) -> int:
        """Change when a delegation token expires, or revoke it (Kafka 1.1).

        Args:
            hmac: HMAC of the token.
            timeout: Seconds to wait.
            expiry_period_ms: Milliseconds from now until the token expires. -1 revokes the token now.

        Returns:
            The time when the token expires, in milliseconds since 1970.

        Raises:
            DelegationTokenNotFoundError: No token has this HMAC.
        """
        return run(self._expire_token(hmac, expiry_period_ms, timeout))

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, timeout: float | None = None
    ) -> list[DelegationToken]:
        """Return the delegation tokens that the user may see (Kafka 1.1).

        Args:
            owners: Return only tokens of these principals. None means the tokens of all principals.
            timeout: Seconds to wait.

        Raises:
            DelegationTokenAuthDisabledError: The brokers have no `delegation.token.secret.key`.
        """
        return run(self._tokens(owners, timeout))


@documented_by(Users)
class AsyncUsers(UserCalls):
    """Methods of `AsyncAdmin` for SCRAM credentials and delegation tokens."""

    async def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None, timeout: float | None = None
    ) -> dict[str, list[ScramCredential]]:
        return await self._credentials(users, timeout)

    async def alter_user_scram_credentials(
        self, changes: Iterable[ScramUpsertion | ScramDeletion], timeout: float | None = None
    ) -> None:
        await self._change_credentials(changes, timeout)

    async def create_delegation_token(
        self,
        renewers: Iterable[str] = (),
        timeout: float | None = None,
        *,
        owner: str | None = None,
        max_lifetime_ms: int = -1,
    ) -> DelegationToken:
        return await self._new_token(owner, renewers, max_lifetime_ms, timeout)

    async def renew_delegation_token(
        self, hmac: bytes, timeout: float | None = None, *, renew_period_ms: int = -1
    ) -> int:
        return await self._renew_token(hmac, renew_period_ms, timeout)

    async def expire_delegation_token(
        self, hmac: bytes, timeout: float | None = None, *, expiry_period_ms: int = -1
    ) -> int:
        return await self._expire_token(hmac, expiry_period_ms, timeout)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, timeout: float | None = None
    ) -> list[DelegationToken]:
        return await self._tokens(owners, timeout)


def _described(user: Fields) -> list[ScramCredential] | KafkaError:
    return refusal(user, f"describe SCRAM credentials of user {user['user']!r}") or [
        ScramCredential(ScramMechanism(each["mechanism"]), each["iterations"]) for each in user["credentialInfos"]
    ]


def _named(change: ScramUpsertion | ScramDeletion) -> Fields:
    mechanism = ScramMechanism(change.mechanism)
    if mechanism not in HASHES:
        raise ArgumentError("the mechanism has to be SHA_256 or SHA_512")
    return {"name": string("the name of a user", change.user), "mechanism": mechanism}


def _upsertion(change: ScramUpsertion) -> Fields:
    named = _named(change)
    iterations = integer("the number of iterations", change.iterations, 1, INT32)
    salt = token_bytes(SALT_BYTES) if change.salt is None else bytes(change.salt)
    password = string("a password", change.password).encode()
    salted = pbkdf2_hmac(HASHES[named["mechanism"]], password, salt, iterations)
    return {**named, "iterations": iterations, "salt": salt, "saltedPassword": salted}


def _principal(name: str) -> Fields:
    kind, separator, rest = name.partition(":")
    if not separator:
        raise ArgumentError(f"{name!r} is not a principal", hint=f"pass 'User:{name}'")
    return {"principalType": kind, "principalName": rest}


def _secret(hmac: bytes) -> bytes:
    if not isinstance(hmac, (bytes, bytearray, memoryview)):
        raise ArgumentError(f"an HMAC has to be bytes, not {type(hmac).__name__}")
    return bytes(hmac)


def _token(fields: Fields) -> DelegationToken:
    requester = fields.get("tokenRequesterPrincipalName", "")
    return DelegationToken(
        fields["tokenId"],
        f"{fields['principalType']}:{fields['principalName']}",
        f"{fields['tokenRequesterPrincipalType']}:{requester}" if requester else "",
        fields["issueTimestamp"],
        fields["expiryTimestamp"],
        fields["maxTimestamp"],
        [f"{each['principalType']}:{each['principalName']}" for each in fields["renewers"]],
        fields["hmac"],
    )
