// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Finds libgpumap and libgpumap-model: in GPUMAP_LIB_DIR, or where pkg-config
//! says.

use std::env;
use std::process::Command;

fn main() {
    for name in ["GPUMAP_LIB_DIR", "PKG_CONFIG", "PKG_CONFIG_PATH"] {
        println!("cargo:rerun-if-env-changed={}", name);
    }
    if let Ok(folder) = env::var("GPUMAP_LIB_DIR") {
        println!("cargo:rustc-link-search=native={}", folder);
        println!("cargo:rustc-link-lib=dylib=gpumap-model");
        println!("cargo:rustc-link-lib=dylib=gpumap");
        return;
    }
    let program =
        env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    let said = Command::new(&program)
        .args(["--libs", "gpumap-model"])
        .output()
        .unwrap_or_else(|error| lacking(&format!("{}: {}", program, error)));
    if !said.status.success() {
        lacking(&String::from_utf8_lossy(&said.stderr));
    }
    for word in String::from_utf8_lossy(&said.stdout).split_whitespace() {
        if let Some(folder) = word.strip_prefix("-L") {
            println!("cargo:rustc-link-search=native={}", folder);
        } else if let Some(library) = word.strip_prefix("-l") {
            println!("cargo:rustc-link-lib=dylib={}", library);
        }
    }
}

fn lacking(why: &str) -> ! {
    panic!(
        "libgpumap-model is not found: install it so that pkg-config knows \
         it, or set GPUMAP_LIB_DIR to the folder of libgpumap-model.so\n{}",
        why.trim_end()
    );
}
