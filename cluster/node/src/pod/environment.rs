//! A container's environment and command line: pure, from the pod and the Secrets and ConfigMaps it names.

use std::collections::BTreeMap;
use std::net::IpAddr;

use base_go::quoted;
use k8s_openapi::api::core::v1::{Container, EnvVarSource, Pod};

use super::resources::resource_value;
use super::sources::Found;

/// What the pod knows about itself beyond its object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) pod_ip: IpAddr,
    pub(crate) host_ip: Option<IpAddr>,
    pub(crate) node_name: &'a str,
    /// What the node can hold.
    pub(crate) capacity: &'a BTreeMap<String, String>,
}

/// Why a container cannot be configured; it stays waiting with reason `CreateContainerConfigError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error("secret \"{0}\" not found")]
    SecretMissing(String),
    #[error("configmap \"{0}\" not found")]
    ConfigMapMissing(String),
    #[error("couldn't find key {key} in {kind} {name}")]
    KeyMissing {
        kind: &'static str,
        name: String,
        key: String,
    },
    #[error("unsupported source of variable {0}: only values, fields, resources, secrets and config maps can be read")]
    Unsupported(String),
}

/// All variables of a container; later ones win, and `env` wins over `envFrom`, which wins over those of the services.
pub(crate) fn environment(
    pod: &Pod,
    container: &Container,
    services: BTreeMap<String, String>,
    found: &Found,
    facts: Facts<'_>,
) -> Result<BTreeMap<String, String>, EnvironmentError> {
    let mut variables = services;
    for source in container.env_from.iter().flatten() {
        let prefix = source.prefix.as_deref().unwrap_or_default();
        let mut take = |data: &BTreeMap<String, bytes::Bytes>| {
            for (key, value) in data {
                variables.insert(format!("{prefix}{key}"), text(value));
            }
        };
        if let Some(secret) = &source.secret_ref {
            match found.secret(&secret.name) {
                Some(data) => take(data),
                None if secret.optional == Some(true) => {}
                None => return Err(EnvironmentError::SecretMissing(secret.name.clone())),
            }
        }
        if let Some(map) = &source.config_map_ref {
            match found.config_map(&map.name) {
                Some(data) => take(data),
                None if map.optional == Some(true) => {}
                None => return Err(EnvironmentError::ConfigMapMissing(map.name.clone())),
            }
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match &variable.value_from {
            Some(source) => from_source(&variable.name, source, (pod, container), found, facts)?,
            None => Some(expand(variable.value.as_deref().unwrap_or_default(), &variables)),
        };
        if let Some(value) = value {
            variables.insert(variable.name.clone(), value);
        }
    }
    Ok(variables)
}

fn from_source(
    variable: &str,
    source: &EnvVarSource,
    (pod, container): (&Pod, &Container),
    found: &Found,
    facts: Facts<'_>,
) -> Result<Option<String>, EnvironmentError> {
    let pick = |data: Option<&BTreeMap<String, bytes::Bytes>>,
                absent: EnvironmentError,
                kind: &'static str,
                name: &str,
                key: &str,
                optional: Option<bool>| {
        let optional = optional == Some(true);
        match data.map(|data| data.get(key)) {
            Some(Some(value)) => Ok(Some(text(value))),
            _ if optional => Ok(None),
            Some(None) => Err(EnvironmentError::KeyMissing {
                kind,
                name: name.to_owned(),
                key: key.to_owned(),
            }),
            None => Err(absent),
        }
    };
    if let Some(field) = &source.field_ref {
        return field_value(pod, &field.field_path, facts)
            .map(Some)
            .ok_or_else(|| EnvironmentError::Unsupported(variable.to_owned()));
    }
    if let Some(resource) = &source.resource_field_ref {
        return resource_value(pod, Some(container), resource, facts.capacity)
            .map(Some)
            .ok_or_else(|| EnvironmentError::Unsupported(variable.to_owned()));
    }
    if let Some(secret) = &source.secret_key_ref {
        let absent = EnvironmentError::SecretMissing(secret.name.clone());
        return pick(
            found.secret(&secret.name),
            absent,
            "Secret",
            &secret.name,
            &secret.key,
            secret.optional,
        );
    }
    if let Some(map) = &source.config_map_key_ref {
        let absent = EnvironmentError::ConfigMapMissing(map.name.clone());
        return pick(
            found.config_map(&map.name),
            absent,
            "ConfigMap",
            &map.name,
            &map.key,
            map.optional,
        );
    }
    Err(EnvironmentError::Unsupported(variable.to_owned()))
}

/// A field of the pod as the downward API names it; None for a path it does not know.
pub(crate) fn field_value(pod: &Pod, path: &str, facts: Facts<'_>) -> Option<String> {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let entry = |map: &Option<BTreeMap<String, String>>, prefix: &str| {
        let key = path.strip_prefix(prefix)?.strip_suffix("']")?;
        Some(map.as_ref().and_then(|map| map.get(key).cloned()).unwrap_or_default())
    };
    Some(match path {
        "metadata.name" => meta.name.clone().unwrap_or_default(),
        "metadata.namespace" => meta.namespace.clone().unwrap_or_default(),
        "metadata.uid" => meta.uid.clone().unwrap_or_default(),
        "metadata.labels" => lines(&meta.labels),
        "metadata.annotations" => lines(&meta.annotations),
        "spec.nodeName" => facts.node_name.to_owned(),
        "spec.serviceAccountName" => spec
            .and_then(|spec| spec.service_account_name.clone())
            .unwrap_or_else(|| "default".to_owned()),
        "status.podIP" | "status.podIPs" => facts.pod_ip.to_string(),
        "status.hostIP" | "status.hostIPs" => facts.host_ip.map(|ip| ip.to_string()).unwrap_or_default(),
        _ => entry(&meta.labels, "metadata.labels['").or_else(|| entry(&meta.annotations, "metadata.annotations['"))?,
    })
}

