//! What becomes of a signing request for the certificate of a gardenlet.

use api_meta::names::{SEED_USER_PREFIX, SEEDS_GROUP};
use base_client::is_decided;
use base_secrets::SigningRequest;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;

/// The signer of gardenlets' certificates: that of clients of kube-apiserver.
pub const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Group of everybody who shows a bootstrap token.
const BOOTSTRAPPERS: &str = "system:bootstrappers";
/// Groups of bootstrap tokens that are good for one seed; its name follows. A token is in those that its Secret names in
/// `auth-extra-groups`.
const OF_SEED: &str = "system:bootstrappers:seed:";
/// The usages that a gardenlet's certificate is requested with, in the order of their names.
pub const USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];

/// The verdict on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Others decide: it is about something else, decided already, or made by a person.
    NotOurs,
    /// A gardenlet registers: approved if its requester has the right to.
    Register,
    /// A gardenlet renews its certificate: approved.
    Renew,
    /// It is denied, for this reason.
    Deny(String),
}

/// Evaluates a request. `is_seed` reports whether there is a Seed of a name.
pub(crate) fn evaluate(request: &CertificateSigningRequest, is_seed: impl Fn(&str) -> bool) -> Verdict {
    let spec = &request.spec;
    if spec.signer_name != SIGNER || is_decided(request) {
        return Verdict::NotOurs;
    }
    let Ok(requested) = SigningRequest::from_pem(&String::from_utf8_lossy(&spec.request.0)) else {
        return Verdict::NotOurs;
    };
    let common_name = requested.common_name();
    let Some(seed) = common_name.strip_prefix(SEED_USER_PREFIX) else {
        return Verdict::NotOurs;
    };
    let groups = spec.groups.as_deref().unwrap_or_default();
    let is_in = |group: &str| groups.iter().any(|one| one == group);
    let user = spec.username.as_deref().unwrap_or_default();
    let outcome = if is_in(SEEDS_GROUP) && user.starts_with(SEED_USER_PREFIX) {
        content(spec.usages.as_deref(), &requested)
            .and_then(|()| own(user, &common_name))
            .map(|()| Verdict::Renew)
    } else if is_in(BOOTSTRAPPERS) {
        content(spec.usages.as_deref(), &requested)
            .and_then(|()| may_become(seed, groups, is_seed))
            .map(|()| Verdict::Register)
    } else {
        return Verdict::NotOurs;
    };
    outcome.unwrap_or_else(Verdict::Deny)
}

/// What every gardenlet's certificate has (gardener/gardener v1.150 pkg/controllermanager/controller/certificatesigningrequest).
fn content(usages: Option<&[String]>, requested: &SigningRequest) -> Result<(), String> {
    let organizations = requested.organizations();
    if organizations != [SEEDS_GROUP] {
        return Err(format!(
            "the organizations are {organizations:?}; a gardenlet's certificate has {SEEDS_GROUP:?} alone"
        ));
    }
    if !requested.dns_names().is_empty() || !requested.ip_addresses().is_empty() {
        return Err("a gardenlet's certificate has no DNS names and no IP addresses".to_owned());
    }
    let mut usages: Vec<&str> = usages.unwrap_or_default().iter().map(String::as_str).collect();
    usages.sort_unstable();
    if usages != USAGES {
        return Err(format!(
            "the usages are {usages:?}; a gardenlet's certificate has {USAGES:?}"
        ));
    }
    Ok(())
}

fn own(user: &str, common_name: &str) -> Result<(), String> {
    match user == common_name {
        true => Ok(()),
        false => Err(format!(
            "{user:?} may renew its own certificate and gets none for {common_name:?}"
        )),
    }
}

