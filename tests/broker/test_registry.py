"""The clients of schema registries, blocking and asyncio, against the dev registry and Apicurio Registry."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from klamm.errors import (
    ArgumentError,
    AuthenticationError,
    ConfigError,
    KafkaError,
    KafkaTimeoutError,
    NetworkError,
)
from klamm.oauth import Token
from klamm.registry import (
    AsyncSchemaRegistry,
    IncompatibleSchemaError,
    InvalidSchemaError,
    Reference,
    RegistryAuthenticationError,
    RegistryTimeoutError,
    RegistryUnavailableError,
    Schema,
    SchemaNotFoundError,
    SchemaRegistry,
    SchemaRegistryError,
)
from klamm.registry.dev import DevRegistry
from klamm.testing import CertificateAuthority

FAST = {"retries_wait_ms": 1, "retries_max_wait_ms": 1}


def record(*fields: dict, name: str = "Order") -> Schema:
    return Schema(json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}))


ID = {"name": "id", "type": "long"}
NOTE = {"name": "note", "type": "string", "default": ""}
PRICE = {"name": "price", "type": "double"}
JSON = Schema('{"type": "object", "title": "Order", "properties": {"id": {"type": "integer"}}}', "JSON")
PROTO = Schema('syntax = "proto3";\npackage shop;\nmessage Order {\n  int64 id = 1;\n}\n', "PROTOBUF")


@pytest.fixture
def dev():
    with DevRegistry() as running:
        yield running


@contextmanager
def server(answer):
    """Run an HTTP server that calls `answer(handler)` for every request."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        do_POST = do_GET  # noqa: N815 - the name in the standard library

        def log_message(self, *_):
            pass

    running = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}"
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def respond(handler, status, body, **headers):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.mark.parametrize("schema", [record(ID), JSON, PROTO], ids=["avro", "json", "protobuf"])
def test_a_registered_schema_is_found_by_id_version_and_text(registry, topic, schema):
    with SchemaRegistry(registry.url) as client:
        registered = client.register(topic, schema)
        assert client.register(topic, schema).id == registered.id
        client.clear_cache()
        by_id = client.get_by_id(registered.id)
        assert by_id.schema.type == schema.type
        version = client.get_version(topic, 1)
        assert (version.subject, version.version, version.id) == (topic, 1, registered.id)
        assert client.get_version(topic) == client.get_version(topic, "latest") == client.get_version(topic, -1)
        found = client.lookup(topic, schema)
        assert (found.version, found.id) == (1, registered.id)
        assert client.versions(topic) == [1]
        assert topic in client.subjects()
        assert topic in client.subjects(prefix=topic)
        assert (topic, 1) in client.versions_of(registered.id)
        assert {"AVRO", "JSON", "PROTOBUF"} <= set(client.schema_types())


def test_a_guid_finds_its_schema(dev):
    with SchemaRegistry(dev.url) as client:
        registered = client.register("s", record(ID))
        client.clear_cache()
        assert client.get_by_guid(registered.guid).schema == client.get_by_id(registered.id).schema
        with pytest.raises(SchemaNotFoundError):
            client.get_by_guid("00000000-0000-0000-0000-000000000000")


def test_the_asyncio_client_has_the_same_results(registry, topic):
    async def run():
        async with AsyncSchemaRegistry(registry.url) as client:
            registered = await client.register(topic, record(ID))
            assert (await client.get_by_id(registered.id)).schema.type == "AVRO"
            assert (await client.get_version(topic)).version == 1
            assert (await client.lookup(topic, record(ID))).id == registered.id
            assert await client.versions(topic) == [1]
            assert topic in await client.subjects()
            assert await client.check(topic, record(ID, NOTE))
            await client.set_config("FULL", topic)
            assert (await client.get_config(topic))["compatibilityLevel"] == "FULL"
            await client.delete_config(topic)
            assert await client.delete_version(topic, 1) == 1
            with pytest.raises(SchemaNotFoundError):
                await client.get_version(topic)

    asyncio.run(run())


