# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Facts that the map and the agent tell, as named tuples.

The fields have the names of the C structs, with the units that these have:
*_bytes are bytes, *_ns nanoseconds.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from .enums import (
    LAYERS_COMMITTED,
    LAYERS_HELD,
    SHARE_ANY_USER,
    SHARE_KEEP,
    SHARE_READ_ONLY,
    WAIT_FOR_START,
    ClusterFlags,
    ClusterState,
    DeviceFlags,
    DeviceKind,
    DeviceState,
    DType,
    Known,
    MaskForm,
    MaskKind,
    MeshBackend,
    MeshTopology,
    ModelState,
    Op,
    Peer,
    Setting,
    State,
)


Hash = bytes  # of 32 bytes


class Health(NamedTuple):
    """Is the agent alive, and is this still its map?"""

    state: State
    stale: bool  # the agent has not been seen for two seconds
    age_ns: int  # since the last heartbeat
    epoch: int  # agents that have written this map, from 1
    tick: int
    generation: int
    agent_pid: int
    bytes: int  # of the segment
    agent_version: int
    layout_minor: int

    @property
    def ok(self) -> bool:
        """Does the agent take requests?"""
        return self.state == State.READY and not self.stale

    @classmethod
    def _of(cls, facts: dict[str, Any]) -> Self:
        facts["state"] = State(facts["state"])
        facts["stale"] = bool(facts["stale"])
        return cls(**facts)


class Device(NamedTuple):
    """All facts about the device in one row, of one refresh.

    A number that is not known is 0, or -1 where it may be negative; known tells
    which facts are.
    """

    row: int
    generation: int
    kind: DeviceKind
    known: Known
    flags: DeviceFlags
    numa_node: int  # -1: none
    uuid: str  # "GPU-8932f937-...", "MIG-..."; of others without a prefix
    name: str
    cpus: str  # local CPUs, "0-3,8"
    pci_domain: int
    pci_bus: int  # bus << 8 | device << 3 | function
    nvml_index: int
    minor_number: int
    ordinal_pci: int
    ordinal_fastest: int
    mig_gi: int
    mig_ci: int
    mig_profile: str
    cc_major: int
    cc_minor: int
    units: int  # multiprocessors; CPUs of a host row
    threads_per_unit: int
    shared_bytes: int
    l2_bytes: int
    total_bytes: int
    driver_version: int
    cuda_version: int
    state: DeviceState
    error: int
    reason: str
    since_ns: int
    free_bytes: int
    reserved_bytes: int
    budget_bytes: int
    score: float
    utilisation: int  # per mille
    temperature: int  # millidegrees Celsius
    power: int  # milliwatts
    worker_pid: int
    restarts: int
    recovery: int
    last_xid: int
    xids: int
    used_by_holders: int
    figures: int

    @property
    def free(self) -> int:
        """Bytes that are free, whether reserved or not."""
        return self.free_bytes

    @property
    def reserved(self) -> int:
        """Bytes that committed maps and reservations have."""
        return self.reserved_bytes

    @property
    def used(self) -> int:
        """Bytes that processes have."""
        return self.total_bytes - self.free_bytes

    @property
    def promised(self) -> int:
        """Bytes that are free, and kept for holders who do not use them yet."""
        return self.free_bytes - self.unclaimed

    @property
    def unclaimed(self) -> int:
        """Bytes that a plan may take now: free, and not kept for holders."""
        kept = max(self.reserved_bytes - self.used_by_holders, 0)
        return max(self.free_bytes - kept, 0)

    @property
    def is_host(self) -> bool:
        """Is its memory the node's main memory, which tensors can view?"""
        return DeviceFlags.MAPPED in self.flags

    @classmethod
    def _of(cls, facts: dict[str, Any]) -> Self:
        text = uuid_text(facts["uuid"].hex())
        if facts["flags"] & DeviceFlags.CARD:
            text = ("MIG-" if facts["mig_gi"] >= 0 else "GPU-") + text
        facts["uuid"] = text
        facts["kind"] = DeviceKind(facts["kind"])
        facts["known"] = Known(facts["known"])
        facts["flags"] = DeviceFlags(facts["flags"])
        facts["state"] = DeviceState(facts["state"])
        return cls(**facts)


