//! Charts from registries: flags, configuration files and the cache folder of a person, made into a client of `base-oci`. It stores
//! no credentials: `helm registry login` and `docker login` do.

use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api_meta::{Classified as _, Fault};
use base_clock::{Clock, Entropy};
use base_helm::chart::CHART_BYTES_MAX;
use base_oci::{
    CACHE_BYTES_MAX, CONFIG_BYTES_MAX, Cache, Client, Error, Identity, Keyring, Kind, Proxies, Reference, Settings,
    SettingsError,
};
use secrecy::SecretString;

use super::helper::Programs;
use super::{Pull, STANDARD_INPUT, Setting, read_at_most, read_from};

/// Most bytes of a password or token from standard input; the longest tokens of clouds have some thousand.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;
/// Most bytes of a file in PEM: the authorities of a whole machine have a quarter of it.
const PEM_BYTES_MAX: u64 = 1 << 20;

/// The archive of the chart that `name` and the flags mean.
///
/// # Errors
/// Invalid flags or files; the registry's error.
pub(super) async fn pull(name: &str, setting: &Setting) -> Result<Vec<u8>, Fault> {
    let pull = &setting.pull;
    let reference = Reference::parse(name)
        .map_err(|why| Fault::user(why).hint("write it as oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]"))?;
    let mut settings = Settings::new(Clock::real(), Entropy::os());
    settings.keyring = keyring(&reference, setting)?;
    settings.helper = Some(Arc::new(Programs));
    settings.ca_bundle = pull
        .ca_file
        .as_deref()
        .map(|path| pem(path, &AUTHORITIES))
        .transpose()?;
    settings.identity = identity(pull)?;
    settings.proxies = Proxies::of_variables(|name| Some(env::var_os(name)?.to_string_lossy().into_owned()));
    settings.insecure_skip_tls_verify = pull.insecure_skip_tls_verify;
    settings.plain_http = pull.plain_http;
    settings.cache = cache();
    settings.watcher = pull.watcher.clone();
    let client = Client::new(settings).map_err(|why| {
        let hint = match why {
            SettingsError::Identity(_) => CERTIFICATE.1,
            SettingsError::Bundle | SettingsError::Tls(_) => AUTHORITIES.1,
        };
        Fault::user(why).hint(hint)
    })?;
    let pulled = client
        .pull_chart(&reference, pull.version.as_deref(), CHART_BYTES_MAX)
        .await;
    Ok(pulled.map_err(fault_of)?.bytes.to_vec())
}

/// The error as a fault whose hint names the flags that help.
fn fault_of(error: Error) -> Fault {
    let hint = match error.kind.decisive() {
        Kind::Helper { .. } => {
            "try the helper by itself, as in `echo HOST | docker-credential-NAME get`, or give --username and --password-stdin"
        }
        Kind::Broken { .. } => "give --username and --password-stdin, or use `helm registry login`",
        Kind::Unauthorised { .. } => {
            "give --username and --password-stdin, or use `helm registry login`; many registries say the same of a \
             repository that is not there"
        }
        Kind::NoTls => "check the port; --plain-http uses plain HTTP",
        Kind::Untrusted { .. } => "name the certificate of its authority with --ca-file",
        Kind::WantsCertificate(_) => CERTIFICATE.1,
        Kind::Proxy { status: 407, .. } => {
            "name it with user and password, as in HTTPS_PROXY=http://USER:PASSWORD@HOST:PORT"
        }
        Kind::NoVersion { .. } | Kind::Constraint { .. } => {
            "name a version that is there with --version, or a constraint as in ^1.2, or >=1.2-0 for those before a release too"
        }
        _ => return Fault::from(error),
    };
    Fault::new(error.class(), error).hint(hint)
}

/// What flags give, then what Helm has stored, then Docker.
fn keyring(reference: &Reference, setting: &Setting) -> Result<Keyring, Fault> {
    let Pull {
        username,
        password,
        password_stdin,
        ..
    } = &setting.pull;
    let mut keyring = Keyring::default();
    let password = match password_stdin {
        false => password.clone(),
        true if setting.values.iter().any(|file| file == STANDARD_INPUT) => {
            let why = "standard input cannot be both the password and values";
            return Err(Fault::user(why).hint("write the values into a file"));
        }
        true => Some(password_of(io::stdin().lock())?),
    };
    match (username, password) {
        (Some(user), Some(password)) => {
            keyring = Keyring::of_user(reference.registry(), user, password, "the command line");
        }
        (Some(user), None) => {
            let why = format!("the user {user:?} is given without a password");
            return Err(
                Fault::user(why).hint("give it with --password-stdin, or leave --username out for what is stored")
            );
        }
        (None, _) => {}
    }
    for path in [helm_config(), docker_config()].into_iter().flatten() {
        let source = path.display().to_string();
        let json = match read_at_most(&path, CONFIG_BYTES_MAX as u64) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            json => json.map_err(|why| unreadable(format!("cannot read the credentials of {source}: {why}")))?,
        };
        let read = Keyring::of_docker_config(&json, &source).map_err(|why| unreadable(why.to_string()))?;
        keyring = keyring.and(read);
    }
    Ok(keyring)
}

