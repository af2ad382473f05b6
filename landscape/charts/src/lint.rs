//! What a ControllerDeployment with a chart would trip over. The chart is rendered as a gardenlet renders it, twice, and
//! what it makes is shown to an empty Kubernetes. What is wrong is reported in the order of the files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use api_core::v1beta1::Seed;
use api_meta::Fault;
use api_rules::default_seed;
use base_clock::{Clock, Entropy};
use base_helm::Engine;
use base_helm::lint::{self, Finding, Made, Severity, counted};
use base_helm::render::Release;
use cluster_dry_run::{Problem, Remark, dry_run};
use cluster_fields::names;
use control_plane_gardenlet::kinds_of_seed;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ChartInput, Setting};

/// Root of the values that every chart of an extension gets.
const ROOT: &str = "gardener";
/// Namespaces of installations are called `extension-<ControllerInstallation>`, and these after their registration.
const NAMESPACE_PREFIX: &str = "extension-";
/// Stands for what the API server puts behind `generateName`.
const INSTALLATION_SUFFIX: &str = "-x7k2p";
/// Largest archive that a ControllerDeployment can hold: etcd takes requests of 1.5 MiB (`--max-request-bytes`), the archive
/// stands there in base64, and an eighth is left for values and managed fields.
const RAW_CHART_BYTES_MAX: u64 = (3 << 19) / 8 * 7 / 4 * 3;
/// Seeds of the two renderings, and when they are made; any two do that are not the same.
const SEEDS: [(u64, i64); 2] = [(1, 1_000_000_000), (2, 2_000_000_000)];

/// What is wrong with a chart.
pub struct Lint {
    path: String,
    findings: Vec<Finding>,
    sum: Sum,
    images: Vec<String>,
    objects: Vec<Value>,
}

impl Lint {
    /// The findings in the order of the files, each with a hint, and a line that counts them.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.findings, &self.sum)
    }

    /// The same without the line that counts them: empty where nothing is wrong.
    #[must_use]
    pub fn remarks(&self) -> String {
        let text = self.text();
        let lines: Vec<&str> = text.lines().collect();
        lines
            .split_last()
            .map(|(_, lines)| lines.join("\n"))
            .unwrap_or_default()
    }

    /// Images of all containers that the chart makes, each once.
    #[must_use]
    pub fn images(&self) -> &[String] {
        &self.images
    }

    /// All objects that the chart makes.
    #[must_use]
    pub fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// Whether a ControllerDeployment with the chart could be installed. `strict`: warnings count as errors.
    ///
    /// # Errors
    /// It could not.
    pub fn verdict(&self, strict: bool) -> Result<(), Fault> {
        let path = &self.path;
        match (self.sum.errors, self.sum.warnings) {
            (0, 0) => Ok(()),
            (0, _) if !strict => Ok(()),
            (0, _) => Err(Fault::user(format!("{path}: there are warnings")).hint("fix them, or leave --strict out")),
            _ => Err(Fault::user(format!(
                "{path}: a ControllerDeployment with this chart could not be installed"
            ))
            .hint("correct what is reported as an error")),
        }
    }
}

/// Looks for what is wrong with a chart. `name`: that of the ControllerRegistration, of the chart if there is none.
///
/// # Errors
/// The chart cannot be rendered.
pub async fn lint(name: Option<&str>, path: &str, setting: &Setting) -> Result<Lint, Fault> {
    let mut input = ChartInput::read(path, setting).await?;
    let name = name.unwrap_or(&input.chart.metadata.name).to_owned();
    check_name(&name)?;
    let mut findings: Vec<Finding> = too_large(path).into_iter().collect();
    findings.extend(input.values.contains_key(ROOT).then(|| overwritten(path)));
    input.values.insert(ROOT.to_owned(), example_of_root()?);
    let [engine, other] = SEEDS.map(engine);
    let setting = input.setting(release(&name));
    let (rendered, of_lookups) = input.explained(lint::render(&engine?, &input.chart, &input.values, &setting))?;
    findings.extend(of_lookups);
    let again = input.render(&other?, release(&name));
    let (made, of_documents) = lint::objects(&rendered);
    findings.extend(of_documents);
    let (made_again, _) = lint::objects(&again?);
    findings.extend(lint::unsteady(&made, &made_again));
    let unknown = check_in_kubernetes(&made, &release(&name).namespace, &mut findings).await?;
    // In the order in which they were found where nothing else says which goes first: lookups are found in that of their places.
    findings.sort_by(|one, other| {
        let [one, other] = [one, other].map(|finding| (&finding.file, finding.severity, &finding.object));
        one.cmp(&other)
    });
    let is_bad = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (is_bad(Severity::Error), is_bad(Severity::Warning));
    let metadata = &input.chart.metadata;
    let sum = Sum {
        chart: format!("{} {}", metadata.name, metadata.version),
        objects: made.len(),
        unknown,
        errors,
        warnings,
    };
    Ok(Lint {
        path: path.to_owned(),
        findings,
        sum,
        images: images(&made),
        objects: made.into_iter().map(|made| made.value).collect(),
    })
}

