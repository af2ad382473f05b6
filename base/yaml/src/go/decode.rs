//! Decodes nodes into values, as go.yaml.in/yaml/v2 2.4 (`decode.go`) and sigs.k8s.io/yaml 1.6 do together: merges, aliases with
//! their limits, keys that become texts.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::Range;

use base_go::quoted;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Number, Value};

use super::number::{Whole, format_float, format_float_32};
use super::read::{DEPTH_MAX, Kind, Node, NodeId, Tree};
use super::resolve::{Resolved, resolve_tagged};
use super::shape::Shape;
use super::syntax::{NIL, cut, shown_list, shown_map};

/// Most bytes of all texts that aliases repeat: Go counts values, which may be long.
const ALIASED_BYTES_MAX: usize = 64 << 20;

/// Go's limits on aliases: up to so many values nearly all may come from aliases ...
const ALIAS_RATIO_LOW: usize = 400_000;
/// ... and from so many on only a tenth.
const ALIAS_RATIO_HIGH: usize = 4_000_000;

/// Why nodes cannot be decoded.
pub(super) enum Fault {
    /// Returned at once, with the prefix `yaml: `.
    Yaml(String),
    /// Returned once all is read.
    Later(String),
}

type Decoded<T> = Result<T, Fault>;

/// What a key is before it becomes a text: 1 and "1" are different keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key<'a> {
    Null,
    Bool(bool),
    Whole(Whole),
    Float(u64),
    Text(Cow<'a, str>),
}

pub(super) struct Decoder<'a> {
    tree: &'a Tree<'a>,
    strict: bool,
    /// Aliases that are being followed.
    following: HashSet<NodeId>,
    decoded: usize,
    decoded_by_alias: usize,
    bytes_by_alias: usize,
    depth: usize,
    /// Keys that are given twice, one line each.
    twice: Vec<String>,
    /// What JSON cannot hold, as long as it is not overwritten.
    unfit: Vec<Option<Unfit>>,
    /// The first of it beyond [`UNFIT_MAX`].
    unfit_beyond: Option<Unfit>,
    /// The shape of the value that is being decoded.
    shape: Shape,
    /// Whether values outside of the shape are made, too.
    makes_all: bool,
    /// Whether a text is made of each value: what Go's `%#v` prints.
    shows: bool,
}

impl<'a> Key<'a> {
    fn of(resolved: (Resolved, Cow<'a, str>)) -> Self {
        match resolved {
            (Resolved::Null, _) => Self::Null,
            (Resolved::Bool(truth), _) => Self::Bool(truth),
            (Resolved::Whole(number), _) => Self::Whole(number),
            (Resolved::Float(number), _) => Self::Float(number.to_bits()),
            (Resolved::Timestamp | Resolved::Text, text) => Self::Text(text),
        }
    }

    /// As `%#v` prints it inside another value.
    fn shown(&self) -> String {
        match self {
            Self::Null => NIL.to_owned(),
            key => cut(shown_key(key)),
        }
    }
}

/// What is known of a map that is being decoded.
#[derive(Default)]
struct Known<'a> {
    /// The keys it has, if they must not be given twice
    keys: HashSet<Key<'a>>,
    /// The ranges of [`Decoder::unfit`] under its keys
    unfit: HashMap<Key<'a>, Range<usize>>,
}

/// How many values that JSON cannot hold are tracked; any beyond them is an error even if it is overwritten.
const UNFIT_MAX: usize = 1000;

