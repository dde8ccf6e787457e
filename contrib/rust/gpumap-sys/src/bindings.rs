// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

// Made by contrib/rust/bindings from include/gpumap: run it again
// when a header changes.

#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap {
    _unused: [u8; 0],
}
pub const GPUMAP_DTYPE_U8: gpumap_dtype = 0;
pub const GPUMAP_DTYPE_F16: gpumap_dtype = 1;
pub const GPUMAP_DTYPE_BF16: gpumap_dtype = 2;
pub const GPUMAP_DTYPE_F32: gpumap_dtype = 3;
pub const GPUMAP_DTYPE_I32: gpumap_dtype = 4;
pub const GPUMAP_DTYPE_I64: gpumap_dtype = 5;
pub const GPUMAP_DTYPE_F64: gpumap_dtype = 6;
pub const GPUMAP_DTYPE_U16: gpumap_dtype = 7;
pub const GPUMAP_DTYPE_U32: gpumap_dtype = 8;
pub const GPUMAP_DTYPE_U64: gpumap_dtype = 9;
pub const GPUMAP_DTYPE_BOOL: gpumap_dtype = 10;
pub const GPUMAP_DTYPE_I8: gpumap_dtype = 11;
pub const GPUMAP_DTYPE_I16: gpumap_dtype = 12;
pub const GPUMAP_DTYPE_F8_E4M3: gpumap_dtype = 13;
pub const GPUMAP_DTYPE_F8_E5M2: gpumap_dtype = 14;
pub type gpumap_dtype = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_session {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_session_opts {
    pub size: usize,
    pub depth: u32,
    pub flags: u32,
    pub arena_bytes: u64,
}
extern "C" {
    pub fn gpumap_session_open(
        map: *mut gpumap,
        opts: *const gpumap_session_opts,
        ret_session: *mut *mut gpumap_session,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_session_close(session: *mut gpumap_session);
}
extern "C" {
    pub fn gpumap_session_fd(
        session: *const gpumap_session,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_session_arm(
        session: *mut gpumap_session,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_session_info {
    pub id: u64,
    pub pid: u32,
    pub uid: u32,
    pub n_queues: u32,
    pub depth: u32,
    pub arena_bytes: u64,
    pub age_ns: u64,
    pub rows: [u64; 4usize],
    pub load_bytes: u64,
    pub load_total_bytes: u64,
}
extern "C" {
    pub fn gpumap_session_list(
        map: *mut gpumap,
        ret_info: *mut gpumap_session_info,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_usage {
    pub size: usize,
    pub session: u64,
    pub pid: u32,
    pub uid: u32,
    pub row: u32,
    pub importers: u32,
    pub bytes: u64,
    pub lent_bytes: u64,
    pub borrowed_bytes: u64,
}
extern "C" {
    pub fn gpumap_usage_list(
        map: *mut gpumap,
        ret_usage: *mut gpumap_usage,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_session_counts {
    pub size: usize,
    pub submitted: u64,
    pub completed: u64,
    pub doorbells: u64,
    pub parks: u64,
}
extern "C" {
    pub fn gpumap_session_counts(
        session: *const gpumap_session,
        ret_counts: *mut gpumap_session_counts,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_alloc(
        session: *mut gpumap_session,
        row: u32,
        bytes: u64,
        ret_memory: *mut *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_free(
        session: *mut gpumap_session,
        memory: *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_buffer_alloc(
        session: *mut gpumap_session,
        row: u32,
        bytes: u64,
        flags: u32,
        deadline_ns: u64,
        ret_buffer: *mut u64,
    ) -> ::std::os::raw::c_int;
}
pub const GPUMAP_BUFFER_ALLOCATED: gpumap_buffer_kind = 1;
pub const GPUMAP_BUFFER_IMPORTED: gpumap_buffer_kind = 2;
pub const GPUMAP_BUFFER_REGISTERED: gpumap_buffer_kind = 3;
pub const GPUMAP_BUFFER_FILE: gpumap_buffer_kind = 4;
pub const GPUMAP_BUFFER_PROGRAM: gpumap_buffer_kind = 5;
pub const GPUMAP_BUFFER_MASK: gpumap_buffer_kind = 6;
pub type gpumap_buffer_kind = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_buffer_info {
    pub size: usize,
    pub bytes: u64,
    pub row: u32,
    pub kind: u32,
    pub flags: u32,
    pub reserved: u32,
}
extern "C" {
    pub fn gpumap_buffer_info(
        session: *const gpumap_session,
        buffer: u64,
        ret_info: *mut gpumap_buffer_info,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_buffer_free(
        session: *mut gpumap_session,
        buffer: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_buffer_register(
        session: *mut gpumap_session,
        fd: ::std::os::raw::c_int,
        at: u64,
        bytes: u64,
        flags: u32,
        ret_buffer: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_buffer_register_file(
        session: *mut gpumap_session,
        fd: ::std::os::raw::c_int,
        flags: u32,
        ret_file: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_buffer_register_mask(
        session: *mut gpumap_session,
        name: *const ::std::os::raw::c_char,
        ret_buffer: *mut u64,
        ret_version: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_buffer_unregister(
        session: *mut gpumap_session,
        buffer: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_program_load(
        session: *mut gpumap_session,
        row: u32,
        name: *const ::std::os::raw::c_char,
        ret_program: *mut u64,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_program_image {
    pub size: usize,
    pub image: *const ::std::os::raw::c_void,
    pub bytes: u64,
    pub kernel: *const ::std::os::raw::c_char,
}
impl Default for gpumap_program_image {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_program_load_image(
        session: *mut gpumap_session,
        row: u32,
        image: *const gpumap_program_image,
        ret_program: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_program_unload(
        session: *mut gpumap_session,
        program: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_buffer_export(
        session: *mut gpumap_session,
        buffer: u64,
        ret_export: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_buffer_unexport(
        session: *mut gpumap_session,
        buffer: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_buffer_import(
        session: *mut gpumap_session,
        export_id: u64,
        flags: u32,
        ret_buffer: *mut u64,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_export_info {
    pub size: usize,
    pub bytes: u64,
    pub row: u32,
    pub reserved: u32,
}
extern "C" {
    pub fn gpumap_export_fd(
        map: *mut gpumap,
        export_id: u64,
        ret_info: *mut gpumap_export_info,
        ret_fd: *mut ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_cluster {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub node: [::std::os::raw::c_char; 64usize],
    pub version: u64,
    pub published_ns: u64,
    pub age_ns: u64,
    pub limit_ns: u64,
    pub stale: u32,
    pub n_nodes: u32,
    pub n_gone: u32,
    pub n_refused: u32,
    pub n_devices: u32,
    pub n_shares: u32,
}
impl Default for gpumap_cluster {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const GPUMAP_CLUSTER_LIVE: gpumap_cluster_state = 1;
pub const GPUMAP_CLUSTER_GONE: gpumap_cluster_state = 2;
pub const GPUMAP_CLUSTER_REFUSED: gpumap_cluster_state = 3;
pub type gpumap_cluster_state = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_cluster_node {
    pub size: usize,
    pub version: u64,
    pub name: [::std::os::raw::c_char; 64usize],
    pub address: [::std::os::raw::c_char; 64usize],
    pub state: u32,
    pub flags: u32,
    pub age_ns: u64,
    pub epoch: u64,
    pub agent_version: u32,
    pub n_devices: u32,
    pub n_shares: u32,
    pub more_devices: u32,
    pub more_shares: u32,
    pub index: u32,
}
impl Default for gpumap_cluster_node {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_cluster_device {
    pub size: usize,
    pub version: u64,
    pub node: u32,
    pub row: u32,
    pub uuid: [u8; 16usize],
    pub name: [::std::os::raw::c_char; 64usize],
    pub kind: u32,
    pub state: u32,
    pub flags: u32,
    pub numa_node: i32,
    pub cc_major: u32,
    pub cc_minor: u32,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub reserved_bytes: u64,
    pub used_by_holders: u64,
    pub links: u32,
    pub reserved: u32,
}
impl Default for gpumap_cluster_device {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_cluster_share {
    pub size: usize,
    pub version: u64,
    pub node: u32,
    pub uid: u32,
    pub flags: u32,
    pub reserved: u32,
    pub name: [::std::os::raw::c_char; 64usize],
    pub bytes: u64,
    pub rows: [u64; 4usize],
    pub fingerprint: [u8; 32usize],
}
impl Default for gpumap_cluster_share {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_cluster_read(
        map: *const gpumap,
        ret_cluster: *mut gpumap_cluster,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_cluster_next_node(
        map: *const gpumap,
        cursor: *mut u32,
        ret_node: *mut gpumap_cluster_node,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_cluster_next_device(
        map: *const gpumap,
        node: u32,
        cursor: *mut u32,
        ret_device: *mut gpumap_cluster_device,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_cluster_next_share(
        map: *const gpumap,
        node: u32,
        name: *const ::std::os::raw::c_char,
        cursor: *mut u32,
        ret_share: *mut gpumap_cluster_share,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_cluster_entry {
    pub node: *const gpumap_cluster_node,
    pub devices: *const gpumap_cluster_device,
    pub shares: *const gpumap_cluster_share,
    pub n_devices: u32,
    pub n_shares: u32,
    pub remove: u32,
    pub reserved: u32,
}
impl Default for gpumap_cluster_entry {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_cluster_request {
    pub size: usize,
    pub name: *const ::std::os::raw::c_char,
    pub node: *const ::std::os::raw::c_char,
    pub limit_ns: u64,
    pub entries: *const gpumap_cluster_entry,
    pub n_entries: u32,
    pub flags: u32,
}
impl Default for gpumap_cluster_request {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_cluster_publish(
        map: *mut gpumap,
        request: *const gpumap_cluster_request,
    ) -> ::std::os::raw::c_int;
}
pub const GPUMAP_OP_NOP: gpumap_op = 0;
pub const GPUMAP_OP_FILL: gpumap_op = 1;
pub const GPUMAP_OP_COPY: gpumap_op = 2;
pub const GPUMAP_OP_SCALE: gpumap_op = 3;
pub const GPUMAP_OP_AXPY: gpumap_op = 4;
pub const GPUMAP_OP_ALLOC: gpumap_op = 5;
pub const GPUMAP_OP_FREE: gpumap_op = 6;
pub const GPUMAP_OP_CAST: gpumap_op = 7;
pub const GPUMAP_OP_SUM: gpumap_op = 8;
pub const GPUMAP_OP_MIN: gpumap_op = 9;
pub const GPUMAP_OP_MAX: gpumap_op = 10;
pub const GPUMAP_OP_MASK_ADD: gpumap_op = 11;
pub const GPUMAP_OP_MASK_BOOL: gpumap_op = 12;
pub const GPUMAP_OP_LOAD: gpumap_op = 13;
pub const GPUMAP_OP_RUN: gpumap_op = 14;
pub const GPUMAP_OP_BARRIER: gpumap_op = 16;
pub const GPUMAP_OP_ALL_REDUCE: gpumap_op = 17;
pub const GPUMAP_OP_ALL_GATHER: gpumap_op = 18;
pub const GPUMAP_OP_REDUCE_SCATTER: gpumap_op = 19;
pub const GPUMAP_OP_BROADCAST: gpumap_op = 20;
pub const GPUMAP_OP_SEND: gpumap_op = 21;
pub const GPUMAP_OP_RECV: gpumap_op = 22;
pub type gpumap_op = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_time {
    pub row: u32,
    pub reserved: u32,
    pub value: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_job {
    pub op: u32,
    pub dtype: u32,
    pub dst: *mut ::std::os::raw::c_void,
    pub src: *const ::std::os::raw::c_void,
    pub n: u64,
    pub alpha: f64,
    pub pattern: u64,
    pub cookie: u64,
    pub dst_buffer: u64,
    pub src_buffer: u64,
    pub dst_at: u64,
    pub src_at: u64,
    pub deadline_ns: u64,
    pub waits: *const gpumap_time,
    pub n_waits: u32,
    pub to: u32,
    pub mask_n: u32,
    pub mask_first: u32,
    pub mask: *const ::std::os::raw::c_void,
    pub mask_buffer: u64,
    pub mask_at: u64,
    pub program: u64,
    pub src_item_bytes: u32,
    pub dst_item_bytes: u32,
    pub params: *const ::std::os::raw::c_void,
    pub params_bytes: u32,
    pub reserved: u32,
    pub spare: [u64; 4usize],
}
impl Default for gpumap_job {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_done {
    pub cookie: u64,
    pub row: u32,
    pub status: i32,
    pub spare: [u64; 2usize],
}
extern "C" {
    pub fn gpumap_submit(
        session: *mut gpumap_session,
        row: u32,
        jobs: *const gpumap_job,
        n: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_credit(
        session: *mut gpumap_session,
        row: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_submitted(
        session: *mut gpumap_session,
        row: u32,
        ret_time: *mut gpumap_time,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_cancel(
        session: *mut gpumap_session,
        row: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_cancel_job(
        session: *mut gpumap_session,
        row: u32,
        cookie: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_poll(
        session: *mut gpumap_session,
        ret_done: *mut gpumap_done,
        n: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_wait(
        session: *mut gpumap_session,
        ret_done: *mut gpumap_done,
        n: u32,
        deadline_ns: u64,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_tile {
    pub row: u32,
    pub status: i32,
    pub first: u64,
    pub n: u64,
    pub value: u64,
    pub spare: [u64; 2usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_scatter_opts {
    pub size: usize,
    pub rows: *const u32,
    pub weights: *const f64,
    pub n_rows: u32,
    pub flags: u32,
    pub deadline_ns: u64,
    pub dst_buffers: *const u64,
    pub src_buffers: *const u64,
    pub ret_combined: *mut ::std::os::raw::c_void,
}
impl Default for gpumap_scatter_opts {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_scatter(
        session: *mut gpumap_session,
        job: *const gpumap_job,
        opts: *const gpumap_scatter_opts,
        ret_tiles: *mut gpumap_tile,
        n: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_scatter_alloc(
        session: *mut gpumap_session,
        n: u64,
        element: u32,
        opts: *const gpumap_scatter_opts,
        ret_memory: *mut *mut ::std::os::raw::c_void,
    ) -> ::std::os::raw::c_int;
}
pub const GPUMAP_REDUCE_SUM: gpumap_reduce = 0;
pub const GPUMAP_REDUCE_PRODUCT: gpumap_reduce = 1;
pub const GPUMAP_REDUCE_MIN: gpumap_reduce = 2;
pub const GPUMAP_REDUCE_MAX: gpumap_reduce = 3;
pub const GPUMAP_REDUCE_AVERAGE: gpumap_reduce = 4;
pub type gpumap_reduce = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_comm {
    _unused: [u8; 0],
}
extern "C" {
    pub fn gpumap_comm_open(
        session: *mut gpumap_session,
        mesh: *const ::std::os::raw::c_char,
        group: *const ::std::os::raw::c_char,
        ret_comm: *mut *mut gpumap_comm,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_comm_opts {
    pub size: usize,
    pub flags: u32,
    pub reserved: u32,
}
extern "C" {
    pub fn gpumap_comm_open_opts(
        session: *mut gpumap_session,
        mesh: *const ::std::os::raw::c_char,
        group: *const ::std::os::raw::c_char,
        opts: *const gpumap_comm_opts,
        ret_comm: *mut *mut gpumap_comm,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_comm_flags(comm: *const gpumap_comm) -> u32;
}
extern "C" {
    pub fn gpumap_comm_renew(comm: *mut gpumap_comm) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_comm_close(comm: *mut gpumap_comm) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_comm_rows(
        comm: *const gpumap_comm,
        ret_rows: *mut u32,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_rank {
    pub send: *const ::std::os::raw::c_void,
    pub recv: *mut ::std::os::raw::c_void,
    pub send_buffer: u64,
    pub recv_buffer: u64,
    pub send_at: u64,
    pub recv_at: u64,
    pub spare: [u64; 2usize],
}
impl Default for gpumap_rank {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_collective {
    pub size: usize,
    pub op: u32,
    pub dtype: u32,
    pub reduce: u32,
    pub root: u32,
    pub peer: u32,
    pub n_waits: u32,
    pub n: u64,
    pub ranks: *const gpumap_rank,
    pub waits: *const gpumap_time,
    pub deadline_ns: u64,
    pub cookie: u64,
}
impl Default for gpumap_collective {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_comm_submit(
        comm: *mut gpumap_comm,
        what: *const gpumap_collective,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_attach_opts {
    pub size: usize,
    pub instance: *const ::std::os::raw::c_char,
    pub runtime_dir: *const ::std::os::raw::c_char,
    pub flags: u32,
}
impl Default for gpumap_attach_opts {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_attach(
        opts: *const gpumap_attach_opts,
        ret_map: *mut *mut gpumap,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_detach(map: *mut gpumap);
}
pub const GPUMAP_STARTING: gpumap_state = 1;
pub const GPUMAP_READY: gpumap_state = 2;
pub const GPUMAP_DRAINING: gpumap_state = 3;
pub const GPUMAP_RETIRED: gpumap_state = 4;
pub type gpumap_state = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_health {
    pub size: usize,
    pub state: u32,
    pub stale: u32,
    pub age_ns: u64,
    pub epoch: u64,
    pub tick: u64,
    pub generation: u32,
    pub agent_pid: u32,
    pub bytes: u64,
    pub agent_version: u32,
    pub layout_minor: u32,
}
extern "C" {
    pub fn gpumap_health(
        map: *const gpumap,
        ret_health: *mut gpumap_health,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_generation(map: *const gpumap) -> u32;
}
extern "C" {
    pub fn gpumap_wait_change(
        map: *const gpumap,
        seen: u32,
        deadline_ns: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_wait_ready(
        map: *mut gpumap,
        deadline_ns: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_change_fd(map: *mut gpumap) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_change_arm(
        map: *mut gpumap,
        seen: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_request_limit(
        map: *mut gpumap,
        limit_ns: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_version() -> u32;
}
extern "C" {
    pub fn gpumap_strerror(
        error: ::std::os::raw::c_int,
    ) -> *const ::std::os::raw::c_char;
}
extern "C" {
    pub fn gpumap_refusal(map: *const gpumap) -> *const ::std::os::raw::c_char;
}
pub const GPUMAP_DEVICE_HOST: gpumap_device_kind = 1;
pub const GPUMAP_DEVICE_CUDA: gpumap_device_kind = 2;
pub const GPUMAP_DEVICE_DUMMY: gpumap_device_kind = 3;
pub const GPUMAP_DEVICE_OPENCL: gpumap_device_kind = 4;
pub const GPUMAP_DEVICE_VULKAN: gpumap_device_kind = 5;
pub const GPUMAP_DEVICE_HIP: gpumap_device_kind = 6;
pub type gpumap_device_kind = ::std::os::raw::c_uint;
pub const GPUMAP_DEVICE_PROBING: gpumap_device_state = 1;
pub const GPUMAP_DEVICE_READY: gpumap_device_state = 2;
pub const GPUMAP_DEVICE_RESTARTING: gpumap_device_state = 3;
pub const GPUMAP_DEVICE_DRAINING: gpumap_device_state = 4;
pub const GPUMAP_DEVICE_FAILED: gpumap_device_state = 5;
pub const GPUMAP_DEVICE_LOST: gpumap_device_state = 6;
pub type gpumap_device_state = ::std::os::raw::c_uint;
pub const GPUMAP_RECOVERY_NONE: gpumap_recovery = 0;
pub const GPUMAP_RECOVERY_GPU_RESET: gpumap_recovery = 1;
pub const GPUMAP_RECOVERY_NODE_REBOOT: gpumap_recovery = 2;
pub const GPUMAP_RECOVERY_DRAIN_P2P: gpumap_recovery = 3;
pub const GPUMAP_RECOVERY_DRAIN_AND_RESET: gpumap_recovery = 4;
pub type gpumap_recovery = ::std::os::raw::c_uint;
pub const GPUMAP_FIGURES_NONE: gpumap_figures = 0;
pub const GPUMAP_FIGURES_KNOWN: gpumap_figures = 1;
pub const GPUMAP_FIGURES_PARTLY: gpumap_figures = 2;
pub const GPUMAP_FIGURES_REFUSED: gpumap_figures = 3;
pub const GPUMAP_FIGURES_NAMESPACE: gpumap_figures = 4;
pub type gpumap_figures = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_device {
    pub size: usize,
    pub row: u32,
    pub generation: u32,
    pub kind: u32,
    pub known: u32,
    pub flags: u32,
    pub numa_node: i32,
    pub uuid: [u8; 16usize],
    pub name: [::std::os::raw::c_char; 64usize],
    pub cpus: [::std::os::raw::c_char; 256usize],
    pub pci_domain: u32,
    pub pci_bus: u32,
    pub nvml_index: i32,
    pub minor_number: i32,
    pub ordinal_pci: i32,
    pub ordinal_fastest: i32,
    pub mig_gi: i32,
    pub mig_ci: i32,
    pub mig_profile: [::std::os::raw::c_char; 32usize],
    pub cc_major: u32,
    pub cc_minor: u32,
    pub units: u32,
    pub threads_per_unit: u32,
    pub shared_bytes: u32,
    pub l2_bytes: u32,
    pub total_bytes: u64,
    pub driver_version: u32,
    pub cuda_version: u32,
    pub state: u32,
    pub error: i32,
    pub reason: [::std::os::raw::c_char; 56usize],
    pub since_ns: u64,
    pub free_bytes: u64,
    pub reserved_bytes: u64,
    pub budget_bytes: u64,
    pub score: f64,
    pub utilisation: u32,
    pub temperature: i32,
    pub power: u32,
    pub worker_pid: u32,
    pub restarts: u32,
    pub recovery: u32,
    pub last_xid: u32,
    pub reserved: u32,
    pub xids: u64,
    pub used_by_holders: u64,
    pub figures: u32,
    pub reserved_too: u32,
}
impl Default for gpumap_device {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_device_count(map: *const gpumap) -> u32;
}
extern "C" {
    pub fn gpumap_device_read(
        map: *const gpumap,
        row: u32,
        ret_device: *mut gpumap_device,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_device_find(
        map: *const gpumap,
        uuid: *const u8,
    ) -> ::std::os::raw::c_int;
}
pub const GPUMAP_PEER_NONE: gpumap_peer = 0;
pub const GPUMAP_PEER_REPORTED: gpumap_peer = 1;
pub const GPUMAP_PEER_RIGHT: gpumap_peer = 2;
pub const GPUMAP_PEER_WRONG: gpumap_peer = 3;
pub type gpumap_peer = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_device_path {
    pub size: usize,
    pub to: u32,
    pub from: u32,
    pub nvlinks: u32,
    pub peer: u32,
}
extern "C" {
    pub fn gpumap_device_path_read(
        map: *const gpumap,
        to: u32,
        from: u32,
        ret_path: *mut gpumap_device_path,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_device_jobs {
    pub size: usize,
    pub row: u32,
    pub generation: u32,
    pub ended: u64,
    pub failed: u64,
    pub ns: u64,
    pub times: [u64; 13usize],
    pub loaded_bytes: u64,
}
extern "C" {
    pub fn gpumap_device_jobs_read(
        map: *const gpumap,
        row: u32,
        ret_jobs: *mut gpumap_device_jobs,
    ) -> ::std::os::raw::c_int;
}
pub const GPUMAP_CHOOSE_BEST: gpumap_choose_by = 0;
pub const GPUMAP_CHOOSE_FREE_MEMORY: gpumap_choose_by = 1;
pub const GPUMAP_CHOOSE_FREE_COMPUTE: gpumap_choose_by = 2;
pub type gpumap_choose_by = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_choice {
    pub size: usize,
    pub prefer: *const ::std::os::raw::c_char,
    pub compute_capability: *const ::std::os::raw::c_char,
    pub cuda_version: *const ::std::os::raw::c_char,
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub rows: *const u32,
    pub n_rows: u32,
    pub by: u32,
}
impl Default for gpumap_choice {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_device_choose(
        map: *const gpumap,
        choice: *const gpumap_choice,
        ret_rows: *mut u32,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_device_drain(
        map: *mut gpumap,
        row: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_device_undrain(
        map: *mut gpumap,
        row: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_device_cordon(
        map: *mut gpumap,
        row: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_device_uncordon(
        map: *mut gpumap,
        row: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_device_visible(
        map: *mut gpumap,
        visible_devices: *const ::std::os::raw::c_char,
        device_order: *const ::std::os::raw::c_char,
        ret_rows: *mut u32,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
pub const GPUMAP_ENGINE_ENV: gpumap_engine = 1;
pub const GPUMAP_ENGINE_LLAMA_CPP: gpumap_engine = 2;
pub const GPUMAP_ENGINE_OLLAMA: gpumap_engine = 3;
pub const GPUMAP_ENGINE_VLLM: gpumap_engine = 4;
pub const GPUMAP_ENGINE_SGLANG: gpumap_engine = 5;
pub const GPUMAP_ENGINE_MISTRAL_RS: gpumap_engine = 6;
pub const GPUMAP_ENGINE_ACCELERATE: gpumap_engine = 7;
pub type gpumap_engine = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_engine_request {
    pub size: usize,
    pub engine: u32,
    pub flags: u32,
    pub model: *const ::std::os::raw::c_char,
    pub file_name: *const ::std::os::raw::c_char,
    pub rows: *const u32,
    pub layer_bytes: *const u64,
    pub n_layers: u32,
    pub base_row: u32,
    pub devices: *const gpumap_device,
    pub n_devices: u32,
    pub reserved: u32,
}
impl Default for gpumap_engine_request {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_engine_settings {
    pub exact: u32,
    pub n_argv: u32,
    pub n_env: u32,
    pub n_notes: u32,
    pub argv: *const *const ::std::os::raw::c_char,
    pub env: *const *const ::std::os::raw::c_char,
    pub notes: *const *const ::std::os::raw::c_char,
    pub file: *const ::std::os::raw::c_char,
    pub rows: *const u32,
    pub n_rows: u32,
    pub reserved: u32,
}
impl Default for gpumap_engine_settings {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_engine_export(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
        request: *const gpumap_engine_request,
        ret_settings: *mut *mut gpumap_engine_settings,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_engine_free(settings: *mut gpumap_engine_settings);
}
pub const GPUMAP_WORK_GEMM: gpumap_work = 0;
pub const GPUMAP_WORK_POTRF: gpumap_work = 1;
pub const GPUMAP_WORK_XTWX: gpumap_work = 2;
pub const GPUMAP_WORK_FILL: gpumap_work = 3;
pub const GPUMAP_WORK_COPY: gpumap_work = 4;
pub const GPUMAP_WORK_SCALE: gpumap_work = 5;
pub const GPUMAP_WORK_AXPY: gpumap_work = 6;
pub const GPUMAP_WORK_CAST: gpumap_work = 7;
pub const GPUMAP_WORK_REDUCE: gpumap_work = 8;
pub const GPUMAP_WORK_MASK: gpumap_work = 9;
pub type gpumap_work = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_policy {
    pub size: usize,
    pub row: u32,
    pub generation: u32,
    pub calibrated_ns: u64,
    pub least: [u64; 13usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_policy_view {
    pub least: *const u64,
    pub row: u32,
    pub reserved: u32,
    pub spare: [u64; 2usize],
}
impl Default for gpumap_policy_view {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_policy_view(
        map: *const gpumap,
        row: u32,
        ret_view: *mut gpumap_policy_view,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_policy_read(
        map: *const gpumap,
        row: u32,
        ret_policy: *mut gpumap_policy,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_policy_set(
        map: *mut gpumap,
        policy: *const gpumap_policy,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_view {
    pub entries: *const u32,
    pub check: *const u64,
    pub expect: u64,
    pub n: u32,
    pub table: u32,
    pub name: [::std::os::raw::c_char; 64usize],
    pub group: [::std::os::raw::c_char; 64usize],
    pub spare: [u64; 2usize],
}
impl Default for gpumap_view {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_mask_view {
    pub data: *const ::std::os::raw::c_void,
    pub export_id: u64,
    pub at: u64,
    pub bytes: u64,
    pub version: u64,
    pub shape: [u64; 4usize],
    pub strides: [u64; 4usize],
    pub kind: u32,
    pub dtype: u32,
    pub rank: u32,
    pub row: u32,
    pub spare: [u64; 2usize],
}
impl Default for gpumap_mask_view {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_mask {
    pub check: *const u64,
    pub expect: u64,
    pub views: *const gpumap_mask_view,
    pub n_rows: u32,
    pub reserved: u32,
    pub spare: [u64; 2usize],
}
impl Default for gpumap_mask {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_mask_renew(
        map: *mut gpumap,
        mask: *mut gpumap_mask,
    ) -> ::std::os::raw::c_int;
}
pub const GPUMAP_SETTING_MANUAL: gpumap_setting = 1;
pub const GPUMAP_SETTING_AUTO: gpumap_setting = 2;
pub const GPUMAP_SETTING_TOPOLOGY: gpumap_setting = 3;
pub const GPUMAP_SETTING_DUMMY: gpumap_setting = 4;
pub const GPUMAP_SETTING_NCCL: gpumap_setting = 5;
pub const GPUMAP_SETTING_PIPELINE: gpumap_setting = 6;
pub const GPUMAP_SETTING_RESERVE: gpumap_setting = 7;
pub type gpumap_setting = ::std::os::raw::c_uint;
pub const GPUMAP_STRATEGY_FILL: gpumap_strategy = 1;
pub const GPUMAP_STRATEGY_BALANCE: gpumap_strategy = 2;
pub const GPUMAP_STRATEGY_FEWEST: gpumap_strategy = 3;
pub type gpumap_strategy = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_layers {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub version: u64,
    pub published_ns: u64,
    pub owner_uid: u32,
    pub setting: u32,
    pub n_layers: u32,
    pub n_rows: u32,
    pub base_row: u32,
    pub dtype: u32,
    pub layer_bytes: u64,
    pub other_bytes: u64,
    pub spec: [::std::os::raw::c_char; 256usize],
    pub flags: u32,
    pub strategy: u32,
    pub compute_dtype: u32,
    pub max_batch_size: u32,
    pub max_seq_len: u64,
}
impl Default for gpumap_layers {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_layer_cache {
    pub n_layers: u32,
    pub n_heads: u32,
    pub window: u32,
    pub reserved: u32,
    pub token_elements: u64,
    pub conv_elements: u64,
    pub state_elements: u64,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_charge {
    pub row: u32,
    pub n_layers: u32,
    pub weight_bytes: u64,
    pub kv_bytes: u64,
    pub activation_bytes: u64,
    pub reserve_bytes: u64,
    pub left_bytes: u64,
    pub spare: u64,
}
extern "C" {
    pub fn gpumap_layers_view(
        map: *const gpumap,
        name: *const ::std::os::raw::c_char,
        ret_view: *mut gpumap_view,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_view_refresh(
        map: *const gpumap,
        view: *mut gpumap_view,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_layers_read(
        map: *const gpumap,
        name: *const ::std::os::raw::c_char,
        ret_layers: *mut gpumap_layers,
        ret_rows: *mut u32,
        ret_bytes: *mut u64,
        n: usize,
        ret_charges: *mut gpumap_charge,
        n_charges: usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_layers_next(
        map: *const gpumap,
        cursor: *mut u32,
        ret_name: *mut ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_layers_release(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_layers_pin(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
        ret_view: *mut gpumap_view,
        ret_pin: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_unpin(map: *mut gpumap, pin: u64) -> ::std::os::raw::c_int;
}
pub const GPUMAP_MASK_NONE: gpumap_mask_kind = 1;
pub const GPUMAP_MASK_CAUSAL_FLASH: gpumap_mask_kind = 2;
pub const GPUMAP_MASK_CUSTOM: gpumap_mask_kind = 3;
pub type gpumap_mask_kind = ::std::os::raw::c_uint;
pub const GPUMAP_MASK_LOADED: gpumap_mask_form = 0;
pub const GPUMAP_MASK_CAUSAL: gpumap_mask_form = 1;
pub const GPUMAP_MASK_SLIDING: gpumap_mask_form = 2;
pub const GPUMAP_MASK_CHUNKED: gpumap_mask_form = 3;
pub const GPUMAP_MASK_BIDIRECTIONAL_SLIDING: gpumap_mask_form = 4;
pub type gpumap_mask_form = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_mask_request {
    pub size: usize,
    pub name: *const ::std::os::raw::c_char,
    pub kind: u32,
    pub form: u32,
    pub dtype: u32,
    pub tgt_len: u64,
    pub past_kv_len: u64,
    pub sliding_window: u64,
    pub chunk_size: u64,
    pub rank: u32,
    pub shape: [u64; 4usize],
    pub data: *const ::std::os::raw::c_void,
    pub map: *const ::std::os::raw::c_char,
    pub rows: *const u32,
    pub n_rows: u32,
}
impl Default for gpumap_mask_request {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_mask_result {
    pub size: usize,
    pub version: u64,
    pub bytes: u64,
    pub n_copies: u32,
    pub n_shared: u32,
}
extern "C" {
    pub fn gpumap_mask_publish(
        map: *mut gpumap,
        request: *const gpumap_mask_request,
        ret_result: *mut gpumap_mask_result,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mask_release(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_mask_info {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub version: u64,
    pub published_ns: u64,
    pub owner_uid: u32,
    pub kind: u32,
    pub form: u32,
    pub dtype: u32,
    pub rank: u32,
    pub n_rows: u32,
    pub shape: [u64; 4usize],
    pub strides: [u64; 4usize],
    pub bytes: u64,
    pub hash: u64,
    pub tgt_len: u64,
    pub past_kv_len: u64,
    pub sliding_window: u64,
    pub chunk_size: u64,
    pub map: [::std::os::raw::c_char; 64usize],
}
impl Default for gpumap_mask_info {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_mask_read(
        map: *const gpumap,
        name: *const ::std::os::raw::c_char,
        ret_info: *mut gpumap_mask_info,
        ret_rows: *mut u32,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mask_next(
        map: *const gpumap,
        cursor: *mut u32,
        ret_name: *mut ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mask_open(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
        flags: u32,
        ret_mask: *mut *mut gpumap_mask,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mask_close(map: *mut gpumap, mask: *mut gpumap_mask);
}
pub const GPUMAP_MESH_DATA: gpumap_mesh_topology = 1;
pub const GPUMAP_MESH_TENSOR: gpumap_mesh_topology = 2;
pub const GPUMAP_MESH_PIPELINE: gpumap_mesh_topology = 3;
pub const GPUMAP_MESH_MIXED: gpumap_mesh_topology = 4;
pub type gpumap_mesh_topology = ::std::os::raw::c_uint;
pub const GPUMAP_MESH_MOCK: gpumap_mesh_backend = 1;
pub const GPUMAP_MESH_NCCL: gpumap_mesh_backend = 2;
pub const GPUMAP_MESH_GLOO: gpumap_mesh_backend = 3;
pub const GPUMAP_MESH_MPI: gpumap_mesh_backend = 4;
pub type gpumap_mesh_backend = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_mesh {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub version: u64,
    pub published_ns: u64,
    pub owner_uid: u32,
    pub topology: u32,
    pub world: u32,
    pub expected: u32,
    pub tp: u32,
    pub pp: u32,
    pub dp: u32,
    pub n_groups: u32,
    pub n_added: u32,
    pub reserved: u32,
}
impl Default for gpumap_mesh {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_mesh_group {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub version: u64,
    pub epoch: u64,
    pub backend: u32,
    pub n: u32,
    pub index: u32,
    pub within: u32,
    pub whole: u32,
    pub reserved: u32,
}
impl Default for gpumap_mesh_group {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_mesh_place {
    pub tp: u32,
    pub pp: u32,
    pub dp: u32,
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_mesh_stats {
    pub size: usize,
    pub world: u32,
    pub n_groups: u32,
    pub total_bytes: u64,
    pub units: u64,
    pub n_cards: u32,
    pub n_host: u32,
    pub n_dummy: u32,
    pub n_ready: u32,
}
extern "C" {
    pub fn gpumap_mesh_read(
        map: *const gpumap,
        name: *const ::std::os::raw::c_char,
        ret_mesh: *mut gpumap_mesh,
        ret_rows: *mut u32,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mesh_next(
        map: *const gpumap,
        cursor: *mut u32,
        ret_name: *mut ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mesh_group(
        map: *const gpumap,
        name: *const ::std::os::raw::c_char,
        group: *const ::std::os::raw::c_char,
        ret_group: *mut gpumap_mesh_group,
        ret_ranks: *mut u32,
        ret_rows: *mut u32,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mesh_next_group(
        map: *const gpumap,
        name: *const ::std::os::raw::c_char,
        rank: u32,
        cursor: *mut u32,
        ret_group: *mut gpumap_mesh_group,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mesh_within(
        map: *const gpumap,
        name: *const ::std::os::raw::c_char,
        group: *const ::std::os::raw::c_char,
        rank: u32,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mesh_place(
        mesh: *const gpumap_mesh,
        rank: u32,
        ret_place: *mut gpumap_mesh_place,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mesh_stats(
        map: *const gpumap,
        name: *const ::std::os::raw::c_char,
        ret_stats: *mut gpumap_mesh_stats,
    ) -> ::std::os::raw::c_int;
}
pub const GPUMAP_MESH_ROWS: gpumap_mesh_table = 1;
pub const GPUMAP_MESH_RANKS: gpumap_mesh_table = 2;
pub type gpumap_mesh_table = ::std::os::raw::c_uint;
extern "C" {
    pub fn gpumap_mesh_view(
        map: *const gpumap,
        name: *const ::std::os::raw::c_char,
        group: *const ::std::os::raw::c_char,
        table: u32,
        ret_view: *mut gpumap_view,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mesh_pin(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
        group: *const ::std::os::raw::c_char,
        table: u32,
        ret_view: *mut gpumap_view,
        ret_pin: *mut u64,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_mesh_added {
    pub name: *const ::std::os::raw::c_char,
    pub ranks: *const u32,
    pub n: u32,
    pub backend: u32,
    pub spare: [u64; 2usize],
}
impl Default for gpumap_mesh_added {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_mesh_request {
    pub size: usize,
    pub name: *const ::std::os::raw::c_char,
    pub topology: u32,
    pub n_rows: u32,
    pub tp: u64,
    pub pp: u64,
    pub dp: u64,
    pub rows: *const u32,
    pub added: *const gpumap_mesh_added,
    pub n_added: u32,
    pub reserved: u32,
}
impl Default for gpumap_mesh_request {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_mesh_publish(
        map: *mut gpumap,
        request: *const gpumap_mesh_request,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mesh_release(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_mesh_join {
    pub size: usize,
    pub mesh: *const ::std::os::raw::c_char,
    pub group: *const ::std::os::raw::c_char,
    pub epoch: u64,
    pub deadline_ns: u64,
    pub rank: u32,
    pub version: u32,
    pub id: *const ::std::os::raw::c_void,
}
impl Default for gpumap_mesh_join {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_mesh_join(
        map: *mut gpumap,
        join: *const gpumap_mesh_join,
        ret_id: *mut u8,
        ret_ticket: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_mesh_leave(
        map: *mut gpumap,
        ticket: u64,
        flags: u32,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_fingerprint {
    pub size: usize,
    pub hash: [u8; 32usize],
    pub fields: *const ::std::os::raw::c_char,
}
impl Default for gpumap_fingerprint {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_share_request {
    pub size: usize,
    pub name: *const ::std::os::raw::c_char,
    pub buffers: *const u64,
    pub n_buffers: u32,
    pub flags: u32,
    pub about: *const ::std::os::raw::c_void,
    pub about_bytes: u64,
    pub uids: *const u32,
    pub n_uids: u32,
    pub reserved: u32,
    pub fingerprint: *const gpumap_fingerprint,
}
impl Default for gpumap_share_request {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_share_info {
    pub size: usize,
    pub share: u64,
    pub name: [::std::os::raw::c_char; 64usize],
    pub uid: u32,
    pub flags: u32,
    pub n_buffers: u32,
    pub n_holders: u32,
    pub bytes: u64,
    pub about_bytes: u64,
    pub about: *const ::std::os::raw::c_void,
    pub age_ns: u64,
    pub pid: u32,
    pub reserved: u32,
    pub rows: [u64; 4usize],
    pub fingerprint: [u8; 32usize],
}
impl Default for gpumap_share_info {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_share_publish(
        session: *mut gpumap_session,
        request: *const gpumap_share_request,
        ret_share: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_open(
        session: *mut gpumap_session,
        name: *const ::std::os::raw::c_char,
        flags: u32,
        expect: *const gpumap_fingerprint,
        ret_share: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_claim(
        session: *mut gpumap_session,
        name: *const ::std::os::raw::c_char,
        flags: u32,
        fingerprint: *const gpumap_fingerprint,
        deadline_ns: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_unclaim(
        session: *mut gpumap_session,
        name: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_info(
        session: *mut gpumap_session,
        share: u64,
        ret_info: *mut gpumap_share_info,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_buffer(
        session: *mut gpumap_session,
        share: u64,
        index: u32,
        ret_info: *mut gpumap_export_info,
        ret_buffer: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_fd(
        session: *mut gpumap_session,
        share: u64,
        index: u32,
        ret_info: *mut gpumap_export_info,
        ret_fd: *mut ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_fds(
        session: *mut gpumap_session,
        share: u64,
        first: u32,
        n: u32,
        ret_fds: *mut ::std::os::raw::c_int,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_close(
        session: *mut gpumap_session,
        share: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_release(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_share_list(
        map: *mut gpumap,
        ret_info: *mut gpumap_share_info,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_model {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_model_opts {
    pub size: usize,
    pub path: *const ::std::os::raw::c_char,
    pub layers: *const ::std::os::raw::c_char,
    pub rows: *const u32,
    pub n_rows: u32,
    pub flags: u32,
    pub name: *const ::std::os::raw::c_char,
    pub uids: *const u32,
    pub n_uids: u32,
    pub share_flags: u32,
    pub fingerprint: *const gpumap_fingerprint,
}
impl Default for gpumap_model_opts {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
pub const GPUMAP_MODEL_ALLOCATING: gpumap_model_state = 1;
pub const GPUMAP_MODEL_LOADING: gpumap_model_state = 2;
pub const GPUMAP_MODEL_LOADED: gpumap_model_state = 3;
pub const GPUMAP_MODEL_ENDING: gpumap_model_state = 4;
pub const GPUMAP_MODEL_FAILED: gpumap_model_state = 5;
pub const GPUMAP_MODEL_WAITING: gpumap_model_state = 6;
pub type gpumap_model_state = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_model_progress {
    pub size: usize,
    pub state: u32,
    pub status: i32,
    pub bytes: u64,
    pub total_bytes: u64,
    pub elapsed_ns: u64,
    pub bytes_per_second: u64,
    pub left_ns: u64,
    pub n_tensors: u32,
    pub n_buffers: u32,
    pub was_there: u32,
    pub reserved: u32,
    pub share: u64,
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_tensor {
    pub size: usize,
    pub name: *const ::std::os::raw::c_char,
    pub type_: *const ::std::os::raw::c_char,
    pub dtype: u32,
    pub n_dims: u32,
    pub shape: *const u64,
    pub row: u32,
    pub layer: i32,
    pub buffer: u64,
    pub at: u64,
    pub bytes: u64,
    pub data: *const ::std::os::raw::c_void,
    pub part: u32,
    pub reserved: u32,
}
impl Default for gpumap_tensor {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_model_load(
        session: *mut gpumap_session,
        opts: *const gpumap_model_opts,
        ret_model: *mut *mut gpumap_model,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_model_progress(
        model: *mut gpumap_model,
        ret_progress: *mut gpumap_model_progress,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_model_wait(
        model: *mut gpumap_model,
        deadline_ns: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_model_open(
        session: *mut gpumap_session,
        name: *const ::std::os::raw::c_char,
        flags: u32,
        expect: *const gpumap_fingerprint,
        ret_model: *mut *mut gpumap_model,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_model_renew(
        model: *mut gpumap_model,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_model_cancel(
        model: *mut gpumap_model,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_model_close(
        model: *mut gpumap_model,
        deadline_ns: u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_model_find(
        model: *const gpumap_model,
        name: *const ::std::os::raw::c_char,
        ret_tensor: *mut gpumap_tensor,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_model_next(
        model: *const gpumap_model,
        cursor: *mut u32,
        ret_tensor: *mut gpumap_tensor,
    ) -> ::std::os::raw::c_int;
}
pub const GPUMAP_META_CONFIG_JSON: gpumap_model_meta_format = 1;
pub const GPUMAP_META_GGUF: gpumap_model_meta_format = 2;
pub type gpumap_model_meta_format = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_model_meta {
    pub size: usize,
    pub format: u32,
    pub reserved: u32,
    pub data: *const ::std::os::raw::c_void,
    pub bytes: u64,
}
impl Default for gpumap_model_meta {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_model_meta(
        model: *const gpumap_model,
        ret_meta: *mut gpumap_model_meta,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_model_sizes {
    pub n_layers: u32,
    pub n_files: u32,
    pub n_tensors: u64,
    pub layer_bytes: *const u64,
    pub other_bytes: u64,
    pub tied_bytes: u64,
    pub total_bytes: u64,
    pub type_: *const ::std::os::raw::c_char,
    pub dtype: u32,
    pub n_heads: u32,
    pub caches: *const gpumap_layer_cache,
    pub n_caches: u32,
    pub n_extra_layers: u32,
    pub architecture: [::std::os::raw::c_char; 64usize],
    pub conv_taps: u32,
    pub state_bytes: u32,
}
impl Default for gpumap_model_sizes {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_model_measure(
        path: *const ::std::os::raw::c_char,
        ret_sizes: *mut *mut gpumap_model_sizes,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_model_sizes_free(sizes: *mut gpumap_model_sizes);
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_model_buffer {
    pub buffer: u64,
    pub bytes: u64,
    pub row: u32,
    pub reserved: u32,
    pub spare: [u64; 2usize],
}
extern "C" {
    pub fn gpumap_model_buffers(
        model: *const gpumap_model,
        ret_buffers: *mut gpumap_model_buffer,
        n: u32,
    ) -> u32;
}
pub const GPUMAP_PAGED_NONE: gpumap_paged = 0;
pub const GPUMAP_PAGED_MIB: gpumap_paged = 1;
pub const GPUMAP_PAGED_SHARE: gpumap_paged = 2;
pub const GPUMAP_PAGED_TOKENS: gpumap_paged = 3;
pub type gpumap_paged = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_plan_request {
    pub size: usize,
    pub name: *const ::std::os::raw::c_char,
    pub flags: u32,
    pub setting: u32,
    pub strategy: u32,
    pub base_row: u32,
    pub text: *const ::std::os::raw::c_char,
    pub weights: *const ::std::os::raw::c_char,
    pub rows: *const u32,
    pub n_rows: u32,
    pub n_layers: u32,
    pub layer_bytes: *const u64,
    pub other_bytes: u64,
    pub tied_bytes: u64,
    pub dtype: u32,
    pub n_heads: u32,
    pub caches: *const gpumap_layer_cache,
    pub n_caches: u32,
    pub compute_dtype: u32,
    pub max_seq_len: u64,
    pub max_batch_size: u32,
    pub paged: u32,
    pub paged_amount: u64,
    pub paged_share: f32,
    pub paged_block: u32,
    pub paged_element_bytes: u32,
    pub owner_uid: u32,
    pub wait_ns: u64,
    pub start_ns: u64,
    pub engine: u32,
    pub conv_taps: u32,
    pub state_bytes: u32,
    pub reserved: u32,
}
impl Default for gpumap_plan_request {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_plan {
    pub size: usize,
    pub n_layers: u32,
    pub n_charges: u32,
    pub base_row: u32,
    pub compute_dtype: u32,
    pub kv_bytes: u64,
    pub version: u64,
    pub missing_bytes: u64,
    pub missing_row: u32,
    pub reserved: u32,
    pub spec: [::std::os::raw::c_char; 256usize],
    pub warnings: [::std::os::raw::c_char; 512usize],
}
impl Default for gpumap_plan {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_plan_make(
        map: *mut gpumap,
        request: *const gpumap_plan_request,
        ret_plan: *mut gpumap_plan,
        ret_rows: *mut u32,
        n: usize,
        ret_charges: *mut gpumap_charge,
        n_charges: usize,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_layers_request {
    pub size: usize,
    pub name: *const ::std::os::raw::c_char,
    pub spec: *const ::std::os::raw::c_char,
    pub n_layers: u32,
    pub dtype: u32,
    pub layer_bytes: *const u64,
    pub other_bytes: u64,
}
impl Default for gpumap_layers_request {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_layers_publish(
        map: *mut gpumap,
        request: *const gpumap_layers_request,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_program_tile {
    pub size: usize,
    pub row: u32,
    pub dtype: u32,
    pub n: u64,
    pub dst: *mut ::std::os::raw::c_void,
    pub src: *const ::std::os::raw::c_void,
    pub dst_item_bytes: u64,
    pub src_item_bytes: u64,
    pub params: *const ::std::os::raw::c_void,
    pub params_bytes: u64,
}
impl Default for gpumap_program_tile {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_program {
    pub abi: u32,
    pub reserved: u32,
    pub run: ::std::option::Option<
        unsafe extern "C" fn(
            tile: *const gpumap_program_tile,
        ) -> ::std::os::raw::c_int,
    >,
}
extern "C" {
    pub fn gpumap_started(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_holder {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub version: u64,
    pub since_ns: u64,
    pub uid: u32,
    pub pid: u32,
    pub start_ns: u64,
}
impl Default for gpumap_holder {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_holder_next(
        map: *const gpumap,
        cursor: *mut u32,
        ret_holder: *mut gpumap_holder,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_reservation {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub version: u64,
    pub row: u32,
    pub uid: u32,
    pub pid: u32,
    pub reserved: u32,
    pub bytes: u64,
    pub own_bytes: u64,
    pub session_bytes: u64,
}
impl Default for gpumap_reservation {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_reservation_list(
        map: *mut gpumap,
        ret_list: *mut gpumap_reservation,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_wait_info {
    pub size: usize,
    pub name: [::std::os::raw::c_char; 64usize],
    pub uid: u32,
    pub pid: u32,
    pub flags: u32,
    pub n_rows: u32,
    pub rows: [u64; 4usize],
    pub missing_bytes: u64,
    pub missing_row: u32,
    pub n_before: u32,
    pub bytes: u64,
    pub age_ns: u64,
    pub left_ns: u64,
}
impl Default for gpumap_wait_info {
    fn default() -> Self {
        let mut s = ::std::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::std::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
extern "C" {
    pub fn gpumap_wait_list(
        map: *mut gpumap,
        ret_list: *mut gpumap_wait_info,
        n: usize,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_wait_drop(
        map: *mut gpumap,
        name: *const ::std::os::raw::c_char,
    ) -> ::std::os::raw::c_int;
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct gpumap_trace {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct gpumap_trace_job {
    pub session: u64,
    pub read_ns: u64,
    pub started_ns: u64,
    pub ended_ns: u64,
    pub n: u64,
    pub row: u32,
    pub uid: u32,
    pub status: i32,
    pub op: u32,
    pub dtype: u32,
    pub reserved: u32,
}
extern "C" {
    pub fn gpumap_trace_open(
        map: *mut gpumap,
        rows: *const u32,
        n: u32,
        ret_trace: *mut *mut gpumap_trace,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_trace_read(
        trace: *mut gpumap_trace,
        ret_jobs: *mut gpumap_trace_job,
        n: u32,
        ret_lost: *mut u64,
    ) -> ::std::os::raw::c_int;
}
extern "C" {
    pub fn gpumap_trace_close(trace: *mut gpumap_trace);
}
pub const GPUMAP_BUFFER_EXPORTABLE: u32 = 1;
pub const GPUMAP_BUFFER_READ_ONLY: u32 = 2;
pub const GPUMAP_CLUSTER_ANY: u32 = 4294967295;
pub const GPUMAP_CLUSTER_BEGIN: u32 = 1;
pub const GPUMAP_CLUSTER_DRAINING: u32 = 4;
pub const GPUMAP_CLUSTER_HEARD: u32 = 4;
pub const GPUMAP_CLUSTER_MORE: u32 = 2;
pub const GPUMAP_CLUSTER_NODES_MAX: i32 = 1024;
pub const GPUMAP_CLUSTER_NO_GANGS: u32 = 2;
pub const GPUMAP_CLUSTER_ROWS_MAX: i32 = 64;
pub const GPUMAP_CLUSTER_SELF: u32 = 1;
pub const GPUMAP_CLUSTER_SHARES_MAX: i32 = 64;
pub const GPUMAP_COMM_NCCL: u32 = 1;
pub const GPUMAP_COMM_RANKS_MAX: u32 = 64;
pub const GPUMAP_DEVICE_BF16: u32 = 16;
pub const GPUMAP_DEVICE_CARD: u32 = 1024;
pub const GPUMAP_DEVICE_CLIQUES: u32 = 8192;
pub const GPUMAP_DEVICE_CORDONED: u32 = 128;
pub const GPUMAP_DEVICE_ECC: u32 = 1;
pub const GPUMAP_DEVICE_EXPORTS: u32 = 4096;
pub const GPUMAP_DEVICE_FP16: u32 = 8;
pub const GPUMAP_DEVICE_INT8: u32 = 32;
pub const GPUMAP_DEVICE_INTEGRATED: u32 = 2;
pub const GPUMAP_DEVICE_MAIN_MEMORY: u32 = 64;
pub const GPUMAP_DEVICE_MAPPED: u32 = 2048;
pub const GPUMAP_DEVICE_MIG: u32 = 4;
pub const GPUMAP_DEVICE_PAGEABLE: u32 = 256;
pub const GPUMAP_DEVICE_SERVES: u32 = 512;
pub const GPUMAP_ENGINE_BY_ENV: u32 = 1;
pub const GPUMAP_JOB_TIMES: u32 = 13;
pub const GPUMAP_KERNEL_PARAMS_AT: u32 = 24;
pub const GPUMAP_KERNEL_THREADS: u32 = 256;
pub const GPUMAP_KNOWN_CC: u32 = 32;
pub const GPUMAP_KNOWN_CPUS: u32 = 4;
pub const GPUMAP_KNOWN_MEMORY: u32 = 8;
pub const GPUMAP_KNOWN_MIG: u32 = 256;
pub const GPUMAP_KNOWN_NUMA: u32 = 1;
pub const GPUMAP_KNOWN_NVML: u32 = 64;
pub const GPUMAP_KNOWN_ORDINALS: u32 = 128;
pub const GPUMAP_KNOWN_PCI: u32 = 2;
pub const GPUMAP_KNOWN_POWER: u32 = 2048;
pub const GPUMAP_KNOWN_TEMPERATURE: u32 = 1024;
pub const GPUMAP_KNOWN_UNITS: u32 = 16;
pub const GPUMAP_KNOWN_UTILISATION: u32 = 512;
pub const GPUMAP_LAYERS_COMMITTED: u32 = 1;
pub const GPUMAP_LAYERS_HELD: u32 = 2;
pub const GPUMAP_MASK_PIN: u32 = 1;
pub const GPUMAP_MASK_RANK_MAX: i32 = 4;
pub const GPUMAP_MESH_ANY: u32 = 4294967295;
pub const GPUMAP_MESH_BROKEN: u32 = 1;
pub const GPUMAP_MESH_ID_BYTES: i32 = 128;
pub const GPUMAP_MODEL_ANY_FILES: u32 = 256;
pub const GPUMAP_MODEL_AS_FILE: u32 = 512;
pub const GPUMAP_MODEL_MAPPED: u32 = 1024;
pub const GPUMAP_NAME_MAX: i32 = 63;
pub const GPUMAP_NO_DEADLINE: u64 = 18446744073709551615;
pub const GPUMAP_PARAMS_MAX: u32 = 4096;
pub const GPUMAP_PLAN_BASE: u32 = 8;
pub const GPUMAP_PLAN_COMMIT: u32 = 2;
pub const GPUMAP_PLAN_FOR: u32 = 32;
pub const GPUMAP_PLAN_HELD: u32 = 4;
pub const GPUMAP_PLAN_NEW: u32 = 16;
pub const GPUMAP_PLAN_PUBLISH: u32 = 1;
pub const GPUMAP_PROGRAM_ABI: u32 = 1;
pub const GPUMAP_REQUEST_LIMIT_NS: u64 = 60000000000;
pub const GPUMAP_ROWS_MAX: i32 = 256;
pub const GPUMAP_SCATTER_FALLBACK: u32 = 1;
pub const GPUMAP_SESSION_POLLABLE: u32 = 1;
pub const GPUMAP_SESSION_PROGRAMS: u32 = 4;
pub const GPUMAP_SESSION_SPARSE: u32 = 2;
pub const GPUMAP_SHARE_ABOUT_MAX: u64 = 67108864;
pub const GPUMAP_SHARE_ANY_USER: u32 = 2;
pub const GPUMAP_SHARE_BUFFERS_MAX: i32 = 1024;
pub const GPUMAP_SHARE_FIELDS_MAX: i32 = 4096;
pub const GPUMAP_SHARE_KEEP: u32 = 4;
pub const GPUMAP_SHARE_READ_ONLY: u32 = 1;
pub const GPUMAP_SHARE_UIDS_MAX: i32 = 64;
pub const GPUMAP_VERSION: i32 = 200;
pub const GPUMAP_WAITS_MAX: u32 = 4;
pub const GPUMAP_WAIT_FOR_START: u32 = 1;
pub const GPUMAP_WORKS: u32 = 10;
pub const GPUMAP_WORKS_MAX: u32 = 13;
pub const E2BIG: i32 = 7;
pub const EACCES: i32 = 13;
pub const EAGAIN: i32 = 11;
pub const EALREADY: i32 = 114;
pub const EBADF: i32 = 9;
pub const EBUSY: i32 = 16;
pub const ECANCELED: i32 = 125;
pub const ECONNREFUSED: i32 = 111;
pub const ECONNRESET: i32 = 104;
pub const EDQUOT: i32 = 122;
pub const EEXIST: i32 = 17;
pub const EFAULT: i32 = 14;
pub const EFBIG: i32 = 27;
pub const EINVAL: i32 = 22;
pub const EIO: i32 = 5;
pub const EKEYREJECTED: i32 = 129;
pub const EMFILE: i32 = 24;
pub const EMSGSIZE: i32 = 90;
pub const ENFILE: i32 = 23;
pub const ENOBUFS: i32 = 105;
pub const ENODATA: i32 = 61;
pub const ENODEV: i32 = 19;
pub const ENOENT: i32 = 2;
pub const ENOEXEC: i32 = 8;
pub const ENOMEM: i32 = 12;
pub const ENOSPC: i32 = 28;
pub const ENOTSUP: i32 = 95;
pub const EOPNOTSUPP: i32 = 95;
pub const EOVERFLOW: i32 = 75;
pub const EOWNERDEAD: i32 = 130;
pub const EPERM: i32 = 1;
pub const EPROTO: i32 = 71;
pub const ERANGE: i32 = 34;
pub const EREMOTEIO: i32 = 121;
pub const EROFS: i32 = 30;
pub const ESHUTDOWN: i32 = 108;
pub const ESRCH: i32 = 3;
pub const ESTALE: i32 = 116;
pub const ETIME: i32 = 62;
pub const ETIMEDOUT: i32 = 110;
pub const EUSERS: i32 = 87;
