//! One macro for strings of which some values are known. It never refuses a value: other writers may be newer.

/// Defines an enum whose JSON form is a string, with a variant `Other` that keeps every value not listed.
///
/// A closed enum would make a whole object unreadable because of one new value; validation names what is allowed.
/// The default is the empty string (Go's zero value).
#[macro_export]
macro_rules! string_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[allow(unreachable_pub, reason = "the caller chooses the visibility")]
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name {
            $($(#[$variant_meta])* $variant,)+
            /// A value this version does not know, kept as it was read.
            Other(String),
        }

        #[allow(unreachable_pub, reason = "the caller chooses the visibility")]
        impl $name {
            /// Every value this version knows, in order of declaration.
            pub const KNOWN: &'static [&'static str] = &[$($text),+];

            /// The text of the JSON form.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)+
                    Self::Other(text) => text,
                }
            }

            /// False for `Other`.
            pub fn is_known(&self) -> bool {
                !matches!(self, Self::Other(_))
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::from("")
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)+
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::from(text.as_str())
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::private::serde::Serialize for $name {
            fn serialize<S: $crate::private::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> $crate::private::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::private::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as $crate::private::serde::Deserialize>::deserialize(deserializer).map(Self::from)
            }
        }

        impl $crate::private::schemars::JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut $crate::private::schemars::SchemaGenerator) -> $crate::private::schemars::Schema {
                $crate::private::schemars::json_schema!({"type": "string"})
            }
        }
    };
}

#[cfg(test)]
mod tests {
    string_enum! {
        /// Colours of a lamp.
        pub enum Lamp {
            /// Stop.
            Red = "red",
            /// Go.
            Green = "green",
        }
    }

    #[test]
    fn known_and_unknown_words_come_back_as_they_came() {
        for text in [r#""red""#, r#""green""#, r#""amber""#, r#""""#, r#""Red""#] {
            let lamp: Lamp = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&lamp).unwrap(), text);
        }
        assert_eq!(Lamp::from("red"), Lamp::Red);
        assert!(!Lamp::from("amber").is_known());
        assert_eq!(Lamp::KNOWN, ["red", "green"]);
        assert_eq!(Lamp::default().as_str(), "");
    }
}
