# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/daemon: gpumapd.  All but its main() is a library, for the tests.
noinst_LTLIBRARIES += %reldir%/libdaemon.la
%canon_reldir%_libdaemon_la_SOURCES = \
	%reldir%/config.c %reldir%/config.h \
	%reldir%/config_keys.c %reldir%/config_keys.h \
	%reldir%/daemon.c %reldir%/daemon.h \
	%reldir%/subscribers.c %reldir%/subscribers.h \
	%reldir%/worker_uid.c %reldir%/worker_uid.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/account/credit.c %reldir%/account/credit.h \
	%reldir%/account/ledger.c %reldir%/account/ledger.h \
	%reldir%/account/quota.c %reldir%/account/quota.h \
	%reldir%/account/retry_queue.c %reldir%/account/retry_queue.h \
	%reldir%/account/wait_line.c %reldir%/account/wait_line.h \
	%reldir%/account/usage.c %reldir%/account/usage.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/base/connection.c %reldir%/base/connection.h \
	%reldir%/base/deferred_close.c %reldir%/base/deferred_close.h \
	%reldir%/base/environment.c %reldir%/base/environment.h \
	%reldir%/base/events.c %reldir%/base/events.h \
	%reldir%/base/fd_limits.c %reldir%/base/fd_limits.h \
	%reldir%/base/fd_store.c %reldir%/base/fd_store.h \
	%reldir%/base/io_thread.c %reldir%/base/io_thread.h \
	%reldir%/base/loop.c %reldir%/base/loop.h \
	%reldir%/base/memfd.c %reldir%/base/memfd.h \
	%reldir%/base/oom.c %reldir%/base/oom.h \
	%reldir%/base/parts.h \
	%reldir%/base/peercred.c %reldir%/base/peercred.h \
	%reldir%/base/server.h \
	%reldir%/base/session_memory.c %reldir%/base/session_memory.h \
	%reldir%/base/child.c %reldir%/base/child.h \
	%reldir%/base/spawn.c %reldir%/base/spawn.h \
	%reldir%/base/spin.c %reldir%/base/spin.h \
	%reldir%/base/uring.c %reldir%/base/uring.h \
	%reldir%/base/user.c %reldir%/base/user.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/devices/cards.c %reldir%/devices/cards.h \
	%reldir%/devices/dummy.c %reldir%/devices/dummy.h \
	%reldir%/devices/home_node.c %reldir%/devices/home_node.h \
	%reldir%/devices/host.c %reldir%/devices/host.h \
	%reldir%/devices/p2p.c %reldir%/devices/p2p.h \
	%reldir%/devices/reuse.c %reldir%/devices/reuse.h \
	%reldir%/devices/rows.c %reldir%/devices/rows.h \
	%reldir%/devices/uuid.c %reldir%/devices/uuid.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/health/cards.c %reldir%/health/cards.h \
	%reldir%/health/drain.c %reldir%/health/drain.h \
	%reldir%/health/vendors.c %reldir%/health/vendors.h \
	%reldir%/health/reports.c %reldir%/health/reports.h \
	%reldir%/health/watched.c %reldir%/health/watched.h \
	%reldir%/health/watchers.c %reldir%/health/watchers.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/map/calibration.c %reldir%/map/calibration.h \
	%reldir%/map/cordon.c %reldir%/map/cordon.h \
	%reldir%/map/map_kind.c %reldir%/map/map_kind.h \
	%reldir%/map/pins.c %reldir%/map/pins.h \
	%reldir%/map/admit.c %reldir%/map/admit.h \
	%reldir%/map/admit_place.c %reldir%/map/admit_place.h \
	%reldir%/map/admission.c %reldir%/map/admission.h \
	%reldir%/map/room.c %reldir%/map/room.h \
	%reldir%/map/release.c %reldir%/map/release.h \
	%reldir%/map/reserve.c %reldir%/map/reserve.h \
	%reldir%/map/transaction.c %reldir%/map/transaction.h \
	%reldir%/map/turn.c %reldir%/map/turn.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/cluster/cluster.c %reldir%/cluster/cluster.h \
	%reldir%/cluster/nodes.c %reldir%/cluster/nodes.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/masks/device_replicas.c %reldir%/masks/device_replicas.h \
	%reldir%/masks/held.c %reldir%/masks/held.h \
	%reldir%/masks/masks.c %reldir%/masks/masks.h \
	%reldir%/masks/numa_segments.c %reldir%/masks/numa_segments.h \
	%reldir%/masks/peer_copies.c \
	%reldir%/masks/publish.c %reldir%/masks/publish.h \
	%reldir%/masks/replica_loans.c %reldir%/masks/replica_loans.h \
	%reldir%/masks/replica_private.h \
	%reldir%/masks/replica_requests.c \
	%reldir%/masks/replica_table.c \
	%reldir%/masks/republish.c %reldir%/masks/republish.h \
	%reldir%/masks/state.c %reldir%/masks/state.h \
	%reldir%/masks/transaction.c %reldir%/masks/transaction.h \
	%reldir%/masks/validate.c %reldir%/masks/validate.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/meshes/arrange.c %reldir%/meshes/arrange.h \
	%reldir%/meshes/comms.c %reldir%/meshes/comms.h \
	%reldir%/meshes/open_cards.c %reldir%/meshes/open_cards.h \
	%reldir%/meshes/epochs.c %reldir%/meshes/epochs.h \
	%reldir%/meshes/mesh_kind.c %reldir%/meshes/mesh_kind.h \
	%reldir%/meshes/publish.c %reldir%/meshes/publish.h \
	%reldir%/meshes/rendezvous.c %reldir%/meshes/rendezvous.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/segment/block_alloc.c %reldir%/segment/block_alloc.h \
	%reldir%/segment/directory.c %reldir%/segment/directory.h \
	%reldir%/segment/folder.c %reldir%/segment/folder.h \
	%reldir%/segment/lock.c %reldir%/segment/lock.h \
	%reldir%/segment/older.c %reldir%/segment/older.h \
	%reldir%/segment/mount.c %reldir%/segment/mount.h \
	%reldir%/segment/segment.c %reldir%/segment/segment.h \
	%reldir%/segment/validate.c %reldir%/segment/validate.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/sessions/dispatch.c %reldir%/sessions/dispatch.h \
	%reldir%/sessions/list.c %reldir%/sessions/list.h \
	%reldir%/sessions/listener.c %reldir%/sessions/listener.h \
	%reldir%/sessions/map_waits.c %reldir%/sessions/map_waits.h \
	%reldir%/sessions/mask_handles.c %reldir%/sessions/mask_handles.h \
	%reldir%/sessions/programs.c %reldir%/sessions/programs.h \
	%reldir%/sessions/readable.c %reldir%/sessions/readable.h \
	%reldir%/sessions/register.c %reldir%/sessions/register.h \
	%reldir%/sessions/registration.h \
	%reldir%/sessions/registration_mask.c \
	%reldir%/sessions/registration_program.c \
	%reldir%/sessions/session.c %reldir%/sessions/session.h \
	%reldir%/sessions/trace_request.c %reldir%/sessions/trace_request.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/sharing/export_accounting.c \
	%reldir%/sharing/export_accounting.h \
	%reldir%/sharing/exports.c %reldir%/sharing/exports.h \
	%reldir%/sharing/listed.c %reldir%/sharing/listed.h \
	%reldir%/sharing/peer_access.c %reldir%/sharing/peer_access.h \
	%reldir%/sharing/peer_copy.c %reldir%/sharing/peer_copy.h \
	%reldir%/sharing/peer_mapping.c %reldir%/sharing/peer_mapping.h \
	%reldir%/sharing/share.h \
	%reldir%/sharing/share_access.c \
	%reldir%/sharing/share_answer.c %reldir%/sharing/share_answer.h \
	%reldir%/sharing/share_key.c %reldir%/sharing/share_key.h \
	%reldir%/sharing/share_offer.c \
	%reldir%/sharing/share_record.c %reldir%/sharing/share_record.h \
	%reldir%/sharing/share_restore.c \
	%reldir%/sharing/share_request.c %reldir%/sharing/share_request.h \
	%reldir%/sharing/share_store.c %reldir%/sharing/share_store.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/state/dir.c %reldir%/state/dir.h \
	%reldir%/state/file.c %reldir%/state/file.h \
	%reldir%/state/publish.c %reldir%/state/publish.h \
	%reldir%/state/state.c %reldir%/state/state.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/workers/attachment.c %reldir%/workers/attachment.h \
	%reldir%/workers/death.c %reldir%/workers/death.h \
	%reldir%/workers/demand.c %reldir%/workers/demand.h \
	%reldir%/workers/exec.c %reldir%/workers/exec.h \
	%reldir%/workers/job_figures.c %reldir%/workers/job_figures.h \
	%reldir%/workers/program_workers.c %reldir%/workers/program_workers.h \
	%reldir%/workers/row_trace.c %reldir%/workers/row_trace.h \
	%reldir%/workers/stale_worker.c %reldir%/workers/stale_worker.h \
	%reldir%/workers/standby.c %reldir%/workers/standby.h \
	%reldir%/workers/supervisor.c %reldir%/workers/supervisor.h \
	%reldir%/workers/user_queue.c %reldir%/workers/user_queue.h \
	%reldir%/workers/wakeup.c %reldir%/workers/wakeup.h \
	%reldir%/workers/watchdog.c %reldir%/workers/watchdog.h \
	%reldir%/workers/worker_child.c %reldir%/workers/worker_child.h \
	%reldir%/workers/worker_group.c %reldir%/workers/worker_group.h \
	%reldir%/workers/worker_messages.c %reldir%/workers/worker_messages.h \
	%reldir%/workers/worker_process.c %reldir%/workers/worker_process.h \
	%reldir%/workers/worker_request.c %reldir%/workers/worker_request.h \
	%reldir%/workers/worker_users.c %reldir%/workers/worker_users.h
%canon_reldir%_libdaemon_la_LIBADD = agent/mask/libmask.la

sbin_PROGRAMS += %reldir%/gpumapd
%canon_reldir%_gpumapd_SOURCES = %reldir%/main.c
%canon_reldir%_gpumapd_LDADD = %reldir%/libdaemon.la agent/mesh/libmesh.la \
	agent/files/libfiles.la lib/libplan.la agent/cuda/libcu.la agent/common/libcommon.la shm/libshm.la \
	$(NUMA_LIBS) $(URING_LIBS)
