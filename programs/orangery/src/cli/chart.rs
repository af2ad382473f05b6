//! The arguments of `orangery chart`; named as Helm names them.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use secrecy::SecretString;

/// What is done with a chart.
#[derive(Debug, Subcommand)]
pub enum Chart {
    /// Print the objects that a chart makes, as `helm template` does
    Render(Box<ChartRender>),
    /// Say what a ControllerDeployment with a chart would trip over
    Lint(Box<ChartLint>),
    /// Print the ControllerDeployment and the ControllerRegistration that install a chart as an extension
    Registration(Box<ChartRegistration>),
}

/// Values of a chart, and what it is rendered for; named as Helm names them.
#[derive(Args, Debug)]
pub struct ChartSetting {
    /// File of values in YAML, - for standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    pub values: Vec<String>,
    /// Values: `name=value,list[0]=value,outer.inner=value`
    #[arg(long, value_name = "VALUES")]
    pub set: Vec<String>,
    /// Values that are texts whatever they look like
    #[arg(long, value_name = "VALUES")]
    pub set_string: Vec<String>,
    /// Values in JSON: `name={"a":1}`, or a whole object
    #[arg(long, value_name = "VALUES")]
    pub set_json: Vec<String>,
    /// Values that are the texts of files: name=file
    #[arg(long, value_name = "VALUES")]
    pub set_file: Vec<String>,
    /// One value that is all behind the =, whatever characters it has
    #[arg(long, value_name = "VALUE")]
    pub set_literal: Vec<String>,
    /// The cluster's version in .Capabilities.KubeVersion; by default the one that Helm assumes
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,
    /// API versions in .Capabilities.APIVersions, beside those of Kubernetes; separated by commas
    #[arg(short, long, value_name = "VERSIONS", value_delimiter = ',')]
    pub api_versions: Vec<String>,
    /// How a chart is fetched from a registry
    #[command(flatten)]
    pub pull: Pull,
}

/// Arguments of `orangery chart render`; named as Helm names them.
#[derive(Args, Debug)]
#[command(
    // Helm's --version is the chart's.
    disable_version_flag = true,
    override_usage = "orangery chart render [OPTIONS] [NAME] <CHART>",
    after_help = "\
Values: those of the chart's values.yaml, then --values, --set-json, --set, --set-string, --set-file, --set-literal; what comes \
later wins, and so does the later of two of a kind.

Registries are reached through the proxies that HTTPS_PROXY and HTTP_PROXY name, but for the hosts in NO_PROXY.

Examples:
  orangery chart render charts/provider-local
    The objects of a chart with its own values, for a release called release-name.
  orangery chart render db postgresql-16.2.1.tgz -f prod.yaml --set primary.replicas=3 -n databases
    Those of an archive, for a release db, with a file of values and one value more.
  orangery chart render charts/operator --include-crds --kube-version 1.32 | kubectl apply -f -
    Straight into a cluster, definitions first.
  orangery chart render db oci://registry.example/charts/postgresql --version ^16.2
    The highest version of a registry that a constraint allows."
)]
pub struct ChartRender {
    /// The release's name, release-name if there is none; then the chart: a folder, an archive (.tgz) or oci://...
    #[arg(value_names = ["NAME", "CHART"], num_args = 1..=2, required = true)]
    pub name_and_chart: Vec<String>,
    /// Values and versions
    #[command(flatten)]
    pub setting: ChartSetting,
    /// The release's namespace
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Print the definitions below crds/ first
    #[arg(long)]
    pub include_crds: bool,
    /// Leave hooks out
    #[arg(long)]
    pub no_hooks: bool,
    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    pub is_upgrade: bool,
}

