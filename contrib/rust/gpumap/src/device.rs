// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! The table of devices.

use crate::error::Result;
use crate::ffi::{self, numbers, sized};
use crate::map::Map;
use gpumap_sys as sys;

numbers! {
    /// A kind of device.
    DeviceKind {
        /// CPUs and the main memory near them.
        Host = GPUMAP_DEVICE_HOST,
        /// A CUDA device.
        Cuda = GPUMAP_DEVICE_CUDA,
        /// The device plans and accounts, and holds no data.
        Dummy = GPUMAP_DEVICE_DUMMY,
        /// A device of OpenCL.
        Opencl = GPUMAP_DEVICE_OPENCL,
        /// A device of Vulkan.
        Vulkan = GPUMAP_DEVICE_VULKAN,
        /// A device of HIP.
        Hip = GPUMAP_DEVICE_HIP,
    }
}

numbers! {
    /// The state of a device.
    DeviceState {
        /// Its facts are being found out.
        Probing = GPUMAP_DEVICE_PROBING,
        /// The device takes jobs.
        Ready = GPUMAP_DEVICE_READY,
        /// Its worker is being started again.
        Restarting = GPUMAP_DEVICE_RESTARTING,
        /// The device is out of service.
        Draining = GPUMAP_DEVICE_DRAINING,
        /// Its worker cannot be started, or its health is bad.
        Failed = GPUMAP_DEVICE_FAILED,
        /// The device is gone; its row stays.
        Lost = GPUMAP_DEVICE_LOST,
    }
}

/// The facts about the device in one row, of one refresh.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Device {
    /// The device's place in the table; maps name rows.
    pub row: u32,
    /// A number that changes when the row is given to another device.
    pub generation: u32,
    /// The kind.
    pub kind: DeviceKind,
    /// The facts that are known: bits `GPUMAP_KNOWN_*` of `gpumap-sys`.
    pub known: u32,
    /// Properties: bits `GPUMAP_DEVICE_*` of `gpumap-sys`.
    pub flags: u32,
    /// None: it is near none.
    pub numa_node: Option<u32>,
    /// 16 bytes.
    pub uuid: [u8; 16],
    /// As its driver or CPU has it.
    pub name: String,
    /// Local CPUs, `"0-3,8"`.
    pub cpus: String,
    /// NVML's index.
    pub nvml_index: Option<u32>,
    /// The CUDA ordinal of `CUDA_DEVICE_ORDER=PCI_BUS_ID`.
    pub ordinal_pci: Option<u32>,
    /// The CUDA ordinal of `CUDA_DEVICE_ORDER=FASTEST_FIRST`.
    pub ordinal_fastest: Option<u32>,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Multiprocessors; CPUs of a host row.
    pub units: u32,
    /// Bytes of memory in all.
    pub total_bytes: u64,
    /// The state.
    pub state: DeviceState,
    /// Why the state is not [`DeviceState::Ready`], or `""`.
    pub reason: String,
    /// Bytes that are free, whether reserved or not.
    pub free_bytes: u64,
    /// Bytes that committed maps and reservations have.
    pub reserved_bytes: u64,
    /// The part of these that their holders have allocated already.
    pub used_by_holders: u64,
    /// A limit for programs that share a device without reservations.
    pub budget_bytes: u64,
    /// The weight in a scatter; higher is faster.
    pub score: f64,
    /// Per mille.
    pub utilisation: u32,
    /// Millidegrees Celsius.
    pub temperature: i32,
    /// Milliwatts.
    pub power: u32,
    /// The worker's process, in the agent's pid namespace; None: there is none.
    pub worker_pid: Option<u32>,
    /// Restarts of the worker.
    pub restarts: u32,
}

