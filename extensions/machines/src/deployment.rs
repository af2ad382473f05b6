//! The MachineDeployment controller: one set per template, and a bounded walk from the old ones to the new.
//! It never touches machines.

mod plan;

use std::sync::Arc;

use api_machine::{MachineDeployment, MachineDeploymentStatus, MachineSet, MachineSetSpec, MachineTemplateSpec};
use api_meta::Fault;
use base_client::{
    add_finalizer, create_or_get, delete, list, patch_changed, patch_status_if_changed, remove_finalizer,
};
use base_controller::{Cache, Next};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::{Api, Resource, ResourceExt};
use sha2::{Digest, Sha256};

use crate::machines::Shared;
use crate::names::{FINALIZER, TEMPLATE_HASH_LABEL};
use crate::passed_on::what_makes_it;
use plan::{SetView, bounds, plan};

/// Hexadecimal digits of a template's hash in names: with the longest names of shoot and pool a machine's name still fits a label.
const HASH_LENGTH: usize = 5;

/// The MachineDeployment controller's parts.
pub(crate) struct Deployments {
    pub(crate) shared: Shared,
    pub(crate) sets: Cache<MachineSet>,
}

fn owned(sets: impl IntoIterator<Item = MachineSet>, deployment: &MachineDeployment) -> Vec<MachineSet> {
    let uid = deployment.metadata.uid.as_ref();
    let is_ours = |set: &MachineSet| {
        set.owner_references()
            .iter()
            .any(|owner| owner.controller == Some(true) && Some(&owner.uid) == uid)
    };
    sets.into_iter().filter(is_ours).collect()
}

/// The hash of what makes machines of a template different: all but what is passed on to them in place.
pub(crate) fn template_hash(template: &MachineTemplateSpec) -> Result<String, Fault> {
    let template = MachineTemplateSpec {
        metadata: template.metadata.clone(),
        spec: template.spec.as_ref().map(what_makes_it),
    };
    let text = serde_json::to_string(&template).map_err(Fault::bug)?;
    let hex: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(hex[..HASH_LENGTH].to_owned())
}

impl Deployments {
    /// One turn for one deployment.
    pub(crate) async fn reconcile(self: Arc<Self>, known: Arc<MachineDeployment>) -> Result<Next, Fault> {
        let namespace = known.namespace().unwrap_or_default();
        let api: Api<MachineDeployment> = Api::namespaced(self.shared.client.clone(), &namespace);
        let sets: Api<MachineSet> = Api::namespaced(self.shared.client.clone(), &namespace);
        if known.metadata.deletion_timestamp.is_some() {
            return self.take_down(&api, &sets, (*known).clone()).await;
        }
        let deployment = add_finalizer(&api, (*known).clone(), FINALIZER).await?;
        let hash = template_hash(&deployment.spec.template)?;
        let name = format!("{}-{hash}", deployment.name_any());
        let mut all = self.known_sets(&namespace, &deployment);
        if !all.iter().any(|set| set.name_any() == name) {
            create_or_get(&sets, &new_set(&deployment, &name, &hash)).await?;
            all = owned(list(&sets, "").await?, &deployment);
        }
        let (new, old): (Vec<MachineSet>, Vec<MachineSet>) = all.into_iter().partition(|set| set.name_any() == name);
        let Some(new) = new.into_iter().next() else {
            return Err(Fault::dependency(format!("MachineSet {name} has another owner")));
        };
        if deployment.spec.paused != Some(true) {
            self.scale(&sets, &deployment, &new, &old).await?;
        }
        self.report(&api, &deployment, &new, &old).await?;
        Ok(Next::Change)
    }

    fn known_sets(&self, namespace: &str, deployment: &MachineDeployment) -> Vec<MachineSet> {
        owned(
            self.sets.list_in(namespace).iter().map(|set| (**set).clone()),
            deployment,
        )
    }

    /// Writes the planned numbers and, into the new set, what is passed on in place; removes old sets that are
    /// empty.
    async fn scale(
        &self,
        sets: &Api<MachineSet>,
        deployment: &MachineDeployment,
        new: &MachineSet,
        old: &[MachineSet],
    ) -> Result<(), Fault> {
        let replicas = deployment.spec.replicas.unwrap_or(1).max(0);
        let bounds = bounds(deployment.spec.strategy.as_ref(), replicas);
        let views: Vec<SetView> = old.iter().map(view).collect();
        let (wanted, left) = plan(replicas, bounds, &view(new), &views);
        for (set, wanted) in old.iter().zip(left) {
            let present = set
                .status
                .as_ref()
                .and_then(|status| status.replicas)
                .unwrap_or_default();
            if wanted == 0 && present == 0 && set.spec.replicas == Some(0) && is_observed(set) {
                delete(sets, &set.name_any()).await?;
                continue;
            }
            let mut after = set.clone();
            after.spec.replicas = Some(wanted);
            patch_changed(sets, set, &after).await?;
        }
        let mut after = new.clone();
        after.spec.replicas = Some(wanted);
        let hash = new.labels().get(TEMPLATE_HASH_LABEL).cloned().unwrap_or_default();
        after.spec.template = Some(labelled(&deployment.spec.template, &hash));
        patch_changed(sets, new, &after).await?;
        Ok(())
    }

