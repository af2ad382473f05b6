//! Rules of schemas as they are made: parsed, checked against the types of the schema, and reckoned with
//! (apiextensions-apiserver v0.35 `pkg/apiserver/schema/cel/compilation.go`, `pkg/apis/apiextensions/validation/validation.go`).
//! It runs no rule.

use kube_cel::cel::common::ast::IdedExpr;
use serde_json::{Map, Value};

use super::budget::{RULE_COST_ESTIMATE_MAX, Total, Work, exceeds, times};
use super::check::check;
use super::cost;
use super::declared::Declared;
use super::literal_rules::conversion_fault;
use super::parse::{Parsed, parse};
use super::scope::{Checked, Scope};
use super::sizes::Sizes;
use super::types::Type;
use super::{Rule, metered};
use crate::{FieldError, FieldErrorKind, FieldPath, go_internal};

/// The name of the type of what a rule is about, which nobody shall rely on. (Kubernetes puts a number of its clock behind it.)
const SELF_TYPE: &str = "selfType";

/// Where rules stand.
pub(crate) struct Place<'p> {
    /// The place above, if any, whose parts have no old value.
    pub(crate) uncorrelated: Option<&'p str>,
    /// What is asked of rules that are written; of those that were taken before only that they are not too much.
    pub(crate) asked: Result<Asked<'p>, &'p mut Work>,
}

/// What is known where rules are written.
pub(crate) struct Asked<'p> {
    /// It is the root of a whole object.
    pub(crate) root: bool,
    /// How often a value can stand in one object; none: as often as there is room for.
    pub(crate) times: Option<u64>,
    /// The schema was taken before as it is: a rule may cost what it cost.
    pub(crate) unchanged: bool,
    /// What all rules of the definition cost.
    pub(crate) total: &'p mut Total,
}

/// Compiles all rules of a node.
pub(crate) fn compile(
    json: &Map<String, Value>,
    path: &FieldPath<'_>,
    place: Place<'_>,
    errors: &mut Vec<FieldError>,
) -> Vec<Rule> {
    let at = path.field("x-kubernetes-validations");
    let entries = json.get("x-kubernetes-validations").and_then(Value::as_array);
    let Some(entries) = entries.filter(|entries| !entries.is_empty()) else {
        return Vec::new();
    };
    let Place { uncorrelated, asked } = place;
    let mut asked = match asked {
        Ok(asked) => asked,
        Err(work) => {
            let rules = entries.iter().enumerate();
            let compiled = rules.filter_map(|(index, entry)| {
                let at = at.index(index);
                let rule = stored(entry, work);
                rule.map_err(|why| errors.push(FieldError::invalid(at.field("rule"), written(entry), why)))
                    .ok()
            });
            return compiled.collect();
        }
    };
    let declared = Declared::Node { json, root: asked.root };
    let Some(this) = declared.as_type(SELF_TYPE) else {
        let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        errors.push(FieldError::new(at, FieldErrorKind::Internal, None, why));
        return Vec::new();
    };
    let known = Sizes::of(declared);
    let mut rules = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let mut judge = Judge {
            entry,
            at: at.index(index),
            known: &known,
            this: &this,
            errors: &mut *errors,
        };
        rules.extend(judge.rule(uncorrelated, &mut asked));
    }
    rules
}

fn written(entry: &Value) -> &str {
    entry["rule"].as_str().unwrap_or_default()
}

/// A rule that was taken before.
fn stored(entry: &Value, work: &mut Work) -> Result<Rule, String> {
    let parsed = parse(written(entry), work)?;
    let uses_old_self = parsed.tree.references().has_variable("oldSelf");
    let message = match message_expression(entry) {
        Some(source) => Some(parse(source, work)?.tree),
        None => None,
    };
    Ok(Rule::new(entry, parsed.tree, message, uses_old_self))
}

fn message_expression(entry: &Value) -> Option<&str> {
    entry["messageExpression"].as_str().filter(|text| !text.is_empty())
}

