//! DNSRecord: names held in memory, one entry per object. Every replica fills them from the objects; the one that leads also
//! reports that it did.

mod server;
mod zones;

use api_extensions::{DNSRecord, DNSRecordType};
use api_meta::{ErrorCode, Fault, LastOperationState, LastOperationType};
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

    /// Answers names as the objects have them, in every replica: one that waits to lead is asked as well. It never returns.
    pub(crate) async fn follow(&self) {
        let mut changes = self.objects.subscribe();
        self.objects.ready().await;
        self.objects.list().iter().for_each(|object| self.take_over(object));
        loop {
            let change = changes.next().await;
            match change.new() {
                Some(object) => self.take_over(object),
                None if is_migrated(&change.object) => {}
                None => {
                    self.zones.remove(&ObjectKey::of(&*change.object));
                    // Another object may have been refused the name.
                    self.objects.list().iter().for_each(|object| self.take_over(object));
                }
            }
        }
    }

    /// Whether the objects have been listed: before that, names are not known.
    pub(crate) fn is_ready(&self) -> Result<(), String> {
        match self.objects.is_ready() {
            true => Ok(()),
            false => Err("the DNSRecords have not been listed yet".to_owned()),
        }
    }

    /// Takes an entry over. One whose object has gone, as that of a migrated one, gives way.
    fn put(&self, entry: Entry) -> Result<(), Fault> {
        self.zones.put(entry, |owner| self.objects.get(owner).is_some())
    }

    /// Answers the name of an object that was reconciled once. One that goes is answered until it has gone.
    fn take_over(&self, object: &DNSRecord) {
        let ours = object.spec.type_.eq_ignore_ascii_case(&self.type_);
        let made = object
            .status
            .as_ref()
            .is_some_and(|status| status.observed_generation.is_some());
        if ours
            && made
            && object.metadata.deletion_timestamp.is_none()
            && let Err(fault) = entry_of(object).and_then(|entry| self.put(entry))
        {
            tracing::debug!(object = %ObjectKey::of(object), "name not answered: {fault}");
        }
    }
}

/// Whether the name is another seed's now, so that it is not removed with the object.
fn is_migrated(object: &DNSRecord) -> bool {
    let last = object.status.as_ref().and_then(|status| status.last_operation.as_ref());
    last.is_some_and(|last| last.type_ == LastOperationType::Migrate && last.state == LastOperationState::Succeeded)
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
        self.put(entry_of(object)?)?;
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
