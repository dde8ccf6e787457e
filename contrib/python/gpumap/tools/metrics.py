# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The metrics of gpumap-exporter, as text that Prometheus reads.

TABLE has all metrics.  The facts that they are about come in lists, each item
with its labels: a list is read once for all metrics that are of it.  Reading
makes no system call for a row or a map, unless the agent is asked for lists.

The labels of a device are those of DCGM's exporter (gpu, UUID, pci_bus_id,
device, modelName, GPU_I_PROFILE, GPU_I_ID, hostname), so that queries can join
the two, and before them gpumap's own: row, device_kind, numa_node.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from .. import Device, Error, Health, Map, version
from .._core import JOB_TIME_ENDS
from ..enums import (
    LAYERS_COMMITTED,
    DeviceFlags,
    DeviceState,
    Known,
)
from ..mask import read_info
from . import text

NS = 1e9
UNKNOWN = 2**32 - 1
NEVER = 2**64 - 1

# Labels, 'row="0",uid="0"' or "" for none, and the fact that has these.
Item = tuple[str, Any]
Lists = dict[str, list[Item]]
# The value that a fact has, or None; an attribute has the name of this one.
Read = Callable[[Any], Any] | str

GAUGE, COUNTER, INFO, HISTOGRAM = "gauge", "counter", "info", "histogram"
ENDINGS = {COUNTER: "_total", INFO: "_info"}
UNITS = ("bytes", "celsius", "ratio", "seconds", "watts")
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Metric(NamedTuple):
    """Samples of one name: of each item of a list.

    name    without the ending of its samples; the unit is its last word
    of      the list
    value   of an item; or several, by the label that each has besides
    help    one line, without a backslash
    """

    name: str
    of: str
    value: Read | Mapping[str, Read]
    help: str
    type: str = GAUGE


def _told(it: Device, bit: Known, thousandths: int) -> float | None:
    """What the driver tells, where it does."""
    return thousandths / 1e3 if bit in it.known else None


def _is_in(state: DeviceState) -> Read:
    return lambda device: int(device.state == state)


def _until(span: int) -> Read:
    return lambda jobs: sum(jobs.times[: span + 1])


def _spans() -> dict[str, Read]:
    """The buckets of jobs' times, by their label."""
    ends = [f"{ns / NS:.15g}" for ns in JOB_TIME_ENDS[:-1]]
    # A whole number has a point in it: OpenMetrics says so.
    ends = [one if "." in one or "e" in one else f"{one}.0" for one in ends]
    return {f'le="{x}"': _until(i) for i, x in enumerate([*ends, "+Inf"])}


