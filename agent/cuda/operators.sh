#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# Print operators.ptx: the built-in operators for CUDA rows, a kernel for each
# operator and dtype.  operators.h says what each computes.
#
#	agent/cuda/operators.sh >agent/cuda/operators.ptx
#
# The result is checked in: a build does not run this script, and a test
# compares the two.
#
# Registers have words for names.  In every kernel
#
#	dst src n	what the launch gave
#	i step		this thread's next element, and the one after it
#	to from		addresses of element i
#	x y t u		bits of 32, or of 64 where an element has so many; x0 to
#			x3 and so on where four elements are on their way
#	f g		their values as f32 or f64
#
# Elements that do not lie on a multiple of their size are read and written
# byte by byte: a device faults on a misaligned access, and the fault would end
# every session's work.  So most kernels have their loop twice, labelled whole
# and bytes.
#
# Products and sums are written .rn, which keeps the compiler from fusing them.

LC_ALL=C
export LC_ALL

# shellcheck disable=SC1091 # beside this file
. "${0%/*}/ptx.sh"

# ---- the operators ----------------------------------------------------------

fill() {
	say '// The byte at dst + k becomes byte k %% 8 of pattern; n is bytes.'
	say '// Lines of 16 bytes between two ends of bytes.'
	kernel fill 'u64 dst' 'u64 n' 'u64 pattern'
	registers 64
	say '\t.reg .b64 pattern, head, tail, ends, lines, turned, at;'
	say '\t.reg .b32 shift, back;'
	parameters 'u64 dst' 'u64 n' 'u64 pattern'
	stride
	say '\tneg.s64 head, dst;'
	say '\tand.b64 head, head, 15;'
	say '\tmin.u64 head, head, n;'
	say '\tsub.u64 tail, n, head;'
	say '\tshr.u64 lines, tail, 4;'
	say '\tand.b64 tail, tail, 15;'
	say '\tadd.u64 ends, head, tail;'
	say '\tcvt.u32.u64 shift, head;'
	say '\tand.b32 shift, shift, 7;'
	say '\tshl.b32 shift, shift, 3;'
	say '\tsub.u32 back, 64, shift;'
	say '\tshr.u64 turned, pattern, shift;'
	say '\tshl.b64 t, pattern, back;'
	say '\tor.b64 turned, turned, t;'
	say '\tadd.u64 from, dst, head;'
	say '\tmov.u64 at, i;'
	say 'line:'
	say '\tsetp.ge.u64 done, at, lines;'
	say '\t@done bra byte;'
	say '\tmad.lo.u64 to, at, 16, from;'
	say '\tst.global.v2.u64 [to], {turned, turned};'
	say '\tadd.u64 at, at, step;'
	say '\tbra line;'
	say 'byte:'
	say '\tsetp.ge.u64 done, i, ends;'
	say '\t@done bra end;'
	say '\tsub.u64 at, n, ends;'
	say '\tadd.u64 at, at, i;'
	say '\tsetp.lt.u64 is, i, head;'
	say '\tselp.b64 at, i, at, is;'
	say '\tadd.u64 to, dst, at;'
	say '\tcvt.u32.u64 shift, at;'
	say '\tand.b32 shift, shift, 7;'
	say '\tshl.b32 shift, shift, 3;'
	say '\tshr.u64 x, pattern, shift;'
	say '\tst.global.u8 [to], x;'
	next byte
	finish
}

# begin HOW OP FROM TO S - load what element i needs, into registers S.
begin() {
	address from src "$3"
	address "to$5" dst "$4"
	get "$1" "x$5" from "$3"
	[ "$2" != axpy ] || get "$1" "y$5" "to$5" "$4"
}

# compute OP FROM TO S - from what was loaded to the bits to store, in xS.
compute() {
	v=$(value_of "$2")
	widen f "x$4" "$2"
	case $1 in
	scale) say '\tmul.rn.%s f, alpha, f;' "$v" ;;
	axpy)
		widen g "y$4" "$2"
		say '\tmul.rn.%s f, alpha, f;' "$v"
		say '\tadd.rn.%s f, g, f;' "$v"
		;;
	esac
	narrow "x$4" f "$3"
}

