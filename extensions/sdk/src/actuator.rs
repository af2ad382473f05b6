//! What an extension author writes: an [`Actuator`] for each kind, and, where another extension is primary, an
//! [`Observer`] that only adds conditions. They never touch annotations, finalizers or the common status: the
//! reconciler around them does.

use api_extensions::{ExtensionObject, Forgetting};
use api_meta::{Condition, Fault};
use async_trait::async_trait;

use crate::context::Context;
use crate::outcome::{Outcome, Saved};

/// Does the work for one kind and type. Every method may be cut off at any await and is then called again: what must not be
/// forgotten is stored by [`Context::persist`] before it is needed.
#[async_trait]
pub trait Actuator<K: ExtensionObject>: Send + Sync + 'static {
    /// Reconciles the resources behind `object`. Called for Create and Reconcile; idempotent.
    async fn reconcile(&self, context: &Context, object: &K) -> Result<Outcome<K>, Fault>;

    /// Deletes what `reconcile` made. Fine when there is nothing.
    async fn delete(&self, context: &Context, object: &K) -> Result<(), Fault>;

    /// Cleans up in the seed only; the cloud may be out of reach. By default as [`Forgetting`] has it for the kind: success,
    /// `delete`, or an error.
    async fn force_delete(&self, context: &Context, object: &K) -> Result<(), Fault> {
        match K::ROW.forgetting() {
            Forgetting::Always => Ok(()),
            Forgetting::AtMigration => self.delete(context, object).await,
            Forgetting::Never => Err(not_yet::<K>("force-delete")),
        }
    }

    /// Forgets without deleting anything in the cloud, and leaves behind what `restore` needs. May be called again after it
    /// has succeeded. By default as [`Forgetting`] has it for the kind: success, or an error.
    async fn migrate(&self, _context: &Context, _object: &K) -> Result<Saved, Fault> {
        match K::ROW.forgetting() {
            Forgetting::Always | Forgetting::AtMigration => Ok(Saved::default()),
            Forgetting::Never => Err(not_yet::<K>("migrate")),
        }
    }

    /// Takes over by the state in `object`. By default `reconcile`, which reads the state anyway if it has any.
    async fn restore(&self, context: &Context, object: &K) -> Result<Outcome<K>, Fault> {
        self.reconcile(context, object).await
    }
}

fn not_yet<K: ExtensionObject>(what: &str) -> Fault {
    Fault::bug(format!(
        "this extension cannot {what} objects of kind {} yet",
        K::kind(&())
    ))
    .hint(format!("use a version of the extension that can {what} them"))
}

/// Looks at objects another extension is primary for, and reports what it sees. It is called at every change of an object,
/// and of what its registration watches.
#[async_trait]
pub trait Observer<K: ExtensionObject>: Send + Sync + 'static {
    /// The conditions to be shown on `object`.
    async fn observe(&self, context: &Context, object: &K) -> Result<Vec<Condition>, Fault>;
}

#[cfg(test)]
mod tests {
    use api_extensions::{ExtensionKind, ForKind};
    use futures::future::BoxFuture;

    use super::*;

    /// Does what it must, and nothing by itself beyond that.
    struct Plain;

    #[async_trait]
    impl<K: ExtensionObject> Actuator<K> for Plain {
        async fn reconcile(&self, _: &Context, _: &K) -> Result<Outcome<K>, Fault> {
            Err(Fault::user("reconciles"))
        }

        async fn delete(&self, _: &Context, _: &K) -> Result<(), Fault> {
            Err(Fault::user("deletes"))
        }
    }

    /// What restoring, migrating and forcibly deleting come to.
    struct Defaults(Context);

    impl ForKind for Defaults {
        type Output = BoxFuture<'static, [String; 3]>;

        fn call<K: ExtensionObject>(self) -> Self::Output {
            Box::pin(async move {
                let (object, Self(context)) = (K::default(), self);
                let actuator: &dyn Actuator<K> = &Plain;
                let outcome = |result: Result<(), Fault>| match result {
                    Ok(()) => "forgets".to_owned(),
                    Err(fault) if fault.class == api_meta::FaultClass::Bug => "refuses".to_owned(),
                    Err(fault) => fault.to_string(),
                };
                [
                    outcome(actuator.restore(&context, &object).await.map(drop)),
                    outcome(actuator.migrate(&context, &object).await.map(drop)),
                    outcome(actuator.force_delete(&context, &object).await),
                ]
            })
        }
    }

    #[tokio::test]
    async fn what_an_author_leaves_out_depends_on_the_kind() {
        let context = Context::for_tests(&tests_kit::embedded().await);
        let mut seen = Vec::new();
        for kind in ExtensionKind::ALL {
            let [restore, migrate, force_delete] = kind.with(Defaults(context.clone())).await;
            seen.push(format!("{kind}: {restore} {migrate} {force_delete}"));
        }
        assert_eq!(
            seen,
            [
                "BackupBucket: reconciles refuses refuses",
                "BackupEntry: reconciles refuses refuses",
                "Bastion: reconciles refuses refuses",
                "ContainerRuntime: reconciles refuses refuses",
                "ControlPlane: reconciles refuses refuses",
                "DNSRecord: reconciles forgets deletes",
                "Extension: reconciles refuses refuses",
                "Infrastructure: reconciles refuses refuses",
                "Network: reconciles refuses refuses",
                "OperatingSystemConfig: reconciles forgets forgets",
                "SelfHostedShootExposure: reconciles refuses refuses",
                "Worker: reconciles refuses refuses",
            ]
        );
    }
}
