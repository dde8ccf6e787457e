# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# contrib: what is shipped beside the code, and the manual pages.
EXTRA_DIST += $(gm_pages:=.scd) \
	README.md .clang-format .editorconfig .ci/bare .ci/run .ci/nightly .reuse/dep5 \
	.github/CONTRIBUTING.md .github/SECURITY.md \
	%reldir%/quickstart %reldir%/check-gpu %reldir%/pictures/screen \
	%reldir%/pictures/top.svg %reldir%/pictures/topo.svg \
	LICENSES/MIT.txt LICENSES/CC0-1.0.txt

include $(top_srcdir)/%reldir%/container/local.mk
include $(top_srcdir)/%reldir%/debian/local.mk
include $(top_srcdir)/%reldir%/apparmor/local.mk
include $(top_srcdir)/%reldir%/bpftrace/local.mk
include $(top_srcdir)/%reldir%/completion/local.mk
include $(top_srcdir)/%reldir%/etcd/local.mk
include $(top_srcdir)/%reldir%/exporter/local.mk
include $(top_srcdir)/%reldir%/fdstore/local.mk
include $(top_srcdir)/%reldir%/python/local.mk
include $(top_srcdir)/%reldir%/rpm/local.mk
include $(top_srcdir)/%reldir%/rust/local.mk
include $(top_srcdir)/%reldir%/systemd/local.mk

if MAN
man_MANS = $(gm_man)
EXTRA_DIST += $(gm_pages)
endif

# Words to type are broken at no hyphen: man's own .nh ends at .TH.
SUFFIXES = .scd
.scd:
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(SCDOC) <$< >$@.tmp && \
	  $(AWK) '{ print } /^\.TH / { print ".nh" }' $@.tmp >$@.nh && \
	  mv $@.nh $@ && rm $@.tmp
MAINTAINERCLEANFILES = $(gm_pages)
