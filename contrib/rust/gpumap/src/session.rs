// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Sessions, and which of their memory jobs in flight use.
//!
//! A worker reads and writes the memory of jobs in flight while this process
//! runs, and handles may be forgotten, so lifetimes alone do not keep that
//! memory.  The session has a slot for each memory, buffer, share and model: it
//! counts handles and jobs, and gives the thing back when both are none.

use crate::error::{Error, Kind, Result};
use crate::ffi::{self, sized};
use crate::job::{Done, Flight, Token};
use crate::map::Map;
use gpumap_sys as sys;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::os::raw::c_int;
use std::os::unix::io::BorrowedFd;
use std::ptr::NonNull;
use std::time::Duration;

/// A thing that a slot gives back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Thing {
    Arena(NonNull<u8>),
    Buffer(u64),
    Registered(u64),
    Share(u64),
    Model(NonNull<sys::gpumap_model>),
}

/// How this process has a slot's memory open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    Shared(u32),
    Exclusive,
}

#[derive(Debug)]
pub(crate) struct Slot {
    thing: Thing,
    handles: u32,
    /// Uses by jobs in flight, and by those among them that write.
    jobs: u32,
    writes: u32,
    open: Open,
    /// A worker of an agent that is gone may still write it.
    lost: bool,
}

/// The state that calls of one thread at a time change.
#[derive(Default)]
pub(crate) struct Books {
    slots: Vec<Option<Slot>>,
    flights: HashMap<u64, Flight>,
    ready: VecDeque<Done>,
    next_token: u64,
}

/// The settings to open a session with.
///
/// ```no_run
/// # let map = gpumap::Map::attach()?;
/// let session = gpumap::OpenSession::new().depth(64).open(&map)?;
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenSession {
    depth: u32,
    arena_bytes: u64,
    flags: u32,
}

impl OpenSession {
    /// 256 jobs in flight, and 64 MiB near each row.
    pub fn new() -> OpenSession {
        OpenSession::default()
    }

    /// Jobs in flight for each row: a power of two from 16 to 1024.
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Bytes of each row's range of memory for payloads.
    pub fn arena_bytes(mut self, bytes: u64) -> Self {
        self.arena_bytes = bytes;
        self
    }

    /// [`Session::fd`] is to work, for epoll and event loops.
    pub fn pollable(mut self) -> Self {
        self.flags |= sys::GPUMAP_SESSION_POLLABLE;
        self
    }

    /// Memory is taken page by page, where it is touched.
    pub fn sparse(mut self) -> Self {
        self.flags |= sys::GPUMAP_SESSION_SPARSE;
        self
    }

    /// Opens a session with the map's agent.
    ///
    /// # Errors
    ///
    /// [`Kind::Quota`]: this user has no session left.  [`Kind::NoDevice`]: the
    /// node has dummy rows only.  [`Kind::NotRunning`], [`Kind::Draining`],
    /// [`Kind::Stale`] and those of every request.
    pub fn open<'m>(&self, map: &'m Map) -> Result<Session<'m>> {
        let opts = sized!(gpumap_session_opts {
            depth: self.depth,
            flags: self.flags,
            arena_bytes: self.arena_bytes,
        });
        let mut raw = std::ptr::null_mut();
        // SAFETY: opts and raw are this function's own.
        let ret =
            unsafe { sys::gpumap_session_open(map.as_raw(), &opts, &mut raw) };
        map.check("gpumap_session_open", ret)?;
        let raw = NonNull::new(raw).expect("a session that was opened");
        Ok(Session { raw, map, books: RefCell::default() })
    }
}

/// Queues to the rows, and memory for payloads.
///
/// One thread at a time uses it: it can move to another thread, and threads
/// cannot share it.
///
/// ```compile_fail,E0277
/// # fn f() -> Result<(), gpumap::Error> {
/// let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// std::thread::scope(|threads| {
///     threads.spawn(|| session.poll());
///     threads.spawn(|| session.poll());
/// });
/// # Ok(())
/// # }
/// ```
///
/// When it is dropped, jobs in flight are dropped with it; memory, buffers and
/// models cannot outlive it.  In a child that was forked its calls are
/// [`Kind::Forked`], and the child does not have its memory.
pub struct Session<'m> {
    raw: NonNull<sys::gpumap_session>,
    map: &'m Map,
    pub(crate) books: RefCell<Books>,
}

