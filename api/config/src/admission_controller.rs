//! `AdmissionControllerConfiguration` (gardener/gardener v1.150 pkg/apis/config/admissioncontroller/v1alpha1).

use crate::Configuration;
use crate::fields::{Fields, Form};
use crate::process::{Defaults, OfWebhooks, Process, Webhooks, connection, process, webhooks};

const WEBHOOKS: OfWebhooks = OfWebhooks {
    port: 2721,
    port_purpose: "Port of the webhooks",
    folder: "/etc/gardener-admission-controller/srv",
    folder_purpose: "Folder with tls.crt and tls.key",
};

/// Configuration of gardener-admission-controller.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionControllerConfiguration {
    /// What every process has; there is no election, for every replica answers.
    pub process: Process,
    /// Path of the garden's kubeconfig.
    pub kubeconfig: Option<String>,
    /// The port of the webhooks.
    pub webhooks: Webhooks,
}

impl Configuration for AdmissionControllerConfiguration {
    const API_VERSION: &'static str = "admissioncontroller.config.gardener.cloud/v1alpha1";
    const KIND: &'static str = "AdmissionControllerConfiguration";

    fn of(fields: &mut Fields<'_>) -> Self {
        let kubeconfig = connection(fields, "gardenClientConnection");
        let defaults = Defaults {
            lease: None,
            health_port: 2722,
            metrics_port: 2723,
        };
        let (process, webhooks) = process(fields, &defaults, |fields| {
            fields.without_effect(&[
                ("resourceAdmissionConfiguration", Form::Object),
                ("enableDebugHandlers", Form::Flag),
            ]);
            webhooks(fields, &WEBHOOKS)
        });
        Self {
            process,
            kubeconfig,
            webhooks,
        }
    }

    fn process(&self) -> &Process {
        &self.process
    }
}
