//! The picture of the standard Shoot's flow in the documentation, drawn from the graph itself. Tasks are put together
//! in phases by what they are about; order, arrows between phases and which task only waits come from the flow. Guards the committed
//! file; `cargo xtask generate` rewrites it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use base_flow::{Flow, Name};
use components_hosted::component;
use control_plane_shoot_flow::{Goal, Kind, Managed, Point, ShootTask, Single, Step};

use crate::{STANDARD, flow};

/// The phases: what each brings about.
const PHASES: &[&str] = &[
    "Ground: namespace, keys, certificates",
    "Infrastructure: networks in the cloud",
    "Addresses: service and DNS",
    "State: backup and etcd",
    "API server",
    "Connection into the Shoot",
    "Control plane and its extensions",
    "Ready for nodes: what a machine becomes",
    "Network of pods",
    "Workers: machines that join",
];

/// The phase of a step, as its place in [`PHASES`].
fn phase_of(step: Step) -> usize {
    let phase = match step {
        Step::Single(single) => match single {
            Single::DeployNamespace
            | Single::EnsureClusterIdentity
            | Single::DeployCloudProviderSecret
            | Single::InitializeSecrets
            | Single::DeployReferencedResources => "Ground",
            Single::DeployApiServerService | Single::WaitApiServerService | Single::EnsureAdvertisedAddresses => {
                "Addresses"
            }
            Single::DeployBackupEntry | Single::WaitBackupEntry => "State",
            Single::DeployShootAccess | Single::InitializeShootConnection => "Connection",
            Single::DeleteStaleOsConfigs | Single::WaitStaleOsConfigs => "Ready for nodes",
            Single::WaitMachineDeployments => "Workers",
            _ => "Control plane",
        },
        Step::Kind(kind, _) => match kind {
            Kind::Infrastructure => "Infrastructure",
            Kind::InternalDnsRecord | Kind::ExternalDnsRecord => "Addresses",
            Kind::ControlPlane | Kind::ContainerRuntime => "Control plane",
            Kind::OperatingSystemConfig => "Ready for nodes",
            Kind::Network => "Network of pods",
            Kind::Worker => "Workers",
        },
        Step::Component(id, _) => match component(id).place() {
            components_hosted::Place::Etcd => "State",
            components_hosted::Place::ApiServer => "API server",
            components_hosted::Place::ResourceManager => "Connection",
            components_hosted::Place::ControlPlane { .. } => "Control plane",
            components_hosted::Place::Machines => "Ready for nodes",
        },
        Step::Extensions(point, _) => match point {
            Point::BeforeApiServer => "API server",
            Point::AfterApiServer => "Control plane",
            Point::AfterWorkers => "Workers",
        },
        Step::Managed(managed, _) => match managed {
            Managed::ShootNamespaces | Managed::VpnShoot => "Control plane",
            Managed::ShootSystem | Managed::ClusterIdentity | Managed::NodeAgent => "Ready for nodes",
        },
    };
    let place = PHASES.iter().position(|title| title.starts_with(phase));
    place.expect("the phases have this title")
}

// Measures in pixels.
const BOX_WIDTH: usize = 356;
const BETWEEN: usize = 28;
const ROW: usize = 17;
const PADDING: usize = 12;
const TITLE: usize = 30;
const LAYER_GAP: usize = 46;
const MARGIN: usize = 24;
const HEAD: usize = 62;
/// Letters of a task's name in one row of a box.
const LETTERS: usize = 43;

type Phases = BTreeMap<usize, BTreeSet<usize>>;

/// Each phase with the phases before it; what follows from others is left out.
fn arrows(flow: &Flow<ShootTask>) -> Phases {
    let phase_of = |task: ShootTask| phase_of(task.step);
    let mut all: Phases = (0..PHASES.len()).map(|at| (at, BTreeSet::new())).collect();
    for (task, after) in flow.work() {
        let to = phase_of(task);
        let from = after.into_iter().map(phase_of).filter(|from| *from != to);
        all.entry(to).or_default().extend(from);
    }
    let reaches = |from: usize, to: usize| {
        let mut open = vec![to];
        let mut seen = BTreeSet::new();
        while let Some(at) = open.pop() {
            for before in all[&at].iter().filter(|before| seen.insert(**before)) {
                open.push(*before);
            }
        }
        seen.contains(&from)
    };
    assert!(
        !(0..PHASES.len()).any(|at| reaches(at, at)),
        "phases wait for each other: cut them differently"
    );
    all.iter()
        .map(|(to, before)| {
            let implied = |from: &usize| before.iter().any(|other| other != from && reaches(*from, *other));
            (*to, before.iter().copied().filter(|from| !implied(from)).collect())
        })
        .collect()
}

/// How far down each phase stands: below everything it waits for.
fn layers(arrows: &Phases) -> Vec<Vec<usize>> {
    let mut layer: BTreeMap<usize, usize> = BTreeMap::new();
    while layer.len() < arrows.len() {
        for (at, before) in arrows {
            if let Some(known) = before
                .iter()
                .map(|one| layer.get(one).copied())
                .collect::<Option<Vec<_>>>()
            {
                layer.insert(*at, known.into_iter().max().map_or(0, |deepest| deepest + 1));
            }
        }
    }
    let depth = layer.values().max().map_or(0, |deepest| deepest + 1);
    (0..depth)
        .map(|row| (0..arrows.len()).filter(|at| layer[at] == row).collect())
        .collect()
}

