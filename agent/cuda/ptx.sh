# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
# shellcheck shell=sh

# ptx - the pieces of a kernel, for operators.sh, which says what the registers
# are called.

# shellcheck disable=SC2059 # the format is what this is for
say() {
	printf "$@"
	echo
}

# ---- dtypes -----------------------------------------------------------------

bytes_of() {
	case $1 in
	u8) echo 1 ;;
	f16 | bf16 | u16) echo 2 ;;
	f32 | i32 | u32) echo 4 ;;
	f64 | i64 | u64) echo 8 ;;
	esac
}

# Width of the registers that hold an element's bits.
bits_of() {
	case $1 in
	f64 | i64 | u64) echo 64 ;;
	*) echo 32 ;;
	esac
}

# The type that an element is computed in.
value_of() {
	case $1 in
	f16 | bf16 | f32) echo f32 ;;
	f64) echo f64 ;;
	i32) echo s32 ;;
	i64) echo s64 ;;
	u64) echo u64 ;;
	*) echo u32 ;;
	esac
}

# ---- pieces of a kernel -----------------------------------------------------

# kernel NAME PARAMETER... - begin one; a parameter is "type name".
kernel() {
	say '.visible .entry gm_%s(' "$1"
	shift
	while [ $# -gt 0 ]; do
		say '\t.param .%s p_%s%s' "${1% *}" "${1#* }" "${2+,}"
		shift
	done
	say ')\n{'
}

finish() {
	say 'end:\n\tret;\n}\n'
}

# parameters PARAMETER... - into registers of their names.
parameters() {
	for p; do
		say '\tld.param.%s %s, [p_%s];' "${p% *}" "${p#* }" "${p#* }"
	done
}

# registers BITS - those that all kernels have.
registers() {
	say '\t.reg .pred done, odd, is;'
	say '\t.reg .b16 half;'
	say '\t.reg .b32 block, width, lane;'
	say '\t.reg .b64 dst, src, n, i, step, to, from, misaligned;'
	say '\t.reg .b%s x, y, t, u;' "$1"
}

# i and step for a thread that takes every so many-th element.
stride() {
	say '\tmov.u32 block, %%ctaid.x;'
	say '\tmov.u32 width, %%ntid.x;'
	say '\tmov.u32 lane, %%tid.x;'
	say '\tmul.wide.u32 i, block, width;'
	say '\tcvt.u64.u32 step, lane;'
	say '\tadd.u64 i, i, step;'
	say '\tmov.u32 block, %%nctaid.x;'
	say '\tmul.wide.u32 step, block, width;'
}

# choose POINTER DTYPE... - to bytes, if one of the pointers is misaligned.
choose() {
	say '\tmov.u64 misaligned, 0;'
	while [ $# -gt 0 ]; do
		say '\tand.b64 to, %s, %d;' "$1" $(($(bytes_of "$2") - 1))
		say '\tor.b64 misaligned, misaligned, to;'
		shift 2
	done
	say '\tsetp.ne.u64 odd, misaligned, 0;'
	say '\t@odd bra bytes;'
}

# get HOW REGISTER ADDRESS DTYPE - load an element's bits; spends t.
get() {
	size=$(bytes_of "$4")
	bits=$(bits_of "$4")
	if [ "$1" = whole ] || [ "$size" = 1 ]; then
		say '\tld.global.u%d %s, [%s];' $((size * 8)) "$2" "$3"
		return
	fi
	say '\tld.global.u8 %s, [%s];' "$2" "$3"
	at=1
	while [ $at -lt "$size" ]; do
		say '\tld.global.u8 t, [%s+%d];' "$3" $at
		say '\tshl.b%s t, t, %d;' "$bits" $((at * 8))
		say '\tor.b%s %s, %s, t;' "$bits" "$2" "$2"
		at=$((at + 1))
	done
}

# put HOW REGISTER ADDRESS DTYPE - store them; spends t.
put() {
	size=$(bytes_of "$4")
	bits=$(bits_of "$4")
	if [ "$1" = whole ] || [ "$size" = 1 ]; then
		say '\tst.global.u%d [%s], %s;' $((size * 8)) "$3" "$2"
		return
	fi
	say '\tst.global.u8 [%s], %s;' "$3" "$2"
	at=1
	while [ $at -lt "$size" ]; do
		say '\tshr.u%s t, %s, %d;' "$bits" "$2" $((at * 8))
		say '\tst.global.u8 [%s+%d], t;' "$3" $at
		at=$((at + 1))
	done
}

# widen VALUE BITS DTYPE - a float's bits to its value, exactly.
widen() {
	case $3 in
	f32) say '\tmov.b32 %s, %s;' "$1" "$2" ;;
	f64) say '\tmov.b64 %s, %s;' "$1" "$2" ;;
	f16)
		say '\tcvt.u16.u32 half, %s;' "$2"
		say '\tcvt.f32.f16 %s, half;' "$1"
		;;
	bf16)
		say '\tshl.b32 t, %s, 16;' "$2"
		say '\tmov.b32 %s, t;' "$1"
		;;
	esac
}

# narrow BITS VALUE DTYPE - back, to the nearest, ties to even; NaN stays NaN.
# bf16 by integers: the instruction for it is younger than this PTX.
narrow() {
	case $3 in
	f32) say '\tmov.b32 %s, %s;' "$1" "$2" ;;
	f64) say '\tmov.b64 %s, %s;' "$1" "$2" ;;
	f16)
		say '\tcvt.rn.f16.f32 half, %s;' "$2"
		say '\tcvt.u32.u16 %s, half;' "$1"
		;;
	bf16)
		say '\tmov.b32 t, %s;' "$2"
		say '\tand.b32 u, t, 0x7fffffff;'
		say '\tsetp.gt.u32 is, u, 0x7f800000;'
		say '\tshr.u32 %s, t, 16;' "$1"
		say '\tor.b32 u, %s, 0x40;' "$1"
		say '\tand.b32 %s, %s, 1;' "$1" "$1"
		say '\tadd.u32 t, t, 0x7fff;'
		say '\tadd.u32 t, t, %s;' "$1"
		say '\tshr.u32 t, t, 16;'
		say '\tselp.b32 %s, u, t, is;' "$1"
		;;
	esac
}

# loop LABEL - head of a loop over elements; next LABEL - its end.
loop() {
	say '%s:' "$1"
	say '\tsetp.ge.u64 done, i, n;'
	say '\t@done bra end;'
}

next() {
	say '\tadd.u64 i, i, step;'
	say '\tbra %s;' "$1"
}

# address REGISTER BASE DTYPE - of element i.
address() {
	say '\tmad.lo.u64 %s, i, %d, %s;' "$1" "$(bytes_of "$3")" "$2"
}
