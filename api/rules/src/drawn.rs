//! Properties of 10,000 objects that are drawn from the schemas of their kinds, with a fixed seed: nothing is lost when
//! they are read and written, defaults change nothing the second time, conversions lose nothing, and no rule panics.

use api_core::operations::Bastion;
use api_core::security::{CredentialsBinding, WorkloadIdentity};
use api_core::v1beta1::{
    BackupBucket, BackupEntry, CloudProfile, ControllerDeployment, ControllerInstallation, ControllerRegistration,
    ExposureClass, InternalSecret, NamespacedCloudProfile, Project, Quota, SecretBinding, Seed, Shoot, ShootState,
};
use jiff::Timestamp;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::*;

/// Objects of each kind; 15 kinds and two versions of one.
const OBJECTS: usize = 625;
/// Below this depth only what is required is drawn.
const DEPTH_MAX: usize = 12;
/// Entries of a list or a map.
const ENTRIES_MAX: u64 = 3;
/// Texts that have a meaning somewhere, and some that have none anywhere.
const TEXTS: [&str; 22] = [
    "a",
    "local",
    "1.35.1",
    "1.33.0",
    "10.0.0.0/16",
    "10.0.0.0/8",
    "fd00::/48",
    "50Gi",
    "100m",
    "-1",
    "25%",
    "amd64",
    "arm64",
    "0 20 * * 1-5",
    "220000+0100",
    "a.example.com",
    "Europe/Berlin",
    "User",
    "containerd",
    "ä \u{2028}\u{0}",
    "a|b;c,d\"'",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
];

/// Draws values that a schema allows.
struct Drawing {
    state: u64,
    definitions: Map<String, Value>,
}

impl Drawing {
    fn of<T: JsonSchema>(seed: u64) -> (Self, Value) {
        let mut schema = schema_for!(T).to_value();
        let definitions = match schema.as_object_mut().and_then(|schema| schema.remove("$defs")) {
            Some(Value::Object(definitions)) => definitions,
            _ => Map::new(),
        };
        (
            Self {
                state: seed,
                definitions,
            },
            schema,
        )
    }

    /// A number below `bound` (SplitMix64, Steele and others 2014).
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn one_of<'v, V>(&mut self, values: &'v [V]) -> &'v V {
        let index = self.below(values.len() as u64);
        &values[usize::try_from(index).unwrap()]
    }

    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix("#/$defs/").unwrap();
            return match name.rsplit('.').next() {
                Some("Quantity") => json!(*self.one_of(&["1", "100m", "50Gi", "-1", "1e3"])),
                Some("IntOrString") => self.one_of(&[json!(1), json!(-1), json!("25%"), json!("x")]).clone(),
                _ => {
                    let definition = self.definitions[name].clone();
                    self.value(&definition, depth)
                }
            };
        }
        if let Some(values) = schema["enum"].as_array() {
            return self.one_of(values).clone();
        }
        if let Some(choices) = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()) {
            let choices: Vec<Value> = choices
                .iter()
                .filter(|choice| choice["type"] != "null")
                .cloned()
                .collect();
            let choice = self.one_of(&choices).clone();
            return self.value(&choice, depth);
        }
        let type_ = match &schema["type"] {
            Value::Array(types) => types
                .iter()
                .find_map(|type_| type_.as_str().filter(|type_| *type_ != "null")),
            one => one.as_str(),
        };
        match type_.unwrap_or("object") {
            "string" => self.text(schema["format"].as_str().unwrap_or_default()),
            "boolean" => json!(self.below(2) == 1),
            "integer" => json!(*self.one_of(&[0, 1, 2, 65_535, -1, 2_147_483_647])),
            "number" => json!(*self.one_of(&[0.0, 0.5, 1.5, -2.0])),
            "array" => {
                let entries = if depth > DEPTH_MAX { 0 } else { self.below(ENTRIES_MAX) };
                let items = &schema["items"];
                (0..entries).map(|_| self.value(items, depth + 1)).collect()
            }
            _ => self.object(schema, depth),
        }
    }

    fn text(&mut self, format: &str) -> Value {
        match format {
            "date-time" => json!(*self.one_of(&["2026-01-02T03:04:05Z", "1970-01-01T00:00:00Z"])),
            "duration" => json!(*self.one_of(&["1h0m0s", "30s", "0s", "-5m0s", "2562047h47m16.854775807s"])),
            "byte" => json!("AAEC"),
            _ => json!(*self.one_of(&TEXTS)),
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let mut object = Map::new();
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required = required.iter().any(|required| required == name);
            if is_required || depth < 2 || depth <= DEPTH_MAX && self.below(3) == 0 {
                let value = self.value(property, depth + 1);
                object.insert(name.clone(), value);
            }
        }
        let more = &schema["additionalProperties"];
        if more.is_object() {
            for _ in 0..self.below(ENTRIES_MAX) {
                let name = (*self.one_of(&TEXTS)).to_owned();
                let value = self.value(more, depth + 1);
                object.insert(name, value);
            }
        }
        if schema["x-kubernetes-preserve-unknown-fields"] == true {
            object.insert(
                "raw".to_owned(),
                json!({"number": 9_007_199_254_740_993_u64, "nothing": null}),
            );
        }
        Value::Object(object)
    }
}

