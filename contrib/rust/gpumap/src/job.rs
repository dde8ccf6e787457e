// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Jobs and their completions.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ffi;
use crate::memory::{refused, Base, Operand};
use crate::session::Session;
use gpumap_sys as sys;
use std::time::Duration;

/// A place in time: all that one session had submitted to a row by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    pub(crate) row: u32,
    pub(crate) value: u64,
}

/// The number of a job in flight, in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub(crate) u64);

/// The end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The job, as [`Session::submit`] named it.
    pub token: Token,
    /// The row that did it.
    pub row: u32,
    /// 0, or a negative errno.
    pub status: i32,
}

impl Done {
    /// The error that the job ended with, if any.
    ///
    /// # Errors
    ///
    /// [`Kind::WorkerDied`](crate::Kind::WorkerDied): it may have been done in
    /// part.  [`Kind::Canceled`](crate::Kind::Canceled),
    /// [`Kind::Timeout`](crate::Kind::Timeout),
    /// [`Kind::Stale`](crate::Kind::Stale): its buffer was lost.
    /// [`Kind::Invalid`](crate::Kind::Invalid),
    /// [`Kind::Unsupported`](crate::Kind::Unsupported),
    /// [`Kind::NothingInFlight`](crate::Kind::NothingInFlight): a file ends too
    /// early.  [`Kind::Gone`](crate::Kind::Gone): the agent died.
    pub fn check(&self) -> Result<()> {
        match self.status {
            0 => Ok(()),
            status => Err(Error::new("gpumap_submit", -status, "")),
        }
    }
}

/// One operation of a row.
///
/// Elements are counted by `n`; `dst` and `src` are [`Memory`](crate::Memory),
/// a [`Buffer`](crate::Buffer), a [`Tensor`](crate::Tensor) (only `src`), or an
/// [`Operand`] at an offset in one.  Results are the same bits on any row.  The
/// job borrows its memory until it is submitted; then the session keeps it.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    op: u32,
    dtype: DType,
    n: u64,
    dst: Option<Operand<'a>>,
    src: Option<Operand<'a>>,
    mask: Option<Operand<'a>>,
    alpha: f64,
    pattern: u64,
    to: DType,
    mask_n: u32,
    mask_first: u32,
    waits: Vec<Time>,
    timeout: Option<Duration>,
}

/// A slot that a job in flight uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) slot: usize,
    pub(crate) writes: bool,
}

/// The slots of a job in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight([Option<Use>; 3]);

impl Flight {
    pub(crate) fn uses(&self) -> impl Iterator<Item = Use> + '_ {
        self.0.iter().copied().flatten()
    }
}

