//! The resources of drawn sequences: some that are built in, and definitions drawn for the run.

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::shape::{Field, Shape, text};

/// The group of drawn definitions.
pub(crate) const GROUP: &str = "generated.example.com";

/// A resource with what its objects hold.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// As a case has it: `apps/v1/deployments`.
    pub(crate) path: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// The object beside its metadata.
    pub(crate) shape: Shape,
    /// What its status holds, where it has that subresource.
    pub(crate) status: Option<Shape>,
    /// Whether it has the subresource `scale`.
    pub(crate) scales: bool,
    /// Whether there is a strategic merge patch of it.
    pub(crate) strategic: bool,
}

impl Resource {
    fn built_in(path: &str, kind: &str, fields: Vec<Field>) -> Self {
        let version = path.rsplit_once('/').map_or(path, |(version, _)| version);
        Self {
            path: path.to_owned(),
            api_version: version.to_owned(),
            kind: kind.to_owned(),
            shape: Shape::Object(fields),
            status: None,
            scales: false,
            strategic: true,
        }
    }

    fn with_status(mut self, fields: Vec<Field>) -> Self {
        self.status = Some(Shape::Object(fields));
        self
    }

    fn scaled(mut self) -> Self {
        self.scales = true;
        self
    }
}

fn map(of: Shape) -> Shape {
    Shape::Map(Box::new(of))
}

/// A map that is never empty: for an immutable ConfigMap, Go distinguishes an empty map from a missing one.
fn filled(of: Shape) -> Shape {
    Shape::Filled(Box::new(of))
}

fn list(of: Shape) -> Shape {
    Shape::List(Box::new(of))
}

/// A request for storage.
fn storage() -> Shape {
    Shape::Object(vec![Field::new("storage", Shape::Quantity).required()])
}

fn words() -> Shape {
    text(&["", "x", "some words", "ünïcödé"])
}

/// The resources that every server has.
pub(crate) fn built_in() -> Vec<Resource> {
    let mut all = configurations();
    all.extend([service(), claim(), lease(), role(), budget()]);
    all.extend([
        workload("deployments", "Deployment"),
        workload("replicasets", "ReplicaSet"),
    ]);
    all.extend([binding(), slice()]);
    all
}

/// Resources that only have data.
fn configurations() -> Vec<Resource> {
    let field = Field::new;
    let encoded = || Shape::Bytes(["", "eA==", "c29tZSB3b3Jkcw=="].map(str::to_owned).to_vec());
    let config_map = vec![
        field("data", filled(words())),
        field("binaryData", filled(encoded())),
        field("immutable", Shape::Flag),
    ];
    let secret = vec![
        field("data", map(encoded())),
        field("stringData", map(words())),
        field("type", text(&["Opaque", "example.com/own"])),
    ];
    let named = Shape::Object(vec![field("name", text(&["a", "b"]))]);
    let account = vec![
        field("automountServiceAccountToken", Shape::Flag),
        field("imagePullSecrets", list(named)),
    ];
    vec![
        Resource::built_in("v1/configmaps", "ConfigMap", config_map),
        Resource::built_in("v1/secrets", "Secret", secret),
        Resource::built_in("v1/serviceaccounts", "ServiceAccount", account),
    ]
}

fn service() -> Resource {
    let field = Field::new;
    let port = vec![
        field("name", text(&["http", "https", "dns"])).required(),
        field("port", Shape::Integer(79, 81)).required(),
        field("protocol", text(&["TCP", "UDP"])),
        field("targetPort", text(&["http", "web"])),
        field("appProtocol", text(&["http", "kubernetes.io/h2c"])),
    ];
    let spec = Shape::Object(vec![
        field("clusterIP", text(&["None"])).required(),
        field("ports", Shape::Named("port".to_owned(), port)).required(),
        field("selector", map(text(&["x", "y"]))),
        field("sessionAffinity", text(&["None", "ClientIP"])),
        field("publishNotReadyAddresses", Shape::Flag),
    ]);
    Resource::built_in("v1/services", "Service", vec![field("spec", spec).required()])
}

fn claim() -> Resource {
    let field = Field::new;
    let modes = ["ReadWriteOnce", "ReadOnlyMany"].map(str::to_owned).to_vec();
    let spec = Shape::Object(vec![
        field("accessModes", Shape::Set(modes)).required(),
        field("resources", Shape::Object(vec![field("requests", storage())])).required(),
        field("storageClassName", text(&["", "fast"])),
        field("volumeMode", text(&["Filesystem", "Block"])),
    ]);
    let fields = vec![field("spec", spec).required()];
    Resource::built_in("v1/persistentvolumeclaims", "PersistentVolumeClaim", fields)
}

