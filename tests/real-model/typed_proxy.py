"""A proxy in front of a model's server that parses each request with the types of the official packages `openai` and `anthropic`.

What these types do not know, or refuse, is an entry of `violations`; the request is passed on all the same."""
import http.client
import http.server
import json
import threading
import typing

import pydantic
from anthropic.types import message_create_params
from openai.types.chat import completion_create_params

FORMS = {
    "/v1/chat/completions": (completion_create_params.CompletionCreateParamsNonStreaming,
                             completion_create_params.CompletionCreateParamsStreaming),
    "/v1/messages": (message_create_params.MessageCreateParamsNonStreaming,
                     message_create_params.MessageCreateParamsStreaming),
}
ADAPTERS = {path: [pydantic.TypeAdapter(form) for form in forms] for path, forms in FORMS.items()}


def plain(value):
    """A parsed value with all of its lazy parts."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (str, bytes, int, float, bool, type(None))):
        return value
    if isinstance(value, typing.Iterable):
        return [plain(part) for part in value]
    return value


def unknown(sent, parsed, place=""):
    """Places of what was sent and is not in the parsed value."""
    if isinstance(sent, dict) and isinstance(parsed, dict):
        for key, part in sent.items():
            if key in parsed:
                yield from unknown(part, parsed[key], f"{place}/{key}")
            else:
                yield f"{place}/{key}"
    elif isinstance(sent, list) and isinstance(parsed, list):
        for at, (part, other) in enumerate(zip(sent, parsed)):
            yield from unknown(part, other, f"{place}/{at}")


def check(path, body):
    """What is wrong with a request."""
    if path not in ADAPTERS:
        return [f"there is no {path}"]
    is_stream = body.get("stream") is True
    try:
        parsed = plain(ADAPTERS[path][is_stream].validate_python(body))
    except pydantic.ValidationError as error:
        return [f"{path}: {'/'.join(map(str, issue['loc']))}: {issue['msg']}" for issue in error.errors()[:5]]
    return [f"{path}: {place} is unknown" for place in unknown(body, parsed)]


class Proxy:
    """Listens on a free port; `host` is that of the model's server."""

    def __init__(self, host):
        self.violations, self.requests, self.features = [], 0, set()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                sent = self.rfile.read(int(self.headers.get("content-length", 0)))
                body = json.loads(sent)
                proxy.requests += 1
                proxy.violations += check(self.path, body)
                proxy.features |= {f"{self.path} {name}" for name in body}
                upstream = http.client.HTTPConnection(host, timeout=1800)
                upstream.request("POST", self.path, sent, {"content-type": "application/json"})
                answer = upstream.getresponse()
                self.send_response(answer.status)
                self.send_header("content-type", answer.headers.get("content-type", "application/json"))
                self.send_header("connection", "close")
                self.end_headers()
                try:
                    while part := answer.read1(4096):
                        self.wfile.write(part)
                        self.wfile.flush()
                except ConnectionError:
                    pass  # The client has enough.
                self.close_connection = True
                upstream.close()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"
