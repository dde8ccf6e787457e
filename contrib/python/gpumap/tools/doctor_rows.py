# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The checks of gpumapctl doctor: what the map says of rows and other nodes."""

from __future__ import annotations

from collections.abc import Mapping

from ..enums import ClusterFlags, ClusterState, DeviceFlags, DeviceState
from ..facts import ClusterNode, Device
from . import text
from .doctor_node import Checks, Finding, fail, ok, warn

LIST = 250  # characters of a list
OUT = (DeviceState.FAILED, DeviceState.LOST)
# enum gpumap_figures: greater ones than KNOWN say why there are none.
FIGURES_KNOWN = 1
NO_FIGURES = {3: "the driver refuses", 4: "the agent is in a pid namespace"}
NO_RECOVERY = (0, 2**32 - 1)  # none is wanted, or that is not known
SYNC = "/run/gpumap-sync/node"  # a socket
NEVER = 2**64 - 1
SECOND = 10**9


def listed(faults: Mapping[int, str] | Mapping[str, str]) -> str:
    """ "2 (FAILED: no memory), 3" of what is the matter with each."""
    words = [f"{k} ({word})" if word else str(k) for k, word in faults.items()]
    line = ", ".join(words)
    return line if len(line) <= LIST else line[: LIST - 3] + "..."


class Rows(Checks):
    """What the map says of the rows."""

    def _unseen(self, check: str) -> str:
        if check == "numa_node":
            is_one = not self.node.has_numa_nodes
            return "the machine has one NUMA node" if is_one else ""
        if check in ("figures", "xid", "recovery", "ecc"):
            return "" if self._cards else "the map has no card"
        return "" if self.node.health else "there is no map"

    def state(self) -> Finding:
        rows = self.node.rows
        if not rows:
            return fail(
                "the map has no row",
                "rows in [host] of gpumapd.conf, or nvidia's driver",
            )
        # A card that is split into instances cannot be READY itself.
        out = {
            row.row: row.state.name + (row.reason and f": {row.reason}")
            for row in rows
            if row.state in OUT and DeviceFlags.MIG not in row.flags
        }
        if out:
            return fail(
                f"out of service: {listed(out)}",
                "gpumapctl devices; journalctl -u gpumapd",
            )
        in_place = (DeviceState.READY, *OUT)
        away = {
            row.row: row.state.name
            for row in rows
            if row.state not in in_place
        }
        if away:
            return warn(
                f"not in service now: {listed(away)}",
                "gpumapctl undrain ROW after a drain; the others are on their"
                " way",
            )
        if len(rows) == 1:
            return ok("the row is in service")
        return ok(f"all {len(rows)} rows are in service")

    def restarts(self) -> Finding:
        rows = [row for row in self.node.rows if row.restarts >= 3]
        return self._report(
            {row.row: f"{row.restarts} times" for row in rows},
            "workers have died",
            "journalctl -u gpumapd | grep worker_ended",
            "workers stay alive",
        )

    def cordoned(self) -> Finding:
        flag = DeviceFlags.CORDONED
        return self._report(
            {row.row: "" for row in self.node.rows if flag in row.flags},
            "rows take no new sessions and plans",
            "gpumapctl uncordon ROW",
            "no row is cordoned",
        )

    def promised(self) -> Finding:
        # A process without a reservation has what was promised to another.
        short = {}
        for row in self.node.rows:
            owed = row.reserved_bytes - row.used_by_holders
            if owed > row.free_bytes:
                free = text.size(row.free_bytes)
                short[row.row] = f"{free} free, {text.size(owed)} promised"
        return self._report(
            short,
            "less is free than promised",
            "gpumapctl who shows the holders; start other programs by"
            " gpumapctl run",
            "what is promised is free",
        )

    def numa_node(self) -> Finding:
        nowhere = {row.row: "" for row in self._cards if row.numa_node < 0}
        if nowhere:
            return warn(
                "the kernel knows no NUMA node of the cards in rows"
                f" {listed(nowhere)}",
                "a virtual machine needs PCI devices on NUMA nodes; else"
                " update the BIOS",
            )
        return ok("each card has a NUMA node")

    def figures(self) -> Finding:
        return self._report(
            {
                row.row: NO_FIGURES.get(row.figures, "not of every process")
                for row in self._cards
                if row.state == DeviceState.READY
                and row.figures > FIGURES_KNOWN
            },
            "the memory of processes is not known, so reservations are charged"
            " in full",
            "run the agent with the machine's pids; in a virtual machine with"
            " vGPU there is no remedy",
            "the driver tells what memory processes have",
        )

    def xid(self) -> Finding:
        cards = [row for row in self._cards if row.xids]
        return self._report(
            {row.row: f"{row.xids}, the last {row.last_xid}" for row in cards},
            "the driver has reported Xids",
            "look the numbers up in NVIDIA's list of Xids; dmesg | grep Xid",
            "no Xid was seen",
        )

    def recovery(self) -> Finding:
        cards = [row for row in self._cards if row.recovery not in NO_RECOVERY]
        found = self._report(
            {row.row: "" for row in cards},
            "the driver wants an action",
            "gpumapctl drain ROW, the action that gpumapctl devices --json"
            " names, gpumapctl undrain ROW",
            "the driver wants no action",
        )
        return fail(found.text, found.remedy) if cards else found

    def ecc(self) -> Finding:
        cards, ecc = self._cards, DeviceFlags.ECC
        models = {row.name for row in self.node.rows if ecc in row.flags}
        without = [row for row in cards if ecc not in row.flags]
        return self._report(
            {row.row: "" for row in without if row.name in models},
            "cards are without ECC, which others of their model have",
            "nvidia-smi -e 1 -i GPU, and a reset of it",
            "cards of one model agree on ECC",
        )

    @property
    def _cards(self) -> list[Device]:
        return [row for row in self.node.rows if DeviceFlags.CARD in row.flags]

    def _report(
        self, faults: dict[int, str], bad: str, remedy: str, good: str
    ) -> Finding:
        return warn(f"{bad}: {listed(faults)}", remedy) if faults else ok(good)


