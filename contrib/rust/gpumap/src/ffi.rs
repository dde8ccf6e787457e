// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Between Rust's types and C's: text, deadlines, lists, numbers with names.

use crate::error::{Error, Result};
use gpumap_sys as sys;
use std::ffi::CString;
use std::os::raw::{c_char, c_int, c_long};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// Text for C.  Invalid: it contains a NUL.
pub(crate) fn text(call: &'static str, name: &str) -> Result<CString> {
    bytes(call, name.as_bytes())
}

/// As `text()`, of an option.
pub(crate) fn some(
    call: &'static str,
    name: Option<&str>,
) -> Result<Option<CString>> {
    name.map(|name| text(call, name)).transpose()
}

/// A path for C.
pub(crate) fn path(call: &'static str, path: &Path) -> Result<CString> {
    bytes(call, path.as_os_str().as_bytes())
}

fn bytes(call: &'static str, bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| {
        Error::new(call, sys::EINVAL, "a name or a path contains a NUL byte")
    })
}

/// A pointer that is NULL for None.
pub(crate) fn pointer(text: &Option<CString>) -> *const c_char {
    text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr())
}

/// A list's pointer, NULL for an empty one.
pub(crate) fn list<T>(list: &[T]) -> *const T {
    if list.is_empty() {
        std::ptr::null()
    } else {
        list.as_ptr()
    }
}

/// The number of a list's elements, for a field of 32 bits.
pub(crate) fn count(call: &'static str, n: usize) -> Result<u32> {
    u32::try_from(n)
        .map_err(|_| Error::new(call, sys::EINVAL, "a list is too long"))
}

/// The text of a field, up to its NUL.
pub(crate) fn string(field: &[c_char]) -> String {
    let bytes: Vec<u8> =
        field.iter().take_while(|&&c| c != 0).map(|&c| c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

extern "C" {
    fn clock_gettime(clock: c_int, ret: *mut Timespec) -> c_int;
}

const CLOCK_MONOTONIC: c_int = 1;

/// The time that the library's deadlines are on.
pub(crate) fn now_ns() -> u64 {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };

    // SAFETY: the C library's function, with a struct of its layout on 64-bit
    // Linux.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut now) };
    now.seconds as u64 * 1_000_000_000 + now.nanoseconds as u64
}

/// The end of a wait that begins now; None: never.
pub(crate) fn deadline_ns(timeout: Option<Duration>) -> u64 {
    match timeout {
        None => sys::GPUMAP_NO_DEADLINE,
        Some(timeout) if timeout.is_zero() => 0,
        Some(timeout) => now_ns().saturating_add(nanoseconds(timeout)),
    }
}

/// A duration in nanoseconds, as many as fit.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX - 1)
}

/// All items of a list, which `read` stores as far as there is room, and
/// returns how many there are.
pub(crate) fn all<T: Clone>(
    zero: T,
    mut read: impl FnMut(&mut [T]) -> Result<usize>,
) -> Result<Vec<T>> {
    let mut room = 64;

    loop {
        let mut items = vec![zero.clone(); room];
        let n = read(&mut items)?;

        if n <= room {
            items.truncate(n);
            return Ok(items);
        }
        room = n + n / 4;
    }
}

/// A C struct of zeros whose `size` is set.
macro_rules! sized {
    ($type:ident { $($field:ident : $value:expr),* $(,)? }) => {{
        // Some structs have no other fields, and the macro no shorthand.
        #[allow(clippy::needless_update, clippy::redundant_field_names)]
        let sized = gpumap_sys::$type {
            size: std::mem::size_of::<gpumap_sys::$type>(),
            $($field: $value,)*
            ..Default::default()
        };
        sized
    }};
    ($type:ident) => { $crate::ffi::sized!($type {}) };
}
pub(crate) use sized;

/// An enum for a number of the library, which a later version may extend.
macro_rules! numbers {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$value_doc:meta])* $value:ident = $number:ident,)*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$value_doc])* $value,)*
            /// A number of a later version.
            Unknown(u32),
        }

        impl $name {
            /// From the number that the C headers have for it.
            pub const fn from_raw(number: u32) -> $name {
                match number {
                    $(gpumap_sys::$number => $name::$value,)*
                    other => $name::Unknown(other),
                }
            }

            /// The number that the C headers have for it.
            pub const fn raw(self) -> u32 {
                match self {
                    $($name::$value => gpumap_sys::$number,)*
                    $name::Unknown(number) => number,
                }
            }
        }

        impl std::fmt::Display for $name {
            /// The name of the value.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&format!("{:?}", self))
            }
        }
    };
}
pub(crate) use numbers;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn text_has_no_nul() {
        assert_eq!(text("call", "abc").unwrap().as_bytes(), b"abc");
        assert_eq!(text("call", "a\0c").unwrap_err().kind(), Kind::Invalid);
        assert_eq!(some("call", None), Ok(None));
        assert!(pointer(&None).is_null());
        assert!(list::<u32>(&[]).is_null());
        assert_eq!(count("call", 1 << 32).unwrap_err().kind(), Kind::Invalid);
    }

    #[test]
    fn fields_end_at_their_nul_or_their_end() {
        let field = |bytes: &[u8]| {
            string(&bytes.iter().map(|c| *c as c_char).collect::<Vec<_>>())
        };

        assert_eq!(field(b"abc\0def"), "abc");
        assert_eq!(field(b"abc"), "abc");
        assert_eq!(field(b"\0"), "");
        assert_eq!(field("\u{e9}".as_bytes()), "\u{e9}");
        assert_eq!(field(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn deadlines_are_never_or_later() {
        assert_eq!(deadline_ns(None), sys::GPUMAP_NO_DEADLINE);
        assert_eq!(deadline_ns(Some(Duration::ZERO)), 0);
        let before = now_ns();
        let second = deadline_ns(Some(Duration::from_secs(1)));
        assert!(second >= before + 1_000_000_000);
        assert!(second <= now_ns() + 1_000_000_000);
        assert!(deadline_ns(Some(Duration::MAX)) > before);
        assert_eq!(nanoseconds(Duration::MAX), u64::MAX - 1);
    }

    #[test]
    fn lists_of_any_length_are_read_whole() {
        for n in [0, 1, 64, 65, 1000] {
            let mut calls = 0;
            let got = all(0, |room: &mut [usize]| {
                calls += 1;
                room.iter_mut().take(n).enumerate().for_each(|(i, x)| *x = i);
                Ok(n)
            });
            assert_eq!(got.unwrap(), (0..n).collect::<Vec<_>>());
            assert!(calls <= 2);
        }
        let failed = all(0, |_| Err(Error::new("call", sys::EPROTO, "")));
        assert_eq!(failed.unwrap_err().kind(), Kind::Protocol);
    }
}