def test_a_reference_is_resolved_with_what_it_references(registry, topic):
    leaf, middle = f"{topic}-leaf", f"{topic}-middle"
    with SchemaRegistry(registry.url) as client:
        client.register(leaf, record(ID, name="Leaf"))
        references = (Reference("shop.Leaf", leaf, 1),)
        client.register(
            middle, Schema(record({"name": "leaf", "type": "Leaf"}, name="Middle").text, "AVRO", references)
        )
        references = (Reference("shop.Middle", middle, 1),)
        top = Schema(record({"name": "middle", "type": "shop.Middle"}, name="Top").text, "AVRO", references)
        registered = client.register(topic, top)
        client.clear_cache()
        from klamm.waiting import run

        found = run(client._resolve(client.get_by_id(registered.id).schema))
        assert list(found) == ["shop.Leaf", "shop.Middle"]
        assert client.referenced_by(middle, 1) == [registered.id]
        with pytest.raises(InvalidSchemaError):
            client.delete_version(middle, 1)


def test_a_missing_reference_is_an_invalid_schema(registry, topic):
    schema = Schema(record({"name": "x", "type": "shop.Gone"}).text, "AVRO", (Reference("shop.Gone", "gone", 1),))
    with SchemaRegistry(registry.url, **FAST) as client, pytest.raises(SchemaRegistryError):
        client.register(topic, schema)


def test_an_incompatible_schema_is_refused_and_a_check_says_why(registry, topic):
    with SchemaRegistry(registry.url) as client:
        client.set_config("BACKWARD", topic)
        client.register(topic, record(ID))
        with pytest.raises(IncompatibleSchemaError) as caught:
            client.register(topic, record(ID, PRICE))
        assert topic in str(caught.value)
        assert caught.value.status == 409
        result = client.check(topic, record(ID, PRICE), "latest")
        assert not result
        assert result.messages or registry.name == "real-registry"  # Apicurio gives no reasons
        assert client.check(topic, record(ID, NOTE), "latest")
        client.set_config("NONE", topic)
        assert client.register(topic, record(ID, PRICE))
        assert client.versions(topic) == [1, 2]


def test_a_subject_that_does_not_exist_accepts_every_schema(dev):
    with SchemaRegistry(dev.url) as client:
        assert client.check("new", record(ID))
        assert client.check("new", record(ID), "latest")
        with pytest.raises(InvalidSchemaError):
            client.check("new", Schema('{"type": "nothing"}'))


def test_configuration_and_mode_of_a_subject_and_of_the_registry(dev):
    with SchemaRegistry(dev.url) as client:
        assert client.get_config() == {"compatibilityLevel": "BACKWARD"}
        assert client.get_config("s")["compatibilityLevel"] == "BACKWARD"
        with pytest.raises(SchemaNotFoundError):
            client.get_config("s", default_to_global=False)
        client.set_config("FORWARD_TRANSITIVE", "s", normalize=True)
        assert client.get_config("s") == {"compatibilityLevel": "FORWARD_TRANSITIVE", "normalize": True}
        client.delete_config("s")
        assert client.get_config("s")["compatibilityLevel"] == "BACKWARD"
        with pytest.raises(InvalidSchemaError):
            client.set_config("SIDEWAYS")
        assert client.get_mode() == client.get_mode("s") == "READWRITE"
        client.set_mode("READONLY", "s")
        assert client.get_mode("s") == "READONLY"
        with pytest.raises(InvalidSchemaError, match="42205"):
            client.register("s", record(ID))
        client.delete_mode("s")
        assert client.register("s", record(ID))
        with pytest.raises(InvalidSchemaError):
            client.set_mode("BOGUS")


def test_a_softly_deleted_schema_is_still_readable_by_id_and_a_permanently_deleted_one_is_gone(dev):
    with SchemaRegistry(dev.url) as client:
        registered = client.register("s", record(ID))
        assert client.delete_version("s", "latest") == 1
        assert client.get_by_id(registered.id)
        with pytest.raises(SchemaNotFoundError):
            client.get_version("s", 1)
        assert client.get_version("s", 1, deleted=True).id == registered.id
        assert client.subjects() == []
        assert client.subjects(deleted=True) == ["s"]
        assert client.register("s", record(ID)).version == 2
        assert client.delete_subject("s", permanent=True) in ([2], [1, 2])
        client.clear_cache()
        with pytest.raises(SchemaNotFoundError, match="40403"):
            client.get_by_id(registered.id)
        with pytest.raises(SchemaNotFoundError):
            client.delete_subject("s")


def test_deleting_the_latest_version_permanently_deletes_only_that_version(dev):
    with SchemaRegistry(dev.url) as client:
        client.register("s", record(ID))
        client.register("s", record(ID, NOTE))
        assert client.delete_version("s", "latest", permanent=True) == 2
        assert client.versions("s", deleted=True) == [1]


