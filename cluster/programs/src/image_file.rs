//! The file that maps images to programs: read once, strictly, into values that need no further validation. It never looks for
//! the programs themselves: they may be built later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use api_meta::Fault;
use cluster_node::ReferencePattern;
use serde_json::{Map, Value};

use crate::BuildSignal;

/// The fields of a mapping.
const FIELDS: [&str; 5] = ["image", "command", "args", "env", "workingDir"];
/// Mappings of one file at most: each container that starts looks through all.
const MAPPINGS_MAX: usize = 1000;

/// Which images are programs.
#[derive(Clone, Debug)]
pub struct ImageFile {
    /// Where it was read from, absolute.
    pub path: PathBuf,
    /// The mappings; the first whose pattern matches counts.
    pub mappings: Vec<Mapping>,
}

/// A program that some images stand for.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Where it stands, as in `images[0]`.
    pub place: String,
    /// The images.
    pub pattern: ReferencePattern,
    /// The program and its first arguments, in the place of the image's entry point. Words that begin with `./` or `../`
    /// are absolute by now.
    pub command: Vec<String>,
    /// Arguments before the container's own.
    pub args: Vec<String>,
    /// The image's environment; variables of the container win.
    pub env: BTreeMap<String, String>,
    /// The image's working folder, absolute.
    pub working_dir: Option<PathBuf>,
    /// Announces a new program, where its builder's end is known.
    pub built: BuildSignal,
}

impl ImageFile {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong: the error names the field, what stands there and what is allowed.
    pub fn read(path: &Path) -> Result<Self, Fault> {
        let shown = path.display();
        let unreadable = |error: std::io::Error| {
            Fault::user(format!("the image file {shown} cannot be read: {error}"))
                .hint("name a YAML file with --images, with a list `images` of mappings from image to command")
        };
        let path = std::path::absolute(path).map_err(unreadable)?;
        let text = std::fs::read_to_string(&path).map_err(unreadable)?;
        Self::parse(&text, path)
            .map_err(|wrong| Fault::user(format!("the image file {shown} is wrong: {}", wrong.what)).hint(wrong.hint))
    }

    /// The file with these mappings before its own.
    ///
    /// # Errors
    /// A mapping would never be reached because of one before it.
    pub fn with_first(self, first: Vec<Mapping>) -> Result<Self, Fault> {
        let mappings = first.into_iter().chain(self.mappings).collect::<Vec<_>>();
        refuse_unreached(&mappings).map_err(|wrong| Fault::user(wrong.what).hint(wrong.hint))?;
        Ok(Self { mappings, ..self })
    }

    fn parse(text: &str, path: PathBuf) -> Result<Self, Wrong> {
        let value: Value =
            base_yaml::read_strict(text).map_err(|error| Wrong::new(error.to_string(), "fix the YAML"))?;
        let Value::Object(top) = value else {
            return Err(wrong_type("the file", &value, "a mapping with the field images"));
        };
        only(&top, "", &["images"])?;
        let Some(Value::Array(items)) = top.get("images") else {
            let found = top.get("images").unwrap_or(&Value::Null);
            return Err(wrong_type("images", found, "a list of mappings"));
        };
        if items.is_empty() {
            return Err(Wrong::new(
                "images is empty: it maps nothing",
                "add a mapping with image and command, or leave --images out",
            ));
        }
        if items.len() > MAPPINGS_MAX {
            let what = format!("images has {} mappings; at most {MAPPINGS_MAX} are read", items.len());
            return Err(Wrong::new(
                what,
                "let one pattern stand for several images, as in example.org/acme/*",
            ));
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        let mappings = items.iter().enumerate();
        let mappings = mappings.map(|(number, item)| Mapping::parse(item, format!("images[{number}]"), folder));
        let mappings = mappings.collect::<Result<Vec<_>, _>>()?;
        refuse_unreached(&mappings)?;
        Ok(ImageFile { path, mappings })
    }
}

impl Mapping {
    fn parse(item: &Value, place: String, folder: &Path) -> Result<Self, Wrong> {
        let Value::Object(fields) = item else {
            return Err(wrong_type(&place, item, "a mapping with the fields image and command"));
        };
        only(fields, &place, &FIELDS)?;
        let at = |field: &str| format!("{place}.{field}");
        let image = text(fields, "image", &place)?.ok_or_else(|| missing(&at("image"), "example.org/acme/*"))?;
        let pattern = ReferencePattern::parse(&image).map_err(|error| {
            Wrong::new(
                format!("{} is {image:?}: {error}", at("image")),
                "write another pattern",
            )
        })?;
        let example = "[\"./bin/manager\"]";
        let command = words(fields, "command", &place)?.ok_or_else(|| missing(&at("command"), example))?;
        if command.first().is_none_or(String::is_empty) {
            let what = format!("{} names no program", at("command"));
            return Err(Wrong::new(what, format!("begin it with a program, as in {example}")));
        }
        let working_dir = text(fields, "workingDir", &place)?;
        if working_dir.as_deref() == Some("") {
            return Err(Wrong::new(
                format!("{} is empty", at("workingDir")),
                "name a folder, or leave the field out",
            ));
        }
        Ok(Mapping {
            pattern,
            command: command
                .into_iter()
                .enumerate()
                .map(|(number, word)| resolved(word, folder, number == 0))
                .collect(),
            args: words(fields, "args", &place)?.unwrap_or_default(),
            env: variables(fields, &place)?,
            working_dir: working_dir.map(|working_dir| plain(&folder.join(working_dir))),
            built: BuildSignal::default(),
            place,
        })
    }
}

/// What is wrong, and one thing to do.
struct Wrong {
    what: String,
    hint: String,
}

impl Wrong {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Wrong {
            what: what.into(),
            hint: hint.into(),
        }
    }
}

