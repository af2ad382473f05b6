//! `ControllerManagerConfiguration` (gardener/gardener v1.150 pkg/apis/config/controllermanager/v1alpha1).

use crate::Configuration;
use crate::fields::{Fields, Form};
use crate::process::{Defaults, Process, connection, process};

/// Configuration of the garden's controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerManagerConfiguration {
    /// What every process has.
    pub process: Process,
    /// Path of the garden's kubeconfig.
    pub kubeconfig: Option<String>,
}

/// Each controller by its fields beside `concurrentSyncs`. Watches and the queue's own limit take the place of periods
/// and numbers of workers.
const CONTROLLERS: [(&str, &[(&str, Form)]); 27] = [
    ("bastion", &[("maxLifetime", Form::Span)]),
    ("certificateSigningRequest", &[]),
    ("cloudProfile", &[]),
    ("namespacedCloudProfile", &[]),
    ("controllerDeployment", &[]),
    ("controllerDeploymentReference", &[]),
    ("controllerRegistration", &[]),
    ("event", &[("ttlNonShootEvents", Form::Span)]),
    ("exposureClass", &[]),
    (
        "project",
        &[
            ("minimumLifetimeDays", Form::Whole),
            ("quotas", Form::List),
            ("staleGracePeriodDays", Form::Whole),
            ("staleExpirationTimeDays", Form::Whole),
            ("staleSyncPeriod", Form::Span),
        ],
    ),
    ("quota", &[]),
    ("secretBinding", &[]),
    ("credentialsBinding", &[]),
    (
        "seed",
        &[
            ("monitorPeriod", Form::Span),
            ("shootMonitorPeriod", Form::Span),
            ("syncPeriod", Form::Span),
        ],
    ),
    (
        "seedExtensionsCheck",
        &[("syncPeriod", Form::Span), ("conditionThresholds", Form::List)],
    ),
    (
        "seedBackupBucketsCheck",
        &[("syncPeriod", Form::Span), ("conditionThresholds", Form::List)],
    ),
    ("seedReference", &[]),
    (
        "shootMaintenance",
        &[
            ("enableShootControlPlaneRestarter", Form::Flag),
            ("enableShootCoreAddonRestarter", Form::Flag),
        ],
    ),
    ("shootQuota", &[("syncPeriod", Form::Span)]),
    ("shootHibernation", &[("triggerDeadlineDuration", Form::Span)]),
    ("shootReference", &[]),
    (
        "shootRetry",
        &[("retryPeriod", Form::Span), ("retryJitterPeriod", Form::Span)],
    ),
    ("shootConditions", &[]),
    ("shootStatusLabel", &[]),
    ("shootMigration", &[]),
    (
        "managedSeedSet",
        &[("maxShootRetries", Form::Whole), ("syncPeriod", Form::Span)],
    ),
    ("shootState", &[]),
];

impl Configuration for ControllerManagerConfiguration {
    const API_VERSION: &'static str = "controllermanager.config.gardener.cloud/v1alpha1";
    const KIND: &'static str = "ControllerManagerConfiguration";

    fn of(fields: &mut Fields<'_>) -> Self {
        let kubeconfig = connection(fields, "gardenClientConnection");
        let defaults = Defaults {
            lease: Some(("gardener-controller-manager-leader-election", "garden")),
            health_port: 2718,
            metrics_port: 2719,
        };
        let (process, ()) = process(fields, &defaults, |_| ());
        fields.object("controllers", |fields| {
            for (name, more) in CONTROLLERS {
                fields.object(name, |fields| {
                    fields.without_effect(&[("concurrentSyncs", Form::Whole)]);
                    fields.without_effect(more);
                });
            }
            fields.without_effect(&[("cacheSyncTimeout", Form::Span)]);
        });
        Self { process, kubeconfig }
    }

    fn process(&self) -> &Process {
        &self.process
    }
}
