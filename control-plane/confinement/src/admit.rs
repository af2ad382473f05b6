//! Whether a write may be stored, once its object is known: what a request's line does not say. Pure.
//!
//! Beside whose the object is, it looks at the object's content. A gardenlet must not open its own way: not by a Seed or a
//! bucket that names another's Secret, not by the spec of a Shoot, not by moving anything to its seed.

use api_meta::names::{GARDEN_NAMESPACE, SEED_USER_PREFIX};
use serde::Deserialize;
use serde_json::Value;

use crate::graph::Graph;
use crate::identity::Identity;
use crate::kinds::Kind;
use crate::objects::{BackupBucket, BackupEntry, Ref, Seed, Shoot};
use crate::refusal::Refusal;
use crate::rules::rule;
use crate::tie::Tie;

/// A write of one object, of which no part is empty but `namespace` and `subresource`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Write<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// Part of the object, such as `status`.
    pub subresource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// As it is to be; none when it is deleted.
    pub object: Option<&'a Value>,
    /// As it was; none when it is new.
    pub old: Option<&'a Value>,
}

/// Lets a write pass, or not.
///
/// # Errors
/// The refusal; where `may_change` is true it hangs on the graph.
pub fn admit(graph: &Graph, identity: &Identity, write: &Write<'_>) -> Result<(), Refusal> {
    let Some(kind) = Kind::of(write.group, write.resource) else {
        return Ok(());
    };
    let admission = Admission {
        graph,
        identity,
        write,
        kind,
    };
    if kind == Kind::CertificateSigningRequest && write.old.is_none() && write.subresource.is_empty() {
        return admission.check_request();
    }
    admission.check_tie()?;
    match (kind, write.object) {
        (Kind::Seed, Some(object)) => admission.check_seed(object),
        (Kind::Shoot, Some(object)) => admission.check_shoot(object),
        (Kind::ControllerInstallation | Kind::Bastion | Kind::ManagedSeed | Kind::Gardenlet, Some(object)) => {
            admission.check_spec(object)
        }
        (Kind::BackupBucket, Some(object)) => admission.check_bucket(object),
        (Kind::BackupEntry, Some(object)) => admission.check_entry(object),
        (Kind::Event, Some(object)) => admission.check_event(object),
        _ => Ok(()),
    }
}

struct Admission<'a> {
    graph: &'a Graph,
    identity: &'a Identity,
    write: &'a Write<'a>,
    kind: Kind,
}

