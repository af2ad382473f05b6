//! The image `kube-apiserver`: an API server over the etcds of `--etcd-servers` and `--etcd-servers-overrides`, reachable
//! under the names of its serving certificate for as long as its container runs.

mod etcds;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base_secrets::{PrivateKey, PublicKey};
use cluster_apiserver::{ApiServer, Authorities, TokenAuthority};
use cluster_front::{Front, RegisteredServer, Registration};
use cluster_node::{ContainerContext, Endpoint, Exit, image_tag};
use ipnet::IpNet;

use etcds::Etcds;

use super::Host;
use super::flags::{Flags, Library, Program};
use super::listening::{Listening, names};

/// Its flags, and those that have an effect here.
pub(crate) const PROGRAM: Program = Program {
    name: "kube-apiserver",
    table: include_str!("flags/kube-apiserver.tsv"),
    library: Library::Pflag,
    effective: &[
        "api-audiences",
        "authorization-mode",
        "client-ca-file",
        "enable-bootstrap-token-auth",
        "etcd-servers",
        "etcd-servers-overrides",
        "external-hostname",
        "secure-port",
        "service-account-issuer",
        "service-account-jwks-uri",
        "service-account-key-file",
        "service-account-signing-key-file",
        "service-cluster-ip-range",
        "tls-cert-file",
        "tls-private-key-file",
    ],
    files: &[
        "admission-control-config-file",
        "audit-policy-file",
        "audit-webhook-config-file",
        "authentication-config",
        "authentication-token-webhook-config-file",
        "authorization-config",
        "authorization-webhook-config-file",
        "client-ca-file",
        "egress-selector-config-file",
        "encryption-provider-config",
        "etcd-cafile",
        "etcd-certfile",
        "etcd-keyfile",
        "kubelet-certificate-authority",
        "kubelet-client-certificate",
        "kubelet-client-key",
        "oidc-ca-file",
        "proxy-client-cert-file",
        "proxy-client-key-file",
        "requestheader-client-ca-file",
        "service-account-key-file",
        "service-account-signing-key-file",
        "tls-cert-file",
        "tls-private-key-file",
        "token-auth-file",
        "tracing-config-file",
    ],
};
/// How long requests that are under way may take after the server was asked to stop.
const DRAIN: Duration = Duration::from_secs(5);
const DEFAULT_PORT: u16 = 6443;

/// Runs until stopped; then clients are refused.
pub async fn kube_apiserver(host: Arc<Host>, context: ContainerContext) -> Exit {
    match serve(&host, &context).await {
        Ok(()) => Exit::done(),
        Err(exit) => exit,
    }
}

async fn serve(host: &Host, context: &ContainerContext) -> Result<(), Exit> {
    let flags = PROGRAM.flags(context)?;
    let settings = Settings::read(&flags, context)?;
    let etcds = Etcds::connect(&flags, context).await?;
    let port = flags.parsed("secure-port")?.unwrap_or(DEFAULT_PORT);
    let server = build(host, &settings, context, &etcds, port).await?;
    let _power = Power(server.clone());
    if let Some(started) = &host.api_server_started {
        started(&server);
    }

    let listening = context.network.bind(port, Endpoint::Http(server.service()));
    let _listening = listening.map_err(|error| Exit::failed_by(&error))?;
    let registered = RegisteredServer::new(server.service(), &settings.certificate, &settings.key);
    let names = names(&settings.certificate, flags.get("external-hostname"))?;
    let registration = host
        .front
        .register(names, registered.map_err(|error| Exit::failed_by(&error))?)
        .map_err(|error| Exit::failed_by(&error))?;

    let mut connections = etcds.connections();
    loop {
        let all_open = connections.all_open();
        context.ready.set(all_open && server.readiness().is_ready());
        tokio::select! {
            biased;
            () = context.stop.cancelled() => break,
            () = connections.changed() => {}
            () = etcds.reopen(), if !all_open => {}
        }
    }
    context.ready.set(false);
    // New connections are refused from here on; watches end with the server.
    tokio::join!(registration.close(DRAIN), server.shutdown());
    Ok(())
}

