// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Buffers that sessions share by a name.

use crate::error::{Error, Result};
use crate::ffi::{self, sized};
use crate::map::{rows_of, Map};
use crate::memory::{Base, Buffer, Operand};
use crate::session::{Session, Thing};
use gpumap_sys as sys;
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::os::unix::io::{FromRawFd, OwnedFd};
use std::time::Duration;

/// The identity of the content of a share: shares with the same content have
/// the same hash, and others have another.
#[derive(Clone, PartialEq, Eq)]
pub struct Fingerprint {
    hash: [u8; 32],
    fields: String,
}

impl Fingerprint {
    /// A hash that is not all 0, such as a SHA-256 of all settings that the
    /// content depends on.
    pub fn new(hash: [u8; 32]) -> Fingerprint {
        Fingerprint { hash, fields: String::new() }
    }

    /// Lines KEY=VALUE that it is the hash of, always in the same order: a
    /// refusal names the first that differs.
    pub fn fields(mut self, lines: &str) -> Self {
        self.fields = lines.into();
        self
    }

    /// The hash.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// For a call of the library; None: no fingerprint.
    pub(crate) fn lent(
        call: &'static str,
        this: Option<&Fingerprint>,
    ) -> Result<Lent> {
        let one = match this {
            None => return Ok(Lent(None)),
            Some(one) => one,
        };
        let fields = match one.fields.as_str() {
            "" => None,
            lines => Some(ffi::text(call, lines)?),
        };
        let raw = sized!(gpumap_fingerprint {
            hash: one.hash,
            fields: ffi::pointer(&fields),
        });
        Ok(Lent(Some((raw, fields))))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fingerprint").field(&format_args!("{}", self)).finish()
    }
}

impl fmt::Display for Fingerprint {
    /// 64 digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.hash.iter().try_for_each(|byte| write!(f, "{:02x}", byte))
    }
}

impl std::str::FromStr for Fingerprint {
    type Err = Error;

    /// From 64 digits, as [`Display`](fmt::Display) writes them.
    fn from_str(digits: &str) -> Result<Fingerprint> {
        let refused = || {
            Error::new(
                "Fingerprint::from_str",
                sys::EINVAL,
                "a fingerprint has 64 hexadecimal digits",
            )
        };
        let mut hash = [0; 32];

        if digits.len() != 64 || !digits.bytes().all(|c| c.is_ascii_hexdigit())
        {
            return Err(refused());
        }
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&digits[at..at + 2], 16)
                .map_err(|_| refused())?;
        }
        Ok(Fingerprint::new(hash))
    }
}

/// A fingerprint as C has it, with the text that it points to.
pub(crate) struct Lent(Option<(sys::gpumap_fingerprint, Option<CString>)>);

impl Lent {
    /// NULL: none.
    pub(crate) fn pointer(&self) -> *const sys::gpumap_fingerprint {
        self.0.as_ref().map_or(std::ptr::null(), |lent| &lent.0)
    }
}

/// A name for buffers, to publish.
#[derive(Clone, Debug)]
pub struct NewShare<'a> {
    name: &'a str,
    flags: u32,
    about: &'a [u8],
    uids: &'a [u32],
    fingerprint: Option<&'a Fingerprint>,
}

