//! Errors that know who can act. It never decides when to retry: `base/controller` turns a class into a delay.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ObjectName, WebhookFailure, string_enum};

string_enum! {
    /// Well-known error codes in `lastError.codes` and `condition.codes`.
    /// Source: gardener/gardener v1.150 pkg/apis/core/v1beta1/types_common.go.
    pub enum ErrorCode {
        /// The cloud refused the credentials.
        InfraUnauthenticated = "ERR_INFRA_UNAUTHENTICATED",
        /// The credentials are not allowed to do what was requested.
        InfraUnauthorized = "ERR_INFRA_UNAUTHORIZED",
        /// A quota of the cloud account is used up.
        InfraQuotaExceeded = "ERR_INFRA_QUOTA_EXCEEDED",
        /// The cloud limits the rate of calls.
        InfraRateLimitsExceeded = "ERR_INFRA_RATE_LIMITS_EXCEEDED",
        /// Something in the cloud account that others own is in the way.
        InfraDependencies = "ERR_INFRA_DEPENDENCIES",
        /// The same, but expected to go away by itself.
        RetryableInfraDependencies = "ERR_RETRYABLE_INFRA_DEPENDENCIES",
        /// The cloud has no such machines, disks or addresses left.
        InfraResourcesDepleted = "ERR_INFRA_RESOURCES_DEPLETED",
        /// Objects in the shoot could not be removed.
        CleanupClusterResources = "ERR_CLEANUP_CLUSTER_RESOURCES",
        /// The user's configuration is wrong.
        ConfigurationProblem = "ERR_CONFIGURATION_PROBLEM",
        /// The user's configuration is wrong in a way that may be right later.
        RetryableConfigurationProblem = "ERR_RETRYABLE_CONFIGURATION_PROBLEM",
        /// A webhook in the shoot gets in the way.
        ProblematicWebhook = "ERR_PROBLEMATIC_WEBHOOK",
    }
}

impl ErrorCode {
    /// Whether retrying by itself can help. Codes for which it cannot make a shoot `Failed` at once.
    ///
    /// Gardener v1.150 (pkg/api/core/v1beta1/helper/errors.go) counts rate limits as final and then retries them by
    /// another controller; here they back off and are retried, as its documentation describes.
    pub fn retryable(&self) -> bool {
        match self {
            Self::InfraUnauthenticated
            | Self::InfraUnauthorized
            | Self::InfraQuotaExceeded
            | Self::InfraDependencies
            | Self::ConfigurationProblem
            | Self::ProblematicWebhook => false,
            Self::InfraRateLimitsExceeded
            | Self::RetryableInfraDependencies
            | Self::InfraResourcesDepleted
            | Self::CleanupClusterResources
            | Self::RetryableConfigurationProblem
            | Self::Other(_) => true,
        }
    }

    /// Who can act on it.
    pub fn class(&self) -> FaultClass {
        match self {
            Self::InfraUnauthenticated | Self::InfraUnauthorized => FaultClass::Access,
            Self::InfraQuotaExceeded => FaultClass::Quota,
            Self::InfraRateLimitsExceeded => FaultClass::Transient,
            Self::ConfigurationProblem | Self::ProblematicWebhook => FaultClass::User,
            // What is requested does not fit yet: something else may make it fit, so it is tried again.
            Self::RetryableConfigurationProblem
            | Self::InfraDependencies
            | Self::RetryableInfraDependencies
            | Self::InfraResourcesDepleted
            | Self::CleanupClusterResources
            | Self::Other(_) => FaultClass::Dependency,
        }
    }
}

/// Who can act on an error, and so what to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultClass {
    /// The one who wrote the object: change it. Not retried before it changes.
    User,
    /// The owner of the account: raise a limit.
    Quota,
    /// The owner of credentials or roles: grant what is missing.
    Access,
    /// Something else must become ready first: wait for its change.
    Dependency,
    /// No person: try again soon.
    Transient,
    /// Us: a defect in this program.
    Bug,
}

impl FaultClass {
    /// The class by which all of several are retried: that of the most hopeful.
    pub fn most_hopeful(classes: impl IntoIterator<Item = Self>) -> Option<Self> {
        classes.into_iter().min_by_key(|class| match class {
            Self::Transient => 0,
            Self::Dependency => 1,
            Self::Access | Self::Quota => 2,
            Self::User | Self::Bug => 3,
        })
    }

    /// One lower-case word for logs, metrics and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Quota => "quota",
            Self::Access => "access",
            Self::Dependency => "dependency",
            Self::Transient => "transient",
            Self::Bug => "bug",
        }
    }
}

impl fmt::Display for FaultClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of one step that knows its class; `?` turns it into a [`Fault`].
pub trait Classified: Error + Send + Sync + 'static {
    /// Who can act.
    fn class(&self) -> FaultClass;

    /// One thing to do, as an imperative sentence; empty if there is none.
    fn hint(&self) -> String {
        String::new()
    }

    /// Well-known codes for the status.
    fn codes(&self) -> Vec<ErrorCode> {
        Vec::new()
    }
}