class DevicePath(NamedTuple):
    """The path from the memory of the card in one row to that in another."""

    to: int  # row
    from_: int  # row
    nvlinks: int  # between the two, also through a switch
    peer: Peer

    @classmethod
    def _of(cls, facts: dict[str, Any]) -> Self:
        facts["from_"] = facts.pop("from")
        facts["peer"] = Peer(facts["peer"])
        return cls(**facts)


class DeviceJobs(NamedTuple):
    """The jobs of a row since the row was given out.

    times   how many took how long: item i those of JOB_TIME_ENDS[i] ns at most
            and of more than JOB_TIME_ENDS[i - 1]
    """

    row: int
    generation: int
    ended: int
    failed: int  # of these, with an error
    ns: int  # the time of those in times
    times: tuple[int, ...]
    loaded_bytes: int  # of files


class Charge(NamedTuple):
    """The memory that a map takes from one row, in bytes."""

    row: int
    n_layers: int
    weight_bytes: int
    kv_bytes: int
    activation_bytes: int
    reserve_bytes: int
    left_bytes: int | None = None  # of a plan: what stays unreserved

    @property
    def bytes(self) -> int:
        """The sum of all parts."""
        return (
            self.weight_bytes
            + self.kv_bytes
            + self.activation_bytes
            + self.reserve_bytes
        )


class LayersInfo(NamedTuple):
    """One publication of a layer map.

    rows      row of each layer, memoryview of format "I", shape (n_layers,)
    bytes     bytes of each layer, memoryview of format "Q", shape (n_layers,)
    """

    name: str
    version: int
    published_ns: int  # since 1970
    owner_uid: int
    setting: Setting
    n_layers: int
    n_rows: int
    base_row: int  # of what belongs to no layer
    dtype: DType
    layer_bytes: int  # of all layers, 0: not known
    other_bytes: int
    spec: str  # "0:16;1:16", or "" if no spec can say it
    flags: int
    strategy: int
    compute_dtype: int
    max_batch_size: int
    max_seq_len: int
    rows: memoryview
    bytes: memoryview
    charges: tuple[Charge, ...]

    @property
    def committed(self) -> bool:
        """Are its charges reserved?"""
        return bool(self.flags & LAYERS_COMMITTED)

    @property
    def held(self) -> bool:
        """Reserved while one process lives?"""
        return bool(self.flags & LAYERS_HELD)


class Plan(NamedTuple):
    """Where a model's layers go.

    rows       row of each layer, memoryview of format "I", shape (n_layers,)
    kv_bytes   of one layer
    version    of the map it was published as, 0: it was not
    """

    name: str | None
    n_layers: int
    base_row: int
    compute_dtype: DType
    kv_bytes: int
    version: int
    missing_bytes: int  # of a spec that need not fit; else 0
    missing_row: int | None
    spec: str
    warnings: tuple[str, ...]
    rows: memoryview
    charges: tuple[Charge, ...]


class Holder(NamedTuple):
    """A committed layer map."""

    name: str
    version: int
    since_ns: int
    uid: int
    pid: int  # 0: held until it is released
    start_ns: int  # what is left of its start window


class Reserved(NamedTuple):
    """The bytes that a committed map reserves of one row, and their use."""

    name: str
    version: int
    row: int
    uid: int
    pid: int
    bytes: int
    own_bytes: int  # of the holder's own allocations, as the driver tells
    session_bytes: int


class Waiting(NamedTuple):
    """A request that waits for room."""

    name: str
    uid: int
    pid: int
    flags: int
    rows: tuple[int, ...]  # that it may take
    missing_bytes: int  # at the last attempt, 0: not known
    missing_row: int
    n_before: int  # requests before it that keep one of its rows from it
    bytes: int  # that it asks for, 0: a plan decides
    age_ns: int
    left_ns: int  # until it is refused

    @property
    def for_start(self) -> bool:
        """Does it wait for a start window to end?"""
        return bool(self.flags & WAIT_FOR_START)

    @classmethod
    def _of(cls, facts: dict[str, Any]) -> Self:
        facts["rows"] = rows_of(facts["rows"])
        return cls(**facts)


