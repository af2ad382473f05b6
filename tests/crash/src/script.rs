//! What the user does, in each of the lifecycles: creates the example Shoot, gives it a second pool, deletes it; or
//! hibernates it and wakes it; or gives it a tunnel to its nodes and takes it away; or registers an extension, upgrades it, removes it. Each step can be repeated by a user who
//! does not know how far it came.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use api_core::v1beta1::{Project, ProjectPhase, Shoot};
use api_meta::{LastOperationState, annotations};
use base_client::{WaitState, delete_and_wait, wait_until};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use landscape_local::{NodeAccess, apply_all, documents};
use serde_json::{Value, json};

use crate::installation;
use crate::picture::Picture;
use crate::view::View;

/// Longer than any wait inside the product; in virtual time it costs little.
pub const PATIENCE: Duration = Duration::from_secs(3600);
/// The project namespace of the examples.
pub const NAMESPACE: &str = "garden-local";
/// The Shoot of the examples.
pub const NAME: &str = "local";
/// Its namespace in the seed.
pub const TECHNICAL_ID: &str = "shoot--local--local";

const PROJECT: &str = include_str!("../../../examples/10-project.yaml");
const PROJECT_NAME: &str = "local";
const SURROUNDINGS: [&str; 2] = [
    include_str!("../../../examples/20-cloudprofile.yaml"),
    include_str!("../../../examples/30-credentials.yaml"),
];
/// The Shoot of the examples.
pub const SHOOT: &str = include_str!("../../../examples/40-shoot.yaml");

/// What the user is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Phase {
    /// The landscape starts and makes itself ready; the user waits.
    #[default]
    Start,
    /// A Shoot is asked for.
    Create,
    /// It gets a second pool.
    Update,
    /// The landscape is started again so that API servers reach nodes through a tunnel, and it is reconciled.
    Tunnel,
    /// The landscape is started again so that API servers reach nodes directly, and it is reconciled.
    Direct,
    /// It is hibernated.
    Hibernate,
    /// It is woken.
    Wake,
    /// It is deleted.
    Delete,
    /// An extension is registered with a chart.
    Install,
    /// It gets other values, then another chart.
    Upgrade,
    /// Its registration is deleted.
    Remove,
}

/// What the user works on, from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Lifecycle {
    /// A Shoot.
    Shoot,
    /// A Shoot that is hibernated and woken.
    Hibernation,
    /// The same with a tunnel to its nodes.
    Tunnel,
    /// A Shoot that gets a tunnel to its nodes and loses it.
    NodeAccess,
    /// An extension that is installed from a chart.
    Installation,
}

impl Lifecycle {
    /// All.
    pub const ALL: [Self; 5] = [
        Self::Shoot,
        Self::Hibernation,
        Self::Tunnel,
        Self::NodeAccess,
        Self::Installation,
    ];

