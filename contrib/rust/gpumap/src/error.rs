// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! The error of every call, and its kinds.

use gpumap_sys as sys;
use std::ffi::CStr;
use std::fmt;
use std::io;

/// A kind of error: one for each thing that a program can do something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// No agent answers: start gpumapd, or check the instance's name.
    NotRunning,
    /// The agent went away, and the session with it: attach again.
    Gone,
    /// The handle is of an earlier time: attach, open or read again.
    Stale,
    /// The parent process opened it: attach in this process.
    Forked,
    /// This user may not, or it belongs to another user or session.
    Denied,
    /// Nothing has this name, or a file is missing.
    NotFound,
    /// The name is taken.
    Exists,
    /// The name holds something else than what was expected of it.
    Mismatch,
    /// A plan needs more memory than is free and not reserved:
    /// [`Error::missing_bytes`] and [`Error::missing_row`] say what is missing.
    DoesNotFit,
    /// The segment, a table or the agent's disk has no room: release something.
    Full,
    /// This user or session has as much as it may: give something back.
    Quota,
    /// A device, the arena or this machine has no memory left.
    NoMemory,
    /// No such row, or its device is gone or out of service.
    NoDevice,
    /// The call raced with a change, or queues are full: take completions, and
    /// call again.
    Again,
    /// Something else uses it, such as a job in flight: wait for that.
    Busy,
    /// The deadline passed; what was begun goes on.
    Timeout,
    /// The job was cancelled before it had begun.
    Canceled,
    /// There is nothing to wait for; or a file ends too early.
    NothingInFlight,
    /// The row's worker ended, or storage failed: submit again, or renew.
    WorkerDied,
    /// The agent shuts down: attach to the next one.
    Draining,
    /// Larger than the administrator, or a socket, lets through.
    TooLarge,
    /// The request is newer than the library or the agent: install a newer one.
    TooNew,
    /// The device, the session or the engine cannot do this.
    Unsupported,
    /// Past the end of a table, a buffer or the arena.
    OutOfRange,
    /// An argument was refused; the refusal says which and why.
    Invalid,
    /// The agent does not see this process: it is in another pid namespace.
    NotSeen,
    /// This process or machine has no descriptor left.
    NoDescriptors,
    /// The other side breaks the contract: another layout, or a damaged map.
    Protocol,
    /// An errno that has no kind.
    Other,
}

impl Kind {
    /// The kind of an errno, positive, that `call` of the C library returned;
    /// some calls give an errno another meaning.
    pub fn of(errno: i32, call: &str) -> Kind {
        match (call, errno) {
            ("gpumap_attach", sys::ENOENT) => return Kind::NotRunning,
            ("gpumap_plan_make", sys::ENOSPC | sys::ETIMEDOUT) => {
                return Kind::DoesNotFit
            }
            ("gpumap_model_load" | "gpumap_model_wait", sys::EEXIST) => {
                return Kind::Mismatch
            }
            _ => {}
        }
        match errno {
            sys::E2BIG => Kind::TooNew,
            sys::EACCES | sys::EPERM => Kind::Denied,
            sys::EAGAIN | sys::ENOBUFS => Kind::Again,
            sys::EALREADY | sys::EBUSY => Kind::Busy,
            sys::EBADF | sys::EINVAL | sys::ENOEXEC => Kind::Invalid,
            sys::ECANCELED => Kind::Canceled,
            sys::ECONNREFUSED => Kind::NotRunning,
            sys::ECONNRESET => Kind::Gone,
            sys::EDQUOT | sys::EUSERS => Kind::Quota,
            sys::EEXIST => Kind::Exists,
            sys::EFAULT | sys::ERANGE => Kind::OutOfRange,
            sys::EFBIG | sys::EMSGSIZE | sys::EOVERFLOW => Kind::TooLarge,
            sys::EIO | sys::EREMOTEIO => Kind::WorkerDied,
            sys::EKEYREJECTED => Kind::Mismatch,
            sys::EMFILE | sys::ENFILE => Kind::NoDescriptors,
            sys::ENODATA => Kind::NothingInFlight,
            sys::ENODEV => Kind::NoDevice,
            sys::ENOENT => Kind::NotFound,
            sys::ENOMEM => Kind::NoMemory,
            sys::ENOSPC | sys::EROFS => Kind::Full,
            sys::EOPNOTSUPP => Kind::Unsupported,
            sys::EOWNERDEAD => Kind::Forked,
            sys::EPROTO => Kind::Protocol,
            sys::ESHUTDOWN => Kind::Draining,
            sys::ESRCH => Kind::NotSeen,
            sys::ESTALE => Kind::Stale,
            sys::ETIME | sys::ETIMEDOUT => Kind::Timeout,
            _ => Kind::Other,
        }
    }
}

