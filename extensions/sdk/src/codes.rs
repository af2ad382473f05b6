//! From a provider's error texts to well-known error codes. The table is the provider's; this only applies it.

use api_meta::{ErrorCode, Fault};
use regex::RegexSet;

/// Patterns of error texts, each with the code it means.
#[derive(Clone, Debug)]
pub struct CodeTable {
    patterns: RegexSet,
    codes: Vec<ErrorCode>,
}

/// A pattern of a table is not a regular expression.
#[derive(Debug, thiserror::Error)]
#[error("error-code table has an invalid pattern")]
pub struct InvalidTable(#[from] regex::Error);

impl CodeTable {
    /// A table of regular expressions, matched anywhere in the text.
    pub fn new<'a>(rows: impl IntoIterator<Item = (&'a str, ErrorCode)>) -> Result<Self, InvalidTable> {
        let (patterns, codes): (Vec<&str>, Vec<ErrorCode>) = rows.into_iter().unzip();
        Ok(Self {
            patterns: RegexSet::new(patterns)?,
            codes,
        })
    }

    /// The codes whose patterns are found in `text`, in the table's order, each once.
    pub fn codes_of(&self, text: &str) -> Vec<ErrorCode> {
        let mut found = Vec::new();
        for row in &self.patterns.matches(text) {
            if !found.contains(&self.codes[row]) {
                found.push(self.codes[row].clone());
            }
        }
        found
    }

    /// Adds the codes found in the fault's whole text, and takes over the class of the first one found: who can
    /// act on the provider's error can act on the fault.
    pub fn classify(&self, mut fault: Fault) -> Fault {
        let codes = self.codes_of(&fault.chain());
        fault.class = codes.first().map_or(fault.class, ErrorCode::class);
        fault.codes(codes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_gets_each_matching_code_once_and_the_firsts_class() {
        let table = CodeTable::new([
            (r"(?i)quota.*exceeded", ErrorCode::InfraQuotaExceeded),
            (r"(?i)limit exceeded", ErrorCode::InfraQuotaExceeded),
            (r"(?i)not authori[sz]ed", ErrorCode::InfraUnauthorized),
        ])
        .unwrap();
        let fault = table.classify(Fault::bug("create vm: Quota for cores EXCEEDED, limit exceeded"));
        assert_eq!(fault.codes, [ErrorCode::InfraQuotaExceeded]);
        assert_eq!(fault.class, api_meta::FaultClass::Quota);
        assert!(table.codes_of("all is well").is_empty());
        assert!(CodeTable::new([("(", ErrorCode::InfraUnauthorized)]).is_err());
    }
}
