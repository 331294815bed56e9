"""An agent outside of the cluster that accepts a task and reports the outcome later: python3 agent.py ADDRESS PORT"""
import http.server
import json
import sys
import threading
import urllib.request

REPORT_AFTER_S = 2


def report(callback):
    body = json.dumps({"outputs": {"pages": 3}}).encode()
    headers = {"content-type": "application/json", "goalmill-callback-token": callback["token"]}
    with urllib.request.urlopen(urllib.request.Request(callback["url"], body, headers), timeout=10) as answer:
        print(f"reported to {callback['url']}: {answer.status}", flush=True)


class Agent(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        threading.Timer(REPORT_AFTER_S, report, [request["task"]["callback"]]).start()
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()


http.server.ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Agent).serve_forever()
