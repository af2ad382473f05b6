//! The real kubectl and a kind of two versions: it speaks the preferred one by default.

use tests_scenarios::kubectl::Kubectl;

const OLDER: &str = "controllerdeployments.v1beta1.core.gardener.cloud";

fn deployment(name: &str) -> String {
    format!(
        "apiVersion: core.gardener.cloud/v1beta1\nkind: ControllerDeployment\nmetadata:\n  name: {name}\n\
         type: builtin\nproviderConfig:\n  image: one\n"
    )
}

#[test]
fn a_field_of_the_other_version_is_reported_and_changes_nothing() {
    let kubectl = Kubectl::garden();
    let name = "two-versions-unknown";
    kubectl.feed(&["create", "-f", "-"], &deployment(name));
    let patch = r#"{"providerConfig": {"image": "two"}}"#;
    for form in [
        &["--type=merge", "-p", patch],
        &[
            "--type=json",
            "-p",
            r#"[{"op": "add", "path": "/providerConfig", "value": {"image": "two"}}]"#,
        ],
    ] {
        let arguments = [&["patch", "controllerdeployment", name], form.as_slice()].concat();
        let output = kubectl.run(&arguments);
        let output = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        assert!(output[0].contains("patched (no change)"), "{output:?}");
        assert!(
            output[1].contains("Warning: unknown field \"providerConfig\""),
            "{output:?}"
        );
    }
    let newer = kubectl.ok(&["get", "controllerdeployment", name, "-o", "yaml"]);
    assert!(newer.starts_with("apiVersion: core.gardener.cloud/v1\n"), "{newer}");
    let refused = kubectl.feed_any(
        &["replace", "-f", "-"],
        &newer.replace("kind: C", "providerConfig: {}\nkind: C"),
    );
    let refused = String::from_utf8(refused.stderr).unwrap();
    assert!(
        refused.contains("strict decoding error: unknown field \"providerConfig\""),
        "{refused}"
    );
}

#[test]
fn what_one_version_writes_the_other_keeps() {
    let kubectl = Kubectl::garden();
    let name = "two-versions-kept";
    kubectl.feed(&["create", "-f", "-"], &deployment(name));
    let read = |kind: &str, path: &str| kubectl.ok(&["get", kind, name, "-o", &format!("jsonpath={{{path}}}")]);
    kubectl.ok(&[
        "patch",
        OLDER,
        name,
        "--type=merge",
        "-p",
        r#"{"providerConfig": {"image": "two"}}"#,
    ]);
    assert_eq!(
        read(OLDER, ".metadata.generation"),
        "2",
        "what is to be installed has changed"
    );
    kubectl.ok(&[
        "patch",
        "controllerdeployment",
        name,
        "--type=merge",
        "-p",
        r#"{"injectGardenKubeconfig": true}"#,
    ]);
    assert_eq!(
        read(OLDER, ".providerConfig.image") + &read(OLDER, ".injectGardenKubeconfig"),
        "twotrue"
    );
    assert_eq!(read("controllerdeployment", ".metadata.generation"), "3");
}
