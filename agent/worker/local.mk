# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/worker: gpumap-worker.  All but its main() is a library, for tests.
noinst_LTLIBRARIES += %reldir%/libworker.la
%canon_reldir%_libworker_la_SOURCES = \
	%reldir%/loop.c \
	%reldir%/recover.c \
	%reldir%/uring.c \
	%reldir%/worker.h
%canon_reldir%_libworker_la_SOURCES += \
	%reldir%/collective/collective.c %reldir%/collective/collective.h \
	%reldir%/collective/member.h \
	%reldir%/collective/nccl_group.c %reldir%/collective/nccl_group.h \
	%reldir%/collective/nccl_group_init.c \
	%reldir%/collective/staged.c %reldir%/collective/staged.h \
	%reldir%/collective/wait.c
%canon_reldir%_libworker_la_SOURCES += \
	%reldir%/control/agent_socket.c %reldir%/control/agent_socket.h \
	%reldir%/control/async_op.c %reldir%/control/async_op.h \
	%reldir%/control/async_op_control.c \
	%reldir%/control/async_op_private.h \
	%reldir%/control/blocking_thread.c %reldir%/control/blocking_thread.h \
	%reldir%/control/io_events.c %reldir%/control/io_events.h \
	%reldir%/control/job_trace.c %reldir%/control/job_trace.h \
	%reldir%/control/sandbox.c %reldir%/control/sandbox.h \
	%reldir%/control/send_queue.c %reldir%/control/send_queue.h
%canon_reldir%_libworker_la_SOURCES += \
	%reldir%/io/aligned_read.c %reldir%/io/aligned_read.h \
	%reldir%/io/load.c %reldir%/io/load.h \
	%reldir%/io/load_ahead.c \
	%reldir%/io/load_copies.c \
	%reldir%/io/load_private.h \
	%reldir%/io/load_reads.c \
	%reldir%/io/mask_upload.c %reldir%/io/mask_upload.h \
	%reldir%/io/remote_copy.c %reldir%/io/remote_copy.h \
	%reldir%/io/remote_copy_control.c \
	%reldir%/io/remote_copy_queue.c %reldir%/io/remote_copy_queue.h \
	%reldir%/io/test_pattern.h
%canon_reldir%_libworker_la_SOURCES += \
	%reldir%/memory/alloc.c %reldir%/memory/alloc.h \
	%reldir%/memory/arena_regions.c %reldir%/memory/arena_regions.h \
	%reldir%/memory/buffers.c %reldir%/memory/buffers.h \
	%reldir%/memory/sigbus.c %reldir%/memory/sigbus.h \
	%reldir%/memory/stall_guard.c %reldir%/memory/stall_guard.h \
	%reldir%/memory/staging.c %reldir%/memory/staging.h
%canon_reldir%_libworker_la_SOURCES += \
	%reldir%/programs/code_validate.c %reldir%/programs/code_validate.h \
	%reldir%/programs/program.c %reldir%/programs/program.h
%canon_reldir%_libworker_la_SOURCES += \
	%reldir%/queue/accounting.h \
	%reldir%/queue/async_exec.c %reldir%/queue/async_exec.h \
	%reldir%/queue/async_exec_poll.c \
	%reldir%/queue/async_exec_private.h \
	%reldir%/queue/batch.h \
	%reldir%/queue/decode.c %reldir%/queue/decode.h \
	%reldir%/queue/dependency.c %reldir%/queue/dependency.h \
	%reldir%/queue/doorbell_limit.h \
	%reldir%/queue/drr.h \
	%reldir%/queue/fetch.c %reldir%/queue/fetch.h \
	%reldir%/queue/heartbeat.h \
	%reldir%/queue/job_clock.c %reldir%/queue/job_clock.h \
	%reldir%/queue/quantum.c %reldir%/queue/quantum.h \
	%reldir%/queue/run_queue.c %reldir%/queue/run_queue.h \
	%reldir%/queue/schedule.h \
	%reldir%/queue/session.c %reldir%/queue/session.h \
	%reldir%/queue/spin.c %reldir%/queue/spin.h
%canon_reldir%_libworker_la_LIBADD = agent/comm/libcomm.la agent/device/libdevice.la \
	agent/common/libcommon.la shm/libshm.la \
	$(URING_LIBS) $(NUMA_LIBS) $(SECCOMP_LIBS)

pkglibexec_PROGRAMS += %reldir%/gpumap-worker
%canon_reldir%_gpumap_worker_SOURCES = %reldir%/main.c
%canon_reldir%_gpumap_worker_LDADD = %reldir%/libworker.la

pkglibexec_PROGRAMS += %reldir%/gpumap-build
%canon_reldir%_gpumap_build_SOURCES = %reldir%/build.c
%canon_reldir%_gpumap_build_LDADD = %reldir%/libworker.la
