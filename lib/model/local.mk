# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# lib/model: libgpumap-model, on libgpumap.  Needs libc only.  The libraries are
# beside each other, in lib.
#
# %reldir%/checkpoint reads models and calls nothing of the rest: programs of the
# agent that read models link it as well, and shm/libshm.la after it.
noinst_LTLIBRARIES += lib/libcheckpoint.la
lib_libcheckpoint_la_SOURCES = \
	%reldir%/checkpoint/cache.c \
	%reldir%/checkpoint/checkpoint.c \
	%reldir%/checkpoint/checkpoint.h \
	%reldir%/checkpoint/config.c \
	%reldir%/checkpoint/fingerprint.c \
	%reldir%/checkpoint/gguf.c \
	%reldir%/checkpoint/header.c \
	%reldir%/checkpoint/index.c \
	%reldir%/checkpoint/json_scan.c \
	%reldir%/checkpoint/json_scan.h \
	%reldir%/checkpoint/layers.c \
	%reldir%/checkpoint/sizes.c \
	%reldir%/checkpoint/types.c

# An archive of its own, as lib/libclient.la is, which comes after it.
noinst_LTLIBRARIES += lib/libmodel.la
lib_libmodel_la_SOURCES = \
	%reldir%/begin.c \
	%reldir%/engines/accelerate.c \
	%reldir%/engines/devices.c \
	%reldir%/engines/engine.h \
	%reldir%/engines/export.c \
	%reldir%/engines/llama_cpp.c \
	%reldir%/engines/mistral_rs.c \
	%reldir%/engines/pipeline.c \
	%reldir%/load.c \
	%reldir%/measure.c \
	%reldir%/model.c %reldir%/model.h \
	%reldir%/place.c \
	%reldir%/plan.c \
	%reldir%/share.c \
	%reldir%/state.c \
	%reldir%/table.c %reldir%/table.h
lib_libmodel_la_LIBADD = lib/libplan.la lib/libcheckpoint.la

lib_LTLIBRARIES += lib/libgpumap-model.la
lib_libgpumap_model_la_SOURCES =
lib_libgpumap_model_la_LIBADD = lib/libmodel.la lib/libgpumap.la shm/libshm.la
# A session, which is libgpumap's, keeps its functions until it is closed.
lib_libgpumap_model_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined -Wl,-z,nodelete \
	-version-info $(GM_LIBVERSION) \
	-Wl,--version-script=$(srcdir)/%reldir%/libgpumap-model.map
lib_libgpumap_model_la_DEPENDENCIES = lib/libmodel.la lib/libgpumap.la \
	shm/libshm.la %reldir%/libgpumap-model.map

include $(top_srcdir)/lib/model/plan/local.mk

gpumapinclude_HEADERS += include/gpumap/engine.h
gpumapinclude_HEADERS += include/gpumap/model.h
gpumapinclude_HEADERS += include/gpumap/plan.h

pkgconfig_DATA += %reldir%/gpumap-model.pc

gm_man += %reldir%/gpumap-model.3

EXTRA_DIST += %reldir%/libgpumap-model.map
