//! Credentials in Secrets, read into a type of the extension. What is wrong is named by Secret and key; a value never appears
//! in an error, a log or `Debug`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_meta::{ErrorCode, Fault, ObjectName, SecretReference};
use base_client::get;
use base_controller::ObjectKey;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::context::Context;
use crate::field_problem::{FieldProblem, in_one_line};

/// How long an operation goes by what it has read: tokens of workload identity are renewed while it goes on.
const FRESH: Duration = Duration::from_secs(5 * 60);
/// Most references that one operation remembers.
const READ_MAX: usize = 64;

/// Credentials of one provider.
///
/// ```
/// use extensions_sdk::{Credentials, FieldProblem, SecretData};
///
/// struct Keys {
///     id: String,
///     secret: String,
///     region: Option<String>,
/// }
///
/// impl Credentials for Keys {
///     fn read(data: &SecretData<'_>) -> Result<Self, FieldProblem> {
///         // All are read before the first `?`: so all problems are reported.
///         let (id, secret) = (data.text("accessKeyID"), data.text("secretAccessKey"));
///         Ok(Self { id: id?.to_owned(), secret: secret?.to_owned(), region: data.optional_text("region")?.map(str::to_owned) })
///     }
/// }
/// ```
pub trait Credentials: Sized {
    /// Reads them from the data of a Secret.
    ///
    /// # Errors
    /// What is wrong with a key. No value may stand in it.
    fn read(data: &SecretData<'_>) -> Result<Self, FieldProblem>;
}

/// The data of a Secret, while they are read. Problems of its methods are remembered: all of them are reported, if reading
/// fails.
pub struct SecretData<'a> {
    data: Option<&'a BTreeMap<String, ByteString>>,
    problems: RefCell<Vec<FieldProblem>>,
}

impl fmt::Debug for SecretData<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&String> = self.data.iter().flat_map(|data| data.keys()).collect();
        f.debug_struct("SecretData")
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

impl<'a> SecretData<'a> {
    fn new(secret: &'a Secret) -> Self {
        Self {
            data: secret.data.as_ref(),
            problems: RefCell::default(),
        }
    }

    fn raw(&self, key: &str) -> Option<&'a [u8]> {
        self.data?.get(key).map(|ByteString(bytes)| bytes.as_slice())
    }

    fn wrong<T>(&self, key: &str, problem: &str, expected: &str) -> Result<T, FieldProblem> {
        let problem = FieldProblem::new(key, problem, expected);
        self.problems.borrow_mut().push(problem.clone());
        Err(problem)
    }

    /// Whether the key exists and holds something.
    pub fn has(&self, key: &str) -> bool {
        self.raw(key).is_some_and(|bytes| !bytes.is_empty())
    }

    /// The bytes of a key.
    ///
    /// # Errors
    /// There is no such key, or it is empty.
    pub fn bytes(&self, key: &str) -> Result<&'a [u8], FieldProblem> {
        match self.raw(key) {
            None => self.wrong(key, "is missing", "a value"),
            Some([]) => self.wrong(key, "is empty", "a value"),
            Some(bytes) => Ok(bytes),
        }
    }

    /// The text of a key. White space around it is refused, because it is nearly always a line break that was encoded with
    /// the value by mistake, and no cloud says so; where it may be meant, read [`SecretData::bytes`].
    ///
    /// # Errors
    /// There is no such key, it is empty, no UTF-8, or has white space around it.
    pub fn text(&self, key: &str) -> Result<&'a str, FieldProblem> {
        let bytes = self.bytes(key)?;
        match std::str::from_utf8(bytes) {
            Err(_) => self.wrong(key, "is no text", "UTF-8, which Kubernetes encodes in base64 once"),
            Ok(text) if text.trim() != text => {
                let expected = "the value alone (`printf` in place of `echo` when it is encoded)";
                self.wrong(key, "begins or ends with white space", expected)
            }
            Ok(text) => Ok(text),
        }
    }

    /// The text of a key that may be missing or empty.
    ///
    /// # Errors
    /// As [`SecretData::text`] where it holds something.
    pub fn optional_text(&self, key: &str) -> Result<Option<&'a str>, FieldProblem> {
        match self.has(key) {
            true => self.text(key).map(Some),
            false => Ok(None),
        }
    }

    /// The text of a key as `parse` reads it. `expected` says what that is: "a URL such as https://keystone:5000/v3".
    ///
    /// # Errors
    /// As [`SecretData::text`], and where `parse` returns nothing.
    pub fn parsed<T>(
        &self,
        key: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, FieldProblem> {
        match parse(self.text(key)?) {
            Some(value) => Ok(value),
            None => self.wrong(key, "cannot be read", expected),
        }
    }

    /// A key with JSON, such as a service account of Google's. Unknown members are ignored: they are the cloud's.
    ///
    /// # Errors
    /// There is no such key, it is empty, or it is not JSON of this type: with the place, and without what stands there.
    pub fn json<T: DeserializeOwned>(&self, key: &str, expected: &str) -> Result<T, FieldProblem> {
        serde_json::from_slice(self.bytes(key)?).or_else(|error| {
            let what = match error.is_data() {
                true => "has JSON of another form",
                false => "is no JSON",
            };
            let place = format!("{what} (line {}, column {})", error.line(), error.column());
            self.wrong(key, &place, expected)
        })
    }
}

