// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! The examples run, with an agent.

mod agent;

use agent::{write_safetensors, Agent};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The output of an example, called with these words and the agent's.
fn run(agent: &Agent, name: &str, words: &[&Path]) -> String {
    let test = env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples");
    let done = Command::new(program.join(name))
        .args(words)
        .args(agent.words())
        .output()
        .expect("an example that cargo build --examples has built");

    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn devices_are_printed() {
    let agent = Agent::start();
    let map = agent.attach();

    map.publish(&gpumap::Publish::new("llama", "0:2;1:2")).unwrap();
    let said = run(&agent, "devices", &[]);
    assert_eq!(said.matches("Host").count(), 2, "{}", said);
    assert!(said.contains("llama: 4 layers, 0:2;1:2"), "{}", said);
}

#[test]
fn a_model_is_printed() {
    let agent = Agent::start();
    let path = agent.folder.join("one.safetensors");

    write_safetensors(&path, &[("weight", "F32", &[2, 3], vec![7; 24])]);
    for _ in 0..2 {
        let said = run(&agent, "model", &[Path::new("one"), &path]);
        assert_eq!(said, "weight F32[2, 3] on row 0\n");
    }
}

#[test]
fn a_sum_is_printed() {
    let agent = Agent::start();
    let said = run(&agent, "scatter", &[]);

    assert!(said.ends_with("sum 499999500000\n"), "{}", said);
    assert_eq!(said.matches("row ").count(), 2, "{}", said);
}

#[test]
fn lookups_find_what_they_find_in_c() {
    let agent = Agent::start();
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let library = agent.folder.join("lookup.so");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(compiler)
        .args(["-O2", "-shared", "-fPIC", "-I"])
        .arg(here.join("../../../include"))
        .arg("-o")
        .arg(&library)
        .arg(here.join("examples/lookup.c"))
        .status()
        .unwrap();

    assert!(status.success());
    let said = run(&agent, "lookup", &[&library]);
    assert!(said.contains("rust_by_c"), "{}", said);
}
