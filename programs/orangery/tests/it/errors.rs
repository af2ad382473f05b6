//! Errors of the program, word for word: what is wrong, what is allowed, one thing to
//! do; and the exit code, 2 for a wrong command line and 1 for all else.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use landscape_data_folder::kubeconfig;
use landscape_local::{apply_all, documents};
use serde_json::json;

use crate::surroundings;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
const HELP: &str = "For more information, try '--help'.";
const FIRST: &str = "hint: start `orangery up` first, or name its folder with --data-dir";
const FOLDER: &str = "hint: name a folder that you may write to with --data-dir";
const ACCOUNT: &str = "hint: name the kubeconfig of the extension's service account with --kubeconfig";

/// A kubeconfig without credentials, for a port on which nothing listens.
const NOWHERE: &str = "\
current-context: a
clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
users: [{name: a, user: {}}]
";

fn orangery(folder: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orangery"));
    command
        .args(words.split_whitespace())
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .env_remove("KUBECONFIG");
    command
}

/// The command ends with this code and prints these lines, and no others but the usage.
fn assert_fails(folder: &Path, words: &str, code: i32, lines: &[&str]) {
    let output = orangery(folder, words).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let printed: Vec<&str> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("Usage:"))
        .collect();
    assert_eq!(
        (output.status.code(), printed),
        (Some(code), lines.to_vec()),
        "orangery {words}"
    );
    assert!(output.stdout.is_empty(), "orangery {words}");
}

#[test]
fn a_wrong_command_line_is_refused_with_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let port = |flag: &str, value: &str| {
        format!("error: invalid value '{value}' for '{flag}': a port is a number from 0 to 65535")
    };
    let (big, word) = (port("--port <PORT>", "70000"), port("--dns-port <DNS_PORT>", "abc"));
    let shoot = |value: &str| {
        format!(
            "error: invalid value '{value}' for '<NAMESPACE/NAME>': a Shoot is named by its namespace and its name, \
             as in garden-local/local; both consist of a-z, 0-9 and -"
        )
    };
    let no_value = |flag: &str| format!("error: a value is required for '{flag}' but none was supplied");
    for (words, lines) in [
        (
            "bogus",
            vec![
                "error: unrecognized subcommand 'bogus'",
                "  tip: the commands are up, apiserver, garden, garden-apiserver, kubeconfig, provider-local, admission-controller, controller-manager, scheduler, gardenlet, resource-manager, node, why, conformance, new, chart, completion, man",
            ],
        ),
        (
            "kubeconfig bogus",
            vec![
                "error: unrecognized subcommand 'bogus'",
                "  tip: the commands are garden, seed, shoot",
            ],
        ),
        (
            "kubeconfig shoot",
            vec![
                "error: the following required arguments were not provided:",
                "  <NAMESPACE/NAME>",
            ],
        ),
        ("kubeconfig shoot local", vec![&shoot("local")]),
        (
            "why a/b c",
            vec!["error: unexpected argument 'c' found: a Shoot is named by one word, as in garden-local/local"],
        ),
        (
            "kubeconfig --data-dir a garden --data-dir b",
            vec!["error: the argument '--data-dir <FOLDER>' cannot be used multiple times"],
        ),
        ("kubeconfig shoot a/b/c", vec![&shoot("a/b/c")]),
        ("kubeconfig shoot a/B", vec![&shoot("a/B")]),
        ("up --bogus", vec!["error: unexpected argument '--bogus' found"]),
        ("up more", vec!["error: unexpected argument 'more' found"]),
        ("up --port 70000", vec![&big]),
        ("up --port", vec![&no_value("--port <PORT>")]),
        ("up --data-dir", vec![&no_value("--data-dir <FOLDER>")]),
        (
            "provider-local",
            vec![
                "error: the following required arguments were not provided:",
                "  --kubeconfig <FILE>",
            ],
        ),
        ("provider-local --kubeconfig k --dns-port abc", vec![&word]),
        (
            "provider-local --kubeconfig k --provider-type=",
            vec![&no_value("--provider-type <PROVIDER_TYPE>")],
        ),
    ] {
        assert_fails(folder.path(), words, 2, &[lines, vec![HELP]].concat());
    }
}

