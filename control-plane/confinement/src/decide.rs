//! Whether a request may go on, by its attributes: verb, resource, names and selectors. Pure.

use crate::graph::Graph;
use crate::identity::{Identity, Party};
use crate::kinds::Kind;
use crate::refusal::Refusal;
use crate::rules::{Narrowing, Rule, rule};
use crate::tie::{Tie, is_own_namespace};

/// Prefix of the label that names a seed of an object.
const SEED_LABEL_PREFIX: &str = "name.seed.gardener.cloud/";

/// A request for objects, as authorization sees it. Empty texts mean none.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or another.
    pub verb: &'a str,
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// Part of the object, such as `status`.
    pub subresource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name, also one that a field selector gives.
    pub name: &'a str,
    /// Fields that must have a value, all of them: of a list, a watch or a deletion of many.
    pub fields: Vec<(&'a str, &'a str)>,
    /// Labels alike.
    pub labels: Vec<(&'a str, &'a str)>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is of the seed.
    Allow,
    /// It is not, whatever roles say.
    Deny(Refusal),
    /// Not of a kind that is decided here.
    NoOpinion,
}

/// Decides. A refusal of which `may_change` is true hangs on the graph alone.
pub fn decide(graph: &Graph, identity: &Identity, request: &Request<'_>) -> Decision {
    let Some(kind) = Kind::of(request.group, request.resource) else {
        return Decision::NoOpinion;
    };
    let authorization = Authorization {
        graph,
        identity,
        request,
        kind,
        rule: rule(kind, identity.party),
        // A request for a Namespace has its name as its namespace, too.
        namespace: if kind.is_namespaced() { request.namespace } else { "" },
    };
    match authorization.decide() {
        Ok(()) => Decision::Allow,
        Err(refusal) => Decision::Deny(refusal),
    }
}

struct Authorization<'a> {
    graph: &'a Graph,
    identity: &'a Identity,
    request: &'a Request<'a>,
    kind: Kind,
    rule: Rule,
    namespace: &'a str,
}

impl Authorization<'_> {
    fn decide(&self) -> Result<(), Refusal> {
        let Request {
            verb,
            subresource,
            name,
            ..
        } = *self.request;
        if !subresource.is_empty() {
            let part = self
                .rule
                .parts
                .iter()
                .find(|(part, own, _)| (*part, *own) == (subresource, verb));
            let (_, _, needed) = part.ok_or_else(|| self.never())?;
            return self.needs(*needed);
        }
        match verb {
            "create" => self.creates(),
            "list" | "watch" if !name.is_empty() => match self.on_one("get") {
                Some(needed) => self.needs(needed),
                None => Err(self.never()),
            },
            "list" | "watch" => self.lists(),
            "deletecollection" if self.rule.deletes_all && name.is_empty() => self.lists(),
            _ => self.needs(self.on_one(verb).ok_or_else(|| self.never())?),
        }
    }

    /// The tie that a verb on one object needs.
    fn on_one(&self, verb: &str) -> Option<Tie> {
        let row = self.rule.verbs.iter().find(|(own, _)| *own == verb);
        row.map(|(_, needed)| *needed)
    }

    fn needs(&self, needed: Tie) -> Result<(), Refusal> {
        let (namespace, name) = (self.namespace, self.request.name);
        // An event of a namespace is as good as any other there, and its name has no meaning.
        let name = if self.kind == Kind::Event { "an event" } else { name };
        match self.graph.tie(self.identity, self.kind, namespace, name) {
            tie if tie >= needed => Ok(()),
            Tie::None => Err(self.refuse("it does not belong to this seed", self.hangs_on_graph())),
            _ => Err(self.refuse("it is only for this seed to read", true)),
        }
    }

    /// Whether more than names say whose an object is.
    fn hangs_on_graph(&self) -> bool {
        let by_name = matches!(
            self.kind,
            Kind::Seed | Kind::Lease | Kind::ServiceAccount | Kind::Gardenlet
        );
        !by_name && !self.request.name.is_empty()
    }

    /// What is made is checked when it is known; here, only where it must be in a certain namespace.
    fn creates(&self) -> Result<(), Refusal> {
        if !self.rule.creates {
            return Err(self.never());
        }
        let (namespace, seed) = (self.namespace, self.identity.seed.as_str());
        match (self.kind, self.identity.party) {
            (Kind::Event, _) => self.needs(Tie::Owned),
            (Kind::ServiceAccount, _) | (Kind::Lease, Party::Extension) if !is_own_namespace(namespace, seed) => {
                Err(self.refuse("it is not in the seed's own namespace", false))
            }
            _ => Ok(()),
        }
    }

    fn lists(&self) -> Result<(), Refusal> {
        if self.rule.lists.iter().any(|narrowing| self.is_narrowed(*narrowing)) {
            return Ok(());
        }
        if self.rule.lists.is_empty() {
            return Err(self.refuse("only single objects may be read, by name", false));
        }
        let may_change = self.rule.lists.contains(&Narrowing::ProjectNamespace) && !self.request.fields.is_empty();
        Err(self.refuse("it is not narrowed to this seed", may_change))
    }

    fn is_narrowed(&self, narrowing: Narrowing) -> bool {
        let seed = self.identity.seed.as_str();
        let Request { fields, labels, .. } = self.request;
        match narrowing {
            Narrowing::Nothing => true,
            Narrowing::Label => labels
                .iter()
                .any(|(label, value)| label.strip_prefix(SEED_LABEL_PREFIX) == Some(seed) && *value == "true"),
            Narrowing::Field(field) => fields.contains(&(field, seed)),
            Narrowing::OwnNamespace => is_own_namespace(self.namespace, seed),
            Narrowing::ProjectNamespace => fields.iter().any(|(field, value)| {
                *field == "spec.namespace" && self.graph.reaches(Kind::Namespace, "", value, seed)
            }),
        }
    }

    fn never(&self) -> Refusal {
        self.refuse("no gardenlet and no extension may", false)
    }

    fn refuse(&self, why: &str, may_change: bool) -> Refusal {
        let Request {
            verb,
            subresource,
            name,
            ..
        } = *self.request;
        let part = match subresource {
            "" => String::new(),
            part => format!("{part} of "),
        };
        let what = match (self.namespace, name) {
            ("", "") => format!("all {}", self.request.resource),
            (namespace, "") => format!("{} of namespace {namespace}", self.request.resource),
            ("", name) => format!("{} {name}", self.kind),
            (namespace, name) => format!("{} {namespace}/{name}", self.kind),
        };
        let what = format!("{part}{what}");
        Refusal::new(self.identity, verb, &what, why, self.rule.allowed, may_change)
    }
}