def test_an_unknown_id_is_not_found(registry):
    with SchemaRegistry(registry.url) as client, pytest.raises(SchemaNotFoundError, match="reading schema 987654") as e:
        client.get_by_id(987654)
    assert e.value.status == 404


def test_a_schema_that_does_not_parse_is_invalid(registry, topic):
    with SchemaRegistry(registry.url, **FAST) as client, pytest.raises(InvalidSchemaError):
        client.register(topic, Schema('{"type": "record", "name": "X"}'))


def test_subjects_with_any_characters_are_found(registry, topic):
    subject = f"{topic}/a b?c=d&é%2F#x"
    with SchemaRegistry(registry.url) as client:
        client.register(subject, record(ID))
        assert client.get_version(subject).subject == subject


def test_schemas_are_requested_once(dev):
    with SchemaRegistry(dev.url) as client:
        registered = client.register("s", record(ID))
        count = len(dev.requests())
        for _ in range(3):
            client.get_by_id(registered.id)
            client.register("s", record(ID))
        client.get_version("s", 1)
        client.get_version("s", 1)
        assert len(dev.requests()) == count + 1
        client.get_version("s")
        client.get_version("s")
        assert len(dev.requests()) == count + 3


def test_the_cache_is_bounded_and_the_latest_version_expires(dev):
    from klamm.registry.cache import Cache

    cache = Cache(2)
    for number in range(3):
        cache.put(("id", number), str(number))
    assert [cache.get(("id", number)) for number in range(3)] == [None, "1", "2"]
    cache.put("latest", "x", lifetime=0)
    assert cache.get("latest") is None
    from klamm.waiting import run

    with SchemaRegistry(dev.url, cache_latest_ttl_sec=0) as client:
        client.register("s", record(ID))
        run(client._cached_latest("s"))
        client.register("s", record(ID, NOTE))
        assert run(client._cached_latest("s")).version == 2
    with SchemaRegistry(dev.url) as client:
        assert run(client._cached_latest("s")).version == 2


def test_a_thousand_tasks_that_need_a_schema_cause_one_request(dev):
    with SchemaRegistry(dev.url) as client:
        registered = client.register("s", record(ID))

    async def run():
        dev.fault("delay", seconds=0.2)
        async with AsyncSchemaRegistry(dev.url) as client:
            tasks = [asyncio.create_task(client.get_by_id(registered.id)) for _ in range(1000)]
            await asyncio.sleep(0)
            tasks[0].cancel()  # the first caller, whose request the others share
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(found[0], asyncio.CancelledError)
            assert all(each == found[1] for each in found[1:])

    count = len(dev.requests())
    asyncio.run(run())
    assert len(dev.requests()) == count + 1


def test_threads_that_need_a_schema_cause_one_request(dev):
    with SchemaRegistry(dev.url) as client, ThreadPoolExecutor(20) as threads:
        registered = client.register("s", record(ID))
        client.clear_cache()
        count = len(dev.requests())
        dev.fault("delay", seconds=0.3)
        assert len(set(threads.map(lambda _: client.get_by_id(registered.id).id, range(20)))) == 1
        assert len(dev.requests()) == count + 1
        dev.fault("error", status=404, times=None)
        client.clear_cache()
        errors = [each.exception() for each in [threads.submit(client.get_by_id, 7) for _ in range(20)]]
        assert {type(error) for error in errors} == {SchemaNotFoundError}
        assert len({id(error) for error in errors}) == 20


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_a_server_error_is_retried(dev, status):
    with SchemaRegistry(dev.url, **FAST) as client:
        dev.fault("error", status=status, times=2)
        assert client.register("s", record(ID)).version == 1
        assert len(dev.requests()) == 3


def test_a_lost_connection_is_retried(dev):
    with SchemaRegistry(dev.url, **FAST) as client:
        dev.fault("drop", times=2)
        assert client.register("s", record(ID)).version == 1


def test_errors_that_stay_are_raised_with_the_last_reason(dev):
    with SchemaRegistry(dev.url, max_retries=2, **FAST) as client:
        dev.fault("error", status=503, times=None)
        with pytest.raises(RegistryUnavailableError, match=r"reading schema 1 failed.*\(3 attempts\)") as caught:
            client.get_by_id(1)
        assert (caught.value.status, caught.value.url) == (503, dev.url)
        assert isinstance(caught.value, NetworkError)
        assert len(dev.requests()) == 3
        dev.clear_faults()
        client.register("s", record(ID))  # the client works again