struct Judge<'j, 's> {
    entry: &'j Value,
    at: FieldPath<'j>,
    known: &'j Sizes<'s>,
    this: &'j Type<'s>,
    errors: &'j mut Vec<FieldError>,
}

impl<'s> Judge<'_, 's> {
    fn rule(&mut self, uncorrelated: Option<&str>, asked: &mut Asked<'_>) -> Option<Rule> {
        if let Some(why) = asked.total.work.refusal() {
            self.errors.push(FieldError::forbidden(self.at.field("rule"), why));
            return None;
        }
        let before = self.errors.len();
        let optional = self.entry["optionalOldSelf"].as_bool();
        let mut scope = Scope::default();
        scope.add("self", self.this.clone());
        scope.add(
            "oldSelf",
            match optional {
                Some(true) => Type::optional(self.this.clone()),
                _ => self.this.clone(),
            },
        );
        let source = written(self.entry);
        let compiled = typed(
            source,
            &scope,
            &Type::Bool,
            "cel expression must evaluate to a bool",
            &mut asked.total.work,
        );
        let (mut rule, mut message) = (None, None);
        match compiled {
            Ok((parsed, checked)) => {
                self.reckon(&parsed, &checked, asked);
                message = self.message(&scope, asked);
                rule = Some((parsed.tree, checked.uses("oldSelf")));
            }
            Err(why) => {
                let why = why.into_words("compilation failed: ", "program");
                self.refuse("rule", why);
            }
        }
        let uses_old_self = rule.as_ref().is_some_and(|(_, uses_old)| *uses_old);
        match (uses_old_self, uncorrelated) {
            (true, Some(place)) => {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {place}");
                self.errors
                    .push(FieldError::invalid(self.at.field("rule"), source, why));
            }
            (false, _) if optional.is_some() => {
                let why = "may not be set if oldSelf is not used in rule";
                self.errors
                    .push(FieldError::invalid(self.at.field("optionalOldSelf"), optional, why));
            }
            _ => {}
        }
        let (tree, _) = rule.filter(|_| self.errors.len() == before)?;
        Some(Rule::new(self.entry, tree, message, uses_old_self))
    }

    /// An error that shows all that stands beside the rule.
    fn refuse(&mut self, field: &str, why: String) {
        let error = FieldError::invalid(self.at.field(field), self.entry.clone(), why);
        self.errors.push(error.shown_as(shown(self.entry)));
    }

    fn reckon(&mut self, parsed: &Parsed, checked: &Checked<'s>, asked: &mut Asked<'_>) {
        let once = cost::estimate(parsed, checked, self.known);
        let often = asked.times.unwrap_or_else(|| self.known.times_max());
        self.add("rule", "estimated rule cost", times(once, often), asked);
    }

    fn add(&mut self, field: &str, what: &str, cost: u64, asked: &mut Asked<'_>) {
        if !asked.unchanged && cost > RULE_COST_ESTIMATE_MAX {
            let why = exceeds(what, cost, RULE_COST_ESTIMATE_MAX);
            self.errors.push(FieldError::forbidden(self.at.field(field), why));
        }
        asked.total.add(cost, || self.at.field(field).to_string());
    }

    fn message(&mut self, scope: &Scope<'s>, asked: &mut Asked<'_>) -> Option<IdedExpr> {
        let source = message_expression(self.entry)?;
        let wanted = "messageExpression must evaluate to a string";
        match typed(source, scope, &Type::String, wanted, &mut asked.total.work) {
            Ok((parsed, checked)) => {
                let cost = cost::estimate(&parsed, &checked, self.known);
                self.add("messageExpression", "estimated messageExpression cost", cost, asked);
                Some(parsed.tree)
            }
            Err(why) => {
                let why = why.into_words("messageExpression compilation failed: ", "messageExpression");
                self.refuse("messageExpression", why);
                None
            }
        }
    }
}

