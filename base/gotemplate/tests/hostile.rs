//! Templates and values made to harm: each ends soon with Go's answer or with the limit that it met, and none runs out of
//! stack or memory.

use std::sync::Arc;

use base_gotemplate::{Context, Error, Functions, LimitError, Limits, MissingKey, PrintError, Set, Value};

fn render(text: &str, limits: Limits) -> Result<String, Error> {
    let functions = Functions::new().with_sprig().with_helm();
    let mut set = Set::new("t", Arc::new(functions), MissingKey::Zero);
    set.parse("t", text.as_bytes())?;
    let data = Value::map([("a", Value::int(1))]);
    let mut context = Context { limits, host: &mut () };
    let output = Arc::new(set).render("t", data, &mut context)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Smaller than what holds by default, so that the tests end soon in a build without optimisation.
fn small_limits() -> Limits {
    Limits {
        steps_max: 2_000_000,
        output_bytes_max: 4 << 20,
        string_bytes_max: 1 << 20,
        ..Limits::default()
    }
}

fn limit_of(text: &str) -> Option<LimitError> {
    match render(text, small_limits()) {
        Err(Error::Limit { limit, .. }) => Some(limit),
        _ => None,
    }
}

#[test]
fn parentheses_and_blocks_nest_as_deep_as_go_lets_them() {
    let parentheses = |depth: usize| format!("{{{{{}1{}}}}}", "(".repeat(depth), ")".repeat(depth));
    assert_eq!(render(&parentheses(10_000), Limits::default()).as_deref(), Ok("1"));
    assert_eq!(
        render(&parentheses(10_001), Limits::default()),
        Err(Error::Parse("template: t:1: max expression depth exceeded".to_owned()))
    );
    let blocks = "{{if .a}}".repeat(50_000) + "x" + &"{{end}}".repeat(50_000);
    assert_eq!(render(&blocks, Limits::default()).as_deref(), Ok("x"));
    let chain = "{{if not .a}}".to_owned() + &"{{else if not .a}}".repeat(50_000) + "{{else}}y{{end}}";
    assert_eq!(render(&chain, Limits::default()).as_deref(), Ok("y"));
    // The message shows all of it.
    let deep = "(".repeat(9_000) + ".a.b" + &")".repeat(9_000);
    let error = render(&format!("{{{{print {deep}}}}}"), Limits::default());
    assert!(matches!(error, Err(Error::Exec(why)) if why.to_string().contains("can't evaluate field b")));
}

#[test]
fn a_template_that_executes_itself_ends_where_go_ends_it() {
    let error = render(
        "{{define \"x\"}}{{template \"x\" .}}{{end}}{{template \"x\" .}}",
        Limits::default(),
    );
    let said = error.map_err(|error| error.to_string());
    assert_eq!(
        said,
        Err(
            "template: t:1:25: executing \"x\" at <{{template \"x\" .}}>: exceeded maximum template depth (100000)"
                .to_owned()
        )
    );
    assert_eq!(
        limit_of(
            "{{range 100000}}{{include \"y\" .}}{{end}}{{define \"y\"}}{{include \"z\" .}}{{end}}{{define \"z\"}}{{include \"y\" .}}{{end}}"
        ),
        Some(LimitError::Depth(2_000))
    );
}

#[test]
fn loops_without_end_meet_the_limit_of_steps() {
    let limits = Limits {
        steps_max: 100_000,
        ..Limits::default()
    };
    let error = render("{{range 9223372036854775807}}{{end}}", limits);
    assert_eq!(
        error.map_err(|error| error.to_string()),
        Err("template: t: execution takes more than 100000 steps, at most these are made".to_owned())
    );
}

#[test]
fn texts_that_double_meet_a_limit() {
    assert!(matches!(
        limit_of("{{$x := \"0123456789\"}}{{range 64}}{{$x = print $x $x}}{{end}}"),
        Some(LimitError::Value(PrintError::TooLong { .. }))
    ));
    assert!(matches!(
        limit_of("{{$x := list 1}}{{range 64}}{{$x = list $x $x}}{{end}}{{$x}}"),
        Some(LimitError::Value(PrintError::TooLong { .. }) | LimitError::Output(_) | LimitError::Steps(_))
    ));
    assert!(matches!(
        limit_of("{{range 1000}}{{printf \"%999999d\" 1}}{{end}}"),
        Some(LimitError::Output(_))
    ));
    assert!(matches!(
        limit_of(&("{{printf \"".to_owned() + &"%999999d".repeat(4) + "\"" + &" 1".repeat(4) + "}}")),
        Some(LimitError::Value(PrintError::TooLong { .. }))
    ));
}

#[test]
fn values_that_hold_themselves_or_nest_without_end_are_not_printed() {
    let limit = Some(LimitError::Value(PrintError::TooDeep));
    assert_eq!(limit_of("{{set . \"self\" .}}"), limit);
    assert_eq!(
        limit_of("{{$x := list 1}}{{range 100000}}{{$x = list $x}}{{end}}{{$x}}"),
        limit
    );
    // Not printed, it is dropped.
    let nested = "{{$x := list 1}}{{range 100000}}{{$x = list $x}}{{end}}ok";
    assert_eq!(render(nested, Limits::default()).as_deref(), Ok("ok"));
}

#[test]
fn errors_inside_included_templates_name_every_step() {
    let error = render(
        "{{define \"x\"}}{{.a.b}}{{end}}\n{{ include \"x\" . | print }}",
        Limits::default(),
    );
    assert_eq!(
        error.map_err(|error| error.to_string()),
        Err("template: t:2:3: executing \"t\" at <include \"x\" .>: error calling include: template: t:1:18: executing \"x\" at <.a.b>: can't evaluate field b in type interface {}".to_owned())
    );
}

#[test]
fn one_set_renders_for_many_threads() {
    let mut set = Set::new("t", Arc::new(Functions::new()), MissingKey::Zero);
    set.parse("t", b"{{range 100}}{{.}}{{end}}{{.n}}")
        .expect("it is a template");
    let set = Arc::new(set);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let set = Arc::clone(&set);
            scope.spawn(move || {
                let mut context = Context {
                    limits: Limits::default(),
                    host: &mut (),
                };
                let data = Value::map([("n", Value::int(number))]);
                let output = set.render("t", data, &mut context).expect("it renders");
                assert!(output.ends_with(format!("99{number}").as_bytes()));
            });
        }
    });
}

#[test]
fn regular_expressions_that_explode_meet_a_limit() {
    for text in [
        "{{regexMatch (repeat 1000 \"(a\") \"a\"}}",
        "{{regexMatch (repeat 100000 \"a\") \"a\"}}",
        "{{regexMatch \"((\\\\pL{30}){30})+\" \"a\"}}",
        "{{regexMatch \"(.{1000}|a)b\" (repeat 1000000 \"a\")}}",
    ] {
        assert_eq!(limit_of(text), Some(LimitError::Regex), "{text}");
    }
    let replaced = limit_of("{{regexReplaceAll \"a\" (repeat 100000 \"a\") (repeat 100 \"b\")}}");
    assert!(matches!(replaced, Some(LimitError::Value(_))), "{replaced:?}");
}
