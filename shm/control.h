/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * control.h - the messages between a client and gpumapd.
 *
 * One message is one record of an AF_UNIX SOCK_SEQPACKET socket: a header, a
 * body of fixed layout, and for some types a tail of variable length.  Requests
 * are answered in order, one reply each, of the same type and serial.
 *
 * Growth: bodies grow at their end.  A receiver that knows a shorter body
 * refuses non-zero bytes past it with -E2BIG; one that knows a longer body
 * reads the missing bytes as zero.  An unknown type is answered -EOPNOTSUPP.
 * So an old library works with a new agent and the reverse.  Any other change
 * of a record takes a new GM_CONTROL_VERSION: the agent refuses the requests of
 * another version with -EPROTO, HELLO first.  The header and a refusal are the
 * same in all versions.
 *
 * A record whose length differs from its header's, and descriptors that a type
 * does not carry, end the connection.  REGISTER, PROGRAM, MASK_PUBLISH
 * and SHARE carry one to the agent, over a session.  A refusal is a reply with
 * a negative status and a struct gm_refusal for body.
 *
 * A session has a connection of its own and ends with it.
 */
#ifndef GM_CONTROL_H
#define GM_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "gpumap/plan.h"
#include "shm/control_masks.h"
#include "shm/control_mesh.h"
#include "shm/layout.h"

#define GM_CONTROL_MAGIC     UINT32_C(0x4d504731) /* "1GPM" */
#define GM_CONTROL_VERSION   3u
#define GM_CONTROL_BYTES_MAX (1u << 20) /* of one record */
#define GM_CONTROL_FDS_MAX   32u

enum gm_control_type {
	GM_CONTROL_HELLO = 1,
	GM_CONTROL_MAP = 2, /* carries 1 descriptor back: the segment */
	GM_CONTROL_RELEASE = 4,
	GM_CONTROL_PIN = 5,
	GM_CONTROL_UNPIN = 6,
	GM_CONTROL_SESSION_OPEN = 7, /* 2 or 3 back: queues, arena, socket */
	GM_CONTROL_QUEUE_OPEN = 8,   /* 1 back: the worker's doorbell */
	GM_CONTROL_LIST = 9,
	GM_CONTROL_ROOM = 10,
	GM_CONTROL_REGISTER = 11, /* carries 1 there: a client's file */
	GM_CONTROL_FORGET = 12,
	GM_CONTROL_EXPORT = 13,
	GM_CONTROL_IMPORT = 14, /* 1 back, where it has no handle */
	GM_CONTROL_DRAIN = 15,
	GM_CONTROL_REACH = 17,
	GM_CONTROL_UNREACH = 18,
	GM_CONTROL_SHARE_CLAIM = 20,
	GM_CONTROL_SHARE_END = 21,
	GM_CONTROL_SHARE = 22,      /* may carry 1 there: its description */
	GM_CONTROL_SHARE_OPEN = 23, /* that 1 back, if there is one */
	GM_CONTROL_SHARE_CLOSE = 24,
	GM_CONTROL_PROGRAM = 19,      /* may carry 1 there: an image */
	GM_CONTROL_MASK_PUBLISH = 26, /* may carry 1 there: the tensor */
	GM_CONTROL_MASK_NODE = 27,    /* 1 back: a node segment */
	GM_CONTROL_MASK_USE = 28,
	GM_CONTROL_MASK_SHOW = 29,
	GM_CONTROL_MESH_PUBLISH = 32,
	GM_CONTROL_COMM_OPEN = 33, /* see control_comm.h */
	GM_CONTROL_COMM_CLOSE = 34,
	GM_CONTROL_JOIN = 36,
	GM_CONTROL_LEAVE = 37,
	GM_CONTROL_CORDON = 41,
	GM_CONTROL_CALIBRATE = 42,
	GM_CONTROL_CHANGE = 44,
	GM_CONTROL_SHARE_FDS = 48, /* up to 32 back: of its buffers */
	GM_CONTROL_TRACE = 49,     /* 1 back: memory of records, read-only */
	GM_CONTROL_CLUSTER = 50,   /* see control_cluster.h */
	GM_CONTROL_LOADING = 51,
	GM_CONTROL_PUBLISH = 52,
	GM_CONTROL_RESERVE = 53
};

