//! What a gardenlet and an extension may do with each kind: one row per kind. Which objects are concerned is decided by their
//! [`Tie`] to the seed.

use crate::identity::Party;
use crate::kinds::Kind;
use crate::tie::Tie::{self, Owned, Referred};

/// How a list or a watch of more than one object is narrowed to the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Narrowing {
    /// It need not be: what is in these objects concerns all seeds.
    Nothing,
    /// By the label `name.seed.gardener.cloud/SEED=true`, which the garden's API server alone writes.
    Label,
    /// By this field with the seed's name.
    Field(&'static str),
    /// By the seed's own namespace.
    OwnNamespace,
    /// By `spec.namespace` with a namespace that Shoots of the seed are in.
    ProjectNamespace,
}

/// The row of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// Verbs on a single object, with the tie that each needs. `list` and `watch` of an object by its name are as `get`.
    pub(crate) verbs: &'static [(&'static str, Tie)],
    /// The same of parts of an object.
    pub(crate) parts: &'static [(&'static str, &'static str, Tie)],
    /// Whether new ones may be made: of what object is decided when it is known.
    pub(crate) creates: bool,
    /// Whether all of a narrowed list may be deleted at once.
    pub(crate) deletes_all: bool,
    /// Any of these.
    pub(crate) lists: &'static [Narrowing],
    /// The row in words.
    pub(crate) allowed: &'static str,
}

const GET: (&str, Tie) = ("get", Referred);
const UPDATE: (&str, Tie) = ("update", Owned);
const PATCH: (&str, Tie) = ("patch", Owned);
const DELETE: (&str, Tie) = ("delete", Owned);
const STATUS: &[(&str, &str, Tie)] = &[
    ("status", "get", Owned),
    ("status", "update", Owned),
    ("status", "patch", Owned),
];

const NOTHING: Rule = Rule {
    verbs: &[],
    parts: &[],
    creates: false,
    deletes_all: false,
    lists: &[],
    allowed: "nothing",
};
const READ: Rule = Rule {
    verbs: &[GET],
    allowed: "get of what Shoots and bindings of seed \"{seed}\" refer to",
    ..NOTHING
};
const BACKUPS: Rule = Rule {
    verbs: &[GET, UPDATE, PATCH, DELETE],
    parts: STATUS,
    creates: true,
    ..NOTHING
};

/// The row.
pub(crate) fn rule(kind: Kind, party: Party) -> Rule {
    let extension = party == Party::Extension;
    match kind {
        Kind::CloudProfile | Kind::ControllerDeployment | Kind::ControllerRegistration | Kind::ExposureClass => Rule {
            lists: &[Narrowing::Nothing],
            allowed: "get, list and watch",
            ..READ
        },
        Kind::Seed if extension => Rule {
            lists: &[Narrowing::Label],
            allowed: "get, list and watch of Seed {seed}",
            ..READ
        },
        Kind::Seed => Rule {
            verbs: &[GET, UPDATE, PATCH],
            parts: STATUS,
            creates: true,
            lists: &[Narrowing::Label],
            allowed: "all but delete on Seed {seed}, with lists by its name or its label name.seed.gardener.cloud/{seed}=true",
            ..NOTHING
        },
        Kind::Shoot => Rule {
            verbs: &[GET, UPDATE, PATCH],
            parts: STATUS,
            lists: &[
                Narrowing::Label,
                Narrowing::Field("spec.seedName"),
                Narrowing::Field("status.seedName"),
            ],
            allowed: "get, update and patch of metadata and status of Shoots on seed \"{seed}\", with lists by the label \
                      name.seed.gardener.cloud/{seed}=true",
            ..NOTHING
        },
        Kind::ControllerInstallation => Rule {
            verbs: &[GET, UPDATE, PATCH],
            parts: STATUS,
            lists: &[Narrowing::Field("spec.seedRef.name")],
            allowed: "get, update and patch of metadata and status of installations in seed \"{seed}\", with lists by the \
                      field spec.seedRef.name={seed}",
            ..NOTHING
        },
        Kind::BackupBucket => Rule {
            lists: &[Narrowing::Field("spec.seedName")],
            allowed: "all on those of seed \"{seed}\", with lists by the field spec.seedName={seed}",
            ..BACKUPS
        },
        Kind::BackupEntry => Rule {
            lists: &[Narrowing::Label, Narrowing::Field("spec.seedName")],
            allowed: "all on those of seed \"{seed}\", with lists by the label name.seed.gardener.cloud/{seed}=true",
            ..BACKUPS
        },
        Kind::Bastion => Rule {
            verbs: &[GET, UPDATE, PATCH],
            parts: STATUS,
            lists: &[Narrowing::Field("spec.seedName")],
            allowed: "get, update and patch of those of seed \"{seed}\", with lists by the field spec.seedName={seed}",
            ..NOTHING
        },
        Kind::ManagedSeed | Kind::Gardenlet => Rule {
            verbs: if extension { &[GET] } else { &[GET, UPDATE, PATCH] },
            parts: if extension { &[] } else { STATUS },
            allowed: "get, update and patch of those of seed \"{seed}\", by name",
            ..NOTHING
        },
        _ => supporting(kind, extension),
    }
}

