# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The lists of gpumapctl cluster: nodes, devices, models, and a picture.

Texts come from other nodes: each character that a terminal would obey is
replaced.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

from .. import Cluster, ClusterDevice, ClusterNode, ClusterShare, Map
from .. import ClusterFlags, ClusterState, DeviceFlags
from .. import DeviceState, NotFound
from ..enums import SHARE_KEEP
from . import command, text
from .command import Exit, Failed

NEVER = 2**64 - 1

Object = dict[str, Any]


def printed(name: str, width: int = 0) -> str:
    """A name as a column of a table."""
    return text.printable(name).ljust(width)


def age(ns: int) -> str:
    """ "5.0 s", "12 min", "20 h"."""
    seconds = ns // 10**9
    if seconds < 10:
        return f"{ns / 1e9:.1f} s"
    if seconds < 600:
        return f"{seconds} s"
    if seconds < 36000:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h"


def state(node: ClusterNode) -> str:
    """ "live", "gone" or "refused"."""
    known = node.state in (ClusterState.LIVE, ClusterState.GONE)
    return node.state.name.lower() if known else "refused"


def node_fault(node: ClusterNode) -> str:
    """Why a plan cannot have the node; "": it can."""
    if node.state == ClusterState.GONE:
        return f"gone for {age(node.age_ns)}"
    if node.state != ClusterState.LIVE:
        return "its summary was refused: the log of gpumap-sync says why"
    if node.flags & ClusterFlags.DRAINING:
        return "its agent is ending"
    return "it takes no gangs" if node.flags & ClusterFlags.NO_GANGS else ""


def fault(device: ClusterDevice) -> str:
    """Why a plan cannot have a device of a node that it can have."""
    if device.state != DeviceState.READY:
        return device.state.name
    if device.flags & DeviceFlags.CORDONED:
        return "cordoned"
    if device.flags & DeviceFlags.MIG:
        return "split into MIG instances"
    if DeviceFlags.CARD in device.flags and " MIG " in device.name:
        return "a MIG instance, and ranks need whole cards"
    return ""


def read(map: Map) -> Cluster:
    """The cluster; where it is stale, that is said before anything else."""
    try:
        cluster = map.cluster()
    except NotFound:
        raise Failed(
            "cluster: this node is in none: start gpumap-sync, see"
            " gpumap-sync(8)"
        ) from None
    if cluster.stale:
        known = cluster.age_ns != NEVER
        since = age(cluster.age_ns) if known else "this agent's start"
        command.tell(
            f"gpumapctl: cluster {printed(cluster.name)} is stale: for {since}"
            " gpumap-sync has not known that it sees every change, and other"
            " nodes may have changed; is gpumap-sync running, and can it reach"
            " its store?"
        )
    return cluster


def node_width(cluster: Cluster) -> int:
    """The columns that a table has for the names of nodes."""
    return max([20, *(len(node.name) for node in cluster.nodes)])


# ---- nodes -------------------------------------------------------------------


def memory(node: ClusterNode) -> tuple[int, int]:
    """The bytes of the devices in service, and those a plan may take."""
    devices = [
        device
        for device in node.devices
        if not fault(device) and DeviceFlags.SERVES in device.flags
    ]
    return (
        sum(device.total_bytes for device in devices),
        sum(device.unclaimed for device in devices),
    )


def nodes_text(cluster: Cluster, _: argparse.Namespace) -> Iterator[str]:
    """A table of the nodes."""
    width = node_width(cluster)
    wide = max([24, *(len(node.address) for node in cluster.nodes)])
    yield (
        f"{'node':{width}} {'address':{wide}} state       since  rows"
        "      total       free  shares"
    )
    for node in cluster.nodes:
        total, free = memory(node)
        words = (
            "  this node" * bool(node.flags & ClusterFlags.SELF)
            + "  no gangs" * bool(node.flags & ClusterFlags.NO_GANGS)
            + "  draining" * bool(node.flags & ClusterFlags.DRAINING)
        )
        yield (
            f"{printed(node.name, width)} {printed(node.address, wide)}"
            f" {state(node):8} {age(node.age_ns):>8}"
            f" {len(node.devices) + node.more_devices:5}"
            f" {text.size(total):>10} {text.size(free):>10}"
            f" {len(node.shares) + node.more_shares:7}{words}"
        )


def nodes_json(cluster: Cluster, _: argparse.Namespace) -> Iterator[Object]:
    """The nodes as objects."""
    for node in cluster.nodes:
        total, free = memory(node)
        yield {
            "name": printed(node.name),
            "address": printed(node.address),
            "state": state(node),
            "self": bool(node.flags & ClusterFlags.SELF),
            "gangs": not node.flags & ClusterFlags.NO_GANGS,
            "draining": bool(node.flags & ClusterFlags.DRAINING),
            "age_ns": node.age_ns,
            "epoch": node.epoch,
            "agent_version": text.release(node.agent_version),
            "devices": len(node.devices),
            "more_devices": node.more_devices,
            "shares": len(node.shares),
            "more_shares": node.more_shares,
            "total_bytes": total,
            "free_bytes": free,
        }


