"""Processes on free ports of this machine, for scripts that measure a running installation."""
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def headers():
    """Those of a request with a body of JSON, with GOALMILL_TOKEN if it is set."""
    token = os.environ.get("GOALMILL_TOKEN")
    return {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}


def call(url, body=None, text=False):
    """What a URL answers: JSON, or text. `body` is posted as JSON."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers())
    with urllib.request.urlopen(request, timeout=30) as answer:
        found = answer.read().decode()
    return found if text or not found.startswith(("{", "[")) else json.loads(found)


def wait(is_so, what, seconds=60):
    """Ends the script when it is not so in time. A refused connection counts as no."""
    end = time.monotonic() + seconds
    while True:
        try:
            if is_so():
                return
        except (OSError, urllib.error.URLError):
            pass
        if time.monotonic() > end:
            sys.exit(f"{what}: not within {seconds} s")
        time.sleep(0.1)


class Processes:
    """Processes whose output goes to files of a folder; `stop` kills those that still run."""

    def __init__(self, folder):
        self.folder, self.processes = folder, []

    def start(self, name, *words):
        log = open(self.folder / f"{name}.log", "a")
        process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder,
                                   env={**os.environ, "NO_COLOR": "1"})
        self.processes.append(process)
        return process

    def start_redis(self):
        """The port of a Redis that keeps nothing."""
        port = free_port()
        self.start("redis", os.environ.get("REDIS_SERVER", "redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        wait(lambda: socket.create_connection(("127.0.0.1", port), 1).close() is None, "Redis answers")
        return port

    def stop(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
        for process in self.processes:
            process.wait()
