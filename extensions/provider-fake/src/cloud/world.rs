//! The cloud's own view of itself, and what each call does to it. It is called under a lock and never waits.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use tokio::time::Instant;

use super::api::{Answer, Call};
use super::error::{CloudError, Reason};
use super::harm::Harms;
use super::item::{Item, ItemChange, Spec, State, Tags, UserData};
use super::kind::Kind;
use super::rules::Place;
use super::settings::Settings;

/// Addresses of the outside that networks and load balancers have: ranges for benchmarks, so that nothing real has them.
const EGRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
const LISTENERS: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// Addresses that a subnet keeps for itself, as clouds do.
const RESERVED: u32 = 4;

#[derive(Debug)]
pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) harms: Harms,
    /// Access keys that are valid, with secret and account.
    pub(super) keys: BTreeMap<String, (String, String)>,
    /// How many keys were issued.
    pub(super) keys_issued: u64,
    /// All calls so far.
    pub(super) calls: u64,
    /// All that was ever made, in its order.
    pub(super) records: Vec<Record>,
}

/// One thing, and who sees what of it.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) item: Item,
    account: String,
    region: String,
    /// When it was made, or has gone: what lists and looks learn of late.
    changed: Instant,
    /// Lists that do not know of it yet.
    unseen_lists: u32,
    /// The last call whose look does not know of it.
    unseen_until: u64,
    /// Calls until it is no longer pending or stopping.
    unsettled: u32,
}

impl Record {
    pub(super) fn exists(&self) -> bool {
        self.item.state != State::Gone
    }

    /// It goes with this call.
    fn end(&mut self, settings: &Settings, call: u64) {
        self.item.state = State::Gone;
        self.changed = Instant::now();
        self.unseen_lists = settings.list_lag;
        self.unseen_until = call + u64::from(settings.get_lag);
    }

    /// Whether a reader sees it who knows of its last change or does not.
    fn is_seen(&self, knows: bool) -> bool {
        (self.item.state == State::Gone) != knows
    }

    fn is_old_news(&self, settings: &Settings) -> bool {
        self.changed.elapsed() >= settings.lag_max
    }

    fn is_listed(&mut self, settings: &Settings) -> bool {
        let knows = self.unseen_lists == 0 || self.is_old_news(settings);
        self.unseen_lists = self.unseen_lists.saturating_sub(1);
        self.is_seen(knows)
    }

    /// What a client sees of it.
    fn shown(&self) -> Item {
        let mut item = self.item.clone();
        match &mut item.spec {
            Spec::Instance(spec) => spec.user_data = UserData::default(),
            // What has no state in the eyes of clients looks as it did.
            _ if item.state == State::Gone => item.state = State::Running,
            _ => {}
        }
        if item.state == State::Pending {
            item.address = None;
        }
        item
    }
}

