//! `SchedulerConfiguration` (gardener/gardener v1.150 pkg/apis/config/scheduler/v1alpha1).

use crate::Configuration;
use crate::fields::{Fields, Form};
use crate::process::{Defaults, Process, connection, process};

/// How a seed's region is compared with the Shoot's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Only seeds of the Shoot's region.
    #[default]
    SameRegion,
    /// Seeds of the region whose name is nearest.
    MinimalDistance,
}

/// Configuration of the scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerConfiguration {
    /// What every process has.
    pub process: Process,
    /// Path of the garden's kubeconfig.
    pub kubeconfig: Option<String>,
    /// How regions are compared.
    pub strategy: Strategy,
}

impl Configuration for SchedulerConfiguration {
    const API_VERSION: &'static str = "scheduler.config.gardener.cloud/v1alpha1";
    const KIND: &'static str = "SchedulerConfiguration";

    fn of(fields: &mut Fields<'_>) -> Self {
        let kubeconfig = connection(fields, "clientConnection");
        let defaults = Defaults {
            lease: Some(("gardener-scheduler-leader-election", "garden")),
            health_port: 10251,
            metrics_port: 19251,
        };
        let (process, ()) = process(fields, &defaults, |_| ());
        let strategies = [
            ("SameRegion", Strategy::SameRegion),
            ("MinimalDistance", Strategy::MinimalDistance),
        ];
        let strategy = fields.object("schedulers", |fields| {
            fields.object("backupBucket", |fields| {
                fields.without_effect(&[("concurrentSyncs", Form::Whole)]);
            });
            fields.object("shoot", |fields| {
                fields.without_effect(&[("concurrentSyncs", Form::Whole)]);
                let purpose = "How a seed's region is compared with the Shoot's";
                fields.choice("candidateDeterminationStrategy", &strategies, "SameRegion", purpose)
            })
        });
        Self {
            process,
            kubeconfig,
            strategy: strategy.unwrap_or_default(),
        }
    }

    fn process(&self) -> &Process {
        &self.process
    }
}
