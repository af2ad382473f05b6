//! A domain is one Shoot's: its owner gets DNS records and certificates below it, and clients that trust them. A
//! domain at, above or below that of another Shoot or of the landscape itself is refused, wherever it would be served
//! (gardener/gardener v1.150 plugin/pkg/shoot/{dns,validator}). It never queries a DNS service.

use api_core::v1beta1::ShootAdvertisedAddress;
use cluster_apiserver::Status;
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Extract, Extracted, Review};
use serde_json::Value;

use crate::admission::{Plugin, Verdict, project_of, writes_object};
use crate::convert::{CORE, is_leaving, refuse, text};
use crate::{AdmissionPlugin, AdmissionPlugins};

const DOMAIN: &str = "/spec/dns/domain";
/// How the host of an API server begins; the rest is a domain.
const HOST_PREFIX: &str = "api.";

/// Validates the domain of a Shoot when it is named first. It never changes afterwards.
pub(crate) struct Domains {
    on: AdmissionPlugins,
}

impl Domains {
    pub(super) fn new(on: &AdmissionPlugins) -> Self {
        Self { on: on.clone() }
    }
}

impl Plugin for Domains {
    fn name(&self) -> Option<AdmissionPlugin> {
        // The landscape's own domains are protected in any case; Gardener has no such rule.
        None
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(shoot) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            let domain = text(shoot, DOMAIN);
            let known = review.old.is_some_and(|old| text(old, DOMAIN) == domain);
            if domain.is_empty() || known || is_leaving(shoot) {
                return Ok(Vec::new());
            }
            let mut why = against_landscape(&review, domain).await?;
            if why.is_none() && self.on.has(AdmissionPlugin::ShootDNS) {
                why = against_defaults(&review, shoot, domain).await?;
            }
            if why.is_none() && self.on.has(AdmissionPlugin::ShootValidator) {
                why = against_shoots(&review, shoot, domain).await?;
            }
            let errors: Vec<FieldError> = why
                .map(|why| FieldError::invalid("spec.dns.domain", domain, why))
                .into_iter()
                .collect();
            refuse("Shoot", review.call.name, &errors)?;
            Ok(Vec::new())
        })
    }
}

/// Internal domains and those of ingresses are the seeds' own.
async fn against_landscape(review: &Review<'_>, domain: &str) -> Result<Option<String>, Status> {
    let seeds = review.objects.list(CORE, "seeds", None).await?;
    for pointer in ["/spec/dns/internal/domain", "/spec/ingress/domain"] {
        let mut theirs = seeds.iter().map(|seed| text(seed, pointer));
        if let Some(theirs) = theirs.find(|theirs| meets(domain, theirs)) {
            return Ok(Some(format!(
                "meets {theirs}, a domain of the landscape's own; choose a domain outside of it"
            )));
        }
    }
    Ok(None)
}

/// Below a seed's default domain each Shoot has one name of its own; all else is the landscape's.
async fn against_defaults(review: &Review<'_>, shoot: &Value, domain: &str) -> Result<Option<String>, Status> {
    let seeds = review.objects.list(CORE, "seeds", None).await?;
    let defaults: Vec<&str> = seeds
        .iter()
        .filter_map(|seed| seed.pointer("/spec/dns/defaults")?.as_array())
        .flatten()
        .map(|default| text(default, "/domain"))
        .collect();
    let Some(met) = defaults.iter().find(|default| meets(domain, default)) else {
        return Ok(None);
    };
    let project = project_of(review.objects, text(shoot, "/metadata/namespace")).await?;
    let project = project
        .as_ref()
        .map_or("PROJECT", |project| text(project, "/metadata/name"));
    let own = |default: &str| format!("{}.{project}.{default}", text(shoot, "/metadata/name"));
    if defaults.iter().any(|default| own(default) == domain) {
        return Ok(None);
    }
    Ok(Some(format!(
        "meets the default domain {met}, in which only {} is this Shoot's; take that, or a domain of your own",
        own(met)
    )))
}

async fn against_shoots(review: &Review<'_>, shoot: &Value, domain: &str) -> Result<Option<String>, Status> {
    let objects = review.objects;
    let place = |shoot: &Value| {
        let of = |pointer| text(shoot, pointer).to_owned();
        (of("/metadata/namespace"), of("/metadata/name"))
    };
    let (namespace, name) = place(shoot);
    let meets_it = |other: &Extracted<'_>| {
        let is_other = (other.namespace, other.name) != (Some(namespace.as_str()), name.as_str());
        is_other && other.texts.iter().any(|held| meets(domain, held))
    };
    let Some(other) = objects.find(CORE, "shoots", &HELD, &meets_it).await? else {
        return Ok(None);
    };
    let theirs = held(&other)
        .into_iter()
        .find(|held| meets(domain, held))
        .unwrap_or_default();
    let (namespace, name) = &place(&other);
    let user = review.call.user;
    // The message does not reveal Shoots that the caller may not see.
    let may_know = objects
        .allowed(user, "get", CORE, "shoots", Some(namespace), name)
        .await?;
    Ok(Some(if may_know {
        format!("meets {theirs}, the domain of Shoot {namespace}/{name}; choose another")
    } else {
        "meets the domain of another Shoot; choose another".to_owned()
    }))
}

