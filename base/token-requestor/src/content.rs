//! Where a Secret's token and authorities are: in the kubeconfig if it has one, else by themselves. Pure.

use std::collections::BTreeMap;

use api_meta::{Classified, FaultClass};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use kube::config::{AuthInfo, Cluster, Kubeconfig};
use secrecy::ExposeSecret as _;

/// Key of a token by itself.
pub(crate) const TOKEN: &str = "token";
/// Key of the authorities beside it.
pub(crate) const CA_BUNDLE: &str = "bundle.crt";
/// Key of a kubeconfig that the token goes into.
pub(crate) const KUBECONFIG: &str = "kubeconfig";

/// A Secret's data.
pub(crate) type Data = BTreeMap<String, ByteString>;

/// A kubeconfig that a token cannot be put into. Repeats nothing of its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key \"{KUBECONFIG}\": {0}")]
pub(crate) struct ContentError(&'static str);

impl Classified for ContentError {
    fn class(&self) -> FaultClass {
        FaultClass::User
    }

    fn hint(&self) -> String {
        "correct the kubeconfig in the Secret, or remove it to get the token by itself".to_owned()
    }
}

/// The token that is there; none if it is empty.
pub(crate) fn token(data: &Data) -> Result<Option<String>, ContentError> {
    let token = match kubeconfig(data)? {
        Some(mut config) => user(&mut config)?
            .token
            .as_ref()
            .map(|token| token.expose_secret().to_owned()),
        None => data
            .get(TOKEN)
            .map(|token| String::from_utf8_lossy(&token.0).into_owned()),
    };
    Ok(token.filter(|token| !token.is_empty()))
}

/// Whether the authorities that are there are these.
pub(crate) fn has_ca_bundle(data: &Data, bundle: &str) -> Result<bool, ContentError> {
    match kubeconfig(data)? {
        Some(mut config) => {
            Ok(cluster(&mut config)?.certificate_authority_data.as_deref() == Some(&*STANDARD.encode(bundle)))
        }
        None => Ok(data.get(CA_BUNDLE).is_some_and(|there| there.0 == bundle.as_bytes())),
    }
}

/// Puts a token, and authorities if there are any, where they belong.
pub(crate) fn put(data: &mut Data, token: &str, bundle: Option<&str>) -> Result<(), ContentError> {
    let Some(mut config) = kubeconfig(data)? else {
        data.insert(TOKEN.to_owned(), ByteString(token.into()));
        match bundle {
            Some(bundle) => data.insert(CA_BUNDLE.to_owned(), ByteString(bundle.into())),
            None => data.remove(CA_BUNDLE),
        };
        return Ok(());
    };
    user(&mut config)?.token = Some(token.to_owned().into());
    if let Some(bundle) = bundle {
        cluster(&mut config)?.certificate_authority_data = Some(STANDARD.encode(bundle));
    }
    let text = base_secrets::to_yaml(&config).map_err(|_| ContentError("it cannot be written as YAML"))?;
    data.insert(KUBECONFIG.to_owned(), ByteString(text.expose().into()));
    Ok(())
}

/// Takes out what [`put`] puts in: the token went elsewhere.
pub(crate) fn clear(data: &mut Data) {
    for key in [TOKEN, CA_BUNDLE, KUBECONFIG] {
        data.remove(key);
    }
}

fn kubeconfig(data: &Data) -> Result<Option<Kubeconfig>, ContentError> {
    let Some(bytes) = data.get(KUBECONFIG) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(&bytes.0).map_err(|_| ContentError("it is not UTF-8 text"))?;
    Kubeconfig::from_yaml(text)
        .map(Some)
        .map_err(|_| ContentError("it is no kubeconfig"))
}

/// Name of the current context's user and cluster.
fn current(config: &Kubeconfig) -> Result<(String, String), ContentError> {
    let current = config.current_context.as_deref().unwrap_or_default();
    let context = config.contexts.iter().find(|named| named.name == current);
    let context = context.and_then(|named| named.context.as_ref());
    let context = context.ok_or(ContentError("its current-context is not among its contexts"))?;
    Ok((context.user.clone().unwrap_or_default(), context.cluster.clone()))
}

fn user(config: &mut Kubeconfig) -> Result<&mut AuthInfo, ContentError> {
    let (name, _) = current(config)?;
    let found = config.auth_infos.iter_mut().find(|named| named.name == name);
    let found = found.ok_or(ContentError("the user of its current context is missing"))?;
    Ok(found.auth_info.get_or_insert_default())
}

fn cluster(config: &mut Kubeconfig) -> Result<&mut Cluster, ContentError> {
    let (_, name) = current(config)?;
    let found = config.clusters.iter_mut().find(|named| named.name == name);
    let found = found.and_then(|named| named.cluster.as_mut());
    found.ok_or(ContentError("the cluster of its current context is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: b\ncontexts:\n- {name: a, context: {cluster: x, user: x}}\n- {name: b, context: {cluster: c, user: u, namespace: n}}\nclusters:\n- {name: c, cluster: {server: 'https://s'}}\nusers:\n- {name: x, user: {token: theirs}}\n- {name: u, user: {}}\n";

    fn data(entries: &[(&str, &str)]) -> Data {
        entries
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString((*value).into())))
            .collect()
    }

    #[test]
    fn a_token_is_written_without_changing_other_keys_of_the_secret() {
        let mut there = data(&[("other", "x"), (TOKEN, "")]);
        assert_eq!(token(&there), Ok(None));
        put(&mut there, "t", Some("ca")).unwrap();
        assert_eq!(there, data(&[("other", "x"), (TOKEN, "t"), (CA_BUNDLE, "ca")]));
        assert_eq!(
            (has_ca_bundle(&there, "ca"), has_ca_bundle(&there, "cb")),
            (Ok(true), Ok(false))
        );
        put(&mut there, "t2", None).unwrap();
        assert_eq!(token(&there).unwrap().as_deref(), Some("t2"));
        assert!(!there.contains_key(CA_BUNDLE));
        clear(&mut there);
        assert_eq!(there, data(&[("other", "x")]));
    }

    #[test]
    fn a_kubeconfig_gets_token_and_authorities_for_its_current_context_alone() {
        let mut there = data(&[(KUBECONFIG, CONFIG)]);
        assert_eq!(token(&there), Ok(None));
        put(&mut there, "t", Some("ca")).unwrap();
        assert_eq!(token(&there).unwrap().as_deref(), Some("t"));
        assert_eq!(
            (has_ca_bundle(&there, "ca"), there.contains_key(TOKEN)),
            (Ok(true), false)
        );
        let config = kubeconfig(&there).unwrap().unwrap();
        assert_eq!(
            config.auth_infos[0]
                .auth_info
                .as_ref()
                .unwrap()
                .token
                .as_ref()
                .unwrap()
                .expose_secret(),
            "theirs"
        );
        assert_eq!(
            config.contexts[1].context.as_ref().unwrap().namespace.as_deref(),
            Some("n")
        );
    }

    #[test]
    fn a_broken_kubeconfig_is_refused_without_its_content() {
        for (text, wanted) in [
            ("users: [hunter2", "key \"kubeconfig\": it is no kubeconfig"),
            (
                "current-context: none",
                "key \"kubeconfig\": its current-context is not among its contexts",
            ),
        ] {
            assert_eq!(
                put(&mut data(&[(KUBECONFIG, text)]), "t", None)
                    .unwrap_err()
                    .to_string(),
                wanted
            );
        }
    }
}
