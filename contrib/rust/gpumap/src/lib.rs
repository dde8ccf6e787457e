// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! One node's GPU map, shared by every inference process on it.
//!
//! `gpumapd`, the agent, keeps a table of the node's devices, places models'
//! layers on them, reserves memory, and loads weights once for all processes.
//! A [`Map`] is this process's view of it:
//!
//! ```no_run
//! use gpumap::{Map, Publish};
//!
//! let map = Map::attach()?;
//! for device in map.devices()? {
//!     println!("{} {}: {} free", device.row, device.name, device.free_bytes);
//! }
//! let layers = map.publish(&Publish::new("llama", "0:16;1:16"))?;
//! println!("layer 20 is on row {}", layers.get(20)?);
//! # Ok::<(), gpumap::Error>(())
//! ```
//!
//! | to | there is |
//! |---|---|
//! | read devices | [`Map::devices`], [`Map::choose`], [`Map::visible`] |
//! | place layers | [`Map::publish`], [`Map::plan`], [`Map::layers`] |
//! | keep memory free | [`Map::reserve`] |
//! | move and compute | [`Session::memory`], [`Session::alloc`], [`Job`], [`Session::scatter`] |
//! | share weights | [`Session::load`], [`Session::open_model`], [`Session::publish_share`], [`Session::claim`] |
//! | share masks | [`Map::publish_mask`], [`Map::pin_mask`] |
//! | find other ranks | [`Map::publish_mesh`], [`Map::mesh_group`], [`Map::join`] |
//! | know if a row is worth it | [`Map::worth`] |
//!
//! # Lifetimes and threads
//!
//! Handles borrow what they were made from: a [`Tensor`] its [`Model`], that
//! its [`Session`], and that its [`Map`]; dropping a handle gives back what it
//! names.  Threads share a [`Map`] and its views; a [`Session`] and a [`Mask`]
//! belong to one thread at a time.
//!
//! # Errors
//!
//! Each call has one [`Error`], with a [`Kind`] to match on and the
//! [refusal](Error::refusal): the agent's sentence about what to do.
//!
//! # Left to `gpumap-sys`
//!
//! Collectives, programs and the settings of engines: [`sys`] has their calls,
//! for [`Map::as_raw`] and [`Session::as_raw`].

#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

pub use gpumap_sys as sys;

mod device;
mod dtype;
mod error;
mod ffi;
mod job;
mod layers;
mod map;
mod mask;
mod memory;
mod mesh;
mod model;
mod plan;
mod policy;
mod session;
mod share;

pub use device::*;
pub use dtype::*;
pub use error::*;
pub use job::*;
pub use layers::*;
pub use map::*;
pub use mask::*;
pub use memory::{Buffer, Bytes, BytesMut, Memory, Operand, Source};
pub use mesh::*;
pub use model::*;
pub use plan::*;
pub use policy::*;
pub use session::{OpenSession, Session};
pub use share::*;

#[cfg(test)]
mod tests {
    use super::*;

    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}

    #[test]
    fn threads_have_what_they_may_have() {
        is_shared::<Map>();
        is_shared::<View<'_>>();
        is_shared::<Pinned<'_>>();
        is_shared::<Worth<'_>>();
        is_shared::<Reservation<'_>>();
        is_shared::<Joined<'_>>();
        is_shared::<Error>();
        moves::<Session<'_>>();
        moves::<Mask<'_>>();
        moves::<PinnedMask<'_>>();
    }
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
