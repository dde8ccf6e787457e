// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Is a row worth it for a piece of work?

use crate::error::Result;
use crate::ffi::numbers;
use crate::map::Map;
use gpumap_sys as sys;
use std::marker::PhantomData;

numbers! {
    /// A kind of work, with the unit of its size.
    Work {
        /// A product of matrices; [`flops`], times the batch.
        Gemm = GPUMAP_WORK_GEMM,
        /// A Cholesky factorisation; the order of the matrix.
        Potrf = GPUMAP_WORK_POTRF,
        /// X'WX of n rows of p columns; `flops(n, p, p)`.
        Xtwx = GPUMAP_WORK_XTWX,
        /// [`Job::fill`](crate::Job::fill); elements.
        Fill = GPUMAP_WORK_FILL,
        /// [`Job::copy`](crate::Job::copy); elements.
        Copy = GPUMAP_WORK_COPY,
        /// [`Job::scale`](crate::Job::scale); elements.
        Scale = GPUMAP_WORK_SCALE,
        /// [`Job::axpy`](crate::Job::axpy); elements.
        Axpy = GPUMAP_WORK_AXPY,
        /// [`Job::cast`](crate::Job::cast); elements.
        Cast = GPUMAP_WORK_CAST,
        /// Sums, minima and maxima; elements.
        Reduce = GPUMAP_WORK_REDUCE,
        /// Jobs with a mask; elements.
        Mask = GPUMAP_WORK_MASK,
    }
}

/// The operations of a product of an m * k and a k * n matrix: `2 * m * n * k`,
/// or `u64::MAX` if that is more.
pub const fn flops(m: u64, n: u64, k: u64) -> u64 {
    sys::gpumap_flops(m, n, k)
}

/// The thresholds of one row, for questions on a hot path.  They follow the
/// administrator's changes.
#[derive(Clone, Copy, Debug)]
pub struct Worth<'m> {
    view: sys::gpumap_policy_view,
    map: PhantomData<&'m Map>,
}

// SAFETY: the view's pointer leads into the segment, which is mapped read-only
// as long as the map that it borrows, and is loaded atomically.
unsafe impl Send for Worth<'_> {}
// SAFETY: a question stores nothing.
unsafe impl Sync for Worth<'_> {}

impl Worth<'_> {
    /// Is the row worth it for work of this size?  False: the caller's thread
    /// is likely to be done sooner.  A load and two compares, inline.
    #[inline]
    pub fn is(&self, work: Work, size: u64) -> bool {
        // SAFETY: the library has filled the view, and its map is borrowed.
        unsafe { sys::gpumap_worth(&self.view, work.raw(), size) }
    }
}

impl Map {
    /// Prepares to ask whether one row is worth it.  No system call.
    ///
    /// # Errors
    ///
    /// [`Kind::NoDevice`](crate::Kind::NoDevice): no such row.
    pub fn worth(&self, row: u32) -> Result<Worth<'_>> {
        let mut view = sys::gpumap_policy_view::default();
        // SAFETY: the view is this function's own.
        let ret =
            unsafe { sys::gpumap_policy_view(self.as_raw(), row, &mut view) };
        self.check("gpumap_policy_view", ret)?;
        Ok(Worth { view, map: PhantomData })
    }
}
