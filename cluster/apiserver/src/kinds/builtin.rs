//! Kubernetes' own kinds: names and shapes from the tables of cluster-builtin, the rest from the tables below.
//! What is not served is not registered, so that no one relies on it.

use std::sync::Arc;

use cluster_fields::FieldError;
use cluster_schema::Schema;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::kinds::kind::{Call, Guard, Kind, Review, SelectableField, spec_differs};
use crate::kinds::registry::{Registry, Role, Served};
use crate::kinds::resource::{Connect, Form, Proxied, ResourceInfo, ScalePaths, Version};
use crate::kinds::{events, namespaces, pods, signing_requests, strategies};
use crate::storage::format::Since;
use crate::wire::status::Status;

/// Kinds of these groups are served elsewhere: events, reviews.
const LEFT_OUT: [&str; 3] = ["authentication.k8s.io", "authorization.k8s.io", "events.k8s.io"];

/// Short names and categories (kubernetes/kubernetes v1.35 pkg/registry/*/storage, ShortNames and Categories).
const NAMES: [(&str, &[&str], &[&str]); 35] = [
    ("apiservices", &[], &["api-extensions"]),
    ("certificatesigningrequests", &["csr"], &[]),
    ("configmaps", &["cm"], &[]),
    ("cronjobs", &["cj"], &["all"]),
    ("customresourcedefinitions", &["crd", "crds"], &["api-extensions"]),
    ("daemonsets", &["ds"], &["all"]),
    ("deployments", &["deploy"], &["all"]),
    ("endpoints", &["ep"], &[]),
    ("events", &["ev"], &[]),
    ("horizontalpodautoscalers", &["hpa"], &["all"]),
    ("ingresses", &["ing"], &[]),
    ("jobs", &[], &["all"]),
    ("limitranges", &["limits"], &[]),
    ("mutatingwebhookconfigurations", &[], &["api-extensions"]),
    ("namespaces", &["ns"], &[]),
    ("networkpolicies", &["netpol"], &[]),
    ("nodes", &["no"], &[]),
    ("persistentvolumeclaims", &["pvc"], &[]),
    ("persistentvolumes", &["pv"], &[]),
    ("poddisruptionbudgets", &["pdb"], &[]),
    ("pods", &["po"], &["all"]),
    ("priorityclasses", &["pc"], &[]),
    ("replicasets", &["rs"], &["all"]),
    ("replicationcontrollers", &["rc"], &["all"]),
    ("resourcequotas", &["quota"], &[]),
    ("serviceaccounts", &["sa"], &[]),
    ("services", &["svc"], &["all"]),
    ("statefulsets", &["sts"], &["all"]),
    ("storageclasses", &["sc"], &[]),
    ("validatingadmissionpolicies", &[], &["api-extensions"]),
    ("validatingadmissionpolicybindings", &[], &["api-extensions"]),
    ("validatingwebhookconfigurations", &[], &["api-extensions"]),
    ("volumeattributesclasses", &["vac"], &[]),
    ("ipaddresses", &["ip"], &[]),
    ("roles", &[], &[]),
];

