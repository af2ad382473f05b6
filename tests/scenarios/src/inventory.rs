//! Everything that is there: each object of garden and seed, found through discovery, and each file of the provider.
//! What a scenario made and took away again must leave the list as it was.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use kube::api::{DynamicObject, ListParams};
use kube::discovery::{Discovery, verbs};
use kube::{Api, Client, ResourceExt};

use crate::World;

/// How long after a Shoot's end its last traces may take to go, in virtual time: namespaces and volumes end after what
/// was in them.
const TRACES_MAX: Duration = Duration::from_secs(300);
/// Kinds that tell of what was, and end by themselves.
const RECORDS: [&str; 1] = ["Event"];

/// The names of all that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory(BTreeSet<String>);

impl Inventory {
    /// All objects of these clusters, each with what it is called in the list.
    pub async fn of(clusters: &[(&str, &Client)]) -> Self {
        let mut found = BTreeSet::new();
        for (cluster, client) in clusters {
            objects(cluster, client, &mut found).await;
        }
        Self(found)
    }

    /// What is here and not in `before`.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

impl World {
    /// Lists everything.
    pub async fn inventory(&self) -> Inventory {
        let Inventory(mut found) = Inventory::of(&[("garden", &self.garden), ("seed", &self.seed)]).await;
        files(self.folder(), &mut found);
        Inventory(found)
    }

    /// Waits until nothing is there that was not `before`, and fails with what remains. Many kinds cannot be watched as
    /// one, so they are listed again every second of virtual time.
    pub async fn nothing_beyond(&self, before: &Inventory) {
        let end = tokio::time::Instant::now() + TRACES_MAX;
        loop {
            let left = self.inventory().await.beyond(before);
            if left.is_empty() {
                return;
            }
            assert!(tokio::time::Instant::now() < end, "left behind: {left:#?}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn objects(cluster: &str, client: &Client, found: &mut BTreeSet<String>) {
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if !capabilities.supports_operation(verbs::LIST) || RECORDS.contains(&resource.kind.as_str()) {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let listed = loop {
                match api.list(&ListParams::default()).await {
                    // kube-apiserver prepares the storage of a kind that was just defined; no watch reports when.
                    Err(kube::Error::Api(status)) if status.code == 429 => {
                        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    }
                    listed => break listed.unwrap(),
                }
            };
            for object in listed {
                let namespace = object.namespace().unwrap_or_default();
                let (kind, group) = (&resource.kind, &resource.group);
                found.insert(format!("{cluster}: {kind}.{group} {namespace}/{}", object.name_any()));
            }
        }
    }
}

fn files(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        found.insert(format!("file: {}", path.display()));
        if path.is_dir() {
            files(&path, found);
        }
    }
}
