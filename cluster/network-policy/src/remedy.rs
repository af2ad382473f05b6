//! Which labels would allow a connection that is refused.

use std::fmt;

use crate::policy::Peer;
use crate::{Attempt, Direction, End, Labels, PodFacts, Policies};

/// Labels that are missing on a pod, and the policy that requires them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// What it lacks.
    pub labels: Labels,
    /// The policy that would allow the connection then, `namespace/name`.
    pub policy: String,
    /// Whether the connection would be allowed then; else this is the first of several things that are missing.
    pub is_enough: bool,
}

/// The best remedy: one that is enough, then the one with the fewest labels, on the pod that connects before the other.
pub(crate) fn find(policies: &Policies, attempt: &Attempt<'_>, direction: Direction) -> Option<Remedy> {
    let mut found: Vec<(bool, Remedy)> = Vec::new();
    if let End::Pod(pod) = attempt.end(direction) {
        for (name, policy) in policies.of(&pod.namespace) {
            for rule in policy.rules(direction) {
                if rule.allows(policies, &pod.namespace, attempt, direction)
                    && let Some(labels) = policy.selector.missing(&pod.labels)
                {
                    found.push((
                        direction == Direction::Ingress,
                        remedy(policies, attempt, pod, labels, name, pod),
                    ));
                }
                let selects = policy.selects(&pod.labels) && rule.is_for_port(attempt);
                let End::Pod(other) = attempt.peer(direction) else {
                    continue;
                };
                for peer in rule.peers.iter().flatten().filter(|_| selects) {
                    if let Some(labels) = missing_of_peer(policies, peer, pod, other) {
                        let on_target = direction == Direction::Egress;
                        found.push((on_target, remedy(policies, attempt, other, labels, name, pod)));
                    }
                }
            }
        }
    }
    found.retain(|(_, remedy)| !remedy.labels.is_empty());
    let rank = |(on_target, remedy): &(bool, Remedy)| {
        (
            !remedy.is_enough,
            *on_target,
            remedy.labels.len(),
            remedy.policy.clone(),
        )
    };
    found.into_iter().min_by_key(rank).map(|(_, remedy)| remedy)
}

/// What the pod at the other end lacks to be the peer.
fn missing_of_peer(policies: &Policies, peer: &Peer, pod: &PodFacts, other: &PodFacts) -> Option<Labels> {
    let Peer::Pods { pods, namespaces } = peer else {
        return None;
    };
    let near = Peer::is_namespace(namespaces.as_ref(), policies, &pod.namespace, &other.namespace);
    near.then(|| pods.missing(&other.labels)).flatten()
}

fn remedy(
    policies: &Policies,
    attempt: &Attempt<'_>,
    on: &PodFacts,
    labels: Labels,
    policy: &str,
    holder: &PodFacts,
) -> Remedy {
    let mut changed = on.clone();
    changed.labels.extend(labels.clone());
    let with = |end: End<'_>| matches!(end, End::Pod(pod) if pod == on);
    let then = Attempt {
        from: if with(attempt.from) {
            End::Pod(&changed)
        } else {
            attempt.from
        },
        to: if with(attempt.to) {
            End::Pod(&changed)
        } else {
            attempt.to
        },
        ..*attempt
    };
    Remedy {
        pod: format!("{}/{}", on.namespace, on.name),
        is_enough: policies.allows(&then),
        labels,
        policy: format!("{}/{policy}", holder.namespace),
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<String> = self
            .labels
            .iter()
            .map(|(key, value)| format!("{key}: {value}"))
            .collect();
        let (noun, verb) = match (labels.len(), self.is_enough) {
            (1, true) => ("the label", "would allow it"),
            (1, false) => ("the label", "is missing first"),
            (_, true) => ("the labels", "would allow it"),
            (_, false) => ("the labels", "are missing first"),
        };
        write!(
            f,
            "{noun} {} on pod {} {verb} (policy {})",
            labels.join(", "),
            self.pod,
            self.policy
        )
    }
}
