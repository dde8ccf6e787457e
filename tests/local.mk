# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests: TAP programs and scripts, run by make check.
#
# A test of one module is three lines: its name in gm_tests, its _SOURCES, and
# an _LDADD where shm/libshm.la is not what it tests.
LDADD = shm/libshm.la

gm_tests = \
	%reldir%/test_point \
	%reldir%/test_split

%canon_reldir%_test_point_SOURCES = %reldir%/test_point.c %reldir%/tap.h

%canon_reldir%_test_split_SOURCES = %reldir%/test_split.c %reldir%/tap.h
%canon_reldir%_test_split_LDADD = shm/libshm.la -lm

gm_scripts =

check_PROGRAMS += $(gm_tests)
TESTS += $(gm_tests) $(gm_scripts)
EXTRA_DIST += $(gm_scripts)

TEST_EXTENSIONS = .sh
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
	$(top_srcdir)/contrib/build-aux/tap-driver.sh
LOG_DRIVER_FLAGS = --comments
SH_LOG_DRIVER = $(LOG_DRIVER)
SH_LOG_DRIVER_FLAGS = $(LOG_DRIVER_FLAGS)

# What a test may ask its environment for.  GM_BUILD names what this build is
# instrumented with (asan tsan coverage fuzz testpoints), empty in a plain one.
AM_TESTS_ENVIRONMENT = \
	abs_top_srcdir='$(abs_top_srcdir)'; export abs_top_srcdir; \
	abs_top_builddir='$(abs_top_builddir)'; export abs_top_builddir; \
	GPUMAPD='$(abs_top_builddir)/agent/daemon/gpumapd'; export GPUMAPD; \
	GPUMAP_WORKER='$(abs_top_builddir)/agent/worker/gpumap-worker'; \
	export GPUMAP_WORKER; \
	GPUMAPCTL='$(abs_top_builddir)/agent/ctl/gpumapctl'; export GPUMAPCTL; \
	CC='$(CC)'; export CC; NM='$(NM_PROGRAM)'; export NM; \
	GM_BUILD='$(GM_BUILD)'; export GM_BUILD;
