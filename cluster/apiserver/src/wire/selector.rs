//! Label and field selectors: parsing (labels in `label_selector`) and matching. They never look for objects themselves.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/labels, pkg/fields)

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::wire::label_selector;

/// Requirements on labels. All must hold; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<LabelRequirement>);

/// One requirement; a missing label fails it, but for [`Self::NotIn`] and [`Self::Missing`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LabelRequirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
    Greater(String, i64),
    Less(String, i64),
}

impl LabelSelector {
    /// Reads what clients write: `app=web,tier in (a, b),!old`.
    ///
    /// # Errors
    /// What is wrong, in kube-apiserver's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        label_selector::parse(text).map(Self)
    }

    /// A selector as objects hold it; `{}` selects everything. None: it has an operator that does not exist.
    pub(crate) fn of(selector: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let equal = selector.get("matchLabels").and_then(Value::as_object);
        let equal = equal.into_iter().flatten();
        let mut all: Vec<LabelRequirement> = equal
            .map(|(key, value)| LabelRequirement::In(key.clone(), vec![text(value)]))
            .collect();
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let key = text(expression.get("key")?);
            let values = expression.get("values").and_then(Value::as_array);
            let values = values.into_iter().flatten().map(text).collect();
            all.push(match expression.get("operator").and_then(Value::as_str)? {
                "In" => LabelRequirement::In(key, values),
                "NotIn" => LabelRequirement::NotIn(key, values),
                "Exists" => LabelRequirement::Exists(key),
                "DoesNotExist" => LabelRequirement::Missing(key),
                _ => return None,
            });
        }
        Some(Self(all))
    }

    pub(crate) fn requirements(&self) -> &[LabelRequirement] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| match requirement {
            LabelRequirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            LabelRequirement::NotIn(key, values) => !labels.get(key).is_some_and(|value| values.contains(value)),
            LabelRequirement::Exists(key) => labels.contains_key(key),
            LabelRequirement::Missing(key) => !labels.contains_key(key),
            LabelRequirement::Greater(key, bound) => number(labels, key).is_some_and(|value| value > *bound),
            LabelRequirement::Less(key, bound) => number(labels, key).is_some_and(|value| value < *bound),
        })
    }
}

fn number(labels: &BTreeMap<String, String>, key: &str) -> Option<i64> {
    labels.get(key)?.parse().ok()
}

/// Requirements on fields. All must hold; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldRequirement>);

/// One `field=value` or `field!=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldRequirement {
    pub(crate) field: String,
    pub(crate) value: String,
    pub(crate) equal: bool,
}

impl FieldSelector {
    /// Reads what clients write: `metadata.name=a,status.phase!=Running`.
    ///
    /// # Errors
    /// What is wrong, in kube-apiserver's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        split_unescaped(text)
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(parse_field)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn requirements(&self) -> &[FieldRequirement] {
        &self.0
    }

    /// The value that `field` must equal, if a requirement names one.
    pub(crate) fn exact(&self, field: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|r| r.equal && r.field == field)
            .map(|r| r.value.as_str())
    }
}

/// As clients write it.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match requirement {
                LabelRequirement::In(key, values) if values.len() == 1 => write!(f, "{comma}{key}={}", values[0]),
                LabelRequirement::In(key, values) => write!(f, "{comma}{key} in ({})", values.join(",")),
                LabelRequirement::NotIn(key, values) => write!(f, "{comma}{key} notin ({})", values.join(",")),
                LabelRequirement::Exists(key) => write!(f, "{comma}{key}"),
                LabelRequirement::Missing(key) => write!(f, "{comma}!{key}"),
                LabelRequirement::Greater(key, bound) => write!(f, "{comma}{key}>{bound}"),
                LabelRequirement::Less(key, bound) => write!(f, "{comma}{key}<{bound}"),
            }?;
        }
        Ok(())
    }
}

