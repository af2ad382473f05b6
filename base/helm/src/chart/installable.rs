//! What Helm checks before it installs or templates a chart: `pkg/cmd/install.go`, `pkg/action/install.go` of Helm 4.1.

use super::Chart;

/// Why a chart cannot be installed by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInstallable {
    /// It is a library for other charts.
    #[error("{0} charts are not installable")]
    Type(String),
    /// Dependencies are not in its `charts/`.
    #[error("found in Chart.yaml, but missing in charts/ directory: {}", .0.join(", "))]
    Missing(Vec<String>),
}

impl Chart {
    /// Checks that it is an application with every dependency in its `charts/`.
    ///
    /// # Errors
    /// It is not: Helm's message.
    pub fn check_installable(&self) -> Result<(), NotInstallable> {
        let kind = &self.metadata.chart_type;
        if !matches!(kind.as_str(), "" | "application") {
            return Err(NotInstallable::Type(kind.clone()));
        }
        let wanted = self.metadata.dependencies.iter().flatten();
        let is_there = |name: &str| self.dependencies.iter().any(|inner| inner.metadata.name == name);
        let missing = wanted.filter(|wanted| !is_there(&wanted.name));
        let missing: Vec<String> = missing.map(|wanted| wanted.name.clone()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(NotInstallable::Missing(missing))
    }
}
