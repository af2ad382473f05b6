//! What the cloud's error texts mean to gardenlet: a table.

use api_meta::{ErrorCode, Fault};
use extensions_sdk::CodeTable;

/// The cloud's words for why, each at the beginning of the text of a [`crate::cloud::CloudError`].
const ROWS: [(&str, ErrorCode); 7] = [
    (r"\bAuthFailure: ", ErrorCode::InfraUnauthenticated),
    (r"\bUnauthorizedOperation: ", ErrorCode::InfraUnauthorized),
    (r"\bQuotaExceeded: ", ErrorCode::InfraQuotaExceeded),
    (r"\bRequestLimitExceeded: ", ErrorCode::InfraRateLimitsExceeded),
    (r"\bDependencyViolation: ", ErrorCode::InfraDependencies),
    (r"\bInsufficientCapacity: ", ErrorCode::InfraResourcesDepleted),
    (r"\bInvalidParameter: ", ErrorCode::ConfigurationProblem),
];

/// The table.
///
/// # Errors
/// A bug: a row is no regular expression.
pub(crate) fn codes() -> Result<CodeTable, Fault> {
    CodeTable::new(ROWS).map_err(Fault::bug)
}

#[cfg(test)]
mod tests {
    use api_meta::FaultClass;

    use super::*;
    use crate::cloud::{CloudError, Reason};

    #[test]
    fn each_reason_has_its_code_and_what_passes_has_none() {
        let table = codes().unwrap();
        for (reason, code) in [
            (Reason::AuthFailure, Some(ErrorCode::InfraUnauthenticated)),
            (Reason::UnauthorizedOperation, Some(ErrorCode::InfraUnauthorized)),
            (Reason::NotFound, None),
            (Reason::InvalidParameter, Some(ErrorCode::ConfigurationProblem)),
            (Reason::DependencyViolation, Some(ErrorCode::InfraDependencies)),
            (Reason::QuotaExceeded, Some(ErrorCode::InfraQuotaExceeded)),
            (Reason::RequestLimitExceeded, Some(ErrorCode::InfraRateLimitsExceeded)),
            (Reason::InsufficientCapacity, Some(ErrorCode::InfraResourcesDepleted)),
            (Reason::InternalError, None),
            (Reason::Unanswered, None),
        ] {
            let fault = Fault::from(CloudError::new(reason, "because")).doing("create subnet/a");
            assert_eq!(table.codes_of(&fault.chain()), Vec::from_iter(code), "{reason:?}");
        }
        let again = table.classify(CloudError::new(Reason::Unanswered, "quota").into());
        assert_eq!(again.class, FaultClass::Transient);
    }
}
