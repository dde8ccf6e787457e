// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Checkpoints in the memory of devices, and their tensors.

use crate::dtype::{self, DType, Element};
use crate::error::{Error, Result};
use crate::ffi::{self, numbers, sized};
use crate::memory::{Base, Operand};
use crate::session::{Session, Thing};
use crate::share::Fingerprint;
use gpumap_sys as sys;
use std::ffi::{CStr, CString};
use std::fmt;
use std::marker::PhantomData;
use std::os::raw::c_char;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::Duration;

numbers! {
    /// The state of a model.
    ModelState {
        /// Memory is allocated, on all rows, before any reading.
        Allocating = GPUMAP_MODEL_ALLOCATING,
        /// Jobs read its files.
        Loading = GPUMAP_MODEL_LOADING,
        /// All tensors are there.
        Loaded = GPUMAP_MODEL_LOADED,
        /// Loading has failed; memory is being freed.
        Ending = GPUMAP_MODEL_ENDING,
        /// Loading has failed, and no memory is left of it.
        Failed = GPUMAP_MODEL_FAILED,
        /// Another session loads it.
        Waiting = GPUMAP_MODEL_WAITING,
    }
}

numbers! {
    /// The form of a checkpoint's metadata.
    MetaFormat {
        /// The file config.json beside the files.
        ConfigJson = GPUMAP_META_CONFIG_JSON,
        /// The first bytes of a GGUF file, up to the end of its key-value
        /// pairs.
        Gguf = GPUMAP_META_GGUF,
    }
}

/// How far loading has come.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The state.
    pub state: ModelState,
    /// Bytes of tensors that are loaded.
    pub bytes: u64,
    /// Bytes of all tensors.
    pub total_bytes: u64,
    /// Time of loading.
    pub elapsed: Duration,
    /// Over the last seconds; once it is loaded, over all of the loading.
    pub bytes_per_second: u64,
    /// Time that is left at this rate; None: not known.
    pub left: Option<Duration>,
    /// Tensors of the checkpoint.
    pub n_tensors: u32,
    /// Buffers that they lie in.
    pub n_buffers: u32,
    /// Another session had loaded it.
    pub was_there: bool,
}

/// A checkpoint to load, and where to.
///
/// ```no_run
/// # use gpumap::LoadModel;
/// # let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// let model = session.load(
///     &LoadModel::new("/models/llama").layers("llama").name("llama"),
/// )?;
/// model.wait(None)?;
/// println!("{} tensors", model.tensors().len());
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LoadModel {
    path: PathBuf,
    layers: Option<String>,
    rows: Option<Vec<u32>>,
    flags: u32,
    name: Option<String>,
    uids: Vec<u32>,
    share_flags: u32,
    fingerprint: Option<Fingerprint>,
}

impl LoadModel {
    /// A folder of safetensors files, one such file, or a GGUF file; it goes to
    /// row 0.
    pub fn new(path: impl AsRef<Path>) -> LoadModel {
        LoadModel {
            path: path.as_ref().into(),
            layers: None,
            rows: None,
            flags: 0,
            name: None,
            uids: Vec::new(),
            share_flags: 0,
            fingerprint: None,
        }
    }

    /// Each layer goes to its row of this layer map.
    pub fn layers(mut self, map: &str) -> Self {
        self.layers = Some(map.into());
        self
    }

    /// Only tensors of these rows; without a layer map, all go to the first.
    pub fn rows(mut self, rows: &[u32]) -> Self {
        self.rows = Some(rows.into());
        self
    }

    /// The buffers can be exported to other sessions.
    pub fn exportable(mut self) -> Self {
        self.flags |= sys::GPUMAP_BUFFER_EXPORTABLE;
        self
    }

    /// The path is one file of any content, which becomes one tensor of bytes
    /// on a host row.
    pub fn as_file(mut self) -> Self {
        self.flags |= sys::GPUMAP_MODEL_AS_FILE;
        self
    }

    /// Loads it once for all sessions that ask for this name, which then share
    /// it.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Takes what the name holds, whatever files it was loaded from.
    pub fn any_files(mut self) -> Self {
        self.flags |= sys::GPUMAP_MODEL_ANY_FILES;
        self
    }

