#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
#
# ops_hip.sh - the operators as code objects, in C: an array for each of AMD's
# instruction sets, and a table of them
#
#	ops_hip.sh CLANG "SET..." OPS_HIP.H OPS.K >OPS_HIP_CODE.H
#
# A row of the table is CODE(set).

set -eu
clang=$1
sets=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat "$3" "$4" >"$folder/ops.hip"

table=
for set in $sets; do
	# As LLVM 14 makes them, whichever clang this is.
	"$clang" -x hip --cuda-device-only --no-gpu-bundle-output -nogpulib \
		-nogpuinc -O2 -ffp-contract=off -mcode-object-version=4 \
		-fno-gpu-flush-denormals-to-zero --offload-arch="$set" \
		-o "$folder/code" "$folder/ops.hip"
	printf 'static const unsigned char %s[]\n' "$set"
	printf '\t__attribute__((aligned(4096))) = {\n'
	od -An -v -tu1 "$folder/code" | sed 's/  */,/g; s/^,//; s/$/,/'
	echo '};'
	table="$table	CODE($set) \\\\\n"
done
# shellcheck disable=SC2059 # its lines
printf "#define CODES \\\\\n$table\n"