impl World {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            harms: Harms::none(),
            keys: BTreeMap::new(),
            keys_issued: 0,
            calls: 0,
            records: Vec::new(),
        }
    }

    /// Makes a call with these keys.
    pub(super) fn call(&mut self, key: (&str, &str), region: &str, call: Call) -> Result<Answer, CloudError> {
        self.calls += 1;
        let harm = self.harms.of(self.calls, &call);
        harm.before()?;
        let account = match self.keys.get(key.0) {
            Some((secret, account)) if secret == key.1 => account.clone(),
            _ => {
                let message = "the access key does not exist, or its secret is another one";
                return Err(CloudError::new(Reason::AuthFailure, message));
            }
        };
        if !self.settings.regions.contains_key(region) {
            let message = format!("there is no region {region:?}");
            return Err(CloudError::new(Reason::InvalidParameter, message));
        }
        self.settle(&account);
        let answer = self.perform(&account, region, call)?;
        harm.after().map(|()| answer)
    }

    /// What takes a while goes on by one call.
    fn settle(&mut self, account: &str) {
        // What goes has gone before this call.
        let call = self.calls - 1;
        for record in self.records.iter_mut().filter(|record| record.account == account) {
            if record.unsettled > 0 {
                record.unsettled -= 1;
                continue;
            }
            match record.item.state {
                State::Pending => record.item.state = State::Running,
                State::Stopping => record.end(&self.settings, call),
                State::Running | State::Gone => {}
            }
        }
    }

    fn perform(&mut self, account: &str, region: &str, call: Call) -> Result<Answer, CloudError> {
        match call {
            Call::Create { spec, tags } => self.create(account, region, spec, tags),
            Call::Get { kind, id } => {
                let (call, settings) = (self.calls, self.settings.clone());
                let record = self.record_mut(account, region, kind, &id)?;
                match record.is_seen(call > record.unseen_until || record.is_old_news(&settings)) {
                    true => Ok(Answer::Item(Box::new(record.shown()))),
                    false => Err(missing(kind, &id)),
                }
            }
            Call::List { kind, tags } => Ok(Answer::Items(self.list(account, region, kind, &tags))),
            Call::Change { kind, id, change } => self.change(account, region, kind, &id, change),
            Call::Delete { kind, id } => self.delete(account, region, kind, &id),
        }
    }

    fn place(&self, account: &str, region: &str) -> Place<'_> {
        let there = self
            .records
            .iter()
            .filter(|record| record.exists() && record.account == account && record.region == region);
        Place {
            settings: &self.settings,
            zones: self.settings.regions.get(region).map_or(&[], Vec::as_slice),
            items: there.map(|record| (record.item.id.as_str(), &record.item)).collect(),
        }
    }

    /// One that was ever made.
    fn record_mut(&mut self, account: &str, region: &str, kind: Kind, id: &str) -> Result<&mut Record, CloudError> {
        let is_it = |record: &&mut Record| {
            record.item.id == id && record.item.kind() == kind && record.account == account && record.region == region
        };
        self.records.iter_mut().find(is_it).ok_or_else(|| missing(kind, id))
    }

    /// One that exists.
    fn existing(&mut self, account: &str, region: &str, kind: Kind, id: &str) -> Result<&mut Record, CloudError> {
        match self.record_mut(account, region, kind, id)? {
            record if record.exists() => Ok(record),
            _ => Err(missing(kind, id)),
        }
    }

    fn create(&mut self, account: &str, region: &str, spec: Spec, tags: Tags) -> Result<Answer, CloudError> {
        if let Some(item) = self.made_with_token(account, region, &spec) {
            return Ok(Answer::Item(Box::new(item)));
        }
        self.place(account, region).check_create(&spec, &tags)?;
        let kind = spec.kind();
        let number = self.records.len() as u32 + 1;
        let address = self.address_for(&spec, number);
        let settle = if kind.takes_time() { self.settings.settle } else { 0 };
        let item = Item {
            id: format!("{}-{number:08x}", kind.prefix()),
            spec,
            tags,
            state: if settle > 0 { State::Pending } else { State::Running },
            address,
        };
        let record = Record {
            item,
            account: account.to_owned(),
            region: region.to_owned(),
            changed: Instant::now(),
            unseen_lists: self.settings.list_lag,
            unseen_until: self.calls + u64::from(self.settings.get_lag),
            // The call that follows counts already.
            unsettled: settle.saturating_sub(1),
        };
        let shown = record.shown();
        self.records.push(record);
        Ok(Answer::Item(Box::new(shown)))
    }

    /// The instance that exists already for the client's token.
    fn made_with_token(&self, account: &str, region: &str, spec: &Spec) -> Option<Item> {
        let token_of = |spec: &Spec| match spec {
            Spec::Instance(spec) => spec.client_token.clone(),
            _ => None,
        };
        let token = token_of(spec)?;
        let is_it = |record: &&Record| {
            let alike = record.account == account && record.region == region && record.exists();
            alike && token_of(&record.item.spec).as_ref() == Some(&token)
        };
        self.records.iter().find(is_it).map(Record::shown)
    }

    fn address_for(&self, spec: &Spec, number: u32) -> Option<Ipv4Addr> {
        let outside = |base: Ipv4Addr| Ipv4Addr::from(u32::from(base) + number % (1 << 16));
        match spec {
            Spec::Network(_) => Some(outside(EGRESS)),
            Spec::LoadBalancer(_) => Some(outside(LISTENERS)),
            Spec::Instance(spec) => self.address_in(&spec.subnet),
            _ => None,
        }
    }

    /// The first address of a subnet that nothing has.
    fn address_in(&self, subnet: &str) -> Option<Ipv4Addr> {
        let existing = || self.records.iter().filter(|record| record.exists());
        let range = existing().find_map(|record| match &record.item.spec {
            Spec::Subnet(spec) if record.item.id == subnet => Some(spec.cidr),
            _ => None,
        })?;
        let is_taken = |address: Ipv4Addr| {
            existing().any(|record| {
                matches!(&record.item.spec, Spec::Instance(spec) if spec.subnet == subnet)
                    && record.item.address == Some(address)
            })
        };
        usable(range).find(|address| !is_taken(*address))
    }

    fn list(&mut self, account: &str, region: &str, kind: Kind, tags: &Tags) -> Vec<Item> {
        let is_selected = |record: &Record| {
            let item = &record.item;
            let has_tags = tags.iter().all(|(key, value)| item.tags.get(key) == Some(value));
            record.account == account && record.region == region && item.kind() == kind && has_tags
        };
        let selected = self.records.iter_mut().filter(|record| is_selected(record));
        selected
            .filter_map(|record| record.is_listed(&self.settings).then(|| record.shown()))
            .collect()
    }

    fn change(
        &mut self,
        account: &str,
        region: &str,
        kind: Kind,
        id: &str,
        change: ItemChange,
    ) -> Result<Answer, CloudError> {
        let item = self.existing(account, region, kind, id)?.item.clone();
        self.place(account, region).check_change(&item, &change)?;
        let record = self.existing(account, region, kind, id)?;
        match (change, &mut record.item.spec) {
            (ItemChange::Tags(tags), _) => record.item.tags.extend(tags),
            (ItemChange::Rules(rules), Spec::SecurityGroup(spec)) => spec.rules = rules,
            (ItemChange::Ports(ports), Spec::LoadBalancer(spec)) => spec.ports = ports,
            (ItemChange::Attachment(instance), Spec::Volume(spec)) => spec.attached_to = instance,
            // The rules have refused it.
            _ => {}
        }
        Ok(Answer::Item(Box::new(record.shown())))
    }

    fn delete(&mut self, account: &str, region: &str, kind: Kind, id: &str) -> Result<Answer, CloudError> {
        let record = self.existing(account, region, kind, id)?;
        if record.item.state == State::Stopping {
            return Ok(Answer::Done);
        }
        if matches!(&record.item.spec, Spec::Volume(spec) if spec.attached_to.is_some()) {
            let message = format!("{id} is attached to an instance");
            return Err(CloudError::new(Reason::DependencyViolation, message));
        }
        self.place(account, region).check_delete(id)?;
        let (settings, call) = (self.settings.clone(), self.calls);
        let record = self.existing(account, region, kind, id)?;
        match kind.takes_time() && settings.settle > 0 {
            true => {
                record.item.state = State::Stopping;
                record.unsettled = settings.settle - 1;
            }
            false => record.end(&settings, call),
        }
        self.detach(id);
        Ok(Answer::Done)
    }

    fn detach(&mut self, instance: &str) {
        for record in &mut self.records {
            if let Spec::Volume(volume) = &mut record.item.spec
                && volume.attached_to.as_deref() == Some(instance)
            {
                volume.attached_to = None;
            }
        }
    }
}

fn usable(range: Ipv4Net) -> impl Iterator<Item = Ipv4Addr> {
    let (first, last) = (u32::from(range.network()), u32::from(range.broadcast()));
    (first + RESERVED..last).map(Ipv4Addr::from)
}

fn missing(kind: Kind, id: &str) -> CloudError {
    CloudError::new(Reason::NotFound, format!("the {kind} {id} does not exist"))
}