    /// Its phases, in the order in which they come.
    #[must_use]
    pub fn phases(self) -> &'static [Phase] {
        match self {
            Self::Shoot => &[Phase::Start, Phase::Create, Phase::Update, Phase::Delete],
            Self::Hibernation | Self::Tunnel => &[
                Phase::Start,
                Phase::Create,
                Phase::Hibernate,
                Phase::Wake,
                Phase::Delete,
            ],
            Self::NodeAccess => &[Phase::Start, Phase::Create, Phase::Tunnel, Phase::Direct, Phase::Delete],
            Self::Installation => &[Phase::Start, Phase::Install, Phase::Upgrade, Phase::Remove],
        }
    }

    /// The phases in which the process dies: not those that another lifecycle has as well.
    #[must_use]
    pub fn fatal_phases(self) -> &'static [Phase] {
        match self {
            Self::Shoot => self.phases(),
            Self::Hibernation => &[Phase::Hibernate, Phase::Wake],
            Self::NodeAccess => &[Phase::Tunnel, Phase::Direct],
            Self::Tunnel | Self::Installation => &self.phases()[1..],
        }
    }

    /// How API servers of Shoots reach nodes in a phase.
    #[must_use]
    pub fn node_access(self, phase: Phase) -> NodeAccess {
        match (self, phase) {
            (Self::Tunnel, _) | (Self::NodeAccess, Phase::Tunnel) => NodeAccess::Tunnel,
            _ => NodeAccess::Direct,
        }
    }

    /// The uids of the objects that must stay until the last phase, as far as they exist.
    ///
    /// # Errors
    /// A server's refusal.
    pub async fn lasting(self, view: &View) -> Result<BTreeSet<String>, String> {
        match self {
            Self::Shoot | Self::NodeAccess => view.machines().await,
            Self::Hibernation | Self::Tunnel => view.claims().await,
            Self::Installation => installation::lasting(view).await,
        }
    }

    /// What is left after a phase of a run without a death that should leave nothing of it: the last one; hibernation, which
    /// leaves nothing of the machines and nothing that runs; the end of the tunnel, after which all is as before it.
    #[must_use]
    pub fn leftovers(self, pictures: &BTreeMap<Phase, Picture>) -> Vec<String> {
        let left = |phase: Phase, words: &[&str]| {
            let named = pictures.get(&phase).map(|picture| picture.naming(words));
            let named = named.into_iter().flatten();
            let objects = named.filter(|line| !line.contains("CustomResourceDefinition"));
            objects.map(str::to_owned).collect::<Vec<_>>()
        };
        match self {
            Self::Shoot | Self::Hibernation | Self::Tunnel | Self::NodeAccess => {
                let runs = [format!("Pod {TECHNICAL_ID}/")];
                let mut asleep: Vec<&str> = runs.iter().map(String::as_str).collect();
                asleep.push("seed: Machine ");
                let all = left(Phase::Delete, &["shoot", "Machine", "folder: buckets/*/"]);
                let direct = pictures.get(&Phase::Direct);
                let direct = direct.map(|direct| direct.differences(&pictures[&Phase::Create]));
                let mut direct = direct.unwrap_or_default();
                // An API server that was replaced leaves an empty one.
                direct.retain(|line| !line.contains(": ReplicaSet "));
                [left(Phase::Hibernate, &asleep), direct, all].concat()
            }
            Self::Installation => pictures[&Phase::Remove].differences(&pictures[&Phase::Start]),
        }
    }
}

impl fmt::Display for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shoot => "shoot",
            Self::Hibernation => "hibernation",
            Self::Tunnel => "tunnel",
            Self::NodeAccess => "node-access",
            Self::Installation => "installation",
        })
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Create => "create",
            Self::Update => "update",
            Self::Tunnel => "tunnel",
            Self::Direct => "direct",
            Self::Hibernate => "hibernate",
            Self::Wake => "wake",
            Self::Delete => "delete",
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Remove => "remove",
        })
    }
}

