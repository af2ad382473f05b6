//! What the example Shoot needs around it, in the garden of a running binary.

use kube::Client;
use landscape_local::{apply_all, documents, example};

const IN_THE_PROJECT: [&str; 2] = [
    include_str!("../../../../examples/20-cloudprofile.yaml"),
    include_str!("../../../../examples/30-credentials.yaml"),
];

/// Applies the example's project, cloud profile and credentials.
pub(crate) async fn apply(garden: &Client) {
    example::apply_project(garden).await.unwrap();
    for manifest in IN_THE_PROJECT {
        apply_all(garden, documents(manifest).unwrap()).await.unwrap();
    }
}
