// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! The lookups of gpumap/view.h: neither a system call nor a function call.
//!
//! Loads of a view's words are relaxed, and a fence follows where the header
//! has an acquire: Rust promises no other loads of memory that this process
//! cannot write.  The order is the same, and on x86 the instructions are.

use crate::*;
use std::os::raw::{c_int, c_uint};
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

/// Loads a word that the agent may store meanwhile.
///
/// # Safety
///
/// `word` is aligned and readable.
#[inline(always)]
unsafe fn load64(word: *const u64) -> u64 {
    // SAFETY: by the caller's promise; AtomicU64 has the layout of u64, and
    // the memory is only ever loaded from here.
    unsafe { (*word.cast::<AtomicU64>()).load(Ordering::Relaxed) }
}

/// Reads one entry of the table.
///
/// Returns the entry, at least 0; `-EAGAIN` where the table was published
/// again: call [`gpumap_view_refresh`] and repeat the call; or `-ERANGE` where
/// there is no such index.  Cost: two loads and two compares.
///
/// # Safety
///
/// A call of the library has filled `view`, and the attachment of that call
/// exists.
#[inline(always)]
pub unsafe fn gpumap_view_get(view: &gpumap_view, index: u32) -> c_int {
    if index >= view.n {
        return -ERANGE;
    }
    // SAFETY: the library has filled the view with n aligned words, which are
    // mapped as long as the attachment exists, as is the word to check.
    unsafe {
        let entry = (*view.entries.add(index as usize).cast::<AtomicU32>())
            .load(Ordering::Relaxed);

        fence(Ordering::Acquire);
        if load64(view.check) != view.expect {
            return -EAGAIN;
        }
        (entry & i32::MAX as u32) as c_int
    }
}

/// Finds one row's replica of an opened mask.
///
/// Returns 0 and the replica; `-ENOENT` where the row has none; `-EAGAIN`
/// where the mask was published again: repeat the call; or another error of
/// [`gpumap_mask_renew`].  Cost: three loads and three compares.
///
/// # Safety
///
/// `mask` is from [`gpumap_mask_open`] with `map`, and is not closed; no other
/// thread has a call with it.
#[inline]
pub unsafe fn gpumap_mask_get(
    map: *mut gpumap,
    mask: *mut gpumap_mask,
    row: u32,
    ret_view: &mut *const gpumap_mask_view,
) -> c_int {
    // SAFETY: the mask is open, so that its words and its views are mapped.
    unsafe {
        if load64((*mask).check) != (*mask).expect {
            let ret = gpumap_mask_renew(map, mask);

            return if ret < 0 { ret } else { -EAGAIN };
        }
        if row >= (*mask).n_rows
            || (*(*mask).views.add(row as usize)).version == 0
        {
            return -ENOENT;
        }
        *ret_view = (*mask).views.add(row as usize);
    }
    0
}

/// Is all that was read of the mask's tensor of one version?
///
/// `false`: discard what was read since [`gpumap_mask_get`].  Cost: a load and
/// a compare.
///
/// # Safety
///
/// As [`gpumap_mask_get`].
#[inline(always)]
pub unsafe fn gpumap_mask_holds(mask: *const gpumap_mask) -> bool {
    fence(Ordering::Acquire);
    // SAFETY: the mask is open, so that its word is mapped.
    unsafe { load64((*mask).check) == (*mask).expect }
}

/// Is a row worth it for work of this size?
///
/// `false` also where `work` is no kind of these headers.  Cost: a load and two
/// compares.
///
/// # Safety
///
/// [`gpumap_policy_view()`] has filled `view`, and its attachment exists.
#[inline(always)]
pub unsafe fn gpumap_worth(
    view: &gpumap_policy_view,
    work: gpumap_work,
    size: u64,
) -> bool {
    if size < gpumap_work_floor(work) || work >= GPUMAP_WORKS {
        return false;
    }
    // SAFETY: the view has a word for each kind below GPUMAP_WORKS, mapped as
    // long as the attachment exists.
    size >= unsafe { load64(view.least.add(work as usize)) }
}

/// The operations of a product of an m * k and a k * n matrix, `2 * m * n * k`,
/// or `u64::MAX` if that is more.
#[inline]
pub const fn gpumap_flops(m: u64, n: u64, k: u64) -> u64 {
    if m == 0 || n == 0 || k == 0 {
        return 0;
    }
    m.saturating_mul(n).saturating_mul(k).saturating_mul(2)
}

/// The size below which no device is worth it.
#[inline]
pub const fn gpumap_work_floor(work: c_uint) -> u64 {
    match work {
        GPUMAP_WORK_GEMM | GPUMAP_WORK_XTWX => 2 * 64 * 64 * 64,
        GPUMAP_WORK_POTRF => 117,
        _ => 4096,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_answers_until_it_is_published_again() {
        let entries = [3u32, 4, 0x8000_0005];
        let mut check = 8u64;
        let view = gpumap_view {
            entries: entries.as_ptr(),
            check: &check,
            expect: 8,
            n: 3,
            ..Default::default()
        };
        // SAFETY: the view is of the variables above.
        let get = |view: &gpumap_view, i| unsafe { gpumap_view_get(view, i) };

        assert_eq!(get(&view, 0), 3);
        assert_eq!(get(&view, 1), 4);
        assert_eq!(get(&view, 2), 5); // of a damaged map: no error
        assert_eq!(get(&view, 3), -ERANGE);
        assert_eq!(get(&view, u32::MAX), -ERANGE);
        check += 1;
        let view = gpumap_view { check: &check, ..view };
        assert_eq!(get(&view, 0), -EAGAIN);
        assert_eq!(get(&view, 3), -ERANGE);
    }

    #[test]
    fn work_is_worth_it_from_its_threshold_on() {
        let least = [5000u64; GPUMAP_WORKS as usize];
        let view =
            gpumap_policy_view { least: least.as_ptr(), ..Default::default() };
        // SAFETY: the view is of the array above.
        let worth = |work, size| unsafe { gpumap_worth(&view, work, size) };

        assert!(worth(GPUMAP_WORK_FILL, 5000));
        assert!(!worth(GPUMAP_WORK_FILL, 4999));
        assert!(!worth(GPUMAP_WORK_GEMM, 5000)); // below its floor
        assert!(!worth(GPUMAP_WORKS, u64::MAX));
    }

    #[test]
    fn a_row_of_a_mask_is_found() {
        let check = 2u64;
        let views = [
            gpumap_mask_view { version: 0, ..Default::default() },
            gpumap_mask_view { version: 7, row: 1, ..Default::default() },
        ];
        let mut mask = gpumap_mask {
            check: &check,
            expect: 2,
            views: views.as_ptr(),
            n_rows: 2,
            ..Default::default()
        };
        let mut got = std::ptr::null();
        let map = std::ptr::null_mut();

        // SAFETY: the mask is of the variables above; its word is the expected
        // one, so that no call is made with the map.
        unsafe {
            assert_eq!(gpumap_mask_get(map, &mut mask, 0, &mut got), -ENOENT);
            assert_eq!(gpumap_mask_get(map, &mut mask, 2, &mut got), -ENOENT);
            assert_eq!(gpumap_mask_get(map, &mut mask, 1, &mut got), 0);
            assert_eq!((*got).row, 1);
            assert!(gpumap_mask_holds(&mask));
            mask.expect = 3;
            assert!(!gpumap_mask_holds(&mask));
        }
    }
}