/// How a chart is fetched from a registry (oci://...); named as Helm names it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Charts from registries")]
pub struct Pull {
    /// The chart's version, or a constraint as in ^1.2; by default the highest release
    #[arg(long, value_name = "VERSION")]
    pub version: Option<String>,
    /// User of the registry; by default the credentials that `helm registry login` and `docker login` have stored
    #[arg(long, value_name = "USER")]
    pub username: Option<String>,
    /// The user's password; others on the machine may see it here
    #[arg(
        long,
        value_name = "PASSWORD",
        requires = "username",
        conflicts_with = "password_stdin"
    )]
    pub password: Option<SecretString>,
    /// Read the user's password from standard input
    #[arg(long, requires = "username")]
    pub password_stdin: bool,
    /// PEM file with authorities of registries, beside those of the machine
    #[arg(long, value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// PEM file with the certificate that is shown to registries which want one
    #[arg(long, value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,
    /// PEM file with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,
    /// Believe any certificate of the registry: whoever is on the way can read and change all
    #[arg(long)]
    pub insecure_skip_tls_verify: bool,
    /// Ask the registry over HTTP, in the open
    #[arg(long)]
    pub plain_http: bool,
}

/// Arguments of `orangery chart lint`.
#[derive(Args, Debug)]
#[command(
    // Helm's --version is the chart's.
    disable_version_flag = true,
    override_usage = "orangery chart lint [OPTIONS] [NAME] <CHART>",
    after_help = "\
The chart is rendered as a gardenlet renders it: with the values below `gardener` that every chart of an extension gets (those of \
an example seed), in a namespace called after NAME. Its objects are shown to an empty Kubernetes in memory that \
knows the kinds of this product; no cluster is needed and nothing is stored.

Examples:
  orangery chart lint charts/gardener-extension-provider-x
    What is wrong with a chart and its own values; exits with 1 if a ControllerDeployment could not be installed.
  orangery chart lint provider-x provider-x-1.2.3.tgz -f values.yaml --strict
    With the values of a ControllerDeployment; warnings count as errors."
)]
pub struct ChartLint {
    /// The name of the ControllerRegistration, that of the chart if there is none; then the chart: a folder, an archive (.tgz) or oci://...
    #[arg(value_names = ["NAME", "CHART"], num_args = 1..=2, required = true)]
    pub name_and_chart: Vec<String>,
    /// Values and versions
    #[command(flatten)]
    pub setting: ChartSetting,
    /// Exit with 1 if there are warnings
    #[arg(long)]
    pub strict: bool,
}

/// Arguments of `orangery chart registration`.
#[derive(Args, Debug)]
#[command(
    // Helm's --version is the chart's.
    disable_version_flag = true,
    override_usage = "orangery chart registration [OPTIONS] --resource <KIND/TYPE> [NAME] <CHART>",
    after_help = "\
A chart of this machine is packed into the ControllerDeployment; of a chart in a registry, repository and version are written. \
Values go into the ControllerDeployment; the chart's own stay in the chart. The same arguments print the same manifests.

Examples:
  orangery chart registration charts/my-extension --resource Extension/my-type | kubectl apply -f -
    Registers the extension with the garden; apply again after each change of the chart.
  orangery chart registration provider-x oci://registry.example/charts/provider-x --version 1.2.3 \\
      --resource Infrastructure/x --resource Worker/x -f values.yaml --policy Always > provider-x.yaml
    From a registry, for two kinds, on every seed."
)]
pub struct ChartRegistration {
    /// The name of both objects, that of the chart if there is none; then the chart: a folder, an archive (.tgz) or oci://...
    #[arg(value_names = ["NAME", "CHART"], num_args = 1..=2, required = true)]
    pub name_and_chart: Vec<String>,
    /// A kind of extensions.gardener.cloud and a type that the extension is responsible for; may be repeated
    #[arg(long, value_name = "KIND/TYPE", required = true)]
    pub resource: Vec<String>,
    /// Another extension has the main responsibility for these kinds and types
    #[arg(long)]
    pub secondary: bool,
    /// When it is installed: OnDemand (by default), Always or AlwaysExceptNoShoots
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Values, and how the chart is fetched
    #[command(flatten)]
    pub setting: ChartSetting,
}
