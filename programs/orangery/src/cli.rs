//! The command line: names, arguments, help. Never does the work of a command.

mod chart;
mod conformance;
mod garden;
mod garden_apiserver;
mod new;
mod plugins;
mod processes;
mod seeds;
mod servers;

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Command as Definition, CommandFactory, Parser, Subcommand, ValueEnum};
use landscape_local::SEED_FIRST;

pub use chart::{Chart, ChartLint, ChartRegistration, ChartRender, ChartSetting, Pull};
pub use conformance::{Conformance, ReportForm, Secondary};
pub use garden::{GARDEN_DATA_DIR, Garden, GardenController, Switch};
pub use garden_apiserver::GardenApiserver;
pub use new::{New, NewExtension};
pub use plugins::{Plugin, Plugins};
pub use processes::{Gardenlet, NODE_DATA_DIR, Node, OfGarden, ResourceManager};
pub use seeds::SeedLabels;
pub use servers::{AuditLog, Etcd, Kubelets};

/// Where `up` keeps state and kubeconfigs when the user names no folder, below the working directory.
pub const DATA_DIR: &str = ".orangery";

/// Kubernetes clusters as a service, with every cloud behind an extension.
#[derive(Debug, Parser)]
#[command(name = "orangery", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Reads a command line, the name of the program first.
///
/// # Errors
/// What is wrong and what is allowed; also what `--help` and `--version` print.
pub fn parse(words: &[String]) -> Result<Cli, clap::Error> {
    let cli = Cli::try_parse_from(words).map_err(|mut error| {
        if error.kind() == ErrorKind::InvalidSubcommand {
            let allowed = format!("the commands are {}", commands_at(&Cli::command(), words).join(", "));
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![allowed.into()]));
        }
        error
    })?;
    match &cli.command {
        Command::Why(Why {
            subject: Subject::Shoot(_),
            name: Some(extra),
            ..
        }) => Err(refused(
            "why",
            &format!("unexpected argument '{extra}' found: a Shoot is named by one word, as in garden-local/local"),
        )),
        // It is taken before and behind the part: the one would be heeded and the other passed over.
        Command::Kubeconfig(_) if words.iter().filter(|word| is_data_dir(word)).count() > 1 => Err(refused(
            "kubeconfig",
            "the argument '--data-dir <FOLDER>' cannot be used multiple times",
        )),
        _ => Ok(cli),
    }
}

fn is_data_dir(word: &str) -> bool {
    word.split_once('=').map_or(word, |(flag, _)| flag) == "--data-dir"
}

fn refused(command: &str, why: &str) -> clap::Error {
    let mut root = Cli::command();
    root.build();
    match root.find_subcommand_mut(command) {
        Some(command) => command.error(ErrorKind::ArgumentConflict, why),
        None => root.error(ErrorKind::ArgumentConflict, why),
    }
}

