//! Command lines beside the answers of the real programs.

use serde::Deserialize;

use super::*;

fn parse(args: &[&str]) -> Result<Flags, Exit> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    Flags::parse("prog", &args, &["port", "leader-elect", "class"])
}

#[test]
fn flags_of_our_own_programs_are_read_as_go_reads_them() {
    let flags = parse(&["/usr/local/bin/prog", "--port=443", "--leader-elect", "--class="]).unwrap();
    assert_eq!(flags.parsed::<u16>("port").unwrap(), Some(443));
    assert!(flags.is_on("leader-elect").unwrap());
    assert_eq!(flags.get("class"), None);
}

#[test]
fn unknown_and_missing_flags_end_our_own_programs_by_name() {
    assert_eq!(parse(&["--prot=1"]).unwrap_err().message, "prog: unknown flag: --prot");
    assert_eq!(
        parse(&["prog", "extra"]).unwrap_err().message,
        "prog: unexpected argument: extra"
    );
    let flags = parse(&["--port=many"]).unwrap();
    assert_eq!(
        flags.parsed::<u16>("port").unwrap_err().message,
        "prog: --port cannot be \"many\""
    );
    assert_eq!(
        flags.required("class").unwrap_err().message,
        "prog: --class is required"
    );
}

/// What the real program of some minor versions made of a command line.
#[derive(Debug, Deserialize)]
struct Case {
    program: String,
    from: u32,
    to: u32,
    args: Vec<String>,
    error: Option<String>,
    output: Vec<String>,
    set: Vec<String>,
}

fn programs() -> [&'static Program; 4] {
    use super::super::{etcd, kube_apiserver, kube_controller_manager, kube_scheduler};
    [
        &etcd::PROGRAM,
        &kube_apiserver::PROGRAM,
        &kube_controller_manager::PROGRAM,
        &kube_scheduler::PROGRAM,
    ]
}

fn program(name: &str) -> &'static Program {
    programs().into_iter().find(|program| program.name == name).unwrap()
}

#[test]
fn command_lines_are_read_as_the_real_programs_read_them() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("cases.json")).unwrap();
    assert!(cases.len() > 100);
    for case in &cases {
        let program = program(&case.program);
        for minor in case.from..=case.to {
            let table = Table::of(program.table, minor);
            let parsed = match program.library {
                Library::Pflag => parse::pflag(&table, program.name, &case.args),
                Library::Go => parse::go(&table, &case.args),
            };
            let error = match parsed.stop {
                Some(Stop::Refused(message) | Stop::Unexpected(message)) => Some(message),
                Some(Stop::Help) | None => None,
            };
            assert_eq!(error, case.error, "{case:?} of 1.{minor}");
            assert_eq!(parsed.notes, case.output, "{case:?} of 1.{minor}");
            let set: Vec<&String> = parsed.values.keys().collect();
            assert_eq!(set, case.set.iter().collect::<Vec<_>>(), "{case:?} of 1.{minor}");
        }
    }
}

#[test]
fn every_flag_with_an_effect_or_a_file_is_in_some_version() {
    for program in programs() {
        let known: Vec<&str> = (33..=36)
            .flat_map(|minor| Table::of(program.table, minor).names().collect::<Vec<_>>())
            .collect();
        for flag in program.effective.iter().chain(program.files) {
            assert!(known.contains(flag), "{}: --{flag}", program.name);
        }
    }
}

fn read(name: &str, tag: &str, args: &[&str]) -> (Result<BTreeMap<String, String>, Exit>, Vec<String>) {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let Read { flags, notes } = program(name).read(Some(tag), &args);
    (flags.map(|flags| flags.values), notes)
}

#[test]
fn flags_without_an_effect_are_logged_in_one_line() {
    let args = [
        "/usr/local/bin/kube-controller-manager",
        "--kubeconfig=/k",
        "--cloud-provider=external",
        "--external-cloud-volume-plugin=moon",
        "--cloud_config",
        "/etc/kubernetes/cloudprovider/cloudprovider.conf",
        "--cloud-provider=external",
    ];
    for tag in ["v1.33.0", "v1.34.2", "v1.35.4", "v1.36.0"] {
        let (values, notes) = read("kube-controller-manager", tag, &args);
        let line = "Flags without an effect here: --cloud-config, --cloud-provider, --external-cloud-volume-plugin";
        assert_eq!(notes, [line], "{tag}");
        assert_eq!(values.unwrap()["kubeconfig"], "/k");
    }
}

