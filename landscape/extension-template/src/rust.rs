//! The Rust files: the program, an actuator and a test for each kind, and the webhook.

use api_extensions::ExtensionKind;

use crate::kinds::{self, Row};
use crate::text::fill;
use crate::{File, Settings};

const ACTUATOR: &str = include_str!("../templates/src/actuator.rs.txt");
const OPERATING_SYSTEM_CONFIG: &str = include_str!("../templates/src/operating_system_config.rs.txt");
const MAIN: &str = include_str!("../templates/src/main.rs.txt");
const WEBHOOK: &str = include_str!("../templates/src/webhook.rs.txt");
const TEST: &str = include_str!("../templates/tests/kind.rs.txt");
const TEST_OF_OPERATING_SYSTEM_CONFIG: &str = include_str!("../templates/tests/operating_system_config.rs.txt");

/// Longest line of generated Rust: `max_width` of its rustfmt.toml.
const LINE_MAX: usize = 120;

/// Longest arguments of a call in one line, for rustfmt with that width.
const CALL_MAX: usize = 72;

/// The files below `src` and `tests`.
pub(crate) fn files(settings: &Settings, values: &[(&'static str, String)]) -> Vec<File> {
    let mut files = vec![File {
        path: "src/main.rs".to_owned(),
        text: main(settings, values),
    }];
    for kind in &settings.kinds {
        let row = kinds::row(*kind);
        let values = of_kind(&row, values);
        let (template, test) = match kind {
            ExtensionKind::OperatingSystemConfig => (OPERATING_SYSTEM_CONFIG, TEST_OF_OPERATING_SYSTEM_CONFIG),
            _ => (ACTUATOR, TEST),
        };
        files.push(File {
            path: format!("src/{}.rs", row.module),
            text: fill(template, &values),
        });
        files.push(File {
            path: format!("tests/{}.rs", row.module),
            text: fill(test, &values),
        });
    }
    if settings.webhook {
        files.push(File {
            path: "src/webhook.rs".to_owned(),
            text: fill(WEBHOOK, &of_webhook(settings, values)),
        });
    }
    files
}

fn main(settings: &Settings, values: &[(&'static str, String)]) -> String {
    let rows: Vec<Row> = settings.kinds.iter().map(|kind| kinds::row(*kind)).collect();
    let mut modules: Vec<&str> = rows.iter().map(|row| row.module).collect();
    modules.extend(settings.webhook.then_some("webhook"));
    modules.sort_unstable();
    let modules: String = modules.iter().map(|module| format!("mod {module};\n")).collect();
    let mut kinds: Vec<&str> = rows.iter().map(|row| row.kind.kind()).collect();
    kinds.sort_unstable();
    let webhook = settings.webhook;
    let only = |text: &str| if webhook { text.to_owned() } else { String::new() };
    let mut values = values.to_vec();
    values.extend([
        ("MODULES", modules),
        ("IMPORTS", imports("use api_extensions::", &kinds)),
        ("EXTENSION", extension(&rows)),
        ("RUN", if webhook { "run_with" } else { "run" }.to_owned()),
        ("CALL", call(webhook)),
        ("SERVE", only("        webhook::serve(setup, &flags)?;\n")),
    ]);
    fill(MAIN, &values)
}

/// The beginning of the call that runs the program, with lines broken where rustfmt breaks them.
fn call(webhook: bool) -> String {
    let about = "About::new(env!(\"CARGO_PKG_NAME\"), env!(\"CARGO_PKG_VERSION\"))";
    match webhook {
        true => format!("    let about = {about};\n    run_with(about, |setup, flags|"),
        false => format!("    run({about}, |setup|"),
    }
}

/// The extension with its actuators, with lines broken where rustfmt breaks them.
fn extension(rows: &[Row]) -> String {
    let calls: Vec<(ExtensionKind, [String; 2])> = rows.iter().map(|row| (row.kind, arguments(row))).collect();
    let is_long = |arguments: &[String; 2]| arguments.join(", ").len() > CALL_MAX;
    let lines = |arguments: &[String; 2], indent: &str| {
        let lines = arguments
            .each_ref()
            .map(|argument| format!("{indent}    {argument},\n"));
        format!("\n{}{indent}", lines.concat())
    };
    match calls.as_slice() {
        [(kind, arguments)] if is_long(arguments) => {
            format!("setup.extension().actuator::<{kind}>({})", lines(arguments, "        "))
        }
        several => {
            let indent = "            ";
            let call = |(kind, arguments): &(ExtensionKind, [String; 2])| {
                let arguments = match is_long(arguments) {
                    true => lines(arguments, indent),
                    false => arguments.join(", "),
                };
                format!("\n{indent}.actuator::<{kind}>({arguments})")
            };
            let calls: String = several.iter().map(call).collect();
            format!("setup\n{indent}.extension(){calls}")
        }
    }
}

/// What an actuator is added with.
fn arguments(row: &Row) -> [String; 2] {
    // Several extensions may act on one object of this kind.
    let suffix = match row.kind {
        ExtensionKind::Extension => ".finalizer_suffix(TYPE)",
        _ => "",
    };
    let Row { module, actuator, .. } = row;
    [
        format!("Registration::of_type(TYPE){suffix}"),
        format!("Arc::new({module}::{actuator})"),
    ]
}

/// Names behind `start` as rustfmt has them: in one line where they fit.
fn imports(start: &str, names: &[&str]) -> String {
    if let [one] = names {
        return (*one).to_owned();
    }
    let list = names.join(", ");
    if start.len() + list.len() + 3 <= LINE_MAX {
        return format!("{{{list}}}");
    }
    let (mut text, mut line) = ("{\n".to_owned(), "   ".to_owned());
    for name in names {
        if line.len() + name.len() + 2 > LINE_MAX {
            text += &line;
            text.push('\n');
            "   ".clone_into(&mut line);
        }
        line += &format!(" {name},");
    }
    format!("{text}{line}\n}}")
}

fn of_kind(row: &Row, values: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let kind = row.kind.kind();
    let (object, namespace) = match row.kind.is_namespaced() {
        true => ("object", "&object.namespace().unwrap_or_default()"),
        // It is of no namespace itself.
        false => ("_", "\"garden\""),
    };
    let status = format!("json!({{\"apiVersion\": API_VERSION, \"kind\": \"{kind}Status\"");
    let status = match row.kind {
        // What the Worker of the examples' stand-in reads: the network that their Shoot has.
        ExtensionKind::Infrastructure => {
            format!("        let status =\n            {status}, \"network\": {{\"cidr\": \"10.250.0.0/16\"}}}});")
        }
        _ => format!("        let status = {status}}});"),
    };
    let mut values = values.to_vec();
    values.extend([
        ("KIND", kind.to_owned()),
        ("MODULE", row.module.to_owned()),
        ("ACTUATOR", row.actuator.to_owned()),
        ("FIELD", row.field.to_owned()),
        ("NOUN", row.kind.noun().replace(' ', "-")),
        ("OBJECT", object.to_owned()),
        ("NAMESPACE", namespace.to_owned()),
        ("STATUS", status),
        ("RECONCILE", reconcile(kind)),
        ("MIGRATE", migrate(&row.kind)),
    ]);
    values
}

/// What goes when an object moves to another seed.
fn migrate(kind: &ExtensionKind) -> String {
    match kind.is_namespaced() {
        true => format!(
            "    async fn migrate(&self, _: &Context, _: &{kind}) -> Result<Saved, Fault> {{\n        \
             Ok(Saved::default()) // The ConfigMap goes with the namespace.\n    }}"
        ),
        false => format!(
            "    async fn migrate(&self, context: &Context, object: &{kind}) -> Result<Saved, Fault> {{\n        \
             self.delete(context, object).await?;\n        Ok(Saved::default())\n    }}"
        ),
    }
}

/// The function's head as rustfmt writes it: in one line where it fits.
fn reconcile(kind: &str) -> String {
    let (arguments, result) = (
        [
            "&self".to_owned(),
            "context: &Context".to_owned(),
            format!("object: &{kind}"),
        ],
        format!("Result<Outcome<{kind}>, Fault>"),
    );
    let line = format!("    async fn reconcile({}) -> {result}", arguments.join(", "));
    if line.len() + 2 <= LINE_MAX {
        return line;
    }
    let arguments: String = arguments
        .iter()
        .map(|argument| format!("        {argument},\n"))
        .collect();
    format!("    async fn reconcile(\n{arguments}    ) -> {result}")
}

/// Which Shoots' control planes the webhook is for: those whose namespaces have a label of the extension's type.
fn of_webhook(settings: &Settings, values: &[(&'static str, String)]) -> Vec<(&'static str, String)> {
    let kinds = &settings.kinds;
    let (more, kind, narrowed) = if kinds::any_of_provider(kinds) {
        (&["selectors"][..], "Shoot", "")
    } else if kinds
        .iter()
        .any(|kind| matches!(kind, ExtensionKind::BackupBucket | ExtensionKind::BackupEntry))
    {
        (&["selectors"][..], "Backup", "")
    } else if kinds.contains(&ExtensionKind::Extension) {
        (&["selectors"][..], "Shoot", "selectors::shoots_with_extension(TYPE)")
    } else {
        // Nothing else at a namespace names a type: all Shoots.
        (
            &["labelled", "selectors"][..],
            "Shoot",
            "labelled(\"gardener.cloud/role\", \"shoot\")",
        )
    };
    let narrowed = match narrowed {
        "" => String::new(),
        selector => format!("    let webhook = webhook.in_namespaces({selector});\n"),
    };
    let imported = [&WEBHOOK_IMPORTS[..], more].concat();
    let mut values = values.to_vec();
    values.extend([
        ("IMPORTS", imports("use extensions_webhooks::", &imported)),
        ("WEBHOOK_KIND", kind.to_owned()),
        ("NARROWED", narrowed),
    ]);
    values
}

/// What every webhook imports of its crate.
const WEBHOOK_IMPORTS: [&str; 7] = [
    "Context",
    "ControlPlane",
    "ControlPlaneKind",
    "Ensured",
    "Refusal",
    "WebhookFlags",
    "control_plane_webhook",
];
