//! From a kubeconfig to a client. It reads no environment variable, no proxy setting and no file of its own
//! accord: a kubeconfig has all of it ([`inline_files`] puts files that one names into it). It runs no
//! command and repeats no request.

use std::path::{Path, PathBuf};
use std::time::Duration;

use api_meta::Fault;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri, header};
use kube::client::ClientBuilder;
use kube::config::{AuthInfo, Config, Kubeconfig};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use secrecy::{ExposeSecret, SecretString};
use tower::timeout::TimeoutLayer;

/// Turns kubeconfigs into clients. No controller knows which kind it was given: over TLS, or in process.
pub trait Connector: Send + Sync {
    /// A client for the current context of `kubeconfig`. Sends no request: an unreachable server shows at the
    /// first one. Errors are the user's: a kubeconfig that lacks what is needed.
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<kube::Client, Fault>;
}

/// How long a TCP connection and its TLS handshake may take: longer than any healthy network needs, short
/// enough for a task's own time-out to see it several times.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request may take to be written; requests are small.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a server may take until its answer begins, which a watch does at once: longer than the minute after which
/// kube-apiserver answers 504 itself (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/server/config.go,
/// RequestTimeout), so that its answer comes first.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);

/// Connects by HTTPS, with rustls and ring.
#[derive(Clone, Debug)]
pub struct Https {
    user_agent: String,
    token_files: bool,
}

impl Https {
    /// `user_agent` names the caller in the server's audit log.
    pub fn new(user_agent: impl Into<String>) -> Self {
        // Another provider may already be installed by the program; then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            user_agent: user_agent.into(),
            token_files: false,
        }
    }

    /// Also accepts kubeconfigs with `tokenFile`, which is read again regularly: for those that the process was started
    /// with, and never for one from a Secret.
    #[must_use]
    pub fn with_token_files(self) -> Self {
        Self {
            token_files: true,
            ..self
        }
    }
}

impl Connector for Https {
    fn client(&self, kubeconfig: &Kubeconfig) -> Result<kube::Client, Fault> {
        let target = Target::of(kubeconfig)?;
        target.refuse_files(self.token_files)?;
        let mut config = Config::new(target.url);
        config.default_namespace = target.namespace;
        config.root_cert = (!target.authorities.is_empty()).then(|| {
            target
                .authorities
                .iter()
                .map(|certificate| certificate.to_vec())
                .collect()
        });
        config.tls_server_name = target.tls_server_name;
        config.accept_invalid_certs = target.insecure;
        config.auth_info = target.auth;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.write_timeout = Some(WRITE_TIMEOUT);
        // kube would retry a request to a busy server up to 15 times, with pauses of many seconds and without a report.
        // That is outside of the time-outs, backoffs and reports of flows, controllers and watches, which all retry.
        // Clients in process have no such layer either.
        config.default_retry = false;
        if let Ok(agent) = HeaderValue::from_str(&self.user_agent) {
            config.headers.push((header::USER_AGENT, agent));
        }
        let builder = ClientBuilder::try_from(config)
            .map_err(|error| Fault::user(format!("kubeconfig cannot be used: {error}")))?;
        Ok(builder.with_layer(&TimeoutLayer::new(ANSWER_TIMEOUT)).build())
    }
}

/// What the current context of a kubeconfig points at.
#[derive(Clone, Debug)]
pub struct Target {
    /// `https://host:port`
    pub url: Uri,
    /// The server name in the TLS handshake where it is not the host of `url`.
    pub tls_server_name: Option<String>,
    /// The server's authorities; empty means the platform's.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Whether any server certificate is accepted.
    pub insecure: bool,
    /// The context's namespace, else `default`.
    pub namespace: String,
    auth: AuthInfo,
    authority_file: bool,
}