/// Reads credentials from a Secret: for admission, which has the Secret itself.
///
/// # Errors
/// A user fault with `ERR_CONFIGURATION_PROBLEM` that names the Secret, each key that is wrong and what is expected.
pub fn credentials_of<C: Credentials>(secret: &Secret) -> Result<C, Fault> {
    let data = SecretData::new(secret);
    C::read(&data).map_err(|problem| {
        let mut problems = data.problems.take();
        if !problems.contains(&problem) {
            problems.push(problem);
        }
        let meta = &secret.metadata;
        let (namespace, name) = (meta.namespace.as_deref(), meta.name.clone().unwrap_or_default());
        let place = namespace.map_or_else(|| name.clone(), |namespace| format!("{namespace}/{name}"));
        let keys: Vec<&str> = problems.iter().map(|problem| problem.field.as_str()).collect();
        Fault::user(format!(
            "the credentials in Secret {place} cannot be used: {}",
            in_one_line(&problems)
        ))
        .code(ErrorCode::ConfigurationProblem)
        .hint(format!(
            "correct {} in the Secret of the garden that this one was copied from",
            keys.join(", ")
        ))
        .about(ObjectName::new("Secret", namespace, name))
    })
}

/// The Secrets that one operation has read.
#[derive(Clone, Default)]
pub(crate) struct SecretsRead(Arc<Mutex<Read>>);

/// Secrets, and when each was read.
type Read = BTreeMap<ObjectKey, (Instant, Arc<Secret>)>;

impl SecretsRead {
    async fn read(&self, client: &Client, key: &ObjectKey) -> Result<Option<Arc<Secret>>, Fault> {
        let now = Instant::now();
        let known = self.lock().get(key).cloned();
        if let Some((at, secret)) = known
            && now.duration_since(at) < FRESH
        {
            return Ok(Some(secret));
        }
        let api: Api<Secret> = Api::namespaced(client.clone(), key.namespace.as_deref().unwrap_or_default());
        let secret = get(&api, &key.name).await?.map(Arc::new);
        let mut read = self.lock();
        if read.len() >= READ_MAX {
            read.clear();
        }
        match &secret {
            Some(secret) => read.insert(key.clone(), (now, secret.clone())),
            None => read.remove(key),
        };
        Ok(secret)
    }