# ---- devices -----------------------------------------------------------------

Item = tuple[ClusterNode, ClusterDevice]

ORDERS: dict[str, Callable[[Item], Any] | None] = {
    "node": None,
    "free": lambda item: -item[1].unclaimed,
    "total": lambda item: -item[1].total_bytes,
    "name": lambda item: item[1].name,
}


def chosen_devices(
    cluster: Cluster, options: argparse.Namespace
) -> list[Item]:
    """The devices that the options choose, in the order that they want."""
    if options.node not in (None, *(node.name for node in cluster.nodes)):
        raise Failed(
            f'there is no node "{options.node}"; gpumapctl cluster nodes lists'
            " those there are"
        )
    items = [
        (node, device)
        for node in cluster.nodes
        if options.node in (None, node.name)
        for device in node.devices
    ]
    if options.free is not None:
        items = [
            (node, device)
            for node, device in items
            if not node_fault(node)
            and not fault(device)
            and device.unclaimed >= options.free
        ]
    order = ORDERS[options.sort]
    return sorted(items, key=order) if order else items


def devices_text(
    cluster: Cluster, options: argparse.Namespace
) -> Iterator[str]:
    """A table of devices."""
    width = node_width(cluster)
    items = chosen_devices(cluster, options)
    yield (
        f"{'node':{width}} row  kind  state           total       free"
        "   reserved links  name"
    )
    for node, device in items:
        words = ", cordoned" * bool(device.flags & DeviceFlags.CORDONED)
        if node.state != ClusterState.LIVE:
            words += f", node {state(node)}"
        how = f"{device.kind.name.lower():5} {device.state.name}"
        yield (
            f"{printed(node.name, width)} {device.row:3}  {how:16}"
            f" {text.size(device.total_bytes):>10}"
            f" {text.size(device.unclaimed):>10}"
            f" {text.size(device.reserved_bytes):>10} {device.links:5}"
            f"  {printed(device.name)}{words}"
        )


def devices_json(
    cluster: Cluster, options: argparse.Namespace
) -> Iterator[Object]:
    """Devices as objects."""
    for node, device in chosen_devices(cluster, options):
        capability = f"{device.cc_major}.{device.cc_minor}"
        yield {
            "node": printed(node.name),
            "node_state": state(node),
            "row": device.row,
            "uuid": device.uuid.removeprefix("GPU-"),
            "name": printed(device.name),
            "kind": device.kind.name.lower(),
            "state": device.state.name,
            "cordoned": bool(device.flags & DeviceFlags.CORDONED),
            "split": bool(device.flags & DeviceFlags.MIG),
            "numa_node": device.numa_node,
            "compute_capability": capability if device.cc_major else None,
            "total_bytes": device.total_bytes,
            "free_bytes": device.free_bytes,
            "reserved_bytes": device.reserved_bytes,
            "used_by_holders": device.used_by_holders,
            "available_bytes": device.unclaimed,
            "nvlinks": device.links,
        }


# ---- models ------------------------------------------------------------------

Copy = tuple[ClusterShare, ClusterNode]
Model = tuple[str, bytes, int]


def model(copy: Copy) -> Model:
    """What the copies of one model have in common."""
    share, _ = copy
    return share.name, share.fingerprint, share.bytes


def chosen_models(
    cluster: Cluster, options: argparse.Namespace
) -> list[tuple[Model, list[Copy]]]:
    """Each model, or each of one name, with its copies."""
    copies = [
        (share, node)
        for node in cluster.nodes
        for share in node.shares
        if options.model in (None, share.name)
    ]
    if options.model is not None and not copies:
        raise Failed(
            f'there is no model "{options.model}"; gpumapctl cluster models'
            " lists those there are"
        )
    copies.sort(key=model)
    return [(key, list(group)) for key, group in groupby(copies, model)]


def models_text(
    cluster: Cluster, options: argparse.Namespace
) -> Iterator[str]:
    """A table of models, with the nodes that have them."""
    models = chosen_models(cluster, options)
    names = [share.name for node in cluster.nodes for share in node.shares]
    width = max([24, *map(len, names)])
    yield f"{'model':{width}}       size  fingerprint   nodes"
    for (name, fingerprint, bytes), copies in models:
        nodes = [
            printed(node.name)
            + f" ({state(node)})" * (node.state != ClusterState.LIVE)
            for _, node in copies
        ]
        yield (
            f"{printed(name, width)} {text.size(bytes):>10}"
            f"  {fingerprint.hex()[:12] or '-':12}  {', '.join(nodes)}"
        )


def models_json(
    cluster: Cluster, options: argparse.Namespace
) -> Iterator[Object]:
    """Models as objects."""
    for (name, fingerprint, bytes), copies in chosen_models(cluster, options):
        yield {
            "name": printed(name),
            "fingerprint": fingerprint.hex() or None,
            "bytes": bytes,
            "nodes": [
                {
                    "node": printed(node.name),
                    "state": state(node),
                    "rows": share.rows,
                    "uid": share.uid,
                    "kept": bool(share.flags & SHARE_KEEP),
                }
                for share, node in copies
            ],
        }