/// The commands that may follow the ones among `words`.
fn commands_at(command: &Definition, words: &[String]) -> Vec<String> {
    let next = words.iter().find_map(|word| command.find_subcommand(word));
    match next.filter(|next| next.has_subcommands()) {
        Some(next) => commands_at(next, words),
        None => command.get_subcommands().map(|one| one.get_name().to_owned()).collect(),
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a garden, seeds and the local provider in this process
    Up(Up),
    /// Run a bare Kubernetes in this process: API server and controllers, no garden
    Apiserver(Box<Apiserver>),
    /// Run the garden's API in this process: no seed, and nothing makes clusters of Shoots
    Garden(Box<Garden>),
    /// Run the garden's API behind a kube-apiserver, on an etcd: for production
    GardenApiserver(Box<GardenApiserver>),
    /// Print a kubeconfig for the garden, a seed or a Shoot
    Kubeconfig(Kubeconfig),
    /// Run the local provider as a process of its own
    ProviderLocal(ProviderLocal),
    /// Run the webhooks that confine gardenlets to their seeds as a process of its own
    AdmissionController(OfGarden),
    /// Run the garden's controllers as a process of its own
    ControllerManager(OfGarden),
    /// Run the scheduler as a process of its own
    Scheduler(OfGarden),
    /// Run a gardenlet as a process of its own
    Gardenlet(Gardenlet),
    /// Run gardener-resource-manager as a process of its own
    ResourceManager(ResourceManager),
    /// Join a cluster as a node whose pods run in this process
    Node(Box<Node>),
    /// Say what blocks a Shoot or a ControllerInstallation, who is to act, and one thing to do
    Why(Why),
    /// Validate an extension: do with objects in a seed what gardenlet does, and compare what happens with the contract
    Conformance(Box<Conformance>),
    /// Begin something of your own
    #[command(subcommand)]
    New(New),
    /// Render Helm charts
    #[command(subcommand)]
    Chart(Chart),
    /// Print the completion script of a shell
    Completion(Completion),
    /// Print the manual page of the program or of one of its commands, as roff
    Man(Man),
}

/// Arguments of `orangery up`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  orangery up --example
    A garden, a seed and a Shoot, kept in the folder .orangery.
  orangery up --seeds 3 --seed-labels local-2=env=prod --seed-labels local-3=env=prod,tier=a
    Three seeds, two of them labelled: for seed selectors, policies and taints.
  orangery up --images images.yaml
    Pods of the images that the file maps run as programs of this machine: for an extension of your own.
  orangery up --extension moon
    The extension in the folder moon, as `orangery new extension` writes it: built, installed, and again when it changes.")]
pub struct Up {
    /// Folder for the state, kubeconfigs and the local provider's backups
    #[arg(long, value_name = "FOLDER", default_value = DATA_DIR)]
    pub data_dir: PathBuf,
    /// Keep all state in memory: nothing is left when the process ends, and what the folder holds is left alone
    #[arg(long)]
    pub memory: bool,
    /// Create the example project, cloud profile and Shoot, and follow the Shoot until its operation ends
    #[arg(long)]
    pub example: bool,
    /// Port on 127.0.0.1 for all API servers of the process; 0 takes a free one
    #[arg(long, default_value_t = 6443, value_parser = port)]
    pub port: u16,
    /// How many seeds, named local, local-2, ..., each a Kubernetes with a gardenlet of its own: 1 to 9; by default as
    /// many as the state has, 1 in a new one
    #[arg(long, value_name = "COUNT", value_parser = seeds::count)]
    pub seeds: Option<u8>,
    /// Labels of a seed, as in local-2=env=prod,tier=a; for more seeds, given more often
    #[arg(long, value_name = "SEED=KEY=VALUE,...", value_parser = seeds::labels)]
    pub seed_labels: Vec<SeedLabels>,
    /// File that maps images to programs on disk: the seeds' nodes run them in pods of these images, and start them again
    /// when they change; see docs/programs.md
    #[arg(long, value_name = "FILE")]
    pub images: Option<PathBuf>,
    /// Folder of an extension: it is built, installed by its chart, and reloaded when a file changes; its logs are printed.
    /// May be given several times; see docs/writing-an-extension.md
    #[arg(long = "extension", value_name = "FOLDER")]
    pub extensions: Vec<PathBuf>,
}

/// Where `apiserver` keeps state and kubeconfig when the user names no folder, below the working directory.
pub const APISERVER_DATA_DIR: &str = ".orangery-apiserver";

/// Arguments of `orangery apiserver`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  orangery apiserver --memory --port 0
    A Kubernetes for one session on a free port; nothing of it is left but its kubeconfig.
  orangery apiserver --data-dir k8s --node
    One that is kept in the folder k8s, with a node that pretends to run every image.
  export KUBECONFIG=k8s/admin.kubeconfig
    For kubectl, helm and every other client. With USE_EXISTING_CLUSTER=true, envtest takes it too.
  orangery apiserver --etcd-servers http://127.0.0.1:2379 --data-dir keys
    One whose objects are in an etcd; the folder has its keys and its kubeconfig.
  orangery apiserver --envtest-assets assets && KUBEBUILDER_ASSETS=$PWD/assets go test ./...
    A Go controller's tests, each suite with a Kubernetes of its own.")]
pub struct Apiserver {
    /// Folder for the state and for admin.kubeconfig
    #[arg(long, value_name = "FOLDER", default_value = APISERVER_DATA_DIR)]
    pub data_dir: PathBuf,
    /// Keep all state in memory: nothing is left when the process ends, and what the folder holds is left alone
    #[arg(long)]
    pub memory: bool,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 6443, value_parser = port)]
    pub port: u16,
    /// Add a node: pods of every image are pretended to run, and say so
    #[arg(long)]
    pub node: bool,
    /// The node's name; processes on the same etcd that have a node each name them differently
    #[arg(long, value_name = "NAME", default_value = "orangery-0", requires = "node", value_parser = node_name)]
    pub node_name: String,
    /// File that maps images to programs on disk: the node runs them in pods of these images; see docs/programs.md
    #[arg(long, value_name = "FILE", requires = "node")]
    pub images: Option<PathBuf>,
    /// Keep objects in an etcd instead of the data folder
    #[command(flatten)]
    pub etcd: Etcd,
    /// How logs are requested from nodes of other processes
    #[command(flatten)]
    pub kubelets: Kubelets,
    /// The audit log
    #[command(flatten)]
    pub audit: AuditLog,
    /// Start nothing: write programs called etcd and kube-apiserver into this folder, for envtest's KUBEBUILDER_ASSETS
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["data_dir", "memory", "port", "node", "etcd_servers"])]
    pub envtest_assets: Option<PathBuf>,
}

