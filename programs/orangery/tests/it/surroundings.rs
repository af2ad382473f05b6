//! What the example Shoot needs around it, in the garden of a running binary.

use std::time::Duration;

use api_core::v1beta1::{Project, ProjectPhase};
use base_client::{Judgement, wait_until};
use kube::{Api, Client};
use programs_orangery::landscape::{apply_all, documents};

/// Real time: many times what a slow machine needs.
const PATIENCE: Duration = Duration::from_secs(120);
const PROJECT: &str = include_str!("../../../../examples/10-project.yaml");
const IN_THE_PROJECT: [&str; 2] = [
    include_str!("../../../../examples/20-cloudprofile.yaml"),
    include_str!("../../../../examples/30-credentials.yaml"),
];

/// Applies the example's project, cloud profile and credentials. The credentials live in the project's namespace,
/// which a controller makes: it is there once the project is ready.
pub(crate) async fn apply(garden: &Client) {
    apply_all(garden, documents(PROJECT).unwrap()).await.unwrap();
    let projects: Api<Project> = Api::all(garden.clone());
    wait_until(&projects, "local", PATIENCE, |project| {
        match project.and_then(|project| project.status.as_ref()?.phase.as_ref()) {
            Some(ProjectPhase::Ready) => Judgement::Done(()),
            phase => Judgement::NotYet(format!("{phase:?}")),
        }
    })
    .await
    .unwrap();
    for manifest in IN_THE_PROJECT {
        apply_all(garden, documents(manifest).unwrap()).await.unwrap();
    }
}
