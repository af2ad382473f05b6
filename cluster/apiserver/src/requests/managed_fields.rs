//! Who owns which field after a create, update or patch. Server-side apply settles that itself.

use cluster_patch::{Elsewhere, UpdateOptions, Versions, managed_in, track_update_in};
use cluster_schema::Schema;
use serde_json::Value;

use crate::kinds::kind::Call;
use crate::kinds::registry::Role;
use crate::kinds::{conversion, metadata};
use crate::state::context::Context;
use crate::state::pending_write::Write;
use crate::wire::status::Status;

/// The metadata of a deletion that the client has not sent. The object keeps them, but their owners lose them
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/registry/rest/update.go).
pub(crate) fn unstated(sent: &Value) -> Vec<&'static str> {
    let mut fields = vec!["deletionTimestamp", "deletionGracePeriodSeconds"];
    fields.retain(|field| sent.pointer(&format!("/metadata/{field}")).is_none_or(Value::is_null));
    fields
}

/// The versions of a kind, for managers who have written in another one. A version that the definition of a custom resource
/// does not have is refused in the words of apiextensions-apiserver v0.35 `pkg/apiserver/conversion/converter.go`; of any
/// other kind it counts as the version of the request: an Event is written in two groups.
pub(crate) struct KindVersions<'a>(pub(crate) &'a Context);

impl KindVersions<'_> {
    fn version_of(&self, api_version: &str) -> Option<&str> {
        let known = self.0.served.info().version_of(api_version);
        let is_custom = self.0.served.role == Role::Custom;
        known.or_else(|| (!is_custom).then(|| self.0.version()))
    }
}

impl Versions for KindVersions<'_> {
    async fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let Some(version) = self.version_of(api_version) else {
            return Err(format!(
                "request to convert CR to an invalid group/version: {api_version}"
            ));
        };
        let converted = match self.0.served.role {
            Role::Custom => {
                conversion::convert_value_unpruned(&self.0.server.network, &self.0.served, object.clone(), version)
                    .await
            }
            _ => conversion::convert_value(&self.0.server.network, &self.0.served, object.clone(), version).await,
        };
        converted.map_err(|status| status.message().to_owned())
    }

    fn schema(&self, api_version: &str) -> Schema {
        let version = self.version_of(api_version);
        let schema = version.and_then(|version| self.0.served.kind.schema(version));
        schema.unwrap_or_else(Schema::any)
    }
}

/// Restores the times of managed fields if nothing else has changed: a nil list of Go that became an empty one is no change
/// of what is stored, only of its owners
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go).
pub(crate) fn keep_times(object: &mut Value, old: &Value) {
    let changed = |object: &Value| Some(object.pointer("/metadata/managedFields")?.as_array()?.clone());
    let (Some(now), Some(before)) = (changed(object), changed(old)) else {
        return;
    };
    let only_times =
        now.len() == before.len() && now.iter().zip(&before).all(|(one, other)| alike(one, other, &["time"]));
    if now == before || !only_times || !alike(object, old, &["metadata"]) {
        return;
    }
    if alike(
        &object["metadata"],
        &old["metadata"],
        &["managedFields", "resourceVersion"],
    ) {
        object["metadata"]["managedFields"] = before.into();
    }
}

/// Whether two objects are the same but for some fields.
fn alike(one: &Value, other: &Value, but: &[&str]) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return false;
    };
    let counts = |name: &str| !but.contains(&name);
    let same = one
        .iter()
        .filter(|(name, _)| counts(name))
        .all(|(name, value)| other.get(name) == Some(value));
    same && other.keys().all(|name| !counts(name) || one.contains_key(name))
}