TABLE = (
    Metric("gpumap_up", "agent", lambda it: int(it is not None and it.ok),
           "1 if the agent answers and its map is READY, else 0."),
    Metric("gpumap_build", "build", int,
           "Versions of the exporter and of the agent.", INFO),
    Metric("gpumap_heartbeat_age_seconds", "health", lambda it: it.age_ns / NS,
           "Time since the agent's last heartbeat."),
    Metric("gpumap_agent_starts", "health", "epoch",
           "Agents that have written this map; the map is new after a reboot.",
           COUNTER),
    Metric("gpumap_generation", "health", "generation",
           "A number that changes when an object or a row's state does."),
    Metric("gpumap_map_bytes", "health", "bytes",
           "Size of the map's segment."),
    Metric("gpumap_device", "info", int, "The device in each row.", INFO),
    Metric("gpumap_device_state", "row",
           {f'state="{one.name}"': _is_in(one) for one in DeviceState},
           "1 for the state that the row is in, 0 for the others."),
    Metric("gpumap_device_memory_bytes", "row",
           {'kind="total"': "total_bytes",
            'kind="free"': "free_bytes",
            'kind="reserved"': "reserved_bytes",
            'kind="used_by_holders"': "used_by_holders"},
           "Memory of the row: all of it, what is free, what is reserved, and"
           " what of that its holders have already."),
    Metric("gpumap_device_cordoned", "row",
           lambda it: int(DeviceFlags.CORDONED in it.flags),
           "1 if the row takes no new sessions and plans."),
    Metric("gpumap_device_score", "row", "score",
           "Weight of the row in a scatter; higher is faster."),
    Metric("gpumap_device_utilisation_ratio", "row",
           lambda it: _told(it, Known.UTILISATION, it.utilisation),
           "Part of the time in which the card computed, as its driver says."),
    Metric("gpumap_device_temperature_celsius", "row",
           lambda it: _told(it, Known.TEMPERATURE, it.temperature),
           "Temperature of the card, as its driver says."),
    Metric("gpumap_device_power_watts", "row",
           lambda it: _told(it, Known.POWER, it.power),
           "Power that the card draws, as its driver says."),
    Metric("gpumap_device_xids", "card", "xids",
           "Xid errors that the driver has reported of the card.", COUNTER),
    Metric("gpumap_device_last_xid", "card", "last_xid",
           "Number of the newest Xid error; 0: none was seen."),
    Metric("gpumap_device_needs_recovery", "card",
           lambda it: int(it.recovery > 0) if it.recovery != UNKNOWN else None,
           "1 if the driver says that the card needs a reset or a reboot."),
    Metric("gpumap_worker_restarts", "worker", "restarts",
           "Times that the row's worker has died and was started again.",
           COUNTER),
    Metric("gpumap_jobs", "jobs", "ended",
           "Jobs of the row that have ended; those of clients' programs are"
           " not counted.", COUNTER),
    Metric("gpumap_jobs_failed", "jobs", "failed",
           "Jobs of the row that failed.", COUNTER),
    Metric("gpumap_job_duration_seconds", "jobs",
           {**_spans(), "_sum": lambda it: it.ns / NS,
            "_count": lambda it: sum(it.times)},
           "Time of the row's jobs from when its worker has read them; how"
           " many of the small ones took how long is estimated from samples.",
           HISTOGRAM),
    Metric("gpumap_model_load_bytes", "jobs", "loaded_bytes",
           "Bytes of files that the row's worker has stored for models and"
           " other loads, also for those under way.", COUNTER),
    Metric("gpumap_layer_map_layers", "map", itemgetter("n_layers"),
           "Layers of the layer map that the row holds."),
    Metric("gpumap_layer_map_bytes", "map",
           {'kind="weights"': itemgetter("weight_bytes"),
            'kind="kv_cache"': itemgetter("kv_bytes"),
            'kind="activations"': itemgetter("activation_bytes"),
            'kind="reserve"': itemgetter("reserve_bytes")},
           "Memory of the row that the layer map plans for, by what it is"
           " for."),
    Metric("gpumap_reservation_bytes", "committed",
           lambda it: (it["weight_bytes"] + it["kv_bytes"]
                       + it["activation_bytes"] + it["reserve_bytes"]),
           "Memory of the row that is reserved for the committed layer map of"
           " this name."),
    Metric("gpumap_mask_bytes", "mask", "bytes",
           "Size of the mask's tensor."),
    Metric("gpumap_mask_replicas", "mask", lambda mask: len(mask.rows),
           "Rows that have a replica of the mask."),
    Metric("gpumap_mesh_ranks", "mesh", itemgetter("world"),
           "Ranks of the mesh."),
    Metric("gpumap_mesh_ready_rows", "mesh", itemgetter("n_ready"),
           "Rows of the mesh that are READY."),
    Metric("gpumap_cluster_stale", "cluster", itemgetter("stale"),
           "1 if it is not known what other nodes have now, else 0."),
    Metric("gpumap_cluster_age_seconds", "cluster",
           lambda it: None if it["age_ns"] == NEVER else it["age_ns"] / NS,
           "Time since it was known what all nodes have."),
    Metric("gpumap_cluster_nodes", "cluster",
           {'state="LIVE"': lambda it: (it["n_nodes"] - it["n_gone"]
                                        - it["n_refused"]),
            'state="GONE"': itemgetter("n_gone"),
            'state="REFUSED"': itemgetter("n_refused")},
           "Nodes of the cluster in each state."),
    Metric("gpumap_cluster_devices", "cluster", itemgetter("n_devices"),
           "Devices of the cluster's nodes."),
    Metric("gpumap_cluster_shares", "cluster", itemgetter("n_shares"),
           "Shares of the cluster's nodes."),
    # Only the agent can tell these.
    Metric("gpumap_sessions", "user", itemgetter(0), "Sessions of the user."),
    Metric("gpumap_session_arena_bytes", "user", itemgetter(1),
           "Memory of the user's sessions for payloads."),
    Metric("gpumap_model_loading_bytes", "load",
           {'kind="read"': "load_bytes", 'kind="total"': "load_total_bytes"},
           "Bytes of the models that the session is loading: all of them, and"
           " those that were read."),
    Metric("gpumap_buffer_bytes", "buffer", int,
           "Memory of the row that buffers of the user take."),
    Metric("gpumap_share_bytes", "share", "bytes", "Size of the share."),
    Metric("gpumap_share_holders", "share", "n_holders",
           "Sessions that hold the share."),
    Metric("gpumap_reservation_used_bytes", "reservation",
           lambda it: it.own_bytes + it.session_bytes,
           "What of the reservation its processes and sessions have."),
    Metric("gpumap_start_queue_length", "queue", len,
           "Requests for memory that wait for room."),
    Metric("gpumap_start_queue_oldest_seconds", "queue",
           lambda queue: queue[0].age_ns / NS if queue else 0,
           "Time that the first of them has waited."),
    Metric("gpumap_usage_up", "asked", int,
           "1 if the agent has answered with its lists, else 0."),
)


