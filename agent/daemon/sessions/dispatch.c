/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/sessions/dispatch.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/account/wait_line.h"
#include "agent/daemon/base/loop.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/cluster/cluster.h"
#include "agent/daemon/config.h"
#include "agent/daemon/health/drain.h"
#include "agent/daemon/map/admit.h"
#include "agent/daemon/map/calibration.h"
#include "agent/daemon/map/cordon.h"
#include "agent/daemon/map/pins.h"
#include "agent/daemon/map/release.h"
#include "agent/daemon/masks/device_replicas.h"
#include "agent/daemon/masks/masks.h"
#include "agent/daemon/masks/numa_segments.h"
#include "agent/daemon/masks/publish.h"
#include "agent/daemon/masks/replica_loans.h"
#include "agent/daemon/meshes/comms.h"
#include "agent/daemon/meshes/publish.h"
#include "agent/daemon/meshes/rendezvous.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/mount.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/sessions/map_waits.h"
#include "agent/daemon/sessions/list.h"
#include "agent/daemon/sessions/mask_handles.h"
#include "agent/daemon/sessions/programs.h"
#include "agent/daemon/sessions/registration.h"
#include "agent/daemon/sessions/session.h"
#include "agent/daemon/sessions/trace_request.h"
#include "agent/daemon/sharing/exports.h"
#include "agent/daemon/sharing/peer_access.h"
#include "agent/daemon/sharing/share_request.h"
#include "gpumap.h"
#include "shm/control_comm.h"
#include "shm/queue.h"

/* The text in a fixed field, or NULL when it has no end. */
static const char *text_of(const char *field, size_t bytes)
{
	return memchr(field, '\0', bytes) ? field : NULL;
}

/* ---- HELLO ------------------------------------------------------------- */

static void be_known(struct gm_connection *c)
{
	if (c->said_hello)
		return;
	TAILQ_REMOVE(&c->server->silent, c, entry);
	c->said_hello = true;
	TAILQ_INSERT_TAIL(&c->server->known, c, entry);
}

/* One connection too many gets this one answer. */
static int turn_away(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_config *config = c->server->d->config;
	bool own = c->user->connections >= config->connections_per_uid;

	gm_connection_bad(
		c, -EUSERS,
		"%u connections are open, which is the limit; close some, or "
		"raise %s in [limits] of gpumapd.conf",
		own ? c->user->connections
		    : c->server->n_connections - c->server->n_refused,
		own ? "connections-per-uid" : "connections");
	gm_connection_refuse(c, &r->header, -EUSERS, c->server->why);
	gm_connection_drop(c, GM_DROP_REFUSED, NULL);
	return 0;
}

static int handle_hello(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_hello *hello = (const void *)r->body;
	struct gm_hello_reply reply = {
		.layout_major = GM_LAYOUT_MAJOR,
		.layout_minor = GM_LAYOUT_MINOR,
		.epoch = c->server->d->segment->epoch,
		.agent_pid = (uint32_t)getpid(),
	};
	struct stat st;

	if (fstat(c->server->d->segment->fd, &st) == 0) {
		reply.segment_dev = st.st_dev;
		reply.segment_ino = st.st_ino;
	}
	if (!gm_connection_let_in(c))
		return turn_away(c, r);
	if (hello->layout_major != GM_LAYOUT_MAJOR ||
	    hello->layout != gm_layout_hash())
		return gm_connection_bad(
			c, -EPROTO,
			"the client's layout is %u.%u (%016llx), this agent's "
			"%u.%u (%016llx); use a library of the same release",
			hello->layout_major, hello->layout_minor,
			(unsigned long long)hello->layout, GM_LAYOUT_MAJOR,
			GM_LAYOUT_MINOR, (unsigned long long)gm_layout_hash());
	be_known(c);
	return gm_connection_reply_body(c, &r->header, &reply, sizeof(reply));
}

/* ---- MAP --------------------------------------------------------------- */

