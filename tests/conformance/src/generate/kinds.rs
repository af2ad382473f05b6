//! The resources that drawn sequences are about: some that are built in, and definitions drawn for the run.

use rand::Rng;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use super::shape::{Field, Shape, text};

/// The group of drawn definitions.
pub(crate) const GROUP: &str = "generated.example.com";

/// A resource with what its objects hold.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// As a case says it: `apps/v1/deployments`.
    pub(crate) path: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    /// The object beside its metadata.
    pub(crate) shape: Shape,
    /// What its status holds, where it has that subresource.
    pub(crate) status: Option<Shape>,
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
            strategic: true,
        }
    }
}

fn map(of: Shape) -> Shape {
    Shape::Map(Box::new(of))
}

/// A map that is never empty: of a ConfigMap that may not change, Go tells one that is empty from one that is not there.
fn filled(of: Shape) -> Shape {
    Shape::Filled(Box::new(of))
}

fn list(of: Shape) -> Shape {
    Shape::List(Box::new(of))
}

/// How much is asked for.
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
    all
}

/// Those that hold something and do nothing.
fn configurations() -> Vec<Resource> {
    let field = Field::new;
    let encoded = || text(&["", "eA==", "c29tZSB3b3Jkcw=="]);
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

/// A drawn definition: its object, and the resource it makes.
pub(crate) fn definition(number: usize, rng: &mut StdRng) -> (Value, Resource) {
    let (kind, plural) = (format!("Drawn{number}"), format!("drawn{number}s"));
    let spec = fields(rng, 0);
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
        version["subresources"] = json!({"status": {}});
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
