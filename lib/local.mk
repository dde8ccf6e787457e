# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# lib: libgpumap, the client side.  Needs libc only.
#
# lib/checkpoint reads models and calls nothing of the rest: programs of the
# agent that read models link it as well, and shm/libshm.la after it.
noinst_LTLIBRARIES += %reldir%/libcheckpoint.la
%canon_reldir%_libcheckpoint_la_SOURCES = \
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

# The code is in an archive of its own so that tests can reach what the library
# hides.
noinst_LTLIBRARIES += %reldir%/libclient.la
%canon_reldir%_libclient_la_SOURCES = \
	%reldir%/arena.c \
	%reldir%/arena.h \
	%reldir%/attach.c \
	%reldir%/buffers.c %reldir%/buffers.h \
	%reldir%/change.c \
	%reldir%/choose.c \
	%reldir%/client_memory_file.c \
	%reldir%/cluster.c \
	%reldir%/comm.c \
	%reldir%/control.c \
	%reldir%/engines/accelerate.c \
	%reldir%/engines/devices.c \
	%reldir%/engines/engine.h \
	%reldir%/engines/export.c \
	%reldir%/engines/llama_cpp.c \
	%reldir%/engines/mistral_rs.c \
	%reldir%/engines/pipeline.c \
	%reldir%/errors.c \
	%reldir%/container_devices.c \
	%reldir%/file.c \
	%reldir%/fork_guard.c \
	%reldir%/health.c \
	%reldir%/huge_pages.c %reldir%/huge_pages.h \
	%reldir%/internal.h \
	%reldir%/layers.c \
	%reldir%/mask.c \
	%reldir%/mask_publish.c \
	%reldir%/mesh_join.c \
	%reldir%/mask_use.c %reldir%/mask_use.h \
	%reldir%/mesh_publish.c \
	%reldir%/meshes.c \
	%reldir%/model.c \
	%reldir%/model.h \
	%reldir%/model_load.c \
	%reldir%/model_measure.c \
	%reldir%/model_place.c \
	%reldir%/model_share.c \
	%reldir%/model_table.c \
	%reldir%/model_table.h \
	%reldir%/named_file.c \
	%reldir%/part_jobs.c \
	%reldir%/parts.c \
	%reldir%/private.h \
	%reldir%/handle_check.c %reldir%/handle_check.h \
	%reldir%/plan.c \
	%reldir%/policy.c \
	%reldir%/programs.c %reldir%/programs.h \
	%reldir%/publish.c \
	%reldir%/read.c \
	%reldir%/ready.c \
	%reldir%/refusal.c \
	%reldir%/scatter.c \
	%reldir%/scatter_combine.c %reldir%/scatter_combine.h \
	%reldir%/session.c \
	%reldir%/trace.c \
	%reldir%/shares.c \
	%reldir%/shares.h \
	%reldir%/spread.c %reldir%/spread.h \
	%reldir%/submit.c \
	%reldir%/view.c \
	%reldir%/cuda_visible_devices.c \
	%reldir%/cuda_visible_devices.h \
	%reldir%/wait.c \
	%reldir%/who.c
%canon_reldir%_libclient_la_LIBADD = %reldir%/libcheckpoint.la

lib_LTLIBRARIES += %reldir%/libgpumap.la
%canon_reldir%_libgpumap_la_SOURCES =
%canon_reldir%_libgpumap_la_LIBADD = %reldir%/libclient.la shm/libshm.la
%canon_reldir%_libgpumap_la_LDFLAGS = $(AM_LDFLAGS) -no-undefined \
	-version-info $(GM_LIBVERSION) \
	-Wl,--version-script=$(srcdir)/%reldir%/libgpumap.map
# Named here so that a change to the map links again.
%canon_reldir%_libgpumap_la_DEPENDENCIES = \
	%reldir%/libclient.la shm/libshm.la %reldir%/libgpumap.map

# Headers for clients: include_HEADERS land in <...>, the nested ones in
# <gpumap/...>.
gpumapincludedir = $(includedir)/gpumap
gpumapinclude_HEADERS =
gpumapinclude_HEADERS += include/gpumap/buffer.h
gpumapinclude_HEADERS += include/gpumap/cluster.h
gpumapinclude_HEADERS += include/gpumap/collective.h
gpumapinclude_HEADERS += include/gpumap/cuda.h
gpumapinclude_HEADERS += include/gpumap/engine.h
gpumapinclude_HEADERS += include/gpumap/job.h
gpumapinclude_HEADERS += include/gpumap/layers.h
gpumapinclude_HEADERS += include/gpumap/map.h
gpumapinclude_HEADERS += include/gpumap/mask.h
gpumapinclude_HEADERS += include/gpumap/mesh.h
gpumapinclude_HEADERS += include/gpumap/model.h
gpumapinclude_HEADERS += include/gpumap/nccl.h
gpumapinclude_HEADERS += include/gpumap/plan.h
gpumapinclude_HEADERS += include/gpumap/policy.h
gpumapinclude_HEADERS += include/gpumap/program.h
gpumapinclude_HEADERS += include/gpumap/session.h
gpumapinclude_HEADERS += include/gpumap/share.h
gpumapinclude_HEADERS += include/gpumap/trace.h
gpumapinclude_HEADERS += include/gpumap/types.h
gpumapinclude_HEADERS += include/gpumap/uring.h
gpumapinclude_HEADERS += include/gpumap/view.h
include_HEADERS += include/gpumap.h

pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = %reldir%/gpumap.pc

gm_man += %reldir%/gpumap.3 %reldir%/gpumap.7

EXTRA_DIST += %reldir%/libgpumap.map
