//! Templates and values made to harm: each ends soon with Go's answer or with the limit that it met, and none runs out of
//! stack or memory.

use std::sync::Arc;

use base_clock::{Clock, Entropy};
use base_gotemplate::{
    Context, Error, Functions, Host, LimitError, Limits, MissingKey, Object, PrintError, Set, Shared, Value,
};

fn render(text: &str, limits: Limits) -> Result<String, Error> {
    let functions = Functions::new().with_sprig().with_helm();
    let mut set = Set::new("t", Arc::new(functions), MissingKey::Zero);
    set.parse("t", text.as_bytes())?;
    let data = Value::map([("a", Value::int(1))]);
    let mut context = Context { limits, host: &mut () };
    let output = Arc::new(set).render("t", data, &mut context)?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

/// Smaller than the defaults, so that the tests end soon in a build without optimisation.
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
    let result = error.map_err(|error| error.to_string());
    assert_eq!(
        result,
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

/// Is in a map as long as that map is in memory.
#[derive(Debug)]
struct Marker;

impl Object for Marker {
    fn type_name(&self) -> &'static str {
        "Marker"
    }
}

#[test]
fn maps_that_hold_themselves_are_freed_after_the_last_template() {
    let functions = Arc::new(Functions::new().with_sprig().with_helm());
    let held = "{{$d := dict \"m\" .m}}";
    for changes in [
        "{{$_ := set $d \"d\" $d}}",
        "{{$_ := set $d \"d\" (list 1 (dict \"d\" $d))}}",
        "{{$_ := merge $d (dict \"d\" $d)}}",
        "{{$_ := mergeOverwrite $d (dict \"d\" $d)}}",
        "{{$e := dict \"d\" $d}}{{$_ := set $d \"e\" $e}}",
        "{{tpl \"{{$_ := set .d \\\"d\\\" .}}\" (dict \"d\" $d)}}",
        "{{$_ := set $d \"d\" $d}}{{fail \"no\"}}",
        "{{$_ := set . \"self\" .}}",
    ] {
        let mut set = Set::new("t", Arc::clone(&functions), MissingKey::Zero);
        set.parse("t", format!("{held}{changes}").as_bytes())
            .expect("it is a template");
        set.parse("later", b"{{len .}}").expect("it is a template");
        let set = Arc::new(set);
        let marker: Arc<dyn Object> = Arc::new(Marker);
        let shared = Shared::default();
        let mut context = Context {
            limits: Limits::default(),
            host: &mut (),
        };
        let data = Value::map([("m", Value::Object(Arc::clone(&marker)))]);
        let first = set.render_among("t", data.clone(), &mut context, &shared);
        assert_eq!(first.is_ok(), !changes.contains("fail"), "{changes}: {first:?}");
        // What a template has changed is there for the next one.
        let count = if changes.contains("self") { b"2" } else { b"1" };
        let later = set.render_among("later", data, &mut context, &shared);
        assert_eq!(later.as_deref(), Ok(&count[..]), "{changes}");
        assert!(Arc::strong_count(&marker) > 1, "{changes}");
        drop(shared);
        assert_eq!(Arc::strong_count(&marker), 1, "{changes}");
    }
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

#[test]
fn searches_that_scan_far_beyond_each_match_reach_the_step_limit() {
    let limits = Limits {
        steps_max: 200_000,
        ..Limits::default()
    };
    let texts = "{{$a := repeat 30000 \"a\"}}{{$inside := repeat 30000 \"x\\u00e9\"}}";
    for end in [
        "{{regexFindAll \"a.*b|a\" $a -1}}",
        "{{regexSplit \"a.*b|a\" $a -1}}",
        "{{regexReplaceAll \"a.*b|a\" $a \"\"}}",
        "{{regexReplaceAllLiteral \"a.*b|a\" $a \"\"}}",
        // It matches between the bytes of runes alone, where no match is in Go.
        "{{regexMatch \"x[^b]*b|\\\\B\" $inside}}",
    ] {
        let error = render(&format!("{texts}{end}"), limits.clone()).err();
        let limit = LimitError::Steps(limits.steps_max);
        assert!(
            matches!(&error, Some(Error::Limit { limit: met, .. }) if *met == limit),
            "{end}: {error:?}"
        );
    }
    for (end, output) in [
        ("{{regexFindAll \"a+\" $x -1 | len}}", "30000"),
        ("{{regexReplaceAll \"a.*b|c\" $x \"\" | len}}", "60000"),
        ("{{regexSplit \"[^a]+\" $x -1 | len}}", "30001"),
    ] {
        let text = format!("{{{{$x := repeat 30000 \"aab \\n\"}}}}{end}");
        assert_eq!(render(&text, limits.clone()).as_deref(), Ok(output), "{end}");
    }
}

/// `$a` and `$b` of sixty levels, each of which holds the one below twice: 2^60 values for a function that visits each.
fn doubled(make: &str) -> String {
    let double = |name: &str| make.replace('@', name);
    format!(
        "{{{{$a := dict \"k\" (list 1)}}}}{{{{$b := dict \"k\" (list 1)}}}}{{{{range 60}}}}{}{}{{{{end}}}}",
        double("$a"),
        double("$b")
    )
}

#[test]
fn copies_and_merges_of_exponentially_nested_values_reach_the_step_limit() {
    let maps = doubled("{{@ = dict \"x\" @ \"y\" @}}");
    for end in [
        "{{deepCopy $a | len}}",
        "{{mustDeepCopy $a | len}}",
        "{{merge $a $b | len}}",
        "{{mustMergeOverwrite $a $b | len}}",
    ] {
        let limit = limit_of(&format!("{maps}{end}"));
        assert_eq!(limit, Some(LimitError::Steps(2_000_000)), "{end}");
    }
}

#[test]
fn printing_exponentially_nested_values_reaches_a_limit() {
    for make in ["{{@ = dict \"x\" @ \"y\" @}}", "{{@ = list @ @}}"] {
        for end in [
            "{{toYaml $a}}",
            "{{toYamlPretty $a}}",
            "{{toJson $a}}",
            "{{toString $a}}",
        ] {
            let limit = limit_of(&format!("{}{end}", doubled(make)));
            assert!(
                matches!(
                    limit,
                    Some(LimitError::Value(PrintError::TooLong { .. }) | LimitError::Steps(_))
                ),
                "{end}: {limit:?}"
            );
        }
    }
    // Each of these is short by itself, and 300 deep: all together are 100,000 spaces a hundred times.
    let indented = "{{$x := dict \"a\" 1}}{{range 300}}{{$x = dict \"a\" $x}}{{end}}{{list X | toYaml}}";
    let limit = limit_of(&indented.replace('X', &"$x ".repeat(100)));
    assert_eq!(
        limit,
        Some(LimitError::Value(PrintError::TooLong { bytes_max: 1 << 20 }))
    );
}

#[test]
fn exponentially_nested_values_are_compared_as_fast_as_in_go() {
    for make in ["{{@ = dict \"x\" @ \"y\" @}}", "{{@ = list @ @}}"] {
        let text = doubled(make)
            + "{{deepEqual $a $b}} {{has $a (list $b)}} {{without (list $a) $b}} {{uniq (list $a $b) | len}}";
        assert_eq!(render(&text, small_limits()).as_deref(), Ok("true true [] 1"), "{make}");
    }
}

#[test]
fn each_pair_that_is_compared_takes_a_step() {
    for text in [
        "{{uniq (until 100000)}}",
        "{{$l := until 100000}}{{range 100}}{{has -1 $l}}{{end}}",
        "{{$l := until 100000}}{{$m := until 100000}}{{range 100}}{{deepEqual $l $m}}{{end}}",
        "{{$l := list (repeat 1000000 \"a\") | toJson}}{{range 1000}}{{deepEqual $l (print $l)}}{{end}}",
    ] {
        assert_eq!(limit_of(text), Some(LimitError::Steps(2_000_000)), "{text}");
    }
}

#[test]
fn values_of_a_text_are_counted_before_they_are_made() {
    for read in ["fromJson", "mustFromJson", "fromJsonArray", "fromYamlArray"] {
        let text = format!("{{{{$x := print \"[\" (repeat 300000 \"{{}},\") \"0]\"}}}}{{{{$_ := {read} $x}}}}");
        assert_eq!(limit_of(&text), Some(LimitError::Steps(2_000_000)), "{read}");
    }
}

#[test]
fn parts_of_a_text_are_counted_before_they_are_made() {
    for call in [
        "splitList \"\" $x",
        "split \"\" $x",
        "splitn \"\" 3000000 $x",
        "split \"a\" $x",
    ] {
        let limits = Limits {
            steps_max: 1_500_000,
            ..Limits::default()
        };
        let error = render(
            &format!("{{{{$x := repeat 4194304 \"a\"}}}}{{{{$_ := {call}}}}}"),
            limits,
        )
        .err();
        let limit = LimitError::Steps(1_500_000);
        assert!(
            matches!(&error, Some(Error::Limit { limit: met, .. }) if *met == limit),
            "{call}: {error:?}"
        );
    }
    // Entries of a dictionary take more than items.
    let parts = |call: &str| limit_of(&format!("{{{{$_ := {call} \"\" (repeat 1000000 \"a\")}}}}"));
    assert_eq!(parts("splitList"), None);
    assert_eq!(parts("split"), Some(LimitError::Steps(2_000_000)));
}

#[test]
fn one_list_given_many_times_meets_a_limit() {
    for make in [
        "{{concat X}}",
        "{{list X | toStrings}}",
        "{{list X | sortAlpha}}",
        "{{list X | join \"\"}}",
        "{{$s := toString $l}}{{list Y | sortAlpha}}",
        "{{list X | chunk 1 | toJson}}",
    ] {
        let text = make
            .replace('X', &"$l ".repeat(10_000))
            .replace('Y', &"$s ".repeat(10_000));
        let limit = limit_of(&format!("{{{{$l := until 100000}}}}{text}"));
        assert!(
            matches!(
                limit,
                Some(LimitError::Steps(_) | LimitError::Value(PrintError::TooLong { .. }))
            ),
            "{make}: {limit:?}"
        );
    }
    let maps = "{{$m := dict}}{{range $i := until 20000}}{{$_ := set $m (print $i) 1}}{{end}}";
    for make in ["{{keys X}}", "{{omit $m Y}}"] {
        let text = make
            .replace('X', &"$m ".repeat(10_000))
            .replace('Y', &"\"y\" ".repeat(10_000));
        let limits = Limits::default();
        let steps_max = limits.steps_max;
        let limit = render(&format!("{maps}{text}"), limits).err();
        assert!(
            matches!(limit, Some(Error::Limit { limit: LimitError::Steps(max), .. }) if max == steps_max),
            "{make}: {limit:?}"
        );
    }
}

#[test]
fn long_texts_are_searched_in_linear_time() {
    let texts = "{{$text := repeat 2000000 \"ab\"}}{{$part := print (repeat 1000000 \"ab\") \"x\"}}";
    for (end, output) in [
        ("{{contains $part $text}}", "false"),
        ("{{replace $part \"\" $text | len}}", "4000000"),
        ("{{splitList $part $text | len}}", "1"),
        ("{{split $part $text | len}}", "1"),
        (
            "{{trimAll (print $text \"x\") (repeat 2000000 \"c\") | len}}",
            "2000000",
        ),
    ] {
        let rendered = render(&format!("{texts}{end}"), Limits::default());
        assert_eq!(rendered.as_deref(), Ok(output), "{end}");
    }
}

#[test]
fn repeated_reads_of_a_long_text_reach_the_step_limit() {
    let loops = |what: &str| {
        format!("{{{{$x := repeat 1000000 \"a\"}}}}{{{{$y := print $x}}}}{{{{range 1000}}}}{what}{{{{end}}}}")
    };
    for what in [
        "{{$_ := sha256sum $x}}",
        "{{if contains \"b\" $x}}{{end}}",
        "{{if eq $x $y}}{{end}}",
        "{{if regexMatch \"b\" $x}}{{end}}",
        "{{if regexMatch (printf \"a{1,%d}\" (mod . 1000)) \"b\"}}{{end}}",
        "{{$_ := fromYaml $x}}",
        "{{$_ := toJson (list $x 1i)}}",
    ] {
        assert_eq!(limit_of(&loops(what)), Some(LimitError::Steps(2_000_000)), "{what}");
    }
}

#[test]
fn include_in_recursive_templates_reaches_the_step_limit() {
    let text =
        "{{define \"y\"}}{{end}}{{define \"x\"}}{{include \"y\" .}}{{template \"x\" .}}{{end}}{{template \"x\" .}}";
    assert_eq!(limit_of(text), Some(LimitError::Steps(2_000_000)));
}

#[test]
fn widths_and_offsets_of_any_size_are_those_of_go() {
    assert_eq!(
        render(
            "{{printf \"%.70000U\" 1 | len}} {{abbrevboth -9223372036854775808 5 \"xxxxxxxxxx\"}}|",
            Limits::default()
        )
        .as_deref(),
        Ok("70002 |")
    );
}

/// Renders with time and randomness at hand.
fn with_host(text: &str, steps_max: u64) -> Result<Vec<u8>, Error> {
    let functions = Functions::new().with_sprig().with_helm();
    let mut set = Set::new("t", Arc::new(functions), MissingKey::Zero);
    set.parse("t", text.as_bytes())?;
    let mut host = Host {
        entropy: Some(Entropy::seeded(1)),
        clock: Some(Clock::real()),
        ..Host::default()
    };
    let limits = Limits {
        steps_max,
        ..small_limits()
    };
    let mut context = Context {
        limits,
        host: &mut host,
    };
    Arc::new(set).render("t", Value::Nil, &mut context)
}

#[test]
fn keys_and_passwords_are_counted_before_they_are_made() {
    for call in [
        "genPrivateKey \"rsa\"",
        "genCA \"x\" 1",
        "genSelfSignedCert \"x\" nil nil 1",
        "derivePassword 1 \"pin\" \"a\" \"b\" \"c\"",
        "bcrypt \"x\"",
        "htpasswd \"x\" \"x\"",
    ] {
        let error = with_host(&format!("{{{{{call}}}}}"), 100_000);
        let limit = LimitError::Steps(100_000);
        assert!(
            matches!(&error, Err(Error::Limit { limit: met, .. }) if *met == limit),
            "{call}: {error:?}"
        );
    }
    // A cheap key can be made many times, but not without end.
    let error = with_host("{{range until 1000}}{{genPrivateKey \"ed25519\"}}{{end}}", 2_000_000);
    assert!(matches!(error, Err(Error::Limit { .. })), "{error:?}");
    assert!(with_host("{{bcrypt \"x\"}}{{genPrivateKey \"ecdsa\"}}", 2_000_000).is_ok());
}

#[test]
fn deeply_nested_toml_and_self_containing_values_reach_a_limit() {
    let deep = |open: &str, close: &str| format!("a = {}1{}", open.repeat(100_000), close.repeat(100_000));
    for text in [
        deep("[", "]"),
        deep("{a = ", "}"),
        format!("{} = 1", ["a"; 100_000].join(".")),
        format!("[{}]", ["a"; 100_000].join(".")),
    ] {
        assert!(
            limit_of(&format!("{{{{fromToml `{text}`}}}}")).is_some(),
            "{}",
            text.len()
        );
    }
    let own = "{{$d := dict}}{{$_ := set $d \"d\" $d}}{{toToml $d}}";
    assert!(limit_of(own).is_some());
    let own = "{{$d := dict}}{{$_ := set $d \"d\" (list 1 $d)}}{{toToml $d}}";
    assert!(limit_of(own).is_some());
}

#[test]
fn exponentially_nested_values_written_as_toml_reach_a_limit() {
    let list = "{{$l := list 1}}{{range until 60}}{{$l = list $l $l}}{{end}}{{toToml (dict \"l\" $l)}}";
    assert!(limit_of(list).is_some());
    let map = "{{$m := dict \"x\" 1}}{{range until 60}}{{$m = dict \"a\" $m \"b\" $m}}{{end}}{{toToml $m}}";
    assert!(limit_of(map).is_some());
}

#[test]
fn large_toml_reaches_the_step_limit() {
    for [begin, piece, end] in [["a=[", "{},", "]"], ["", "[[c]]\nb=1\n", ""]] {
        let limit = |times: usize| limit_of(&format!("{{{{fromToml `{begin}{}{end}`}}}}", piece.repeat(times)));
        assert_eq!(limit(10), None, "{piece}");
        assert!(matches!(limit(35_000), Some(LimitError::Steps(_))), "{piece}");
    }
}

#[test]
fn repeated_long_toml_keys_reach_a_limit() {
    let text = format!(
        "[{}]\n{}",
        "a".repeat(400_000),
        (0..20_000).map(|n| format!("b{n}=1\n")).collect::<String>()
    );
    assert!(limit_of(&format!("{{{{fromToml `{text}` | len}}}}")).is_some());
}

#[test]
fn overlong_time_layouts_and_zone_names_reach_a_limit() {
    let zone = format!("GMT+{}5", "0".repeat(100_000));
    let text = format!("{{{{$t := toDate \"MST\" \"{zone}\"}}}}{{{{$t.Format (repeat 100000 \"MST\")}}}}");
    assert!(limit_of(&text).is_some());
    let text = "{{range until 1000}}{{dateInZone (repeat 100000 \"2\") 0 \"Europe/Berlin\"}}{{end}}";
    assert!(limit_of(text).is_some());
}

#[test]
fn repeated_zone_lookups_reach_the_step_limit() {
    for call in ["dateInZone \"2\" 0 \"Europe/Berlin\"", "toDate \"MST\" \"CET\""] {
        let text = format!("{{{{range until 10000}}}}{{{{$_ := {call}}}}}{{{{end}}}}");
        assert_eq!(limit_of(&text), Some(LimitError::Steps(2_000_000)), "{call}");
    }
}

#[test]
fn one_text_as_many_names_of_a_certificate_meets_a_limit() {
    let text = "{{$s := repeat 900000 \"a\"}}{{$l := list}}{{range until 200}}{{$l = append $l $s}}{{end}}\
                {{genSelfSignedCertWithKey \"x\" (list) $l 1 (genPrivateKey \"ed25519\")}}";
    let error = with_host(text, 2_000_000);
    assert!(matches!(error, Err(Error::Limit { .. })), "{error:?}");
}
