"""Gives Kubernetes the figures of an autoscaler, as an adapter for external metrics: python3 figures.py ADDRESS PORT CERTIFICATE KEY API

`goalmill_scaling_desired_slots` of an agent type is `desired_slots` of the scheduler's `/v1/scaling/{agent_type}`.
"""
import datetime
import http.server
import json
import pathlib
import ssl
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from processes import call

METRIC = "goalmill_scaling_desired_slots"
GROUP = "external.metrics.k8s.io/v1beta1"


def answer(address):
    """What Kubernetes asks for: which figures there are, or the one of an agent type."""
    path = urllib.parse.urlsplit(address)
    if path.path == f"/apis/{GROUP}":
        resource = {"name": METRIC, "singularName": "", "namespaced": True, "kind": "ExternalMetricValueList", "verbs": ["get"]}
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP, "resources": [resource]}
    if not path.path.endswith(f"/{METRIC}"):
        return None
    labels = dict(part.split("=") for part in urllib.parse.parse_qs(path.query)["labelSelector"][0].split(","))
    slots = call(f"{api}/v1/scaling/{labels['agent_type']}")["desired_slots"]
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    item = {"metricName": METRIC, "metricLabels": labels, "timestamp": now, "value": str(slots)}
    return {"kind": "ExternalMetricValueList", "apiVersion": GROUP, "metadata": {}, "items": [item]}


class Adapter(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = answer(self.path)
        body = json.dumps(found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


own_address, port, certificate, key, api = sys.argv[1:]
server = http.server.ThreadingHTTPServer((own_address, int(port)), Adapter)
trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
trust.load_cert_chain(certificate, key)
server.socket = trust.wrap_socket(server.socket, server_side=True)
server.serve_forever()
