//! What a Shoot gets from its cloud profile and its seed before it is validated
//! (gardener/gardener v1.150 plugin/pkg/shoot/mutator). Done twice, it changes nothing.

use api_core::v1beta1::{CloudProfileSpec, NodeLocalDNS, Shoot};
use api_meta::annotations::CREATED_BY;
use api_rules::ShootDefaults;
use base_clock::Entropy;
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Call, Objects, Operation};
use serde_json::Value;

use super::profile::{profile, profile_missing, seed};
use super::strategy;
use crate::admission::{Plugin, Verdict};
use crate::convert::{CORE, decode, encode_over, field_errors, forbid, is_leaving, text, uncoded};
use crate::prepare::annotate;
use crate::{AdmissionPlugin, AdmissionPlugins, GardenSettings};

/// The plug-in `ShootMutator`, and those that give a new Shoot one default each; and what needs no plug-in: the other
/// defaults, and what the part `binding` may change.
pub(super) struct Complete {
    pub(super) entropy: Entropy,
    pub(super) on: AdmissionPlugins,
}

impl Complete {
    pub(super) fn new(settings: &GardenSettings) -> Self {
        Self {
            entropy: settings.entropy.clone(),
            on: settings.plugins.clone(),
        }
    }
}

impl Plugin for Complete {
    fn name(&self) -> Option<AdmissionPlugin> {
        // It does the work of several.
        None
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        Box::pin(async move {
            match call.subresource {
                None => self.complete(call, object, old, objects).await?,
                Some("binding") => {
                    if let Some(old) = old {
                        strategy::keep_all_but_the_seed(object, old);
                        let same = text(object, "/spec/seedName") == text(old, "/spec/seedName");
                        if same && self.on.has(AdmissionPlugin::ShootValidator) {
                            return Err(uncoded(
                                "update of binding rejected: the Shoot names this seed already; leave it",
                            ));
                        }
                    }
                    if self.on.has(AdmissionPlugin::ShootMutator) {
                        complete_networks(object, objects).await?;
                    }
                }
                Some(_) => {}
            }
            Ok(Vec::new())
        })
    }
}

impl Complete {
    /// Defaults of the shoot, with its profile and seed where they are known.
    async fn complete(
        &self,
        call: Call<'_>,
        object: &mut Value,
        old: Option<&Value>,
        objects: &dyn Objects,
    ) -> Result<(), Status> {
        if is_leaving(object) {
            return Ok(());
        }
        // What cannot be read is refused by validation, which names the field.
        let Ok(mut shoot) = decode::<Shoot>(object) else {
            return Ok(());
        };
        let mutates = self.on.has(AdmissionPlugin::ShootMutator);
        let (profile, seed) = match mutates {
            true => (profile(&shoot, objects).await?, seed(&shoot, objects).await?),
            false => (None, None),
        };
        let created = call.operation == Operation::Create && old.is_none();
        let with = ShootDefaults {
            seed: seed.as_ref(),
            cloud_profile: profile.as_ref(),
            now: call.now,
            entropy: self.entropy.next_u64(),
            rotates_key: created && mutates,
            scales_vertically: created && self.on.has(AdmissionPlugin::ShootVPAEnabledByDefault),
            reserves: self.on.has(AdmissionPlugin::ShootResourceReservation),
        };
        api_rules::default_shoot(&mut shoot, with);
        if created && self.on.has(AdmissionPlugin::ShootNodeLocalDNSEnabledByDefault) {
            enable_node_local_dns(&mut shoot);
        }
        encode_over(&shoot, object);
        if !mutates {
            return Ok(());
        }
        refuse_incomplete(&call, &shoot, profile.as_ref(), objects).await?;
        if created {
            annotate(object, CREATED_BY, &call.user.name);
        }
        Ok(())
    }
}

/// As gardener/gardener v1.150 plugin/pkg/shoot/nodelocaldns.
fn enable_node_local_dns(shoot: &mut Shoot) {
    if shoot.spec.provider.workers.is_empty() {
        return;
    }
    let components = shoot.spec.system_components.get_or_insert_default();
    components.node_local_dns.get_or_insert_with(|| NodeLocalDNS {
        enabled: true,
        ..NodeLocalDNS::default()
    });
}

/// Refuses a Shoot whose versions are not complete with its cloud profile, or whose cloud profile is missing.
async fn refuse_incomplete(
    call: &Call<'_>,
    shoot: &Shoot,
    profile: Option<&CloudProfileSpec>,
    objects: &dyn Objects,
) -> Result<(), Status> {
    let unresolved = match profile {
        Some(profile) => api_rules::unresolved_version(shoot, profile, call.now),
        // Without it, the first thing missed would be the rest of the version.
        None if api_rules::cloud_profile_name(shoot).is_some_and(|(_, name)| !name.is_empty()) => {
            let missing = profile_missing(shoot, objects).await?;
            return Err(Status::internal(format!(
                "could not find referenced cloud profile: {missing}"
            )));
        }
        None => None,
    };
    let errors = field_errors(unresolved.into_iter().collect());
    forbid(CORE, "shoots", call.name, &errors)
}

/// A shoot that just got its seed gets the networks the seed offers to shoots.
async fn complete_networks(object: &mut Value, objects: &dyn Objects) -> Result<(), Status> {
    let Ok(mut shoot) = decode::<Shoot>(object) else {
        return Ok(());
    };
    if let Some(seed) = seed(&shoot, objects).await? {
        api_rules::default_shoot_networks(&mut shoot, Some(&seed));
        encode_over(&shoot, object);
    }
    Ok(())
}
