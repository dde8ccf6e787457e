# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent: one folder per process or concern.  The libraries come first, then the
# programs that link them.
include $(top_srcdir)/agent/common/local.mk
include $(top_srcdir)/agent/files/local.mk
include $(top_srcdir)/agent/mask/local.mk
include $(top_srcdir)/agent/mesh/local.mk
include $(top_srcdir)/agent/reader/local.mk
include $(top_srcdir)/agent/cuda/local.mk
include $(top_srcdir)/agent/device/local.mk
include $(top_srcdir)/agent/comm/local.mk
include $(top_srcdir)/agent/daemon/local.mk
include $(top_srcdir)/agent/worker/local.mk
include $(top_srcdir)/agent/probe/local.mk
include $(top_srcdir)/agent/ctl/local.mk

EXTRA_DIST += %reldir%/README.md %reldir%/gpumapd.conf.awk

# The configurations with each key, commented: for packages, and to read.
gm_confs = %reldir%/gpumapd.conf
if PYTHON
gm_confs += %reldir%/gpumap-sync.conf
endif
doc_DATA += $(gm_confs)
CLEANFILES += $(gm_confs)

%reldir%/gpumapd.conf: %reldir%/gpumapd.conf.5.scd
%reldir%/gpumap-sync.conf: %reldir%/gpumap-sync.conf.5.scd
$(gm_confs): %reldir%/gpumapd.conf.awk
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(AWK) -f $(srcdir)/%reldir%/gpumapd.conf.awk \
	  $(srcdir)/$@.5.scd >$@.tmp && mv $@.tmp $@

gm_man += %reldir%/gpumap-node.5
gm_man += %reldir%/gpumapctl.1 %reldir%/gpumapctl-run.1
gm_man += %reldir%/gpumapctl-cluster.1
gm_man += %reldir%/gpumapd.8 %reldir%/gpumapd.conf.5
gm_pages += %reldir%/gpumap-sync.8 %reldir%/gpumap-sync.conf.5
if PYTHON
gm_man += %reldir%/gpumap-sync.8 %reldir%/gpumap-sync.conf.5
endif
