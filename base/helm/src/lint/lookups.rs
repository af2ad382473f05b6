//! Reports the calls of `lookup` in a chart that is rendered without a cluster, which find nothing. They are recorded while
//! it is rendered: a lookup that is not reached is not reported.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base_gotemplate::{Lookup, Place};
use serde_json::Value;

use super::{Finding, Severity};
use crate::values::Values;
use crate::{Chart, Engine, RenderError, Rendered, Setting};

/// Maximum number of reported places: a reader needs no more.
const PLACES_MAX: usize = 1000;
/// Maximum number of counted lookups after the first of a place, at all places together: templates compute the names, and may
/// compute any number of them.
const OTHERS_MAX: usize = 1000;
/// Length to which a name is cut, for the same reason.
const WORD_CHARACTERS_MAX: usize = 80;

/// What is looked up: version, kind, namespace and name, each cut to that length.
type Query<'a> = [Cow<'a, str>; 4];

/// The lookups of a rendering.
#[derive(Default)]
struct Seen {
    /// By the text and the byte in it where `lookup` is called
    places: BTreeMap<String, BTreeMap<usize, Lookups>>,
    /// How many places there are
    count: usize,
    /// How many queries are counted that are not the first of their place
    others: usize,
    /// The template that was executed when there were more places than are reported
    beyond: Option<String>,
}

/// The lookups at one place.
struct Lookups {
    /// The template that was executed
    file: String,
    /// The place, as errors name it
    place: String,
    first: Query<'static>,
    others: BTreeSet<Query<'static>>,
    /// Whether there were others that are not counted
    is_cut: bool,
}

impl Seen {
    /// Copies only what is new and reported: templates may look up millions of times.
    fn add(&mut self, place: &Place<'_>, lookup: [&str; 4]) {
        let there = self.places.get_mut(place.text());
        if let Some(lookups) = there.and_then(|there| there.get_mut(&place.offset())) {
            if lookups.is_cut || lookups.has(&lookup.map(cut)) {
                return;
            }
            if self.others == OTHERS_MAX {
                lookups.is_cut = true;
                return;
            }
            lookups.others.insert(lookup.map(owned));
            self.others += 1;
        } else if self.count == PLACES_MAX {
            self.beyond.get_or_insert_with(|| place.executed().lossy().into_owned());
        } else {
            let lookups = Lookups {
                file: place.executed().lossy().into_owned(),
                place: place.to_string(),
                first: lookup.map(owned),
                others: BTreeSet::new(),
                is_cut: false,
            };
            let there = self.places.entry(place.text().to_owned()).or_default();
            there.insert(place.offset(), lookups);
            self.count += 1;
        }
    }
}

impl Lookups {
    /// Whether this lookup is recorded already.
    fn has(&self, lookup: &Query<'_>) -> bool {
        // With the shorter lifetime of `lookup`.
        let others: &BTreeSet<Query<'_>> = &self.others;
        self.first == *lookup || others.contains(lookup)
    }
}

/// An empty cluster that records what is looked up.
#[derive(Clone, Default)]
struct EmptyCluster(Arc<Mutex<Seen>>);

impl EmptyCluster {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lookup for EmptyCluster {
    fn lookup(
        &mut self,
        place: &Place<'_>,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, String> {
        self.seen().add(place, [api_version, kind, namespace, name]);
        Ok(None)
    }
}

/// A word, cut to the reported length.
fn cut(word: &str) -> Cow<'_, str> {
    match word.char_indices().nth(WORD_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &word[..end]).into(),
        None => word.into(),
    }
}

fn owned(word: &str) -> Cow<'static, str> {
    cut(word).into_owned().into()
}

/// Renders a chart as [`Engine::render`] does, and reports where its templates call `lookup`: each place once, in the order of
/// the files, with the first query.
///
/// # Errors
/// As [`Engine::render`].
pub fn render(
    engine: &Engine,
    chart: &Chart,
    values: &Values,
    setting: &Setting,
) -> Result<(Rendered, Vec<Finding>), RenderError> {
    let cluster = EmptyCluster::default();
    let rendered = engine.render_with(chart, values, setting, Some(Box::new(cluster.clone())))?;
    let Seen { places, beyond, .. } = std::mem::take(&mut *cluster.seen());
    let namespace = &setting.release.namespace;
    let mut findings: Vec<Finding> = places
        .into_values()
        .flat_map(BTreeMap::into_values)
        .map(|lookups| lookups.finding(namespace))
        .collect();
    findings.extend(beyond.map(|file| {
        let message = format!("something is looked up at more than {PLACES_MAX} places: only that many are reported");
        finding(file, message)
    }));
    findings.sort_by(|one, other| one.file.cmp(&other.file));
    Ok((rendered, findings))
}

impl Lookups {
    /// `namespace` is that of the release.
    fn finding(self, namespace: &str) -> Finding {
        let [_, _, of, _] = &self.first;
        let mut words = self.first.each_ref().map(|word| format!("{word:?}"));
        if !of.is_empty() && of == namespace {
            // The name is a placeholder, which the reader does not know.
            words[2] = ".Release.Namespace".to_owned();
        }
        let others = match (self.others.len(), self.is_cut) {
            (0, false) => String::new(),
            (0, true) => " and more".to_owned(),
            (more, false) => format!(" and {more} more"),
            (more, true) => format!(" and at least {more} more"),
        };
        let finds = if others.is_empty() { "finds" } else { "find" };
        let (lookup, place) = (words.join(" "), self.place);
        let message =
            format!("`lookup {lookup}`{others} at {place} {finds} nothing: the chart is rendered without a cluster");
        finding(self.file, message)
    }
}