impl Device {
    fn of(raw: &sys::gpumap_device) -> Device {
        let some = |number: i32| u32::try_from(number).ok();

        Device {
            row: raw.row,
            generation: raw.generation,
            kind: DeviceKind::from_raw(raw.kind),
            known: raw.known,
            flags: raw.flags,
            numa_node: some(raw.numa_node),
            uuid: raw.uuid,
            name: ffi::string(&raw.name),
            cpus: ffi::string(&raw.cpus),
            nvml_index: some(raw.nvml_index),
            ordinal_pci: some(raw.ordinal_pci),
            ordinal_fastest: some(raw.ordinal_fastest),
            compute_capability: (raw.cc_major, raw.cc_minor),
            units: raw.units,
            total_bytes: raw.total_bytes,
            state: DeviceState::from_raw(raw.state),
            reason: ffi::string(&raw.reason),
            free_bytes: raw.free_bytes,
            reserved_bytes: raw.reserved_bytes,
            used_by_holders: raw.used_by_holders,
            budget_bytes: raw.budget_bytes,
            score: raw.score,
            utilisation: raw.utilisation,
            temperature: raw.temperature,
            power: raw.power,
            worker_pid: Some(raw.worker_pid).filter(|pid| *pid != 0),
            restarts: raw.restarts,
        }
    }

    /// Bytes that a plan may take now: free, and not kept for holders.
    pub fn unclaimed_bytes(&self) -> u64 {
        let kept = self.reserved_bytes.saturating_sub(self.used_by_holders);

        self.free_bytes.saturating_sub(kept)
    }

    /// Does it take jobs?
    pub fn is_ready(&self) -> bool {
        self.state == DeviceState::Ready
    }
}

numbers! {
    /// The order in which [`Map::choose`] lists rows.
    ChooseBy {
        /// The most memory in all, then the higher compute capability.
        Best = GPUMAP_CHOOSE_BEST,
        /// The most memory that is free and not reserved.
        FreeMemory = GPUMAP_CHOOSE_FREE_MEMORY,
        /// The highest score, less the part of the device that is in use.
        FreeCompute = GPUMAP_CHOOSE_FREE_COMPUTE,
    }
}

/// The needs of a program, for [`Map::choose`].  A fact that is not known of a
/// device meets none.
#[derive(Clone, Debug)]
pub struct Choice {
    /// A UUID, `"cuda:1"`, a PCI id or a part of the name; None: any device.
    pub prefer: Option<String>,
    /// The least version, `"9.0"`.
    pub compute_capability: Option<String>,
    /// The least version, `"12.4"`.
    pub cuda_version: Option<String>,
    /// The least memory in all.
    pub total_bytes: u64,
    /// The least memory that is free and not reserved.
    pub free_bytes: u64,
    /// Those to choose from; None: all rows but dummies.
    pub rows: Option<Vec<u32>>,
    /// The order.
    pub by: ChooseBy,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice {
            prefer: None,
            compute_capability: None,
            cuda_version: None,
            total_bytes: 0,
            free_bytes: 0,
            rows: None,
            by: ChooseBy::Best,
        }
    }
}

impl Map {
    /// Rows that have been given out: 0 to this, less one.  One load.
    pub fn device_count(&self) -> u32 {
        // SAFETY: the map is attached.
        unsafe { sys::gpumap_device_count(self.as_raw()) }
    }

    /// All facts about the device in one row.  No system call.
    ///
    /// # Errors
    ///
    /// [`Kind::NoDevice`](crate::Kind::NoDevice): no such row.
    /// [`Kind::Again`](crate::Kind::Again): the agent was publishing all
    /// through the attempts.
    pub fn device(&self, row: u32) -> Result<Device> {
        let mut had = sized!(gpumap_device);

        // SAFETY: had is this function's own, with its size set.
        let ret =
            unsafe { sys::gpumap_device_read(self.as_raw(), row, &mut had) };
        self.check("gpumap_device_read", ret)?;
        Ok(Device::of(&had))
    }

    /// The whole table, by row.
    ///
    /// # Errors
    ///
    /// Those of [`Map::device`].
    pub fn devices(&self) -> Result<Vec<Device>> {
        (0..self.device_count()).map(|row| self.device(row)).collect()
    }

    /// The row of a device's UUID.
    ///
    /// # Errors
    ///
    /// [`Kind::NoDevice`](crate::Kind::NoDevice): no row has it.
    pub fn find_device(&self, uuid: [u8; 16]) -> Result<u32> {
        // SAFETY: the call reads 16 bytes.
        let ret =
            unsafe { sys::gpumap_device_find(self.as_raw(), uuid.as_ptr()) };
        Ok(self.check("gpumap_device_find", ret)? as u32)
    }

