# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# tests/fake: what stands in for a driver and its cards, for tests only.  The
# libraries bear the driver's own names, so nothing here is ever installed.
check_LTLIBRARIES += %reldir%/libhardware.la
%canon_reldir%_libhardware_la_SOURCES = \
	%reldir%/hardware.c %reldir%/hardware.h \
	%reldir%/plan.c %reldir%/plan.h

check_LTLIBRARIES += %reldir%/libmachine.la
%canon_reldir%_libmachine_la_SOURCES = %reldir%/machine.c %reldir%/machine.h
%canon_reldir%_libmachine_la_LIBADD = %reldir%/libhardware.la \
	agent/plan/libplan.la

check_PROGRAMS += %reldir%/stand-in
%canon_reldir%_stand_in_SOURCES = %reldir%/stand_in.c
%canon_reldir%_stand_in_LDADD = %reldir%/libmachine.la -lpthread

gm_tests += tests/test_fake_plan
tests_test_fake_plan_SOURCES = tests/test_fake_plan.c tests/tap.h
tests_test_fake_plan_LDADD = %reldir%/libhardware.la -lpthread
