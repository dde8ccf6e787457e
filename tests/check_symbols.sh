#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The headers declare, the symbol maps list and the libraries export the same
# symbols; libgpumap needs libc only, and libgpumap-model libgpumap besides, of the
# same release, which it calls by what that exports.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"

cd "$abs_top_srcdir" || exit 1
built=${abs_top_builddir:?}/lib/.libs
map=lib/libgpumap.map
model_map=lib/model/libgpumap-model.map
model_headers='include/gpumap/engine.h include/gpumap/model.h include/gpumap/plan.h'
release=$(sed -nE 's/^m4_define\(\[gm_version\], \[([0-9.]*).*/\1/p' configure.ac)

# Public functions: the word before the parenthesis in each GPUMAP_API
# declaration, comments and preprocessor lines taken out first.
declared() {
	sed -e 's|/\*.*\*/||g' -e '\|/\*|,\|\*/|d' -e '/^[ \t]*#/d' "$@" |
		tr '\n\t' '  ' | tr ';{}' '[\n*]' |
		sed -nE 's/.*GPUMAP_API[^(]*[ *](gpumap_[a-z0-9_]+) *\(.*/\1/p' |
		sort -u
}

# mapped PREFIX MAP
mapped() {
	sed -nE "s/^[ \t]*($1_[a-z0-9_]+);.*/\1/p" "$2" | sort -u
}

# symbols LIBRARY OPTION
symbols() {
	"${NM:-nm}" -D "$2" "$built/$1.so" |
		awk '$2 != "A" { sub(/@.*/, "", $NF); print $NF }' | sort -u
}

# only NAME A B - complain about the lines of A that B lacks.
only() {
	while IFS= read -r symbol; do
		[ -z "$symbol" ] || printf '%s\n' "$3" | grep -qx "$symbol" ||
			echo "$symbol $1"
	done <<-END
	$2
	END
}

# needed LIBRARY NAME... - what it needs besides libc and these.
needed() {
	library=$1
	shift
	readelf -d "$built/$library.so" |
		sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -Ev '^(libc\.|ld-linux|ld-musl)' | grep -vxF "$@"
}

# agree LIBRARY MAP DECLARED PRIVATE - headers, map and library.
agree() {
	m=$(mapped gpumap "$2") e=$(symbols "$1" --defined-only)
	check "each declared function is in the map of $1" \
		"$(only "is not in $2" "$3" "$m")"
	check "each function in the map of $1 is declared" \
		"$(only 'is not in include/' "$m" "$3")"
	check "each function in the map of $1 is exported" \
		"$(only "is not in $1.so" "$m
$4" "$e")"
	if [ -n "$GM_BUILD" ]; then
		skip "nothing else is exported by $1" "build is $GM_BUILD"
	else
		check "nothing else is exported by $1" \
			"$(only "is not in $2" "$e" "$m
$4")"
	fi
}

# shellcheck disable=SC2046,SC2086 # lists of names
agree libgpumap $map "$(declared $(printf '%s\n' include/*.h include/gpumap/*.h |
	grep -vxF "$(printf '%s\n' $model_headers)"))" "$(mapped gm $map)"
# shellcheck disable=SC2086
agree libgpumap-model $model_map "$(declared $model_headers)" ''

# The private ones are those of two headers, and each is called.
private=$(sed -nE 's/.*GM_PRIVATE .*[ *](gm_[a-z0-9_]+)\(.*/\1/p; /GM_PRIVATE [^(]*$/{
	N
	s/.*[ *\n](gm_[a-z0-9_]+)\(.*/\1/p
	}' lib/private.h lib/cuda_visible_devices.h | sort -u)
check "the private functions are those of the map" \
	"$(only "is not in $map" "$private" "$(mapped gm $map)"
	only 'is declared in no header' "$(mapped gm $map)" "$private")"
check "the node of the private functions has the release" \
	"$(grep -qF "GPUMAP_PRIVATE_$release {" $map ||
		echo "$map has no GPUMAP_PRIVATE_$release")"
if [ -n "$GM_BUILD" ]; then
	skip "the libraries need libc only" "build is $GM_BUILD"
	skip "libgpumap-model calls each private function" "build is $GM_BUILD"
else
	check "the libraries need libc only" "$(needed libgpumap ''
		needed libgpumap-model libgpumap.so.0)"
	check "libgpumap-model calls each private function" \
		"$(only 'is not called' "$(mapped gm $map)" \
			"$(symbols libgpumap-model --undefined-only)")"
fi

# A session calls it until the session is closed.
check "libgpumap-model is not unloaded" "$(readelf -d "$built/libgpumap-model.so" |
	grep -q NODELETE || echo "it has no flag NODELETE")"

# gpumapd and gpumap-worker link readers and placement without libgpumap.
check "readers and placement call nothing of libgpumap" "$("${NM:-nm}" \
	"$built/libcheckpoint.a" "$built/libplan.a" \
	"$built/../../shm/.libs/libshm.a" | awk '
	NF > 1 && $(NF - 1) ~ /[TDBR]/ { has[$NF] = 1 }
	NF > 1 && $(NF - 1) == "U" { wants[$NF] = 1 }
	END {
		for (name in wants)
			if (name ~ /^(gm|gpumap)_/ && !(name in has))
				print name
	}')"

# A libgpumap of another release is refused when the program starts.
folder=$(mktemp -d "${TMPDIR:-/tmp}/gpumap-symbols.XXXXXX") || exit 99
trap 'rm -rf "$folder"' EXIT
refused() {
	sed "s/GPUMAP_PRIVATE_$release/GPUMAP_PRIVATE_0.0.1/" $map \
		>"$folder/other.map"
	{
		mapped gpumap $map
		mapped gm $map
	} | sed 's/.*/void &(void) {}/' >"$folder/other.c"
	echo 'int main(void) { return 0; }' >"$folder/main.c"
	# shellcheck disable=SC2086 # CC may carry flags
	${CC:-cc} -w -fPIC -shared -Wl,-soname,libgpumap.so.0 \
		-Wl,--version-script="$folder/other.map" "$folder/other.c" \
		-o "$folder/libgpumap.so.0" &&
		${CC:-cc} "$folder/main.c" -o "$folder/main" -Wl,--no-as-needed \
			-L"$built" -Wl,-rpath-link,"$built" -lgpumap-model || return
	said=$(LD_LIBRARY_PATH=$built "$folder/main" 2>&1) ||
		echo "with the same release: $said"
	said=$(LD_LIBRARY_PATH=$folder:$built "$folder/main" 2>&1) &&
		echo "another release was taken"
	case $said in
	*GPUMAP_PRIVATE_$release*) ;;
	*) echo "no such version is named: $said" ;;
	esac
}
case $GM_BUILD in
*asan* | *tsan* | *fuzz*)
	skip "another release is refused" "build is $GM_BUILD" ;;
*)
	check "another release is refused" "$(refused 2>&1)" ;;
esac
tap_done
