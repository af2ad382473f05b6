//! The types of CEL, and when one fits another (google/cel-go v0.26 `checker/types.go`, `checker/format.go`). It knows
//! no functions and no expressions.

use std::sync::Arc;

use crate::typing::declared::Object;

/// Largest type that is distinguished, in parts: a chain of loops can double its type at every step. A larger one counts as
/// `dyn`.
const PARTS_MAX: usize = 100;

/// How many steps the comparisons of one expression may take: types are trees of shared parts. Beyond it all fit.
const STEPS_MAX: u32 = 2_000_000;

/// The name of a type that may hold nothing.
const OPTIONAL: &str = "optional_type";

/// A type; `'s` is the schema that declares fields.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type<'s> {
    /// Any type, known only when the expression runs.
    Dyn,
    /// The type of a part that already has an error.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Parts<'s>),
    Map(Parts<'s>),
    /// A type with a name and perhaps types of its own, of which no more is known.
    Opaque(&'static str, Parts<'s>),
    Object(Object<'s>),
    /// The type of a type.
    Meta(Parts<'s>),
    /// One that a function's signature leaves open.
    Param(char),
    /// One that is not known yet.
    Variable(usize),
}

/// The types that a type is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parts<'s> {
    types: Arc<[Type<'s>]>,
    count: usize,
}

impl<'s> Parts<'s> {
    fn new(types: Vec<Type<'s>>) -> Self {
        let count = types
            .iter()
            .fold(1, |sum: usize, part| sum.saturating_add(part.count()));
        Self {
            types: types.into(),
            count,
        }
    }

    pub(crate) fn first(&self) -> Type<'s> {
        self.types.first().cloned().unwrap_or(Type::Dyn)
    }

    pub(crate) fn last(&self) -> Type<'s> {
        self.types.last().cloned().unwrap_or(Type::Dyn)
    }
}

impl<'s> Type<'s> {
    pub(crate) fn list(items: Self) -> Self {
        Self::bounded(vec![items], Self::List)
    }

    pub(crate) fn map(keys: Self, values: Self) -> Self {
        Self::bounded(vec![keys, values], Self::Map)
    }

    pub(crate) fn optional(inner: Self) -> Self {
        Self::bounded(vec![inner], |parts| Self::Opaque(OPTIONAL, parts))
    }

    fn bounded(parts: Vec<Self>, make: impl FnOnce(Parts<'s>) -> Self) -> Self {
        let parts = Parts::new(parts);
        if parts.count > PARTS_MAX {
            Self::Dyn
        } else {
            make(parts)
        }
    }

    /// The same type of other parts.
    fn with_parts(&self, parts: Vec<Self>) -> Self {
        Self::bounded(parts, |parts| match self {
            Self::List(_) => Self::List(parts),
            Self::Map(_) => Self::Map(parts),
            Self::Opaque(name, _) => Self::Opaque(name, parts),
            _ => Self::Meta(parts),
        })
    }

    fn count(&self) -> usize {
        self.parts().map_or(1, |parts| parts.count)
    }

    fn parts(&self) -> Option<&Parts<'s>> {
        match self {
            Self::List(parts) | Self::Map(parts) | Self::Opaque(_, parts) | Self::Meta(parts) => Some(parts),
            _ => None,
        }
    }

    /// What the optional may hold.
    pub(crate) fn unwrap_optional(&self) -> Option<Self> {
        match self {
            Self::Opaque(OPTIONAL, parts) => Some(parts.first()),
            _ => None,
        }
    }

    /// The type of a list's items.
    pub(crate) fn items(&self) -> Option<Self> {
        self.parts().filter(|parts| !parts.types.is_empty()).map(Parts::first)
    }

    /// Values of it are of one size.
    pub(crate) fn is_scalar(&self) -> bool {
        match self {
            Self::Bool | Self::Double | Self::Duration | Self::Int | Self::Timestamp | Self::Uint => true,
            other => other.unwrap_optional().is_some_and(|inner| inner.is_scalar()),
        }
    }

