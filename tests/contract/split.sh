#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The promises of the driver, on a node whose cards are split into instances:
# beside one that is whole, and alone; under a driver that shows every
# instance and under one that shows one and nothing beside it.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"

unset CONTRACT_UNDER
GPUMAP_REQUIRE='cuda nvml'
export GPUMAP_REQUIRE

# on NODE PLAN CASE - what it finds wrong there.
on() {
	said=$("${abs_top_builddir:?}/tests/fake/stand-in" run \
		-n "$abs_top_srcdir/tests/nodes/$1.yaml" -p "$2" \
		"$abs_top_builddir/tests/suites/contract" --case "$3" 2>&1) && return
	echo "exited with status $?"
	echo "$said" | grep -vE '^ok |^1\.\.'
}

for node in split halves; do
	for driver in 13.0 12.2; do
		for contract in device nvml cuda_visible_devices; do
			check "$contract: $node.yaml, driver $driver" \
				"$(on $node "driver $driver" $contract)"
		done
	done
done
tap_done