impl<'a> Job<'a> {
    fn new(op: u32, dtype: DType, n: u64) -> Job<'a> {
        Job {
            op,
            dtype,
            n,
            dst: None,
            src: None,
            mask: None,
            alpha: 0.0,
            pattern: 0,
            to: DType::U8,
            mask_n: 0,
            mask_first: 0,
            waits: Vec::new(),
            timeout: None,
        }
    }

    fn moving(
        op: u32,
        dst: impl Into<Operand<'a>>,
        src: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
    ) -> Job<'a> {
        let mut job = Job::new(op, dtype, n);

        job.dst = Some(dst.into());
        job.src = Some(src.into());
        job
    }

    /// Nothing: it ends when its turn comes.
    pub fn nop() -> Job<'a> {
        Job::new(sys::GPUMAP_OP_NOP, DType::U8, 0)
    }

    /// `dst[i] = pattern`: its low bytes, as many as an element has.
    pub fn fill(
        dst: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
        pattern: u64,
    ) -> Job<'a> {
        let mut job = Job::new(sys::GPUMAP_OP_FILL, dtype, n);

        job.dst = Some(dst.into());
        job.pattern = pattern;
        job
    }

    /// `dst[i] = src[i]`; the two must not overlap.  The source may be memory
    /// of another row.
    pub fn copy(
        dst: impl Into<Operand<'a>>,
        src: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
    ) -> Job<'a> {
        Job::moving(sys::GPUMAP_OP_COPY, dst, src, dtype, n)
    }

    /// `dst[i] = alpha * src[i]`, of floats; dst may be src.
    pub fn scale(
        dst: impl Into<Operand<'a>>,
        src: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
        alpha: f64,
    ) -> Job<'a> {
        let mut job = Job::moving(sys::GPUMAP_OP_SCALE, dst, src, dtype, n);

        job.alpha = alpha;
        job
    }

    /// `dst[i] += alpha * src[i]`, of floats, product and sum both rounded; dst
    /// may be src.
    pub fn axpy(
        dst: impl Into<Operand<'a>>,
        src: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
        alpha: f64,
    ) -> Job<'a> {
        let mut job = Job::moving(sys::GPUMAP_OP_AXPY, dst, src, dtype, n);

        job.alpha = alpha;
        job
    }

    /// `dst[i] = src[i]` as another type: F16, BF16 and F32 into each other.
    pub fn cast(
        dst: impl Into<Operand<'a>>,
        to: DType,
        src: impl Into<Operand<'a>>,
        from: DType,
        n: u64,
    ) -> Job<'a> {
        let mut job = Job::moving(sys::GPUMAP_OP_CAST, dst, src, from, n);

        job.to = to;
        job
    }

    /// `dst` = the sum of `src`: of F16, BF16 and F32 an F32, of F64 an F64, of
    /// I32 and I64 an I64, of others a U64.
    pub fn sum(
        dst: impl Into<Operand<'a>>,
        src: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
    ) -> Job<'a> {
        Job::moving(sys::GPUMAP_OP_SUM, dst, src, dtype, n)
    }

    /// `dst` = the least element of `src`.
    pub fn min(
        dst: impl Into<Operand<'a>>,
        src: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
    ) -> Job<'a> {
        Job::moving(sys::GPUMAP_OP_MIN, dst, src, dtype, n)
    }

    /// `dst` = the greatest element of `src`.
    pub fn max(
        dst: impl Into<Operand<'a>>,
        src: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
    ) -> Job<'a> {
        Job::moving(sys::GPUMAP_OP_MAX, dst, src, dtype, n)
    }

    /// `dst[i] = src[i] + mask[i % mask_n]`, of floats; dst may be src.
    pub fn mask_add(
        dst: impl Into<Operand<'a>>,
        src: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
        mask: impl Into<Operand<'a>>,
        mask_n: u32,
    ) -> Job<'a> {
        let mut job = Job::moving(sys::GPUMAP_OP_MASK_ADD, dst, src, dtype, n);

        job.mask = Some(mask.into());
        job.mask_n = mask_n;
        job
    }

    /// `dst[i]` = minus infinity where byte `i % mask_n` of the mask is not 0,
    /// else `src[i]`; of floats.
    pub fn mask_bool(
        dst: impl Into<Operand<'a>>,
        src: impl Into<Operand<'a>>,
        dtype: DType,
        n: u64,
        mask: impl Into<Operand<'a>>,
        mask_n: u32,
    ) -> Job<'a> {
        let mut job = Job::moving(sys::GPUMAP_OP_MASK_BOOL, dst, src, dtype, n);

        job.mask = Some(mask.into());
        job.mask_n = mask_n;
        job
    }

    /// `n` bytes of a file, from byte `at` on, to dst.
    pub fn load(
        dst: impl Into<Operand<'a>>,
        file: &'a crate::Source<'_>,
        at: u64,
        n: u64,
    ) -> Job<'a> {
        let file = Operand::from(file).at(at);

        Job::moving(sys::GPUMAP_OP_LOAD, dst, file, DType::U8, n)
    }

    /// The mask's element for element 0, in jobs with a mask.
    pub fn mask_first(mut self, first: u32) -> Self {
        self.mask_first = first;
        self
    }

    /// Begins when all that was submitted by `time` has ended: four at most.
    pub fn after(mut self, time: Time) -> Self {
        self.waits.push(time);
        self
    }

    /// From its submission on: a job that has not begun by then ends with
    /// [`Kind::Timeout`](crate::Kind::Timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Bytes of an element of dst, and how many elements it has.
    fn result(&self) -> (u64, u64) {
        let src = self.dtype.bytes();

        match self.op {
            sys::GPUMAP_OP_CAST => (self.to.bytes(), self.n),
            sys::GPUMAP_OP_SUM => match self.dtype {
                DType::F16 | DType::BF16 | DType::F32 => (4, 1),
                _ => (8, 1),
            },
            sys::GPUMAP_OP_MIN | sys::GPUMAP_OP_MAX => (src, 1),
            _ => (src, self.n),
        }
    }

    /// The slots of the job, after a check that each operand has the bytes: the
    /// library knows the arena's end, and not that of each allocation.
    fn flight(&self, session: &Session<'_>) -> Result<Flight> {
        let (element, n) = self.result();
        let mask_element = match self.op {
            sys::GPUMAP_OP_MASK_ADD => self.dtype.bytes(),
            _ => 1,
        };
        let operands = [
            (&self.dst, element, n, true),
            (&self.src, self.dtype.bytes(), self.n, false),
            (&self.mask, mask_element, u64::from(self.mask_n), false),
        ];
        let mut flight = Flight::default();

        for (used, (operand, element, n, writes)) in
            flight.0.iter_mut().zip(operands)
        {
            let operand = match operand {
                Some(operand) => operand,
                None => continue,
            };
            if operand.session != session.id() {
                return Err(refused(sys::EPERM, "memory of another session"));
            }
            if let Base::Nowhere = operand.base {
                return Err(refused(
                    sys::EINVAL,
                    "jobs cannot name the tensor: its model is mapped, or is \
                     not loaded",
                ));
            }
            if writes && !operand.writable {
                return Err(refused(
                    sys::EACCES,
                    "the destination can only be read",
                ));
            }
            let end = element
                .checked_mul(n)
                .and_then(|bytes| bytes.checked_add(operand.at));
            if end.map_or(true, |end| end > operand.bytes) {
                return Err(refused(
                    sys::ERANGE,
                    "the job reaches past the end of its memory",
                ));
            }
            *used = Some(Use { slot: operand.slot, writes });
        }
        Ok(flight)
    }

    /// The job for the library.  Its waits are those of `times`.
    fn raw(&self, token: Token, times: &[sys::gpumap_time]) -> sys::gpumap_job {
        let mut raw = sys::gpumap_job {
            op: self.op,
            dtype: self.dtype.raw(),
            n: self.n,
            alpha: self.alpha,
            pattern: self.pattern,
            cookie: token.0,
            to: self.to.raw(),
            mask_n: self.mask_n,
            mask_first: self.mask_first,
            waits: ffi::list(times),
            n_waits: times.len() as u32,
            ..Default::default()
        };

        if let Some(timeout) = self.timeout {
            raw.deadline_ns = ffi::deadline_ns(Some(timeout)).max(1);
        }
        if let Some(dst) = &self.dst {
            let (arena, buffer, at) = place(dst);
            raw.dst = arena;
            raw.dst_buffer = buffer;
            raw.dst_at = at;
        }
        if let Some(src) = &self.src {
            let (arena, buffer, at) = place(src);
            raw.src = arena;
            raw.src_buffer = buffer;
            raw.src_at = at;
        }
        if let Some(mask) = &self.mask {
            let (arena, buffer, at) = place(mask);
            raw.mask = arena;
            raw.mask_buffer = buffer;
            raw.mask_at = at;
        }
        raw
    }

    fn times(&self) -> Vec<sys::gpumap_time> {
        self.waits
            .iter()
            .map(|time| sys::gpumap_time {
                row: time.row,
                reserved: 0,
                value: time.value,
            })
            .collect()
    }
}