struct gm_control {
	uint32_t magic;
	uint32_t bytes; /* of the record, this header included */
	uint16_t version;
	uint16_t type; /* enum gm_control_type */
	uint32_t serial;
	int32_t status; /* of a reply: 0 or a negative errno */
	uint32_t body;  /* bytes of the body; the tail follows */
};

/* The body of a refusal; a type may have a longer one that begins with this. */
struct gm_refusal {
	char text[256]; /* the error and its remedy; NUL-terminated */
};

/* HELLO: the first request of every connection. */
struct gm_hello {
	uint32_t layout_major;
	uint32_t layout_minor;
	uint64_t layout; /* gm_layout_hash() */
};

struct gm_hello_reply {
	uint32_t layout_major;
	uint32_t layout_minor;
	uint64_t epoch;
	uint32_t agent_pid;
	uint32_t reserved;
	/* st_dev and st_ino of the agent's segment.  A client that has mapped
	 * another file has the map of an earlier agent.  0: not known. */
	uint64_t segment_dev;
	uint64_t segment_ino;
};

/* RELEASE, PIN: an object by name.  RELEASE has no reply body. */
#define GM_RELEASE_WAITS 1u /* not the map: the requests for it that wait */
#define GM_RELEASE_START 2u /* not the map, which is held: its start window */

struct gm_object_name {
	uint32_t kind;  /* enum gm_kind */
	uint32_t flags; /* GM_RELEASE_*; of PIN 0 */
	char name[64];
};

struct gm_pin_reply {
	uint64_t claim; /* for UNPIN */
	uint64_t unit;  /* where the block starts, in GM_UNIT */
	uint64_t version;
};

/* UNPIN.  No reply body. */
struct gm_unpin {
	uint64_t claim;
};

/* CHANGE: answered when the map's generation is not @seen, at once if it is not
 * now.  A connection of its own waits with it. */
struct gm_change_ask {
	uint32_t seen;
	uint32_t reserved;
};

struct gm_change_reply {
	uint32_t generation;
	uint32_t reserved;
};

/* TRACE: record the jobs of a row in memory as trace.h says, until the
 * connection ends.  No reply body.  -EPERM: only root and the agent's own user
 * may.  -EBUSY: another reader has the row's trace. */
struct gm_trace_ask {
	uint32_t row;
	uint32_t reserved;
};

/* SESSION_OPEN: turn this connection into a session. */
struct gm_session_open {
	uint32_t depth;       /* 0: 256 */
	uint32_t flags;       /* GPUMAP_SESSION_* */
	uint64_t range_bytes; /* of each row's range of the arena; 0: 64 MiB */
};

struct gm_session_reply {
	uint64_t id;
	uint32_t depth;
	uint32_t n_rows;      /* rows that the arena has ranges for */
	uint64_t range_bytes; /* rounded up; the arena is n_rows of them */
};

/* QUEUE_OPEN: have the worker of a row serve this session. */
struct gm_queue_open {
	uint32_t row;
	uint32_t reserved;
};

struct gm_queue_reply {
	uint64_t at;    /* of the queue pair in the first descriptor */
	uint64_t bytes; /* of the queue pair */
};

/*
 * LIST: those of a kind that come after a key, in the order of their keys.
 *
 * Reply: gm_list_reply; tail: n items of the kind, which begin with their keys,
 * and have at most GM_LIST_BYTES together.
 */
enum gm_list_kind {
	GM_LIST_SESSIONS,     /* gm_session_item, by id */
	GM_LIST_USAGE,        /* gm_usage_item, by session and row; first those
			       * without a session, by uid and row */
	GM_LIST_RESERVATIONS, /* gm_reservation_item, by map and row */
	GM_LIST_WAITS,        /* gm_wait_item, by place in the line, which is
			       * never used twice */
	GM_LIST_SHARES        /* gm_shares_item, by id */
};

/* All 0 comes before every item. */
struct gm_list_key {
	uint64_t first;
	uint64_t second;
};

static inline bool gm_list_key_follows(const struct gm_list_key *key,
				       const struct gm_list_key *after)
{
	return key->first != after->first ? key->first > after->first
					  : key->second > after->second;
}

struct gm_list_ask {
	uint32_t kind; /* enum gm_list_kind */
	uint32_t reserved;
	struct gm_list_key after;
};

