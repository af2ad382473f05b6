//! The path of a field, as errors show it. It never looks at an object.

use std::fmt;

/// How errors show the whole object as a path.
pub const ROOT_SHOWN: &str = "<nil>";

/// The path of a field, linked from leaf to root so that a walk allocates only when it reports.
#[derive(Clone, Copy, Debug)]
pub enum FieldPath<'a> {
    /// The object itself.
    Root,
    /// A named field.
    Field(&'a FieldPath<'a>, &'a str),
    /// A list element.
    Index(&'a FieldPath<'a>, usize),
    /// A map entry.
    Key(&'a FieldPath<'a>, &'a str),
}

impl<'a> FieldPath<'a> {
    /// A named field below this one.
    pub fn field(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath::Field(self, name)
    }

    /// A list element below this one.
    pub fn index(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath::Index(self, index)
    }

    /// A map entry below this one.
    pub fn key(&'a self, key: &'a str) -> FieldPath<'a> {
        FieldPath::Key(self, key)
    }

    /// The path as it stands in sentences about the value: empty for the whole object.
    pub fn in_words(&self) -> String {
        let mut text = String::new();
        self.parts(&mut text);
        text
    }

    fn parts(&self, out: &mut String) {
        match self {
            FieldPath::Root => {}
            FieldPath::Field(parent, name) => {
                parent.parts(out);
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            FieldPath::Index(parent, index) => {
                parent.parts(out);
                out.push_str(&format!("[{index}]"));
            }
            FieldPath::Key(parent, key) => {
                parent.parts(out);
                out.push('[');
                out.push_str(key);
                out.push(']');
            }
        }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.parts(&mut text);
        f.write_str(if text.is_empty() { ROOT_SHOWN } else { &text })
    }
}

impl From<FieldPath<'_>> for String {
    fn from(path: FieldPath<'_>) -> String {
        path.to_string()
    }
}

impl From<&FieldPath<'_>> for String {
    fn from(path: &FieldPath<'_>) -> String {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_print_fields_indices_and_keys() {
        let root = FieldPath::Root;
        let (spec, meta) = (root.field("spec"), root.field("metadata"));
        let (list, labels) = (spec.field("list"), meta.field("labels"));
        assert_eq!(list.index(3).to_string(), "spec.list[3]");
        assert_eq!(labels.key("a/b").to_string(), "metadata.labels[a/b]");
        assert_eq!(root.to_string(), "<nil>");
    }
}
