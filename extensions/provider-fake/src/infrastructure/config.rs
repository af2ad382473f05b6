//! `spec.provider.infrastructureConfig` of a Shoot: as its owner writes it, and as it is once it makes sense.

use std::collections::BTreeSet;

use api_meta::{ErrorCode, Fault, RawJson};
use extensions_sdk::{FieldProblem, check_config};
use ipnet::Ipv4Net;
use serde::Deserialize;

use crate::provider_status::API_VERSION;

const KIND: &str = "InfrastructureConfig";
/// Where it stands in the Shoot.
pub(crate) const FIELD: &str = "spec.provider.infrastructureConfig";
/// Prefixes that the cloud takes.
const PREFIX_MIN: u8 = 8;
const PREFIX_MAX: u8 = 28;
/// What is accepted as a range.
const A_RANGE: &str = "a range of IPv4 addresses such as 10.250.0.0/16, with a prefix of 8 to 28 bits";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InfrastructureConfig {
    networks: NetworksConfig,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetworksConfig {
    vpc: VpcConfig,
    zones: Vec<ZoneConfig>,
    #[serde(default)]
    node_port_sources: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VpcConfig {
    #[serde(default)]
    cidr: Option<String>,
    #[serde(default)]
    id: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ZoneConfig {
    name: String,
    workers: String,
}

/// What the infrastructure of a shoot shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValidatedConfig {
    pub(crate) vpc: Vpc,
    /// At least one, each name once, no two ranges overlap.
    pub(crate) zones: Vec<Zone>,
    /// Who reaches the ports of Services of type NodePort.
    pub(crate) node_port_sources: Vec<Ipv4Net>,
}

/// The network of a shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Vpc {
    /// One of its own, with this range.
    Own(Ipv4Net),
    /// One that its owner has made, by its id.
    Existing(String),
}

/// A zone of a shoot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) name: String,
    /// The range of its machines.
    pub(crate) workers: Ipv4Net,
}

impl ValidatedConfig {
    /// Reads a configuration for an operation. `wanted_zones` are those of the Shoot's workers.
    ///
    /// # Errors
    /// A user fault with `ERR_CONFIGURATION_PROBLEM` that names all problems with their paths.
    pub(crate) fn read(raw: Option<&RawJson>, wanted_zones: &BTreeSet<String>) -> Result<Self, Fault> {
        Self::check(raw, wanted_zones).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Fault::user(format!("the configuration cannot be used: {}", problems.join(", and ")))
                .code(ErrorCode::ConfigurationProblem)
                .hint(format!("correct {FIELD} of the Shoot"))
        })
    }

    /// Reads a configuration, for admission too.
    ///
    /// # Errors
    /// All problems.
    pub(crate) fn check(raw: Option<&RawJson>, wanted_zones: &BTreeSet<String>) -> Result<Self, Vec<FieldProblem>> {
        let InfrastructureConfig { networks } = check_config(raw, &[(API_VERSION, KIND)], FIELD)?;
        let mut problems = Problems::default();
        let vpc = problems.vpc(&networks.vpc);
        let range = match vpc {
            Some(Vpc::Own(range)) => Some(range),
            _ => None,
        };
        let zones = problems.zones(networks.zones, range, wanted_zones);
        let everywhere = || vec!["0.0.0.0/0".to_owned()];
        let sources = networks.node_port_sources.unwrap_or_else(everywhere);
        let node_port_sources = problems.sources(&sources);
        match vpc {
            Some(vpc) if problems.0.is_empty() => Ok(Self {
                vpc,
                zones,
                node_port_sources,
            }),
            _ => Err(problems.0),
        }
    }
}

/// The network of a configuration, where that part of it makes sense whatever the rest is.
pub(crate) fn vpc_of(raw: Option<&RawJson>) -> Option<Vpc> {
    let vpc = raw?.value().get("networks")?.get("vpc")?.clone();
    Problems::default().vpc(&serde_json::from_value(vpc).ok()?)
}

#[derive(Default)]
struct Problems(Vec<FieldProblem>);

impl Problems {
    fn add(&mut self, path: &str, problem: impl Into<String>, expected: &str) {
        self.0
            .push(FieldProblem::new(format!("{FIELD}.networks{path}"), problem, expected));
    }

    /// A range that the cloud takes.
    fn range(&mut self, path: &str, text: &str) -> Option<Ipv4Net> {
        let range: Option<Ipv4Net> = text.parse().ok();
        let fits = |range: &Ipv4Net| (PREFIX_MIN..=PREFIX_MAX).contains(&range.prefix_len()) && *range == range.trunc();
        let range = range.filter(fits);
        if range.is_none() {
            self.add(path, format!("is {text:?}"), A_RANGE);
        }
        range
    }

    fn vpc(&mut self, config: &VpcConfig) -> Option<Vpc> {
        match (config.cidr.as_deref(), config.id.as_deref()) {
            (Some(cidr), None) => self.range(".vpc.cidr", cidr).map(Vpc::Own),
            (None, Some("")) => {
                self.add(".vpc.id", "is empty", "the id of a network such as net-00000001");
                None
            }
            (None, Some(id)) => Some(Vpc::Existing(id.to_owned())),
            (None, None) => {
                self.add(".vpc", "names neither cidr nor id", "one of them");
                None
            }
            (Some(_), Some(_)) => {
                self.add(".vpc", "names both cidr and id", "one of them");
                None
            }
        }
    }

