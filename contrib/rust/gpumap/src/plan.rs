// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Plans, which place a model on rows, and reservations of memory.

use crate::dtype::DType;
use crate::error::Result;
#[cfg(doc)]
use crate::error::{Error, Kind};
use crate::ffi::{self, numbers, sized};
use crate::layers::Setting;
use crate::map::Map;
use gpumap_sys as sys;
use std::fmt;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

numbers! {
    /// How an automatic plan is made.
    Strategy {
        /// One row after the other.
        Fill = GPUMAP_STRATEGY_FILL,
        /// The slowest row as fast as possible.
        Balance = GPUMAP_STRATEGY_BALANCE,
        /// As few rows as possible.
        Fewest = GPUMAP_STRATEGY_FEWEST,
    }
}

numbers! {
    /// An engine that keeps the caches of a plan by a rule of its own.
    Engine {
        /// vLLM.
        Vllm = GPUMAP_ENGINE_VLLM,
        /// SGLang.
        Sglang = GPUMAP_ENGINE_SGLANG,
        /// llama.cpp.
        LlamaCpp = GPUMAP_ENGINE_LLAMA_CPP,
        /// transformers, with or without accelerate.
        Accelerate = GPUMAP_ENGINE_ACCELERATE,
    }
}

/// The facts of a model that a plan needs.  Facts that are not known stay 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The bytes of each layer, the last one's with the head.
    pub layer_bytes: Vec<u64>,
    /// Bytes of what belongs to no layer.
    pub other_bytes: u64,
    /// Bytes of an embedding among these that is the head as well.
    pub tied_bytes: u64,
    /// The type of most weights; None: F16.
    pub dtype: Option<DType>,
    /// Heads of attention.
    pub n_heads: u32,
    /// The caches of all layers; empty: they are not known, and none is
    /// charged.
    pub caches: Vec<LayerCache>,
    /// Inputs that each convolution over tokens has.
    pub conv_taps: u32,
    /// Bytes of an element of a recurrence, as the model says.
    pub state_bytes: u32,
}

/// Each of some layers, one after the other, keeps so much of each sequence; by
/// default one keeps nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCache {
    /// At least 1.
    pub n_layers: u32,
    /// Heads, into which ranks divide it; 0: it is not known what it keeps.
    pub n_heads: u32,
    /// The most tokens that are kept; 0: all.
    pub window: u32,
    /// Elements of keys and values of a token, of all heads.
    pub token_elements: u64,
    /// Elements whose number is fixed, such as last inputs of a convolution.
    pub conv_elements: u64,
    /// Elements of a recurrence, of 4 bytes each.
    pub state_elements: u64,
}

impl Default for LayerCache {
    fn default() -> LayerCache {
        LayerCache {
            n_layers: 1,
            n_heads: 1,
            window: 0,
            token_elements: 0,
            conv_elements: 0,
            state_elements: 0,
        }
    }
}

impl LayerCache {
    fn raw(&self) -> sys::gpumap_layer_cache {
        sys::gpumap_layer_cache {
            n_layers: self.n_layers,
            n_heads: self.n_heads,
            window: self.window,
            reserved: 0,
            token_elements: self.token_elements,
            conv_elements: self.conv_elements,
            state_elements: self.state_elements,
        }
    }
}

/// How a plan places layers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Placement {
    Auto,
    Spec(String),
    Topology(String),
    Pipeline(String),
}

/// How a paged KV cache is sized.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Paged {
    /// The cache is not paged.
    No,
    /// MiB.
    Mib(u64),
    /// A share of the first row's memory, 0 to 1.
    Share(f32),
    /// Tokens.
    Tokens(u64),
}