fn unreadable(why: String) -> Fault {
    Fault::user(why).hint("fix the file, or move it away")
}

/// Without the line break at its end.
fn password_of(input: impl io::Read) -> Result<SecretString, Fault> {
    let hint = "print it into standard input, as in `orangery ... --password-stdin <password.txt`";
    let bytes = read_from(input, PASSWORD_BYTES_MAX)
        .map_err(|why| Fault::user(format!("cannot read the password from standard input: {why}")).hint(hint))?;
    let text =
        String::from_utf8(bytes).map_err(|_| Fault::user("the password on standard input is no UTF-8").hint(hint))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(SecretString::from(text.strip_suffix('\r').unwrap_or(text)))
}

/// What a file in PEM holds, and what to do if it does not.
const AUTHORITIES: (&str, &str) = ("authorities", "name a file of certificates in PEM with --ca-file");
const CERTIFICATE: (&str, &str) = (
    "certificate",
    "name files in PEM with --cert-file and --key-file that belong together",
);
const KEY: (&str, &str) = ("key", CERTIFICATE.1);

fn identity(pull: &Pull) -> Result<Option<Identity>, Fault> {
    let (Some(certificate), Some(key)) = (&pull.cert_file, &pull.key_file) else {
        return Ok(None);
    };
    Ok(Some(Identity {
        certificates: pem(certificate, &CERTIFICATE)?,
        key: pem(key, &KEY)?.into(),
    }))
}

fn pem(path: &Path, (what, hint): &(&str, &'static str)) -> Result<String, Fault> {
    let unreadable = |why: &dyn std::fmt::Display| {
        Fault::user(format!("cannot read the {what} {}: {why}", path.display())).hint(*hint)
    };
    let bytes = read_at_most(path, PEM_BYTES_MAX).map_err(|why| unreadable(&why))?;
    String::from_utf8(bytes).map_err(|_| unreadable(&"it is no UTF-8"))
}

/// Where `helm registry login` writes (Helm 4.1, `pkg/helmpath`).
fn helm_config() -> Option<PathBuf> {
    const FILE: &str = "registry/config.json";
    variable("HELM_REGISTRY_CONFIG")
        .or_else(|| Some(variable("HELM_CONFIG_HOME")?.join(FILE)))
        .or_else(|| Some(variable("XDG_CONFIG_HOME")?.join("helm").join(FILE)))
        .or_else(|| Some(env::home_dir()?.join(".config/helm").join(FILE)))
}

/// Where `docker login` writes.
fn docker_config() -> Option<PathBuf> {
    let folder = variable("DOCKER_CONFIG").or_else(|| Some(env::home_dir()?.join(".docker")))?;
    Some(folder.join("config.json"))
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// None where there is no home for it: then all is fetched each time.
fn cache() -> Option<Cache> {
    let caches = variable("XDG_CACHE_HOME").or_else(|| Some(env::home_dir()?.join(".cache")))?;
    let folder = caches.join("orangery/oci");
    let opened = Cache::open(&folder, CACHE_BYTES_MAX, Clock::real(), Entropy::os());
    let failed = |error: &io::Error| tracing::warn!(folder = %folder.display(), %error, "charts cannot be kept, they are fetched each time");
    opened.inspect_err(failed).ok()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::{AUTHORITIES, PEM_BYTES_MAX, password_of, pem};

    #[test]
    fn a_password_ends_before_its_line_break() {
        for (given, wanted) in [("a b\n", "a b"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("", "")] {
            assert_eq!(password_of(given.as_bytes()).unwrap().expose_secret(), wanted);
        }
        assert!(password_of([0xff].as_slice()).is_err());
        assert!(password_of(std::io::repeat(b'a')).is_err());
    }

    #[test]
    fn authorities_are_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let read = |bytes: u64| {
            std::fs::write(&path, vec![b'a'; usize::try_from(bytes).unwrap()]).unwrap();
            pem(&path, &AUTHORITIES)
        };
        assert_eq!(read(PEM_BYTES_MAX).unwrap().len() as u64, PEM_BYTES_MAX);
        let refused = read(PEM_BYTES_MAX + 1).unwrap_err().to_string();
        assert!(refused.ends_with("ca.pem: it has more than 1 MiB"), "{refused}");
        std::fs::write(&path, [0xff]).unwrap();
        let refused = pem(&path, &AUTHORITIES).unwrap_err().to_string();
        assert!(refused.ends_with("ca.pem: it is no UTF-8"), "{refused}");
    }
}
