//! What the cloud accepts, by what exists already. It changes nothing.

use std::collections::BTreeMap;

use ipnet::Ipv4Net;

use super::error::{CloudError, Reason};
use super::item::{
    InstanceSpec, Item, ItemChange, LoadBalancerSpec, NetworkSpec, Rule, Spec, State, SubnetSpec, Tags, VolumeSpec,
};
use super::kind::Kind;
use super::settings::Settings;

/// Prefixes that networks and subnets may have.
const PREFIX_MIN: u8 = 8;
const PREFIX_MAX: u8 = 28;
/// Size of the largest disk.
const GIGABYTES_MAX: u32 = 16_384;
/// Tags of one thing, and bytes of a key and of a value.
const TAGS_MAX: usize = 50;
const TAG_KEY_BYTES_MAX: usize = 128;
const TAG_VALUE_BYTES_MAX: usize = 256;
/// Bytes that an instance is given when it boots.
const USER_DATA_BYTES_MAX: usize = 64 * 1024;

/// What there is in one account and region.
pub(super) struct Place<'a> {
    pub(super) settings: &'a Settings,
    pub(super) zones: &'a [String],
    /// All that exists, by id.
    pub(super) items: BTreeMap<&'a str, &'a Item>,
}

fn invalid<T>(message: impl Into<String>) -> Result<T, CloudError> {
    Err(CloudError::new(Reason::InvalidParameter, message))
}