/// The purpose of a plan: which rows, by which rule, for which use.
///
/// ```no_run
/// # use gpumap::{PlanOptions, Shape};
/// # let map = gpumap::Map::attach()?;
/// let shape = Shape { layer_bytes: vec![1 << 28; 32], ..Shape::default() };
/// let plan = map.plan(&shape, &PlanOptions::new().commit("llama"))?;
/// println!("{:?}", plan.rows);
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct PlanOptions {
    placement: Placement,
    strategy: Strategy,
    rows: Option<Vec<u32>>,
    base_row: Option<u32>,
    compute_dtype: Option<DType>,
    max_seq_len: u64,
    max_batch_size: u32,
    paged: Paged,
    engine: Option<Engine>,
    name: Option<String>,
    flags: u32,
    wait: Duration,
    start: Duration,
}

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions {
            placement: Placement::Auto,
            strategy: Strategy::Fill,
            rows: None,
            base_row: None,
            compute_dtype: None,
            max_seq_len: 0,
            max_batch_size: 0,
            paged: Paged::No,
            engine: None,
            name: None,
            flags: 0,
            wait: Duration::ZERO,
            start: Duration::ZERO,
        }
    }
}

impl PlanOptions {
    /// One row after the other, for 4096 tokens and a batch of 1, and nothing
    /// published.
    pub fn new() -> PlanOptions {
        PlanOptions::default()
    }

    /// Another strategy.
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Places the layers by hand, `"0:40;1:40"`.
    pub fn spec(mut self, spec: &str) -> Self {
        self.placement = Placement::Spec(spec.into());
        self
    }

    /// Places them by ranges, `"0-16:cuda[0];16-32:cpu"`.
    pub fn topology(mut self, ranges: &str) -> Self {
        self.placement = Placement::Topology(ranges.into());
        self
    }

    /// Places them as a pipeline with these layers a rank.
    pub fn pipeline(mut self, layers: &[u32]) -> Self {
        let words: Vec<String> = layers.iter().map(u32::to_string).collect();

        self.placement = Placement::Pipeline(words.join(","));
        self
    }

    /// Only these rows, in this order.
    pub fn rows(mut self, rows: &[u32]) -> Self {
        self.rows = Some(rows.into());
        self
    }

    /// The row of what belongs to no layer; else that of layer 0.
    pub fn base_row(mut self, row: u32) -> Self {
        self.base_row = Some(row);
        self
    }

    /// The type of activations and the KV cache; else the best there is.
    pub fn compute_dtype(mut self, dtype: DType) -> Self {
        self.compute_dtype = Some(dtype);
        self
    }

    /// Tokens of a sequence, and sequences of a batch.
    pub fn tokens(mut self, max_seq_len: u64, max_batch_size: u32) -> Self {
        self.max_seq_len = max_seq_len;
        self.max_batch_size = max_batch_size;
        self
    }

    /// The KV cache is paged.
    pub fn paged(mut self, paged: Paged) -> Self {
        self.paged = paged;
        self
    }

    /// Charges the caches by the rule of this engine.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = Some(engine);
        self
    }

    /// Publishes the plan as the layer map of this name.
    pub fn publish(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self.flags |= sys::GPUMAP_PLAN_PUBLISH;
        self
    }

    /// Publishes it, and reserves its memory until it is released.
    pub fn commit(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self.flags |= sys::GPUMAP_PLAN_PUBLISH | sys::GPUMAP_PLAN_COMMIT;
        self
    }

    /// As [`PlanOptions::commit`], only while this process lives.
    pub fn hold(self, name: &str) -> Self {
        let mut held = self.commit(name);

        held.flags |= sys::GPUMAP_PLAN_HELD;
        held
    }

    /// Replaces no map of this name, unless this process holds it.
    pub fn no_replace(mut self) -> Self {
        self.flags |= sys::GPUMAP_PLAN_NEW;
        self
    }

    /// Waits in a line for room: of plans that are committed.
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// No other process starts on the plan's rows for so long, until
    /// [`Map::started`]: of plans that are held.
    pub fn start(mut self, time: Duration) -> Self {
        self.start = time;
        self
    }
}

/// The memory that a plan takes from one row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanCharge {
    /// The row.
    pub row: u32,
    /// Layers on it; 0: only parts that belong to no layer.
    pub n_layers: u32,
    /// Bytes of weights.
    pub weight_bytes: u64,
    /// Bytes of the KV cache.
    pub kv_bytes: u64,
    /// Bytes of activations.
    pub activation_bytes: u64,
    /// Kept back.
    pub reserve_bytes: u64,
    /// Bytes that are left of the memory that was free and not reserved.
    pub left_bytes: u64,
}