    /// As `cel.Type.String` prints it: null has another name there than in messages of the checker.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Null => "null_type".to_owned(),
            Self::Duration => "google.protobuf.Duration".to_owned(),
            Self::Timestamp => "google.protobuf.Timestamp".to_owned(),
            other => match other.parts().filter(|parts| !parts.types.is_empty()) {
                None => other.to_string(),
                Some(parts) => {
                    let inner: Vec<String> = parts.types.iter().map(Self::name).collect();
                    format!("{}({})", other.base(), inner.join(", "))
                }
            },
        }
    }

    /// The type of a policy's variable whose expression has this type: one with fields or functions of its own becomes `dyn`
    /// (apiserver v0.35 `pkg/admission/plugin/cel/composition.go`).
    pub(crate) fn simple(&self) -> Self {
        match self {
            Self::List(parts) => Self::list(parts.first().simple()),
            Self::Map(parts) => Self::map(parts.first().simple(), parts.last().simple()),
            Self::Opaque(..) | Self::Object(_) | Self::Meta(_) | Self::Param(_) | Self::Variable(_) | Self::Error => {
                Self::Dyn
            }
            plain => plain.clone(),
        }
    }

    fn base(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Error => "!error!",
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Duration => "duration",
            Self::Timestamp => "timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Opaque(name, _) => name,
            Self::Object(object) => object.name(),
            Self::Meta(_) => "type",
            Self::Param(_) | Self::Variable(_) => "",
        }
    }

    /// Reads a type as messages show it; names of one capital letter are open. None: it is none.
    pub(crate) fn parse(text: &str) -> Option<Type<'static>> {
        let mut rest = text;
        let parsed = parse_type(&mut rest)?;
        rest.is_empty().then_some(parsed)
    }
}

fn parse_type(rest: &mut &str) -> Option<Type<'static>> {
    let end = rest.find(['(', ')', ',']).unwrap_or(rest.len());
    let (name, tail) = rest.split_at(end);
    *rest = tail;
    let mut parts = Vec::new();
    if let Some(inner) = rest.strip_prefix('(') {
        *rest = inner;
        loop {
            parts.push(parse_type(rest)?);
            if let Some(after) = rest.strip_prefix(", ") {
                *rest = after;
                continue;
            }
            *rest = rest.strip_prefix(')')?;
            break;
        }
    }
    Some(match (name, parts.len()) {
        ("dyn", 0) => Type::Dyn,
        ("null", 0) => Type::Null,
        ("bool", 0) => Type::Bool,
        ("int", 0) => Type::Int,
        ("uint", 0) => Type::Uint,
        ("double", 0) => Type::Double,
        ("string", 0) => Type::String,
        ("bytes", 0) => Type::Bytes,
        ("duration", 0) => Type::Duration,
        ("timestamp", 0) => Type::Timestamp,
        ("list", 1) => Type::List(Parts::new(parts)),
        ("map", 2) => Type::Map(Parts::new(parts)),
        (OPTIONAL, 1) => Type::Opaque(OPTIONAL, Parts::new(parts)),
        ("net.IP", 0) => Type::Opaque("net.IP", Parts::default()),
        ("net.CIDR", 0) => Type::Opaque("net.CIDR", Parts::default()),
        ("type", _) => Type::Meta(Parts::new(parts)),
        (letter, 0) if letter.len() == 1 => Type::Param(letter.chars().next()?),
        (object, 0) => Type::Object(Object::named(object)?),
        _ => return None,
    })
}

impl std::fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(number) => write!(f, "_var{number}"),
            Self::Param(letter) => write!(f, "{letter}"),
            other => {
                f.write_str(other.base())?;
                let parts = other.parts().map(|parts| &parts.types[..]).unwrap_or_default();
                for (index, part) in parts.iter().enumerate() {
                    f.write_str(if index == 0 { "(" } else { ", " })?;
                    part.fmt(f)?;
                }
                f.write_str(if parts.is_empty() { "" } else { ")" })
            }
        }
    }
}

/// What is known of types that were open at first.
#[derive(Default)]
pub(crate) struct Known<'s> {
    bound: Vec<Option<Type<'s>>>,
    /// What was bound before, to go back to.
    trail: Vec<(usize, Option<Type<'s>>)>,
    steps: u32,
}