    fn lock(&self) -> MutexGuard<'_, Read> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The Secret that a reference of an object in `namespace` names; none if it names none.
pub(crate) fn referenced(reference: &SecretReference, namespace: Option<&str>) -> Option<ObjectKey> {
    let name = reference.name.clone().filter(|name| !name.is_empty())?;
    let own = reference.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    let namespace = own.or(namespace)?.to_owned();
    Some(ObjectKey {
        namespace: Some(namespace),
        name,
    })
}

impl Context {
    /// The credentials in the Secret that `reference` names, in the object's own namespace if it names none. The Secret is
    /// read once in an operation, and again when what was read is older than 5 minutes.
    ///
    /// # Errors
    /// A dependency fault while there is no such Secret; as [`credentials_of`]; what the API server returns.
    pub async fn credentials<C: Credentials>(&self, reference: &SecretReference) -> Result<C, Fault> {
        let key = referenced(reference, self.namespace.as_deref()).ok_or_else(|| {
            Fault::user("the reference to the credentials names no Secret")
                .code(ErrorCode::ConfigurationProblem)
                .hint("set name and namespace in spec.secretRef")
        })?;
        let secret = self.secrets.read(&self.client, &key).await?.ok_or_else(|| {
            Fault::dependency(format!("the credentials are missing: there is no Secret {key}"))
                .hint(
                    "gardenlet copies it from the garden: look whether the Secret exists there, and at gardenlet's log",
                )
                .about(ObjectName::new("Secret", key.namespace.as_deref(), key.name.clone()))
        })?;
        credentials_of(&secret)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    const VALUE: &str = "hunter2";

    fn secret(data: &[(&str, &str)]) -> Secret {
        let data = data
            .iter()
            .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())));
        let mut secret = Secret {
            data: Some(data.collect()),
            ..Secret::default()
        };
        secret.metadata.namespace = Some("n".to_owned());
        secret.metadata.name = Some("s".to_owned());
        secret
    }

    #[derive(Debug, PartialEq)]
    struct Two(String, u16);

    impl Credentials for Two {
        fn read(data: &SecretData<'_>) -> Result<Self, FieldProblem> {
            let user = data.text("user");
            let port = data.parsed("port", "a port from 1 to 65535", |text| text.parse().ok());
            Ok(Self(user?.to_owned(), port?))
        }
    }

    #[derive(Debug, Deserialize)]
    struct Account {
        #[expect(dead_code, reason = "only its type matters")]
        project: u32,
    }

    impl Credentials for Account {
        fn read(data: &SecretData<'_>) -> Result<Self, FieldProblem> {
            data.json("account", "a service account")
        }
    }

    #[test]
    fn all_keys_that_are_wrong_are_named_and_no_value_is() {
        assert_eq!(
            credentials_of::<Two>(&secret(&[("user", "u"), ("port", "80")])).unwrap(),
            Two("u".to_owned(), 80)
        );
        let text = |data: &[(&str, &str)]| {
            let fault = credentials_of::<Two>(&secret(data)).unwrap_err();
            assert_eq!(fault.codes, [ErrorCode::ConfigurationProblem]);
            assert_eq!(fault.class, api_meta::FaultClass::User);
            assert!(
                !format!("{} {fault:?}", fault.text_with_hint()).contains(VALUE),
                "{fault:?}"
            );
            fault.text_with_hint()
        };
        let both = text(&[("port", VALUE)]);
        assert!(
            both.contains("Secret n/s cannot be used: user is missing; expected a value, and port"),
            "{both}"
        );
        assert!(both.contains("port cannot be read; expected a port from 1 to 65535 (to do: correct user, port in"));
        assert!(text(&[("user", ""), ("port", "80")]).contains("user is empty"));
        let broken = text(&[("user", "hunter2\n"), ("port", "80")]);
        assert!(broken.contains("user begins or ends with white space"), "{broken}");
    }

    #[test]
    fn json_of_another_form_is_named_by_its_place() {
        for (json, expected) in [
            (
                r#"{"project": "hunter2"}"#,
                "has JSON of another form (line 1, column 21)",
            ),
            ("hunter2", "is no JSON (line 1, column 1)"),
        ] {
            let fault = credentials_of::<Account>(&secret(&[("account", json)])).unwrap_err();
            let text = format!("{} {fault:?}", fault.text_with_hint());
            assert!(text.contains(expected) && !text.contains(VALUE), "{text}");
        }
    }

    #[test]
    fn a_reference_without_namespace_is_to_the_objects_own() {
        let reference = |name: &str, namespace: &str| SecretReference {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
        };
        assert_eq!(
            referenced(&reference("s", ""), Some("a")),
            Some(ObjectKey::namespaced("a", "s"))
        );
        assert_eq!(
            referenced(&reference("s", "b"), Some("a")),
            Some(ObjectKey::namespaced("b", "s"))
        );
        assert_eq!(referenced(&reference("", "b"), Some("a")), None);
        assert_eq!(referenced(&reference("s", ""), None), None);
    }
}