impl Target {
    /// Reads the current context. Files named in it are not read: see [`inline_files`]. Commands are refused, because
    /// whoever may write a Secret with a kubeconfig must not thereby run programs where it is read; and so is a proxy,
    /// because connections would go around it.
    pub fn of(kubeconfig: &Kubeconfig) -> Result<Self, Fault> {
        let wrong = |what: &str| Fault::user(format!("kubeconfig is incomplete: {what}"));
        let current = kubeconfig
            .current_context
            .as_deref()
            .ok_or_else(|| wrong("no current-context"))?;
        let context = kubeconfig
            .contexts
            .iter()
            .find(|named| named.name == current)
            .and_then(|named| named.context.clone())
            .ok_or_else(|| wrong("its current-context is not among its contexts"))?;
        let cluster = kubeconfig
            .clusters
            .iter()
            .find(|named| named.name == context.cluster)
            .and_then(|named| named.cluster.clone())
            .ok_or_else(|| wrong("the context's cluster is missing"))?;
        let auth = match context.user.as_deref() {
            None | Some("") => AuthInfo::default(),
            Some(user) => kubeconfig
                .auth_infos
                .iter()
                .find(|named| named.name == user)
                .and_then(|named| named.auth_info.clone())
                .ok_or_else(|| wrong("the context's user is missing"))?,
        };
        let user = context.user.as_deref().unwrap_or_default();
        let credentials = "name a token or a client certificate there instead";
        for (given, field, instead) in [
            (auth.exec.is_some(), format!("users[{user}].user.exec"), credentials),
            (
                auth.auth_provider.is_some(),
                format!("users[{user}].user.auth-provider"),
                credentials,
            ),
            (
                cluster.proxy_url.is_some(),
                format!("clusters[{}].cluster.proxy-url", context.cluster),
                "remove it and name a server that can be reached directly",
            ),
        ] {
            if given {
                return Err(Fault::user(format!(
                    "kubeconfig is refused: {field} is not supported: {instead}"
                )));
            }
        }
        let server = cluster
            .server
            .as_deref()
            .ok_or_else(|| wrong("the cluster has no server"))?;
        let url = server.parse().map_err(|_| wrong("the cluster's server is not a URL"))?;
        let authorities = match &cluster.certificate_authority_data {
            None => Vec::new(),
            Some(data) => certificates(data, "certificate-authority-data")?,
        };
        Ok(Self {
            url,
            tls_server_name: cluster.tls_server_name,
            authorities,
            insecure: cluster.insecure_skip_tls_verify.unwrap_or(false),
            namespace: context.namespace.unwrap_or_else(|| "default".to_owned()),
            auth,
            authority_file: cluster.certificate_authority.is_some(),
        })
    }

    /// Refuses names of files: whoever may write a Secret with a kubeconfig must not thereby send files of this machine
    /// to a server of theirs.
    fn refuse_files(&self, token_files: bool) -> Result<(), Fault> {
        for (named, field, instead) in [
            (
                self.authority_file,
                "certificate-authority",
                "certificate-authority-data",
            ),
            (
                self.auth.client_certificate.is_some(),
                "client-certificate",
                "client-certificate-data",
            ),
            (self.auth.client_key.is_some(), "client-key", "client-key-data"),
            (self.auth.token_file.is_some() && !token_files, "tokenFile", "token"),
        ] {
            if named {
                return Err(Fault::user(format!(
                    "kubeconfig is refused: {field} names a file: put its content into {instead} instead"
                )));
            }
        }
        Ok(())
    }

    /// The name the server is known by: `tls-server-name`, else the URL's host.
    pub fn server_name(&self) -> &str {
        self.tls_server_name.as_deref().or(self.url.host()).unwrap_or_default()
    }

    /// The bearer token, a secret.
    pub fn token(&self) -> Option<&str> {
        self.auth.token.as_ref().map(ExposeSecret::expose_secret)
    }

    /// The client certificate and what signed it, leaf first; empty when there is none.
    pub fn client_certificates(&self) -> Result<Vec<CertificateDer<'static>>, Fault> {
        match &self.auth.client_certificate_data {
            None => Ok(Vec::new()),
            Some(data) => certificates(data, "client-certificate-data"),
        }
    }

    /// The client certificate's private key as PEM, a secret.
    pub fn client_key_pem(&self) -> Result<Option<String>, Fault> {
        let Some(data) = &self.auth.client_key_data else {
            return Ok(None);
        };
        let wrong = || Fault::user("kubeconfig is invalid: client-key-data is not base64 of PEM");
        let pem = STANDARD.decode(data.expose_secret()).map_err(|_| wrong())?;
        String::from_utf8(pem).map(Some).map_err(|_| wrong())
    }
}

