//! How gardenlet gets into the garden: `gardenClientConnection` (gardener/gardener v1.150
//! pkg/apis/config/gardenlet/v1alpha1).

use std::time::Duration;

use crate::fields::Fields;
use crate::process::kubeconfig;

/// Shortest validity that kube-apiserver takes in a signing request.
const VALIDITY_MIN: Duration = Duration::from_secs(600);

/// The garden, for gardenlet and for pods of its seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GardenConnection {
    /// Path of a kubeconfig.
    pub kubeconfig: Option<String>,
    /// Address of the garden for pods of the seed, where it is not the one of the kubeconfig.
    pub address: Option<String>,
    /// The kubeconfig that gardenlet gets and renews itself; it is used in place of `kubeconfig`, as in Gardener.
    pub stored: Option<StoredCredential>,
}

/// A Secret of the seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// A kubeconfig in a Secret of the seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCredential {
    /// Where it is stored, under the key `kubeconfig`.
    pub kubeconfig: SecretName,
    /// Where a kubeconfig with a bootstrap token is.
    pub bootstrap: Option<SecretName>,
    /// How long certificates are requested to be valid; none: as long as their signer finds right.
    pub validity: Option<Duration>,
    /// Between which parts of its validity a certificate is renewed, in percent.
    pub renewed_between: (u64, u64),
}

pub(crate) fn garden_connection(fields: &mut Fields<'_>) -> GardenConnection {
    let kubeconfig = kubeconfig(fields);
    let purpose = "Address of the garden for pods of the seed; without it that of the kubeconfig";
    let address = fields.optional_text("gardenClusterAddress", purpose);
    let purpose = "Namespace of the seed's Secret with a kubeconfig that has a bootstrap token";
    let bootstrap = secret(fields, "bootstrapKubeconfig", purpose);
    let purpose =
        "Namespace of the seed's Secret in which gardenlet stores its kubeconfig; used in place of kubeconfig";
    let stored = secret(fields, "kubeconfigSecret", purpose);
    let (validity, renewed_between) = fields.object("kubeconfigValidity", validity);
    if bootstrap.is_some() && stored.is_none() {
        let allowed = "name and namespace of the Secret in which gardenlet stores what it gets by bootstrapKubeconfig";
        fields.contradicts("kubeconfigSecret", "absent", allowed);
    }
    GardenConnection {
        kubeconfig,
        address,
        stored: stored.map(|kubeconfig| StoredCredential {
            kubeconfig,
            bootstrap,
            validity,
            renewed_between,
        }),
    }
}

fn secret(fields: &mut Fields<'_>, name: &str, purpose: &'static str) -> Option<SecretName> {
    let is_there = fields.has(name);
    let found = fields.object(name, |fields| {
        let found = SecretName {
            namespace: fields.text("namespace", "", purpose),
            name: fields.text("name", "", "Its name"),
        };
        if is_there {
            for (field, text) in [("namespace", &found.namespace), ("name", &found.name)] {
                if text.is_empty() {
                    fields.contradicts(field, "absent", "namespace and name of a Secret");
                }
            }
        }
        found
    });
    is_there.then_some(found)
}

fn validity(fields: &mut Fields<'_>) -> (Option<Duration>, (u64, u64)) {
    let purpose = "How long certificates are requested to be valid; without it as long as their signer finds right";
    let validity = Some(fields.span("validity", Duration::ZERO, purpose)).filter(|span| !span.is_zero());
    if validity.is_some_and(|span| span < VALIDITY_MIN) {
        let found = validity.unwrap_or_default();
        fields.contradicts("validity", format!("{found:?}"), "10m or more");
    }
    let mut percent = |name: &str, default: u64, purpose: &'static str| fields.count(name, 1..=100, default, purpose);
    let least = percent(
        "autoRotationJitterPercentageMin",
        70,
        "Part of its validity after which a certificate is renewed at the earliest",
    );
    let most = percent("autoRotationJitterPercentageMax", 90, "And at the latest");
    if least > most {
        fields.contradicts(
            "autoRotationJitterPercentageMin",
            least,
            "at most autoRotationJitterPercentageMax",
        );
    }
    (validity, (least, most.max(least)))
}