fn finding(file: String, message: String) -> Finding {
    Finding {
        file,
        severity: Severity::Warning,
        object: None,
        message,
        hint: "let what it looks for come from values, or from an object that a controller makes",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{OTHERS_MAX, PLACES_MAX, render};
    use crate::chart::File;
    use crate::render::Release;
    use crate::{Chart, Engine, Setting};

    fn findings_of(templates: &[(&str, &str)], many: usize) -> Vec<(String, String)> {
        let described = ("Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n");
        let files = [&described].into_iter().chain(templates).map(|(name, text)| File {
            name: (*name).to_owned(),
            data: text.as_bytes().into(),
        });
        let chart = Chart::from_files(files.collect()).expect("it is a chart");
        let values = json!({"many": many}).as_object().cloned().unwrap_or_default();
        let namespace = "made-up".to_owned();
        let release = Release {
            namespace,
            ..Release::default()
        };
        let setting = Setting {
            release,
            ..Setting::default()
        };
        let (_, findings) = render(&Engine::default(), &chart, &values, &setting).expect("it is rendered");
        let short = |message: &str| message.replace(": the chart is rendered without a cluster", "");
        findings
            .into_iter()
            .map(|finding| (finding.file, short(&finding.message)))
            .collect()
    }

    fn finding(file: &str, message: &str) -> (String, String) {
        (format!("a/templates/{file}"), message.to_owned())
    }

    const SECRET: (&str, &str) = (
        "templates/_secret.tpl",
        "{{- define \"secret\" }}\n{{- lookup \"v1\" \"Secret\" .Release.Namespace \"a\" | len }}{{ end }}",
    );
    const MANY: (&str, &str) = (
        "templates/b.yaml",
        "{{ range until (int .Values.many) }}{{ $_ := lookup \"v1\" \"Node\" \"\" (print .) }}{{ end }}",
    );

    #[test]
    fn each_reached_lookup_is_reported_once() {
        let templates = [
            SECRET,
            (
                "templates/a.yaml",
                "a: {{ include \"secret\" . }}\nb: {{ include \"secret\" . }}\n",
            ),
            MANY,
        ];
        let secret = "`lookup \"v1\" \"Secret\" .Release.Namespace \"a\"` at a/templates/_secret.tpl:2:4 finds nothing";
        assert_eq!(findings_of(&templates, 0), [finding("a.yaml", secret)]);
        let one = "`lookup \"v1\" \"Node\" \"\" \"0\"` at a/templates/b.yaml:1:45 finds nothing";
        assert_eq!(
            findings_of(&templates, 1),
            [finding("a.yaml", secret), finding("b.yaml", one)]
        );
        let many = "`lookup \"v1\" \"Node\" \"\" \"0\"` and 19 more at a/templates/b.yaml:1:45 find nothing";
        assert_eq!(
            findings_of(&templates, 20),
            [finding("a.yaml", secret), finding("b.yaml", many)]
        );
        assert_eq!(findings_of(&templates[..1], 1), []);
    }

    #[test]
    fn lookup_in_a_text_is_reported_where_the_text_is_executed() {
        let templates = [
            (
                "templates/c.yaml",
                "\n# {{ tpl \"{{ lookup `v1` `Node` `` `q` }}\" . }}",
            ),
            SECRET,
            ("templates/d.yaml", "# {{ tpl \"{{ include `secret` . }}\" . }}"),
        ];
        let text = "`lookup \"v1\" \"Node\" \"\" \"q\"` at a/templates/c.yaml:2:5 finds nothing";
        let secret = "`lookup \"v1\" \"Secret\" .Release.Namespace \"a\"` at a/templates/_secret.tpl:2:4 finds nothing";
        assert_eq!(
            findings_of(&templates, 0),
            [finding("c.yaml", text), finding("d.yaml", secret)]
        );
    }

    #[test]
    fn findings_over_the_limit_are_counted() {
        let findings = findings_of(&[MANY], OTHERS_MAX + 2);
        let many = format!(
            "`lookup \"v1\" \"Node\" \"\" \"0\"` and at least {OTHERS_MAX} more at a/templates/b.yaml:1:45 find nothing"
        );
        assert_eq!(findings, [finding("b.yaml", &many)]);

        let places = "{{ lookup `v1` `Node` `` `q` }}".repeat(PLACES_MAX + 1);
        let places = format!("# {places}");
        let findings = findings_of(&[("templates/c.yaml", &places)], 0);
        assert_eq!(findings.len(), PLACES_MAX + 1);
        let beyond = format!("something is looked up at more than {PLACES_MAX} places: only that many are reported");
        assert_eq!(findings.last(), Some(&finding("c.yaml", &beyond)));

        let long = "# {{ lookup `v1` `Node` `` (repeat 4000000 `é`) }}";
        let findings = findings_of(&[("templates/c.yaml", long)], 0);
        let word = "é".repeat(80);
        let cut = format!("`lookup \"v1\" \"Node\" \"\" \"{word}...\"` at a/templates/c.yaml:1:5 finds nothing");
        assert_eq!(findings, [finding("c.yaml", &cut)]);
    }
}
