//! Labels that name the extensions of an object, so that their webhooks can select
//! (gardener/gardener v1.150 plugin/pkg/global/extensionlabels). Labels of types that an object no longer names go.

use std::collections::BTreeSet;

use api_core::v1beta1::{BackupBucket, ClusterType, ControllerRegistration, Extension, Seed, Shoot};
use api_extensions::ExtensionKind;
use api_meta::labels::extension_types::PROVIDER;
use api_meta::names::DNS_UNMANAGED;
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Call, Objects};
use serde_json::{Map, Value};

use super::{Plugin, Verdict, registrations, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, decode, decode_stored, text};

/// The plug-in `ExtensionLabels`.
pub(crate) struct ExtensionLabels;

impl Plugin for ExtensionLabels {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ExtensionLabels)
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        _old: Option<&'a Value>,
        objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        Box::pin(async move {
            if writes_object(&call)
                && let Some(labels) = labels_of(object, objects).await?
            {
                set(object, &labels);
            }
            Ok(Vec::new())
        })
    }
}

/// Beginnings of labels, and the types behind them.
type Labels = BTreeSet<(&'static str, String)>;

/// `None` for an object that cannot be read: validation reports why.
async fn labels_of(object: &Value, objects: &dyn Objects) -> Result<Option<Labels>, Status> {
    let provider = |type_: &str| {
        // One empty type is a label that validation refuses; empty parts of a list are not.
        let is_list = type_.contains(',');
        let types = type_
            .split(',')
            .map(str::trim)
            .filter(move |type_| !is_list || !type_.is_empty());
        types.map(|type_| (PROVIDER, type_.to_owned())).collect::<Labels>()
    };
    Ok(Some(match text(object, "/kind") {
        "Shoot" => {
            let Ok(shoot) = decode::<Shoot>(object) else {
                return Ok(None);
            };
            of_shoot(&shoot, &registrations(objects).await?)
        }
        "Seed" => {
            let Ok(seed) = decode::<Seed>(object) else {
                return Ok(None);
            };
            of_seed(&seed, &registrations(objects).await?)
        }
        "CloudProfile" => provider(text(object, "/spec/type")),
        "BackupBucket" => provider(text(object, "/spec/provider/type")),
        "BackupEntry" => match objects
            .get(CORE, "backupbuckets", None, text(object, "/spec/bucketName"))
            .await?
        {
            Some(bucket) => provider(
                &decode_stored::<BackupBucket>("BackupBucket", &bucket)?
                    .spec
                    .provider
                    .type_,
            ),
            None => {
                let why = match text(object, "/spec/bucketName") {
                    "" => "spec.bucketName is empty; name a BackupBucket".to_owned(),
                    bucket => {
                        format!("spec.bucketName: there is no BackupBucket {bucket:?}; create it, or name another")
                    }
                };
                return Err(Status::internal(why));
            }
        },
        "NamespacedCloudProfile" => {
            let parent = text(object, "/spec/parent/name");
            let kind = text(object, "/spec/parent/kind");
            let found = objects.get(CORE, "cloudprofiles", None, parent).await?;
            let Some(found) = found.filter(|_| kind == "CloudProfile") else {
                let why = format!(
                    "spec.parent: there is no {kind:?} {parent:?} to be the parent; name kind CloudProfile and one that exists"
                );
                return Err(Status::bad_request(why));
            };
            provider(text(&found, "/spec/type"))
        }
        "WorkloadIdentity" => provider(text(object, "/spec/targetSystem/type")),
        "SecretBinding" | "CredentialsBinding" => provider(text(object, "/provider/type")),
        _ => return Ok(None),
    }))
}

fn of_shoot(shoot: &Shoot, registrations: &[ControllerRegistration]) -> Labels {
    let spec = &shoot.spec;
    let mut labels = Labels::from([(PROVIDER, spec.provider.type_.clone())]);
    labels.extend(extensions(
        &spec.extensions,
        &ClusterType::Shoot,
        api_rules::is_workerless(shoot),
        registrations,
    ));
    for provider in spec.dns.iter().flat_map(|dns| &dns.providers) {
        let type_ = provider.type_.iter().filter(|type_| *type_ != DNS_UNMANAGED);
        labels.extend(type_.map(|type_| (ExtensionKind::DNSRecord.type_label(), type_.clone())));
    }
    if let Some(type_) = spec
        .networking
        .as_ref()
        .and_then(|networking| networking.type_.as_ref())
    {
        labels.insert((ExtensionKind::Network.type_label(), type_.clone()));
    }
    for worker in &spec.provider.workers {
        labels.extend(
            worker
                .machine
                .image
                .iter()
                .map(|image| (ExtensionKind::OperatingSystemConfig.type_label(), image.name.clone())),
        );
        let runtimes = worker.cri.iter().flat_map(|cri| &cri.container_runtimes);
        labels.extend(runtimes.map(|runtime| (ExtensionKind::ContainerRuntime.type_label(), runtime.type_.clone())));
        let exposure = worker
            .control_plane
            .as_ref()
            .and_then(|part| part.exposure.as_ref()?.extension.as_ref()?.type_.clone());
        labels.extend(exposure.map(|type_| (ExtensionKind::SelfHostedShootExposure.type_label(), type_)));
    }
    labels
}

fn of_seed(seed: &Seed, registrations: &[ControllerRegistration]) -> Labels {
    let spec = &seed.spec;
    let mut labels = Labels::from([(PROVIDER, spec.provider.type_.clone())]);
    labels.extend(spec.backup.iter().map(|backup| (PROVIDER, backup.provider.clone())));
    labels.extend(
        spec.dns
            .provider
            .iter()
            .map(|provider| (ExtensionKind::DNSRecord.type_label(), provider.type_.clone())),
    );
    labels.extend(extensions(&spec.extensions, &ClusterType::Seed, false, registrations));
    labels
}

/// Extensions that are requested, and those that registrations turn on unless they are disabled.
fn extensions(
    requested: &[Extension],
    cluster: &ClusterType,
    workerless: bool,
    registrations: &[ControllerRegistration],
) -> Labels {
    let disabled = requested.iter().filter(|requested| requested.disabled == Some(true));
    let disabled: BTreeSet<String> = disabled.map(|requested| requested.type_.to_ascii_lowercase()).collect();
    let resources = registrations
        .iter()
        .flat_map(|registration| &registration.spec.resources);
    let automatic = resources
        .filter(|resource| resource.kind == ExtensionKind::Extension.kind() && resource.auto_enable.contains(cluster))
        .filter(|resource| !workerless || resource.workerless_supported == Some(true))
        .map(|resource| &resource.type_);
    let requested = requested.iter().map(|requested| &requested.type_);
    requested
        .chain(automatic)
        .filter(|type_| !disabled.contains(&type_.to_ascii_lowercase()))
        .map(|type_| (ExtensionKind::Extension.type_label(), type_.clone()))
        .collect()
}

fn set(object: &mut Value, labels: &Labels) {
    let Some(metadata) = object["metadata"].as_object_mut() else {
        return;
    };
    let map = metadata.entry("labels").or_insert_with(|| Value::Object(Map::new()));
    if !map.is_object() {
        *map = Value::Object(Map::new());
    }
    if let Some(map) = map.as_object_mut() {
        map.retain(|key, _| !ExtensionKind::ALL.iter().any(|kind| key.starts_with(kind.type_label())));
        // An empty type makes a label that validation refuses, beside the type itself.
        for (prefix, type_) in labels {
            map.insert(format!("{prefix}{type_}"), "true".into());
        }
    }
    if metadata["labels"].as_object().is_some_and(Map::is_empty) {
        metadata.remove("labels");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, admitted};

    #[test]
    fn a_shoot_is_labelled_with_what_it_uses_and_no_more() {
        let registration = json!({"metadata": {"name": "r"}, "spec": {"resources": [
            {"kind": "Extension", "type": "auto", "autoEnable": ["shoot"]},
            {"kind": "Extension", "type": "off", "autoEnable": ["shoot"]}]}});
        let fixture = Fixture::default().with("controllerregistrations", registration);
        let shoot = json!({"kind": "Shoot",
            "metadata": {"name": "s", "labels": {"own": "1", "provider.extensions.gardener.cloud/before": "true"}},
            "spec": {"provider": {"type": "cloud", "workers": [{"name": "w", "machine": {"type": "m", "image": {"name": "linux"}}}]},
                "networking": {"type": "net"}, "extensions": [{"type": "mine"}, {"type": "off", "disabled": true}]}});
        let shoot = admitted(&ExtensionLabels, None, shoot, None, &fixture).expect("admitted");
        assert_eq!(
            shoot["metadata"]["labels"],
            json!({"own": "1",
                "extensions.extensions.gardener.cloud/auto": "true",
                "extensions.extensions.gardener.cloud/mine": "true",
                "networking.extensions.gardener.cloud/net": "true",
                "operatingsystemconfig.extensions.gardener.cloud/linux": "true",
                "provider.extensions.gardener.cloud/cloud": "true"})
        );
    }
}
