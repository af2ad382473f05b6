//! Removes what an apply no longer has, in the steps of structured-merge-diff v6 `merge/update.go` (prune, addBackOwnedItems,
//! addBackDanglingItems), each of them in one version. The rest is described by its fields, of which an empty set has none.

use cluster_schema::Schema;
use serde_json::Value;

use crate::set::FieldSet;
use crate::typed::{fields_of, remove, with_named_parents};

/// An object from which fields are removed.
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

    /// What is left of it, and the owned fields.
    pub(crate) fn with_owned(&self, left: &Value, owned: &FieldSet) -> Value {
        let retained = named(self.schema, left).union(&with_named_parents(self.schema, owned));
        remove(self.schema, self.value, &self.fields.difference(&retained))
    }

    /// The object without what is missing in `left` and was the applier's (its fields with the declared ones above them): no
    /// other manager loses anything.
    pub(crate) fn without_lost(&self, left: &Value, last_owned: &FieldSet) -> Value {
        let lost = self.fields.difference(&named(self.schema, left));
        remove(self.schema, self.value, &lost.intersection(last_owned))
    }
}

/// The fields of a value with the declared ones above them.
fn named(schema: Option<&Schema>, value: &Value) -> FieldSet {
    with_named_parents(schema, &fields_of(schema, value).below)
}
