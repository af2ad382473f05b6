//! Starts suites of tests that are programs of their own: they need the product and real parts, this tool does not.

use std::path::PathBuf;
use std::process::Command;

use clap::ValueEnum;

use crate::process::{call, call_watching, cargo};
use crate::{Outcome, cache, real};

/// Which tests, and which of them.
#[derive(clap::Args)]
pub(crate) struct Test {
    /// The suite
    suite: Suite,
    /// Only cases whose name contains this text
    filter: Option<String>,
    /// Show what the real server answers
    #[arg(long)]
    show: bool,
    /// Print what differs as it would stand in the table of known differences
    #[arg(long)]
    propose: bool,
    /// Let the embedded server keep its objects in an etcd of its own
    #[arg(long)]
    etcd: bool,
    /// How many of each kind of bad input the embedded server gets before its memory is looked at; with the filter `flood`
    /// nothing else is done
    #[arg(long, value_name = "N")]
    each: Option<usize>,
    /// Run no cases: start real Kubernetes with its controllers and scheduler, write its kubeconfig to this file, and end
    /// with Ctrl-C
    #[arg(long, value_name = "FILE", conflicts_with_all = ["filter", "show", "propose"])]
    serve: Option<PathBuf>,
}

/// How many drawn sequences run with the cases, and where they begin: the same in every run, so that what fails is a change.
const DRAWN: [&str; 4] = ["--sequences", "3000", "--seed", "1"];

/// What the names of kubectl's scripts begin with.
const KUBECTL: &str = "kubectl";
/// Names a kubectl that the scripts run instead of Debian's.
const KUBECTL_VARIABLE: &str = "ORANGERY_KUBECTL";

/// The test of the example operator in Python.
const OPERATOR: &str = "operator-python";
/// The tests of kubectl exec and port-forward with programs.
pub(crate) const EXEC: &str = "exec";
/// The conformance kit against extensions that are processes.
const KIT: &str = "conformance-kit";
/// What gardenlet creates in a seed, given to real kube-apiserver.
const MANIFESTS: &str = "manifests";
/// A Shoot whose control plane is the real programs.
pub(crate) const REAL_SHOOT: &str = "real-shoot";
/// The tests of the production form.
pub(crate) const PRODUCTION: &str = "production";
/// The tests of the example extensions.
pub(crate) const EXTENSIONS: &str = "example-extensions";

/// Sequences of requests drawn from a seed, and nothing else.
#[derive(clap::Args)]
pub(crate) struct Drawn {
    /// So many sequences
    #[arg(long, value_name = "N", default_value_t = 3000)]
    cases: u64,
    /// Where all that is drawn begins: a seed has the same sequences whenever it is used
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only the sequence of this number
    #[arg(long, value_name = "NUMBER")]
    only: Option<u64>,
}

/// A suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The same requests to real Kubernetes and to the embedded API server
    Conformance,
    /// Real clients (kubectl, Helm, client-go, Python's) through the same scripts against both, a Go controller's tests on
    /// both, the example operator and extensions beside `orangery up`, kubectl exec and port-forward with a program, the manifests
    /// of control planes, a Shoot whose control plane is real programs, and the conformance kit against extensions in Go, Python
    /// and Rust (alone with the filters `operator-python`, `example-extensions`, `exec`, `manifests`, `real-shoot` and
    /// `conformance-kit`)
    Clients,
    /// Two of our nodes in a real cluster: real scheduler and controllers place pods on them, kube-apiserver reads their
    /// logs. And a program on kube-rs' runtime, on real Kubernetes and on a bare cluster
    Node,
    /// On real kube-apiserver: gardener-resource-manager's cases of plain objects, who may write the status of extension
    /// objects, and extensions' webhooks whose certificate is replaced under load
    ManagedResources,
    /// Templates: all cases and 20,000 drawn ones, what Go makes of them and what we do
    Gotemplate,
    /// The suite of all stores on a real etcd, etcd killed in the middle of its work, and `orangery apiserver` on it
    Stores,
    /// YAML, values and charts: all cases and 20,000 drawn ones, what Helm makes of them and what we do
    Helm,
    /// Charts that people use, with their own values and with each switch turned: what Helm renders and what we do
    Charts,
    /// Our programs as processes beside real etcd and kube-apiserver, with the rights of their manifests and no more
    Production,
    /// Charts that real Helm pushes to a real registry with TLS and passwords, pulled, damaged, cut off; what
    /// `orangery chart render` makes of them beside `helm template`; and how gardenlet installs them
    Registry,
}