/// A token that names seeds is good for these, be they there or not; one that names none only for a seed that is not there yet: it
/// must not become the gardenlet of a seed that has one.
fn may_become(seed: &str, groups: &[String], is_seed: impl Fn(&str) -> bool) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    if seed.is_empty() || !seed.chars().all(is_name) {
        return Err(format!(
            "{seed:?} is no name of a Seed: lower case letters, digits, '-' and '.' are"
        ));
    }
    let named: Vec<&str> = groups.iter().filter_map(|group| group.strip_prefix(OF_SEED)).collect();
    if named.is_empty() && is_seed(seed) {
        return Err(format!(
            "Seed {seed:?} is there, and the bootstrap token is for a new one: to register its gardenlet again, make a \
             token whose Secret has {OF_SEED}{seed} in auth-extra-groups"
        ));
    }
    if !named.is_empty() && !named.contains(&seed) {
        return Err(format!(
            "the bootstrap token is for {}, and the request for seed {seed:?}",
            named.join(", ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base_clock::Entropy;
    use base_secrets::PrivateKey;
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "system:bootstrap:abcdef";

    /// A request that is approved, made with a bootstrap token for a seed that is not there.
    fn request(name: &str, organization: &str, dns: &[String]) -> CertificateSigningRequest {
        let key = PrivateKey::generate(&Entropy::seeded(1));
        let requested = SigningRequest::create(&key, name, &[organization.to_owned()], dns, &[]).unwrap();
        let mut request: CertificateSigningRequest = serde_json::from_value(json!({
            "metadata": {"name": "r"},
            "spec": {"request": "", "signerName": SIGNER, "username": TOKEN, "groups": [BOOTSTRAPPERS],
                "usages": ["digital signature", "key encipherment", "client auth"]},
        }))
        .unwrap();
        request.spec.request.0 = requested.to_pem().into_bytes();
        request
    }

    fn of_seed(seed: &str) -> CertificateSigningRequest {
        request(&format!("{SEED_USER_PREFIX}{seed}"), SEEDS_GROUP, &[])
    }

    fn made_by(mut request: CertificateSigningRequest, user: &str, groups: &[&str]) -> CertificateSigningRequest {
        request.spec.username = Some(user.to_owned());
        request.spec.groups = Some(groups.iter().map(|&group| group.to_owned()).collect());
        request
    }

    /// The verdict in a garden with Seed `there`.
    fn verdict(request: &CertificateSigningRequest) -> Verdict {
        evaluate(request, |seed| seed == "there")
    }

    #[test]
    fn tokens_register_new_seeds_and_gardenlets_renew_their_own() {
        assert_eq!(verdict(&of_seed("new")), Verdict::Register);
        let own = made_by(of_seed("there"), "gardener.cloud:system:seed:there", &[SEEDS_GROUP]);
        assert_eq!(verdict(&own), Verdict::Renew);
        for seed in ["there", "new"] {
            let group = format!("{OF_SEED}{seed}");
            let bound = made_by(of_seed(seed), TOKEN, &[BOOTSTRAPPERS, &group]);
            assert_eq!(verdict(&bound), Verdict::Register, "{seed}");
        }
    }

    #[test]
    fn each_rule_denies_what_no_other_does() {
        let mut usages = of_seed("new");
        usages.spec.usages = Some(vec!["client auth".to_owned()]);
        let new = format!("{SEED_USER_PREFIX}new");
        let cases = [
            (of_seed("there"), "Seed \"there\" is there"),
            (request(&new, "system:masters", &[]), "organizations"),
            (request(&new, SEEDS_GROUP, &["a.example".to_owned()]), "DNS names"),
            (usages, "usages"),
            (of_seed(""), "is no name of a Seed"),
            (of_seed("a:b"), "is no name of a Seed"),
            (
                made_by(
                    of_seed("new"),
                    TOKEN,
                    &[BOOTSTRAPPERS, "system:bootstrappers:seed:other"],
                ),
                "the bootstrap token is for other",
            ),
            (
                made_by(of_seed("new"), "gardener.cloud:system:seed:there", &[SEEDS_GROUP]),
                "may renew its own",
            ),
        ];
        for (request, why) in cases {
            match verdict(&request) {
                Verdict::Deny(reason) => assert!(reason.contains(why), "{reason}"),
                other => panic!("{why}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_ours_is_left_to_others() {
        let mut signer = of_seed("there");
        signer.spec.signer_name = "kubernetes.io/kubelet-serving".to_owned();
        let mut decided = of_seed("there");
        decided.status = serde_json::from_value(json!({"conditions": [{"type": "Denied", "status": "True"}]})).unwrap();
        let mut garbage = of_seed("there");
        garbage.spec.request.0 = b"x".to_vec();
        for request in [
            signer,
            decided,
            garbage,
            request("alice", SEEDS_GROUP, &[]),
            made_by(of_seed("there"), "admin", &["system:masters"]),
            made_by(of_seed("there"), "gardener.cloud:system:seed:there", &[]),
        ] {
            assert_eq!(verdict(&request), Verdict::NotOurs, "{request:?}");
        }
    }
}
