# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/exporter: gpumap-exporter, which sees the agent only through libgpumap.
gm_pages += %reldir%/gpumap-exporter.8
if EXPORTER
sbin_PROGRAMS += %reldir%/gpumap-exporter
%canon_reldir%_gpumap_exporter_SOURCES =
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/target.c %reldir%/target.h
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/cluster_metrics.c
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/cluster_metrics.h
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/exposition.c
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/exposition.h
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/http.c %reldir%/http.h
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/job_metrics.c
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/job_metrics.h
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/labels.c %reldir%/labels.h
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/main.c
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/metrics.c %reldir%/metrics.h
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/textfile.c %reldir%/textfile.h
%canon_reldir%_gpumap_exporter_SOURCES += %reldir%/usage.c %reldir%/usage.h
%canon_reldir%_gpumap_exporter_LDADD = agent/reader/libreader.la \
	lib/libgpumap.la $(MICROHTTPD_LIBS) -lm
%canon_reldir%_gpumap_exporter_CPPFLAGS = $(AM_CPPFLAGS) $(MICROHTTPD_CFLAGS)

gm_man += %reldir%/gpumap-exporter.8
endif
