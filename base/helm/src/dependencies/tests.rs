//! Limits on charts under aliases. Which dependencies are enabled is compared with Helm in `tests/helm`.

use crate::chart::File;
use crate::values::coalesce_values;

use super::*;

fn file(name: &str, text: impl Into<String>) -> File {
    File {
        name: name.to_owned(),
        data: text.into().into_bytes().into(),
    }
}

fn described(folder: &str, name: &str, more: &str) -> File {
    let text = format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n{more}");
    file(&format!("{folder}Chart.yaml"), text)
}

/// Dependencies on a chart, each under another alias and with `more` about it.
fn aliases(of: &str, count: usize, more: &str) -> String {
    let wanted = (0..count).map(|number| format!("- {{name: {of}, version: 1.0.0, alias: {of}{number}{more}}}\n"));
    format!("dependencies:\n{}", wanted.collect::<String>())
}

fn processed(files: Vec<File>) -> Result<Chart, DependencyError> {
    let mut chart = Chart::from_files(files).expect("it is a chart");
    process_dependencies(&mut chart, &Values::new())?;
    Ok(chart)
}

fn problem(files: Vec<File>) -> String {
    processed(files).expect_err("it is too much").to_string()
}

#[test]
fn one_chart_under_many_aliases_shares_its_files() {
    let readme = file("charts/b/README.md", "x".repeat(1 << 20));
    let chart = processed(vec![
        described("", "a", &aliases("b", 1_000, "")),
        described("charts/b/", "b", ""),
        readme,
    ]);
    let chart = chart.expect("there are not too many");
    assert_eq!(chart.count(), 1_001);
    let [first, .., last] = chart.dependencies.as_slice() else {
        panic!("there are many");
    };
    assert_eq!(last.metadata.name, "b999");
    assert!(Arc::ptr_eq(&first.files, &last.files));
}

#[test]
fn charts_in_a_chart_are_counted_with_their_aliases() {
    let error = problem(vec![
        described("", "a", &aliases("b", 1_001, "")),
        described("charts/b/", "b", ""),
    ]);
    assert_eq!(
        error,
        "chart a has 1001 dependencies in Chart.yaml, at most 1000 are allowed"
    );
    let error = problem(vec![
        described("", "a", &aliases("b", 600, "")),
        described("charts/b/", "b", &aliases("c", 1, "")),
        described("charts/b/charts/c/", "c", ""),
    ]);
    let allowed = "charts in it, those under aliases among them, at most 1000 are allowed";
    assert_eq!(error, format!("chart a has 1002 {allowed}"));
    // Each has the next one twice.
    let mut folder = String::new();
    let mut files = Vec::new();
    for level in 0..16 {
        files.push(described(
            &folder,
            &format!("n{level}"),
            &aliases(&format!("n{}", level + 1), 2, ""),
        ));
        folder += &format!("charts/n{}/", level + 1);
    }
    files.push(described(&folder, "n16", ""));
    let error = problem(files);
    assert!(
        error.starts_with("chart n0 has ") && error.ends_with(allowed),
        "{error}"
    );
    let many = (0..1_001).map(|number| described(&format!("charts/{number}/"), "b", ""));
    let error = problem(many.chain([described("", "a", "")]).collect());
    assert_eq!(error, format!("chart a has 1001 {allowed}"));
}

#[test]
fn copies_for_aliases_have_a_limit() {
    let megabyte = "x".repeat(1 << 20);
    for large in [
        file("charts/b/templates/t.yaml", megabyte.clone()),
        file("charts/b/values.yaml", format!("a: {megabyte}\n")),
        file("charts/b/crds/c.yaml", megabyte.clone()),
        described("charts/b/", "b", &format!("description: {megabyte}\n")),
    ] {
        let name = large.name.clone();
        let of = |count: usize| {
            vec![
                described("", "a", &aliases("b", count, "")),
                described("charts/b/", "b", ""),
                large.clone(),
            ]
        };
        assert!(processed(of(90)).is_ok(), "{name}");
        let error = problem(of(110));
        assert!(
            error.contains("chart b10") && error.contains("copies of more than 104857600 bytes"),
            "{name}: {error}"
        );
    }
    // The last one has no alias.
    let wanted = aliases("b", 2, "") + "- {name: b, version: 1.0.0}\n";
    let error = problem(vec![
        described("", "a", &wanted),
        described("charts/b/", "b", ""),
        file("charts/b/templates/t.yaml", megabyte.repeat(60)),
    ]);
    assert!(error.starts_with("chart b: charts under aliases"), "{error}");
}

#[test]
fn values_that_are_imported_again_and_again_have_a_limit() {
    let imports = |count: usize| {
        let imports = (0..count).map(|number| format!("{{child: d, parent: p{number}}}"));
        let imports = imports.collect::<Vec<_>>().join(",");
        vec![
            described("", "a", &aliases("b", 1, &format!(", import-values: [{imports}]"))),
            described("charts/b/", "b", ""),
            file("charts/b/values.yaml", format!("d: {{a: {}}}\n", "x".repeat(1 << 20))),
        ]
    };
    let chart = processed(imports(50)).expect("that is not too much");
    assert_eq!(chart.values.len(), 51);
    assert!(problem(imports(110)).starts_with("chart a: charts under aliases, imported values"));
}

#[test]
fn globals_of_many_charts_have_a_limit() {
    let inner = (0..110).map(|number| described(&format!("charts/{number}/"), &format!("b{number}"), ""));
    let files = inner.chain([described("", "a", "")]);
    let chart = Chart::from_files(files.collect()).expect("it is a chart");
    let globals = |bytes: usize| {
        let values = json!({"global": {"a": "x".repeat(bytes)}});
        values.as_object().cloned().unwrap_or_default()
    };
    assert!(coalesce_values(&chart, &globals(1 << 19)).is_ok());
    let result = coalesce_values(&chart, &globals(1 << 20)).map_err(|why| why.to_string());
    assert!(result.is_err_and(|error| error.contains("copies of more than")));
}