fn lease() -> Resource {
    let field = Field::new;
    let times = ["2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.5Z"];
    let spec = Shape::Object(vec![
        field("holderIdentity", text(&["me", "you"])),
        field("leaseDurationSeconds", Shape::Integer(1, 60)),
        field("leaseTransitions", Shape::Integer(0, 3)),
        field("renewTime", text(&times)),
    ]);
    Resource::built_in("coordination.k8s.io/v1/leases", "Lease", vec![field("spec", spec)])
}

fn role() -> Resource {
    let set = |of: &[&str]| Shape::Set(of.iter().map(|text| (*text).to_owned()).collect());
    let rule = vec![
        Field::new("apiGroups", set(&["", "apps"])).required(),
        Field::new("resources", set(&["pods", "secrets"])).required(),
        Field::new("verbs", set(&["get", "list"])).required(),
        Field::new("resourceNames", set(&["a"])),
    ];
    let rules = vec![Field::new("rules", list(Shape::Object(rule)))];
    Resource::built_in("rbac.authorization.k8s.io/v1/roles", "Role", rules)
}

fn budget() -> Resource {
    let field = Field::new;
    let selector = vec![field("matchLabels", map(text(&["x", "y"]))).required()];
    let spec = Shape::Object(vec![
        field("minAvailable", Shape::IntOrText),
        field("selector", Shape::Object(selector)).required(),
        field("unhealthyPodEvictionPolicy", text(&["IfHealthyBudget", "AlwaysAllow"])),
    ]);
    let fields = vec![field("spec", spec).required()];
    Resource::built_in("policy/v1/poddisruptionbudgets", "PodDisruptionBudget", fields)
}

/// A resource whose controller creates pods.
fn workload(resource: &str, kind: &str) -> Resource {
    let field = Field::new;
    let labels = || Shape::Object(vec![field("app", text(&["a"])).required()]);
    let container = vec![
        field("name", text(&["one", "two"])).required(),
        field("image", text(&["x", "y"])).required(),
        field("args", list(words())),
        field("imagePullPolicy", text(&["Always", "Never"])),
    ];
    let pod = Shape::Object(vec![
        field("containers", Shape::Named("name".to_owned(), container)).required(),
        field("nodeSelector", map(text(&["x", "y"]))),
        field("terminationGracePeriodSeconds", Shape::Integer(0, 60)),
    ]);
    let metadata = Shape::Object(vec![field("labels", labels()).required()]);
    let template = Shape::Object(vec![
        field("metadata", metadata).required(),
        field("spec", pod).required(),
    ]);
    let selector = Shape::Object(vec![field("matchLabels", labels()).required()]);
    let spec = Shape::Object(vec![
        field("replicas", Shape::Integer(0, 5)),
        field("minReadySeconds", Shape::Integer(0, 5)),
        field("selector", selector).required(),
        field("template", template).required(),
    ]);
    let path = format!("apps/v1/{resource}");
    let status = vec![
        field("replicas", Shape::Integer(0, 5)),
        field("readyReplicas", Shape::Integer(0, 5)),
        field("observedGeneration", Shape::Integer(0, 3)),
    ];
    let fields = vec![field("spec", spec).required()];
    Resource::built_in(&path, kind, fields).with_status(status).scaled()
}

fn binding() -> Resource {
    let subject = vec![
        Field::new("kind", text(&["User", "Group"])).required(),
        Field::new("apiGroup", text(&["rbac.authorization.k8s.io"])),
        Field::new("name", text(&["a", "b"])).required(),
    ];
    let role = Shape::Object(vec![
        Field::new("apiGroup", text(&["rbac.authorization.k8s.io"])).required(),
        Field::new("kind", text(&["Role", "Role", "ClusterRole"])).required(),
        Field::new("name", text(&["a", "b"])).required(),
    ]);
    let fields = vec![
        Field::new("roleRef", role).required(),
        Field::new("subjects", list(Shape::Object(subject))),
    ];
    Resource::built_in("rbac.authorization.k8s.io/v1/rolebindings", "RoleBinding", fields)
}

fn slice() -> Resource {
    let field = Field::new;
    let conditions = Shape::Object(vec![field("ready", Shape::Flag), field("serving", Shape::Flag)]);
    let endpoint = vec![
        field("addresses", Shape::Set(vec!["10.1.0.1".to_owned()])).required(),
        field("conditions", conditions),
        field("nodeName", text(&["n1", "n2"])),
    ];
    let port = vec![
        field("name", text(&["http", "https"])).required(),
        field("port", Shape::Integer(79, 81)),
        field("protocol", text(&["TCP", "UDP"])),
    ];
    let fields = vec![
        field("addressType", text(&["IPv4"])).required(),
        field("endpoints", list(Shape::Object(endpoint))).required(),
        field("ports", Shape::Named("name".to_owned(), port)),
    ];
    Resource::built_in("discovery.k8s.io/v1/endpointslices", "EndpointSlice", fields)
}

