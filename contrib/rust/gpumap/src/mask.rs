// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Attention masks, which have a replica near each row.

use crate::dtype::DType;
#[cfg(any(doc, test))]
use crate::error::Kind;
use crate::error::{Error, Result};
use crate::ffi::{self, numbers, sized};
use crate::layers::names;
use crate::map::Map;
use gpumap_sys as sys;
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};

const RANK_MAX: usize = sys::GPUMAP_MASK_RANK_MAX as usize;

numbers! {
    /// A kind of mask.
    MaskKind {
        /// Every query sees every key.
        None = GPUMAP_MASK_NONE,
        /// The kernel masks, without a tensor.
        CausalFlash = GPUMAP_MASK_CAUSAL_FLASH,
        /// A tensor.
        Custom = GPUMAP_MASK_CUSTOM,
    }
}

numbers! {
    /// The origin of a mask that is a tensor.
    MaskForm {
        /// A client's bytes.
        Loaded = GPUMAP_MASK_LOADED,
        /// No key after the query.
        Causal = GPUMAP_MASK_CAUSAL,
        /// Nor one more than the window before it.
        Sliding = GPUMAP_MASK_SLIDING,
        /// Nor one of another chunk.
        Chunked = GPUMAP_MASK_CHUNKED,
        /// None the window or more away, on either side.
        BidirectionalSliding = GPUMAP_MASK_BIDIRECTIONAL_SLIDING,
    }
}

/// A mask to publish, with replicas for rows.
///
/// ```no_run
/// # use gpumap::{DType, NewMask};
/// # let map = gpumap::Map::attach()?;
/// let mask = NewMask::causal("causal", DType::F16, 128, 0).rows(&[0, 1]);
/// println!("{} bytes", map.publish_mask(&mask)?.bytes);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NewMask<'a> {
    name: &'a str,
    kind: MaskKind,
    form: MaskForm,
    dtype: DType,
    tgt_len: u64,
    past_kv_len: u64,
    sliding_window: u64,
    chunk_size: u64,
    shape: &'a [u64],
    data: &'a [u8],
    rows: &'a [u32],
    map: Option<&'a str>,
}

impl<'a> NewMask<'a> {
    fn new(name: &'a str, kind: MaskKind) -> NewMask<'a> {
        NewMask {
            name,
            kind,
            form: MaskForm::Loaded,
            dtype: DType::U8,
            tgt_len: 0,
            past_kv_len: 0,
            sliding_window: 0,
            chunk_size: 0,
            shape: &[],
            data: &[],
            rows: &[],
            map: None,
        }
    }

    /// Every query sees every key.
    pub fn none(name: &'a str) -> NewMask<'a> {
        NewMask::new(name, MaskKind::None)
    }

    /// The kernel masks, without a tensor.
    pub fn causal_flash(name: &'a str) -> NewMask<'a> {
        NewMask::new(name, MaskKind::CausalFlash)
    }

    /// A tensor of these bytes, row-major and without gaps.
    pub fn loaded(
        name: &'a str,
        dtype: DType,
        shape: &'a [u64],
        data: &'a [u8],
    ) -> NewMask<'a> {
        NewMask { dtype, shape, data, ..NewMask::new(name, MaskKind::Custom) }
    }

    /// No key after the query, of `tgt_len` queries behind `past_kv_len` keys.
    pub fn causal(
        name: &'a str,
        dtype: DType,
        tgt_len: u64,
        past_kv_len: u64,
    ) -> NewMask<'a> {
        NewMask {
            form: MaskForm::Causal,
            dtype,
            tgt_len,
            past_kv_len,
            ..NewMask::new(name, MaskKind::Custom)
        }
    }

    /// As a causal one: nor a key more than `window` before the query.
    pub fn sliding(mut self, window: u64) -> Self {
        self.form = MaskForm::Sliding;
        self.sliding_window = window;
        self
    }

    /// As a causal one: nor a key of another chunk of `size`.
    pub fn chunked(mut self, size: u64) -> Self {
        self.form = MaskForm::Chunked;
        self.chunk_size = size;
        self
    }

    /// Instead of a causal one: no key `window` or more away, on either side.
    pub fn bidirectional(mut self, window: u64) -> Self {
        self.form = MaskForm::BidirectionalSliding;
        self.sliding_window = window;
        self
    }

    /// Replicas for these rows.
    pub fn rows(mut self, rows: &'a [u32]) -> Self {
        self.rows = rows;
        self
    }

    /// Replicas for the rows of a layer map, including its later ones.
    pub fn follow(mut self, map: &'a str) -> Self {
        self.map = Some(map);
        self
    }

    /// The shape for the library, of a tensor that is loaded, once the bytes
    /// were found to be as many as it has.
    fn checked_shape(&self) -> Result<[u64; RANK_MAX]> {
        let refuse =
            |why| Err(Error::new("gpumap_mask_publish", sys::EINVAL, why));
        let mut shape = [0; RANK_MAX];

        if self.kind != MaskKind::Custom || self.form != MaskForm::Loaded {
            return Ok(shape);
        }
        if self.shape.is_empty() || self.shape.len() > RANK_MAX {
            return refuse("a mask has one to four dimensions");
        }
        let bytes = self
            .shape
            .iter()
            .try_fold(self.dtype.bytes(), |all, n| all.checked_mul(*n));
        if bytes != Some(self.data.len() as u64) {
            return refuse("the mask has not as many bytes as its shape says");
        }
        shape[..self.shape.len()].copy_from_slice(self.shape);
        Ok(shape)
    }
}

/// The result of publishing a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedMask {
    /// A number that grows with every publication under this name.
    pub version: u64,
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Replicas that were written.
    pub n_copies: u32,
    /// Replicas that were there, under another name.
    pub n_shared: u32,
}

