//! How fast a graph of 250 seeds and 10,000 Shoots decides, and how much memory it takes:
//! `cargo run --release -p control-plane-confinement --example figures`.
#![expect(clippy::print_stdout, reason = "a measurement speaks on its standard output")]
#![expect(clippy::unwrap_used, reason = "figures of a run that cannot go on are none")]

use std::time::Instant;

use control_plane_confinement::{
    ControllerInstallation, CredentialsBinding, Decision, Graph, Identity, Kind, Party, Request, Seed, Shoot, decide,
};
use serde_json::{Value, json};

const SEEDS: usize = 250;
const SHOOTS: usize = 10_000;
const PROJECTS: usize = 500;
const REGISTRATIONS: usize = 30;
const DECISIONS: usize = 2_000_000;

fn main() {
    let before = resident_kib();
    let begun = Instant::now();
    let mut graph = Graph::default();
    fill(&mut graph);
    let filled = begun.elapsed();
    let (holders, places, edges) = graph.size();
    println!("filled: {holders} objects, {places} places, {edges} edges in {filled:.2?}");
    println!("memory: {:.1} MiB", (resident_kib() - before) as f64 / 1024.0);
    for (what, seed_of) in [("allowed", 0), ("refused", 1)] {
        let begun = Instant::now();
        for number in 0..DECISIONS {
            decide_on_one(&graph, number, seed_of);
        }
        let seconds = begun.elapsed().as_secs_f64();
        println!("{what}: {:.0} decisions a second", DECISIONS as f64 / seconds);
    }
    let begun = Instant::now();
    for number in 0..SHOOTS {
        graph.put(&shoot(number, 1));
        graph.put(&shoot(number, 0));
    }
    let each = begun.elapsed() / (2 * SHOOTS as u32);
    println!("a Shoot that moves, read and taken in: {each:.2?}");
}

fn fill(graph: &mut Graph) {
    for number in 0..SEEDS {
        let seed: Seed = read(
            json!({"metadata": {"name": seed(number), "uid": format!("uid-{number}")}, "spec": {
            "backup": {"credentialsRef": {"kind": "Secret", "namespace": "garden", "name": format!("backup-{number}")}}}}),
        );
        graph.put(&seed);
        for registration in 0..REGISTRATIONS {
            let installation: ControllerInstallation = read(json!({
                "metadata": {"name": format!("e{registration}-{number}")},
                "spec": {"seedRef": {"name": self::seed(number)}, "deploymentRef": {"name": format!("e{registration}")}}}));
            graph.put(&installation);
        }
    }
    for number in 0..PROJECTS {
        let binding: CredentialsBinding = read(json!({"metadata": {"name": "binding", "namespace": project(number)},
            "credentialsRef": {"kind": "Secret", "name": "cloud", "namespace": project(number)}}));
        graph.put(&binding);
    }
    for number in 0..SHOOTS {
        graph.put(&shoot(number, 0));
    }
}

/// A decision on the Shoot of a number, its Secret, or its binding's; by its own seed's gardenlet, or another's.
fn decide_on_one(graph: &Graph, number: usize, another: usize) {
    let number = number % SHOOTS;
    let identity = Identity {
        seed: seed(number + another),
        party: Party::Gardenlet,
    };
    let (kind, name) = match number % 3 {
        0 => (Kind::Shoot, format!("shoot-{number}")),
        1 => (Kind::Secret, format!("shoot-{number}.ssh-keypair")),
        _ => (Kind::Secret, format!("extra-{number}")),
    };
    let request = Request {
        verb: "get",
        group: kind.group(),
        resource: kind.plural(),
        namespace: &project(number),
        name: &name,
        ..Request::default()
    };
    let allowed = decide(graph, &identity, &request) == Decision::Allow;
    assert_eq!(allowed, another == 0);
}

fn seed(number: usize) -> String {
    format!("seed-{}", number % SEEDS)
}

fn project(number: usize) -> String {
    format!("garden-project-{}", number % PROJECTS)
}

fn shoot(number: usize, moved: usize) -> Shoot {
    let name =
        |what: &str| json!({"name": what, "resourceRef": {"kind": "Secret", "name": format!("{what}-{number}")}});
    read(json!({
        "metadata": {"name": format!("shoot-{number}"), "namespace": project(number), "uid": format!("0b1e1f36-0000-0000-0000-{number:012}")},
        "spec": {"seedName": seed(number + moved), "credentialsBindingName": "binding", "resources": [name("extra")],
            "kubernetes": {"kubeAPIServer": {"auditConfig": {"auditPolicy": {"configMapRef": {"name": "audit-policy"}}}}}},
        "status": {"technicalID": format!("shoot--project-{}--shoot-{number}", number % PROJECTS)},
    }))
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