# ---- facts ------------------------------------------------------------------

# Gone, damaged, or of a kind or state that a later agent knows.
UNREADABLE = (Error, ValueError)

_ASCII = bytes(byte if 32 <= byte < 127 else ord("?") for byte in range(256))
_ESCAPES = {ord("\\"): "\\\\", ord('"'): '\\"'}


def labels(**values: object) -> str:
    """The labels that have a value.

    Bytes that are no printable ASCII become "?": other users choose the names
    of things.
    """
    done = []
    for name, value in values.items():
        if value is not None:
            data = str(value).encode("utf-8", "surrogateescape")
            plain = data.translate(_ASCII).decode().translate(_ESCAPES)
            done.append(f'{name}="{plain}"')
    return ",".join(done)


def _index(number: int, known: bool = True) -> int | None:
    return number if known and number >= 0 else None


def _row_labels(it: Device, host: str) -> str:
    card: dict[str, object] = {}
    if DeviceFlags.CARD in it.flags:
        place, part = text.pci(it), it.mig_gi >= 0
        # As NVML writes it, with a domain of eight digits.
        if place is not None:
            place = f"{it.pci_domain:08x}:{place.partition(':')[2]}".upper()
        minor = it.minor_number
        card = {
            "gpu": _index(it.nvml_index),
            "UUID": it.uuid,
            "pci_bus_id": place,
            "device": f"nvidia{minor}" if minor >= 0 else None,
            "modelName": it.name,
            "GPU_I_PROFILE": it.mig_profile if part else None,
            "GPU_I_ID": _index(it.mig_gi),
        }
    return labels(
        row=it.row,
        device_kind=it.kind.name.lower(),
        numa_node=_index(it.numa_node, Known.NUMA in it.known),
        **card,
        hostname=host or None,
    )


def _info_labels(it: Device) -> str:
    """The facts that are text: for joins, and for people."""
    cc = f"{it.cc_major}.{it.cc_minor}" if Known.CC in it.known else None
    return labels(name=it.name, cpus=it.cpus or None, compute_capability=cc)


def _rows(map: Map) -> Lists:
    lists: Lists = {
        name: [] for name in ("row", "info", "card", "worker", "jobs")
    }
    host = socket.gethostname()
    devices = map.devices
    for row in range(len(devices)):
        with suppress(*UNREADABLE):
            device = devices[row]
            shown = _row_labels(device, host)
            lists["row"].append((shown, device))
            lists["info"].append((f"{shown},{_info_labels(device)}", 1))
            if DeviceFlags.CARD in device.flags:
                lists["card"].append((shown, device))
            if DeviceFlags.SERVES in device.flags:
                lists["worker"].append((shown, device))
                jobs = map.jobs(row)
                # They have to be of the device of the labels.
                if jobs.generation == device.generation:
                    lists["jobs"].append((shown, jobs))
    return lists


def _objects(map: Map) -> Lists:
    lists: Lists = {"map": [], "committed": [], "mask": [], "mesh": []}
    for name in map.maps():
        with suppress(*UNREADABLE):
            facts, _, _, charges = map._layers_read(name)
            start = labels(map=name, uid=facts["owner_uid"]) + ',row="'
            items = [(f'{start}{one["row"]}"', one) for one in charges]
            lists["map"] += items
            if facts["flags"] & LAYERS_COMMITTED:
                lists["committed"] += items
    for name in map.masks():
        with suppress(*UNREADABLE):
            mask = read_info(map, name)
            shown = labels(mask=name, uid=mask.owner_uid)
            lists["mask"].append((shown, mask))
    for name in map.meshes():
        with suppress(*UNREADABLE):
            lists["mesh"].append((labels(mesh=name), map._mesh_stats(name)))
    with suppress(Error):  # where this node is in no cluster
        lists["cluster"] = [("", map._cluster_totals())]
    return lists


