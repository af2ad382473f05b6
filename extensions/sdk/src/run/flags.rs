//! Flags of an extension, named and with defaults as those of Gardener's extensions (gardener/gardener v1.150
//! `extensions/pkg/controller/cmd`), and their environment variables. A wrong one ends the program with flag, value and what is
//! allowed.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use api_meta::Fault;
use api_meta::names::is_dns_label;
use base_client::inline_files;
use base_telemetry::LogFormat;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgAction, Args, Command, FromArgMatches, ValueEnum};
use kube::config::Kubeconfig;

use super::About;

/// Settings of every extension.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Flags {
    /// Kubeconfig of the seed; without one the service account of the pod
    // An empty one is none: the parser of paths would refuse it.
    #[arg(long, env = "KUBECONFIG", value_name = "FILE", value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the extension; by default that of the pod
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE", value_parser = name)]
    pub namespace: Option<String>,
    /// Where /metrics is served: HOST:PORT, :PORT for all addresses, 0 for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub metrics_bind_address: BindAddress,
    /// Where /healthz and /readyz are served: HOST:PORT, :PORT for all addresses, 0 for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    pub health_bind_address: BindAddress,
    /// Whether one of several replicas works, agreed on by a Lease
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = ArgAction::Set)]
    pub leader_election: bool,
    /// Namespace of that Lease; by default the extension's
    #[arg(long, env = "LEADER_ELECTION_NAMESPACE", value_name = "NAMESPACE", value_parser = name)]
    pub leader_election_namespace: Option<String>,
    /// Name of that Lease; by default NAME-leader-election
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub leader_election_id: Option<String>,
    /// Whether the Lease gardener-extension-heartbeat is renewed in the extension's namespace; by default where there is one
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true,
        action = ArgAction::Set)]
    pub heartbeat: Option<bool>,
    /// What is logged; RUST_LOG comes before it
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: Level,
    /// How it is logged
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub log_format: Format,
}

/// The defaults, without any environment variable.
impl Default for Flags {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            namespace: None,
            metrics_bind_address: BindAddress::port(8080),
            health_bind_address: BindAddress::port(8081),
            leader_election: true,
            leader_election_namespace: None,
            leader_election_id: None,
            heartbeat: None,
            log_level: Level::Info,
            log_format: Format::Json,
        }
    }
}

/// A level of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Everything
    Debug,
    /// What is worth a line in an ordinary run
    Info,
    /// Errors alone
    Error,
}

impl From<Level> for base_process::LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Error => Self::Error,
        }
    }
}

/// A format of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// An object per line
    Json,
    /// For people
    Text,
}

impl From<Format> for LogFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Json => Self::Json,
            Format::Text => Self::Text,
        }
    }
}

/// Where a port is opened, or that it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddress(Option<(Option<IpAddr>, u16)>);

impl BindAddress {
    /// A port on all addresses of the machine.
    #[must_use]
    pub fn port(port: u16) -> Self {
        Self(Some((None, port)))
    }

    /// Nowhere.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// Address, none for all, and port; nothing where it is off.
    pub(super) fn parts(self) -> Option<(Option<IpAddr>, u16)> {
        self.0
    }
}

impl From<SocketAddr> for BindAddress {
    fn from(address: SocketAddr) -> Self {
        Self(Some((Some(address.ip()), address.port())))
    }
}

/// A text that is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write ADDRESS:PORT as in 127.0.0.1:8081 or [::1]:8081, :8081 for all addresses, or 0 for nowhere")]
pub struct NoAddress;

impl FromStr for BindAddress {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        if text == "0" {
            return Ok(Self::off());
        }
        if let Some(port) = text.strip_prefix(':') {
            return port.parse().map(Self::port).map_err(|_| NoAddress);
        }
        // Unlike Go, no names are looked up: a port is opened on addresses.
        text.parse::<SocketAddr>().map(Self::from).map_err(|_| NoAddress)
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("0"),
            Some((None, port)) => write!(f, ":{port}"),
            Some((Some(address), port)) => SocketAddr::new(address, port).fmt(f),
        }
    }
}

fn name(text: &str) -> Result<String, String> {
    // An empty one is none, as in Go: charts set variables that way.
    match text.is_empty() || is_dns_label(text) {
        true => Ok(text.to_owned()),
        false => Err(
            "a name has 1 to 63 characters of a-z, 0-9 and -, and begins and ends with a letter or digit".to_owned(),
        ),
    }
}