/// An operand's address in the arena, or its buffer and the offset in it.
fn place(operand: &Operand<'_>) -> (*mut std::os::raw::c_void, u64, u64) {
    match operand.base {
        Base::Arena(base) => {
            (base.as_ptr().wrapping_add(operand.at as usize).cast(), 0, 0)
        }
        Base::Buffer(handle) => (std::ptr::null_mut(), handle, operand.at),
        Base::Nowhere => (std::ptr::null_mut(), 0, 0),
    }
}

impl<'m> Session<'m> {
    /// Submits jobs to one row, in order: all of them or none.
    ///
    /// Returns a token for each.  No system call while the row's worker is
    /// awake.
    ///
    /// # Errors
    ///
    /// [`Kind::Again`](crate::Kind::Again): fewer jobs fit beside those in
    /// flight, take completions first.  [`Kind::Busy`](crate::Kind::Busy): this
    /// process has their memory open.
    /// [`Kind::OutOfRange`](crate::Kind::OutOfRange),
    /// [`Kind::Denied`](crate::Kind::Denied),
    /// [`Kind::Invalid`](crate::Kind::Invalid),
    /// [`Kind::NoDevice`](crate::Kind::NoDevice),
    /// [`Kind::Gone`](crate::Kind::Gone).
    pub fn submit_all(&self, row: u32, jobs: &[Job<'_>]) -> Result<Vec<Token>> {
        let mut books = self.books.borrow_mut();
        let mut flights = Vec::with_capacity(jobs.len());
        let times: Vec<_> = jobs.iter().map(Job::times).collect();
        let mut raw = Vec::with_capacity(jobs.len());

        for (job, times) in jobs.iter().zip(&times) {
            let flight = job.flight(self)?;
            books.admit(&flight)?;
            let token = books.token();
            flights.push((token, flight));
            raw.push(job.raw(token, times));
        }
        let n = ffi::count("gpumap_submit", raw.len())?;
        // SAFETY: the jobs and their waits stay until the call returns; the
        // memory that they name is the session's, has the bytes that they use,
        // and stays until their completions are taken, since launch() counts
        // them before this thread can give it back.
        let ret =
            unsafe { sys::gpumap_submit(self.as_raw(), row, raw.as_ptr(), n) };
        self.check("gpumap_submit", ret)?;
        let tokens = flights.iter().map(|one| one.0).collect();
        for (token, flight) in flights {
            books.launch(token, flight);
        }
        Ok(tokens)
    }

    /// Submits one job.
    ///
    /// # Errors
    ///
    /// Those of [`Session::submit_all`].
    pub fn submit(&self, row: u32, job: &Job<'_>) -> Result<Token> {
        let tokens = self.submit_all(row, std::slice::from_ref(job))?;

        Ok(tokens[0])
    }

    /// Submits one job, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// Those of [`Session::submit_all`] and [`Done::check`].
    pub fn run(&self, row: u32, job: &Job<'_>) -> Result<()> {
        let token = self.taking(|| self.submit(row, job))?;

        self.wait_for(token, None)
    }

    /// The place in time of the last submission to a row, for [`Job::after`].
    ///
    /// # Errors
    ///
    /// [`Kind::NoDevice`](crate::Kind::NoDevice): no such row.
    /// [`Kind::Gone`](crate::Kind::Gone).
    pub fn submitted(&self, row: u32) -> Result<Time> {
        let mut time = sys::gpumap_time::default();
        // SAFETY: the session is open.
        let ret =
            unsafe { sys::gpumap_submitted(self.as_raw(), row, &mut time) };
        self.check("gpumap_submitted", ret)?;
        Ok(Time { row: time.row, value: time.value })
    }

    /// How many jobs fit beside those in flight on a row.  One with a timeout,
    /// waits, a mask or a cast takes the room of two.
    ///
    /// # Errors
    ///
    /// As [`Session::submitted`].
    pub fn credit(&self, row: u32) -> Result<u32> {
        // SAFETY: the session is open.
        let ret = unsafe { sys::gpumap_credit(self.as_raw(), row) };
        Ok(self.check("gpumap_credit", ret)? as u32)
    }

    /// Cancels the jobs of a row that have not begun: they end with
    /// [`Kind::Canceled`](crate::Kind::Canceled).
    ///
    /// # Errors
    ///
    /// As [`Session::submitted`].
    pub fn cancel(&self, row: u32) -> Result<()> {
        // SAFETY: the session is open.
        let ret = unsafe { sys::gpumap_cancel(self.as_raw(), row) };
        self.check("gpumap_cancel", ret).map(drop)
    }

    /// Cancels one job of a row, if it has not begun.
    ///
    /// # Errors
    ///
    /// As [`Session::submitted`].
    pub fn cancel_job(&self, row: u32, token: Token) -> Result<()> {
        // SAFETY: the session is open.
        let ret =
            unsafe { sys::gpumap_cancel_job(self.as_raw(), row, token.0) };
        self.check("gpumap_cancel_job", ret).map(drop)
    }
}

/// The part of a scatter that one row had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tile {
    /// The row.
    pub row: u32,
    /// Its first element.
    pub first: u64,
    /// Its elements.
    pub n: u64,
}

