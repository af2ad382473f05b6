//! Reads the garden and the seed. What cannot be read is `Unknown` with its reason; only a Shoot that is not there, or
//! a garden that does not answer, ends it.

mod pods;
mod seed;

use std::time::Duration;

use api_core::v1beta1::{ControllerDeployment, ControllerInstallation, ControllerRegistration, Seed, Shoot};
use api_meta::{Fault, ObjectReference, Seen, names};
use base_client::{get, list};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, ResourceExt};

use crate::facts::{Facts, InstallationFacts};
use crate::near::near;

/// How long the seed may take to answer everything: a reader waits at the terminal, and the garden alone tells much.
const SEED_PATIENCE: Duration = Duration::from_secs(15);

/// Finds the client of a seed by its name, or says why there is none.
pub type Seeds = Box<dyn Fn(&str) -> Result<Client, String> + Send + Sync>;

/// The ways to the API servers.
pub struct Access {
    /// To the garden.
    pub garden: Client,
    /// To the seeds.
    pub seeds: Seeds,
}

/// Reads what is known about a Shoot.
///
/// # Errors
/// The Shoot is not there (the error names those that may be meant), or the garden does not answer.
pub async fn observe(access: &Access, namespace: &str, name: &str, now: Timestamp) -> Result<Facts, Fault> {
    let garden = &access.garden;
    let shoots: Api<Shoot> = Api::namespaced(garden.clone(), namespace);
    let Some(shoot) = get(&shoots, name).await? else {
        return Err(absent(garden, &format!("{namespace}/{name}")).await);
    };
    let status = shoot.status.clone().unwrap_or_default();
    let seed_name = status.seed_name.or(shoot.spec.seed_name.clone());
    let (registrations, installations): (Api<ControllerRegistration>, Api<ControllerInstallation>) =
        (Api::all(garden.clone()), Api::all(garden.clone()));
    let (seed, registrations, installations, gardenlet) = futures::join!(
        seed_named(garden, seed_name.as_deref()),
        list(&registrations, ""),
        list(&installations, ""),
        renewed(garden, names::SEED_LEASE_NAMESPACE, seed_name.as_deref()),
    );
    let installations = seen(installations);
    let in_seed = match (seed_name.as_deref().map(&access.seeds), status.technical_id.as_str()) {
        (None, _) | (_, "") => Seen::Absent,
        (Some(Err(why)), _) => Seen::Unknown(why),
        (Some(Ok(client)), namespace) => {
            let reading = Box::pin(seed::observe(
                &client,
                namespace,
                seed.present(),
                installations.present(),
            ));
            tokio::time::timeout(SEED_PATIENCE, reading)
                .await
                .unwrap_or_else(|_| late())
        }
    };
    Ok(Facts {
        now,
        shoot,
        seed,
        gardenlet,
        registrations: seen(registrations),
        installations,
        in_seed,
    })
}

/// Reads what is known about a ControllerInstallation.
///
/// # Errors
/// It is not there (the error names those that may be meant), or the garden does not answer.
pub async fn observe_installation(access: &Access, name: &str, now: Timestamp) -> Result<InstallationFacts, Fault> {
    let garden = &access.garden;
    let installations: Api<ControllerInstallation> = Api::all(garden.clone());
    let Some(installation) = get(&installations, name).await? else {
        let all: Vec<String> = list(&installations, "")
            .await?
            .iter()
            .map(ResourceExt::name_any)
            .collect();
        let fault = Fault::user(format!("ControllerInstallation {name} does not exist"));
        return Err(fault.hint(match near(name, &all).as_slice() {
            [] => "choose one that `kubectl get controllerinstallations` lists".to_owned(),
            near => format!("name one that exists: {}", near.join(", ")),
        }));
    };
    let named = |reference: Option<&ObjectReference>| reference.and_then(|reference| reference.name.clone());
    let deployment = match named(installation.spec.deployment_ref.as_ref()) {
        Some(name) => base_client::observe(&Api::<ControllerDeployment>::all(garden.clone()), &name).await,
        None => Seen::Absent,
    };
    let seed = seed_named(garden, named(installation.spec.seed_ref.as_ref()).as_deref()).await;
    let seed_name = seed.present().map(ResourceExt::name_any).unwrap_or_default();
    let in_seed = match (access.seeds)(&seed_name) {
        Err(why) => Seen::Unknown(why),
        Ok(client) => {
            let reading = Box::pin(seed::installed(&client, seed.present(), name));
            tokio::time::timeout(SEED_PATIENCE, reading)
                .await
                .unwrap_or_else(|_| late())
        }
    };
    Ok(InstallationFacts {
        now,
        installation,
        deployment,
        in_seed,
    })
}

async fn seed_named(garden: &Client, name: Option<&str>) -> Seen<Seed> {
    match name {
        Some(name) => base_client::observe(&Api::all(garden.clone()), name).await,
        None => Seen::Absent,
    }
}

fn late<T>() -> Seen<T> {
    let seconds = SEED_PATIENCE.as_secs();
    Seen::Unknown(format!("the seed has not answered within {seconds} s"))
}

/// A list that could be read is present, however short.
fn seen<T>(read: Result<Vec<T>, Fault>) -> Seen<Vec<T>> {
    Seen::from_read(read.map(Some))
}

/// When a lease has been renewed last.
async fn renewed(client: &Client, namespace: &str, name: Option<&str>) -> Seen<Timestamp> {
    let Some(name) = name else { return Seen::Absent };
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    match base_client::observe(&api, name).await {
        Seen::Present(lease) => match lease.spec.and_then(|spec| spec.renew_time) {
            Some(at) => Seen::Present(at.0),
            None => Seen::Absent,
        },
        Seen::Absent => Seen::Absent,
        Seen::Unknown(why) => Seen::Unknown(why),
    }
}

async fn absent(garden: &Client, title: &str) -> Fault {
    let fault = Fault::user(format!("Shoot {title} does not exist"));
    let all = match list::<Shoot>(&Api::all(garden.clone()), "").await {
        Ok(all) => all,
        Err(unread) => return fault.hint(format!("list the Shoots that you may see ({unread})")),
    };
    let names: Vec<String> = all
        .iter()
        .map(|shoot| format!("{}/{}", shoot.namespace().unwrap_or_default(), shoot.name_any()))
        .collect();
    fault.hint(match (near(title, &names).as_slice(), names.len()) {
        (_, 0) => "create it: there is no Shoot at all".to_owned(),
        ([], count) => format!("choose one of the {count} that `kubectl get shoots --all-namespaces` lists"),
        (near, _) => format!("name one that exists: {}", near.join(", ")),
    })
}
