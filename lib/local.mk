# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# lib: libgpumap, the client side.  Needs libc only.

# The code is in an archive of its own so that tests can reach what the library
# hides.
noinst_LTLIBRARIES += %reldir%/libclient.la
%canon_reldir%_libclient_la_SOURCES = \
	%reldir%/arena.c \
	%reldir%/arena.h \
	%reldir%/attach.c \
	%reldir%/buffers.c \
	%reldir%/change.c \
	%reldir%/choose.c \
	%reldir%/client_memory_file.c \
	%reldir%/cluster.c \
	%reldir%/comm.c \
	%reldir%/control.c \
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
	%reldir%/mask_use.c \
	%reldir%/mesh_publish.c \
	%reldir%/meshes.c \
	%reldir%/named_file.c \
	%reldir%/part_jobs.c \
	%reldir%/parts.c \
	%reldir%/private.h \
	%reldir%/handle_check.c \
	%reldir%/policy.c \
	%reldir%/programs.c \
	%reldir%/publish.c \
	%reldir%/read.c \
	%reldir%/ready.c \
	%reldir%/refusal.c \
	%reldir%/scatter.c \
	%reldir%/scatter_combine.c %reldir%/scatter_combine.h \
	%reldir%/session.c \
	%reldir%/trace.c \
	%reldir%/shares.c \
	%reldir%/spread.c %reldir%/spread.h \
	%reldir%/submit.c \
	%reldir%/view.c \
	%reldir%/cuda_visible_devices.c \
	%reldir%/cuda_visible_devices.h \
	%reldir%/wait.c \
	%reldir%/who.c

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
gpumapinclude_HEADERS += include/gpumap/job.h
gpumapinclude_HEADERS += include/gpumap/layers.h
gpumapinclude_HEADERS += include/gpumap/map.h
gpumapinclude_HEADERS += include/gpumap/mask.h
gpumapinclude_HEADERS += include/gpumap/mesh.h
gpumapinclude_HEADERS += include/gpumap/nccl.h
gpumapinclude_HEADERS += include/gpumap/policy.h
gpumapinclude_HEADERS += include/gpumap/program.h
gpumapinclude_HEADERS += include/gpumap/reservation.h
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

include $(top_srcdir)/lib/model/local.mk