/// Reads the command line: flags of every extension and the extension's own.
///
/// # Errors
/// A wrong or unknown flag; also a request for help or the version, which prints it.
pub(super) fn parse<A: Args>(
    about: About,
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<(Flags, A), clap::Error> {
    let command = Command::new(about.name).version(about.version);
    let mut command = A::augment_args(Flags::augment_args(command));
    let matches = command.try_get_matches_from_mut(words)?;
    let mut flags = Flags::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    flags.kubeconfig = flags.kubeconfig.filter(|path| !path.as_os_str().is_empty());
    for name in [
        &mut flags.namespace,
        &mut flags.leader_election_namespace,
        &mut flags.leader_election_id,
    ] {
        *name = name.take().filter(|name| !name.is_empty());
    }
    let own = A::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok((flags, own))
}

/// Reads a kubeconfig with the content of the files that it names; a token file stays one, which the client reads again.
///
/// # Errors
/// A user fault that names the file, with `hint`.
pub async fn read_kubeconfig(path: &Path, hint: &str) -> Result<Kubeconfig, Fault> {
    let wrong = |why: String| Fault::user(format!("cannot use the kubeconfig {}: {why}", path.display())).hint(hint);
    let text = tokio::fs::read_to_string(path)
        .await
        .map_err(|error| wrong(error.to_string()))?;
    // The rest of a parser's text is a drawing of the place.
    let first_line = |error: String| error.lines().next().unwrap_or_default().to_owned();
    let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| wrong(first_line(error.to_string())))?;
    inline_files(kubeconfig, path.parent().unwrap_or(Path::new("."))).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABOUT: About = About::new("provider-fake", "v1.2.3");

    fn parsed(words: &[&str]) -> Result<Flags, clap::Error> {
        let words = [&["provider-fake"], words].concat();
        parse::<()>(ABOUT, words).map(|(flags, ())| flags)
    }

    fn refused(words: &[&str]) -> String {
        let error = parsed(words).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn without_words_the_defaults_of_gardener_hold() {
        // KUBECONFIG and POD_NAMESPACE may be set where the test runs.
        let parsed = parsed(&["--kubeconfig=k", "--namespace=n", "--leader-election-namespace=l"]).unwrap();
        let expected = Flags {
            kubeconfig: Some("k".into()),
            namespace: Some("n".to_owned()),
            leader_election_namespace: Some("l".to_owned()),
            ..Flags::default()
        };
        assert_eq!(parsed, expected);
    }

    #[test]
    fn switches_are_written_as_in_go() {
        let parsed = |words: &[&str]| parsed(words).unwrap();
        assert!(!parsed(&["--leader-election=false"]).leader_election);
        assert!(parsed(&["--leader-election"]).leader_election);
        assert_eq!(parsed(&["--heartbeat"]).heartbeat, Some(true));
        assert_eq!(parsed(&["--heartbeat=false"]).heartbeat, Some(false));
    }

    #[test]
    fn a_wrong_flag_is_named_with_its_value_and_what_is_allowed() {
        for (words, expected) in [
            (
                ["--metrics-bind-address", "8080"],
                ["--metrics-bind-address", "'8080'", ":8081 for all addresses"],
            ),
            (["--log-level", "loud"], ["--log-level", "'loud'", "debug, info, error"]),
            (["--log-format", "xml"], ["--log-format", "'xml'", "json, text"]),
            (["--namespace", "Big"], ["--namespace", "'Big'", "characters of a-z"]),
        ] {
            let text = refused(&words);
            for part in expected {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        assert!(refused(&["--leader-election=maybe"]).contains("true, false"));
        assert!(refused(&["--leader-elect"]).contains("'--leader-elect'"));
    }

    #[test]
    fn an_empty_name_is_none() {
        let flags = parsed(&["--kubeconfig=", "--namespace=", "--leader-election-id="]).unwrap();
        assert_eq!(
            (flags.kubeconfig, flags.namespace, flags.leader_election_id),
            (None, None, None)
        );
    }

    #[test]
    fn addresses_are_read_and_printed_alike() {
        for text in ["0", ":8081", "127.0.0.1:1", "[::1]:65535"] {
            assert_eq!(text.parse::<BindAddress>().unwrap().to_string(), text);
        }
        for text in ["", ":", "localhost:80", "127.0.0.1", ":65536", "-1"] {
            assert!(text.parse::<BindAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn an_extension_has_flags_of_its_own() {
        #[derive(Args, Debug)]
        struct Own {
            /// Where the cloud is
            #[arg(long)]
            cloud_url: String,
        }
        let (flags, own) = parse::<Own>(ABOUT, ["x", "--cloud-url=http://c", "--log-level=debug"]).unwrap();
        assert_eq!((flags.log_level, own.cloud_url.as_str()), (Level::Debug, "http://c"));
        let missing = parse::<Own>(ABOUT, ["x"]).unwrap_err().to_string();
        assert!(missing.contains("--cloud-url"), "{missing}");
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let missing = read_kubeconfig(&path, "").await.unwrap_err();
        assert!(missing.to_string().contains(&path.display().to_string()), "{missing}");
        std::fs::write(&path, "clusters: 7").unwrap();
        let wrong = read_kubeconfig(&path, "use --kubeconfig").await.unwrap_err();
        assert!(wrong.hint.contains("--kubeconfig"), "{}", wrong.hint);
    }
}