def test_the_next_address_answers_for_one_that_is_down(dev):
    with socket.create_server(("127.0.0.1", 0)) as free:
        down = f"http://127.0.0.1:{free.getsockname()[1]}"
    with SchemaRegistry([down, dev.url], max_retries=0) as client:
        assert client.register("s", record(ID)).version == 1
        dev.fault("error", status=500)
        with pytest.raises(RegistryUnavailableError, match=r"\(2 attempts\)"):
            client.get_version("s")
        assert client.get_version("s").version == 1


@pytest.mark.parametrize("style", ["blocking", "asyncio"])
def test_a_registry_that_does_not_answer_times_out(dev, style):
    dev.fault("delay", seconds=60, times=None)
    config = {"timeout": 0.1, "max_retries": 1, **FAST}
    if style == "blocking":
        with SchemaRegistry(dev.url, **config) as client, pytest.raises(RegistryTimeoutError, match=r"0.1 s") as caught:
            client.get_by_id(1)
    else:

        async def run():
            async with AsyncSchemaRegistry(dev.url, **config) as client:
                await client.get_by_id(1)

        with pytest.raises(RegistryTimeoutError, match=r"0.1 s") as caught:
            asyncio.run(run())
    assert isinstance(caught.value, KafkaTimeoutError)
    assert "timeout" in caught.value.hint


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("drops", [b" ", b"X-More: 1\r\n"])
def test_a_response_that_never_ends_times_out(is_async, drops):
    stop = threading.Event()

    def drip(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        if drops == b" ":
            handler.end_headers()
        else:
            handler.flush_headers()
        while not stop.wait(0.02):
            try:
                handler.wfile.write(drops)
            except OSError:
                return

    async def ask(url):
        async with AsyncSchemaRegistry(url, timeout=0.3, max_retries=0) as client:
            await client.get_by_id(1)

    with server(drip) as url, SchemaRegistry(url, timeout=0.3, max_retries=0) as client:
        try:
            for _ in range(2):  # the second call on a new connection
                began = time.monotonic()
                with pytest.raises(RegistryTimeoutError, match=r"0.3 s"):
                    asyncio.run(ask(url)) if is_async else client.get_by_id(1)
                assert time.monotonic() - began < 5
        finally:
            stop.set()


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b"[]",
        b"7",
        b'{"id": "x"}',
        b'{"schema": 7}',
        b'{"schema": "1", "references": [1]}',
        b"\xff",
        b"[" * 100_000,
    ],
)
def test_garbage_is_a_typed_error(body):
    with server(lambda handler: respond(handler, 200, body)) as url, SchemaRegistry(url, **FAST) as client:
        for call in (
            lambda: client.get_by_id(1),
            lambda: client.get_version("s"),
            lambda: client.check("s", record(ID)),
            client.get_config,
        ):
            with pytest.raises(KafkaError):
                call()


def test_garbage_of_the_dev_registry_is_an_error_with_a_hint(dev):
    dev.fault("garbage")
    with SchemaRegistry(dev.url) as client, pytest.raises(SchemaRegistryError, match="not JSON") as caught:
        client.subjects()
    assert "url" in caught.value.hint


def test_a_redirect_is_not_followed():
    asked = []

    def redirect(handler):
        asked.append(handler.path)
        respond(handler, 302, b"", Location="http://127.0.0.1:1/elsewhere")

    config = {"basic_auth_user_info": "alice:hunter2"}
    with (
        server(redirect) as url,
        SchemaRegistry(url, **config) as client,
        pytest.raises(SchemaRegistryError, match="302"),
    ):
        client.subjects()
    assert asked == ["/subjects"]