    /// Sessions that open the name cannot write it.
    pub fn read_only(mut self) -> Self {
        self.share_flags |= sys::GPUMAP_SHARE_READ_ONLY;
        self
    }

    /// Every user may open the name.
    pub fn any_user(mut self) -> Self {
        self.share_flags |= sys::GPUMAP_SHARE_ANY_USER;
        self
    }

    /// The model stays when no session has it, until
    /// [`Map::release_share`](crate::Map::release_share).
    pub fn keep(mut self) -> Self {
        self.share_flags |= sys::GPUMAP_SHARE_KEEP;
        self
    }

    /// Other users who may open the name.
    pub fn uids(mut self, uids: &[u32]) -> Self {
        self.uids = uids.into();
        self
    }

    /// The fingerprint that a model of this name has, or must have.
    pub fn fingerprint(mut self, fingerprint: &Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint.clone());
        self
    }
}

/// A model to open that another session has loaded.
#[derive(Clone, Debug)]
pub struct OpenModel {
    name: String,
    flags: u32,
    expect: Option<Fingerprint>,
}

impl OpenModel {
    /// By its name, for jobs, read-only.
    pub fn new(name: &str) -> OpenModel {
        OpenModel {
            name: name.into(),
            flags: sys::GPUMAP_SHARE_READ_ONLY,
            expect: None,
        }
    }

    /// The fingerprint that it must have.
    pub fn expect(mut self, fingerprint: &Fingerprint) -> Self {
        self.expect = Some(fingerprint.clone());
        self
    }

    /// Maps memory of host rows into this process, read-only, so that
    /// [`Tensor::data`] has it; jobs cannot name it then.
    ///
    /// # Safety
    ///
    /// No process writes the model's memory while the result is open.  The
    /// session that loaded it could, by jobs, and so could every session that
    /// opened it if it is not shared read-only.
    pub unsafe fn mapped(mut self) -> Self {
        self.flags |= sys::GPUMAP_MODEL_MAPPED;
        self
    }
}

/// A checkpoint in the memory of devices.
///
/// Dropped while jobs in flight use it, it is given back once they have ended.
/// Its tensors cannot outlive it:
///
/// ```compile_fail,E0505
/// # use gpumap::OpenModel;
/// # fn f() -> Result<(), gpumap::Error> {
/// # let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// let model = session.open_model(&OpenModel::new("llama"))?;
/// let tensor = model.tensor("model.embed_tokens.weight")?;
/// drop(model);
/// println!("{:?}", tensor.shape());
/// # Ok(())
/// # }
/// ```
///
/// Nor can they outlive its session:
///
/// ```compile_fail,E0505
/// # use gpumap::OpenModel;
/// # fn f() -> Result<(), gpumap::Error> {
/// # let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// let model = session.open_model(&OpenModel::new("llama"))?;
/// let tensor = model.tensor("model.embed_tokens.weight")?;
/// drop(session);
/// println!("{:?}", tensor.shape());
/// # Ok(())
/// # }
/// ```
pub struct Model<'s> {
    session: &'s Session<'s>,
    raw: NonNull<sys::gpumap_model>,
    slot: usize,
}

/// The memory of a model on one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelBuffer {
    /// The row.
    pub row: u32,
    /// Bytes.
    pub bytes: u64,
}

/// A checkpoint's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meta<'a> {
    /// The form of the bytes.
    pub format: MetaFormat,
    /// The bytes, in memory that never changes.
    pub data: &'a [u8],
}

impl<'s> Model<'s> {
    fn new(session: &'s Session<'_>, raw: *mut sys::gpumap_model) -> Model<'s> {
        let raw = NonNull::new(raw).expect("a model that was made");
        let slot = session.keep(Thing::Model(raw));

