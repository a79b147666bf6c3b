"""Creates tokens for Amazon MSK with IAM. The module needs botocore: `pip install 'klamm[aws]'`.

    klamm.Producer(servers, security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_method="aws-msk-iam")

A token is a request to `kafka-cluster:Connect` that klamm signs with AWS Signature Version 4 but never sends. The
credentials for the signature come from botocore, which uses the environment, a profile, a web identity, the container
or the instance. `token_provider` accepts a session with other credentials. `klamm.oauth` decides when a client needs a
new token.
"""

from __future__ import annotations

import base64
import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from klamm._klamm import __version__
from klamm.errors import AuthenticationError, ConfigError
from klamm.tokens import Token

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["token_provider"]

SIGNED_FOR_S = 900
"""Lifetime of a token's signature, in seconds. MSK does not accept a longer lifetime."""
GOOD_FOR_S = 600
"""Assumed lifetime of a token, in seconds.

The assumed lifetime is short, because botocore can return credentials that expire in ten minutes. A token expires
together with its credentials.
"""


def token_provider(region: str | None = None, session: Any = None) -> Callable[[], Token]:
    """Return a function that creates tokens, for `sasl_oauth_token_provider`.

    Args:
        region: Region of the cluster. The default is `AWS_REGION`, `AWS_DEFAULT_REGION` or the region of the profile.
        session: `botocore.session.Session` that finds the credentials. The default is a new session.

    Raises:
        ConfigError: botocore is not installed, or no region is set.

    Example:
        provider = klamm.aws.token_provider("eu-central-1")
        producer = klamm.Producer(servers, sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=provider)
    """
    try:
        import botocore.session
    except ImportError:
        raise ConfigError(
            "tokens for Amazon MSK need botocore, which is not installed", hint="run pip install 'klamm[aws]'"
        ) from None
    if session is None:
        session = botocore.session.Session()
    chosen = region or os.environ.get("AWS_REGION") or session.get_config_variable("region")
    if not chosen:
        raise ConfigError(
            "tokens for Amazon MSK need the region of the cluster, and no region is set",
            hint="set sasl.oauthbearer.aws.region or AWS_REGION",
        )
    return lambda: _token(chosen, session)


def _token(region: str, session: Any) -> Token:
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError

    try:
        credentials = session.get_credentials()
        # botocore renews credentials that are about to expire.
        frozen = credentials and credentials.get_frozen_credentials()
    except BotoCoreError as error:
        raise AuthenticationError(f"no token: cannot get AWS credentials: {error}", hint=_HINT) from None
    if not frozen:
        raise AuthenticationError("no token: there are no AWS credentials", hint=_HINT)
    request = AWSRequest("GET", f"https://kafka.{region}.amazonaws.com/", params={"Action": "kafka-cluster:Connect"})
    now = time.time()
    SigV4QueryAuth(frozen, "kafka-cluster", region, expires=SIGNED_FOR_S).add_auth(request)
    # AWS logs the user agent. The signature does not cover the user agent.
    url = f"{request.url}&User-Agent={quote(f'klamm/{__version__}', safe='')}"
    return Token(base64.urlsafe_b64encode(url.encode()).decode().rstrip("="), now + GOOD_FOR_S)


_HINT = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use a profile, or a role of the instance or container"