/* Root and our own user may write the file, so they get no plain descriptor. */
static int refuse_plain(struct gm_connection *c, int error)
{
	return gm_connection_bad(
		c, -EPERM,
		"the segment cannot be mounted read-only (%s); give gpumapd "
		"CAP_SYS_ADMIN, or mount the host's %s read-only into the "
		"container",
		strerror(-error), GM_NAMES_SHM);
}

static int handle_map(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_control_server *s = c->server;
	int plain = -1;

	if (s->share < 0)
		s->share = gm_mount_open(s->d->segment->fd);
	if (s->share >= 0) {
		return gm_connection_reply(c, &r->header,
					   &(struct gm_reply){ .fds = &s->share,
							       .n_fds = 1 });
	}
	if (!gm_mount_is_harmless(c->uid, geteuid()))
		return refuse_plain(c, s->share);
	plain = gm_mount_reopen(s->d->segment->fd);
	if (plain < 0)
		return plain;
	gm_connection_reply(c, &r->header,
			    &(struct gm_reply){ .fds = &plain, .n_fds = 1 });
	close(plain);
	return 0;
}

/* ---- masks -------------------------------------------------------------- */

/* For a client that cannot open the file by its name.  The connection proves
 * that it may read, because the socket belongs to the file's group only. */
static int handle_node(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_mask_node *ask = (const void *)r->body;
	const struct gm_daemon *d = c->server->d;
	int fd, error;

	if (ask->node >= GM_NODES || d->nodes->of[ask->node] == NULL)
		return gm_connection_bad(c, -ENOENT,
					 "no mask has a replica on node %u",
					 ask->node);
	error = gm_masks_admit_reader(d, c->uid, (uint32_t)geteuid(),
				      c->server->why);
	if (error)
		return error;
	fd = gm_numa_segments_share(d->nodes->of[ask->node]);
	if (fd < 0 && !gm_mount_is_harmless(c->uid, geteuid()))
		return refuse_plain(c, fd);
	if (fd < 0)
		fd = gm_numa_segments_reader(d->nodes->of[ask->node]);
	if (fd < 0)
		return fd;
	return gm_connection_reply(
		c, &r->header, &(struct gm_reply){ .fds = &fd, .n_fds = 1 });
}

/* ---- objects by name ---------------------------------------------------- */

/* The name in the body, or NULL with the refusal set. */
static const char *object_of(struct gm_connection *c,
			     const struct gm_request *r, uint32_t flags,
			     const struct gm_object_name **ret_object)
{
	const struct gm_object_name *object = (const void *)r->body;
	const char *name = text_of(object->name, sizeof(object->name));

	if (name && name[0] && (object->flags & ~flags) == 0 &&
	    (object->kind == GM_KIND_LAYERS || object->kind == GM_KIND_MASK ||
	     object->kind == GM_KIND_MESH)) {
		*ret_object = object;
		return name;
	}
	gm_connection_bad(c, -EINVAL, "no object of kind %u can have this name",
			  object->kind);
	return NULL;
}

/* A request's own user may end it, too. */
static int drop_waits(struct gm_connection *c, const struct gm_request *r,
		      const char *name)
{
	bool may_all = gm_user_is_privileged(c->uid);
	uint32_t n = gm_wait_line_drop(c->server->d, name, c->uid, may_all);

	if (n == 0)
		return gm_connection_bad(c, -ENOENT,
					 "no request %sfor %s waits: gpumapctl "
					 "who shows those that do",
					 may_all ? "" : "of yours ", name);
	gm_connection_reply(c, &r->header, NULL);
	return 0;
}

/* The process that holds the map has started. */
static int end_start(struct gm_connection *c, const struct gm_request *r,
		     const char *name)
{
	struct gm_daemon *d = c->server->d;
	const struct gm_block *block =
		gm_directory_find(d, GM_KIND_LAYERS, name);

	if (block != NULL && block->owner_uid != c->uid &&
	    !gm_user_is_privileged(c->uid))
		return gm_connection_bad(
			c, -EPERM, "%s belongs to uid %u, and this is uid %u",
			name, block->owner_uid, (unsigned)c->uid);
	if (block == NULL ||
	    gm_pins_started(d, (uint32_t)(block - d->directory->objects)) != 0)
		return gm_connection_bad(c, -ENOENT,
					 "no process holds a map %s", name);
	gm_wait_line_changed(d);
	return gm_connection_reply(c, &r->header, NULL);
}