/// Arguments of `orangery kubeconfig`.
#[derive(Args, Debug)]
pub struct Kubeconfig {
    /// The folder that `orangery up` was started with
    #[arg(long, value_name = "FOLDER", default_value = DATA_DIR, global = true)]
    pub data_dir: PathBuf,
    /// Whose API server
    #[command(subcommand)]
    pub of: KubeconfigOf,
}

/// Whose kubeconfig is asked for.
#[derive(Debug, Subcommand)]
pub enum KubeconfigOf {
    /// The garden: projects, cloud profiles, Shoots
    Garden,
    /// A seed: control planes and extension resources
    Seed {
        /// Name of the seed
        #[arg(value_name = "NAME", default_value = SEED_FIRST, value_parser = seed_name)]
        seed: String,
    },
    /// A Shoot: a fresh administrator's certificate that is valid for an hour
    Shoot {
        /// The Shoot, as NAMESPACE/NAME
        #[arg(value_name = "NAMESPACE/NAME", value_parser = shoot_name)]
        shoot: ShootRef,
    },
}

/// A Shoot named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShootRef {
    /// The project's namespace.
    pub namespace: String,
    /// The Shoot's name.
    pub name: String,
}

/// Arguments of `orangery provider-local`.
#[derive(Args, Debug)]
pub struct ProviderLocal {
    /// Kubeconfig of the extension's service account in the seed
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: PathBuf,
    /// The type under which the provider is registered
    #[arg(long, default_value = "local", value_parser = NonEmptyStringValueParser::new())]
    pub provider_type: String,
    /// Data folder: the one of `orangery up` where that runs on this machine; backups lie below it
    #[arg(long, value_name = "FOLDER", default_value = DATA_DIR)]
    pub data_dir: PathBuf,
    /// Port on 127.0.0.1 for DNS queries; 0 takes a free one
    #[arg(long, default_value_t = 0, value_parser = port)]
    pub dns_port: u16,
}

/// Arguments of `orangery why`.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes: 0 the object is healthy or being worked on; 1 it does not exist, or the garden cannot be reached; \
2 the command line is wrong; 3 something blocks it, or its state is unknown.")]
pub struct Why {
    /// The Shoot, as NAMESPACE/NAME; or the word controllerinstallation, with a NAME behind it
    #[arg(value_name = "NAMESPACE/NAME", value_parser = subject)]
    pub subject: Subject,
    /// The ControllerInstallation
    #[arg(value_name = "NAME", required_if_eq("subject", CONTROLLER_INSTALLATION))]
    pub name: Option<String>,
    /// The folder that `orangery up` was started with
    #[arg(long, value_name = "FOLDER", default_value = DATA_DIR)]
    pub data_dir: PathBuf,
    /// The form of the answer: text for people, json for programs
    #[arg(long, value_name = "FORM", value_enum, default_value_t = OutputForm::Text)]
    pub output: OutputForm,
}

/// The word before the name of a ControllerInstallation.
const CONTROLLER_INSTALLATION: &str = "controllerinstallation";

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// This Shoot.
    Shoot(ShootRef),
    /// The ControllerInstallation whose name comes next.
    ControllerInstallation,
}