/// A drawn definition: its object, and the resource that it defines.
pub(crate) fn definition(number: usize, rng: &mut StdRng) -> (Value, Resource) {
    let (kind, plural) = (format!("Drawn{number}"), format!("drawn{number}s"));
    let mut spec = fields(rng, 0);
    spec.iter_mut().for_each(|field| draw_rules(field, rng));
    let scales = rng.random_bool(0.3);
    if scales {
        spec.push(Field::new("replicas", Shape::Integer(0, 9)));
    }
    let status = rng.random_bool(0.7).then(|| Shape::Object(fields(rng, 1)));
    let mut shape = vec![Field::new("spec", Shape::Object(spec))];
    shape[0].required = rng.random_bool(0.5);
    let mut schema_fields = shape.clone();
    if let Some(status) = &status {
        schema_fields.push(Field::new("status", status.clone()));
    }
    let mut version = json!({
        "name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": Shape::Object(schema_fields).schema()},
    });
    if status.is_some() {
        version["subresources"]["status"] = json!({});
    }
    if scales {
        version["subresources"]["scale"] =
            json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    }
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [version],
        },
    });
    let resource = Resource {
        path: format!("{GROUP}/v1/{plural}"),
        api_version: format!("{GROUP}/v1"),
        kind,
        shape: Shape::Object(shape),
        status,
        scales,
        strategic: false,
    };
    (object, resource)
}

/// Depth of drawn schemas.
const DEPTH_MAX: usize = 3;

fn fields(rng: &mut StdRng, depth: usize) -> Vec<Field> {
    let names = ["alpha", "beta", "gamma", "delta", "epsilon"];
    let count = rng.random_range(1..=names.len());
    names
        .iter()
        .take(count)
        .map(|name| drawn_field(name, rng, depth))
        .collect()
}

/// Rules for a field of a spec: on the new value alone, and on the old and the new one.
fn draw_rules(field: &mut Field, rng: &mut StdRng) {
    let choice: &[&'static str] = match &field.shape {
        Shape::Text(_) => &[
            "self == oldSelf",
            "self != 'x'",
            "size(self) < 6",
            "self.startsWith(oldSelf)",
        ],
        Shape::Integer(..) => &[
            "self >= oldSelf",
            "self > 1",
            "self - oldSelf <= 2",
            "self % 2 == 1 || self > 3",
        ],
        Shape::Flag => &["self || !oldSelf", "self"],
        _ => return,
    };
    // Rules do not see null.
    let chance = if field.nullable { 0.0 } else { 0.35 };
    let drawn = choice.iter().filter(|_| rng.random_bool(chance / 2.0)).copied();
    field.rules = drawn.collect();
    // A definition whose default violates its own rule is invalid.
    if !field.rules.is_empty() {
        field.default = None;
    }
}

fn drawn_field(name: &str, rng: &mut StdRng, depth: usize) -> Field {
    let mut field = Field::new(name, shape(rng, depth + 1));
    field.required = rng.random_bool(0.2);
    field.nullable = rng.random_bool(0.1);
    field.default = match &field.shape {
        Shape::Text(of) if rng.random_bool(0.3) => of.first().map(|text| json!(text)),
        Shape::Integer(least, _) if rng.random_bool(0.3) => Some(json!(least)),
        Shape::Flag if rng.random_bool(0.3) => Some(json!(true)),
        Shape::Object(_) if rng.random_bool(0.2) => Some(json!({})),
        _ => None,
    };
    // A default must fit its own schema.
    if let (Shape::Object(fields), Some(_)) = (&field.shape, &field.default)
        && fields.iter().any(|field| field.required)
    {
        field.default = None;
    }
    field
}

fn shape(rng: &mut StdRng, depth: usize) -> Shape {
    let simple = depth >= DEPTH_MAX;
    match rng.random_range(0..if simple { 5 } else { 11 }) {
        0 => text(&["red", "green", "blue"]),
        1 => text(&["x", "longer words than that"]),
        2 => Shape::Integer(1, 5),
        3 => Shape::Flag,
        4 => Shape::IntOrText,
        5 => Shape::Any,
        6 => map(shape(rng, depth + 1)),
        7 => list(shape(rng, depth + 1)),
        8 => Shape::Set(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]),
        9 => {
            let mut key = Field::new("key", text(&["k1", "k2", "k3"])).required();
            key.default = None;
            let mut of = fields(rng, depth + 1);
            of.insert(0, key);
            Shape::Named("key".to_owned(), of)
        }
        _ => Shape::Object(fields(rng, depth + 1)),
    }
}
