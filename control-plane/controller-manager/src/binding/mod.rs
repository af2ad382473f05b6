//! SecretBindings and CredentialsBindings (gardener/gardener v1.150 pkg/controllermanager/controller/{secretbinding,
//! credentialsbinding}): a binding stays while Shoots use it, and the Secret behind it while a binding needs it.
//! It reads of Secrets their metadata alone.

mod plan;

use std::fmt::Debug;
use std::sync::Arc;

use api_core::security::CredentialsBinding;
use api_core::v1beta1::{SecretBinding, Shoot};
use api_meta::{Fault, finalizers};
use base_client::{add_finalizer, has_finalizer, remove_finalizer};
use base_controller::{Cache, Change, Controller, EventType, Index, Next, ObjectKey};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Secret;
use kube::core::PartialObjectMeta;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::context::{Caches, Context};
use plan::{Seen, Step};

const DELETION_BLOCKED: &str = "DeletionBlocked";

/// What the two kinds of bindings differ in.
pub(crate) trait Binding:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug + Send + Sync + 'static
{
    /// The Secret with the credentials, if they are in one.
    fn secret(&self) -> Option<ObjectKey>;
    /// The binding of this kind that the shoot names.
    fn of_shoot(shoot: &Shoot) -> Option<&str>;
    /// The cache of this kind.
    fn cache(caches: &Caches) -> &Cache<Self>;
    /// The Shoots by the binding of this kind that they name.
    fn users(caches: &Caches) -> &Index<Shoot>;
}

impl Binding for SecretBinding {
    fn secret(&self) -> Option<ObjectKey> {
        let namespace = self.secret_ref.namespace.clone().or_else(|| self.namespace());
        Some(ObjectKey::namespaced(namespace?, self.secret_ref.name.clone()?))
    }

    fn of_shoot(shoot: &Shoot) -> Option<&str> {
        shoot.spec.secret_binding_name.as_deref()
    }

    fn cache(caches: &Caches) -> &Cache<Self> {
        &caches.secret_bindings
    }

    fn users(caches: &Caches) -> &Index<Shoot> {
        &caches.shoots_by_secret_binding
    }
}

impl Binding for CredentialsBinding {
    fn secret(&self) -> Option<ObjectKey> {
        let reference = &self.credentials_ref;
        if reference.kind.as_deref() != Some("Secret") {
            return None;
        }
        Some(ObjectKey::namespaced(
            reference.namespace.clone()?,
            reference.name.clone()?,
        ))
    }

    fn of_shoot(shoot: &Shoot) -> Option<&str> {
        shoot.spec.credentials_binding_name.as_deref()
    }

    fn cache(caches: &Caches) -> &Cache<Self> {
        &caches.credentials_bindings
    }

    fn users(caches: &Caches) -> &Index<Shoot> {
        &caches.shoots_by_credentials_binding
    }
}

/// Keeps all bindings of one kind.
pub(crate) async fn run<B: Binding>(context: Context, stop: CancellationToken) {
    let caches = context.caches.clone();
    let bindings = B::cache(&caches).clone();
    let of_secret = move |change: &Change<PartialObjectMeta<Secret>>| -> Vec<ObjectKey> {
        let secret = ObjectKey::of(&*change.object);
        let named = bindings
            .list()
            .into_iter()
            .filter(|b| b.secret().as_ref() == Some(&secret));
        named.map(|binding| ObjectKey::of(&*binding)).collect()
    };
    Controller::new(format!("{}-finalizers", B::plural(&())), B::cache(&caches).clone())
        .watches(&caches.shoots, |change| {
            let before = change.old.as_deref().map(B::of_shoot);
            if change.new().is_some_and(|now| before == Some(B::of_shoot(now))) {
                return Vec::new();
            }
            let both = [Some(&change.object), change.old.as_ref()];
            let named = both
                .into_iter()
                .flatten()
                .filter_map(|shoot| Some(ObjectKey::namespaced(shoot.namespace()?, B::of_shoot(shoot)?)));
            named.collect()
        })
        .watches(&caches.secrets, of_secret)
        .run(stop, move |binding| {
            let context = context.clone();
            async move { reconcile(&context, &binding).await }
        })
        .await;
}

async fn reconcile<B: Binding>(context: &Context, binding: &Arc<B>) -> Result<Next, Fault> {
    let caches = &context.caches;
    caches.shoots.ready().await;
    caches.secrets.ready().await;
    caches.secret_bindings.ready().await;
    caches.credentials_bindings.ready().await;
    let namespace = binding.namespace().unwrap_or_default();
    let secret = binding.secret().and_then(|key| caches.secrets.get(&key));
    let deleting = binding.meta().deletion_timestamp.is_some();
    let seen = Seen {
        deleting,
        held: has_finalizer(&**binding, finalizers::GARDENER),
        shoots: match deleting {
            true => shoots_of(caches, &**binding),
            false => Vec::new(),
        },
        secret: secret.as_ref().map(|secret| plan::Secret {
            deleting: secret.metadata.deletion_timestamp.is_some(),
            held: has_finalizer(&**secret, finalizers::EXTERNAL_GARDENER),
        }),
        shared: needed_by_others(caches, &**binding),
    };
    let api = context.namespaced::<B>(&namespace);
    match plan::plan(&seen) {
        Step::Nothing => {}
        // Each write calls for the next turn.
        Step::Hold => drop(add_finalizer(&api, (**binding).clone(), finalizers::GARDENER).await?),
        Step::LetGo => drop(remove_finalizer(&api, (**binding).clone(), finalizers::GARDENER).await?),
        Step::HoldSecret | Step::LetSecretGo => {
            let Some(secret) = secret else { return Ok(Next::Change) };
            let api = context.namespaced(&secret.namespace().unwrap_or_default());
            let secret = (*secret).clone();
            if seen.deleting {
                remove_finalizer(&api, secret, finalizers::EXTERNAL_GARDENER).await?;
            } else {
                add_finalizer(&api, secret, finalizers::EXTERNAL_GARDENER).await?;
            }
        }
        Step::Wait => {
            let message = format!("cannot be deleted while Shoots use it: {}", seen.shoots.join(", "));
            let recorder = &context.recorder;
            recorder
                .record(&**binding, EventType::Warning, DELETION_BLOCKED, &message)
                .await;
        }
    }
    Ok(Next::Change)
}

fn shoots_of<B: Binding>(caches: &Caches, binding: &B) -> Vec<String> {
    let using = B::users(caches).keys(&ObjectKey::of(binding).to_string());
    using.into_iter().map(|shoot| shoot.name).collect()
}

/// Whether another binding, of either kind, needs the Secret behind this one.
fn needed_by_others<B: Binding>(caches: &Caches, binding: &B) -> bool {
    let Some(secret) = binding.secret() else { return false };
    needed_by::<SecretBinding>(caches, &secret, binding.meta().uid.as_deref())
        || needed_by::<CredentialsBinding>(caches, &secret, binding.meta().uid.as_deref())
}

fn needed_by<B: Binding>(caches: &Caches, secret: &ObjectKey, but: Option<&str>) -> bool {
    // Two that go at once both let the Secret go: were each to leave it to the other, neither would.
    let needs = |other: &B| {
        let used = B::users(caches).contains(&ObjectKey::of(other).to_string());
        other.meta().deletion_timestamp.is_none() || used
    };
    B::cache(caches)
        .list()
        .iter()
        .any(|other| other.meta().uid.as_deref() != but && other.secret().as_ref() == Some(secret) && needs(other))
}
