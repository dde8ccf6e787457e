// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Declarations of libgpumap and libgpumap-model, as their headers have them.
//!
//! The names, and the rules of each call, are those of the C headers: see
//! gpumap(3) and `include/gpumap`.  All that the headers define inline, lookups
//! of `gpumap/view.h` and the sizes of `gpumap/policy.h`, is defined here in
//! Rust.  The crate `gpumap` makes these calls safe.
//!
//! A struct whose first field is `size` has to have that set: take the other
//! fields from `Default`, which has zeros.
//!
//! Not bound are `gpumap/cuda.h`, `gpumap/nccl.h` and `gpumap/uring.h`, which
//! each need another package.

#![allow(non_camel_case_types)]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("gpumap runs on Linux with 64-bit addresses");

#[allow(clippy::all)]
mod bindings;
mod view;

pub use bindings::*;
pub use view::*;