/// The rows of what is needed beside the garden's own kinds.
fn supporting(kind: Kind, extension: bool) -> Rule {
    match kind {
        Kind::Secret => Rule {
            verbs: &[GET, UPDATE, PATCH, DELETE],
            creates: true,
            lists: &[Narrowing::OwnNamespace],
            allowed: "get of those that the Seed, Shoots, bindings, buckets and installations of seed \"{seed}\" refer to, \
                      all on those named after its Shoots and buckets, get, list and watch in namespace seed-{seed}",
            ..NOTHING
        },
        Kind::ConfigMap => Rule {
            verbs: &[GET, UPDATE, PATCH, DELETE],
            creates: true,
            lists: &[Narrowing::OwnNamespace],
            allowed: "get of those that the Seed, Shoots and installations of seed \"{seed}\" refer to, all on those named \
                      after its Shoots, get, list and watch in namespace seed-{seed}",
            ..NOTHING
        },
        Kind::InternalSecret | Kind::ShootState => Rule {
            verbs: &[GET, UPDATE, PATCH, DELETE],
            creates: true,
            allowed: "all on those named after Shoots on seed \"{seed}\", by name",
            ..NOTHING
        },
        Kind::Lease if extension => Rule {
            verbs: &[GET, UPDATE, PATCH, DELETE],
            creates: true,
            deletes_all: true,
            lists: &[Narrowing::OwnNamespace],
            allowed: "all in namespace seed-{seed}",
            ..NOTHING
        },
        Kind::Lease => Rule {
            verbs: &[GET, UPDATE, PATCH],
            creates: true,
            allowed: "all but delete on Lease gardener-system-seed-lease/{seed}",
            ..NOTHING
        },
        Kind::ServiceAccount if extension => Rule {
            allowed: "get in namespace seed-{seed}",
            ..READ
        },
        Kind::ServiceAccount => Rule {
            verbs: &[GET, UPDATE, PATCH, DELETE],
            parts: &[("token", "create", Owned)],
            creates: true,
            lists: &[Narrowing::OwnNamespace],
            allowed: "all in namespace seed-{seed}",
            ..NOTHING
        },
        _ => lookups(kind, extension),
    }
}

/// The rows of what is only looked up, or written by name alone.
fn lookups(kind: Kind, extension: bool) -> Rule {
    match kind {
        Kind::CertificateSigningRequest if extension => READ,
        Kind::CertificateSigningRequest => Rule {
            creates: true,
            allowed: "create, and get of those that the gardenlet of seed \"{seed}\" made",
            ..READ
        },
        Kind::Event => Rule {
            verbs: &[PATCH],
            creates: true,
            allowed: "create and patch in namespaces of Shoots on seed \"{seed}\"",
            ..NOTHING
        },
        Kind::Project => Rule {
            lists: &[Narrowing::ProjectNamespace],
            allowed: "get of Projects that have Shoots on seed \"{seed}\"",
            ..READ
        },
        Kind::WorkloadIdentity => Rule {
            parts: &[("token", "create", Referred)],
            allowed: "get and tokens of those that Shoots, bindings and the Seed of seed \"{seed}\" refer to",
            ..READ
        },
        _ => READ,
    }
}
