# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/worker: gpumap-worker.  All but its main() is a library, for tests.
noinst_LTLIBRARIES += %reldir%/libworker.la
%canon_reldir%_libworker_la_SOURCES = \
	%reldir%/across.c %reldir%/across.h \
	%reldir%/across_wire.c \
	%reldir%/replica.c %reldir%/replica.h %reldir%/trial.h \
	%reldir%/batch.h \
	%reldir%/beat.h \
	%reldir%/buffers.c %reldir%/buffers.h \
	%reldir%/bury.c \
	%reldir%/clique.c %reldir%/clique.h %reldir%/clique_meet.c \
	%reldir%/confine.c %reldir%/confine.h \
	%reldir%/cut.c %reldir%/cut.h \
	%reldir%/deficit.h \
	%reldir%/errand.h \
	%reldir%/alloc.c %reldir%/alloc.h \
	%reldir%/errands.c %reldir%/errands.h \
	%reldir%/errands_wire.c \
	%reldir%/ferry.c %reldir%/ferry.h \
	%reldir%/events.c %reldir%/events.h \
	%reldir%/fault.c %reldir%/fault.h \
	%reldir%/flight.c %reldir%/flight.h %reldir%/flights.h \
	%reldir%/flight_look.c \
	%reldir%/flood.h \
	%reldir%/group.c %reldir%/group.h %reldir%/group_sleep.c \
	%reldir%/image.c %reldir%/image.h \
	%reldir%/intake.c %reldir%/intake.h \
	%reldir%/judge.c %reldir%/judge.h \
	%reldir%/load.c %reldir%/load.h %reldir%/loader.h \
	%reldir%/load_ahead.c \
	%reldir%/load_copies.c \
	%reldir%/load_reads.c \
	%reldir%/loop.c \
	%reldir%/member.h \
	%reldir%/outbox.c %reldir%/outbox.h \
	%reldir%/pair.c %reldir%/pair.h \
	%reldir%/reach.c %reldir%/reach.h \
	%reldir%/pass.h \
	%reldir%/relay.c %reldir%/relay.h \
	%reldir%/program.c %reldir%/program.h \
	%reldir%/charge.h %reldir%/roster.c %reldir%/roster.h \
	%reldir%/session.c %reldir%/session.h \
	%reldir%/slow.c %reldir%/slow.h \
	%reldir%/spin.c %reldir%/spin.h \
	%reldir%/staging.c \
	%reldir%/turn.c %reldir%/turn.h \
	%reldir%/uring.c \
	%reldir%/wait.c %reldir%/wait.h \
	%reldir%/worker.h
%canon_reldir%_libworker_la_LIBADD = agent/comm/libcomm.la agent/device/libdevice.la \
	agent/common/libcommon.la shm/libshm.la \
	$(URING_LIBS) $(NUMA_LIBS) $(SECCOMP_LIBS)

pkglibexec_PROGRAMS += %reldir%/gpumap-worker
%canon_reldir%_gpumap_worker_SOURCES = %reldir%/main.c
%canon_reldir%_gpumap_worker_LDADD = %reldir%/libworker.la