/// The failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    errno: i32,
    call: &'static str,
    refusal: String,
    missing: Option<(u64, u32)>,
}

impl Error {
    pub(crate) fn new(
        call: &'static str,
        errno: i32,
        refusal: impl Into<String>,
    ) -> Error {
        Error { errno, call, refusal: refusal.into(), missing: None }
    }

    pub(crate) fn lacking(mut self, bytes: u64, row: u32) -> Error {
        if bytes != 0 {
            self.missing = Some((bytes, row));
        }
        self
    }

    /// The kind, to match on.
    pub fn kind(&self) -> Kind {
        Kind::of(self.errno, self.call)
    }

    /// Positive, as errno(3) has it.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// The function of the C library that failed, `"gpumap_layers_publish"`, or
    /// the method of this crate.
    pub fn call(&self) -> &'static str {
        self.call
    }

    /// The reason and the remedy, in the agent's words where the agent refused;
    /// or `""`.
    pub fn refusal(&self) -> &str {
        &self.refusal
    }

    /// A sentence about the errno.
    pub fn sentence(&self) -> &'static str {
        // SAFETY: the call takes any number, and returns constant text.
        let text = unsafe { CStr::from_ptr(sys::gpumap_strerror(-self.errno)) };
        text.to_str().unwrap_or("")
    }

    /// The bytes that are missing, of [`Kind::DoesNotFit`], if that is known.
    pub fn missing_bytes(&self) -> Option<u64> {
        self.missing.map(|missing| missing.0)
    }

    /// The row where they are missing, of [`Kind::DoesNotFit`], if that is
    /// known.
    pub fn missing_row(&self) -> Option<u32> {
        self.missing.map(|missing| missing.1)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.refusal() {
            "" => self.sentence(),
            refusal => refusal,
        };
        write!(f, "{}: {} [errno {}]", self.call, text, self.errno)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    /// The kind of the result is that of the errno; the text stays.
    fn from(error: Error) -> io::Error {
        let kind = io::Error::from_raw_os_error(error.errno).kind();
        io::Error::new(kind, error)
    }
}

/// The result of each call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors of the C headers, as the bindings have them.
    fn errors() -> Vec<(&'static str, i32)> {
        include_str!("../../gpumap-sys/src/bindings.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("pub const E"))
            .filter_map(|line| line.strip_suffix(';')?.split_once(": i32 = "))
            .map(|(name, value)| (name, value.parse().unwrap()))
            .collect()
    }

    #[test]
    fn each_error_of_the_headers_has_a_kind() {
        let errors = errors();

        assert!(errors.len() > 30);
        for (name, errno) in errors {
            assert_ne!(Kind::of(errno, ""), Kind::Other, "E{}", name);
        }
        assert_eq!(Kind::of(0, ""), Kind::Other);
    }

    #[test]
    fn an_errno_means_what_its_call_means() {
        let of = Kind::of;

        assert_eq!(of(sys::ENOENT, "gpumap_attach"), Kind::NotRunning);
        assert_eq!(of(sys::ENOENT, "gpumap_layers_view"), Kind::NotFound);
        assert_eq!(of(sys::ENOSPC, "gpumap_plan_make"), Kind::DoesNotFit);
        assert_eq!(of(sys::ETIMEDOUT, "gpumap_plan_make"), Kind::DoesNotFit);
        assert_eq!(of(sys::ENOSPC, "gpumap_layers_publish"), Kind::Full);
        assert_eq!(of(sys::ETIMEDOUT, "gpumap_mesh_join"), Kind::Timeout);
        assert_eq!(of(sys::EEXIST, "gpumap_model_load"), Kind::Mismatch);
        assert_eq!(of(sys::EEXIST, "gpumap_share_publish"), Kind::Exists);
    }

    #[test]
    fn text_is_the_refusal_or_a_sentence() {
        let error = Error::new("call", sys::EPERM, "not yours: ask its owner");
        let text = "call: not yours: ask its owner [errno 1]";

        assert_eq!(error.to_string(), text);
        assert_eq!(error.missing_bytes(), None);
        let io = io::Error::from(error);
        assert_eq!(io.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(io.to_string(), text);
        let error = Error::new("call", sys::ESTALE, "");
        assert!(!error.sentence().is_empty());
        assert!(error.to_string().contains(error.sentence()));
        let error = error.lacking(5, 1);
        assert_eq!(error.missing_bytes(), Some(5));
        assert_eq!(error.lacking(0, 0).missing_row(), Some(1));
    }
}