# elements OP FROM TO - a kernel that makes one element of one.  Four at a time
# while there are as many: a card's memory is far away, and one load of each
# thread in flight does not fill the way.
elements() {
	v=$(value_of "$2")
	case $1 in
	cast)
		say '// dst[i] = src[i], to the nearest, ties to even'
		kernel "cast_$2_$3" 'u64 dst' 'u64 src' 'u64 n'
		;;
	scale)
		say '// dst[i] = alpha * src[i]'
		kernel "scale_$2" 'u64 dst' 'u64 src' 'u64 n' "$v alpha"
		;;
	axpy)
		say '// dst[i] = dst[i] + alpha * src[i], both rounded'
		kernel "axpy_$2" 'u64 dst' 'u64 src' 'u64 n' "$v alpha"
		;;
	esac
	registers "$(bits_of "$2")"
	say '\t.reg .b%s x0, x1, x2, x3, y0, y1, y2, y3;' "$(bits_of "$2")"
	say '\t.reg .b64 ahead, to0, to1, to2, to3;'
	say '\t.reg .%s f, g, alpha;' "$v"
	parameters 'u64 dst' 'u64 src' 'u64 n'
	[ "$1" = cast ] || parameters "$v alpha"
	stride
	choose dst "$3" src "$2"
	say '\tshl.b64 ahead, step, 1;'
	say '\tadd.u64 ahead, ahead, step;'
	say 'four:'
	say '\tadd.u64 to, i, ahead;'
	say '\tsetp.ge.u64 done, to, n;'
	say '\t@done bra whole;'
	for s in 0 1 2 3; do
		begin whole "$1" "$2" "$3" $s
		say '\tadd.u64 i, i, step;'
	done
	for s in 0 1 2 3; do
		compute "$1" "$2" "$3" $s
		put whole x$s to$s "$3"
	done
	say '\tbra four;'
	for how in whole bytes; do
		loop $how
		begin $how "$1" "$2" "$3" 0
		compute "$1" "$2" "$3" 0
		put $how x0 to0 "$3"
		next $how
	done
	finish
}

# mask_add DTYPE MASK - MASK is the dtype itself, or u8 for a boolean mask.
mask_add() {
	v=$(value_of "$1")
	b=$(bits_of "$1")
	if [ "$2" = u8 ]; then
		name=mask_bool_$1
		say '// dst[i] = mask[(at + i) %% m] ? -inf : src[i]'
	else
		name=mask_add_$1
		say '// dst[i] = src[i] + mask[(at + i) %% m]'
	fi
	kernel "$name" 'u64 dst' 'u64 src' 'u64 n' 'u64 mask' 'u64 m' 'u64 at'
	registers "$b"
	say '\t.reg .%s f, g;' "$v"
	say '\t.reg .b64 mask, m, at, jump;'
	parameters 'u64 dst' 'u64 src' 'u64 n' 'u64 mask' 'u64 m' 'u64 at'
	stride
	say '\tadd.u64 at, at, i;'
	say '\trem.u64 at, at, m;'
	say '\trem.u64 jump, step, m;'
	choose dst "$1" src "$1" mask "$2"
	for how in whole bytes; do
		loop $how
		address from src "$1"
		address to dst "$1"
		get $how x from "$1"
		say '\tmad.lo.u64 from, at, %d, mask;' "$(bytes_of "$2")"
		get $how y from "$2"
		if [ "$2" = u8 ]; then
			say '\tsetp.ne.u%s is, y, 0;' "$b"
			say '\tselp.b%s x, %s, x, is;' "$b" "$(minus_infinity "$1")"
		else
			widen f x "$1"
			widen g y "$1"
			say '\tadd.rn.%s f, f, g;' "$v"
			narrow x f "$1"
		fi
		put $how x to "$1"
		say '\tadd.u64 at, at, jump;'
		say '\tsetp.ge.u64 is, at, m;'
		say '\t@is sub.u64 at, at, m;'
		next $how
	done
	finish
}

minus_infinity() {
	case $1 in
	f16) echo 0xfc00 ;;
	bf16) echo 0xff80 ;;
	f32) echo 0xff800000 ;;
	f64) echo 0xfff0000000000000 ;;
	esac
}

# ---- reductions -------------------------------------------------------------
#
# A warp reduces a chunk of 1024 elements: lane l takes elements l, l + 32 and
# so on in turn, then lanes that differ in bit 4 add up, then bit 3, to bit 0.
# The result depends on the elements alone, not on the launch.

# exchange BITS OF - the register OF of the lane that differs in bit $d, in u.
exchange() {
	if [ "$1" = 32 ]; then
		say '\tshfl.sync.bfly.b32 u, %s, %d, 31, -1;' "$2" "$3"
		return
	fi
	say '\tmov.b64 {low, high}, %s;' "$2"
	say '\tshfl.sync.bfly.b32 low, low, %d, 31, -1;' "$3"
	say '\tshfl.sync.bfly.b32 high, high, %d, 31, -1;' "$3"
	say '\tmov.b64 u, {low, high};'
}

