//! Which admission webhook stands behind an API server's answer. An API server has no field for it: its message is the only
//! place that names the webhook, so this is the one place where a message is read. Errors carry the result as data from the
//! moment they are made; what other programs put into events and conditions is recognised by the same function.

use serde::{Deserialize, Serialize};

/// What an API server puts before the name of a webhook that does not answer, and of one that refuses, and behind the
/// latter. (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go)
const NOT_ANSWERED: &str = "failed calling webhook \"";
const REFUSED: &str = "admission webhook \"";
const DENIED: &str = " denied the request";
/// Around the host in the URL of a webhook that is reached by a Service, `NAME.NAMESPACE.svc`.
const URL: &str = "\"https://";
const SERVICE: &str = ".svc";

/// A webhook that has refused a request, or has not answered it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookFailure {
    /// Its name, as the API server reports it.
    pub name: String,
    /// Whether it has answered: then it has refused.
    pub has_answered: bool,
    /// Kind and name of its configuration, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// `namespace/name` of the Service it is reached by, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

impl WebhookFailure {
    /// The webhook that an API server's message is about; nothing for messages about anything else.
    pub fn in_message(message: &str) -> Option<Self> {
        let behind = |begin: &str| message.split_once(begin)?.1.split_once('"');
        if let Some((name, rest)) = behind(NOT_ANSWERED) {
            return Some(Self {
                name: name.to_owned(),
                service: service_in(rest),
                ..Self::default()
            });
        }
        let (name, rest) = behind(REFUSED)?;
        rest.starts_with(DENIED).then(|| Self {
            name: name.to_owned(),
            has_answered: true,
            ..Self::default()
        })
    }
}

fn service_in(text: &str) -> Option<String> {
    let (host, _) = text.split_once(URL)?.1.split_once(SERVICE)?;
    let (name, namespace) = host.split_once('.')?;
    let is_label = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    (is_label(name) && is_label(namespace)).then(|| format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusing_webhook_and_an_unanswering_one_are_distinguished() {
        let refused = "apply Worker: admission webhook \"w.example.com\" denied the request: no";
        let found = WebhookFailure::in_message(refused).unwrap();
        assert_eq!((found.name.as_str(), found.has_answered), ("w.example.com", true));
        let silent = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: Post \
                      \"https://s.n.svc:443/?timeout=10s\": EOF";
        let found = WebhookFailure::in_message(silent).unwrap();
        assert_eq!((found.name.as_str(), found.has_answered), ("w.example.com", false));
        assert_eq!(found.service.as_deref(), Some("n/s"));
    }

    #[test]
    fn other_messages_are_about_no_webhook() {
        for message in [
            "the admission webhook \"w\" is new",
            "admission webhook \"w",
            "failed calling webhook w: EOF",
            "connection refused",
            "",
        ] {
            assert_eq!(WebhookFailure::in_message(message), None, "{message}");
        }
    }

    #[test]
    fn a_webhook_that_is_reached_by_another_url_has_no_service() {
        for url in ["https://w.example.com/x", "https://10.0.0.1:443/", "https://a b.n.svc/"] {
            let message = format!("failed calling webhook \"w\": failed to call webhook: Post \"{url}\": EOF");
            assert_eq!(WebhookFailure::in_message(&message).unwrap().service, None, "{url}");
        }
    }
}
