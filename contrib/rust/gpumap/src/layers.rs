// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Layer maps: which row holds which layer.

use crate::dtype::DType;
use crate::error::{Error, Kind, Result};
use crate::ffi::{self, numbers, sized};
use crate::map::Map;
use gpumap_sys as sys;
use std::fmt;
use std::os::raw::c_char;

numbers! {
    /// The origin of a layer map.
    Setting {
        /// A spec.
        Manual = GPUMAP_SETTING_MANUAL,
        /// A strategy.
        Auto = GPUMAP_SETTING_AUTO,
        /// A topology file.
        Topology = GPUMAP_SETTING_TOPOLOGY,
        /// Everything on the base row.
        Dummy = GPUMAP_SETTING_DUMMY,
        /// Every rank has a part of all layers.
        Nccl = GPUMAP_SETTING_NCCL,
        /// A range of layers for each rank.
        Pipeline = GPUMAP_SETTING_PIPELINE,
        /// Bytes of rows and no model.
        Reserve = GPUMAP_SETTING_RESERVE,
    }
}

/// The memory that a map takes from one row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Charge {
    /// The row.
    pub row: u32,
    /// Layers on it; 0: only parts that belong to no layer.
    pub n_layers: u32,
    /// Bytes of weights.
    pub weight_bytes: u64,
    /// Bytes of the KV cache.
    pub kv_bytes: u64,
    /// Bytes of activations.
    pub activation_bytes: u64,
    /// Kept back.
    pub reserve_bytes: u64,
}

impl Charge {
    /// All of them.
    pub fn bytes(&self) -> u64 {
        self.weight_bytes
            .saturating_add(self.kv_bytes)
            .saturating_add(self.activation_bytes)
            .saturating_add(self.reserve_bytes)
    }
}

/// A whole layer map, as one publication.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayersInfo {
    /// The map's name.
    pub name: String,
    /// A number that grows with every publication under this name.
    pub version: u64,
    /// The user who has published it.
    pub owner_uid: u32,
    /// Its origin.
    pub setting: Setting,
    /// The row of what belongs to no layer.
    pub base_row: u32,
    /// The type of most weights.
    pub dtype: DType,
    /// Bytes of what belongs to no layer.
    pub other_bytes: u64,
    /// An equivalent spec, `"0:16;1:16"`; cut if it is long.
    pub spec: String,
    /// Its charges are reserved.
    pub committed: bool,
    /// They are reserved while one process lives.
    pub held: bool,
    /// The row of each layer.
    pub rows: Vec<u32>,
    /// The bytes of each layer; 0: not known.
    pub layer_bytes: Vec<u64>,
    /// The memory that it takes from each row, in first-use order.
    pub charges: Vec<Charge>,
}

/// A table of the map, for lookups on a hot path: the row of each layer of a
/// layer map, or the row or rank of each member of a mesh's group.
///
/// A lookup is two loads and two compares, inline: neither a system call nor a
/// function call.  The view is valid as long as the [`Map`], also where the
/// agent has died, which [`Map::health`] tells.  Clone it for another thread.
#[derive(Clone)]
pub struct View<'m> {
    view: sys::gpumap_view,
    map: &'m Map,
}

// SAFETY: the pointers of a view lead into the segment, which is mapped
// read-only as long as the map that it borrows, and is loaded atomically.
unsafe impl Send for View<'_> {}
// SAFETY: lookups through a shared reference store nothing; refresh() has the
// view for itself.
unsafe impl Sync for View<'_> {}

impl<'m> View<'m> {
    pub(crate) fn new(map: &'m Map, view: sys::gpumap_view) -> View<'m> {
        View { view, map }
    }

    /// Entries: the layers of a layer map.
    #[inline]
    pub fn len(&self) -> usize {
        self.view.n as usize
    }

    /// Has it no entries?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.view.n == 0
    }

    /// The entry at `index`: for a layer map, the row that holds this layer.
    ///
    /// # Errors
    ///
    /// [`Kind::Again`]: the table was published again, call
    /// [`View::refresh`] and repeat the call.  [`Kind::OutOfRange`]: no such
    /// index.
    #[inline]
    pub fn get(&self, index: impl TryInto<u32>) -> Result<u32> {
        let index = index.try_into().unwrap_or(u32::MAX);
        // SAFETY: the library has filled the view, and self.map is attached.
        let entry = unsafe { sys::gpumap_view_get(&self.view, index) };

        if entry < 0 {
            return Err(no_entry(entry));
        }
        Ok(entry as u32)
    }

    /// As [`View::get`], of the table as it is published now.
    ///
    /// # Errors
    ///
    /// [`Kind::OutOfRange`]: no such index.  [`Kind::NotFound`]: the object was
    /// released.  [`Kind::Stale`]: the map was retired, attach again.
    #[inline]
    pub fn lookup(&mut self, index: impl TryInto<u32>) -> Result<u32> {
        let index = index.try_into().unwrap_or(u32::MAX);

        match self.get(index) {
            Err(_) => self.lookup_again(index),
            found => found,
        }
    }

