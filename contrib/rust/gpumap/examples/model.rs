// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! model NAME PATH [INSTANCE [RUNTIME_DIR]] - share a checkpoint by a name, or
//! have it at once where another process has loaded it; then list it.

mod options;

use gpumap::{LoadModel, ModelState};
use std::time::Duration;

fn main() -> Result<(), gpumap::Error> {
    let mut words = std::env::args().skip(1);
    let (name, path) = match (words.next(), words.next()) {
        (Some(name), Some(path)) => (name, path),
        _ => {
            eprintln!("usage: model NAME PATH [INSTANCE [RUNTIME_DIR]]");
            std::process::exit(2);
        }
    };
    let map = options::attach(3)?;
    let session = map.session()?;
    let model = session.load(&LoadModel::new(&path).name(&name).read_only())?;

    loop {
        let progress = model.progress()?;
        if progress.state == ModelState::Loaded {
            break;
        }
        eprintln!("{} of {} bytes", progress.bytes, progress.total_bytes);
        match model.wait(Some(Duration::from_millis(200))) {
            Err(error) if error.kind() == gpumap::Kind::Timeout => {}
            other => other?,
        }
    }
    for tensor in model.tensors() {
        println!("{}", tensor);
    }
    Ok(())
}