#[test]
fn lists_add_up_and_of_others_the_last_value_counts() {
    let args = [
        "--controllers=a,b",
        "--controllers",
        "c",
        "--secure-port=1",
        "--secure-port=2",
    ];
    let values = read("kube-controller-manager", "v1.35.0", &args).0.unwrap();
    assert_eq!(values["controllers"], "a,b,c");
    assert_eq!(values["secure-port"], "2");
}

#[test]
fn a_refused_command_line_ends_with_the_real_programs_code_and_words() {
    let end = |name, args: &[&str]| {
        let exit = read(name, "v1.35.0", args).0.unwrap_err();
        (exit.code, exit.message)
    };
    let of = |code, message: &str| (code, message.to_owned());
    assert_eq!(
        end("kube-scheduler", &["--prot=1"]),
        of(1, "Error: unknown flag: --prot")
    );
    assert_eq!(
        end("kube-apiserver", &["--profiling=no"]),
        of(
            1,
            "Error: invalid argument \"no\" for \"--profiling\" flag: strconv.ParseBool: parsing \"no\": invalid syntax"
        )
    );
    assert_eq!(
        end("etcd", &["--prot=1"]),
        of(2, "flag provided but not defined: -prot")
    );
    assert_eq!(end("kube-apiserver", &["--version"]), of(0, "Kubernetes v1.35.0"));
    assert_eq!(
        end("kube-apiserver", &["-h"]),
        of(0, "Usage:\n  kube-apiserver [flags]")
    );
}

/// The container of a hosted component as gardenlet writes it.
fn hosted(component: &str) -> serde_json::Value {
    let goldens = concat!(env!("CARGO_MANIFEST_DIR"), "/../../components/hosted/tests/golden");
    let text = std::fs::read_to_string(format!("{goldens}/{component}.json")).unwrap();
    let workload: serde_json::Value = serde_json::from_str(&text).unwrap();
    workload["spec"]["template"]["spec"]["containers"][0].clone()
}

#[test]
fn every_supported_version_takes_the_command_lines_that_gardenlet_writes() {
    let components = [
        ("etcd-main", "etcd"),
        ("etcd-events", "etcd"),
        ("kube-apiserver", "kube-apiserver"),
        ("kube-controller-manager", "kube-controller-manager"),
        ("kube-scheduler", "kube-scheduler"),
    ];
    for (component, name) in components {
        let container = hosted(component);
        let words = ["command", "args"]
            .into_iter()
            .filter_map(|field| container[field].as_array());
        let words = words.flatten().map(|word| word.as_str().unwrap());
        // A node puts the pod's address there.
        let words: Vec<String> = words.map(|word| word.replace("$(POD_IP)", "10.0.0.2")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for minor in 33..=36 {
            let (flags, notes) = read(name, &format!("v1.{minor}.0"), &words);
            let flags = flags.unwrap_or_else(|exit| panic!("{component} of 1.{minor}: {}", exit.message));
            assert_eq!(flags.len(), words.len() - 1, "{component}: each flag once");
            let deprecated: Vec<&String> = notes.iter().filter(|note| note.contains("deprecated")).collect();
            assert!(deprecated.is_empty(), "{component} of 1.{minor}: {deprecated:?}");
        }
    }
}

#[test]
fn tags_lead_to_the_nearest_known_version() {
    for (tag, minor) in [
        (Some("v1.34.2"), 34),
        (Some("1.35.0"), 35),
        (Some("v1.29.1"), 33),
        (Some("v1.40.0"), 36),
        (Some("latest"), 36),
        (None, 36),
    ] {
        assert_eq!(table::minor(tag), minor, "{tag:?}");
    }
}
