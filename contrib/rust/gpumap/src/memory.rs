// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Memory that jobs use: of the arena, of devices, of files and of masks.

use crate::dtype::{self, Element};
use crate::error::{Error, Result};
use crate::ffi::{self, sized};
use crate::map::Map;
use crate::session::{Session, Thing};
use gpumap_sys as sys;
use std::fmt;
use std::fs::File;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::unix::io::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

/// Where an operand of a job is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    Arena(NonNull<u8>),
    Buffer(u64),
    /// A model's, which is not loaded, or mapped and not for jobs.
    Nowhere,
}

/// A place in memory that a job names: [`Memory`], a [`Buffer`] or a
/// [`Tensor`](crate::Tensor), from some byte on.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    pub(crate) session: usize,
    pub(crate) slot: usize,
    pub(crate) base: Base,
    pub(crate) at: u64,
    /// Bytes from the base on.
    pub(crate) bytes: u64,
    pub(crate) writable: bool,
    pub(crate) lifetime: PhantomData<&'a ()>,
}

impl Operand<'_> {
    /// The same, `bytes` further on.
    pub fn at(mut self, bytes: u64) -> Self {
        self.at = self.at.saturating_add(bytes);
        self
    }
}

/// Memory of a session's arena near a row, which jobs of any row can name.
///
/// Its bytes can be seen while no job in flight writes them, and changed while
/// none uses them at all; the session counts that.  Dropped while jobs in
/// flight use it, it is given back once they have ended.
///
/// ```no_run
/// # use gpumap::{DType, Job};
/// # let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// let mut memory = session.memory(0, 4096)?;
/// memory.bytes_mut()?.elements_mut::<f32>()[0] = 2.0;
/// let job = Job::scale(&memory, &memory, DType::F32, 1024, 0.5);
/// session.run(0, &job)?;
/// assert_eq!(memory.bytes()?.elements::<f32>()[0], 1.0);
/// # Ok::<(), gpumap::Error>(())
/// ```
///
/// Use after [`Memory::free`] does not compile:
///
/// ```compile_fail,E0382
/// # fn f() -> Result<(), gpumap::Error> {
/// # let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// let memory = session.memory(0, 4096)?;
/// memory.free();
/// memory.bytes()?;
/// # Ok(())
/// # }
/// ```
///
/// Nor does use after its session:
///
/// ```compile_fail,E0505
/// # fn f() -> Result<(), gpumap::Error> {
/// # let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// let memory = session.memory(0, 4096)?;
/// drop(session);
/// memory.bytes()?;
/// # Ok(())
/// # }
/// ```
pub struct Memory<'s> {
    session: &'s Session<'s>,
    slot: usize,
    at: NonNull<u8>,
    bytes: usize,
    row: u32,
}

impl<'s> Memory<'s> {
    pub(crate) fn new(
        session: &'s Session<'_>,
        at: *mut std::os::raw::c_void,
        bytes: usize,
        row: u32,
    ) -> Memory<'s> {
        let at = NonNull::new(at.cast()).expect("memory that was allocated");
        let slot = session.keep(Thing::Arena(at));

        Memory { session, slot, at, bytes, row }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never: it has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The row that it is near.
    pub fn row(&self) -> u32 {
        self.row
    }

    /// An operand that begins at this byte.
    pub fn at(&self, bytes: u64) -> Operand<'_> {
        Operand::from(self).at(bytes)
    }

    /// Its bytes, to read.
    ///
    /// # Errors
    ///
    /// [`Kind::Busy`](crate::Kind::Busy): a job in flight writes it.
    /// [`Kind::Gone`](crate::Kind::Gone): the agent went away while one did.
    pub fn bytes(&self) -> Result<Bytes<'_>> {
        self.session.open_slot(self.slot, false)?;
        Ok(Bytes { memory: self })
    }

    /// Its bytes, to read and to write.
    ///
    /// # Errors
    ///
    /// [`Kind::Busy`](crate::Kind::Busy): a job in flight uses it.
    /// [`Kind::Gone`](crate::Kind::Gone): the agent went away while one wrote
    /// it.
    pub fn bytes_mut(&mut self) -> Result<BytesMut<'_>> {
        self.session.open_slot(self.slot, true)?;
        Ok(BytesMut {
            session: self.session,
            slot: self.slot,
            at: self.at,
            bytes: self.bytes,
            lifetime: PhantomData,
        })
    }

    /// Gives it back, as a drop does.
    pub fn free(self) {}
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        self.session.drop_handle(self.slot);
    }
}

