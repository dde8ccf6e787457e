// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! The arguments that all examples have: INSTANCE and RUNTIME_DIR.

use gpumap::{Attach, Map, Result};
use std::env;

/// Attaches to the agent that the arguments name, from number `first` on.
pub fn attach(first: usize) -> Result<Map> {
    let mut words = env::args().skip(first);
    let mut options = Attach::new();

    if let Some(instance) = words.next() {
        options = options.instance(&instance);
    }
    if let Some(folder) = words.next() {
        options = options.runtime_dir(folder);
    }
    options.attach()
}