struct gm_list_reply {
	uint32_t n;     /* items in this reply */
	uint32_t total; /* items there are */
};

#define GM_LIST_BYTES 8192u

#define GM_ROW_WORDS  4u /* a bit for each row */

struct gm_session_item {
	struct gm_list_key key; /* the session */
	uint32_t pid;
	uint32_t uid;
	uint32_t n_queues;
	uint32_t depth;
	uint64_t arena_bytes;
	uint64_t age_ns;
	uint64_t rows[GM_ROW_WORDS]; /* that it has queues of; a bit each */
	uint64_t load_bytes;         /* as it has said: struct gm_loading */
	uint64_t load_total;
};

/* LOADING: how far the models are that the session loads, for LIST.  The
 * agent shows both and believes neither.  No reply body. */
struct gm_loading {
	uint64_t bytes; /* that were read, @total at most */
	uint64_t total; /* 2^63 - 1 at most; 0: it loads none */
};

/*
 * ROOM: what a map of this caller may have of each row, as things are now.  A
 * plan is made from it, where the caller likes.
 *
 * Reply: gm_room_reply; tail: n gm_room_row, by row, of those that are there
 * and have not failed.
 */
struct gm_room {
	char name[64];      /* of the map; empty: it is not published */
	uint32_t flags;     /* GPUMAP_PLAN_* */
	uint32_t owner_uid; /* with FOR */
	uint64_t wait_ns;   /* with COMMIT; 0: do not wait for room */
	uint64_t start_ns;  /* with HELD; 0: it has no start window */
};

struct gm_room_reply {
	uint64_t rows_given; /* for PUBLISH: which devices the rows are */
	uint32_t n;
	uint32_t reserved;
};

#define GM_ROOM_HOST       1u
#define GM_ROOM_CUDA       2u /* its compute capability is known */
#define GM_ROOM_INTEGRATED 4u
#define GM_ROOM_DRAINED    8u /* or cordoned */
#define GM_ROOM_DUMMY      16u

struct gm_room_row {
	uint32_t row;
	uint32_t flags; /* GM_ROOM_* */
	uint32_t cc_major;
	uint32_t cc_minor;
	uint32_t units;
	uint32_t reserved;
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t avail_bytes; /* free, and reserved by no other map */
	/* The most that requests before it in the line and start windows
	 * leave of the row, avail or not. */
	uint64_t most_bytes;
	/* The most that it could have once all that is held has ended. */
	uint64_t lasting_bytes;
};

/*
 * PUBLISH: publish a plan as a layer map, and reserve its charges with COMMIT.
 *
 * Tail: n_charges gm_charge_image, n_runs gm_plan_run, n_bytes uint64_t of
 * layers, n_rows uint32_t, then the spec.  Reply: gm_publish_reply; tail: the
 * bytes that are left of each charge's row, n_charges uint64_t.
 *
 * With wait_ns a map for which there is no room takes a place in the line.  A
 * map whose layers lie on these rows alone is published in its turn.  Where
 * n_rows others would do as well, the agent answers -EAGAIN when it is the
 * map's turn: then ask for ROOM, plan, and publish again over the same
 * connection, within a second.  Without runs it only waits, for as much as it
 * charges; without runs and wait_ns it leaves the line.
 *
 * Other refusals are those of gpumap_plan_make(), with gm_publish_refusal.
 */
struct gm_publish {
	struct gm_room map;
	uint32_t setting; /* enum gpumap_setting */
	uint32_t strategy;
	uint32_t base_row;
	uint32_t n_layers; /* the sum of all runs */
	uint32_t dtype;    /* enum gpumap_dtype */
	uint32_t compute_dtype;
	uint32_t n_charges;
	uint32_t n_runs;
	uint32_t n_bytes;    /* n_layers, or 0: sizes not known */
	uint32_t n_rows;     /* any of which would do; 0: these alone */
	uint32_t spec_bytes; /* with the NUL */
	uint32_t max_batch_size;
	uint32_t missing_row; /* where there is no room, and what is missing */
	uint32_t reserved;
	uint64_t missing_bytes;
	uint64_t max_seq_len; /* 0: what the layers keep is not known */
	uint64_t other_bytes;
	uint64_t least_bytes; /* that the model takes on any rows, together */
	uint64_t rows_given;  /* as ROOM says */
};