/// Does what belongs to a phase, and waits until the Shoot's last operation, or the installation's conditions, report that
/// it is done.
///
/// # Errors
/// What did not come true, with the last status.
pub async fn act(view: &View, phase: Phase) -> Result<(), String> {
    let garden = &view.garden;
    let shoots: Api<Shoot> = Api::namespaced(garden.clone(), NAMESPACE);
    match phase {
        Phase::Start => Ok(()),
        Phase::Create => {
            surround(garden).await?;
            apply(garden, SHOOT).await?;
            succeeded(&shoots).await
        }
        Phase::Update => {
            let mut wanted = documents(SHOOT).map_err(text)?.remove(0);
            let workers = &mut wanted["spec"]["provider"]["workers"];
            let mut second = workers[0].clone();
            second["name"] = json!("pool-b");
            if let Value::Array(pools) = workers {
                pools.push(second);
            }
            apply_all(garden, vec![wanted]).await.map_err(text)?;
            succeeded(&shoots).await
        }
        Phase::Tunnel | Phase::Direct => {
            reconcile(&shoots).await?;
            succeeded(&shoots).await
        }
        Phase::Hibernate | Phase::Wake => {
            hibernate(&shoots, phase == Phase::Hibernate).await?;
            succeeded(&shoots).await
        }
        Phase::Delete => {
            let confirmed = json!({"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}});
            match shoots
                .patch(NAME, &PatchParams::default(), &Patch::Merge(&confirmed))
                .await
            {
                Err(error) if base_client::is_missing(&error) => return Ok(()),
                answer => answer.map_err(text)?,
            };
            delete_and_wait(&shoots, NAME, PATIENCE).await.map_err(text)
        }
        Phase::Install => installation::install(view).await,
        Phase::Upgrade => installation::upgrade(view).await,
        Phase::Remove => installation::remove(view).await,
    }
}

/// Extensions report in whole seconds: a change within the second of the one before could pass for answered.
const NEXT_SECOND: Duration = Duration::from_secs(2);

/// Sets whether the Shoot is to be hibernated.
///
/// # Errors
/// The garden's refusal.
pub async fn hibernate(shoots: &Api<Shoot>, enabled: bool) -> Result<(), String> {
    tokio::time::sleep(NEXT_SECOND).await;
    let patch = Patch::Merge(json!({"spec": {"hibernation": {"enabled": enabled}}}));
    let patched = shoots.patch(NAME, &PatchParams::default(), &patch).await;
    patched.map(drop).map_err(text)
}

/// Has the Shoot reconciled with what is configured now.
///
/// # Errors
/// The garden's refusal.
pub async fn reconcile(shoots: &Api<Shoot>) -> Result<(), String> {
    tokio::time::sleep(NEXT_SECOND).await;
    let patch = Patch::Merge(json!({"metadata": {"annotations": {annotations::OPERATION: "reconcile"}}}));
    let patched = shoots.patch(NAME, &PatchParams::default(), &patch).await;
    patched.map(drop).map_err(text)
}

/// Makes what a Shoot needs in the garden, and waits until one can be asked for.
///
/// # Errors
/// What did not come true.
pub async fn surround(garden: &Client) -> Result<(), String> {
    apply(garden, PROJECT).await?;
    // All else lives in the project's namespace.
    wait_until(
        &Api::<Project>::all(garden.clone()),
        PROJECT_NAME,
        PATIENCE,
        |project| match project.and_then(|project| project.status.as_ref()?.phase.as_ref()) {
            Some(ProjectPhase::Ready) => WaitState::Done(()),
            phase => WaitState::NotYet(format!("its phase is {phase:?}")),
        },
    )
    .await
    .map_err(text)?;
    for manifest in SURROUNDINGS {
        apply(garden, manifest).await?;
    }
    Ok(())
}

async fn apply(garden: &Client, manifest: &str) -> Result<(), String> {
    apply_all(garden, documents(manifest).map_err(text)?)
        .await
        .map_err(text)
}

/// Waits until the Shoot's last operation has succeeded with what is asked for now.
///
/// # Errors
/// The Shoot's last status.
pub async fn succeeded(shoots: &Api<Shoot>) -> Result<(), String> {
    wait_until(shoots, NAME, PATIENCE, |shoot| {
        let Some(shoot) = shoot else {
            return WaitState::NotYet("it is not there".to_owned());
        };
        let Some(status) = &shoot.status else {
            return WaitState::NotYet("it has no status".to_owned());
        };
        let done = status
            .last_operation
            .as_ref()
            .is_some_and(|operation| operation.state == LastOperationState::Succeeded && operation.progress == 100);
        if done && status.observed_generation == shoot.metadata.generation {
            WaitState::Done(())
        } else {
            WaitState::NotYet(format!(
                "generation {:?}, observed {:?}, last operation {:?}, last errors {:?}",
                shoot.metadata.generation, status.observed_generation, status.last_operation, status.last_errors
            ))
        }
    })
    .await
    .map_err(text)
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}