impl<'a> NewShare<'a> {
    /// A share by this name, which its users may write.
    pub fn new(name: &'a str) -> NewShare<'a> {
        NewShare { name, flags: 0, about: &[], uids: &[], fingerprint: None }
    }

    /// Sessions that open it cannot write it.
    pub fn read_only(mut self) -> Self {
        self.flags |= sys::GPUMAP_SHARE_READ_ONLY;
        self
    }

    /// Every user may open it.
    pub fn any_user(mut self) -> Self {
        self.flags |= sys::GPUMAP_SHARE_ANY_USER;
        self
    }

    /// The share stays when no session has it, until [`Map::release_share`].
    pub fn keep(mut self) -> Self {
        self.flags |= sys::GPUMAP_SHARE_KEEP;
        self
    }

    /// Bytes that describe it, which are copied.
    pub fn about(mut self, about: &'a [u8]) -> Self {
        self.about = about;
        self
    }

    /// Other users who may open it.
    pub fn uids(mut self, uids: &'a [u32]) -> Self {
        self.uids = uids;
        self
    }

    /// Its fingerprint.
    pub fn fingerprint(mut self, fingerprint: &'a Fingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }
}

/// The facts of a share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShareInfo {
    /// Its number, the same in every session.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// The user who is charged.
    pub uid: u32,
    /// Sessions that open it cannot write it.
    pub read_only: bool,
    /// Every user may open it.
    pub any_user: bool,
    /// The share stays when no session has it.
    pub kept: bool,
    /// Buffers.
    pub n_buffers: u32,
    /// Bytes of all buffers.
    pub bytes: u64,
    /// Bytes that describe it.
    pub about_bytes: u64,
    /// The fingerprint; None: it has none.
    pub fingerprint: Option<[u8; 32]>,
    /// Sessions that have it, in [`Map::shares`].
    pub n_holders: u32,
    /// The time since it was published, in [`Map::shares`].
    pub age: Duration,
    /// The process that shared it, if that has it still, in [`Map::shares`].
    pub pid: Option<u32>,
    /// The rows of its buffers, in [`Map::shares`].
    pub rows: Vec<u32>,
}

impl ShareInfo {
    fn of(raw: &sys::gpumap_share_info) -> ShareInfo {
        ShareInfo {
            number: raw.share,
            name: ffi::string(&raw.name),
            uid: raw.uid,
            read_only: raw.flags & sys::GPUMAP_SHARE_READ_ONLY != 0,
            any_user: raw.flags & sys::GPUMAP_SHARE_ANY_USER != 0,
            kept: raw.flags & sys::GPUMAP_SHARE_KEEP != 0,
            n_buffers: raw.n_buffers,
            bytes: raw.bytes,
            about_bytes: raw.about_bytes,
            fingerprint: Some(raw.fingerprint)
                .filter(|hash| hash.iter().any(|byte| *byte != 0)),
            n_holders: raw.n_holders,
            age: Duration::from_nanos(raw.age_ns),
            pid: Some(raw.pid).filter(|pid| *pid != 0),
            rows: rows_of(&raw.rows),
        }
    }
}

/// A share that this session holds, until it is dropped.
///
/// Its buffers cannot outlive it:
///
/// ```compile_fail,E0505
/// # fn f() -> Result<(), gpumap::Error> {
/// # let map = gpumap::Map::attach()?;
/// let session = map.session()?;
/// let share = session.open_share("cache", true, None)?;
/// let buffer = share.buffer(0)?;
/// drop(share);
/// println!("{}", buffer.bytes());
/// # Ok(())
/// # }
/// ```
///
/// After a row's worker has died, drop it and open it again.
pub struct Share<'s> {
    session: &'s Session<'s>,
    slot: usize,
    number: u64,
    writable: bool,
}

/// One buffer of a share, for jobs of its session.
#[derive(Debug)]
pub struct SharedBuffer<'a> {
    row: u32,
    bytes: u64,
    operand: Operand<'a>,
}

impl SharedBuffer<'_> {
    /// The row that it is on.
    pub fn row(&self) -> u32 {
        self.row
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// An operand that begins at this byte.
    pub fn at(&self, bytes: u64) -> Operand<'_> {
        self.operand.at(bytes)
    }
}

impl<'a> From<&SharedBuffer<'a>> for Operand<'a> {
    fn from(buffer: &SharedBuffer<'a>) -> Operand<'a> {
        buffer.operand
    }
}

impl<'s> Share<'s> {
    fn new(session: &'s Session<'_>, number: u64, writable: bool) -> Share<'s> {
        let slot = session.keep(Thing::Share(number));

