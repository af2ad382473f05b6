//! Shoots of one megabyte whose bytes are in the entries of one list: how long the garden takes to accept or refuse each.

use std::time::Instant;

use serde_json::{Value, json};

use super::figures::Figure;
use super::objects::{create_one, shoot};
use crate::landscape::median;
use crate::load::Target;

/// How often each is sent, under another name each time.
const TIMES: usize = 3;
/// What a Shoot's body shall have, in bytes.
const BYTES: usize = 1_000_000;

/// A list that is filled.
#[derive(Clone, Copy, Debug)]
enum Case {
    Pools,
    Taints,
    Resources,
    Extensions,
    Tolerations,
}

impl Case {
    const ALL: [Case; 5] = [
        Case::Pools,
        Case::Taints,
        Case::Resources,
        Case::Extensions,
        Case::Tolerations,
    ];

    /// How it is named in results.
    fn name(self) -> &'static str {
        match self {
            Case::Pools => "5,000 worker pools",
            Case::Taints => "10,000 taints on one pool",
            Case::Resources => "10,000 spec.resources",
            Case::Extensions => "10,000 spec.extensions",
            Case::Tolerations => "10,000 spec.tolerations",
        }
    }

    fn entries(self) -> usize {
        match self {
            Case::Pools => 5_000,
            Case::Taints | Case::Resources | Case::Extensions | Case::Tolerations => 10_000,
        }
    }

    /// One entry, with a field that has `padding` characters more than it needs.
    fn entry(self, number: usize, padding: usize) -> Value {
        let padding = "x".repeat(padding);
        match self {
            Case::Pools => json!({"name": format!("p{number:05}"), "minimum": 0, "maximum": 1,
                "machine": {"type": "small"}, "annotations": {"note": padding}}),
            Case::Taints => json!({"key": format!("bench.example/t{number:05}"), "value": format!("v{padding}"),
                "effect": "NoSchedule"}),
            Case::Resources => json!({"name": format!("r{number:05}{padding}"),
                "resourceRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings"}}),
            Case::Extensions => json!({"type": format!("e{number:05}"),
                "providerConfig": {"apiVersion": "bench.example/v1", "kind": "Settings", "note": padding}}),
            Case::Tolerations => json!({"key": format!("bench.example/t{number:05}"), "value": format!("v{padding}")}),
        }
    }

    /// A Shoot with all entries.
    fn shoot(self, name: &str) -> Value {
        // What stands around the list is less than one entry; a comma follows each.
        let each = BYTES / self.entries();
        let padding = each.saturating_sub(self.entry(0, 0).to_string().len() + 1);
        let entries: Vec<Value> = (0..self.entries()).map(|number| self.entry(number, padding)).collect();
        let mut shoot = shoot(name);
        let spec = &mut shoot["spec"];
        match self {
            Case::Pools => spec["provider"]["workers"] = entries.into(),
            Case::Taints => spec["provider"]["workers"][0]["taints"] = entries.into(),
            Case::Resources => spec["resources"] = entries.into(),
            Case::Extensions => spec["extensions"] = entries.into(),
            Case::Tolerations => spec["tolerations"] = entries.into(),
        }
        shoot
    }
}

/// What one request showed.
struct Seen {
    status: u16,
    bytes: usize,
    milliseconds: f64,
    worked: f64,
}

/// Sends each Shoot [`TIMES`] times, one after the other.
pub(super) async fn measure(target: &Target, figures: &mut Vec<Figure>) -> Result<(), String> {
    for (place, case) in Case::ALL.into_iter().enumerate() {
        let mut all = Vec::new();
        for time in 0..TIMES {
            all.push(send(target, case, &format!("l{place}{time}")).await?);
        }
        let Some(first) = all.first() else { continue };
        let (status, bytes) = (first.status, first.bytes as f64 / 1e6);
        if all.iter().any(|seen| seen.status != status) {
            let codes: Vec<u16> = all.iter().map(|seen| seen.status).collect();
            return Err(format!("{} was answered in different ways: {codes:?}", case.name()));
        }
        let (name, time) = (case.name(), median(all.iter().map(|seen| seen.milliseconds)));
        let worked = median(all.iter().map(|seen| seen.worked));
        figures.push(Figure::new(&format!("{name}: {status}"), "ms", time));
        figures.push(Figure::new(&format!("{name}: processor"), "ms", worked));
        figures.push(Figure::new(&format!("{name}: answer"), "MB", bytes));
    }
    Ok(())
}

async fn send(target: &Target, case: Case, name: &str) -> Result<Seen, String> {
    let call = create_one(&case.shoot(name));
    let mut connection = target.endpoint.connect().await?;
    let (begun, before) = (Instant::now(), target.processor_seconds());
    let answer = connection.send(&call).await?;
    Ok(Seen {
        milliseconds: begun.elapsed().as_secs_f64() * 1e3,
        worked: (target.processor_seconds() - before) * 1e3,
        status: answer.status.as_u16(),
        bytes: answer.body.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_shoot_has_one_megabyte_and_all_entries() {
        for case in Case::ALL {
            let text = case.shoot("large").to_string();
            let off = text.len().abs_diff(BYTES);
            assert!(off < BYTES / 50, "{case:?} has {} bytes", text.len());
            let last = case.entry(case.entries() - 1, 0);
            let name = last["name"].as_str().or(last["key"].as_str()).or(last["type"].as_str());
            assert!(text.contains(name.unwrap()), "{case:?} lacks its last entry");
        }
    }
}