/// What JSON cannot hold.
#[derive(Clone, Debug)]
enum Unfit {
    /// A key of that type, and its value
    Key(&'static str, String, NodeId),
    Number(&'static str),
}

impl<'a> Decoder<'a> {
    pub(super) fn new(tree: &'a Tree<'a>, strict: bool) -> Self {
        Self {
            tree,
            strict,
            following: HashSet::new(),
            // The document counts.
            decoded: 1,
            decoded_by_alias: 0,
            bytes_by_alias: 0,
            depth: 0,
            twice: Vec::new(),
            unfit: Vec::new(),
            unfit_beyond: None,
            shape: Shape::Any,
            makes_all: true,
            shows: false,
        }
    }

    /// One that makes the values of a shape, or all besides.
    pub(super) fn of_shape(tree: &'a Tree<'a>, shape: Shape, makes_all: bool) -> Self {
        Self {
            shape,
            makes_all,
            ..Self::new(tree, false)
        }
    }

    /// The value of the document, with whole numbers and floats apart.
    pub(super) fn document(mut self) -> Decoded<Value> {
        let root = self.value(self.tree.root)?;
        if !self.twice.is_empty() {
            let lines = self.twice.join("\n  ");
            return Err(Fault::Later(format!("yaml: unmarshal errors:\n  {lines}")));
        }
        // Go finds keys while it converts, and numbers when it writes.
        let unfit = mem::take(&mut self.unfit);
        let first = unfit
            .into_iter()
            .flatten()
            .chain(self.unfit_beyond.take())
            .min_by_key(|unfit| matches!(unfit, Unfit::Number(_)));
        match first {
            Some(Unfit::Key(kind, key, value)) => {
                let value = match self.shown(value)? {
                    // In this place Go prints no type.
                    nil if nil == NIL => "<nil>".to_owned(),
                    value => value,
                };
                let problem = format!("unsupported map key of type: {kind}, key: {key}, value: {value}");
                Err(Fault::Later(problem))
            }
            Some(Unfit::Number(number)) => Err(Fault::Later(format!("json: unsupported value: {number}"))),
            None => Ok(root),
        }
    }

    fn count(&mut self) -> Decoded<()> {
        self.decoded += 1;
        if !self.following.is_empty() {
            self.decoded_by_alias += 1;
        }
        let excessive = self.decoded_by_alias > 100
            && self.decoded > 1000
            && self.decoded_by_alias as f64 / self.decoded as f64 > allowed_alias_ratio(self.decoded);
        if excessive || self.bytes_by_alias > ALIASED_BYTES_MAX {
            return Err(Fault::Yaml("document contains excessive aliasing".to_owned()));
        }
        Ok(())
    }

    fn node(&self, id: NodeId) -> &'a Node<'a> {
        &self.tree.nodes[id]
    }

    fn value(&mut self, id: NodeId) -> Decoded<Value> {
        self.count()?;
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::Yaml(format!("exceeded max depth of {DEPTH_MAX}")));
        }
        let value = match &self.node(id).kind {
            Kind::Alias { of, .. } => self.alias(id, *of, Self::value)?,
            Kind::Scalar { value, implicit } => self.scalar(self.node(id), value, *implicit)?,
            Kind::Sequence(items) => {
                let outer = self.shape;
                self.shape = outer.of_items();
                let mut array = Vec::with_capacity(if self.checks_only() { 0 } else { items.len() });
                for item in items {
                    let item = self.value(*item)?;
                    if !self.checks_only() {
                        array.push(item);
                    }
                }
                self.shape = outer;
                match self.shows {
                    true => Value::String(shown_list(&array)),
                    false => Value::Array(array),
                }
            }
            Kind::Mapping(items) => {
                let mut map = Map::new();
                self.mapping(items, &mut map, &mut Known::default())?;
                match self.shows {
                    true => Value::String(shown_map(&map)),
                    false => Value::Object(map),
                }
            }
        };
        self.depth -= 1;
        Ok(value)
    }

    fn alias<T>(&mut self, id: NodeId, of: NodeId, follow: impl FnOnce(&mut Self, NodeId) -> Decoded<T>) -> Decoded<T> {
        if !self.following.insert(id) {
            let name = match &self.node(id).kind {
                Kind::Alias { name, .. } => String::from_utf8_lossy(name),
                _ => "".into(),
            };
            return Err(Fault::Yaml(format!("anchor '{name}' value contains itself")));
        }
        let followed = follow(self, of)?;
        self.following.remove(&id);
        Ok(followed)
    }

    /// A value as Go's `%#v` prints it. Nothing else is made after that.
    fn shown(&mut self, id: NodeId) -> Decoded<String> {
        (self.shape, self.shows) = (Shape::Any, true);
        match self.value(id)? {
            Value::String(shown) => Ok(shown),
            _ => Ok(NIL.to_owned()),
        }
    }

    /// Counts the bytes of a text that an alias repeats, in a value or a key.
    fn count_bytes(&mut self, text: &[u8]) {
        if !self.following.is_empty() {
            self.bytes_by_alias += text.len();
        }
    }

