//! What an apply gives up, in the steps of structured-merge-diff v6 `merge/update.go` (prune, addBackOwnedItems,
//! addBackDanglingItems), each of them in one version. The rest is described by its fields, of which an empty set has none.

use cluster_schema::Schema;
use serde_json::Value;

use crate::set::FieldSet;
use crate::typed::{fields_of, remove, with_named_parents};

/// An object from which something is taken away.
pub(crate) struct Whole<'w> {
    schema: Option<&'w Schema>,
    value: &'w Value,
    fields: FieldSet,
}

impl<'w> Whole<'w> {
    pub(crate) fn new(schema: Option<&'w Schema>, value: &'w Value) -> Self {
        let fields = named(schema, value);
        Self { schema, value, fields }
    }

    /// What is left of it, and what these fields own.
    pub(crate) fn with_owned(&self, left: &Value, owned: &FieldSet) -> Value {
        let retained = named(self.schema, left).union(&with_named_parents(self.schema, owned));
        remove(self.schema, self.value, &self.fields.difference(&retained))
    }

    /// The same without what is missing in `left`, as far as it was the applier's, with the declared fields above: no other
    /// manager can lose anything.
    pub(crate) fn without_lost(&self, left: &Value, mine: &FieldSet) -> Value {
        let gone = self.fields.difference(&named(self.schema, left));
        remove(self.schema, self.value, &gone.intersection(mine))
    }
}

/// The fields of a value with the declared ones above them.
fn named(schema: Option<&Schema>, value: &Value) -> FieldSet {
    with_named_parents(schema, &fields_of(schema, value).below)
}
