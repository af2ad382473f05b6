//! DNSRecord: names held in memory, one entry per object, and filled again from the objects after a restart.

mod server;
mod zones;

use api_extensions::{DNSRecord, DNSRecordType};
use api_meta::{ErrorCode, Fault};
use async_trait::async_trait;
use base_controller::{Cache, ObjectKey};
use extensions_sdk::{Actuator, Context, Outcome};

pub(crate) use server::serve;
pub(crate) use zones::Zones;
use zones::{Entry, RecordType};

/// Seconds an answer may be cached, unless the object sets a time (the field's default).
const TTL_SECONDS: u32 = 120;

/// The actuator of DNSRecords.
pub(crate) struct DnsRecords {
    zones: Zones,
    objects: Cache<DNSRecord>,
    type_: String,
}

impl DnsRecords {
    pub(crate) fn new(zones: Zones, objects: Cache<DNSRecord>, type_: &str) -> Self {
        Self {
            zones,
            objects,
            type_: type_.to_owned(),
        }
    }

    /// Fills the names from objects that had been made before this process began.
    pub(crate) async fn restore(&self) {
        self.objects.ready().await;
        for object in self.objects.list() {
            let ours = object.spec.type_.eq_ignore_ascii_case(&self.type_);
            let made = object
                .status
                .as_ref()
                .is_some_and(|status| status.observed_generation.is_some());
            if ours
                && made
                && object.metadata.deletion_timestamp.is_none()
                && let Err(fault) = entry_of(&object).and_then(|entry| self.zones.put(entry))
            {
                tracing::warn!(object = %ObjectKey::of(&*object), "name not restored: {fault}");
            }
        }
    }
}

fn entry_of(object: &DNSRecord) -> Result<Entry, Fault> {
    let spec = &object.spec;
    let type_ = match &spec.record_type {
        DNSRecordType::A => RecordType::A,
        DNSRecordType::AAAA => RecordType::Aaaa,
        DNSRecordType::CNAME => RecordType::Cname,
        DNSRecordType::TXT => RecordType::Txt,
        other => {
            return Err(
                Fault::user(format!("spec.recordType {other} is not known")).code(ErrorCode::ConfigurationProblem)
            );
        }
    };
    let ttl_seconds = spec.ttl.and_then(|ttl| u32::try_from(ttl).ok()).unwrap_or(TTL_SECONDS);
    Entry::new(ObjectKey::of(object), &spec.name, type_, &spec.values, ttl_seconds)
}

/// The zone a name is in where the object names none: what is left without its first label.
fn zone_of(name: &str) -> String {
    let name = name.trim_end_matches('.');
    name.split_once('.').map_or(name, |(_, zone)| zone).to_owned()
}

#[async_trait]
impl Actuator<DNSRecord> for DnsRecords {
    async fn reconcile(&self, _: &Context, object: &DNSRecord) -> Result<Outcome<DNSRecord>, Fault> {
        self.zones.put(entry_of(object)?)?;
        Ok(Outcome::own(Some(
            object.spec.zone.clone().unwrap_or_else(|| zone_of(&object.spec.name)),
        )))
    }

    async fn delete(&self, _: &Context, object: &DNSRecord) -> Result<(), Fault> {
        self.zones.remove(&ObjectKey::of(object));
        Ok(())
    }

    async fn force_delete(&self, context: &Context, object: &DNSRecord) -> Result<(), Fault> {
        self.delete(context, object).await
    }
}
