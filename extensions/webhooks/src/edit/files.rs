//! Files and units of an OperatingSystemConfig.

use api_extensions::{File, FileContentInline, Unit};
use api_meta::Fault;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::pods::put;
use crate::refusal::Refusal;

/// Content in base64 (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_operatingsystemconfig.go).
pub const BASE64: &str = "b64";
/// Content as it is.
pub const PLAIN: &str = "";

/// The file at a path.
pub fn file<'a>(files: &'a mut [File], path: &str) -> Option<&'a mut File> {
    files.iter_mut().find(|file| file.path == path)
}

/// Puts a file in the place of the one at its path, or behind the others.
pub fn ensure_file(files: &mut Vec<File>, file: File) {
    put(files, file, |one| one.path.as_str());
}

/// Takes the file at a path away.
pub fn remove_file(files: &mut Vec<File>, path: &str) {
    files.retain(|file| file.path != path);
}

/// The unit of a name.
pub fn unit<'a>(units: &'a mut [Unit], name: &str) -> Option<&'a mut Unit> {
    units.iter_mut().find(|unit| unit.name == name)
}

/// Puts a unit in the place of the one of its name, or behind the others.
pub fn ensure_unit(units: &mut Vec<Unit>, unit: Unit) {
    put(units, unit, |one| one.name.as_str());
}

/// Takes the unit of a name away.
pub fn remove_unit(units: &mut Vec<Unit>, name: &str) {
    units.retain(|unit| unit.name != name);
}

/// The text of a file.
///
/// # Errors
/// An encoding that Gardener does not know, or content that is not of it or not UTF-8.
pub fn text_of(content: &FileContentInline) -> Result<String, Refusal> {
    let unreadable = |why: String| {
        Refusal::from(
            Fault::dependency(format!("the content of a file cannot be read: {why}")).hint(format!(
                "write it with encoding {BASE64:?} or {PLAIN:?}, as the field encoding declares"
            )),
        )
    };
    match content.encoding.as_str() {
        PLAIN => Ok(content.data.clone()),
        BASE64 => {
            let bytes = STANDARD.decode(content.data.as_bytes());
            let bytes = bytes.map_err(|error| unreadable(error.to_string()))?;
            String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))
        }
        other => Err(unreadable(format!(
            "encoding {other:?} is none of {PLAIN:?}, {BASE64:?}"
        ))),
    }
}

/// Content of this text, in an encoding: [`BASE64`] or, for all others, plain.
#[must_use]
pub fn inline(text: &str, encoding: &str) -> FileContentInline {
    match encoding {
        BASE64 => FileContentInline {
            encoding: BASE64.to_owned(),
            data: STANDARD.encode(text),
        },
        _ => FileContentInline {
            encoding: PLAIN.to_owned(),
            data: text.to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_read_in_its_encoding_and_written_so() {
        for encoding in [PLAIN, BASE64] {
            assert_eq!(text_of(&inline("ä\n", encoding)).unwrap(), "ä\n");
        }
        assert_eq!(inline("a", BASE64).data, "YQ==");
        let of = |encoding: &str, data: &str| FileContentInline {
            encoding: encoding.to_owned(),
            data: data.to_owned(),
        };
        for (content, why) in [
            (of("gzip", "x"), "encoding \"gzip\" is none of"),
            (of(BASE64, "!"), "Invalid symbol"),
            (of(BASE64, "/w=="), "invalid utf-8"),
        ] {
            let refusal = text_of(&content).unwrap_err();
            assert!(refusal.to_string().contains(why), "{refusal}");
        }
    }

    #[test]
    fn files_and_units_are_found_replaced_and_removed() {
        let new_file = |path: &str, permissions| File {
            path: path.to_owned(),
            permissions,
            ..File::default()
        };
        let mut files = vec![new_file("/a", None), new_file("/b", None)];
        ensure_file(&mut files, new_file("/a", Some(0o644)));
        ensure_file(&mut files, new_file("/c", None));
        remove_file(&mut files, "/b");
        let paths: Vec<_> = files
            .iter()
            .map(|file| (file.path.as_str(), file.permissions))
            .collect();
        assert_eq!(paths, [("/a", Some(0o644)), ("/c", None)]);
        assert!(file(&mut files, "/c").is_some() && file(&mut files, "/b").is_none());

        let new_unit = |name: &str, enable| Unit {
            name: name.to_owned(),
            enable,
            ..Unit::default()
        };
        let mut units = vec![new_unit("a", None)];
        ensure_unit(&mut units, new_unit("a", Some(true)));
        ensure_unit(&mut units, new_unit("b", None));
        assert_eq!(unit(&mut units, "a").unwrap().enable, Some(true));
        remove_unit(&mut units, "a");
        assert_eq!(units, [new_unit("b", None)]);
    }
}
