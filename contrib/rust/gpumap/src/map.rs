// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! An attachment to an agent: health, changes, and who uses it.

use crate::error::{Error, Kind, Result};
use crate::ffi::{self, numbers, sized};
use gpumap_sys as sys;
use std::ffi::CStr;
use std::fmt;
use std::os::raw::c_int;
use std::os::unix::io::BorrowedFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::time::Duration;

numbers! {
    /// The state of an agent.
    State {
        /// The agent does not take requests yet.
        Starting = GPUMAP_STARTING,
        /// The agent takes requests.
        Ready = GPUMAP_READY,
        /// The agent is shutting down.
        Draining = GPUMAP_DRAINING,
        /// A new map took this name: attach again.
        Retired = GPUMAP_RETIRED,
    }
}

/// Is the agent alive, and is this still its map?
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The agent's state.
    pub state: State,
    /// The agent has not been seen for two seconds.
    pub stale: bool,
    /// Since the last heartbeat.
    pub age: Duration,
    /// Agents that have written this map, from 1.
    pub epoch: u64,
    /// Refreshes of the moving facts.
    pub tick: u64,
    /// Changes of objects and row states; it wraps.
    pub generation: u32,
    /// In the agent's pid namespace.
    pub agent_pid: u32,
    /// Bytes of the segment.
    pub bytes: u64,
    /// 10000 * major + 100 * minor + patch.
    pub agent_version: u32,
}

impl Health {
    /// Does the agent take requests?
    pub fn is_ok(&self) -> bool {
        self.state == State::Ready && !self.stale
    }
}

/// How to attach: the agent's name, and the folder of its socket.
///
/// ```no_run
/// let map = gpumap::Attach::new().instance("node").attach()?;
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attach {
    instance: Option<String>,
    runtime_dir: Option<PathBuf>,
}

impl Attach {
    /// The agent `node` of `/run/gpumap`.
    pub fn new() -> Attach {
        Attach::default()
    }

    /// Another agent's name.
    pub fn instance(mut self, instance: &str) -> Attach {
        self.instance = Some(instance.into());
        self
    }

    /// Another folder of the control socket.
    pub fn runtime_dir(mut self, folder: impl AsRef<Path>) -> Attach {
        self.runtime_dir = Some(folder.as_ref().into());
        self
    }

    /// Maps the agent's segment into this process, read-only.
    ///
    /// Cost: an open, a mmap, and a round trip to the agent where the segment's
    /// file cannot be seen, as in a container.
    ///
    /// # Errors
    ///
    /// [`Kind::NotRunning`]: no agent has published under this name.
    /// [`Kind::Protocol`]: its layout is another one than this library's.
    /// [`Kind::Denied`]: another user than the agent's could have written it.
    pub fn attach(&self) -> Result<Map> {
        const CALL: &str = "gpumap_attach";
        let instance = ffi::some(CALL, self.instance.as_deref())?;
        let folder = match &self.runtime_dir {
            Some(folder) => Some(ffi::path(CALL, folder)?),
            None => None,
        };
        let opts = sized!(gpumap_attach_opts {
            instance: ffi::pointer(&instance),
            runtime_dir: ffi::pointer(&folder),
        });
        let mut raw = std::ptr::null_mut();

        // SAFETY: opts and its text stay until the call returns, and raw is
        // this function's own.
        let ret = unsafe { sys::gpumap_attach(&opts, &mut raw) };
        match NonNull::new(raw) {
            Some(raw) if ret == 0 => Ok(Map { raw }),
            _ => Err(failure(CALL, ret, std::ptr::null())),
        }
    }

