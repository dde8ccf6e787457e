/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * layout.h - define every byte of the map segment, the file map of an instance
 * (names.h).
 *
 * One process writes the segment, the agent; all others map it read-only.  The
 * segment consists of words, gm_a64 and gm_a32.  An image gives the words of a
 * block their meaning: a plain struct in private memory whose offsets are fixed
 * here.  The writer fills an image and stores it word by word; a reader loads
 * the words into an image of its own and validates that copy (seq.h).  Fields
 * of an image are therefore never accessed in the segment, with one exception:
 * tables of rows and ranks, which views read in place.
 *
 * The bytes of masks lie in node segments, the files node<N> beside it: a
 * struct gm_node_header and spans of whole GM_SPAN_UNITs, which blocks of kind
 * mask name.
 *
 *	0		struct gm_header
 *	rows_at		n_rows * struct gm_row
 *	objects_at	n_objects * struct gm_object_slot
 *	holders_at	n_holders * struct gm_holder
 *	heap_at		blocks, in units of 64 bytes counted from byte 0
 *
 * A slot word is version << 24 | unit: the 40-bit version grows with every
 * publication and outlasts deletion and the agent; the unit is the block's
 * start, in 64-byte units from the start of the segment, 0 for no object.
 *
 * Changing an offset changes GM_LAYOUT_MAJOR, and so does growing an array's
 * element (a charge, a group, a replica).  Appending to an image changes
 * GM_LAYOUT_MINOR.  Both change tests/abi/layout.golden.
 */
#ifndef GM_LAYOUT_H
#define GM_LAYOUT_H

#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/atomic.h"

#define GM_LAYOUT_MAJOR   4u
#define GM_LAYOUT_MINOR   0u
#define GM_MAGIC          UINT64_C(0x000050414d555047) /* as bytes: GPUMAP */
#define GM_BYTE_ORDER     UINT32_C(0x01020304)

#define GM_UNIT           64u                 /* bytes; blocks start at these */
#define GM_UNIT_BITS      24                  /* so a segment ends at 1 GiB */
#define GM_SEGMENT_MAX    (UINT64_C(1) << 30) /* bytes */
#define GM_ROWS           256u                /* rows of the device table */
#define GM_OBJECTS        4096u               /* slots of the directory */
#define GM_HOLDERS        1024u
#define GM_NAME_BYTES     64u    /* with the terminating NUL */
#define GM_LAYERS_MAX     65536u /* layers of one map */
#define GM_MESH_GROUPS    1024u  /* groups of one mesh */
#define GM_MESH_ADDED     64u    /* of these, groups that a client adds */
#define GM_CLUSTER_NODES  1024u
#define GM_CLUSTER_ROWS   64u /* of one node */
#define GM_CLUSTER_SHARES 64u /* likewise */
#define GM_WORKS          13u /* kinds of work that a row has room for */
#define GM_JOB_TIMES      13u /* spans of time, see gpumap_job_time() */
#define GM_MOVING_BUFFERS 8u
#define GM_MOVING_WORDS   18u

/* How long the heartbeat may stand still before readers call it stale. */
#define GM_STALE_NS UINT64_C(2000000000)

/* The segment's state. */
enum gm_state {
	GM_STATE_STARTING = 1,
	GM_STATE_READY = 2,
	GM_STATE_DRAINING = 3,
	GM_STATE_RETIRED = 4 /* a new segment took the name */
};

/* The kind of an object. */
enum gm_kind {
	GM_KIND_NONE = 0,
	GM_KIND_ROW = 1, /* a row's static facts; not in the directory */
	GM_KIND_LAYERS = 2,
	GM_KIND_MASK = 3,
	GM_KIND_MESH = 4,
	GM_KIND_CLUSTER = 5 /* one object, GM_CLUSTER_OBJECT */
};

