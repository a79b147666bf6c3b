"""A small OAuth token endpoint for tests."""

from __future__ import annotations

import contextlib
import json
import ssl
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from secured import unsecured_token


class Endpoint:
    """A token endpoint. `answer` returns status and body for the fields of a request."""

    def __init__(self, answer, certificate=None) -> None:
        self.seen = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                endpoint.seen.append(
                    (self.headers.get("Authorization"), {key: value[0] for key, value in fields.items()})
                )
                status, headers, body = answer(self)
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/token"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            with tempfile.NamedTemporaryFile("w") as file:
                file.write("".join(certificate))
                file.flush()
                context.load_cert_chain(file.name)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.url = self.url.replace("http:", "https:")

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def good(_, lasts=3600):
    body = {"access_token": unsecured_token(lasts=lasts), "token_type": "Bearer", "expires_in": lasts}
    return 200, {"Content-Type": "application/json"}, json.dumps(body).encode()
