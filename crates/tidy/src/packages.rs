//! What cargo knows of our packages and of those that they use.

use crate::tree;
use serde_json::Value;
use std::process::Command;

/// One package of the dependency graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// An SPDX expression; empty if the package names none.
    pub license: String,
    /// A member of our workspace.
    pub ours: bool,
    /// The packages that it uses.
    pub uses: Vec<Dependency>,
}

/// A dependency as its package states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// Its name.
    pub name: String,
    /// For tests, examples and benchmarks only.
    pub dev: bool,
}

/// The graph on this kind of machine, without asking the network.
pub fn all() -> Vec<Package> {
    let metadata = metadata();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let members = list(&metadata["workspace_members"]);
    let package = |value: Value| Package {
        name: text(&value["name"]),
        version: text(&value["version"]),
        license: text(&value["license"]),
        ours: members.contains(&value["id"]),
        uses: list(&value["dependencies"])
            .iter()
            .map(|d| Dependency { name: text(&d["name"]), dev: d["kind"] == "dev" })
            .collect(),
    };
    // Packages for other systems are in the list too: only what the graph reaches was resolved.
    let reached: Vec<Value> =
        list(&metadata["resolve"]["nodes"]).iter().map(|node| node["id"].clone()).collect();
    list(&metadata["packages"]).into_iter().filter(|p| reached.contains(&p["id"])).map(package).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(tree::root())
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", &host()])
        .output()
        .expect("cargo runs this test, so it can be started");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON")
}

/// This machine's target triple.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc is beside cargo");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.expect("rustc -vV names its host").to_string()
}
