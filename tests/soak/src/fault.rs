//! What happens to the product as a whole meanwhile: which faults there are, when they come, and how each is made.

use std::fmt;
use std::time::Duration;

use api_core::v1beta1::ControllerDeployment;
use api_extensions::ExtensionKind;
use base_clock::Entropy;
use serde_json::{Value, json};

use crate::product::Product;
use crate::user::User;

/// The local provider's ControllerDeployment.
const PROVIDER: &str = "provider-local";
/// An extension of which no Shoot has anything.
const SPARE: &str = "provider-spare";
/// The longest fault that lasts.
const FAULT_MAX: Duration = Duration::from_secs(15);
/// How much of the time has restarts: in the rest one process lives, so that its growth can be seen.
pub const RESTARTS_UNTIL: f64 = 0.5;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// `kill -9`, and a start.
    Kill,
    /// An orderly end, and a start.
    Stop,
    /// It stands still.
    Pause,
    /// The local provider has no pod.
    ProviderAway,
    /// The local provider may not write the status of a kind.
    ProviderDenied(&'static str),
    /// A registration goes and comes again.
    RegistrationAway,
}

/// The kinds of which the provider may be denied the status: those that a Shoot waits for.
fn deniable() -> Vec<&'static str> {
    let never = [
        ExtensionKind::BackupBucket,
        ExtensionKind::BackupEntry,
        ExtensionKind::Extension,
    ];
    let kinds = extensions_provider_local::KINDS.into_iter();
    kinds
        .filter(|kind| !never.contains(kind))
        .map(ExtensionKind::plural)
        .collect()
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "`kill -9` of the process, and a start",
            Self::Stop => "orderly stop of the process, and a start",
            Self::Pause => "process stopped and continued (SIGSTOP, SIGCONT)",
            Self::ProviderAway => "local provider without a pod for a while",
            Self::ProviderDenied(_) => "local provider forbidden to write the status of a kind",
            Self::RegistrationAway => "a registration removed and put back",
        })
    }
}

/// A fault and how long after the one before it comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coming {
    /// Since the beginning of all deeds.
    pub at: Duration,
    /// What comes.
    pub fault: Fault,
    /// How long it lasts, if it does.
    pub length: Duration,
}

/// All faults of a time of this length, in order.
#[must_use]
pub fn schedule(length: Duration, entropy: &Entropy) -> Vec<Coming> {
    let mut coming = Vec::new();
    let restarts_until = length.mul_f64(RESTARTS_UNTIL);
    let mut at = Duration::ZERO;
    loop {
        at += between(length, 24, 10, Duration::from_secs(4), entropy);
        if at > restarts_until {
            break;
        }
        let kill = coming.is_empty() || entropy.below(3) > 0;
        let fault = if kill { Fault::Kill } else { Fault::Stop };
        coming.push(Coming {
            at,
            fault,
            length: Duration::ZERO,
        });
    }
    at = Duration::ZERO;
    loop {
        at += between(length, 120, 40, Duration::from_secs(3), entropy);
        let lasts = FAULT_MAX.min(length / 20).mul_f64(0.2 + 0.8 * share(entropy));
        if at + lasts > length {
            break;
        }
        let fault = match entropy.below(4) {
            0 => Fault::Pause,
            1 => Fault::ProviderAway,
            2 => {
                let kinds = deniable();
                Fault::ProviderDenied(kinds[entropy.below(kinds.len() as u64) as usize])
            }
            _ => Fault::RegistrationAway,
        };
        coming.push(Coming {
            at,
            fault,
            length: lasts,
        });
    }
    coming.sort_by_key(|coming| coming.at);
    coming
}

fn share(entropy: &Entropy) -> f64 {
    entropy.below(1001) as f64 / 1000.0
}

/// From one `most`th to one `least`th of the whole, but so much at least.
fn between(whole: Duration, most: u32, least: u32, floor: Duration, entropy: &Entropy) -> Duration {
    let shortest = (whole / most).max(floor);
    let longest = (whole / least).max(shortest);
    shortest + (longest - shortest).mul_f64(share(entropy))
}