// SAFETY: the library lets another thread go on with a session, one at a time,
// and its calls keep nothing of the thread.  The books' pointers are the
// session's; handles borrow the session, so that it cannot move while they
// exist.
unsafe impl Send for Session<'_> {}

impl<'m> Session<'m> {
    /// The session for calls of `gpumap-sys`, which stays this one's.
    /// Completions that other calls take are lost to it, and their memory stays
    /// in use.
    pub fn as_raw(&self) -> *mut sys::gpumap_session {
        self.raw.as_ptr()
    }

    /// The map that it was opened with.
    pub fn map(&self) -> &'m Map {
        self.map
    }

    pub(crate) fn check(
        &self,
        call: &'static str,
        ret: c_int,
    ) -> Result<c_int> {
        self.map.check(call, ret)
    }

    /// A number that identifies the session while it exists.
    pub(crate) fn id(&self) -> usize {
        self.as_raw() as usize
    }

    // ---- slots -----------------------------------------------------------

    pub(crate) fn keep(&self, thing: Thing) -> usize {
        let mut books = self.books.borrow_mut();
        let slot = Slot {
            thing,
            handles: 1,
            jobs: 0,
            writes: 0,
            open: Open::Shared(0),
            lost: false,
        };
        match books.slots.iter().position(Option::is_none) {
            Some(index) => {
                books.slots[index] = Some(slot);
                index
            }
            None => {
                books.slots.push(Some(slot));
                books.slots.len() - 1
            }
        }
    }

    /// A handle of the slot was dropped.
    pub(crate) fn drop_handle(&self, slot: usize) {
        self.books.borrow_mut().slot(slot).handles -= 1;
        self.give_back(slot);
    }

    /// Gives a slot's thing back, unless a handle or a job has it.  A thing that
    /// the library does not take now stays for the next call.
    fn give_back(&self, index: usize) {
        let thing = match &self.books.borrow().slots[index] {
            Some(slot) if slot.handles == 0 && slot.jobs == 0 => {
                // Memory that a worker may write must not be given out again.
                if slot.lost && matches!(slot.thing, Thing::Arena(_)) {
                    return;
                }
                slot.thing
            }
            _ => return,
        };
        // SAFETY: the thing is this session's, no handle of it is left, and no
        // job in flight names it.
        let ret = unsafe {
            match thing {
                Thing::Arena(at) => {
                    sys::gpumap_free(self.as_raw(), at.as_ptr().cast())
                }
                Thing::Buffer(handle) => {
                    sys::gpumap_buffer_free(self.as_raw(), handle)
                }
                Thing::Registered(handle) => {
                    sys::gpumap_buffer_unregister(self.as_raw(), handle)
                }
                Thing::Share(share) => {
                    sys::gpumap_share_close(self.as_raw(), share)
                }
                Thing::Model(model) => {
                    sys::gpumap_model_close(model.as_ptr(), 0)
                }
            }
        };
        if ret != -sys::EAGAIN && ret != -sys::ETIME {
            self.books.borrow_mut().slots[index] = None;
        }
    }

    /// Gives back what could not be given back before.
    pub(crate) fn give_back_all(&self) {
        let n = self.books.borrow().slots.len();

        (0..n).for_each(|index| self.give_back(index));
    }

    /// Opens a slot's memory for this process.
    pub(crate) fn open_slot(&self, index: usize, write: bool) -> Result<()> {
        let mut books = self.books.borrow_mut();
        let slot = books.slot(index);

        if slot.lost {
            return Err(Error::new(
                "Memory",
                sys::ECONNRESET,
                "the agent went away, and a worker may still write the memory",
            ));
        }
        let jobs = if write { slot.jobs } else { slot.writes };
        slot.open = match slot.open {
            Open::Shared(n) if jobs == 0 && !write => Open::Shared(n + 1),
            Open::Shared(0) if jobs == 0 => Open::Exclusive,
            _ => {
                return Err(Error::new(
                    "Memory",
                    sys::EBUSY,
                    "jobs in flight use the memory: wait for them",
                ))
            }
        };
        Ok(())
    }

    pub(crate) fn close_slot(&self, index: usize) {
        let mut books = self.books.borrow_mut();
        let slot = books.slot(index);

        slot.open = match slot.open {
            Open::Shared(n) => Open::Shared(n.saturating_sub(1)),
            Open::Exclusive => Open::Shared(0),
        };
    }

    // ---- completions -----------------------------------------------------

    /// Takes completions that are there, for `ready`.
    fn take(&self, deadline_ns: Option<u64>) -> Result<()> {
        const N: usize = 64;
        let mut done = [sys::gpumap_done::default(); N];
        // SAFETY: there is room for as many as the calls are told.
        let (call, ret) = unsafe {
            let at = done.as_mut_ptr();
            match deadline_ns {
                None => (
                    "gpumap_poll",
                    sys::gpumap_poll(self.as_raw(), at, N as u32),
                ),
                Some(deadline) => (
                    "gpumap_wait",
                    sys::gpumap_wait(self.as_raw(), at, N as u32, deadline),
                ),
            }
        };
        let n = self.check(call, ret)? as usize;
        for one in &done[..n] {
            self.books.borrow_mut().land(one);
        }
        if n > 0 {
            self.give_back_all();
        }
        Ok(())
    }

    /// Takes all completions that are there, without waiting.
    ///
    /// # Errors
    ///
    /// [`Kind::Gone`]: the session has ended, and all completions have been
    /// taken.  [`Kind::Protocol`], [`Kind::Forked`].  A job's own error is in
    /// its [`Done`].
    pub fn poll(&self) -> Result<Vec<Done>> {
        self.give_back_all();
        loop {
            let had = self.books.borrow().ready.len();

            match self.take(None) {
                Err(error) if had == 0 => return Err(error),
                Err(_) => break,
                Ok(()) if self.books.borrow().ready.len() == had => break,
                Ok(()) => {}
            }
        }
        Ok(self.books.borrow_mut().ready.drain(..).collect())
    }

    /// Takes completions, and waits for the first; None: for ever.
    ///
    /// # Errors
    ///
    /// [`Kind::Timeout`]: the jobs are still in flight.
    /// [`Kind::NothingInFlight`]: there is nothing to wait for.  Others as
    /// [`Session::poll`].
    pub fn wait(&self, timeout: Option<Duration>) -> Result<Vec<Done>> {
        if self.books.borrow().ready.is_empty() {
            self.take(Some(ffi::deadline_ns(timeout)))?;
        }
        Ok(self.books.borrow_mut().ready.drain(..).collect())
    }

    /// Waits for one job; None: for ever.  Completions of others stay for
    /// [`Session::wait`].
    ///
    /// # Errors
    ///
    /// The job's own error; [`Kind::Timeout`]: it is still in flight.
    /// [`Kind::NothingInFlight`]: no such job is, or its completion was taken.
    /// Others as [`Session::poll`].
    pub fn wait_for(
        &self,
        token: Token,
        timeout: Option<Duration>,
    ) -> Result<()> {
        let deadline = ffi::deadline_ns(timeout);

        loop {
            {
                let mut books = self.books.borrow_mut();
                let at = books.ready.iter().position(|d| d.token == token);

                if let Some(done) = at.and_then(|at| books.ready.remove(at)) {
                    return done.check();
                }
                if !books.flights.contains_key(&token.0) {
                    return Err(Error::new(
                        "Session::wait_for",
                        sys::ENODATA,
                        "no such job is in flight",
                    ));
                }
            }
            self.take(Some(deadline))?;
        }
    }

    /// Jobs whose completions were not taken yet.
    pub fn in_flight(&self) -> usize {
        let books = self.books.borrow();

        books.flights.len() + books.ready.len()
    }

    /// The descriptor that becomes readable when a job ends, of a session that
    /// was opened [`OpenSession::pollable`].  Call [`Session::arm`] before each
    /// sleep on it.
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`]: it was not opened so.  [`Kind::Forked`].
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        // SAFETY: the session is open.
        let ret = unsafe { sys::gpumap_session_fd(self.as_raw()) };
        let fd = self.check("gpumap_session_fd", ret)?;
        // SAFETY: the descriptor is open until the session is closed, which
        // the borrow of self forbids.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Has the descriptor made readable by the next completion.
    ///
    /// Returns true if the program may sleep on it now, for a second at most,
    /// and false if completions are waiting.
    ///
    /// # Errors
    ///
    /// [`Kind::Unsupported`], [`Kind::Gone`], [`Kind::Protocol`],
    /// [`Kind::Forked`].
    pub fn arm(&self) -> Result<bool> {
        if !self.books.borrow().ready.is_empty() {
            return Ok(false);
        }
        // SAFETY: the session is open.
        let ret = unsafe { sys::gpumap_session_arm(self.as_raw()) };
        Ok(self.check("gpumap_session_arm", ret)? == 0)
    }

    /// Repeats a call that is [`Kind::Again`] because completions fill a
    /// queue, as long as there are some to take.
    pub(crate) fn taking<T>(
        &self,
        mut call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        loop {
            let had = self.books.borrow().ready.len();

            match call() {
                Err(error) if error.kind() == Kind::Again => {
                    self.take(None)?;
                    if self.books.borrow().ready.len() == had {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }
}

impl Books {
    fn slot(&mut self, index: usize) -> &mut Slot {
        self.slots[index].as_mut().expect("a slot with a handle or a job")
    }

    /// A number for the next job.
    pub(crate) fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    /// May a job use these slots now?
    pub(crate) fn admit(&mut self, flight: &Flight) -> Result<()> {
        for used in flight.uses() {
            let open = self.slot(used.slot).open;

            if open == Open::Exclusive
                || (used.writes && open != Open::Shared(0))
            {
                return Err(Error::new(
                    "Session::submit",
                    sys::EBUSY,
                    "this process has the job's memory open: drop the view",
                ));
            }
        }
        Ok(())
    }

    /// A job is in flight.
    pub(crate) fn launch(&mut self, token: Token, flight: Flight) {
        for used in flight.uses() {
            let slot = self.slot(used.slot);
            slot.jobs += 1;
            slot.writes += u32::from(used.writes);
        }
        self.flights.insert(token.0, flight);
    }

    /// A job has ended.
    fn land(&mut self, done: &sys::gpumap_done) {
        let flight = match self.flights.remove(&done.cookie) {
            Some(flight) => flight,
            None => return, // of a caller of gpumap-sys
        };
        self.end(&flight, done.status);
        self.ready.push_back(Done {
            token: Token(done.cookie),
            row: done.row,
            status: done.status,
        });
    }

    fn end(&mut self, flight: &Flight, status: i32) {
        for used in flight.uses() {
            let slot = self.slot(used.slot);
            slot.jobs -= 1;
            slot.writes -= u32::from(used.writes);
            slot.lost |= used.writes && status == -sys::ECONNRESET;
        }
    }

    /// The agent went away in the middle of a job that is over for the caller.
    pub(crate) fn lose(&mut self, flight: &Flight) {
        for used in flight.uses() {
            self.slot(used.slot).lost |= used.writes;
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: the session is open, and nothing borrows it.
        unsafe { sys::gpumap_session_close(self.as_raw()) };
        for slot in self.books.borrow_mut().slots.drain(..).flatten() {
            if let Slot { thing: Thing::Model(model), handles: 0, .. } = slot {
                // SAFETY: the model was not closed, no handle of it is left,
                // and this may follow the session's end.
                unsafe { sys::gpumap_model_close(model.as_ptr(), 0) };
            }
        }
    }
}

impl fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("in_flight", &self.in_flight()).finish()
    }
}

impl Map {
    /// Opens a session with the defaults, as [`OpenSession::open`].
    ///
    /// # Errors
    ///
    /// Those of [`OpenSession::open`].
    pub fn session(&self) -> Result<Session<'_>> {
        OpenSession::new().open(self)
    }
}
