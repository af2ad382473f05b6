//! `orangery chart` as a user runs it: folders, archives, values of all kinds, and what it prints about charts that are none.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;
use tests_kit::fed;

const FILES: [(&str, &str); 7] = [
    (
        "Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 1.2.3\nappVersion: '4'\n",
    ),
    ("values.yaml", "replicas: 1\nimage: {name: nginx, tag: '1.27'}\n"),
    (
        "templates/deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}-web\n  namespace: {{ .Release.Namespace }}\n\
         spec:\n  replicas: {{ .Values.replicas }}\n  image: {{ include \"image\" . | quote }}\n  new: {{ .Release.IsInstall }}\n",
    ),
    (
        "templates/account.yaml",
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: {{ required \"who?\" .Values.account }}\n\
         {{- if .Capabilities.APIVersions.Has \"example.org/v1\" }}\n  labels: {k8s: {{ .Capabilities.KubeVersion.Version }}}\n{{- end }}\n",
    ),
    (
        "templates/_image.tpl",
        "{{ define \"image\" }}{{ .Values.image.name }}:{{ .Values.image.tag }}{{ end }}",
    ),
    (
        "templates/hook.yaml",
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\n  annotations: {helm.sh/hook: pre-install}\n",
    ),
    ("crds/things.yaml", "kind: CustomResourceDefinition\n"),
];

const OBJECTS: &str = "\
---
# Source: web/templates/account.yaml
apiVersion: v1
kind: ServiceAccount
metadata:
  name: NAME
---
# Source: web/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: REL-web
  namespace: SPACE
spec:
  replicas: COUNT
  image: \"nginx:TAG\"
  new: true
";
const HOOK: &str = "\
---
# Source: web/templates/hook.yaml
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {helm.sh/hook: pre-install}
";
const DEFINITION: &str = "---\n# Source: web/crds/things.yaml\nkind: CustomResourceDefinition\n\n";

/// Arguments, the error, and the hint.
const WRONG: [(&[&str], &str, &str); 17] = [
    (
        &["web"],
        "web: execution error at (web/templates/account.yaml:4:11): who?",
        "--set or -f",
    ),
    (
        &["no"],
        "cannot read the chart no: No such file or directory (os error 2)",
        "name a folder with a Chart.yaml, a .tgz, or a chart of a registry (oci://...)",
    ),
    (
        &["empty"],
        "empty is no chart: Chart.yaml file is missing",
        "a chart is a folder",
    ),
    (
        &["lib"],
        "lib: library charts are not installable",
        "render a chart that uses it",
    ),
    (
        &["top"],
        "top: found in Chart.yaml, but missing in charts/ directory: db",
        "helm dependency build",
    ),
    (
        &["new"],
        "new: chart requires kubeVersion: >=1.99 which is incompatible with Kubernetes v1.35.0",
        "--kube-version",
    ),
    (
        &["text"],
        "text: YAML parse error on text/templates/t.yaml",
        "look at what that template makes",
    ),
    (
        &["strict"],
        "strict: values don't meet the specifications of the schema(s) in the following chart(s)",
        "values.schema.json",
    ),
    (&["A_b", "web"], "\"A_b\" is no name of a release", "give another NAME"),
    (
        &["https://a/web"],
        "https://a/web is in a repository, and charts come from this machine or from registries (oci://)",
        "helm pull",
    ),
    (
        &["OCI://me:p/w@a/web"],
        "OCI://a/web begins with oci:// in capitals",
        "write oci:// in small letters",
    ),
    (
        &["oci://a/Web"],
        "the repository \"Web\" is none: it has words of a-z and 0-9",
        "oci://HOST[:PORT]/REPOSITORY",
    ),
    (
        &["oci://127.0.0.1:1/web:1.0.0", "--ca-file", "no.pem"],
        "cannot read the authorities no.pem: No such file",
        "--ca-file",
    ),
    (
        &["oci://127.0.0.1:1/web:1.0.0", "--username", "me"],
        "the user \"me\" is given without a password",
        "--password-stdin",
    ),
    (
        &[
            "oci://127.0.0.1:1/web",
            "--username",
            "me",
            "--password-stdin",
            "-f",
            "-",
        ],
        "standard input cannot be both the password and values",
        "write the values into a file",
    ),
    (
        &["web", "-f", "none.yaml"],
        "cannot read the values none.yaml: No such file",
        "--help",
    ),
    (
        &["web", "--kube-version", "new"],
        "could not parse \"new\" as version",
        "--kube-version 1.32",
    ),
];

/// The chart in a folder `web`.
fn chart() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        write(&folder.path().join("web").join(name), text);
    }
    folder
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn render(folder: &Path, words: &[&str], input: &str) -> Output {
    run("render", folder, words, input)
}

fn run(command: &str, folder: &Path, words: &[&str], input: &str) -> Output {
    let mut orangery = Command::new(env!("CARGO_BIN_EXE_orangery"));
    orangery.args(["chart", command]).args(words);
    fed(orangery.current_dir(folder).env_remove("RUST_LOG"), input).unwrap()
}

/// What it prints, with nothing on standard error.
fn printed(folder: &Path, words: &[&str], input: &str) -> String {
    let output = render(folder, words, input);
    let (out, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{words:?}");
    out
}

fn objects(account: &str, release: &str, namespace: &str, count: &str, tag: &str) -> String {
    let pairs = [
        ("NAME", account),
        ("REL", release),
        ("SPACE", namespace),
        ("COUNT", count),
        ("TAG", tag),
    ];
    pairs
        .iter()
        .fold(OBJECTS.to_owned(), |text, (name, value)| text.replace(name, value))
}

#[test]
fn a_folder_is_rendered_for_a_release_with_values_of_all_kinds() {
    let folder = chart();
    write(
        &folder.path().join("one.yaml"),
        "account: a\nreplicas: 2\nimage: {tag: x}\n",
    );
    write(&folder.path().join("tag.txt"), "1.29");
    let words = ["web", "--set", "account=me"];
    let expected = objects("me", "release-name", "default", "1", "1.27") + HOOK;
    assert_eq!(printed(folder.path(), &words, ""), expected);

    let words = [
        "db",
        "./web",
        "-f",
        "one.yaml",
        "--values",
        "-",
        "--set-json",
        "image={\"tag\":\"y\"}",
        "--set-file",
        "image.tag=tag.txt",
        "-n",
        "prod",
        "--no-hooks",
        "--include-crds",
    ];
    let expected = DEFINITION.to_owned() + &objects("b", "db", "prod", "2", "1.29");
    assert_eq!(printed(folder.path(), &words, "account: b\n"), expected);

    let words = [
        "web",
        "--set-string",
        "account=1",
        "--set-literal",
        "image.tag=a,b",
        "--is-upgrade",
        "-a",
        "x/v1,example.org/v1",
        "--kube-version",
        "1.31.2",
        "--no-hooks",
    ];
    let expected = objects("1", "release-name", "default", "1", "a,b")
        .replace("new: true", "new: false")
        .replace("  name: 1\n", "  name: 1\n  labels: {k8s: v1.31.2}\n");
    assert_eq!(printed(folder.path(), &words, ""), expected);
}

#[test]
fn an_archive_is_rendered_as_its_folder() {
    let folder = chart();
    let packed = Command::new("tar")
        .args(["-czf", "web-1.2.3.tgz", "web"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(packed.success());
    let of = |chart| printed(folder.path(), &[chart, "--set", "account=me", "--include-crds"], "");
    assert_eq!(of("web-1.2.3.tgz"), of("web"));
}

#[test]
fn errors_are_printed_with_one_hint() {
    let folder = chart();
    let file = |name: &str, text: &str| write(&folder.path().join(name), text);
    file("empty/values.yaml", "");
    file(
        "lib/Chart.yaml",
        "apiVersion: v2\nname: lib\nversion: 1.0.0\ntype: library\n",
    );
    let wants = "apiVersion: v2\nname: top\nversion: 1.0.0\ndependencies: [{name: db, version: 1.x.x, repository: 'https://a'}]\n";
    file("top/Chart.yaml", wants);
    file(
        "new/Chart.yaml",
        "apiVersion: v2\nname: new\nversion: 1.0.0\nkubeVersion: '>=1.99'\n",
    );
    file("text/Chart.yaml", "apiVersion: v2\nname: text\nversion: 1.0.0\n");
    file("text/templates/t.yaml", "a: b: c\n");
    file("strict/Chart.yaml", "apiVersion: v2\nname: strict\nversion: 1.0.0\n");
    file("strict/values.schema.json", r#"{"required": ["a"]}"#);
    for (words, error, hint) in WRONG {
        let output = render(folder.path(), words, "");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), output.stdout.len()),
            (Some(1), 0),
            "{words:?}: {stderr}"
        );
        assert!(
            stderr.starts_with("error: ") && stderr.contains(error),
            "{words:?}: {stderr}"
        );
        let last = stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("hint: ") && last.contains(hint), "{words:?}: {stderr}");
    }
}

#[test]
fn a_configuration_of_docker_that_is_none_is_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    write(&path, "none");
    let mut orangery = Command::new(env!("CARGO_BIN_EXE_orangery"));
    orangery.args(["chart", "render", "oci://127.0.0.1:1/web:1.0.0"]);
    orangery.env_clear().env("HOME", folder.path());
    let output = fed(orangery.env("DOCKER_CONFIG", folder.path()), "").unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let why = format!(
        "error: {} is no Docker configuration: line 1, column 2\n",
        path.display()
    );
    assert!(stderr.starts_with(&why), "{stderr}");
}

