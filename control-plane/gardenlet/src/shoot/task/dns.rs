//! DNS records of the shoot's API server.

use std::collections::BTreeMap;
use std::net::IpAddr;

use api_extensions::{DNSRecord, DNSRecordSpec, DNSRecordType};
use api_meta::{Fault, SecretReference, annotations};
use base_client::{delete, get};
use k8s_openapi::api::core::v1::{Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use tokio::time::Instant;

use super::super::operation::{Operation, left};
use super::super::validated::Domain;
use super::infrastructure::is_requested;
use super::namespace::copy_secret;
use crate::config::Addressing;
use crate::extension::{Request, delete_confirmed, needs_operation, wait_deleted, wait_ready};

/// Purpose of the record below the landscape's domain; part of its name.
pub(crate) const INTERNAL: &str = "internal";
/// Purpose of the record below a domain of the shoot's own.
pub(crate) const EXTERNAL: &str = "external";

/// How long resolvers may keep the record: short, because control planes move (upstream's default).
const TTL_SECONDS: i64 = 120;

/// `<shoot>-internal`: below the landscape's domain.
pub(crate) async fn deploy_internal(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let Some(domain) = op.shoot.internal_domain.clone() else {
        return Ok(());
    };
    let record = Record {
        purpose: INTERNAL,
        task: annotations::task::DEPLOY_DNS_RECORD_INTERNAL,
        credentials: credentials(op, &domain).await?,
        domain,
    };
    deploy(op, record, until).await
}

/// `<shoot>-external`: below a domain of its own.
pub(crate) async fn deploy_external(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let Some(domain) = op.shoot.external_domain.clone() else {
        return Ok(());
    };
    let own = credentials(op, &domain).await?;
    let record = Record {
        purpose: EXTERNAL,
        task: annotations::task::DEPLOY_DNS_RECORD_EXTERNAL,
        credentials: own.or_else(|| op.observed.credentials.clone()),
        domain,
    };
    deploy(op, record, until).await
}

/// One of the two records.
struct Record {
    purpose: &'static str,
    /// The task annotation that requests it again.
    task: &'static str,
    domain: Domain,
    credentials: Option<Secret>,
}

/// The Secret that the domain names.
async fn credentials(op: &Operation, domain: &Domain) -> Result<Option<Secret>, Fault> {
    let Some((namespace, secret)) = &domain.credentials else {
        return Ok(None);
    };
    let api: Api<Secret> = op.context.in_garden(namespace);
    let missing = || {
        Fault::user(format!(
            "Secret {namespace}/{secret} with the DNS credentials does not exist"
        ))
        .hint("create the Secret that the DNS provider names")
    };
    get(&api, secret).await?.ok_or_else(missing).map(Some)
}

async fn deploy(op: &Operation, record: Record, until: Option<Instant>) -> Result<(), Fault> {
    let Record {
        purpose,
        task,
        domain,
        credentials,
    } = record;
    let name = format!("{}-{purpose}", op.shoot.name);
    let secret_name = format!("dnsrecord-{name}");
    if let Some(from) = credentials {
        copy_secret(op, &from, &secret_name, BTreeMap::new()).await?;
    }
    let (record_type, values) = target(op).await?;
    let desired = DNSRecord {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(op.namespace().to_owned()),
            ..ObjectMeta::default()
        },
        spec: DNSRecordSpec {
            type_: domain.type_.clone(),
            secret_ref: SecretReference {
                name: Some(secret_name),
                namespace: Some(op.namespace().to_owned()),
            },
            zone: domain.zone.clone(),
            name: domain.host.clone(),
            record_type,
            values,
            ttl: Some(TTL_SECONDS),
            ..DNSRecordSpec::default()
        },
        status: None,
    };
    let api = op.here::<DNSRecord>();
    let present = get(&api, &name).await?;
    if let Some(other) = present
        .as_ref()
        .filter(|present| present.spec.record_type != desired.spec.record_type)
    {
        // A record of another type is another record (contract E.3).
        delete_confirmed(&op.context, &api, other.metadata.name.as_deref().unwrap_or_default()).await?;
        wait_deleted(&api, &op.key(&name), left(until), &op.waiting).await?;
    }
    let is_task_requested = is_requested(&op.status.known().metadata, task);
    let settled = present
        .filter(|present| present.spec == desired.spec && !needs_operation(present))
        .filter(|_| !is_task_requested);
    let requested = match settled {
        Some(_) => None,
        None => Request::of(&op.request(&api, desired).await?),
    };
    wait_ready(
        op.context.seed_caches.of::<DNSRecord>(),
        &op.key(&name),
        requested.as_ref(),
        left(until),
        &op.waiting,
    )
    .await
    .map(drop)
}

/// What the name stands for: the address all API servers share, else that of the Service.
async fn target(op: &Operation) -> Result<(DNSRecordType, Vec<String>), Fault> {
    if let Addressing::Shared { address, .. } = &op.context.config.addressing {
        return Ok((type_of(*address), vec![address.to_string()]));
    }
    match reached_at(op, components_hosted::API_SERVER).await? {
        ReachedAt::Host(host) => Ok((DNSRecordType::CNAME, vec![host])),
        ReachedAt::Address(address) => Ok((type_of(address), vec![address.to_string()])),
    }
}

/// Where a Service is reached from outside of its cluster.
pub(crate) enum ReachedAt {
    /// At the name of its load balancer.
    Host(String),
    /// At the address of its load balancer, or at its own.
    Address(IpAddr),
}

/// Where a Service of the shoot's namespace is reached.
pub(crate) async fn reached_at(op: &Operation, name: &str) -> Result<ReachedAt, Fault> {
    let service = get(&op.here::<Service>(), name).await?;
    let status = service.as_ref().and_then(|service| service.status.as_ref());
    let ingress = status.and_then(|status| status.load_balancer.as_ref()?.ingress.as_ref()?.first().cloned());
    if let Some(hostname) = ingress.as_ref().and_then(|ingress| ingress.hostname.clone()) {
        return Ok(ReachedAt::Host(hostname));
    }
    let spec = service.and_then(|service| service.spec);
    // What is to have a load balancer is reached there alone, once it has one.
    let own = spec.filter(|spec| spec.type_.as_deref() != Some("LoadBalancer"));
    let address = ingress
        .and_then(|ingress| ingress.ip)
        .or_else(|| own?.cluster_ip)
        .and_then(|address| address.parse::<IpAddr>().ok());
    let address = address.ok_or_else(|| {
        Fault::dependency(format!("Service {}/{name} has no address yet", op.namespace()))
            .hint("look at the seed's load balancer and Service controllers")
    })?;
    Ok(ReachedAt::Address(address))
}

fn type_of(address: IpAddr) -> DNSRecordType {
    if address.is_ipv4() {
        DNSRecordType::A
    } else {
        DNSRecordType::AAAA
    }
}

/// Deletes a record and waits until it is gone.
pub(crate) async fn destroy(op: &Operation, purpose: &str, until: Option<Instant>) -> Result<(), Fault> {
    let name = format!("{}-{purpose}", op.shoot.name);
    let api = op.here::<DNSRecord>();
    delete_confirmed(&op.context, &api, &name).await?;
    wait_deleted(&api, &op.key(&name), left(until), &op.waiting).await?;
    delete(&op.here::<Secret>(), &format!("dnsrecord-{name}")).await
}