    async fn report(
        &self,
        api: &Api<MachineDeployment>,
        deployment: &MachineDeployment,
        new: &MachineSet,
        old: &[MachineSet],
    ) -> Result<(), Fault> {
        let all = || std::iter::once(new).chain(old).filter_map(|set| set.status.as_ref());
        let sum = |of: fn(&api_machine::MachineSetStatus) -> Option<i32>| all().filter_map(of).sum::<i32>();
        let available = sum(|status| status.available_replicas);
        let mut after = deployment.clone();
        after.status = Some(MachineDeploymentStatus {
            observed_generation: deployment.metadata.generation,
            replicas: Some(sum(|status| status.replicas)),
            updated_replicas: Some(
                new.status
                    .as_ref()
                    .and_then(|status| status.replicas)
                    .unwrap_or_default(),
            ),
            ready_replicas: Some(sum(|status| status.ready_replicas)),
            available_replicas: Some(available),
            unavailable_replicas: Some((deployment.spec.replicas.unwrap_or(1) - available).max(0)),
            failed_machines: all().flat_map(|status| status.failed_machines.clone()).collect(),
            ..deployment.status.clone().unwrap_or_default()
        });
        patch_status_if_changed(api, deployment, &after).await.map(drop)
    }

    async fn take_down(
        &self,
        api: &Api<MachineDeployment>,
        sets: &Api<MachineSet>,
        deployment: MachineDeployment,
    ) -> Result<Next, Fault> {
        let namespace = deployment.namespace().unwrap_or_default();
        for set in self.known_sets(&namespace, &deployment) {
            if set.metadata.deletion_timestamp.is_none() {
                delete(sets, &set.name_any()).await?;
            }
        }
        if owned(list(sets, "").await?, &deployment).is_empty() {
            remove_finalizer(api, deployment, FINALIZER).await?;
        }
        Ok(Next::Change)
    }
}

fn is_observed(set: &MachineSet) -> bool {
    set.status.as_ref().and_then(|status| status.observed_generation) == set.metadata.generation
}

fn view(set: &MachineSet) -> SetView {
    let status = set.status.as_ref();
    SetView {
        name: set.name_any(),
        wanted: set.spec.replicas.unwrap_or_default(),
        present: status.and_then(|status| status.replicas).unwrap_or_default(),
        available: status.and_then(|status| status.available_replicas).unwrap_or_default(),
    }
}

/// The template with the label that distinguishes its set's machines from others.
pub(crate) fn labelled(template: &MachineTemplateSpec, hash: &str) -> MachineTemplateSpec {
    let mut template = template.clone();
    template
        .metadata
        .labels
        .get_or_insert_default()
        .insert(TEMPLATE_HASH_LABEL.to_owned(), hash.to_owned());
    template
}

pub(crate) fn new_set(deployment: &MachineDeployment, name: &str, hash: &str) -> MachineSet {
    let template = labelled(&deployment.spec.template, hash);
    let labels = template.metadata.labels.clone();
    MachineSet {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: deployment.metadata.namespace.clone(),
            labels: labels.clone(),
            owner_references: deployment.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..Default::default()
        },
        spec: MachineSetSpec {
            replicas: Some(0),
            selector: Some(LabelSelector {
                match_labels: labels,
                ..Default::default()
            }),
            template: Some(template),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            ..Default::default()
        },
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Another hash would replace the machines of all shoots.
    #[test]
    fn a_template_has_the_hash_that_it_always_had() {
        let template: MachineTemplateSpec = serde_json::from_value(json!({
            "metadata": {"labels": {"provider-local.orangery.dev/made-for": "worker", "name": "shoot--zoo--ape-q-z2"}},
            "spec": {
                "class": {"apiGroup": "machine.sapcloud.io", "kind": "MachineClass", "name": "shoot--zoo--ape-q-z2-00000"},
                "nodeTemplate": {"metadata": {"labels": {"in": "place"}}}, "drainTimeout": "10m0s",
            },
        }))
        .unwrap();
        assert_eq!(template_hash(&template).unwrap(), "90584");
    }
}