/// A plan as the agent has made it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// The row of each layer.
    pub rows: Vec<u32>,
    /// The memory that it takes from each row, in first-use order.
    pub charges: Vec<PlanCharge>,
    /// The row of what belongs to no layer.
    pub base_row: u32,
    /// The type of activations and the KV cache.
    pub compute_dtype: DType,
    /// Bytes of one layer's KV cache.
    pub kv_bytes: u64,
    /// The published map's version; 0: not published.
    pub version: u64,
    /// In a plan by hand that is not committed, the bytes that are missing and
    /// the row.
    pub missing: Option<(u64, u32)>,
    /// An equivalent spec.
    pub spec: String,
    /// The agent's warnings.
    pub warnings: Vec<String>,
}

/// Memory of rows that is kept free for this process, which allocates it
/// itself.  Given back when it is dropped, or when the process ends.
pub struct Reservation<'m> {
    map: &'m Map,
    name: String,
    version: u64,
    rows: Vec<(u32, u64)>,
}

impl Reservation<'_> {
    /// The name of the committed layer map that keeps it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Each row, and the bytes of it.
    pub fn rows(&self) -> &[(u32, u64)] {
        &self.rows
    }

    /// Ends the start window: the next process may start on the rows.
    ///
    /// # Errors
    ///
    /// Those of [`Map::started`].
    pub fn started(&self) -> Result<()> {
        self.map.started(&self.name)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        // A later one of this process may have replaced it.  Where the release
        // fails the agent is gone, or the process is a forked child; a held
        // reservation ends with its own process in any case.
        match self.map.read_layers(&self.name) {
            Ok(now) if now.version != self.version => {}
            _ => drop(self.map.release(&self.name)),
        }
    }
}

impl fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("name", &self.name)
            .field("rows", &self.rows)
            .finish()
    }
}

/// Memory to reserve, for [`Map::reserve`].
#[derive(Clone, Debug)]
pub struct Reserve {
    rows: Vec<u32>,
    bytes: Vec<u64>,
    name: Option<String>,
    wait: Duration,
    start: Duration,
}

impl Reserve {
    /// These bytes of each of these rows.
    pub fn rows(list: &[(u32, u64)]) -> Reserve {
        Reserve {
            rows: list.iter().map(|one| one.0).collect(),
            bytes: list.iter().map(|one| one.1).collect(),
            name: None,
            wait: Duration::ZERO,
            start: Duration::ZERO,
        }
    }

    /// So many bytes of the one among `rows` that has the fewest left then; an
    /// empty list stands for all GPUs, or for all rows where there are none.
    pub fn any(bytes: u64, rows: &[u32]) -> Reserve {
        Reserve {
            rows: rows.into(),
            bytes: vec![bytes],
            name: None,
            wait: Duration::ZERO,
            start: Duration::ZERO,
        }
    }

    /// A name, which no other map has; else the process's number is in it.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Waits in a line for room.
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// No other process starts on the rows for so long, until
    /// [`Reservation::started`].
    pub fn start(mut self, time: Duration) -> Self {
        self.start = time;
        self
    }
}

/// The reservation of one row by one committed layer map.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reserved {
    /// The layer map.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// The row.
    pub row: u32,
    /// The user who has reserved it.
    pub uid: u32,
    /// The process that holds it, in the agent's pid namespace; None: held
    /// until it is released.
    pub pid: Option<u32>,
    /// Bytes that are reserved.
    pub bytes: u64,
    /// Bytes among them that the holder's processes have allocated themselves.
    pub own_bytes: u64,
    /// Bytes among them that their sessions have.
    pub session_bytes: u64,
}

static RESERVATIONS: AtomicU32 = AtomicU32::new(1);