/// What of `drawn` is missing or other in `written`; what Go leaves out is not missed.
fn lost(drawn: &Value, written: Option<&Value>, path: &str, found: &mut Vec<String>) {
    let is_zero = match drawn {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(_) => false,
    };
    match (drawn, written) {
        (Value::Object(drawn), written) => {
            for (key, value) in drawn {
                lost(
                    value,
                    written.and_then(|written| written.get(key)),
                    &format!("{path}.{key}"),
                    found,
                );
            }
        }
        (Value::Array(drawn), Some(Value::Array(written))) if drawn.len() == written.len() => {
            for (index, (value, written)) in drawn.iter().zip(written).enumerate() {
                lost(value, Some(written), &format!("{path}[{index}]"), found);
            }
        }
        (Value::Number(one), Some(Value::Number(other))) if one.as_f64() == other.as_f64() => {}
        (drawn, Some(written)) if drawn == written => {}
        (_, None) if is_zero => {}
        (drawn, written) => found.push(format!("{path}: {drawn} became {written:?}")),
    }
}

/// Draws objects of a kind and looks at each of them.
fn each<T>(seed: u64, mut look: impl FnMut(T))
where
    T: JsonSchema + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let (mut drawing, schema) = Drawing::of::<T>(seed);
    for _ in 0..OBJECTS {
        let drawn = drawing.value(&schema, 0);
        let read: T = serde_json::from_value(drawn.clone()).unwrap_or_else(|error| panic!("{error}: {drawn}"));
        let written = serde_json::to_value(&read).unwrap();
        let mut found = Vec::new();
        lost(&drawn, Some(&written), "", &mut found);
        assert!(found.is_empty(), "{found:#?}");
        let again: T = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(again, read);
        look(read);
    }
}

/// The same, for a kind with defaults, which change nothing the second time.
fn each_with_defaults<T>(seed: u64, default: fn(&mut T), look: impl Fn(&T))
where
    T: JsonSchema + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug + Clone,
{
    each(seed, |drawn: T| {
        look(&drawn);
        let mut defaulted = drawn;
        default(&mut defaulted);
        let once = defaulted.clone();
        default(&mut defaulted);
        assert_eq!(defaulted, once);
        look(&defaulted);
    });
}

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

