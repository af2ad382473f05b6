//! `orangery kubeconfig`: prints a kubeconfig. It reads the files that `up` wrote and asks the garden; it never
//! signs anything itself.

use std::path::{Path, PathBuf};

use api_core::authentication::{AdminKubeconfigRequest, KubeconfigRequestSpec};
use api_core::v1beta1::Shoot;
use api_meta::Fault;
use base_client::{Connector, Https, fault_of};
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;

use crate::cli::{self, KubeconfigOf, ShootRef};

/// How long a Shoot's kubeconfig is valid: long enough for a session at the terminal.
const VALID_SECONDS: i64 = 3600;

/// Where a part of the landscape has its kubeconfig.
#[must_use]
pub fn path(data_dir: &Path, part: &str) -> PathBuf {
    data_dir.join(format!("{part}.kubeconfig"))
}

/// The text that the command prints.
///
/// # Errors
/// A file that is missing or no kubeconfig, a garden that does not answer or refuses: each says what to do.
pub async fn print(arguments: &cli::Kubeconfig) -> Result<String, Fault> {
    match &arguments.of {
        KubeconfigOf::Garden => read(&arguments.data_dir, "garden"),
        KubeconfigOf::Seed => read(&arguments.data_dir, "seed"),
        KubeconfigOf::Shoot { shoot } => of_shoot(&arguments.data_dir, shoot).await,
    }
}

fn read(data_dir: &Path, part: &str) -> Result<String, Fault> {
    let path = path(data_dir, part);
    std::fs::read_to_string(&path).map_err(|error| {
        Fault::user(format!("cannot read {}: {error}", path.display()))
            .hint("start `orangery up` first, or name its folder with --data-dir")
    })
}

/// A client for the garden, with the kubeconfig that `up` left in its data folder.
///
/// # Errors
/// As [`print()`].
pub fn garden_client(data_dir: &Path) -> Result<kube::Client, Fault> {
    let text = read(data_dir, "garden")?;
    let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| {
        Fault::user(format!(
            "{} is not a kubeconfig: {error}",
            path(data_dir, "garden").display()
        ))
        .hint("remove it and start `orangery up` again")
    })?;
    Https::new("orangery").client(&kubeconfig)
}

async fn of_shoot(data_dir: &Path, shoot: &ShootRef) -> Result<String, Fault> {
    let shoots: Api<Shoot> = Api::namespaced(garden_client(data_dir)?, &shoot.namespace);
    let doing = format!("ask for a kubeconfig of Shoot {}/{}", shoot.namespace, shoot.name);
    let request = AdminKubeconfigRequest {
        spec: KubeconfigRequestSpec {
            expiration_seconds: Some(VALID_SECONDS),
        },
        ..AdminKubeconfigRequest::default()
    };
    let answer: AdminKubeconfigRequest = shoots
        .create_subresource("adminkubeconfig", &shoot.name, &PostParams::default(), &request)
        .await
        .map_err(|error| fault_of(error, &doing))?;
    let kubeconfig = answer.status.map(|status| status.kubeconfig.0).unwrap_or_default();
    String::from_utf8(kubeconfig).map_err(|_| Fault::bug(format!("{doing}: the answer is not text")))
}
