//! An API server on an etcd: whether the flags can be used, whether etcd answers, and whether what lies under the prefix belongs
//! to the keys of this data folder, or to servers that have none.

use std::path::{Path, PathBuf};

use api_meta::Fault;
use cluster_store::{Key, Object, Store, StoreError};
use cluster_store_etcd::{EtcdIdentity, EtcdOptions, EtcdStore, EtcdTls};
use serde_json::{Value, json};

use crate::server_data::Keys;

/// Where it is written whose prefix it is. No API serves it.
const OWNER: &str = "orangery.dev/apiserver";
const OWNER_NAME: &str = "keys";
/// Where it is written that a prefix is one of garden API servers.
const SHARED: &str = "orangery.dev/garden-apiserver";
const SHARED_NAME: &str = "form";
/// Raised when an older version could not read any more what is written.
const SHARED_FORM: u64 = 1;

/// Which etcd, and how; in the order of the flags `--etcd-servers`, `--etcd-prefix`, `--etcd-cafile`, `--etcd-certfile`,
/// `--etcd-keyfile` and `--leader-elect`, which messages name.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// Client URLs of its members; none where objects are in the data folder.
    pub servers: Vec<String>,
    /// What all keys begin with.
    pub prefix: String,
    /// PEM file with the authority of etcd's certificate.
    pub cafile: Option<PathBuf>,
    /// PEM file with the certificate that this process shows etcd.
    pub certfile: Option<PathBuf>,
    /// PEM file with the key of that certificate.
    pub keyfile: Option<PathBuf>,
    /// Run controllers and scheduler only while no other process on the same etcd does.
    pub leader_elect: bool,
}

/// The store on the etcd of these flags; `path` is where the keys are.
///
/// # Errors
/// A flag that cannot be used, an etcd that does not answer, a prefix that another wrote to.
pub(crate) async fn open(flags: &EtcdSettings, keys: &Keys, path: &Path) -> Result<EtcdStore, Fault> {
    let (store, first) = reach(flags).await?;
    own(&store, flags, first, keys, path).await?;
    Ok(store)
}

/// The store on the etcd of these flags, for a server without keys that keeps the garden's kinds alone. Any number of these
/// share a prefix. One of `orangery garden` is taken over: it holds the same kinds in the same form, and what else it holds is
/// left alone.
///
/// # Errors
/// A flag that cannot be used, an etcd that does not answer, a prefix that another wrote to.
pub async fn open_shared(flags: &EtcdSettings) -> Result<EtcdStore, Fault> {
    let (store, first) = reach(flags).await?;
    share(&store, flags, first).await?;
    Ok(store)
}

/// The store, and the first key under its prefix.
async fn reach(flags: &EtcdSettings) -> Result<(EtcdStore, Option<String>), Fault> {
    let store = EtcdStore::new(&options(flags)?).map_err(|error| {
        let hint = match (&flags.cafile, flags.servers.iter().any(|url| is_secure(url))) {
            (None, true) => "name the PEM file of etcd's authority with --etcd-cafile",
            _ => "correct --etcd-servers, --etcd-cafile, --etcd-certfile or --etcd-keyfile, whichever it names",
        };
        Fault::user(error.to_string()).hint(hint)
    })?;
    let first = store.first_key().await.map_err(|error| unreachable(flags, &error))?;
    Ok((store, first))
}

fn is_secure(url: &str) -> bool {
    url.starts_with("https://")
}

fn options(flags: &EtcdSettings) -> Result<EtcdOptions, Fault> {
    let authorities_pem = read_pem("--etcd-cafile", flags.cafile.as_ref())?;
    let certificates_pem = read_pem("--etcd-certfile", flags.certfile.as_ref())?;
    let key_pem = read_pem("--etcd-keyfile", flags.keyfile.as_ref())?;
    let identity = certificates_pem.zip(key_pem).map(|(certificates, key)| EtcdIdentity {
        certificates_pem: certificates.into_bytes(),
        key_pem: key.into(),
    });
    if authorities_pem.is_none() && identity.is_some() {
        return Err(Fault::user("--etcd-certfile is given without --etcd-cafile")
            .hint("name the PEM file of etcd's authority with --etcd-cafile"));
    }
    Ok(EtcdOptions {
        endpoints: flags.servers.clone(),
        prefix: flags.prefix.clone(),
        tls: authorities_pem.map(|authorities| EtcdTls {
            authorities_pem: authorities.into_bytes(),
            identity,
            server_name: None,
        }),
        ..EtcdOptions::default()
    })
}