impl fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("bytes", &self.bytes)
            .field("row", &self.row)
            .finish()
    }
}

impl<'a> From<&'a Memory<'_>> for Operand<'a> {
    fn from(memory: &'a Memory<'_>) -> Operand<'a> {
        Operand {
            session: memory.session.id(),
            slot: memory.slot,
            base: Base::Arena(memory.at),
            at: 0,
            bytes: memory.bytes as u64,
            writable: true,
            lifetime: PhantomData,
        }
    }
}

/// The bytes of [`Memory`], to read.
#[derive(Debug)]
pub struct Bytes<'a> {
    memory: &'a Memory<'a>,
}

impl Bytes<'_> {
    /// As elements.
    ///
    /// # Panics
    ///
    /// Where the bytes are not a whole number of elements.
    pub fn elements<T: Element>(&self) -> &[T] {
        dtype::elements(self).expect("a whole number of elements")
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is of the arena, has so many bytes that were
        // initialised, and is mapped until the session is closed.  While the
        // slot is open, no job that writes it is in flight and none can be
        // submitted, and BytesMut cannot exist.
        unsafe {
            std::slice::from_raw_parts(
                self.memory.at.as_ptr(),
                self.memory.bytes,
            )
        }
    }
}

impl Drop for Bytes<'_> {
    fn drop(&mut self) {
        self.memory.session.close_slot(self.memory.slot);
    }
}

/// The bytes of [`Memory`], to read and to write.
pub struct BytesMut<'a> {
    session: &'a Session<'a>,
    slot: usize,
    at: NonNull<u8>,
    bytes: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

impl BytesMut<'_> {
    /// As elements.
    ///
    /// # Panics
    ///
    /// Where the bytes are not a whole number of elements.
    pub fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        dtype::elements_mut(self).expect("a whole number of elements")
    }
}

impl Deref for BytesMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: as deref_mut().
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.bytes) }
    }
}

impl DerefMut for BytesMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is of the arena, has so many bytes that were
        // initialised, and is mapped until the session is closed.  While the
        // slot is open, no job that uses it is in flight and none can be
        // submitted, and no other view of the memory exists.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.bytes) }
    }
}

impl Drop for BytesMut<'_> {
    fn drop(&mut self) {
        self.session.close_slot(self.slot);
    }
}

impl fmt::Debug for BytesMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BytesMut").field("bytes", &self.bytes).finish()
    }
}

/// Memory outside the arena, which jobs name: a device's own, registered, a
/// mask, or a buffer that another session exports.
///
/// Dropped while jobs in flight use it, it is given back once they have ended.
/// Use after [`Buffer::free`] does not compile:
///
/// ```compile_fail,E0382
/// # use gpumap::{DType, Job};
/// # fn f() -> Result<(), gpumap::Error> {
/// # let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// let buffer = session.alloc(0, 4096, false, None)?;
/// buffer.free();
/// session.run(0, &Job::fill(&buffer, DType::U8, 4096, 0))?;
/// # Ok(())
/// # }
/// ```
pub struct Buffer<'s> {
    session: &'s Session<'s>,
    slot: usize,
    handle: u64,
    bytes: u64,
    row: Option<u32>,
    writable: bool,
}

impl Buffer<'_> {
    /// Bytes; of a mask, 0.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whose memory it is; None: of no single row.
    pub fn row(&self) -> Option<u32> {
        self.row
    }

    pub(crate) fn session_id(&self) -> usize {
        self.session.id()
    }

    /// Its name in calls of `gpumap-sys`.
    pub fn handle(&self) -> u64 {
        self.handle
    }

    /// An operand that begins at this byte.
    pub fn at(&self, bytes: u64) -> Operand<'_> {
        Operand::from(self).at(bytes)
    }

    /// Lets other sessions import it, by the number that this returns.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`](crate::Kind::Invalid): it was not allocated to be
    /// exported.  [`Kind::Quota`](crate::Kind::Quota),
    /// [`Kind::Busy`](crate::Kind::Busy): it is shared read-only.
    pub fn export(&self) -> Result<u64> {
        let mut number = 0;
        // SAFETY: the buffer is this session's.
        let ret = unsafe {
            sys::gpumap_buffer_export(
                self.session.as_raw(),
                self.handle,
                &mut number,
            )
        };
        self.session.check("gpumap_buffer_export", ret)?;
        Ok(number)
    }

    /// Gives it back, as a drop does.
    pub fn free(self) {}
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        self.session.drop_handle(self.slot);
    }
}

