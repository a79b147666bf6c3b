"""Tokens for Amazon MSK with IAM (`pip install klamm[aws]`).

    klamm.Producer(servers, security_protocol="SASL_SSL", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_method="aws-msk-iam")

MSK takes a request to `kafka-cluster:Connect`, signed with version 4 of AWS's signatures and never sent, for a token. botocore
signs it with the credentials it finds: environment, profile, web identity, container, instance. `token_provider` makes the
same of a session of one's own.
"""

from __future__ import annotations

import base64
import os
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from klamm._klamm import __version__
from klamm.errors import AuthenticationError, ConfigError
from klamm.oauth import Token

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["token_provider"]

SIGNED_FOR_S = 900
"""As long as MSK takes a token at most."""
GOOD_FOR_S = 600
"""How long one is held to be good. botocore may give out credentials that end in ten minutes, and a token with them."""


def token_provider(region: str | None = None, session: Any = None) -> Callable[[], Token]:
    """Return what `sasl_oauth_token_provider` takes, for a region and a `botocore.session.Session`.

    Without a region it is that of `AWS_REGION`, `AWS_DEFAULT_REGION` or the profile.
    """
    try:
        import botocore.session
    except ImportError:
        raise ConfigError(
            "tokens for Amazon MSK are signed by botocore, which is not installed", hint="pip install klamm[aws]"
        ) from None
    if session is None:
        session = botocore.session.Session()
    place = region or os.environ.get("AWS_REGION") or session.get_config_variable("region")
    if not place:
        raise ConfigError(
            "tokens for Amazon MSK are for a region, and none is set",
            hint="set sasl.oauthbearer.aws.region or AWS_REGION to the region of the cluster",
        )
    return lambda: _token(place, session)


def _token(region: str, session: Any) -> Token:
    from botocore.auth import SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.exceptions import BotoCoreError

    try:
        credentials = session.get_credentials()
        # They may have an end, and are asked for anew when it is near.
        frozen = credentials and credentials.get_frozen_credentials()
    except BotoCoreError as error:
        raise AuthenticationError(f"no token: AWS gave no credentials: {error}", hint=_HINT) from None
    if not frozen:
        raise AuthenticationError("no token: there are no AWS credentials", hint=_HINT)
    request = AWSRequest("GET", f"https://kafka.{region}.amazonaws.com/", params={"Action": "kafka-cluster:Connect"})
    now = time.time()
    SigV4QueryAuth(frozen, "kafka-cluster", region, expires=SIGNED_FOR_S).add_auth(request)
    # Who signed it is for AWS's logs, and no part of what is signed.
    url = f"{request.url}&User-Agent={quote(f'klamm/{__version__}', safe='')}"
    return Token(base64.urlsafe_b64encode(url.encode()).decode().rstrip("="), now + GOOD_FOR_S)


_HINT = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role of the instance or container"