/// The facts of a published mask.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaskInfo {
    /// Its name.
    pub name: String,
    /// A number that grows with every publication under this name.
    pub version: u64,
    /// The user who has published it.
    pub owner_uid: u32,
    /// The kind.
    pub kind: MaskKind,
    /// The origin of a tensor.
    pub form: MaskForm,
    /// The type of an element.
    pub dtype: DType,
    /// The tensor's dimensions; empty: there is no tensor.
    pub shape: Vec<u64>,
    /// Bytes from one to the next, of each dimension.
    pub strides: Vec<u64>,
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Equal for equal bytes.
    pub hash: u64,
    /// The layer map whose rows it follows.
    pub map: Option<String>,
    /// Rows that have a replica.
    pub rows: Vec<u32>,
}

/// The replica of a mask that one row has.
#[derive(Clone, Copy)]
pub struct Replica<'a> {
    raw: sys::gpumap_mask_view,
    mask: PhantomData<&'a ()>,
}

impl Replica<'_> {
    /// The row.
    pub fn row(&self) -> u32 {
        self.raw.row
    }

    /// The version of the mask.
    pub fn version(&self) -> u64 {
        self.raw.version
    }

    /// The kind.
    pub fn kind(&self) -> MaskKind {
        MaskKind::from_raw(self.raw.kind)
    }

    /// The type of an element.
    pub fn dtype(&self) -> DType {
        DType::from_raw(self.raw.dtype)
    }

    /// In elements; the last varies fastest in memory.
    pub fn shape(&self) -> &[u64] {
        &self.raw.shape[..RANK_MAX.min(self.raw.rank as usize)]
    }

    /// Bytes from one to the next, of each dimension.
    pub fn strides(&self) -> &[u64] {
        &self.raw.strides[..RANK_MAX.min(self.raw.rank as usize)]
    }

    /// Bytes of the tensor; 0: there is none.
    pub fn bytes(&self) -> u64 {
        self.raw.bytes
    }

    /// The tensor in this process; NULL: on a device, or none.
    ///
    /// Unless the mask is [pinned](Map::pin_mask), the agent may write another
    /// version there meanwhile: read it as such memory has to be, and discard
    /// the result unless [`Mask::holds`].
    pub fn as_ptr(&self) -> *const u8 {
        self.raw.data.cast()
    }

    /// The number to import a device's memory by, and the offset there.
    pub fn export(&self) -> Option<(u64, u64)> {
        match self.raw.export_id {
            0 => None,
            number => Some((number, self.raw.at)),
        }
    }
}

impl fmt::Debug for Replica<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica")
            .field("row", &self.row())
            .field("version", &self.version())
            .field("dtype", &self.dtype())
            .field("shape", &self.shape())
            .finish()
    }
}

