//! Holding the local provider back: from one kind, whose objects it takes on and cannot answer, or from making machines.

use api_core::v1beta1::ControllerDeployment;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy as Rule, ValidatingAdmissionPolicyBinding as Binding,
};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::{World, merge, wait};

const DEPLOYMENT: &str = "provider-local";
const NO_MACHINES: &str = "no-machines.example.com";

/// A provider that is held back until it is released.
pub struct Hold {
    /// What its role was before.
    before: Option<Vec<PolicyRule>>,
}

impl World {
    /// From now on the provider may not write the status of `plural`.
    pub async fn hold(&self, plural: &str) -> Hold {
        let resources: Vec<String> = extensions_provider_local::KINDS
            .iter()
            .flat_map(|kind| [kind.plural().to_owned(), format!("{}/status", kind.plural())])
            .filter(|one| *one != format!("{plural}/status"))
            .collect();
        let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
        let rules = json!([
            {"apiGroups": ["extensions.gardener.cloud"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["extensions.gardener.cloud"], "resources": resources, "verbs": all},
            {"apiGroups": ["", "apps", "coordination.k8s.io", "machine.sapcloud.io", "resources.gardener.cloud", "events.k8s.io"], "resources": ["*"], "verbs": all},
        ]);
        let before = self.provider_role().await.rules;
        self.set_rules(&rules, |now| *now != before).await;
        Hold { before }
    }

    /// Lets the provider answer again.
    pub async fn release(&self, hold: Hold) {
        self.set_rules(&Value::Null, |now| *now == hold.before).await;
    }

    /// From now on the first seed's cloud makes no machines, as one that is sold out.
    pub async fn hold_machines(&self) {
        let is_other = "!has(object.metadata.labels) || !('app' in object.metadata.labels) || object.metadata.labels['app'] != 'machine'";
        let rule = json!({"metadata": {"name": NO_MACHINES}, "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            }]},
            "validations": [{"expression": is_other, "message": "no machines are left", "reason": "Forbidden"}],
        }});
        let binding = json!({"metadata": {"name": NO_MACHINES}, "spec": {"policyName": NO_MACHINES, "validationActions": ["Deny"]}});
        let (rules, bindings): (Api<Rule>, Api<Binding>) = (Api::all(self.seed.clone()), Api::all(self.seed.clone()));
        let rule = serde_json::from_value(rule).unwrap();
        rules.create(&PostParams::default(), &rule).await.unwrap();
        let binding = serde_json::from_value(binding).unwrap();
        bindings.create(&PostParams::default(), &binding).await.unwrap();
    }

    /// Lets the cloud make machines again.
    pub async fn release_machines(&self) {
        let (rules, bindings): (Api<Rule>, Api<Binding>) = (Api::all(self.seed.clone()), Api::all(self.seed.clone()));
        bindings.delete(NO_MACHINES, &DeleteParams::default()).await.unwrap();
        rules.delete(NO_MACHINES, &DeleteParams::default()).await.unwrap();
    }

    async fn set_rules(&self, rules: &Value, reached: impl Fn(&Option<Vec<PolicyRule>>) -> bool) {
        let deployments: Api<ControllerDeployment> = Api::all(self.garden.clone());
        merge(
            &deployments,
            DEPLOYMENT,
            &json!({"providerConfig": {"values": {"rules": rules}}}),
        )
        .await;
        let roles: Api<ClusterRole> = Api::all(self.seed.clone());
        let name = self.provider_role().await.name_any();
        wait(&roles, &name, |role| reached(&role?.rules).then_some(())).await;
    }

    async fn provider_role(&self) -> ClusterRole {
        let roles: Api<ClusterRole> = Api::all(self.seed.clone());
        let ours = |role: &ClusterRole| role.name_any().starts_with("orangery:extension:provider-local");
        let all = roles.list(&ListParams::default()).await.unwrap();
        all.items.into_iter().find(ours).expect("the provider is installed")
    }
}
