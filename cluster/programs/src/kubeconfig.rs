//! Kubeconfigs for programs: one of a container's own identity, and those among mounted files, whose paths and addresses
//! are rewritten for the program. It never creates an identity.

use base_yaml::go;
use bytes::Bytes;
use kube::config::Kubeconfig;
use serde_json::Value;

/// Larger files are not taken for kubeconfigs: client-go's own helpers write a few kilobytes.
const KUBECONFIG_BYTES_MAX: usize = 256 << 10;
/// Fields of a cluster or a user that name a file.
const FILES: [&str; 4] = ["certificate-authority", "client-certificate", "client-key", "tokenFile"];

/// The kubeconfig of a container's service account as a file that names the token's file instead of holding the token, so
/// that a client follows it. None: it cannot be serialised, which never happens.
pub(crate) fn own(mut kubeconfig: Kubeconfig, token_file: String) -> Option<String> {
    let users = kubeconfig.auth_infos.iter_mut();
    for user in users.filter_map(|named| named.auth_info.as_mut()) {
        user.token = None;
        user.token_file = Some(token_file.clone());
    }
    go::write(&serde_json::to_value(kubeconfig).ok()?).ok()
}

/// A mounted file as the program is to find it: in a kubeconfig, `path` replaces the paths of files, `server` the URLs of
/// servers. Any other file stays as it is.
pub(crate) fn rewritten(
    file: Bytes,
    path: impl Fn(&str) -> Option<String>,
    server: impl Fn(&str) -> Option<String>,
) -> Bytes {
    if file.len() > KUBECONFIG_BYTES_MAX {
        return file;
    }
    let text = std::str::from_utf8(&file)
        .ok()
        .filter(|text| text.contains("clusters") && text.contains("server"));
    let Some(mut value) = text.and_then(|text| base_yaml::read_strict::<Value>(text).ok()) else {
        return file;
    };
    if value["kind"] != "Config" || !value["clusters"].is_array() {
        return file;
    }
    let mut changed = false;
    let mut replace = |place: &mut Value, to: &dyn Fn(&str) -> Option<String>| {
        if let Some(replaced) = place.as_str().and_then(to) {
            *place = Value::String(replaced);
            changed = true;
        }
    };
    for (list, kind) in [("clusters", "cluster"), ("users", "user")] {
        for entry in value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(entry) = entry.get_mut(kind).and_then(Value::as_object_mut) else {
                continue;
            };
            for field in FILES {
                if let Some(place) = entry.get_mut(field) {
                    replace(place, &path);
                }
            }
            if let Some(place) = entry.get_mut("server") {
                replace(place, &server);
            }
        }
    }
    match go::write(&value) {
        Ok(text) if changed => text.into(),
        _ => file,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn files_and_servers_of_a_kubeconfig_are_rewritten() {
        let text = "apiVersion: v1\nkind: Config\nclusters:\n- {name: c, cluster: {server: 'https://127.0.0.1:1/x'}}\n\
                    users:\n- {name: u, user: {tokenFile: /var/run/token, extra: kept}}\n";
        let path = |path: &str| path.strip_prefix("/var/run/").map(|rest| format!("/r/{rest}"));
        let server = |url: &str| url.contains("127.0.0.1").then(|| url.replace("127.0.0.1", "192.0.2.1"));
        let replaced = rewritten(Bytes::from(text), path, server);
        let value: Value = base_yaml::read_strict(std::str::from_utf8(&replaced).unwrap()).unwrap();
        assert_eq!(value["clusters"][0]["cluster"]["server"], "https://192.0.2.1:1/x");
        assert_eq!(
            value["users"][0]["user"],
            json!({"tokenFile": "/r/token", "extra": "kept"})
        );
        for other in [
            "server: clusters",
            "kind: Other\nclusters: []\nserver: x\n",
            "\u{0}clusters server",
        ] {
            assert_eq!(rewritten(Bytes::from(other), path, server), other);
        }
        let same = text.replace("127.0.0.1", "10.0.0.1").replace("/var/run", "/var");
        assert_eq!(
            rewritten(Bytes::from(same.clone()), path, server),
            same,
            "nothing to rewrite"
        );
    }

    #[test]
    fn a_containers_own_kubeconfig_names_the_tokens_file() {
        let kubeconfig: Kubeconfig = serde_json::from_value(json!({
            "users": [{"name": "u", "user": {"token": "hunter2"}}],
        }))
        .unwrap();
        let text = own(kubeconfig, "/r/token".to_owned()).unwrap();
        assert!(
            text.contains("tokenFile: /r/token") && !text.contains("hunter2"),
            "{text}"
        );
    }
}