fn missing(field: &str, example: &str) -> Wrong {
    Wrong::new(format!("{field} is missing"), format!("set it, as in {example}"))
}

fn wrong_type(field: &str, found: &Value, wanted: &str) -> Wrong {
    let found = match found {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        value => value.to_string(),
    };
    Wrong::new(format!("{field} is {found}"), format!("{field} must be {wanted}"))
}

/// Refuses fields that are not known: a misspelt one would silently be ignored.
fn only(fields: &Map<String, Value>, place: &str, known: &[&str]) -> Result<(), Wrong> {
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) => {
            let place = if place.is_empty() { "the file" } else { place };
            let known = known.join(", ");
            Err(Wrong::new(
                format!("{place} has a field {field:?}; known are {known}"),
                "take the field out, or write it as one of those",
            ))
        }
    }
}

fn text(fields: &Map<String, Value>, field: &str, place: &str) -> Result<Option<String>, Wrong> {
    match fields.get(field) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(found) => Err(wrong_type(
            &format!("{place}.{field}"),
            found,
            "a text; put it in quotes",
        )),
    }
}

fn words(fields: &Map<String, Value>, field: &str, place: &str) -> Result<Option<Vec<String>>, Wrong> {
    let field_at = format!("{place}.{field}");
    match fields.get(field) {
        None => Ok(None),
        Some(Value::Array(items)) => {
            let words = items.iter().enumerate().map(|(number, item)| match item {
                Value::String(word) if !word.contains('\0') => Ok(word.clone()),
                found => Err(wrong_type(
                    &format!("{field_at}[{number}]"),
                    found,
                    "a text; put it in quotes",
                )),
            });
            words.collect::<Result<_, _>>().map(Some)
        }
        Some(found) => Err(wrong_type(
            &field_at,
            found,
            "a list of texts, as in [\"./bin/manager\", \"--flag\"]",
        )),
    }
}

fn variables(fields: &Map<String, Value>, place: &str) -> Result<BTreeMap<String, String>, Wrong> {
    let field = format!("{place}.env");
    match fields.get("env") {
        None => Ok(BTreeMap::new()),
        Some(Value::Object(variables)) => {
            let variables = variables.iter().map(|(name, value)| {
                if name.is_empty() || name.contains(['=', '\0']) {
                    let what = format!("{field} has a variable {name:?}");
                    return Err(Wrong::new(what, "name it with letters, digits and _"));
                }
                match value {
                    Value::String(value) if !value.contains('\0') => Ok((name.clone(), value.clone())),
                    // Without the value: it may be a password.
                    _ => Err(Wrong::new(
                        format!("{field}.{name} is not a text"),
                        "put the value in quotes",
                    )),
                }
            });
            variables.collect()
        }
        Some(found) => Err(wrong_type(&field, found, "a mapping from names to texts")),
    }
}

/// Refuses mappings that are never reached, because of one before them.
fn refuse_unreached(mappings: &[Mapping]) -> Result<(), Wrong> {
    for (number, later) in mappings.iter().enumerate() {
        let earlier = mappings[..number]
            .iter()
            .find(|earlier| earlier.pattern.includes(&later.pattern));
        let Some(earlier) = earlier else { continue };
        let (first, second) = (&earlier.place, &later.place);
        let (what, hint) = if earlier.pattern == later.pattern {
            (
                format!("{second} maps {} again, which {first} maps already", later.pattern),
                "leave one of them out".to_owned(),
            )
        } else {
            (
                format!(
                    "{second} maps {}, which is never looked at: {first} before it maps {}",
                    later.pattern, earlier.pattern
                ),
                format!("put {second} before {first}: the first mapping that matches counts"),
            )
        };
        return Err(Wrong::new(what, hint));
    }
    Ok(())
}

