// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Meshes: ranks on rows, and groups of them.

#[cfg(doc)]
use crate::error::Kind;
use crate::error::Result;
use crate::ffi::{self, numbers, sized};
use crate::layers::{names, Pinned, View};
use crate::map::Map;
use gpumap_sys as sys;
use std::fmt;
use std::time::Duration;

numbers! {
    /// The arrangement of ranks.
    Topology {
        /// Each rank for itself.
        Data = GPUMAP_MESH_DATA,
        /// Groups of ranks that each have a part of all layers.
        Tensor = GPUMAP_MESH_TENSOR,
        /// Each rank is a stage.
        Pipeline = GPUMAP_MESH_PIPELINE,
        /// Replicas of stages of parts.
        Mixed = GPUMAP_MESH_MIXED,
    }
}

numbers! {
    /// A name of a backend, which selects nothing.
    MeshBackend {
        /// The backend of the group "world".
        Mock = GPUMAP_MESH_MOCK,
        /// NCCL.
        Nccl = GPUMAP_MESH_NCCL,
        /// Gloo.
        Gloo = GPUMAP_MESH_GLOO,
        /// MPI.
        Mpi = GPUMAP_MESH_MPI,
    }
}

/// The table of a group that a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupTable {
    /// Entry i: the row of the group's rank i.
    Rows,
    /// Entry i: the mesh's rank of the group's rank i.
    Ranks,
}

impl GroupTable {
    fn raw(self) -> u32 {
        match self {
            GroupTable::Rows => sys::GPUMAP_MESH_ROWS,
            GroupTable::Ranks => sys::GPUMAP_MESH_RANKS,
        }
    }
}

/// A rank's place in its topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The part of a layer.
    pub tp: u32,
    /// The stage.
    pub pp: u32,
    /// The replica.
    pub dp: u32,
}

/// The facts of a mesh, of one publication.
#[derive(Clone)]
pub struct Mesh {
    raw: sys::gpumap_mesh,
    rows: Vec<u32>,
}

impl Mesh {
    /// Its name.
    pub fn name(&self) -> String {
        ffi::string(&self.raw.name)
    }

    /// A number that grows with every publication under this name.
    pub fn version(&self) -> u64 {
        self.raw.version
    }

    /// The user who has published it.
    pub fn owner_uid(&self) -> u32 {
        self.raw.owner_uid
    }

    /// The arrangement of ranks.
    pub fn topology(&self) -> Topology {
        Topology::from_raw(self.raw.topology)
    }

    /// The factors; 1 where the topology has none.
    pub fn factors(&self) -> Place {
        Place { tp: self.raw.tp, pp: self.raw.pp, dp: self.raw.dp }
    }

    /// Ranks that the topology needs.
    pub fn expected(&self) -> u32 {
        self.raw.expected
    }

    /// Groups, the topology's and those that were added.
    pub fn n_groups(&self) -> u32 {
        self.raw.n_groups
    }

    /// The row of each rank.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// A rank's place; None: the topology does not need the rank, or the world
    /// has no such rank.
    pub fn place(&self, rank: u32) -> Option<Place> {
        let mut had = sys::gpumap_mesh_place::default();
        // SAFETY: the library has filled the mesh; had is this function's own.
        let ret = unsafe { sys::gpumap_mesh_place(&self.raw, rank, &mut had) };
        match ret {
            0 => Some(Place { tp: had.tp, pp: had.pp, dp: had.dp }),
            _ => None,
        }
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh")
            .field("name", &self.name())
            .field("topology", &self.topology())
            .field("factors", &self.factors())
            .field("rows", &self.rows)
            .finish()
    }
}

/// A group of a mesh, of one publication.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The mesh's version.
    pub version: u64,
    /// A number that moves on with the mesh, the states of the group's rows and
    /// its members: equal epochs mean that nothing of this has changed.
    pub epoch: u64,
    /// The backend's name.
    pub backend: MeshBackend,
    /// Its number within the mesh; 0: "world".
    pub index: u32,
    /// All its rows are ready in this epoch.
    pub whole: bool,
    /// Its ranks, in their order.
    pub ranks: Vec<u32>,
    /// The row of each of them.
    pub rows: Vec<u32>,
}