#[test]
fn the_local_zone_is_the_one_of_tz_and_is_called_so() {
    let folder = chart_of(&[("templates/a.yaml", "a: {{ now.Location }} {{ date \"15:04\" 0 }}\n")]);
    for (tz, time) in [
        ("Europe/Berlin", "Europe/Berlin 01:00"),
        ("europe/berlin", "UTC 00:00"),
        ("CET-1CEST", "UTC 00:00"),
    ] {
        let mut orangery = Command::new(env!("CARGO_BIN_EXE_orangery"));
        orangery.args(["chart", "render", "x"]).env("TZ", tz);
        let output = fed(orangery.current_dir(folder.path()), "").unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.lines().last(), Some(format!("a: {time}").as_str()), "{tz}");
    }
}

/// A chart in a folder `x` with these templates.
fn chart_of(templates: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let chart = folder.path().join("x");
    write(&chart.join("Chart.yaml"), "apiVersion: v2\nname: x\nversion: 0.1.0\n");
    for (name, text) in templates {
        write(&chart.join(name), text);
    }
    folder
}

/// Standard output, standard error and exit code of `lint`.
fn linted(folder: &Path, words: &[&str]) -> (String, String, Option<i32>) {
    let output = run("lint", folder, words, "");
    let [out, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (out, stderr, output.status.code())
}

const DEFINITION_OF_THINGS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer, maximum: 3}}}}
";