        Model { session, raw, slot }
    }

    /// The model for calls of `gpumap-sys`, which stays this one's.
    pub fn as_raw(&self) -> *mut sys::gpumap_model {
        self.raw.as_ptr()
    }

    /// Makes progress with loading, and reports it.
    ///
    /// # Errors
    ///
    /// The reason why loading has failed, once nothing is left of the model;
    /// the refusal names the file or the row.
    pub fn progress(&self) -> Result<Progress> {
        let mut had = sized!(gpumap_model_progress);
        // SAFETY: the model is open; had is this function's own.
        let ret =
            unsafe { sys::gpumap_model_progress(self.as_raw(), &mut had) };
        self.session.check("gpumap_model_progress", ret)?;
        Ok(Progress {
            state: ModelState::from_raw(had.state),
            bytes: had.bytes,
            total_bytes: had.total_bytes,
            elapsed: Duration::from_nanos(had.elapsed_ns),
            bytes_per_second: had.bytes_per_second,
            left: Some(had.left_ns)
                .filter(|left| *left != u64::MAX)
                .map(Duration::from_nanos),
            n_tensors: had.n_tensors,
            n_buffers: had.n_buffers,
            was_there: had.was_there != 0,
        })
    }

    /// Waits until it is loaded; None: for ever.
    ///
    /// # Errors
    ///
    /// [`Kind::Timeout`](crate::Kind::Timeout): call again.  Others as
    /// [`Model::progress`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<()> {
        let deadline = ffi::deadline_ns(timeout);

        self.session.taking(|| {
            // SAFETY: the model is open.
            let ret =
                unsafe { sys::gpumap_model_wait(self.as_raw(), deadline) };
            self.session.check("gpumap_model_wait", ret).map(drop)
        })
    }

    /// Stops loading, and frees the memory; [`Model::progress`] tells when
    /// nothing is left.  Does nothing once it is loaded.
    ///
    /// # Errors
    ///
    /// [`Kind::Forked`](crate::Kind::Forked).
    pub fn cancel(&self) -> Result<()> {
        // SAFETY: the model is open.
        let ret = unsafe { sys::gpumap_model_cancel(self.as_raw()) };
        self.session.check("gpumap_model_cancel", ret).map(drop)
    }

    /// Imports memory again after a row's worker has died; of a model with a
    /// name.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`](crate::Kind::NotFound): the share has ended, load it
    /// again.  [`Kind::Again`](crate::Kind::Again): it is not loaded.
    /// [`Kind::Invalid`](crate::Kind::Invalid): it has no name.
    pub fn renew(&mut self) -> Result<()> {
        self.session.taking(|| {
            // SAFETY: the model is open, and no tensor of it exists, since
            // this has the model for itself.
            let ret = unsafe { sys::gpumap_model_renew(self.as_raw()) };
            self.session.check("gpumap_model_renew", ret).map(drop)
        })
    }

    /// The tensor of this name.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`](crate::Kind::NotFound): the checkpoint has none.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        const CALL: &str = "gpumap_model_find";
        let c_name = ffi::text(CALL, name)?;
        let mut had = sized!(gpumap_tensor);
        // SAFETY: the model is open, and the name stays meanwhile.
        let ret = unsafe {
            sys::gpumap_model_find(self.as_raw(), c_name.as_ptr(), &mut had)
        };
        if ret == -sys::ENOENT {
            let why = format!("the checkpoint has no tensor {:?}", name);
            return Err(Error::new(CALL, sys::ENOENT, why));
        }
        self.session.check(CALL, ret)?;
        // SAFETY: the library has filled it in, of this model.
        Ok(unsafe { self.described(&had) })
    }

    /// All tensors, by name.
    pub fn tensors(&self) -> Vec<Tensor<'_>> {
        let mut had = sized!(gpumap_tensor);
        let mut cursor = 0;
        let mut all = Vec::new();

        // SAFETY: the model is open; the cursor is this function's own.
        while unsafe {
            sys::gpumap_model_next(self.as_raw(), &mut cursor, &mut had)
        } == 1
        {
            // SAFETY: the library has filled it in, of this model.
            all.push(unsafe { self.described(&had) });
        }
        all
    }

    /// # Safety
    ///
    /// The library has filled it in, of this model.
    unsafe fn described(&self, had: &sys::gpumap_tensor) -> Tensor<'_> {
        let base = match had.buffer {
            0 => Base::Nowhere,
            handle => Base::Buffer(handle),
        };
        // SAFETY: the strings, the shape and the data are the model's, whose
        // borrow the result has; the library puts n_dims numbers and as many
        // bytes there.  By the promise of OpenModel::mapped() no process
        // writes the data.
        unsafe {
            Tensor {
                name: text_of(had.name),
                type_name: text_of(had.type_),
                dtype: DType::from_raw(had.dtype),
                shape: slice_of(had.shape, u64::from(had.n_dims)),
                row: had.row,
                layer: u32::try_from(had.layer).ok(),
                bytes: had.bytes,
                data: match had.data.is_null() {
                    true => None,
                    false => Some(slice_of(had.data.cast(), had.bytes)),
                },
                operand: Operand {
                    session: self.session.id(),
                    slot: self.slot,
                    base,
                    at: had.at,
                    bytes: had.at.saturating_add(had.bytes),
                    writable: false,
                    lifetime: PhantomData,
                },
            }
        }
    }

    /// The checkpoint's metadata; None: it has none, or is not loaded yet.
    pub fn meta(&self) -> Option<Meta<'_>> {
        let mut had = sized!(gpumap_model_meta);
        // SAFETY: the model is open; had is this function's own.
        let ret = unsafe { sys::gpumap_model_meta(self.as_raw(), &mut had) };
        if ret != 0 {
            return None;
        }
        Some(Meta {
            format: MetaFormat::from_raw(had.format),
            // SAFETY: the bytes never change, and are there until the model
            // is closed, which the borrow of self forbids.
            data: unsafe { slice_of(had.data.cast(), had.bytes) },
        })
    }

    /// The memory that it has, or will have.
    pub fn buffers(&self) -> Vec<ModelBuffer> {
        let zero = sys::gpumap_model_buffer::default();
        let all = ffi::all(zero, |room| {
            // SAFETY: the model is open, and there is room for as many as the
            // call is told.
            Ok(unsafe {
                sys::gpumap_model_buffers(
                    self.as_raw(),
                    room.as_mut_ptr(),
                    room.len() as u32,
                )
            } as usize)
        });
        all.into_iter()
            .flatten()
            .map(|one| ModelBuffer { row: one.row, bytes: one.bytes })
            .collect()
    }

    /// Gives it back, as a drop does.
    pub fn close(self) {}
}

