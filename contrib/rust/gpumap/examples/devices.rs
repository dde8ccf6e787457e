// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! devices [INSTANCE [RUNTIME_DIR]] - the node's devices and layer maps.

mod options;

fn main() -> Result<(), gpumap::Error> {
    let map = options::attach(1)?;

    println!("{:>3} {:8} {:>9} {:>9}  name", "row", "kind", "free", "of MiB");
    for device in map.devices()? {
        println!(
            "{:>3} {:8} {:>9} {:>9}  {}{}",
            device.row,
            device.kind,
            device.unclaimed_bytes() >> 20,
            device.total_bytes >> 20,
            device.name,
            if device.is_ready() { "" } else { " (not ready)" },
        );
    }
    for name in map.layer_maps() {
        let layers = map.read_layers(&name)?;
        println!("{}: {} layers, {}", name, layers.rows.len(), layers.spec);
    }
    Ok(())
}