class SessionInfo(NamedTuple):
    """One of the agent's sessions."""

    id: int
    pid: int
    uid: int
    n_queues: int
    depth: int
    arena_bytes: int
    age_ns: int
    load_bytes: int  # read of models that it is loading; 0: it loads none
    load_total_bytes: int
    rows: tuple[int, ...]

    @classmethod
    def _of(cls, facts: dict[str, Any]) -> Self:
        facts["rows"] = rows_of(facts["rows"])
        return cls(**facts)


class Usage(NamedTuple):
    """The memory that one session has on one row, in bytes."""

    session: int  # 0: it has ended, and importers still have this
    pid: int
    uid: int
    row: int
    importers: int
    bytes: int
    lent_bytes: int
    borrowed_bytes: int


class ShareInfo(NamedTuple):
    """A share, as the agent lists it."""

    share: int
    name: str
    uid: int
    flags: int
    n_buffers: int
    n_holders: int
    bytes: int
    about_bytes: int
    age_ns: int
    pid: int
    rows: tuple[int, ...]
    fingerprint: Hash  # its hash; b"": it has none

    @property
    def read_only(self) -> bool:
        """May openers not write it?"""
        return bool(self.flags & SHARE_READ_ONLY)

    @property
    def any_user(self) -> bool:
        """May every user open it?"""
        return bool(self.flags & SHARE_ANY_USER)

    @property
    def kept(self) -> bool:
        """Does it stay when no session has it?"""
        return bool(self.flags & SHARE_KEEP)

    @classmethod
    def _of(cls, facts: dict[str, Any]) -> Self:
        if not any(facts["fingerprint"]):
            facts["fingerprint"] = b""
        facts["rows"] = rows_of(facts["rows"])
        return cls(**facts)


class Fingerprint(NamedTuple):
    """The identity of what is in a share: equal ones, equal content.

    hash     32 bytes
    fields   lines KEY=VALUE of which it is the hash, so that a refusal can name
             the first that differs; or None
    """

    hash: bytes
    fields: str | None = None

    @classmethod
    def of(cls, fields: Mapping[str, object]) -> Self:
        """The SHA-256 of settings, in the order of their names.

        {"engine": "vllm 0.33", "dtype": "bf16", "tp": 2, "rank": 0}
        """
        import hashlib  # takes a while

        lines = [f"{key}={fields[key]}" for key in sorted(fields)]
        text = "\n".join(lines)
        if len(text.splitlines()) != len(lines):
            raise ValueError("a name or value of more than one line")
        told = text if len(text.encode()) <= 4096 else None
        return cls(hashlib.sha256(text.encode()).digest(), told)


class Progress(NamedTuple):
    """How far a model is loaded."""

    state: ModelState
    status: int  # a negative errno where it has failed
    bytes: int
    total_bytes: int
    elapsed_ns: int
    bytes_per_second: int  # 0: not known yet
    left_ns: int  # 2**64 - 1: not known
    n_tensors: int
    n_buffers: int
    was_there: bool  # another session had loaded it
    share: int
    waiting_for: str  # while WAITING: which session loads it

    @property
    def fraction(self) -> float:
        """From 0 to 1."""
        return self.bytes / self.total_bytes if self.total_bytes else 0.0


class Done(NamedTuple):
    """A completion: the job that submit() numbered cookie has ended."""

    cookie: int
    row: int
    status: int  # 0, or a negative errno

    @property
    def ok(self) -> bool:
        """Has it done all that it should?"""
        return self.status == 0

    def check(self) -> None:
        """Raise the error with which the job ended, if it did."""
        if self.status < 0:
            from . import errors

            raise errors.of_status(self.status, f"job {self.cookie}")


