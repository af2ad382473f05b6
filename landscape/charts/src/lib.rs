//! A chart of this machine or of a registry before it is installed: rendered as `helm template` does (Helm 4.1,
//! `pkg/cmd/template.go`), checked as an extension of a ControllerDeployment, and registered as one. It sends no request
//! to a cluster.

mod helper;
mod lint;
mod oci;
mod registration;
mod zone;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use api_meta::Fault;
use base_helm::chart::{CHART_BYTES_MAX, NotInstallable};
use base_helm::engine::{Capabilities, KubeVersion};
use base_helm::render::Release;
use base_helm::values::{FILE_BYTES_MAX, Options, Values};
use base_helm::{Chart, Engine, RenderError, Rendered};
use cluster_fields::names;

use secrecy::SecretString;

pub use base_oci::Watcher;
pub use lint::{Lint, lint};
pub use registration::{Registration, manifests, pack};

/// The release's name if the user gives it none.
const RELEASE: &str = "release-name";
/// Longest name of a release (Helm's `pkg/chart/common/util/validate_name.go`).
const RELEASE_NAME_MAX: usize = 53;
/// What stands for standard input among files of values.
const STANDARD_INPUT: &str = "-";

/// Values of a chart, what it is rendered for, and how it is fetched; named as Helm names them.
#[derive(Clone, Default)]
pub struct Setting {
    /// Files of values in YAML, `-` for standard input.
    pub values: Vec<String>,
    /// Values: `name=value,list[0]=value,outer.inner=value`.
    pub set: Vec<String>,
    /// Values that are texts whatever they look like.
    pub set_string: Vec<String>,
    /// Values in JSON: `name={"a":1}`, or a whole object.
    pub set_json: Vec<String>,
    /// Values that are the texts of files: `name=file`.
    pub set_file: Vec<String>,
    /// Values that are all behind the `=`, whatever characters they have.
    pub set_literal: Vec<String>,
    /// The cluster's version in `.Capabilities.KubeVersion`; by default the one that Helm assumes.
    pub kube_version: Option<String>,
    /// API versions in `.Capabilities.APIVersions`, beside those of Kubernetes.
    pub api_versions: Vec<String>,
    /// How it is fetched from a registry.
    pub pull: Pull,
}

/// How a chart is fetched from a registry (`oci://...`).
#[derive(Clone, Default)]
pub struct Pull {
    /// The chart's version, or a constraint as in `^1.2`; by default the highest release.
    pub version: Option<String>,
    /// User of the registry; by default the credentials that `helm registry login` and `docker login` have stored.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<SecretString>,
    /// Read the user's password from standard input.
    pub password_stdin: bool,
    /// PEM file with authorities of registries, beside those of the machine.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the certificate that is shown to registries which want one.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the key of that certificate.
    pub key_file: Option<PathBuf>,
    /// Believe any certificate of the registry.
    pub insecure_skip_tls_verify: bool,
    /// Send requests to the registry over HTTP.
    pub plain_http: bool,
    /// Called with the bytes received so far and with the size of the whole, where that is known.
    pub watcher: Option<Watcher>,
}

/// What is rendered.
pub struct Render<'a> {
    /// The chart: a folder, an archive or `oci://...`.
    pub chart: &'a str,
    /// The release's name.
    pub name: Option<&'a str>,
    /// The release's namespace.
    pub namespace: &'a str,
    /// `.Release.IsUpgrade` instead of `.Release.IsInstall`.
    pub is_upgrade: bool,
    /// Values, versions, and how the chart is fetched.
    pub setting: &'a Setting,
}

/// The objects that a chart makes, as `helm template` has them.
///
/// # Errors
/// A chart or values that are not there or that Helm refuses, each with one thing to do.
pub async fn render(render: &Render<'_>) -> Result<Rendered, Fault> {
    let name = render.name.unwrap_or(RELEASE);
    check_release_name(name)?;
    let release = Release {
        name: name.to_owned(),
        namespace: render.namespace.to_owned(),
        revision: 1,
        is_upgrade: render.is_upgrade,
    };
    let engine = Engine::default().with_zone(zone::local());
    ChartInput::read(render.chart, render.setting)
        .await?
        .render(&engine, release)
}

/// What is rendered or checked: a chart that stands by itself, and the user's settings for it.
struct ChartInput<'a> {
    path: &'a str,
    chart: Chart,
    values: Values,
    capabilities: Capabilities,
}

impl<'a> ChartInput<'a> {
    async fn read(path: &'a str, setting: &Setting) -> Result<Self, Fault> {
        let capabilities = capabilities(setting)?;
        let values = merged_values(setting)?;
        let chart = load(path, setting).await?;
        chart.check_installable().map_err(|why| match &why {
            NotInstallable::Type(_) => Fault::user(format!("{path}: {why}")).hint("render a chart that uses it"),
            NotInstallable::Missing(_) => Fault::user(format!("{path}: {why}"))
                .hint("fetch them with `helm dependency build`, or take them out of Chart.yaml"),
        })?;
        Ok(Self {
            path,
            chart,
            values,
            capabilities,
        })
    }

    fn setting(&self, release: Release) -> base_helm::Setting {
        base_helm::Setting {
            release,
            capabilities: self.capabilities.clone(),
        }
    }

    fn render(&self, engine: &Engine, release: Release) -> Result<Rendered, Fault> {
        self.explained(engine.render(&self.chart, &self.values, &self.setting(release)))
    }