/// Why an expression is none.
enum Refusal {
    /// It cannot be compiled.
    Broken(String),
    /// It gives something else.
    Other(String),
    /// Part of it can have no value.
    Void(String),
}

impl Refusal {
    fn into_words(self, before: &str, program: &str) -> String {
        match self {
            Self::Broken(why) => format!("{before}{why}"),
            Self::Other(why) => why,
            Self::Void(why) => format!("{program} instantiation failed: {why}"),
        }
    }
}

/// An expression that gives what is wanted.
fn typed<'s>(
    source: &str,
    scope: &Scope<'s>,
    wanted: &Type<'s>,
    otherwise: &str,
    work: &mut Work,
) -> Result<(Parsed, Checked<'s>), Refusal> {
    let parsed = parse(source, work).map_err(Refusal::Broken)?;
    let checked = check(source, &parsed, scope).map_err(Refusal::Broken)?;
    work.checked(checked.steps());
    if checked.result() != wanted {
        return Err(Refusal::Other(otherwise.to_owned()));
    }
    match conversion_fault(&parsed.tree) {
        Some(why) => Err(Refusal::Void(why)),
        None => Ok((parsed, checked)),
    }
}

impl Rule {
    fn new(entry: &Value, tree: IdedExpr, message_expression: Option<IdedExpr>, uses_old_self: bool) -> Self {
        let text = |name: &str| entry[name].as_str().map(str::trim).filter(|text| !text.is_empty());
        Self {
            source: text("rule").unwrap_or_default().to_owned(),
            expression: metered(tree),
            uses_old_self,
            optional_old_self: entry["optionalOldSelf"] == true,
            message: text("message").map(str::to_owned),
            message_expression: message_expression.map(metered),
            // What is none of these was refused before.
            reason: match text("reason") {
                Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
                Some("FieldValueRequired") => FieldErrorKind::Required,
                Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
                _ => FieldErrorKind::Invalid,
            },
            field_path: text("fieldPath").map(|path| path.trim_start_matches('.').to_owned()),
        }
    }
}

