# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/rust: the Rust crates, which cargo builds and not make.
EXTRA_DIST += %reldir%/Cargo.lock
EXTRA_DIST += %reldir%/Cargo.toml
EXTRA_DIST += %reldir%/bindings
EXTRA_DIST += %reldir%/gpumap-sys/Cargo.toml
EXTRA_DIST += %reldir%/gpumap-sys/build.rs
EXTRA_DIST += %reldir%/gpumap-sys/src/bindings.rs
EXTRA_DIST += %reldir%/gpumap-sys/src/lib.rs
EXTRA_DIST += %reldir%/gpumap-sys/src/view.rs
EXTRA_DIST += %reldir%/gpumap-sys/tests/layout.rs
EXTRA_DIST += %reldir%/gpumap-sys/tests/layout/structs.rs
EXTRA_DIST += %reldir%/rustfmt.toml
