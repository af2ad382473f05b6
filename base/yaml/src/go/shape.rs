//! Which parts of a document are read, as defined by the types that Go reads it into.

/// What a caller wants of a value. The rest is checked all the same, and left out.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// All of it
    Any,
    /// Nothing of it
    Nothing,
    /// A text: a number that JSON cannot hold is one there, as `strconv.FormatFloat` writes it (`convertToJSONableObject` of
    /// sigs.k8s.io/yaml)
    Text,
    /// The fields of these names, in whatever case they are written
    Fields(&'static [(&'static str, Shape)]),
    /// A map, and this of each of its entries
    Entries(&'static Shape),
}

impl Shape {
    /// What is wanted of a field.
    pub(super) fn of_field(fields: &[(&str, Self)], key: &str) -> Self {
        let found = fields.iter().find(|(name, _)| is_field(key, name));
        found.map_or(Self::Nothing, |(_, shape)| *shape)
    }

    /// What is wanted of an entry that is no field.
    pub(super) fn of_entries(self) -> Self {
        match self {
            Self::Entries(shape) => *shape,
            other => other.of_items(),
        }
    }

    /// What is wanted of the items of a list.
    pub(super) fn of_items(self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            _ => Self::Any,
        }
    }
}

/// Whether encoding/json reads a key into a field: in whatever case it is written, with Unicode's other K and S.
pub fn is_field(key: &str, name: &str) -> bool {
    let folded = |character: char| match character {
        '\u{212A}' => 'k',
        '\u{17F}' => 's',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(folded).eq(name.chars().map(folded))
}