impl Map {
    /// Has the agent place a model's layers on rows.
    ///
    /// # Errors
    ///
    /// [`Kind::DoesNotFit`]: [`Error::missing_bytes`] and
    /// [`Error::missing_row`] say what is missing.  [`Kind::Busy`]: a process
    /// is in its start window.  [`Kind::Exists`]: see
    /// [`PlanOptions::no_replace`].  [`Kind::NoDevice`], [`Kind::Invalid`],
    /// [`Kind::Quota`], [`Kind::Denied`] and those of every request.
    pub fn plan(&self, shape: &Shape, options: &PlanOptions) -> Result<Plan> {
        const CALL: &str = "gpumap_plan_make";
        let name = ffi::some(CALL, options.name.as_deref())?;
        let (setting, text) = match &options.placement {
            Placement::Auto => (Setting::Auto, None),
            Placement::Spec(text) => (Setting::Manual, Some(text)),
            Placement::Topology(text) => (Setting::Topology, Some(text)),
            Placement::Pipeline(text) => (Setting::Pipeline, Some(text)),
        };
        let text = ffi::some(CALL, text.map(String::as_str))?;
        let strategy = match setting {
            Setting::Auto | Setting::Topology => options.strategy.raw(),
            _ => 0,
        };
        let rows = options.rows.as_deref().unwrap_or(&[]);
        let caches: Vec<_> = shape.caches.iter().map(LayerCache::raw).collect();
        let mut raw = sized!(gpumap_plan_request {
            name: ffi::pointer(&name),
            flags: options.flags,
            setting: setting.raw(),
            strategy: strategy,
            text: ffi::pointer(&text),
            rows: ffi::list(rows),
            n_rows: ffi::count(CALL, rows.len())?,
            n_layers: ffi::count(CALL, shape.layer_bytes.len())?,
            layer_bytes: ffi::list(&shape.layer_bytes),
            other_bytes: shape.other_bytes,
            tied_bytes: shape.tied_bytes,
            dtype: shape.dtype.unwrap_or(DType::F16).raw(),
            n_heads: shape.n_heads,
            caches: ffi::list(&caches),
            n_caches: ffi::count(CALL, caches.len())?,
            conv_taps: shape.conv_taps,
            state_bytes: shape.state_bytes,
            engine: options.engine.map_or(0, Engine::raw),
            compute_dtype: options.compute_dtype.map_or(0, DType::raw),
            max_seq_len: options.max_seq_len,
            max_batch_size: options.max_batch_size,
            wait_ns: ffi::nanoseconds(options.wait),
            start_ns: ffi::nanoseconds(options.start),
        });

        if let Some(row) = options.base_row {
            raw.flags |= sys::GPUMAP_PLAN_BASE;
            raw.base_row = row;
        }
        match options.paged {
            Paged::No => {}
            Paged::Mib(amount) => {
                raw.paged = sys::GPUMAP_PAGED_MIB;
                raw.paged_amount = amount;
            }
            Paged::Share(share) => {
                raw.paged = sys::GPUMAP_PAGED_SHARE;
                raw.paged_share = share;
            }
            Paged::Tokens(amount) => {
                raw.paged = sys::GPUMAP_PAGED_TOKENS;
                raw.paged_amount = amount;
            }
        }
        // SAFETY: the request's text is of this function, and its lists of
        // the arguments, with as many elements as it says.
        unsafe { self.make(&raw) }
    }

    /// Makes a plan.
    ///
    /// # Safety
    ///
    /// The request's pointers lead to text and lists that stay meanwhile, as
    /// long as its numbers say.
    unsafe fn make(&self, request: &sys::gpumap_plan_request) -> Result<Plan> {
        const CALL: &str = "gpumap_plan_make";
        // More layers than these the agent does not take.
        let mut rows = vec![0; 1 << 16];
        let mut charges =
            vec![sys::gpumap_charge::default(); sys::GPUMAP_ROWS_MAX as usize];
        let mut plan = sized!(gpumap_plan);
        // SAFETY: by the caller's promise; and there is room for as many
        // layers and charges as the call is told.
        let ret: c_int = unsafe {
            sys::gpumap_plan_make(
                self.as_raw(),
                request,
                &mut plan,
                rows.as_mut_ptr(),
                rows.len(),
                charges.as_mut_ptr(),
                charges.len(),
            )
        };
        self.check(CALL, ret).map_err(|error| {
            error.lacking(plan.missing_bytes, plan.missing_row)
        })?;
        rows.truncate(plan.n_layers as usize);
        charges.truncate(plan.n_charges as usize);
        Ok(Plan {
            rows,
            charges: charges.iter().map(charge_of).collect(),
            base_row: plan.base_row,
            compute_dtype: DType::from_raw(plan.compute_dtype),
            kv_bytes: plan.kv_bytes,
            version: plan.version,
            missing: Some((plan.missing_bytes, plan.missing_row))
                .filter(|missing| missing.0 != 0),
            spec: ffi::string(&plan.spec),
            warnings: ffi::string(&plan.warnings)
                .lines()
                .map(String::from)
                .collect(),
        })
    }

