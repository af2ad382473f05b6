//! Validation rules as they are compiled: parsed, checked against the types of their schema, and limited by estimated cost
//! (apiextensions-apiserver v0.35 `pkg/apiserver/schema/cel/compilation.go`, `pkg/apis/apiextensions/validation/validation.go`).
//! It runs no rule.

use cluster_fields::{FieldError, FieldErrorKind, FieldPath};
use kube_cel::cel::common::ast::IdedExpr;
use serde_json::{Map, Value};

use crate::checking::check::check;
use crate::checking::literal_rules::conversion_fault;
use crate::estimate::cost;
use crate::estimate::sizes::Sizes;
use crate::rules::cost_limits::{CostTotal, RULE_COST_ESTIMATE_MAX, exceeds, times};
use crate::rules::rule::Rule;
use crate::syntax::parse::{Parsed, parse};
use crate::syntax::work::Work;
use crate::typing::declared::Declared;
use crate::typing::scope::{Checked, Scope};
use crate::typing::types::Type;

/// The name of the type of `self`, on which no rule shall rely. (Kubernetes puts a number of its clock behind it.)
const SELF_TYPE: &str = "selfType";

/// Where the rules of a node stand, and how strictly they are compiled.
pub struct RulesPlace<'p> {
    /// The closest list or map above, if any, whose parts have no old value.
    pub uncorrelated: Option<&'p str>,
    /// New rules or stored ones.
    pub mode: CompileMode<'p>,
}

/// How strictly rules are compiled.
pub enum CompileMode<'p> {
    /// New rules: types, names and estimated costs are checked.
    New(NewRules<'p>),
    /// Stored rules, perhaps accepted by a version with fewer checks: only their size is limited.
    Stored(&'p mut Work),
}

/// What is known about the place of new rules.
pub struct NewRules<'p> {
    /// It is the root of a whole object.
    pub root: bool,
    /// How often a value can stand in one object; none: as often as an object has room.
    pub times: Option<u64>,
    /// The schema is stored as it is: a rule may cost what it cost before.
    pub unchanged: bool,
    /// What all rules of the definition cost.
    pub total: &'p mut CostTotal,
}