class Tile(NamedTuple):
    """The part of a scatter that one row had."""

    row: int
    status: int
    first: int  # element
    n: int  # elements
    value: int  # its place in time: a job may wait for (row, value)


class MaskInfo(NamedTuple):
    """A published mask.  Its tensor is dense, the last dimension fastest."""

    name: str
    version: int
    published_ns: int
    owner_uid: int
    kind: MaskKind
    form: MaskForm
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    bytes: int
    hash: int
    tgt_len: int
    past_kv_len: int
    sliding_window: int
    chunk_size: int
    map: str  # the layer map whose rows it follows; "": a list
    rows: tuple[int, ...]  # with a replica


class MeshInfo(NamedTuple):
    """One publication of a mesh."""

    name: str
    version: int
    published_ns: int
    owner_uid: int
    topology: MeshTopology
    world: int
    expected: int
    tp: int
    pp: int
    dp: int
    n_groups: int
    n_added: int
    rows: tuple[int, ...]  # of each rank


class Group(NamedTuple):
    """A group of a mesh."""

    name: str
    version: int
    epoch: int  # equal ones: nothing about its rows or members has changed
    backend: MeshBackend
    n: int
    index: int  # type: ignore[assignment]
    within: int  # place of the rank that was asked for
    whole: bool  # all its rows are READY
    ranks: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()


class TraceJob(NamedTuple):
    """A job that has ended.  Times are of CLOCK_MONOTONIC."""

    session: int  # its id
    read_ns: int  # the worker had read the job's entry
    started_ns: int  # the device began
    ended_ns: int
    n: int  # elements
    row: int
    uid: int  # of the session
    status: int  # 0 or a negative errno
    op: Op | int  # an int: newer than this package
    dtype: DType | int

    @classmethod
    def _of(cls, facts: dict[str, Any]) -> Self:
        if facts["op"] in _OPS:
            facts["op"] = Op(facts["op"])
        if facts["dtype"] in _DTYPES:
            facts["dtype"] = DType(facts["dtype"])
        return cls(**facts)


_OPS = frozenset(Op)
_DTYPES = frozenset(DType)


_Dict = dict[str, Any]


class ClusterDevice(NamedTuple):
    """A device of a node of the cluster."""

    row: int  # on that node
    uuid: str  # "GPU-8932f937-..."; of others than cards without a prefix
    name: str
    kind: DeviceKind
    state: DeviceState
    flags: DeviceFlags
    numa_node: int  # -1: none
    cc_major: int
    cc_minor: int
    total_bytes: int
    free_bytes: int
    reserved_bytes: int
    used_by_holders: int
    links: int  # NVLinks to the node's other listed devices, in all

    @property
    def unclaimed(self) -> int:
        """Bytes that are free, and not kept for holders."""
        kept = max(self.reserved_bytes - self.used_by_holders, 0)
        return max(self.free_bytes - kept, 0)

    @classmethod
    def _of(cls, facts: _Dict) -> Self:
        text = uuid_text(facts["uuid"].hex())
        if facts["flags"] & DeviceFlags.CARD:
            text = "GPU-" + text
        facts["uuid"] = text
        facts["kind"] = DeviceKind(facts["kind"])
        facts["state"] = DeviceState(facts["state"])
        facts["flags"] = DeviceFlags(facts["flags"])
        return cls(**facts)

    def _dict(self) -> _Dict:
        facts = self._asdict()
        facts["uuid"] = uuid_bytes(self.uuid)
        return facts


