//! `AdmissionControllerConfiguration` (gardener/gardener v1.150 pkg/apis/config/admissioncontroller/v1alpha1).

use crate::Configuration;
use crate::fields::{Fields, Form};
use crate::process::{Defaults, Process, connection, listen, process_without_election};
use crate::resource_manager::Webhooks;

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
            lease: "",
            lease_namespace: "",
            health_port: 2722,
            metrics_port: 2723,
        };
        let (process, webhooks) = process_without_election(fields, &defaults, |fields| {
            fields.without_effect(&[
                ("resourceAdmissionConfiguration", Form::Object),
                ("enableDebugHandlers", Form::Flag),
            ]);
            fields.object("webhooks", webhooks)
        });
        Self {
            process,
            kubeconfig,
            webhooks,
        }
    }
}

fn webhooks(fields: &mut Fields<'_>) -> Webhooks {
    let server = listen(fields, 2721, "Port of the webhooks");
    let purpose = "Folder with tls.crt and tls.key";
    let certificate_folder = fields.object("tls", |fields| {
        fields.text("serverCertDir", "/etc/gardener-admission-controller/srv", purpose)
    });
    Webhooks {
        server,
        certificate_folder,
    }
}