/* In shared memory. */
struct gm_header {
	/* Bytes 0 to 63 mean the same in every major. */
	gm_a64 magic;
	gm_a32 major;
	gm_a32 minor;
	gm_a32 byte_order;
	gm_a32 state;  /* enum gm_state */
	gm_a64 size;   /* bytes of the whole segment */
	gm_a64 layout; /* gm_layout_hash() of the writer */
	gm_a64 boot_id[2];
	gm_a64 agent_start; /* ns, see timens.h */
	/* From here on: of this major. */
	gm_a64 epoch; /* agents that have written here, from 1 */
	gm_a32 agent_pid;
	gm_a32 n_rows;
	gm_a64 rows_at;
	gm_a32 n_objects;
	gm_a32 n_holders;
	gm_a64 objects_at;
	gm_a64 holders_at;
	gm_a64 heap_at;
	gm_a64 heap_bytes;
	alignas(GM_LINE) gm_a32 generation; /* a futex; objects and states */
	gm_a32 rows_used; /* rows given out so far; they are 0 .. used - 1 */
	gm_a32 agent_version; /* 10000 * major + 100 * minor + patch */
	alignas(GM_LINE) gm_a64 heartbeat; /* ns, see timens.h */
	gm_a64 tick;                       /* refreshes of moving facts */
	/* unit where the search for the next block starts */
	alignas(GM_LINE) gm_a64 rotor;
};

/* In shared memory. */
struct gm_row {
	alignas(GM_LINE) gm_a64 facts; /* slot word of a GM_KIND_ROW block */
	gm_a64 version;                /* of the moving facts, from 0: none */
	/* The least sizes of which the row is worth it, by enum gpumap_work,
	 * and when they were set, ns since 1970, or 0: they are the defaults.
	 * Each word has a meaning by itself and is stored in place. */
	gm_a64 least[GM_WORKS];
	gm_a64 calibrated;
	alignas(GM_LINE) gm_a64 moving[GM_MOVING_BUFFERS][GM_MOVING_WORDS];
	/* The jobs of the row's own worker since the row was given out.  Each
	 * word has a meaning by itself and is stored in place. */
	alignas(GM_LINE) gm_a64 jobs;   /* that have ended */
	gm_a64 jobs_failed;             /* of these, with an error */
	gm_a64 job_ns;                  /* the time that they took */
	gm_a64 job_times[GM_JOB_TIMES]; /* how many took how long */
	/* The paths from the memory of other rows' cards to this one, a byte
	 * for each row; byte r is bits 8 * (r % 8) and up of word r / 8.
	 * Stored in place. */
	alignas(GM_LINE) gm_a64 paths[GM_ROWS / 8];
	/* Bytes of files that the row's own worker has stored; as jobs. */
	alignas(GM_LINE) gm_a64 loaded_bytes;
};

/* A path: bits 0 to 5 count its NVLinks, bits 6 and 7 are enum gpumap_peer. */
static inline uint8_t gm_path_make(uint32_t links, uint32_t peer)
{
	return (uint8_t)((links < 63 ? links : 63) | peer << 6);
}

static inline uint8_t gm_path_get(const struct gm_row *row, uint32_t other)
{
	return (uint8_t)(gm_get(&row->paths[other / 8]) >> 8 * (other % 8));
}

/* Writer. */
static inline void gm_path_put(struct gm_row *row, uint32_t other, uint8_t path)
{
	gm_a64 *word = &row->paths[other / 8];
	uint32_t bit = 8 * (other % 8);

	gm_put(word, (gm_get(word) & ~(UINT64_C(0xff) << bit)) |
			     (uint64_t)path << bit);
}

/* In shared memory. */
struct gm_object_slot {
	gm_a64 slot; /* slot word */
	gm_a64 key;  /* gm_object_key() of what was published here last */
};

/* In shared memory; struct gm_holder_image says what the words mean. */
struct gm_holder {
	gm_a64 w[8];
};

/*
 * The guarantees that a slot gives by naming a block: bits of object.flags.
 * While a slot names the block of a COMMITTED layer map, the bytes that the map
 * charges to its rows are reserved for it, so the store of the slot starts and
 * ends the reservation.  A HELD map is COMMITTED too, but only while the
 * process that a GM_HOLDER_RESERVE entry of its block names is alive.
 */
#define GM_OBJECT_COMMITTED (UINT32_C(1) << 0)
#define GM_OBJECT_HELD      (UINT32_C(1) << 1)

/* The first part of every block's image. */
struct gm_object_image {
	uint32_t kind;      /* enum gm_kind */
	uint32_t bytes;     /* of the whole block, a multiple of GM_UNIT */
	uint64_t version;   /* as in the slot word that published it */
	uint64_t published; /* ns since 1970 */
	uint32_t owner_uid; /* who may replace and release it */
	uint32_t flags;     /* GM_OBJECT_* */
	char name[GM_NAME_BYTES]; /* padded with zeros */
	/* of the whole image: fields that a later minor appended to it are
	 * skipped by earlier readers, and are 0 where an earlier agent wrote
	 * the image */
	uint32_t image_bytes;
	uint32_t unused;
	uint64_t reserved[3];
};

