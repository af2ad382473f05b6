//! An author's fragments before the first request: whether what they make of the kit's objects fits the kind, and what is said
//! when the API server refuses it all the same. It reads no files.

use api_extensions::{ExtensionObject, ForKind};
use api_meta::{Fault, FaultClass};
use serde_json::{Map, Value, json};

use crate::subject::{Subject, merge};
use crate::template::{self, Names};

/// Fields of every spec that are given on the command line.
const OF_FLAGS: [&str; 2] = ["type", "class"];

/// Where an author writes a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Spec,
    ChangedSpec,
    BadSpec,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::Spec => "spec",
            Self::ChangedSpec => "changedSpec",
            Self::BadSpec => "badSpec",
        }
    }

    fn hint(self) -> String {
        let name = self.name();
        match self {
            Self::Spec => format!("correct {name} in the file of --config"),
            Self::ChangedSpec => format!("change in {name} of --config only what may be changed"),
            Self::BadSpec => format!(
                "choose a {name} in the file of --config that the API server accepts and the extension has to refuse, or null"
            ),
        }
    }

    /// A refusal of the API server, with the field that it is about.
    pub(crate) fn refused(self, fault: Fault) -> Fault {
        match fault.class {
            FaultClass::User => fault
                .doing(&format!("write {} of --config", self.name()))
                .hint(self.hint()),
            _ => fault,
        }
    }
}

/// Looks whether all specs fit the kind.
///
/// # Errors
/// A field of a wrong type, or one that the kind does not have.
pub(crate) fn check(subject: &Subject, names: &Names) -> Result<(), Fault> {
    let spec = template::spec(subject, names);
    let fragments = &subject.fragments;
    let given = [
        (Field::Spec, Some(fragments.spec.clone())),
        (Field::ChangedSpec, fragments.changed_spec.clone()),
        (Field::BadSpec, fragments.bad_spec.fragment()),
    ];
    for (field, fragment) in given {
        let Some(fragment) = fragment else {
            continue;
        };
        if let Some(key) = OF_FLAGS.into_iter().find(|key| fragment.contains_key(*key)) {
            let twice = format!(
                "{} of --config has the field {key}, which is given by --{key}",
                field.name()
            );
            return Err(Fault::user(twice).hint(format!("remove {key} from the file of --config")));
        }
        let mut whole = spec.clone();
        merge(&mut whole, &fragment);
        let outcome = subject.kind.with(Fits { spec: whole, fragment });
        outcome.map_err(|why| Fault::user(format!("{} of --config: {why}", field.name())).hint(field.hint()))?;
    }
    Ok(())
}

struct Fits {
    spec: Map<String, Value>,
    fragment: Map<String, Value>,
}

impl ForKind for Fits {
    type Output = Result<(), String>;

    fn call<K: ExtensionObject>(self) -> Self::Output {
        let object = json!({"metadata": {"name": "a"}, "spec": self.spec});
        let read: K = serde_json::from_value(object).map_err(|error| error.to_string())?;
        let written = serde_json::to_value(&read).map_err(|error| error.to_string())?;
        let lost = self.fragment.iter().find(|(key, value)| {
            let is_set = !matches!(value, Value::Null | Value::Bool(false)) && *value != &json!([]);
            is_set && written["spec"].get(key.as_str()).is_none()
        });
        match lost {
            Some((key, _)) => Err(format!("{} has no field spec.{key}", K::KIND)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use api_extensions::ExtensionKind;
    use base_clock::Entropy;

    use super::*;
    use crate::subject::Fragments;

    fn check_of(kind: ExtensionKind, fragments: &str) -> Result<(), String> {
        let subject = Subject {
            fragments: Fragments::parse(fragments).unwrap(),
            ..Subject::new(kind, "moon")
        };
        check(&subject, &Names::draw(&Entropy::seeded(1))).map_err(|fault| fault.text_with_hint())
    }

    #[test]
    fn every_kind_fits_without_fragments() {
        for kind in ExtensionKind::ALL {
            assert_eq!(check_of(*kind, "{}"), Ok(()), "{kind}");
        }
    }

    #[test]
    fn misspelt_fields_and_wrong_types_are_refused_with_the_place_in_the_file() {
        let of = |text: &str| check_of(ExtensionKind::Infrastructure, text).unwrap_err();
        let misspelt = of("changedSpec: {providerconfig: {}}");
        assert_eq!(
            misspelt,
            "changedSpec of --config: Infrastructure has no field spec.providerconfig (to do: change in changedSpec of \
             --config only what may be changed)"
        );
        let twice = of("badSpec: {class: seed}");
        assert!(
            twice.starts_with("badSpec of --config has the field class, which is given by --class"),
            "{twice}"
        );
        let wrong = of("spec: {region: 5}");
        assert!(
            wrong.starts_with("spec of --config: invalid type: integer `5`"),
            "{wrong}"
        );
        assert_eq!(
            check_of(ExtensionKind::Network, "changedSpec: {ipFamilies: []}"),
            Ok(())
        );
    }

    #[test]
    fn a_refusal_names_the_field_of_the_file_and_other_faults_stay() {
        let refused = Field::BadSpec
            .refused(Fault::user("spec.type is immutable"))
            .text_with_hint();
        assert!(
            refused.starts_with("write badSpec of --config: spec.type") && refused.contains("or null"),
            "{refused}"
        );
        let lost = Field::Spec.refused(Fault::dependency("no connection").hint("wait"));
        assert_eq!(
            lost.text_with_hint(),
            Fault::dependency("no connection").hint("wait").text_with_hint()
        );
    }
}
