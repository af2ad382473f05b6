//! The life of an owner's secrets: created, kept, renewed, rotated, no longer wanted.

use std::time::Duration;

use base_clock::Entropy;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::*;
use crate::split_bundle;

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Owner {
    secrets: Vec<Secret>,
    entropy: Entropy,
    now: Timestamp,
}

impl Owner {
    fn new() -> Self {
        Self {
            secrets: Vec::new(),
            entropy: Entropy::seeded(1),
            now: "2026-01-01T00:00:00Z".parse().expect("time"),
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.checked_add(time).expect("time");
    }

    /// Plans, generates and deletes; then asserts that nothing is left to do.
    fn reconcile(&mut self, wanted: &[Wanted]) -> Plan {
        let plan = plan(wanted, &self.secrets, self.now).expect("plan");
        let made = generate(
            &plan,
            wanted,
            &self.secrets,
            "some-namespace",
            "some-manager",
            self.now,
            &self.entropy,
        )
        .expect("generate");
        self.secrets.extend(made);
        let gone: Vec<String> = plan.deletions().map(str::to_owned).collect();
        self.secrets.retain(|secret| {
            !gone
                .iter()
                .any(|name| Some(name.as_str()) == secret.metadata.name.as_deref())
        });
        let again = super::plan(wanted, &self.secrets, self.now).expect("plan");
        // What a new generation supersedes is deleted by the next plan; nothing is generated twice.
        assert!(!again.generates(), "{again:?}");
        let gone: Vec<String> = again.deletions().map(str::to_owned).collect();
        self.secrets.retain(|secret| {
            !gone
                .iter()
                .any(|name| Some(name.as_str()) == secret.metadata.name.as_deref())
        });
        assert!(super::plan(wanted, &self.secrets, self.now).expect("plan").is_settled());
        plan
    }

    fn lookup(&self, wanted: &[Wanted], name: &str) -> Managed {
        lookup(wanted, &self.secrets, self.now)
            .expect("lookup")
            .remove(name)
            .expect("there")
    }
}

fn wanted(rotation: Rotation) -> Vec<Wanted> {
    vec![
        Wanted::certificate(
            "kube-apiserver",
            "ca",
            CertificateSpec::server("kube-apiserver", vec!["api".to_owned()], vec![], DAY),
        ),
        Wanted::certificate("admin", "ca", CertificateSpec::client("admin", &["a", "b"], DAY)),
        Wanted::authority("ca", "kubernetes").rotated(rotation),
        Wanted::signing_key("service-account-key").rotated(rotation),
        Wanted::password("observability", "admin", 32),
    ]
}

#[test]
fn everything_is_generated_once_and_authorities_come_before_what_they_sign() {
    let mut owner = Owner::new();
    let wanted = wanted(Rotation::default());
    let plan = owner.reconcile(&wanted);
    let order: Vec<&str> = plan
        .actions
        .iter()
        .filter_map(|action| match action {
            Action::Generate {
                wanted,
                reason: Reason::Missing,
            } => Some(wanted.name.as_str()),
            Action::Bundle { .. } => Some("bundle"),
            _ => None,
        })
        .collect();
    assert_eq!(
        order,
        [
            "ca",
            "service-account-key",
            "bundle",
            "bundle",
            "observability",
            "kube-apiserver",
            "admin"
        ]
    );
    let issued = owner.lookup(&wanted, "kube-apiserver").issued().expect("certificate");
    assert!(
        issued.certificate.names_as_issuer(
            owner
                .lookup(&wanted, "ca")
                .authority()
                .expect("authority")
                .certificate()
        )
    );
    let secret = owner.lookup(&wanted, "ca").current;
    assert_eq!(label_of(&secret, label::MANAGED_BY), Some("secrets-manager"));
    assert_eq!(secret.immutable, Some(true));
    assert!(owner.secrets.iter().all(|secret| {
        secret
            .metadata
            .labels
            .iter()
            .flatten()
            .all(|(_, value)| value.len() <= 63)
    }));
}

#[test]
fn a_certificate_is_renewed_at_80_percent_and_serves_until_then() {
    let mut owner = Owner::new();
    let wanted = wanted(Rotation::default());
    owner.reconcile(&wanted);
    let before = owner.lookup(&wanted, "admin").object().to_owned();
    owner.pass(DAY / 100 * 79);
    assert!(plan(&wanted, &owner.secrets, owner.now).expect("plan").is_settled());
    owner.pass(DAY / 100 * 2);
    assert_eq!(
        owner.lookup(&wanted, "admin").object(),
        before,
        "the due certificate still serves"
    );
    let plan = owner.reconcile(&wanted);
    let renewed = plan.actions.iter().filter(|action| {
        matches!(
            action,
            Action::Generate {
                reason: Reason::Expiring(_),
                ..
            }
        )
    });
    assert_eq!(renewed.count(), 2, "{plan:?}");
    assert_ne!(owner.lookup(&wanted, "admin").object(), before);
}

#[test]
fn rotation_keeps_both_authorities_in_the_bundle_until_it_completes() {
    let mut owner = Owner::new();
    owner.reconcile(&wanted(Rotation::default()));
    let first = owner
        .lookup(&wanted(Rotation::default()), "ca")
        .authority()
        .expect("authority");
    owner.pass(Duration::from_secs(3600));
    let preparing = wanted(Rotation {
        initiated: Some(owner.now),
        keep_old: true,
    });
    owner.reconcile(&preparing);
    let authorities = owner.lookup(&preparing, "ca");
    let second = authorities.authority().expect("authority");
    assert_ne!(first, second);
    let bundle = authorities
        .bundle
        .as_ref()
        .map(|bundle| text_of(bundle, data::BUNDLE).expect("bundle").expose().to_owned())
        .expect("bundle");
    assert_eq!(
        split_bundle(&bundle),
        [second.certificate_pem(), first.certificate_pem()]
    );
    let signed_by = |owner: &Owner, wanted: &[Wanted], name: &str| {
        label_of(&owner.lookup(wanted, name).current, label::CHECKSUM_AUTHORITY).map(str::to_owned)
    };
    let old = authorities.old.as_ref().map(checksum_of_data);
    assert_eq!(
        signed_by(&owner, &preparing, "kube-apiserver"),
        old,
        "servers stay with the old authority"
    );
    assert_eq!(
        signed_by(&owner, &preparing, "admin"),
        Some(checksum_of_data(&authorities.current))
    );
    let completing = wanted(Rotation {
        keep_old: false,
        ..preparing[2].rotation
    });
    owner.reconcile(&completing);
    let authorities = owner.lookup(&completing, "ca");
    assert_eq!(
        (authorities.authority().expect("authority"), authorities.old.is_none()),
        (second, true)
    );
    assert_eq!(
        signed_by(&owner, &completing, "kube-apiserver"),
        Some(checksum_of_data(&authorities.current))
    );
}

#[test]
fn what_is_no_longer_wanted_goes_and_what_others_manage_stays() {
    let mut owner = Owner::new();
    let mut wanted = wanted(Rotation::default());
    owner.reconcile(&wanted);
    let mut foreign = Secret::default();
    foreign.metadata.name = Some("cloudprovider".to_owned());
    owner.secrets.push(foreign);
    wanted.retain(|wanted| wanted.name != "observability");
    let plan = owner.reconcile(&wanted);
    assert_eq!(plan.deletions().count(), 1);
    assert!(plan.actions.iter().any(|action| matches!(action, Action::Delete { object, reason: Reason::NotWanted } if object.starts_with("observability-"))));
    assert!(
        owner
            .secrets
            .iter()
            .any(|secret| secret.metadata.name.as_deref() == Some("cloudprovider"))
    );
}

#[test]
fn a_certificate_of_one_minute_is_renewed_late_in_its_life() {
    let mut owner = Owner::new();
    let minute = Duration::from_secs(60);
    let wanted = [
        Wanted::authority("ca", "kubernetes"),
        Wanted::certificate("admin", "ca", CertificateSpec::client("admin", &[], minute)),
    ];
    owner.reconcile(&wanted);
    owner.pass(Duration::from_secs(47));
    assert!(owner.reconcile(&wanted).is_settled());
    owner.pass(Duration::from_secs(1));
    assert!(owner.reconcile(&wanted).generates());
}

#[test]
fn a_certificate_that_ends_with_its_authority_is_not_renewed_without_end() {
    let mut owner = Owner::new();
    let wanted = wanted(Rotation::default());
    owner.reconcile(&wanted);
    owner.pass(crate::VALIDITY_AUTHORITY - Duration::from_secs(30));
    assert!(owner.reconcile(&wanted).generates(), "the last one");
    for _ in 0..2 {
        owner.pass(Duration::from_secs(29));
        assert!(owner.reconcile(&wanted).is_settled());
    }
}

#[test]
fn an_emptied_secret_is_replaced_and_an_unknown_authority_is_an_error() {
    let mut owner = Owner::new();
    let wanted = wanted(Rotation::default());
    owner.reconcile(&wanted);
    for secret in owner
        .secrets
        .iter_mut()
        .filter(|secret| label_of(secret, label::NAME) == Some("admin"))
    {
        secret.data = None;
    }
    let plan = owner.reconcile(&wanted);
    assert!(plan.actions.iter().any(
        |action| matches!(action, Action::Generate { wanted, reason: Reason::Changed } if wanted.name == "admin")
    ));
    let orphan = [Wanted::certificate(
        "a",
        "missing",
        CertificateSpec::client("a", &[], DAY),
    )];
    assert!(matches!(
        super::plan(&orphan, &[], owner.now),
        Err(SecretError::UnknownAuthority { .. })
    ));
}

#[test]
fn a_rotated_ssh_key_pair_keeps_the_one_before_while_it_is_trusted() {
    let mut owner = Owner::new();
    let ssh = |rotation| [Wanted::ssh_key_pair("ssh-keypair").rotated(rotation)];
    owner.reconcile(&ssh(Rotation::default()));
    let first = owner.secrets[0].clone();
    assert!(text_of(&first, data::SSH_KEY_PUBLIC).is_ok_and(|key| key.expose().starts_with("ssh-ed25519 ")));
    assert!(text_of(&first, data::SSH_KEY).is_ok());
    owner.pass(DAY * 4000);
    assert!(
        owner.reconcile(&ssh(Rotation::default())).is_settled(),
        "never renewed by itself"
    );
    let rotated = |keep_old| {
        ssh(Rotation {
            initiated: Some(Timestamp::from_second(1_800_000_000).expect("time")),
            keep_old,
        })
    };
    owner.reconcile(&rotated(true));
    let found = lookup(&rotated(true), &owner.secrets, owner.now).expect("lookup");
    let found = &found["ssh-keypair"];
    assert_eq!(found.old.as_ref(), Some(&first));
    assert_ne!(found.current.data, first.data);
    assert!(found.bundle.is_none());
    owner.reconcile(&rotated(false));
    assert_eq!(owner.secrets.len(), 1);
}
