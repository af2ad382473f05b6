//! What values need from their schema to become values of CEL. A field tree implements it; this crate has none.

/// The schema of a value, as far as rules need it.
pub trait ValueSchema {
    /// The JSON type (`object`, `array`, `string`, `integer`, `number`, `boolean`); empty where the schema has none.
    fn type_name(&self) -> &'static str;

    /// The format of a plain text (`date-time`, `duration`, `byte`, ...), which gives it a type of its own.
    fn text_format(&self) -> Option<&str>;

    /// Whether it is an object whose keys are data, not names of fields.
    fn is_map(&self) -> bool;

    /// The schema of a field or of a map's entry.
    fn field(&self, name: &str) -> Option<&dyn ValueSchema>;

    /// The schema of the items of a list.
    fn items(&self) -> Option<&dyn ValueSchema>;
}