static int handle_release(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_object_name *object;
	const char *name =
		object_of(c, r, GM_RELEASE_WAITS | GM_RELEASE_START, &object);

	if (!name)
		return -EINVAL;
	if (object->flags != 0 && object->kind != GM_KIND_LAYERS)
		return gm_connection_bad(c, -EINVAL,
					 "only a layer map is waited for");
	if ((object->flags & GM_RELEASE_WAITS) != 0)
		return drop_waits(c, r, name);
	if ((object->flags & GM_RELEASE_START) != 0)
		return end_start(c, r, name);
	return gm_release_change(c, &r->header, object->kind, name);
}

/* ---- pins -------------------------------------------------------------- */

static int peer_is_gone(struct gm_connection *c)
{
	return gm_connection_bad(
		c, -ESRCH, "process %d, which connected, is gone", (int)c->pid);
}

static int handle_pin(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_control_server *s = c->server;
	const struct gm_object_name *object;
	const char *name = object_of(c, r, 0, &object);
	struct gm_pin_reply reply;
	struct gm_pin pin;
	int error;

	if (!name)
		return -EINVAL;
	if (object->kind == GM_KIND_MASK) {
		error = gm_masks_check_pin(s->d, c->uid, name, s->why);
		if (error)
			return error;
	}
	error = gm_pins_pin(s->d, (struct gm_pin_owner){ c->pid, c->uid },
			    object->kind, name, s->why, &pin);
	if (error)
		return error;
	/* Now that the pid is held: is it still who asks? */
	if (!gm_connection_lives(c)) {
		gm_pins_unpin(s->d, c->pid, pin.claim);
		return peer_is_gone(c);
	}
	reply = (struct gm_pin_reply){ pin.claim, pin.unit, pin.version };
	return gm_connection_reply_body(c, &r->header, &reply, sizeof(reply));
}

static int handle_unpin(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_unpin *unpin = (const void *)r->body;
	int error;

	/* Its pins have ended with it, and the pid may be another's. */
	if (!gm_connection_lives(c))
		return peer_is_gone(c);
	error = gm_pins_unpin(c->server->d, c->pid, unpin->claim);
	if (error)
		return gm_connection_bad(c, error, "process %d has no pin %llu",
					 (int)c->pid,
					 (unsigned long long)unpin->claim);
	return gm_connection_reply(c, &r->header, NULL);
}

/* ---- FORGET ------------------------------------------------------------ */

static int handle_forget(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_forget *ask = (const void *)r->body;

	if (gm_handle_kind(ask->handle) != GM_BUFFER_DEVICE)
		return gm_registration_forget(c, &r->header, ask->handle);
	return gm_export_forget(c, &r->header, ask->handle);
}

/* ---- DRAIN ------------------------------------------------------------- */

static void is_drained(struct gm_drain_wait *wait, int status, const char *why)
{
	struct gm_connection *c = gm_owner(wait, struct gm_connection, drain);

	/* The connection may be dropped by its own answer. */
	c->busy++;
	if (status == 0)
		gm_connection_reply(c, &c->pending, NULL);
	else
		gm_connection_refuse(c, &c->pending, status, why);
	gm_connection_resume(c);
	gm_connection_release(c);
}

/* The handle of a buffer, or of a mask's replica. */
static int handle_import(struct gm_connection *c, const struct gm_request *r)
{
	struct gm_import ask;

	memcpy(&ask, r->body, sizeof(ask));
	return gm_mask_devices_is_id(ask.id) ? gm_mask_import_handle(c, r)
					     : gm_exports_import_handle(c, r);
}

