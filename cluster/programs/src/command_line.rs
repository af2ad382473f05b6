//! From a mapping and a container to a command line and an environment. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::Container;

use crate::Mapping;

/// Variables that only mean something where the service account is mounted at its own path.
const IN_CLUSTER: &str = "KUBERNETES_";

/// The arguments of a container behind the mapped command: the mapping's, then the container's. `expanded`: the
/// container's `command` and `args` in one list. A `command` replaces the image's entry point, whose program this is: the
/// mapped command replaces its first word, the others stay.
pub(crate) fn arguments(mapping: &Mapping, container: &Container, expanded: &[String]) -> Vec<String> {
    let has_command = container.command.as_ref().is_some_and(|command| !command.is_empty());
    let own = expanded.get(usize::from(has_command)..).unwrap_or_default();
    mapping.args.iter().chain(own).cloned().collect()
}

/// Translates paths of mounts to where these are on disk, for a program that has no mounts of its own.
pub(crate) struct Translation {
    /// Mount paths and their places on disk, the longest first.
    mounts: Vec<(String, PathBuf)>,
}

impl Translation {
    pub(crate) fn new(mounts: impl IntoIterator<Item = (String, PathBuf)>) -> Self {
        let mut mounts: Vec<_> = mounts.into_iter().collect();
        mounts.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        Translation { mounts }
    }

    /// A path within a mount; None for every other text.
    pub(crate) fn path(&self, path: &str) -> Option<String> {
        self.mounts.iter().find_map(|(mount, place)| {
            let rest = path.strip_prefix(mount.as_str())?;
            let place = place.to_string_lossy();
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{place}{rest}"))
        })
    }

    /// A word of a command line, or a value: a path within a mount, or `NAME=` and one.
    pub(crate) fn word(&self, word: &str) -> String {
        if let Some(path) = self.path(word) {
            return path;
        }
        let assigned = word
            .split_once('=')
            .and_then(|(name, value)| Some(format!("{name}={}", self.path(value)?)));
        assigned.unwrap_or_else(|| word.to_owned())
    }
}

/// The environment of a container: what the machine gives every program, the mapping's, the container's own.
pub(crate) fn environment(
    machine: BTreeMap<String, String>,
    mapping: &Mapping,
    own: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut all = machine;
    all.extend(mapping.env.clone());
    all.extend(own.clone());
    all
}

/// Removes the variables by which a program recognises that it runs in a cluster: where its service account is not mounted at
/// its usual path, the program is to read KUBECONFIG. What the container itself sets stays.
pub(crate) fn without_in_cluster(environment: &mut BTreeMap<String, String>, container: &Container) {
    let own = |name: &str| container.env.iter().flatten().any(|variable| variable.name == name);
    environment.retain(|name, _| {
        let set_by_node = name.starts_with(IN_CLUSTER) && (name.contains("_PORT") || name.ends_with("_SERVICE_HOST"));
        !set_by_node || own(name)
    });
}

#[cfg(test)]
mod tests {
    use cluster_node::ReferencePattern;
    use serde_json::json;

    use super::*;

    fn mapping() -> Mapping {
        Mapping {
            place: "images[0]".to_owned(),
            pattern: ReferencePattern::parse("a").unwrap(),
            command: vec!["/bin/manager".to_owned()],
            args: vec!["--mapped".to_owned()],
            env: [("A", "mapping"), ("B", "mapping")]
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            working_dir: None,
            built: crate::BuildSignal::default(),
        }
    }

    #[test]
    fn mapped_command_replaces_the_first_word_of_a_containers_command() {
        let of = |container: serde_json::Value, expanded: &[&str]| {
            let container: Container = serde_json::from_value(container).unwrap();
            let expanded: Vec<String> = expanded.iter().map(|word| (*word).to_owned()).collect();
            arguments(&mapping(), &container, &expanded).join(" ")
        };
        let args = json!({"name": "c", "args": ["--x"]});
        assert_eq!(of(args, &["--x"]), "--mapped --x");
        let both = json!({"name": "c", "command": ["/manager", "serve"], "args": ["--x"]});
        assert_eq!(of(both, &["/manager", "serve", "--x"]), "--mapped serve --x");
        assert_eq!(of(json!({"name": "c"}), &[]), "--mapped");
    }

    #[test]
    fn only_whole_paths_within_mounts_are_translated() {
        let translation = Translation::new([
            ("/etc/app".to_owned(), PathBuf::from("/r/volumes/app")),
            ("/etc/app/tls".to_owned(), PathBuf::from("/r/volumes/tls")),
        ]);
        for (word, expected) in [
            ("/etc/app/config.yaml", "/r/volumes/app/config.yaml"),
            ("--config=/etc/app/config.yaml", "--config=/r/volumes/app/config.yaml"),
            ("/etc/app/tls/tls.crt", "/r/volumes/tls/tls.crt"),
            ("/etc/app", "/r/volumes/app"),
            ("/etc/application", "/etc/application"),
            ("/etc/apps/x", "/etc/apps/x"),
            ("--url=https://example.org/etc/app", "--url=https://example.org/etc/app"),
            ("plain", "plain"),
        ] {
            assert_eq!(translation.word(word), expected, "{word}");
        }
    }

    #[test]
    fn variables_of_the_container_win_over_the_mapping() {
        let own = [
            ("B", "own"),
            ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
            ("KUBERNETES_VERSION", "1"),
        ];
        let own: BTreeMap<String, String> = own.map(|(name, value)| (name.into(), value.into())).into();
        let mut all = environment([("PATH".to_owned(), "/bin".to_owned())].into(), &mapping(), &own);
        assert_eq!(
            (all["A"].as_str(), all["B"].as_str(), all["PATH"].as_str()),
            ("mapping", "own", "/bin")
        );
        let container = serde_json::from_value(json!({"name": "c"})).unwrap();
        without_in_cluster(&mut all, &container);
        assert!(!all.contains_key("KUBERNETES_SERVICE_HOST") && all.contains_key("KUBERNETES_VERSION"));
        let sets = json!({"name": "c", "env": [{"name": "KUBERNETES_SERVICE_HOST", "value": "x"}]});
        let mut all = own.clone();
        without_in_cluster(&mut all, &serde_json::from_value(sets).unwrap());
        assert!(all.contains_key("KUBERNETES_SERVICE_HOST"));
    }
}