/// A copy of a mask's tensor, of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MaskCopy {
    /// The mask's version.
    pub version: u64,
    /// The type of an element.
    pub dtype: DType,
    /// In elements; the last varies fastest in memory.
    pub shape: Vec<u64>,
    /// The bytes, without gaps.
    pub data: Vec<u8>,
}

/// A mask that follows its publications.
///
/// One thread at a time uses it: it can move to another one, and threads cannot
/// share it.
///
/// ```compile_fail,E0277
/// # fn f() -> Result<(), gpumap::Error> {
/// let map = gpumap::Map::attach()?;
/// let mask = map.mask("causal")?;
/// std::thread::scope(|threads| {
///     threads.spawn(|| mask.copy(0));
/// });
/// # Ok(())
/// # }
/// ```
pub struct Mask<'m> {
    map: &'m Map,
    raw: NonNull<sys::gpumap_mask>,
}

// SAFETY: the library lets another thread go on with a mask, one at a time.
unsafe impl Send for Mask<'_> {}

impl<'m> Mask<'m> {
    fn open(map: &'m Map, name: &str, flags: u32) -> Result<Mask<'m>> {
        const CALL: &str = "gpumap_mask_open";
        let name = ffi::text(CALL, name)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the name stays until the call returns.
        let ret = unsafe {
            sys::gpumap_mask_open(map.as_raw(), name.as_ptr(), flags, &mut raw)
        };
        map.check(CALL, ret)?;
        let raw = NonNull::new(raw).expect("a mask that was opened");
        Ok(Mask { map, raw })
    }

    /// A row's replica.  Three loads and three compares, inline, unless the
    /// mask was published again.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: the row has none, or the mask was released.
    /// [`Kind::Stale`]: the map was retired, attach again.
    #[inline]
    pub fn get(&self, row: u32) -> Result<Replica<'_>> {
        // Each attempt meets another publication: bounded, as in the library.
        for _ in 0..1000 {
            let mut view = std::ptr::null();
            // SAFETY: the mask is open, with this map, and no other thread has
            // it, since it is not Sync.
            let ret = unsafe {
                sys::gpumap_mask_get(
                    self.map.as_raw(),
                    self.raw.as_ptr(),
                    row,
                    &mut view,
                )
            };
            if ret == 0 {
                // SAFETY: the view is this thread's own memory, until the next
                // call.
                let raw = unsafe { *view };
                return Ok(Replica { raw, mask: PhantomData });
            }
            if ret != -sys::EAGAIN {
                return Err(self.failed(ret));
            }
        }
        Err(self.failed(-sys::EAGAIN))
    }

    #[cold]
    fn failed(&self, ret: i32) -> Error {
        let why = match ret == -sys::ENOENT {
            true => "the row has no replica, or the mask was released",
            false => "",
        };
        Error::new("gpumap_mask_get", -ret, why)
    }

    /// Is all that was read of a replica's tensor of one version?  False:
    /// discard it.  A load and a compare.
    #[inline]
    pub fn holds(&self) -> bool {
        // SAFETY: the mask is open.
        unsafe { sys::gpumap_mask_holds(self.raw.as_ptr()) }
    }

    /// Copies a row's replica, all of one version.
    ///
    /// # Errors
    ///
    /// As [`Mask::get`]; [`Kind::Unsupported`]: it is in a device's memory.
    /// [`Kind::Again`]: it was published all through the attempts.
    pub fn copy(&self, row: u32) -> Result<MaskCopy> {
        for _ in 0..1000 {
            let replica = self.get(row)?;
            let bytes = replica.bytes() as usize;
            if replica.as_ptr().is_null() && bytes != 0 {
                return Err(on_a_device());
            }
            // SAFETY: the tensor is mapped as long as the mask is open.
            let data = unsafe { copied(replica.as_ptr(), bytes) };
            if self.holds() {
                return Ok(MaskCopy {
                    version: replica.version(),
                    dtype: replica.dtype(),
                    shape: replica.shape().into(),
                    data,
                });
            }
        }
        Err(self.failed(-sys::EAGAIN))
    }
}

fn on_a_device() -> Error {
    let why = "the replica is in a device's memory: import its export";
    Error::new("Mask", sys::EOPNOTSUPP, why)
}