/// A name in rows of at most [`LETTERS`].
fn rows(name: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in name.split(' ') {
        let row = rows.last_mut().expect("there is always a row");
        if !row.is_empty() && row.len() + 1 + word.len() > LETTERS {
            rows.push(word.to_owned());
        } else {
            let space = if row.is_empty() { "" } else { " " };
            *row += &format!("{space}{word}");
        }
    }
    rows
}

fn height(flow: &Flow<ShootTask>, phase: usize) -> usize {
    let tasks = flow.work().into_iter().map(|(task, _)| task);
    let tasks = tasks.filter(|task| phase_of(task.step) == phase);
    let rows: usize = tasks.map(|task| rows(task.name()).len()).sum();
    TITLE + rows * ROW + PADDING
}

struct Place {
    x: usize,
    y: usize,
    height: usize,
}

fn places(flow: &Flow<ShootTask>, layers: &[Vec<usize>]) -> (BTreeMap<usize, Place>, usize, usize) {
    let widest = layers.iter().map(Vec::len).max().unwrap_or_default();
    let width = 2 * MARGIN + widest * BOX_WIDTH + (widest - 1) * BETWEEN;
    let mut places = BTreeMap::new();
    let mut y = HEAD;
    for layer in layers {
        let taken = layer.len() * BOX_WIDTH + (layer.len() - 1) * BETWEEN;
        let mut x = (width - taken) / 2;
        let tallest = layer.iter().map(|at| height(flow, *at)).max().unwrap_or_default();
        for at in layer {
            let place = Place { x, y, height: tallest };
            places.insert(*at, place);
            x += BOX_WIDTH + BETWEEN;
        }
        y += tallest + LAYER_GAP;
    }
    (places, width, y - LAYER_GAP + MARGIN)
}

fn picture(flow: &Flow<ShootTask>) -> String {
    let arrows = arrows(flow);
    let (places, width, height) = places(flow, &layers(&arrows));
    let mut out = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="13" role="img">
<!-- Generated by `cargo xtask generate` from the flow's graph; do not edit. -->
<title>How a standard Shoot is created or reconciled</title>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#57606a"/></marker></defs>
<rect width="{width}" height="{height}" fill="#ffffff"/>
<text x="{MARGIN}" y="26" font-size="17" font-weight="600" fill="#1f2328">{}: the {} tasks of a standard Shoot</text>
<text x="{MARGIN}" y="46" fill="#57606a"><tspan fill="#bc4c00">■</tspan> writes objects  <tspan fill="#0969da">○</tspan> waits for others. A task begins when what it waits for is done; arrows show that between phases.</text>
"##,
        flow.name(),
        flow.work().len(),
    );
    for (to, before) in &arrows {
        for from in before {
            let (from, to) = (&places[from], &places[to]);
            let (x1, y1) = (from.x + BOX_WIDTH / 2, from.y + from.height);
            let (x2, y2) = (to.x + BOX_WIDTH / 2, to.y - 2);
            let middle = y1.midpoint(y2);
            let _ = writeln!(
                out,
                r##"<path d="M{x1},{y1} C{x1},{middle} {x2},{middle} {x2},{y2}" fill="none" stroke="#57606a" stroke-width="1.5" marker-end="url(#arrow)"/>"##
            );
        }
    }
    for (at, place) in &places {
        draw_phase(&mut out, flow, *at, place);
    }
    out + "</svg>\n"
}

fn draw_phase(out: &mut String, flow: &Flow<ShootTask>, at: usize, place: &Place) {
    let title = PHASES[at];
    let (x, y, height) = (place.x, place.y, place.height);
    let _ = writeln!(
        out,
        r##"<rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{height}" rx="6" fill="#f6f8fa" stroke="#d0d7de"/>
<text x="{}" y="{}" font-weight="600" fill="#1f2328">{title}</text>"##,
        x + PADDING,
        y + 20
    );
    let mut y = y + TITLE;
    // In the order in which the flow defines them, whatever the order above.
    for step in flow
        .steps()
        .filter(|step| step.skipped().is_none() && phase_of(step.task().step) == at)
    {
        let (mark, colour) = match step.settings().waits {
            true => ("○", "#0969da"),
            false => ("■", "#bc4c00"),
        };
        let _ = writeln!(
            out,
            r##"<text x="{}" y="{}" fill="{colour}">{mark}</text>"##,
            x + PADDING,
            y + 13
        );
        for row in rows(step.task().name()) {
            let _ = writeln!(
                out,
                r##"<text x="{}" y="{}" fill="#1f2328">{row}</text>"##,
                x + PADDING + 18,
                y + 13
            );
            y += ROW;
        }
    }
}

#[test]
fn generated_picture_of_the_standard_flow_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images/shoot-flow.svg");
    let actual = picture(&flow(STANDARD, Goal::Reconcile));
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/images")).unwrap();
        std::fs::write(path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        expected == actual,
        "docs/images/shoot-flow.svg is not what the flow is: run cargo xtask generate"
    );
}
