//! Requests to the authorizer inside expressions (kubernetes/kubernetes v1.35
//! `staging/src/k8s.io/apiserver/pkg/cel/library/authz.go`). The authorizer is given; nothing is decided here.

use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as CelValue};

use crate::run::meter::spend;

/// Units that a check takes: a policy's budget suffices for as many checks, 28, as upstream's 10 000 000 do at 350 000 for each
/// (`library/cost.go`). Upstream allows no more than two in one expression; here only the budget limits them.
const CHECK_COST: u64 = 700_000;

pub(crate) const NAME: &str = "authorizer";
pub(crate) const REQUEST_RESOURCE: &str = "requestResource";
/// What `authorizer.requestResource` is rewritten to.
pub(crate) const REQUEST_RESOURCE_NAME: &str = "@requestResource";

/// The authorizer.
pub trait Authorize: Send + Sync {
    /// Whether it is allowed, and why.
    fn decide(&self, check: &Check) -> (bool, String);
}

/// A request to the authorizer. Empty texts stand for parts that are not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Namespace and name of the service account that it is for; none: the user of the request.
    pub service_account: Option<(String, String)>,
    /// A path that belongs to no resource.
    pub path: Option<String>,
    /// The API group.
    pub group: String,
    /// The plural.
    pub resource: String,
    /// The part of the object.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The verb.
    pub verb: String,
}

/// A request that is being put together.
#[derive(Clone)]
struct PendingCheck {
    authorizer: Arc<dyn Authorize>,
    check: Check,
}

impl PartialEq for PendingCheck {
    fn eq(&self, other: &Self) -> bool {
        self.check == other.check
    }
}

impl Eq for PendingCheck {}

impl std::fmt::Debug for PendingCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.check.fmt(f)
    }
}

impl Opaque for PendingCheck {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.authorization.Authorizer"
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decided {
    allowed: bool,
    reason: String,
}

impl Opaque for Decided {
    fn runtime_type_name(&self) -> &'static str {
        "kubernetes.authorization.Decision"
    }
}

/// The authorizer, and its check for the resource of the request.
pub(crate) fn values(authorizer: Arc<dyn Authorize>, resource: Check) -> (CelValue, CelValue) {
    let pending = |check: Check| {
        CelValue::Opaque(Arc::new(PendingCheck {
            authorizer: authorizer.clone(),
            check,
        }))
    };
    (pending(Check::default()), pending(resource))
}

fn change(value: &CelValue, function: &str, change: impl FnOnce(&mut Check)) -> ResolveResult {
    let pending = match value {
        CelValue::Opaque(opaque) => opaque.downcast_ref::<PendingCheck>(),
        _ => None,
    };
    let mut pending = pending
        .cloned()
        .ok_or_else(|| ExecutionError::function_error(function, "no such overload"))?;
    change(&mut pending.check);
    Ok(CelValue::Opaque(Arc::new(pending)))
}

fn decided<T>(value: &CelValue, function: &str, read: impl FnOnce(&Decided) -> T) -> Result<T, ExecutionError> {
    let decided = match value {
        CelValue::Opaque(opaque) => opaque.downcast_ref::<Decided>(),
        _ => None,
    };
    decided
        .map(read)
        .ok_or_else(|| ExecutionError::function_error(function, "no such overload"))
}

/// Adds the functions.
pub(crate) fn register(context: &mut Context<'_>) {
    macro_rules! word {
        ($name:literal, $check:ident, $text:ident, $set:expr) => {
            context.add_function(
                $name,
                |This(value): This<CelValue>, $text: Arc<String>| -> ResolveResult {
                    change(&value, $name, |$check| $set)
                },
            );
        };
    }
    word!("path", check, text, check.path = Some(text.to_string()));
    word!("group", check, text, check.group = text.to_string());
    word!("resource", check, text, check.resource = text.to_string());
    word!("subresource", check, text, check.subresource = text.to_string());
    word!("namespace", check, text, check.namespace = text.to_string());
    word!("name", check, text, check.name = text.to_string());
    context.add_function(
        "serviceAccount",
        |This(value): This<CelValue>, namespace: Arc<String>, name: Arc<String>| -> ResolveResult {
            change(&value, "serviceAccount", |check| {
                check.service_account = Some((namespace.to_string(), name.to_string()));
            })
        },
    );
    context.add_function(
        "check",
        |This(value): This<CelValue>, verb: Arc<String>| -> ResolveResult {
            let CelValue::Opaque(pending) = change(&value, "check", |check| check.verb = verb.to_string())? else {
                return Err(ExecutionError::function_error("check", "no such overload"));
            };
            spend(CHECK_COST);
            let (allowed, reason) = match pending.downcast_ref::<PendingCheck>() {
                Some(pending) => pending.authorizer.decide(&pending.check),
                None => (false, String::new()),
            };
            Ok(CelValue::Opaque(Arc::new(Decided { allowed, reason })))
        },
    );
    context.add_function("allowed", |This(value): This<CelValue>| -> ResolveResult {
        decided(&value, "allowed", |decided| CelValue::Bool(decided.allowed))
    });
    context.add_function("errored", |This(value): This<CelValue>| -> ResolveResult {
        decided(&value, "errored", |_| CelValue::Bool(false))
    });
    context.add_function("reason", |This(value): This<CelValue>| -> ResolveResult {
        decided(&value, "reason", |decided| {
            CelValue::String(Arc::new(decided.reason.clone()))
        })
    });
}
