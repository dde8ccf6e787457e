// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! scatter [INSTANCE [RUNTIME_DIR]] - sum a million numbers on all rows.

mod options;

use gpumap::{DType, Job, Scatter};

fn main() -> Result<(), gpumap::Error> {
    let n = 1_000_000;
    let map = options::attach(1)?;
    let session = map.session()?;
    let all = Scatter::new();
    let mut numbers = session.scatter_memory(n, 4, &all)?;
    let results = session.memory(0, 8 * map.device_count() as usize)?;

    for (i, number) in
        numbers.bytes_mut()?.elements_mut::<u32>().iter_mut().enumerate()
    {
        *number = i as u32;
    }
    let job = Job::sum(&results, &numbers, DType::U32, n);
    for tile in session.scatter(&job, &all)? {
        println!("row {}: {} from {} on", tile.row, tile.n, tile.first);
    }
    println!("sum {}", session.reduce(&job, &all)?);
    Ok(())
}