impl Admission<'_> {
    /// Whatever is written must be the seed's, but for tokens of what it may read.
    fn check_tie(&self) -> Result<(), Refusal> {
        let Write {
            subresource,
            namespace,
            name,
            ..
        } = *self.write;
        let row = rule(self.kind, self.identity.party);
        let part = row.parts.iter().find(|(part, ..)| *part == subresource);
        let needed = part.map_or(Tie::Owned, |(_, _, needed)| *needed);
        match self.graph.tie(self.identity, self.kind, namespace, name) >= needed {
            true => Ok(()),
            false => Err(self.refuse("it does not belong to this seed", true)),
        }
    }

    /// A new signing request is its maker's, as the API server notes; which certificate it may get is decided by who approves it.
    fn check_request(&self) -> Result<(), Refusal> {
        let maker = self.write.object.map_or("", |object| text(object, "/spec/username"));
        match maker.strip_prefix(SEED_USER_PREFIX) == Some(self.identity.seed.as_str()) {
            true => Ok(()),
            false => Err(self.refuse("it was not made by the gardenlet of this seed", false)),
        }
    }

    /// What a Seed newly refers to must not belong to others.
    fn check_seed(&self, object: &Value) -> Result<(), Refusal> {
        let references = |object: &Value| self.read::<Seed>(object).map(|seed| seed.references());
        let old = self.write.old.map(references).transpose()?.unwrap_or_default();
        for new in references(object)? {
            if !old.contains(&new) && !self.may_refer(&new) {
                let Ref { kind, namespace, name } = new;
                let why = format!(
                    "it would refer to {kind} {namespace}/{name}, which is not in namespace {GARDEN_NAMESPACE} or is \
                     needed by others; an administrator may write that reference"
                );
                return Err(self.refuse(&why, true));
            }
        }
        Ok(())
    }

    fn may_refer(&self, to: &Ref) -> bool {
        let Ref { kind, namespace, name } = to;
        self.graph.reaches(*kind, namespace, name, &self.identity.seed)
            || namespace == GARDEN_NAMESPACE && !self.graph.is_claimed(*kind, namespace, name)
    }

    /// A Shoot stays where it is and names nothing that it did not name before: what it names, its gardenlet may read. The
    /// rest of the spec is not compared: the server itself may complete it.
    fn check_shoot(&self, object: &Value) -> Result<(), Refusal> {
        let old = self.write.old.unwrap_or(&Value::Null);
        if text(old, "/spec/seedName") != text(object, "/spec/seedName") {
            return Err(self.refuse("it would change spec.seedName", false));
        }
        let (before, after) = (text(old, "/status/seedName"), text(object, "/status/seedName"));
        if before != after && after != self.identity.seed {
            return Err(self.refuse("status.seedName may only be set to this seed", false));
        }
        let references = |object: &Value| self.read::<Shoot>(object).map(|shoot| shoot.references());
        let known = references(old)?;
        match references(object)?.into_iter().find(|new| !known.contains(new)) {
            None => Ok(()),
            Some(Ref { kind, namespace, name }) => {
                let why = format!("it would newly refer to {kind} {namespace}/{name}");
                Err(self.refuse(&why, false))
            }
        }
    }

    /// Only metadata and status.
    fn check_spec(&self, object: &Value) -> Result<(), Refusal> {
        let old = self.write.old.and_then(|old| old.get("spec"));
        match old == object.get("spec") {
            true => Ok(()),
            false => Err(self.refuse("it would change the spec", false)),
        }
    }

    /// A bucket is the seed's, with credentials that the seed has anyway.
    fn check_bucket(&self, object: &Value) -> Result<(), Refusal> {
        let bucket: BackupBucket = self.read(object)?;
        self.check_seed_name(bucket.spec.seed_name.as_deref())?;
        let Some(Ref { kind, namespace, name }) = bucket.credentials() else {
            return Ok(());
        };
        match self.graph.reaches(kind, &namespace, &name, &self.identity.seed) {
            true => Ok(()),
            false => {
                let why = format!("it would refer to {kind} {namespace}/{name}, which does not belong to this seed");
                Err(self.refuse(&why, true))
            }
        }
    }

    /// An entry is the seed's, in a bucket of the seed.
    fn check_entry(&self, object: &Value) -> Result<(), Refusal> {
        let entry: BackupEntry = self.read(object)?;
        self.check_seed_name(entry.spec.seed_name.as_deref())?;
        let bucket = entry.spec.bucket_name.unwrap_or_default();
        match self.graph.reaches(Kind::BackupBucket, "", &bucket, &self.identity.seed) {
            true => Ok(()),
            false => {
                let why = format!("it would lie in BackupBucket {bucket}, which does not belong to this seed");
                Err(self.refuse(&why, true))
            }
        }
    }

    /// An event is about nothing that is known to be another seed's.
    fn check_event(&self, object: &Value) -> Result<(), Refusal> {
        let about = ["/involvedObject", "/regarding"]
            .into_iter()
            .find_map(|field| object.pointer(field));
        let Some(about) = about else { return Ok(()) };
        let group = text(about, "/apiVersion")
            .split_once('/')
            .map_or("", |(group, _)| group);
        let named = |kind: &&Kind| kind.name() == text(about, "/kind") && kind.group() == group;
        let Some(kind) = Kind::ALL.iter().copied().find(|kind| named(&kind)) else {
            return Ok(());
        };
        let (namespace, name) = (text(about, "/namespace"), text(about, "/name"));
        let is_others = self.graph.is_claimed(kind, namespace, name)
            && self.graph.tie(self.identity, kind, namespace, name) == Tie::None;
        match is_others {
            false => Ok(()),
            true => Err(self.refuse(
                &format!("it is about {kind} {namespace}/{name}, which does not belong to this seed"),
                true,
            )),
        }
    }

    fn check_seed_name(&self, name: Option<&str>) -> Result<(), Refusal> {
        match name == Some(self.identity.seed.as_str()) {
            true => Ok(()),
            false => Err(self.refuse("spec.seedName must be this seed", false)),
        }
    }

    fn read<'v, T: Default + Deserialize<'v>>(&self, object: &'v Value) -> Result<T, Refusal> {
        Option::<T>::deserialize(object)
            .map(Option::unwrap_or_default)
            .map_err(|error| self.refuse(&format!("it cannot be read: {error}"), false))
    }

    fn refuse(&self, why: &str, may_change: bool) -> Refusal {
        let Write {
            subresource,
            namespace,
            name,
            object,
            old,
            ..
        } = *self.write;
        let verb = match (object, old) {
            (Some(_), None) => "create",
            (Some(_), Some(_)) => "update",
            (None, _) => "delete",
        };
        let object = match namespace {
            "" => format!("{} {name}", self.kind),
            namespace => format!("{} {namespace}/{name}", self.kind),
        };
        let what = match subresource {
            "" => object,
            part => format!("{part} of {object}"),
        };
        let allowed = rule(self.kind, self.identity.party).allowed;
        Refusal::new(self.identity, verb, &what, why, allowed, may_change)
    }
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
