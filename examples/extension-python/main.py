"""An extension of Gardener with Python's standard library alone: it serves the kinds Extension and OperatingSystemConfig of
type example-python.

It watches both kinds, does what their objects ask for, and reports in their status how far it is. It leaves objects of
other types, and fields of other writers, as they are.
"""

import argparse
import base64
import datetime
import http.server
import json
import math
import os
import signal
import sys
import threading
import time

from api import Client, Problem

NAME = "extension-python"
TYPE = "example-python"
GROUP = "/apis/extensions.gardener.cloud/v1alpha1"
FINALIZER = f"extensions.gardener.cloud/{TYPE}"
OPERATION = "gardener.cloud/operation"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
# A watch ends after so long, and everything is listed again.
WATCH_SECONDS = 300
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1, 30
# Turns in a row that another writer may overtake.
ATTEMPTS_MAX = 10
# gardenlet takes an extension for dead whose heartbeat is older than five minutes.
HEARTBEAT_SECONDS = 30


class ConfigurationProblem(Problem):
    """What the user of the Shoot has to mend: gardenlet does not retry it before the Shoot changes."""


def log(text):
    print(text, flush=True)


def now(digits="seconds"):
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec=digits).replace("+00:00", "Z")


def operation_of(found):
    """The operation that is to be done now, or None."""
    annotation = (found["metadata"].get("annotations") or {}).get(OPERATION)
    last = (found.get("status") or {}).get("lastOperation")
    if annotation == "wait-for-state":
        return None
    if annotation == "migrate":
        return "Migrate"
    if found["metadata"].get("deletionTimestamp"):
        return "Delete" if FINALIZER in found["metadata"].get("finalizers", []) else None
    if annotation == "restore":
        return "Restore"
    if last is None:
        return "Create"
    if last["state"] != "Succeeded":
        return last["type"] if last["type"] in ("Create", "Restore", "Migrate") else "Reconcile"
    return "Reconcile" if annotation == "reconcile" and last["type"] != "Migrate" else None


def asked_of(found):
    """What an object asks for: as long as that is the same, a failure is tried again after its pause and not before."""
    metadata = found["metadata"]
    annotation = (metadata.get("annotations") or {}).get(OPERATION)
    return metadata["uid"], metadata["generation"], annotation, metadata.get("deletionTimestamp")


class Failure:
    """The last failure of an object, and when it is tried again."""

    def __init__(self, asked, before):
        self.asked = asked
        again = before and before.asked == asked
        self.pause = min(2 * before.pause, PAUSE_SECONDS_MAX) if again else PAUSE_SECONDS
        self.due = time.monotonic() + self.pause


