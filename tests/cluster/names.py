"""Answers DNS for the Services of the cluster, as CoreDNS would: python3 names.py ADDRESS SERVER CERTIFICATE KEY AUTHORITY

A Service has its own address; one without an address has those of its ready pods.
"""
import json
import socket
import ssl
import struct
import sys
import urllib.error
import urllib.request

SUFFIX = ".cluster.local"
TTL_S = 5
A, IN = 1, 1
NO_SUCH_NAME = 3


def get(path):
    with urllib.request.urlopen(server + path, context=trust, timeout=5) as answer:
        return json.load(answer)


def addresses(name):
    """The addresses of `SERVICE.NAMESPACE.svc`, or None if there is no such Service."""
    parts = name.lower().removesuffix(SUFFIX).split(".")
    if len(parts) != 3 or parts[2] != "svc":
        return None
    service, namespace, _ = parts
    try:
        own = get(f"/api/v1/namespaces/{namespace}/services/{service}")["spec"].get("clusterIP")
        if own != "None":
            return [own]
        found = get(f"/api/v1/namespaces/{namespace}/endpoints/{service}")
    except urllib.error.HTTPError:
        return None
    return [address["ip"] for part in found.get("subsets") or [] for address in part.get("addresses") or []]


def reply(query):
    """The answer to a message with one question."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    question = query[12:at + 5]
    found = addresses(".".join(labels))
    of_type = found if found and struct.unpack("!H", query[at + 1:at + 3])[0] == A else []
    flags = 0x8580 | (NO_SUCH_NAME if found is None else 0)
    records = b"".join(struct.pack("!HHHIH", 0xC00C, A, IN, TTL_S, 4) + socket.inet_aton(ip) for ip in of_type)
    return query[:2] + struct.pack("!HHHHH", flags, 1, len(of_type), 0, 0) + question + records


own_address, server, certificate, key, authority = sys.argv[1:]
trust = ssl.create_default_context(cafile=authority)
trust.load_cert_chain(certificate, key)
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
# An answer must come from the address that was asked.
listener.bind((own_address, 53))
while True:
    message, client = listener.recvfrom(512)
    try:
        listener.sendto(reply(message), client)
    except (OSError, IndexError, UnicodeDecodeError) as error:
        print(client, error, flush=True)