fn subject(text: &str) -> Result<Subject, String> {
    match text {
        CONTROLLER_INSTALLATION => Ok(Subject::ControllerInstallation),
        _ => shoot_name(text)
            .map(Subject::Shoot)
            .map_err(|why| format!("{why}; or it is the word {CONTROLLER_INSTALLATION}, with a NAME behind it")),
    }
}

/// Forms of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputForm {
    /// For people: lines as wide as the terminal, 80 columns in a pipe
    Text,
    /// For programs
    Json,
}

/// Arguments of `orangery completion`.
#[derive(Args, Debug)]
pub struct Completion {
    /// The shell: bash, zsh or fish
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

/// Shells that can complete our command lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// For bash, to be sourced
    Bash,
    /// For zsh, as `_orangery` in a folder of `$fpath`
    Zsh,
    /// For fish, as `orangery.fish` in its folder of completions
    Fish,
}

/// Arguments of `orangery man`.
#[derive(Args, Debug)]
pub struct Man {
    /// The command, as it is typed; without it, the program
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

fn port(text: &str) -> Result<u16, String> {
    text.parse()
        .map_err(|_| "a port is a number from 0 to 65535".to_owned())
}

fn node_name(text: &str) -> Result<String, String> {
    match is_name(text) && text.len() <= 63 && !text.starts_with('-') && !text.ends_with('-') {
        true => Ok(text.to_owned()),
        false => Err("a node's name has at most 63 letters of a-z, 0-9 and -, the last not at an end".to_owned()),
    }
}

fn seed_name(text: &str) -> Result<String, String> {
    match is_name(text) {
        true => Ok(text.to_owned()),
        false => Err("a seed's name consists of a-z, 0-9 and -".to_owned()),
    }
}

fn shoot_name(text: &str) -> Result<ShootRef, String> {
    match text.split_once('/') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => Ok(ShootRef {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
        _ => Err(
            "a Shoot is named by its namespace and its name, as in garden-local/local; \
             both consist of a-z, 0-9 and -"
                .to_owned(),
        ),
    }
}

/// Whether an object of the garden could be called so.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Cli, Command, KubeconfigOf};

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn surplus_words_and_a_repeated_data_folder_are_refused_before_any_read() {
        let refusal = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            super::parse(&words).unwrap_err().to_string()
        };
        let extra = refusal("orangery why a/b c");
        assert!(
            extra.contains("'c'") && extra.contains("Usage: orangery why"),
            "{extra}"
        );
        for twice in [
            "orangery kubeconfig --data-dir a garden --data-dir b",
            "orangery kubeconfig --data-dir=a garden --data-dir=b",
        ] {
            let refusal = refusal(twice);
            assert!(
                refusal.contains("--data-dir <FOLDER>' cannot be used multiple"),
                "{refusal}"
            );
        }
        let neither = refusal("orangery why shoot");
        assert!(neither.contains("the word controllerinstallation"), "{neither}");
    }

    #[test]
    fn the_data_folder_may_stand_before_or_after_the_part() {
        for words in [
            ["kubeconfig", "--data-dir", "d", "garden"],
            ["kubeconfig", "garden", "--data-dir", "d"],
        ] {
            let parsed = Cli::try_parse_from(std::iter::once("orangery").chain(words)).unwrap();
            let Command::Kubeconfig(arguments) = parsed.command else {
                panic!("another command")
            };
            assert_eq!(arguments.data_dir.as_os_str(), "d");
        }
    }

    #[test]
    fn a_shoot_is_named_by_namespace_and_name() {
        let parsed = Cli::try_parse_from(["orangery", "kubeconfig", "shoot", "garden-a/b"]).unwrap();
        let Command::Kubeconfig(arguments) = parsed.command else {
            panic!("another command")
        };
        let KubeconfigOf::Shoot { shoot } = arguments.of else {
            panic!("another kubeconfig")
        };
        assert_eq!((shoot.namespace.as_str(), shoot.name.as_str()), ("garden-a", "b"));
        for wrong in ["b", "/b", "a/", "a/b/c", "a/B", "a b/c"] {
            let error = Cli::try_parse_from(["orangery", "kubeconfig", "shoot", wrong])
                .unwrap_err()
                .to_string();
            assert!(error.contains("garden-local/local"), "{error}");
        }
    }
}
