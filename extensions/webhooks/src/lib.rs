//! Webhooks of extensions, as Gardener's library has them (gardener/gardener v1.150 extensions/pkg/webhook): a certificate that
//! renews itself, registration in seed, shoots and garden, changes of hosted control planes ([`ControlPlane`]), and defaults and
//! validation of what Shoots have for an extension ([`ShootProvider`]). It knows no provider.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use api_meta::Fault;
//! use base_clock::{Clock, Entropy};
//! use extensions_webhooks::edit::{Flags, pods::{HasPods, container}};
//! use extensions_webhooks::{
//!     Context, ControlPlane, ControlPlaneKind, Ensured, Mode, Refusal, Settings, Webhooks, control_plane_webhook, selectors,
//! };
//! use k8s_openapi::api::apps::v1::Deployment;
//! use tokio_util::sync::CancellationToken;
//!
//! struct Fake;
//!
//! #[async_trait::async_trait]
//! impl ControlPlane for Fake {
//!     async fn kube_controller_manager(
//!         &self,
//!         _: &Context<'_>,
//!         new: &mut Deployment,
//!         _: Option<&Deployment>,
//!     ) -> Result<(), Refusal> {
//!         let container = container(new.pod(), "kube-controller-manager")?;
//!         Flags::of(container).set("--cloud-provider", "external");
//!         Ok(())
//!     }
//! }
//!
//! # async fn run(seed: kube::Client, stop: CancellationToken) -> Result<(), Fault> {
//! let settings = Settings {
//!     extension: "provider-fake".to_owned(),
//!     namespace: "extension-provider-fake-x1y2z".to_owned(),
//!     mode: Mode::Service,
//!     service_port: 443,
//!     owner_namespace: Some("extension-provider-fake-x1y2z".to_owned()),
//! };
//! let changes = control_plane_webhook(ControlPlaneKind::Shoot, "fake", &[Ensured::Deployments], Arc::new(Fake), &seed);
//! let webhooks = Webhooks::new(settings, seed, Clock::real(), Entropy::os())
//!     .webhook(changes.of_objects(selectors::marked()))?;
//! let port = base_serve::open(None, 10250, "--webhook-config-server-port").await?;
//! webhooks.run(port, "pod-a", stop).await;
//! # Ok(())
//! # }
//! ```

mod certificates;
mod decide;
pub mod edit;
mod ensure;
mod flags;
mod garden;
mod names;
pub mod patch;
mod refusal;
mod registration;
mod request;
pub mod selectors;
mod server;
mod webhook;

pub use ensure::{
    Context, ControlPlane, ControlPlaneKind, Ensured, Etcd, Pool, VerticalPodAutoscaler, cloud_provider_webhook,
    control_plane_webhook,
};
pub use flags::{GardenWebhookFlags, ModeName, WebhookFlags};
pub use garden::{ShootPart, ShootProvider, shoot_webhooks};
pub use names::{certificate_secret_name, configuration_name, shoot_configuration_name, webhook_name};
pub use refusal::Refusal;
pub use registration::{Mode, ShootWebhooks};
pub use request::{ObjectKind, Operation, Request, UserInfo};
pub use server::{Settings, Webhooks};
pub use webhook::{FailurePolicy, Mutator, Target, Validator, Webhook, labelled};