    /// As [`Attach::attach`], and None where no agent runs.
    ///
    /// # Errors
    ///
    /// Those of [`Attach::attach`] but [`Kind::NotRunning`].
    pub fn attach_if_running(&self) -> Result<Option<Map>> {
        match self.attach() {
            Ok(map) => Ok(Some(map)),
            Err(error) if error.kind() == Kind::NotRunning => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn failure(call: &'static str, ret: c_int, map: *const sys::gpumap) -> Error {
    // SAFETY: the map is NULL or attached; the text is valid until this
    // thread's next call, and is copied before.
    let refusal = unsafe { CStr::from_ptr(sys::gpumap_refusal(map)) };
    Error::new(call, -ret, refusal.to_string_lossy())
}

/// One process's view of one agent.
///
/// Reading makes no system call.  Threads may share it.  Things made of it,
/// sessions, views and reservations, cannot outlive it:
///
/// ```compile_fail,E0505
/// # fn f() -> Result<(), gpumap::Error> {
/// let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// drop(map);
/// session.poll()?;
/// # Ok(())
/// # }
/// ```
///
/// A child that was forked may go on reading; what asks the agent is
/// [`Kind::Forked`] there.
pub struct Map {
    raw: NonNull<sys::gpumap>,
}

// SAFETY: the library lets any thread make each of its calls with an
// attachment, at the same time; only the detach must be alone, and Drop has
// the map for itself.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// Attaches to the agent `node` of `/run/gpumap`, as [`Attach::attach`].
    ///
    /// # Errors
    ///
    /// Those of [`Attach::attach`].
    pub fn attach() -> Result<Map> {
        Attach::new().attach()
    }

    /// The attachment for calls of `gpumap-sys`, which stays this map's.
    pub fn as_raw(&self) -> *mut sys::gpumap {
        self.raw.as_ptr()
    }

    /// The result of a call with this map.
    pub(crate) fn check(
        &self,
        call: &'static str,
        ret: c_int,
    ) -> Result<c_int> {
        if ret < 0 {
            return Err(failure(call, ret, self.as_raw()));
        }
        Ok(ret)
    }

    /// Is the agent alive, and is this still its map?  No system call while it
    /// is.
    pub fn health(&self) -> Health {
        let mut had = sized!(gpumap_health);

        // SAFETY: had is this function's own, with its size set.
        unsafe { sys::gpumap_health(self.as_raw(), &mut had) };
        Health {
            state: State::from_raw(had.state),
            stale: had.stale != 0,
            age: Duration::from_nanos(had.age_ns),
            epoch: had.epoch,
            tick: had.tick,
            generation: had.generation,
            agent_pid: had.agent_pid,
            bytes: had.bytes,
            agent_version: had.agent_version,
        }
    }

    /// A number that changes when an object or a state does; it wraps.  One
    /// load.
    pub fn generation(&self) -> u32 {
        // SAFETY: the map is attached.
        unsafe { sys::gpumap_generation(self.as_raw()) }
    }

    /// Sleeps until the generation is no longer `seen`, and returns the new
    /// one.  None: for ever.
    ///
    /// # Errors
    ///
    /// [`Kind::Timeout`]: it did not change.  [`Kind::Stale`]: the agent has
    /// not been seen for two seconds, or its map was retired.
    pub fn wait_change(
        &self,
        seen: u32,
        timeout: Option<Duration>,
    ) -> Result<u32> {
        let deadline = ffi::deadline_ns(timeout);
        // SAFETY: the map is attached.
        let ret =
            unsafe { sys::gpumap_wait_change(self.as_raw(), seen, deadline) };
        self.check("gpumap_wait_change", ret)?;
        Ok(self.generation())
    }

    /// Sleeps until the agent answers and every row has its worker.  None: for
    /// ever.
    ///
    /// After [`Kind::Gone`] the next agent goes on with the same map,
    /// where another session can be opened.  Rows that are failed, lost,
    /// draining or cordoned are not waited for.
    ///
    /// # Errors
    ///
    /// [`Kind::Timeout`]: a row was not ready yet, and the text names it.
    /// [`Kind::NotRunning`]: no agent answered in that time.  [`Kind::Stale`]:
    /// the map was retired, attach again.
    pub fn wait_ready(&self, timeout: Option<Duration>) -> Result<()> {
        let deadline = ffi::deadline_ns(timeout);
        // SAFETY: the map is attached.
        let ret = unsafe { sys::gpumap_wait_ready(self.as_raw(), deadline) };
        self.check("gpumap_wait_ready", ret)?;
        Ok(())
    }

    /// A descriptor that becomes readable after a change, for epoll and event
    /// loops: always the same.  Call [`Map::change_arm`] before each sleep, and
    /// do not read from it.
    ///
    /// # Errors
    ///
    /// [`Kind::NoDescriptors`], [`Kind::NoMemory`], [`Kind::Forked`].
    pub fn change_fd(&self) -> Result<BorrowedFd<'_>> {
        // SAFETY: the map is attached.
        let ret = unsafe { sys::gpumap_change_fd(self.as_raw()) };
        let fd = self.check("gpumap_change_fd", ret)?;
        // SAFETY: the descriptor is open until the map is detached, which the
        // borrow of self forbids.
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Has the descriptor made readable by the next change.
    ///
    /// Returns true if the program may sleep on the descriptor now, and false
    /// if the generation is no longer `seen`: read what is needed of the map,
    /// and call again with the generation from before that.
    ///
    /// # Errors
    ///
    /// [`Kind::Stale`]: attach again.  [`Kind::NotRunning`], [`Kind::Gone`]:
    /// there is no agent now, call again after a while.
    pub fn change_arm(&self, seen: u32) -> Result<bool> {
        // SAFETY: the map is attached.
        let ret = unsafe { sys::gpumap_change_arm(self.as_raw(), seen) };
        Ok(self.check("gpumap_change_arm", ret)? == 0)
    }

    /// Says how long requests may wait for an agent that runs and does not
    /// answer: a minute from the beginning on; None: for ever.
    pub fn set_request_limit(&self, limit: Option<Duration>) {
        let limit = limit.map_or(sys::GPUMAP_NO_DEADLINE, ffi::nanoseconds);
        // SAFETY: the map is attached.  The call returns always 0.
        unsafe { sys::gpumap_request_limit(self.as_raw(), limit) };
    }

    /// The agent's sessions, of all users, by id.
    ///
    /// # Errors
    ///
    /// [`Kind::NotRunning`], [`Kind::Gone`] and those of every request.
    pub fn sessions(&self) -> Result<Vec<SessionInfo>> {
        let zero = sys::gpumap_session_info::default();
        let all = ffi::all(zero, |room| {
            // SAFETY: there is room for as many as the call is told.
            let ret = unsafe {
                sys::gpumap_session_list(
                    self.as_raw(),
                    room.as_mut_ptr(),
                    room.len(),
                )
            };
            Ok(self.check("gpumap_session_list", ret)? as usize)
        })?;
        Ok(all
            .iter()
            .map(|one| SessionInfo {
                id: one.id,
                pid: one.pid,
                uid: one.uid,
                depth: one.depth,
                arena_bytes: one.arena_bytes,
                age: Duration::from_nanos(one.age_ns),
                rows: rows_of(&one.rows),
            })
            .collect())
    }

    /// The memory that sessions have on each row, by session and row.
    ///
    /// # Errors
    ///
    /// [`Kind::NotRunning`], [`Kind::Gone`] and those of every request.
    pub fn usage(&self) -> Result<Vec<Usage>> {
        let all = ffi::all(sized!(gpumap_usage), |room| {
            // SAFETY: there is room for as many as the call is told, and the
            // size of the first is set.
            let ret = unsafe {
                sys::gpumap_usage_list(
                    self.as_raw(),
                    room.as_mut_ptr(),
                    room.len(),
                )
            };
            Ok(self.check("gpumap_usage_list", ret)? as usize)
        })?;
        Ok(all
            .iter()
            .map(|one| Usage {
                session: one.session,
                pid: one.pid,
                uid: one.uid,
                row: one.row,
                importers: one.importers,
                bytes: one.bytes,
                lent_bytes: one.lent_bytes,
                borrowed_bytes: one.borrowed_bytes,
            })
            .collect())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the map is attached, and nothing borrows it: sessions are
        // closed, or were forgotten and are never used again.
        unsafe { sys::gpumap_detach(self.as_raw()) };
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Map").field("health", &self.health()).finish()
    }
}

/// The rows whose bits are set.
pub(crate) fn rows_of(words: &[u64]) -> Vec<u32> {
    (0..words.len() as u32 * 64)
        .filter(|row| words[*row as usize / 64] >> (row % 64) & 1 != 0)
        .collect()
}

/// One of the agent's sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its number.
    pub id: u64,
    /// The process, in the agent's pid namespace.
    pub pid: u32,
    /// The process's user.
    pub uid: u32,
    /// Jobs in flight for each row.
    pub depth: u32,
    /// Bytes of all its ranges.
    pub arena_bytes: u64,
    /// Since it was opened.
    pub age: Duration,
    /// The rows that it has used.
    pub rows: Vec<u32>,
}

/// The memory that one session has on one row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The session; 0: it has ended, and importers still have this.
    pub session: u64,
    /// The session's process, 0 with session 0.
    pub pid: u32,
    /// The user who is charged.
    pub uid: u32,
    /// The row.
    pub row: u32,
    /// Importers of some of it.
    pub importers: u32,
    /// Bytes of buffers, as the device rounds them.
    pub bytes: u64,
    /// Bytes of its exports that importers have.
    pub lent_bytes: u64,
    /// Bytes of exports that it has imported itself.
    pub borrowed_bytes: u64,
}

/// The library's version: 10000 * major + 100 * minor + patch.
pub fn version() -> u32 {
    // SAFETY: the call reads a constant.
    unsafe { sys::gpumap_version() }
}