/// What a PEM file of a flag holds, if the flag is given.
///
/// # Errors
/// The file cannot be read.
pub fn read_pem(flag: &str, path: Option<&PathBuf>) -> Result<Option<String>, Fault> {
    let Some(path) = path else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|error| {
        Fault::user(format!("cannot read {} of {flag}: {error}", path.display()))
            .hint(format!("name a PEM file that you may read with {flag}"))
    });
    text.map(Some)
}

fn unreachable(flags: &EtcdSettings, error: &StoreError) -> Fault {
    let message = error.to_string();
    let hint = if message.contains("invalid peer certificate") {
        "name the PEM file of the authority that signed etcd's certificate with --etcd-cafile, and in --etcd-servers a \
         name that the certificate is for"
    } else if flags.certfile.is_none() && flags.servers.iter().any(|url| is_secure(url)) {
        // An etcd that wants to know its clients only hangs up.
        "start etcd, or name where it listens with --etcd-servers; if it requires client certificates, name one with \
         --etcd-certfile and --etcd-keyfile"
    } else {
        "start etcd, or name where it listens with --etcd-servers"
    };
    Fault::user(format!("--etcd-servers {}: {message}", flags.servers.join(","))).hint(hint)
}

/// Makes an empty prefix one of garden API servers, and refuses one that is another's or of a later form.
async fn share(store: &EtcdStore, flags: &EtcdSettings, first: Option<String>) -> Result<(), Fault> {
    let failed = |error: StoreError| unreachable(flags, &error);
    let key = Key::new(SHARED, None, SHARED_NAME);
    let found = match store.get(&key).await.map_err(failed)? {
        Some(found) => found,
        None => {
            let garden = Key::new(OWNER, None, OWNER_NAME);
            let is_garden = first.is_some() && store.get(&garden).await.map_err(failed)?.is_some();
            if let Some(first) = first.filter(|_| !is_garden) {
                return Err(foreign(
                    flags,
                    &format!("{first}, which is not of an `orangery garden-apiserver`"),
                ));
            }
            let ours = json!({"metadata": {"name": SHARED_NAME}, "form": SHARED_FORM});
            let ours = Object::from_value(ours).map_err(|error| Fault::bug(error.to_string()))?;
            match store.create(key, ours).await {
                Ok(entry) | Err(StoreError::Exists { current: entry }) => entry,
                Err(error) => return Err(failed(error)),
            }
        }
    };
    let form = found.object.value(found.revision)["form"].as_u64().unwrap_or(u64::MAX);
    if form > SHARED_FORM {
        let hint = "run the version of `orangery garden-apiserver` that wrote it, or a later one";
        return Err(foreign(flags, "a garden in a form that this version does not know").hint(hint));
    }
    Ok(())
}

/// Makes an empty prefix the one of these keys, and refuses one that is another's: tokens and certificates of one would
/// mean nothing to the other.
async fn own(
    store: &EtcdStore,
    flags: &EtcdSettings,
    first: Option<String>,
    keys: &Keys,
    path: &Path,
) -> Result<(), Fault> {
    let key = Key::new(OWNER, None, OWNER_NAME);
    let failed = |error: StoreError| unreachable(flags, &error);
    let found = store.get(&key).await.map_err(failed)?;
    let found = match (found, first) {
        (Some(found), _) => found,
        (None, Some(first)) => {
            return Err(foreign(
                flags,
                &format!("{first}, which is not of `orangery apiserver`"),
            ));
        }
        (None, None) => {
            let ours = Object::from_value(owner(keys)).map_err(|error| Fault::bug(error.to_string()))?;
            match store.create(key, ours).await {
                Ok(entry) | Err(StoreError::Exists { current: entry }) => entry,
                Err(error) => return Err(failed(error)),
            }
        }
    };
    let written = found.object.value(found.revision);
    if written.get("data") == owner(keys).get("data") {
        return Ok(());
    }
    let hint = format!(
        "copy the `keys` file of the process that wrote it to {}, or name another prefix with --etcd-prefix",
        path.display()
    );
    Err(foreign(flags, "the Kubernetes of other keys").hint(hint))
}

fn foreign(flags: &EtcdSettings, what: &str) -> Fault {
    Fault::user(format!(
        "--etcd-prefix {} of {} holds {what}",
        flags.prefix,
        flags.servers.join(",")
    ))
    .hint("name another prefix with --etcd-prefix")
}

/// Nothing of it is secret.
fn owner(keys: &Keys) -> Value {
    json!({
        "metadata": {"name": OWNER_NAME},
        "data": {
            "authority": keys.authority.certificate_pem(),
            "clientAuthority": keys.clients.certificate_pem(),
            "serviceAccounts": keys.tokens.public().to_pem(),
        },
    })
}
