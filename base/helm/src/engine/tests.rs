//! What the cases of `tests/helm` do not cover: many renders of one engine, and hostile charts.

use std::sync::Arc;
use std::thread;

use base_clock::Entropy;
use base_gotemplate::{LimitError, Limits};
use serde_json::json;

use super::{Engine, RenderError, Setting};
use crate::Chart;
use crate::chart::File;
use crate::values::Values;

fn chart(templates: &[(&str, &str)]) -> Chart {
    // If two files have one name, the later counts.
    let described = ("Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n");
    let files = [&described].into_iter().chain(templates).map(|(name, text)| File {
        name: (*name).to_owned(),
        data: text.as_bytes().into(),
    });
    Chart::from_files(files.collect()).expect("it is a chart")
}

fn values(of: serde_json::Value) -> Values {
    of.as_object().cloned().unwrap_or_default()
}

fn made(engine: &Engine, chart: &Chart, of: serde_json::Value) -> Result<String, RenderError> {
    let rendered = engine.render(chart, &values(of), &Setting::default())?;
    Ok(rendered.texts.into_values().collect())
}

#[test]
fn templates_are_compiled_once_for_all_values() {
    let engine = Engine::default();
    let one = chart(&[("templates/t.yaml", "a: {{ .Values.a }}")]);
    let other = chart(&[("templates/t.yaml", "b: {{ .Values.a }}")]);
    for number in 0..3 {
        let values = json!({"a": number});
        assert_eq!(made(&engine, &one, values.clone()).ok(), Some(format!("a: {number}")));
        assert_eq!(made(&engine, &other, values).ok(), Some(format!("b: {number}")));
    }
    assert_eq!(engine.compiled.len(), 2);
}

#[test]
fn random_values_come_from_the_entropy() {
    let chart = chart(&[("templates/t.yaml", "a: {{ randAlphaNum 40 }}")]);
    let drawn = |engine: Engine| made(&engine, &chart, json!({})).expect("it renders");
    let seeded = |number| Engine::default().with_entropy(Entropy::seeded(number));
    assert_eq!(drawn(seeded(1)), drawn(seeded(1)));
    assert_ne!(drawn(seeded(1)), drawn(seeded(2)));
    assert_ne!(drawn(Engine::default()), drawn(Engine::default()));
}