/// Lets a real kube-apiserver, whose container this is, answer in `front` under the names of its certificate, as the server
/// here does. Its command line and files tell them.
///
/// # Errors
/// They do not, or another cluster's server has one of the names.
pub(crate) fn register_program(front: &Front, context: &ContainerContext) -> Result<Registration, Exit> {
    let flags = PROGRAM.silently(context)?;
    let port = flags.parsed("secure-port")?.unwrap_or(DEFAULT_PORT);
    let program = Listening {
        certificate: ("tls-cert-file", flags.required("tls-cert-file")?),
        port,
        external: flags.get("external-hostname"),
    };
    program.register(front, context)
}

/// Ends the server's tasks when the container is killed before it could shut it down.
struct Power(ApiServer);

impl Drop for Power {
    fn drop(&mut self) {
        let server = self.0.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { server.shutdown().await });
        }
    }
}

/// The content of flags and files, read once.
struct Settings {
    authorities: Authorities,
    certificate: String,
    key: String,
    service_range: Option<IpNet>,
}

impl Settings {
    fn read(flags: &Flags, context: &ContainerContext) -> Result<Self, Exit> {
        let file = |flag: &str| {
            let path = flags.required(flag)?;
            context
                .files
                .read_text(path)
                .map_err(|error| Exit::failed(format!("kube-apiserver: --{flag}: {error}")))
        };
        let modes = flags.get("authorization-mode").unwrap_or("AlwaysAllow");
        if !modes.split(',').any(|mode| mode == "RBAC") {
            return Err(Exit::failed(format!(
                "kube-apiserver: --authorization-mode {modes} is not offered, only RBAC"
            )));
        }
        let client_authorities = match flags.get("client-ca-file") {
            Some(_) => file("client-ca-file")?,
            None => String::new(),
        };
        let wrong = |flag: &str, error: &dyn std::error::Error| {
            Exit::failed(format!("kube-apiserver: --{flag}: {}", Exit::failed_by(error).message))
        };
        let signer = PrivateKey::from_pem(&file("service-account-signing-key-file")?)
            .map_err(|error| wrong("service-account-signing-key-file", &error))?;
        let verifiers = PublicKey::all_from_pem(&file("service-account-key-file")?)
            .map_err(|error| wrong("service-account-key-file", &error))?;
        let audiences = flags.get("api-audiences").unwrap_or_default();
        // Services get their addresses from the first range of a dual-stack pair.
        let range = flags
            .get("service-cluster-ip-range")
            .and_then(|ranges| ranges.split(',').next());
        let service_range = range
            .map(|range| range.parse().map_err(|error| wrong("service-cluster-ip-range", &error)))
            .transpose()?;
        Ok(Settings {
            authorities: Authorities {
                client_authorities,
                service_accounts: Some(TokenAuthority {
                    issuer: flags.required("service-account-issuer")?.to_owned(),
                    keys_url: flags.get("service-account-jwks-uri").map(str::to_owned),
                    audiences: audiences
                        .split(',')
                        .filter(|name| !name.is_empty())
                        .map(str::to_owned)
                        .collect(),
                    signer: Some(signer),
                    verifiers,
                }),
                bootstrap_tokens: flags.is_on("enable-bootstrap-token-auth")?,
            },
            certificate: file("tls-cert-file")?,
            key: file("tls-private-key-file")?,
            service_range,
        })
    }
}

async fn build(
    host: &Host,
    settings: &Settings,
    context: &ContainerContext,
    etcds: &Etcds,
    port: u16,
) -> Result<ApiServer, Exit> {
    let namespace = context.pod.metadata.namespace.clone().unwrap_or_default();
    let version = context.container.image.as_deref().and_then(image_tag);
    let mut builder = etcds
        .store(ApiServer::builder(namespace))
        .clock(context.clock.clone())
        .entropy(context.entropy.clone())
        .authorities(settings.authorities.clone())
        .advertise(SocketAddr::new(context.network.pod_ip(), port))
        .audit_records(host.audit_records);
    if let Some(version) = version {
        builder = builder.git_version(version);
    }
    if let Some(range) = settings.service_range {
        builder = builder.service_range(range);
    }
    builder
        .build()
        .await
        .map_err(|status| Exit::failed(format!("kube-apiserver: start: {status}")))
}