static int handle_drain(struct gm_connection *c, const struct gm_request *r)
{
	const struct gm_drain *ask = (const void *)r->body;
	struct gm_control_server *s = c->server;
	int ret;

	if (!gm_user_is_privileged(c->uid))
		return gm_connection_bad(
			c, -EPERM,
			"uid %u may not drain rows: only root and uid %u, "
			"which runs the agent, may",
			(unsigned)c->uid, (unsigned)geteuid());
	if (ask->undrain > 1)
		return gm_connection_bad(c, -EINVAL, "undrain is 0 or 1");
	c->drain = (struct gm_drain_wait){ .done = is_drained };
	ret = ask->undrain ? gm_drains_undo(s->d, ask->row, &c->drain, s->why)
			   : gm_drains_begin(s->d, ask->row, &c->drain, s->why);
	if (ret == 0)
		gm_connection_reply(c, &r->header, NULL);
	else if (ret == -EINPROGRESS)
		gm_connection_wait(c, &r->header);
	return ret == -EINPROGRESS ? 0 : ret;
}

/* ---- the table --------------------------------------------------------- */

static const struct gm_request_kind kinds[] = {
	[GM_CONTROL_HELLO] = { .body_bytes = sizeof(struct gm_hello),
			       .handle = handle_hello },
	[GM_CONTROL_MAP] = { .handle = handle_map },
	[GM_CONTROL_RELEASE] = { .body_bytes = sizeof(struct gm_object_name),
				 .handle = handle_release },
	[GM_CONTROL_PIN] = { .body_bytes = sizeof(struct gm_object_name),
			     .handle = handle_pin },
	[GM_CONTROL_UNPIN] = { .body_bytes = sizeof(struct gm_unpin),
			       .handle = handle_unpin },
	[GM_CONTROL_SESSION_OPEN] = { .body_bytes =
					      sizeof(struct gm_session_open),
				      .handle = gm_session_handle_open },
	[GM_CONTROL_QUEUE_OPEN] = { .body_bytes = sizeof(struct gm_queue_open),
				    .of_session = true,
				    .handle = gm_session_handle_queue },
	[GM_CONTROL_LIST] = { .body_bytes = sizeof(struct gm_list_ask),
			      .handle = gm_list_handle },
	[GM_CONTROL_LOADING] = { .body_bytes = sizeof(struct gm_loading),
				 .of_session = true,
				 .handle = gm_session_handle_loading },
	[GM_CONTROL_ROOM] = { .body_bytes = sizeof(struct gm_room),
			      .handle = gm_admit_room_handle },
	[GM_CONTROL_PUBLISH] = { .body_bytes = sizeof(struct gm_publish),
				 .has_tail = true,
				 .handle = gm_admit_publish_handle },
	[GM_CONTROL_RESERVE] = { .body_bytes = sizeof(struct gm_reserve_ask),
				 .has_tail = true,
				 .handle = gm_admit_reserve_handle },
	[GM_CONTROL_REGISTER] = { .body_bytes = sizeof(struct gm_register),
				  .has_fd = true,
				  .of_session = true,
				  .handle = gm_registration_handle },
	[GM_CONTROL_FORGET] = { .body_bytes = sizeof(struct gm_forget),
				.of_session = true,
				.handle = handle_forget },
	[GM_CONTROL_EXPORT] = { .body_bytes = sizeof(struct gm_export_ask),
				.handle = gm_export_handle },
	[GM_CONTROL_IMPORT] = { .body_bytes = sizeof(struct gm_import),
				.handle = handle_import },
	[GM_CONTROL_REACH] = { .body_bytes = sizeof(struct gm_reach),
			       .of_session = true,
			       .handle = gm_peer_reach_handle },
	[GM_CONTROL_UNREACH] = { .body_bytes = sizeof(struct gm_unreach),
				 .of_session = true,
				 .handle = gm_peer_unreach_handle },
	[GM_CONTROL_MASK_PUBLISH] = { .body_bytes =
					      sizeof(struct gm_mask_publish),
				      .has_tail = true,
				      .has_fd = true,
				      .handle = gm_mask_change_publish },
	[GM_CONTROL_MASK_NODE] = { .body_bytes = sizeof(struct gm_mask_node),
				   .handle = handle_node },
	[GM_CONTROL_MASK_USE] = { .body_bytes = sizeof(struct gm_mask_use),
				  .of_session = true,
				  .handle = gm_mask_use_handle },
	[GM_CONTROL_MASK_SHOW] = { .body_bytes = sizeof(struct gm_mask_show),
				   .of_session = true,
				   .handle = gm_mask_show_handle },
	[GM_CONTROL_PROGRAM] = { .body_bytes = sizeof(struct gm_program_ask),
				 .has_fd = true,
				 .of_session = true,
				 .handle = gm_registration_program_handle },
	[GM_CONTROL_SHARE] = { .body_bytes = sizeof(struct gm_share_ask),
			       .has_tail = true,
			       .has_fd = true,
			       .of_session = true,
			       .handle = gm_share_handle },
	[GM_CONTROL_SHARE_OPEN] = { .body_bytes = sizeof(struct gm_share_open),
				    .has_tail = true,
				    .of_session = true,
				    .handle = gm_share_open_handle },
	[GM_CONTROL_SHARE_CLOSE] = { .body_bytes =
					     sizeof(struct gm_share_close),
				     .of_session = true,
				     .handle = gm_share_close_handle },
	[GM_CONTROL_SHARE_CLAIM] = { .body_bytes =
					     sizeof(struct gm_share_claim),
				     .has_tail = true,
				     .of_session = true,
				     .handle = gm_share_offer_handle },
	[GM_CONTROL_SHARE_END] = { .body_bytes = sizeof(struct gm_share_end),
				   .handle = gm_share_end_handle },
	[GM_CONTROL_SHARE_FDS] = { .body_bytes = sizeof(struct gm_share_fds),
				   .of_session = true,
				   .handle = gm_share_fds_handle },
	[GM_CONTROL_CALIBRATE] = { .body_bytes = sizeof(struct gm_calibrate),
				   .handle = gm_calibration_handle },
	[GM_CONTROL_CORDON] = { .body_bytes = sizeof(struct gm_cordon),
				.handle = gm_cordons_handle },
	[GM_CONTROL_DRAIN] = { .body_bytes = sizeof(struct gm_drain),
			       .handle = handle_drain },
	[GM_CONTROL_MESH_PUBLISH] = { .body_bytes =
					      sizeof(struct gm_mesh_publish),
				      .has_tail = true,
				      .handle = gm_mesh_change_handle },
	[GM_CONTROL_CLUSTER] = { .body_bytes =
					 sizeof(struct gm_cluster_publish),
				 .has_tail = true,
				 .handle = gm_cluster_handle },
	[GM_CONTROL_COMM_OPEN] = { .body_bytes = sizeof(struct gm_comm_open),
				   .has_tail = true,
				   .of_session = true,
				   .handle = gm_comm_handle_open },
	[GM_CONTROL_COMM_CLOSE] = { .body_bytes = sizeof(struct gm_comm_close),
				    .of_session = true,
				    .handle = gm_comm_handle_close },
	[GM_CONTROL_JOIN] = { .body_bytes = sizeof(struct gm_join),
			      .has_tail = true,
			      .handle = gm_rendezvous_join },
	[GM_CONTROL_LEAVE] = { .body_bytes = sizeof(struct gm_leave),
			       .handle = gm_rendezvous_leave },
	[GM_CONTROL_CHANGE] = { .body_bytes = sizeof(struct gm_change_ask),
				.handle = gm_map_waits_handle },
	[GM_CONTROL_TRACE] = { .body_bytes = sizeof(struct gm_trace_ask),
			       .handle = gm_trace_request_handle },
};

_Static_assert(sizeof(struct gm_publish) <=
			       sizeof(((struct gm_request *)0)->body) &&
		       sizeof(struct gm_mask_publish) <=
			       sizeof(((struct gm_request *)0)->body),
	       "every body fits");

const struct gm_request_kind *gm_dispatch_request_kind(uint16_t type)
{
	if (type >= sizeof(kinds) / sizeof(kinds[0]) || !kinds[type].handle)
		return NULL;
	return &kinds[type];
}