/* So many layers in one row, one after the other. */
struct gm_plan_run {
	uint32_t row;
	uint32_t n_layers;
};

#define GM_PLAN_RUNS_MAX 8192u /* of one request */

struct gm_publish_reply {
	uint64_t version;
};

/* The refusal of PUBLISH and RESERVE. */
struct gm_publish_refusal {
	struct gm_refusal refusal;
	/* with -ENOSPC and -ETIMEDOUT; 0: not known */
	uint64_t missing_bytes;
	uint32_t missing_row;
	uint32_t reserved;
};

/*
 * RESERVE: reserve bytes of rows without a model; without COMMIT only say how
 * it would be.
 *
 * Tail: n_bytes uint64_t, then n_rows uint32_t.  Reply: gm_reserve_reply; tail:
 * n gm_reserved_row.  The agent chooses the row, and keeps the request in the
 * line until it can.
 */
struct gm_reserve_ask {
	struct gm_room map;
	uint32_t dtype;
	uint32_t n_bytes; /* of each of the rows, or one for any of them */
	uint32_t n_rows;  /* 0: all, or all that are no hosts and dummies */
	uint32_t reserved;
};

struct gm_reserve_reply {
	uint64_t version;       /* 0: not published */
	uint64_t missing_bytes; /* which is no error of a map not committed */
	uint32_t missing_row;
	uint32_t n;
};

struct gm_reserved_row {
	uint32_t row;
	uint32_t reserved;
	uint64_t bytes;
	uint64_t left_bytes;
};

/*
 * REGISTER: let jobs of a row name memory or a file of the client's, as the
 * kind of the handle says.
 *
 * A file is a regular one or a block device that can be read, and is registered
 * whole: no @at, no @bytes, no @flags.  Its descriptor's offset does not
 * matter, and its flags may change: a worker that cannot read past the cache
 * removes O_DIRECT.  So send a description that no other descriptor shares.
 *
 * Memory is part of a memfd that cannot shrink and has no huge pages; it may be
 * registered READ_ONLY, and must be if its seals or its descriptor forbid
 * writing.  The queue of the row is open.  The same handle may be registered
 * for more rows, each with a request of its own with the same values, and each
 * row gets the file that came with the first; the bytes count once, with the
 * arenas of the uid.  No reply body.
 */
struct gm_register {
	uint64_t handle; /* the handle that it will have, see queue.h */
	uint64_t at;     /* in the file, whole pages */
	uint64_t bytes;
	uint32_t row;
	uint32_t flags; /* GPUMAP_BUFFER_READ_ONLY */
};

/*
 * FORGET: end a registration on all rows; answered when no worker has it mapped
 * any more.  An export ends for later imports: sessions that have imported it
 * keep it.  An import ends as a registration does.  No reply body.
 */
struct gm_forget {
	uint64_t handle;
};

/* EXPORT: let other sessions import a buffer of this session, until FORGET, the
 * end of the session or that of the row's worker.  A second EXPORT has the same
 * id.  With the flags below the export is for SHARE: no other session can
 * import it by its id, unless it is exported without these flags as well. */
#define GM_EXPORT_NAMED     1u /* for SHARE */
#define GM_EXPORT_READ_ONLY 2u /* for SHARE read-only, with NAMED */

struct gm_export_ask {
	uint64_t handle;
	uint32_t flags; /* GM_EXPORT_* */
	uint32_t reserved;
};

struct gm_export_reply {
	uint64_t id;
	uint64_t bytes;
};

/* IMPORT: have an export as a buffer of this session; or, with no handle and on
 * any connection, a descriptor of it.  A buffer that is shared read-only is
 * imported read-only, and its descriptor cannot write; that of a card's memory
 * could, and only the sharing user's own sessions get it. */
struct gm_import {
	uint64_t id;
	/* the handle that it will have; 0: send the descriptor */
	uint64_t handle;
	uint32_t row;   /* gm_export_row(); no other row is supported */
	uint32_t flags; /* GPUMAP_BUFFER_READ_ONLY */
};

struct gm_import_reply {
	uint64_t bytes;
	uint32_t row;
	uint32_t reserved;
};

/* The row whose memory an export is, from its id. */
static inline uint32_t gm_export_row(uint64_t id)
{
	return (uint32_t)(id >> 56);
}

