//! Structs of Go as data: names and types of fields, and when Go writes them.

/// A struct of Go.
#[derive(Debug)]
pub(crate) struct GoStruct {
    /// Its name without its package: `ServicePort`.
    pub(crate) name: Box<str>,
    /// Sorted by name.
    pub(crate) fields: Vec<GoField>,
    /// Places of those that are always written.
    pub(crate) always: Vec<usize>,
    /// Those of them that are structs with fields, but for the status: a new object has none.
    pub(crate) structs: Vec<usize>,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub(crate) struct GoField {
    /// As JSON has it.
    pub(crate) name: Box<str>,
    /// As Go prints it: `[]v1.ServicePort`.
    pub(crate) type_name: Box<str>,
    pub(crate) written: Written,
    /// Where it is declared among the others.
    pub(crate) position: usize,
}

impl GoField {
    /// A list or a map.
    pub(crate) fn is_collection(&self) -> bool {
        self.type_name.starts_with("[]") || self.type_name.starts_with("map[")
    }
}

/// When Go writes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Always,
    /// Unless it points nowhere.
    UnlessNull,
    /// Unless it is the empty text, zero, false, or holds nothing.
    UnlessEmpty,
}

impl GoStruct {
    /// By its name in JSON.
    pub(crate) fn field(&self, name: &str) -> Option<&GoField> {
        let place = self.fields.binary_search_by(|field| (*field.name).cmp(name)).ok()?;
        self.fields.get(place)
    }

    /// Those that are always written and are structs themselves.
    pub(crate) fn structs(&self) -> impl Iterator<Item = &GoField> {
        self.structs.iter().filter_map(|place| self.fields.get(*place))
    }

    /// Those that are always written.
    pub(crate) fn always(&self) -> impl Iterator<Item = &GoField> {
        self.always.iter().filter_map(|place| self.fields.get(*place))
    }
}