# chunks DTYPE RESULT BITS - head of a kernel that reduces chunks: from
# here on i is the chunk of this warp and step the number of warps.
chunks() {
	say '\t.reg .b32 low, high;'
	say '\t.reg .b64 k, last;'
	say '\t.reg .b%s y0, y1, y2, y3;' "$3"
	parameters 'u64 dst' 'u64 src' 'u64 n'
	stride
	say '\tand.b32 lane, lane, 31;'
	say '\tshr.u64 i, i, 5;'
	say '\tshr.u64 step, step, 5;'
	choose src "$1" dst "$2"
}

# in_chunk HOW - head of the loop over the elements k of chunk i.
in_chunk() {
	say '%s:' "$1"
	say '\tshl.b64 k, i, 10;'
	say '\tsetp.ge.u64 done, k, n;'
	say '\t@done bra end;'
	say '\tadd.u64 last, k, 1024;'
	say '\tmin.u64 last, last, n;'
	say '\tcvt.u64.u32 to, lane;'
	say '\tadd.u64 k, k, to;'
}

# each HOW DTYPE - that loop's body, by fetch and gather of the kernel; four at
# a time where it may be, in the same order.  All lanes leave it before they
# exchange.
each() {
	size=$(bytes_of "$2")
	if [ "$1" = whole ]; then
		say 'whole_four:'
		say '\tadd.u64 to, k, 96;'
		say '\tsetp.ge.u64 done, to, last;'
		say '\t@done bra whole_each;'
		say '\tmad.lo.u64 from, k, %d, src;' "$size"
		for s in 0 1 2 3; do
			fetch whole y$s from+$((s * 32 * size)) "$2"
		done
		for s in 0 1 2 3; do gather y$s "$2"; done
		say '\tadd.u64 k, k, 128;'
		say '\tbra whole_four;'
	fi
	say '%s_each:' "$1"
	say '\tsetp.ge.u64 done, k, last;'
	say '\t@done bra %s_fold;' "$1"
	say '\tmad.lo.u64 from, k, %d, src;' "$size"
	fetch "$1" y0 from "$2"
	gather y0 "$2"
	say '\tadd.u64 k, k, 32;'
	say '\tbra %s_each;' "$1"
	say '%s_fold:' "$1"
	say '\tbar.warp.sync -1;'
}

# Lane 0 writes the chunk's result.
result() {
	address to dst "$2"
	say '\tsetp.ne.u32 is, lane, 0;'
	say '\t@is bra %s_next;' "$1"
	put "$1" x to "$2"
	say '%s_next:' "$1"
	next "$1"
}

# sum DTYPE ACCUMULATED - dst has elements of the second.
sum() {
	v=$(value_of "$2")
	b=$(bits_of "$2")
	case $v in
	f*)
		fetch() { get "$@"; }
		gather() {
			widen g "$1" "$2"
			say '\tadd.rn.%s f, f, g;' "$v"
		}
		;;
	*)
		fetch() { get_wide "$@"; }
		gather() { say '\tadd.u64 x, x, %s;' "$1"; }
		;;
	esac
	say '// dst[c] = the sum of chunk c of src, as %s' "$2"
	kernel "sum_$1" 'u64 dst' 'u64 src' 'u64 n'
	registers "$b"
	case $v in f*) say '\t.reg .%s f, g;' "$v" ;; esac
	chunks "$1" "$2" "$b"
	for how in whole bytes; do
		in_chunk $how
		case $v in
		f32) say '\tmov.f32 f, 0f00000000;' ;;
		f64) say '\tmov.f64 f, 0d0000000000000000;' ;;
		*) say '\tmov.u64 x, 0;' ;;
		esac
		each $how "$1"
		for d in 16 8 4 2 1; do
			case $v in
			f*)
				say '\tmov.b%s x, f;' "$b"
				exchange "$b" x $d
				say '\tmov.b%s g, u;' "$b"
				say '\tadd.rn.%s f, f, g;' "$v"
				;;
			*)
				exchange "$b" x $d
				say '\tadd.u64 x, x, u;'
				;;
			esac
		done
		case $v in f*) say '\tmov.b%s x, f;' "$b" ;; esac
		result $how "$2"
	done
	finish
}

# get_wide HOW REGISTER ADDRESS DTYPE - an integer of any size, as 64 bits.
get_wide() {
	size=$(bytes_of "$4")
	if [ "$1" = whole ] || [ "$size" = 1 ]; then
		case $4 in
		i*) say '\tld.global.s%d %s, [%s];' $((size * 8)) "$2" "$3" ;;
		*) say '\tld.global.u%d %s, [%s];' $((size * 8)) "$2" "$3" ;;
		esac
		return
	fi
	say '\tld.global.u8 %s, [%s];' "$2" "$3"
	at=1
	while [ $at -lt "$size" ]; do
		say '\tld.global.u8 t, [%s+%d];' "$3" $at
		say '\tshl.b64 t, t, %d;' $((at * 8))
		say '\tor.b64 %s, %s, t;' "$2" "$2"
		at=$((at + 1))
	done
	[ "$4" != i32 ] || say '\tcvt.s64.s32 %s, %s;' "$2" "$2"
}

