"""A proxy in front of the model's server that refuses fields, as servers do that do not know them, and counts calls of tools.

The chat template of SmolLM2 has no place for tools, so the server ignores them. The proxy refuses them, and Goalmill writes them into
the prompt. A grammar of the server then makes the first reply a call, because a model of 135 million parameters seldom writes one by
itself: the model chooses the tool and its arguments, and later whether it calls or answers."""
import http.client
import http.server
import json
import re
import threading

# Where the prompt asks for calls in this form, and the request for no other.
CALL_MARK = "<tool_call>"
CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|$)", re.S)


class ToolProxy:
    """Listens on a free port and passes requests on to `host`.

    - `refuses`: fields of requests that get a 400.
    - `tools`: names and required arguments, by which calls are counted; with these, replies are calls, and later also answers.
    """

    def __init__(self, host, refuses, tools=None):
        self.written = self.parseable = 0
        self.tools = tools or {}
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                sent = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
                refused = [name for name in refuses if name in sent]
                if refused:
                    self.reply(400, json.dumps({"error": {"message": f"{refused[0]} is not supported"}}).encode())
                    return
                offers_tools = proxy.tools and "response_format" not in sent and CALL_MARK in json.dumps(sent["messages"])
                if offers_tools:
                    sent["grammar"] = proxy.grammar(any(message["role"] == "assistant" for message in sent["messages"]))
                upstream = http.client.HTTPConnection(host, timeout=600)
                upstream.request("POST", self.path, json.dumps(sent), {"content-type": "application/json"})
                response = upstream.getresponse()
                status, answer = response.status, response.read()
                upstream.close()
                if status == 200 and offers_tools:
                    proxy.count(json.loads(answer)["choices"][0]["message"]["content"] or "")
                self.reply(status, answer)

            def reply(self, status, answer):
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def grammar(self, may_answer):
        """A call of any of the tools, with any arguments of the right kind, or an answer."""
        def arguments(kinds):
            return ' ", " '.join(f'"\\"{name}\\": " {kind}' for name, kind in kinds.items())
        calls = " | ".join(f'"\\"{name}\\", \\"arguments\\": {{" {arguments(kinds)}' for name, kinds in self.tools.items())
        return (f'root ::= call{" | answer" if may_answer else ""}\n'
                'answer ::= "{\\"result\\": " string "}"\n'
                f'call ::= "<tool_call>\\n{{\\"name\\": " ({calls}) "}}}}\\n</tool_call>"\n'
                'integer ::= [1-9] [0-9]{0,3}\n'
                'string ::= "\\"" [a-zA-Z ]{1,20} "\\""\n')

    def count(self, text):
        for body in CALL.findall(text):
            self.written += 1
            try:
                made = json.loads(body)
            except ValueError:
                continue
            self.parseable += made.get("name") in self.tools and set(made.get("arguments", {})) == set(self.tools[made["name"]])
