# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/ctl: gpumapctl, which sees the agent only through libgpumap.
bin_PROGRAMS += %reldir%/gpumapctl
%canon_reldir%_gpumapctl_SOURCES = %reldir%/clock.c %reldir%/clock.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/ctl.c %reldir%/ctl.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/commands.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/complete.c
nodist_%canon_reldir%_gpumapctl_SOURCES = %reldir%/completion_scripts.h
%canon_reldir%_gpumapctl_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_builddir)
%canon_reldir%_gpumapctl_SOURCES += %reldir%/devices.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/drain.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/collective.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/export.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/fields.c %reldir%/fields.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/load.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/main.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/maps.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/mask.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/mesh.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/options.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/parse.c %reldir%/parse.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/plan.c %reldir%/plan.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/plan_nodes.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/plan_nodes.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/plan_nodes_ranks.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/plan_nodes_show.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/plan_read.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/plan_show.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/policy.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/progress.c %reldir%/progress.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/progress_text.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/run/run.c %reldir%/run/run.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/run/run_environment.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/run/run_start.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/scatter.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/show.c
%canon_reldir%_gpumapctl_SOURCES += %reldir%/usage.c %reldir%/usage.h
%canon_reldir%_gpumapctl_SOURCES += %reldir%/who.c
%canon_reldir%_gpumapctl_LDADD = agent/mask/libmask.la \
	agent/files/libfiles.la lib/libplan.la agent/mesh/libmesh.la agent/reader/libreader.la agent/common/libcommon.la \
	lib/libcheckpoint.la shm/libshm.la lib/libgpumap-model.la \
	lib/libgpumap.la $(JANSSON_LIBS) $(NUMA_LIBS) -lpthread