/// A rule as Go prints it.
fn shown(entry: &Value) -> String {
    let fields = [
        ("Rule", "rule", "string"),
        ("Message", "message", "string"),
        ("MessageExpression", "messageExpression", "string"),
        ("Reason", "reason", "*string"),
        ("FieldPath", "fieldPath", "string"),
        ("OptionalOldSelf", "optionalOldSelf", "*bool"),
    ];
    let shown = fields.map(|(name, field, of)| format!("\"{name}\":{}", go_internal::line(of, &entry[field])));
    format!("{{{}}}", shown.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of a rule on an object with a text `s`, a number `i`, a list `l` of bounded texts, and more.
    fn judged(rule: &str) -> Result<u64, String> {
        let schema = json!({"type": "object", "properties": {
            "s": {"type": "string", "maxLength": 20}, "t": {"type": "string"}, "i": {"type": "integer"},
            "l": {"type": "array", "maxItems": 100, "items": {"type": "string", "maxLength": 10}},
            "u": {"type": "array", "items": {"type": "integer"}},
            "m": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string"}},
            "o": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}}},
            "a-b": {"type": "integer"}, "namespace": {"type": "string"},
            "is": {"x-kubernetes-int-or-string": true}, "any": {"x-kubernetes-preserve-unknown-fields": true}}});
        let declared = Declared::Node {
            json: schema.as_object().unwrap(),
            root: false,
        };
        let this = declared.as_type(SELF_TYPE).unwrap();
        let mut scope = Scope::default();
        scope.add("self", this.clone());
        scope.add("oldSelf", this);
        typed(rule, &scope, &Type::Bool, "must be a bool", &mut Work::of_definition())
            .map(|(parsed, checked)| cost::estimate(&parsed, &checked, &Sizes::of(declared)))
            .map_err(|why| why.into_words("", "program"))
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_as_cel_go_tells_it() {
        for (rule, expected) in [
            (
                "self.s == 1",
                "1:8: found no matching overload for '_==_' applied to '(string, int)'",
            ),
            ("self.x", "1:5: undefined field 'x'"),
            ("self.any", "1:5: undefined field 'any'"),
            ("self.s.foo()", "1:11: undeclared reference to 'foo' (in container '')"),
            ("self.s.x", "1:7: type 'string' does not support field selection"),
            (
                "self.o.all(x, x.n == 1)",
                "1:19: found no matching overload for '_==_' applied to '(string, int)'",
            ),
            (
                "self.o.all(x, x)",
                "1:15: expected type 'bool' but found 'selfType.o.@idx'",
            ),
            ("self.l.all(1, true)", "1:12: argument must be a simple name"),
            ("has(self)", "1:5: invalid argument to has() macro"),
            ("self.l.all(x, x, true)", "1:15: duplicate variable name: x"),
            (
                "cel.bind(x, 1, x == 1)",
                "1:9: undeclared reference to 'bind' (in container '')",
            ),
            ("[1, 'a'].size() == 1", "1:5: expected type 'int' but found 'string'"),
            ("duration('1') == duration('1s')", "1:10: invalid duration argument"),
            ("self.s.matches('[a')", "1:16: invalid matches argument"),
            (
                "'%d'.format(['a']) == ''",
                "1:14: error during formatting: decimal clause can only be used on integers, was given string",
            ),
            (
                "self.s ==",
                "1:10: Syntax error: mismatched input '<EOF>' expecting {'['",
            ),
            ("self.s = 'a'", "1:8: Syntax error: token recognition error at: '= '"),
            ("(self.i == 1", "1:13: Syntax error: missing ')' at '<EOF>'"),
            ("if == 1", "1:1: reserved identifier: if"),
        ] {
            let why = judged(rule).unwrap_err();
            assert!(why.contains(&format!("ERROR: <input>:{expected}")), "{rule}: {why}");
        }
        assert_eq!(judged("self.i"), Err("must be a bool".to_owned()));
        let void = "program instantiation failed: type conversion error from 'string' to 'int'";
        assert_eq!(judged("int('a') == 1"), Err(void.to_owned()));
        let wide = judged("'ü' ==\n 'ü' + 1").unwrap_err();
        let expected = "ERROR: <input>:2:6: found no matching overload for '_+_' applied to '(string, int)'\n |  'ü' + 1\n | ..．..^";
        assert_eq!(wide, expected);
    }

    #[test]
    fn the_most_that_a_rule_can_cost_is_the_number_that_cel_go_gives() {
        for (rule, cost) in [
            ("self.s == 'a'", 3),
            ("self.t == self.t", 314_577),
            ("self.t.contains(self.s)", 2_516_588),
            ("self.l.all(x, x == self.s)", 1_003),
            ("self.l.all(x, self.l.all(y, x == y))", 90_603),
            ("self.l.map(x, x + 'a').join(',') == self.t", 1_844_674_407_371_271_652),
            ("self.u.all(x, x > 1)", 7_864_318),
            ("self.m.all(k, v, v.startsWith('a'))", 28),
            ("self.t.matches('^[a-z]+$')", 629_148),
            ("has(self.s) && self.s.size() > 1 || self.l.size() == 0", 9),
            (
                "self.?s.optMap(x, x + 'a').orValue('') == 'b'",
                1_844_674_407_370_955_284,
            ),
            ("self.l.sort() == self.l", 21_025),
            ("self.t.replace('', self.s).size() > 1", 629_152),
            ("self.s == 'a' ? self.t.split(',').size() > 1 : true", 629_153),
        ] {
            assert_eq!(judged(rule), Ok(cost), "{rule}");
        }
    }

    #[test]
    fn fields_are_found_under_the_names_that_expressions_have_for_them() {
        for rule in [
            "self.a__dash__b == 1",
            "self.namespace == self.__namespace__",
            "self.is == 1 || self.is == 'a'",
        ] {
            assert!(judged(rule).is_ok(), "{rule}");
        }
    }
}