    /// The rows that meet a program's needs, best first.  No system call.
    ///
    /// # Errors
    ///
    /// [`Kind::NoDevice`](crate::Kind::NoDevice): no row meets them.
    pub fn choose(&self, choice: &Choice) -> Result<Vec<u32>> {
        const CALL: &str = "gpumap_device_choose";
        let prefer = ffi::some(CALL, choice.prefer.as_deref())?;
        let capability = ffi::some(CALL, choice.compute_capability.as_deref())?;
        let cuda = ffi::some(CALL, choice.cuda_version.as_deref())?;
        let rows = choice.rows.as_deref().unwrap_or(&[]);
        let raw = sized!(gpumap_choice {
            prefer: ffi::pointer(&prefer),
            compute_capability: ffi::pointer(&capability),
            cuda_version: ffi::pointer(&cuda),
            total_bytes: choice.total_bytes,
            free_bytes: choice.free_bytes,
            rows: ffi::list(rows),
            n_rows: ffi::count(CALL, rows.len())?,
            by: choice.by.raw(),
        });

        ffi::all(0, |room| {
            // SAFETY: the choice and its lists stay until the call returns,
            // and there is room for as many rows as it is told.
            let ret = unsafe {
                sys::gpumap_device_choose(
                    self.as_raw(),
                    &raw,
                    room.as_mut_ptr(),
                    room.len(),
                )
            };
            Ok(self.check(CALL, ret)? as usize)
        })
    }

    /// The row of each CUDA ordinal that a process with these variables sees.
    ///
    /// `visible_devices` is the value of `CUDA_VISIBLE_DEVICES`, and
    /// `device_order` of `CUDA_DEVICE_ORDER`; None: not set.  An entry that
    /// CUDA does not accept ends the list, as in CUDA.
    ///
    /// # Errors
    ///
    /// [`Kind::Again`](crate::Kind::Again): the agent was publishing.
    pub fn visible(
        &self,
        visible_devices: Option<&str>,
        device_order: Option<&str>,
    ) -> Result<Vec<u32>> {
        const CALL: &str = "gpumap_device_visible";
        let visible = ffi::some(CALL, visible_devices)?;
        let order = ffi::some(CALL, device_order)?;

        ffi::all(0, |room| {
            // SAFETY: the text stays until the call returns, and there is room
            // for as many rows as it is told.
            let ret = unsafe {
                sys::gpumap_device_visible(
                    self.as_raw(),
                    ffi::pointer(&visible),
                    ffi::pointer(&order),
                    room.as_mut_ptr(),
                    room.len(),
                )
            };
            Ok(self.check(CALL, ret)? as usize)
        })
    }

    /// Takes a device out of service, and waits until it is.
    ///
    /// # Errors
    ///
    /// [`Kind::Denied`](crate::Kind::Denied): only root and the agent's own
    /// user may.  [`Kind::Timeout`](crate::Kind::Timeout): its worker has not
    /// ended yet, call again to wait for that.
    pub fn drain(&self, row: u32) -> Result<()> {
        // SAFETY: the map is attached.
        let ret = unsafe { sys::gpumap_device_drain(self.as_raw(), row) };
        self.check("gpumap_device_drain", ret).map(drop)
    }

    /// Puts a device into service again.
    ///
    /// # Errors
    ///
    /// Those of [`Map::drain`].
    pub fn undrain(&self, row: u32) -> Result<()> {
        // SAFETY: the map is attached.
        let ret = unsafe { sys::gpumap_device_undrain(self.as_raw(), row) };
        self.check("gpumap_device_undrain", ret).map(drop)
    }

    /// Keeps new sessions and plans away from a row, until [`Map::uncordon`].
    ///
    /// # Errors
    ///
    /// [`Kind::Denied`](crate::Kind::Denied): only root and the agent's own
    /// user may.
    pub fn cordon(&self, row: u32) -> Result<()> {
        // SAFETY: the map is attached.
        let ret = unsafe { sys::gpumap_device_cordon(self.as_raw(), row) };
        self.check("gpumap_device_cordon", ret).map(drop)
    }

    /// Lets new sessions and plans have a row again.
    ///
    /// # Errors
    ///
    /// Those of [`Map::cordon`].
    pub fn uncordon(&self, row: u32) -> Result<()> {
        // SAFETY: the map is attached.
        let ret = unsafe { sys::gpumap_device_uncordon(self.as_raw(), row) };
        self.check("gpumap_device_uncordon", ret).map(drop)
    }
}
