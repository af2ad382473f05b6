//! Objects that use an extension: a Shoot where a Shoot brings its kinds about, and what the Shoot needs; for all other kinds
//! an object as gardenlet writes it.

use api_extensions::ExtensionKind;

use crate::kinds::{self, OF_PROVIDER};
use crate::text::fill;
use crate::{File, Settings};

const PROJECT: &str = include_str!("../templates/examples/project.yaml");
const CLOUD_PROFILE: &str = include_str!("../templates/examples/cloudprofile.yaml");
const CREDENTIALS: &str = include_str!("../templates/examples/credentials.yaml");
const STAND_IN: &str = include_str!("../templates/examples/stand-in.yaml");
const SHOOT: &str = include_str!("../templates/examples/shoot.yaml");
const OBJECT: &str = include_str!("../templates/examples/object.yaml");

/// The type of the landscape's own provider, for what the extension leaves to it.
const LOCAL: &str = "local";

/// The kinds that the Shoot of the examples brings about.
const OF_SHOOT: [ExtensionKind; 6] = [
    ExtensionKind::ControlPlane,
    ExtensionKind::Extension,
    ExtensionKind::Infrastructure,
    ExtensionKind::Network,
    ExtensionKind::OperatingSystemConfig,
    ExtensionKind::Worker,
];

