//! One macro that makes a plain struct a Kubernetes kind. It never holds state: kinds stay `{metadata, spec, status}`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};

/// Where a kind lives, as constants. Implemented by [`kind!`](crate::kind!).
pub trait Kind {
    /// API group; empty for Kubernetes' core group.
    const GROUP: &'static str;
    /// Version within the group.
    const VERSION: &'static str;
    /// `<group>/<version>`.
    const API_VERSION: &'static str;
    /// CamelCase name.
    const KIND: &'static str;
    /// Name in URLs.
    const PLURAL: &'static str;
    /// Whether objects live in namespaces.
    const NAMESPACED: bool;
}

/// Whether a field is left out of the JSON form.
pub trait Blank {
    /// True for `None` and for empty collections.
    fn is_blank(&self) -> bool;
}

impl<T> Blank for Option<T> {
    fn is_blank(&self) -> bool {
        self.is_none()
    }
}

impl<T> Blank for Vec<T> {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }
}

impl<K, V> Blank for BTreeMap<K, V> {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Blank for BTreeSet<T> {
    fn is_blank(&self) -> bool {
        self.is_empty()
    }
}

/// For `deserialize_with`: `null` is the empty list, map or text, as in Go.
pub fn or_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Writes a number as Go does: `-1` and not `-1.0`.
///
/// # Errors
/// Those of the serializer.
pub fn go_number<S: serde::Serializer>(number: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    /// Every whole number up to here is one `f64` and one `i64`.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    match number {
        None => serializer.serialize_none(),
        Some(number) if number.fract() == 0.0 && number.abs() <= EXACT_MAX =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "whole and within bounds")]
            serializer.serialize_i64(*number as i64)
        }
        Some(number) => serializer.serialize_f64(*number),
    }
}

/// Writes an empty map as Go writes one that was never made: `null`.
///
/// # Errors
/// Those of the serializer.
pub fn null_if_empty<S: serde::Serializer, T: serde::Serialize>(
    map: &std::collections::BTreeMap<String, T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    if map.is_empty() {
        serializer.serialize_none()
    } else {
        serializer.collect_map(map)
    }
}

/// Makes a struct a kind: implements `kube_core::Resource`, [`Kind`] and `Serialize` (with `apiVersion` and `kind`).
///
/// `kind!(Shoot, "core.gardener.cloud", "v1beta1", "shoots", Namespaced, { metadata, spec } optional { status });`
/// All fields must be named. Optional ones are left out when blank; `field = "jsonName"` where the JSON name differs.
#[macro_export]
macro_rules! kind {
    ($name:ident, $group:literal, $version:literal, $plural:literal, $scope:ident,
     { $($field:ident $(= $json:literal)?),+ $(,)? } optional { $($blank:ident $(= $blank_json:literal)?),* $(,)? }) => {
        impl $crate::Kind for $name {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const KIND: &'static str = stringify!($name);
            const PLURAL: &'static str = $plural;
            const NAMESPACED: bool = $crate::kind!(@namespaced $scope);
        }

        impl $crate::private::kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = $crate::kind!(@scope $scope);

            fn kind(_: &()) -> ::std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }
            fn group(_: &()) -> ::std::borrow::Cow<'_, str> {
                $group.into()
            }
            fn version(_: &()) -> ::std::borrow::Cow<'_, str> {
                $version.into()
            }
            fn plural(_: &()) -> ::std::borrow::Cow<'_, str> {
                $plural.into()
            }
            fn meta(&self) -> &$crate::private::kube_core::ObjectMeta {
                &self.metadata
            }
            fn meta_mut(&mut self) -> &mut $crate::private::kube_core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl $crate::private::serde::Serialize for $name {
            fn serialize<S: $crate::private::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use $crate::private::serde::ser::SerializeStruct;
                let Self { $($field,)+ $($blank),* } = self;
                let fields = 2 $(+ $crate::kind!(@count $field))+ $(+ $crate::kind!(@count $blank))*;
                let mut object = serializer.serialize_struct(stringify!($name), fields)?;
                object.serialize_field("apiVersion", concat!($group, "/", $version))?;
                object.serialize_field("kind", stringify!($name))?;
                $(object.serialize_field($crate::kind!(@json $field $($json)?), $field)?;)+
                $(if $crate::Blank::is_blank($blank) {
                    object.skip_field($crate::kind!(@json $blank $($blank_json)?))?;
                } else {
                    object.serialize_field($crate::kind!(@json $blank $($blank_json)?), $blank)?;
                })*
                object.end()
            }
        }
    };
    (@count $field:ident) => { 1 };
    (@json $field:ident) => { stringify!($field) };
    (@json $field:ident $json:literal) => { $json };
    (@scope Namespaced) => { $crate::private::k8s_openapi::NamespaceResourceScope };
    (@scope Cluster) => { $crate::private::k8s_openapi::ClusterResourceScope };
    (@namespaced Namespaced) => { true };
    (@namespaced Cluster) => { false };
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use kube_core::Resource;
    use serde::Deserialize;

    use super::*;
    use crate::RawJson;

    #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Box_ {
        metadata: ObjectMeta,
        handler: String,
        provider_config: Option<RawJson>,
        #[serde(deserialize_with = "or_empty")]
        quotas: Vec<String>,
    }

    kind!(Box_, "core.example.org", "v1", "boxes", Cluster, { metadata, handler } optional { provider_config = "providerConfig", quotas });

    #[test]
    fn a_kind_writes_its_type_and_leaves_blank_fields_out() {
        let text = r#"{"apiVersion":"core.example.org/v1","kind":"Box_","metadata":{"name":"b"},"handler":""}"#;
        let object: Box_ = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&object).unwrap(), text);
        assert_eq!(Box_::url_path(&(), None), "/apis/core.example.org/v1/boxes");
        assert_eq!(Box_::API_VERSION, "core.example.org/v1");
        let with_null: Box_ = serde_json::from_str(r#"{"quotas":null,"providerConfig":{"a": 1}}"#).unwrap();
        assert!(
            serde_json::to_string(&with_null)
                .unwrap()
                .ends_with(r#""handler":"","providerConfig":{"a": 1}}"#)
        );
    }
}
