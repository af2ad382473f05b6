//! `ResourceManagerConfiguration` (gardener/gardener v1.150 pkg/apis/config/resourcemanager/v1alpha1).

use std::collections::BTreeMap;

use api_meta::labels::resources::CLASS_SHOOT;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::Configuration;
use crate::fields::{Fields, Form};
use crate::process::{Defaults, OfWebhooks, Process, Webhooks, kubeconfig, process, webhooks};

/// The class that stands for ManagedResources without one.
const CLASS_DEFAULT: &str = "resources";
const WEBHOOKS: OfWebhooks = OfWebhooks {
    port: 9449,
    port_purpose: "Port of the webhooks, if they are served",
    folder: "",
    folder_purpose: "Folder with tls.crt and tls.key; without it no webhooks are served",
};

/// Configuration of gardener-resource-manager.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceManagerConfiguration {
    /// What every process has.
    pub process: Process,
    /// Path of the source's kubeconfig.
    pub source_kubeconfig: Option<String>,
    /// Path of the target's kubeconfig; none: the target is the source.
    pub target_kubeconfig: Option<String>,
    /// Namespace of the source in which ManagedResources are looked for; none: all.
    pub namespace: Option<String>,
    /// What stands before the origin on every applied object; may be empty.
    pub cluster_id: String,
    /// Class of the ManagedResources; none: those without one.
    pub class: Option<String>,
    /// Whether Secrets and ConfigMaps that nothing refers to any more are deleted.
    pub garbage_collection: bool,
    /// Class of the Secrets that are filled with tokens of the target; none: none are.
    pub token_requestor: Option<String>,
    /// Whether network policies are made for Services; none: none are.
    pub network_policies: Option<NetworkPolicy>,
    /// Namespace of the source with the machines of nodes whose kubelets' certificates are approved; none: none are.
    pub machine_namespace: Option<String>,
    /// The port of the webhooks; none: they are not served.
    pub webhooks: Option<Webhooks>,
}

/// For which Services network policies are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkPolicy {
    /// Their namespaces, each selector by itself; none means all.
    pub namespace_selectors: Vec<LabelSelector>,
    /// The pods through which Ingresses are reached.
    pub ingress_controller: Option<Ingress>,
}

/// The pods of an ingress controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    /// Their namespace.
    pub namespace: String,
    /// Their labels.
    pub pod_labels: BTreeMap<String, String>,
}

impl Configuration for ResourceManagerConfiguration {
    const API_VERSION: &'static str = "resourcemanager.config.gardener.cloud/v1alpha1";
    const KIND: &'static str = "ResourceManagerConfiguration";

    fn of(fields: &mut Fields<'_>) -> Self {
        let (source_kubeconfig, namespace) = fields.object("sourceClientConnection", source);
        let target_kubeconfig = fields.object("targetClientConnection", |fields| {
            let path = kubeconfig(fields);
            fields.without_effect(&[("namespaces", Form::List), ("cacheResyncPeriod", Form::Span)]);
            path
        });
        let defaults = Defaults {
            lease: Some(("gardener-resource-manager", "")),
            health_port: 8081,
            metrics_port: 8080,
        };
        let (process, webhooks) = process(fields, &defaults, |fields| webhooks(fields, &WEBHOOKS));
        let controllers = fields.object("controllers", controllers);
        fields.without_effect(&[("webhooks", Form::Object)]);
        Self {
            process,
            source_kubeconfig,
            target_kubeconfig,
            namespace,
            webhooks: Some(webhooks).filter(|webhooks| !webhooks.certificate_folder.is_empty()),
            cluster_id: controllers.cluster_id,
            class: controllers.class,
            garbage_collection: controllers.garbage_collection,
            token_requestor: controllers.token_requestor,
            network_policies: controllers.network_policies,
            machine_namespace: controllers.machine_namespace,
        }
    }

    fn process(&self) -> &Process {
        &self.process
    }
}

fn source(fields: &mut Fields<'_>) -> (Option<String>, Option<String>) {
    let path = kubeconfig(fields);
    fields.without_effect(&[("cacheResyncPeriod", Form::Span)]);
    let purpose = "Namespace in which ManagedResources are looked for, at most one; without it all";
    let mut namespaces = fields.texts("namespaces", purpose);
    if namespaces.len() > 1 {
        let all = format!("[{}]", namespaces.join(", "));
        fields.contradicts("namespaces", all, "at most one namespace");
    }
    (path, namespaces.pop())
}

