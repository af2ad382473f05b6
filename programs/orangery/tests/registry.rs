//! `orangery chart render oci://...` beside `helm template oci://...`: the same objects for charts in a real registry with TLS and a
//! password, and the errors for those that do not exist. Run by `cargo xtask test registry`, which prepares both
//! programs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use tests_kit::{Helm, Proxy, Registry, fed};

const FILES: [(&str, &[u8]); 2] = [
    ("values.yaml", b"replicas: 1\n"),
    (
        "templates/map.yaml",
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  chart: {{ .Chart.Version | quote }}\n  \
          replicas: {{ .Values.replicas | quote }}\n",
    ),
];

fn orangery(helm: &Helm, words: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orangery"));
    command.args(["chart", "render"]).args(words);
    let variables = helm.variables().iter().cloned();
    fed(command.env_clear().env("HOME", helm.home()).envs(variables), input).unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_chart_of_a_registry_renders_as_helm_renders_it() {
    let (registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    let mut digests = Vec::new();
    for version in ["1.0.0", "1.2.0+b.1", "2.0.0-rc.1"] {
        digests.push(helm.push(&registry, "web", version, &FILES).unwrap());
    }
    let access = Helm::access(&registry);
    let access: Vec<&str> = access.iter().map(String::as_str).collect();
    let chart = format!("oci://{}/charts/web", registry.host());
    let tagged = format!("{chart}:1.0.0");
    let pinned = format!("{chart}@{}", digests[0]);
    let cases: [&[&str]; 7] = [
        &["web", &chart],
        &["web", &chart, "--version", "1.2.0+b.1"],
        &["web", &chart, "--version", "^1.0"],
        &["web", &chart, "--version", ">=2-0", "--set", "replicas=3"],
        &["web", &tagged],
        &["web", &pinned],
        &["web", &tagged, "--version", "1.0.0"],
    ];
    for words in cases {
        let words = [words, &access].concat();
        let helms = helm.prints(&[vec!["template"], words.clone()].concat()).unwrap();
        let ours = orangery(&helm, &words, "");
        assert_eq!(
            (ours.status.code(), printed(&ours).as_str()),
            (Some(0), ""),
            "{words:?}"
        );
        assert_eq!(String::from_utf8_lossy(&ours.stdout), helms, "{words:?}");
    }
    for words in [
        &["web", &chart, "--version", "3.0.0"][..],
        &["web", &chart, "--version", ">3"],
        &["web", &chart, "--version", "one"],
        &["web", &tagged, "--version", "1.2.0"],
        &["web", "oci://nowhere", "--version", "1.2.0"],
    ] {
        let words = [words, &access].concat();
        assert!(
            helm.prints(&[vec!["template"], words.clone()].concat()).is_err(),
            "{words:?}"
        );
        let ours = orangery(&helm, &words, "");
        assert_eq!(
            (ours.status.code(), ours.stdout.len()),
            (Some(1), 0),
            "{words:?}: {}",
            printed(&ours)
        );
        assert!(printed(&ours).contains("\nhint: "), "{words:?}: {}", printed(&ours));
    }
}

#[test]
fn a_tag_that_is_no_version_is_taken_where_helm_refuses_it() {
    let (registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    helm.push(&registry, "web", "1.0.0", &FILES).unwrap();
    let tags = registry.storage().join("repositories/charts/web/_manifests/tags");
    let link = std::fs::read(tags.join("1.0.0/current/link")).unwrap();
    std::fs::create_dir_all(tags.join("latest/current")).unwrap();
    std::fs::write(tags.join("latest/current/link"), link).unwrap();
    let access = Helm::access(&registry);
    let access: Vec<&str> = access.iter().map(String::as_str).collect();
    let [latest, first] = ["latest", "1.0.0"].map(|tag| format!("oci://{}/charts/web:{tag}", registry.host()));
    let why = helm
        .prints(&[&["template", &latest], access.as_slice()].concat())
        .unwrap_err();
    assert!(why.contains("improper constraint: latest"), "{why}");
    let [latest, first] =
        [latest, first].map(|chart| orangery(&helm, &[&[chart.as_str()], access.as_slice()].concat(), ""));
    assert_eq!(
        (latest.status.code(), &latest.stdout),
        (Some(0), &first.stdout),
        "{}",
        printed(&latest)
    );
}

#[test]
fn credentials_come_from_flags_from_standard_input_and_from_what_helm_has_stored() {
    let (mut registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    let digest = helm.push(&registry, "web", "1.0.0", &FILES).unwrap();
    let host = registry.host();
    let chart = format!("oci://{host}/charts/web");
    let authority = registry.authority_file().display().to_string();
    let of = |words: &[&str], input: &str| {
        orangery(
            &helm,
            &[&[chart.as_str(), "--ca-file", &authority], words].concat(),
            input,
        )
    };

    let anonymous = of(&[], "");
    assert!(
        printed(&anonymous).contains("refuses access (HTTP 401) to anonymous"),
        "{}",
        printed(&anonymous)
    );
    assert!(
        printed(&anonymous).contains("hint: give --username and --password-stdin"),
        "{}",
        printed(&anonymous)
    );
    let wrong = of(&["--username", Registry::USER, "--password-stdin"], "wr0ng\n");
    assert!(
        printed(&wrong).contains("the user \"puller\" of the command line"),
        "{}",
        printed(&wrong)
    );
    assert!(!printed(&wrong).contains("wr0ng"), "{}", printed(&wrong));
    let typed = of(
        &["--username", Registry::USER, "--password-stdin"],
        &format!("{}\n", Registry::PASSWORD),
    );
    assert_eq!(typed.status.code(), Some(0), "{}", printed(&typed));

    let access = Helm::access(&registry);
    let access = access.iter().map(String::as_str);
    helm.prints(
        &["registry", "login", &host]
            .into_iter()
            .chain(access)
            .collect::<Vec<_>>(),
    )
    .unwrap();
    let stored = of(&[], "");
    assert_eq!(
        (stored.status.code(), &stored.stdout),
        (Some(0), &typed.stdout),
        "{}",
        printed(&stored)
    );

    let strange = orangery(&helm, &[&chart], "");
    assert!(
        printed(&strange).contains("hint: name the certificate of its authority with --ca-file"),
        "{}",
        printed(&strange)
    );
    let blind = orangery(&helm, &[&chart, "--insecure-skip-tls-verify"], "");
    assert_eq!(blind.stdout, typed.stdout, "{}", printed(&blind));

    registry.kill();
    let retained = orangery(&helm, &[&format!("{chart}@{digest}")], "");
    assert_eq!(retained.stdout, typed.stdout, "{}", printed(&retained));
}

fn words<'a>(chart: &'a str, access: &'a [String]) -> Vec<&'a str> {
    [chart].into_iter().chain(access.iter().map(String::as_str)).collect()
}

#[test]
fn a_registry_behind_a_proxy_is_reached_as_helm_reaches_it() {
    let (registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    helm.push(&registry, "web", "1.0.0", &FILES).unwrap();
    let proxy = Proxy::start(registry.address()).unwrap();
    let access = Helm::access(&registry);
    let chart = format!("oci://{}/charts/web:1.0.0", Registry::NAME);
    let words = words(&chart, &access);
    let requests = || proxy.requested().len();

    let helm = helm.with_variables(vec![("HTTPS_PROXY", proxy.url())]);
    let helms = helm.prints(&[&["template"], words.as_slice()].concat()).unwrap();
    let before = requests();
    let ours = orangery(&helm, &words, "");
    assert_eq!((ours.status.code(), printed(&ours).as_str()), (Some(0), ""));
    assert_eq!(String::from_utf8_lossy(&ours.stdout), helms);
    assert!(
        before > 0 && requests() > before,
        "both send requests: {:?}",
        proxy.requested()
    );

    let helm = helm.with_variables(vec![("https_proxy", proxy.host())]);
    let none = printed(&orangery(&helm, &words, ""));
    let refused = format!("the proxy {} refuses to connect to it (HTTP 407)", proxy.host());
    assert!(none.contains(&refused), "{none}");
    assert!(none.contains("\nhint: name it with user and password"), "{none}");
    let helm = helm.with_variables(vec![("HTTPS_PROXY", "socks5://127.0.0.1".to_owned())]);
    let wrong = printed(&orangery(&helm, &words, ""));
    let why = "HTTPS_PROXY names no proxy that is used here: it has the scheme \"socks5\"";
    assert!(wrong.contains(why), "{wrong}");
    assert!(wrong.contains("\nhint: correct the variable, or unset it"), "{wrong}");
    let before = requests();
    let directly = ("NO_PROXY", ".example".to_owned());
    let helm = helm.with_variables(vec![("HTTPS_PROXY", proxy.url()), directly]);
    let unknown = printed(&orangery(&helm, &words, ""));
    assert!(unknown.contains("unreachable: ") && requests() == before, "{unknown}");
}

#[test]
fn a_registry_that_wants_certificates_is_shown_one_as_helm_shows_it() {
    let (registry, helm) = (Registry::start_wanting_certificates().unwrap(), Helm::find().unwrap());
    helm.push(&registry, "web", "1.0.0", &FILES).unwrap();
    let chart = format!("oci://{}/charts/web:1.0.0", registry.host());
    let access = Helm::access(&registry);
    let words = words(&chart, &access);
    let helms = helm.prints(&[&["template"], words.as_slice()].concat()).unwrap();
    let ours = orangery(&helm, &words, "");
    assert_eq!((ours.status.code(), printed(&ours).as_str()), (Some(0), ""));
    assert_eq!(String::from_utf8_lossy(&ours.stdout), helms);

    let authority = registry.authority_file().display().to_string();
    let without = printed(&orangery(&helm, &[&chart, "--ca-file", &authority], ""));
    assert!(
        without.contains("the host wants a client certificate that it trusts (CertificateRequired)"),
        "{without}"
    );
    assert!(
        without.contains("\nhint: name files in PEM with --cert-file and --key-file"),
        "{without}"
    );
    let swapped = printed(&orangery(
        &helm,
        &[&chart, "--cert-file", &authority, "--key-file", &authority],
        "",
    ));
    assert!(
        swapped.contains("the client's certificate cannot be shown: there is no private key in PEM"),
        "{swapped}"
    );
}

/// A program that keeps credentials as those do that Docker and Helm run.
const KEEPER: &str = r#"#!/bin/sh
[ "$1" = get ] || exit 2
server=$(cat)
case $server in
HOST) printf '{"ServerURL":"%s","Username":"USER","Secret":"PASSWORD"}' "$server" ;;
*) echo 'credentials not found in native keychain'; exit 1 ;;
esac
"#;

#[test]
fn credentials_of_a_helper_are_requested_as_helm_does() {
    let (registry, helm) = (Registry::start().unwrap(), Helm::find().unwrap());
    helm.push(&registry, "web", "1.0.0", &FILES).unwrap();
    let host = registry.host();
    let keeper = KEEPER.replace("HOST", &host).replace("USER", Registry::USER);
    let programs = helm.home().join("bin");
    let config = helm.home().join(".config/helm/registry/config.json");
    let write = |path: &Path, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let program = programs.join("docker-credential-keeper");
    write(&program, &keeper.replace("PASSWORD", Registry::PASSWORD));
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    write(&config, &format!(r#"{{"credHelpers":{{"{host}":"keeper"}}}}"#));
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let helm = helm.with_variables(vec![("PATH", path)]);
    let authority = registry.authority_file().display().to_string();
    let chart = format!("oci://{host}/charts/web:1.0.0");
    let words = [chart.as_str(), "--ca-file", &authority];

    let helms = helm.prints(&[&["template"], words.as_slice()].concat()).unwrap();
    let ours = orangery(&helm, &words, "");
    assert_eq!((ours.status.code(), printed(&ours).as_str()), (Some(0), ""));
    assert_eq!(String::from_utf8_lossy(&ours.stdout), helms);

    for (config_text, why) in [
        (
            r#"{"credsStore":"absent"}"#.to_owned(),
            "docker-credential-absent, which is not in PATH",
        ),
        (
            format!(r#"{{"credHelpers":{{"{host}":"../bin/keeper"}}}}"#),
            "which is no name of a program in PATH",
        ),
    ] {
        write(&config, &config_text);
        let refused = printed(&orangery(&helm, &words, ""));
        assert!(
            refused.contains(why) && refused.contains("\nhint: try the helper by itself"),
            "{refused}"
        );
    }
    write(&program, &keeper.replace("PASSWORD", "wr0ng"));
    write(&config, r#"{"credsStore":"keeper"}"#);
    let refused = printed(&orangery(&helm, &words, ""));
    assert!(
        refused.contains("to the user \"puller\" of docker-credential-keeper, which"),
        "{refused}"
    );
    for (script, wanted) in [
        ("echo unlock it >&2; exit 1", "unlock it\n"),
        ("echo locked; exit 1", "which has failed: \"locked\""),
        ("echo '{\"Secret\":\"hush\"}'; exit 1", "which has failed\n"),
        (
            "echo '{\"Secret\":\"hush\",\"pad\":\"'; head -c 1000000 /dev/zero; echo '\"}'",
            "answers with more than 64 KiB",
        ),
    ] {
        write(&program, &format!("#!/bin/sh\n{script}\n"));
        let refused = printed(&orangery(&helm, &words, ""));
        assert!(refused.contains(wanted) && !refused.contains("hush"), "{refused}");
    }
    // A program of the current folder is no credential helper.
    let helm = helm.with_variables(vec![("PATH", ".:bin:/usr/bin:/bin".to_owned())]);
    let refused = printed(&orangery(&helm, &words, ""));
    assert!(refused.contains("which is not in PATH"), "{refused}");
}
