//! Who may refuse an object that is ready to be stored: policies, then all webhooks at once. It changes nothing.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/validating)

use futures::future::join_all;
use serde_json::Value;

use crate::admission::attributes::{AdmissionAttributes, AdmissionOperation};
use crate::admission::mutating::View;
use crate::admission::policies;
use crate::admission::selection::is_exempt;
use crate::admission::webhook_calls::{Concerned, concerned};
use crate::configuration::admission_hooks::Hooks;
use crate::kinds::kind::Call;
use crate::kinds::metadata;
use crate::state::pending_write::Write;
use crate::wire::status::Status;

const FAILED_OPEN: &str = "failed-open.validating.webhook.admission.k8s.io/";

impl Write<'_> {
    /// Evaluates policies, and calls validating webhooks. The caller holds no lock.
    pub(crate) async fn run_validating_admission(
        &mut self,
        call: &Call<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        let context = self.context;
        let Some(hooks) = context.server.admission.hooks() else {
            return Ok(());
        };
        let Some(view) = View::of(context) else { return Ok(()) };
        let attributes = view.attributes(AdmissionAttributes::write(
            context,
            AdmissionOperation::of(old),
            call.name,
            self.dry_run,
        ));
        if is_exempt(&attributes) || !hooks.may_refuse(&attributes) {
            return Ok(());
        }
        let (mut shown, before) = (view.show(object), old.map(|old| view.show(old)));
        // By now it is known which version is replaced.
        if let (Some(version), Ok(metadata)) = (
            old.and_then(|old| old.pointer("/metadata/resourceVersion")),
            metadata::of_mut(&mut shown),
        ) {
            metadata.entry("resourceVersion").or_insert_with(|| version.clone());
        }
        let objects = (Some(&shown), before.as_ref());
        validate(&hooks, &attributes, objects, &mut self.warnings).await
    }
}

/// Evaluates policies, then calls all webhooks at once.
pub(crate) async fn validate(
    hooks: &Hooks,
    attributes: &AdmissionAttributes<'_>,
    objects: (Option<&Value>, Option<&Value>),
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    if !hooks.policies.is_empty() {
        policies::enforce(hooks, attributes, objects, warnings).await?;
    }
    let (found, labels) = concerned(&hooks.validating, attributes, objects.0).await;
    let mut wanted = Vec::new();
    for it in found {
        if it.hook.wants(attributes, it.version, objects, &labels).await? {
            wanted.push(it);
        }
    }
    let calls = wanted
        .iter()
        .enumerate()
        .map(|(place, it)| call_hook(place, *it, attributes, objects));
    let mut refusal = None;
    for outcome in join_all(calls).await {
        match outcome {
            Ok(more) => warnings.extend(more),
            Err(mut status) => {
                warnings.extend(status.take_warnings());
                refusal.get_or_insert(status);
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

async fn call_hook(
    place: usize,
    it: Concerned<'_, '_>,
    attributes: &AdmissionAttributes<'_>,
    objects: (Option<&Value>, Option<&Value>),
) -> Result<Vec<String>, Status> {
    match it.hook.call(attributes, it.version, objects).await? {
        Some(allowed) => Ok(allowed.warnings),
        None => {
            let key = format!("{FAILED_OPEN}round_0_index_{place}");
            attributes.context.annotate(key, it.hook.name.clone());
            Ok(Vec::new())
        }
    }
}