#[test]
fn an_installable_chart_is_reported_in_one_line() {
    let things = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: a, namespace: {{ .Release.Namespace }}}\nspec: {size: 3}\n";
    let infrastructure = "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: Infrastructure\nmetadata: {name: a, namespace: b}\n\
                          spec: {type: x, region: {{ .Values.gardener.seed.region }}, secretRef: {name: a, namespace: b}}\n\
                          {{ if .Values.gardener.seed.spec.settings.topologyAwareRouting.enabled }}{{ fail \"routed\" }}{{ end }}\n";
    let folder = chart_of(&[
        ("crds/things.yaml", DEFINITION_OF_THINGS),
        ("templates/thing.yaml", things),
        ("templates/infrastructure.yaml", infrastructure),
    ]);
    let (out, stderr, code) = linted(folder.path(), &["x", "--strict"]);
    assert_eq!(
        (out.as_str(), stderr.as_str(), code),
        ("x 0.1.0: 3 objects, 0 errors, 0 warnings\n", "", Some(0))
    );
}

#[test]
fn refused_objects_are_reported_with_file_object_and_field() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: other}\nspec:\n  replcas: 1\n  selector: {matchLabels: {a: b}}\n\
                      \x20 template: {metadata: {labels: {a: c}}, spec: {containers: [{name: web, image: web}]}}\n";
    let thing = "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: a, namespace: other}\nspec: {size: 4}\n";
    let folder = chart_of(&[
        ("crds/things.yaml", DEFINITION_OF_THINGS),
        ("templates/deployment.yaml", deployment),
        ("templates/thing.yaml", thing),
    ]);
    let (out, stderr, code) = linted(folder.path(), &["x"]);
    for line in [
        "warning: x/templates/deployment.yaml: Deployment \"web\": unknown field \"spec.replcas\": it is refused",
        "error: x/templates/deployment.yaml: Deployment \"web\": spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template `labels`",
        "error: x/templates/thing.yaml: Thing \"a\": spec.size: Invalid value: 4",
        "x 0.1.0: 3 objects, 2 errors, 1 warning",
    ] {
        assert!(out.contains(line), "{line}\n--\n{out}");
    }
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("error: x: a ControllerDeployment with this chart could not be installed"),
        "{stderr}"
    );
}