        Share { session, slot, number, writable }
    }

    fn raw_info(&self) -> Result<sys::gpumap_share_info> {
        let mut had = sized!(gpumap_share_info);
        // SAFETY: the session is open; had is this function's own.
        let ret = unsafe {
            sys::gpumap_share_info(self.session.as_raw(), self.number, &mut had)
        };
        self.session.check("gpumap_share_info", ret)?;
        Ok(had)
    }

    /// Its facts.  No system call.
    ///
    /// # Errors
    ///
    /// [`Kind::Gone`](crate::Kind::Gone), [`Kind::Forked`](crate::Kind::Forked).
    pub fn info(&self) -> Result<ShareInfo> {
        Ok(ShareInfo::of(&self.raw_info()?))
    }

    /// The bytes that describe it.
    ///
    /// # Errors
    ///
    /// As [`Share::info`].
    pub fn about(&self) -> Result<&[u8]> {
        let info = self.raw_info()?;

        if info.about.is_null() {
            return Ok(&[]);
        }
        // SAFETY: the library has them until the share is closed, which the
        // borrow of self forbids, in memory that never changes.
        Ok(unsafe {
            std::slice::from_raw_parts(
                info.about.cast(),
                info.about_bytes as usize,
            )
        })
    }

    /// One of its buffers, for jobs.  The first time it is imported; the
    /// session that shared it has its own buffer.
    ///
    /// # Errors
    ///
    /// [`Kind::OutOfRange`](crate::Kind::OutOfRange): it has no such buffer.
    /// [`Kind::NotFound`](crate::Kind::NotFound): the share has ended.
    /// [`Kind::Quota`](crate::Kind::Quota).
    pub fn buffer(&self, index: u32) -> Result<SharedBuffer<'_>> {
        let mut info = sized!(gpumap_export_info);
        let handle = self.session.taking(|| {
            let mut handle = 0;
            // SAFETY: the session is open; info's size is set.
            let ret = unsafe {
                sys::gpumap_share_buffer(
                    self.session.as_raw(),
                    self.number,
                    index,
                    &mut info,
                    &mut handle,
                )
            };
            self.session.check("gpumap_share_buffer", ret)?;
            Ok(handle)
        })?;
        Ok(SharedBuffer {
            row: info.row,
            bytes: info.bytes,
            operand: Operand {
                session: self.session.id(),
                slot: self.slot,
                base: Base::Buffer(handle),
                at: 0,
                bytes: info.bytes,
                writable: self.writable,
                lifetime: PhantomData,
            },
        })
    }

    /// A descriptor of one of its buffers, and its bytes: for a host row a
    /// memfd, read-only if the share is.
    ///
    /// # Errors
    ///
    /// As [`Share::buffer`]; [`Kind::Denied`](crate::Kind::Denied): another
    /// user shares memory of a GPU read-only.
    pub fn fd(&self, index: u32) -> Result<(OwnedFd, u64)> {
        let mut info = sized!(gpumap_export_info);
        let mut fd = -1;
        // SAFETY: the session is open; info's size is set.
        let ret = unsafe {
            sys::gpumap_share_fd(
                self.session.as_raw(),
                self.number,
                index,
                &mut info,
                &mut fd,
            )
        };
        self.session.check("gpumap_share_fd", ret)?;
        // SAFETY: the library has opened it for this caller to close.
        Ok((unsafe { OwnedFd::from_raw_fd(fd) }, info.bytes))
    }

    /// Stops holding it, as a drop does.
    pub fn close(self) {}
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.session.drop_handle(self.slot);
    }
}

impl fmt::Debug for Share<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("number", &self.number).finish()
    }
}

/// The claim to make the share of a name, until it is dropped.
pub struct Claim<'s> {
    session: &'s Session<'s>,
    name: CString,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // SAFETY: the session is open, and the name stays.  The call does
        // nothing if the share was published.
        unsafe {
            sys::gpumap_share_unclaim(self.session.as_raw(), self.name.as_ptr())
        };
    }
}

impl fmt::Debug for Claim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claim").field(&self.name).finish()
    }
}

