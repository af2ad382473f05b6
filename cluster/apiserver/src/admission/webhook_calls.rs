//! Calls of webhooks: whether a request concerns one, and what its failure means. The review that is sent and its response are
//! in `admission_review`.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/{generic,matchconditions})

use std::sync::Arc;

use cluster_cel::CONDITIONS_COST_MAX;
use serde_json::Value;

use crate::admission::admission_review::{self, Allowed};
use crate::admission::attributes::AdmissionAttributes;
use crate::admission::expressions::{Held, holds, names};
use crate::admission::selection::{NamespaceLabels, namespace_labels};
use crate::configuration::webhook::Webhook;
use crate::wire::status::Status;

impl Webhook {
    /// Whether its selectors and conditions match the objects, which are in the version of the request.
    pub(crate) async fn wants(
        &self,
        attributes: &AdmissionAttributes<'_>,
        version: &str,
        objects: (Option<&Value>, Option<&Value>),
        namespace: &NamespaceLabels,
    ) -> Result<bool, Status> {
        if !self.matching.selects(attributes, objects, namespace)? {
            return Ok(false);
        }
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let (object, old) = objects;
        let object = attributes.some_in_version(object, version).await?;
        let old = attributes.some_in_version(old, version).await?;
        let held = || {
            let names = names(attributes, version, object.as_deref(), old.as_deref());
            holds(&self.conditions, &mut names.scope(CONDITIONS_COST_MAX))
        };
        let mut outcome = held();
        while attributes.request_access_decisions().await? {
            outcome = held();
        }
        match outcome {
            Held::Yes => Ok(true),
            Held::No => Ok(false),
            Held::Failed(_) if self.ignores_failures => Ok(false),
            Held::Failed(why) => Err(attributes.forbidden(&why)),
        }
    }

    /// Calls it. None: the call has failed, and its failures are ignored.
    pub(crate) async fn call(
        &self,
        attributes: &AdmissionAttributes<'_>,
        version: &str,
        objects: (Option<&Value>, Option<&Value>),
    ) -> Result<Option<Allowed>, Status> {
        match admission_review::send(self, attributes, version, objects).await {
            Ok(allowed) => Ok(Some(allowed)),
            Err(admission_review::Failed::Refused(status)) => Err(status),
            Err(admission_review::Failed::Late) => Err(admission_review::timed_out(attributes)),
            Err(admission_review::Failed::Calling(why)) if self.ignores_failures => {
                tracing::warn!(
                    webhook = self.name,
                    why,
                    "a webhook failed, and its failures are ignored"
                );
                Ok(None)
            }
            Err(admission_review::Failed::Calling(why)) => Err(Status::internal(format!(
                "failed calling webhook {:?}: {why}",
                self.name
            ))),
        }
    }
}

/// A webhook whose rules match the request.
#[derive(Clone, Copy)]
pub(crate) struct Concerned<'h, 'a> {
    /// Its place among all.
    pub(crate) index: usize,
    pub(crate) hook: &'h Webhook,
    /// The version in which it gets the resource.
    pub(crate) version: &'a str,
}

/// Those of `hooks` whose rules match the request, and the labels of the namespace if one selects by them.
pub(crate) async fn concerned<'h, 'a>(
    hooks: &'h [Arc<Webhook>],
    attributes: &AdmissionAttributes<'a>,
    object: Option<&Value>,
) -> (Vec<Concerned<'h, 'a>>, NamespaceLabels) {
    let found: Vec<_> = hooks
        .iter()
        .enumerate()
        .filter_map(|(index, hook)| {
            let version = hook.matching.version(attributes)?;
            Some(Concerned { index, hook, version })
        })
        .collect();
    let labels = if found.iter().any(|it| it.hook.matching.needs_namespace(attributes)) {
        namespace_labels(attributes, object).await
    } else {
        Ok(std::collections::BTreeMap::new())
    };
    (found, labels)
}
