#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
#
# ops_vulkan.sh - the operators as SPIR-V, in C: an array for each module, and a
# table of them
#
#	ops_vulkan.sh GLSLANG OPS_VULKAN.H FLOATS.K OPS.K >OPS_VULKAN_SPIRV.H
#
# A row of the table is MODULE(name, words, floats, by_integers, is_reduction): the
# bits of the floats that it computes, or 0.  Each operator of floats has two modules.

set -eu
glslang=$1
text=$(cat "$2" "$3" "$4" && echo 'void main() { GM_KERNEL(GM_ARGS); }')

compile() {
	printf '%s\n' "$text" | "$glslang" --stdin -S comp "$@"
}

names=$(compile -E -DGM_F32 -DGM_F64 -DGM_KERNEL=main -DGM_ARGS= |
	grep -o 'void  *gm_[a-z0-9_]*(' | sed 's/.* //; s/(//; /_chunk$/d')

# add WORDS BY_INTEGERS ARGS [OPTION] - a module of $name
table=
add() {
	words=$1 by_integers=$2 args=$3
	shift 3
	compile -V --target-env vulkan1.2 -g0 "-DGM_KERNEL=$name" \
		"-DGM_ARGS=$args" "$@" --vn "$words" -o /dev/stdout |
		sed -n "/^const uint32_t $words/,/^};/{s/^const/static const/;p;}"
	table="$table	MODULE($name, $words, $floats, $by_integers, $is_reduction) \\\\\n"
}

for name in $names; do
	case $name in
	gm_scale_f64 | gm_axpy_f64 | gm_mask_add_f64 | gm_sum_f64)
		floats=64 ;;
	gm_scale_* | gm_axpy_* | gm_mask_add_* | gm_sum_*f16 | gm_sum_f32 | \
		gm_cast_*_f16)
		floats=32 ;;
	*) floats=0 ;;
	esac
	case $name in
	gm_fill) args='args[1], args[2]' ;;
	gm_scale_f64 | gm_axpy_f64) args='args[2], OF64(args[3])' ;;
	gm_scale_* | gm_axpy_*) args='args[2], OF32(uint(args[3]))' ;;
	gm_mask_*) args='args[2], args[4], args[5]' ;;
	*) args='args[2]' ;;
	esac
	case $name in
	gm_sum_* | gm_min_* | gm_max_*) is_reduction=true ;;
	*) is_reduction=false ;;
	esac
	case $floats in
	64) add "$name" false "$args" -DGM_F32 -DGM_F64 ;;
	*) add "$name" false "$args" -DGM_F32 ;;
	esac
	[ $floats = 0 ] || add "${name}_by_integers" true "$args"
done
# shellcheck disable=SC2059 # its lines
printf "#define MODULES \\\\\n$table\n"
