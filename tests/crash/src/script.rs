//! What the user does: asks for the example Shoot, gives it a second pool, deletes it. Each step can be repeated by a user
//! who does not know how far it came.

use std::fmt;
use std::time::Duration;

use api_core::v1beta1::{Project, ProjectPhase, Shoot};
use api_meta::LastOperationState;
use base_client::{Judgement, delete_and_wait, wait_until};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use programs_orangery::landscape::{apply_all, documents};
use serde_json::{Value, json};

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
    /// It is deleted.
    Delete,
}

impl Phase {
    /// All, in the order in which they come.
    pub const ALL: [Self; 4] = [Self::Start, Self::Create, Self::Update, Self::Delete];
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        })
    }
}

/// Does what belongs to a phase, and waits until the Shoot's last operation says that it is done.
///
/// # Errors
/// What did not come true, with the Shoot's last status.
pub async fn act(garden: &Client, phase: Phase) -> Result<(), String> {
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
    }
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
            Some(ProjectPhase::Ready) => Judgement::Done(()),
            phase => Judgement::NotYet(format!("its phase is {phase:?}")),
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
            return Judgement::NotYet("it is not there".to_owned());
        };
        let Some(status) = &shoot.status else {
            return Judgement::NotYet("it has no status".to_owned());
        };
        let done = status
            .last_operation
            .as_ref()
            .is_some_and(|operation| operation.state == LastOperationState::Succeeded && operation.progress == 100);
        if done && status.observed_generation == shoot.metadata.generation {
            Judgement::Done(())
        } else {
            Judgement::NotYet(format!(
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
