#!/usr/bin/env python3
"""A hook that decides: a web server that checks signatures and answers by rules.

Usage: GOALMILL_HOOK_SECRET=… hook.py PORT   (0 picks a free port; it is printed)

An empty object lets everything go on as if there were no hook.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ.get("GOALMILL_HOOK_SECRET", "").encode()
AGE_MAX_S = 300


def plan_generated(data):
    """Refuses plans that delete, and replaces an agent that is too expensive."""
    plan = data["plan"]
    if any(step.get("action") == "delete" for step in plan["steps"]):
        return {"allow": False, "reason": "plans must not delete"}
    expensive = [step for step in plan["steps"] if step.get("agent_type") == "premium"]
    for step in expensive:
        step["agent_type"] = "basic"
    return {"plan": plan, "reason": "basic is good enough"} if expensive else {}


def plan_approved(data):
    """Approves small plans; a person decides about the others."""
    return {"approve": True, "reason": "it is small"} if len(data["plan"]["steps"]) <= 2 else {}


def step_start(data):
    """Holds a step that is not due, refuses secrets, and bounds the number of results."""
    inputs = data["inputs"] or {}
    if inputs.get("not_before_ms", 0) > time.time() * 1000:
        return {"hold_ms": 200, "reason": "it is not time yet"}
    if "password" in inputs:
        return {"allow": False, "reason": "inputs must not hold a password"}
    if inputs.get("results", 0) > 10:
        return {"inputs": {**inputs, "results": 10}, "reason": "ten are enough"}
    return {}


def step_complete(data):
    """Turns an empty result into a failure."""
    if data["outputs"].get("found") == []:
        return {"failure": {"class": "permanent", "code": "NOTHING_FOUND", "message": "the result is empty"}}
    return {}


def revision_needed(data):
    """Gives up when the reason says that there is no hope."""
    if "hopeless" in data["reason"]:
        return {"allow": False, "reason": "there is no hope"}
    return {"strategy": "skip_and_continue"}


RULES = {
    "on_plan_generated": plan_generated,
    "on_plan_approved": plan_approved,
    "on_step_start": step_start,
    "on_step_complete": step_complete,
    "on_revision_needed": revision_needed,
}


def is_genuine(headers, body):
    """Checks the signature: https://www.standardwebhooks.com."""
    sent, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "0")
    if abs(time.time() - int(at)) > AGE_MAX_S:
        return False
    signed = hmac.new(SECRET, f"{sent}.{at}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(signed).decode()
    return any(hmac.compare_digest(expected, one) for one in headers.get("webhook-signature", "").split())


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not is_genuine(self.headers, body):
            return self.reply(401, {})
        call = json.loads(body)
        # Notifications have an `event` in place of `data`, and need no answer.
        self.reply(200, RULES[call["hook"]](call["data"]) if "data" in call else {})

    def reply(self, status, answer):
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Hook)
    print(server.server_port, flush=True)
    server.serve_forever()
