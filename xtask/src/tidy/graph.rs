//! The dependency graph as `cargo metadata` resolves it: all platforms, the features of the whole workspace.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use crate::cargo::{array, text};

/// Packages by their id.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    pub(super) packages: BTreeMap<String, Package>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) rust_version: Option<RustVersion>,
    /// The ids of the normal dependencies: no build scripts', no tests'.
    pub(super) normal: Vec<String>,
}

/// `1.89` or `1.89.0`; compared by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RustVersion(pub(super) [u64; 3]);

impl RustVersion {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let major = parts.next()??;
        let minor = parts.next().unwrap_or(Some(0))?;
        let patch = parts.next().unwrap_or(Some(0))?;
        Some(Self([major, minor, patch]))
    }
}

impl Graph {
    /// From the output of `cargo metadata --format-version 1`.
    pub(super) fn from_metadata(metadata: &Value) -> Self {
        let mut packages = BTreeMap::new();
        for package in array(metadata.get("packages")) {
            let Some(id) = text(package, "id") else {
                continue;
            };
            let package = Package {
                name: text(package, "name").unwrap_or_default().to_owned(),
                version: text(package, "version").unwrap_or_default().to_owned(),
                rust_version: text(package, "rust_version").and_then(RustVersion::parse),
                normal: Vec::new(),
            };
            packages.insert(id.to_owned(), package);
        }
        for node in array(
            metadata
                .get("resolve")
                .and_then(|resolve| resolve.get("nodes")),
        ) {
            let Some(package) = text(node, "id").and_then(|id| packages.get_mut(id)) else {
                continue;
            };
            package.normal = array(node.get("deps"))
                .filter(|dependency| array(dependency.get("dep_kinds")).any(is_normal))
                .filter_map(|dependency| text(dependency, "pkg"))
                .map(str::to_owned)
                .collect();
        }
        Self { packages }
    }

    /// The shortest way from a package of one name to one of another over normal dependencies, as names.
    pub(super) fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut came_from: BTreeMap<&str, Option<&str>> = BTreeMap::new();
        let mut queue = VecDeque::new();
        for id in self.ids_of(from) {
            came_from.insert(id, None);
            queue.push_back(id);
        }
        while let Some(id) = queue.pop_front() {
            let Some(package) = self.packages.get(id) else {
                continue;
            };
            if package.name == to {
                return Some(self.names(id, &came_from));
            }
            for next in &package.normal {
                if !came_from.contains_key(next.as_str()) {
                    came_from.insert(next, Some(id));
                    queue.push_back(next);
                }
            }
        }
        None
    }

    fn ids_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.packages
            .iter()
            .filter(move |(_, package)| package.name == name)
            .map(|(id, _)| id.as_str())
    }

    fn names(&self, end: &str, came_from: &BTreeMap<&str, Option<&str>>) -> Vec<String> {
        let mut names = Vec::new();
        let mut at = Some(end);
        while let Some(id) = at {
            names.extend(self.packages.get(id).map(|package| package.name.clone()));
            at = came_from.get(id).copied().flatten();
        }
        names.reverse();
        names
    }
}

fn is_normal(kind: &Value) -> bool {
    kind.get("kind").is_some_and(Value::is_null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dependency(id: &str, kind: Option<&str>) -> Value {
        json!({"pkg": id, "dep_kinds": [{"kind": kind, "target": null}]})
    }

    #[test]
    fn only_normal_dependencies_lead_on() {
        let graph = Graph::from_metadata(&json!({
            "packages": [
                {"id": "1", "name": "server", "version": "0.1.0", "rust_version": "1.89"},
                {"id": "2", "name": "state", "version": "0.1.0", "rust_version": null},
                {"id": "3", "name": "hmac", "version": "0.13.0", "rust_version": "1.85.1"},
                {"id": "4", "name": "sha2", "version": "0.11.0"},
            ],
            "resolve": {"nodes": [
                {"id": "1", "deps": [dependency("2", None), dependency("3", Some("dev"))]},
                {"id": "2", "deps": [dependency("4", None), dependency("3", Some("build"))]},
                {"id": "3", "deps": []},
                {"id": "4", "deps": []},
            ]},
        }));
        assert_eq!(
            graph.way("server", "sha2").unwrap(),
            ["server", "state", "sha2"]
        );
        assert_eq!(graph.way("server", "hmac"), None);
        assert_eq!(graph.way("nobody", "sha2"), None);
        assert_eq!(
            graph.packages["3"].rust_version,
            Some(RustVersion([1, 85, 1]))
        );
    }

    #[test]
    fn rust_versions_compare_by_number() {
        let parse = |text| RustVersion::parse(text).unwrap();
        assert!(parse("1.100") > parse("1.89"));
        assert_eq!(parse("1.89"), parse("1.89.0"));
        assert!(parse("1.89.1") > parse("1.89"));
        assert_eq!(RustVersion::parse("stable"), None);
    }
}