/// How a job is split over rows.
#[derive(Clone, Debug, Default)]
pub struct Scatter<'a> {
    rows: &'a [u32],
    weights: &'a [f64],
    flags: u32,
}

impl<'a> Scatter<'a> {
    /// Over all hosts and cards that are ready, by their scores.
    pub fn new() -> Scatter<'a> {
        Scatter::default()
    }

    /// Over these rows.
    pub fn rows(mut self, rows: &'a [u32]) -> Self {
        self.rows = rows;
        self
    }

    /// By these weights, one for each of the rows.
    pub fn weights(mut self, weights: &'a [f64]) -> Self {
        self.weights = weights;
        self
    }

    /// Tiles that a row failed are done once more, on a host row.
    pub fn fallback(mut self) -> Self {
        self.flags = sys::GPUMAP_SCATTER_FALLBACK;
        self
    }

    fn raw(&self) -> Result<sys::gpumap_scatter_opts> {
        if !self.weights.is_empty() && self.weights.len() != self.rows.len() {
            return Err(refused(sys::EINVAL, "rows and weights differ"));
        }
        Ok(ffi::sized!(gpumap_scatter_opts {
            rows: ffi::list(self.rows),
            weights: ffi::list(self.weights),
            n_rows: ffi::count("gpumap_scatter", self.rows.len())?,
            flags: self.flags,
        }))
    }
}

