//! The example of `orangery up --example`: a project, what it needs, and a Shoot, as they stand in `examples/`.

use std::time::Duration;

use api_core::v1beta1::{Project, ProjectPhase, Shoot};
use api_meta::Fault;
use base_client::{WaitState, wait_until};
use kube::{Api, Client};

use super::{apply_all, documents};

/// The project that `--example` applies, as it stands in `examples/`.
const PROJECT: &str = include_str!("../../../examples/10-project.yaml");
/// Its name.
const PROJECT_NAME: &str = "local";
/// What `--example` applies in the project, likewise.
const MANIFESTS: [&str; 3] = [
    include_str!("../../../examples/20-cloudprofile.yaml"),
    include_str!("../../../examples/30-credentials.yaml"),
    include_str!("../../../examples/40-shoot.yaml"),
];
/// The project's namespace, where the example Shoot lives.
pub const NAMESPACE: &str = "garden-local";
/// The Shoot's name.
pub const NAME: &str = "local";
/// How long the project may take until it is ready: many times what a slow machine needs, so that something is wrong when
/// it is reached.
const PATIENCE: Duration = Duration::from_secs(300);

/// Applies the example's project and waits until it is ready: all else of the example lives in its namespace, which is
/// there then.
///
/// # Errors
/// The garden refuses it, or it does not become ready.
pub async fn apply_project(client: &Client) -> Result<(), Fault> {
    apply_all(client, documents(PROJECT)?).await?;
    let projects: Api<Project> = Api::all(client.clone());
    wait_until(&projects, PROJECT_NAME, PATIENCE, |project| {
        match project.and_then(|project| project.status.as_ref()?.phase.as_ref()) {
            Some(ProjectPhase::Ready) => WaitState::Done(()),
            Some(phase) => WaitState::NotYet(format!("its phase is {phase}")),
            None => WaitState::NotYet("it has no phase".to_owned()),
        }
    })
    .await?;
    Ok(())
}

/// Applies the example, unless its Shoot is there.
///
/// # Errors
/// The garden refuses it, or the project does not become ready.
pub async fn apply(client: &Client) -> Result<(), Fault> {
    let shoots: Api<Shoot> = Api::namespaced(client.clone(), NAMESPACE);
    // What its user has made of it since is not taken back.
    if base_client::get(&shoots, NAME).await?.is_some() {
        return Ok(());
    }
    apply_project(client).await?;
    for manifest in MANIFESTS {
        apply_all(client, documents(manifest)?).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base_clock::Entropy;
    use control_plane_garden_api::GardenSettings;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::{Patch, PatchParams, PostParams};
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_example_waits_for_the_namespace_of_its_project() {
        let settings = GardenSettings {
            entropy: Entropy::seeded(1),
            gateway: None,
            plugins: control_plane_garden_api::AdmissionPlugins::default(),
        };
        let kinds = control_plane_garden_api::kinds(&settings);
        let garden = tests_kit::embedded_with("garden", kinds, |builder| builder).await;
        let client = garden.admin();
        let mut applying = std::pin::pin!(apply(&client));
        let early = tokio::time::timeout(Duration::from_secs(5), &mut applying).await;
        assert!(early.is_err(), "{early:?}");

        let namespace: Namespace = serde_json::from_value(json!({"metadata": {
            "name": NAMESPACE,
            "labels": {"gardener.cloud/role": "project", "project.gardener.cloud/name": PROJECT_NAME},
        }}))
        .unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let projects: Api<Project> = Api::all(client.clone());
        let ready = Patch::Merge(json!({"status": {"phase": "Ready"}}));
        projects
            .patch_status(PROJECT_NAME, &PatchParams::default(), &ready)
            .await
            .unwrap();
        let fault = applying.await.unwrap_err();
        assert!(
            fault.to_string().starts_with("apply Shoot local: "),
            "all else was applied, and for a Shoot no extension is registered here: {fault}"
        );
    }
}
