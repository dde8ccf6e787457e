/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * raw - a client made by hand, which can do what no library would.
 *
 * The client speaks the control socket's records and writes queue pairs
 * directly, with every field under the test's control.  No function here
 * checks, retries, or ends the test: a call returns the other side's answer.
 */
#ifndef GM_TEST_SUPPORT_RAW_H
#define GM_TEST_SUPPORT_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/control.h"
#include "shm/layout.h"
#include "shm/queue.h"

/* Longer than an honest answer takes on the slowest machine. */
#define RAW_PATIENCE_NS UINT64_C(30000000000)

/* One row's queue pair, and this end's positions in it. */
struct raw_queue {
	struct gm_queue *queue; /* NULL: not open */
	struct gm_ring entries;
	struct gm_ring done;
	struct gm_waker waker;
	int doorbell;
};

struct raw {
	int socket;
	uint32_t serial;
	char refusal[256]; /* of the last call that was refused, or "" */

	/* After raw_session(). */
	struct gm_session_reply session;
	int queues;
	int arena;
	int wake;               /* the pollable socket, -1 without one */
	struct gm_client *page; /* all of the queues' memory starts here */
	uint64_t queues_bytes;
	char *memory;
	uint64_t arena_bytes;
	struct raw_queue row[GM_ROWS];
};

/* One record with all that can be wrong in it. */
struct raw_record {
	struct gm_control header;
	const void *body;
	uint32_t body_bytes;
	const void *tail;
	uint32_t tail_bytes;
	const int *fds;
	uint32_t n_fds;
};

uint64_t raw_now(void);
void raw_nap(uint64_t ns);

/* Nothing is open: the state that raw_close() leaves. */
void raw_init(struct raw *c);

/* Connect to the socket at @path.  Returns 0 or a negative errno. */
int raw_connect(struct raw *c, const char *path);

/* A header as it should be for what follows it. */
struct gm_control raw_header(struct raw *c, uint16_t type, uint32_t body_bytes,
			     uint32_t tail_bytes);

/* Send a record as it stands.  Returns 0 or a negative errno. */
int raw_send(const struct raw *c, const struct raw_record *record, int flags);

/*
 * raw_receive - one reply
 *
 * ret_body	receives at most @bytes of what follows its header
 * ret_fds	receives at most GM_CONTROL_FDS_MAX, -1 where none came
 *
 * Returns	the bytes that follow the header, 0 or more
 *		-ECONNRESET	the connection has ended
 *		-EBADMSG	no reply of this protocol
 *		-ETIME		none within RAW_PATIENCE_NS
 */
int raw_receive(struct raw *c, struct gm_control *ret_header, void *ret_body,
		uint32_t bytes, int ret_fds[GM_CONTROL_FDS_MAX]);

/*
 * raw_ask - a well-formed request, and its reply
 *
 * Returns	the reply's status: 0, or the refusal, whose text is then in
 *		c->refusal; -ECONNRESET and so on when there is no reply
 */
int raw_ask(struct raw *c, uint16_t type, const void *body, uint32_t bytes,
	    void *ret_body, uint32_t ret_bytes,
	    int ret_fds[GM_CONTROL_FDS_MAX]);

/* The same with a tail behind the body. */
int raw_ask_tail(struct raw *c, uint16_t type, const void *body, uint32_t bytes,
		 const void *tail, uint32_t tail_bytes);
int raw_hello(struct raw *c);

/* Connect and say HELLO. */
int raw_open(struct raw *c, const char *path);

/* SESSION_OPEN, and map all that comes back. */
int raw_session(struct raw *c, uint32_t depth, uint32_t flags,
		uint64_t range_bytes);

/* QUEUE_OPEN, and be ready to post there. */
int raw_queue(struct raw *c, uint32_t row);

/* Connect, open a session and the queue of one row. */
int raw_open_queue(struct raw *c, const char *path, uint32_t row,
		   uint32_t depth, uint64_t range_bytes);

/* ROOM and PUBLISH of @n_layers on @row, sizes unknown. */
int raw_publish(struct raw *c, const char *name, uint32_t row,
		uint32_t n_layers);

/* REGISTER with a descriptor, or without one where @fd is -1. */
int raw_register(struct raw *c, const struct gm_register *ask, int fd);
int raw_forget(struct raw *c, uint64_t handle);
int raw_export(struct raw *c, uint64_t handle,
	       struct gm_export_reply *ret_export);

/* IMPORT; ret_fd receives what came with the reply, -1 where nothing did, and
 * may be NULL. */
int raw_import(struct raw *c, const struct gm_import *ask,
	       struct gm_import_reply *ret_import, int *ret_fd);

/* Close and unmap whatever is open; may be called again. */
void raw_close(struct raw *c);

/* An entry that an honest client could post: of the queue's incarnation. */
struct gm_entry raw_entry(const struct raw_queue *q, uint8_t op);

/* Publish entries as one batch; ring as an honest client would. */
void raw_post(struct raw_queue *q, const struct gm_entry *entries, uint32_t n);

/* Ring once, whatever the worker does. */
void raw_ring(const struct raw_queue *q);

/* Take one completion if there is one.  Returns whether. */
bool raw_take(struct raw_queue *q, uint32_t *ret_position, int32_t *ret_status);

/* Has the agent hung up on us? */
bool raw_is_over(const struct raw *c);

/* Wait until it has.  Returns false when it has not within RAW_PATIENCE_NS. */
bool raw_wait_over(const struct raw *c);

/* Post one entry and wait for its end, or the session's.  Returns its status,
 * -ECONNRESET, or -ETIME. */
int32_t raw_do(struct raw *c, struct raw_queue *q,
	       const struct gm_entry *entry);

#endif