impl<'m> Session<'m> {
    /// Splits one job's elements over rows, and waits until all have ended.
    ///
    /// A reduction's dst has room for an element of each tile; see
    /// [`Session::reduce`].  Returns the tiles.
    ///
    /// # Errors
    ///
    /// The error of the first tile that failed, as [`Done::check`]; or those
    /// of [`Session::submit_all`]; [`Kind::Again`](crate::Kind::Again): a
    /// reduction's dst has no room for all tiles.
    pub fn scatter(
        &self,
        job: &Job<'_>,
        how: &Scatter<'_>,
    ) -> Result<Vec<Tile>> {
        self.scattered(job, how, std::ptr::null_mut())
    }

    /// Scatters a reduction, and combines the tiles' results.
    ///
    /// # Errors
    ///
    /// Those of [`Session::scatter`]; [`Kind::Invalid`](crate::Kind::Invalid):
    /// the job is no reduction, or its dst is not of the arena.
    pub fn reduce(&self, job: &Job<'_>, how: &Scatter<'_>) -> Result<Number> {
        let mut result = [0; 8];

        self.scattered(job, how, result.as_mut_ptr().cast())?;
        Ok(Number::of(job, result))
    }

    fn scattered(
        &self,
        job: &Job<'_>,
        how: &Scatter<'_>,
        ret_combined: *mut std::os::raw::c_void,
    ) -> Result<Vec<Tile>> {
        let flight = job.flight(self)?;
        let mut tiles = vec![sys::gpumap_tile::default(); room(job)];
        let times = job.times();
        let raw = job.raw(Token(0), &times);
        let mut opts = how.raw()?;

        opts.ret_combined = ret_combined;
        self.books.borrow_mut().admit(&flight)?;
        // SAFETY: all lists stay until the call returns; the memory that the
        // job names is the session's and has the bytes that it uses, a
        // reduction's dst for as many tiles as there is room for.  Without a
        // deadline of the whole, no tile is in flight when the call returns,
        // unless the agent went away.
        let ret = unsafe {
            sys::gpumap_scatter(
                self.as_raw(),
                &raw,
                &opts,
                tiles.as_mut_ptr(),
                tiles.len() as u32,
            )
        };
        if ret == -sys::ECONNRESET || ret == -sys::EPROTO {
            self.books.borrow_mut().lose(&flight);
        }
        let n = self.check("gpumap_scatter", ret)? as usize;
        Ok(tiles[..n]
            .iter()
            .map(|tile| Tile { row: tile.row, first: tile.first, n: tile.n })
            .collect())
    }