/* The facts of a device that do not change while it has its row. */
struct gm_row_image {
	struct gm_object_image object; /* name: the device's name */
	uint8_t uuid[16];
	uint32_t row;
	/* of the row: changes when the row is given to another device */
	uint32_t generation;
	uint32_t kind;  /* enum gpumap_device_kind */
	uint32_t known; /* GPUMAP_KNOWN_*: which fields below hold */
	uint32_t flags; /* GPUMAP_DEVICE_* */
	int32_t numa_node;
	uint32_t pci_domain;
	uint32_t pci_bus; /* bus << 8 | device << 3 | function */
	int32_t nvml_index;
	int32_t minor_number;
	int32_t ordinal_pci;     /* CUDA ordinal, order PCI_BUS_ID */
	int32_t ordinal_fastest; /* CUDA ordinal, order FASTEST_FIRST */
	int32_t mig_gi;
	int32_t mig_ci;
	uint32_t cc_major;
	uint32_t cc_minor;
	uint32_t units; /* multiprocessors, or CPUs */
	uint32_t threads_per_unit;
	uint32_t shared_bytes; /* shared memory per block */
	uint32_t l2_bytes;
	uint64_t total_bytes;
	uint32_t driver_version; /* as 1000 * major + minor */
	uint32_t cuda_version;
	char cpus[256]; /* local CPUs, as "0-3,8" */
	char mig_profile[32];
	/* These three are facts of cards. */
	uint32_t recovery; /* enum gpumap_recovery, UINT32_MAX: not known */
	uint32_t last_xid; /* number of the newest Xid, 0: none seen */
	uint64_t xids;     /* seen since the row was given out */
	uint64_t reserved[2];
};

/* The moving facts of a device: 144 bytes, GM_MOVING_WORDS words. */
struct gm_moving_image {
	uint32_t state; /* enum gpumap_device_state */
	uint32_t known; /* GPUMAP_KNOWN_* of the fields below */
	uint64_t free_bytes;
	uint64_t reserved_bytes;
	uint64_t budget_bytes;
	double score;
	uint32_t utilisation; /* per mille */
	int32_t temperature;  /* millidegrees Celsius */
	uint32_t power;       /* milliwatts */
	uint32_t worker_pid;
	uint32_t restarts;
	int32_t error;  /* the errno or driver code behind the reason, or 0 */
	uint64_t since; /* ns, see timens.h: when the state was entered */
	char reason[56];
	/* of the reserved bytes: those that holders have already, and that are
	 * missing in the free bytes */
	uint64_t used_by_holders;
	uint32_t figures; /* enum gpumap_figures */
	uint32_t unused;
};

/* Follows the object image in a GM_KIND_LAYERS block. */
struct gm_layers_image {
	struct gm_object_image object;
	uint32_t n_layers;
	uint32_t n_rows;       /* unique rows, and charges */
	uint32_t base;         /* row of the non-mapped parts */
	uint32_t setting;      /* enum gpumap_setting */
	uint32_t dtype;        /* enum gpumap_dtype; the type of most weights */
	uint32_t spec_bytes;   /* with the NUL */
	uint64_t weight_bytes; /* of all layers */
	uint64_t other_bytes;  /* of the non-mapped parts */
	uint32_t rows_at;  /* n_layers uint32_t; bytes from the block's start */
	uint32_t bytes_at; /* n_layers uint64_t: bytes of each layer */
	uint32_t
		charges_at; /* n_rows struct gm_charge_image, first use first */
	uint32_t spec_at;   /* spec_bytes characters */
	/* 0: not said. */
	/* tokens that the charges for KV cache suffice for */
	uint64_t max_seq_len;
	uint32_t max_batch_size;
	uint16_t strategy;      /* enum gpumap_strategy */
	uint16_t compute_dtype; /* enum gpumap_dtype, of activations */
};

/* Bytes that the image of each kind has had since GM_LAYOUT_MAJOR began. */
#define GM_ROW_IMAGE_LEAST     560u
#define GM_LAYERS_IMAGE_LEAST  200u
#define GM_MASK_IMAGE_LEAST    344u
#define GM_MESH_IMAGE_LEAST    192u
#define GM_CLUSTER_IMAGE_LEAST 320u

/* The memory that a map takes from one row. */
struct gm_charge_image {
	uint32_t row;
	uint32_t n_layers;
	uint64_t weight_bytes;
	uint64_t kv_bytes;
	uint64_t activation_bytes;
	uint64_t reserve_bytes;
	uint64_t spare[2];
};