impl Drop for Model<'_> {
    fn drop(&mut self) {
        self.session.drop_handle(self.slot);
    }
}

impl fmt::Debug for Model<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("buffers", &self.buffers()).finish()
    }
}

/// Text of a model: the part of it that is UTF-8.
///
/// # Safety
///
/// NULL, or text that ends with a NUL and stays for 'a.
unsafe fn text_of<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    // SAFETY: by the caller's promise.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()])
            .expect("as far as it is valid"),
    }
}

/// # Safety
///
/// There are n elements, which do not change, for 'a; or none.
unsafe fn slice_of<'a, T>(at: *const T, n: u64) -> &'a [T] {
    match at.is_null() || n == 0 {
        true => &[],
        // SAFETY: by the caller's promise.
        false => unsafe { std::slice::from_raw_parts(at, n as usize) },
    }
}

/// A tensor of a model: the source of jobs, and memory of this process if the
/// model is [mapped](OpenModel::mapped).
#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    name: &'a str,
    type_name: &'a str,
    dtype: DType,
    shape: &'a [u64],
    row: u32,
    layer: Option<u32>,
    bytes: u64,
    data: Option<&'a [u8]>,
    operand: Operand<'a>,
}

impl<'a> Tensor<'a> {
    /// The name, as far as it is UTF-8.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The type of an element as in the file, `"BF16"`, or of a block of
    /// elements, `"Q4_K"`.
    pub fn type_name(&self) -> &'a str {
        self.type_name
    }

    /// The type of an element; [`DType::U8`] of types that have none here, such
    /// as those of blocks.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// In elements; the last varies fastest in memory.
    pub fn shape(&self) -> &'a [u64] {
        self.shape
    }

    /// The row that it is on.
    pub fn row(&self) -> u32 {
        self.row
    }

    /// The layer; None: of none.
    pub fn layer(&self) -> Option<u32> {
        self.layer
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An operand that begins at this byte.
    pub fn at(&self, bytes: u64) -> Operand<'a> {
        self.operand.at(bytes)
    }

    /// Its bytes in this process; None: the model is not
    /// [mapped](OpenModel::mapped), or this is not on a host row.
    pub fn data(&self) -> Option<&'a [u8]> {
        self.data
    }

    /// Its elements in this process.
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`](crate::Kind::Unsupported): it has no bytes here,
    /// or its type is another one.
    pub fn elements<T: Element>(&self) -> Result<&'a [T]> {
        let refuse =
            |why| Err(Error::new("Tensor::elements", sys::EOPNOTSUPP, why));
        let data = match self.data {
            Some(data) => data,
            None => return refuse("the tensor is not mapped: see OpenModel"),
        };
        if self.dtype != T::DTYPE {
            return refuse("the tensor's elements are of another type");
        }
        match dtype::elements(data) {
            Some(elements) => Ok(elements),
            None => refuse("the tensor's elements are not aligned"),
        }
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tensor")
            .field("name", &self.name)
            .field("type", &self.type_name)
            .field("shape", &self.shape)
            .field("row", &self.row)
            .finish()
    }
}

impl fmt::Display for Tensor<'_> {
    /// `model.norm.weight BF16[4096] on row 0`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}{:?} on row {}",
            self.name, self.type_name, self.shape, self.row
        )
    }
}

impl<'a> From<&Tensor<'a>> for Operand<'a> {
    fn from(tensor: &Tensor<'a>) -> Operand<'a> {
        tensor.operand
    }
}

impl Session<'_> {
    /// Begins to load a checkpoint, or has at once what another session has
    /// loaded by the same name.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`](crate::Kind::NotFound): no such checkpoint or layer
    /// map.  [`Kind::Invalid`](crate::Kind::Invalid): a file is malformed, or
    /// the map is for another model.
    /// [`Kind::Mismatch`](crate::Kind::Mismatch): the name holds other files,
    /// or another fingerprint.  [`Kind::TooNew`](crate::Kind::TooNew): the
    /// checkpoint has more files, tensors or headers than the library reads.
    /// The refusal names the file.
    pub fn load(&self, what: &LoadModel) -> Result<Model<'_>> {
        const CALL: &str = "gpumap_model_load";
        let path = ffi::path(CALL, &what.path)?;
        let layers = ffi::some(CALL, what.layers.as_deref())?;
        let name = ffi::some(CALL, what.name.as_deref())?;
        let fingerprint = Fingerprint::lent(CALL, what.fingerprint.as_ref())?;
        let rows = match (&what.rows, &layers) {
            (Some(rows), _) => rows.as_slice(),
            (None, None) => &[0],
            (None, Some(_)) => &[],
        };
        let opts = sized!(gpumap_model_opts {
            path: path.as_ptr(),
            layers: ffi::pointer(&layers),
            rows: ffi::list(rows),
            n_rows: ffi::count(CALL, rows.len())?,
            flags: what.flags,
            name: ffi::pointer(&name),
            uids: ffi::list(&what.uids),
            n_uids: ffi::count(CALL, what.uids.len())?,
            share_flags: what.share_flags,
            fingerprint: fingerprint.pointer(),
        });
        let mut raw = std::ptr::null_mut();

        self.give_back_all();
        // SAFETY: opts' text and lists stay until the call returns, as long as
        // its numbers say.
        let ret =
            unsafe { sys::gpumap_model_load(self.as_raw(), &opts, &mut raw) };
        self.check(CALL, ret)?;
        Ok(Model::new(self, raw))
    }

    /// Opens a model that another session has loaded: no file is read.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`](crate::Kind::NotFound): no model has this name, or a
    /// session loads it.  [`Kind::Mismatch`](crate::Kind::Mismatch): another
    /// fingerprint.  [`Kind::Busy`](crate::Kind::Busy): this session has it
    /// already.  [`Kind::Denied`](crate::Kind::Denied),
    /// [`Kind::Quota`](crate::Kind::Quota).
    pub fn open_model(&self, what: &OpenModel) -> Result<Model<'_>> {
        const CALL: &str = "gpumap_model_open";
        let name: CString = ffi::text(CALL, &what.name)?;
        let expect = Fingerprint::lent(CALL, what.expect.as_ref())?;
        let mut raw = std::ptr::null_mut();

        self.give_back_all();
        // SAFETY: the name and the fingerprint stay until the call returns.
        let ret = unsafe {
            sys::gpumap_model_open(
                self.as_raw(),
                name.as_ptr(),
                what.flags,
                expect.pointer(),
                &mut raw,
            )
        };
        self.check(CALL, ret)?;
        Ok(Model::new(self, raw))
    }
}
