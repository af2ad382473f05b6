//! What an issuer of service account tokens publishes, so that others can verify its tokens without a TokenReview: OpenID
//! Connect Discovery 1.0 and a JSON Web Key Set (RFC 7517), as kube-apiserver writes them
//! (kubernetes/kubernetes v1.35 pkg/serviceaccount/openidmetadata.go).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use crate::ServiceAccountTokens;

/// Below the issuer: where its configuration is.
pub const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// Below an API server: where the keys are.
pub const KEYS_PATH: &str = "/openid/v1/jwks";
/// Signature algorithm of all tokens.
const ALGORITHM: &str = "ES256";
const SECURE: &str = "https://";

/// The two documents, as they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerDocuments {
    /// Who the issuer is and where its keys are.
    pub configuration: String,
    /// Its keys.
    pub keys: String,
}

#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: &'a str,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: [&'static str; 1],
}

#[derive(Serialize)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Serialize)]
struct Key {
    #[serde(rename = "use")]
    usage: &'static str,
    kty: &'static str,
    kid: String,
    crv: &'static str,
    alg: &'static str,
    x: String,
    y: String,
}

impl IssuerDocuments {
    /// Those of the issuer of these tokens. `keys_url` is where others find the keys; [`KEYS_PATH`] below the issuer when
    /// absent. `None` where no client could find them: the issuer has no `https` URL, or one with a query or a fragment, it has
    /// no keys, or `keys_url` is not `https`.
    pub fn of(tokens: &ServiceAccountTokens, keys_url: Option<&str>) -> Option<Self> {
        let issuer = tokens.issuer();
        let below = format!("{}{KEYS_PATH}", issuer.trim_end_matches('/'));
        let keys_url = keys_url.unwrap_or(&below);
        let keys: Vec<Key> = tokens.keys().map(key).collect();
        if !issuer.starts_with(SECURE)
            || issuer.contains(['?', '#'])
            || !keys_url.starts_with(SECURE)
            || keys.is_empty()
        {
            return None;
        }
        let configuration = Configuration {
            issuer,
            jwks_uri: keys_url,
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: [ALGORITHM],
        };
        Some(Self {
            configuration: text(&configuration),
            keys: text(&Keys { keys }),
        })
    }
}

fn key(key: &base_secrets::PublicKey) -> Key {
    let (x, y) = key.coordinates();
    Key {
        usage: "sig",
        kty: "EC",
        kid: key.key_id(),
        crv: "P-256",
        alg: ALGORITHM,
        x: URL_SAFE_NO_PAD.encode(x),
        y: URL_SAFE_NO_PAD.encode(y),
    }
}

fn text(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("structs of text always serialise")
}

#[cfg(test)]
mod tests {
    use base_clock::{Clock, Entropy};
    use base_secrets::PrivateKey;

    use super::*;

    fn documents(issuer: &str, keys_url: Option<&str>) -> Option<IssuerDocuments> {
        let key = PrivateKey::generate(&Entropy::seeded(1));
        let tokens = ServiceAccountTokens::new(issuer.to_owned(), Vec::new(), Some(key), Vec::new(), Clock::real());
        IssuerDocuments::of(&tokens, keys_url)
    }

    #[test]
    fn documents_that_cannot_be_found_are_not_published() {
        for (issuer, keys_url) in [
            ("kubernetes/serviceaccount", None),
            ("http://a.example", None),
            ("https://a.example?b", None),
            ("https://a.example#b", None),
            ("https://a.example", Some("http://a.example/keys")),
        ] {
            assert_eq!(documents(issuer, keys_url), None, "{issuer} {keys_url:?}");
        }
        let keyless = ServiceAccountTokens::new("https://a".to_owned(), Vec::new(), None, Vec::new(), Clock::real());
        assert_eq!(IssuerDocuments::of(&keyless, None), None);
    }

    #[test]
    fn keys_are_at_the_given_url_or_below_the_issuer() {
        for (issuer, keys_url, expected) in [
            ("https://a.example", None, "https://a.example/openid/v1/jwks"),
            ("https://a.example/b/", None, "https://a.example/b/openid/v1/jwks"),
            ("https://a.example", Some("https://c.example/d"), "https://c.example/d"),
        ] {
            let configuration = documents(issuer, keys_url).unwrap().configuration;
            let configuration: serde_json::Value = serde_json::from_str(&configuration).unwrap();
            assert_eq!(configuration["jwks_uri"], expected);
            assert_eq!(configuration["issuer"], issuer);
        }
    }

    #[test]
    fn published_key_is_the_one_that_tokens_name() {
        let key = PrivateKey::generate(&Entropy::seeded(1)).public();
        let documents = documents("https://a.example", None).unwrap();
        let published: serde_json::Value = serde_json::from_str(&documents.keys).unwrap();
        let coordinate = |name: &str| {
            URL_SAFE_NO_PAD
                .decode(published["keys"][0][name].as_str().unwrap())
                .unwrap()
        };
        let (x, y) = key.coordinates();
        assert_eq!((coordinate("x"), coordinate("y")), (x.to_vec(), y.to_vec()));
        assert_eq!(published["keys"][0]["kid"], key.key_id().as_str());
    }
}