#define GM_MASK_RANK_MAX 4u

/* The image of a GM_KIND_MASK block.  The tensor is as published: dense, the
 * last dimension the fastest. */
struct gm_mask_image {
	struct gm_object_image object;
	uint32_t kind; /* enum gpumap_mask_kind; only CUSTOM has a tensor */
	/* enum gpumap_mask_form; LOADED: no rule generated it */
	uint32_t form;
	uint32_t dtype; /* enum gpumap_dtype */
	uint32_t rank;
	uint64_t shape[GM_MASK_RANK_MAX];   /* elements; 0 past the rank */
	uint64_t strides[GM_MASK_RANK_MAX]; /* bytes; likewise */
	uint64_t bytes;                     /* of the tensor */
	uint64_t hash;                      /* of these bytes */
	/* The parameters that it was generated from. */
	uint64_t tgt_len;
	uint64_t past_kv_len;
	uint64_t sliding_window;
	uint64_t chunk_size;
	uint32_t n_replicas;  /* 1 to GM_ROWS, each of another row */
	uint32_t replicas_at; /* struct gm_replica_image */
	/* the layer map whose rows it follows; "": none */
	char map[GM_NAME_BYTES];
	/* A sum over the headers of the node segments that DEVICE replicas
	 * name; 0: there are none. */
	uint64_t homes;
	uint64_t reserved;
};

/* The place of a replica's bytes. */
enum gm_replica_place {
	GM_REPLICA_NOWHERE = 0, /* there are none: the mask has no tensor */
	GM_REPLICA_NODE = 1,    /* in a node segment */
	GM_REPLICA_DEVICE = 2   /* in an exported allocation */
};

/* The replica of one row.  Rows of one node name the same span.  A device's
 * replica is a copy of the span that it names, and is the whole of an exported
 * allocation. */
struct gm_replica_image {
	uint32_t row;
	uint32_t row_generation;
	uint32_t place; /* enum gm_replica_place */
	uint32_t node;  /* NODE, DEVICE: the node whose segment has the span */
	/* NODE: computed from its header; DEVICE: the export's, or 0 while the
	 * row is out of service and has none */
	uint64_t id;
	uint64_t at;    /* whole GM_SPAN_UNITs from the file's start */
	uint64_t bytes; /* of the tensor */
};

#define GM_NODE_MAGIC UINT64_C(0x004e50414d555047) /* "GPUMAPN" */
#define GM_SPAN_UNIT  65536u /* bytes: whole pages for every page size */
#define GM_NODES      256u

/* The start of a node segment; in shared memory.  The header does not change
 * while the file has its name.  Pages behind it are added as masks need them,
 * and never removed. */
struct gm_node_header {
	gm_a64 magic;
	gm_a32 major;
	gm_a32 minor;
	gm_a32 byte_order;
	gm_a32 node;
	gm_a64 size; /* bytes of the file, with and without pages */
	gm_a64 boot_id[2];
	gm_a64 made; /* ns: tells it from an earlier segment */
};

/* The image of a GM_KIND_MESH block.  Its ranks are 0 to world - 1, each on a
 * row of its own.  Group 0 has them all, in order. */
struct gm_mesh_image {
	struct gm_object_image object;
	uint32_t topology; /* enum gpumap_mesh_topology */
	uint32_t world;    /* 1 to GM_ROWS */
	uint32_t tp;       /* factors that the topology does not have are 1 */
	uint32_t pp;
	uint32_t dp;
	uint32_t n_groups;  /* 1 to GM_MESH_GROUPS */
	uint32_t n_added;   /* of these, the last ones */
	uint32_t groups_at; /* n_groups struct gm_group_image */
	uint64_t reserved[4];
};

struct gm_group_image {
	char name[GM_NAME_BYTES]; /* padded with zeros */
	uint32_t backend;         /* enum gpumap_mesh_backend */
	uint32_t n;               /* ranks, 1 to the world */
	uint32_t ranks_at;        /* n uint32_t */
	uint32_t rows_at; /* n uint32_t: the row of each of these ranks */
	uint64_t epoch;   /* odd: broken; changes are stored in place */
	uint64_t reserved;
};

/* The name of the one object of GM_KIND_CLUSTER. */
#define GM_CLUSTER_OBJECT "cluster"

/* The image of a GM_KIND_CLUSTER block: what each node of the cluster says of
 * itself.  @limit and @heard are stored in place. */