/* A fingerprint of what is, or is to be, in a share, and the text of what it is
 * a fingerprint of: lines KEY=VALUE, in the request's tail. */
#define GM_SHARE_HASH_BYTES 32u
#define GM_SHARE_FIELDS_MAX 4096u

struct gm_share_key {
	uint8_t hash[GM_SHARE_HASH_BYTES]; /* all 0: none */
	uint32_t fields_bytes;             /* without a NUL; 0: not told */
	uint32_t reserved;
};

/*
 * SHARE: give buffers that this session has exported a name, all of them in one
 * step, and be its first holder.  Buffers that are exported READ_ONLY, and no
 * others, are shared with GPUMAP_SHARE_READ_ONLY.  No buffer can be in two
 * shares.
 *
 * A session that holds a name may IMPORT its buffers by their ids, and keeps
 * the name and the memory existing, until SHARE_CLOSE or the end of the
 * session.  When the last holder is gone the name is free.
 *
 * The share's description comes as a memfd that is sealed against shrinking,
 * growing and writing, and has no huge pages; its bytes count with the arenas
 * of the uid.  Tail: n_buffers uint64_t, their handles, then n_uids uint32_t,
 * then the fields of its key.  Reply: as SHARE_OPEN, without the descriptor.
 * -EKEYREJECTED: the session has claimed the name for another fingerprint.
 */
struct gm_share_ask {
	char name[64];
	uint32_t flags;     /* GPUMAP_SHARE_* */
	uint32_t n_buffers; /* 1 to GM_SHARE_BUFFERS_MAX */
	/* other users who may open it, at most GM_SHARE_UIDS_MAX */
	uint32_t n_uids;
	uint32_t reserved;
	uint64_t about_bytes; /* of the whole memfd; 0: none comes along */
	struct gm_share_key key;
};

#define GM_SHARE_BUFFERS_MAX 1024u
#define GM_SHARE_UIDS_MAX    64u
#define GM_SHARE_ABOUT_MAX   (UINT64_C(64) << 20)

/* SHARE_OPEN: hold the share of this name.  Tail: the fields of its key.
 * -EKEYREJECTED: it has another fingerprint than that of the key. */
struct gm_share_open {
	char name[64];
	uint32_t flags; /* GPUMAP_SHARE_READ_ONLY; required if shared so */
	uint32_t reserved;
	struct gm_share_key key;
};

/* Tail: n_buffers gm_share_buffer, in the order of SHARE. */
struct gm_share_reply {
	uint64_t id;          /* of this share, never used again */
	uint64_t about_bytes; /* of the memfd that comes along; 0: none */
	uint32_t uid;         /* the user who is charged */
	uint32_t flags;       /* GPUMAP_SHARE_* */
	uint32_t n_buffers;
	uint32_t reserved;
	uint8_t hash[GM_SHARE_HASH_BYTES]; /* all 0: it has no fingerprint */
};

struct gm_share_buffer {
	uint64_t id; /* for IMPORT */
	uint64_t bytes;
	uint32_t row;
	uint32_t reserved;
};

/* SHARE_FDS: descriptors of buffers of a share that this session holds, as
 * IMPORT without a handle gives one: of buffer @first and those behind it, as
 * many as a reply carries, up to the first that cannot be had.  A refusal is
 * that of @first. */
struct gm_share_fds {
	uint64_t id;
	uint32_t first;
	uint32_t n; /* at least 1; the reply may have fewer */
};

/*
 * SHARE_CLAIM: this session will SHARE buffers by this name, and no other
 * session can meanwhile: until this one has, until DROP, or until it ends.
 * Tail: the fields of its key.  No reply body.  A refusal is -EEXIST, the name
 * is shared already; -EALREADY, this session has claimed it; -EBUSY, another
 * has, ask again later; -EACCES, another user's session has claimed it, and not
 * for others; -EKEYREJECTED, it has for another fingerprint; -EDQUOT, this
 * session has claimed too many names; -EPERM, it could not be shared with
 * others.
 */
struct gm_share_claim {
	char name[64];
	uint32_t flags; /* GM_SHARE_CLAIM_* */
	uint32_t reserved;
	struct gm_share_key key;
};

