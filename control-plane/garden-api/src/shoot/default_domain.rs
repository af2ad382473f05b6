//! The domain that a Shoot gets when it has a seed and names none, and which of its DNS providers is the primary one
//! (gardener/gardener v1.150 plugin/pkg/shoot/dns). It never validates a domain: `domains` does.

use api_core::v1beta1::{DNS, Seed};
use api_meta::names::DNS_UNMANAGED;
use cluster_apiserver::Status;
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Call, Objects, Operation};
use serde_json::Value;

use crate::AdmissionPlugin;
use crate::admission::{Plugin, Verdict, project_of};
use crate::convert::{CORE, decode_stored, is_leaving, refuse, text, uncoded};

/// The plug-in `ShootDNS`, as far as it changes Shoots.
pub(crate) struct DefaultDomain;

impl Plugin for DefaultDomain {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ShootDNS)
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        Box::pin(async move {
            let concerned = matches!(call.subresource, None | Some("binding")) && call.operation != Operation::Delete;
            if concerned && !is_leaving(object) {
                complete(object, old, objects).await?;
            }
            Ok(Vec::new())
        })
    }

    fn review<'a>(&'a self, review: cluster_apiserver::kind::Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let concerned = matches!(review.call.subresource, None | Some("binding"));
            let Some(object) = review.object.filter(|object| concerned && !is_leaving(object)) else {
                return Ok(Vec::new());
            };
            let defaults = default_domains(object, review.objects).await?;
            let dns = dns_of(object)?;
            let errors = dns.map(|dns| primaries_of_default_domain(&dns, &defaults));
            refuse("Shoot", review.call.name, &errors.unwrap_or_default())?;
            Ok(Vec::new())
        })
    }
}

async fn complete(object: &mut Value, old: Option<&Value>, objects: &dyn Objects) -> Result<(), Status> {
    // What cannot be read is refused by validation, which names the field.
    let Ok(mut dns) = dns_of(object) else {
        return Ok(());
    };
    let before = old.map(dns_of).transpose()?.flatten();
    keep_primary(dns.as_mut(), before.as_ref());
    if object.pointer("/spec/seedName").is_some_and(Value::is_string) {
        let defaults = default_domains(object, objects).await?;
        if !dns.as_ref().is_some_and(is_unmanaged) {
            let dns = dns.get_or_insert_default();
            let name = text(object, "/metadata/name");
            if let (None, Some(default)) = (&dns.domain, defaults.first())
                && let Some(project) = project_of(objects, text(object, "/metadata/namespace")).await?
            {
                dns.domain = Some(format!("{name}.{}.{default}", text(&project, "/metadata/name")));
            }
        }
        choose_primary(dns.as_mut(), &defaults);
    }
    if let (Some(dns), Some(spec)) = (dns, object.get_mut("spec").and_then(Value::as_object_mut)) {
        let written = serde_json::to_value(dns)
            .map_err(|error| Status::internal(format!("could not write spec.dns: {error}")))?;
        spec.insert("dns".to_owned(), written);
    }
    Ok(())
}

/// The part of a Shoot that is about its domain: read alone, because a Shoot may be large.
fn dns_of(shoot: &Value) -> Result<Option<DNS>, Status> {
    let part = shoot.pointer("/spec/dns").filter(|part| !part.is_null());
    part.map(|part| decode_stored("spec.dns of a Shoot", part)).transpose()
}

/// The domains below which a seed's Shoots get theirs; none without a seed.
async fn default_domains(shoot: &Value, objects: &dyn Objects) -> Result<Vec<String>, Status> {
    let name = text(shoot, "/spec/seedName");
    if name.is_empty() {
        return Ok(Vec::new());
    }
    let Some(seed) = objects.get(CORE, "seeds", None, name).await? else {
        let why = format!("could not find the default domains: there is no Seed {name:?}; name another, or none");
        return Err(uncoded(why));
    };
    let seed: Seed = decode_stored("Seed", &seed)?;
    Ok(seed
        .spec
        .dns
        .defaults
        .into_iter()
        .map(|default| default.domain)
        .collect())
}

fn is_unmanaged(dns: &DNS) -> bool {
    let mut types = dns
        .providers
        .iter()
        .map(|provider| provider.type_.as_deref().unwrap_or_default());
    types.any(|type_| type_ == DNS_UNMANAGED)
}

