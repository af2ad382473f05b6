"""An operator of Scenario 2 of Gardener's guide on registering extensions, with Python's standard library alone.

It serves ControllerInstallations whose ControllerDeployment has the type given with --type: it creates a namespace
with a ConfigMap in the seed, and reports the conditions Valid and Installed. It leaves installations of other types, and
conditions of other writers, as they are.
"""

import argparse
import datetime
import sys
import time

from api import Client, Problem

CORE = "/apis/core.gardener.cloud/v1beta1"
INSTALLATIONS = f"{CORE}/controllerinstallations"
FINALIZER = "examples.orangery.dev/operator-python"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
# Everything is looked at again so often, whether it has changed or not: that repairs what was changed in the seed.
WATCH_SECONDS = 300
# The first pause before a retry is hardly noticed; in the longest one a server has time to come back.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 1, 30
# How often a write is repeated because another writer was faster; once or twice is common, more is not.
TRIES_MAX = 5


def log(text):
    print(text, flush=True)


def complain(problem):
    print(f"error: {problem}\nhint: {problem.hint}", file=sys.stderr, flush=True)


def condition(before, type_, status, reason, message):
    """A condition whose times change only when the condition does."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    new = {"type": type_, "status": status, "reason": reason, "message": message}
    old = next((one for one in before if one["type"] == type_), {})
    if all(old.get(field) == value for field, value in new.items()):
        return old
    since = old.get("lastTransitionTime") if old.get("status") == status else None
    return {**new, "lastTransitionTime": since or now, "lastUpdateTime": now}


class Operator:
    """Serves one type in one seed. Methods return whether all is done; what is not done is tried again."""

    def __init__(self, garden, seed, seed_name, type_):
        self.garden, self.seed, self.seed_name, self.type = garden, seed, seed_name, type_

    def run(self):
        """Looks at everything, then follows changes. What is not done is tried again after a pause that grows."""
        pause = PAUSE_SECONDS
        while True:
            try:
                version, done = self.look_at_all()
                # Other installations do not wait for the one that is to be tried again.
                done &= self.follow(version, WATCH_SECONDS if done else pause)
            except Problem as problem:
                # 410: the server no longer knows what happened since that version, so everything is listed again.
                if problem.code != 410:
                    complain(problem)
                done = False
                time.sleep(pause)
            pause = PAUSE_SECONDS if done else min(2 * pause, PAUSE_SECONDS_MAX)

    def look_at_all(self):
        """Reconciles everything there is; returns the version to watch from, too."""
        found, done = self.garden.call("GET", INSTALLATIONS), True
        for installation in found.get("items") or []:
            done &= self.try_reconcile(installation["metadata"]["name"])
        return found["metadata"]["resourceVersion"], done

    def follow(self, version, seconds):
        """Reconciles what changes, until the time is over or something has to be tried again."""
        began = time.monotonic()
        for type_, changed in self.garden.watch(INSTALLATIONS, version, seconds):
            if type_ in ("ADDED", "MODIFIED") and not self.try_reconcile(changed["metadata"]["name"]):
                return False
        if time.monotonic() - began < PAUSE_SECONDS / 2:
            hint = "check the proxies between here and the garden"
            raise Problem(f"watch {INSTALLATIONS}: the server ends it at once", hint)
        return True

    def try_reconcile(self, name):
        """Reconciles one installation. Its failure does not hold up the others."""
        try:
            return self.reconcile(name)
        except Problem as problem:
            complain(problem)
            return False

    def reconcile(self, name):
        for _ in range(TRIES_MAX):
            # An event may be older than the last write: decisions are made from what is there now.
            installation = self.garden.get(f"{INSTALLATIONS}/{name}")
            if installation is None:
                return True
            try:
                return self.install_or_remove(installation)
            except Problem as problem:
                if problem.code != 409:
                    raise
        raise Problem(f"{name}: other writers change it all the time", "find out which ones: see its managedFields")

    def install_or_remove(self, installation):
        metadata = installation["metadata"]
        if (installation["spec"].get("seedRef") or {}).get("name") != self.seed_name:
            return True
        held = FINALIZER in metadata.get("finalizers", [])
        if metadata.get("deletionTimestamp"):
            return not held or self.remove(installation)
        deployment = self.deployment_of(installation)
        # One that is missing is reported by the garden.
        if deployment is None or deployment.get("type") != self.type:
            return True
        if not held:
            # Before anything is there to be removed.
            installation = self.write_finalizers(installation, metadata.get("finalizers", []) + [FINALIZER])
        return self.install(installation, deployment)

    def deployment_of(self, installation):
        # The garden writes the version of the deployment into the reference, so that its changes are seen here too.
        name = (installation["spec"].get("deploymentRef") or {}).get("name")
        return self.garden.get(f"{CORE}/controllerdeployments/{name}") if name else None

    def install(self, installation, deployment):
        greeting = (deployment.get("providerConfig") or {}).get("greeting")
        if not isinstance(greeting, str) or not greeting:
            why = f"providerConfig.greeting of ControllerDeployment {deployment['metadata']['name']} has to be a text"
            self.report(installation, [("Valid", "False", "ConfigurationInvalid", why)])
            return True
        valid = ("Valid", "True", "RegistrationValid", "The configuration could be read.")
        place = f"extension-{installation['metadata']['name']}"
        try:
            self.apply("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}})
            self.apply(
                f"/api/v1/namespaces/{place}/configmaps",
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting"}, "data": {"text": greeting}},
            )
        except Problem as problem:
            complain(problem)
            self.report(installation, [valid, ("Installed", "False", "InstallationFailed", str(problem))])
            return False
        installed = ("Installed", "True", "InstallationSuccessful", "Installation of new resources succeeded.")
        self.report(installation, [valid, installed], {"namespace": place})
        return True

    def apply(self, path, wanted):
        name = wanted["metadata"]["name"]
        self.seed.call("PATCH", f"{path}/{name}?fieldManager=operator-python&force=true", wanted, APPLY)

    def remove(self, installation):
        metadata = installation["metadata"]
        place = f"extension-{metadata['name']}"
        try:
            self.seed.delete(f"/api/v1/namespaces/{place}")
            gone = self.seed.get(f"/api/v1/namespaces/{place}") is None
        except Problem as problem:
            complain(problem)
            self.report(installation, [("Installed", "False", "DeletionFailed", str(problem))])
            return False
        if gone:
            self.write_finalizers(installation, [one for one in metadata["finalizers"] if one != FINALIZER])
            log(f"{metadata['name']}: removed")
        else:
            why = f"Deletion of Namespace {place} is still pending."
            self.report(installation, [("Installed", "False", "DeletionPending", why)])
        return gone

    def write_finalizers(self, installation, finalizers):
        metadata = installation["metadata"]
        # With the version that was read: if another writer was faster, the server answers with 409.
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        return self.garden.call("PATCH", f"{INSTALLATIONS}/{metadata['name']}", patch, MERGE)

    def report(self, installation, reported, provider_status=None):
        """Writes our conditions among those of other writers; nothing if nothing changes."""
        before = installation.get("status") or {}
        others = before.get("conditions") or []
        ours = [condition(others, *one) for one in reported]
        if all(one in others for one in ours) and provider_status in (None, before.get("providerStatus")):
            return
        types = [one["type"] for one in ours]
        after = {**before, "conditions": [one for one in others if one["type"] not in types] + ours}
        if provider_status:
            after["providerStatus"] = provider_status
        # With the version that was read, as above.
        name = installation["metadata"]["name"]
        self.garden.call("PUT", f"{INSTALLATIONS}/{name}/status", {**installation, "status": after})
        for type_, status, reason, message in reported:
            log(f"{name}: {type_} {status}: {reason}: {message}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", required=True, help="of the garden")
    parser.add_argument("--seed", required=True, metavar="NAME", help="the Seed that is installed into")
    parser.add_argument("--seed-kubeconfig", required=True, help="of this seed")
    parser.add_argument("--type", default="example-python", help="the type of the ControllerDeployments to serve")
    parser.add_argument("--once", action="store_true", help="look at everything once, and end with 0 when all is done")
    arguments = parser.parse_args()
    try:
        clients = Client(arguments.kubeconfig), Client(arguments.seed_kubeconfig)
        operator = Operator(*clients, arguments.seed, arguments.type)
        if arguments.once:
            _, done = operator.look_at_all()
            return 0 if done else 1
        log(f"serving ControllerDeployments of type {arguments.type}")
        operator.run()
    except Problem as problem:
        complain(problem)
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