    #[cold]
    fn lookup_again(&mut self, index: u32) -> Result<u32> {
        // Each attempt meets another publication: bounded, as in the library.
        for _ in 0..1000 {
            self.refresh()?;
            match self.get(index) {
                Err(error) if error.kind() == Kind::Again => {}
                other => return other,
            }
        }
        self.get(index)
    }

    /// Fills the view with the table as it is published now.  No system call.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: the object was released.  [`Kind::Stale`]: the map
    /// was retired, attach again.  The view is unchanged then.
    pub fn refresh(&mut self) -> Result<()> {
        // SAFETY: the library has filled the view, of this map.
        let ret = unsafe {
            sys::gpumap_view_refresh(self.map.as_raw(), &mut self.view)
        };
        self.map.check("gpumap_view_refresh", ret).map(drop)
    }

    /// The map that it is of.
    pub fn map(&self) -> &'m Map {
        self.map
    }
}

#[cold]
fn no_entry(ret: i32) -> Error {
    Error::new("gpumap_view_get", -ret, "")
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View")
            .field("name", &ffi::string(&self.view.name))
            .field("len", &self.len())
            .finish()
    }
}

/// A view that stays valid over later publications, until it is dropped.
pub struct Pinned<'m> {
    view: View<'m>,
    pin: u64,
}

impl<'m> Pinned<'m> {
    pub(crate) fn new(map: &'m Map, view: sys::gpumap_view, pin: u64) -> Self {
        Pinned { view: View::new(map, view), pin }
    }

    /// Entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.view.len()
    }

    /// Has it no entries?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// The entry at `index`.
    ///
    /// # Errors
    ///
    /// [`Kind::OutOfRange`]: no such index.  [`Kind::Again`]: in a child that
    /// was forked, the pin is its parent's.
    #[inline]
    pub fn get(&self, index: impl TryInto<u32>) -> Result<u32> {
        self.view.get(index)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // SAFETY: the pin is of this map, and its view ends here.  An agent
        // that is gone has no pins.
        unsafe { sys::gpumap_unpin(self.view.map.as_raw(), self.pin) };
    }
}

impl fmt::Debug for Pinned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pinned").field(&self.view).finish()
    }
}

/// A layer map to publish.
///
/// ```no_run
/// # let map = gpumap::Map::attach()?;
/// map.publish(&gpumap::Publish::new("llama", "0:16;1:16"))?;
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Publish<'a> {
    name: &'a str,
    spec: &'a str,
    n_layers: u32,
    dtype: DType,
    layer_bytes: &'a [u64],
    other_bytes: u64,
}

impl<'a> Publish<'a> {
    /// A map by name, placed as `"ROW:LAYERS;ROW:LAYERS"` or `"LAYERS"` says.
    pub fn new(name: &'a str, spec: &'a str) -> Publish<'a> {
        Publish {
            name,
            spec,
            n_layers: 0,
            dtype: DType::F16,
            layer_bytes: &[],
            other_bytes: 0,
        }
    }

    /// Layers of the model; 0: as many as the spec has.
    pub fn n_layers(mut self, n: u32) -> Self {
        self.n_layers = n;
        self
    }

    /// The type of most weights; F16 where it is not said.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// The bytes of each layer, and of what belongs to none.
    pub fn bytes(mut self, layers: &'a [u64], other: u64) -> Self {
        self.layer_bytes = layers;
        self.other_bytes = other;
        self
    }
}

/// Names, from a call that stores one each time.
pub(crate) fn names(
    mut next: impl FnMut(&mut u32, *mut c_char) -> i32,
) -> Vec<String> {
    let mut name = [0; sys::GPUMAP_NAME_MAX as usize + 1];
    let mut cursor = 0;
    let mut all = Vec::new();

    while next(&mut cursor, name.as_mut_ptr()) == 1 {
        all.push(ffi::string(&name));
    }
    all
}

impl Map {
    /// The names of all layer maps.  No system call.
    pub fn layer_maps(&self) -> Vec<String> {
        names(|cursor, name| {
            // SAFETY: the name has room for the longest one.
            unsafe { sys::gpumap_layers_next(self.as_raw(), cursor, name) }
        })
    }

    /// A view of a layer map: entry i is the row that holds layer i.  No
    /// system call.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no map has this name.
    pub fn layers(&self, name: &str) -> Result<View<'_>> {
        const CALL: &str = "gpumap_layers_view";
        let name = ffi::text(CALL, name)?;
        let mut view = sys::gpumap_view::default();

