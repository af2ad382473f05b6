//! The kinds of reviews: group, kind and resource of each. Reviews are answered in `requests/reviews` and never stored.

pub(crate) const AUTHENTICATION: &str = "authentication.k8s.io";

pub(crate) const AUTHORIZATION: &str = "authorization.k8s.io";

/// The kinds of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    SelfSubject,
    Token,
    LocalAccess,
    SelfAccess,
    SelfRules,
    Access,
}

impl Review {
    pub(crate) const ALL: [Self; 6] = [
        Self::SelfSubject,
        Self::Token,
        Self::LocalAccess,
        Self::SelfAccess,
        Self::SelfRules,
        Self::Access,
    ];

    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::SelfSubject | Self::Token => AUTHENTICATION,
            _ => AUTHORIZATION,
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::SelfSubject => "SelfSubjectReview",
            Self::Token => "TokenReview",
            Self::LocalAccess => "LocalSubjectAccessReview",
            Self::SelfAccess => "SelfSubjectAccessReview",
            Self::SelfRules => "SelfSubjectRulesReview",
            Self::Access => "SubjectAccessReview",
        }
    }

    pub(crate) fn resource(self) -> &'static str {
        match self {
            Self::SelfSubject => "selfsubjectreviews",
            Self::Token => "tokenreviews",
            Self::LocalAccess => "localsubjectaccessreviews",
            Self::SelfAccess => "selfsubjectaccessreviews",
            Self::SelfRules => "selfsubjectrulesreviews",
            Self::Access => "subjectaccessreviews",
        }
    }

    pub(crate) fn namespaced(self) -> bool {
        self == Self::LocalAccess
    }
}