pub(crate) fn run(test: &Test) -> Outcome {
    match test.suite {
        Suite::Conformance => conformance(test),
        Suite::Clients => clients(test),
        Suite::Node => on_kubernetes(test, &["node", "kube-rs"]),
        Suite::ManagedResources => {
            on_kubernetes(test, &["managed-resources", "extension-status", "extension-webhooks"])
        }
        Suite::Stores => stores(test),
        Suite::Gotemplate => cases_beside_helm(test, "tests-gotemplate"),
        Suite::Helm => cases_beside_helm(test, "tests-helm"),
        Suite::Charts => beside_helm(
            test,
            &[real::Part::Helm, real::Part::Charts],
            &["tests-helm", "--", "--real"],
        ),
        Suite::Registry => registry(test),
        Suite::Production => production(test),
    }
}

/// What a suite cannot do.
fn refuse(flag: &str, is_set: bool) -> Outcome {
    match is_set {
        true => Err(format!("{flag} is for `cargo xtask test conformance`: leave it out")),
        false => Ok(()),
    }
}

fn clients(test: &Test) -> Outcome {
    refuse("--propose", test.propose)?;
    refuse("--etcd", test.etcd)?;
    refuse("--each", test.each.is_some())?;
    refuse("--serve", test.serve.is_some())?;
    match test.filter.as_deref() {
        Some(OPERATOR) => return beside_up(OPERATOR),
        Some(EXTENSIONS) => return extensions(),
        Some(KIT) => return kit(),
        Some(EXEC) => return beside_up(EXEC),
        Some(MANIFESTS) => return control_planes(&[MANIFESTS]),
        Some(REAL_SHOOT) => return control_planes(&[REAL_SHOOT]),
        _ => {}
    }
    real::prepare(&[real::Part::Kubectl, real::Part::Kubernetes, real::Part::Clients])?;
    let scripts = |filter: Option<&str>| {
        let mut command = cargo();
        command.args(["run", "--quiet", "--package", "tests-clients", "--"]);
        command.args(filter);
        if test.show {
            command.arg("--show");
        }
        command
    };
    let filter = test.filter.as_deref();
    call(&mut scripts(filter))?;
    // Debian's kubectl has had its turn, now the newest.
    if filter.is_none_or(|filter| filter.starts_with(KUBECTL)) {
        let kubectl = real::clients::newest_kubectl()?;
        println!("> the same with {}", kubectl.display());
        call(scripts(filter.or(Some(KUBECTL))).env(KUBECTL_VARIABLE, kubectl))?;
    }
    // The tests of a controller are no script: they run as a whole or not at all. Those of an operator likewise.
    match test.filter {
        None => beside_up(OPERATOR)
            .and_then(|()| beside_up(EXEC))
            .and_then(|()| extensions())
            .and_then(|()| kit())
            .and_then(|()| control_planes(&[MANIFESTS, REAL_SHOOT]))
            .and_then(|()| envtest()),
        Some(_) => Ok(()),
    }
}

/// Tests of examples beside `orangery up`: they install, change and remove an extension, and are killed in between.
fn beside_up(test: &str) -> Outcome {
    real::run(Some(real::Part::Kubectl))?;
    call(cargo().args(["build", "--package", "programs-orangery"]))?;
    call(cargo().args(["test", "--quiet", "--package", "tests-clients", "--test", test]))
}

/// Tests of control planes on the real programs of Kubernetes and etcd.
fn control_planes(tests: &[&str]) -> Outcome {
    real::run(Some(real::Part::Kubernetes))?;
    tests.iter().try_for_each(|test| beside_up(test))
}

fn extensions() -> Outcome {
    real::clients::extension_go()?;
    beside_up(EXTENSIONS)
}

/// The conformance kit against the examples, and against a provider of ours as a program.
fn kit() -> Outcome {
    real::clients::extension_go()?;
    let packages = [
        "--package",
        "programs-orangery",
        "--package",
        "extensions-provider-fake",
    ];
    call(cargo().arg("build").args(packages))?;
    call(cargo().args(["test", "--quiet", "--package", "tests-clients", "--test", KIT]))
}

/// The same tests with real kube-apiserver and etcd, and with ours in their place.
fn envtest() -> Outcome {
    let cache = cache::folder()?;
    let ours = cache.join("real/envtest-ours");
    let mut write = cargo();
    write.args([
        "run",
        "--quiet",
        "--package",
        "programs-orangery",
        "--",
        "apiserver",
        "--envtest-assets",
    ]);
    call(write.arg(&ours))?;
    for assets in [cache.join("real/kubernetes"), ours] {
        call(&mut real::clients::envtest_example(&assets))?;
    }
    Ok(())
}

/// Runs drawn sequences.
pub(crate) fn drawn(drawn: &Drawn) -> Outcome {
    let mut command = program()?;
    command.args(["generated", "--sequences", &drawn.cases.to_string()]);
    command.args(["--seed", &drawn.seed.to_string()]);
    if let Some(only) = drawn.only {
        command.args(["--only", &only.to_string()]);
    }
    call(&mut command)
}