    /// Keeps memory of rows free for this process, until the result is dropped.
    ///
    /// ```no_run
    /// # use gpumap::Reserve;
    /// # let map = gpumap::Map::attach()?;
    /// let kept = map.reserve(&Reserve::rows(&[(0, 8 << 30)]))?;
    /// // allocate with the engine's own calls
    /// drop(kept);
    /// # Ok::<(), gpumap::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Kind::DoesNotFit`]: there was not as much free, in time.
    /// [`Kind::Exists`]: a map of another process has this name.  Others as
    /// [`Map::plan`].
    pub fn reserve(&self, what: &Reserve) -> Result<Reservation<'_>> {
        const CALL: &str = "gpumap_plan_make";
        let name = match &what.name {
            Some(name) => name.clone(),
            None => {
                let n = RESERVATIONS.fetch_add(1, Ordering::Relaxed);
                format!("rust.{}.{}", std::process::id(), n)
            }
        };
        let text = ffi::text(CALL, &name)?;
        let raw = sized!(gpumap_plan_request {
            name: text.as_ptr(),
            flags: sys::GPUMAP_PLAN_PUBLISH
                | sys::GPUMAP_PLAN_COMMIT
                | sys::GPUMAP_PLAN_HELD
                | sys::GPUMAP_PLAN_NEW,
            setting: sys::GPUMAP_SETTING_RESERVE,
            rows: ffi::list(&what.rows),
            n_rows: ffi::count(CALL, what.rows.len())?,
            n_layers: ffi::count(CALL, what.bytes.len())?,
            layer_bytes: ffi::list(&what.bytes),
            wait_ns: ffi::nanoseconds(what.wait),
            start_ns: ffi::nanoseconds(what.start),
        });
        // SAFETY: the name is of this function and the lists of @what, with as
        // many elements as the request says.
        let plan = unsafe { self.make(&raw) }?;

        Ok(Reservation {
            map: self,
            name,
            version: plan.version,
            rows: plan
                .charges
                .iter()
                .map(|one| (one.row, one.weight_bytes))
                .collect(),
        })
    }

    /// Ends the start window of a held map or a reservation.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no process holds a map of this name.
    /// [`Kind::Denied`]: it belongs to another user.
    pub fn started(&self, name: &str) -> Result<()> {
        const CALL: &str = "gpumap_started";
        let name = ffi::text(CALL, name)?;
        // SAFETY: the name stays until the call returns.
        let ret = unsafe { sys::gpumap_started(self.as_raw(), name.as_ptr()) };
        self.check(CALL, ret).map(drop)
    }

    /// The reservations of each row, and how much of each is in use.
    ///
    /// # Errors
    ///
    /// [`Kind::NotRunning`], [`Kind::Gone`] and those of every request.
    pub fn reservations(&self) -> Result<Vec<Reserved>> {
        let all = ffi::all(sized!(gpumap_reservation), |room| {
            // SAFETY: there is room for as many as the call is told, and the
            // size of the first is set.
            let ret = unsafe {
                sys::gpumap_reservation_list(
                    self.as_raw(),
                    room.as_mut_ptr(),
                    room.len(),
                )
            };
            Ok(self.check("gpumap_reservation_list", ret)? as usize)
        })?;
        Ok(all
            .iter()
            .map(|one| Reserved {
                name: ffi::string(&one.name),
                version: one.version,
                row: one.row,
                uid: one.uid,
                pid: Some(one.pid).filter(|pid| *pid != 0),
                bytes: one.bytes,
                own_bytes: one.own_bytes,
                session_bytes: one.session_bytes,
            })
            .collect())
    }
}

fn charge_of(raw: &sys::gpumap_charge) -> PlanCharge {
    PlanCharge {
        row: raw.row,
        n_layers: raw.n_layers,
        weight_bytes: raw.weight_bytes,
        kv_bytes: raw.kv_bytes,
        activation_bytes: raw.activation_bytes,
        reserve_bytes: raw.reserve_bytes,
        left_bytes: raw.left_bytes,
    }
}
