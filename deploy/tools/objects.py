"""Validates Kubernetes objects: usage objects.py FILE.yaml…; exit status 1 when one is wrong.

Objects of Kubernetes itself against the schemas of two versions, every pod against Pod Security `restricted`, and
references: a selector finds its pods, a mounted ConfigMap of the release exists, callbacks reach the schedulers.
"""

import sys
import urllib.parse

import kubernetes_validate
import yaml

VERSIONS = ("1.28", "1.37")
# Custom resources; crds.mjs validates them.
CUSTOM = ("keda.sh", "monitoring.coreos.com", "gateway.networking.k8s.io")


def pods(document):
    """The pod specs and labels inside an object."""
    if document["kind"] == "Pod":
        yield document["metadata"].get("labels", {}), document["spec"]
    template = document.get("spec", {}).get("template") if isinstance(document.get("spec"), dict) else None
    if template:
        yield template["metadata"].get("labels", {}), template["spec"]


def restricted(spec):
    """What Pod Security `restricted` refuses in a pod."""
    own = spec.get("securityContext", {})
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(name):
            yield f"{name} is set"
    for volume in spec.get("volumes", []):
        kinds = set(volume) - {"name"}
        if not kinds <= {"configMap", "secret", "emptyDir", "projected", "downwardAPI", "csi", "persistentVolumeClaim", "ephemeral"}:
            yield f"volume {volume['name']} is of kind {kinds}"
    for container in spec.get("containers", []) + spec.get("initContainers", []):
        context = {**own, **container.get("securityContext", {})}
        name = container["name"]
        if context.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation is not false"
        if context.get("runAsNonRoot") is not True or context.get("runAsUser") == 0:
            yield f"{name}: may run as root"
        if (context.get("seccompProfile") or {}).get("type") not in ("RuntimeDefault", "Localhost"):
            yield f"{name}: no seccomp profile"
        if "ALL" not in context.get("capabilities", {}).get("drop", []):
            yield f"{name}: keeps capabilities"
        if set(context.get("capabilities", {}).get("add", [])) - {"NET_BIND_SERVICE"}:
            yield f"{name}: adds capabilities"
        if any("hostPort" in port for port in container.get("ports", [])):
            yield f"{name}: takes a port of the host"
        # Not part of the profile, but promised by docs/deploy.md.
        if context.get("readOnlyRootFilesystem") is not True:
            yield f"{name}: root file system can be written"


def references(documents):
    """What points to nothing within the file."""
    configs = {d["metadata"]["name"] for d in documents if d["kind"] == "ConfigMap"}
    found = [labels for d in documents for labels, _ in pods(d)]
    for document in documents:
        name = f"{document['kind']} {document['metadata']['name']}"
        own = document["metadata"].get("labels", {})
        for _, spec in pods(document):
            for volume in spec.get("volumes", []):
                config = volume.get("configMap", {}).get("name")
                if config and volume["name"] == "config" and config not in configs:
                    yield f"{name}: there is no ConfigMap {config}"
        selector = None
        if document["kind"] == "Service":
            selector = document["spec"].get("selector")
        elif document["kind"] in ("PodDisruptionBudget", "Deployment", "StatefulSet"):
            selector = document["spec"]["selector"]["matchLabels"]
        elif document["kind"] == "NetworkPolicy":
            selector = document["spec"]["podSelector"].get("matchLabels")
        if selector and not any(selector.items() <= labels.items() for labels in found):
            yield f"{name}: its selector finds no pod"
        if document["kind"] != "PodMonitor" and len(document["metadata"]["name"]) > 63:
            yield f"{name}: the name is too long"
        if any(len(str(value)) > 63 for value in own.values()):
            yield f"{name}: a label is too long"


def callbacks(documents):
    """Schedulers whose agents could not report: their address is no port of a Service of the release."""
    services = {}
    for document in documents:
        if document["kind"] == "Service":
            services[document["metadata"]["name"]] = {port["port"] for port in document["spec"]["ports"]}
    for document in documents:
        name = document["metadata"]["name"]
        if document["kind"] != "ConfigMap" or not name.endswith("-scheduler"):
            continue
        address = yaml.safe_load(document["data"]["goalmill.yaml"]).get("api", {}).get("callback_url") or ""
        url = urllib.parse.urlsplit(address)
        host = (url.hostname or "").split(".")[0]
        if url.scheme not in ("http", "https") or url.port not in services.get(host, ()):
            yield f"ConfigMap {name}: `api.callback_url` is `{address}`, no address of a Service of the release"


def problems(path):
    with open(path, encoding="utf-8") as file:
        documents = [document for document in yaml.safe_load_all(file) if document]
    if not documents:
        yield "there is no object"
    seen = set()
    for document in documents:
        key = (document["kind"], document["metadata"]["name"])
        name = " ".join(key)
        if key in seen:
            yield f"{name}: is there twice"
        seen.add(key)
        if not document["apiVersion"].startswith(CUSTOM):
            for version in VERSIONS:
                try:
                    kubernetes_validate.validate(document, version, strict=True)
                except kubernetes_validate.ValidationError as error:
                    yield f"{name}: Kubernetes {version}: {error.message} at {list(error.path)}"
        for _, spec in pods(document):
            for problem in restricted(spec):
                yield f"{name}: Pod Security: {problem}"
    yield from references(documents)
    yield from callbacks(documents)


def main():
    bad = 0
    for path in sys.argv[1:]:
        for problem in problems(path):
            print(f"{path}: {problem}", file=sys.stderr)
            bad += 1
    sys.exit(1 if bad else 0)


main()
