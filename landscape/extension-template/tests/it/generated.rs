//! Goldens are the files of one extension for each kind, one with a webhook for each form of the webhook, and one with all.
//! `cargo xtask generate` rewrites them.

use std::path::{Path, PathBuf};

use api_extensions::ExtensionKind;
use landscape_extension_template::{Request, Settings, files};
use tests_kit::assert_golden;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// The extensions of the goldens: folder, kinds, webhook.
pub(crate) fn extensions() -> Vec<(String, Vec<ExtensionKind>, bool)> {
    use ExtensionKind as Kind;
    let each = Kind::ALL
        .iter()
        .map(|kind| (kind.kind().to_lowercase(), vec![*kind], false));
    let webhooks = [
        ("webhook-provider", vec![Kind::Infrastructure, Kind::Worker]),
        ("webhook-extension", vec![Kind::Extension]),
        ("webhook-backup", vec![Kind::BackupBucket, Kind::BackupEntry]),
        ("webhook-network", vec![Kind::Network]),
    ];
    let webhooks = webhooks
        .into_iter()
        .map(|(folder, kinds)| (folder.to_owned(), kinds, true));
    let all = ("all".to_owned(), Kind::ALL.to_vec(), true);
    each.chain(webhooks).chain([all]).collect()
}

/// The settings of one of them.
pub(crate) fn settings(kinds: &[ExtensionKind], webhook: bool) -> Settings {
    Settings::new(Request {
        name: "moon".to_owned(),
        type_: None,
        kinds: kinds.to_vec(),
        webhook,
        sdk: PathBuf::from("/orangery"),
    })
    .unwrap()
}

#[test]
fn generated_extensions_are_those_of_the_templates() {
    for (folder, kinds, webhook) in extensions() {
        for file in files(&settings(&kinds, webhook)) {
            assert_golden(Path::new(GOLDEN).join(&folder).join(&file.path), &file.text);
        }
    }
}

#[test]
fn a_program_and_its_actuator_have_at_most_sixty_lines_of_code() {
    for kind in ExtensionKind::ALL {
        let files = files(&settings(&[*kind], false));
        let sources = files.iter().filter(|file| file.path.starts_with("src/"));
        let lines = sources.flat_map(|file| file.text.lines()).map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
        // Where rustfmt breaks the lines of a long name; and user data are more than a ConfigMap.
        let most = match kind {
            ExtensionKind::OperatingSystemConfig => 90,
            ExtensionKind::ContainerRuntime | ExtensionKind::SelfHostedShootExposure => 65,
            _ => 60,
        };
        assert!(lines <= most, "{kind}: {lines}");
    }
}