/// As clients write it.
impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, FieldRequirement { field, value, equal }) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if *equal { "=" } else { "!=" };
            write!(f, "{comma}{field}{operator}")?;
            for character in value.chars() {
                if matches!(character, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

/// Splits at commas; a backslash escapes comma, equals sign and backslash.
fn split_unescaped(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut escaped) = (Vec::new(), String::new(), false);
    for character in text.chars() {
        match character {
            ',' if !escaped => parts.push(std::mem::take(&mut part)),
            _ => part.push(character),
        }
        escaped = character == '\\' && !escaped;
    }
    parts.push(part);
    parts
}

/// Splits at the leftmost operator.
fn parse_field(text: String) -> Result<FieldRequirement, String> {
    let operator_at = |rest: &str| {
        ["!=", "==", "="]
            .into_iter()
            .find(|operator| rest.starts_with(operator))
    };
    for (at, _) in text.char_indices() {
        if let Some(operator) = operator_at(&text[at..]) {
            return Ok(FieldRequirement {
                field: text[..at].to_owned(),
                value: unescape(&text[at + operator.len()..])?,
                equal: operator != "!=",
            });
        }
    }
    Err(format!("invalid selector: '{text}'; can't understand '{text}'"))
}

fn unescape(text: &str) -> Result<String, String> {
    let (mut out, mut characters) = (String::new(), text.chars());
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            ',' | '=' => {
                let code = u32::from(character);
                return Err(format!("invalid field selector: unescaped character in value: {code}"));
            }
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn label_selectors_match_as_in_kubernetes() {
        let object = labels(&[("app", "web"), ("tier", ""), ("n", "5"), ("x.io/y", "z")]);
        let yes = [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "other!=db",
            "!other",
            "app in (db, web)",
            "tier=",
            "other notin (a)",
            "app,n>4,n<6",
            "x.io/y=z",
            "app in (web),x.io/y notin (a,b)",
        ];
        let no = [
            "other",
            "app=db",
            "!app",
            "app!=web",
            "app notin (web)",
            "n>5",
            "app>1",
            "app=web,other",
        ];
        for text in yes {
            assert!(LabelSelector::parse(text).unwrap().matches(&object), "{text}");
        }
        for text in no {
            assert!(!LabelSelector::parse(text).unwrap().matches(&object), "{text}");
        }
    }

    #[test]
    fn printed_selector_parses_to_the_same() {
        for (text, printed) in [
            (
                "a == b , c in(d,e),f notin (g), h, ! i,j>4,k<05",
                "a=b,c in (d,e),f notin (g),h,!i,j>4,k<5",
            ),
            ("a in (,b),c=,d!=", "a in (,b),c=,d notin ()"),
            ("", ""),
        ] {
            let selector = LabelSelector::parse(text).unwrap();
            assert_eq!(selector.to_string(), printed);
            assert_eq!(LabelSelector::parse(printed).unwrap(), selector);
        }
        let selector = FieldSelector::parse("metadata.name==a\\,b,spec.x!=c\\\\").unwrap();
        assert_eq!(selector.to_string(), "metadata.name=a\\,b,spec.x!=c\\\\");
    }

    #[test]
    fn malformed_selectors_are_refused() {
        for text in [
            "a in (",
            "a in b)",
            "a on (b)",
            "=b",
            "a=b c",
            "-a=b",
            "a>x",
            "a in (b) c",
            "a((b))",
        ] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
        for text in ["a", "a=b=c", "a=\\x", "a=b!=c", "a=b==c"] {
            assert!(FieldSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn field_selectors_unescape_and_name_an_exact_value() {
        let selector = FieldSelector::parse("metadata.name=a\\,b,spec.x!=c,status.phase==").unwrap();
        assert_eq!(selector.exact("metadata.name"), Some("a,b"));
        assert_eq!(selector.exact("spec.x"), None);
        assert_eq!(selector.exact("status.phase"), Some(""));
    }
}