/// Copies memory that another process may write meanwhile.
///
/// # Safety
///
/// So many bytes are readable, or there are none.
unsafe fn copied(at: *const u8, bytes: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(bytes);
    let words = match at.align_offset(8) {
        0 => bytes / 8,
        _ => 0,
    };

    // SAFETY: by the caller's promise; the words are aligned, and the memory
    // is only ever loaded from here.
    unsafe {
        for word in 0..words {
            let word = &*at.add(8 * word).cast::<AtomicU64>();
            let word = word.load(Ordering::Relaxed);
            data.extend_from_slice(&word.to_ne_bytes());
        }
        for byte in 8 * words..bytes {
            let byte = &*at.add(byte).cast::<AtomicU8>();
            data.push(byte.load(Ordering::Relaxed));
        }
    }
    data
}

impl Drop for Mask<'_> {
    fn drop(&mut self) {
        // SAFETY: the mask is open, with this map, and replicas borrow it.
        unsafe { sys::gpumap_mask_close(self.map.as_raw(), self.raw.as_ptr()) };
    }
}

impl fmt::Debug for Mask<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mask").field("raw", &self.raw).finish()
    }
}

/// A mask as it was published when it was pinned, until this is dropped.
///
/// Its bytes cannot outlive it:
///
/// ```compile_fail,E0505
/// # fn f() -> Result<(), gpumap::Error> {
/// # let map = gpumap::Map::attach()?;
/// let pinned = map.pin_mask("causal")?;
/// let bytes = pinned.data(0)?;
/// drop(pinned);
/// println!("{}", bytes[0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PinnedMask<'m>(Mask<'m>);

impl PinnedMask<'_> {
    /// A row's replica.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: the row has none.
    #[inline]
    pub fn get(&self, row: u32) -> Result<Replica<'_>> {
        self.0.get(row)
    }

    /// The bytes of a row's replica.
    ///
    /// # Errors
    ///
    /// As [`PinnedMask::get`]; [`Kind::Unsupported`]: they are in a device's
    /// memory.
    pub fn data(&self, row: u32) -> Result<&[u8]> {
        let replica = self.0.get(row)?;
        let bytes = replica.bytes() as usize;

        match (replica.as_ptr().is_null(), bytes) {
            (_, 0) => Ok(&[]),
            (true, _) => Err(on_a_device()),
            // SAFETY: the tensor is mapped, and pinned: no agent writes it
            // until the mask is closed, which the borrow of self forbids.
            _ => Ok(unsafe {
                std::slice::from_raw_parts(replica.as_ptr(), bytes)
            }),
        }
    }
}

impl Map {
    /// The names of all masks.  No system call.
    pub fn masks(&self) -> Vec<String> {
        names(|cursor, name| {
            // SAFETY: the name has room for the longest one.
            unsafe { sys::gpumap_mask_next(self.as_raw(), cursor, name) }
        })
    }

    /// Reads a mask's facts.  No system call.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no mask has this name.  [`Kind::Again`]: the agent
    /// was publishing all through the attempts.
    pub fn read_mask(&self, name: &str) -> Result<MaskInfo> {
        const CALL: &str = "gpumap_mask_read";
        let name = ffi::text(CALL, name)?;
        let mut n = 0;

        loop {
            let mut had = sized!(gpumap_mask_info);
            let mut rows = vec![0; n];
            // SAFETY: there is room for as many rows as the call is told.
            let ret = unsafe {
                sys::gpumap_mask_read(
                    self.as_raw(),
                    name.as_ptr(),
                    &mut had,
                    rows.as_mut_ptr(),
                    n,
                )
            };
            if ret == -sys::ENOBUFS {
                n = had.n_rows as usize;
                continue;
            }
            self.check(CALL, ret)?;
            rows.truncate(had.n_rows as usize);
            let rank = RANK_MAX.min(had.rank as usize);
            return Ok(MaskInfo {
                name: ffi::string(&had.name),
                version: had.version,
                owner_uid: had.owner_uid,
                kind: MaskKind::from_raw(had.kind),
                form: MaskForm::from_raw(had.form),
                dtype: DType::from_raw(had.dtype),
                shape: had.shape[..rank].into(),
                strides: had.strides[..rank].into(),
                bytes: had.bytes,
                hash: had.hash,
                map: Some(ffi::string(&had.map)).filter(|map| !map.is_empty()),
                rows,
            });
        }
    }