    fn scalar(&mut self, node: &'a Node<'a>, value: &'a [u8], implicit: bool) -> Decoded<Value> {
        self.count_bytes(value);
        let resolved = Self::resolve(node, value, implicit)?;
        if self.shows {
            return Ok(Value::String(Key::of(resolved).shown()));
        }
        Ok(match resolved {
            (Resolved::Null, _) => Value::Null,
            (Resolved::Bool(truth), _) => Value::Bool(truth),
            (Resolved::Whole(Whole::Signed(number)), _) => number.into(),
            (Resolved::Whole(Whole::Unsigned(number)), _) => number.into(),
            (Resolved::Float(number), _) => match Number::from_f64(number) {
                Some(number) => Value::Number(number),
                None if matches!(self.shape, Shape::Text) => Value::String(format_float_32(number)),
                None => {
                    self.add_unfit(Unfit::Number(match number {
                        f64::INFINITY => "+Inf",
                        f64::NEG_INFINITY => "-Inf",
                        _ => "NaN",
                    }));
                    Value::Null
                }
            },
            (Resolved::Timestamp | Resolved::Text, _) if self.checks_only() => Value::Null,
            (Resolved::Timestamp | Resolved::Text, text) => Value::String(text.into_owned()),
        })
    }

    /// What a scalar is, and its text.
    fn resolve(node: &Node<'_>, value: &'a [u8], implicit: bool) -> Decoded<(Resolved, Cow<'a, str>)> {
        // As a rule it is UTF-8, which the faster of the two finds out.
        let text = || std::str::from_utf8(value).map_or_else(|_| String::from_utf8_lossy(value), Cow::Borrowed);
        if node.tag.is_empty() && !implicit {
            return Ok((Resolved::Text, text()));
        }
        let tag = String::from_utf8_lossy(&node.tag);
        if tag == "tag:yaml.org,2002:binary" {
            let packed: Vec<u8> = value.iter().copied().filter(|byte| !b"\r\n".contains(byte)).collect();
            let data = STANDARD
                .decode(packed)
                .map_err(|_| Fault::Yaml("!!binary value contains invalid base64 data".to_owned()))?;
            return Ok((Resolved::Text, as_json_text(&data).into()));
        }
        let text = text();
        let resolved = resolve_tagged(&tag, &text).map_err(Fault::Yaml)?;
        Ok((resolved, text))
    }

    fn add_unfit(&mut self, unfit: Unfit) {
        if self.unfit.len() < UNFIT_MAX {
            self.unfit.push(Some(unfit));
        } else {
            self.unfit_beyond.get_or_insert(unfit);
        }
    }

    fn mapping(&mut self, items: &[NodeId], map: &mut Map<String, Value>, known: &mut Known<'a>) -> Decoded<()> {
        for pair in items.chunks_exact(2) {
            let (key, id) = (pair[0], pair[1]);
            if self.is_merge(key) {
                self.merge(id, map, known)?;
                continue;
            }
            let key = self.key(key)?;
            let line = self.node(id).line + 1;
            let inner = self.shape_under(&key);
            let outer = mem::replace(&mut self.shape, inner);
            let first = self.unfit.len();
            let value = self.value(id)?;
            let is_wanted = !self.checks_only();
            self.shape = outer;
            if self.strict && !known.keys.insert(key.clone()) {
                self.twice
                    .push(format!("line {line}: key {} already set in map", shown_key(&key)));
                continue;
            }
            if !known.unfit.is_empty()
                && let Some(over) = known.unfit.remove(&key)
            {
                self.unfit[over].fill(None);
            }
            if self.shows {
                map.insert(key.shown(), value);
                continue;
            }
            let kind = key_type(&key);
            if let Err(kind) = kind {
                // Go checks a key before its value.
                self.unfit.truncate(first);
                self.add_unfit(Unfit::Key(kind, shown_key(&key), id));
            }
            if self.unfit.len() > first {
                known.unfit.insert(key.clone(), first..self.unfit.len());
            }
            if is_wanted && kind.is_ok() {
                map.insert(key_text(key), value);
            }
        }
        Ok(())
    }

    /// The shape of the entry of that key.
    fn shape_under(&self, key: &Key<'_>) -> Shape {
        match (self.shape, key) {
            (Shape::Fields(fields), Key::Text(key)) => Shape::of_field(fields, key),
            (Shape::Fields(_), _) => Shape::Nothing,
            (shape, _) => shape.of_entries(),
        }
    }

