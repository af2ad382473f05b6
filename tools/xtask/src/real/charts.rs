//! Charts that people use, from the Go modules of their projects. They stay in Go's module cache; what is written down is
//! where they are.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::clients::folder;
use crate::Outcome;
use crate::process::output;

/// Test code looks here, below the cache folder, for the list of the modules' folders: one per line.
const FOLDER: &str = "real/charts";
const LIST: &str = "folders";

/// Modules with their versions and their sums in Go's checksum database.
const MODULES: [(&str, &str); 15] = [
    (
        "github.com/bitnami-labs/sealed-secrets@v0.40.0",
        "h1:rvCP35JL8ZV5LNA2SrwNR6iLyoM3ulrSFWN0lBtYEYI=",
    ),
    (
        "github.com/cert-manager/trust-manager@v0.25.0",
        "h1:nGtkHH9wEacI5uACdsq8wqCKWsCw1PMrwHPJcrUFUXA=",
    ),
    (
        "github.com/chaos-mesh/chaos-mesh@v0.9.1-0.20260902003049-47411975a8cb",
        "h1:0TeWmCELKreoLAXuoPaO2qpJe73foDgOoyU3fdKQN4A=",
    ),
    (
        "github.com/cilium/cilium@v1.20.2",
        "h1:dqiEGIcXc+gqCLYG/l7VCFJ8GHyb4HUrwbZOpkX5dL8=",
    ),
    (
        "github.com/dapr/dapr@v1.14.0",
        "h1:SIQsNX1kH31JRDIS4k8IZ6eomM/BAcOP844PhQIT+BQ=",
    ),
    (
        "github.com/external-secrets/external-secrets@v1.3.2",
        "h1:u2J8RjlHIeF0oZCqtl92adI/uZWUwOesJIDkfql6LqQ=",
    ),
    (
        "github.com/fluxcd/flagger@v1.36.1",
        "h1:X2PumtNwZz9YSGaOtZLFm2zAKLgHhFkbNv8beg7ifyc=",
    ),
    (
        "github.com/grafana/loki@v1.6.1",
        "h1:Ly9LKSEZfrxDCOt1QoAu3b4f+jrwKa1sH6BMF7TrcRs=",
    ),
    (
        "github.com/kyverno/kyverno@v1.19.1",
        "h1:/MkgFii3/VlQfKR1JpC9tVwNNVNQTt2S4U6qCsafsTU=",
    ),
    (
        "github.com/open-policy-agent/gatekeeper/v3@v3.23.1",
        "h1:njHTm0SJ6ZEhhEgmQTpJKTGQbc99fSs4hGiEp1OIKck=",
    ),
    (
        "go.universe.tf/metallb@v0.16.2",
        "h1:RCSAGoZmqcvTg0e56+Okbwz8iTuQVX30JpKX5mYEPUM=",
    ),
    (
        "istio.io/istio@v0.0.0-20260827124520-eed52ebb66ad",
        "h1:ui9TJjRMAV/hb5ehQaZDq7IUGxuQP6dra9lapT/VjHI=",
    ),
    (
        "k8s.io/ingress-nginx@v0.0.0-20240708192948-52c50467d67d",
        "h1:tZui5g6S4GO1hxLm6yrEoIXLkl4QfeGytlmZqZ+DmdQ=",
    ),
    (
        "sigs.k8s.io/descheduler@v0.36.0",
        "h1:fBemfJD1RhmbsdH94lKwGMOwQcbsrw67A5IK2c2fANA=",
    ),
    (
        "sigs.k8s.io/metrics-server@v0.9.0",
        "h1:nlqqZ2H0Xfko8eJC/1qaNVVT17hu4rxndkOi22KTZ4w=",
    ),
];

/// Downloads what is missing, and rewrites the list.
pub(super) fn prepare() -> Outcome {
    let target = folder(FOLDER)?;
    let mut list = String::new();
    for (module, sum) in MODULES {
        let mut command = Command::new("go");
        // Outside of every module: what is asked for is named whole.
        command
            .args(["mod", "download", "-json", module])
            .current_dir(&target)
            .env("GOWORK", "off")
            .env("GO111MODULE", "on");
        let answer = output(&mut command).map_err(|why| {
            format!("{why}\ncharts come with Go modules: check that `go env GOPROXY` can be reached, then run it again")
        })?;
        let answer: Value =
            serde_json::from_str(&answer).map_err(|error| format!("go printed no JSON of {module}: {error}"))?;
        if answer["Sum"] != sum {
            return Err(format!(
                "{module} has the checksum {}, not {sum}: do not use it",
                answer["Sum"]
            ));
        }
        let folder = answer["Dir"].as_str();
        list += folder.ok_or_else(|| format!("go does not report where {module} is"))?;
        list.push('\n');
    }
    let path = target.join(LIST);
    fs::write(&path, list).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    println!("charts of {} projects", MODULES.len());
    Ok(())
}