class Cluster(Checks):
    """What the map says of other nodes of the cluster."""

    def _unseen(self, check: str) -> str:
        is_told = self.node.cluster or (check == "age" and self._awaits_sync)
        return "" if is_told else "this node is in no cluster"

    def age(self) -> Finding:
        cluster, runs = self.node.cluster, self.node.exists(SYNC)
        if cluster is None:
            return fail(
                "gpumap-sync runs, and has published nothing",
                "journalctl -u gpumap-sync",
            )
        name, age = f"cluster {cluster.name}", cluster.age_ns / SECOND
        if not cluster.stale:
            return ok(f"{name} was seen as a whole {age:.1f} s ago")
        seen = "never seen as a whole"
        if cluster.age_ns != NEVER:
            seen = (
                f"seen as a whole {int(age)} s ago, the limit is"
                f" {cluster.limit_ns // SECOND} s"
            )
        if runs:
            return fail(
                f"{name} was {seen}: gpumap-sync runs",
                "journalctl -u gpumap-sync says why it does not reach the"
                " store",
            )
        return fail(
            f"{name} was {seen}: gpumap-sync does not run, or not at {SYNC}",
            "systemctl start gpumap-sync",
        )

    def self(self) -> Finding:
        # Without its own entry other nodes do not see it.
        name = self.node.cluster.node if self.node.cluster else ""
        states = [node.state for node in self._all if is_self(node)]
        if not states:
            return fail(
                f"other nodes do not see this one, {name}",
                "another machine may have the name: node in [cluster] of"
                " gpumap-sync.conf; journalctl -u gpumap-sync",
            )
        if states[0] != ClusterState.LIVE:
            return fail(
                f"other nodes see this one, {name}, as gone or refused",
                "journalctl -u gpumap-sync",
            )
        return ok(f"other nodes see this one, {name}")

    def gone(self) -> Finding:
        gone = self._others(ClusterState.GONE)
        return self._report(
            {node.name: f"for {node.age_ns // SECOND} s" for node in gone},
            "gone",
            "systemctl status gpumap-sync there, and the network to the store",
            "no node is gone",
        )

    def refused(self) -> Finding:
        refused = self._others(ClusterState.REFUSED)
        return self._report(
            {node.name: "" for node in refused},
            "refused",
            "journalctl -u gpumap-sync says why; install one release"
            " everywhere",
            "each node was understood",
        )

    def left_out(self) -> Finding:
        more = {
            node.name: f"{text.plural(node.more_devices, 'row')},"
            f" {text.plural(node.more_shares, 'share')}"
            for node in self._all
            if node.more_devices or node.more_shares
        }
        return self._report(
            more,
            "with more than they tell of",
            "a node tells of 64 rows and 64 shares, cards first: fewer rows in"
            " its [host] and [dummy], or fewer shares",
            "each node tells of all that it has",
        )

    def version(self) -> Finding:
        ours = self.node.health and self.node.health.agent_version
        live = [node for node in self._all if node.state == ClusterState.LIVE]
        return self._report(
            {
                node.name: text.release(node.agent_version)
                for node in live
                if node.agent_version != ours
            },
            "of another version than this one",
            "install one release everywhere",
            "all nodes run one version",
        )

    @property
    def _awaits_sync(self) -> bool:
        return self.node.health is not None and self.node.exists(SYNC)

    @property
    def _all(self) -> tuple[ClusterNode, ...]:
        return self.node.cluster.nodes if self.node.cluster else ()

    def _others(self, state: ClusterState) -> list[ClusterNode]:
        nodes = [node for node in self._all if node.state == state]
        return [node for node in nodes if not is_self(node)]

    def _report(
        self, faults: dict[str, str], bad: str, remedy: str, good: str
    ) -> Finding:
        if not faults:
            return ok(good)
        n = f"{len(faults)} of {len(self._all)} nodes"
        return warn(f"{n} {bad}: {listed(faults)}", remedy)


def is_self(node: ClusterNode) -> bool:
    """Is it this one?"""
    return ClusterFlags.SELF in node.flags