struct gm_cluster_image {
	struct gm_object_image object;
	char cluster[GM_NAME_BYTES]; /* padded with zeros, as all names here */
	char node[GM_NAME_BYTES];    /* this one */
	uint64_t limit;              /* ns */
	/* ns, see timens.h: when all that other nodes had said was known here;
	 * 0: it never was */
	uint64_t heard;
	uint32_t n_nodes; /* at most GM_CLUSTER_NODES */
	uint32_t n_gone;
	uint32_t n_refused;
	uint32_t n_devices;
	uint32_t n_shares;
	uint32_t nodes_at;   /* struct gm_cluster_node_image, by name */
	uint32_t devices_at; /* struct gm_cluster_device_image, by node */
	uint32_t shares_at;  /* struct gm_cluster_share_image, likewise */
	uint64_t reserved[2];
};

struct gm_cluster_node_image {
	char name[GM_NAME_BYTES];
	char address[GM_NAME_BYTES];
	uint32_t state; /* enum gpumap_cluster_state */
	uint32_t flags; /* GPUMAP_CLUSTER_* */
	/* ns, see timens.h: when it changed or went; modulo 2^64, as that may
	 * have been before this machine started */
	uint64_t since;
	uint64_t epoch; /* of its agent */
	uint32_t agent_version;
	uint32_t n_devices; /* at most GM_CLUSTER_ROWS */
	uint32_t n_shares;  /* at most GM_CLUSTER_SHARES */
	uint32_t more_devices;
	uint32_t more_shares;
	uint32_t first_device; /* its first entry of the table */
	uint32_t first_share;
	uint32_t unused;
};

struct gm_cluster_device_image {
	uint32_t node; /* entry of the table of nodes */
	uint32_t row;
	uint8_t uuid[16];
	char name[GM_NAME_BYTES];
	uint16_t kind;  /* enum gpumap_device_kind */
	uint16_t state; /* enum gpumap_device_state */
	uint16_t cc_major;
	uint16_t cc_minor;
	uint32_t flags; /* GPUMAP_DEVICE_* */
	int32_t numa_node;
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t reserved_bytes;
	uint64_t used_by_holders;
	uint32_t links;
	uint32_t unused;
};

struct gm_cluster_share_image {
	uint32_t node; /* entry of the table of nodes */
	uint32_t uid;
	uint32_t flags; /* GPUMAP_SHARE_* */
	uint32_t unused;
	char name[GM_NAME_BYTES];
	uint64_t bytes;
	uint64_t rows[GM_ROWS / 64]; /* a bit for each */
	uint8_t fingerprint[32];     /* all 0: it has none */
};

enum gm_holder_kind {
	GM_HOLDER_FREE = 0,
	GM_HOLDER_PIN = 1,
	GM_HOLDER_RESERVE = 2 /* of a HELD map */
};

/*
 * One pin or reservation of one process: 64 bytes, eight words, the first
 * stored last.
 *
 * A RESERVE entry is stored before the slot that names its block and freed
 * after the slot has moved on, so it means nothing unless a slot names @unit
 * under @version.  The entry does not keep the block from being reused.
 */
struct gm_holder_image {
	uint32_t kind; /* enum gm_holder_kind */
	uint32_t unit; /* where the block starts */
	uint32_t pid;  /* as the agent sees it */
	uint32_t uid;
	/* The process began then or before: field 22 of /proc/pid/stat is this
	 * at most. */
	uint64_t start;
	uint32_t slot; /* of the object; a slot gives no version twice */
	uint32_t unused;
	uint64_t version;
	uint64_t bytes;
	uint64_t claim; /* the holder's ticket; never used twice */
	/* RESERVE: the end of the holder's start window, by the node's clock,
	 * in ns; 0: it is in none.  Stored in place. */
	uint64_t start_until;
};

