//! Authorities, certificates and keys of a shoot: made once, kept in its namespace, renewed in time.

mod generic_kubeconfig;
mod published;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use api_meta::{Fault, labels, names};
use base_client::{apply, create_or_get, delete, list};
use base_secrets::{
    CertificateSpec, Credential, Issued, SecretError, Wanted, data, generate, label, lookup, plan, text_of, to_yaml,
};
use components_hosted::{KUBECONFIG_KEY, Mounted, shoot_access_secret_name};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::super::operation::Operation;
use super::super::validated::ValidatedShoot;
use crate::context::MANAGER;

pub(crate) use published::delete_published;

/// Signs the API server's certificate.
pub(crate) const CA: &str = "ca";
/// Signs clients of the API server.
pub(crate) const CA_CLIENT: &str = "ca-client";
/// Signs etcd and its clients.
pub(crate) const CA_ETCD: &str = "ca-etcd";
/// Signs the API server as a client of aggregated ones.
pub(crate) const CA_FRONT_PROXY: &str = "ca-front-proxy";
/// Signs nodes' serving certificates.
pub(crate) const CA_KUBELET: &str = "ca-kubelet";
/// The API server's certificate.
pub(crate) const SERVER: &str = "kube-apiserver";
/// etcd's certificate.
pub(crate) const ETCD_SERVER: &str = "etcd-server";
/// The API server as a client of etcd.
pub(crate) const ETCD_CLIENT: &str = "etcd-client";
/// The API server as a client of aggregated ones.
pub(crate) const AGGREGATOR: &str = "kube-aggregator";
/// Signs service account tokens.
pub(crate) const SERVICE_ACCOUNT_KEY: &str = "service-account-key";
/// Opens the nodes to SSH.
pub(crate) const SSH_KEY_PAIR: &str = "ssh-keypair";
/// Our own client certificate.
pub(crate) const GARDENLET: &str = "gardenlet";

/// A component in the seed that is a client of the shoot.
pub(crate) struct Client {
    /// Its name: that of its Secret `shoot-access-<name>`.
    pub component: &'static str,
    /// Its certificate.
    secret: &'static str,
    /// Who it is in the shoot.
    pub user: &'static str,
}

/// gardener-resource-manager.
pub(crate) const RESOURCE_MANAGER: Client = Client {
    component: components_hosted::RESOURCE_MANAGER,
    secret: "gardener-resource-manager-client",
    user: names::RESOURCE_MANAGER_SHOOT_USER,
};
/// kube-controller-manager.
pub(crate) const CONTROLLER_MANAGER: Client = Client {
    component: components_hosted::CONTROLLER_MANAGER,
    secret: "kube-controller-manager-client",
    user: "system:kube-controller-manager",
};
/// kube-scheduler.
pub(crate) const SCHEDULER: Client = Client {
    component: components_hosted::SCHEDULER,
    secret: "kube-scheduler-client",
    user: "system:kube-scheduler",
};
/// The machine controllers, which live with the provider.
pub(crate) const MACHINE_CONTROLLERS: Client = Client {
    component: "machine-controller-manager",
    secret: "machine-controller-manager-client",
    user: "gardener.cloud:system:machine-controller-manager",
};

/// Servers and clients get new certificates after 80 % of this, at the next reconcile, which comes every hour.
const VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);

/// How many times the plan is made again when the first try finds new things to do: bundles follow authorities.
const PLANS_MAX: usize = 3;

/// Everything a shoot has.
pub(crate) fn wanted(shoot: &ValidatedShoot) -> Vec<Wanted> {
    let mut wanted = vec![
        Wanted::authority(CA, "kubernetes"),
        Wanted::authority(CA_CLIENT, "kubernetes-client"),
        Wanted::authority(CA_ETCD, "etcd"),
        Wanted::authority(CA_FRONT_PROXY, "front-proxy"),
        Wanted::signing_key(SERVICE_ACCOUNT_KEY),
        Wanted::certificate(SERVER, CA, server_certificate(shoot)),
        Wanted::certificate(ETCD_SERVER, CA_ETCD, etcd_certificate(shoot)),
        Wanted::certificate(ETCD_CLIENT, CA_ETCD, client(components_hosted::API_SERVER)),
        Wanted::certificate(AGGREGATOR, CA_FRONT_PROXY, client("system:kube-aggregator")),
        Wanted::certificate(GARDENLET, CA_CLIENT, client(names::GARDENLET_SHOOT_USER)),
        // Without workers too: kube-controller-manager wants something to sign with.
        Wanted::authority(CA_KUBELET, "kubelet"),
    ];
    let everywhere = [&RESOURCE_MANAGER, &CONTROLLER_MANAGER];
    let with_workers = [&SCHEDULER, &MACHINE_CONTROLLERS];
    let clients = everywhere
        .into_iter()
        .chain(with_workers.into_iter().filter(|_| !shoot.workerless));
    if shoot.ssh_access() {
        wanted.push(Wanted::ssh_key_pair(SSH_KEY_PAIR));
    }
    wanted.extend(clients.map(|one| Wanted::certificate(one.secret, CA_CLIENT, client(one.user))));
    wanted
}

fn client(user: &str) -> CertificateSpec {
    CertificateSpec::client(user, &[], VALIDITY)
}

fn server_certificate(shoot: &ValidatedShoot) -> CertificateSpec {
    let service = |name: &str, namespace: &str| {
        [
            name.to_owned(),
            format!("{name}.{namespace}"),
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.cluster.local"),
        ]
    };
    let mut dns_names: Vec<String> = service(components_hosted::API_SERVER, &shoot.namespace).into();
    dns_names.extend(service("kubernetes", "default"));
    dns_names.push("localhost".to_owned());
    dns_names.extend(
        [&shoot.internal_domain, &shoot.external_domain]
            .into_iter()
            .flatten()
            .map(|one| one.host.clone()),
    );
    let mut addresses: Vec<IpAddr> = vec![IpAddr::from([127, 0, 0, 1])];
    addresses.extend(shoot.services.iter().filter_map(|network| first_address(network)));
    CertificateSpec::server(components_hosted::API_SERVER, dns_names, addresses, VALIDITY)
}

