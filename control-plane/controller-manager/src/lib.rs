//! The garden's own controllers (gardener/gardener v1.150 pkg/controllermanager): which extensions each seed needs,
//! projects and their namespaces, bindings and their credentials, the life of seeds, what shoots show. They reach seeds and extensions only through
//! objects of the garden, and never install anything themselves.

mod binding;
mod context;
mod project;
mod registration;
mod seed;
mod shoot;

use api_core::security::CredentialsBinding;
use api_core::v1beta1::SecretBinding;
use base_clock::Clock;
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use context::Context;

/// Runs all controllers until `stop`. `client` reaches the garden as controller-manager's user.
pub async fn run(client: Client, clock: Clock, stop: CancellationToken) {
    let context = Context::start(client, clock, &stop);
    let mut controllers = JoinSet::new();
    controllers.spawn(registration::run_installations(context.clone(), stop.clone()));
    controllers.spawn(registration::run_standing(context.clone(), stop.clone()));
    controllers.spawn(registration::run_registration_finalizers(context.clone(), stop.clone()));
    controllers.spawn(registration::run_deployment_finalizers(context.clone(), stop.clone()));
    controllers.spawn(seed::run(context.clone(), stop.clone()));
    controllers.spawn(project::run(context.clone(), stop.clone()));
    controllers.spawn(binding::run::<SecretBinding>(context.clone(), stop.clone()));
    controllers.spawn(binding::run::<CredentialsBinding>(context.clone(), stop.clone()));
    controllers.spawn(shoot::run(context, stop));
    while controllers.join_next().await.is_some() {}
}