        // SAFETY: the name stays until the call returns; the view is this
        // function's own.
        let ret = unsafe {
            sys::gpumap_layers_view(self.as_raw(), name.as_ptr(), &mut view)
        };
        self.check(CALL, ret)?;
        Ok(View::new(self, view))
    }

    /// As [`Map::layers`], of this publication for as long as the result is
    /// kept.  A round trip to the agent.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no map has this name.  [`Kind::Quota`],
    /// [`Kind::NotSeen`] and those of every request.
    pub fn pin_layers(&self, name: &str) -> Result<Pinned<'_>> {
        const CALL: &str = "gpumap_layers_pin";
        let name = ffi::text(CALL, name)?;
        let mut view = sys::gpumap_view::default();
        let mut pin = 0;

        // SAFETY: as in layers().
        let ret = unsafe {
            sys::gpumap_layers_pin(
                self.as_raw(),
                name.as_ptr(),
                &mut view,
                &mut pin,
            )
        };
        self.check(CALL, ret)?;
        Ok(Pinned::new(self, view, pin))
    }

    /// Reads a whole layer map, as one publication.  No system call.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no map has this name.  [`Kind::Again`]: the agent
    /// was publishing all through the attempts.
    pub fn read_layers(&self, name: &str) -> Result<LayersInfo> {
        const CALL: &str = "gpumap_layers_read";
        let name = ffi::text(CALL, name)?;
        let (mut n, mut n_charges) = (0, 0);

        loop {
            let mut info = sized!(gpumap_layers);
            let mut rows = vec![0; n];
            let mut layer_bytes = vec![0; n];
            let mut charges = vec![sys::gpumap_charge::default(); n_charges];
            // SAFETY: there is room for as many layers and charges as the call
            // is told.
            let ret = unsafe {
                sys::gpumap_layers_read(
                    self.as_raw(),
                    name.as_ptr(),
                    &mut info,
                    rows.as_mut_ptr(),
                    layer_bytes.as_mut_ptr(),
                    n,
                    charges.as_mut_ptr(),
                    n_charges,
                )
            };
            if ret != -sys::ENOBUFS {
                self.check(CALL, ret)?;
                rows.truncate(info.n_layers as usize);
                layer_bytes.truncate(info.n_layers as usize);
                charges.truncate(info.n_rows as usize);
                return Ok(layers_info(&info, rows, layer_bytes, &charges));
            }
            n = info.n_layers as usize;
            n_charges = info.n_rows as usize;
        }
    }

    /// Has the agent publish a layer map, which replaces one of this name.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`], [`Kind::NoDevice`], [`Kind::Denied`],
    /// [`Kind::Quota`], [`Kind::Full`]: the refusal says what to do; and those
    /// of every request.
    pub fn publish(&self, request: &Publish<'_>) -> Result<View<'_>> {
        const CALL: &str = "gpumap_layers_publish";
        let name = ffi::text(CALL, request.name)?;
        let spec = ffi::text(CALL, request.spec)?;
        let sizes = request.layer_bytes;
        let mut n_layers = request.n_layers;

        if !sizes.is_empty() {
            let n = ffi::count(CALL, sizes.len())?;
            if n_layers != 0 && n_layers != n {
                return Err(Error::new(
                    CALL,
                    sys::EINVAL,
                    "the layers and their sizes are not as many",
                ));
            }
            n_layers = n;
        }
        let raw = sized!(gpumap_layers_request {
            name: name.as_ptr(),
            spec: spec.as_ptr(),
            n_layers: n_layers,
            dtype: request.dtype.raw(),
            layer_bytes: ffi::list(sizes),
            other_bytes: request.other_bytes,
        });
        // SAFETY: the request's text and lists stay until the call returns,
        // and the list has n_layers elements.
        let ret = unsafe { sys::gpumap_layers_publish(self.as_raw(), &raw) };
        self.check(CALL, ret)?;
        self.layers(request.name)
    }

    /// Has the agent remove a layer map, and free what it reserved.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no map has this name.  [`Kind::Denied`]: it belongs
    /// to another user.
    pub fn release(&self, name: &str) -> Result<()> {
        const CALL: &str = "gpumap_layers_release";
        let name = ffi::text(CALL, name)?;
        // SAFETY: the name stays until the call returns.
        let ret =
            unsafe { sys::gpumap_layers_release(self.as_raw(), name.as_ptr()) };
        self.check(CALL, ret).map(drop)
    }
}

fn layers_info(
    info: &sys::gpumap_layers,
    rows: Vec<u32>,
    layer_bytes: Vec<u64>,
    charges: &[sys::gpumap_charge],
) -> LayersInfo {
    LayersInfo {
        name: ffi::string(&info.name),
        version: info.version,
        owner_uid: info.owner_uid,
        setting: Setting::from_raw(info.setting),
        base_row: info.base_row,
        dtype: DType::from_raw(info.dtype),
        other_bytes: info.other_bytes,
        spec: ffi::string(&info.spec),
        committed: info.flags & sys::GPUMAP_LAYERS_COMMITTED != 0,
        held: info.flags & sys::GPUMAP_LAYERS_HELD != 0,
        rows,
        layer_bytes,
        charges: charges
            .iter()
            .map(|one| Charge {
                row: one.row,
                n_layers: one.n_layers,
                weight_bytes: one.weight_bytes,
                kv_bytes: one.kv_bytes,
                activation_bytes: one.activation_bytes,
                reserve_bytes: one.reserve_bytes,
            })
            .collect(),
    }
}