/// The address of the Service `kubernetes`: the first of the network.
fn first_address(network: &str) -> Option<IpAddr> {
    let (address, _) = network.split_once('/')?;
    match address.parse().ok()? {
        IpAddr::V4(address) => Some(IpAddr::V4((u32::from(address).checked_add(1)?).into())),
        IpAddr::V6(address) => Some(IpAddr::V6((u128::from(address).checked_add(1)?).into())),
    }
}

fn etcd_certificate(shoot: &ValidatedShoot) -> CertificateSpec {
    let (service, namespace) = (components_hosted::ETCD_CLIENT_SERVICE, &shoot.namespace);
    let dns_names = vec![
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("*.etcd-main-peer.{namespace}.svc"),
        "localhost".to_owned(),
    ];
    CertificateSpec::server(
        components_hosted::ETCD,
        dns_names,
        vec![IpAddr::from([127, 0, 0, 1])],
        VALIDITY,
    )
}

fn ours(error: SecretError) -> Fault {
    Fault::bug(error).hint("look at the Secrets of the shoot's namespace: one of them cannot be read")
}

/// Makes what is missing, and shows the garden which authorities the cluster has.
pub(crate) async fn initialize(op: &Operation) -> Result<(), Fault> {
    let wanted = wanted(&op.shoot);
    let api = op.here::<Secret>();
    // Extensions manage Secrets of their own in the same namespace, under other identities.
    let selector = format!(
        "{}={},{}={MANAGER}",
        labels::MANAGED_BY,
        labels::MANAGED_BY_SECRETS_MANAGER,
        label::IDENTITY
    );
    let mut existing = list(&api, &selector).await?;
    let mut obsolete = Vec::new();
    for _ in 0..PLANS_MAX {
        let now = op.context.clock.now();
        let plan = plan(&wanted, &existing, now).map_err(ours)?;
        obsolete = plan.deletions().map(str::to_owned).collect();
        if !plan.generates() {
            break;
        }
        let made = generate(
            &plan,
            &wanted,
            &existing,
            op.namespace(),
            MANAGER,
            now,
            &op.context.entropy,
        )
        .map_err(ours)?;
        for secret in made {
            existing.push(create_or_get(&api, &secret).await?);
        }
    }
    let found = lookup(&wanted, &existing, op.context.clock.now()).map_err(ours)?;
    {
        let mut results = op.results();
        results.secrets = found;
        results.obsolete_secrets = obsolete;
    }
    generic_kubeconfig::deploy(op).await?;
    published::publish(op).await
}

/// The public half of the key that opens the nodes to SSH; none where they are closed to it.
pub(crate) fn ssh_public_key(op: &Operation) -> Result<Option<ByteString>, Fault> {
    if !op.shoot.ssh_access() {
        return Ok(None);
    }
    let pair = op.secret(SSH_KEY_PAIR)?.current;
    let public = text_of(&pair, data::SSH_KEY_PUBLIC).map_err(ours)?;
    Ok(Some(ByteString(public.expose_bytes())))
}

/// Writes the Secret with a component's kubeconfig.
pub(crate) async fn deploy_kubeconfig(op: &Operation, client: &Client) -> Result<Mounted, Fault> {
    let issued = op.secret(client.secret)?.issued().map_err(ours)?;
    let kubeconfig = op.kubeconfig(Credential::Certificate(Box::new(issued)))?;
    let yaml = to_yaml(&kubeconfig).map_err(ours)?;
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(shoot_access_secret_name(client.component)),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([(
            KUBECONFIG_KEY.to_owned(),
            ByteString(yaml.expose().as_bytes().to_vec()),
        )])),
        ..Secret::default()
    };
    apply(&op.here::<Secret>(), &secret, MANAGER).await?;
    Ok(Mounted::of(&secret))
}

/// Our own certificate for the shoot.
pub(crate) fn own_certificate(op: &Operation) -> Result<Issued, Fault> {
    op.secret(GARDENLET)?.issued().map_err(ours)
}

/// A certificate that may do everything, for ten minutes: for the first rights in a new cluster.
pub(crate) fn bootstrap_certificate(op: &Operation) -> Result<Issued, Fault> {
    /// As long as a bootstrap may take with all its retries; never stored.
    const VALIDITY_BOOTSTRAP: Duration = Duration::from_secs(600);
    let spec = CertificateSpec::client(
        "gardener.cloud:system:bootstrap",
        &["system:masters"],
        VALIDITY_BOOTSTRAP,
    );
    let authority = op.secret(CA_CLIENT)?.authority().map_err(ours)?;
    authority
        .issue(&spec, &op.context.clock, &op.context.entropy)
        .map_err(ours)
}

/// Deletes generations that nothing mounts any more; called when all has been rolled out.
pub(crate) async fn delete_obsolete(op: &Operation) -> Result<(), Fault> {
    let obsolete = op.results().obsolete_secrets.clone();
    for name in obsolete {
        delete(&op.here::<Secret>(), &name).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubernetes_service_has_the_first_address_of_its_network() {
        assert_eq!(first_address("100.64.0.0/13"), Some(IpAddr::from([100, 64, 0, 1])));
        assert_eq!(first_address("fd00::/108"), "fd00::1".parse().ok());
        assert_eq!(first_address("255.255.255.255/32"), None);
        assert_eq!(first_address("nonsense"), None);
    }
}
