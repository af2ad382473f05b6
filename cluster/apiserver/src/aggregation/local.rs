//! The APIServices of what this server serves itself: they are there so that everybody finds all groups in one place, in
//! their order. Those of its own kinds are made when it starts, those of definitions come and go with them.
//! (kubernetes/kubernetes v1.35 pkg/controlplane/apiserver/aggregator.go, cmd/kube-apiserver/app/aggregator.go,
//! pkg/controlplane/controller/crdregistration)

use std::collections::BTreeSet;
use std::sync::Arc;

use cluster_patch::{UpdateOptions, track_update};
use cluster_schema::Schema;
use cluster_store::{Key, Page, Range, StoreError};
use serde_json::{Value, json};

use super::available::{MANAGER, local_condition};
use super::{GROUP, STORE_NAME};
use crate::bootstrap::ensure;
use crate::context::store_status;
use crate::discovery::{group_names, version_names};
use crate::registry::Role;
use crate::server::Inner;
use crate::status::Status;

/// Says who looks after an APIService, and when.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
const ON_START: &str = "onstart";
const ALWAYS: &str = "true";
/// The order of Kubernetes' own groups.
const GROUPS: [(&str, i64); 23] = [
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("apiextensions.k8s.io", 16700),
    ("admissionregistration.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
    ("internal.apiserver.k8s.io", 16000),
    ("storagemigration.k8s.io", 15800),
    (GROUP, i64::MAX),
];
/// The order of groups that others have added to the server, before those of definitions.
const ADDED: i64 = 10_000;
/// The order of groups and versions of definitions.
const DEFINED: (i64, i64) = (1000, 100);
/// Versions that do not have the number of most first versions.
const VERSIONS: [(&str, &str, i64); 5] = [
    ("", "v1", 1),
    ("autoscaling", "v2", 30),
    ("resource.k8s.io", "v1", 21),
    ("flowcontrol.apiserver.k8s.io", "v1", 21),
    ("admissionregistration.k8s.io", "v1beta1", 12),
];

/// Where a group and its version stand among others: the higher, the earlier.
pub(crate) fn priority(group: &str, version: &str, defined: bool) -> (i64, i64) {
    if defined {
        return DEFINED;
    }
    let of_group = GROUPS
        .iter()
        .find(|(name, _)| *name == group)
        .map(|(_, number)| *number);
    let own = VERSIONS.iter().find(|(of, name, _)| (*of, *name) == (group, version));
    let of_version = own.map(|(_, _, number)| *number);
    let usual = if version.contains("alpha") || version.contains("beta") {
        9
    } else {
        15
    };
    (of_group.unwrap_or(ADDED), of_version.unwrap_or(usual))
}

/// Makes those of the kinds that the server was built with. Which of them are taken away later stays away until then.
pub(crate) async fn make(server: &Arc<Inner>) -> Result<(), Status> {
    let kinds = server.registry.snapshot();
    if kinds.find(GROUP, "apiservices").is_none() {
        return Ok(());
    }
    let groups = group_names(&kinds);
    let places = groups.iter().filter(|group| *group != GROUP).flat_map(|group| {
        let versions = version_names(&kinds, group);
        versions.into_iter().map(move |version| (group, version))
    });
    // All at once: a store on a disk makes them durable together.
    let puts = places.map(|(group, version)| async move {
        put(server, group, &version, ON_START, priority(group, &version, false)).await
    });
    futures::future::try_join_all(puts).await.map(drop)
}

async fn put(
    server: &Arc<Inner>,
    group: &str,
    version: &str,
    managed: &str,
    (of_group, of_version): (i64, i64),
) -> Result<(), Status> {
    let name = format!("{version}.{group}");
    let mut spec = json!({"groupPriorityMinimum": of_group, "version": version, "versionPriority": of_version});
    if !group.is_empty() {
        spec["group"] = Value::from(group);
    }
    let now = server.clock.now();
    let mut object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name, "labels": {MANAGED: managed}}, "spec": spec,
    });
    let options = UpdateOptions {
        manager: MANAGER,
        subresource: "",
        time: now,
        api_version: "apiregistration.k8s.io/v1",
    };
    let kinds = server.registry.snapshot();
    let schema = kinds
        .find(GROUP, "apiservices")
        .and_then(|served| served.kind.schema("v1"));
    track_update(None, &mut object, options, &schema.unwrap_or_else(Schema::any));
    object["status"] = json!({"conditions": [local_condition(now)]});
    ensure(server, Key::new(STORE_NAME, None, name.as_str()), object, false).await?;
    Ok(())
}

/// A definition of the group has come, gone or changed: its versions have APIServices, others of it do not.
pub(crate) fn follow(server: &Arc<Inner>, group: &str) {
    if server.registry.snapshot().find(GROUP, "apiservices").is_none() {
        return;
    }
    let (server, group) = (server.clone(), group.to_owned());
    server.clone().tasks.spawn(async move {
        if let Err(error) = settle(&server, &group).await {
            tracing::warn!(server = %server.name, group, %error, "the APIServices of a group were not settled");
        }
    });
}

async fn settle(server: &Arc<Inner>, group: &str) -> Result<(), Status> {
    let kinds = server.registry.snapshot();
    let defined = kinds.of_group(group).filter(|served| served.role == Role::Custom);
    let versions: BTreeSet<String> = defined
        .flat_map(|served| &served.info().versions)
        .filter(|version| version.served)
        .map(|version| version.name.to_string())
        .collect();
    for version in &versions {
        put(server, group, version, ALWAYS, DEFINED).await?;
    }
    let listing = server.store.list(&Range::all(STORE_NAME), Page::default()).await;
    for entry in listing.map_err(store_status)?.entries {
        let object = entry.object.value(entry.revision);
        let text = |field: &str| object["spec"][field].as_str().unwrap_or_default();
        let managed = object["metadata"]["labels"][MANAGED] == ALWAYS;
        if !managed || text("group") != group || versions.contains(text("version")) {
            continue;
        }
        match server.store.delete(&entry.key, entry.revision).await {
            Ok(gone) => server.aggregation.written(&gone, true),
            Err(StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
            Err(error) => return Err(store_status(error)),
        }
    }
    Ok(())
}
