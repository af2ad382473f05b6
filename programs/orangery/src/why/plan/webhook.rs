//! Which webhook stands in the way, from the words that an API server uses.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go)

use control_plane_gardenlet::judged;

/// What the API server says before the name of a webhook that has refused, or that it could not ask.
const REFUSED: &str = "admission webhook \"";
const NOT_ASKED: &str = "failed calling webhook \"";

/// A webhook in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Webhook<'a> {
    name: &'a str,
    asked: bool,
    text: &'a str,
}

impl<'a> Webhook<'a> {
    /// The first that a text names.
    pub(super) fn in_text(text: &'a str) -> Option<Self> {
        let after = |begin: &str| text.split_once(begin)?.1.split_once('"');
        if let Some((name, _)) = after(NOT_ASKED) {
            return Some(Self {
                name,
                asked: false,
                text,
            });
        }
        let (name, rest) = after(REFUSED)?;
        rest.trim_start().starts_with("denied the request").then_some(Self {
            name,
            asked: true,
            text,
        })
    }

    /// One thing to do about it. `known`: the webhooks of the cluster it is in.
    pub(super) fn to_do(&self, known: &[judged::Webhook]) -> String {
        let name = self.name;
        match (self.asked, judged::webhook_in(known, self.text)) {
            (true, _) => format!("correct what webhook {name} objects to; its message is whole above"),
            (false, Some(webhook)) => webhook.to_do(),
            (false, None) => format!("mend the program that serves webhook {name}: it does not answer"),
        }
    }

    /// Who serves it.
    pub(super) fn who(&self, known: &[judged::Webhook]) -> String {
        let webhook = judged::webhook_in(known, self.text);
        webhook.map_or_else(|| format!("webhook {}", self.name), judged::Webhook::title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_that_refuses_and_one_that_does_not_answer_are_told_apart() {
        let refused = "apply Worker: admission webhook \"w.example.com\" denied the request: no";
        assert_eq!(
            Webhook::in_text(refused),
            Some(Webhook {
                name: "w.example.com",
                asked: true,
                text: refused,
            })
        );
        let silent = "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: EOF";
        assert_eq!(
            Webhook::in_text(silent),
            Some(Webhook {
                name: "w.example.com",
                asked: false,
                text: silent,
            })
        );
        assert_eq!(Webhook::in_text("the admission webhook \"w\" is new"), None);
    }
}