/// The sums of a mesh's devices.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MeshStats {
    /// Ranks.
    pub world: u32,
    /// Groups.
    pub n_groups: u32,
    /// Memory of all its devices.
    pub total_bytes: u64,
    /// Their multiprocessors, and CPUs.
    pub units: u64,
    /// Rows of cards.
    pub n_cards: u32,
    /// Host rows.
    pub n_host: u32,
    /// Dummy rows.
    pub n_dummy: u32,
    /// Rows that are ready.
    pub n_ready: u32,
}

/// A mesh to publish.
///
/// ```no_run
/// # use gpumap::NewMesh;
/// # let map = gpumap::Map::attach()?;
/// map.publish_mesh(&NewMesh::tensor("pair", 2).rows(&[0, 1]))?;
/// # Ok::<(), gpumap::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NewMesh<'a> {
    name: &'a str,
    topology: Topology,
    tp: u64,
    pp: u64,
    dp: u64,
    rows: &'a [u32],
    added: Vec<(&'a str, &'a [u32], MeshBackend)>,
}

impl<'a> NewMesh<'a> {
    fn new(
        name: &'a str,
        topology: Topology,
        tp: u64,
        pp: u64,
        dp: u64,
    ) -> Self {
        NewMesh { name, topology, tp, pp, dp, rows: &[], added: Vec::new() }
    }

    /// `dp` ranks, each for itself.
    pub fn data(name: &'a str, dp: u64) -> NewMesh<'a> {
        NewMesh::new(name, Topology::Data, 1, 1, dp)
    }

    /// `tp` ranks that each have a part of all layers.
    pub fn tensor(name: &'a str, tp: u64) -> NewMesh<'a> {
        NewMesh::new(name, Topology::Tensor, tp, 1, 1)
    }

    /// `pp` stages.
    pub fn pipeline(name: &'a str, pp: u64) -> NewMesh<'a> {
        NewMesh::new(name, Topology::Pipeline, 1, pp, 1)
    }

    /// `dp` replicas of `pp` stages of `tp` parts.
    pub fn mixed(name: &'a str, tp: u64, pp: u64, dp: u64) -> NewMesh<'a> {
        NewMesh::new(name, Topology::Mixed, tp, pp, dp)
    }

    /// The row of each rank; else all devices of the first sort that
    /// exists: cards, hosts, dummies.
    pub fn rows(mut self, rows: &'a [u32]) -> Self {
        self.rows = rows;
        self
    }

    /// A group in addition to those of the topology.
    pub fn group(
        mut self,
        name: &'a str,
        ranks: &'a [u32],
        backend: MeshBackend,
    ) -> Self {
        self.added.push((name, ranks, backend));
        self
    }
}

/// The rank of a group to join as, for [`Map::join`].
#[derive(Clone, Debug)]
pub struct Join<'a> {
    mesh: &'a str,
    group: Option<&'a str>,
    epoch: u64,
    rank: u32,
    version: u32,
    id: Option<&'a [u8; ID_BYTES]>,
    timeout: Option<Duration>,
}

/// Bytes of the id that rank 0 brings.
pub const ID_BYTES: usize = sys::GPUMAP_MESH_ID_BYTES as usize;

impl<'a> Join<'a> {
    /// As a rank of the group "world", in the group's epoch of
    /// [`Map::mesh_group`].
    ///
    /// `version` is of the communication library, not 0: all ranks need the
    /// same.
    pub fn new(mesh: &'a str, epoch: u64, rank: u32, version: u32) -> Self {
        Join {
            mesh,
            group: None,
            epoch,
            rank,
            version,
            id: None,
            timeout: None,
        }
    }

    /// Another group; the rank is that within it.
    pub fn group(mut self, name: &'a str) -> Self {
        self.group = Some(name);
        self
    }

    /// The id, from rank 0, which all ranks receive.
    pub fn id(mut self, id: &'a [u8; ID_BYTES]) -> Self {
        self.id = Some(id);
        self
    }

    /// Gives the other ranks up after so long.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

/// This process is a rank of a group, until it is dropped.
///
/// Dropped in a panic, the communicator counts as broken.
pub struct Joined<'m> {
    map: &'m Map,
    id: [u8; ID_BYTES],
    ticket: u64,
}

impl Joined<'_> {
    /// The id that rank 0 brought.
    pub fn id(&self) -> &[u8; ID_BYTES] {
        &self.id
    }

    fn end(self, flags: u32) -> Result<()> {
        let ret = self.leave_with(flags);

        std::mem::forget(self);
        ret
    }

    fn leave_with(&self, flags: u32) -> Result<()> {
        // SAFETY: the map is attached.
        let ret = unsafe {
            sys::gpumap_mesh_leave(self.map.as_raw(), self.ticket, flags)
        };
        self.map.check("gpumap_mesh_leave", ret).map(drop)
    }

    /// Stops being the rank; the communicator has ended normally.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: the epoch has moved on, which has ended it.
    pub fn leave(self) -> Result<()> {
        self.end(0)
    }

    /// Stops being the rank, and tells the other ranks that the communicator
    /// broke: the group's epoch moves on.
    ///
    /// # Errors
    ///
    /// As [`Joined::leave`].
    pub fn broken(self) -> Result<()> {
        self.end(sys::GPUMAP_MESH_BROKEN)
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        let flags = match std::thread::panicking() {
            true => sys::GPUMAP_MESH_BROKEN,
            false => 0,
        };
        // Where it fails the epoch has moved on, or the agent is gone.
        let _ = self.leave_with(flags);
    }
}

impl fmt::Debug for Joined<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("ticket", &self.ticket).finish()
    }
}

