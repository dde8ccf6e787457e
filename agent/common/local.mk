# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/common: what daemon, worker and tools share.
noinst_LTLIBRARIES += %reldir%/libcommon.la
%canon_reldir%_libcommon_la_SOURCES = \
	%reldir%/wire.h
