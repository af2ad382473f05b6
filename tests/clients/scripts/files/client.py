"""Kubernetes' client for Python against a cluster: typed, dynamic, watching. Says what it sees, without what a cluster
chooses by itself."""

import json

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.rest import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

NAMESPACE = "t-python"

config.load_kube_config()
core, apps, rbac = client.CoreV1Api(), client.AppsV1Api(), client.RbacAuthorizationV1Api()
api = client.ApiClient()


def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except ApiException as error:
        said = json.loads(error.body)
        print(error.status, error.reason, said["reason"], said["message"])
    else:
        print("not refused")


print(client.VersionApi().get_code().git_version)
core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))

# Pods are only taken once the account that they run as has been made.
watching = watch.Watch()
for event in watching.stream(
    core.list_namespaced_service_account, NAMESPACE, field_selector="metadata.name=default", timeout_seconds=30
):
    watching.stop()

# Written, read, patched, listed.
made = core.create_namespaced_config_map(
    NAMESPACE, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a", labels={"by": "python"}), data={"k": "v"})
)
print(made.data, made.metadata.managed_fields[0].manager, made.metadata.creation_timestamp is not None)
print(core.patch_namespaced_config_map("a", NAMESPACE, {"data": {"k": None, "l": "w"}}).data)
made.data = {"k": "late"}
refused(core.replace_namespaced_config_map, "a", NAMESPACE, made)
refused(core.read_namespaced_config_map, "nothing", NAMESPACE)
refused(core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "a"}})
refused(core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "A b"}})
refused(core.create_namespaced_config_map, NAMESPACE, {"metadata": {"name": "x"}, "dat": {}}, field_validation="Strict")
refused(core.create_namespaced_pod, NAMESPACE, {"metadata": {"name": "p"}, "spec": {"containers": []}})
for number in range(5):
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": f"page-{number}", "labels": {"by": "python"}}})
page = core.list_namespaced_config_map(NAMESPACE, label_selector="by=python", limit=4)
rest = core.list_namespaced_config_map(NAMESPACE, label_selector="by=python", limit=4, _continue=page.metadata._continue)
print([item.metadata.name for item in page.items + rest.items], page.metadata.remaining_item_count)

# Watched, from the list on.
names = []
version = rest.metadata.resource_version
core.delete_namespaced_config_map("page-3", NAMESPACE)
core.patch_namespaced_config_map("page-1", NAMESPACE, {"data": {"seen": "yes"}})
watching = watch.Watch()
for event in watching.stream(
    core.list_namespaced_config_map, NAMESPACE, label_selector="by=python", resource_version=version, timeout_seconds=30
):
    print(event["type"], event["object"].metadata.name, event["object"].data)
    names.append(event["object"].metadata.name)
    if len(names) == 2:
        watching.stop()

# A Deployment, its scale and its status.
labels = {"app": "web"}
apps.create_namespaced_deployment(
    NAMESPACE,
    client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(
            replicas=1,
            selector=client.V1LabelSelector(match_labels=labels),
            template=client.V1PodTemplateSpec(
                metadata=client.V1ObjectMeta(labels=labels),
                spec=client.V1PodSpec(containers=[client.V1Container(name="web", image="nginx")]),
            ),
        ),
    ),
)
apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 2}})
watching = watch.Watch()
for event in watching.stream(
    apps.list_namespaced_deployment, NAMESPACE, field_selector="metadata.name=web", timeout_seconds=60
):
    if event["object"].status.available_replicas == 2:
        print("two pods are available")
        watching.stop()

# Manifests, and a kind that the client does not know.
utils.create_from_dict(api, {
    "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
    "spec": {"selector": labels, "ports": [{"port": 80}]},
}, namespace=NAMESPACE)
print(core.read_namespaced_service("web", NAMESPACE).spec.ports[0].target_port)
client.ApiextensionsV1Api().create_custom_resource_definition({
    "metadata": {"name": "things.python.orangery.dev"},
    "spec": {
        "group": "python.orangery.dev", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
        "versions": [{
            "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1, "default": 3}}},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            }}},
        }],
    },
})
for event in watch.Watch().stream(
    client.ApiextensionsV1Api().list_custom_resource_definition,
    field_selector="metadata.name=things.python.orangery.dev", timeout_seconds=30,
):
    conditions = event["object"].status.conditions or []
    if any(condition.type == "Established" and condition.status == "True" for condition in conditions):
        break
objects = client.CustomObjectsApi()
place = ("python.orangery.dev", "v1", NAMESPACE, "things")
thing = {"apiVersion": "python.orangery.dev/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {}}
print(objects.create_namespaced_custom_object(*place, thing)["spec"])
print(objects.patch_namespaced_custom_object_status(*place, "t", {"status": {"state": "good"}})["status"])
refused(objects.patch_namespaced_custom_object, *place, "t", {"spec": {"size": 0}})
found = dynamic.DynamicClient(api)
things = found.resources.get(api_version="python.orangery.dev/v1", kind="Thing")
applied = things.server_side_apply(
    body={**thing, "spec": {"size": 5}}, name="t", namespace=NAMESPACE, field_manager="python", force_conflicts=True
)
print(applied.spec.size, sorted(entry.manager for entry in applied.metadata.managedFields))
try:
    things.server_side_apply(body={**thing, "spec": {"size": 6}}, name="t", namespace=NAMESPACE, field_manager="other")
except ConflictError as error:
    print(json.loads(error.body)["message"])
things.delete(name="t", namespace=NAMESPACE)
try:
    things.get(name="t", namespace=NAMESPACE)
except NotFoundError as error:
    print(json.loads(error.body)["message"])
client.ApiextensionsV1Api().delete_custom_resource_definition("things.python.orangery.dev")

# Another user: an account with a role, by impersonation, and by its token.
core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "robot"}})
rbac.create_namespaced_role(NAMESPACE, {
    "metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}],
})
rbac.create_namespaced_role_binding(NAMESPACE, {
    "metadata": {"name": "reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": NAMESPACE}],
})
token = core.create_namespaced_service_account_token("robot", NAMESPACE, {"spec": {}}).status.token
robot = client.Configuration.get_default_copy()
robot.cert_file = robot.key_file = None
robot.api_key = {"authorization": f"Bearer {token}"}
robot = client.CoreV1Api(client.ApiClient(robot))
print(robot.read_namespaced_config_map("a", NAMESPACE).data)
refused(robot.list_namespaced_config_map, NAMESPACE)
refused(robot.delete_namespaced_config_map, "a", NAMESPACE)

core.delete_namespace(NAMESPACE)
print("done")