impl Map {
    /// The names of all meshes.  No system call.
    pub fn meshes(&self) -> Vec<String> {
        names(|cursor, name| {
            // SAFETY: the name has room for the longest one.
            unsafe { sys::gpumap_mesh_next(self.as_raw(), cursor, name) }
        })
    }

    /// Reads a mesh's facts.  No system call.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no mesh has this name.  [`Kind::Again`]: the agent
    /// was publishing all through the attempts.
    pub fn mesh(&self, name: &str) -> Result<Mesh> {
        const CALL: &str = "gpumap_mesh_read";
        let name = ffi::text(CALL, name)?;
        let mut rows = vec![0; sys::GPUMAP_ROWS_MAX as usize];
        let mut raw = sized!(gpumap_mesh);
        // SAFETY: there is room for as many rows as the call is told.
        let ret = unsafe {
            sys::gpumap_mesh_read(
                self.as_raw(),
                name.as_ptr(),
                &mut raw,
                rows.as_mut_ptr(),
                rows.len(),
            )
        };
        self.check(CALL, ret)?;
        rows.truncate(raw.world as usize);
        Ok(Mesh { raw, rows })
    }

    /// Reads a group of a mesh; None: "world".  No system call.
    ///
    /// # Errors
    ///
    /// As [`Map::mesh`], also of the group.
    pub fn mesh_group(&self, mesh: &str, group: Option<&str>) -> Result<Group> {
        const CALL: &str = "gpumap_mesh_group";
        let mesh = ffi::text(CALL, mesh)?;
        let group = ffi::some(CALL, group)?;
        let most = sys::GPUMAP_ROWS_MAX as usize;
        let (mut ranks, mut rows) = (vec![0; most], vec![0; most]);
        let mut had = sized!(gpumap_mesh_group);
        // SAFETY: there is room for as many ranks and rows as the call is
        // told.
        let ret = unsafe {
            sys::gpumap_mesh_group(
                self.as_raw(),
                mesh.as_ptr(),
                ffi::pointer(&group),
                &mut had,
                ranks.as_mut_ptr(),
                rows.as_mut_ptr(),
                most,
            )
        };
        self.check(CALL, ret)?;
        ranks.truncate(had.n as usize);
        rows.truncate(had.n as usize);
        Ok(Group {
            name: ffi::string(&had.name),
            version: had.version,
            epoch: had.epoch,
            backend: MeshBackend::from_raw(had.backend),
            index: had.index,
            whole: had.whole != 0,
            ranks,
            rows,
        })
    }