#define GM_SHARE_CLAIM_DROP   1u
#define GM_SHARE_CLAIM_OTHERS 2u  /* the share will be for other users, too */
#define GM_SHARE_CLAIM_KEEP   4u  /* it will be GPUMAP_SHARE_KEEP */
#define GM_SHARE_CLAIMS_MAX   16u /* of a uid */

/* SHARE_END: end a share for all its holders.  For the user who shared it, and
 * for root.  Imported buffers stay.  No reply body. */
struct gm_share_end {
	char name[64];
};

/* SHARE_CLOSE: stop holding a share.  Imported buffers stay.  No reply body. */
struct gm_share_close {
	uint64_t id;
};

struct gm_shares_item {
	struct gm_list_key key; /* the share */
	char name[64];
	uint64_t bytes; /* of the buffers */
	uint64_t about_bytes;
	uint64_t age_ns;
	uint32_t uid;
	uint32_t pid; /* the process that shared it; 0: holds it no longer */
	uint32_t flags;
	uint32_t n_buffers;
	uint32_t n_holders;
	uint32_t reserved;
	uint64_t rows[GM_ROW_WORDS];       /* of the buffers; a bit each */
	uint8_t hash[GM_SHARE_HASH_BYTES]; /* all 0: it has no fingerprint */
};

/* DRAIN: let a row's work end and close every handle to its device; or put the
 * row into service again.  Answered when that is done.  For root and the
 * agent's user.  No reply body. */
struct gm_drain {
	uint32_t row;
	uint32_t undrain; /* 0 or 1 */
};

/* CORDON: keep new sessions and plans away from a row, or no longer.  Answered
 * when that is on the disk.  For root and the agent's user.  No reply body. */
struct gm_cordon {
	uint32_t row;
	uint32_t undo; /* 0 or 1 */
};

/* CALIBRATE: the least sizes of which a row is worth it, by enum gpumap_work;
 * 0, or as large as the default: the default.  Answered when that is on the
 * disk.  For root and the agent's user.  No reply body. */
struct gm_calibrate {
	uint32_t row;
	uint32_t generation; /* of the row */
	uint64_t least[GM_WORKS];
};

/* Memory of a device that a session has, or that has no session any more. */
struct gm_usage_item {
	struct gm_list_key key; /* the session; 0: it has ended */
	uint32_t pid;           /* likewise */
	uint32_t uid;           /* the user who is charged */
	uint32_t row;
	uint32_t importers; /* sessions that have imported some of it */
	uint64_t bytes;     /* charged; with session 0: lent_bytes */
	/* of its exports, the bytes that importers have */
	uint64_t lent_bytes;
	uint64_t borrowed_bytes; /* of others' exports, the bytes that it has */
};

/* The part of a row that a map reserves. */
struct gm_reservation_item {
	struct gm_list_key key;
	char name[64];
	uint32_t row;
	uint32_t uid;
	uint32_t pid; /* that holds it; 0: held until it is released */
	uint32_t reserved;
	uint64_t version;
	uint64_t bytes;
	/* of these: */
	uint64_t own_bytes;     /* that its processes have for themselves */
	uint64_t session_bytes; /* that their sessions have */
};

struct gm_wait_item {
	struct gm_list_key key; /* grows along the line */
	char name[64];
	uint32_t uid;
	uint32_t pid;
	uint32_t flags; /* GPUMAP_WAIT_* */
	uint32_t missing_row;
	uint64_t missing_bytes;
	uint64_t bytes; /* 0: a plan decides */
	uint64_t age_ns;
	uint64_t left_ns;
	uint64_t rows[GM_ROW_WORDS]; /* that it may take; a bit each */
	/* requests before it that keep one of these rows from it */
	uint32_t n_before;
	uint32_t reserved;
};

/*
 * REACH: let COPY jobs of a row name a buffer of another row as their source.
 *
 * The session has the buffer and queues on both rows.  Answered when the row's
 * worker knows the handle; a repeated request is answered at once.  The
 * permission lasts until UNREACH, or until the worker of either row ends.  No
 * reply body.
 */
struct gm_reach {
	uint64_t handle;
	uint32_t row; /* of the jobs */
	uint32_t reserved;
};

/* UNREACH: end this on all rows.  Answered when no worker but the buffer's own
 * uses it, copies under way included.  No reply body. */
