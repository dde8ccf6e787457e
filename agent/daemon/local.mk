# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT

# agent/daemon: gpumapd.  All but its main() is a library, for the tests.
noinst_LTLIBRARIES += %reldir%/libdaemon.la
%canon_reldir%_libdaemon_la_SOURCES = \
	%reldir%/arrange.c %reldir%/arrange.h \
	%reldir%/changes.c %reldir%/changes.h \
	%reldir%/config.c %reldir%/config.h \
	%reldir%/config_keys.c %reldir%/config_keys.h \
	%reldir%/cudalist.c \
	%reldir%/cudarows.c %reldir%/cudarows.h \
	%reldir%/daemon.c %reldir%/daemon.h \
	%reldir%/devices.c %reldir%/devices.h \
	%reldir%/drains.c %reldir%/drains.h \
	%reldir%/dummyrows.c %reldir%/dummyrows.h \
	%reldir%/files.c %reldir%/files.h \
	%reldir%/heap.c %reldir%/heap.h \
	%reldir%/holders.c %reldir%/holders.h \
	%reldir%/hostrows.c %reldir%/hostrows.h \
	%reldir%/identity.c %reldir%/identity.h \
	%reldir%/judge.c %reldir%/judge.h \
	%reldir%/ledger.c %reldir%/ledger.h \
	%reldir%/lock.c %reldir%/lock.h \
	%reldir%/loop.c %reldir%/loop.h \
	%reldir%/map_changes.c %reldir%/map_changes.h \
	%reldir%/maps.c %reldir%/maps.h \
	%reldir%/probe.c %reldir%/probe.h \
	%reldir%/publish.c %reldir%/publish.h \
	%reldir%/publish_may.c \
	%reldir%/segment.c %reldir%/segment.h \
	%reldir%/state.c %reldir%/state.h \
	%reldir%/state_dir.c %reldir%/state_dir.h \
	%reldir%/state_field.c %reldir%/state_field.h \
	%reldir%/state_files.c %reldir%/state_files.h \
	%reldir%/state_masks.c %reldir%/state_masks.h \
	%reldir%/state_meshes.c %reldir%/state_meshes.h \
	%reldir%/state_text.c %reldir%/state_text.h \
	%reldir%/uring.c %reldir%/uring.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/claims.c %reldir%/claims.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/askers.c %reldir%/askers.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/clerk.c %reldir%/clerk.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/comms.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/comms.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/connection.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/connection.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/control.c %reldir%/control.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/crew.c %reldir%/crew.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/crossings.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/crossings.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/crossing.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/crossing_way.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/death.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/environment.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/environment.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/epochs.c %reldir%/epochs.h
%canon_reldir%_libdaemon_la_SOURCES += \
	%reldir%/rendezvous.c %reldir%/rendezvous.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/exports.c %reldir%/exports.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/gutter.c %reldir%/gutter.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/keeper.c %reldir%/keeper.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/launch.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/lent.c %reldir%/lent.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/memory.c %reldir%/memory.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_change.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_change.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_changes.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_changes.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_device.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_device_asks.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_devices.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/registration.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/registration_mask.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_devices.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_follow.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_judge.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_judge.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_loans.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_peers.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_targets.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_text.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_text.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_uses.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mask_uses.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/masks.c %reldir%/masks.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mesh_changes.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mesh_changes.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/mesh_text.c %reldir%/mesh_text.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/name.c %reldir%/name.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/need.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/nodes.c %reldir%/nodes.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/orphan.c %reldir%/orphan.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/patience.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/peer.c %reldir%/peer.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/paths.c %reldir%/paths.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/plan_changes.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/plan_changes.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/plan_reply.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/plan_reply.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/programs.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/programs.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/quota.c %reldir%/quota.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/readable.c %reldir%/readable.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/registrations.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/registrations.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/release.c %reldir%/release.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/requests.c %reldir%/requests.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/room.c %reldir%/room.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/reuse.c %reldir%/reuse.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/usage.c %reldir%/usage.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/seats.c %reldir%/sessions.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/sessions.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/share.c %reldir%/share.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/share_asks.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/share_claims.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/shared.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/shares.c %reldir%/shares.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/spare.c %reldir%/spare.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/spawn.c %reldir%/spawn.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/spin.c %reldir%/spin.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/wakers.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/supervise.c
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/supervise.h
%canon_reldir%_libdaemon_la_SOURCES += %reldir%/why.c %reldir%/why.h
%canon_reldir%_libdaemon_la_LIBADD = agent/mask/libmask.la

sbin_PROGRAMS += %reldir%/gpumapd
%canon_reldir%_gpumapd_SOURCES = %reldir%/main.c
%canon_reldir%_gpumapd_LDADD = %reldir%/libdaemon.la agent/mesh/libmesh.la \
	agent/plan/libplan.la agent/cuda/libcu.la agent/common/libcommon.la shm/libshm.la \
	$(NUMA_LIBS) $(URING_LIBS)