/// Compiles all rules of a node of a schema, which is `json`. Rules that are refused are missing from the result and have
/// an error.
pub fn compile(
    json: &Map<String, Value>,
    path: &FieldPath<'_>,
    place: RulesPlace<'_>,
    errors: &mut Vec<FieldError>,
) -> Vec<Rule> {
    let at = path.field("x-kubernetes-validations");
    let entries = json.get("x-kubernetes-validations").and_then(Value::as_array);
    let Some(entries) = entries.filter(|entries| !entries.is_empty()) else {
        return Vec::new();
    };
    let RulesPlace { uncorrelated, mode } = place;
    let mut place = match mode {
        CompileMode::New(place) => place,
        CompileMode::Stored(work) => {
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
    let declared = Declared::Node { json, root: place.root };
    let Some(this) = declared.as_type(SELF_TYPE) else {
        let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        errors.push(FieldError::new(at, FieldErrorKind::Internal, None, why));
        return Vec::new();
    };
    let known = Sizes::of(declared);
    let mut rules = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let mut compiler = Compiler {
            entry,
            at: at.index(index),
            known: &known,
            this: &this,
            errors: &mut *errors,
        };
        rules.extend(compiler.rule(uncorrelated, &mut place));
    }
    rules
}

fn written(entry: &Value) -> &str {
    entry["rule"].as_str().unwrap_or_default()
}

/// A stored rule.
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

struct Compiler<'j, 's> {
    entry: &'j Value,
    at: FieldPath<'j>,
    known: &'j Sizes<'s>,
    this: &'j Type<'s>,
    errors: &'j mut Vec<FieldError>,
}

impl<'s> Compiler<'_, 's> {
    fn rule(&mut self, uncorrelated: Option<&str>, place: &mut NewRules<'_>) -> Option<Rule> {
        if let Some(why) = place.total.work.refusal() {
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
            &mut place.total.work,
        );
        let (mut rule, mut message) = (None, None);
        match compiled {
            Ok((parsed, checked)) => {
                self.limit_cost(&parsed, &checked, place);
                message = self.message(&scope, place);
                rule = Some((parsed.tree, checked.uses("oldSelf")));
            }
            Err(why) => {
                let why = why.into_words("compilation failed: ", "program");
                self.refuse("rule", why);
            }
        }
        let uses_old_self = rule.as_ref().is_some_and(|(_, uses_old)| *uses_old);
        match (uses_old_self, uncorrelated) {
            (true, Some(above)) => {
                let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {above}");
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

    /// An error that shows the whole entry of the rule.
    fn refuse(&mut self, field: &str, why: String) {
        let error = FieldError::invalid(self.at.field(field), self.entry.clone(), why);
        self.errors.push(error.shown_as(shown(self.entry)));
    }

    fn limit_cost(&mut self, parsed: &Parsed, checked: &Checked<'s>, place: &mut NewRules<'_>) {
        let once = cost::estimate(parsed, checked, self.known);
        let often = place.times.unwrap_or_else(|| self.known.times_max());
        self.add("rule", "estimated rule cost", times(once, often), place);
    }

    fn add(&mut self, field: &str, what: &str, cost: u64, place: &mut NewRules<'_>) {
        if !place.unchanged && cost > RULE_COST_ESTIMATE_MAX {
            let why = exceeds(what, cost, RULE_COST_ESTIMATE_MAX);
            self.errors.push(FieldError::forbidden(self.at.field(field), why));
        }
        place.total.add(cost, || self.at.field(field).to_string());
    }

    fn message(&mut self, scope: &Scope<'s>, place: &mut NewRules<'_>) -> Option<IdedExpr> {
        let source = message_expression(self.entry)?;
        let wanted = "messageExpression must evaluate to a string";
        match typed(source, scope, &Type::String, wanted, &mut place.total.work) {
            Ok((parsed, checked)) => {
                let cost = cost::estimate(&parsed, &checked, self.known);
                self.add("messageExpression", "estimated messageExpression cost", cost, place);
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

/// Why an expression is refused.
enum Refusal {
    /// It cannot be compiled.
    Broken(String),
    /// Its result has another type.
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

/// An expression whose result has the wanted type.
fn typed<'s>(
    source: &str,
    scope: &Scope<'s>,
    wanted: &Type<'s>,
    otherwise: &str,
    work: &mut Work,
) -> Result<(Parsed, Checked<'s>), Refusal> {
    let parsed = parse(source, work).map_err(Refusal::Broken)?;
    let checked = check(source, &parsed, scope).map_err(Refusal::Broken)?;
    work.count_checked(checked.steps());
    if checked.result() != wanted {
        return Err(Refusal::Other(otherwise.to_owned()));
    }
    match conversion_fault(&parsed.tree) {
        Some(why) => Err(Refusal::Void(why)),
        None => Ok((parsed, checked)),
    }
}

/// A rule as Go prints it: every field, also those that are not set.
fn shown(entry: &Value) -> String {
    const NO_TEXT: &str = "\"\"";
    const NO_POINTER: &str = "null";
    let fields = [
        ("Rule", "rule", NO_TEXT),
        ("Message", "message", NO_TEXT),
        ("MessageExpression", "messageExpression", NO_TEXT),
        ("Reason", "reason", NO_POINTER),
        ("FieldPath", "fieldPath", NO_TEXT),
        ("OptionalOldSelf", "optionalOldSelf", NO_POINTER),
    ];
    let shown = fields.map(|(name, field, unset)| {
        let value = match &entry[field] {
            Value::Null => unset.to_owned(),
            // Go's encoder escapes what is not safe in HTML.
            value => {
                let text = value.to_string().replace('<', "\\u003c").replace('>', "\\u003e");
                text.replace('&', "\\u0026")
            }
        };
        format!("\"{name}\":{value}")
    });
    format!("{{{}}}", shown.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The estimated cost, or the error, of a rule on an object with a text `s`, a number `i`, a list `l` of bounded texts, and more.
    fn compiled(rule: &str) -> Result<u64, String> {
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
    fn errors_have_places_and_words_of_cel_go() {
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
            let why = compiled(rule).unwrap_err();
            assert!(why.contains(&format!("ERROR: <input>:{expected}")), "{rule}: {why}");
        }
        assert_eq!(compiled("self.i"), Err("must be a bool".to_owned()));
        let void = "program instantiation failed: type conversion error from 'string' to 'int'";
        assert_eq!(compiled("int('a') == 1"), Err(void.to_owned()));
        let wide = compiled("'ü' ==\n 'ü' + 1").unwrap_err();
        let expected = "ERROR: <input>:2:6: found no matching overload for '_+_' applied to '(string, int)'\n |  'ü' + 1\n | ..．..^";
        assert_eq!(wide, expected);
    }

    #[test]
    fn estimated_costs_are_those_of_cel_go() {
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
            assert_eq!(compiled(rule), Ok(cost), "{rule}");
        }
    }

    #[test]
    fn fields_are_found_by_their_escaped_names() {
        for rule in [
            "self.a__dash__b == 1",
            "self.namespace == self.__namespace__",
            "self.is == 1 || self.is == 'a'",
        ] {
            assert!(compiled(rule).is_ok(), "{rule}");
        }
    }
}