/// `key="value"` per line, quoted as Go does, as the kubelet writes maps into downward API files
/// (kubernetes/kubernetes v1.35 pkg/fieldpath/fieldpath.go FormatMap).
fn lines(map: &Option<BTreeMap<String, String>>) -> String {
    let lines: Vec<String> = map
        .iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", quoted(value)))
        .collect();
    lines.join("\n")
}

fn text(value: &bytes::Bytes) -> String {
    String::from_utf8_lossy(value).into_owned()
}

/// The variables that lead a program to the API server of its cluster, as a kubelet sets them whatever `enableServiceLinks`
/// is (kubernetes/kubernetes v1.35 pkg/kubelet/kubelet_pods.go, pkg/kubelet/envvars/envvars.go).
pub(crate) fn service_variables(address: &str, port: i32) -> BTreeMap<String, String> {
    let host = match address.contains(':') {
        true => format!("[{address}]"),
        false => address.to_owned(),
    };
    let url = format!("tcp://{host}:{port}");
    let variables = [
        ("KUBERNETES_SERVICE_HOST".to_owned(), address.to_owned()),
        ("KUBERNETES_SERVICE_PORT".to_owned(), port.to_string()),
        ("KUBERNETES_SERVICE_PORT_HTTPS".to_owned(), port.to_string()),
        ("KUBERNETES_PORT".to_owned(), url.clone()),
        (format!("KUBERNETES_PORT_{port}_TCP"), url),
        (format!("KUBERNETES_PORT_{port}_TCP_PROTO"), "tcp".to_owned()),
        (format!("KUBERNETES_PORT_{port}_TCP_PORT"), port.to_string()),
        (format!("KUBERNETES_PORT_{port}_TCP_ADDR"), address.to_owned()),
    ];
    variables.into()
}

/// `command` and `args` in one list with `$(VAR)` expanded.
pub(crate) fn arguments(container: &Container, variables: &BTreeMap<String, String>) -> Vec<String> {
    let parts = container
        .command
        .iter()
        .flatten()
        .chain(container.args.iter().flatten());
    parts.map(|part| expand(part, variables)).collect()
}