/// The domains of all Shoots.
const HELD: Extract = Extract {
    name: "domains",
    read: |shoot| held(shoot).into_iter().map(str::to_owned).collect(),
};

/// The domains that a Shoot has: the one that it names, and those below which its clients find it.
fn held(shoot: &Value) -> Vec<&str> {
    let reported = shoot
        .pointer("/status/advertisedAddresses")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|address| ShootAdvertisedAddress::host_of(text(address, "/url")))
        .map(|host| host.strip_prefix(HOST_PREFIX).unwrap_or(host));
    std::iter::once(text(shoot, DOMAIN))
        .chain(reported)
        .filter(|domain| !domain.is_empty())
        .collect()
}

/// One is the other, or lies in it.
fn meets(one: &str, other: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        inner
            .strip_suffix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    !other.is_empty() && (within(one, other) || within(other, one))
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    fn shoot(namespace: &str, name: &str, domain: Option<&str>) -> Value {
        json!({"kind": "Shoot", "metadata": {"name": name, "namespace": namespace}, "spec": {"dns": {"domain": domain}}})
    }

    /// Two projects, a seed, and Shoots of the first project: with a domain of its own, and with none.
    fn landscape() -> Fixture {
        let project = |name: &str| json!({"metadata": {"name": name}, "spec": {"namespace": format!("garden-{name}")}});
        let seed = json!({"metadata": {"name": "seed"}, "spec": {
            "dns": {"internal": {"domain": "in.example"}, "defaults": [{"domain": "out.example"}, {"domain": "more.example"}]},
            "ingress": {"domain": "ingress.example"}}});
        let mut plain = shoot("garden-a", "plain", None);
        plain["status"] =
            json!({"advertisedAddresses": [{"name": "internal", "url": "https://api.plain.a.before.example:6443"}]});
        Fixture::default()
            .with("projects", project("a"))
            .with("projects", project("b"))
            .with("seeds", seed)
            .with("shoots", shoot("garden-a", "own", Some("own.org")))
            .with("shoots", plain)
    }

    fn named(domain: &str, fixture: &Fixture) -> Result<(), String> {
        let requested = shoot("garden-b", "s", Some(domain));
        review(
            &Domains::new(&AdmissionPlugins::default()),
            Operation::Create,
            Some(&requested),
            None,
            fixture,
        )
        .map(drop)
    }

    #[test]
    fn a_domain_of_the_landscape_or_of_another_shoot_is_refused() {
        for (domain, message) in [
            (
                "plain.a.in.example",
                "meets in.example, a domain of the landscape's own",
            ),
            ("in.example", "a domain of the landscape's own"),
            ("example", "a domain of the landscape's own"),
            ("x.ingress.example", "a domain of the landscape's own"),
            (
                "out.example",
                "meets the default domain out.example, in which only s.b.out.example is",
            ),
            ("own.a.out.example", "only s.b.out.example is"),
            ("x.s.b.more.example", "only s.b.more.example is"),
            (
                "own.org",
                "meets own.org, the domain of Shoot garden-a/own; choose another",
            ),
            ("x.own.org", "meets own.org"),
            ("org", "meets own.org"),
            ("plain.a.before.example", "the domain of Shoot garden-a/plain"),
            ("before.example", "the domain of Shoot garden-a/plain"),
        ] {
            let refusal = named(domain, &landscape()).expect_err(domain);
            for part in [&format!("spec.dns.domain: Invalid value: {domain:?}"), message] {
                assert!(refusal.contains(part), "{refusal}\nlacks {part}");
            }
        }
        for good in [
            "s.b.out.example",
            "s.b.more.example",
            "mine.net",
            "evilown.org",
            "xin.example.net",
        ] {
            assert_eq!(named(good, &landscape()), Ok(()), "{good}");
        }
        let mut stranger = landscape();
        stranger.denied.push("shoots");
        let refusal = named("own.org", &stranger).expect_err("taken");
        assert!(
            refusal.contains("meets the domain of another Shoot;") && !refusal.contains("garden-a"),
            "{refusal}"
        );
    }

    #[test]
    fn a_domain_is_validated_when_it_is_first_set() {
        let checked = |new: &Value, old: &Value| {
            review(
                &Domains::new(&AdmissionPlugins::default()),
                Operation::Update,
                Some(new),
                Some(old),
                &landscape(),
            )
        };
        let (taken, none) = (shoot("garden-b", "s", Some("own.org")), shoot("garden-b", "s", None));
        assert!(checked(&taken, &none).is_err());
        assert!(
            checked(&taken, &taken).is_ok(),
            "nothing else about it could be changed then"
        );
        let itself = shoot("garden-a", "own", Some("own.org"));
        assert!(
            review(
                &Domains::new(&AdmissionPlugins::default()),
                Operation::Create,
                Some(&itself),
                None,
                &landscape()
            )
            .is_ok()
        );
    }
}
