"""Compares the API with its description: schemathesis makes requests from `/openapi.json`, valid and invalid ones for every
route, and checks statuses, schemas, headers, methods and authentication of the answers."""
import json
import os
import pathlib
import re
import secrets
import subprocess
import sys
import time
import urllib.request

PROGRAM, FOLDER = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
TOKEN = secrets.token_hex(32)
SETTINGS = """
[api]
authentication = "required"
admin_token_env = "GOALMILL_ADMIN_TOKEN"
failures_per_minute = 1000000
"""
PLAN = {"name": "described", "steps": [
    {"id": "a", "agent_type": "echo", "inputs": {"n": 1}},
    {"id": "b", "agent_type": "echo", "depends_on": ["a"], "inputs": {"m": "{{ steps.a.outputs.n }}"}},
]}
# What a schema cannot say: a document may have the right form and steps or a model that do not exist (400), and documents in the
# forms of other planners are taken as well (2xx). `plans:validate` answers 200 with the issues. Bulk actions need one of several
# parameters.
CONFIG = r"""
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 429, "5xx"]

[[operations]]
include-name-regex = '^POST /v1/(goals|plans|plans:[a-z]+|actions/(decompose|execute|replan)|plans/\{{id\}}:(approve|edit|replan|fork))$'
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 400, 401, 403, 404, 409, 422, 429, "5xx"]
[operations.checks.negative_data_rejection]
expected-statuses = ["2xx", 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 428, 429, "5xx"]

# Only a session of an older client has a stream that can be read or ended; without one the protocol of MCP wants 405. A client
# must accept both JSON and a stream (400).
[[operations]]
include-name-regex = '^[A-Z]+ /mcp$'
[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 400, 401, 403, 404, 405, 409, 429, "5xx"]

[[operations]]
include-name-regex = '^GET /v1/plans/\{{id\}}'
[operations.parameters]
"path.id" = "{plan}"
"path.step" = "a"

[[operations]]
include-name-regex = '^GET .*\{{(agent_type|name)\}}$'
[operations.parameters]
"path.agent_type" = "echo"
"path.name" = "plan"
"""


class Goalmill:
    """`goalmill dev` with authentication on a free port, and a plan that has ended."""

    def __init__(self):
        (FOLDER / "goalmill.toml").write_text(SETTINGS)
        self.log = FOLDER / "log"
        words = [PROGRAM, "dev", "--listen", "127.0.0.1:0", "--metrics", "off", "--config", FOLDER / "goalmill.toml"]
        environment = {**os.environ, "NO_COLOR": "1", "GOALMILL_ADMIN_TOKEN": TOKEN, "GOALMILL_TOKEN": TOKEN}
        self.process = subprocess.Popen(words, stdout=self.log.open("w"), stderr=subprocess.STDOUT, env=environment)
        self.url = self.wait(lambda: (re.search(r"(http://127\.0\.0\.1:\d+)/v1", self.log.read_text()) or [None, None])[1])
        self.plan = self.call("/v1/plans", PLAN)["plan_id"]
        self.wait(lambda: self.call(f"/v1/plans/{self.plan}").get("status") == "completed")

    def wait(self, look):
        end = time.monotonic() + 120
        while not (found := look()):
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                sys.exit(f"goalmill dev does not start, or its plan does not end: {self.log.read_text()}")
            time.sleep(0.1)
        return found

    def call(self, path, body=None):
        headers = {"content-type": "application/json", "authorization": f"Bearer {TOKEN}"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=60) as answer:
            return json.load(answer)


def main():
    goalmill = Goalmill()
    (FOLDER / "schemathesis.toml").write_text(CONFIG.format(plan=goalmill.plan))
    words = [FOLDER / "venv/bin/st", "--config-file", FOLDER / "schemathesis.toml", "run", f"{goalmill.url}/openapi.json",
             "--checks", "all", "--header", f"Authorization: Bearer {TOKEN}", "--phases", "examples,coverage,fuzzing,stateful", "--max-examples",
             "5", "--generation-deterministic", "--continue-on-failure", "--no-shrink", "--request-timeout", "30", "--no-color",
             *sys.argv[3:]]
    try:
        with subprocess.Popen(words, cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as st:
            text = []
            for line in st.stdout:
                print(line, end="", flush=True)
                text.append(line)
        alive = goalmill.process.poll() is None
    finally:
        goalmill.process.kill()
        goalmill.process.wait()
    counted = re.search(r"([\d,]+) generated(?:, ([\d,]+) found ([\d,]+) unique)?(?:, ([\d,]+) passed)?(?:, ([\d,]+) skipped)?", "".join(text))
    if not counted or not alive:
        sys.exit("schema: the run did not end" if alive else "schema: the server ended")
    made, failed, _, _, skipped = (int((n or "0").replace(",", "")) for n in counted.groups())
    print(f"schema: {made - failed - skipped} passed, {failed} failed, {skipped} skipped")
    sys.exit(st.returncode or (1 if failed else 0))


main()