impl Session<'_> {
    /// Gives buffers of this session a name: all are shared at once, or none.
    /// Write their content first.
    ///
    /// # Errors
    ///
    /// [`Kind::Exists`](crate::Kind::Exists): the name is taken.
    /// [`Kind::Invalid`](crate::Kind::Invalid): a buffer was not allocated to
    /// be exported.  [`Kind::Busy`](crate::Kind::Busy): it is shared already.
    /// [`Kind::Quota`](crate::Kind::Quota),
    /// [`Kind::Denied`](crate::Kind::Denied).
    pub fn publish_share(
        &self,
        what: &NewShare<'_>,
        buffers: &[&Buffer<'_>],
    ) -> Result<Share<'_>> {
        const CALL: &str = "gpumap_share_publish";
        let name = ffi::text(CALL, what.name)?;
        let fingerprint = Fingerprint::lent(CALL, what.fingerprint)?;
        let mut handles = Vec::with_capacity(buffers.len());

        for buffer in buffers {
            if buffer.session_id() != self.id() {
                let why = "a buffer of another session";
                return Err(Error::new(CALL, sys::EPERM, why));
            }
            handles.push(buffer.handle());
        }
        let request = sized!(gpumap_share_request {
            name: name.as_ptr(),
            buffers: ffi::list(&handles),
            n_buffers: ffi::count(CALL, handles.len())?,
            flags: what.flags,
            about: ffi::list(what.about).cast(),
            about_bytes: what.about.len() as u64,
            uids: ffi::list(what.uids),
            n_uids: ffi::count(CALL, what.uids.len())?,
            fingerprint: fingerprint.pointer(),
        });
        let mut number = 0;
        // SAFETY: the request's text and lists stay until the call returns, as
        // long as its numbers say.
        let ret = unsafe {
            sys::gpumap_share_publish(self.as_raw(), &request, &mut number)
        };
        self.check(CALL, ret)?;
        Ok(Share::new(self, number, true))
    }

    /// Opens the share of a name.
    ///
    /// `read_only` is required if it is shared so.  `expect`: the fingerprint
    /// that it must have.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`](crate::Kind::NotFound): nothing has this name.
    /// [`Kind::Mismatch`](crate::Kind::Mismatch): another fingerprint; the
    /// refusal names the first field that differs.
    /// [`Kind::Denied`](crate::Kind::Denied): not for this user, or not for
    /// writing.  [`Kind::Busy`](crate::Kind::Busy): this session has it.
    /// [`Kind::Quota`](crate::Kind::Quota).
    pub fn open_share(
        &self,
        name: &str,
        read_only: bool,
        expect: Option<&Fingerprint>,
    ) -> Result<Share<'_>> {
        const CALL: &str = "gpumap_share_open";
        let name = ffi::text(CALL, name)?;
        let expect = Fingerprint::lent(CALL, expect)?;
        let flags = match read_only {
            true => sys::GPUMAP_SHARE_READ_ONLY,
            false => 0,
        };
        let mut number = 0;

        self.give_back_all();
        // SAFETY: the name and the fingerprint stay until the call returns.
        let ret = unsafe {
            sys::gpumap_share_open(
                self.as_raw(),
                name.as_ptr(),
                flags,
                expect.pointer(),
                &mut number,
            )
        };
        self.check(CALL, ret)?;
        Ok(Share::new(self, number, !read_only))
    }

    /// Waits until this session is the one to make the share of a name, or
    /// another has made it; None of `timeout`: for ever.
    ///
    /// Returns the claim: publish the share, and drop it then.  None: the share
    /// is there, open it.  The request says whether other users wait for the
    /// share, whether it will be kept, and its fingerprint.
    ///
    /// # Errors
    ///
    /// [`Kind::Timeout`](crate::Kind::Timeout): the refusal names the process
    /// that has the claim.  [`Kind::Busy`](crate::Kind::Busy): this session
    /// has it.  [`Kind::Mismatch`](crate::Kind::Mismatch): it was claimed for
    /// another fingerprint.  [`Kind::Denied`](crate::Kind::Denied),
    /// [`Kind::Quota`](crate::Kind::Quota).
    pub fn claim(
        &self,
        what: &NewShare<'_>,
        timeout: Option<Duration>,
    ) -> Result<Option<Claim<'_>>> {
        const CALL: &str = "gpumap_share_claim";
        let name = ffi::text(CALL, what.name)?;
        let fingerprint = Fingerprint::lent(CALL, what.fingerprint)?;
        let flags =
            what.flags & (sys::GPUMAP_SHARE_ANY_USER | sys::GPUMAP_SHARE_KEEP);
        // SAFETY: the name and the fingerprint stay until the call returns.
        let ret = unsafe {
            sys::gpumap_share_claim(
                self.as_raw(),
                name.as_ptr(),
                flags,
                fingerprint.pointer(),
                ffi::deadline_ns(timeout),
            )
        };
        if ret == -sys::EEXIST {
            return Ok(None);
        }
        self.check(CALL, ret)?;
        Ok(Some(Claim { session: self, name }))
    }
}

impl Map {
    /// The shares of this instance, oldest first.
    ///
    /// # Errors
    ///
    /// [`Kind::NotRunning`](crate::Kind::NotRunning),
    /// [`Kind::Gone`](crate::Kind::Gone) and those of every request.
    pub fn shares(&self) -> Result<Vec<ShareInfo>> {
        let all = ffi::all(sized!(gpumap_share_info), |room| {
            // SAFETY: there is room for as many as the call is told, and the
            // size of the first is set.
            let ret = unsafe {
                sys::gpumap_share_list(
                    self.as_raw(),
                    room.as_mut_ptr(),
                    room.len(),
                )
            };
            Ok(self.check("gpumap_share_list", ret)? as usize)
        })?;
        Ok(all.iter().map(ShareInfo::of).collect())
    }

    /// Ends a share for all its holders.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`](crate::Kind::NotFound): nothing has this name.
    /// [`Kind::Denied`](crate::Kind::Denied): another user has shared it.
    pub fn release_share(&self, name: &str) -> Result<()> {
        const CALL: &str = "gpumap_share_release";
        let name = ffi::text(CALL, name)?;
        // SAFETY: the name stays until the call returns.
        let ret =
            unsafe { sys::gpumap_share_release(self.as_raw(), name.as_ptr()) };
        self.check(CALL, ret).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_written() {
        let hash: [u8; 32] = std::array::from_fn(|i| (i * 9) as u8);
        let one = Fingerprint::new(hash).fields("a=1\n");
        let read: Fingerprint = one.to_string().parse().unwrap();

        assert_eq!(read.hash(), hash);
        assert_ne!(read, one); // whose fields are known
        assert_eq!(one.to_string().to_uppercase().parse(), Ok(read));
        for bad in ["", "0", &"0".repeat(63), &"g".repeat(64)] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{}", bad);
        }
        let euro = format!("{}\u{20ac}", "0".repeat(61));
        assert!(euro.parse::<Fingerprint>().is_err());
        assert!(Fingerprint::lent("call", None).unwrap().pointer().is_null());
        let nul = one.fields("a\0");
        assert!(Fingerprint::lent("call", Some(&nul)).is_err());
    }
}
