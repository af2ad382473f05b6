//! What templates ask a cluster for, where they are rendered without one and find nothing. Told from a rendering, not from
//! the templates' text: what is not reached is not told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base_gotemplate::Lookup;
use serde_json::Value;

use super::{Finding, Severity};
use crate::values::Values;
use crate::{Chart, Engine, RenderError, Setting};

/// The place of what `tpl` executes begins so.
const TPL: &str = "gotpl:";
/// So many are told with their places, each of which takes a rendering more.
const TOLD_MAX: usize = 8;

/// So much of a name is told: it is made by a template, and may be anything.
const WORD_CHARACTERS_MAX: usize = 80;
/// So many different questions are kept.
const DIFFERENT_MAX: usize = 1000;

/// What is asked for: version, kind, namespace and name.
type Asked = [String; 4];

/// What a rendering asks for.
#[derive(Default)]
struct Seen {
    /// How often something was asked for
    count: usize,
    /// What, with the number of the first question
    asked: BTreeMap<Asked, usize>,
    /// The number of the question that is refused
    refused: Option<usize>,
}

/// A cluster in which nothing is, and which notes what it is asked for.
#[derive(Clone, Default)]
struct Nothing(Arc<Mutex<Seen>>);

impl Nothing {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lookup for Nothing {
    fn lookup(&mut self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Option<Value>, String> {
        let mut seen = self.seen();
        let number = seen.count;
        if seen.refused == Some(number) {
            return Err("nothing is there".to_owned());
        }
        seen.count += 1;
        // Words are cut, as they are told.
        let asked = [api_version, kind, namespace, name].map(|word| word.chars().take(WORD_CHARACTERS_MAX).collect());
        if seen.asked.len() < DIFFERENT_MAX {
            seen.asked.entry(asked).or_insert(number);
        }
        Ok(None)
    }
}

/// Where templates look something up, each thing once. Nothing if the chart cannot be rendered.
pub fn lookups(engine: &Engine, chart: &Chart, values: &Values, setting: &Setting) -> Vec<Finding> {
    let cluster = Nothing::default();
    let render = || engine.render_with(chart, values, setting, Some(Box::new(cluster.clone())));
    if render().is_err() {
        return Vec::new();
    }
    let asked = std::mem::take(&mut *cluster.seen()).asked;
    let mut findings = Vec::new();
    for (asked, number) in asked.into_iter().take(TOLD_MAX) {
        *cluster.seen() = Seen {
            refused: Some(number),
            ..Seen::default()
        };
        // An error tells where it happened.
        if let Err(RenderError::Template(why)) = render() {
            findings.push(finding(&asked, &why));
        }
    }
    findings
}

fn finding(asked: &Asked, why: &str) -> Finding {
    // `template: PLACE: executing "x" at <...>: error calling include: template: PLACE: ...`, as Go says it.
    let places = why
        .split("template: ")
        .filter_map(|said| Some(said.split_once(": executing ")?.0));
    let places: Vec<&str> = places.collect();
    // What `tpl` executes stands in no file.
    let inner = places.iter().rev().find(|place| !place.starts_with(TPL));
    let (outer, place) = (places.first(), inner.copied().unwrap_or_default());
    let file = outer.and_then(|outer| outer.split(':').next()).unwrap_or_default();
    let asked = asked.each_ref().map(|word| format!("{word:?}")).join(" ");
    Finding {
        file: file.to_owned(),
        severity: Severity::Warning,
        object: None,
        message: format!("`lookup {asked}` at {place} finds nothing: the chart is rendered without a cluster"),
        hint: "let what it looks for come from values, or from an object that a controller makes",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{TOLD_MAX, lookups};
    use crate::chart::File;
    use crate::{Chart, Engine, Setting};

    fn told(templates: &[(&str, &str)], many: bool) -> Vec<(String, String)> {
        let described = ("Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n");
        let files = [&described].into_iter().chain(templates).map(|(name, text)| File {
            name: (*name).to_owned(),
            data: text.as_bytes().into(),
        });
        let chart = Chart::from_files(files.collect()).expect("it is a chart");
        let values = json!({"many": many}).as_object().cloned().unwrap_or_default();
        let findings = lookups(&Engine::default(), &chart, &values, &Setting::default());
        findings
            .into_iter()
            .map(|finding| (finding.file, finding.message))
            .collect()
    }

    #[test]
    fn what_is_looked_up_is_told_once_with_its_place_if_it_is_reached() {
        let templates = [
            (
                "templates/_secret.tpl",
                "{{- define \"secret\" }}\n{{- lookup \"v1\" \"Secret\" .Release.Namespace \"a\" | len }}{{ end }}",
            ),
            (
                "templates/a.yaml",
                "a: {{ include \"secret\" . }}\nb: {{ include \"secret\" . }}\n",
            ),
            (
                "templates/b.yaml",
                "{{ if .Values.many }}{{ range until 20 }}{{ $_ := lookup \"v1\" \"Node\" \"\" (print .) }}{{ end }}{{ end }}",
            ),
        ];
        let secret = "`lookup \"v1\" \"Secret\" \"\" \"a\"` at a/templates/_secret.tpl:2:4 finds nothing: the chart is rendered without a cluster";
        assert_eq!(
            told(&templates, false),
            [("a/templates/a.yaml".to_owned(), secret.to_owned())]
        );
        assert_eq!(told(&templates, true).len(), TOLD_MAX);
        assert_eq!(told(&templates[..1], true), []);
        assert_eq!(told(&[("templates/a.yaml", "{{ fail \"no\" }}")], true), []);
    }
}