def _asked(map: Map) -> Lists:
    """The agent's lists.  One that does not answer is asked for no more."""
    lists: Lists = {"load": [], "asked": [("", 0)]}
    users: dict[str, tuple[int, int]] = {}
    buffers: dict[str, int] = {}
    with suppress(Error):
        for session in map.sessions():
            user = labels(uid=session.uid)
            n, bytes = users.get(user, (0, 0))
            users[user] = n + 1, bytes + session.arena_bytes
            if session.load_total_bytes:
                shown = labels(session=session.id, uid=session.uid)
                lists["load"].append((shown, session))
        lists["user"] = list(users.items())
        for use in map.usage():
            shown = labels(uid=use.uid, row=use.row)
            buffers[shown] = buffers.get(shown, 0) + use.bytes
        lists["buffer"] = list(buffers.items())
        lists["share"] = [
            (labels(share=one.name, uid=one.uid), one) for one in map.shares()
        ]
        lists["reservation"] = [
            (labels(map=one.name, uid=one.uid, row=one.row), one)
            for one in map.reservations()
        ]
        lists["queue"] = [("", map.waiting())]
        lists["asked"] = [("", 1)]
    return lists


def _all(map: Map | None, instance: str, usage: bool) -> Lists:
    health = None
    if map is not None:
        with suppress(Error):
            health = map.health()
    agent = health.agent_version if health else 0
    versions = labels(
        agent_instance=instance,
        version=text.release(version()),
        agent_version=text.release(agent) if agent else None,
    )
    lists: Lists = {"agent": [("", health)], "build": [(versions, 1)]}
    if map is not None and health is not None:
        lists |= {"health": [("", health)], **_rows(map), **_objects(map)}
        if usage:
            lists |= _asked(map)
    return lists


# ---- text -------------------------------------------------------------------


def number(value: float) -> str:
    """A value as text: 0.1 as 0.1, where no digit is lost by that."""
    if value == value // 1 and abs(value) < 1e18:
        return str(int(value))
    short = f"{value:.15g}"
    return short if float(short) == value else f"{value:.17g}"


def _head(metric: Metric, openmetrics: bool) -> str:
    # The older format has no infos and no units, and names the samples.
    name, kind = metric.name, metric.type
    if not openmetrics:
        name += ENDINGS.get(kind, "")
        kind = GAUGE if kind == INFO else kind
    head = f"# HELP {name} {metric.help}\n# TYPE {name} {kind}\n"
    unit = name.rpartition("_")[2]
    if openmetrics and unit in UNITS:
        head += f"# UNIT {name} {unit}\n"
    return head


def _part(
    metric: Metric, labelled: bool, key: str, read: Read
) -> tuple[str, str, Callable[[Any], Any]]:
    """What stands before and behind an item's labels, and reads the value."""
    ending, more = ENDINGS.get(metric.type, ""), key
    if metric.type == HISTOGRAM:
        ending, more = ("_bucket", key) if "=" in key else (key, "")
    comma = "," if labelled and more else ""
    start, end = ("{", "}") if labelled or more else ("", "")
    if isinstance(read, str):
        read = attrgetter(read)
    return f"{metric.name}{ending}{start}", f"{comma}{more}{end} ", read


def _samples(metric: Metric, items: list[Item]) -> str:
    values = metric.value
    if not isinstance(values, Mapping):
        values = {"": values}
    labelled = bool(items[0][0])
    parts = [_part(metric, labelled, *value) for value in values.items()]
    # There may be a hundred thousand: no call for each but read().
    return "".join(
        [
            f"{start}{labels}{end}"
            f"{value if value.__class__ is int else number(value)}\n"
            for labels, fact in items
            for start, end, read in parts
            if (value := read(fact)) is not None
        ]
    )


def write(
    map: Map | None, instance: str, openmetrics: bool, usage: bool
) -> bytes:
    """All metrics, in one of the formats.

    map     the attachment; None: there is no map
    usage   ask the agent for its lists, too
    """
    lists = _all(map, instance, usage)
    pieces = []
    for metric in TABLE:
        items = lists.get(metric.of)
        # A metric without samples is not mentioned.
        if items and (samples := _samples(metric, items)):
            pieces += [_head(metric, openmetrics), samples]
    if openmetrics:
        pieces.append("# EOF\n")
    return "".join(pieces).encode()