# order TO DTYPE LEAST - the bits in TO as an integer that is ordered as the
# elements are, and NaN beyond the one end or the other: floats have a sign and
# a magnitude, integers do not.
order() {
	case $2 in
	f16) nan=0x7c00 bits=0x7fff lowest=-32768 sign=31 ;;
	bf16) nan=0x7f80 bits=0x7fff lowest=-32768 sign=31 ;;
	f32) nan=0x7f800000 bits=0x7fffffff lowest=0x80000000 sign=31 ;;
	f64)
		nan=0x7ff0000000000000 bits=0x7fffffffffffffff
		lowest=0x8000000000000000 sign=63
		;;
	*) return ;;
	esac
	b=$(bits_of "$2")
	case $2 in *f16) say '\tcvt.s32.s16 %s, %s;' "$1" "$1" ;; esac
	say '\tand.b%s u, %s, %s;' "$b" "$1" $bits
	say '\tsetp.gt.u%s is, u, %s;' "$b" $nan
	say '\tshr.s%s t, %s, %d;' "$b" "$1" $sign
	say '\tand.b%s t, t, %s;' "$b" $bits
	say '\txor.b%s %s, %s, t;' "$b" "$1" "$1"
	[ "$3" = min ] && end=$lowest || end=$bits
	say '\tselp.b%s %s, %s, %s, is;' "$b" "$1" "$end" "$1"
}

# disorder REGISTER DTYPE - and back.
disorder() {
	case $2 in
	f16 | bf16 | f32) sign=31 ;;
	f64) sign=63 ;;
	*) return ;;
	esac
	b=$(bits_of "$2")
	bits=0x7fff
	case $2 in f32) bits=0x7fffffff ;; f64) bits=0x7fffffffffffffff ;; esac
	say '\tshr.s%s t, %s, %d;' "$b" "$1" $sign
	say '\tand.b%s t, t, %s;' "$b" $bits
	say '\txor.b%s %s, %s, t;' "$b" "$1" "$1"
}

# extreme MIN-OR-MAX DTYPE
extreme() {
	b=$(bits_of "$2")
	case $2 in
	u*) as=u$b ;;
	*) as=s$b ;;
	esac
	case $1:$as in
	min:s32) none=0x7fffffff ;;
	min:s64) none=0x7fffffffffffffff ;;
	min:u*) none=-1 ;;
	max:s32) none=0x80000000 ;;
	max:s64) none=0x8000000000000000 ;;
	max:u*) none=0 ;;
	esac
	which=$1
	fetch() { get "$@"; }
	gather() {
		order "$1" "$2" "$which"
		say '\t%s.%s x, x, %s;' "$which" "$as" "$1"
	}
	say '// dst[c] = the %s of chunk c of src; NaN if there is one' "$1"
	kernel "$1_$2" 'u64 dst' 'u64 src' 'u64 n'
	registers "$b"
	chunks "$2" "$2" "$b"
	for how in whole bytes; do
		in_chunk $how
		say '\tmov.b%s x, %s;' "$b" "$none"
		each $how "$2"
		for d in 16 8 4 2 1; do
			exchange "$b" x $d
			say '\t%s.%s x, x, u;' "$1" "$as"
		done
		disorder x "$2"
		result $how "$2"
	done
	finish
}

# ---- the file ---------------------------------------------------------------

cat <<'END'
// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

// The built-in operators for CUDA rows; operators.h says what they compute.
// Printed by operators.sh: change that.
//
// The oldest version that the oldest card needs, so that every driver takes it.

.version 6.4
.target sm_50
.address_size 64

END

floats='f16 bf16 f32 f64'
numbers="u8 u16 u32 u64 i32 i64 $floats"

fill
for t in $floats; do elements scale "$t" "$t"; done
for t in $floats; do elements axpy "$t" "$t"; done
for t in f16:f32 bf16:f32 f32:f16 f32:bf16 f16:bf16 bf16:f16; do
	elements cast "${t%:*}" "${t#*:}"
done
for t in $floats; do
	mask_add "$t" "$t"
	mask_add "$t" u8
done
for t in $numbers; do
	case $t in
	f64) sum "$t" f64 ;;
	*f*) sum "$t" f32 ;;
	i*) sum "$t" i64 ;;
	*) sum "$t" u64 ;;
	esac
done
for t in $numbers; do
	extreme min "$t"
	extreme max "$t"
done