impl Write<'_> {
    /// Makes the client the owner of what it changed of `old`. Both are in the working version, ownership is in the client's.
    /// Metadata that are [`unstated`] count as removed.
    ///
    /// Before admission and `prepare`: what those fill in has no owner, and a later apply that does not name it leaves it
    /// (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/endpoints/handlers/{create,update,patch}.go).
    pub(crate) async fn track_change(
        &self,
        call: &Call<'_>,
        old: &Value,
        object: &mut Value,
        unstated: &[&str],
    ) -> Result<(), Status> {
        if self.manager.is_none() {
            return Ok(());
        }
        let (served, version) = (&self.context.served, self.context.version());
        let mut requested = object.clone();
        if call.subresource.is_none() {
            metadata::of_mut(&mut requested)?.retain(|field, _| !unstated.contains(&field.as_str()));
        }
        // Only `prepare` knows which fields a subresource other than `status` cannot change: these get no owner.
        if call.subresource.is_some_and(|name| name != "status") {
            served.kind.prepare(call, &mut requested, Some(old));
        }
        let converted;
        let mut before = old;
        if version != self.context.working_version() {
            requested = served.kind.convert(requested, version)?;
            converted = served.kind.convert(old.clone(), version)?;
            before = &converted;
        }
        let elsewhere = self.elsewhere(before, &requested).await;
        self.track_in(Some(before), &mut requested, &elsewhere);
        let managed = metadata::of_mut(&mut requested)?.remove("managedFields");
        let metadata = metadata::of_mut(object)?;
        match managed {
            Some(managed) => metadata.insert("managedFields".to_owned(), managed),
            None => metadata.remove("managedFields"),
        };
        Ok(())
    }

    /// Records in `object` what the client wrote. Both are in the client's version.
    pub(crate) fn track(&self, old: Option<&Value>, object: &mut Value) {
        self.track_in(old, object, &[]);
    }

    /// The change in the versions in which other managers have written, which may have other fields.
    async fn elsewhere(&self, old: &Value, object: &Value) -> Vec<Elsewhere> {
        let (context, served) = (self.context, &self.context.served);
        let mut elsewhere = Vec::new();
        let own = served.info().api_version(context.version());
        let versions = KindVersions(context);
        for api_version in managed_in(&[old, object], &own) {
            if served.role != Role::Custom && served.info().version_of(&api_version).is_none() {
                continue;
            }
            let convert = async |object: &Value| {
                let mut object = object.clone();
                if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.remove("managedFields");
                }
                versions.convert(&object, &api_version).await.ok()
            };
            let states = match (convert(old).await, convert(object).await) {
                (Some(before), Some(after)) => Some((before, after)),
                _ => None,
            };
            elsewhere.push(Elsewhere {
                states,
                schema: versions.schema(&api_version),
                api_version,
            });
        }
        elsewhere
    }

    fn track_in(&self, old: Option<&Value>, object: &mut Value, elsewhere: &[Elsewhere]) {
        let Some(manager) = &self.manager else { return };
        let context = self.context;
        let schema = context.served.kind.schema(context.version());
        let options = UpdateOptions {
            manager,
            subresource: context.subresource().unwrap_or_default(),
            time: context.now,
            api_version: &context.served.info().api_version(context.version()),
        };
        track_update_in(old, object, options, &schema.unwrap_or_else(Schema::any), elsewhere);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::keep_times;

    #[test]
    fn times_are_restored_if_nothing_else_has_changed() {
        let object = |version: &str, time: &str, fields: &str, data: u8| {
            let entry = json!({"manager": "m", "operation": "Update", "time": time, "fieldsV1": {fields: {}}});
            json!({"metadata": {"name": "a", "resourceVersion": version, "managedFields": [entry]}, "data": data})
        };
        let old = object("1", "then", "f:data", 1);
        for (new, expected) in [
            (object("", "now", "f:data", 1), "then"),
            (object("", "now", "f:data", 2), "now"),
            (object("", "now", "f:other", 1), "now"),
        ] {
            let mut tracked = new.clone();
            keep_times(&mut tracked, &old);
            assert_eq!(tracked["metadata"]["managedFields"][0]["time"], expected, "{new}");
        }
    }
}
