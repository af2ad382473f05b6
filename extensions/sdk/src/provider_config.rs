//! Configuration that users write for a provider, read strictly: what is misspelt is an error with its path, and never a
//! default. A member that is null counts as absent, as Go reads it.
//!
//! Types for it derive `Deserialize` with `default` and `rename_all = "camelCase"` as usual. They do without
//! `deny_unknown_fields`, which ends at the first unknown field, and without `flatten` and untagged enums, inside of which
//! serde gives neither paths nor unknown fields.

use api_meta::{ErrorCode, Fault, RawJson};
use serde::de::DeserializeOwned;
use serde_ignored::Path;
use serde_json::Value;

use crate::field_problem::{FieldProblem, in_one_line};

/// Members that name the type.
const TYPE_MEMBERS: [&str; 2] = ["apiVersion", "kind"];

/// Reads a configuration for an operation. `types` are the pairs of apiVersion and kind that `T` can read, `field` is the
/// configuration's path in the object that its author writes, such as `spec.provider.infrastructureConfig`. Where it may be
/// missing, see [`decode_config_or_default`].
///
/// # Errors
/// A user fault with `ERR_CONFIGURATION_PROBLEM` and everything that [`check_config`] finds.
pub fn decode_config<T: DeserializeOwned>(
    raw: Option<&RawJson>,
    types: &[(&str, &str)],
    field: &str,
) -> Result<T, Fault> {
    check_config(raw, types, field).map_err(|problems| {
        Fault::user(format!("the configuration cannot be used: {}", in_one_line(&problems)))
            .code(ErrorCode::ConfigurationProblem)
            .hint(format!("correct {field}"))
    })
}

/// As [`decode_config`], where a configuration that is missing stands for the defaults.
///
/// # Errors
/// As of [`decode_config`].
pub fn decode_config_or_default<T: DeserializeOwned + Default>(
    raw: Option<&RawJson>,
    types: &[(&str, &str)],
    field: &str,
) -> Result<T, Fault> {
    match raw {
        Some(raw) => decode_config(Some(raw), types, field),
        None => Ok(T::default()),
    }
}

/// Reads a configuration for admission: the arguments are those of [`decode_config`].
///
/// # Errors
/// All unknown fields, and the first value of a wrong type, each with its path. Only the wrong apiVersion or kind, if that is
/// wrong: then nothing is known of the fields.
pub fn check_config<T: DeserializeOwned>(
    raw: Option<&RawJson>,
    types: &[(&str, &str)],
    field: &str,
) -> Result<T, Vec<FieldProblem>> {
    let one = |problem: FieldProblem| vec![problem];
    let raw = raw.ok_or_else(|| one(FieldProblem::new(field, "is missing", expected_types(types))))?;
    let mut value: Value = raw
        .decode()
        .map_err(|error| one(FieldProblem::new(field, format!("is no JSON: {error}"), "")))?;
    check_type(&value, types, field).map_err(one)?;
    drop_nulls(&mut value);
    let mut problems = Vec::new();
    let mut track = serde_path_to_error::Track::new();
    let read = serde_ignored::deserialize(serde_path_to_error::Deserializer::new(value, &mut track), |path| {
        let path = path_of(&path);
        if !TYPE_MEMBERS.contains(&path.trim_start_matches('.')) {
            problems.push(FieldProblem::new(format!("{field}{path}"), "is not known", ""));
        }
    });
    match read {
        Ok(read) if problems.is_empty() => Ok(read),
        Ok(_) => Err(problems),
        Err(error) => {
            let path = match track.path().to_string() {
                path if path == "." => String::new(),
                path if path.starts_with('[') => path,
                path => format!(".{path}"),
            };
            problems.push(FieldProblem::new(
                format!("{field}{path}"),
                format!("is wrong: {error}"),
                "",
            ));
            Err(problems)
        }
    }
}

fn expected_types(types: &[(&str, &str)]) -> String {
    let types: Vec<String> = types
        .iter()
        .map(|(version, kind)| format!("{kind} of {version}"))
        .collect();
    types.join(" or ")
}