impl fmt::Debug for Buffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("bytes", &self.bytes)
            .field("row", &self.row)
            .finish()
    }
}

impl<'a> From<&'a Buffer<'_>> for Operand<'a> {
    fn from(buffer: &'a Buffer<'_>) -> Operand<'a> {
        Operand {
            session: buffer.session.id(),
            slot: buffer.slot,
            base: Base::Buffer(buffer.handle),
            at: 0,
            bytes: buffer.bytes,
            writable: buffer.writable,
            lifetime: PhantomData,
        }
    }
}

/// A file that [`Job::load`](crate::Job::load) reads from.
#[derive(Debug)]
pub struct Source<'s>(Buffer<'s>);

impl<'a> From<&'a Source<'_>> for Operand<'a> {
    fn from(source: &'a Source<'_>) -> Operand<'a> {
        Operand { bytes: u64::MAX, ..Operand::from(&source.0) }
    }
}

impl<'m> Session<'m> {
    /// Allocates memory of the arena near a row.  Its content is zero, or what
    /// this session left there.
    ///
    /// # Errors
    ///
    /// [`Kind::NoMemory`](crate::Kind::NoMemory): the row's range has no room.
    /// [`Kind::NoDevice`](crate::Kind::NoDevice): no such row.
    /// [`Kind::Invalid`](crate::Kind::Invalid): 0 bytes.
    /// [`Kind::Gone`](crate::Kind::Gone), [`Kind::Forked`](crate::Kind::Forked).
    pub fn memory(&self, row: u32, bytes: usize) -> Result<Memory<'_>> {
        let mut at = std::ptr::null_mut();