fn is_default(domain: &str, defaults: &[String]) -> bool {
    defaults.iter().any(|default| {
        domain
            .strip_suffix(default.as_str())
            .is_some_and(|rest| rest.ends_with('.'))
    })
}

/// A provider that was primary stays so when an update leaves the field out.
fn keep_primary(dns: Option<&mut DNS>, before: Option<&DNS>) {
    let providers = before.iter().flat_map(|dns| &dns.providers);
    let was = providers.into_iter().find(|provider| provider.primary == Some(true));
    let (Some(was), Some(dns)) = (was, dns) else {
        return;
    };
    if dns.providers.iter().any(|provider| provider.primary == Some(true)) {
        return;
    }
    let mut same = dns
        .providers
        .iter_mut()
        .filter(|provider| provider.type_ == was.type_ && provider.credentials_ref == was.credentials_ref);
    if let Some(provider) = same.next() {
        provider.primary = Some(true);
    }
}

fn choose_primary(dns: Option<&mut DNS>, defaults: &[String]) {
    let Some(dns) = dns else { return };
    let by_default = dns.domain.as_ref().is_some_and(|domain| is_default(domain, defaults));
    let chosen = dns.providers.iter().any(|provider| provider.primary == Some(true));
    if let Some(first) = dns.providers.first_mut().filter(|_| !by_default && !chosen) {
        first.primary = Some(true);
    }
}

fn primaries_of_default_domain(dns: &DNS, defaults: &[String]) -> Vec<FieldError> {
    let Some(domain) = dns.domain.as_ref().filter(|domain| is_default(domain, defaults)) else {
        return Vec::new();
    };
    let primary = |(_, provider): &(usize, &api_core::v1beta1::DNSProvider)| provider.primary == Some(true);
    let providers = dns.providers.iter().enumerate().filter(primary);
    providers
        .map(|(index, _)| {
            let words = format!(
                "{domain} is below a default domain of the seed, which needs no primary provider; leave the field out"
            );
            FieldError::invalid(format!("spec.dns.providers[{index}].primary"), true, words)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, admitted, review};

    fn landscape() -> Fixture {
        Fixture::default()
            .with("projects", json!({"metadata": {"name": "p"}, "spec": {"namespace": "garden-p"}}))
            .with("seeds", json!({"metadata": {"name": "seed"}, "spec": {"dns": {"defaults": [{"domain": "d.example", "type": "t"}]}}}))
    }

    fn shoot(dns: Value) -> Value {
        json!({"kind": "Shoot", "metadata": {"name": "s", "namespace": "garden-p"}, "spec": {"seedName": "seed", "dns": dns}})
    }

    fn completed(dns: Value, old: Option<&Value>) -> Value {
        admitted(&DefaultDomain, None, shoot(dns), old, &landscape()).unwrap()["spec"]["dns"].clone()
    }

    #[test]
    fn a_shoot_with_a_seed_gets_a_domain_unless_unmanaged() {
        assert_eq!(completed(Value::Null, None), json!({"domain": "s.p.d.example"}));
        assert_eq!(
            completed(json!({"domain": "own.example"}), None),
            json!({"domain": "own.example"})
        );
        let unmanaged = completed(json!({"providers": [{"type": "unmanaged"}]}), None);
        assert_eq!(
            unmanaged,
            json!({"providers": [{"type": "unmanaged", "primary": true}]})
        );
    }

    #[test]
    fn the_first_provider_of_a_custom_domain_is_and_stays_primary() {
        let named = json!({"domain": "own.example", "providers": [{"type": "a"}, {"type": "b"}]});
        assert_eq!(completed(named.clone(), None)["providers"][0]["primary"], true);
        let second = json!({"domain": "own.example", "providers": [{"type": "a"}, {"type": "b", "primary": true}]});
        let retained = completed(named, Some(&shoot(second)));
        assert_eq!(
            (
                &retained["providers"][0]["primary"],
                &retained["providers"][1]["primary"]
            ),
            (&Value::Null, &json!(true))
        );
    }

    #[test]
    fn a_default_domain_has_no_primary_provider() {
        let wrong = shoot(json!({"domain": "s.p.d.example", "providers": [{"type": "a", "primary": true}]}));
        let refusal = review(&DefaultDomain, Operation::Create, Some(&wrong), None, &landscape()).unwrap_err();
        assert!(refusal.contains("spec.dns.providers[0].primary"), "{refusal}");
    }
}