    /// Opens a mask, which then follows its publications.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no mask has this name.  [`Kind::Denied`]: this user
    /// may not read masks; the refusal names the group that may.
    pub fn mask(&self, name: &str) -> Result<Mask<'_>> {
        Mask::open(self, name, 0)
    }

    /// Opens a mask as it is published now.  A round trip to the agent.
    ///
    /// # Errors
    ///
    /// As [`Map::mask`]; [`Kind::Quota`], [`Kind::NotSeen`].
    pub fn pin_mask(&self, name: &str) -> Result<PinnedMask<'_>> {
        Mask::open(self, name, sys::GPUMAP_MASK_PIN).map(PinnedMask)
    }

    /// Has the agent publish a mask, which replaces one of this name.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`], [`Kind::NoDevice`], [`Kind::NotFound`] (of the layer
    /// map), [`Kind::Unsupported`], [`Kind::TooLarge`], [`Kind::Denied`],
    /// [`Kind::Quota`], [`Kind::Full`]: the refusal says what to do; and those
    /// of every request.
    pub fn publish_mask(&self, mask: &NewMask<'_>) -> Result<PublishedMask> {
        const CALL: &str = "gpumap_mask_publish";
        let name = ffi::text(CALL, mask.name)?;
        let follows = ffi::some(CALL, mask.map)?;
        let request = sized!(gpumap_mask_request {
            name: name.as_ptr(),
            kind: mask.kind.raw(),
            form: mask.form.raw(),
            dtype: mask.dtype.raw(),
            tgt_len: mask.tgt_len,
            past_kv_len: mask.past_kv_len,
            sliding_window: mask.sliding_window,
            chunk_size: mask.chunk_size,
            rank: mask.shape.len() as u32,
            shape: mask.checked_shape()?,
            data: ffi::list(mask.data).cast(),
            map: ffi::pointer(&follows),
            rows: ffi::list(mask.rows),
            n_rows: ffi::count(CALL, mask.rows.len())?,
        });
        let mut had = sized!(gpumap_mask_result);
        // SAFETY: the request's text and lists stay until the call returns;
        // the data has the bytes of the shape.
        let ret = unsafe {
            sys::gpumap_mask_publish(self.as_raw(), &request, &mut had)
        };
        self.check(CALL, ret)?;
        Ok(PublishedMask {
            version: had.version,
            bytes: had.bytes,
            n_copies: had.n_copies,
            n_shared: had.n_shared,
        })
    }

    /// Has the agent remove a mask.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no mask has this name.  [`Kind::Denied`]: it belongs
    /// to another user.
    pub fn release_mask(&self, name: &str) -> Result<()> {
        const CALL: &str = "gpumap_mask_release";
        let name = ffi::text(CALL, name)?;
        // SAFETY: the name stays until the call returns.
        let ret =
            unsafe { sys::gpumap_mask_release(self.as_raw(), name.as_ptr()) };
        self.check(CALL, ret).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn racing_memory_is_copied_whole() {
        let bytes: Vec<u8> = (0..100).collect();

        for first in 0..9 {
            for n in [0, 1, 7, 8, 9, 64, 91] {
                // SAFETY: the vector has them.
                let got = unsafe { copied(bytes[first..].as_ptr(), n) };
                assert_eq!(got, &bytes[first..first + n]);
            }
        }
    }

    #[test]
    fn shape_and_bytes_must_agree() {
        let kind = |dtype, shape: &[u64], data: &[u8]| {
            NewMask::loaded("m", dtype, shape, data)
                .checked_shape()
                .map_err(|error| error.kind())
        };

        assert_eq!(kind(DType::U8, &[2, 3], &[0; 6]), Ok([2, 3, 0, 0]));
        assert_eq!(kind(DType::F16, &[3], &[0; 6]), Ok([3, 0, 0, 0]));
        assert_eq!(kind(DType::F16, &[2, 3], &[0; 6]), Err(Kind::Invalid));
        assert_eq!(kind(DType::U8, &[], &[0; 1]), Err(Kind::Invalid));
        assert_eq!(kind(DType::U8, &[1; 5], &[0; 1]), Err(Kind::Invalid));
        assert_eq!(
            kind(DType::F64, &[1 << 62, 1 << 62], &[]),
            Err(Kind::Invalid)
        );
        let rule = NewMask::causal("m", DType::U8, 4, 0);
        assert_eq!(rule.checked_shape(), Ok([0; 4]));
    }
}
