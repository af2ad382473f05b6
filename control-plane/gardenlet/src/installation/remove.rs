//! Takes an installation down: the ManagedResource and with it all objects, the namespace, the service account in the
//! garden, the finalizer. Each step waits for the one before, by watching.

use api_core::v1beta1::ControllerInstallation;
use api_meta::{Condition, ConditionStatus, Fault, ObjectName, conditions, finalizers, labels, names};
use api_resources::ManagedResource;
use base_client::{delete, fault_of, get, has_finalizer, is_conflict, is_missing, remove_finalizer};
use base_controller::Next;
use k8s_openapi::api::core::v1::{Namespace, Secret, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::{Api, Resource, ResourceExt};

use conditions::installation as reason;

use super::access::service_account;
use super::observe;
use super::report::{self, About};
use crate::context::Context;

/// What of an installation is left in the seed. Read from the API server: a cache may not have seen yet what was
/// written a moment ago.
struct Left {
    managed_resource: Option<ManagedResource>,
    namespace: Option<Namespace>,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Its deletion is requested, unless it has been, and awaited.
    ManagedResource { requested: bool },
    /// The same.
    Namespace { requested: bool },
    /// Nothing is left in the seed.
    Finish,
}

/// One turn of a removal.
///
/// # Errors
/// What an API server returns; the condition Installed reports it too.
pub(crate) async fn reconcile(context: &Context, installation: &ControllerInstallation) -> Result<Next, Fault> {
    if !has_finalizer(installation, finalizers::CONTROLLER_INSTALLATION) {
        return Ok(Next::Change);
    }
    match turn(context, installation).await {
        Ok(Some((object, waiting_for))) => {
            let message = format!("Deletion of {waiting_for}");
            let about = About::object(object);
            write(context, installation, reason::DELETION_PENDING, &message, &about).await?;
        }
        Ok(None) => {}
        Err(fault) => {
            let problem = api_meta::Problem::of(None, &fault, fault.codes.clone());
            let about = About::Failed(Box::new(problem));
            write(
                context,
                installation,
                reason::DELETION_FAILED,
                &fault.text_with_hint(),
                &about,
            )
            .await?;
            return Err(fault);
        }
    }
    Ok(Next::Change)
}

async fn write(
    context: &Context,
    installation: &ControllerInstallation,
    reason: &str,
    message: &str,
    about: &About,
) -> Result<(), Fault> {
    let now = context.clock.now();
    let condition = Condition::new(reason::INSTALLED, ConditionStatus::False, reason, message, now);
    report::write(context, installation, vec![condition], about)
        .await
        .map(drop)
}

/// Does the next step; returns what it waits for, or nothing at the end.
async fn turn(context: &Context, installation: &ControllerInstallation) -> Result<Option<(ObjectName, String)>, Fault> {
    let name = installation.name_any();
    let resources = context.in_seed::<ManagedResource>(names::GARDEN_NAMESPACE);
    let namespaces: Api<Namespace> = Api::all(context.seed.clone());
    let namespace = names::extension_namespace(&name);
    let left = Left {
        managed_resource: get(&resources, &name).await?,
        namespace: get(&namespaces, &namespace).await?,
    };
    if is_of_another(context, installation, &left) {
        return Ok(None);
    }
    match step(&left) {
        Step::ManagedResource { requested } => {
            if !requested {
                delete(&resources, &name).await?;
            }
            let waiting_for = format!("ManagedResource {name:?} {}", pending(&left));
            Ok(Some((report::managed_resource(installation), waiting_for)))
        }
        Step::Namespace { requested } => {
            delete_data(context, &name).await?;
            if !requested {
                delete(&namespaces, &namespace).await?;
            }
            let waiting_for = format!("Namespace {namespace:?} is still pending.");
            Ok(Some((ObjectName::new("Namespace", None, namespace), waiting_for)))
        }
        Step::Finish => {
            delete_data(context, &name).await?;
            let accounts = context.in_garden::<ServiceAccount>(&names::seed_namespace(context.config.seed_name()));
            delete(&accounts, &service_account(&name)).await?;
            let installations: Api<ControllerInstallation> = Api::all(context.garden.clone());
            remove_finalizer(
                &installations,
                installation.clone(),
                finalizers::CONTROLLER_INSTALLATION,
            )
            .await?;
            Ok(None)
        }
    }
}

/// That it is waited for, with what the resource manager reports about it.
fn pending(left: &Left) -> String {
    let status = left
        .managed_resource
        .as_ref()
        .and_then(|resource| resource.status.as_ref());
    let known = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let applied = Condition::find(known, conditions::managed_resource::RESOURCES_APPLIED);
    match applied.filter(|one| conditions::managed_resource::is_deletion(&one.reason)) {
        Some(why) => format!("is still pending: {}", why.message),
        None => "is still pending.".to_owned(),
    }
}

fn step(left: &Left) -> Step {
    match (&left.managed_resource, &left.namespace) {
        (Some(resource), _) => Step::ManagedResource {
            requested: is_going(resource),
        },
        (None, Some(namespace)) => Step::Namespace {
            requested: is_going(namespace),
        },
        (None, None) => Step::Finish,
    }
}

fn is_going<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Whether the finalizer is that of an operator of another type of ControllerDeployment, and not ours: what we install
/// begins with a ManagedResource, and the condition of what we delete reports that.
fn is_of_another(context: &Context, installation: &ControllerInstallation, left: &Left) -> bool {
    let reference = installation.spec.deployment_ref.as_ref();
    let name = reference
        .and_then(|reference| reference.name.clone())
        .unwrap_or_default();
    let key = base_controller::ObjectKey::cluster(name);
    let exists = context.garden_caches.deployments.get(&key).is_some();
    let is_other = exists && observe::deployment(context, installation).is_none();
    let began = Condition::find(report::conditions(installation), reason::INSTALLED)
        .is_some_and(|installed| reason::is_deletion(&installed.reason));
    is_other && left.managed_resource.is_none() && !began
}

/// Deletes the Secrets that held objects before the present ones, which are applied. The seed's collection would take them
/// within an hour; upstream leaves them to it.
///
/// # Errors
/// What the seed's API server returns.
pub(crate) async fn delete_superseded(context: &Context, resource: &ManagedResource) -> Result<(), Fault> {
    // One that was never changed has none before it.
    if resource.metadata.generation.unwrap_or_default() <= 1 {
        return Ok(());
    }
    let all = data(context, &resource.name_any()).await?;
    let secrets = context.in_seed::<Secret>(names::GARDEN_NAMESPACE);
    for old in superseded(&all, resource) {
        // One that is used again meanwhile has another version.
        let as_seen = Preconditions {
            uid: old.uid(),
            resource_version: old.resource_version(),
        };
        let name = old.name_any();
        match secrets
            .delete(&name, &DeleteParams::default().preconditions(as_seen))
            .await
        {
            Err(error) if !is_missing(&error) && !is_conflict(&error) => {
                return Err(fault_of(error, &format!("delete Secret {name}")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Those put to use before the one that is used. Their data never changes, and each gets a new version before it is put to
/// use, so versions order them; a newer one may be on its way into the ManagedResource.
fn superseded<'a>(
    all: &'a [PartialObjectMeta<Secret>],
    resource: &ManagedResource,
) -> Vec<&'a PartialObjectMeta<Secret>> {
    let version = |secret: &PartialObjectMeta<Secret>| secret.resource_version()?.parse::<u64>().ok();
    let is_used = |secret: &&PartialObjectMeta<Secret>| {
        let mut references = resource.spec.secret_refs.iter();
        references.any(|reference| reference.name == secret.name_any())
    };
    let Some(present) = all.iter().filter(is_used).filter_map(version).min() else {
        return Vec::new();
    };
    let older = |secret: &&PartialObjectMeta<Secret>| version(secret).is_some_and(|version| version < present);
    all.iter().filter(older).collect()
}

/// The Secrets that hold the objects, and those that held them.
async fn data(context: &Context, installation: &str) -> Result<Vec<PartialObjectMeta<Secret>>, Fault> {
    let selector = format!("{}={installation}", labels::CONTROLLER_INSTALLATION_NAME);
    let secrets = context.in_seed::<Secret>(names::GARDEN_NAMESPACE);
    let found = secrets.list_metadata(&ListParams::default().labels(&selector)).await;
    Ok(found
        .map_err(|error| fault_of(error, "list the Secrets with its objects"))?
        .items)
}

async fn delete_data(context: &Context, installation: &str) -> Result<(), Fault> {
    for secret in data(context, installation).await? {
        delete(&context.in_seed::<Secret>(names::GARDEN_NAMESPACE), &secret.name_any()).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn each_step_waits_for_the_one_before() {
        let going = || Some(Time(jiff::Timestamp::UNIX_EPOCH));
        let mut left = Left {
            managed_resource: Some(ManagedResource::default()),
            namespace: Some(Namespace::default()),
        };
        assert_eq!(step(&left), Step::ManagedResource { requested: false });
        if let Some(resource) = &mut left.managed_resource {
            resource.metadata.deletion_timestamp = going();
        }
        assert_eq!(step(&left), Step::ManagedResource { requested: true });
        left.managed_resource = None;
        assert_eq!(step(&left), Step::Namespace { requested: false });
        if let Some(namespace) = &mut left.namespace {
            namespace.metadata.deletion_timestamp = going();
        }
        assert_eq!(step(&left), Step::Namespace { requested: true });
        left.namespace = None;
        assert_eq!(step(&left), Step::Finish);
    }

    #[test]
    fn only_secrets_older_than_the_one_in_use_are_superseded() {
        let secret = |name: &str, version: &str| -> PartialObjectMeta<Secret> {
            let metadata = serde_json::json!({"name": name, "resourceVersion": version});
            serde_json::from_value(serde_json::json!({"metadata": metadata})).unwrap()
        };
        let all = [secret("old", "9"), secret("used", "10"), secret("next", "11")];
        let using = |name: &str| {
            let mut resource = ManagedResource::default();
            resource.spec.secret_refs = vec![api_meta::LocalObjectReference { name: name.to_owned() }];
            let older = superseded(&all, &resource);
            older.into_iter().map(ResourceExt::name_any).collect::<Vec<_>>()
        };
        assert_eq!(using("used"), ["old"]);
        assert!(using("lost").is_empty());
    }
}