# ---- topo --------------------------------------------------------------------


def room(device: ClusterDevice) -> tuple[int, int, int]:
    """The bytes that are used, those that are promised, and what is left."""
    free = min(device.free_bytes, device.total_bytes)
    owed = max(device.reserved_bytes - device.used_by_holders, 0)
    promised = min(owed, free)
    return device.total_bytes - free, promised, free - promised


def topo_text(cluster: Cluster, _: argparse.Namespace) -> Iterator[str]:
    """Each node with its devices and models."""
    yield (
        f"{printed(cluster.name)}: {cluster.n_nodes} nodes,"
        f" {cluster.n_gone} of them gone, {cluster.n_devices} rows"
    )
    for node in cluster.nodes:
        yield ""
        why = node_fault(node)
        yield (
            f"node {printed(node.name)}  {printed(node.address)}"
            + "  this node" * bool(node.flags & ClusterFlags.SELF)
            + f"  {why}" * bool(why)
        )
        for device in node.devices:
            yield from device_text(device)
        if node.more_devices:
            yield f"  {node.more_devices} more rows"
        for share in node.shares:
            rows = ",".join(map(str, share.rows))
            size = text.size(share.bytes)
            yield f"  {printed(share.name)}: {size} on row {rows}"
        if node.more_shares:
            yield f"  {node.more_shares} more models"


def device_text(device: ClusterDevice) -> Iterator[str]:
    """A device, and a bar of its memory."""
    used, promised, left = room(device)
    words = [f"  row {device.row}", device.kind.name.lower()]
    words.append(printed(device.name))
    if device.links:
        words.append(f"{device.links} NVLinks")
    if why := fault(device):
        words.append(why)
    yield "  ".join(words)
    yield (
        f"    {text.bar(used, promised, device.total_bytes)}"
        f" {text.size(used)} used, {text.size(promised)} promised,"
        f" {text.size(left)} free of {text.size(device.total_bytes)}"
    )


def topo_json(cluster: Cluster, _: argparse.Namespace) -> Iterator[Object]:
    """The nodes as objects, with rows and models."""
    for node in cluster.nodes:
        rows = []
        for device in node.devices:
            used, promised, left = room(device)
            rows.append(
                {
                    "row": device.row,
                    "kind": device.kind.name.lower(),
                    "name": printed(device.name),
                    "state": device.state.name,
                    "nvlinks": device.links,
                    "total_bytes": device.total_bytes,
                    "used_bytes": used,
                    "promised_bytes": promised,
                    "free_bytes": left,
                }
            )
        yield {
            "name": printed(node.name),
            "address": printed(node.address),
            "state": state(node),
            "rows": rows,
            "models": [
                {
                    "name": printed(share.name),
                    "bytes": share.bytes,
                    "rows": share.rows,
                }
                for share in node.shares
            ],
        }


# ---- all of them -------------------------------------------------------------

Writer = Callable[[Cluster, argparse.Namespace], Iterator[Any]]

LISTS: dict[str, tuple[str, Writer, Writer, str]] = {
    "nodes": ("List the nodes.", nodes_text, nodes_json, "nodes"),
    "devices": ("List devices.", devices_text, devices_json, "devices"),
    "models": ("List models.", models_text, models_json, "models"),
    "topo": ("Draw the nodes.", topo_text, topo_json, "nodes"),
}


def parse(name: str, summary: str, words: list[str]) -> argparse.Namespace:
    """The options of one of the lists."""
    parser = command.Parser(f"cluster {name}", summary)
    if name == "devices":
        parser.add_argument(
            "--node", type=command.utf8, metavar="NODE", help="of one node"
        )
        parser.add_argument(
            "--free",
            type=command.size,
            metavar="SIZE",
            help="those of which a plan may take so much now",
        )
        parser.add_argument(
            "--sort",
            type=command.one_of(ORDERS),
            default="node",
            metavar="|".join(ORDERS),
            help="what they are listed by; node by default",
        )
    if name == "models":
        parser.add_argument(
            "model",
            nargs="?",
            type=command.utf8,
            metavar="MODEL",
            help="the nodes that have this one",
        )
    # An operand may follow options.
    return parser.parse_intermixed_args(words)


def main(name: str, words: list[str]) -> int:
    """Print one of the lists."""
    summary, lines, objects, key = LISTS[name]
    options = parse(name, summary, words)
    with command.open_map(options) as map:
        cluster = read(map)
        if options.json:
            head = {
                "cluster": printed(cluster.name),
                "node": printed(cluster.node),
                "version": cluster.version,
                "age_ns": None if cluster.age_ns == NEVER else cluster.age_ns,
                "limit_ns": cluster.limit_ns,
                "stale": cluster.stale,
            }
            items = list(objects(cluster, options))
            print(command.to_json(head | {key: items}))
        else:
            print("\n".join(lines(cluster, options)))
        if cluster.stale:
            return Exit.STALE
        command.warn_of_age(map)
    return Exit.OK