#[test]
fn wrong_seeds_are_refused_with_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let seeds =
        |value: &str| format!("error: invalid value '{value}' for '--seeds <COUNT>': a landscape has 1 to 9 seeds");
    let labels = |value: &str| {
        format!(
            "error: invalid value '{value}' for '--seed-labels <SEED=KEY=VALUE,...>': \
             seeds are labelled as in local-2=env=prod,tier=a"
        )
    };
    for (words, line) in [
        ("up --seeds 0", seeds("0")),
        ("up --seeds 10", seeds("10")),
        ("up --seeds two", seeds("two")),
        ("up --seed-labels local-2", labels("local-2")),
        (
            "kubeconfig seed A",
            "error: invalid value 'A' for '[NAME]': a seed's name consists of a-z, 0-9 and -".to_owned(),
        ),
    ] {
        assert_fails(folder.path(), words, 2, &[&line, HELP]);
    }
}

/// The error for a file that is no YAML.
const NOT_YAML: &str =
    "is not a kubeconfig: failed to parse kubeconfig YAML: error: line 1 column 3: unclosed bracket '{'";
/// The error for one that names no context.
const NO_CONTEXT: &str = "is not a kubeconfig: kubeconfig is incomplete: no current-context";

/// A folder with files that are no kubeconfigs, and one of a landscape that has ended.
fn with_files() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("file", "");
    write("empty/garden.kubeconfig", " \n");
    write("garbage/garden.kubeconfig", "{{{");
    write("hollow/garden.kubeconfig", "kind: Config");
    write("ended/garden.kubeconfig", NOWHERE);
    write("seeds/seed.kubeconfig", NOWHERE);
    write("seeds/seed-local-3.kubeconfig", NOWHERE);
    folder
}

#[test]
fn an_unusable_file_or_folder_is_named_with_a_hint() {
    let folder = with_files();
    for (words, error, hint) in [
        (
            "up --port 0 --data-dir file",
            "the data folder file is a file".to_owned(),
            FOLDER,
        ),
        (
            "up --port 0 --data-dir file/below",
            "cannot create the data folder file/below: Not a directory (os error 20)".to_owned(),
            FOLDER,
        ),
        (
            "kubeconfig garden",
            "cannot read the kubeconfig .orangery/garden.kubeconfig: No such file or directory (os error 2)".to_owned(),
            FIRST,
        ),
        (
            "kubeconfig seed --data-dir file",
            "cannot read the kubeconfig file/seed.kubeconfig: Not a directory (os error 20)".to_owned(),
            FIRST,
        ),
        (
            "kubeconfig seed local-2 --data-dir seeds",
            "there is no seed \"local-2\" in seeds".to_owned(),
            "hint: name one that exists: local, local-3",
        ),
        (
            "up --memory --port 0 --data-dir labels --seeds 2 --seed-labels local-3=env=prod",
            "--seed-labels names seed \"local-3\"; the seeds are local, local-2".to_owned(),
            "hint: name one of them, or ask for more with --seeds",
        ),
        (
            "up --memory --port 0 --data-dir labels --seed-labels local=env=a --seed-labels local=env=b",
            "--seed-labels gives seed local label env twice".to_owned(),
            "hint: leave one of them out",
        ),
        (
            "kubeconfig garden --data-dir empty",
            "the file empty/garden.kubeconfig is empty, not a kubeconfig".to_owned(),
            FIRST,
        ),
        (
            "kubeconfig garden --data-dir garbage",
            format!("garbage/garden.kubeconfig {NOT_YAML}"),
            FIRST,
        ),
        (
            "kubeconfig shoot a/b --data-dir hollow",
            format!("hollow/garden.kubeconfig {NO_CONTEXT}"),
            FIRST,
        ),
        (
            "kubeconfig shoot a/b --data-dir ended",
            "ask for a kubeconfig of Shoot a/b: no answer: Connection refused (os error 111)".to_owned(),
            "hint: the landscape that wrote ended/garden.kubeconfig has ended: start `orangery up` again, \
             or name another folder with --data-dir",
        ),
    ] {
        assert_fails(folder.path(), words, 1, &[&format!("error: {error}"), hint]);
    }
}