struct gm_unreach {
	uint64_t handle;
};

/*
 * PROGRAM: let jobs of a row run a program of the agent's directory, or for
 * cards one that comes as an image.
 *
 * The session was opened with GPUMAP_SESSION_PROGRAMS, and the queue of the row
 * is open.  The same handle may be requested on more rows with the same name:
 * it then means the same file, even if the directory has changed; on rows of
 * another kind it means the file of that name for that kind.  An image comes as
 * a memfd that is sealed against all change; for a handle that is known it is
 * not read again.  FORGET ends it.  No reply body.
 */
struct gm_program_ask {
	uint64_t handle; /* the handle that it will have, see queue.h */
	uint32_t row;
	uint32_t reserved;
	char name[64]; /* NUL-terminated: the file's, without ".so" and so on;
			* of an image, that of its entry point */
};

_Static_assert(sizeof(struct gm_control) == 24, "wire");
_Static_assert(sizeof(struct gm_refusal) == 256, "wire");
_Static_assert(sizeof(struct gm_hello) == 16, "wire");
_Static_assert(sizeof(struct gm_hello_reply) == 40, "wire");
_Static_assert(sizeof(struct gm_object_name) == 72, "wire");
_Static_assert(sizeof(struct gm_pin_reply) == 24, "wire");
_Static_assert(sizeof(struct gm_change_ask) == 8, "wire");
_Static_assert(sizeof(struct gm_change_reply) == 8, "wire");
_Static_assert(sizeof(struct gm_session_open) == 16, "wire");
_Static_assert(sizeof(struct gm_loading) == 16, "wire");
_Static_assert(sizeof(struct gm_calibrate) == 112, "wire");
_Static_assert(sizeof(struct gm_session_reply) == 24, "wire");
_Static_assert(sizeof(struct gm_queue_reply) == 16, "wire");
_Static_assert(sizeof(struct gm_list_ask) == 24, "wire");
_Static_assert(sizeof(struct gm_session_item) == 96, "wire");
_Static_assert(sizeof(struct gm_room) == 88, "wire");
_Static_assert(sizeof(struct gm_room_row) == 64, "wire");
_Static_assert(sizeof(struct gm_publish) == 184, "wire");
_Static_assert(sizeof(struct gm_plan_run) == 8, "wire");
_Static_assert(sizeof(struct gm_publish_refusal) == 272, "wire");
_Static_assert(sizeof(struct gm_reserve_ask) == 104, "wire");
_Static_assert(sizeof(struct gm_reserved_row) == 24, "wire");
_Static_assert(sizeof(struct gm_register) == 32, "wire");
_Static_assert(sizeof(struct gm_forget) == 8, "wire");
_Static_assert(sizeof(struct gm_export_ask) == 16, "wire");
_Static_assert(sizeof(struct gm_export_reply) == 16, "wire");
_Static_assert(sizeof(struct gm_import) == 24, "wire");
_Static_assert(sizeof(struct gm_import_reply) == 16, "wire");
_Static_assert(sizeof(struct gm_drain) == 8, "wire");
_Static_assert(sizeof(struct gm_cordon) == 8, "wire");
_Static_assert(sizeof(struct gm_list_reply) == 8, "wire");
_Static_assert(sizeof(struct gm_usage_item) == 56, "wire");
_Static_assert(sizeof(struct gm_wait_item) == 168, "wire");
_Static_assert(sizeof(struct gm_reservation_item) == 128, "wire");
_Static_assert(sizeof(struct gm_reach) == 16, "wire");
_Static_assert(sizeof(struct gm_unreach) == 8, "wire");
_Static_assert(sizeof(struct gm_program_ask) == 80, "wire");
_Static_assert(sizeof(struct gm_share_fds) == 16, "wire");
_Static_assert(sizeof(struct gm_share_key) == 40, "wire");
_Static_assert(sizeof(struct gm_share_claim) == 112, "wire");
_Static_assert(sizeof(struct gm_share_ask) == 128, "wire");
_Static_assert(sizeof(struct gm_share_open) == 112, "wire");
_Static_assert(sizeof(struct gm_share_reply) == 64, "wire");
_Static_assert(sizeof(struct gm_share_buffer) == 24, "wire");
_Static_assert(sizeof(struct gm_shares_item) == 192, "wire");

#endif