/// Controllers whose fields have no effect here, beside `concurrentSyncs`.
const IDLE: [(&str, &[(&str, Form)]); 5] = [
    ("health", &[("syncPeriod", Form::Span)]),
    (
        "managedResource",
        &[
            ("syncPeriod", Form::Span),
            ("alwaysUpdate", Form::Flag),
            ("managedByLabelValue", Form::Text),
        ],
    ),
    ("istioClusterConfiguration", &[("enabled", Form::Flag)]),
    (
        "nodeCriticalComponents",
        &[("enabled", Form::Flag), ("backoff", Form::Span)],
    ),
    (
        "nodeAgentReconciliationDelay",
        &[
            ("enabled", Form::Flag),
            ("minDelay", Form::Span),
            ("maxDelay", Form::Span),
        ],
    ),
];

struct Controllers {
    cluster_id: String,
    class: Option<String>,
    garbage_collection: bool,
    token_requestor: Option<String>,
    network_policies: Option<NetworkPolicy>,
    machine_namespace: Option<String>,
}

fn controllers(fields: &mut Fields<'_>) -> Controllers {
    let read = Controllers {
        cluster_id: fields.text("clusterID", "", "What stands before the origin on every applied object"),
        class: Some(fields.text("resourceClass", CLASS_DEFAULT, "Class of the ManagedResources"))
            .filter(|class| class != CLASS_DEFAULT),
        garbage_collection: fields.object("garbageCollector", |fields| {
            fields.without_effect(&[("syncPeriod", Form::Span)]);
            let purpose = "Whether Secrets and ConfigMaps that nothing refers to are deleted";
            fields.flag("enabled", false, purpose)
        }),
        token_requestor: fields.object("tokenRequestor", |fields| {
            fields.without_effect(&[("concurrentSyncs", Form::Whole)]);
            let purpose = "Whether Secrets of class shoot are filled with tokens of the target";
            fields.flag("enabled", false, purpose).then(|| CLASS_SHOOT.to_owned())
        }),
        network_policies: fields.object("networkPolicy", network_policy),
        machine_namespace: fields.object("csrApprover", csr_approver),
    };
    for (name, more) in IDLE {
        fields.object(name, |fields| {
            fields.without_effect(&[("concurrentSyncs", Form::Whole)]);
            fields.without_effect(more);
        });
    }
    fields.without_effect(&[("cacheSyncTimeout", Form::Span)]);
    read
}

fn csr_approver(fields: &mut Fields<'_>) -> Option<String> {
    fields.without_effect(&[("concurrentSyncs", Form::Whole)]);
    let enabled = fields.flag(
        "enabled",
        false,
        "Whether certificates that kubelets request for their own port are approved",
    );
    let purpose = "Namespace of the source with the machines of the target's nodes; needed if enabled";
    let namespace = fields.text("machineNamespace", "", purpose);
    if enabled && namespace.is_empty() {
        fields.contradicts(
            "machineNamespace",
            "\"\"",
            "the name of a namespace, since enabled is true",
        );
    }
    Some(namespace).filter(|namespace| enabled && !namespace.is_empty())
}

fn network_policy(fields: &mut Fields<'_>) -> Option<NetworkPolicy> {
    fields.without_effect(&[("concurrentSyncs", Form::Whole)]);
    let enabled = fields.flag("enabled", false, "Whether network policies are made for Services");
    let purpose = "Namespaces whose Services get policies; without it all";
    let selectors = fields.typed("namespaceSelectors", "a list of label selectors", purpose);
    let has_ingress = fields.has("ingressControllerSelector");
    let ingress = fields.object("ingressControllerSelector", |fields| {
        let namespace = fields.text(
            "namespace",
            "",
            "Namespace of the pods through which Ingresses are reached",
        );
        let selector: Option<LabelSelector> = fields.typed(
            "podSelector",
            "a label selector",
            "Their labels; matchLabels alone have an effect",
        );
        let pod_labels = selector.and_then(|selector| selector.match_labels).unwrap_or_default();
        Ingress { namespace, pod_labels }
    });
    enabled.then(|| NetworkPolicy {
        namespace_selectors: selectors.unwrap_or_default(),
        ingress_controller: has_ingress.then_some(ingress),
    })
}
