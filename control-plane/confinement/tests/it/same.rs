//! The few fields that the graph reads are called as the types of the garden's API call them: objects written by those types
//! draw the same edges.

use api_core::v1beta1 as core;
use api_core::{operations, security, seedmanagement, v1};
use control_plane_confinement::{Graph, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::world::{put, sources};

fn through<T: Serialize + DeserializeOwned>(object: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(object.clone()).unwrap()).unwrap()
}

#[test]
fn objects_of_the_apis_own_types_draw_every_edge() {
    let mut graph = Graph::default();
    for source in sources("a") {
        let object = &source.object;
        let written = match source.kind {
            Kind::Seed => through::<core::Seed>(object),
            Kind::Shoot => through::<core::Shoot>(object),
            Kind::Project => through::<core::Project>(object),
            Kind::SecretBinding => through::<core::SecretBinding>(object),
            Kind::CredentialsBinding => through::<security::CredentialsBinding>(object),
            Kind::ControllerInstallation => through::<core::ControllerInstallation>(object),
            Kind::ControllerDeployment => through::<v1::ControllerDeployment>(object),
            Kind::BackupBucket => through::<core::BackupBucket>(object),
            Kind::BackupEntry => through::<core::BackupEntry>(object),
            Kind::Bastion => through::<operations::Bastion>(object),
            Kind::ManagedSeed => through::<seedmanagement::ManagedSeed>(object),
            _ => object.clone(),
        };
        put(&mut graph, source.kind, &written);
    }
    for source in sources("a") {
        for (field, kind, inside, name) in source.edges {
            assert!(graph.reaches(kind, &inside, &name, "a"), "{} {field}", source.kind);
        }
    }
}
