//! Takes out of a client's words what each cluster chooses by itself: moments, identifiers, addresses, random endings, and
//! the widths of columns that follow from them.

use regex::Regex;

/// Patterns and what stands in their place, in this order.
const MASKS: [(&str, &str); 19] = [
    (r"(?m)^[WIE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "LOG "),
    (r"X509SHA256=[0-9a-f]{64}", "FINGERPRINT"),
    (r"/tmp/kubectl-edit-\d+", "/tmp/kubectl-edit-NUMBER"),
    (r"(Machine ID:\s+)[0-9a-f]{32}", "${1}MACHINE"),
    (r"(Resource Version:\s+)\d+", "${1}VERSION"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", "TIME"),
    (
        r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}",
        "TIME",
    ),
    (r"\b(127\.0\.0\.1|localhost):\d+", "SERVER"),
    (r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b", "IP"),
    (r#"("?resourceVersion"?: ?)"\d+""#, "${1}VERSION"),
    (
        r"-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b",
        "-HASH-SUFFIX",
    ),
    (r"(pod-template-hash[=:]\s*)[bcdfghjklmnpqrstvwxz2456789]+", "${1}HASH"),
    (r"\b(web|api|db)-[bcdfghjklmnpqrstvwxz2456789]{8,10}\b", "${1}-HASH"),
    (
        r"\b(web|api|db|job|daemon|once)-[bcdfghjklmnpqrstvwxz2456789]{5}\b",
        "${1}-SUFFIX",
    ),
    (r" \(x\d+ over [0-9a-z<>]+\)", ""),
    (r"\b(\d+(\.\d+)?(ms|[smhd]))+\b|<invalid>", "AGE"),
    (r"[ \t]+", " "),
    (r"(?m)^ | $", ""),
];

/// The masks, ready.
pub(crate) struct Masks(Vec<(Regex, &'static str)>);

impl Masks {
    pub(crate) fn new() -> Result<Self, String> {
        let ready = MASKS.iter().map(|(pattern, place)| Ok((Regex::new(pattern)?, *place)));
        let ready: Result<Vec<_>, regex::Error> = ready.collect();
        ready.map(Self).map_err(|error| error.to_string())
    }

    pub(crate) fn apply(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (pattern, place)| {
            pattern.replace_all(&text, *place).into_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cluster_chooses_is_masked_and_nothing_else() {
        let masks = Masks::new().unwrap();
        for (text, masked) in [
            (
                "web-5d4f8b9c7d-x2wqz   1/1  Running  0  13s",
                "web-HASH-SUFFIX 1/1 Running 0 AGE",
            ),
            ("uid: 0b2c8a34-1c6e-4d2f-9a0b-0123456789ab", "uid: UID"),
            ("  resourceVersion: \"123\"", "resourceVersion: VERSION"),
            ("c 2 4m12s", "c 2 AGE"),
            ("Created:  Sun, 22 Nov 2026 03:53:00 +0000", "Created: TIME"),
            ("10.96.0.1   80/TCP   web-config", "IP 80/TCP web-config"),
            ("configmap/c created", "configmap/c created"),
        ] {
            assert_eq!(masks.apply(text), masked);
        }
    }
}