impl<'s> Known<'s> {
    /// How many steps comparisons took.
    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    pub(crate) fn fresh(&mut self) -> Type<'s> {
        self.bound.push(None);
        Type::Variable(self.bound.len() - 1)
    }

    fn step(&mut self) -> bool {
        self.steps = self.steps.saturating_add(1);
        self.steps <= STEPS_MAX
    }

    fn find(&self, of: &Type<'s>) -> Option<Type<'s>> {
        match of {
            Type::Variable(number) => self.bound.get(*number).cloned().flatten(),
            _ => None,
        }
    }

    fn bind(&mut self, variable: &Type<'s>, to: Type<'s>) {
        if let Type::Variable(number) = variable
            && let Some(slot) = self.bound.get_mut(*number)
        {
            self.trail.push((*number, slot.replace(to)));
        }
    }

    /// Whether each of the types fits its counterpart; if not, no variable is bound.
    pub(crate) fn all_fit(&mut self, given: &[Type<'s>], wanted: &[Type<'s>]) -> bool {
        self.trail.clear();
        let fit = given.len() == wanted.len() && given.iter().zip(wanted).all(|(one, other)| self.fits(one, other));
        if !fit {
            while let Some((number, before)) = self.trail.pop() {
                self.bound[number] = before;
            }
        }
        fit
    }

    /// Whether the first type fits the second; if not, no variable is bound.
    pub(crate) fn assignable(&mut self, one: &Type<'s>, other: &Type<'s>) -> bool {
        self.all_fit(std::slice::from_ref(one), std::slice::from_ref(other))
    }

    fn fits(&mut self, one: &Type<'s>, other: &Type<'s>) -> bool {
        if !self.step() {
            return true;
        }
        if matches!(other, Type::Variable(_)) {
            let (fits, was_bound) = self.substitutes(one, other);
            if fits || was_bound {
                return fits;
            }
        }
        if matches!(one, Type::Variable(_)) {
            return self.substitutes(other, one).0;
        }
        match (one, other) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp
            ),
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::Object(one), Type::Object(other)) => one == other,
            (Type::List(ours), Type::List(theirs)) | (Type::Map(ours), Type::Map(theirs)) => {
                self.parts_fit(ours, theirs)
            }
            (Type::Opaque(name, ours), Type::Opaque(other, theirs)) => name == other && self.parts_fit(ours, theirs),
            (one, other) => one.parts().is_none() && one == other,
        }
    }

    fn parts_fit(&mut self, ours: &Parts<'s>, theirs: &Parts<'s>) -> bool {
        let pairs = ours.types.iter().zip(theirs.types.iter());
        ours.types.len() == theirs.types.len() && pairs.into_iter().all(|(one, other)| self.fits(one, other))
    }

    /// Whether the variable may stand for the type, and whether it stood for one before.
    fn substitutes(&mut self, given: &Type<'s>, variable: &Type<'s>) -> (bool, bool) {
        if given == variable {
            return (true, true);
        }
        if let Some(bound) = self.find(variable) {
            if *given == bound {
                return (true, true);
            }
            if !self.fits(given, &bound) {
                return (false, true);
            }
            let general = if is_less_specific(given, &bound) {
                given.clone()
            } else {
                bound
            };
            if !self.occurs(variable, &general) {
                self.bind(variable, general);
            }
            return (true, true);
        }
        let free = !self.occurs(variable, given);
        if free {
            self.bind(variable, given.clone());
        }
        (free, false)
    }

    fn occurs(&mut self, variable: &Type<'s>, within: &Type<'s>) -> bool {
        if variable == within || !self.step() {
            return true;
        }
        match (self.find(within), within.parts()) {
            (Some(bound), _) => self.occurs(variable, &bound),
            (None, Some(parts)) => parts.types.iter().any(|part| self.occurs(variable, part)),
            (None, None) => false,
        }
    }

    /// The type with all that is known of it; with `close`, what is still open becomes `dyn`.
    pub(crate) fn resolve(&mut self, of: &Type<'s>, close: bool) -> Type<'s> {
        if !self.step() {
            return Type::Dyn;
        }
        if let Some(bound) = self.find(of) {
            return self.resolve(&bound, close);
        }
        match of {
            Type::Variable(_) if close => Type::Dyn,
            other => match other.parts().filter(|parts| !parts.types.is_empty()) {
                None => other.clone(),
                Some(parts) => {
                    let types = parts.types.iter().map(|part| self.resolve(part, close)).collect();
                    other.with_parts(types)
                }
            },
        }
    }
}

/// The more general of two types that fit each other.
pub(crate) fn most_general<'s>(one: &Type<'s>, other: &Type<'s>) -> Type<'s> {
    if is_less_specific(one, other) {
        one.clone()
    } else {
        other.clone()
    }
}

fn is_less_specific(one: &Type<'_>, other: &Type<'_>) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::Meta(_), Type::Meta(_)) => true,
        (Type::Opaque(name, _), Type::Opaque(another, _)) if name != another => false,
        (Type::List(ours), Type::List(theirs))
        | (Type::Map(ours), Type::Map(theirs))
        | (Type::Opaque(_, ours), Type::Opaque(_, theirs)) => {
            let pairs = ours.types.iter().zip(theirs.types.iter());
            ours.types.len() == theirs.types.len() && pairs.into_iter().all(|(one, other)| is_less_specific(one, other))
        }
        (one, other) => one == other,
    }
}

/// Replaces what a signature leaves open.
pub(crate) fn instantiate<'s>(of: &Type<'static>, fresh: &mut impl FnMut(char) -> Type<'s>) -> Type<'s> {
    match of {
        Type::Param(letter) => fresh(*letter),
        other => match other.parts() {
            None => other.clone(),
            Some(parts) => {
                let types: Vec<Type<'s>> = parts.types.iter().map(|part| instantiate(part, fresh)).collect();
                let like: Type<'s> = other.clone();
                like.with_parts(types)
            }
        },
    }
}
