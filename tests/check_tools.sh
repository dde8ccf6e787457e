#!/bin/sh
# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# The programs in Python: each test of contrib/python/tests/tools.

. "${abs_top_srcdir:?run me by make check}/tests/tap.sh"

built=${GPUMAP_EXEC_PATH:?}
if [ ! -d "$built" ] || [ -z "${TOOL_PYTHON-}" ]; then
	skip "the programs in Python" "built without Python"
	tap_done
elif ! $TOOL_PYTHON -c 'import pytest' 2>/dev/null; then
	skip "the programs in Python" "there is no pytest (Debian: python3-pytest)"
	tap_done
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/gpumap-tools.XXXXXX") || exit 99
trap 'rm -rf "$folder"' EXIT

cd "$abs_top_srcdir/contrib/python/tests/tools" || exit 1
GPUMAP_BUILD=${abs_top_builddir:?} GPUMAP_TAP=$folder/tap PYTHONPATH=$built \
	PYTHONDONTWRITEBYTECODE=1 $TOOL_PYTHON -m pytest -q -p no:cacheprovider \
	>"$folder/said" 2>&1
status=$?
while IFS= read -r line; do
	name=${line#* - }
	case $line in
	*' # SKIP '*) skip "${name% # SKIP *}" "${name##* # SKIP }" ;;
	'not ok'*) check "$name" failed ;;
	*) check "$name" ;;
	esac
done <"$folder/tap"
check "pytest ends well" "$([ $status -eq 0 ] || cat "$folder/said")"
tap_done
