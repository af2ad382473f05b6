//! Server-side apply to an object that others, or the applier itself earlier, manage in other versions of its kind: what
//! they own is determined in theirs. After structured-merge-diff v6 `merge/update.go` and apimachinery v0.35
//! `pkg/util/managedfields/internal/versionconverter.go`.

use std::collections::BTreeMap;
use std::future::Future;

use cluster_schema::Schema;
use serde_json::Value;

use crate::apply::{Apply, ApplyOptions};
use crate::error::PatchError;
use crate::misfit::misfits;
use crate::prune::Whole;
use crate::set::FieldSet;
use crate::typed::{Difference, compare, remove, with_named_parents};

/// The versions of a kind.
pub trait Versions: Sync {
    /// The object in that version. Errors: why it cannot be converted.
    fn convert(&self, object: &Value, api_version: &str) -> impl Future<Output = Result<Value, String>> + Send;

    /// The fields of that version.
    fn schema(&self, api_version: &str) -> Schema;
}

/// As [`crate::server_side_apply`], where managers may have written in any version of the kind.
///
/// Errors: those of [`crate::server_side_apply`]; [`PatchError::Failed`] when the object cannot be converted to a version.
pub async fn server_side_apply_in<V: Versions>(
    live: Option<&Value>,
    applied: &Value,
    options: ApplyOptions<'_>,
    schema: &Schema,
    versions: &V,
) -> Result<Value, PatchError> {
    let apply = Apply::begin(live, applied, options, schema)?;
    if apply.is_of_one_version() {
        let merged = apply.pruned();
        return apply.end(merged, &BTreeMap::new());
    }
    let across = Across { versions };
    let merged = across.pruned(&apply).await.map_err(PatchError::Failed)?;
    let others = across.differences(&apply, &merged).await.map_err(PatchError::Failed)?;
    apply.end(merged, &others)
}

/// Prunes and compares across versions.
struct Across<'a, V> {
    versions: &'a V,
}

impl<V: Versions> Across<'_, V> {
    /// The object in that version, with no field that it does not have.
    async fn typed(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        if object.get("apiVersion").and_then(Value::as_str) == Some(api_version) {
            return Ok(object.clone());
        }
        let converted = self.versions.convert(object, api_version).await?;
        match misfits(&self.versions.schema(api_version), &converted) {
            Some(why) => Err(why),
            None => Ok(converted),
        }
    }

    /// The merged object without fields that the applier applied last time, no longer applies and no other manager owns, in the
    /// version of the request.
    async fn pruned(&self, apply: &Apply<'_>) -> Result<Value, String> {
        let failed = |why: String| format!("failed to prune fields: {why}");
        let Some(last) = apply.last().filter(|last| !last.fields.is_empty()) else {
            return Ok(apply.merged().clone());
        };
        let merged = self.typed(apply.merged(), &last.api_version).await;
        let merged = merged.map_err(|why| {
            failed(format!(
                "failed to convert merged object to last applied version: {why}"
            ))
        })?;
        let schema = self.versions.schema(&last.api_version);
        let schema = Some(&schema);
        let last_owned = with_named_parents(schema, &last.fields);
        let mut pruned = remove(schema, &merged, &last_owned);
        let mut owned = apply.owned_by_version();
        // Removed fields may be needed to convert the rest.
        let first = owned.remove_entry(last.api_version.as_str());
        for (api_version, fields) in first.into_iter().chain(owned) {
            let added = self.with_owned(&merged, &pruned, api_version, &fields).await;
            pruned = added.map_err(|why| failed(format!("failed add back owned items: {why}")))?;
        }
        let pruned = self.typed(&pruned, &last.api_version).await.map_err(|why| {
            let why = format!("failed to convert pruned object to last applied version: {why}");
            failed(format!("failed add back dangling items: {why}"))
        })?;
        let pruned = Whole::new(schema, &merged).without_lost(&pruned, &last_owned);
        self.typed(&pruned, apply.api_version()).await.map_err(failed)
    }

    /// The pruned object with what these fields of a version own, in that version.
    async fn with_owned(
        &self,
        merged: &Value,
        pruned: &Value,
        api_version: &str,
        owned: &FieldSet,
    ) -> Result<Value, String> {
        let failed =
            |what: &str, why: String| format!("failed to convert {what} object at version {api_version}: {why}");
        let whole = self
            .typed(merged, api_version)
            .await
            .map_err(|why| failed("merged", why))?;
        let rest = self
            .typed(pruned, api_version)
            .await
            .map_err(|why| failed("pruned", why))?;
        let schema = self.versions.schema(api_version);
        Ok(Whole::new(Some(&schema), &whole).with_owned(&rest, owned))
    }

    /// The change in each of the versions of other managers.
    async fn differences(&self, apply: &Apply<'_>, merged: &Value) -> Result<BTreeMap<String, Difference>, String> {
        let mut differences = BTreeMap::new();
        for api_version in apply.foreign_versions() {
            let before = match apply.before() {
                Some(before) => Some(self.typed(before, &api_version).await?),
                None => None,
            };
            let after = self.typed(merged, &api_version).await;
            let after = after.map_err(|why| format!("failed to convert new object: {why}"))?;
            let schema = self.versions.schema(&api_version);
            differences.insert(api_version, compare(Some(&schema), before.as_ref(), &after));
        }
        Ok(differences)
    }
}
