//! Which requests have audit events, and with how much: `Policy` of `audit.k8s.io/v1`, the first rule that fits decides
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/audit/policy/checker.go). It writes nothing.

use std::collections::BTreeSet;

use cluster_access::User;
use serde::Deserialize;

use crate::wire::path::{RequestInfo, Target};

/// How much of a request is reported; each level reports what those before it report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum AuditLevel {
    /// Nothing.
    #[default]
    None,
    /// The user, the request, and the code of the answer.
    Metadata,
    /// And the object that was sent.
    Request,
    /// And the object that was answered.
    RequestResponse,
}

impl AuditLevel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// A moment of a request at which it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum AuditStage {
    /// The caller is known.
    RequestReceived,
    /// The answer begins, and may be a long stream.
    ResponseStarted,
    /// The answer is made.
    ResponseComplete,
    /// The handler has panicked.
    Panic,
}

impl AuditStage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// What is reported of which requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditPolicy {
    api_version: String,
    kind: String,
    #[serde(default, rename = "metadata")]
    _metadata: serde::de::IgnoredAny,
    #[serde(default)]
    rules: Vec<Rule>,
    #[serde(default)]
    omit_stages: BTreeSet<AuditStage>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    level: AuditLevel,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<Resources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    paths: Vec<String>,
    #[serde(default)]
    omit_stages: BTreeSet<AuditStage>,
    omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Resources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

/// What a policy decides on one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AuditDecision {
    pub(crate) level: AuditLevel,
    pub(crate) omitted: BTreeSet<AuditStage>,
    pub(crate) without_managed_fields: bool,
}

impl AuditPolicy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// It is no policy, or it makes no sense; as a sentence.
    pub fn read(text: &str) -> Result<Self, String> {
        let policy: Self = serde_saphyr::from_str(text).map_err(|error| format!("it is no audit policy: {error}"))?;
        if (policy.api_version.as_str(), policy.kind.as_str()) != ("audit.k8s.io/v1", "Policy") {
            return Err(format!(
                "it is a {} of {:?}, and not a Policy of audit.k8s.io/v1",
                policy.kind, policy.api_version
            ));
        }
        if policy.rules.is_empty() {
            return Err("it has no rules: nothing would be reported".to_owned());
        }
        for (index, rule) in policy.rules.iter().enumerate() {
            rule.check().map_err(|why| format!("rules[{index}]: {why}"))?;
        }
        Ok(policy)
    }

    /// What is reported of a request.
    pub(crate) fn decide(&self, user: &User, info: &RequestInfo) -> AuditDecision {
        let Some(rule) = self.rules.iter().find(|rule| rule.fits(user, info)) else {
            return AuditDecision::default();
        };
        AuditDecision {
            level: rule.level,
            omitted: self.omit_stages.union(&rule.omit_stages).copied().collect(),
            without_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
        }
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        let of_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if of_resources && !self.paths.is_empty() {
            return Err("it names resources and nonResourceURLs, of which a request has one".to_owned());
        }
        for path in &self.paths {
            let stars = path.trim_end_matches('*').contains('*');
            if path != "*" && (!path.starts_with('/') || stars) {
                return Err(format!(
                    "nonResourceURLs {path:?}: a path begins with '/' and may end in '*'"
                ));
            }
        }
        for resources in &self.resources {
            if !resources.resource_names.is_empty() && resources.resources.is_empty() {
                return Err("resourceNames without resources: name the resources that have these names".to_owned());
            }
        }
        Ok(())
    }

    fn fits(&self, user: &User, info: &RequestInfo) -> bool {
        let named = |all: &[String], one: &str| all.is_empty() || all.iter().any(|name| name == one);
        let of_groups = || user.groups.iter().any(|group| self.user_groups.contains(group));
        if !named(&self.users, &user.name)
            || !(self.user_groups.is_empty() || of_groups())
            || !named(&self.verbs, info.verb)
        {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return info.target.as_ref().is_some_and(|target| {
                named(&self.namespaces, target.namespace.as_deref().unwrap_or_default())
                    && (self.resources.is_empty() || self.resources.iter().any(|resources| resources.cover(target)))
            });
        }
        if !self.paths.is_empty() {
            return info.target.is_none() && self.paths.iter().any(|path| is_below(path, &info.path));
        }
        true
    }
}