/// What stands before the thing to do in a status; a bracket ends it.
const TO_DO: &str = " (to do: ";

/// An error on its way to a status, a log or a person. Prints as its source's message; [`Fault::chain`] prints all.
#[derive(Debug)]
pub struct Fault {
    /// Who can act.
    pub class: FaultClass,
    /// Well-known codes for the status, without repetition.
    pub codes: Vec<ErrorCode>,
    /// One thing to do; empty if there is none.
    pub hint: String,
    /// The object it is about, where it is about one.
    pub object: Option<Box<ObjectName>>,
    /// The webhook that has refused a request, or has not answered it.
    pub webhook: Option<Box<WebhookFailure>>,
    /// What happened.
    pub source: Box<dyn Error + Send + Sync>,
    /// The faults that this one stands for, if it stands for several: see [`Fault::joined`].
    each: Vec<Fault>,
}

impl Fault {
    /// One fault for several, none for none: with all their texts and codes, of the class of the most hopeful.
    /// [`Fault::each`] gives them back.
    pub fn joined(mut faults: Vec<Self>) -> Option<Self> {
        if faults.len() < 2 {
            return faults.pop();
        }
        let class = FaultClass::most_hopeful(faults.iter().map(|fault| fault.class))?;
        let texts: Vec<String> = faults.iter().map(Self::text_with_hint).collect();
        let codes: Vec<ErrorCode> = faults.iter().flat_map(|fault| fault.codes.clone()).collect();
        Some(Self {
            each: faults,
            ..Self::new(class, texts.join("; ")).codes(codes)
        })
    }

    /// Nothing where there are no faults, else the one that [`Fault::joined`] makes of them.
    ///
    /// # Errors
    /// That fault.
    pub fn check_none(faults: Vec<Self>) -> Result<(), Self> {
        Self::joined(faults).map_or(Ok(()), Err)
    }

    /// The faults that it stands for, itself if it is a single one.
    pub fn each(mut self) -> Vec<Self> {
        match self.each.is_empty() {
            true => vec![self],
            false => std::mem::take(&mut self.each)
                .into_iter()
                .flat_map(Self::each)
                .collect(),
        }
    }

    /// A fault of this class; `source` is an error or a text.
    pub fn new(class: FaultClass, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self {
            class,
            codes: Vec::new(),
            hint: String::new(),
            object: None,
            webhook: None,
            source: source.into(),
            each: Vec::new(),
        }
    }

    /// The user must change something. Carries `ERR_CONFIGURATION_PROBLEM` only if added by [`Fault::code`].
    pub fn user(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FaultClass::User, source)
    }

    /// A limit must be raised.
    pub fn quota(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FaultClass::Quota, source)
    }

    /// A permission or credential is missing.
    pub fn access(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FaultClass::Access, source)
    }

    /// Something else must become ready first.
    pub fn dependency(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FaultClass::Dependency, source)
    }

    /// Trying again soon may help.
    pub fn transient(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FaultClass::Transient, source)
    }

    /// A defect of ours.
    pub fn bug(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(FaultClass::Bug, source)
    }

    /// Sets the one thing to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds a code unless it is there.
    #[must_use]
    pub fn code(mut self, code: ErrorCode) -> Self {
        if !self.codes.contains(&code) {
            self.codes.push(code);
        }
        self
    }

    /// Adds several codes.
    #[must_use]
    pub fn codes(self, codes: impl IntoIterator<Item = ErrorCode>) -> Self {
        codes.into_iter().fold(self, Self::code)
    }

    /// Sets the object it is about.
    #[must_use]
    pub fn about(mut self, object: ObjectName) -> Self {
        self.object = Some(Box::new(object));
        self
    }

    /// Sets the webhook that stands behind it, if there is one.
    #[must_use]
    pub fn webhook(mut self, webhook: Option<WebhookFailure>) -> Self {
        self.webhook = webhook.map(Box::new);
        self
    }

    /// Puts what we were doing before the message, and retains all else.
    #[must_use]
    pub fn doing(self, doing: &str) -> Self {
        let Self { source, .. } = self;
        let doing = doing.to_owned();
        Self {
            source: Box::new(Doing { doing, source }),
            ..self
        }
    }

    /// Whether retrying by itself can help: neither a code nor the class excludes it.
    pub fn retryable(&self) -> bool {
        self.codes.iter().all(ErrorCode::retryable) && self.class != FaultClass::User
    }

    /// The whole text with the one thing to do, for statuses. It is for people: programs read [`crate::Problem`].
    pub fn text_with_hint(&self) -> String {
        with_hint(&self.chain(), &self.hint)
    }

    /// The message and those of all its sources, joined by ": ".
    pub fn chain(&self) -> String {
        let mut text = self.source.to_string();
        let mut next = self.source.source();
        while let Some(error) = next {
            text.push_str(": ");
            text.push_str(&error.to_string());
            next = error.source();
        }
        text
    }
}