impl Place<'_> {
    /// Whether a thing may be made.
    pub(super) fn check_create(&self, spec: &Spec, tags: &Tags) -> Result<(), CloudError> {
        check_tags(tags)?;
        let kind = spec.kind();
        match spec {
            Spec::Network(NetworkSpec { cidr }) => check_range(*cidr)?,
            Spec::Subnet(spec) => self.check_subnet(spec)?,
            Spec::SecurityGroup(spec) => {
                self.usable(Kind::Network, &spec.network)?;
                check_rules(&spec.rules)?;
            }
            Spec::KeyPair(spec) => {
                if !spec.public_key.starts_with("ssh-") {
                    return invalid("publicKey is no key of SSH");
                }
            }
            Spec::LoadBalancer(spec) => self.check_load_balancer(spec)?,
            Spec::Volume(spec) => self.check_volume(spec)?,
            Spec::Instance(spec) => self.check_instance(spec)?,
        }
        let (has, may_have) = (self.count(kind), self.settings.quotas.get(&kind));
        match may_have {
            Some(may_have) if has >= *may_have => Err(CloudError::new(
                Reason::QuotaExceeded,
                format!("the account has {has} of {may_have} {}s", kind),
            )),
            _ => Ok(()),
        }
    }

    /// Whether a thing may be changed so.
    pub(super) fn check_change(&self, item: &Item, change: &ItemChange) -> Result<(), CloudError> {
        match (change, &item.spec) {
            (ItemChange::Tags(tags), _) => {
                let mut all = item.tags.clone();
                all.extend(tags.clone());
                check_tags(&all)
            }
            (ItemChange::Rules(rules), Spec::SecurityGroup(_)) => check_rules(rules),
            (ItemChange::Ports(ports), Spec::LoadBalancer(_)) => check_ports(ports),
            (ItemChange::Attachment(None), Spec::Volume(_)) => Ok(()),
            (ItemChange::Attachment(Some(instance)), Spec::Volume(volume)) => {
                if volume.attached_to.as_ref().is_some_and(|other| other != instance) {
                    return Err(CloudError::new(
                        Reason::DependencyViolation,
                        format!("{} is attached to another instance", item.id),
                    ));
                }
                match self.zone_of(instance)? {
                    zone if zone == volume.zone => Ok(()),
                    zone => invalid(format!("{} lies in {}, and {instance} in {zone}", item.id, volume.zone)),
                }
            }
            (_, spec) => invalid(format!("this cannot be changed about a {}", spec.kind())),
        }
    }

    /// Whether a thing may be deleted: nothing hangs on it.
    pub(super) fn check_delete(&self, id: &str) -> Result<(), CloudError> {
        let dependents = self.items.values().filter(|item| needs(&item.spec).contains(&id));
        let dependents: Vec<&str> = dependents.map(|item| item.id.as_str()).collect();
        match dependents.is_empty() {
            true => Ok(()),
            false => Err(CloudError::new(
                Reason::DependencyViolation,
                format!(
                    "{id} has dependent objects and cannot be deleted: {}",
                    dependents.join(", ")
                ),
            )),
        }
    }

    fn count(&self, kind: Kind) -> usize {
        self.items.values().filter(|item| item.kind() == kind).count()
    }

    /// What a specification names.
    fn usable(&self, kind: Kind, id: &str) -> Result<&Item, CloudError> {
        match self.items.get(id) {
            Some(item) if item.kind() == kind && item.state != State::Stopping => Ok(item),
            _ => Err(CloudError::new(
                Reason::NotFound,
                format!("the {kind} {id} does not exist"),
            )),
        }
    }

    fn subnet(&self, id: &str) -> Result<&SubnetSpec, CloudError> {
        match &self.usable(Kind::Subnet, id)?.spec {
            Spec::Subnet(spec) => Ok(spec),
            _ => invalid(format!("{id} is no subnet")),
        }
    }

    fn zone_of(&self, instance: &str) -> Result<&str, CloudError> {
        match &self.usable(Kind::Instance, instance)?.spec {
            Spec::Instance(spec) => Ok(self.subnet(&spec.subnet)?.zone.as_str()),
            _ => invalid(format!("{instance} is no instance")),
        }
    }

    fn check_zone(&self, zone: &str) -> Result<(), CloudError> {
        match self.zones.iter().any(|known| known == zone) {
            true => Ok(()),
            false => invalid(format!(
                "there is no zone {zone:?}: the zones are {}",
                self.zones.join(", ")
            )),
        }
    }

    fn check_subnet(&self, spec: &SubnetSpec) -> Result<(), CloudError> {
        let network = self.usable(Kind::Network, &spec.network)?;
        self.check_zone(&spec.zone)?;
        check_range(spec.cidr)?;
        if !matches!(&network.spec, Spec::Network(NetworkSpec { cidr }) if cidr.contains(&spec.cidr)) {
            return invalid(format!("{} is no part of the network {}", spec.cidr, network.id));
        }
        for item in self.items.values() {
            let Spec::Subnet(other) = &item.spec else { continue };
            let meets = other.cidr.contains(&spec.cidr) || spec.cidr.contains(&other.cidr);
            if other.network == spec.network && meets {
                return invalid(format!("{} overlaps {} of {}", spec.cidr, other.cidr, item.id));
            }
        }
        Ok(())
    }

    fn check_load_balancer(&self, spec: &LoadBalancerSpec) -> Result<(), CloudError> {
        check_ports(&spec.ports)?;
        let networks: Result<Vec<&str>, CloudError> = (spec.subnets.iter())
            .map(|id| Ok(self.subnet(id)?.network.as_str()))
            .collect();
        match networks?.as_slice() {
            [] => invalid("a load balancer needs a subnet"),
            [first, others @ ..] if others.iter().any(|other| other != first) => {
                invalid("the subnets of a load balancer are of one network")
            }
            _ => Ok(()),
        }
    }

    fn check_volume(&self, spec: &VolumeSpec) -> Result<(), CloudError> {
        self.check_zone(&spec.zone)?;
        match spec {
            VolumeSpec { gigabytes, .. } if !(1..=GIGABYTES_MAX).contains(gigabytes) => {
                invalid(format!("{gigabytes} gigabytes are not between 1 and {GIGABYTES_MAX}"))
            }
            VolumeSpec {
                attached_to: Some(_), ..
            } => invalid("a volume is attached once it exists"),
            _ => Ok(()),
        }
    }

    fn check_instance(&self, spec: &InstanceSpec) -> Result<(), CloudError> {
        let network = &self.subnet(&spec.subnet)?.network;
        for id in &spec.security_groups {
            let group = self.usable(Kind::SecurityGroup, id)?;
            if !matches!(&group.spec, Spec::SecurityGroup(group) if group.network == *network) {
                return invalid(format!("{id} is not of the network {network}"));
            }
        }
        if let Some(id) = &spec.key_pair {
            self.usable(Kind::KeyPair, id)?;
        }
        if spec.image.is_empty() {
            return invalid("image is empty");
        }
        if spec.user_data.0.len() > USER_DATA_BYTES_MAX {
            return invalid(format!("userData has more than {USER_DATA_BYTES_MAX} bytes"));
        }
        let Some(capacity) = self.settings.machine_types.get(&spec.machine_type) else {
            return invalid(format!("there is no machine type {:?}", spec.machine_type));
        };
        let is_alike =
            |item: &&&Item| matches!(&item.spec, Spec::Instance(other) if other.machine_type == spec.machine_type);
        match self.items.values().filter(is_alike).count() < *capacity {
            true => Ok(()),
            false => Err(CloudError::new(
                Reason::InsufficientCapacity,
                format!("there is no capacity left for machines of type {}", spec.machine_type),
            )),
        }
    }
}