class Kind:
    """One kind: follows its objects. What is the same for all kinds is here, the rest in `bring_about` and `remove`."""

    plural = ""

    def __init__(self, client, options):
        self.client, self.options, self.has_listed = client, options, False
        # By the paths of objects.
        self.failures = {}

    def bring_about(self, found):
        """Does what an object asks for; the fields of its status, beside those that all kinds have."""
        raise NotImplementedError

    def remove(self, found):
        """Undoes it. Succeeds when there is nothing to undo."""
        raise NotImplementedError

    def run(self):
        pause = PAUSE_SECONDS
        while True:
            try:
                self.follow()
                pause = PAUSE_SECONDS
            except Problem as problem:
                # 410: the server no longer knows what happened since that version, so everything is listed again.
                if problem.code != 410:
                    log(f"error: {problem}\nhint: {problem.hint}")
                    time.sleep(pause)
                    pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def follow(self):
        """Looks at all objects and then at those that change, until something is to be tried again."""
        path = f"{GROUP}/{self.plural}"
        listed = self.client.call("GET", path)
        for found in listed["items"]:
            self.serve(found)
        self.has_listed = True
        there = {self.path(found) for found in listed["items"]}
        self.failures = {path: failure for path, failure in self.failures.items() if path in there}
        now = time.monotonic()
        waits = [failure.due - now for failure in self.failures.values()] + [WATCH_SECONDS]
        for event, found in self.client.watch(path, listed["metadata"]["resourceVersion"], max(1, math.ceil(min(waits)))):
            if event in ("ADDED", "MODIFIED") and not self.serve(found):
                # The watch would go on for longer than its pause.
                return

    def path(self, found):
        return f"{GROUP}/namespaces/{found['metadata']['namespace']}/{self.plural}/{found['metadata']['name']}"

    def serve(self, found):
        """Does what one object asks for; whether that went well. Its failure does not hold up others."""
        spec, path = found["spec"], self.path(found)
        if spec["type"] != TYPE or spec.get("class", "shoot") != "shoot":
            return True
        before = self.failures.get(path)
        # The report of a failure is a change, too.
        if before and before.asked == asked_of(found) and time.monotonic() < before.due:
            return True
        try:
            self.operated(path)
            self.failures.pop(path, None)
            return True
        except Problem as problem:
            if problem.code == 404:
                return True
            log(f"error: {path.removeprefix(GROUP)}: {problem}\nhint: {problem.hint}")
            self.failures[path] = Failure(asked_of(found), before)
            return False

    def operated(self, path):
        """Decides and works from what is there now: an event may be older than the last write. Another writer may be
        faster than a write, which then fails with code 409."""
        for attempt in range(ATTEMPTS_MAX):
            try:
                found = self.client.get(path)
                operation = found and operation_of(found)
                if operation and not self.is_failed(found["metadata"]["namespace"]):
                    self.operate(path, found, operation)
                return
            except Problem as problem:
                if problem.code != 409 or attempt + 1 == ATTEMPTS_MAX:
                    raise

    def is_failed(self, namespace):
        cluster = self.client.get(f"{GROUP}/clusters/{namespace}")
        last = ((cluster or {}).get("spec", {}).get("shoot", {}).get("status") or {}).get("lastOperation") or {}
        return last.get("state") == "Failed"

    def operate(self, path, found, operation):
        leaves = operation in ("Delete", "Migrate")
        # The annotation goes first: one that is set from now on asks for another turn.
        found = self.patch(path, found, "reconcile", is_held=self.is_held(found) if leaves else True)
        self.report(path, found, operation, "Processing", 1)
        own, error = {}, None
        try:
            if operation == "Delete":
                self.remove(found)
            elif operation != "Migrate":
                own = self.bring_about(found)
        except Problem as problem:
            error = problem
        self.report(path, found, operation, "Error" if error else "Succeeded", 50 if error else 100, error, own)
        if error:
            raise error
        found = self.client.get(path)
        annotation = {"Migrate": "migrate", "Restore": "restore"}.get(operation)
        if found and (leaves or annotation):
            self.patch(path, found, annotation, is_held=not leaves)
        log(f"{path.removeprefix(GROUP)}: {operation} succeeded")

    def is_held(self, found):
        return FINALIZER in found["metadata"].get("finalizers", [])

    def patch(self, path, found, operation, is_held):
        """Removes an operation's annotation, and sets or removes the finalizer, unless another writer was faster."""
        metadata = {}
        if self.is_held(found) != is_held:
            others = [one for one in found["metadata"].get("finalizers", []) if one != FINALIZER]
            metadata["finalizers"] = others + [FINALIZER] if is_held else others
        if operation and (found["metadata"].get("annotations") or {}).get(OPERATION) == operation:
            metadata["annotations"] = {OPERATION: None}
        if not metadata:
            return found
        metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
        return self.client.call("PATCH", path, {"metadata": metadata}, MERGE)

    def report(self, path, found, operation, state, progress, error=None, own=None):
        text = f"Error: {error}" if error else f"{operation}: {state}"
        last = {"type": operation, "state": state, "progress": progress, "description": text, "lastUpdateTime": now()}
        status = {"lastOperation": last, **(own or {})}
        if state != "Processing":
            status["observedGeneration"] = found["metadata"]["generation"]
            codes = ["ERR_CONFIGURATION_PROBLEM"] if isinstance(error, ConfigurationProblem) else None
            why = {"description": str(error), "codes": codes, "lastUpdateTime": now()}
            status["lastError"] = why if error else None
        self.client.call("PATCH", f"{path}/status", {"status": status}, MERGE)

    def apply(self, plural, wanted):
        metadata = wanted["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/{plural}/{metadata['name']}"
        self.client.call("PATCH", f"{path}?fieldManager={NAME}&force=true", {"apiVersion": "v1", **wanted}, APPLY)


class Extensions(Kind):
    """Keep a ConfigMap with a greeting beside the control plane."""

    plural = "extensions"

    def bring_about(self, found):
        greeting = (found["spec"].get("providerConfig") or {}).get("greeting", "hello")
        if not isinstance(greeting, str) or not greeting:
            raise ConfigurationProblem("providerConfig.greeting has to be a text", "fix the Shoot's spec.extensions")
        metadata = {"name": TYPE, "namespace": found["metadata"]["namespace"]}
        self.apply("configmaps", {"kind": "ConfigMap", "metadata": metadata, "data": {"greeting": greeting}})
        return {"providerStatus": {"configMap": TYPE}}

    def remove(self, found):
        self.client.delete(f"/api/v1/namespaces/{found['metadata']['namespace']}/configmaps/{TYPE}")


class OperatingSystemConfigs(Kind):
    """Write user data for machines that are about to be created, and add a file to those that run."""

    plural = "operatingsystemconfigs"

    def bring_about(self, found):
        purpose = found["spec"]["purpose"]
        if purpose == "reconcile":
            content = {"inline": {"encoding": "", "data": f"ID={TYPE}\nVERSION={self.options.release}\n"}}
            file = {"path": f"/etc/{TYPE}-release", "permissions": 0o644, "content": content}
            return {"extensionFiles": [file]}
        if purpose != "provision":
            raise ConfigurationProblem(f"purpose {purpose!r} is not known", "use provision or reconcile")
        secret = self.secret(found)
        data = {"cloud_config": base64.b64encode(self.user_data(found).encode()).decode()}
        self.apply("secrets", {"kind": "Secret", "metadata": secret, "data": data})
        return {"cloudConfig": {"secretRef": secret}}

    def remove(self, found):
        secret = self.secret(found)
        self.client.delete(f"/api/v1/namespaces/{secret['namespace']}/secrets/{secret['name']}")

    def secret(self, found):
        metadata = found["metadata"]
        return {"name": f"osc-result-{metadata['name']}", "namespace": metadata["namespace"]}

    def user_data(self, found):
        files, units = [], []
        for file in found["spec"].get("files", []):
            content = self.content(found["metadata"]["namespace"], file)
            mode = f"{file.get('permissions', 0o644):04o}"
            files.append({"path": file["path"], "permissions": mode, "encoding": "b64", "content": content})
        for unit in found["spec"].get("units", []):
            fields = {"name": unit["name"], "enable": unit.get("enable", True), "command": unit.get("command", "restart")}
            if "content" in unit:
                fields["content"] = unit["content"]
            units.append({**fields, "drop-ins": unit.get("dropIns", [])})
        # JSON is YAML.
        return "#cloud-config\n" + json.dumps({"write_files": files, "coreos": {"units": units}}, indent=1) + "\n"

    def content(self, namespace, file):
        """The content of a file in base64."""
        content = file["content"]
        if "secretRef" in content:
            name, key = content["secretRef"]["name"], content["secretRef"]["dataKey"]
            secret = self.client.call("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
            if key not in secret.get("data", {}):
                raise Problem(f"file {file['path']}: Secret {name} has no key {key}", "it is tried again")
            return secret["data"][key]
        inline = content.get("inline") or {}
        if inline.get("encoding") == "b64":
            return inline["data"]
        if "data" not in inline:
            raise ConfigurationProblem(f"file {file['path']}: its content is of no known form", "use inline content")
        return base64.b64encode(inline["data"].encode()).decode()


def beat(client, namespace):
    """Renews the Lease by which gardenlet knows that the extension is alive."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/gardener-extension-heartbeat"
    while True:
        spec = {"holderIdentity": NAME, "leaseDurationSeconds": HEARTBEAT_SECONDS, "renewTime": now("microseconds")}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}
        lease["metadata"] = {"name": "gardener-extension-heartbeat", "namespace": namespace}
        try:
            client.call("PATCH", f"{path}?fieldManager={NAME}&force=true", lease, APPLY)
        except Problem as problem:
            log(f"error: the heartbeat is not renewed: {problem}\nhint: {problem.hint}")
        time.sleep(HEARTBEAT_SECONDS)


def serve_probes(port, kinds):
    """Answers probes: /healthz always, /readyz once every kind has been listed."""

    class Handler(http.server.BaseHTTPRequestHandler):
        """One request."""

        def do_GET(self):
            good = self.path == "/healthz" or (self.path == "/readyz" and all(kind.has_listed for kind in kinds))
            self.send_response(200 if good else 503)
            self.end_headers()
            self.wfile.write(b"ok\n" if good else b"not ready\n")

        def log_message(self, format, *args):
            """Probes are not logged."""

    http.server.ThreadingHTTPServer(("", port), Handler).serve_forever()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--namespace", default=os.environ.get("NAMESPACE"), help="where the extension is installed")
    parser.add_argument("--release", default="1", help="the release of the operating system")
    parser.add_argument("--health-port", type=int, default=8081, help="where probes are answered")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        kubeconfig = os.environ.get("KUBECONFIG")
        client = Client(kubeconfig) if kubeconfig else Client.of_pod()
    except Problem as problem:
        log(f"error: {problem}\nhint: {problem.hint}")
        return 1
    kinds = [kind(client, options) for kind in (Extensions, OperatingSystemConfigs)]
    threads = [threading.Thread(target=kind.run, daemon=True) for kind in kinds]
    threads.append(threading.Thread(target=beat, args=(client, options.namespace), daemon=True))
    for thread in threads:
        thread.start()
    log(f"serving type {TYPE}")
    serve_probes(options.health_port, kinds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