/// Images of pods and of templates of pods, wherever they stand.
fn images(made: &[Made]) -> Vec<String> {
    fn of(value: &Value, images: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    if matches!(name.as_str(), "containers" | "initContainers") {
                        let containers = value.as_array().into_iter().flatten();
                        images.extend(containers.filter_map(|one| one["image"].as_str().map(str::to_owned)));
                    }
                    of(value, images);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| of(item, images)),
            _ => {}
        }
    }
    let mut images = BTreeSet::new();
    for object in made
        .iter()
        .filter(|made| made.value["kind"] != "CustomResourceDefinition")
    {
        of(&object.value["spec"], &mut images);
    }
    images.into_iter().collect()
}

/// One with that randomness, at that time.
fn engine((seed, seconds): (u64, i64)) -> Result<Engine, Fault> {
    let then = Timestamp::from_second(seconds).map_err(|why| Fault::bug(why.to_string()))?;
    let engine = Engine::default().with_entropy(Entropy::seeded(seed));
    Ok(engine.with_clock(Clock::settable(then).0))
}

/// What is known of the chart as a whole.
struct Sum {
    chart: String,
    objects: usize,
    /// Kinds that were not looked at
    unknown: BTreeSet<String>,
    errors: usize,
    warnings: usize,
}

fn text_of(findings: &[Finding], sum: &Sum) -> String {
    let mut text = String::new();
    for finding in findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let object = finding.object.as_ref().map(|object| format!("{object}: "));
        let Finding {
            file, message, hint, ..
        } = finding;
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{severity}: {file}: {}{message}\n  hint: {hint}",
            object.unwrap_or_default()
        );
    }
    let unknown = sum.unknown.iter().cloned().collect::<Vec<_>>().join(", ");
    if !unknown.is_empty() {
        let _ = writeln!(
            text,
            "note: nothing here knows these kinds, so their fields were not looked at: {unknown}"
        );
    }
    let _ = writeln!(
        text,
        "{}: {}, {}, {}",
        sum.chart,
        counted(sum.objects, "object"),
        counted(sum.errors, "error"),
        counted(sum.warnings, "warning")
    );
    text
}

/// Adds the errors of an empty Kubernetes; gives the kinds that it does not know.
async fn check_in_kubernetes(
    made: &[Made],
    namespace: &str,
    findings: &mut Vec<Finding>,
) -> Result<BTreeSet<String>, Fault> {
    let known = kinds_of_seed();
    let objects: Vec<Value> = made.iter().map(|made| made.value.clone()).collect();
    let mut unknown = BTreeSet::new();
    for Remark { place, problem } in dry_run(&known, &objects, namespace).await? {
        match finding(made, place, problem) {
            Some(finding) => findings.push(finding),
            None => {
                let text = |field: &str| objects[place][field].as_str().unwrap_or_default();
                unknown.insert(format!("{} ({})", text("kind"), text("apiVersion")));
            }
        }
    }
    Ok(unknown)
}

/// What is wrong with the object at that place; nothing if its kind is not known.
fn finding(made: &[Made], place: usize, problem: Problem) -> Option<Finding> {
    let (severity, message, hint) = match problem {
        Problem::UnknownField(field) => (
            Severity::Warning,
            format!("{field}: it is refused here, where Gardener drops it"),
            "correct the field in the template",
        ),
        Problem::Refused(why) => (
            Severity::Error,
            why,
            "correct the field in the template, or the value that it is made from",
        ),
        Problem::Warning(why) => (
            Severity::Warning,
            why,
            "follow the warning before the kind or field goes",
        ),
        Problem::NoNamespace => (
            Severity::Warning,
            "metadata.namespace is missing: it would lie in the namespace default, beside those of every other chart"
                .to_owned(),
            "write `namespace: {{ .Release.Namespace }}` below metadata",
        ),
        Problem::Again(first) => (
            Severity::Error,
            format!("is made twice, first by {}: one would undo the other", made[first].file),
            "leave one of them out, or name them differently",
        ),
        Problem::Known => (
            Severity::Error,
            "is a definition of this product: the chart would write over it".to_owned(),
            "leave it out of the chart",
        ),
        Problem::UnknownKind => return None,
    };
    Some(made[place].finding(severity, message, hint))
}