fn check_type(value: &Value, types: &[(&str, &str)], field: &str) -> Result<(), FieldProblem> {
    if !value.is_object() {
        return Err(FieldProblem::new(field, "is no object", expected_types(types)));
    }
    let [version, kind] = TYPE_MEMBERS.map(|member| value.get(member).and_then(Value::as_str).unwrap_or_default());
    if types.contains(&(version, kind)) {
        return Ok(());
    }
    let (member, found) = match types.iter().any(|(known, _)| *known == version) {
        true => (TYPE_MEMBERS[1], kind),
        false => (TYPE_MEMBERS[0], version),
    };
    let problem = match found {
        "" => "is missing".to_owned(),
        found => format!("is {found:?}"),
    };
    Err(FieldProblem::new(
        format!("{field}.{member}"),
        problem,
        expected_types(types),
    ))
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

fn path_of(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", path_of(parent)),
        Path::Map { parent, key } => format!("{}.{key}", path_of(parent)),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => path_of(parent),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    const FIELD: &str = "spec.provider.infrastructureConfig";
    const TYPES: &[(&str, &str)] = &[
        (
            "fake.provider.extensions.gardener.cloud/v1alpha1",
            "InfrastructureConfig",
        ),
        (
            "fake.provider.extensions.gardener.cloud/v1beta1",
            "InfrastructureConfig",
        ),
    ];

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Config {
        networks: Networks,
        zones: Vec<Zone>,
        floating: Option<Zone>,
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Networks {
        mtu: u16,
    }

    #[derive(Debug, Deserialize)]
    struct Zone {
        name: String,
    }

    fn read(members: &str) -> Result<Config, Fault> {
        let text = format!(
            r#"{{"apiVersion":"fake.provider.extensions.gardener.cloud/v1alpha1","kind":"InfrastructureConfig"{members}}}"#
        );
        decode_config(Some(&RawJson::parse(&text).unwrap()), TYPES, FIELD)
    }

    #[test]
    fn all_unknown_fields_are_named_at_once_with_their_paths() {
        let fault = read(
            r#","netwroks":{},"networks":{"mtu":1,"MTU":2},"zones":[{"name":"a"},{"name":"b","x":{}}],"floating":{"name":"f","y":1}"#,
        );
        let fault = fault.unwrap_err();
        assert_eq!(fault.codes, [ErrorCode::ConfigurationProblem]);
        let text = fault.to_string();
        for path in ["networks.MTU", "netwroks", "zones[1].x", "floating.y"] {
            let problem = format!("{FIELD}.{path} is not known");
            assert!(text.contains(&problem), "{problem}: {text}");
        }
        assert_eq!(text.matches(" is not known").count(), 4, "{text}");
    }

    #[test]
    fn a_wrong_value_is_named_beside_the_unknown_fields() {
        let text = read(r#","aaa":1,"networks":{"mtu":"big"}"#).unwrap_err().to_string();
        assert!(text.contains(&format!("{FIELD}.aaa is not known")), "{text}");
        assert!(
            text.contains(&format!("{FIELD}.networks.mtu is wrong: invalid type: string \"big\"")),
            "{text}"
        );
        let text = read(r#","zones":[{"name":"a"},{}]"#).unwrap_err().to_string();
        assert!(
            text.contains(&format!("{FIELD}.zones[1] is wrong: missing field `name`")),
            "{text}"
        );
        let text = read(r#","networks":{"mtu":65536}"#).unwrap_err().to_string();
        assert!(text.contains("networks.mtu is wrong"), "{text}");
    }

    #[test]
    fn null_is_absent_and_known_fields_are_read() {
        let config = read(r#","networks":null,"zones":[{"name":"a","x":null}],"floating":{"name":"f"}"#).unwrap();
        let Config {
            networks,
            zones,
            floating,
        } = config;
        assert_eq!((networks.mtu, zones[0].name.as_str()), (0, "a"));
        assert_eq!(floating.unwrap().name, "f");
    }

    #[test]
    fn another_type_is_refused_with_the_types_that_are_allowed() {
        let refused = |text: &str| {
            let raw = RawJson::parse(text).unwrap();
            decode_config::<Config>(Some(&raw), TYPES, FIELD)
                .unwrap_err()
                .to_string()
        };
        let text = refused(r#"{"apiVersion":"other/v1","kind":"InfrastructureConfig"}"#);
        assert!(
            text.contains(&format!(
                "{FIELD}.apiVersion is \"other/v1\"; expected InfrastructureConfig of fake"
            )),
            "{text}"
        );
        assert!(
            text.contains("or InfrastructureConfig of fake.provider.extensions.gardener.cloud/v1beta1"),
            "{text}"
        );
        let text = refused(r#"{"apiVersion":"fake.provider.extensions.gardener.cloud/v1beta1","kind":"Other","x":1}"#);
        assert!(text.contains(&format!("{FIELD}.kind is \"Other\"")), "{text}");
        assert!(refused("{}").contains(&format!("{FIELD}.apiVersion is missing")));
        assert!(refused("[]").contains(&format!("{FIELD} is no object")));
        assert_eq!(
            decode_config_or_default::<Config>(None, TYPES, FIELD)
                .unwrap()
                .zones
                .len(),
            0
        );
        assert!(decode_config_or_default::<Config>(Some(&RawJson::parse("[]").unwrap()), TYPES, FIELD).is_err());
        let missing = decode_config::<Config>(None, TYPES, FIELD).unwrap_err().to_string();
        assert!(
            missing.contains(&format!("{FIELD} is missing; expected InfrastructureConfig of")),
            "{missing}"
        );
    }
}