class ClusterShare(NamedTuple):
    """A share of a node of the cluster."""

    uid: int  # the user who is charged
    flags: int
    name: str
    bytes: int
    rows: tuple[int, ...]
    fingerprint: Hash  # its hash; b"": it has none

    @classmethod
    def _of(cls, facts: _Dict) -> Self:
        if not any(facts["fingerprint"]):
            facts["fingerprint"] = b""
        facts["rows"] = rows_of(facts["rows"])
        return cls(**facts)

    def _dict(self) -> _Dict:
        facts = self._asdict()
        facts["fingerprint"] = self.fingerprint or b"\0" * 32
        words = [0] * 4
        for row in self.rows:
            words[row // 64] |= 1 << row % 64
        facts["rows"] = words
        return facts


class ClusterNode(NamedTuple):
    """A node of the cluster, with the devices and shares that it tells of."""

    name: str
    address: str  # for other nodes: an IP address or a host name
    state: ClusterState
    flags: ClusterFlags
    age_ns: int  # since it changed; GONE: since it went
    epoch: int  # of its agent
    agent_version: int
    more_devices: int  # that are not listed for want of room
    more_shares: int
    devices: tuple[ClusterDevice, ...] = ()
    shares: tuple[ClusterShare, ...] = ()

    @classmethod
    def _of(
        cls,
        facts: _Dict,
        devices: list[_Dict],
        shares: list[_Dict],
    ) -> Self:
        facts["state"] = ClusterState(facts["state"])
        facts["flags"] = ClusterFlags(facts["flags"])
        return cls(
            **facts,
            devices=tuple(ClusterDevice._of(one) for one in devices),
            shares=tuple(ClusterShare._of(one) for one in shares),
        )

    def _entry(self) -> tuple[_Dict, list[_Dict], list[_Dict], bool]:
        facts = self._asdict()
        del facts["devices"], facts["shares"]
        return (
            facts,
            [one._dict() for one in self.devices],
            [one._dict() for one in self.shares],
            False,
        )


class Cluster(NamedTuple):
    """One publication of the cluster, with all nodes in the order of names.

    Where age_ns is more than limit_ns it is stale: what other nodes have now is
    not known.
    """

    name: str
    node: str  # this node's name in it
    version: int  # grows with every publication
    published_ns: int  # since 1970
    age_ns: int  # since it was known to be whole; 2**64 - 1: it never was
    limit_ns: int
    stale: bool
    n_nodes: int
    n_gone: int  # of these
    n_refused: int  # likewise
    n_devices: int  # listed, of all nodes
    n_shares: int
    nodes: tuple[ClusterNode, ...]

    @classmethod
    def _of(
        cls,
        facts: _Dict,
        nodes: list[tuple[_Dict, list[_Dict], list[_Dict]]],
    ) -> Self:
        facts["stale"] = bool(facts["stale"])
        return cls(
            **facts, nodes=tuple(ClusterNode._of(*one) for one in nodes)
        )


class Policy(NamedTuple):
    """The thresholds of one row; least is by Work, in the unit of each."""

    row: int
    generation: int
    calibrated_ns: int  # 0: they are the defaults
    least: tuple[int, ...]


class Settings(NamedTuple):
    """How another engine is to follow a layer map.

    exact   with these it places each layer as the map does
    argv    arguments to append
    env     variables to set
    notes   sentences for people
    file    text of a file that the engine reads, or None
    rows    the row of CUDA ordinal 0, 1 and so on in the engine
    """

    exact: bool
    argv: tuple[str, ...]
    env: dict[str, str]
    notes: tuple[str, ...]
    file: str | None
    rows: tuple[int, ...]


def uuid_text(digits: str) -> str:
    """Its 32 hexadecimal digits with dashes between."""
    return (
        f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}"
        f"-{digits[20:]}"
    )


def uuid_bytes(text: str) -> bytes:
    """Its bytes, of one with a prefix or without.  ValueError: it is none."""
    digits = text.removeprefix("GPU-").removeprefix("MIG-").replace("-", "")
    data = bytes.fromhex(digits)  # which leaves blanks out
    if len(digits) != 32 or len(data) != 16:
        raise ValueError(f"no UUID: {text!r}")
    return data


def rows_of(words: tuple[int, ...]) -> tuple[int, ...]:
    """The rows whose bits are set in 64-bit words."""
    return tuple(
        64 * i + bit
        for i, word in enumerate(words)
        for bit in range(64)
        if word >> bit & 1
    )
