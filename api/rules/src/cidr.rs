//! Networks in CIDR form. It never guesses host bits away: a network must be written as its first address.

use ipnet::IpNet;

use crate::{FieldError, Path};

/// Whether two networks share an address; texts that are no networks share none.
pub fn overlaps(a: &str, b: &str) -> bool {
    match (a.parse::<IpNet>(), b.parse::<IpNet>()) {
        (Ok(a), Ok(b)) => a.contains(&b) || b.contains(&a),
        _ => false,
    }
}

/// Demands a network written as its first address.
pub(crate) fn network(errors: &mut Vec<FieldError>, path: &Path, text: &str) {
    match text.parse::<IpNet>() {
        Err(_) => errors.push(path.invalid(text, "must be a network such as \"10.0.0.0/16\"")),
        Ok(network) if network.trunc() != network => {
            errors.push(path.invalid(
                text,
                format!("must be written as its first address: \"{}\"", network.trunc()),
            ));
        }
        Ok(_) => {}
    }
}

/// Demands a network, with or without bits of a host.
pub(crate) fn any_network(errors: &mut Vec<FieldError>, path: &Path, text: &str) {
    if text.parse::<IpNet>().is_err() {
        errors.push(path.invalid(text, "must be a network such as \"10.0.0.0/16\""));
    }
}

/// Demands that no two of the given networks overlap; the error stands at the later one.
pub(crate) fn disjoint(errors: &mut Vec<FieldError>, networks: &[(Path, &str)]) {
    for (index, (path, network)) in networks.iter().enumerate() {
        for (earlier, other) in &networks[..index] {
            if overlaps(network, other) {
                errors.push(path.invalid(
                    network,
                    format!("must not overlap with {earlier} (\"{other}\"); choose another range"),
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_overlap_only_if_one_holds_the_other() {
        let cases = [
            ("10.0.0.0/8", "10.5.0.0/16", true),
            ("10.0.0.0/16", "10.1.0.0/16", false),
            ("2001:db8::/32", "2001:db8:1::/48", true),
            ("10.0.0.0/8", "::/0", false),
            ("x", "x", false),
        ];
        for (a, b, expected) in cases {
            assert_eq!(overlaps(a, b), expected, "{a} {b}");
            assert_eq!(overlaps(b, a), expected, "{b} {a}");
        }
        let mut errors = Vec::new();
        network(&mut errors, &Path::new("pods"), "10.0.0.1/8");
        assert_eq!(
            errors[0].to_string(),
            "pods: Invalid value: \"10.0.0.1/8\": must be written as its first address: \"10.0.0.0/8\""
        );
    }
}
