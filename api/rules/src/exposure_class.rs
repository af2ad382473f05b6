//! What the exposure class of a new Shoot adds to it (gardener/gardener v1.150 plugin/pkg/shoot/exposureclass).

use std::collections::BTreeSet;

use api_core::v1beta1::{ExposureClassScheduling, SeedSelector, ShootSpec, Toleration};

use crate::{FieldError, Path};

/// Adds the class' seed selector and tolerations to the Shoot's own. Nothing is added where the two contradict each other.
///
/// # Errors
/// A label that both select with different values, a toleration with a key that both have.
pub fn unite_with_exposure_class(spec: &mut ShootSpec, class: &ExposureClassScheduling) -> Result<(), Vec<FieldError>> {
    let mut errors = Vec::new();
    let path = Path::new("spec");
    let labels = path.child("seedSelector.matchLabels");
    let own = spec.seed_selector.iter().flat_map(|selector| &selector.match_labels);
    let selected = class.seed_selector.iter().flat_map(|selector| &selector.match_labels);
    for (label, value) in selected {
        if let Some((_, own)) = own
            .clone()
            .find(|(own, value_of_own)| *own == label && *value_of_own != value)
        {
            let words = format!("contradicts the exposure class, which selects {label}={value}; leave the label out");
            errors.push(labels.key(label).invalid(own, words));
        }
    }
    for (index, own) in spec.tolerations.iter().enumerate() {
        if class.tolerations.iter().any(|other| other.key == own.key) {
            let path = path.child("tolerations").index(index);
            errors.push(path.invalid(&own.key, "is a toleration of the exposure class too; leave it out"));
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(selector) = &class.seed_selector {
        unite_selectors(spec.seed_selector.get_or_insert_default(), selector);
    }
    spec.tolerations
        .extend(class.tolerations.iter().map(|toleration| Toleration {
            key: toleration.key.clone(),
            value: toleration.value.clone(),
        }));
    Ok(())
}

fn unite_selectors(own: &mut SeedSelector, other: &SeedSelector) {
    own.match_labels.extend(other.match_labels.clone());
    own.match_expressions.extend(other.match_expressions.clone());
    let types: BTreeSet<String> = own
        .provider_types
        .drain(..)
        .chain(other.provider_types.clone())
        .collect();
    own.provider_types.extend(types);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn united(shoot: Value, class: Value) -> Result<Value, Vec<String>> {
        let mut spec: ShootSpec = serde_json::from_value(shoot).unwrap();
        let class = serde_json::from_value(class).unwrap();
        unite_with_exposure_class(&mut spec, &class)
            .map_err(|errors| errors.into_iter().map(|error| error.path).collect::<Vec<_>>())?;
        let spec = serde_json::to_value(spec).unwrap();
        Ok(json!({"seedSelector": spec["seedSelector"], "tolerations": spec["tolerations"]}))
    }

    #[test]
    fn a_shoot_gets_what_its_class_selects_and_tolerates() {
        let expression = |key: &str| json!({"key": key, "operator": "Exists"});
        let shoot = json!({"tolerations": [{"key": "a"}], "seedSelector": {"matchLabels": {"l": "1"},
            "matchExpressions": [expression("e")], "providerTypes": ["q", "p"]}});
        let class = json!({"tolerations": [{"key": "b", "value": "x"}], "seedSelector": {"matchLabels": {"l": "1", "m": "2"},
            "matchExpressions": [expression("f")], "providerTypes": ["o", "p"]}});
        let expected = json!({"tolerations": [{"key": "a"}, {"key": "b", "value": "x"}], "seedSelector": {
            "matchLabels": {"l": "1", "m": "2"}, "matchExpressions": [expression("e"), expression("f")],
            "providerTypes": ["o", "p", "q"]}});
        assert_eq!(united(shoot, class), Ok(expected));
        let alone = json!({"seedSelector": {"matchLabels": {"m": "2"}}});
        assert_eq!(
            united(json!({}), alone.clone()).unwrap()["seedSelector"],
            alone["seedSelector"]
        );
        assert_eq!(united(json!({}), json!({})).unwrap()["seedSelector"], Value::Null);
    }

    #[test]
    fn a_contradiction_is_refused_at_the_shoots_own_field() {
        let labels = |value: &str| json!({"seedSelector": {"matchLabels": {"l": value}}});
        assert_eq!(
            united(labels("1"), labels("2")),
            Err(vec!["spec.seedSelector.matchLabels[l]".to_owned()])
        );
        let tolerations = |value: &str| json!({"tolerations": [{"key": "a", "value": value}]});
        assert_eq!(
            united(tolerations("1"), tolerations("1")),
            Err(vec!["spec.tolerations[0]".to_owned()])
        );
    }
}
