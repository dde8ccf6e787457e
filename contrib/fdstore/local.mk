# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib/fdstore: gpumap-fdstore, which keeps gpumapd's shares over its restarts
# where systemd does not.
if AGENT
sbin_PROGRAMS += %reldir%/gpumap-fdstore
%canon_reldir%_gpumap_fdstore_SOURCES = %reldir%/main.c \
	%reldir%/store.c %reldir%/store.h
%canon_reldir%_gpumap_fdstore_LDADD = agent/common/libcommon.la

gm_man += %reldir%/gpumap-fdstore.8
endif