    /// The names of a mesh's groups, of one publication; or of those that a
    /// rank is in, each with its place there.  No system call.
    ///
    /// # Errors
    ///
    /// As [`Map::mesh`]; [`Kind::OutOfRange`]: the world has no such rank.
    pub fn mesh_groups(
        &self,
        mesh: &str,
        rank: Option<u32>,
    ) -> Result<Vec<(String, u32)>> {
        const CALL: &str = "gpumap_mesh_next_group";
        let mesh = ffi::text(CALL, mesh)?;
        let rank = rank.unwrap_or(sys::GPUMAP_MESH_ANY);
        let mut version = 0;
        let mut cursor = 0;
        let mut all = Vec::new();

        loop {
            let mut had = sized!(gpumap_mesh_group);
            // SAFETY: the name stays until the call returns; the cursor and
            // had are this function's own.
            let ret = unsafe {
                sys::gpumap_mesh_next_group(
                    self.as_raw(),
                    mesh.as_ptr(),
                    rank,
                    &mut cursor,
                    &mut had,
                )
            };
            if self.check(CALL, ret)? == 0 {
                return Ok(all);
            }
            if had.version != version && !all.is_empty() {
                all.clear(); // published again: from the beginning
                cursor = 0;
                version = 0;
                continue;
            }
            version = had.version;
            all.push((ffi::string(&had.name), had.within));
        }
    }

    /// A rank's place in a group; None: it is not in the group.  No system
    /// call.
    ///
    /// # Errors
    ///
    /// As [`Map::mesh_groups`].
    pub fn mesh_within(
        &self,
        mesh: &str,
        group: Option<&str>,
        rank: u32,
    ) -> Result<Option<u32>> {
        const CALL: &str = "gpumap_mesh_within";
        let mesh = ffi::text(CALL, mesh)?;
        let group = ffi::some(CALL, group)?;
        // SAFETY: the names stay until the call returns.
        let ret = unsafe {
            sys::gpumap_mesh_within(
                self.as_raw(),
                mesh.as_ptr(),
                ffi::pointer(&group),
                rank,
            )
        };
        if ret == -sys::ENODATA {
            return Ok(None);
        }
        Ok(Some(self.check(CALL, ret)? as u32))
    }

    /// Sums the resources of a mesh's devices.  No system call.
    ///
    /// # Errors
    ///
    /// As [`Map::mesh`].
    pub fn mesh_stats(&self, mesh: &str) -> Result<MeshStats> {
        const CALL: &str = "gpumap_mesh_stats";
        let mesh = ffi::text(CALL, mesh)?;
        let mut had = sized!(gpumap_mesh_stats);
        // SAFETY: the name stays until the call returns; had is this
        // function's own.
        let ret = unsafe {
            sys::gpumap_mesh_stats(self.as_raw(), mesh.as_ptr(), &mut had)
        };
        self.check(CALL, ret)?;
        Ok(MeshStats {
            world: had.world,
            n_groups: had.n_groups,
            total_bytes: had.total_bytes,
            units: had.units,
            n_cards: had.n_cards,
            n_host: had.n_host,
            n_dummy: had.n_dummy,
            n_ready: had.n_ready,
        })
    }