#[test]
fn what_will_not_be_as_its_author_meant_it_is_a_warning() {
    let map = |name: &str, rest: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n{rest}");
    let random = map("random", "data: {a: {{ randAlphaNum 20 }}}\n");
    let dated = map("dated", "data: {a: {{ now | date \"2006\" | quote }}}\n")
        .replace("name: dated", "name: dated, namespace: other");
    let foreign = "apiVersion: monitoring.coreos.com/v1\nkind: Unheard\nmetadata: {name: a}\n";
    let folder = chart_of(&[
        ("templates/random.yaml", &random),
        ("templates/dated.yaml", &dated),
        ("templates/foreign.yaml", foreign),
        (
            "templates/found.yaml",
            "{{ if lookup \"v1\" \"Secret\" .Release.Namespace \"\" }}a: b{{ end }}\n",
        ),
        (
            "templates/hook.yaml",
            &map("hook", "").replace("name: hook", "name: hook, annotations: {helm.sh/hook: pre-install}"),
        ),
    ]);
    let (out, stderr, code) = linted(folder.path(), &["x", "--set", "gardener.seed=mine"]);
    for line in [
        "warning: x: the values that are given have `gardener`, which a gardenlet writes over",
        "warning: x/templates/hook.yaml: ConfigMap \"hook\": is a hook (\"pre-install\"), and hooks are never run: it is not made",
        "warning: x/templates/random.yaml: ConfigMap \"random\": data.a is another each time",
        "warning: x/templates/dated.yaml: ConfigMap \"dated\": data.a is another each time",
        "warning: x/templates/random.yaml: ConfigMap \"random\": metadata.namespace is missing",
        "  hint: write `namespace: {{ .Release.Namespace }}` below metadata",
        "warning: x/templates/found.yaml: `lookup \"v1\" \"Secret\" .Release.Namespace \"\"` at x/templates/found.yaml:1:6 finds nothing",
        "fields were not looked at: Unheard (monitoring.coreos.com/v1)",
        "x 0.1.0: 3 objects, 0 errors, 6 warnings",
    ] {
        assert!(out.contains(line), "{line}\n--\n{out}");
    }
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let (_, stderr, code) = linted(folder.path(), &["x", "--strict"]);
    assert_eq!(code, Some(1), "{stderr}");
}

#[test]
fn lookups_are_reported_in_order_and_after_their_files_errors() {
    let lookup = |name: &str| format!("{{{{ $_ := lookup \"v1\" \"Node\" \"\" \"{name}\" }}}}");
    let helper = format!("{{{{ define \"h\" }}}}{}{{{{ end }}}}", lookup("d"));
    // The tenth line goes after the second, and requests are ordered by number, not as text.
    let [first, second, third] = ["c", "b", "a"].map(lookup);
    let lookups = format!(
        "\n{first}{second}{}{third}{{{{ include \"h\" . }}}}\nkind: A\n",
        "\n".repeat(8)
    );
    let folder = chart_of(&[
        ("templates/_h.tpl", &helper),
        ("templates/b.yaml", &lookups),
        ("templates/a.yaml", &first),
    ]);
    let (out, stderr, _) = linted(folder.path(), &["x"]);
    let places: Vec<&str> = out
        .lines()
        .filter_map(|line| match line.split_once(" at ") {
            Some((_, place)) => place.split(' ').next(),
            None => line.strip_prefix("error: "),
        })
        .collect();
    assert_eq!(
        places,
        [
            "x/templates/a.yaml:1:9",
            "x/templates/b.yaml: A: apiVersion is missing",
            "x/templates/_h.tpl:1:25",
            "x/templates/b.yaml:2:9",
            "x/templates/b.yaml:2:46",
            "x/templates/b.yaml:10:9",
        ],
        "{out}\n--\n{stderr}"
    );
}

#[test]
fn what_would_be_written_over_is_an_error() {
    let role = |namespace: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{name: r, namespace: {namespace}}}\nrules: []\n"
        )
    };
    let of_the_product = DEFINITION_OF_THINGS
        .replace("example.org", "extensions.gardener.cloud")
        .replace("things", "workers")
        .replace("thing", "worker")
        .replace("Thing", "Worker");
    let folder = chart_of(&[
        ("crds/workers.yaml", &of_the_product),
        ("templates/one.yaml", &role("one")),
        ("templates/two.yaml", &role("two")),
    ]);
    let (out, stderr, code) = linted(folder.path(), &["x"]);
    for line in [
        "error: x/crds/workers.yaml: CustomResourceDefinition \"workers.extensions.gardener.cloud\": is a definition of this product",
        "error: x/templates/two.yaml: ClusterRole \"r\": is made twice, first by x/templates/one.yaml: one would undo the other",
        "x 0.1.0: 3 objects, 2 errors, 0 warnings",
    ] {
        assert!(out.contains(line), "{line}\n--\n{out}");
    }
    assert_eq!(code, Some(1), "{stderr}");
}

#[test]
fn a_name_too_long_for_the_namespace_of_an_installation_is_refused() {
    let folder = chart_of(&[]);
    let long = "a".repeat(48);
    let (out, stderr, code) = linted(folder.path(), &[&long, "x"]);
    assert_eq!((out.as_str(), code), ("", Some(1)));
    assert!(
        stderr.contains("cannot be the name of a ControllerRegistration") && stderr.contains("at most 47 characters"),
        "{stderr}"
    );
    assert_eq!(linted(folder.path(), &[&long[1..], "x"]).2, Some(0));
}