/// The program that compares, when real Kubernetes is there.
fn program() -> Outcome<Command> {
    real::run(Some(real::Part::Kubernetes))?;
    let mut command = cargo();
    // Not by its package: with the features that the whole workspace is built with, so that nothing is built twice.
    command.args(["run", "--quiet", "--bin", "tests-conformance", "--"]);
    Ok(command)
}

/// Cases and drawn sequences as a gate runs them, with every line that is printed.
pub(crate) fn compare(read: impl FnMut(&str)) -> Outcome {
    let mut command = program()?;
    call_watching(command.arg("--again").args(DRAWN), read)
}

fn conformance(test: &Test) -> Outcome {
    let mut command = program()?;
    command.args(&test.filter);
    if test.filter.is_none() && test.serve.is_none() {
        command.args(DRAWN);
    }
    for (flag, is_set) in [
        ("--show", test.show),
        ("--propose", test.propose),
        ("--etcd", test.etcd),
    ] {
        if is_set {
            command.arg(flag);
        }
    }
    if let Some(each) = test.each {
        command.args(["--each", &each.to_string()]);
    }
    if let Some(kubeconfig) = &test.serve {
        command.arg("--serve").arg(kubeconfig);
    }
    call(&mut command)
}

/// Tests of `tests-clients` that start real Kubernetes.
fn on_kubernetes(test: &Test, tests: &[&str]) -> Outcome {
    refuse_all(test)?;
    real::run(Some(real::Part::Kubernetes))?;
    let mut command = cargo();
    command.args(["test", "--quiet", "--package", "tests-clients"]);
    command.args(tests.iter().flat_map(|name| ["--test", name]));
    command.args(&test.filter);
    call(&mut command)
}

fn production(test: &Test) -> Outcome {
    refuse_all(test)?;
    prepare_production()?;
    call(cargo().args(["build", "--package", "programs-orangery"]))?;
    let mut command = cargo();
    command.args([
        "test",
        "--quiet",
        "--package",
        "tests-production",
        "--test",
        PRODUCTION,
        "--",
    ]);
    // Each starts a Kubernetes of its own: not more of them at once than a small machine bears.
    command.args(["--test-threads", "2"]);
    call(command.args(&test.filter))
}

/// The real parts that the tests of the production form need.
pub(crate) fn prepare_production() -> Outcome {
    real::prepare(&[real::Part::Kubectl, real::Part::Kubernetes])?;
    real::clients::helm()
}

fn refuse_all(test: &Test) -> Outcome {
    refuse("--show", test.show)?;
    refuse("--propose", test.propose)?;
    refuse("--etcd", test.etcd)?;
    refuse("--each", test.each.is_some())?;
    refuse("--serve", test.serve.is_some())
}

/// Cases with Helm's or Go's answers; without a filter drawn ones, too.
fn cases_beside_helm(test: &Test, program: &str) -> Outcome {
    let all: &[&str] = match test.filter {
        Some(_) => &[program, "--"],
        None => &[program, "--", "--drawn", "20000"],
    };
    beside_helm(test, &[real::Part::Helm], all)
}

/// A suite whose answers are Helm's and Go's: the program that compares, and its arguments.
fn beside_helm(test: &Test, parts: &[real::Part], words: &[&str]) -> Outcome {
    refuse_all(test)?;
    real::prepare(parts)?;
    let mut command = cargo();
    // Not by its package: with the features that the whole workspace is built with, so that nothing is built twice.
    command.args(["run", "--quiet", "--bin"]).args(words);
    call(command.args(&test.filter))
}

fn stores(test: &Test) -> Outcome {
    // The store, then a server on it.
    on_part(test, real::Part::Etcd, "etcd", &["tests-stores", "programs-orangery"])
}

fn registry(test: &Test) -> Outcome {
    // The client, then the command, then gardenlet.
    on_part(
        test,
        real::Part::Registry,
        "registry",
        &["tests-helm", "programs-orangery", "tests-scenarios"],
    )
}

/// Runs the tests of that name in these packages, which start the part themselves.
fn on_part(test: &Test, part: real::Part, name: &str, packages: &[&str]) -> Outcome {
    refuse_all(test)?;
    real::run(Some(part))?;
    for package in packages {
        let mut command = cargo();
        command.args(["test", "--quiet", "--package", package, "--test", name, "--"]);
        // Each starts one of its own: not more of them at once than a small machine bears.
        command.args(["--test-threads", "2"]);
        command.args(&test.filter);
        call(&mut command)?;
    }
    Ok(())
}