    /// A view of a group's table; None: "world".  No system call.
    ///
    /// # Errors
    ///
    /// As [`Map::mesh_group`].
    pub fn mesh_view(
        &self,
        mesh: &str,
        group: Option<&str>,
        table: GroupTable,
    ) -> Result<View<'_>> {
        const CALL: &str = "gpumap_mesh_view";
        let mesh = ffi::text(CALL, mesh)?;
        let group = ffi::some(CALL, group)?;
        let mut view = sys::gpumap_view::default();
        // SAFETY: the names stay until the call returns; the view is this
        // function's own.
        let ret = unsafe {
            sys::gpumap_mesh_view(
                self.as_raw(),
                mesh.as_ptr(),
                ffi::pointer(&group),
                table.raw(),
                &mut view,
            )
        };
        self.check(CALL, ret)?;
        Ok(View::new(self, view))
    }

    /// As [`Map::mesh_view`], of this publication for as long as the result is
    /// kept.  A round trip to the agent.
    ///
    /// # Errors
    ///
    /// As [`Map::mesh_group`] and [`Map::pin_layers`].
    pub fn pin_mesh(
        &self,
        mesh: &str,
        group: Option<&str>,
        table: GroupTable,
    ) -> Result<Pinned<'_>> {
        const CALL: &str = "gpumap_mesh_pin";
        let mesh = ffi::text(CALL, mesh)?;
        let group = ffi::some(CALL, group)?;
        let mut view = sys::gpumap_view::default();
        let mut pin = 0;
        // SAFETY: as in mesh_view().
        let ret = unsafe {
            sys::gpumap_mesh_pin(
                self.as_raw(),
                mesh.as_ptr(),
                ffi::pointer(&group),
                table.raw(),
                &mut view,
                &mut pin,
            )
        };
        self.check(CALL, ret)?;
        Ok(Pinned::new(self, view, pin))
    }

    /// Has the agent publish a mesh, which replaces one of this name.
    ///
    /// # Errors
    ///
    /// [`Kind::Invalid`], [`Kind::TooLarge`], [`Kind::Exists`] (of a group),
    /// [`Kind::TooNew`], [`Kind::NoDevice`], [`Kind::Denied`],
    /// [`Kind::Quota`], [`Kind::Full`]: the refusal says what to do; and those
    /// of every request.
    pub fn publish_mesh(&self, mesh: &NewMesh<'_>) -> Result<()> {
        const CALL: &str = "gpumap_mesh_publish";
        let name = ffi::text(CALL, mesh.name)?;
        let mut names = Vec::with_capacity(mesh.added.len());
        let mut added = Vec::with_capacity(mesh.added.len());

        for (name, ranks, backend) in &mesh.added {
            let name = ffi::text(CALL, name)?;
            added.push(sys::gpumap_mesh_added {
                name: name.as_ptr(), // of the heap: it does not move
                ranks: ffi::list(ranks),
                n: ffi::count(CALL, ranks.len())?,
                backend: backend.raw(),
                ..Default::default()
            });
            names.push(name);
        }
        let request = sized!(gpumap_mesh_request {
            name: name.as_ptr(),
            topology: mesh.topology.raw(),
            n_rows: ffi::count(CALL, mesh.rows.len())?,
            tp: mesh.tp,
            pp: mesh.pp,
            dp: mesh.dp,
            rows: ffi::list(mesh.rows),
            added: ffi::list(&added),
            n_added: ffi::count(CALL, added.len())?,
        });
        // SAFETY: the request's text and lists stay until the call returns.
        let ret = unsafe { sys::gpumap_mesh_publish(self.as_raw(), &request) };
        drop(names);
        self.check(CALL, ret).map(drop)
    }

    /// Has the agent remove a mesh.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`]: no mesh has this name.  [`Kind::Denied`]: it belongs
    /// to another user.
    pub fn release_mesh(&self, name: &str) -> Result<()> {
        const CALL: &str = "gpumap_mesh_release";
        let name = ffi::text(CALL, name)?;
        // SAFETY: the name stays until the call returns.
        let ret =
            unsafe { sys::gpumap_mesh_release(self.as_raw(), name.as_ptr()) };
        self.check(CALL, ret).map(drop)
    }

    /// Joins as a rank of a group, and waits for all others.
    ///
    /// Other requests of this map wait meanwhile.
    ///
    /// # Errors
    ///
    /// [`Kind::Timeout`]: the refusal names the missing ranks.
    /// [`Kind::Stale`]: the epoch is another one, read it again.
    /// [`Kind::Again`]: a row of the group is not ready, or ranks have not left
    /// yet.  [`Kind::Busy`]: another process is this rank.
    /// [`Kind::Protocol`]: others have another version.
    /// [`Kind::NotFound`], [`Kind::OutOfRange`], [`Kind::Denied`],
    /// [`Kind::Quota`].
    pub fn join(&self, what: &Join<'_>) -> Result<Joined<'_>> {
        const CALL: &str = "gpumap_mesh_join";
        let mesh = ffi::text(CALL, what.mesh)?;
        let group = ffi::some(CALL, what.group)?;
        let join = sized!(gpumap_mesh_join {
            mesh: mesh.as_ptr(),
            group: ffi::pointer(&group),
            epoch: what.epoch,
            deadline_ns: ffi::deadline_ns(what.timeout).max(1),
            rank: what.rank,
            version: what.version,
            id: what.id.map_or(std::ptr::null(), |id| id.as_ptr().cast()),
        });
        let mut id = [0; ID_BYTES];
        let mut ticket = 0;
        // SAFETY: the names and the id stay until the call returns, which has
        // room for an id.
        let ret = unsafe {
            sys::gpumap_mesh_join(
                self.as_raw(),
                &join,
                id.as_mut_ptr(),
                &mut ticket,
            )
        };
        self.check(CALL, ret)?;
        Ok(Joined { map: self, id, ticket })
    }
}