    /// Allocates memory of the arena that a scatter of `n` elements of
    /// `element` bytes finds at home: each tile lies on its row's NUMA node.
    ///
    /// # Errors
    ///
    /// As [`Session::memory`].
    pub fn scatter_memory(
        &self,
        n: u64,
        element: u32,
        how: &Scatter<'_>,
    ) -> Result<crate::Memory<'_>> {
        const CALL: &str = "gpumap_scatter_alloc";
        let opts = how.raw()?;
        let mut at = std::ptr::null_mut();

        self.give_back_all();
        // SAFETY: the lists stay until the call returns.
        let ret = unsafe {
            sys::gpumap_scatter_alloc(self.as_raw(), n, element, &opts, &mut at)
        };
        self.check(CALL, ret)?;
        let bytes = n as usize * element as usize;
        let row = how.rows.first().copied().unwrap_or(0);
        Ok(crate::Memory::new(self, at, bytes, row))
    }
}

/// The result of [`Session::reduce`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Number {
    /// The elements are unsigned integers.
    Unsigned(u64),
    /// They are signed integers.
    Signed(i64),
    /// They are floats; the value is exact.
    Float(f64),
}

impl Number {
    /// The element that the bytes of a reduction's result begin with.
    fn of(job: &Job<'_>, bytes: [u8; 8]) -> Number {
        let first =
            u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let half = u16::from_ne_bytes([bytes[0], bytes[1]]);
        let sums = job.op == sys::GPUMAP_OP_SUM;
        let float = |bits| Number::Float(f32::from_bits(bits).into());

        match job.dtype {
            DType::F16 | DType::BF16 if sums => float(first),
            DType::F32 => float(first),
            DType::F64 => Number::Float(f64::from_ne_bytes(bytes)),
            DType::F16 => Number::Float(half_float(half)),
            DType::BF16 => float(u32::from(half) << 16),
            DType::I32 if !sums => Number::Signed((first as i32).into()),
            DType::I32 | DType::I64 => {
                Number::Signed(i64::from_ne_bytes(bytes))
            }
            DType::U8 if !sums => Number::Unsigned(bytes[0].into()),
            DType::U16 if !sums => Number::Unsigned(half.into()),
            DType::U32 if !sums => Number::Unsigned(first.into()),
            _ => Number::Unsigned(u64::from_ne_bytes(bytes)),
        }
    }

    /// The nearest `f64`.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Unsigned(value) => value as f64,
            Number::Signed(value) => value as f64,
            Number::Float(value) => value,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Unsigned(value) => value.fmt(f),
            Number::Signed(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
        }
    }
}

/// An IEEE 754 binary16.
fn half_float(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let fraction = f64::from(bits & 0x3ff);

    match bits >> 10 & 0x1f {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        exponent => {
            sign * (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25)
        }
    }
}

/// Tiles that a job may have: as many as its results have room.
fn room(job: &Job<'_>) -> usize {
    let (element, n) = job.result();
    let most = sys::GPUMAP_ROWS_MAX as u64;
    let reduces = matches!(
        job.op,
        sys::GPUMAP_OP_SUM | sys::GPUMAP_OP_MIN | sys::GPUMAP_OP_MAX
    );

    match (&job.dst, n) {
        (Some(dst), 1) if reduces && element != 0 => {
            most.min((dst.bytes - dst.at) / element) as usize
        }
        _ => most as usize,
    }
}