/// A word of a command: what begins with `./` or `../` is relative to the file, and the program itself if it is no bare
/// name, which is looked for in PATH.
fn resolved(word: String, folder: &Path, program: bool) -> String {
    let relative = word.starts_with("./") || word.starts_with("../") || (program && word.contains('/'));
    match relative {
        true => plain(&folder.join(&word)).to_string_lossy().into_owned(),
        false => word,
    }
}

/// A path without `.` in it; `..` stays, because a link may stand before it.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ImageFile, String> {
        let parsed = ImageFile::parse(text, PathBuf::from("/project/images.yaml"));
        parsed.map_err(|wrong| format!("{}; {}", wrong.what, wrong.hint))
    }

    #[test]
    fn a_mapping_is_read_with_paths_relative_to_the_file() {
        let file = parse(
            "images:\n\
             - image: example.org/acme/*\n  command: [./bin/manager, -v, ../conf, bin/x]\n  args: [--leader-elect=false]\n  \
             env: {LOG: debug}\n  workingDir: run\n\
             - {image: sh, command: [sh]}\n- {image: x, command: [bin/x]}\n",
        )
        .unwrap();
        let [first, second, third] = &file.mappings[..] else {
            panic!("three mappings")
        };
        assert_eq!(
            first.command,
            ["/project/bin/manager", "-v", "/project/../conf", "bin/x"]
        );
        assert_eq!(first.args, ["--leader-elect=false"]);
        assert_eq!(first.env["LOG"], "debug");
        assert_eq!(first.working_dir.as_deref(), Some(Path::new("/project/run")));
        assert_eq!(third.command, ["/project/bin/x"]);
        assert_eq!(
            (second.place.as_str(), second.command.as_slice()),
            ("images[1]", &["sh".to_owned()][..])
        );
    }

    #[test]
    fn an_error_names_field_value_what_is_allowed_and_what_to_do() {
        for (text, error) in [
            ("images: [", "line 1"),
            (
                "[]",
                "the file is a list; the file must be a mapping with the field images",
            ),
            ("image: []", "the file has a field \"image\"; known are images; take"),
            ("images: {}", "images is a mapping; images must be a list of mappings"),
            ("images: []", "images is empty: it maps nothing; add a mapping"),
            ("images: [x]", "images[0] is \"x\"; images[0] must be a mapping"),
            (
                "images: [{command: [a]}]",
                "images[0].image is missing; set it, as in example.org/acme/*",
            ),
            (
                "images: [{image: a}]",
                "images[0].command is missing; set it, as in [\"./bin/manager\"]",
            ),
            (
                "images: [{image: a, command: []}]",
                "images[0].command names no program; begin it with a program, as in [\"./bin/manager\"]",
            ),
            (
                "images: [{image: a, command: ['']}]",
                "images[0].command names no program",
            ),
            (
                "images: [{image: a, command: a}]",
                "images[0].command is \"a\"; images[0].command must be a list of texts",
            ),
            (
                "images: [{image: a, command: [1]}]",
                "images[0].command[0] is 1; images[0].command[0] must be a text",
            ),
            (
                "images: [{image: a, command: [a], arg: []}]",
                "images[0] has a field \"arg\"; known are image, command",
            ),
            (
                "images: [{image: 'a b', command: [a]}]",
                "images[0].image is \"a b\": ' ' stands in no image reference",
            ),
            (
                "images: [{image: a/, command: [a]}]",
                "an image pattern has an empty part",
            ),
            (
                "images: [{image: a, command: [a], env: {A: 1}}]",
                "images[0].env.A is not a text; put",
            ),
            (
                "images: [{image: a, command: [a], env: {'A=B': x}}]",
                "images[0].env has a variable \"A=B\"",
            ),
            (
                "images: [{image: a, command: [a], workingDir: ''}]",
                "images[0].workingDir is empty",
            ),
            (
                "images: [{image: a, command: [a]}, {image: a, command: [b]}]",
                "images[1] maps a again, which images[0] maps already; leave one of them out",
            ),
            (
                "images: [{image: x/*, command: [a]}, {image: x/b, command: [b]}]",
                "images[1] maps x/b, which is never looked at: images[0] before it maps x/*; put images[1] before images[0]",
            ),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(error), "{text}: {message}");
        }
    }

    #[test]
    fn no_error_quotes_a_value_of_the_environment() {
        let error = parse("images: [{image: a, command: [a], env: {A: [hunter2]}}]").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