/// Resources whose objects carry a generation.
const WITH_GENERATION: [&str; 20] = [
    "cronjobs",
    "customresourcedefinitions",
    "daemonsets",
    "deployments",
    "endpointslices",
    "ingresses",
    "ingressclasses",
    "jobs",
    "mutatingwebhookconfigurations",
    "networkpolicies",
    "poddisruptionbudgets",
    "pods",
    "podtemplates",
    "priorityclasses",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// Resources that PUT may create.
const CREATED_BY_PUT: [&str; 10] = [
    "endpoints",
    "events",
    "leases",
    "limitranges",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
    "runtimeclasses",
    "services",
];

/// Resources whose PUT must name the version that it replaces.
const REPLACED_BY_VERSION: [&str; 11] = [
    "csidrivers",
    "csinodes",
    "csistoragecapacities",
    "leases",
    "mutatingwebhookconfigurations",
    "poddisruptionbudgets",
    "runtimeclasses",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "volumeattachments",
];

/// Fields for selectors. What a missing one counts as is in [`selectable`].
const FIELDS: [(&str, &[&str]); 9] = [
    (
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("nodes", &["spec.unschedulable"]),
    (
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    ("secrets", &["type"]),
    ("namespaces", &["status.phase"]),
    ("replicationcontrollers", &["status.replicas"]),
    ("jobs", &["status.successful"]),
    ("certificatesigningrequests", &["spec.signerName"]),
    ("services", &["spec.clusterIP", "spec.type"]),
];

/// The warning in every answer about Endpoints (kubernetes/kubernetes v1.35 staging/src/k8s.io/api/core/v1 lifecycle of
/// Endpoints).
const ENDPOINTS_WARNING: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

/// Puts all built-in kinds into the registry, each with its guards. `since`: the revisions from which on their stores hold
/// them in the present format.
pub(crate) fn register(registry: &Registry, guards: &[Arc<dyn Guard>], since: &Since) {
    let view = events::view(&fields_of("events"));
    let made = cluster_builtin::kinds().iter().filter_map(|table| make(table, guards));
    let made = made.chain([view]).map(|served| {
        let since = since.of(&served.store_name);
        Arc::new(served.since(since))
    });
    registry.put_all(made);
}

/// Whether objects of a resource are stored under its own name, and not as those of another group.
pub(crate) fn is_stored(group: &str, resource: &str) -> bool {
    cluster_builtin::kinds()
        .iter()
        .any(|table| (table.group.as_str(), table.resource.as_str()) == (group, resource))
}

fn make(table: &'static cluster_builtin::BuiltinKind, guards: &[Arc<dyn Guard>]) -> Option<Served> {
    let left_out = LEFT_OUT.contains(&table.group.as_str())
        || (table.group == "autoscaling" && table.version == "v1")
        || matches!(table.resource.as_str(), "bindings" | "componentstatuses");
    if left_out {
        return None;
    }
    let role = role(&table.group, &table.resource);
    let new = if table.namespaced {
        ResourceInfo::namespaced
    } else {
        ResourceInfo::cluster
    };
    let mut info = new(&table.group, &table.version, &table.kind, &table.resource);
    if let Some((_, short, categories)) = NAMES.iter().find(|(resource, ..)| *resource == table.resource) {
        info = info.short(short).category(categories);
    }
    for name in &table.subresources {
        let (body, form) = subresource(&table.resource, name);
        info = info.subresource(name, body, form);
    }
    if table.group.is_empty() && table.resource == "endpoints" {
        let warning = |version: &mut Version| version.deprecation_warning = Some(ENDPOINTS_WARNING.to_owned());
        info.versions.iter_mut().for_each(warning);
    }
    let fields = fields_of(&table.resource);
    let generation = WITH_GENERATION.contains(&table.resource.as_str());
    let concerned = |guard: &&Arc<dyn Guard>| guard.resource() == (table.group.as_str(), table.resource.as_str());
    Some(Served::new(
        Arc::new(BuiltinKind {
            info,
            role,
            fields,
            generation,
            guards: guards.iter().filter(concerned).cloned().collect(),
        }),
        role,
    ))
}

fn fields_of(resource: &str) -> Vec<SelectableField> {
    let fields = FIELDS.iter().find(|(known, _)| *known == resource);
    fields
        .map(|(_, fields)| fields.iter().map(|field| selectable(field)).collect())
        .unwrap_or_default()
}

fn role(group: &str, resource: &str) -> Role {
    match (group, resource) {
        ("", "namespaces") => Role::Namespace,
        ("", "pods") => Role::Pod,
        ("", "services") => Role::Service,
        ("", "serviceaccounts") => Role::ServiceAccount,
        ("apiextensions.k8s.io", "customresourcedefinitions") => Role::CustomResourceDefinition,
        ("certificates.k8s.io", "certificatesigningrequests") => Role::CertificateSigningRequest,
        _ => Role::Ordinary,
    }
}

/// The subresource of pods with their ephemeral containers.
pub(crate) const EPHEMERAL_CONTAINERS: &str = "ephemeralcontainers";

type Body = Option<(&'static str, &'static str, &'static str)>;

fn subresource(resource: &str, name: &str) -> (Body, Form) {
    match (resource, name) {
        (_, "status" | "finalize" | "approval") => (None, Form::Part),
        (_, "scale") => {
            let paths = ScalePaths {
                spec_replicas: ".spec.replicas".to_owned(),
                status_replicas: ".status.replicas".to_owned(),
                selector: Some(".spec.selector".to_owned()),
            };
            (Some(("autoscaling", "v1", "Scale")), Form::Scale(paths))
        }
        ("pods", "binding") => (Some(("", "v1", "Binding")), Form::Internal),
        ("pods", "eviction") => (Some(("policy", "v1", "Eviction")), Form::Internal),
        ("serviceaccounts", "token") => (Some(("authentication.k8s.io", "v1", "TokenRequest")), Form::Internal),
        ("pods", "log") => (None, Form::Connect(Connect::Log)),
        ("pods", "exec") => (Some(("", "v1", "PodExecOptions")), Form::Connect(Connect::Exec)),
        ("pods", "attach") => (Some(("", "v1", "PodAttachOptions")), Form::Connect(Connect::Attach)),
        ("pods", "portforward") => (
            Some(("", "v1", "PodPortForwardOptions")),
            Form::Connect(Connect::PortForward),
        ),
        ("pods", EPHEMERAL_CONTAINERS) => (None, Form::Part),
        ("pods", "resize") => (None, Form::Unsupported("resizing a pod in place")),
        ("nodes", "proxy") => proxy(Proxied::Node),
        ("pods", "proxy") => proxy(Proxied::Pod),
        ("services", "proxy") => proxy(Proxied::Service),
        _ => (None, Form::Unsupported("this subresource")),
    }
}

fn proxy(what: Proxied) -> (Body, Form) {
    (Some(("", "v1", what.options())), Form::Proxy(what))
}

fn selectable(label: &str) -> SelectableField {
    let mut field = SelectableField::new(label);
    match label {
        "spec.unschedulable" | "spec.hostNetwork" => field.missing = "false",
        "status.replicas" | "status.successful" => field.missing = "0",
        "source" => field.path = vec!["source".to_owned(), "component".to_owned()],
        _ => {}
    }
    if label == "status.successful" {
        field.path = vec!["status".to_owned(), "succeeded".to_owned()];
    }
    field
}

/// A kind of Kubernetes' own.
struct BuiltinKind {
    info: ResourceInfo,
    role: Role,
    fields: Vec<SelectableField>,
    generation: bool,
    guards: Vec<Arc<dyn Guard>>,
}

impl Kind for BuiltinKind {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn schema(&self, version: &str) -> Option<Schema> {
        cluster_builtin::schema(&self.info.group, version, &self.info.kind)
    }

    fn default(&self, version: &str, object: &mut Value) {
        cluster_builtin::default(&self.info.group, version, &self.info.kind, object);
    }

    fn refresh(&self, version: &str, object: &mut Value) {
        let schema = self.schema(version);
        if let Some(schema) = &schema {
            schema.normalize(object);
            // If there are too many defaults, some are better than none: the object is stored already.
            let _ = schema.fill(object);
        }
        self.default(version, object);
        if let Some(schema) = &schema {
            schema.fill_zeros(object);
        }
    }

    fn prepare(&self, call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
        match self.role {
            Role::Namespace => namespaces::prepare(call.subresource, object, old),
            Role::Pod => pods::prepare(object, old),
            Role::CertificateSigningRequest => signing_requests::prepare(call, object, old),
            Role::CustomResourceDefinition => crate::kinds::definition::prepare(call, object),
            _ => strategies::prepare(&self.info.group, &self.info.kind, call, object, old),
        }
    }

    fn validate(&self, call: &Call<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        // Binding sets what no update may change.
        let old = old.filter(|_| call.subresource != Some("binding"));
        let mut errors = match self.role {
            Role::CertificateSigningRequest if old.is_none() => signing_requests::validate(object),
            _ => Vec::new(),
        };
        if let (Role::Pod, Some(EPHEMERAL_CONTAINERS), Some(old)) = (self.role, call.subresource, old) {
            return cluster_builtin::ephemeral_containers(object, old);
        }
        errors.extend(cluster_builtin::validate(
            &self.info.group,
            self.info.storage_version(),
            &self.info.kind,
            object,
            old,
        ));
        errors
    }

    fn review<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        Box::pin(async move {
            let mut warnings = match review.object {
                Some(object) => cluster_builtin::warnings(&self.info.group, &self.info.kind, object, review.old),
                None => Vec::new(),
            };
            for guard in &self.guards {
                warnings.extend(guard.review(review).await?);
            }
            Ok(warnings)
        })
    }

    fn changes_generation(&self, call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
        let (group, kind) = (&self.info.group, &self.info.kind);
        call.subresource != Some("binding")
            && (spec_differs(object, old) || strategies::changes_generation(group, kind, object, old))
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &self.fields
    }

    fn refuse_name(&self, name: &str) -> Option<String> {
        match &*self.info.kind {
            // Any segment of a path is a valid name (kubernetes/kubernetes v1.35 pkg/apis/core/validation/events.go,
            // pkg/apis/certificates/validation/validation.go).
            "Event" | "CertificateSigningRequest" => cluster_fields::names::path_segment(name),
            kind => cluster_builtin::refuse_name(&self.info.group, kind, name),
        }
    }

    fn has_generation(&self) -> bool {
        self.generation
    }

    fn initial_finalizers(&self) -> &[&'static str] {
        strategies::finalizers(&self.info.group, &self.info.kind)
    }

    fn creates_on_update(&self) -> bool {
        CREATED_BY_PUT.contains(&&*self.info.plural)
    }

    fn updates_unconditionally(&self) -> bool {
        !REPLACED_BY_VERSION.contains(&&*self.info.plural)
    }
}
