"""An operator of Scenario 2 of Gardener's guide on registering extensions, with Python's standard library alone.

It serves ControllerInstallations whose ControllerDeployment has the type given with --type: it makes a namespace with a
ConfigMap in the seed, and reports the conditions Valid and Installed. It leaves installations of other types, and
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
# A first pause that nobody notices, and a last one in which a server has time to come back.
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.5, 30
# Another writer is as likely to be faster once as it is unlikely to be so five times.
TRIES_MAX = 5


def say(text):
    print(text, flush=True)


def condition(before, type_, status, reason, message):
    """A condition that keeps its times as far as nothing changes."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = {"type": type_, "status": status, "reason": reason, "message": message}
    old = next((one for one in before if one["type"] == type_), {})
    if all(old.get(field) == value for field, value in said.items()):
        return old
    since = old["lastTransitionTime"] if old.get("status") == status else now
    return {**old, **said, "lastTransitionTime": since, "lastUpdateTime": now}


class Operator:
    def __init__(self, garden, seed, seed_name, type_):
        self.garden, self.seed, self.seed_name, self.type = garden, seed, seed_name, type_

    def reconcile(self, installation):
        name = installation["metadata"]["name"]
        # A word that was heard late must not undo a newer one.
        for _ in range(TRIES_MAX):
            try:
                fresh = self.garden.call("GET", f"{INSTALLATIONS}/{name}")
                return self.install_or_remove(fresh)
            except Problem as problem:
                if problem.code == 404:
                    return
                if problem.code != 409:
                    raise
        raise Problem(f"{name}: others write it all the time", "it is tried again")

    def install_or_remove(self, installation):
        metadata = installation["metadata"]
        if (installation["spec"].get("seedRef") or {}).get("name") != self.seed_name:
            return
        held = FINALIZER in metadata.get("finalizers", [])
        if metadata.get("deletionTimestamp"):
            if held:
                self.remove(installation)
            return
        deployment = self.deployment_of(installation)
        if deployment is None or deployment.get("type") != self.type:
            return
        if not held:
            finalizers = metadata.get("finalizers", []) + [FINALIZER]
            installation = self.write_finalizers(installation, finalizers)
        greeting = (deployment.get("providerConfig") or {}).get("greeting")
        if not isinstance(greeting, str) or not greeting:
            why = f"providerConfig.greeting of ControllerDeployment {deployment['metadata']['name']} has to be a text"
            self.report(installation, [("Valid", "False", "ConfigurationInvalid", why)])
            return
        valid = ("Valid", "True", "RegistrationValid", "The configuration could be read.")
        try:
            place = self.install(metadata["name"], greeting)
        except Problem as problem:
            self.report(installation, [valid, ("Installed", "False", "InstallationFailed", str(problem))])
            raise
        installed = ("Installed", "True", "InstallationSuccessful", "Installation of new resources succeeded.")
        self.report(installation, [valid, installed], {"namespace": place})

    def deployment_of(self, installation):
        reference = installation["spec"].get("deploymentRef") or {}
        if not reference.get("name"):
            return None
        try:
            return self.garden.call("GET", f"{CORE}/controllerdeployments/{reference['name']}")
        except Problem as problem:
            # The garden's controller-manager says so.
            if problem.code == 404:
                return None
            raise

    def install(self, name, greeting):
        place = f"extension-{name}"
        self.apply("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}})
        self.apply(
            f"/api/v1/namespaces/{place}/configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "greeting"}, "data": {"text": greeting}},
        )
        return place

    def apply(self, path, desired):
        name = desired["metadata"]["name"]
        self.seed.call("PATCH", f"{path}/{name}?fieldManager=operator-python&force=true", desired, APPLY)

    def remove(self, installation):
        metadata = installation["metadata"]
        path = f"/api/v1/namespaces/extension-{metadata['name']}"
        try:
            self.seed.call("DELETE", path)
            self.seed.call("GET", path)
        except Problem as problem:
            if problem.code != 404:
                raise
        else:
            waiting = f"waiting for Namespace extension-{metadata['name']} to be gone"
            self.report(installation, [("Installed", "False", "DeletionPending", waiting)])
            raise Problem(f"{metadata['name']}: {waiting}", "it is tried again")
        self.write_finalizers(installation, [one for one in metadata["finalizers"] if one != FINALIZER])
        say(f"{metadata['name']}: removed")

    def write_finalizers(self, installation, finalizers):
        metadata = installation["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": finalizers}}
        return self.garden.call("PATCH", f"{INSTALLATIONS}/{metadata['name']}", patch, MERGE)

    def report(self, installation, said, provider_status=None):
        """Writes our conditions and nobody else's; nothing if nothing changes."""
        status = installation.get("status") or {}
        before = status.get("conditions") or []
        ours = [condition(before, *one) for one in said]
        types = [one["type"] for one in ours]
        after = [one for one in before if one["type"] not in types] + ours
        by_type = lambda conditions: sorted(conditions, key=lambda one: one["type"])
        if by_type(after) == by_type(before) and provider_status in (None, status.get("providerStatus")):
            return
        status = {**status, "conditions": after}
        if provider_status:
            status["providerStatus"] = provider_status
        # With the version that was read: whoever was faster is not overwritten.
        name = installation["metadata"]["name"]
        self.garden.call("PUT", f"{INSTALLATIONS}/{name}/status", {**installation, "status": status})
        for one in ours:
            say(f"{name}: {one['type']} {one['status']}: {one['reason']}: {one['message']}")

    def look_at_all(self):
        """Reconciles everything there is; the version to watch from, and whether something has to be tried again."""
        found, again = self.garden.call("GET", INSTALLATIONS), False
        for installation in found["items"]:
            again |= not self.try_reconcile(installation)
        return found["metadata"]["resourceVersion"], again

    def try_reconcile(self, installation):
        try:
            self.reconcile(installation)
            return True
        except Problem as problem:
            complain(problem)
            return False

    def run(self):
        pause = PAUSE_SECONDS
        while True:
            try:
                version, again = self.look_at_all()
                if again:
                    time.sleep(pause)
                    pause = min(pause * 2, PAUSE_SECONDS_MAX)
                    continue
                pause = PAUSE_SECONDS
                self.follow(version)
            except Problem as problem:
                # 410: what has happened since is forgotten, so everything is looked at anew.
                if problem.code != 410:
                    complain(problem)
                    time.sleep(pause)
                    pause = min(pause * 2, PAUSE_SECONDS_MAX)

    def follow(self, version):
        """Reconciles what changes, until something has to be tried again or the server ends the watch twice in a row."""
        while True:
            before = version
            for type_, changed in self.garden.watch(INSTALLATIONS, version):
                version = changed["metadata"]["resourceVersion"]
                if type_ in ("ADDED", "MODIFIED") and not self.try_reconcile(changed):
                    return
            if version == before:
                return


def complain(problem):
    print(f"error: {problem}\nhint: {problem.hint}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kubeconfig", required=True, help="of the garden")
    parser.add_argument("--seed", required=True, metavar="NAME", help="the Seed that is installed into")
    parser.add_argument("--seed-kubeconfig", required=True, help="of this seed")
    parser.add_argument("--type", default="example-python", help="the type of the ControllerDeployments to serve")
    parser.add_argument("--once", action="store_true", help="end when everything there is has been looked at")
    arguments = parser.parse_args()
    try:
        operator = Operator(
            Client(arguments.kubeconfig), Client(arguments.seed_kubeconfig), arguments.seed, arguments.type
        )
        # A garden that cannot be reached, or that refuses, is told at once.
        _, again = operator.look_at_all()
        if arguments.once:
            return 1 if again else 0
        say(f"serving ControllerDeployments of type {arguments.type}")
        operator.run()
    except Problem as problem:
        complain(problem)
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