class TestCredentials:
    """Authentication, and that no secret is shown."""

    SECRET = "hunter2"

    @pytest.fixture
    def secured(self):
        with DevRegistry(users={"alice": self.SECRET, "bob": "a:b@é"}, tokens=("t0k3n",)) as running:
            yield running

    @pytest.mark.parametrize("where", ["config", "url", "dotted", "java"])
    def test_basic_authentication(self, secured, where):
        address = secured.url.replace("http://", f"http://alice:{self.SECRET}@")
        client = {
            "config": lambda: SchemaRegistry(secured.url, basic_auth_user_info=f"alice:{self.SECRET}"),
            "url": lambda: SchemaRegistry(address),
            "dotted": lambda: SchemaRegistry({"url": secured.url, "basic.auth.user.info": f"alice:{self.SECRET}"}),
            "java": lambda: SchemaRegistry(
                {"schema.registry.url": secured.url, "schema.registry.basic.auth.user.info": f"alice:{self.SECRET}"}
            ),
        }[where]()
        with client:
            assert client.subjects() == []
            assert self.SECRET not in repr(client) + repr(client._settings)

    def test_a_password_with_any_characters(self, secured):
        with SchemaRegistry(secured.url, basic_auth_user_info="bob:a:b@é") as client:
            assert client.subjects() == []

    def test_wrong_credentials_fail_at_once_and_are_not_shown(self, secured):
        with (
            SchemaRegistry(secured.url, basic_auth_user_info="alice:s3cr3t") as client,
            pytest.raises(RegistryAuthenticationError) as caught,
        ):
            client.get_by_id(1)
        assert isinstance(caught.value, AuthenticationError)
        assert "s3cr3t" not in str(caught.value) + repr(caught.value)
        assert len(secured.requests()) == 1

    def test_a_static_token(self, secured):
        with SchemaRegistry(secured.url, bearer_auth_token="t0k3n", bearer_auth_logical_cluster="lsrc-1") as client:
            assert client.subjects() == []

    def test_a_token_of_a_function_is_kept_and_renewed_after_a_401(self, secured):
        calls = []

        def provider():
            calls.append(1)
            return Token("old" if len(calls) == 1 else "t0k3n", time.time() + 3600)

        with SchemaRegistry(secured.url, bearer_auth_token_provider=provider) as client:
            assert client.subjects() == []
            assert client.subjects() == []
        assert len(calls) == 2

    def test_a_function_that_fails_is_an_authentication_error(self, secured):
        def provider():
            raise RuntimeError("no")

        with (
            SchemaRegistry(secured.url, bearer_auth_token_provider=provider) as client,
            pytest.raises(RegistryAuthenticationError, match="RuntimeError"),
        ):
            client.subjects()

    @pytest.mark.parametrize("style", ["blocking", "asyncio"])
    def test_client_credentials(self, secured, style):
        seen = []

        def endpoint(handler):
            seen.append(handler.headers["Authorization"])
            body = b'{"access_token": "t0k3n", "expires_in": 3600}'
            respond(handler, 200 if seen[-1].endswith("=") else 401, body)

        with server(endpoint) as url:
            config = {
                "bearer_auth_credentials_source": "OAUTHBEARER",
                "bearer_auth_issuer_endpoint_url": url,
                "bearer_auth_client_id": "id",
                "bearer_auth_client_secret": self.SECRET,
                "bearer_auth_scope": "registry",
            }
            if style == "blocking":
                with SchemaRegistry(secured.url, **config) as client:
                    assert client.subjects() == client.subjects() == []
            else:

                async def run():
                    async with AsyncSchemaRegistry(secured.url, **config) as client:
                        await asyncio.gather(*(client.subjects() for _ in range(10)))

                asyncio.run(run())
        assert len(seen) == 1

    def test_a_token_endpoint_that_refuses_is_named_without_the_secret(self, secured):
        with server(lambda handler: respond(handler, 401, b'{"error": "invalid_client"}')) as url:
            config = {"bearer_auth_client_id": "id", "bearer_auth_client_secret": self.SECRET}
            with (
                SchemaRegistry(secured.url, bearer_auth_issuer_endpoint_url=url, **config) as client,
                pytest.raises(RegistryAuthenticationError, match="401") as caught,
            ):
                client.subjects()
        assert self.SECRET not in str(caught.value)
        assert "bearer.auth" in caught.value.hint

    @pytest.mark.parametrize(
        "config",
        [
            {"url": f"http://u:{SECRET}@h:x"},
            {"url": f"ftp://u:{SECRET}@h"},
            {"url": f"u:{SECRET}@h:8081"},
            {"url": f"http://u:{SECRET}@h", "basic.auth.user.info": f"a:{SECRET}"},
            {"url": "http://h", "basic.auth.user.info": SECRET},
            {"url": "http://h", "bearer.auth.token": f"{SECRET}\n"},
            {"url": "http://h", "bearer.auth.token": SECRET, "basic.auth.user.info": f"a:{SECRET}"},
            {"url": "http://h", "bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.client.secret": SECRET},
            {"url": "http://h", "bearer.auth.issuer.endpoint.url": f"http://u:{SECRET}@h", "bearer.auth.client.id": "i"}
            | {"bearer.auth.client.secret": SECRET},
            {"url": "http://h", "ssl.certificate.location": "/nowhere", "ssl.key.password": SECRET},
        ],
    )
    def test_an_invalid_configuration_is_refused_without_its_secrets(self, config):
        with pytest.raises((ConfigError, ArgumentError)) as caught:
            SchemaRegistry(config)
        assert self.SECRET not in str(caught.value)