/// What a gardenlet renders for: an installation of a ControllerRegistration, in a namespace of its own.
fn release(name: &str) -> Release {
    Release {
        name: name.to_owned(),
        namespace: format!("{NAMESPACE_PREFIX}{name}{INSTALLATION_SUFFIX}"),
        revision: 1,
        is_upgrade: false,
    }
}

/// Whether the namespace of an installation can be called after a registration of this name.
fn check_name(name: &str) -> Result<(), Fault> {
    let namespace = release(name).namespace;
    let Some(why) = names::dns_label(&namespace) else {
        return Ok(());
    };
    let characters_max = names::LABEL_BYTES_MAX - NAMESPACE_PREFIX.len() - INSTALLATION_SUFFIX.len();
    Err(Fault::user(format!(
        "{name:?} cannot be the name of a ControllerRegistration with a chart: its namespace would be {namespace:?}, and {why}"
    ))
    .hint(format!("give another NAME of at most {characters_max} characters of a-z, 0-9 and -")))
}

fn too_large(path: &str) -> Option<Finding> {
    let bytes = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.len();
    (bytes > RAW_CHART_BYTES_MAX).then(|| Finding {
        file: path.to_owned(),
        severity: Severity::Warning,
        object: None,
        message: format!(
            "the archive has {bytes} bytes, and `rawChart` of a ControllerDeployment holds {RAW_CHART_BYTES_MAX}"
        ),
        hint: "push it to a registry and name it in `ociRepository`, or leave files out with .helmignore",
    })
}

fn overwritten(path: &str) -> Finding {
    Finding {
        file: path.to_owned(),
        severity: Severity::Warning,
        object: None,
        message: format!("the values that are given have `{ROOT}`, which a gardenlet writes over"),
        hint: "take it out of the values",
    }
}

/// What a gardenlet writes at the root of the values for a seed, with everything that may be there.
fn example_of_root() -> Result<Value, Fault> {
    let seed = example_of_seed()?;
    let spec = &seed.spec;
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "garden": {"clusterIdentity": "garden", "genericKubeconfigSecretName": "generic-garden-kubeconfig"},
        "gardenlet": {"featureGates": {}},
        "seed": {
            "name": "seed",
            "clusterIdentity": "seed-identity",
            "annotations": {},
            "labels": {},
            "provider": spec.provider.type_,
            "region": spec.provider.region,
            "volumeProvider": "",
            "volumeProviders": [],
            "ingressDomain": spec.ingress.as_ref().map(|ingress| &ingress.domain),
            "protected": false,
            "visible": true,
            "taints": [],
            "networks": spec.networks,
            "blockCIDRs": spec.networks.block_cidrs,
            "spec": spec,
        },
    }))
}

/// A Seed as the garden's API server stores it: charts read the defaults of its spec without asking whether they are there.
fn example_of_seed() -> Result<Seed, Fault> {
    let credentials = json!({"apiVersion": "v1", "kind": "Secret", "name": "dns", "namespace": "garden"});
    let object = json!({
        "metadata": {"name": "seed"},
        "spec": {
            "provider": {"type": "local", "region": "local", "zones": ["0"]},
            "networks": {"nodes": "10.240.0.0/16", "pods": "10.241.0.0/16", "services": "10.96.0.0/12"},
            "ingress": {"domain": "ingress.seed.example.com", "controller": {"kind": "nginx"}},
            "dns": {
                "provider": {"type": "local", "credentialsRef": credentials},
                "internal": {"type": "local", "domain": "internal.example.com", "credentialsRef": credentials},
            },
        },
    });
    let mut seed: Seed = serde_json::from_value(object).map_err(|error| Fault::bug(error.to_string()))?;
    default_seed(&mut seed);
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_that_charts_are_rendered_for_is_one_that_the_garden_takes() {
        let seed = example_of_seed().unwrap();
        let errors = api_rules::validate_seed(&seed);
        assert!(errors.is_empty(), "{errors:?}");
        let root = example_of_root().unwrap();
        let settings = &root["seed"]["spec"]["settings"];
        assert_eq!(settings["topologyAwareRouting"], json!({"enabled": false}));
        assert_eq!(settings["dependencyWatchdog"]["prober"], json!({"enabled": true}));
        assert_eq!(root["seed"]["networks"]["ipFamilies"], json!(["IPv4"]));
    }
}
