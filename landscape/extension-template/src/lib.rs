//! The files of a new extension, a crate that builds outside of this repository: settings in, files out ([`files`]), and
//! their writing ([`write()`]). It builds nothing, and reads nothing but which folder is a checkout of the SDK.

mod examples;
mod kinds;
mod rust;
mod sdk;
mod settings;
mod text;
mod write;

use std::path::Path;

use text::fill;

pub use sdk::find as find_sdk;
pub use settings::{NAME_BYTES_MAX, Request, Settings};
pub use write::write;

/// One file of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Relative to the extension's folder, with `/`.
    pub path: String,
    /// What stands in it.
    pub text: String,
}

/// The files of an extension, in the order in which a person reads them. The same settings make the same files.
#[must_use]
pub fn files(settings: &Settings) -> Vec<File> {
    let values = values(settings);
    let mut files: Vec<File> = FIXED
        .iter()
        .map(|(path, template)| File {
            path: (*path).to_owned(),
            text: fill(template, &values),
        })
        .collect();
    files.extend(rust::files(settings, &values));
    files.extend(examples::files(settings, &values));
    if settings.webhook {
        files.push(File {
            path: "chart/templates/service.yaml".to_owned(),
            text: fill(include_str!("../templates/chart/templates/service.yaml"), &values),
        });
    }
    files
}

/// Files that every extension has.
const FIXED: [(&str, &str); 9] = [
    ("README.md", include_str!("../templates/README.md")),
    ("Cargo.toml", include_str!("../templates/Cargo.toml.txt")),
    (".gitignore", include_str!("../templates/gitignore.txt")),
    ("rustfmt.toml", include_str!("../templates/rustfmt.toml.txt")),
    ("registration.yaml", include_str!("../templates/registration.yaml")),
    ("chart/Chart.yaml", include_str!("../templates/chart/Chart.yaml")),
    ("chart/values.yaml", include_str!("../templates/chart/values.yaml")),
    (
        "chart/templates/deployment.yaml",
        include_str!("../templates/chart/templates/deployment.yaml"),
    ),
    (
        "chart/templates/rbac.yaml",
        include_str!("../templates/chart/templates/rbac.yaml"),
    ),
];

/// What stands in the templates for what differs between extensions.
fn values(settings: &Settings) -> Vec<(&'static str, String)> {
    let Settings {
        name,
        type_,
        kinds,
        webhook,
        sdk,
    } = settings;
    let list = |each: &dyn Fn(&kinds::Row) -> String, between: &str| -> String {
        let parts: Vec<String> = kinds.iter().map(|kind| each(&kinds::row(*kind))).collect();
        parts.join(between)
    };
    let mut values = vec![
        ("NAME", name.clone()),
        ("TYPE", type_.clone()),
        ("SDK", sdk.display().to_string()),
        ("KINDS", list(&|row| row.kind.to_string(), ", ")),
        (
            "REGISTERED",
            list(&|row| format!("  - kind: {}\n    type: {type_}\n", row.kind), ""),
        ),
        (
            "RESOURCE_FLAGS",
            list(&|row| format!("--resource {}/{type_}", row.kind), " "),
        ),
        (
            "RESOURCES",
            list(&|row| format!("{0}, {0}/status", row.kind.plural()), ", "),
        ),
        (
            "CONFORMANCE",
            list(
                &|row| {
                    let kind = row.kind;
                    format!(
                        "orangery conformance --kubeconfig .orangery/seed.kubeconfig --kind {kind} --type {type_}\n"
                    )
                },
                "",
            ),
        ),
        ("USE", examples::commands(settings)),
        ("SOURCES", list(&|row| format!("`src/{}.rs`", row.module), ", ")),
        (
            "OBJECTS_MADE",
            if kinds::any_secret(kinds) {
                "configmaps, secrets"
            } else {
                "configmaps"
            }
            .to_owned(),
        ),
    ];
    values.extend(of_webhook(*webhook, sdk));
    values
}

/// What only an extension with a webhook has.
fn of_webhook(webhook: bool, sdk: &Path) -> Vec<(&'static str, String)> {
    let only = |text: &str| if webhook { text.to_owned() } else { String::new() };
    vec![
        (
            "WEBHOOK_RULES",
            only(include_str!("../templates/chart/webhook-rules.yaml")),
        ),
        (
            "WEBHOOK_SECRETS",
            only(include_str!("../templates/chart/webhook-secrets.yaml")),
        ),
        (
            "WEBHOOK_PORT",
            only("        - name: webhook\n          containerPort: 10250\n"),
        ),
        (
            "WEBHOOK_CRATES",
            only(&format!(
                "extensions-webhooks = {{ path = \"{0}/extensions/webhooks\" }}\n",
                sdk.display()
            )),
        ),
        (
            "WEBHOOK_ROW",
            only("| `src/webhook.rs` | what it changes in control planes of Shoots |\n"),
        ),
    ]
}