/// What happened and the one thing to do about it, as statuses contain it.
pub fn with_hint(text: &str, hint: &str) -> String {
    match hint {
        "" => text.to_owned(),
        hint => format!("{text}{TO_DO}{hint})"),
    }
}

/// What happened, of a sentence that [`with_hint`] made with this hint: the hint is known, so that nothing is read. Nothing
/// if the sentence was made with another one, and so is not the one that the hint belongs to.
pub fn without_hint<'a>(sentence: &'a str, hint: &str) -> Option<&'a str> {
    if hint.is_empty() {
        return None;
    }
    sentence.strip_suffix(')')?.strip_suffix(hint)?.strip_suffix(TO_DO)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

impl<E: Classified> From<E> for Fault {
    fn from(error: E) -> Self {
        let fault = Self::new(error.class(), "").hint(error.hint()).codes(error.codes());
        Self {
            source: Box::new(error),
            ..fault
        }
    }
}

/// "what we were doing" around an error.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
struct Doing {
    doing: String,
    source: Box<dyn Error + Send + Sync>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("reading the chart")]
    struct Step(#[source] std::io::Error);

    impl Classified for Step {
        fn class(&self) -> FaultClass {
            FaultClass::Access
        }
        fn hint(&self) -> String {
            "check the file's permissions".into()
        }
        fn codes(&self) -> Vec<ErrorCode> {
            vec![ErrorCode::InfraUnauthorized, ErrorCode::InfraUnauthorized]
        }
    }

    fn read() -> Result<(), Fault> {
        Err(Step(std::io::Error::other("denied")))?
    }

    #[test]
    fn several_faults_are_one_and_are_given_back_each() {
        assert!(Fault::joined(Vec::new()).is_none());
        assert!(Fault::check_none(Vec::new()).is_ok());
        assert_eq!(Fault::check_none(vec![Fault::user("a")]).unwrap_err().chain(), "a");
        let single = Fault::joined(vec![Fault::user("a")]).unwrap();
        assert_eq!((single.chain().as_str(), single.each().len()), ("a", 1));

        let last = || Fault::access("c").code(ErrorCode::InfraUnauthorized);
        let both = Fault::joined(vec![Fault::user("a").hint("change it"), last()]).unwrap();
        let all = Fault::joined(vec![both.doing("ask"), Fault::dependency("b")]).unwrap();
        assert_eq!(all.chain(), "ask: a (to do: change it); c; b");
        assert_eq!(all.class, FaultClass::Dependency);
        assert_eq!(all.codes, [ErrorCode::InfraUnauthorized]);
        let each: Vec<String> = all.each().iter().map(Fault::text_with_hint).collect();
        assert_eq!(each, ["a (to do: change it)", "c", "b"]);
    }

    #[test]
    fn a_step_error_becomes_a_fault_with_all_it_knows() {
        let fault = read().unwrap_err().doing("installing provider");
        assert_eq!(fault.class, FaultClass::Access);
        assert_eq!(fault.codes, [ErrorCode::InfraUnauthorized]);
        assert_eq!(fault.hint, "check the file's permissions");
        assert_eq!(fault.to_string(), "installing provider");
        assert_eq!(fault.chain(), "installing provider: reading the chart: denied");
        assert!(!fault.retryable());
    }

    #[test]
    fn only_what_retrying_cannot_help_is_final() {
        let last: Vec<_> = ErrorCode::KNOWN
            .iter()
            .filter(|c| !ErrorCode::from(**c).retryable())
            .collect();
        assert_eq!(
            last,
            [
                &"ERR_INFRA_UNAUTHENTICATED",
                &"ERR_INFRA_UNAUTHORIZED",
                &"ERR_INFRA_QUOTA_EXCEEDED",
                &"ERR_INFRA_DEPENDENCIES",
                &"ERR_CONFIGURATION_PROBLEM",
                &"ERR_PROBLEMATIC_WEBHOOK"
            ]
        );
        assert!(
            Fault::transient("x")
                .code(ErrorCode::InfraRateLimitsExceeded)
                .retryable()
        );
        assert!(!Fault::user("x").retryable());
    }

    #[test]
    fn a_code_that_is_retried_has_a_class_that_is_retried() {
        for code in ErrorCode::KNOWN.iter().map(|code| ErrorCode::from(*code)) {
            let fault = Fault::new(code.class(), "x").code(code.clone());
            assert_eq!(fault.retryable(), code.retryable(), "{code}");
        }
    }

    #[test]
    fn a_hint_is_removed_only_by_its_exact_text() {
        let text = Fault::user("no (really)").hint("say yes").text_with_hint();
        assert_eq!(text, "no (really) (to do: say yes)");
        assert_eq!(without_hint(&text, "say yes"), Some("no (really)"));
        for other in ["say no", "yes", "", "no (really) (to do: say yes"] {
            assert_eq!(without_hint(&text, other), None, "{other:?}");
        }
        assert_eq!(Fault::user("no (really)").text_with_hint(), "no (really)");
    }
}
