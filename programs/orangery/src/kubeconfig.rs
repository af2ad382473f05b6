//! `orangery kubeconfig`: prints a kubeconfig. It reads the files that `up` wrote and sends requests to the garden; it never
//! signs anything itself.

use api_meta::Fault;
pub use landscape_data_folder::kubeconfig::{garden_client, garden_failed, path, seed_part};
use landscape_data_folder::kubeconfig::{of_garden, of_seed, of_shoot};

use crate::cli::{self, KubeconfigOf};

/// The text that the command prints.
///
/// # Errors
/// A file that is missing or no kubeconfig, a garden that does not answer or refuses: each error has a hint.
pub async fn text(arguments: &cli::Kubeconfig) -> Result<String, Fault> {
    let data_dir = &arguments.data_dir;
    match &arguments.of {
        KubeconfigOf::Garden => of_garden(data_dir),
        KubeconfigOf::Seed { seed } => of_seed(data_dir, seed),
        KubeconfigOf::Shoot { shoot } => of_shoot(data_dir, &shoot.namespace, &shoot.name).await,
    }
}