#[test]
fn what_apiserver_and_why_are_given_is_named_with_one_thing_to_do() {
    let folder = with_files();
    let policy = "hint: name a file with a Policy of audit.k8s.io/v1 with --audit-policy-file";
    let ended = "hint: the landscape that wrote ended/garden.kubeconfig has ended: start `orangery up` again, or name \
                 another folder with --data-dir";
    for (words, error, hint) in [
        (
            "apiserver --envtest-assets file",
            "the folder file is a file",
            "hint: name a folder that you may write to with --envtest-assets",
        ),
        (
            "apiserver --memory --port 0 --audit-log-path log --audit-policy-file none",
            "the audit policy none cannot be used: No such file or directory (os error 2)",
            policy,
        ),
        (
            "apiserver --memory --port 0 --audit-log-path log --audit-policy-file hollow/garden.kubeconfig",
            "the audit policy hollow/garden.kubeconfig cannot be used: it is no audit policy: error: line 1 column 1: \
             missing field `apiVersion`",
            policy,
        ),
        (
            "apiserver --memory --port 0 --kubelet-certificate-authority file",
            "file of --kubelet-certificate-authority holds no certificate",
            "hint: name a PEM file with the authority's certificate with --kubelet-certificate-authority",
        ),
        (
            "why a/b --data-dir ended",
            "read Shoot a/b: no answer: Connection refused (os error 111)",
            ended,
        ),
        (
            "why controllerinstallation c --data-dir ended",
            "read ControllerInstallation c: no answer: Connection refused (os error 111)",
            ended,
        ),
    ] {
        assert_fails(folder.path(), words, 1, &[&format!("error: {error}"), hint]);
    }
}

#[test]
fn an_unusable_provider_kubeconfig_is_named_with_one_thing_to_do() {
    let folder = with_files();
    for (words, error, hint) in [
        (
            "provider-local --kubeconfig none",
            "cannot read the kubeconfig none: No such file or directory (os error 2)".to_owned(),
            ACCOUNT,
        ),
        (
            "provider-local --kubeconfig empty",
            "cannot read the kubeconfig empty: Is a directory (os error 21)".to_owned(),
            ACCOUNT,
        ),
        (
            "provider-local --kubeconfig file",
            "the file file is empty, not a kubeconfig".to_owned(),
            ACCOUNT,
        ),
        (
            "provider-local --kubeconfig garbage/garden.kubeconfig",
            format!("garbage/garden.kubeconfig {NOT_YAML}"),
            ACCOUNT,
        ),
        (
            "provider-local --kubeconfig hollow/garden.kubeconfig",
            format!("hollow/garden.kubeconfig {NO_CONTEXT}"),
            ACCOUNT,
        ),
    ] {
        assert_fails(folder.path(), words, 1, &[&format!("error: {error}"), hint]);
    }
}

#[test]
fn contents_and_gaps_of_a_running_landscape_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_fails(
        folder.path(),
        &format!("up --port {port} --data-dir other"),
        1,
        &[
            &format!("error: cannot listen on 127.0.0.1:{port}: Address already in use (os error 98)"),
            "hint: end the process that uses the port, or choose another with --port (0 takes a free one)",
        ],
    );
    let mut landscape = orangery(folder.path(), "up --port 0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(landscape.stdout.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("ready")));
    assert_fails(
        folder.path(),
        "up --port 0",
        1,
        &[
            "error: the data folder .orangery is in use by another `orangery up`",
            "hint: end that one, or name another folder with --data-dir",
        ],
    );
    assert_fails(
        folder.path(),
        "kubeconfig shoot garden-local/none",
        1,
        &[
            "error: there is no Shoot garden-local/none",
            "hint: `kubectl --kubeconfig .orangery/garden.kubeconfig get shoots --all-namespaces` lists those there are",
        ],
    );
    without_address(folder.path());
    landscape.kill().unwrap();
    landscape.wait().unwrap();
}

/// A Shoot for which there is no seed has no API server that a kubeconfig could name.
fn without_address(folder: &Path) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let garden = kubeconfig::garden_client(&folder.join(".orangery")).unwrap();
        surroundings::apply(&garden).await;
        let mut shoot = documents(&std::fs::read_to_string(format!("{EXAMPLES}/40-shoot.yaml")).unwrap())
            .unwrap()
            .remove(0);
        shoot["spec"]["seedSelector"] = json!({"matchLabels": {"stands": "nowhere"}});
        apply_all(&garden, vec![shoot]).await.unwrap();
    });
    assert_fails(
        folder,
        "kubeconfig shoot garden-local/local",
        1,
        &[
            "error: Shoot garden-local/local has no address of its API server yet",
            "hint: wait until its creation has succeeded; `orangery why --data-dir .orangery garden-local/local` prints \
             what it waits for",
        ],
    );
}
