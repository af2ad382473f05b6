//! The garden's own controllers (gardener/gardener v1.150 pkg/controllermanager): which extensions each seed needs,
//! projects and their namespaces, bindings and their credentials, the life of seeds and the certificates of their gardenlets,
//! what shoots show, hibernation schedules. They reach seeds and extensions only through objects of the garden, and never
//! install anything themselves.

mod binding;
mod context;
mod hibernation;
mod project;
mod registration;
mod seed;
mod shoot;
mod signing_request;

use std::collections::BTreeSet;
use std::fmt;

use api_core::security::CredentialsBinding;
use api_core::v1beta1::SecretBinding;
use base_clock::Clock;
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use signing_request::{SIGNER as GARDENLET_SIGNER, USAGES as GARDENLET_USAGES};

use context::Context;

/// A controller of the garden, by the name that Gardener gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Which extensions each seed needs, and what protects registrations in use.
    ControllerRegistration,
    /// What protects deployments in use.
    ControllerDeployment,
    /// Life of seeds, their namespaces and rights.
    Seed,
    /// Projects and their namespaces.
    Project,
    /// SecretBindings and their Secrets.
    SecretBinding,
    /// CredentialsBindings and their credentials.
    CredentialsBinding,
    /// What shoots show.
    Shoot,
    /// Hibernation schedules of shoots.
    ShootHibernation,
    /// Signing requests of gardenlets.
    CertificateSigningRequest,
}

impl Name {
    /// Every controller.
    pub const ALL: [Name; 9] = [
        Name::ControllerRegistration,
        Name::ControllerDeployment,
        Name::Seed,
        Name::Project,
        Name::SecretBinding,
        Name::CredentialsBinding,
        Name::Shoot,
        Name::ShootHibernation,
        Name::CertificateSigningRequest,
    ];
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Name::ControllerRegistration => "controllerregistration",
            Name::ControllerDeployment => "controllerdeployment",
            Name::Seed => "seed",
            Name::Project => "project",
            Name::SecretBinding => "secretbinding",
            Name::CredentialsBinding => "credentialsbinding",
            Name::Shoot => "shoot",
            Name::ShootHibernation => "shoot-hibernation",
            Name::CertificateSigningRequest => "certificatesigningrequest",
        })
    }
}

/// Runs these controllers until `stop`. `client` reaches the garden as controller-manager's user.
pub async fn run(client: Client, controllers: BTreeSet<Name>, clock: Clock, stop: CancellationToken) {
    let context = Context::start(client, clock, &stop);
    let mut running = JoinSet::new();
    for name in controllers {
        let (context, stop) = (context.clone(), stop.clone());
        match name {
            Name::ControllerRegistration => {
                running.spawn(registration::run_installations(context.clone(), stop.clone()));
                running.spawn(registration::run_standing(context.clone(), stop.clone()));
                running.spawn(registration::run_registration_finalizers(context, stop))
            }
            Name::ControllerDeployment => running.spawn(registration::run_deployment_finalizers(context, stop)),
            Name::Seed => running.spawn(seed::run(context, stop)),
            Name::Project => running.spawn(project::run(context, stop)),
            Name::SecretBinding => running.spawn(binding::run::<SecretBinding>(context, stop)),
            Name::CredentialsBinding => running.spawn(binding::run::<CredentialsBinding>(context, stop)),
            Name::Shoot => running.spawn(shoot::run(context, stop)),
            Name::ShootHibernation => running.spawn(hibernation::run(context, stop)),
            Name::CertificateSigningRequest => running.spawn(signing_request::run(context, stop)),
        };
    }
    while running.join_next().await.is_some() {}
}