/// The files below `examples`, numbered in the order in which they are applied.
pub(crate) fn files(settings: &Settings, values: &[(&'static str, String)]) -> Vec<File> {
    let mut values = values.to_vec();
    let mut files = Vec::new();
    if settings.kinds.iter().any(|kind| OF_SHOOT.contains(kind)) {
        values.extend(of_shoot(settings));
        let stand_ins = stand_ins(settings);
        let templates = [
            ("10-project.yaml", PROJECT),
            ("20-cloudprofile.yaml", CLOUD_PROFILE),
            ("30-credentials.yaml", CREDENTIALS),
            ("40-stand-in.yaml", STAND_IN),
            ("50-shoot.yaml", SHOOT),
        ];
        let templates = templates
            .into_iter()
            .filter(|(_, template)| *template != STAND_IN || !stand_ins.is_empty());
        files.extend(templates.map(|(path, template)| File {
            path: format!("examples/{path}"),
            text: fill(template, &values),
        }));
    }
    files.extend(objects(settings, &values));
    files
}

/// The commands that apply the examples.
pub(crate) fn commands(settings: &Settings) -> String {
    let command = |cluster: &str, folder: &str| {
        format!("kubectl --kubeconfig .orangery/{cluster}.kubeconfig apply -f {folder}\n")
    };
    let is_of_shoot = |kind: &ExtensionKind| OF_SHOOT.contains(kind);
    let mut text = String::new();
    if settings.kinds.iter().any(is_of_shoot) {
        text += &command("garden", "examples/10-project.yaml");
        // Its namespace comes a moment later.
        text += "kubectl --kubeconfig .orangery/garden.kubeconfig wait project local --for=jsonpath='{.status.phase}'=Ready\n";
        text += &command("garden", "examples/");
    }
    if !settings.kinds.iter().all(is_of_shoot) {
        text += &command("seed", "examples/seed/");
    }
    text
}

/// The kinds of a provider that the extension has not, where it has one of them.
fn stand_ins(settings: &Settings) -> Vec<ExtensionKind> {
    match kinds::any_of_provider(&settings.kinds) {
        true => OF_PROVIDER
            .into_iter()
            .filter(|kind| !settings.kinds.contains(kind))
            .collect(),
        false => Vec::new(),
    }
}

fn of_shoot(settings: &Settings) -> Vec<(&'static str, String)> {
    let Settings { name, type_, kinds, .. } = settings;
    let of = |is_ours: bool| if is_ours { type_.as_str() } else { LOCAL }.to_owned();
    let is_provider = kinds::any_of_provider(kinds);
    let config = |indent: usize, field: &str, kind: ExtensionKind| -> String {
        let pad = " ".repeat(indent);
        match kinds.contains(&kind) {
            true => format!(
                "{pad}{field}:\n{pad}  apiVersion: {name}.extensions.gardener.cloud/v1alpha1\n{pad}  kind: {kind}Config\n\
                 {pad}  greeting: hello\n"
            ),
            false => String::new(),
        }
    };
    let extensions = match kinds.contains(&ExtensionKind::Extension) {
        true => format!(
            "  extensions:\n  - type: {type_}\n{}",
            config(4, "providerConfig", ExtensionKind::Extension)
        ),
        false => String::new(),
    };
    let provider = [
        config(4, "infrastructureConfig", ExtensionKind::Infrastructure),
        config(4, "controlPlaneConfig", ExtensionKind::ControlPlane),
    ];
    let stand_ins = stand_ins(settings);
    let named: Vec<&str> = stand_ins.iter().map(|kind| kind.kind()).collect();
    vec![
        ("PROVIDER", of(is_provider)),
        (
            "SEED_SELECTOR",
            match is_provider {
                true => {
                    "  seedSelector:\n    providerTypes: [\"*\"] # left out, only seeds of the same type are taken\n"
                }
                false => "",
            }
            .to_owned(),
        ),
        ("IMAGE", of(kinds.contains(&ExtensionKind::OperatingSystemConfig))),
        ("NETWORK_TYPE", of(kinds.contains(&ExtensionKind::Network))),
        ("SHOOT_EXTENSIONS", extensions),
        ("SHOOT_NETWORKING", config(4, "providerConfig", ExtensionKind::Network)),
        ("SHOOT_PROVIDER", provider.concat()),
        ("STAND_INS", named.join(",")),
        (
            "STAND_IN_RESOURCES",
            named
                .iter()
                .map(|kind| format!("  - kind: {kind}\n    type: {type_}\n"))
                .collect(),
        ),
    ]
}

/// Objects of the kinds that the Shoot does not bring about.
fn objects(settings: &Settings, values: &[(&'static str, String)]) -> Vec<File> {
    let kinds = settings.kinds.iter().filter(|kind| !OF_SHOOT.contains(kind));
    kinds
        .map(|kind| {
            let file = format!("{}.yaml", kinds::row(*kind).module.replace('_', "-"));
            let mut values = values.to_vec();
            values.extend([
                ("FILE", file.clone()),
                ("KIND", kind.to_string()),
                (
                    "OBJECT_NAMESPACE",
                    if kind.is_namespaced() {
                        "  namespace: garden\n"
                    } else {
                        ""
                    }
                    .to_owned(),
                ),
                ("OBJECT_SPEC", spec(*kind).to_owned()),
            ]);
            File {
                path: format!("examples/seed/{file}"),
                text: fill(OBJECT, &values),
            }
        })
        .collect()
}

/// What the kind requires beside a type.
fn spec(kind: ExtensionKind) -> &'static str {
    match kind {
        ExtensionKind::BackupBucket => "  region: local\n  secretRef: {name: none, namespace: garden}\n",
        ExtensionKind::BackupEntry => {
            "  bucketName: example\n  region: local\n  secretRef: {name: none, namespace: garden}\n"
        }
        ExtensionKind::Bastion => "  userData: \"\"\n  ingress:\n  - ipBlock: {cidr: 192.0.2.0/24}\n",
        ExtensionKind::ContainerRuntime => {
            "  binaryPath: /var/bin/containerruntimes\n  workerPool:\n    name: pool-a\n    selector: {}\n"
        }
        ExtensionKind::DNSRecord => {
            "  secretRef: {name: none, namespace: garden}\n  name: api.example.org\n  recordType: A\n  values: [192.0.2.1]\n"
        }
        ExtensionKind::SelfHostedShootExposure => {
            "  port: 443\n  endpoints:\n  - nodeName: a\n    addresses:\n    - {type: InternalIP, address: 192.0.2.1}\n"
        }
        _ => "",
    }
}