    /// Whether values are only checked, and not made.
    fn checks_only(&self) -> bool {
        matches!(self.shape, Shape::Nothing) && !self.makes_all
    }

    fn key(&mut self, id: NodeId) -> Decoded<Key<'a>> {
        match &self.node(id).kind {
            Kind::Alias { of, .. } => {
                self.count()?;
                self.alias(id, *of, Self::key)
            }
            Kind::Scalar { value, implicit } => {
                self.count()?;
                self.count_bytes(value);
                Ok(Key::of(Self::resolve(self.node(id), value, *implicit)?))
            }
            Kind::Sequence(_) | Kind::Mapping(_) => {
                let key = self.shown(id)?;
                Err(Fault::Yaml(format!("invalid map key: {key}")))
            }
        }
    }

    fn is_merge(&self, id: NodeId) -> bool {
        let node = self.node(id);
        match &node.kind {
            Kind::Scalar { value, implicit } => {
                **value == *b"<<" && (*implicit || node.tag == b"tag:yaml.org,2002:merge")
            }
            _ => false,
        }
    }

    fn merge(&mut self, id: NodeId, map: &mut Map<String, Value>, known: &mut Known<'a>) -> Decoded<()> {
        match &self.node(id).kind {
            // An earlier map of the list wins, so it is written last.
            Kind::Sequence(items) => items
                .iter()
                .rev()
                .try_for_each(|item| self.merge_one(*item, map, known)),
            _ => self.merge_one(id, map, known),
        }
    }

    fn merge_one(&mut self, id: NodeId, map: &mut Map<String, Value>, known: &mut Known<'a>) -> Decoded<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::Yaml(format!("exceeded max depth of {DEPTH_MAX}")));
        }
        match &self.node(id).kind {
            Kind::Mapping(items) => {
                self.count()?;
                self.mapping(items, map, known)?;
            }
            Kind::Alias { of, .. } if matches!(self.node(*of).kind, Kind::Mapping(_)) => {
                self.count()?;
                self.alias(id, *of, |decoder, of| decoder.merge_one(of, map, known))?;
            }
            _ => {
                let problem = "map merge requires map or sequence of maps as the value";
                return Err(Fault::Yaml(problem.to_owned()));
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// The part of all values that may come from aliases: `allowedAliasRatio`.
fn allowed_alias_ratio(decoded: usize) -> f64 {
    match decoded {
        ..=ALIAS_RATIO_LOW => 0.99,
        ALIAS_RATIO_HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ((decoded - ALIAS_RATIO_LOW) as f64 / (ALIAS_RATIO_HIGH - ALIAS_RATIO_LOW) as f64),
    }
}

/// Go's name for a type that cannot be a key in JSON, if the key is of one.
fn key_type(key: &Key<'_>) -> Result<(), &'static str> {
    match key {
        Key::Whole(Whole::Unsigned(_)) => Err("uint64"),
        Key::Null => Err("%!s(<nil>)"),
        Key::Text(_) | Key::Bool(_) | Key::Whole(Whole::Signed(_)) | Key::Float(_) => Ok(()),
    }
}

/// The text that a key becomes in JSON.
fn key_text(key: Key<'_>) -> String {
    match key {
        Key::Text(text) => text.into_owned(),
        Key::Float(bits) => match format_float_32(f64::from_bits(bits)).as_str() {
            "+Inf" => ".inf".to_owned(),
            "-Inf" => "-.inf".to_owned(),
            "NaN" => ".nan".to_owned(),
            text => text.to_owned(),
        },
        other => shown_key(&other),
    }
}

fn shown_key(key: &Key<'_>) -> String {
    match key {
        Key::Null => "<nil>".to_owned(),
        Key::Bool(truth) => truth.to_string(),
        Key::Whole(Whole::Signed(number)) => number.to_string(),
        Key::Whole(Whole::Unsigned(number)) => format!("{number:#x}"),
        Key::Float(bits) => format_float(f64::from_bits(*bits)),
        Key::Text(text) => quoted(text),
    }
}

/// A text of any bytes as encoding/json writes it: each byte that is not UTF-8 becomes U+FFFD.
pub(super) fn as_json_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n('\u{FFFD}', chunk.invalid().len()));
    }
    text
}