    fn zones(&mut self, configs: Vec<ZoneConfig>, vpc: Option<Ipv4Net>, wanted: &BTreeSet<String>) -> Vec<Zone> {
        let mut zones: Vec<Zone> = Vec::new();
        let names: BTreeSet<&str> = configs.iter().map(|config| config.name.as_str()).collect();
        if configs.is_empty() {
            self.add(".zones", "is empty", "at least one zone");
        }
        for zone in wanted.iter().filter(|zone| !names.contains(zone.as_str())) {
            self.add(
                ".zones",
                format!("lacks the zone {zone:?} of a worker pool"),
                "all zones of worker pools",
            );
        }
        for (at, config) in configs.into_iter().enumerate() {
            let path = format!(".zones[{at}].workers");
            if zones.iter().any(|zone| zone.name == config.name) {
                self.add(
                    &format!(".zones[{at}].name"),
                    format!("is {:?} once more", config.name),
                    "each zone once",
                );
            }
            let Some(workers) = self.range(&path, &config.workers) else {
                continue;
            };
            if let Some(vpc) = vpc.filter(|vpc| !vpc.contains(&workers)) {
                self.add(&path, format!("is {workers}"), &format!("a part of the network {vpc}"));
            }
            let meets = |zone: &&Zone| zone.workers.contains(&workers) || workers.contains(&zone.workers);
            if let Some(other) = zones.iter().find(meets) {
                let problem = format!("is {workers} and overlaps {} of zone {:?}", other.workers, other.name);
                self.add(&path, problem, "a range of its own");
            }
            zones.push(Zone {
                name: config.name,
                workers,
            });
        }
        zones
    }

    fn sources(&mut self, texts: &[String]) -> Vec<Ipv4Net> {
        let mut sources = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            match text.parse() {
                Ok(source) => sources.push(source),
                Err(_) => self.add(
                    &format!(".nodePortSources[{at}]"),
                    format!("is {text:?}"),
                    "a range of IPv4 addresses such as 0.0.0.0/0",
                ),
            }
        }
        sources
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(networks: Value) -> Result<ValidatedConfig, Vec<String>> {
        let config = json!({"apiVersion": API_VERSION, "kind": KIND, "networks": networks});
        let wanted = BTreeSet::from(["a".to_owned()]);
        let checked = ValidatedConfig::check(Some(&RawJson::from(config)), &wanted);
        checked.map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_configuration_becomes_ranges_and_opens_node_ports_by_default() {
        let zones = json!([{"name": "a", "workers": "10.0.0.0/20"}, {"name": "b", "workers": "10.0.16.0/20"}]);
        let config = check(json!({"vpc": {"cidr": "10.0.0.0/16"}, "zones": zones})).unwrap();
        assert_eq!(config.vpc, Vpc::Own("10.0.0.0/16".parse().unwrap()));
        assert_eq!(config.zones[1].workers, "10.0.16.0/20".parse().unwrap());
        assert_eq!(config.node_port_sources, ["0.0.0.0/0".parse().unwrap()]);
        let closed = check(json!({"vpc": {"id": "net-1"}, "zones": zones, "nodePortSources": []})).unwrap();
        assert_eq!(closed.vpc, Vpc::Existing("net-1".to_owned()));
        assert!(closed.node_port_sources.is_empty());
    }

    #[test]
    fn all_problems_are_named_with_their_paths_at_once() {
        let problems = check(json!({
            "vpc": {"cidr": "10.0.0.0/16", "id": "net-1"},
            "zones": [
                {"name": "b", "workers": "10.0.0.0/20"},
                {"name": "b", "workers": "10.0.8.0/21"},
                {"name": "c", "workers": "10.0.0.1/20"},
            ],
            "nodePortSources": ["all"],
        }));
        let expected = [
            ".vpc names both cidr and id; expected one of them",
            ".zones lacks the zone \"a\" of a worker pool; expected all zones of worker pools",
            ".zones[1].name is \"b\" once more; expected each zone once",
            ".zones[1].workers is 10.0.8.0/21 and overlaps 10.0.0.0/20 of zone \"b\"; expected a range of its own",
            &format!(".zones[2].workers is \"10.0.0.1/20\"; expected {A_RANGE}"),
            ".nodePortSources[0] is \"all\"; expected a range of IPv4 addresses such as 0.0.0.0/0",
        ];
        assert_eq!(
            problems.unwrap_err(),
            expected.map(|text| format!("{FIELD}.networks{text}"))
        );
    }

    #[test]
    fn zones_outside_of_the_network_and_unknown_fields_are_refused() {
        let outside =
            check(json!({"vpc": {"cidr": "10.0.0.0/16"}, "zones": [{"name": "a", "workers": "10.1.0.0/20"}]}));
        let text =
            format!("{FIELD}.networks.zones[0].workers is 10.1.0.0/20; expected a part of the network 10.0.0.0/16");
        assert_eq!(outside.unwrap_err(), [text]);
        let misspelt = check(json!({"vpc": {"cidr": "10.0.0.0/16", "ID": "x"}, "zones": [], "zone": 1}));
        let expected = [".vpc.ID is not known", ".zone is not known"];
        assert_eq!(
            misspelt.unwrap_err(),
            expected.map(|text| format!("{FIELD}.networks{text}"))
        );
    }
}
