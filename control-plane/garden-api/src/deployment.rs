//! ControllerDeployments: two served versions, v1 (stored) and v1beta1, converted without loss both ways.
//! The conversion itself is in `api/rules`.

use api_core::{v1, v1beta1};
use api_meta::annotations::{MIGRATION_DEPLOYMENT_PROVIDER_CONFIG, MIGRATION_DEPLOYMENT_TYPE};
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Call, Column, spec_differs};
use cluster_apiserver::schema::Schema;
use cluster_apiserver::{Kind, ResourceInfo, Status};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::columns;
use crate::convert::{CORE, annotation, decode, decode_whole, field_errors};
use crate::typed::{Rules, schema_of, validate_object};

/// The kind ControllerDeployment.
pub(crate) struct Deployments {
    info: ResourceInfo,
    v1: Option<Schema>,
    v1beta1: Option<Schema>,
}

impl Deployments {
    pub(crate) fn new() -> Self {
        let info = ResourceInfo::cluster(CORE, "v1", "ControllerDeployment", "controllerdeployments");
        Self {
            info: info.also("v1beta1").short(&["ctrldeploy"]).category(&["all"]),
            v1: schema_of::<v1::ControllerDeployment>(),
            v1beta1: schema_of::<v1beta1::ControllerDeployment>(),
        }
    }
}

impl Kind for Deployments {
    fn resource(&self) -> &ResourceInfo {
        &self.info
    }

    fn schema(&self, version: &str) -> Option<Schema> {
        if version == "v1beta1" {
            self.v1beta1.clone()
        } else {
            self.v1.clone()
        }
    }

    fn openapi(&self, version: &str) -> Option<Value> {
        self.schema(version).map(|schema| schema.to_openapi())
    }

    fn convert(&self, object: Value, to: &str) -> Result<Value, Status> {
        match to {
            "v1" => change(&object, api_rules::deployment_to_v1),
            "v1beta1" => change(&object, api_rules::deployment_to_v1beta1),
            other => Err(Status::bad_request(format!(
                "ControllerDeployment has no version {other}; use v1 or v1beta1"
            ))),
        }
    }

    fn validate(&self, call: &Call<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let rules = Rules::<v1::ControllerDeployment> {
            validate: api_rules::validate_controller_deployment,
            validate_update: |new, _| api_rules::validate_controller_deployment(new),
            ..Rules::default()
        };
        let mut errors = validate_object(&rules, call, object, old);
        if call.version == "v1beta1"
            && let Ok(Ok(beta)) = decode(object).map(|new| api_rules::deployment_to_v1beta1(&new))
        {
            // A client of v1beta1 reads of its fields; the same fault in other words is not repeated.
            let message = field_errors(api_rules::validate_controller_deployment_v1beta1(&beta));
            if !message.is_empty() {
                errors = message;
            }
        }
        errors
    }

    fn changes_generation(&self, _: &Call<'_>, object: &mut Value, old: &Value) -> bool {
        // What v1 has no fields for stands in annotations, and describes the installation all the same.
        let retained = [MIGRATION_DEPLOYMENT_TYPE, MIGRATION_DEPLOYMENT_PROVIDER_CONFIG];
        spec_differs(object, old)
            || retained
                .iter()
                .any(|key| annotation(object, key) != annotation(old, key))
    }

    fn columns(&self, _version: &str) -> Option<Vec<Column>> {
        Some(columns::deployments().columns)
    }
}

fn change<From, To>(
    object: &Value,
    convert: fn(&From) -> Result<To, api_rules::ConversionError>,
) -> Result<Value, Status>
where
    From: DeserializeOwned,
    To: Serialize,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let invalid = |errors: &[FieldError]| Status::invalid(CORE, "ControllerDeployment", name, errors);
    let from: From = decode_whole(object).map_err(|error| invalid(&[error]))?;
    let to = convert(&from).map_err(|api_rules::ConversionError(error)| invalid(&field_errors(vec![error])))?;
    serde_json::to_value(&to).map_err(Status::internal)
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::User;
    use cluster_apiserver::kind::Operation;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn both_versions_retain_fields_that_the_other_lacks() {
        let kind = Deployments::new();
        let v1 = json!({"apiVersion": "core.gardener.cloud/v1", "kind": "ControllerDeployment", "metadata": {"name": "d"},
            "helm": {"ociRepository": {"ref": "x/y:1"}, "values": {"big": 9_007_199_254_740_993_i64}},
            "resources": [{"name": "r", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "s"}}]});
        let beta = kind.convert(v1.clone(), "v1beta1").expect("converts");
        assert_eq!(beta["type"], "helm");
        assert_eq!(kind.convert(beta, "v1").expect("converts back"), v1);
        let builtin = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment",
            "metadata": {"name": "d"}, "type": "builtin", "providerConfig": {"image": "provider-local"}});
        let stored = kind.convert(builtin.clone(), "v1").expect("converts");
        assert_eq!(kind.convert(stored, "v1beta1").expect("converts back"), builtin);
    }
    #[test]
    fn a_change_in_either_version_raises_the_generation() {
        let kind = Deployments::new();
        let beta = |config: Value| {
            let object = json!({"apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment",
                "metadata": {"name": "d"}, "type": "builtin", "providerConfig": config});
            kind.convert(object, "v1").expect("converts")
        };
        let call = Call {
            operation: Operation::Update,
            version: "v1beta1",
            subresource: None,
            namespace: None,
            name: "d",
            user: &User::default(),
            now: Timestamp::UNIX_EPOCH,
            dry_run: false,
        };
        let old = beta(json!({"image": "one"}));
        let mut noted = old.clone();
        noted["metadata"]["annotations"]["note"] = json!("nothing to install");
        assert!(!kind.changes_generation(&call, &mut noted, &old));
        assert!(kind.changes_generation(&call, &mut beta(json!({"image": "two"})), &old));
        let mut changed = old.clone();
        changed["injectGardenKubeconfig"] = json!(true);
        assert!(kind.changes_generation(&call, &mut changed, &old));
    }
}
