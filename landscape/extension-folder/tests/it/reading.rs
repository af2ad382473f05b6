//! What is read of a folder, and what is refused.

use std::fs;
use std::path::Path;

use landscape_extension_folder::Folder;

use crate::bench::{Bench, COPY};

async fn refused(path: &Path) -> String {
    let fault = Folder::read(path).await.unwrap_err();
    assert!(!fault.hint.is_empty(), "{fault}");
    fault.to_string()
}

#[tokio::test]
async fn a_folder_names_its_extension_its_program_and_the_image_it_replaces() {
    let bench = Bench::new(COPY);
    let folder = bench.folder().await;
    assert_eq!(
        (folder.name.as_str(), folder.image.as_str()),
        ("moon", "registry.example.org/moon")
    );
    assert_eq!(folder.program, fs::canonicalize(bench.path()).unwrap().join("program"));
    let manifests = folder.manifests().await.unwrap();
    let helm = &manifests.objects[0]["helm"];
    assert!(
        helm["rawChart"].is_string() && helm["ociRepository"].is_null(),
        "{helm}"
    );
    assert_eq!(
        manifests.objects,
        folder.manifests().await.unwrap().objects,
        "the same files are the same objects"
    );
}

#[tokio::test]
async fn what_is_no_extension_is_refused_with_one_thing_to_do() {
    let bench = Bench::new(COPY);
    assert!(refused(&bench.path().join("none")).await.contains("none: No such file"));
    assert!(refused(&bench.path().join("source")).await.contains("is no folder"));
    let empty = tempfile::tempdir().unwrap();
    assert!(
        refused(empty.path())
            .await
            .contains("has neither a Cargo.toml nor a file orangery-extension.yaml")
    );
}

#[tokio::test]
async fn a_wrong_file_is_named_with_what_is_wrong() {
    for (path, text, expected) in [
        (
            "orangery-extension.yaml",
            "{build: [a], programme: b}",
            "orangery-extension.yaml is wrong",
        ),
        ("orangery-extension.yaml", "{program: ''}", "is empty"),
        (
            "orangery-extension.yaml",
            "{program: p, watch: [source, sources]}",
            "orangery-extension.yaml is wrong: watch[1] is \"sources\", which cannot be watched: No such file",
        ),
        (
            "orangery-extension.yaml",
            "{program: p, image: other}",
            "no container of the chart has the image other",
        ),
        ("registration.yaml", "[", "registration.yaml is wrong"),
        (
            "registration.yaml",
            "kind: ControllerDeployment",
            "there is no ControllerRegistration",
        ),
        ("chart/values.yaml", "image: [", "values.yaml"),
        (
            "chart/templates/deployment.yaml",
            "a: {{ .Values.a.b.c }}",
            "deployment.yaml",
        ),
        ("chart/templates/deployment.yaml", "a: {{ end }}", "deployment.yaml"),
        ("chart/Chart.yaml", "name: moon", "is no chart"),
    ] {
        let bench = Bench::new(COPY);
        bench.write(path, text);
        let found = refused(bench.path()).await;
        assert!(found.contains(expected), "{path} {text}: {found}");
    }
    let bench = Bench::new(COPY);
    fs::remove_file(bench.path().join("registration.yaml")).unwrap();
    assert!(refused(bench.path()).await.contains("registration.yaml cannot be read"));
}

#[tokio::test]
async fn a_crate_is_built_by_cargo_and_named_by_it() {
    let bench = Bench::new(COPY);
    fs::remove_file(bench.path().join("orangery-extension.yaml")).unwrap();
    let manifest = "[package]\nname = \"moon\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    bench.write("Cargo.toml", manifest);
    assert!(
        refused(bench.path()).await.contains("no targets"),
        "a crate without sources"
    );
    bench.write("src/lib.rs", "");
    assert!(refused(bench.path()).await.contains("the crate has no program"));
    bench.write("src/main.rs", "fn main() {}");
    let folder = bench.folder().await;
    assert!(
        folder.program.ends_with("orangery/moon"),
        "{}",
        folder.program.display()
    );
    bench.write("src/bin/other.rs", "fn main() {}");
    assert!(refused(bench.path()).await.contains("several programs: moon, other"));
    bench.write("Cargo.toml", "[package");
    assert!(refused(bench.path()).await.contains("Cargo.toml"));
}