class TestTls:
    """HTTPS with a private authority and client certificates."""

    @pytest.fixture
    def files(self, tmp_path):
        authority, home = CertificateAuthority(), tmp_path
        for name, text in zip(("client.pem", "client.key"), authority.issue("client"), strict=True):
            (home / name).write_text(text)
        (home / "ca.pem").write_text(authority.pem)
        (home / "other.pem").write_text(CertificateAuthority().pem)
        pair = authority.issue("registry", ["localhost", "127.0.0.1"])
        with DevRegistry(tls=pair, client_ca=authority.pem) as running:
            yield running.url, home

    @pytest.mark.parametrize("style", ["blocking", "asyncio"])
    def test_a_client_certificate_of_a_private_authority(self, files, style):
        url, home = files
        config = {
            "ssl_ca_location": str(home / "ca.pem"),
            "ssl_certificate_location": str(home / "client.pem"),
            "ssl_key_location": str(home / "client.key"),
        }
        if style == "blocking":
            with SchemaRegistry(url, **config) as client:
                assert client.schema_types()
        else:

            async def run():
                async with AsyncSchemaRegistry(url, **config) as client:
                    assert await client.schema_types()

            asyncio.run(run())

    @pytest.mark.parametrize("authority", ["other.pem", "ca.pem"])
    def test_an_unknown_authority_and_a_missing_certificate_are_errors(self, files, authority):
        url, home = files
        with (
            SchemaRegistry(url, ssl_ca_location=str(home / authority), max_retries=0) as client,
            pytest.raises(RegistryUnavailableError) as caught,
        ):
            client.subjects()
        assert "ssl." in caught.value.hint or authority == "ca.pem"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, ArgumentError),
        ({"url": 7}, ArgumentError),
        ({"url": ""}, ConfigError),
        ({"url": "localhost:8081"}, ConfigError),
        ({"url": "http://h", "timeout": "soon"}, ArgumentError),
        ({"url": "http://h", "timeout": 0}, ConfigError),
        ({"url": "http://h", "max_retries": -1}, ConfigError),
        ({"url": "http://h", "cache_capacity": 0}, ConfigError),
        ({"url": "http://h", "bearer_auth_credentials_source": "MAGIC"}, ConfigError),
        ({"url": "http://h", "basic_auth_credentials_source": "SASL_INHERIT"}, ConfigError),
        ({"url": "http://h", "ssl_key_location": "/x"}, ConfigError),
        ({"url": "http://h", "ssl_ca_location": "/nowhere"}, ConfigError),
        ({"url": "http://h", "ssl_ca_location": 7}, ArgumentError),
        ({"url": "http://h", "bearer_auth_token_provider": 7}, ArgumentError),
        ({"url": "http://h", "no_such_key": 1}, ConfigError),
    ],
)
def test_invalid_arguments(arguments, error):
    with pytest.raises(error):
        SchemaRegistry(**arguments)


def test_an_unknown_key_names_the_one_that_was_meant():
    with pytest.raises(ConfigError, match="ssl_calocation") as caught:
        SchemaRegistry("http://h", ssl_calocation="x")
    assert "ssl.ca.location" in caught.value.hint


def test_invalid_arguments_of_methods(dev):
    with SchemaRegistry(dev.url) as client:
        for call in (
            lambda: client.register("s", '{"type": "string"}'),
            lambda: client.register("", record(ID)),
            lambda: client.register(7, record(ID)),
            lambda: client.get_version("s", "newest"),
            lambda: client.get_version("s", 0),
            lambda: client.get_by_id("1"),
            lambda: Schema(7),
        ):
            with pytest.raises((ArgumentError, ConfigError)):
                call()
    assert dev.requests() == []