fn certificates(data: &str, field: &str) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let wrong = || {
        Fault::user(format!(
            "kubeconfig is invalid: {field} is not base64 of PEM certificates"
        ))
    };
    let pem = STANDARD.decode(data.trim()).map_err(|_| wrong())?;
    CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong())
}

/// Reads the files that `kubeconfig` names (relative to `folder`, where it lies) into it. A token file is left
/// to be re-read by the client, because its content changes.
pub async fn inline_files(mut kubeconfig: Kubeconfig, folder: &Path) -> Result<Kubeconfig, Fault> {
    async fn read(folder: &Path, name: &str) -> Result<String, Fault> {
        let path: PathBuf = folder.join(name);
        let bytes = tokio::fs::read(&path).await.map_err(|error| {
            Fault::user(format!(
                "kubeconfig names a file that cannot be read: {}: {error}",
                path.display()
            ))
        })?;
        Ok(STANDARD.encode(bytes))
    }
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .filter_map(|named| named.cluster.as_mut())
    {
        if let (None, Some(name)) = (
            &cluster.certificate_authority_data,
            cluster.certificate_authority.take(),
        ) {
            cluster.certificate_authority_data = Some(read(folder, &name).await?);
        }
    }
    for auth in kubeconfig
        .auth_infos
        .iter_mut()
        .filter_map(|named| named.auth_info.as_mut())
    {
        if let (None, Some(name)) = (&auth.client_certificate_data, auth.client_certificate.take()) {
            auth.client_certificate_data = Some(read(folder, &name).await?);
        }
        if let (None, Some(name)) = (&auth.client_key_data, auth.client_key.take()) {
            auth.client_key_data = Some(SecretString::from(read(folder, &name).await?));
        }
        if let Some(name) = auth.token_file.take() {
            auth.token_file = Some(folder.join(name).display().to_string());
        }
    }
    Ok(kubeconfig)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(cluster: &str, user: &str) -> Kubeconfig {
        let text = format!(
            "current-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u, namespace: n}}\n\
             clusters:\n- name: k\n  cluster: {cluster}\nusers:\n- name: u\n  user: {user}\n"
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    #[test]
    fn current_context_selects_server_and_user() {
        let target = Target::of(&kubeconfig(
            "{server: 'https://127.0.0.1:6443', tls-server-name: api.example.org}",
            "{token: secret-token}",
        ))
        .unwrap();
        assert_eq!(target.url.port_u16(), Some(6443));
        assert_eq!(target.server_name(), "api.example.org");
        assert_eq!((target.namespace.as_str(), target.token()), ("n", Some("secret-token")));
        assert!(
            !format!("{target:?}").contains("secret-token"),
            "secrets are not printed"
        );
        let plain = Target::of(&kubeconfig("{server: 'https://api.example.org'}", "{}")).unwrap();
        assert_eq!((plain.server_name(), plain.token()), ("api.example.org", None));
    }

    #[test]
    fn what_a_kubeconfig_lacks_is_named_and_its_content_is_not() {
        let refused = |kubeconfig: &Kubeconfig| Target::of(kubeconfig).unwrap_err().to_string();
        assert!(refused(&Kubeconfig::default()).contains("no current-context"));
        assert!(refused(&kubeconfig("{}", "{}")).contains("no server"));
        let text = refused(&kubeconfig(
            "{server: 'https://a', certificate-authority-data: 'c2VjcmV0IQ='}",
            "{}",
        ));
        assert!(
            text.contains("certificate-authority-data") && !text.contains("c2Vj"),
            "{text}"
        );
    }

    #[test]
    fn a_kubeconfig_that_runs_a_command_or_names_a_proxy_is_refused() {
        let refused = |cluster: &str, user: &str, field: &str| {
            let kubeconfig = kubeconfig(cluster, user);
            let fault = Target::of(&kubeconfig).unwrap_err();
            assert_eq!(fault.class, api_meta::FaultClass::User);
            let text = fault.to_string();
            assert!(text.contains(field), "{text}");
            assert!(Https::new("test").client(&kubeconfig).is_err());
        };
        let server = "{server: 'https://a'}";
        let exec = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/touch, args: [/tmp/x]}}";
        refused(server, exec, "users[u].user.exec");
        let provider = "{auth-provider: {name: oidc, config: {cmd-path: /bin/touch}}}";
        refused(server, provider, "users[u].user.auth-provider");
        let proxied = "{server: 'https://a', proxy-url: 'http://b:1'}";
        refused(proxied, "{token: t}", "clusters[k].cluster.proxy-url");
        // Other contexts are not looked at.
        let mut other = kubeconfig(server, "{token: t}");
        let strange = kubeconfig(server, exec).auth_infos.into_iter().map(|mut named| {
            named.name = "other".to_owned();
            named
        });
        other.auth_infos.extend(strange);
        assert!(Target::of(&other).is_ok());
    }

    #[tokio::test]
    async fn a_kubeconfig_that_names_files_is_refused() {
        let https = Https::new("test");
        let server = "{server: 'https://a'}";
        for (cluster, user, field) in [
            (
                "{server: 'https://a', certificate-authority: /etc/ca}",
                "{}",
                "certificate-authority",
            ),
            (server, "{client-certificate: /etc/passwd}", "client-certificate"),
            (server, "{client-key: /etc/shadow}", "client-key"),
            (server, "{tokenFile: /etc/shadow, token: t}", "tokenFile"),
        ] {
            let fault = https.client(&kubeconfig(cluster, user)).err().unwrap();
            assert_eq!(fault.class, api_meta::FaultClass::User);
            assert!(fault.to_string().contains(&format!("{field} names a file")), "{fault}");
        }
        let own = kubeconfig(server, "{tokenFile: Cargo.toml}");
        let own = inline_files(own, Path::new(env!("CARGO_MANIFEST_DIR"))).await.unwrap();
        assert!(https.client(&own).is_err());
        assert!(https.with_token_files().client(&own).is_ok());
    }

    #[tokio::test]
    async fn unavailable_server_gets_one_request() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};

        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // Busy at first, then not: a repeated request gets an answer.
        let server = tokio::spawn(async move {
            for status in ["503 Service Unavailable", "200 OK"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let body = r#"{"major": "1", "minor": "35"}"#;
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let config = kubeconfig(&format!("{{server: 'http://{address}'}}"), "{token: t}");
        let client = Https::new("test").client(&config).unwrap();
        let request = || {
            http::Request::get("/version")
                .body(kube::client::Body::empty())
                .unwrap()
        };
        assert_eq!(client.send(request()).await.unwrap().status(), 503);
        assert_eq!(client.send(request()).await.unwrap().status(), 200);
        server.await.unwrap();
    }

    /// A server that accepts the request and hangs would block callers without a time-out of their own for ever.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_given_up() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = kubeconfig(&format!("{{server: 'http://{address}'}}"), "{token: t}");
        let client = Https::new("test").client(&config).unwrap();
        // The kernel accepts the connection; no program reads from it.
        let error = client.apiserver_version().await.unwrap_err();
        let fault = crate::fault_of(error, "read the version");
        assert_eq!(fault.to_string(), "read the version: no answer within 70s");
        assert_eq!(fault.class, api_meta::FaultClass::Dependency);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_the_users_to_correct() {
        let config = kubeconfig("{server: 'https://a', certificate-authority: missing.pem}", "{}");
        let fault = inline_files(config, Path::new("/nonexistent")).await.unwrap_err();
        assert_eq!(fault.class, api_meta::FaultClass::User);
        assert!(fault.to_string().contains("/nonexistent/missing.pem"), "{fault}");
    }
}