/// Replaces `$(NAME)` by the variable; `$$` stands for `$`, and what is not known stays as it is
/// (kubernetes/kubernetes v1.35 third_party/forked/golang/expansion/expand.go).
pub(crate) fn expand(input: &str, variables: &BTreeMap<String, String>) -> String {
    let mut output = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(at) = rest.find('$') {
        output.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            output.push('$');
            rest = after;
            continue;
        }
        match rest.strip_prefix('(').and_then(|inner| inner.split_once(')')) {
            Some((name, after)) => {
                match variables.get(name) {
                    Some(value) => output.push_str(value),
                    None => output.extend(["$(", name, ")"]),
                }
                rest = after;
            }
            None => output.push('$'),
        }
    }
    output.push_str(rest);
    output
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const FACTS: Facts<'static> = Facts {
        pod_ip: IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)),
        host_ip: None,
        node_name: "node-a",
        capacity: &BTreeMap::new(),
    };

    fn pod() -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "etcd-0", "namespace": "ns", "uid": "u", "labels": {"a/b": "c"}},
            "spec": {"containers": []}
        }))
        .unwrap()
    }

    fn container(value: serde_json::Value) -> Container {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn variables_expand_once_and_unknown_ones_stay() {
        let variables = [("A".to_owned(), "x".to_owned()), ("B".to_owned(), "$(A)".to_owned())].into();
        for (input, output) in [
            ("--$(A)=$(A)", "--x=x"),
            ("$(B)", "$(A)"),
            ("$$(A) $$$(A)", "$(A) $x"),
            ("$(C) $A $(A", "$(C) $A $(A"),
            ("$", "$"),
        ] {
            assert_eq!(expand(input, &variables), output, "{input}");
        }
    }

    #[test]
    fn environment_reads_fields_secrets_and_maps_in_order() {
        let mut found = Found::default();
        found.put_secret(
            "s",
            Some([("k".to_owned(), "secret".into()), ("A".to_owned(), "from".into())].into()),
        );
        found.put_config_map("m", None);
        let container = container(json!({
            "name": "c",
            "envFrom": [{"secretRef": {"name": "s"}, "prefix": "S_"}, {"configMapRef": {"name": "m", "optional": true}}],
            "env": [
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
                {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": true}}},
                {"name": "S_A", "value": "$(NAME)-$(LATER)"},
            ],
            "command": ["etcd"], "args": ["--name=$(NAME)"]
        }));
        let services = [("KEY", "of a service"), ("PORT", "443")];
        let services = services.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let variables = environment(&pod(), &container, services, &found, FACTS).unwrap();
        let expected = [
            ("KEY", "secret"),
            ("LABEL", "c"),
            ("NAME", "etcd-0"),
            ("PORT", "443"),
            ("S_A", "etcd-0-$(LATER)"),
            ("S_k", "secret"),
        ];
        assert_eq!(
            variables
                .iter()
                .map(|(k, v)| (k.as_str(), v.as_str()))
                .collect::<Vec<_>>(),
            expected
        );
        assert_eq!(arguments(&container, &variables), ["etcd", "--name=etcd-0"]);
    }

    #[test]
    fn maps_are_written_as_go_quotes_them() {
        let mut pod = pod();
        pod.metadata.annotations = Some(
            [("b", "\u{1b}[1m\0é\u{ad}"), ("a", "one\ntwo \"three\" 'four' \\")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
        );
        let value = |path: &str| field_value(&pod, path, FACTS).unwrap();
        assert_eq!(value("metadata.labels"), r#"a/b="c""#);
        let expected = [r#"a="one\ntwo \"three\" 'four' \\""#, r#"b="\x1b[1m\x00é\u00ad""#];
        assert_eq!(value("metadata.annotations"), expected.join("\n"));
    }

    #[test]
    fn a_missing_secret_key_or_resource_is_named_in_the_error() {
        let mut found = Found::default();
        found.put_secret("s", Some(BTreeMap::new()));
        let variable =
            |from: serde_json::Value| container(json!({"name": "c", "env": [{"name": "V", "valueFrom": from}]}));
        let error = |from| {
            environment(&pod(), &variable(from), BTreeMap::new(), &found, FACTS)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            error(json!({"secretKeyRef": {"name": "s", "key": "k"}})),
            "couldn't find key k in Secret s"
        );
        assert_eq!(
            error(json!({"secretKeyRef": {"name": "x", "key": "k"}})),
            "secret \"x\" not found"
        );
        assert!(error(json!({"resourceFieldRef": {"resource": "limits.none"}})).contains("variable V"));
    }
}