    /// A rendering, or what may help where there is none.
    fn explained<T>(&self, rendered: Result<T, RenderError>) -> Result<T, Fault> {
        rendered.map_err(|why| Fault::user(format!("{}: {why}", self.path)).hint(hint(&why)))
    }
}

/// The values that the user gives, in Helm's order; the chart's own are not among them.
fn merged_values(setting: &Setting) -> Result<Values, Fault> {
    let options = Options {
        files: setting.values.clone(),
        json: setting.set_json.clone(),
        set: setting.set.clone(),
        string: setting.set_string.clone(),
        file: setting.set_file.clone(),
        literal: setting.set_literal.clone(),
    };
    options
        .merge(&read_values)
        .map_err(|why| Fault::user(why).hint("`orangery chart render --help` shows how values are written"))
}

fn check_release_name(name: &str) -> Result<(), Fault> {
    if is_release_name(name) {
        return Ok(());
    }
    let why = format!(
        "{name:?} is no name of a release: such a name has at most {RELEASE_NAME_MAX} characters of a-z, 0-9, - and ., \
         and begins and ends with a letter or digit, as does each part between dots"
    );
    Err(Fault::user(why).hint("give another NAME, or none"))
}

fn capabilities(setting: &Setting) -> Result<Capabilities, Fault> {
    let mut capabilities = Capabilities::default();
    if let Some(version) = &setting.kube_version {
        capabilities.kube_version = KubeVersion::read(version)
            .map_err(|why| Fault::user(why).hint("name a version as in --kube-version 1.32 or v1.32.4"))?;
    }
    capabilities.api_versions.extend(setting.api_versions.iter().cloned());
    Ok(capabilities)
}

/// What may help where a chart is not rendered.
fn hint(why: &RenderError) -> &'static str {
    match why {
        RenderError::Dependencies(_) | RenderError::Values(_) => "look at the values that the message names",
        RenderError::Schema(_) => "give values as the chart's values.schema.json wants them",
        RenderError::KubeVersion { .. } => "name a version that the chart is for with --kube-version",
        RenderError::Template(_) => {
            "the message names file, line and column; values that are missing are given with --set or -f"
        }
        RenderError::Limit { .. } => "the chart does more than charts may do: look at the loops of that file",
        RenderError::Manifest(_) => "look at what that template makes: it is not YAML, or no object of Kubernetes",
    }
}

fn is_release_name(name: &str) -> bool {
    name.len() <= RELEASE_NAME_MAX && names::dns_subdomain(name).is_none()
}

/// A chart from a folder, an archive or a registry.
async fn load(name: &str, setting: &Setting) -> Result<Chart, Fault> {
    let path = Path::new(name);
    let chart = if name.starts_with(base_oci::SCHEME) {
        Chart::from_archive(&oci::pull(name, setting).await?)
    } else if name.to_ascii_lowercase().starts_with(base_oci::SCHEME) {
        let why = format!("{} begins with oci:// in capitals", without_user(name));
        return Err(Fault::user(why).hint("write oci:// in small letters"));
    } else if name.contains("://") {
        let name = without_user(name);
        let why = format!("{name} is in a repository, and charts come from this machine or from registries (oci://)");
        return Err(Fault::user(why).hint("fetch it with `helm pull`, then name the archive"));
    } else if path.is_dir() {
        Chart::from_folder(path)
    } else {
        let archive = read_at_most(path, CHART_BYTES_MAX).map_err(|why| {
            Fault::user(format!("cannot read the chart {name}: {why}"))
                .hint("name a folder with a Chart.yaml, a .tgz, or a chart of a registry (oci://...)")
        })?;
        Chart::from_archive(&archive)
    };
    chart.map_err(|why| {
        Fault::user(format!("{name} is no chart: {why}"))
            .hint("a chart is a folder with a Chart.yaml, or a .tgz of one")
    })
}

/// A URL as it may be shown: what stands before an @ may be a password.
fn without_user(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => url.to_owned(),
    }
}

fn read_values(name: &str) -> Result<Vec<u8>, String> {
    if name.contains("://") {
        let name = without_user(name);
        return Err(format!(
            "values are read from files of this machine alone, not from {name}"
        ));
    }
    let read = match name {
        STANDARD_INPUT => read_from(io::stdin().lock(), FILE_BYTES_MAX as u64),
        name => read_at_most(Path::new(name), FILE_BYTES_MAX as u64),
    };
    read.map_err(|why| format!("cannot read the values {name}: {why}"))
}

fn read_at_most(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_from(fs::File::open(path)?, bytes_max)
}

fn read_from(source: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let why = format!("it has more than {} MiB", bytes_max >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{is_release_name, without_user};

    #[test]
    fn names_of_releases_are_those_that_helm_takes() {
        for name in ["a", "1", "a-b.c-1", &"a".repeat(53)] {
            assert!(is_release_name(name), "{name}");
        }
        for name in ["", "-a", "a-", "A", "a_b", "a..b", ".a", "a.-b", &"a".repeat(54)] {
            assert!(!is_release_name(name), "{name}");
        }
    }

    #[test]
    fn a_url_is_shown_without_its_user() {
        assert_eq!(without_user("https://me:p/w@host/a"), "https://host/a");
        assert_eq!(without_user("https://host/a"), "https://host/a");
    }
}