#[test]
fn shoots() {
    let (mut profiles, schema) = Drawing::of::<CloudProfile>(2);
    let mut profile = || -> CloudProfile { serde_json::from_value(profiles.value(&schema, 0)).unwrap() };
    let mut previous = Shoot::default();
    let with = || ShootDefaults {
        seed: None,
        cloud_profile: None,
        now: now(),
        entropy: 7,
        rotates_key: true,
        scales_vertically: true,
        reserves: true,
    };
    each(1, |drawn: Shoot| {
        let mut defaulted = drawn.clone();
        default_shoot(&mut defaulted, with());
        default_shoot_kubernetes(&mut defaulted);
        let once = defaulted.clone();
        default_shoot(&mut defaulted, with());
        default_shoot_kubernetes(&mut defaulted);
        assert_eq!(defaulted, once);
        for shoot in [&drawn, &defaulted] {
            validate_shoot(shoot);
            validate_shoot_creation(shoot);
            validate_shoot_update(shoot, &previous);
            validate_shoot_binding(shoot, &previous);
            validate_shoot_status_update(shoot, &previous);
            validate_shoot_against(shoot, &profile().spec, Some(&previous), now());
        }
        previous = defaulted;
    });
}

#[test]
fn seeds_projects_and_profiles() {
    each_with_defaults(3, default_seed, |seed| {
        validate_seed(seed);
        validate_seed_update(seed, &Seed::default());
    });
    each(4, |project: Project| {
        validate_project(&project);
        validate_project_update(&project, &Project::default());
    });
    each_with_defaults(5, default_cloud_profile, |profile| {
        validate_cloud_profile(profile);
        drop_inactive_versions(&mut profile.spec.clone(), now());
    });
    each_with_defaults(6, default_namespaced_cloud_profile, |profile| {
        validate_namespaced_cloud_profile(profile);
        validate_namespaced_cloud_profile_update(profile, &NamespacedCloudProfile::default());
    });
}

#[test]
fn registrations_installations_and_deployments() {
    each_with_defaults(7, default_controller_registration, |registration| {
        validate_controller_registration(registration);
        validate_controller_registration_update(registration, &ControllerRegistration::default());
    });
    each(8, |installation: ControllerInstallation| {
        validate_controller_installation(&installation);
        validate_controller_installation_update(&installation, &ControllerInstallation::default());
    });
    each(9, |deployment: ControllerDeployment| {
        validate_controller_deployment_v1beta1(&deployment);
        if let Ok(new) = deployment_to_v1(&deployment) {
            let old = deployment_to_v1beta1(&new).unwrap();
            assert_eq!(deployment_to_v1(&old).unwrap(), new);
        }
    });
    each(10, |deployment: api_core::v1::ControllerDeployment| {
        validate_controller_deployment(&deployment);
        if validate_controller_deployment(&deployment).is_empty() {
            let old = deployment_to_v1beta1(&deployment).unwrap();
            assert_eq!(deployment_to_v1(&old).unwrap(), deployment);
        }
    });
}

#[test]
fn credentials_and_backups() {
    each_with_defaults(11, default_secret_binding, |binding| {
        validate_secret_binding(binding);
        validate_secret_binding_update(binding, &SecretBinding::default());
    });
    each_with_defaults(12, default_credentials_binding, |binding| {
        validate_credentials_binding(binding);
        validate_credentials_binding_update(binding, &CredentialsBinding::default());
    });
    each(13, |identity: WorkloadIdentity| {
        validate_workload_identity(&identity);
    });
    each(14, |bucket: BackupBucket| {
        validate_backup_bucket(&bucket);
        validate_backup_bucket_update(&bucket, &BackupBucket::default());
    });
    each(15, |entry: BackupEntry| {
        validate_backup_entry(&entry);
        validate_backup_entry_update(&entry, &BackupEntry::default());
    });
    each(16, |secret: InternalSecret| {
        validate_internal_secret(&secret);
    });
}

#[test]
fn quotas_states_classes_and_bastions() {
    each(17, |quota: Quota| {
        validate_quota(&quota);
    });
    each(18, |state: ShootState| {
        validate_shoot_state(&state);
    });
    each(19, |class: ExposureClass| {
        validate_exposure_class(&class);
    });
    each(20, |_: Bastion| {});
}
