//! What Shoots count against Quotas (gardener/gardener v1.150 plugin/pkg/shoot/quotavalidator): the largest size of each
//! pool, whatever it has at the moment. A pool whose volume is not known counts no storage; Gardener answers with an
//! internal error there.

use std::collections::BTreeMap;

use api_core::v1beta1::{CloudProfileSpec, MachineType, Quota, Shoot, Worker};

use crate::quantity;
use crate::shoot_workers::pools_by_name;

/// Sums of fractions are this inexact.
const TOLERANCE: f64 = 1e-9;

/// Amounts by the names of a Quota's metrics, in their base units: cores, bytes, pieces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaUsage(BTreeMap<&'static str, f64>);

impl QuotaUsage {
    /// What one Shoot counts.
    pub fn of(shoot: &Shoot, profile: &CloudProfileSpec) -> Self {
        let mut usage = Self::default();
        let ingress = has_ingress(shoot);
        usage.count("loadbalancer", if ingress { 2.0 } else { 1.0 });
        for pool in &shoot.spec.provider.workers {
            let mut types = profile.machine_types.iter();
            if let Some(machine) = types.find(|offered| offered.name == pool.machine.type_) {
                usage.add_pool(pool, machine, profile);
            }
        }
        usage
    }

    /// Adds what another Shoot counts.
    pub fn add(&mut self, other: &Self) {
        for (metric, amount) in &other.0 {
            self.count(metric, *amount);
        }
    }

    fn count(&mut self, metric: &'static str, amount: f64) {
        *self.0.entry(metric).or_default() += amount;
    }

    fn add_pool(&mut self, pool: &Worker, machine: &MachineType, profile: &CloudProfileSpec) {
        let machines = f64::from(pool.maximum);
        for (metric, size) in [
            ("cpu", &machine.cpu),
            ("gpu", &machine.gpu),
            ("memory", &machine.memory),
        ] {
            self.count(metric, machines * quantity::value(&size.0).unwrap_or_default());
        }
        let of_machine = machine.storage.as_ref();
        let size = match &pool.volume {
            Some(volume) => Some(volume.size.as_str()),
            None => of_machine
                .and_then(|storage| storage.size.as_ref())
                .map(|size| size.0.as_str()),
        };
        let wanted = pool.volume.as_ref().and_then(|volume| volume.type_.as_deref());
        let mut types = profile.volume_types.iter();
        let class = match of_machine {
            Some(storage) => Some(storage.class.as_str()),
            None => types
                .find(|offered| Some(offered.name.as_str()) == wanted)
                .map(|offered| offered.class.as_str()),
        };
        let metric = match class {
            Some("standard") => "storage.standard",
            Some("premium") => "storage.premium",
            _ => return,
        };
        let size = size.and_then(quantity::value).unwrap_or_default();
        self.count(metric, machines * size);
    }
}

/// The metrics of the Quota that this usage exceeds.
pub fn exceeded_metrics(quota: &Quota, usage: &QuotaUsage) -> Vec<&'static str> {
    let exceeds = |(metric, used): (&&'static str, &f64)| {
        let limit = quantity::value(&quota.spec.metrics.get(*metric)?.0)?;
        (*used > limit * (1.0 + TOLERANCE)).then_some(*metric)
    };
    usage.0.iter().filter_map(exceeds).collect()
}

/// Whether an update may count more than before: another pool, a pool of another size, an ingress.
pub fn may_count_more(shoot: &Shoot, old: &Shoot) -> bool {
    let counts = |pool: &Worker| (pool.machine.type_.clone(), pool.maximum, pool.volume.clone());
    let before = pools_by_name(&old.spec.provider.workers);
    let grows = |pool: &Worker| {
        let before = before.get(pool.name.as_str());
        before.is_none_or(|before| counts(before) != counts(pool))
    };
    has_ingress(shoot) && !has_ingress(old) || shoot.spec.provider.workers.iter().any(grows)
}

fn has_ingress(shoot: &Shoot) -> bool {
    let addons = shoot.spec.addons.as_ref();
    addons
        .and_then(|addons| addons.nginx_ingress.as_ref())
        .is_some_and(|ingress| ingress.enabled)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shoot(pools: Value, ingress: bool) -> Shoot {
        let spec = json!({"provider": {"workers": pools}, "addons": {"nginxIngress": {"enabled": ingress}}});
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    fn exceeded(pools: Value, ingress: bool, metrics: Value) -> Vec<&'static str> {
        let profile = json!({"volumeTypes": [{"name": "ssd", "class": "premium"}], "machineTypes": [
            {"name": "small", "cpu": "100m", "gpu": "0", "memory": "1Gi"},
            {"name": "own", "cpu": "1", "gpu": "1", "memory": "1Gi", "storage": {"class": "standard", "size": "10Gi", "type": "x"}}]});
        let profile: CloudProfileSpec = serde_json::from_value(profile).unwrap();
        let quota: Quota = serde_json::from_value(json!({"spec": {"metrics": metrics}})).unwrap();
        exceeded_metrics(&quota, &QuotaUsage::of(&shoot(pools, ingress), &profile))
    }

    #[test]
    fn pools_count_with_their_largest_size() {
        let small = |maximum: u32| json!([{"name": "a", "machine": {"type": "small"}, "maximum": maximum, "volume": {"type": "ssd", "size": "20Gi"}}]);
        assert_eq!(
            exceeded(small(3), false, json!({"cpu": "300m", "storage.premium": "60Gi"})),
            [""; 0]
        );
        assert_eq!(
            exceeded(
                small(3),
                false,
                json!({"cpu": "299m", "memory": "2Gi", "storage.premium": "59Gi"})
            ),
            ["cpu", "memory", "storage.premium"]
        );
        let own = json!([{"name": "a", "machine": {"type": "own"}, "maximum": 2}]);
        assert_eq!(
            exceeded(own, false, json!({"gpu": "1", "storage.standard": "10Gi"})),
            ["gpu", "storage.standard"]
        );
        let unknown = json!([{"name": "a", "machine": {"type": "gone"}, "maximum": 2}]);
        assert_eq!(exceeded(unknown, false, json!({"cpu": "0"})), [""; 0]);
        assert_eq!(exceeded(json!([]), false, json!({"loadbalancer": "1"})), [""; 0]);
        assert_eq!(
            exceeded(json!([]), true, json!({"loadbalancer": "1"})),
            ["loadbalancer"]
        );
    }

    #[test]
    fn usage_adds_up_and_only_growth_is_checked() {
        let mut sum = QuotaUsage::default();
        let one = QuotaUsage::of(&shoot(json!([]), true), &CloudProfileSpec::default());
        sum.add(&one);
        sum.add(&one);
        let quota: Quota = serde_json::from_value(json!({"spec": {"metrics": {"loadbalancer": "3"}}})).unwrap();
        assert_eq!(exceeded_metrics(&quota, &sum), ["loadbalancer"]);
        let pool = |maximum: u32| json!([{"name": "a", "machine": {"type": "small"}, "maximum": maximum, "labels": {"x": "y"}}]);
        assert!(!may_count_more(&shoot(pool(1), false), &shoot(pool(1), false)));
        assert!(may_count_more(&shoot(pool(2), false), &shoot(pool(1), false)));
        assert!(may_count_more(&shoot(pool(1), true), &shoot(pool(1), false)));
        assert!(may_count_more(&shoot(pool(1), false), &shoot(json!([]), false)));
        assert!(!may_count_more(&shoot(json!([]), false), &shoot(pool(1), true)));
    }
}