/// The ids that a thing hangs on.
fn needs(spec: &Spec) -> Vec<&str> {
    match spec {
        Spec::Network(_) | Spec::KeyPair(_) => Vec::new(),
        Spec::Subnet(spec) => vec![&spec.network],
        Spec::SecurityGroup(spec) => vec![&spec.network],
        Spec::LoadBalancer(spec) => spec.subnets.iter().map(String::as_str).collect(),
        // An attached disk keeps itself from being deleted, not the instance: that one lets go of it.
        Spec::Volume(_) => Vec::new(),
        Spec::Instance(spec) => {
            let groups = spec.security_groups.iter().map(String::as_str);
            groups.chain([spec.subnet.as_str()]).collect()
        }
    }
}

fn check_range(cidr: Ipv4Net) -> Result<(), CloudError> {
    if !(PREFIX_MIN..=PREFIX_MAX).contains(&cidr.prefix_len()) {
        return invalid(format!("{cidr} has no prefix of {PREFIX_MIN} to {PREFIX_MAX} bits"));
    }
    match cidr == cidr.trunc() {
        true => Ok(()),
        false => invalid(format!("{cidr} is no range: its first address is {}", cidr.trunc())),
    }
}

fn check_rules(rules: &[Rule]) -> Result<(), CloudError> {
    match rules.iter().find(|rule| rule.port == 0 || rule.port > rule.port_end) {
        Some(rule) => invalid(format!("{} to {} are no ports", rule.port, rule.port_end)),
        None => Ok(()),
    }
}

fn check_ports(ports: &[u16]) -> Result<(), CloudError> {
    match ports.is_empty() || ports.contains(&0) {
        true => invalid("a load balancer listens on ports from 1 to 65535, on one at least"),
        false => Ok(()),
    }
}

fn check_tags(tags: &Tags) -> Result<(), CloudError> {
    if tags.len() > TAGS_MAX {
        return invalid(format!("there are {} tags; {TAGS_MAX} are allowed", tags.len()));
    }
    for (key, value) in tags {
        if key.is_empty() || key.len() > TAG_KEY_BYTES_MAX || value.len() > TAG_VALUE_BYTES_MAX {
            return invalid(format!(
                "the tag {key:?} is no pair of 1 to {TAG_KEY_BYTES_MAX} and 0 to {TAG_VALUE_BYTES_MAX} bytes"
            ));
        }
    }
    Ok(())
}
