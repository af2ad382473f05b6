//! Extensions whose charts the gardenlets install, on whole landscapes, with transcripts in `docs/transcripts`.

mod enabled;
mod garden_access;
mod installed;
mod policies;
mod refused;
mod timeouts;
mod values;

use serde_json::Value;
use tests_scenarios::installations::chart;
use tests_scenarios::transcript::Transcript;
use tests_scenarios::{SHOOT, World};

/// What stands for a chart on a page.
const CHART: &str = "H4sIFAAAAAAA/yk...";

/// The only template of a chart without a program.
const SETTINGS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: {{ .Release.Namespace }}
data:
  extension: {{ .Release.Name }}
  seed: {{ .Values.gardener.seed.name }}
";

/// Makes `page` stand for a chart of these templates.
fn stand_for_chart(page: &mut Transcript, templates: &[(&str, &str)]) {
    let head = [("Chart.yaml", "apiVersion: v2\nname: example\nversion: 1.0.0\n")];
    let files: Vec<(&str, &str)> = head.iter().chain(templates).copied().collect();
    page.stand_in(CHART, &chart("example", &files));
}

/// Shows the chart without a program, which the registrations of a page share.
fn show_settings_chart(page: &mut Transcript) {
    stand_for_chart(page, &[("templates/settings.yaml", SETTINGS)]);
    page.note("The chart of all registrations on this page has one template, and no program:");
    page.file("templates/settings.yaml", "yaml", SETTINGS);
}

/// The example Shoot with changes by sed: each an expression, what it replaces, and by what.
fn changed_shoot(changes: &[(&str, &str, &str)]) -> (String, String) {
    let mut text = SHOOT.to_owned();
    for (_, old, new) in changes {
        let changed = text.replacen(old, new, 1);
        assert_ne!(changed, text, "{old}");
        text = changed;
    }
    let expressions: Vec<&str> = changes.iter().map(|(expression, _, _)| *expression).collect();
    (expressions.join("; "), text)
}

/// Waits until an object of a seed has gone or has come, by its path in the API.
async fn until_listed(client: &kube::Client, path: &str, reached: impl Fn(&[Value]) -> bool) {
    let end = tokio::time::Instant::now() + tests_scenarios::PATIENCE;
    loop {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let list: Value = client.request(request).await.unwrap();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        if reached(&items) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "{path}: {items:#?}");
        // Several kinds are waited for in one way, so they are listed each second of virtual time.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

/// Lets everything settle that has been caused, in virtual time: what must not happen has had the time to happen.
async fn settled() {
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
}

/// A world with these seeds, whose clock the scenario keeps.
async fn world_with(seeds: u8) -> (World, base_clock::Clock) {
    let mut clock = None;
    let world = World::start_with(|settings| {
        *settings = settings.clone().with_seeds(seeds);
        clock = Some(settings.clock.clone());
    })
    .await;
    (world, clock.unwrap())
}