#define GM_ASSERT_AT(type, field, at) \
	_Static_assert(offsetof(struct type, field) == (at), #type "." #field)
#define GM_ASSERT_BYTES(type, bytes) \
	_Static_assert(sizeof(struct type) == (bytes), #type " has grown")

GM_ASSERT_AT(gm_header, state, 20);
GM_ASSERT_AT(gm_header, size, 24);
GM_ASSERT_AT(gm_header, boot_id, 40);
GM_ASSERT_AT(gm_header, agent_start, 56);
GM_ASSERT_AT(gm_header, epoch, 64);
GM_ASSERT_AT(gm_header, heap_bytes, 120);
GM_ASSERT_AT(gm_header, generation, 128);
GM_ASSERT_AT(gm_header, heartbeat, 256);
GM_ASSERT_AT(gm_header, rotor, 384);
GM_ASSERT_BYTES(gm_header, 512);
GM_ASSERT_AT(gm_row, least, 16);
GM_ASSERT_AT(gm_row, calibrated, 120);
GM_ASSERT_AT(gm_row, moving, 128);
GM_ASSERT_AT(gm_row, jobs, 1280);
GM_ASSERT_AT(gm_row, paths, 1408);
GM_ASSERT_AT(gm_row, loaded_bytes, 1664);
GM_ASSERT_BYTES(gm_row, 1792);
GM_ASSERT_BYTES(gm_object_slot, 16);
GM_ASSERT_BYTES(gm_holder, 64);
GM_ASSERT_AT(gm_object_image, name, 32);
GM_ASSERT_BYTES(gm_object_image, 128);
GM_ASSERT_AT(gm_row_image, cpus, 240);
GM_ASSERT_AT(gm_row_image, recovery, 528);
GM_ASSERT_BYTES(gm_row_image, 560);
GM_ASSERT_AT(gm_moving_image, reason, 72);
GM_ASSERT_AT(gm_moving_image, used_by_holders, 128);
GM_ASSERT_BYTES(gm_moving_image, 8 * GM_MOVING_WORDS);
GM_ASSERT_AT(gm_layers_image, rows_at, 168);
GM_ASSERT_AT(gm_layers_image, max_seq_len, 184);
GM_ASSERT_BYTES(gm_layers_image, 200);
GM_ASSERT_BYTES(gm_charge_image, 56);
GM_ASSERT_BYTES(gm_holder_image, sizeof(struct gm_holder));
GM_ASSERT_AT(gm_mask_image, shape, 144);
GM_ASSERT_AT(gm_mask_image, n_replicas, 256);
GM_ASSERT_AT(gm_mask_image, map, 264);
GM_ASSERT_AT(gm_mask_image, homes, 328);
GM_ASSERT_BYTES(gm_mask_image, 344);
GM_ASSERT_BYTES(gm_replica_image, 40);
GM_ASSERT_AT(gm_node_header, made, 48);
GM_ASSERT_BYTES(gm_node_header, 56);
GM_ASSERT_AT(gm_mesh_image, n_groups, 148);
GM_ASSERT_AT(gm_mesh_image, groups_at, 156);
GM_ASSERT_BYTES(gm_mesh_image, 192);
GM_ASSERT_AT(gm_group_image, n, 68);
GM_ASSERT_AT(gm_group_image, epoch, 80);
GM_ASSERT_BYTES(gm_group_image, 96);

GM_ASSERT_AT(gm_cluster_image, limit, 256);
GM_ASSERT_AT(gm_cluster_image, heard, 264);
GM_ASSERT_AT(gm_cluster_image, nodes_at, 292);
GM_ASSERT_BYTES(gm_cluster_image, GM_CLUSTER_IMAGE_LEAST);
GM_ASSERT_AT(gm_cluster_node_image, since, 136);
GM_ASSERT_AT(gm_cluster_node_image, first_device, 172);
GM_ASSERT_BYTES(gm_cluster_node_image, 184);
GM_ASSERT_AT(gm_cluster_device_image, kind, 88);
GM_ASSERT_AT(gm_cluster_device_image, total_bytes, 104);
GM_ASSERT_BYTES(gm_cluster_device_image, 144);
GM_ASSERT_AT(gm_cluster_share_image, bytes, 80);
GM_ASSERT_BYTES(gm_cluster_share_image, 152);

/* Offsets of the fixed parts of a segment. */
#define GM_ROWS_AT    4096u
#define GM_OBJECTS_AT (GM_ROWS_AT + GM_ROWS * sizeof(struct gm_row))
#define GM_HOLDERS_AT \
	(GM_OBJECTS_AT + GM_OBJECTS * sizeof(struct gm_object_slot))
#define GM_HEAP_AT (GM_HOLDERS_AT + GM_HOLDERS * sizeof(struct gm_holder))

_Static_assert(GM_HEAP_AT % 4096 == 0, "the heap starts on a page");

/* A hash over the sizes and offsets that no minor changes: two builds that
 * disagree about any of them refuse each other's segments. */
uint64_t gm_layout_hash(void);

/* The directory's key of an object: equal for equal (kind, name), never 0.  The
 * key saves a reader most comparisons of names and proves nothing: any user can
 * find a second name with the same key. */
uint64_t gm_object_key(uint32_t kind, const char *name);

#endif