        self.give_back_all();
        // SAFETY: the session is open.
        let ret = unsafe {
            sys::gpumap_alloc(self.as_raw(), row, bytes as u64, &mut at)
        };
        self.check("gpumap_alloc", ret)?;
        Ok(Memory::new(self, at, bytes, row))
    }

    fn buffer(
        &self,
        thing: Thing,
        bytes: u64,
        row: Option<u32>,
        writable: bool,
    ) -> Buffer<'_> {
        let handle = match thing {
            Thing::Buffer(handle) | Thing::Registered(handle) => handle,
            _ => 0,
        };
        let slot = self.keep(thing);

        Buffer { session: self, slot, handle, bytes, row, writable }
    }

    /// Allocates memory of a device.  Its content is zero, or what this session
    /// left there.
    ///
    /// `exportable`: other sessions, and copies to other rows, may have it.
    ///
    /// # Errors
    ///
    /// [`Kind::NoMemory`](crate::Kind::NoMemory): the device is full.
    /// [`Kind::Quota`](crate::Kind::Quota),
    /// [`Kind::Timeout`](crate::Kind::Timeout),
    /// [`Kind::Unsupported`](crate::Kind::Unsupported), and as
    /// [`Session::memory`].
    pub fn alloc(
        &self,
        row: u32,
        bytes: u64,
        exportable: bool,
        timeout: Option<Duration>,
    ) -> Result<Buffer<'_>> {
        let flags = match exportable {
            true => sys::GPUMAP_BUFFER_EXPORTABLE,
            false => 0,
        };
        let deadline = ffi::deadline_ns(timeout);
        let handle = self.taking(|| {
            let mut handle = 0;
            // SAFETY: the session is open.
            let ret = unsafe {
                sys::gpumap_buffer_alloc(
                    self.as_raw(),
                    row,
                    bytes,
                    flags,
                    deadline,
                    &mut handle,
                )
            };
            self.check("gpumap_buffer_alloc", ret)?;
            Ok(handle)
        })?;
        Ok(self.buffer(Thing::Buffer(handle), bytes, Some(row), true))
    }

    /// Imports what another session exports.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`](crate::Kind::NotFound): there is no such export.
    /// [`Kind::Denied`](crate::Kind::Denied): not between these users.
    /// [`Kind::Quota`](crate::Kind::Quota).
    pub fn import(&self, export: u64, read_only: bool) -> Result<Buffer<'_>> {
        let mut handle = 0;
        // SAFETY: the session is open.
        let ret = unsafe {
            sys::gpumap_buffer_import(
                self.as_raw(),
                export,
                read_only_flag(read_only),
                &mut handle,
            )
        };
        self.check("gpumap_buffer_import", ret)?;
        let buffer = self.buffer(Thing::Buffer(handle), 0, None, !read_only);
        self.described(buffer)
    }

    /// Fills in what the library knows of a buffer.
    fn described<'s>(&self, mut buffer: Buffer<'s>) -> Result<Buffer<'s>> {
        let mut info = sized!(gpumap_buffer_info);
        // SAFETY: the buffer is this session's; info's size is set.
        let ret = unsafe {
            sys::gpumap_buffer_info(self.as_raw(), buffer.handle, &mut info)
        };
        self.check("gpumap_buffer_info", ret)?;
        buffer.bytes = info.bytes;
        buffer.row = Some(info.row).filter(|row| *row != u32::MAX);
        Ok(buffer)
    }

    /// Lets jobs name memory of this process: `bytes` of a memfd that cannot
    /// shrink, from `at` on.  The descriptor stays the caller's.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`](crate::Kind::Invalid): it is no memfd, can shrink, or
    /// ends before the bytes.  [`Kind::Quota`](crate::Kind::Quota).
    pub fn register(
        &self,
        fd: BorrowedFd<'_>,
        at: u64,
        bytes: u64,
        read_only: bool,
    ) -> Result<Buffer<'_>> {
        let mut handle = 0;
        // SAFETY: the session and the descriptor are open.
        let ret = unsafe {
            sys::gpumap_buffer_register(
                self.as_raw(),
                fd.as_raw_fd(),
                at,
                bytes,
                read_only_flag(read_only),
                &mut handle,
            )
        };
        self.check("gpumap_buffer_register", ret)?;
        Ok(self.buffer(Thing::Registered(handle), bytes, None, !read_only))
    }

    /// Lets [`Job::load`](crate::Job::load) read from a file, which may be
    /// closed then.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`](crate::Kind::Invalid): it is no regular file and no
    /// block device, or cannot be read.  [`Kind::Quota`](crate::Kind::Quota).
    pub fn register_file(&self, file: &File) -> Result<Source<'_>> {
        let mut handle = 0;
        // SAFETY: the session and the descriptor are open.
        let ret = unsafe {
            sys::gpumap_buffer_register_file(
                self.as_raw(),
                file.as_raw_fd(),
                0,
                &mut handle,
            )
        };
        self.check("gpumap_buffer_register_file", ret)?;
        Ok(Source(self.buffer(Thing::Registered(handle), 0, None, false)))
    }

    /// Lets jobs name the mask that is published under a name now: of any row
    /// that has a replica, which reads its own.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`](crate::Kind::NotFound): no mask has this name.
    /// [`Kind::Invalid`](crate::Kind::Invalid): it has no tensor.
    pub fn register_mask(&self, name: &str) -> Result<Buffer<'_>> {
        const CALL: &str = "gpumap_buffer_register_mask";
        let name = ffi::text(CALL, name)?;
        let mut handle = 0;
        // SAFETY: the session is open, and the name stays meanwhile.
        let ret = unsafe {
            sys::gpumap_buffer_register_mask(
                self.as_raw(),
                name.as_ptr(),
                &mut handle,
                std::ptr::null_mut(),
            )
        };
        self.check(CALL, ret)?;
        self.described(self.buffer(Thing::Registered(handle), 0, None, false))
    }
}

fn read_only_flag(read_only: bool) -> u32 {
    match read_only {
        true => sys::GPUMAP_BUFFER_READ_ONLY,
        false => 0,
    }
}

impl Map {
    /// A descriptor of an exported buffer, and its bytes: for a host row a
    /// memfd.  The memory exists as long as the descriptor or a mapping of it.
    ///
    /// # Errors
    ///
    /// As [`Session::import`].
    pub fn export_fd(&self, export: u64) -> Result<(OwnedFd, u64)> {
        let mut info = sized!(gpumap_export_info);
        let mut fd = -1;
        // SAFETY: info and fd are this function's own.
        let ret = unsafe {
            sys::gpumap_export_fd(self.as_raw(), export, &mut info, &mut fd)
        };
        self.check("gpumap_export_fd", ret)?;
        // SAFETY: the library has opened it for this caller to close.
        Ok((unsafe { OwnedFd::from_raw_fd(fd) }, info.bytes))
    }
}

/// An error about an operand, before the library sees it.
pub(crate) fn refused(errno: i32, why: &str) -> Error {
    Error::new("Session::submit", errno, why)
}