fn is_below(pattern: &str, path: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == path, |beginning| path.starts_with(beginning))
}

impl Resources {
    fn cover(&self, target: &Target) -> bool {
        if self.group != target.group {
            return false;
        }
        let name = target.name.as_deref().unwrap_or_default();
        let of_name = self.resource_names.is_empty() || self.resource_names.iter().any(|wanted| wanted == name);
        let part = target.subresource.as_deref().unwrap_or_default();
        let is_meant = |wanted: &String| match wanted.split_once('/') {
            None => wanted == "*" || (part.is_empty() && *wanted == target.resource),
            Some(("*", wanted)) => wanted == part,
            Some((wanted, "*")) => wanted == target.resource,
            Some((resource, wanted)) => resource == target.resource && wanted == part,
        };
        self.resources.is_empty() || of_name && self.resources.iter().any(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::wire::query::Query;

    const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: ['system:kube-proxy'], verbs: [watch], resources: [{group: '', resources: [endpoints, services]}]}
- {level: None, userGroups: ['system:authenticated'], nonResourceURLs: ['/api*', /version]}
- {level: Request, resources: [{group: '', resources: [configmaps], resourceNames: [special]}], namespaces: [kube-system]}
- {level: Metadata, resources: [{group: '', resources: [secrets, 'pods/*', '*/status']}], omitStages: [Panic]}
- {level: RequestResponse, resources: [{group: apps}], omitManagedFields: true}
- {level: Metadata, nonResourceURLs: ['*']}
";

    #[test]
    fn the_first_rule_that_fits_decides() {
        let policy = AuditPolicy::read(POLICY).unwrap();
        let level = |user: &str, path: &str, query: &str| {
            let user = User::new(user, &["system:authenticated"]);
            let info = RequestInfo::parse(&Method::GET, path, &Query::parse(Some(query))).unwrap();
            policy.decide(&user, &info).level
        };
        for (user, path, query, wanted) in [
            ("system:kube-proxy", "/api/v1/services", "watch=1", AuditLevel::None),
            ("jane", "/api/v1", "", AuditLevel::None),
            ("jane", "/version", "", AuditLevel::None),
            ("jane", "/versions", "", AuditLevel::Metadata),
            (
                "jane",
                "/api/v1/namespaces/kube-system/configmaps/special",
                "",
                AuditLevel::Request,
            ),
            (
                "jane",
                "/api/v1/namespaces/default/configmaps/special",
                "",
                AuditLevel::None,
            ),
            ("jane", "/api/v1/namespaces/a/secrets", "", AuditLevel::Metadata),
            ("jane", "/api/v1/namespaces/a/pods/p", "", AuditLevel::Metadata),
            ("jane", "/api/v1/namespaces/a/pods/p/log", "", AuditLevel::Metadata),
            ("jane", "/api/v1/nodes/n/status", "", AuditLevel::Metadata),
            ("jane", "/apis/apps/v1/deployments", "", AuditLevel::RequestResponse),
        ] {
            assert_eq!(level(user, path, query), wanted, "{user} {path} {query}");
        }
        let info = RequestInfo::parse(&Method::GET, "/api/v1/secrets", &Query::default()).unwrap();
        let decision = policy.decide(&User::new("jane", &[]), &info);
        assert_eq!(
            decision.omitted,
            BTreeSet::from([AuditStage::RequestReceived, AuditStage::Panic])
        );
    }

    #[test]
    fn a_policy_that_makes_no_sense_is_refused_with_its_place() {
        let policy = |rules: &str| format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: {rules}");
        for (text, words) in [
            (policy("[]"), "it has no rules"),
            (policy("[{level: Most}]"), "unknown variant"),
            (policy("[{level: None, user: [a]}]"), "unknown field"),
            (
                policy("[{level: None, namespaces: [a], nonResourceURLs: [/b]}]"),
                "rules[0]: it names resources and nonResourceURLs",
            ),
            (policy("[{level: None, nonResourceURLs: ['/a*b']}]"), "may end in '*'"),
            (
                policy("[{level: None, resources: [{resourceNames: [a]}]}]"),
                "without resources",
            ),
            (
                "{apiVersion: v1, kind: Policy, rules: []}".to_owned(),
                "and not a Policy",
            ),
            ("[".to_owned(), "it is no audit policy"),
        ] {
            let why = AuditPolicy::read(&text).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
