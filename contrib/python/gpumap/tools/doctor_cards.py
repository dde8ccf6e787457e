# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The checks of gpumapctl doctor: NVIDIA's driver and cards, from files."""

from __future__ import annotations

import os
import re
from functools import cached_property

from ..enums import DeviceFlags, DeviceKind, DeviceState
from .doctor_node import Checks, Finding, fail, ok, warn

BUS = "/sys/bus/pci/devices"
NVIDIA = "0x10de"
DISPLAY = "0x03"  # a class of devices
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
FOLDERS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/lib",
)


class Cards(Checks):
    """NVIDIA's driver and cards; a bus without any has nothing to check."""

    def _unseen(self, check: str) -> str:
        if check == "versions":
            is_loaded = self._module_version()
            return "" if is_loaded else "NVIDIA's kernel module is not loaded"
        if not self._cards:
            return "the bus has no card of NVIDIA's"
        needs_map = check in ("rows", "reach") and self.node.health is None
        return "there is no map" if needs_map else ""

    def driver(self) -> Finding:
        for card in self._cards:
            link = self.node.link(f"{BUS}/{card}/driver")
            driver = os.path.basename(link)
            if driver == "nouveau":
                return fail(
                    f"card {card} belongs to nouveau, not to NVIDIA's driver",
                    "blacklist nouveau in /etc/modprobe.d, and restart the"
                    " machine",
                )
            if driver == "vfio-pci":
                return warn(
                    f"card {card} belongs to vfio-pci",
                    "nothing, if it is meant for a virtual machine",
                )
            if driver != "nvidia":
                return fail(
                    f"card {card} has no driver of NVIDIA's",
                    "modprobe nvidia; dmesg | grep -i nvrm",
                )
        return ok(f"NVIDIA's driver has all {len(self._cards)} cards")

    def module(self) -> Finding:
        version = self._module_version()
        if not version:
            return fail(
                "NVIDIA's kernel module is not loaded",
                "modprobe nvidia; install the driver for this kernel, dkms"
                " status",
            )
        return ok(f"NVIDIA's driver is {version}")

    def libraries(self) -> Finding:
        paths = [self._library(name) for name in LIBRARIES]
        for name, path in zip(LIBRARIES, paths):
            if not path:
                return fail(
                    f"there is no {name}",
                    "install the driver's libraries: libcuda1 and"
                    " libnvidia-ml1; in a container NVIDIA's container toolkit",
                )
        return ok(", ".join(paths))

    def versions(self) -> Finding:
        # A library that was upgraded without its module finds no card.
        module = self._module_version()
        for name in LIBRARIES:
            target = self.node.link(self._library(name))
            version = target.partition(".so.")[2]
            if "." in version and version != module:
                return fail(
                    f"the kernel's driver is {module} and {name} is {version}",
                    "restart the machine; or stop gpumapd and all users of"
                    " cards, rmmod nvidia_uvm nvidia, modprobe nvidia",
                )
        return ok(f"module and libraries are of version {module}")

    def device_nodes(self) -> Finding:
        for name in ("nvidiactl", "nvidia-uvm", "nvidia0"):
            if not self.node.exists(f"/dev/{name}"):
                return fail(
                    f"there is no /dev/{name}",
                    "nvidia-modprobe -c 255 -c 0; nvidia-modprobe -u -c 0;"
                    " restart gpumapd; in a container give it the devices",
                )
        return ok("the device nodes are there")

    def rows(self) -> Finding:
        on_bus, in_map = len(self._cards), 0
        for row in self.node.rows:
            is_card = row.kind == DeviceKind.CUDA and row.mig_gi < 0
            in_map += is_card and row.state != DeviceState.LOST
        if in_map < on_bus:
            return warn(
                f"the bus has {on_bus} cards, and the map {in_map}",
                "devices of [cuda] in gpumapd.conf may leave some out;"
                " journalctl -u gpumapd; while one is off the bus no others"
                " begin to use NCCL",
            )
        return ok(f"the map has all {on_bus} cards")

    def persistence(self) -> Finding:
        if self.node.exists("/run/nvidia-persistenced/socket"):
            return ok("nvidia-persistenced runs")
        return warn(
            "nvidia-persistenced does not run: the driver forgets its settings"
            " whenever no process has a card",
            "systemctl enable --now nvidia-persistenced",
        )

    def mps(self) -> Finding:
        for folder in ("/tmp", "/run"):
            if self.node.exists(f"{folder}/nvidia-mps/control"):
                return warn(
                    "a daemon of MPS runs: one client's fault ends the others",
                    "gpumapd's workers stay out of it unless mps = yes in"
                    " [cuda] of gpumapd.conf; see MPS in gpumapd(8)",
                )
        return ok("no daemon of MPS runs")

    def reach(self) -> Finding:
        # HMM and ATS: a client's program can become its worker then.
        if not any(DeviceFlags.PAGEABLE in row.flags for row in self.node.rows):
            return ok(
                "what runs on a card reaches no memory but that which it was"
                " given"
            )
        reach = "programs on a card reach all of their worker (HMM or ATS)"
        if "landlock" in self.node.line("/sys/kernel/security/lsm"):
            return ok(f"{reach}, which may change no file but below /dev")
        return warn(
            f"{reach}, and Landlock does not keep it from files",
            "lsm=landlock before the others on the kernel's command line; or"
            " uvm_disable_hmm=1 for the module nvidia_uvm; or policy ="
            " operators-only in [programs]",
        )

    def iommu(self) -> Finding:
        for card in self._cards if len(self._cards) > 1 else []:
            type = self.node.line(f"{BUS}/{card}/iommu_group/type")
            if type.startswith("DMA"):
                return warn(
                    f"the IOMMU translates accesses of card {card}: copies"
                    " between cards are slow, or wrong",
                    "iommu=pt on the kernel's command line, and ACS off in the"
                    " BIOS where users are trusted",
                )
        return ok("no IOMMU is between the cards")

    def link_width(self) -> Finding:
        for card in self._cards:
            now, most = (
                self.node.number(f"{BUS}/{card}/{name}_link_width", 0)
                for name in ("current", "max")
            )
            if 0 < now < most:
                return warn(
                    f"card {card} uses {now} of {most} lanes",
                    "seat the card anew, or use another slot; a slot may have"
                    " fewer lanes than the card",
                )
        return ok("each card has all its lanes")

    @cached_property
    def _cards(self) -> list[str]:
        try:
            names = os.listdir(self.node.root + BUS)
        except OSError:
            return []
        return sorted(name for name in names if self._is_card(name))

    def _is_card(self, name: str) -> bool:
        maker = self.node.line(f"{BUS}/{name}/vendor")
        kind = self.node.line(f"{BUS}/{name}/class")
        return maker == NVIDIA and kind.startswith(DISPLAY)

    def _module_version(self) -> str:
        line = self.node.line("/proc/driver/nvidia/version")
        found = re.search(r"Kernel Module.*?\b(\d[\d.]*)", line)
        return found[1] if found else ""

    def _library(self, name: str) -> str:
        paths = (f"{folder}/{name}" for folder in FOLDERS)
        return next((path for path in paths if self.node.exists(path)), "")