/// The objects of the spare registration.
#[must_use]
pub fn spare(data_dir: &std::path::Path) -> Vec<Value> {
    let folder = data_dir.join(SPARE);
    vec![
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerDeployment",
            "metadata": {"name": SPARE}, "type": "builtin",
            "providerConfig": {
                "image": "provider-local",
                "args": ["--provider-type=spare", format!("--data-dir={}", folder.display())],
                "rules": landscape_local::provider_rules(),
            },
        }),
        json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "ControllerRegistration",
            "metadata": {"name": SPARE},
            "spec": {
                "deployment": {"policy": "Always", "deploymentRefs": [{"name": SPARE}]},
                "resources": [{"kind": "Extension", "type": "spare-ext"}],
            },
        }),
    ]
}

impl Coming {
    /// Whether the process ends by it.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self.fault, Fault::Kill | Fault::Stop)
    }

    /// Makes it and takes it back.
    ///
    /// # Errors
    /// The product does not get over it.
    pub async fn happen(&self, product: &Product, user: &User) -> Result<(), String> {
        match self.fault {
            Fault::Kill => product.restart(true).await,
            Fault::Stop => product.restart(false).await,
            Fault::Pause => product.pause(self.length).await,
            Fault::ProviderAway => {
                self.with_provider(user, json!({"replicas": 0}), json!({"replicas": 1}))
                    .await
            }
            Fault::ProviderDenied(kind) => {
                self.with_provider(
                    user,
                    json!({"rules": rules_without(kind)}),
                    json!({"rules": landscape_local::provider_rules()}),
                )
                .await
            }
            Fault::RegistrationAway => {
                user.remove_registration(SPARE).await?;
                tokio::time::sleep(self.length).await;
                user.apply(&spare(product.folder())).await
            }
        }
    }

    async fn with_provider(&self, user: &User, during: Value, after: Value) -> Result<(), String> {
        user.merge::<ControllerDeployment>(PROVIDER, &json!({"providerConfig": {"values": during}}))
            .await?;
        tokio::time::sleep(self.length).await;
        user.merge::<ControllerDeployment>(PROVIDER, &json!({"providerConfig": {"values": after}}))
            .await
    }
}

fn rules_without(denied: &str) -> Value {
    let plurals: Vec<String> = extensions_provider_local::KINDS
        .iter()
        .flat_map(|kind| [kind.plural().to_owned(), format!("{}/status", kind.plural())])
        .filter(|resource| *resource != format!("{denied}/status"))
        .collect();
    let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let groups = [
        "",
        "apps",
        "coordination.k8s.io",
        "machine.sapcloud.io",
        "resources.gardener.cloud",
        "events.k8s.io",
    ];
    json!([
        {"apiGroups": ["extensions.gardener.cloud"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["extensions.gardener.cloud"], "resources": plurals, "verbs": all},
        {"apiGroups": groups, "resources": ["*"], "verbs": all},
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seconds: u64, restarts: std::ops::RangeInclusive<usize>, others: std::ops::RangeInclusive<usize>) {
        let length = Duration::from_secs(seconds);
        for seed in 1..50 {
            let all = schedule(length, &Entropy::seeded(seed));
            assert_eq!(all, schedule(length, &Entropy::seeded(seed)));
            let ends: Vec<&Coming> = all.iter().filter(|coming| coming.is_end()).collect();
            assert_eq!(ends[0].fault, Fault::Kill);
            assert!(restarts.contains(&ends.len()), "seed {seed}: {ends:?}");
            assert!(others.contains(&(all.len() - ends.len())), "seed {seed}: {all:?}");
            assert!(ends.iter().all(|end| end.at <= length.mul_f64(RESTARTS_UNTIL)));
            assert!(all.iter().all(|coming| coming.at + coming.length <= length));
        }
    }

    #[test]
    fn restarts_come_in_the_first_half_and_other_faults_always() {
        check(1800, 5..=12, 39..=120);
        check(300, 5..=12, 39..=120);
        check(15, 1..=1, 2..=5);
    }

    #[test]
    fn what_is_denied_is_one_status_alone() {
        let rules = rules_without("workers").to_string();
        assert!(
            !rules.contains("workers/status") && rules.contains("\"workers\"") && rules.contains("networks/status")
        );
    }
}