#[test]
fn many_render_at_once_and_see_only_their_own_changes() {
    let engine = Arc::new(Engine::default());
    let text = "{{ $_ := set .Values \"seen\" (add1 (default 0 .Values.seen)) }}a: {{ .Values.seen }} {{ .Values.a }}";
    let chart = Arc::new(chart(&[("templates/t.yaml", text)]));
    let threads = (0..4).map(|number| {
        let (engine, chart) = (Arc::clone(&engine), Arc::clone(&chart));
        thread::spawn(move || {
            for _ in 0..20 {
                let output = made(&engine, &chart, json!({"a": number})).ok();
                assert_eq!(output, Some(format!("a: 1 {number}")));
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().expect("it renders");
    }
}

#[test]
fn templates_of_a_chart_share_their_limits() {
    let limits = Limits {
        steps_max: 10_000,
        output_bytes_max: 5_000,
        ..Limits::default()
    };
    let engine = Engine::new(limits);
    let busy = "{{ range until 2000 }}{{ end }}";
    let long = "a: {{ repeat 2000 \"x\" }}";
    for (text, is_met) in [
        (
            busy,
            (|limit| matches!(limit, LimitError::Steps(10_000))) as fn(&LimitError) -> bool,
        ),
        (long, |limit| matches!(limit, LimitError::Output(_))),
    ] {
        assert!(
            made(&engine, &chart(&[("templates/a.yaml", text)]), json!({})).is_ok(),
            "{text}"
        );
        let names = [
            "templates/a.yaml",
            "templates/b.yaml",
            "templates/c.yaml",
            "templates/d.yaml",
        ];
        let error = made(&engine, &chart(&names.map(|name| (name, text))), json!({}));
        assert!(
            matches!(&error, Err(RenderError::Limit { limit, .. }) if is_met(limit)),
            "{error:?}"
        );
    }
}

#[test]
fn values_that_templates_put_into_themselves_are_printed_as_an_error() {
    let text = "{{ $_ := set .Values \"me\" .Values }}{{ toYaml .Values }}";
    let error = made(&Engine::default(), &chart(&[("templates/t.yaml", text)]), json!({}));
    assert!(matches!(error, Err(RenderError::Limit { .. })), "{error:?}");
}

#[test]
fn values_that_hold_one_thing_many_times_are_not_written() {
    let double =
        "{{ $a := dict }}{{ range 60 }}{{ $a = dict \"x\" $a \"y\" $a }}{{ end }}{{ $_ := set .Values \"a\" $a }}";
    for end in ["{{ .Values.YAML }}", "{{ toYaml .Values }}"] {
        let chart = chart(&[("templates/t.yaml", &format!("{double}{end}"))]);
        let error = made(&Engine::default(), &chart, json!({}));
        assert!(matches!(error, Err(RenderError::Limit { .. })), "{end}: {error:?}");
    }
}

#[test]
fn repeated_file_globs_reach_the_step_limit() {
    let files: Vec<(String, String)> = (0..1_000)
        .map(|number| (format!("f/{number}"), String::new()))
        .collect();
    let files = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let text = "{{ range 1000 }}{{ $_ := $.Files.Glob \"none\" }}{{ end }}";
    let chart = chart(&files.chain([("templates/t.yaml", text)]).collect::<Vec<_>>());
    let limits = Limits {
        steps_max: 200_000,
        ..Limits::default()
    };
    let error = made(&Engine::new(limits), &chart, json!({}));
    assert!(
        matches!(
            &error,
            Err(RenderError::Limit {
                limit: LimitError::Steps(_),
                ..
            })
        ),
        "{error:?}"
    );
}

#[test]
fn a_chart_under_two_aliases_has_files_and_own_values_in_both() {
    let wanted = "dependencies:\n- {name: b, version: 1.0.0, alias: c}\n- {name: b, version: 1.0.0, alias: d}\n";
    let described = format!("apiVersion: v2\nname: a\nversion: 1.0.0\n{wanted}");
    let text = "{{ .Chart.Name }}: {{ .Files.Get \"f\" }} {{ .Values.a }}\n";
    let schema = "{\"properties\": {\"a\": {\"type\": \"integer\"}}}";
    let chart = chart(&[
        ("Chart.yaml", &described),
        ("charts/b/Chart.yaml", "apiVersion: v2\nname: b\nversion: 1.0.0\n"),
        ("charts/b/f", "file"),
        ("charts/b/values.schema.json", schema),
        ("charts/b/templates/t.yaml", text),
    ]);
    let engine = Engine::default();
    for number in 0..3 {
        let output = made(&engine, &chart, json!({"c": {"a": number}, "d": {"a": 7}})).ok();
        assert_eq!(output, Some(format!("c: file {number}\nd: file 7\n")));
    }
    assert_eq!(engine.schemas.len(), 1);
    let result = made(&engine, &chart, json!({"c": {"a": "x"}})).map_err(|error| error.to_string());
    assert!(result.is_err_and(|result| result.contains("c:\n- at '/a'")));
}

fn with_schema(schema: &str, of: serde_json::Value) -> Option<String> {
    let chart = chart(&[("values.schema.json", schema)]);
    let error = made(&Engine::default(), &chart, of).err()?;
    Some(error.to_string())
}

#[test]
fn schema_error_names_the_place_in_the_values() {
    let schema = "{\"properties\": {\"image\": {\"required\": [\"tag\"]}}}";
    let error = with_schema(schema, json!({"image": {}})).unwrap_or_default();
    let head = "values don't meet the specifications of the schema(s) in the following chart(s):\na:\n- at '/image': ";
    assert!(error.starts_with(head), "{error}");
}

#[test]
fn schema_validation_fetches_no_reference_and_terminates() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let file = folder.path().join("s.json");
    std::fs::write(&file, "true").expect("the file is written");
    for reference in [format!("file://{}", file.display()), "http://127.0.0.1:1/s".to_owned()] {
        let error = with_schema(&json!({"$ref": reference}).to_string(), json!({})).unwrap_or_default();
        assert!(error.contains("values.schema.json is no schema"), "{error}");
    }
    // References to themselves, and schemas that nest too deep.
    assert_eq!(with_schema("{\"$ref\": \"#\"}", json!({"a": 1})), None);
    let nested = "{\"not\":".repeat(100) + "{}" + &"}".repeat(100);
    assert!(with_schema(&nested, json!({})).is_some_and(|error| error.contains("nests more than")));
}
