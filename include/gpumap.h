/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap.h - see this node's devices and hand them work.
 *
 * Reading costs no system call: the calls below copy out of memory that
 * gpumapd publishes, and never block.  Submitting costs none while the worker
 * of the row is awake, and one when it sleeps.
 *
 * Errors     0 or a count on success, a negative errno on failure; nothing is
 *            stored through a ret_ pointer then.  gpumap_strerror() has a
 *            sentence for each, gpumap_refusal() the agent's own words.
 * Threads    Said for each call.  "any" means that an attachment may be shared
 *            by threads without a lock; a session belongs to one thread at a
 *            time.
 * Fork       A child may go on reading the map.  Session calls fail with
 *            -EOWNERDEAD there, and so do calls that talk to the agent.
 * Manners    The library prints nothing, starts no thread, installs no signal
 *            handler, reads no environment and keeps no state outside of what
 *            it gives you.
 *
 * Structs that open with @size grow at their end only: set @size to sizeof the
 * struct and zero the rest.  A library that is older than its caller answers
 * -E2BIG when a field that it does not know is set.
 */
#ifndef GPUMAP_H
#define GPUMAP_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/view.h>

#define GPUMAP_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

#define GPUMAP_NAME_MAX    63  /* bytes of a name, without its NUL */
#define GPUMAP_ROWS_MAX    256 /* rows of a device table */
#define GPUMAP_NO_DEADLINE UINT64_MAX

/* ---- attach ------------------------------------------------------------ */

/* One process's view of one agent.  Opaque. */
struct gpumap;

struct gpumap_attach_opts {
	size_t size;          /* sizeof(struct gpumap_attach_opts) */
	const char *instance; /* NULL: "node" */
	const char
		*runtime_dir; /* of the control socket; NULL: "/run/gpumap" */
	uint32_t flags;       /* none yet, 0 */
};

/*
 * gpumap_attach - map an agent's segment into this process, read-only
 *
 * opts		NULL for the defaults
 * ret_map	receives the attachment; give it back with gpumap_detach()
 *
 * Where the segment cannot be opened by name, as in a container with a /dev/shm
 * of its own, the agent is asked for it over its control socket.
 *
 * Returns	0
 *		-ENOENT		no agent has published under this name
 *		-EPROTO		what is there is no segment, or one of another
 *				layout than this library's
 *		-EPERM		the file could have been written by others than
 *				its agent; it was not mapped
 *		-EINVAL		a name with a '/' or longer than GPUMAP_NAME_MAX
 *		-E2BIG		opts uses a field or flag newer than this
 *				library
 *		-EACCES, -ENOMEM, -EMFILE	from the kernel
 * Cost		about twice a bare shm_open, mmap and first read
 * Threads	any
 */
GPUMAP_API int gpumap_attach(const struct gpumap_attach_opts *opts,
			     struct gpumap **ret_map);

/*
 * gpumap_detach - unmap and free; NULL is allowed
 *
 * Ends the pins of this attachment.  Sessions must have been closed before.
 *
 * Returns	nothing
 * Threads	no other thread may still use @map, or a view of it
 */
GPUMAP_API void gpumap_detach(struct gpumap *map);

enum gpumap_state {
	GPUMAP_STARTING = 1,
	GPUMAP_READY = 2,
	GPUMAP_DRAINING = 3, /* the agent is shutting down */
	GPUMAP_RETIRED = 4   /* a new segment took this name: attach again */
};

struct gpumap_health {
	size_t size;     /* sizeof(struct gpumap_health), set by the caller */
	uint32_t state;  /* enum gpumap_state */
	uint32_t stale;  /* 1: the agent has not been seen for two seconds */
	uint64_t age_ns; /* since the last heartbeat */
	uint64_t epoch;  /* agents that have written this map, from 1 */
	uint64_t tick;   /* refreshes of the moving facts */
	uint32_t generation; /* changes of objects and row states */
	uint32_t agent_pid;  /* in the agent's pid namespace */
	uint64_t bytes;      /* of the segment */
};

/*
 * gpumap_health - is the agent alive, and is this still its map?
 *
 * Returns	0
 *		-E2BIG		ret_health->size is larger than this library
 *				knows
 *		-EINVAL		ret_health->size is smaller than its first
 *				fields
 * Cost		a few loads and clock_gettime (no system call)
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_health(const struct gpumap *map,
			     struct gpumap_health *ret_health);

/*
 * gpumap_generation - a number that changes when an object or a state does
 *
 * Returns	the generation; it wraps
 * Cost		one load
 * Threads	any; async-signal-safe
 */
GPUMAP_API uint32_t gpumap_generation(const struct gpumap *map);

/*
 * gpumap_wait_change - sleep until the generation is no longer @seen
 *
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 *
 * Returns	0		it differs from @seen
 *		-ETIME		the deadline passed
 *		-ESTALE		the agent has not been seen for two seconds, or
 *				its map was retired
 * Cost		a futex wait, at most a second at a time
 * Threads	any
 */
GPUMAP_API int gpumap_wait_change(const struct gpumap *map, uint32_t seen,
				  uint64_t deadline_ns);

/*
 * gpumap_strerror - a sentence about a return value of this library
 *
 * error	negative, as returned
 *
 * Returns	constant text, never NULL
 * Threads	any; async-signal-safe
 */
GPUMAP_API const char *gpumap_strerror(int error);

/*
 * gpumap_refusal - why the agent refused the last request of this attachment
 *
 * Returns	text that names what was wrong and what to do, or "" when the
 *		last request was granted; holds until the next request.  Where
 *		no agent could be asked, it is the library that says why
 * Threads	the thread that made the request
 */
GPUMAP_API const char *gpumap_refusal(const struct gpumap *map);

/* ---- devices ----------------------------------------------------------- */

enum gpumap_device_kind {
	GPUMAP_DEVICE_HOST = 1,
	GPUMAP_DEVICE_CUDA = 2,
	GPUMAP_DEVICE_DUMMY = 3 /* plans and accounts, holds no data */
};

enum gpumap_device_state {
	GPUMAP_DEVICE_PROBING = 1,
	GPUMAP_DEVICE_READY = 2,
	GPUMAP_DEVICE_RESTARTING = 3,
	GPUMAP_DEVICE_DRAINING = 4,
	GPUMAP_DEVICE_FAILED = 5,
	GPUMAP_DEVICE_LOST = 6
};

/* Which facts are known: a bit each, in gpumap_device.known. */
#define GPUMAP_KNOWN_NUMA        (UINT32_C(1) << 0)
#define GPUMAP_KNOWN_PCI         (UINT32_C(1) << 1)
#define GPUMAP_KNOWN_CPUS        (UINT32_C(1) << 2)
#define GPUMAP_KNOWN_MEMORY      (UINT32_C(1) << 3)
#define GPUMAP_KNOWN_UNITS       (UINT32_C(1) << 4)
#define GPUMAP_KNOWN_CC          (UINT32_C(1) << 5)
#define GPUMAP_KNOWN_NVML        (UINT32_C(1) << 6)
#define GPUMAP_KNOWN_ORDINALS    (UINT32_C(1) << 7)
#define GPUMAP_KNOWN_MIG         (UINT32_C(1) << 8)
#define GPUMAP_KNOWN_UTILISATION (UINT32_C(1) << 9)
#define GPUMAP_KNOWN_TEMPERATURE (UINT32_C(1) << 10)
#define GPUMAP_KNOWN_POWER       (UINT32_C(1) << 11)

/* What a device is or can do: bits of gpumap_device.flags. */
#define GPUMAP_DEVICE_ECC        (UINT32_C(1) << 0)
#define GPUMAP_DEVICE_INTEGRATED (UINT32_C(1) << 1)
#define GPUMAP_DEVICE_MIG        (UINT32_C(1) << 2) /* split into instances */
#define GPUMAP_DEVICE_FP16       (UINT32_C(1) << 3)
#define GPUMAP_DEVICE_BF16       (UINT32_C(1) << 4)
#define GPUMAP_DEVICE_INT8       (UINT32_C(1) << 5)
/* Its memory is the node's main memory: to a plan it is a host.  Every host
 * row has this, and a dummy row that stands for one. */
#define GPUMAP_DEVICE_MAIN_MEMORY (UINT32_C(1) << 6)

/* What a device needs before it is itself again, as its driver says. */
enum gpumap_recovery {
	GPUMAP_RECOVERY_NONE = 0,
	GPUMAP_RECOVERY_GPU_RESET = 1,
	GPUMAP_RECOVERY_NODE_REBOOT = 2,
	GPUMAP_RECOVERY_DRAIN_P2P = 3,
	GPUMAP_RECOVERY_DRAIN_AND_RESET = 4
};

struct gpumap_device {
	size_t size;         /* sizeof(struct gpumap_device) */
	uint32_t row;        /* this device's place; rows are what maps name */
	uint32_t generation; /* of the row: moves on when it is given anew */
	uint32_t kind;       /* enum gpumap_device_kind */
	uint32_t known;      /* GPUMAP_KNOWN_* */
	uint32_t flags;      /* GPUMAP_DEVICE_* */
	int32_t numa_node;   /* -1: none */
	uint8_t uuid[16];
	char name[64];
	char cpus[256]; /* local CPUs, "0-3,8" */
	uint32_t pci_domain;
	uint32_t pci_bus;   /* bus << 8 | device << 3 | function */
	int32_t nvml_index; /* -1: none; so for the five that follow */
	int32_t minor_number;
	int32_t ordinal_pci; /* CUDA ordinal of CUDA_DEVICE_ORDER=PCI_BUS_ID */
	int32_t ordinal_fastest;
	int32_t mig_gi;
	int32_t mig_ci;
	char mig_profile[32];
	uint32_t cc_major;
	uint32_t cc_minor;
	uint32_t units; /* multiprocessors; CPUs of a host row */
	uint32_t threads_per_unit;
	uint32_t shared_bytes; /* per block */
	uint32_t l2_bytes;
	uint64_t total_bytes;
	uint32_t driver_version; /* 1000 * major + 10 * minor; 0: none */
	uint32_t cuda_version;
	/* Moving facts, of one refresh. */
	uint32_t state;    /* enum gpumap_device_state */
	int32_t error;     /* errno or driver code behind @reason, or 0 */
	char reason[56];   /* why the state is not READY */
	uint64_t since_ns; /* CLOCK_MONOTONIC: when the state was entered */
	uint64_t free_bytes;
	uint64_t reserved_bytes;
	uint64_t budget_bytes; /* min(free, total / 2): a measure for programs
				* that share a device without asking, see also
				* gpumap_buffer_alloc().  A plan may take
				* free_bytes less reserved_bytes */
	double score;          /* weight in a scatter; higher is faster */
	uint32_t utilisation;  /* per mille */
	int32_t temperature;   /* millidegrees Celsius */
	uint32_t power;        /* milliwatts */
	uint32_t worker_pid;   /* 0: none */
	uint32_t restarts;     /* of the worker */
	/* Of CUDA rows. */
	uint32_t recovery; /* enum gpumap_recovery; UINT32_MAX: not known */
	uint32_t last_xid; /* of the newest Xid; 0: none seen */
	uint32_t reserved;
	uint64_t xids; /* Xids seen since the row was given out; most of them
			* are of other processes and leave the device healthy */
};

/*
 * gpumap_device_count - rows that have been given out
 *
 * Rows are 0 to count - 1.  A lost device keeps its row.
 *
 * Returns	the count, at most GPUMAP_ROWS_MAX
 * Cost		one load
 * Threads	any; async-signal-safe
 */
GPUMAP_API uint32_t gpumap_device_count(const struct gpumap *map);

/*
 * gpumap_device_read - everything about the device in one row
 *
 * ret_device	set its @size before the call
 *
 * Returns	0
 *		-ENODEV		no such row
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-E2BIG, -EINVAL	ret_device->size is larger than this library
 *				knows, or smaller than its first fields
 * Cost		no system call; one pass over about 700 bytes
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_device_read(const struct gpumap *map, uint32_t row,
				  struct gpumap_device *ret_device);

/*
 * gpumap_device_find - the row of a UUID
 *
 * Returns	the row, >= 0
 *		-ENODEV		no row has it
 *		-EAGAIN, -EPROTO	as gpumap_device_read()
 * Cost		no system call; reads every row
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_device_find(const struct gpumap *map,
				  const uint8_t uuid[16]);

/*
 * gpumap_device_drain - take a device out of service
 *
 * What is in the row's queues ends, its worker ends, and every handle to the
 * device that gpumap holds is closed: it may be reset, split or taken out.  Of
 * a MIG instance only the worker ends; its card is closed when that is drained.
 * Buffers on the row are gone with the worker, but for whoever has imported
 * them.  Jobs that come later end with -ENODEV.  The row says DRAINING, and so
 * do the instances of a card that is split, until gpumap_device_undrain() or
 * the end of the agent.
 *
 * Returns	0		it is done
 *		-EPERM		only root and the agent's own user may
 *		-ENODEV		no such row, or a dummy
 *		-EBUSY		the row is just being brought back, or, to bring
 *				it back, was drained with its card
 *		-ECANCELED	it was brought back meanwhile
 *		-ETIMEDOUT	the worker has not ended, or the probe has not
 *				closed the card, within the time that the
 *				administrator set (drain-row, a minute or half
 *				of one); the row is drained once they have, and
 *				this call may be made again to wait for that
 *		-ESHUTDOWN	the agent is draining itself
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOPNOTSUPP, -EPROTO,
 *		-EOWNERDEAD
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket, which takes as long as the
 *		jobs do
 * Threads	one at a time
 */
GPUMAP_API int gpumap_device_drain(struct gpumap *map, uint32_t row);

/*
 * gpumap_device_undrain - put it into service again
 *
 * Returns	as gpumap_device_drain(); 0 too when it was not drained;
 *		-ETIMEDOUT when the card has not been seen within drain-row
 *		(half a minute): the row is LOST until it is
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_device_undrain(struct gpumap *map, uint32_t row);

/*
 * gpumap_visible - the rows of this process's CUDA ordinals
 *
 * What CUDA makes of CUDA_VISIBLE_DEVICES, over the device table: ordinals in
 * either order, whole and abbreviated UUIDs, and MIG instances in all their
 * forms.  Only devices are counted whose nodes in /dev this process may open,
 * so it holds inside of a container as well.
 *
 * visible_devices	the value of CUDA_VISIBLE_DEVICES, NULL where it is not
 *			set; the library does not look
 * device_order		likewise of CUDA_DEVICE_ORDER
 * ret_rows		receives the row of ordinal 0, 1 and so on
 * n			room in ret_rows
 *
 * An entry that CUDA cannot make sense of ends the list, which is no error:
 * gpumap_refusal() says which and why, and "" when nothing is wrong.
 *
 * Returns	how many the process sees, which may be more than @n
 *		-EAGAIN, -EPROTO	as gpumap_device_read()
 * Cost		reads every row; a system call for each card, and some more for
 *		each MIG instance
 * Threads	one at a time
 */
GPUMAP_API int gpumap_visible(struct gpumap *map, const char *visible_devices,
			      const char *device_order, uint32_t *ret_rows,
			      size_t n);

/* ---- layer maps -------------------------------------------------------- */

enum gpumap_dtype {
	GPUMAP_DTYPE_U8 = 0,
	GPUMAP_DTYPE_F16 = 1,
	GPUMAP_DTYPE_BF16 = 2,
	GPUMAP_DTYPE_F32 = 3,
	GPUMAP_DTYPE_I32 = 4,
	GPUMAP_DTYPE_I64 = 5,
	GPUMAP_DTYPE_F64 = 6,
	GPUMAP_DTYPE_U16 = 7,
	GPUMAP_DTYPE_U32 = 8,
	GPUMAP_DTYPE_U64 = 9
};

/* Where a layer map came from. */
enum gpumap_setting {
	GPUMAP_SETTING_MANUAL = 1,   /* a spec */
	GPUMAP_SETTING_AUTO = 2,     /* a strategy */
	GPUMAP_SETTING_TOPOLOGY = 3, /* a topology file */
	GPUMAP_SETTING_DUMMY = 4,    /* everything on the base row */
	GPUMAP_SETTING_NCCL = 5,     /* every rank has a part of all layers */
	GPUMAP_SETTING_PIPELINE = 6  /* a range of layers for each rank */
};

/* How an automatic map is made. */
enum gpumap_strategy {
	GPUMAP_STRATEGY_FILL = 1,    /* one row after the other */
	GPUMAP_STRATEGY_BALANCE = 2, /* the slowest row as fast as can be */
	GPUMAP_STRATEGY_FEWEST = 3   /* as few rows as can be */
};

/* What a layer map promises: bits of gpumap_layers.flags. */
#define GPUMAP_LAYERS_COMMITTED (UINT32_C(1) << 0) /* its charges are its own */
#define GPUMAP_LAYERS_HELD      (UINT32_C(1) << 1) /* while one process lives */

struct gpumap_layers {
	size_t size; /* sizeof(struct gpumap_layers) */
	char name[64];
	uint64_t version; /* grows with every publication under this name */
	uint64_t published_ns; /* since 1970 */
	uint32_t owner_uid;
	uint32_t setting; /* enum gpumap_setting */
	uint32_t n_layers;
	uint32_t n_rows;        /* rows that anything is charged to: those that
				 * hold a layer, and the base row also where it
				 * holds none */
	uint32_t base_row;      /* of what belongs to no layer */
	uint32_t dtype;         /* enum gpumap_dtype, of most weights */
	uint64_t layer_bytes;   /* of all layers; 0: not known */
	uint64_t other_bytes;   /* of what belongs to no layer */
	char spec[256];         /* the spec that says the same, "0:16;1:16"; cut
				* with "..." where it is longer; empty where no
				* spec can say it */
	uint32_t flags;         /* GPUMAP_LAYERS_* */
	uint32_t strategy;      /* enum gpumap_strategy; 0: none */
	uint32_t compute_dtype; /* enum gpumap_dtype, of activations and KV
				 * cache; 0: not chosen */
	uint32_t
		max_batch_size; /* that the KV cache was charged for; 0: none */
	uint64_t max_seq_len;
};

/* What a map takes from one row. */
struct gpumap_charge {
	uint32_t row;
	uint32_t n_layers;
	uint64_t weight_bytes;
	uint64_t kv_bytes;
	uint64_t activation_bytes;
	uint64_t reserve_bytes;
};

/*
 * gpumap_layers_view - a view of a layer map, for gpumap_view_get()
 *
 * name		of the map
 * ret_view	entry i is the row that holds layer i
 *
 * Returns	0
 *		-ENOENT		no map has this name
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EINVAL		a name longer than GPUMAP_NAME_MAX, or empty
 * Cost		no system call; a search of the directory
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_layers_view(const struct gpumap *map, const char *name,
				  struct gpumap_view *ret_view);

/*
 * gpumap_view_refresh - after -EAGAIN: the table as it is published now
 *
 * view		as filled before; its object is looked for where it was
 *
 * Returns	0
 *		-ENOENT		the object has been released
 *		-ESTALE		the map was retired: attach again; the view goes
 *				on answering what it did
 *		-EAGAIN, -EPROTO	as the call that filled it
 *		-EINVAL		the view is not of this attachment
 *		the view is unchanged then
 * Cost		no system call; a few loads
 * Threads	the view's own thread; async-signal-safe
 */
GPUMAP_API int gpumap_view_refresh(const struct gpumap *map,
				   struct gpumap_view *view);

/*
 * gpumap_layers_read - a whole layer map, as one publication
 *
 * ret_layers	set its @size before the call; may be NULL
 * ret_rows	receives the row of each layer; may be NULL
 * ret_bytes	receives the bytes of each layer; may be NULL
 * n		room in ret_rows and ret_bytes
 * ret_charges	receives a charge per row, in first-use order; may be NULL
 * n_charges	room in ret_charges
 *
 * Returns	0
 *		-ENOBUFS	n or n_charges is smaller than the map; only
 *				ret_layers was stored
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL	as gpumap_layers_view()
 *		-E2BIG		ret_layers->size is larger than this library
 *				knows
 *		On -EAGAIN and -EPROTO the arrays hold nothing of use: they are
 *		read in place, and what was read was found not to be whole.
 * Cost		no system call; one pass over the map unless raced
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_layers_read(const struct gpumap *map, const char *name,
				  struct gpumap_layers *ret_layers,
				  uint32_t *ret_rows, uint64_t *ret_bytes,
				  size_t n, struct gpumap_charge *ret_charges,
				  size_t n_charges);

/*
 * gpumap_layers_next - the names of all layer maps, one a call
 *
 * cursor	0 for the first call, then as it was left by the last
 * ret_name	receives the name, at most GPUMAP_NAME_MAX bytes and a NUL
 *
 * Maps that are published or released meanwhile may or may not be seen; one
 * that is released and published again meanwhile may be seen twice.
 *
 * Returns	1 with a name, 0 when there is none left
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_layers_next(const struct gpumap *map, uint32_t *cursor,
				  char ret_name[GPUMAP_NAME_MAX + 1]);

struct gpumap_layers_request {
	size_t size; /* sizeof(struct gpumap_layers_request) */
	const char *name;
	const char *spec;            /* "ROW:LAYERS;ROW:LAYERS" or "LAYERS" */
	uint32_t n_layers;           /* of the model; 0: what the spec says */
	uint32_t dtype;              /* enum gpumap_dtype */
	const uint64_t *layer_bytes; /* n_layers of them; NULL: not known */
	uint64_t other_bytes;        /* of what belongs to no layer */
};

/*
 * gpumap_layers_publish - have the agent publish a layer map
 *
 * A map of this name is replaced in one step, if it is yours.  It stays until
 * it is released, over restarts of the agent and of the machine.
 *
 * Returns	0
 *		-EINVAL		the name, the spec or a number was refused
 *		-E2BIG		more layers than a map may have, more entries
 *				than there can be rows, or a field newer than
 *				this library
 *		-ENODEV		the spec names a row that does not exist
 *		-EAGAIN		a row was given to another device meanwhile
 *		-EPERM		the name belongs to another user
 *		-EDQUOT		this user has published as many maps or bytes as
 *				it may, or 32 MiB of its requests wait for their
 *				turn
 *		-ENOSPC		the segment is full, or the agent's disk
 *		-EROFS, -EIO	the agent's disk is read-only, or fails: what
 *				was published before stays
 *		-ENOMEM
 *		-EACCES		this user may not talk to the agent
 *		-ECONNREFUSED, -ECONNRESET	no agent, or it went away
 *		-EMSGSIZE	more than fits through a socket here: beyond
 *				some 50000 layers with sizes, net.core.wmem_max
 *				decides
 *		-EOWNERDEAD	called in a forked child
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int
gpumap_layers_publish(struct gpumap *map,
		      const struct gpumap_layers_request *request);

/*
 * gpumap_layers_release - have the agent take a layer map back
 *
 * What the map has reserved is free with it.
 *
 * Returns	0
 *		-ENOENT		no map has this name
 *		-EINVAL		no map can have this name
 *		-EPERM		it belongs to another user
 *		-ENOSPC, -EROFS, -EIO	the agent's disk does not let go of its
 *				file: the map stays.  Never of a held map, which
 *				has none, and never -EDQUOT
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD	as above
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_layers_release(struct gpumap *map, const char *name);

/*
 * gpumap_layers_pin - a view that stays valid whatever is published
 *
 * The block is not reused until gpumap_unpin(), gpumap_detach(), or the end of
 * this process; that the agent dies does not change it.  A pinned view never
 * answers -EAGAIN.
 *
 * ret_view	as gpumap_layers_view()
 * ret_pin	give it back with gpumap_unpin()
 *
 * Returns	0
 *		-EDQUOT		this user has pinned as many bytes as it may
 *		-ENOSPC		the table of holders is full
 *		-ESRCH		the agent does not see this process, as when it
 *				is in a pid namespace of its own and the agent
 *				beside it
 *		-ENOENT, -EINVAL, -EPROTO, -ENOMEM
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_layers_pin(struct gpumap *map, const char *name,
				 struct gpumap_view *ret_view,
				 uint64_t *ret_pin);

/*
 * gpumap_unpin - give a pin back; its view must not be used any more
 *
 * Returns	0, -ENOENT when there is no such pin of this process, or
 *		-ECONNREFUSED, -ECONNRESET, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_unpin(struct gpumap *map, uint64_t pin);

/* ---- masks -------------------------------------------------------------- */

enum gpumap_mask_kind {
	GPUMAP_MASK_NONE = 1,         /* every query sees every key */
	GPUMAP_MASK_CAUSAL_FLASH = 2, /* the kernel does it, without a tensor */
	GPUMAP_MASK_CUSTOM = 3        /* a tensor */
};

/* How a CUSTOM mask came about.  Query i is at position past_kv_len + i; what
 * it may not see is 1 (u8) or minus infinity (f16, bf16, f32), the rest 0. */
enum gpumap_mask_form {
	GPUMAP_MASK_LOADED = 0,  /* from bytes of a client's */
	GPUMAP_MASK_CAUSAL = 1,  /* no key after the query */
	GPUMAP_MASK_SLIDING = 2, /* nor one more than sliding_window before */
	GPUMAP_MASK_CHUNKED =
		3, /* nor one of another chunk; the cache is seen */
	GPUMAP_MASK_BIDIRECTIONAL_SLIDING = 4 /* nothing sliding_window or more
					       * away, on either side */
};

struct gpumap_mask_request {
	size_t size; /* sizeof(struct gpumap_mask_request) */
	const char *name;
	uint32_t kind;  /* enum gpumap_mask_kind */
	uint32_t form;  /* enum gpumap_mask_form, of a CUSTOM one */
	uint32_t dtype; /* enum gpumap_dtype: U8, F16, BF16 or F32 */
	/* What it is generated from. */
	uint64_t tgt_len;        /* queries */
	uint64_t past_kv_len;    /* keys before the first of them */
	uint64_t sliding_window; /* of the SLIDING ones */
	uint64_t chunk_size;     /* of a CHUNKED one; at least 1 */
	/* What is loaded: @data, row-major and without gaps. */
	uint32_t rank; /* 1 to GPUMAP_MASK_RANK_MAX */
	uint64_t shape[GPUMAP_MASK_RANK_MAX];
	const void *data;
	/* Where to.  A layer map's rows, also those that it will have; or a
	 * list. */
	const char *map; /* NULL: the list */
	const uint32_t *rows;
	uint32_t n_rows;
};

/* What publishing has come to. */
struct gpumap_mask_result {
	size_t size; /* sizeof(struct gpumap_mask_result) */
	uint64_t version;
	uint64_t bytes;    /* of the tensor */
	uint32_t n_copies; /* times that it was written: once per NUMA node, and
			    * once per CUDA row */
	uint32_t n_shared; /* where it was already, under another name */
};

/*
 * gpumap_mask_publish - have the agent make a mask, and replicas of it
 *
 * Each row of a host can read the mask in the memory of its NUMA node from then
 * on; rows of one node have one replica between them.  Each CUDA row has one in
 * its own memory, for this user alone, and the node near it keeps the bytes
 * that it was made from.  Masks with the same bytes share their replicas.  A
 * mask of this name is replaced in one step, if it is yours; it stays until it
 * is released, and over restarts of the agent.
 *
 * One that follows a layer map has replicas for all rows of that which can have
 * some, and is published anew when the map is.  So is one on CUDA rows when a
 * worker of theirs has died, or a row goes out of service, and has none then,
 * or comes back.  A mask without a tensor can be had by every row, others by
 * all but dummy rows.
 *
 * request	set its @size
 * ret_result	set its @size; may be NULL
 *
 * Returns	0
 *		-EINVAL		the name, a kind, a form, a dtype, a size or a
 *				row was refused
 *		-ENODEV		a row that does not exist, or is out of service
 *		-ENOENT		no layer map of this name
 *		-EOPNOTSUPP	a row that cannot have a replica, or none that
 *				can
 *		-EFBIG		the mask is larger than any may be here
 *		-EOVERFLOW	it would have 2^64 elements or bytes
 *		-EPERM		the name belongs to another user
 *		-EDQUOT		this user has published as much as it may
 *		-ENOSPC		masks.bytes are used up, or /dev/shm, or the
 *				segment, or what a CUDA row has left for masks
 *		-EIO		a CUDA row's workers die of making a replica
 *		-EAGAIN		rows have changed meanwhile
 *		-EUSERS		of loaded ones: see gpumap_session_open(), for
 *				a session lasts as long as this call
 *		-ENOMEM, -E2BIG, -EACCES, -ECONNREFUSED, -ECONNRESET,
 *		-EOWNERDEAD
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket, as long as generating and
 *		copying takes, and a CUDA row's worker to start
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mask_publish(struct gpumap *map,
				   const struct gpumap_mask_request *request,
				   struct gpumap_mask_result *ret_result);

/*
 * gpumap_mask_release - have the agent take a mask back
 *
 * Who has it pinned goes on reading it.
 *
 * Returns	0
 *		-ENOENT		no mask has this name
 *		-EINVAL		no mask can have this name
 *		-EPERM		it belongs to another user
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mask_release(struct gpumap *map, const char *name);

/* A published mask.  Its tensor is dense, the last dimension the fastest. */
struct gpumap_mask_info {
	size_t size; /* sizeof(struct gpumap_mask_info) */
	char name[64];
	uint64_t version;
	uint64_t published_ns; /* since 1970 */
	uint32_t owner_uid;
	uint32_t kind;  /* enum gpumap_mask_kind */
	uint32_t form;  /* enum gpumap_mask_form */
	uint32_t dtype; /* enum gpumap_dtype */
	uint32_t rank;
	uint32_t n_rows; /* that have a replica */
	uint64_t shape[GPUMAP_MASK_RANK_MAX];
	uint64_t strides[GPUMAP_MASK_RANK_MAX]; /* bytes */
	uint64_t bytes;
	uint64_t hash;    /* of the bytes: equal for equal ones */
	uint64_t tgt_len; /* as it was asked for */
	uint64_t past_kv_len;
	uint64_t sliding_window;
	uint64_t chunk_size;
	char map[64]; /* whose rows it follows; "": a list's */
};

/*
 * gpumap_mask_read - what a mask is, and which rows have it
 *
 * ret_info	set its @size before the call; may be NULL
 * ret_rows	receives the rows; may be NULL
 * n		room in ret_rows
 *
 * Returns	0
 *		-ENOBUFS	n is smaller than info.n_rows; only ret_info was
 *				stored
 *		-ENOENT		no mask has this name
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EINVAL, -E2BIG	the name, ret_info->size
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mask_read(const struct gpumap *map, const char *name,
				struct gpumap_mask_info *ret_info,
				uint32_t *ret_rows, size_t n);

/*
 * gpumap_mask_next - the names of all masks, one a call
 *
 * cursor, ret_name	as for gpumap_layers_next()
 *
 * Returns	1 with a name, 0 when there is none left
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mask_next(const struct gpumap *map, uint32_t *cursor,
				char ret_name[GPUMAP_NAME_MAX + 1]);

#define GPUMAP_MASK_PIN \
	(UINT32_C(1) << 0) /* this version, until it is closed */

/*
 * gpumap_mask_open - look a mask up once, for gpumap_mask_get()
 *
 * name		of the mask
 * flags	0 or GPUMAP_MASK_PIN: what is published later changes nothing,
 *		its bytes are not reused, and gpumap_mask_get() never answers
 *		-EAGAIN; until it is closed, or this process ends
 * ret_mask	give it back with gpumap_mask_close()
 *
 * Returns	0
 *		-ENOENT		no mask has this name
 *		-EACCES		this user may not read the memory of masks;
 *				gpumap_refusal() says which group may
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EDQUOT, -ENOSPC, -ESRCH, -ECONNREFUSED, -ECONNRESET,
 *		-EOWNERDEAD	of pins: as gpumap_layers_pin()
 *		-EINVAL, -E2BIG, -ENOMEM, -EMFILE
 * Cost		maps the memory of each NUMA node that has a replica, once per
 *		attachment; a pin is a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mask_open(struct gpumap *map, const char *name,
				uint32_t flags, struct gpumap_mask **ret_mask);

/*
 * gpumap_mask_close - give it back; NULL is allowed
 *
 * Its views must not be used any more.  Close masks before gpumap_detach().
 *
 * Returns	nothing
 * Threads	one at a time
 */
GPUMAP_API void gpumap_mask_close(struct gpumap *map, struct gpumap_mask *mask);

/*
 * gpumap_mask_renew - see what is published now; gpumap_mask_get() calls it
 *
 * Returns	-EAGAIN		the views are those of another version now: what
 *				was read of the one before may not hold
 *		-ENOENT		the mask has been released
 *		-ESTALE		the map was retired: attach again
 *		-EACCES, -EPROTO, -ENOMEM, -EMFILE	as gpumap_mask_open()
 *		the views are what they were then
 * Cost		no system call, but to map a node's memory for the first time
 * Threads	the mask's own thread
 */
GPUMAP_API int gpumap_mask_renew(struct gpumap *map, struct gpumap_mask *mask);

/* ---- meshes ------------------------------------------------------------- */

/* How ranks are arranged.  What is left over of a world that is larger than its
 * topology needs is in group "world" alone. */
enum gpumap_mesh_topology {
	GPUMAP_MESH_DATA = 1,     /* each rank for itself */
	GPUMAP_MESH_TENSOR = 2,   /* runs of tp ranks, groups tp_{i} */
	GPUMAP_MESH_PIPELINE = 3, /* rank s is stage s, group pp_stage_{s} */
	/* Rank (d * pp + p) * tp + t is part t of stage p of replica d; groups
	 * tp_dp{d}_pp{p}, dp_tp{t}_pp{p} and pp_dp{d}_tp{t}. */
	GPUMAP_MESH_MIXED = 4
};

/* What a group's collectives are meant to go through. */
enum gpumap_mesh_backend {
	GPUMAP_MESH_MOCK = 1, /* nothing: group "world" is for lookups */
	GPUMAP_MESH_NCCL = 2,
	GPUMAP_MESH_GLOO = 3,
	GPUMAP_MESH_MPI = 4
};

struct gpumap_mesh {
	size_t size; /* sizeof(struct gpumap_mesh) */
	char name[GPUMAP_NAME_MAX + 1];
	uint64_t version;      /* grows with every publication of this name */
	uint64_t published_ns; /* since 1970 */
	uint32_t owner_uid;
	uint32_t topology; /* enum gpumap_mesh_topology */
	uint32_t world;    /* ranks, 1 to GPUMAP_ROWS_MAX */
	uint32_t expected; /* ranks that the topology needs: tp * pp * dp */
	uint32_t tp;       /* factors that the topology does not have are 1 */
	uint32_t pp;
	uint32_t dp;
	uint32_t n_groups; /* the topology's, then n_added more */
	uint32_t n_added;
	uint32_t reserved;
};

struct gpumap_mesh_group {
	size_t size; /* sizeof(struct gpumap_mesh_group) */
	char name[GPUMAP_NAME_MAX + 1];
	uint64_t version; /* of the mesh that it was read from */
	/* Moves on whenever the mesh is published, a row of the group ceases to
	 * be READY or is READY again, or the agent starts, and never goes
	 * back: equal epochs say that none of it happened in between. */
	uint64_t epoch;
	uint32_t backend; /* enum gpumap_mesh_backend */
	uint32_t n;       /* its ranks */
	uint32_t index;   /* of the group within the mesh; 0: "world" */
	uint32_t within;  /* place in it of the rank that was asked for, or 0 */
	uint32_t whole;   /* in this epoch: 1 all its rows are READY, or 0 */
	uint32_t reserved;
};

/* Where in its topology a rank is. */
struct gpumap_mesh_place {
	uint32_t tp; /* which part of a layer */
	uint32_t pp; /* which stage */
	uint32_t dp; /* which replica */
};

struct gpumap_mesh_stats {
	size_t size; /* sizeof(struct gpumap_mesh_stats) */
	uint32_t world;
	uint32_t n_groups;
	uint64_t total_bytes; /* memory of all its devices */
	uint64_t units;       /* their multiprocessors, and CPUs */
	uint32_t n_cuda;      /* rows of each kind */
	uint32_t n_host;
	uint32_t n_dummy;
	uint32_t n_ready; /* rows whose state is READY */
};

#define GPUMAP_MESH_ANY UINT32_MAX /* gpumap_mesh_next_group(): of all ranks */

/*
 * gpumap_mesh_read - what a mesh is, and the row of each rank
 *
 * ret_mesh	set its @size before the call; may be NULL
 * ret_rows	receives the row of each rank; may be NULL
 * n		room in ret_rows
 *
 * Returns	0
 *		-ENOBUFS	n is smaller than the world; only ret_mesh was
 *				stored
 *		-ENOENT		no mesh has this name
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EINVAL		a name longer than GPUMAP_NAME_MAX, or empty
 *		-E2BIG		ret_mesh->size is larger than this library knows
 *		On -EAGAIN and -EPROTO the array holds nothing of use.
 * Cost		no system call; a search of the directory
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_read(const struct gpumap *map, const char *name,
				struct gpumap_mesh *ret_mesh,
				uint32_t *ret_rows, size_t n);

/*
 * gpumap_mesh_next - the names of all meshes, one a call
 *
 * cursor	0 for the first call, then as it was left by the last
 * ret_name	receives the name, at most GPUMAP_NAME_MAX bytes and a NUL
 *
 * Returns	1 with a name, 0 when there is none left
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_next(const struct gpumap *map, uint32_t *cursor,
				char ret_name[GPUMAP_NAME_MAX + 1]);

/*
 * gpumap_mesh_group - a group of a mesh by name
 *
 * group	NULL: "world"
 * ret_group	set its @size before the call; may be NULL
 * ret_ranks	receives its ranks, in their order; may be NULL
 * ret_rows	receives the row of each of them; may be NULL
 * n		room in ret_ranks and ret_rows
 *
 * Returns	0
 *		-ENOENT		no mesh, or no group of it, has this name
 *		-ENOBUFS, -EAGAIN, -EPROTO, -EINVAL, -E2BIG	as
 *				gpumap_mesh_read()
 * Cost		no system call; a search of the directory and of the groups
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_group(const struct gpumap *map, const char *name,
				 const char *group,
				 struct gpumap_mesh_group *ret_group,
				 uint32_t *ret_ranks, uint32_t *ret_rows,
				 size_t n);

/*
 * gpumap_mesh_next_group - the groups of a mesh, or those that a rank is in
 *
 * rank		GPUMAP_MESH_ANY: every group
 * cursor	0 for the first call, then as it was left by the last
 * ret_group	set its @size before the call; @within says where in the group
 *		the rank is
 *
 * Groups come in the order of the topology, then those that were added.  Each
 * call reads what is published then: where @version differs from that of the
 * call before, begin anew.
 *
 * Returns	1 with a group, 0 when there is none left
 *		-ERANGE		the world has no such rank
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL, -E2BIG	as
 *				gpumap_mesh_read()
 * Cost		no system call; a search of the directory
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_next_group(const struct gpumap *map,
				      const char *name, uint32_t rank,
				      uint32_t *cursor,
				      struct gpumap_mesh_group *ret_group);

/*
 * gpumap_mesh_within - a rank's place in a group
 *
 * group	NULL: "world"
 *
 * Returns	the place, >= 0
 *		-ENODATA	the rank is not in the group
 *		-ERANGE		the world has no such rank
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL	as gpumap_mesh_group()
 * Cost		no system call; a search of the directory, the groups and the
 *		group
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_within(const struct gpumap *map, const char *name,
				  const char *group, uint32_t rank);

/*
 * gpumap_mesh_place - where in its topology a rank is
 *
 * mesh		as read by gpumap_mesh_read()
 *
 * A data mesh counts replicas, a tensor mesh parts and replicas, a pipeline
 * stages.
 *
 * Returns	0
 *		-ERANGE		the world has no such rank
 *		-ENODATA	the rank is left over
 *		-EINVAL		no gpumap_mesh_read() has filled @mesh
 * Cost		a few divisions
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_place(const struct gpumap_mesh *mesh, uint32_t rank,
				 struct gpumap_mesh_place *ret_place);

/*
 * gpumap_mesh_stats - what a mesh's devices have, summed
 *
 * ret_stats	set its @size before the call
 *
 * Returns	0
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL, -E2BIG	as
 *				gpumap_mesh_read(), gpumap_device_read()
 * Cost		no system call; a read of each of its rows
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_stats(const struct gpumap *map, const char *name,
				 struct gpumap_mesh_stats *ret_stats);

/* Which table of a group a view is of. */
enum gpumap_mesh_table {
	GPUMAP_MESH_ROWS = 1, /* entry i: the row of the group's rank i */
	GPUMAP_MESH_RANKS = 2 /* entry i: which rank of the mesh that is */
};

/*
 * gpumap_mesh_view - a view of a group's table, for gpumap_view_get()
 *
 * group	NULL: "world", whose rows are those of all ranks
 * table	enum gpumap_mesh_table
 *
 * The mesh may be published anew with another topology: gpumap_view_get() then
 * answers -EAGAIN, and gpumap_view_refresh() fills the view from the group of
 * the same name, or says -ENOENT where the new topology has none.
 *
 * Returns	0
 *		-ENOENT, -EAGAIN, -EPROTO	as gpumap_mesh_group()
 *		-EINVAL		likewise, or no such table
 * Cost		no system call; a search of the directory and of the groups
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_mesh_view(const struct gpumap *map, const char *name,
				const char *group, uint32_t table,
				struct gpumap_view *ret_view);

/*
 * gpumap_mesh_pin - a view of a group's table that stays valid
 *
 * ret_view	as gpumap_mesh_view(); never answers -EAGAIN
 * ret_pin	give it back with gpumap_unpin()
 *
 * Returns	as gpumap_layers_pin(), and -ENOENT where there is no such group
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mesh_pin(struct gpumap *map, const char *name,
			       const char *group, uint32_t table,
			       struct gpumap_view *ret_view, uint64_t *ret_pin);

/* A group beside those of the topology. */
struct gpumap_mesh_added {
	const char *name;      /* no blanks, ',' or '=' */
	const uint32_t *ranks; /* n of them, each once, in their order */
	uint32_t n;
	uint32_t backend; /* enum gpumap_mesh_backend */
};

struct gpumap_mesh_request {
	size_t size; /* sizeof(struct gpumap_mesh_request) */
	const char *name;
	uint32_t topology; /* enum gpumap_mesh_topology */
	uint32_t n_rows;
	uint64_t tp; /* of tensor: the degree; 1 where there is none */
	uint64_t pp; /* of pipeline: the stages; likewise */
	uint64_t dp;
	/* The row of each rank, none twice; NULL with n_rows 0: all devices of
	 * the first kind that is there of cuda, host and dummy. */
	const uint32_t *rows;
	const struct gpumap_mesh_added *added; /* n_added of them, at most 64 */
	uint32_t n_added;
	uint32_t reserved;
};

/*
 * gpumap_mesh_publish - have the agent publish a mesh
 *
 * A mesh of this name is replaced in one step, if it is yours, and its groups
 * with it.  It stays until it is released, over restarts of the agent and of
 * the machine.
 *
 * Returns	0
 *		-EINVAL		the name, a factor, a row or a group was
 *				refused, or the rows are fewer than the topology
 *				needs
 *		-EOVERFLOW	the factors' product leaves 64 bits
 *		-EEXIST		a group has the name of one of the topology's
 *		-E2BIG		more rows or groups than a mesh may have, or a
 *				field newer than this library
 *		-ENODEV		a row that is not there
 *		-EAGAIN, -EPERM, -EDQUOT, -ENOSPC, -EROFS, -EIO, -ENOMEM,
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EMSGSIZE, -EOWNERDEAD
 *				as gpumap_layers_publish()
 *		-EOPNOTSUPP	the agent is older, and knows no meshes
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mesh_publish(struct gpumap *map,
				   const struct gpumap_mesh_request *request);

/*
 * gpumap_mesh_release - have the agent take a mesh back
 *
 * Returns	as gpumap_layers_release()
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mesh_release(struct gpumap *map, const char *name);

/* Bytes of what rank 0 brings, an ncclUniqueId. */
#define GPUMAP_MESH_ID_BYTES 128

struct gpumap_mesh_join {
	size_t size; /* sizeof(struct gpumap_mesh_join) */
	const char *mesh;
	const char *group;   /* NULL: "world" */
	uint64_t epoch;      /* of the group, as gpumap_mesh_group() says */
	uint64_t timeout_ns; /* to wait for the others, at least 100 ms */
	uint32_t rank;       /* within the group */
	uint32_t version;    /* ncclGetVersion()'s, not 0; the same of all */
	const void *id;      /* of rank 0: its bytes; of others NULL */
};

/* gpumap_mesh_leave(): something broke, and the others have to know. */
#define GPUMAP_MESH_BROKEN (UINT32_C(1) << 0)

/*
 * gpumap_mesh_join - be a rank of a group, and wait for all the others
 *
 * For processes that form a communicator of their own; gpumap/nccl.h does it
 * with NCCL.  Rank 0 makes an id and brings it; when every rank has joined, in
 * the same epoch and with the same version, each is told the id, and none
 * before.  Each rank is one process, of the mesh's owner, of root or of the
 * agent's user.
 *
 * The rank is this attachment's until gpumap_mesh_leave(), or until the group's
 * epoch moves on, which gpumap_mesh_group() shows: then the communicator is
 * broken, and all of them join anew in the new epoch.  It moves on when a
 * member ends or detaches without having left.
 *
 * ret_id	receives the id
 * ret_ticket	for gpumap_mesh_leave()
 *
 * Returns	0
 *		-ETIMEDOUT	a rank did not come before the first of those
 *				who waited gave up; the epoch has moved on, for
 *				all
 *		-ESTALE		the epoch is another one: read it again
 *		-EAGAIN		a row of the group is not READY, or ranks of the
 *				communicator of before have not left yet
 *		-EBUSY		another process is this rank
 *		-EPROTO		others have another version
 *		-ENOENT		no mesh, or no group of it, has this name
 *		-ERANGE		the group has no such rank
 *		-EINVAL		a name, no version, or an id of another rank
 *				than 0
 *		-EPERM		the mesh is somebody else's
 *		-EDQUOT		this user's processes are 1024 ranks of groups
 *				already
 *		-EOPNOTSUPP	the agent is older, and knows nothing of it
 *		-E2BIG, -ENOMEM, -ECONNREFUSED, -ECONNRESET, -EOWNERDEAD
 *				as gpumap_layers_publish()
 *		gpumap_refusal() says what was wrong, and who is missing
 * Cost		a round trip on the control socket, and the wait; other requests
 *		of this attachment wait with it
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mesh_join(struct gpumap *map,
				const struct gpumap_mesh_join *join,
				uint8_t ret_id[GPUMAP_MESH_ID_BYTES],
				uint64_t *ret_ticket);

/*
 * gpumap_mesh_leave - be that rank no longer
 *
 * flags	GPUMAP_MESH_BROKEN: the group's epoch moves on, so that the
 *		others know; 0: the communicator has come to its end
 *
 * Returns	0
 *		-ENOENT		nothing is joined by this ticket; or the epoch
 *				has moved on, which has ended it
 *		-EINVAL		a flag that is not known
 *		-ECONNREFUSED, -ECONNRESET, -EOWNERDEAD	as gpumap_mesh_join()
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_mesh_leave(struct gpumap *map, uint64_t ticket,
				 uint32_t flags);

/* ---- plans -------------------------------------------------------------- */

/* What is to come of a plan: bits of gpumap_plan_request.flags. */
#define GPUMAP_PLAN_PUBLISH (UINT32_C(1) << 0) /* as the layer map @name */
#define GPUMAP_PLAN_COMMIT \
	(UINT32_C(1) << 1) /* publish it, and reserve what it charges */
#define GPUMAP_PLAN_HELD \
	(UINT32_C(1) << 2) /* with COMMIT: while this process lives */
#define GPUMAP_PLAN_BASE (UINT32_C(1) << 3) /* @base_row has been chosen */

/* How a paged KV cache is sized. */
enum gpumap_paged {
	GPUMAP_PAGED_NONE = 0,  /* it is not paged */
	GPUMAP_PAGED_MIB = 1,   /* paged_amount MiB */
	GPUMAP_PAGED_SHARE = 2, /* paged_share of the first row's memory */
	GPUMAP_PAGED_TOKENS = 3 /* paged_amount tokens */
};

struct gpumap_plan_request {
	size_t size;          /* sizeof(struct gpumap_plan_request) */
	const char *name;     /* with GPUMAP_PLAN_PUBLISH or _COMMIT */
	uint32_t flags;       /* GPUMAP_PLAN_* */
	uint32_t setting;     /* enum gpumap_setting */
	uint32_t strategy;    /* enum gpumap_strategy; 0: fill */
	uint32_t base_row;    /* of what belongs to no layer, with
			      * GPUMAP_PLAN_BASE; else the row of layer 0 */
	const char *text;     /* a manual map's spec, a topology's YAML, or the
			      * layers of each rank of a pipeline, "16,16" */
	const char *weights;  /* of a pipeline without @text: "1,2"; or NULL */
	const uint32_t *rows; /* only these, in this order; NULL: all rows */
	uint32_t n_rows;
	/* The model. */
	uint32_t n_layers;           /* 0: as many as the spec has */
	const uint64_t *layer_bytes; /* n_layers of them; NULL: not known */
	uint64_t other_bytes;        /* of what belongs to no layer */
	uint32_t dtype;              /* enum gpumap_dtype, of most weights */
	uint32_t n_heads;            /* of attention; 0: not known */
	uint32_t n_kv_heads;
	uint32_t k_dim; /* of one head; 0: not known, and no KV cache charged */
	uint32_t v_dim;
	uint32_t kv_lora_rank; /* not 0: keys and values are kept compressed */
	uint32_t kpe_head_dim;
	/* What it is to do. */
	uint32_t compute_dtype; /* GPUMAP_DTYPE_F16, _BF16, _F32 or _F64; 0: the
				 * best that the rows in use can do */
	uint64_t max_seq_len;   /* 0: 4096 */
	uint32_t max_batch_size; /* 0: 1 */
	uint32_t paged;          /* enum gpumap_paged */
	uint64_t paged_amount;
	float paged_share;
	uint32_t paged_block;         /* tokens: 8, 16 or 32; 0: 32 */
	uint32_t paged_element_bytes; /* 0: of compute_dtype */
	uint32_t reserved;            /* 0 */
};

struct gpumap_plan {
	size_t size; /* sizeof(struct gpumap_plan), set by the caller */
	uint32_t n_layers;
	uint32_t n_charges;     /* rows that anything is charged to */
	uint32_t base_row;      /* of what belongs to no layer */
	uint32_t compute_dtype; /* enum gpumap_dtype */
	uint64_t kv_bytes;      /* of one layer */
	uint64_t version;       /* of the map as it was published; 0: not */
	uint64_t missing_bytes; /* of missing_row; with -ENOSPC 0: not known,
				 * else 0: it fits.  A plan by hand that is not
				 * to be committed need not fit */
	uint32_t missing_row;
	uint32_t reserved;
	char spec[256];     /* as in struct gpumap_layers */
	char warnings[512]; /* one to a line, cut with "..." */
};

struct gpumap_plan_charge {
	uint32_t row;
	uint32_t n_layers; /* 0: only what belongs to no layer */
	uint64_t weight_bytes;
	uint64_t kv_bytes;
	uint64_t activation_bytes;
	uint64_t reserve_bytes; /* kept back */
	uint64_t left_bytes;    /* of what was free and promised to nobody */
};

/*
 * gpumap_plan - have the agent place a model
 *
 * The agent plans with what is free on each row less what is promised to
 * committed maps, and promises what this one charges in the same step: no two
 * plans are given the same memory, whoever asks.  A map that is replaced gives
 * back its own promise first.
 *
 * ret_plan	set its @size before the call
 * ret_rows	receives the row of each layer; may be NULL
 * n		room in ret_rows
 * ret_charges	receives what each row is charged, in first-use order; may be
 *		NULL
 * n_charges	room in ret_charges
 *
 * Returns	0
 *		-ENOSPC		it does not fit: missing_bytes and missing_row
 *				of ret_plan say by how much and where, if that
 *				is known.  Or the segment, its table of holders
 *				or the agent's disk is full
 *		-ENOBUFS	n or n_charges is too small: only ret_plan was
 *				stored.  What was asked for has been done
 *		-EINVAL		a number or a text was refused
 *		-E2BIG		more layers, or changes of row, than a plan may
 *				have, or a field newer than this library
 *		-ENODEV		a row that is not there, or is failed or lost
 *		-EAGAIN		a row was given to another device meanwhile
 *		-EOVERFLOW	sizes of 2^64 bytes or more
 *		-EDQUOT		32 MiB of this user's requests wait for their
 *				turn; or, to publish, it has published or
 *				reserved as much as it may
 *		-EPERM		the name belongs to another user
 *		-ESRCH		held, and the agent does not see this process
 *		-EROFS, -EIO	to publish: the agent's disk is read-only, or
 *				fails, so that the map would not outlast it; or
 *				one that this held map replaces would
 *		-EMSGSIZE, -ENOMEM, -EACCES, -ECONNREFUSED, -ECONNRESET,
 *		-EOWNERDEAD	as gpumap_layers_publish()
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket, and the plan: a millisecond
 *		for 80 layers on 8 rows; with GPUMAP_PLAN_COMMIT a write to disk
 * Threads	one at a time
 */
GPUMAP_API int gpumap_plan(struct gpumap *map,
			   const struct gpumap_plan_request *request,
			   struct gpumap_plan *ret_plan, uint32_t *ret_rows,
			   size_t n, struct gpumap_plan_charge *ret_charges,
			   size_t n_charges);

/* Who has reserved what: a committed layer map, whose charges are what is
 * reserved. */
struct gpumap_holder {
	size_t size; /* sizeof(struct gpumap_holder), set by the caller */
	char name[64];
	uint64_t version;
	uint64_t since_ns; /* since 1970 */
	uint32_t uid;
	uint32_t pid; /* whose life holds it, in the agent's pid namespace; 0:
		       * it holds until it is released */
};

/*
 * gpumap_who - the committed layer maps, one a call
 *
 * cursor	0 for the first call, then as it was left by the last
 * ret_holder	set its @size before the call
 *
 * Maps that are committed or released meanwhile may or may not be seen.
 *
 * Returns	1 with one, 0 when there is none left
 *		-E2BIG, -EINVAL	ret_holder->size is larger than this library
 *				knows, or smaller than its first fields
 * Cost		no system call; a search of the directory
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_who(const struct gpumap *map, uint32_t *cursor,
			  struct gpumap_holder *ret_holder);

/* ---- sessions ---------------------------------------------------------- */

/* Queue pairs and a payload arena of one client.  Opaque. */
struct gpumap_session;

#define GPUMAP_SESSION_POLLABLE (UINT32_C(1) << 0) /* gpumap_session_fd() */
/* Large allocations take memory only where they are touched, page by page: for
 * who allocates much more than he touches.  Touching then costs ten times as
 * much, and so does giving back. */
#define GPUMAP_SESSION_SPARSE (UINT32_C(1) << 1)
/* All of its jobs are done by workers that this user's sessions with this flag
 * have for themselves: they may run programs, see gpumap_program_load(). */
#define GPUMAP_SESSION_PROGRAMS (UINT32_C(1) << 2)

struct gpumap_session_opts {
	size_t size;          /* sizeof(struct gpumap_session_opts) */
	uint32_t depth;       /* jobs in flight per row, a power of two from 16
			       * to 1024; 0: 256 */
	uint32_t flags;       /* GPUMAP_SESSION_* */
	uint64_t arena_bytes; /* of each row's range, rounded up to pages; 0:
			       * 64 MiB.  Memory is taken by what is allocated
			       * in it, see gpumap_alloc() */
};

/*
 * gpumap_session_open - open a session with the agent
 *
 * opts		NULL for the defaults
 *
 * Returns	0
 *		-ENODEV		the node has dummy rows only
 *		-EUSERS		this user or the agent has no session left
 *		-EDQUOT		arena_bytes is more than this user may have
 *		-EINVAL		depth is no power of two from 16 to 1024
 *		-EPERM		this user may not have programs run; says
 *				gpumap_refusal() which setting says so
 *		-ESHUTDOWN	the agent is draining
 *		-ECONNREFUSED	no agent answers; -EACCES: not for this user
 *		-EPROTO, -ENOMEM, -EMFILE, -E2BIG, -EOWNERDEAD
 * Cost		a few system calls and a round trip on the control socket
 * Threads	any
 */
GPUMAP_API int gpumap_session_open(struct gpumap *map,
				   const struct gpumap_session_opts *opts,
				   struct gpumap_session **ret_session);

/*
 * gpumap_session_close - end it; NULL is allowed
 *
 * Jobs in flight are dropped, the arena is gone.  In a forked child it only
 * frees the child's own memory.
 *
 * Returns	nothing
 * Threads	the session's own thread
 */
GPUMAP_API void gpumap_session_close(struct gpumap_session *session);

/*
 * gpumap_session_fd - a descriptor that becomes readable when a job ends
 *
 * Only for sessions opened with GPUMAP_SESSION_POLLABLE.  Call
 * gpumap_session_arm() before each sleep on it; the descriptor stays the
 * session's own.
 *
 * Returns	the descriptor, or -ENOTSUP without the flag, -EOWNERDEAD
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_session_fd(const struct gpumap_session *session);

/*
 * gpumap_session_arm - ask for the descriptor to be made readable
 *
 * The answer to an earlier sleep may come late and wake this one: when
 * gpumap_poll() takes nothing then, arm again.
 *
 * Returns	0		sleep on it now, for a second at most: the
 *				agent's end is seen here, not on the descriptor
 *		1		do not sleep: completions are waiting
 *		-ENOTSUP, -ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a store and a look at each queue, and two system calls that
 *		do not wait: the descriptor is emptied, the socket looked at
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_session_arm(struct gpumap_session *session);

/* One of the agent's sessions. */
struct gpumap_session_info {
	uint64_t id;
	uint32_t pid;
	uint32_t uid;
	uint32_t n_queues; /* rows that it has used */
	uint32_t depth;
	uint64_t arena_bytes; /* of all ranges */
	uint64_t age_ns;
};

/*
 * gpumap_sessions - the agent's sessions, by id
 *
 * ret_info	room for @n
 *
 * Returns	how many sessions there are, which may be more than @n, or
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD, when
 *		ret_info may hold some of them
 * Cost		a round trip on the control socket for every 64 sessions
 * Threads	one at a time
 */
GPUMAP_API int gpumap_sessions(struct gpumap *map,
			       struct gpumap_session_info *ret_info, size_t n);

/* What one session has of one device's memory. */
struct gpumap_usage {
	size_t size;      /* sizeof(struct gpumap_usage), set by the caller */
	uint64_t session; /* id; 0: it is gone, and importers have this still */
	uint32_t pid;     /* of the session's process, 0 with session 0 */
	uint32_t uid;     /* who is charged for it */
	uint32_t row;
	uint32_t importers;      /* who has imported some of it: sessions, and
			     * connections that were given a descriptor */
	uint64_t bytes;          /* of buffers, as the device rounds them; with
			     * session 0 as lent_bytes */
	uint64_t lent_bytes;     /* of its exports, that importers have */
	uint64_t borrowed_bytes; /* of exports that it has imported itself; they
				  * are charged to who exported them */
};

/*
 * gpumap_usage - who has how much of which device's memory
 *
 * One for each session and row that it uses, by session and row; before them,
 * with session 0, one for each user and row of which somebody has imported what
 * its session has forgotten, or left behind.
 *
 * ret_usage	room for @n; the @size of the first is set, and is that of all
 *
 * Returns	how many there are, which may be more than @n, or
 *		-E2BIG		@size is larger than this library knows
 *		-EINVAL		@size is smaller than its first fields
 *		-EOPNOTSUPP	the agent is older than this
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD, when
 *		ret_usage may hold some of them
 * Cost		a round trip on the control socket for every 64
 * Threads	one at a time
 */
GPUMAP_API int gpumap_usage(struct gpumap *map, struct gpumap_usage *ret_usage,
			    size_t n);

/* ---- arena ------------------------------------------------------------- */

/*
 * gpumap_alloc - memory that a row's worker can reach, near that row
 *
 * The first allocation on a row makes its queue pair, which is a round trip,
 * and waits for the row's worker where that is just being started.  The same
 * holds for the first submission.
 *
 * Contents are zero or what this session left there.
 *
 * From 2 MiB on, whole blocks of 2 MiB in the result have their memory at once,
 * in huge pages, and keep it until the session ends; that is ten times as fast
 * as page by page.  All else, and everything where the kernel gives no huge
 * pages (before Linux 6.1, or none is free) or the session was opened with
 * GPUMAP_SESSION_SPARSE, has its memory when it is touched.
 *
 * row		whose range of the arena to take it from
 * bytes	at least 1; the result is aligned to 64, from 2 MiB on to 2 MiB
 *		where the range has room for that, to 4096 where not
 *
 * Returns	0
 *		-ENOMEM		the range has no room of this size
 *		-ENODEV		no such row, or it is another device since this
 *				session was opened; or its worker died so often
 *				before its first job that the next start is a
 *				second or more away; or it does not end, not
 *				even by SIGKILL
 *		-ESHUTDOWN	the agent is draining
 *		-EMFILE		no descriptor is left for the queue pair; the
 *				session has ended
 *		-EINVAL, -ECONNRESET, -EOWNERDEAD
 * Cost		a search of the free list; system calls the first time, and
 *		for each block that had no memory yet: 0.1 s for a GiB
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_alloc(struct gpumap_session *session, uint32_t row,
			    uint64_t bytes, void **ret_memory);

/*
 * gpumap_free - give it back; NULL is allowed
 *
 * No job that uses the memory may be in flight.
 *
 * Returns	0, or -EINVAL when @memory did not come from gpumap_alloc()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_free(struct gpumap_session *session, void *memory);

/* ---- buffers ----------------------------------------------------------- */

/*
 * A buffer is memory that is not the arena's: a device's own, a file of this
 * process, or what another session exports.  Its name is a number that means
 * something in its own session only; jobs carry it beside an offset.  A name
 * that is no buffer's any more is -ESTALE, one of another session -EPERM, and
 * one that nobody can have -ERANGE: never somebody else's memory.
 *
 * Jobs compute with memory of their own row.  A COPY may have a source on
 * another one, of any kind but a dummy: submit it to the row of its
 * destination.  That row's device reads the source itself where it can: a host
 * row's memory, and a card's that NVML says is reached and that a trial, once
 * for each two cards, has found to be copied right; both only of buffers that
 * were allocated with GPUMAP_BUFFER_EXPORTABLE.  Everything else goes by way of
 * 8 MiB of memory beside the arenas, for each session and row that copies so,
 * and takes the workers of both rows.
 */

/* What a buffer is to be: bits of the flags of the calls below.  Others may
 * import it, the rows of this session among them; no job writes it, of what is
 * registered or imported. */
#define GPUMAP_BUFFER_EXPORTABLE (UINT32_C(1) << 0)
#define GPUMAP_BUFFER_READ_ONLY  (UINT32_C(1) << 1)

/*
 * gpumap_buffer_alloc - memory of a device's own
 *
 * Takes its turn behind what this session has in flight on the row.  Contents
 * are zero or what this session left there.  The first use of a row makes its
 * queue pair, for which no deadline holds: see gpumap_alloc().
 *
 * A buffer lives as long as the worker of its row: after the worker's death
 * jobs that name it end with -ESTALE.  Free it then too.
 *
 * row		of any kind but a dummy
 * bytes	at least 1
 * flags	GPUMAP_BUFFER_EXPORTABLE or 0
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 * ret_buffer	receives its name, never 0; give it back with
 *		gpumap_buffer_free()
 *
 * Returns	0
 *		-ENOMEM		the device is full
 *		-EDQUOT		this user's sessions would together have more
 *				bytes there than they may, or this one has 4096
 *				buffers.  They may have what was free or theirs,
 *				half of the device at most, when one of them
 *				last began to use the row or the worker was
 *				started; or what their user had reserved there,
 *				if that is more
 *		-EAGAIN		fewer than two jobs fit beside those in flight:
 *				take completions first
 *		-ETIME		the deadline passed; what comes of it is freed
 *		-EOPNOTSUPP	the device has no such memory
 *		-EINVAL		bytes is 0, or flags for other buffers; -E2BIG:
 *				a flag newer than this library
 *		-EIO		the worker died
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *				as gpumap_alloc()
 * Cost		a round trip to the worker, and what the device takes for it
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_alloc(struct gpumap_session *session, uint32_t row,
				   uint64_t bytes, uint32_t flags,
				   uint64_t deadline_ns, uint64_t *ret_buffer);

/*
 * gpumap_buffer_free - give back what was allocated or imported; 0 is allowed
 *
 * What was allocated: jobs that were submitted to its row before still have it.
 * Its memory is free once they have ended; an allocation of this session that
 * follows finds it.  Jobs of other rows that copy from it end before this
 * returns if they have begun, and with -ESTALE if they have not.  Where it was
 * exported nobody can import it any more, and those who have keep it.
 *
 * What was imported: no job that names it may be in flight.
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it was registered: gpumap_forget() it
 *		-EAGAIN		no job fits beside those in flight: take
 *				completions first
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		as gpumap_submit(); a round trip on the control socket if it was
 *		exported or imported, or copied from by another row
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_free(struct gpumap_session *session,
				  uint64_t buffer);

/*
 * gpumap_register - let jobs name memory of this process
 *
 * The memory is a memfd that cannot shrink (F_SEAL_SHRINK) and has no huge
 * pages of its own.  It may be mapped here, and need not.  Nothing is asked of
 * the agent yet: the first job that names it on a row has it mapped there, with
 * all its pages, which takes about a second for each one or two GiB where they
 * are pinned for a device.  Holes are filled, and the bytes count once, with
 * this user's arenas.
 *
 * fd		stays the caller's
 * at		where it begins in the file, a multiple of 4096
 * bytes	at least 1
 * flags	GPUMAP_BUFFER_READ_ONLY, as it must be where the descriptor or a
 *		seal forbids writing, or 0
 * ret_buffer	receives its name, never 0; give it back with gpumap_forget()
 *
 * Returns	0
 *		-EINVAL		it can shrink, or is no memfd; the file ends
 *				before the bytes; @at is not at a page.
 *				gpumap_refusal() says which
 *		-E2BIG		a flag newer than this library
 *		-EDQUOT		this session has 4096 buffers
 *		-EBADF, -EMFILE, -ENOMEM
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		three system calls
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_register(struct gpumap_session *session, int fd,
			       uint64_t at, uint64_t bytes, uint32_t flags,
			       uint64_t *ret_buffer);

/*
 * gpumap_mask_use - let jobs name a published mask
 *
 * Jobs of any row that has a replica may then name it as mask_buffer, or as
 * src_buffer, and each row takes its own: MASK_ADD a mask of the job's dtype,
 * MASK_BOOL one of u8.  What they take is what is published now: whatever is
 * published or released under the name later, the handle means the same until
 * it is given back, and its memory stays.  No row is told of it yet: the first
 * job that names it there has the replica mapped, and on a CUDA row made, where
 * this user has none.  Its bytes count with this user's arenas, those of one
 * replica for each NUMA node, once for each handle; and all publications that a
 * user's sessions have in use are no more than it may have of masks.
 *
 * name		of the mask
 * ret_buffer	receives its handle, never 0; give it back with gpumap_forget()
 * ret_version	receives which publication it is; may be NULL
 *
 * A job that names it on a row without a replica is refused with -ENOENT.
 *
 * Returns	0
 *		-ENOENT		no mask has this name
 *		-EINVAL		no mask can have this name, or it has no tensor
 *		-EACCES		this user may not read the memory of masks
 *		-EDQUOT		it is more than this user may have, or this
 *				session has 4096 buffers
 *		-EOPNOTSUPP	the agent is older than this
 *		-ENOMEM, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_mask_use(struct gpumap_session *session, const char *name,
			       uint64_t *ret_buffer, uint64_t *ret_version);

/*
 * gpumap_program_load - have a program of the agent's directory for RUN jobs
 *
 * Programs are files that the administrator has put there: shared objects for
 * host rows, device code for CUDA rows; gpumap/program.h says what they are.
 * They run in workers of this user's own, one for each row, apart from the
 * row's other work: one that crashes, or runs longer than the administrator
 * allows, ends that worker alone.  Jobs of this user's program sessions that
 * were in flight there end with -EIO then, and the next worker has the same
 * programs loaded before it begins another job.
 *
 * It is brought in on @row now.  Jobs on other rows that name it bring it in
 * there: on rows of the same kind the same file whatever the directory has by
 * then, on rows of the other kind the file of that name for those.  So one
 * scatter may run it on both.  Its file's bytes count with this user's arenas,
 * once for each row of the session's: each worker has a copy of its own.
 *
 * session	opened with GPUMAP_SESSION_PROGRAMS
 * row		a host row or a CUDA row
 * name		of the file, without ".so", ".fatbin", ".cubin" or ".ptx":
 *		letters, digits, '.', '_' and '-'
 * ret_program	receives its handle, never 0; give it back with
 *		gpumap_program_unload()
 *
 * Returns	0
 *		-ENOENT		there is no such program, for rows of this kind;
 *				or its device code has no kernel gpumap_program
 *		-EPERM		its file or its folder is not safe: somebody
 *				else could write it; or no programs for this
 *				user
 *		-ENOEXEC	it cannot be loaded, or is none for this
 *				version, or for this card; its PTX does not
 *				compile: gpumap_refusal() has the compiler's
 *				words
 *		-EFBIG		device code with more bytes than image-limit
 *		-ESTALE		the worker died over it
 *		-EOPNOTSUPP	the row runs no programs
 *		-EINVAL		no such name, or the session was opened without
 *				the flag
 *		-EDQUOT		this session has 4096 buffers and programs, or
 *				this user as many, or as many bytes, as the
 *				agent allows
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ENOMEM, -ECONNRESET, -EPROTO,
 *		-EOWNERDEAD	as gpumap_alloc().  gpumap_refusal() says more
 * Cost		a round trip on the control socket; the first of a user on a row
 *		starts a worker
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_program_load(struct gpumap_session *session, uint32_t row,
				   const char *name, uint64_t *ret_program);

/* Device code of the client's own, for CUDA rows. */
struct gpumap_program_image {
	size_t size;        /* sizeof(struct gpumap_program_image) */
	const void *image;  /* PTX, a cubin or a fatbin */
	uint64_t bytes;     /* of it */
	const char *kernel; /* its entry point; NULL: gpumap_program */
};

/*
 * gpumap_program_load_image - have device code of one's own for RUN jobs
 *
 * As gpumap_program_load(), for CUDA rows alone.  The image is copied; each row
 * that runs it compiles it for itself, where it has to be compiled.
 *
 * session	opened with GPUMAP_SESSION_PROGRAMS
 * row		a CUDA row
 * image	gpumap/program.h says what a kernel is
 * ret_program	receives its handle, never 0; give it back with
 *		gpumap_program_unload()
 *
 * Returns	0
 *		-ENOEXEC	it is no image, or cut off, or none for this
 *				card; its PTX does not compile: gpumap_refusal()
 *				has the compiler's words
 *		-ENOENT		it has no such kernel
 *		-EFBIG		more bytes than the administrator allows
 *		-EINVAL		no bytes, no name of a kernel, or the session
 *				was opened without the flag
 *		-EOPNOTSUPP	a host row
 *		-E2BIG		image uses a field newer than this library
 *		-EDQUOT		as gpumap_program_load(); or the image's bytes
 *				are more than this user may have registered
 *		-EPERM, -ESTALE, -ENODEV, ...	as gpumap_program_load()
 *		gpumap_refusal() says more
 * Cost		as gpumap_program_load(), and a copy of the image
 * Threads	the session's own thread
 */
GPUMAP_API int
gpumap_program_load_image(struct gpumap_session *session, uint32_t row,
			  const struct gpumap_program_image *image,
			  uint64_t *ret_program);

/*
 * gpumap_program_unload - give it up on all rows; 0 is allowed
 *
 * No job that names it may be in flight.
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such program
 *		-EINVAL		it is a buffer
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_program_unload(struct gpumap_session *session,
				     uint64_t program);

/*
 * gpumap_register_file - let GPUMAP_OP_LOAD read from a file
 *
 * The file is a regular one or a block device, of any file system but those
 * that the kernel makes up as they are read (/proc, /sys) and FUSE ones that
 * are mounted with direct_io, which io_uring reads wrong.  Workers read it
 * through a description of their own where /proc lets this library open one,
 * past the page cache where its file system takes that; the caller's offset and
 * flags stay as they are.  Nothing is asked of the agent yet: the first job
 * that names it on a row opens it there.
 *
 * Only the source of a LOAD can be a file, and its src_at the offset in it, of
 * any alignment.  A file may grow, shrink and change meanwhile: what is read is
 * what is there then.
 *
 * fd		readable; stays the caller's, who may close it
 * flags	0
 * ret_file	receives its name, never 0; give it back with gpumap_forget()
 *
 * Returns	0
 *		-EBADF		no descriptor, or one that cannot be read
 *		-EINVAL		no regular file and no block device
 *		-E2BIG		a flag newer than this library
 *		-EDQUOT		this session has 4096 buffers and files
 *		-EMFILE, -ENOMEM
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		three system calls
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_register_file(struct gpumap_session *session, int fd,
				    uint32_t flags, uint64_t *ret_file);

/*
 * gpumap_forget - end a registration, or an export; 0 is allowed
 *
 * A registration, or a mask: when this returns no worker has the memory mapped
 * any more, nor reads the file.  No job that names it may be in flight.  An
 * allocated buffer stays, and its export ends: those who have imported it keep
 * it.
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it was imported: gpumap_buffer_free() it
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, or none where nobody has
 *		been told of it
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_forget(struct gpumap_session *session, uint64_t buffer);

/*
 * gpumap_buffer_export - let other sessions and processes have a buffer
 *
 * Whoever knows the number may import the buffer if the agent's configuration
 * says so of its user.  An import can write: nothing in a device holds it back.
 * The memory stays charged until the last importer is gone.
 *
 * buffer	allocated with GPUMAP_BUFFER_EXPORTABLE
 * ret_export	receives a number for gpumap_buffer_import() and
 *		gpumap_export_fd(), the same at every call.  It holds until
 *		gpumap_forget(), gpumap_buffer_free(), or the end of the session
 *		or of the row's worker
 *
 * Returns	0
 *		-ESTALE, -EPERM, -ERANGE	this session has no such buffer
 *		-EINVAL		it is not exportable
 *		-EBUSY		it is shared read-only, or others have had it so
 *		-EDQUOT		this user has as many exports, or exported bytes
 *				of the row, as it may
 *		-EOPNOTSUPP, -EMFILE	of the device
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, and one to the worker
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_export(struct gpumap_session *session,
				    uint64_t buffer, uint64_t *ret_export);

/*
 * gpumap_buffer_import - another session's buffer as one of this session
 *
 * It is for jobs on the row whose memory it is, as one that was allocated here.
 *
 * flags	GPUMAP_BUFFER_READ_ONLY or 0
 * ret_buffer	receives its name here; give it back with gpumap_buffer_free()
 *
 * Returns	0
 *		-ENOENT		there is no such export, or not any more
 *		-EACCES		the agent does not share between these two users
 *		-EDQUOT		this session has 4096 buffers, or this user as
 *				many imports, or of the row as many bytes that
 *				others have exported, as it may
 *		-EINVAL		flags for other buffers; -E2BIG: newer ones
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ENOMEM, -EOPNOTSUPP
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, and one to the worker
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_buffer_import(struct gpumap_session *session,
				    uint64_t export_id, uint32_t flags,
				    uint64_t *ret_buffer);

struct gpumap_export_info {
	size_t size;    /* sizeof(struct gpumap_export_info), by the caller */
	uint64_t bytes; /* of the buffer */
	uint32_t row;   /* whose memory it is */
	uint32_t reserved;
};

/*
 * gpumap_export_fd - a descriptor of an exported buffer
 *
 * For a program that maps the memory itself: gpumap/cuda.h brings it into a
 * CUDA context; of a host row it is a memfd for mmap().  As long as the
 * descriptor or a mapping of it is there, so is the memory.
 *
 * ret_info	set its @size before the call
 * ret_fd	receives the descriptor, close-on-exec, for the caller to close
 *
 * Returns	0
 *		-ENOENT, -EACCES, -EDQUOT	as gpumap_buffer_import()
 *		-E2BIG, -EINVAL	ret_info->size is larger than this library
 *				knows, or smaller than its first fields
 *		-EMFILE, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_export_fd(struct gpumap *map, uint64_t export_id,
				struct gpumap_export_info *ret_info,
				int *ret_fd);

/* ---- shares ------------------------------------------------------------ */

/*
 * A share is a name for buffers of one session, that others may open: a set of
 * them, or one, published in one step, with some bytes that say what they are.
 * Whoever opens the name finds all of it, or -ENOENT.
 *
 * Who has shared it and who has opened it holds it, until gpumap_share_close()
 * or the end of the session.  A share is there as long as anybody holds it,
 * whoever that is, then its name is free; its memory is given back when nobody
 * has it imported or mapped any more, and is charged until then to whom it was.
 *
 * When the worker of a row dies, what was imported of it is -ESTALE, as any
 * buffer: gpumap_buffer_free() it, and have it anew with gpumap_share_buffer().
 * The memory is as it was written, to the end or half of it, by jobs of before.
 * Shares of a GPU's memory end with its worker unless the administrator keeps
 * them (keep-shares), and all end with the agent, or when a row of theirs is
 * drained or lost: calls say -ENOENT then.
 *
 * Names are those of one instance, of 1 to 63 bytes, without blanks and control
 * characters.
 */

/* Who opens it may not write it: jobs that would end with -EACCES, descriptors
 * cannot.  Who shares it can, by the handles that he has. */
#define GPUMAP_SHARE_READ_ONLY (UINT32_C(1) << 0)
/* Every user may open it; otherwise those that are named, and one's own. */
#define GPUMAP_SHARE_ANY_USER    (UINT32_C(1) << 1)

#define GPUMAP_SHARE_BUFFERS_MAX 1024
#define GPUMAP_SHARE_UIDS_MAX    64
#define GPUMAP_SHARE_ABOUT_MAX   (UINT64_C(64) << 20)

struct gpumap_share_request {
	size_t size; /* sizeof(struct gpumap_share_request) */
	const char *name;
	const uint64_t
		*buffers;     /* allocated here with GPUMAP_BUFFER_EXPORTABLE,
				  * in the order that openers see */
	uint32_t n_buffers;   /* 1 to GPUMAP_SHARE_BUFFERS_MAX */
	uint32_t flags;       /* GPUMAP_SHARE_* */
	const void *about;    /* copied; NULL: nothing */
	uint64_t about_bytes; /* at most GPUMAP_SHARE_ABOUT_MAX; they count
				  * with this user's arenas */
	const uint32_t *uids; /* other users who may open it */
	uint32_t n_uids;      /* at most GPUMAP_SHARE_UIDS_MAX */
	uint32_t reserved;
};

/* One share. */
struct gpumap_share_info {
	size_t size; /* sizeof(struct gpumap_share_info), set by the caller */
	uint64_t share;
	char name[64];
	uint32_t uid;   /* who is charged */
	uint32_t flags; /* GPUMAP_SHARE_* */
	uint32_t n_buffers;
	uint32_t n_holders; /* sessions; 0 in gpumap_share_info() */
	uint64_t bytes;     /* of all buffers */
	uint64_t about_bytes;
	const void *about; /* until gpumap_share_close(); NULL for none, and
			       * in gpumap_shares() */
	uint64_t age_ns;   /* 0 in gpumap_share_info() */
	uint32_t pid;      /* of who shared it, 0: he holds it no longer; and
			       * in gpumap_share_info() */
	uint32_t reserved;
};

/*
 * gpumap_share - give buffers of this session a name
 *
 * All of them at once, or none.  This session is the first that holds it; the
 * buffers stay its own, and may be freed: who opens the name has them still.
 * What is in them is for whoever opens it from now on, so write them first.
 *
 * ret_share	receives a number for the calls below, the same in every session
 *
 * Returns	0
 *		-EINVAL		the name, no buffer or too many, a buffer that
 *				is not exportable or was imported
 *		-E2BIG		a field or a flag newer than this library, or
 *				too much in @about
 *		-ESTALE, -ERANGE	this session has no such buffer
 *		-EEXIST		the name is taken
 *		-EBUSY		a buffer is shared already, or others have had
 *				it the other way, for writing or read-only
 *		-EPERM		a buffer is another session's; or the
 *				administrator keeps shares to one's own user
 *		-EDQUOT		this user has as many exports, or exported bytes
 *				of the row, or bytes with his arenas, as he may
 *		-EOPNOTSUPP	the device cannot, or the agent is older than
 *				this
 *		-EMFILE, -ENOMEM, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more.  After an error nothing is shared
 * Cost		a round trip on the control socket and to the worker for each
 *		buffer, and one more; @about is copied once
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share(struct gpumap_session *session,
			    const struct gpumap_share_request *request,
			    uint64_t *ret_share);

/*
 * gpumap_share_open - hold what has this name
 *
 * flags	GPUMAP_SHARE_READ_ONLY, as it must be where it is shared so, or
 *		0
 * ret_share	receives its number; give it back with gpumap_share_close()
 *
 * Returns	0
 *		-ENOENT		nothing has this name
 *		-EACCES		it is not for this user, or not for writing
 *		-EALREADY	this session holds it already
 *		-EDQUOT		this user has as many imports, or of a row as
 *				many bytes that others have exported, as he may
 *		-EINVAL		no name; -E2BIG: a flag newer than this library
 *		-EOPNOTSUPP	the agent is older than this
 *		-EMFILE, -ENOMEM, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket, and three system calls where
 *		something is said about it
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_open(struct gpumap_session *session,
				 const char *name, uint32_t flags,
				 uint64_t *ret_share);

/*
 * gpumap_share_info - what it is
 *
 * ret_info	set its @size before the call
 *
 * Returns	0
 *		-ENOENT		this session does not hold it
 *		-E2BIG, -EINVAL	ret_info->size is larger than this library
 *				knows, or smaller than its first fields
 *		-ECONNRESET, -EOWNERDEAD
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_info(struct gpumap_session *session, uint64_t share,
				 struct gpumap_share_info *ret_info);

/*
 * gpumap_share_buffer - one buffer of it, for jobs of this session
 *
 * The same at every call, until it is freed; to who has shared it, his own.
 *
 * index	from 0, in the order in which they were shared
 * ret_info	its bytes and row; set its @size before the call; may be NULL
 * ret_buffer	receives its name in this session; give it back with
 *		gpumap_buffer_free(), or all of them with gpumap_share_close().
 *		NULL: only to look, which asks nobody
 *
 * Returns	0
 *		-ENOENT		this session does not hold the share, or not any
 *				more; -ERANGE: it has no such buffer
 *		-E2BIG, -EINVAL	as gpumap_export_fd()
 *		and as gpumap_buffer_import()
 * Cost		the first time a round trip on the control socket, and one to
 *		the worker
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_buffer(struct gpumap_session *session,
				   uint64_t share, uint32_t index,
				   struct gpumap_export_info *ret_info,
				   uint64_t *ret_buffer);

/*
 * gpumap_share_fd - a descriptor of one buffer of it
 *
 * For a program that maps the memory itself, see gpumap_export_fd().  What is
 * shared read-only can be mapped PROT_READ alone; a GPU's memory could be
 * written all the same, and has no descriptor then.
 *
 * ret_info	its bytes and row; set its @size before the call
 * ret_fd	receives the descriptor, close-on-exec, for the caller to close.
 *		The buffer counts as imported until this session ends
 *
 * Returns	0
 *		-ENOENT, -ERANGE	as gpumap_share_buffer()
 *		-EACCES		shared read-only, and the device is a GPU
 *		-EDQUOT		this user has as many imports as he may
 *		-E2BIG, -EINVAL	as gpumap_export_fd()
 *		-EMFILE, -ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_fd(struct gpumap_session *session, uint64_t share,
			       uint32_t index,
			       struct gpumap_export_info *ret_info,
			       int *ret_fd);

/*
 * gpumap_share_close - hold it no longer; 0 is allowed
 *
 * Buffers that gpumap_share_buffer() imported are freed: no job that names one
 * may be in flight.  One's own stay.
 *
 * Returns	0, also where the share has ended by itself
 *		-ENOENT		this session does not hold it
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		a round trip on the control socket, and one for each buffer that
 *		was imported, or for each that was shared
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_share_close(struct gpumap_session *session,
				  uint64_t share);

/*
 * gpumap_share_release - take a name back, whoever holds it
 *
 * As if all who hold it had let go: the name is free, nobody imports anything
 * of it any more, and what has been imported stays its importers' until they
 * free it.  For who has shared it, and for root.
 *
 * Returns	0
 *		-ENOENT		nothing has this name
 *		-EPERM		another user has shared it
 *		-EINVAL		no name
 *		-EOPNOTSUPP	the agent is older than this
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket
 * Threads	one at a time
 */
GPUMAP_API int gpumap_share_release(struct gpumap *map, const char *name);

/*
 * gpumap_shares - what is shared in this instance, oldest first
 *
 * ret_info	room for @n; the @size of the first is set, and is that of all
 *
 * Returns	how many there are, which may be more than @n, or
 *		-E2BIG, -EINVAL	as gpumap_share_info()
 *		-EOPNOTSUPP	the agent is older than this
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD, when
 *		ret_info may hold some of them
 * Cost		a round trip on the control socket for every 32
 * Threads	one at a time
 */
GPUMAP_API int gpumap_shares(struct gpumap *map,
			     struct gpumap_share_info *ret_info, size_t n);

/* ---- jobs -------------------------------------------------------------- */

/*
 * What a job does.  The results are the same bits on any row, host or CUDA, and
 * however the job is cut into slices:
 *
 *   - f16 and bf16 are widened to f32, exactly; what is computed with them is
 *     computed in f32, and rounded to the element once, at the end.  f64 is
 *     computed in f64.
 *   - Each product, each sum and each conversion is rounded to the nearest,
 *     ties to even.  Nothing is fused, subnormals are kept, and what is too
 *     large becomes an infinity.
 *   - A NaN gives a NaN.  Which one is left open.
 *   - A sum of floats has one order: in chunks of 1024 elements, lane l of 32
 *     starts with 0 and adds elements l, l + 32 and so on in turn; then each
 *     lane l adds lane l + 16, then l + 8, to l + 1, and lane 0 is an element
 *     of the next round, which goes on in the same way until one is left.
 */
enum gpumap_op {
	GPUMAP_OP_NOP = 0,
	GPUMAP_OP_FILL = 1,  /* dst[i] = pattern */
	GPUMAP_OP_COPY = 2,  /* dst[i] = src[i]; the two must not overlap, nor
			      * be the memories of two rows */
	GPUMAP_OP_SCALE = 3, /* dst[i] = alpha * src[i]; dst may be src; f16,
			      * bf16, f32, f64 */
	GPUMAP_OP_AXPY = 4,  /* dst[i] += alpha * src[i], product and sum both
			      * rounded; dst may be src; as SCALE */
	GPUMAP_OP_ALLOC = 5, /* what gpumap_buffer_alloc() submits; no job */
	GPUMAP_OP_FREE = 6,  /* what gpumap_buffer_free() submits; no job */
	GPUMAP_OP_CAST = 7,  /* dst[i] = src[i] as another dtype, the job's
			      * @to; f16, bf16 and f32 into each other; the two
			      * must not overlap */
	/* Reductions: dst is one element, apart from src, of which there is one
	 * at least. */
	GPUMAP_OP_SUM = 8,  /* of f16, bf16 and f32 an f32; of f64 an f64; of
			    * i32 and i64 an i64, of the others an u64, which
			    * wrap */
	GPUMAP_OP_MIN = 9,  /* of src's dtype; -0 is less than +0 */
	GPUMAP_OP_MAX = 10, /* likewise */
	/* With a mask, which begins again where it ends.  Such a job takes the
	 * room of two in the queue.  dst may be src; neither may the mask. */
	GPUMAP_OP_MASK_ADD = 11,  /* dst[i] = src[i] + mask[(mask_first + i) %
				  * mask_n], the mask of the same dtype: f16,
				  * bf16, f32, f64 */
	GPUMAP_OP_MASK_BOOL = 12, /* dst[i] = -infinity where that byte of the
				   * mask is not 0, else src[i], as it is */
	GPUMAP_OP_LOAD = 13, /* n bytes of the file @src_buffer, from src_at on,
			      * to dst; u8 */
	GPUMAP_OP_RUN = 14,  /* n items by the job's @program; takes the room of
			      * two in the queue */
	/* What gpumap_collective() submits; no jobs.  rank r of k has send_r
	 * and gets recv_r; sends and recvs are of n elements each, where
	 * nothing else is said. */
	GPUMAP_OP_BARRIER = 16,        /* nothing, but when all have come */
	GPUMAP_OP_ALL_REDUCE = 17,     /* recv_r = send_0 op send_1 op ... */
	GPUMAP_OP_ALL_GATHER = 18,     /* recv_r, of k * n, is all sends, by
					* their ranks */
	GPUMAP_OP_REDUCE_SCATTER = 19, /* of sends of k * n, recv_r is part r of
					* what all_reduce would give */
	GPUMAP_OP_BROADCAST = 20,      /* recv_r = send_root; the root's recv is
					* of no account */
	GPUMAP_OP_SEND = 21,           /* recv_peer = send_root */
	GPUMAP_OP_RECV = 22            /* the peer's part of SEND */
};

/* A place in time: what one session has submitted to a row, up to there. */
struct gpumap_time {
	uint32_t row;
	uint32_t reserved; /* 0 */
	uint64_t value;    /* from gpumap_submitted(); 0: the beginning */
};

#define GPUMAP_WAITS_MAX 4u /* of one job */

struct gpumap_job {
	uint32_t op;     /* enum gpumap_op */
	uint32_t dtype;  /* enum gpumap_dtype: what an element is, of src and
			   * of dst, but for CAST's and SUM's */
	void *dst;       /* in the session's arena, aligned to its elements;
			   * of no account with dst_buffer */
	const void *src; /* likewise; NULL where the operation has none */
	uint64_t n;      /* elements, of src where there is one; items of RUN */
	double alpha;    /* SCALE, AXPY: rounded to f32, but for f64 */
	uint64_t pattern; /* FILL: its low bytes, as many as an element has */
	uint64_t cookie;  /* given back with the completion */
	/* Memory that is not the arena's; 0: dst or src says where. */
	uint64_t dst_buffer;
	uint64_t src_buffer;
	uint64_t dst_at; /* bytes from the beginning of the buffer */
	uint64_t src_at;
	/* A job with any of these takes the room of two in the queue. */
	uint64_t deadline_ns;            /* on CLOCK_MONOTONIC; 0 or
					  * GPUMAP_NO_DEADLINE: none */
	const struct gpumap_time *waits; /* what has to have ended before it is
					  * begun; read by the call */
	uint32_t n_waits;                /* GPUMAP_WAITS_MAX at most */
	uint32_t to;                     /* CAST: enum gpumap_dtype of dst */
	/* MASK_ADD, MASK_BOOL. */
	uint32_t mask_n; /* elements of the mask, at least 1 */
	uint32_t
		mask_first; /* the one that goes with element 0, below mask_n */
	const void *mask;   /* as src; of no account with mask_buffer */
	uint64_t mask_buffer; /* or of gpumap_mask_use() */
	uint64_t mask_at;
	/* RUN.  src and dst are aligned to the dtype's elements, whatever an
	 * item is, and are the same or apart. */
	uint64_t program;        /* from gpumap_program_load() */
	uint32_t src_item_bytes; /* of an item of src; 0: there is no src */
	uint32_t dst_item_bytes; /* likewise */
	const void *params;    /* in the arena; copied when the job is begun */
	uint32_t params_bytes; /* GPUMAP_PARAMS_MAX at most; 0: no params */
	uint32_t reserved;     /* 0 */
};

#define GPUMAP_PARAMS_MAX 4096u

struct gpumap_done {
	uint64_t cookie;
	uint32_t row;
	int32_t status; /* 0 or a negative errno, see gpumap_submit() */
};

/*
 * gpumap_submit - hand jobs to the worker of one row, in order
 *
 * All of @jobs or none are submitted.  What they name must stay as it is until
 * they have ended.  Jobs of a row are done in order.  One that waits for what
 * was submitted to other rows is begun when all of that has ended, whether well
 * or not, and finds in memory what it did; what is behind it on its row waits,
 * too.  As only what was submitted before can be waited for, nothing waits for
 * ever but with a job that takes for ever.
 *
 * A LOAD that fails may have written some of what it was to, anywhere in it;
 * one from a file system that does not answer takes for ever, and holds up the
 * jobs of its own session on the row, and nobody else's.
 *
 * A job ends with one of
 *
 *	0		done
 *	-EINVAL		its dtype does not go with its operation, a pointer is
 *			not aligned, source and destination overlap, or
 *			destination and mask, or there is nothing to reduce
 *	-ERANGE		it reaches out of the arena or the buffer
 *	-ESTALE		its buffer died with an earlier worker, or was freed
 *			before a copy to another row was begun
 *	-EOPNOTSUPP	the device cannot do this operation
 *	-ETIME		its deadline passed before it was begun, and nothing was
 *			done; or while it was done in slices, and no more were
 *			begun
 *	-ECANCELED	by gpumap_cancel(), and nothing was done
 *	-ENODATA	LOAD: the file ends before what was to be read
 *	-EREMOTEIO	LOAD: the storage or the file system failed a read
 *	-EACCES, -EBADF	LOAD: the worker may not read the file
 *	-ENOMEM		LOAD: the row has no memory to read to
 *	-EIO		the worker died before the job ended, and it may have
 *			been done in part; or the job was submitted between a
 *			worker's death and the row's being READY again; or a
 *			worker died that had not done, for all that this session
 *			had seen, what the job waits for, and nothing was done
 *	-ENODEV		the row is lost
 *	-ECONNRESET	the agent died; a worker may still be writing, for as
 *			long as it takes it to see that
 *
 * Returns	0
 *		-EAGAIN		fewer than @n jobs fit beside those in flight:
 *				take completions first
 *		-EINVAL		an operation or dtype that this library does not
 *				know, n is 0 or more than fit into the depth;
 *				more than four waits, or one for what was not
 *				submitted; a LOAD that is from no file, or a
 *				file that is not a LOAD's source; a mask of
 *				another dtype
 *		-ERANGE		a pointer outside of this session's arena, or
 *				elements outside of the buffer: each operand and
 *				mask lies in one, whatever else is registered
 *				beside it; of a buffer gpumap_refusal() says
 *				more
 *		-ESTALE		a buffer was freed
 *		-EPERM		a buffer is another session's
 *		-ENOENT		the mask has no replica on this row
 *		-EACCES		the destination is READ_ONLY
 *		-EOPNOTSUPP	a buffer is memory of another row, and not the
 *				source of a COPY; or the agent is older than
 *				such copies, than deadlines and waits, or than
 *				CAST
 *		-ENODEV		no such row
 *		-ECONNRESET, -EPROTO	the session has ended
 *		-EOWNERDEAD	called in a forked child
 *		-ENOMEM, -ESHUTDOWN, -EMFILE	as gpumap_alloc(), the first
 *						time
 *		-EDQUOT, -EPERM, -ENOMEM, ...	what the agent and the worker
 *						say
 *				of a registration, or of another row's buffer,
 *				that the row has not seen yet; gpumap_refusal()
 *				says more
 * Cost		no system call while the worker is awake, one when it sleeps;
 *		the first call on a row makes its queue pair, and the first that
 *		names a registration there has it mapped, or another row's
 *		buffer has the two workers agree
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_submit(struct gpumap_session *session, uint32_t row,
			     const struct gpumap_job *jobs, uint32_t n);

/*
 * gpumap_submitted - the place in time of what was submitted last to a row
 *
 * A job that waits for it, on any row, is begun when all that this session has
 * submitted to @row so far has ended.
 *
 * ret_time	0 as the value where nothing was
 *
 * Returns	0, -ENODEV: no such row, -ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_submitted(struct gpumap_session *session, uint32_t row,
				struct gpumap_time *ret_time);

/*
 * gpumap_cancel - take back what was submitted to a row and is not begun
 *
 * Each of those jobs ends with -ECANCELED and has done nothing.  The worker
 * looks once per turn: jobs that it begins before that, and one that it does in
 * slices, end as if there had been no call.  All of them are taken by
 * gpumap_poll() as ever.  A job that waits is not begun.
 *
 * Returns	0
 *		-ENODEV		no such row
 *		-EOPNOTSUPP	the agent is older than this
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD
 * Cost		one system call, which waits for nobody
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_cancel(struct gpumap_session *session, uint32_t row);

/*
 * gpumap_poll - take completions, without waiting
 *
 * Returns	how many were stored, at most @n; 0: none
 *		-ECONNRESET	the session has ended and all has been taken
 *		-EPROTO		the worker broke the contract; close the session
 *		-EINVAL		n is 0
 *		-EOWNERDEAD	called in a forked child
 * Cost		no system call while the agent lives
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_poll(struct gpumap_session *session,
			   struct gpumap_done *ret_done, uint32_t n);

/*
 * gpumap_wait - take completions, waiting for the first
 *
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 *
 * Returns	as gpumap_poll(), but never 0:
 *		-ETIME		the deadline passed; the jobs are still in
 *				flight
 *		-ENODATA	nothing is in flight
 * Cost		spins up to 50 microseconds where that pays, then a futex wait
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_wait(struct gpumap_session *session,
			   struct gpumap_done *ret_done, uint32_t n,
			   uint64_t deadline_ns);

/* What one row had of a scatter. */
struct gpumap_tile {
	uint32_t row;
	int32_t status; /* as a job ends, see gpumap_submit() */
	uint64_t first; /* element */
	uint64_t n;     /* elements */
	uint64_t
		value; /* of its row, as in gpumap_time: what waits for it waits
			 * for this tile */
};

/* Tiles that end with -EIO, -ENODEV, -EOPNOTSUPP or -ENOMEM are done once more,
 * one after the other, on a READY host row that has not failed, where there is
 * one. */
#define GPUMAP_SCATTER_FALLBACK (UINT32_C(1) << 0)

struct gpumap_scatter_opts {
	size_t size;           /* sizeof(struct gpumap_scatter_opts) */
	const uint32_t *rows;  /* each once; NULL: all READY host and CUDA rows
				* of the device table */
	const double *weights; /* one per row of rows; NULL: their scores */
	uint32_t n_rows;       /* in rows, weights and buffers */
	uint32_t flags;        /* GPUMAP_SCATTER_* */
	uint64_t deadline_ns;  /* on CLOCK_MONOTONIC; 0: none */
	/* One per row of rows, for memory that each row has of its own: its
	 * tile begins at the job's dst_at or src_at in it.  NULL: the job's. */
	const uint64_t *dst_buffers;
	const uint64_t *src_buffers;
	/* Of a reduction whose results are in the arena: room for one element
	 * of them, with any alignment, which receives what they come to
	 * together; NULL: that is for the caller. */
	void *ret_combined;
};

/*
 * gpumap_scatter - split one job's elements over rows, and wait for all
 *
 * The elements are split by weight with the largest-remainder rule, exactly;
 * rows that get none are left out.  Memory that the rows share, the arena and
 * what is registered, is split in the same way; with dst_buffers or src_buffers
 * each row uses the beginning of its own.  Of a reduction dst has as many
 * elements as there are tiles, each its tile's result, in their order; with
 * dst_buffers each row has its own.  A mask is not split: each tile goes on in
 * it where the one before ends.  With ret_combined the results of a reduction
 * are brought together once every tile has ended with 0, from the first to the
 * last: each sum of floats is rounded, integers wrap, -0 is less than +0, and a
 * NaN gives a NaN.  So a sum of floats depends on the split, and on nothing
 * else: whoever wants the same again names rows and weights.  Credit is looked
 * at on every row before the first tile is submitted.  job->cookie is not used,
 * and completions of other jobs stay for gpumap_poll().  job->waits and
 * job->deadline_ns hold for every tile.
 *
 * With GPUMAP_SCATTER_FALLBACK the result must be apart from what is read, so
 * AXPY and what works in place are refused, and so are dst_buffers, src_buffers
 * and LOAD: another row does not reach them.  A tile that was done again has
 * the row and the value of where that was.
 *
 * opts		NULL for the defaults
 * ret_tiles	a tile per row that had one, in the order of the rows; room
 *		that is left over gets tiles of 0 elements; may be NULL
 * n		room in ret_tiles
 *
 * Returns	the number of tiles; every one has ended with 0
 *		-EIO, -ENODEV, -EINVAL, -ERANGE, ...
 *				the first tile's status that was not 0; all
 *				tiles have ended, and ret_tiles says which
 *				failed
 *		-EAGAIN		a row has no credit left
 *		-EINVAL		as gpumap_submit(); a row is named twice;
 *				weights or buffers without rows; a flag that
 *				does not go with the job; ret_combined for what
 *				is no reduction, or has its results in buffers
 *		-ERANGE		the job reaches out of the arena or a buffer
 *		-ENODEV		no row, or a row that does not exist
 *		-ENOBUFS	more tiles than n
 *		-ESTALE, -EPERM, -ENOENT, -EACCES, -EOPNOTSUPP, -EDQUOT
 *				of a buffer, as gpumap_submit()
 *				in these cases nothing was submitted and
 *				ret_tiles is untouched
 *		-ETIME		opts->deadline_ns passed; tiles that had not
 *				ended carry -ETIME and still use their memory:
 *				reuse it in jobs that wait for those tiles, or
 *				close the session
 *		-ECONNRESET, -EOWNERDEAD, -E2BIG
 * Cost		per tile as gpumap_submit(), then as gpumap_wait()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_scatter(struct gpumap_session *session,
			      const struct gpumap_job *job,
			      const struct gpumap_scatter_opts *opts,
			      struct gpumap_tile *ret_tiles, uint32_t n);

/* ---- collectives ------------------------------------------------------- */

/*
 * Jobs of several rows at once, each a rank of a group.  A group is that of a
 * mesh, and a communicator is one session's use of it: the session has a queue
 * on each of the rows, and submits each collective once, for all of the ranks.
 *
 * Each rank's part of a collective takes its turn in its own row's queue, and
 * what the session submits behind it waits there until it has ended; other
 * sessions go on.  A group's collectives are done in the order in which they
 * were submitted, and so are those of groups that share a row: as one session
 * submits all of them, no two rows disagree over that order, and none waits for
 * another for ever.
 *
 * A rank's results are the same bits on each rank and in each run.  f16 and
 * bf16 are computed in f32, in the order of the ranks, and rounded once.
 * Integers wrap; their average is exact, and cut off towards zero.  The least
 * and greatest of floats are those of GPUMAP_OP_MIN and MAX, and a NaN wins.
 *
 * Every rank takes part, or everybody gets an error.  What ends in any other
 * way than well or with -EINVAL breaks the communicator: all that is under way
 * in it ends, with the same errno, and what is submitted later with -ESTALE.
 * Close it then and open it anew, which waits until all of the rows' workers
 * are back.
 *
 * Where one of the rows is a card, what the ranks give and get goes by way of
 * memory of the host, a mebibyte at a time, and is computed there: results are
 * the same bits as those of host rows.
 */

/* What several ranks' elements become. */
enum gpumap_reduce {
	GPUMAP_REDUCE_SUM = 0,
	GPUMAP_REDUCE_PRODUCT = 1,
	GPUMAP_REDUCE_MIN = 2,
	GPUMAP_REDUCE_MAX = 3,
	GPUMAP_REDUCE_AVERAGE = 4
};

/* One session's use of a mesh's group.  Opaque. */
struct gpumap_comm;

#define GPUMAP_COMM_RANKS_MAX 64u

/*
 * gpumap_comm_open - take up a group of a mesh
 *
 * mesh		published with gpumap_mesh_publish(); the rows that its ranks
 *		have now are the communicator's, whatever it has later, until
 *		gpumap_comm_renew()
 * group	NULL: "world"
 * ret_comm	give it back with gpumap_comm_close(), before the session
 *
 * Returns	0
 *		-ENOENT		there is no such mesh, or no such group of it
 *		-EOPNOTSUPP	the session was opened with
 *				GPUMAP_SESSION_PROGRAMS; or the agent is older
 *				than this, or than cards as ranks
 *		-E2BIG		the group has more than 64 ranks
 *		-EDQUOT		this session has 256 of them, or this user 1024,
 *				or as many bytes of arenas as it may: one takes
 *				9 KiB for each rank, and 512 bytes for each two;
 *				with a card among them 2 MiB more for each, and
 *				once more
 *		-ESTALE		a row's worker ended meanwhile: try again
 *		-ENODEV, -ESHUTDOWN, -EMFILE, -ENOMEM, -ECONNRESET, -EPROTO,
 *		-EOWNERDEAD	as gpumap_alloc(); -EAGAIN, -EINVAL as
 *				gpumap_mesh_group().  gpumap_refusal() says more
 * Cost		a round trip on the control socket, and one to each row's
 *		worker; waits for workers that are just being started
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_open(struct gpumap_session *session,
				const char *mesh, const char *group,
				struct gpumap_comm **ret_comm);

/*
 * Where all ranks are cards they may do it among themselves, by NCCL, at the
 * speed of the links between them.  That is asked for, because it gives up some
 * of what is said above: sums depend on the order in which NCCL takes the
 * ranks, which is that of its links, and f16 and bf16 may be rounded on the
 * way; the bits may differ from one machine to the next, and from those of
 * windows; which of a NaN and a number is the least or the greatest, and how
 * the average of integers is cut off or whether their sum wraps before, is
 * NCCL's affair.  All else holds.
 *
 * What goes so is ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER and BROADCAST of
 * buffers that are the cards' own, of all ranks; anything else, and all of a
 * group whose cards could not meet, goes by way of windows as ever.  They meet
 * where nccl in [cuda] of gpumapd.conf says so, NCCL 2.19 or later is there,
 * none of them is a part of a card (MIG), and none of them serves another
 * session's communicator in this way, or eight of this one's.
 */
#define GPUMAP_COMM_NCCL (UINT32_C(1) << 0)

struct gpumap_comm_opts {
	size_t size;       /* sizeof(struct gpumap_comm_opts) */
	uint32_t flags;    /* GPUMAP_COMM_* */
	uint32_t reserved; /* 0 */
};

/*
 * gpumap_comm_open_opts - take up a group of a mesh, in other ways
 *
 * opts		NULL: as gpumap_comm_open()
 *
 * Returns	as gpumap_comm_open(), or
 *		-E2BIG		a field or a flag newer than this library.  An
 *				agent older than a flag does without it, and
 *				gpumap_comm_flags() says so
 * Cost		as gpumap_comm_open(); with GPUMAP_COMM_NCCL also the meeting of
 *		the cards, seconds, and some hundred MiB of each card, which no
 *		session is charged for
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_open_opts(struct gpumap_session *session,
				     const char *mesh, const char *group,
				     const struct gpumap_comm_opts *opts,
				     struct gpumap_comm **ret_comm);

/*
 * gpumap_comm_flags - what it has become
 *
 * Returns	GPUMAP_COMM_NCCL where that was asked for and its cards have
 *		met; or 0. gpumap_comm_renew() may change it
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API uint32_t gpumap_comm_flags(const struct gpumap_comm *comm);

/*
 * gpumap_comm_renew - take up its group again
 *
 * After a worker of it has died, a deadline has passed or a collective was
 * cancelled: whatever breaks a communicator breaks it for good until then.  Its
 * ranks are on the rows that the mesh has for them now, which may be other rows
 * and another number of them where somebody has reshaped it.  It keeps the
 * flags it was opened with; gpumap_comm_flags() says what has become of them
 * this time.  Collectives that are under way end with -EIO, as by
 * gpumap_comm_close().
 *
 * Returns	0
 *		or as gpumap_comm_open(): it stays broken then, to be renewed
 *		later or closed.  -ESTALE: a row's worker ended meanwhile: try
 *		again
 * Cost		those of gpumap_comm_close() and gpumap_comm_open()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_renew(struct gpumap_comm *comm);

/*
 * gpumap_comm_close - give it up; NULL is allowed
 *
 * Collectives that are under way end with -EIO and are taken by gpumap_poll()
 * as ever.  When this has returned no worker touches their memory any more.
 *
 * Returns	0; -ECONNRESET, -EPROTO, -EOWNERDEAD: it is freed all the same
 * Cost		a round trip on the control socket, and one to each row's
 *		worker; a worker that is stopped is waited for until the agent
 *		ends it, for about three seconds, and one whose card does not
 *		end a copy for about thirty
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_close(struct gpumap_comm *comm);

/*
 * gpumap_comm_rows - which rows are its ranks
 *
 * ret_rows	receives the row of each rank, as far as there is room
 * n		room in ret_rows
 *
 * Returns	how many ranks there are, which may be more than @n
 * Cost		no system call
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_comm_rows(const struct gpumap_comm *comm,
				uint32_t *ret_rows, size_t n);

/* What one rank gives and gets: in the session's arena, in what it has
 * registered, or in buffers of the rank's own row, aligned to its elements.
 * Where all ranks are host rows a buffer has to be one that was allocated with
 * GPUMAP_BUFFER_EXPORTABLE. */
struct gpumap_rank {
	const void *send; /* in the arena; of no account with send_buffer */
	void *recv;       /* likewise */
	uint64_t send_buffer;
	uint64_t recv_buffer;
	uint64_t send_at; /* bytes from the beginning of the buffer */
	uint64_t recv_at;
};

struct gpumap_collective {
	size_t size;     /* sizeof(struct gpumap_collective) */
	uint32_t op;     /* GPUMAP_OP_BARRIER to GPUMAP_OP_SEND */
	uint32_t dtype;  /* GPUMAP_DTYPE_U8, _F16, _BF16, _F32, _I32 or _I64 */
	uint32_t reduce; /* ALL_REDUCE and REDUCE_SCATTER: enum gpumap_reduce */
	uint32_t root;   /* BROADCAST, SEND: the rank that gives */
	uint32_t peer;   /* SEND: the rank that gets */
	uint32_t n_waits;
	uint64_t n; /* elements */
	/* One for each rank, in their order, whether it gives and gets anything
	 * or not; NULL for BARRIER.  A rank's send and recv may be the same
	 * where they have the same size; where not, the smaller may be the
	 * rank's part of the larger.  Nothing that is written may overlap
	 * otherwise. */
	const struct gpumap_rank *ranks;
	const struct gpumap_time *waits; /* of each rank, as of a job */
	uint64_t deadline_ns; /* on CLOCK_MONOTONIC; 0 or GPUMAP_NO_DEADLINE:
			       * none */
	uint64_t cookie;      /* given back with the completion */
};

/*
 * gpumap_collective - have all ranks of a group do something together
 *
 * Submits the ranks' parts to all of their rows, or none.  There is one
 * completion, when the last of them has ended: gpumap_poll() and gpumap_wait()
 * give it with @cookie and the row of rank 0.  A job that is to wait for it
 * waits for what was submitted last, gpumap_submitted(), to each of the rows
 * whose ranks it needs: when a rank's part has ended its recv is whole, and
 * nobody reads its send.
 *
 * It ends with one of
 *
 *	0		done, by all
 *	-EINVAL		operation, reduction and dtype do not go together, or
 *			memory overlaps where it must not.  Nothing was done
 *	-EFAULT		a rank does not reach memory of another
 *	-ETIME		the deadline passed.  It is told 150 ms later at most,
 *			even where a worker does not answer; that one may
 *			write to its rank's recv until gpumap_comm_close()
 *			returns
 *	-ECANCELED	by gpumap_cancel(), on any of the rows, begun or not
 *	-EIO		the worker of a rank ended; or it was closed; or as a
 *			job
 *	-ESTALE		the communicator had been broken before
 *	-ENODEV, -ECONNRESET	as a job
 *
 * What was to be received is undefined after any of them but 0 and -EINVAL.
 *
 * Returns	0
 *		-EAGAIN		one of the rows has not enough credit, or as
 *				many collectives as a queue is deep wait to be
 *				taken: take completions first
 *		-EINVAL		no such operation, dtype, reduction or rank; no
 *				@ranks; a pointer that is not aligned; a wait
 *				for what was not submitted
 *		-ERANGE		memory outside of the arena or of a buffer
 *		-ESTALE		the communicator is broken: see
 *				gpumap_comm_renew(); or a buffer was freed
 *		-EPERM		a buffer is another session's
 *		-EACCES		recv is READ_ONLY
 *		-EOPNOTSUPP	a buffer is neither registered nor one of its
 *				rank's row; or of host rows alone, and not
 *				EXPORTABLE
 *		-E2BIG		a field newer than this library
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD, and what gpumap_submit() has
 *		of buffers that a row has not seen yet
 * Cost		as gpumap_submit(), for each row; up to 4 KiB of a rank go by
 *		way of one step, in about the time of two jobs' round trips
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_collective(struct gpumap_comm *comm,
				 const struct gpumap_collective *what);

/* ---- models ------------------------------------------------------------- */

/*
 * A checkpoint in the memory of devices: each of its tensors on the row of its
 * layer, in buffers that the session has as if it had allocated them.  Tensors
 * of a row share a few large buffers, each at a multiple of 256 bytes.
 *
 * It is loaded by jobs of the session, some at a time, beside its other jobs:
 * one that is submitted to a row meanwhile waits for 128 MiB of reading at
 * most.  The next are submitted by whatever call takes completions,
 * gpumap_poll() and gpumap_wait() as well as those below: who calls none of
 * them for long lets the storage rest.  For loads that are to hold up nothing
 * else, have a session that does nothing else.
 *
 * With a name it is loaded once, for all sessions that may have it: who asks
 * for what is there by this name has it at once, of several that ask for what
 * is not there one loads and the others are WAITING, and when that one fails or
 * dies another loads.  The name alone says what it is: nobody compares files,
 * maps or rows.  It is a share, with its buffers in their order, and is there
 * as long as any session holds it: until that has called gpumap_model_free(),
 * or ended.
 */
struct gpumap_model;

struct gpumap_model_opts {
	size_t size;        /* sizeof(struct gpumap_model_opts) */
	const char *path;   /* a directory with safetensors files and, if there
			       * are several, their index; or one such file; or
			       * a GGUF file, any part of one that is split */
	const char *layers; /* the layer map to go by; NULL: all goes to
			       * rows[0] */
	const uint32_t
		*rows; /* only what belongs to these is loaded; NULL: all */
	uint32_t n_rows;
	uint32_t flags;   /* of the buffers: GPUMAP_BUFFER_EXPORTABLE or 0 */
	const char *name; /* by which others have it; NULL: nobody has */
	/* With a name: */
	const uint32_t *uids; /* other users who may have it */
	uint32_t n_uids;      /* at most GPUMAP_SHARE_UIDS_MAX */
	uint32_t share_flags; /* GPUMAP_SHARE_*.  Who loads it writes it all the
			       * same; who finds it has it so */
};

enum gpumap_model_state {
	GPUMAP_MODEL_ALLOCATING =
		1, /* memory, on all rows, before any reading */
	GPUMAP_MODEL_LOADING = 2,
	GPUMAP_MODEL_LOADED = 3,
	GPUMAP_MODEL_ENDING = 4, /* it has failed; memory is being given back */
	GPUMAP_MODEL_FAILED = 5, /* and it has nothing any more */
	GPUMAP_MODEL_WAITING = 6 /* another session is loading it */
};

struct gpumap_model_progress {
	size_t size; /* sizeof(struct gpumap_model_progress), by the caller */
	uint32_t state; /* enum gpumap_model_state */
	int32_t status; /* of ENDING and FAILED: why; else 0 */
	uint64_t bytes; /* loaded so far, of tensors */
	uint64_t total_bytes;
	uint64_t elapsed_ns;       /* of loading */
	uint64_t bytes_per_second; /* of the last seconds; once it is LOADED, of
				    * all; 0: not known yet */
	uint64_t left_ns;          /* at that rate; UINT64_MAX: not known */
	uint32_t n_tensors;        /* of the checkpoint */
	uint32_t n_buffers;
	uint32_t was_there; /* 1: another session had loaded it */
	uint32_t reserved;
	uint64_t share; /* once it is LOADED: that it is; 0: it has no name */
};

struct gpumap_tensor {
	size_t size; /* sizeof(struct gpumap_tensor), set by the caller */
	const char *name;
	const char *type; /* of an element, as the file has it: "BF16"; of a
			   * block of elements: "Q4_K" */
	uint32_t dtype;   /* enum gpumap_dtype; U8 for types that it lacks */
	uint32_t n_dims;
	const uint64_t *shape; /* n_dims of them, in elements; the last varies
				* fastest in memory, of GGUF's as well */
	uint32_t row;
	int32_t layer;   /* -1: of none */
	uint64_t buffer; /* 0: not LOADED, or its row was left out, or it has
			  * no bytes */
	uint64_t at;     /* where it begins in the buffer */
	uint64_t bytes;
};

/*
 * gpumap_load_model - begin to load a checkpoint onto the rows of a layer map
 *
 * Tensors are named [PREFIX.]layers.N.REST, or with layer, h, blk, block or
 * blocks, if they are of layer N.  Those of no layer, and of layers behind the
 * map's last where the others have just the sizes that the map says, go to its
 * base row.  Bytes are loaded as the file has them, those of GGUF's quantised
 * types as blocks.  Headers are read by this call, in this process; of the rest
 * nothing is waited for, but on the first use of a row as with gpumap_alloc().
 *
 * ret_model	give it back with gpumap_model_free(), whatever becomes of it
 *
 * Returns	0
 *		-ENOENT		no such checkpoint, a file of it is missing, or
 *				no map has this name
 *		-ENODATA	a file is shorter than its header says
 *		-EINVAL		a file is malformed, or contradicts another; the
 *				map is for a model of other layers; neither map
 *				nor row; nothing is to be loaded; other flags
 *		-EOPNOTSUPP	GGUF of a version, or with a type, that is not
 *				known; or the map gives each row a part of every
 *				layer; or the agent is older than this
 *		-E2BIG		4096 files, 2^20 tensors or 256 MiB of headers
 *				are exceeded; or opts uses a field that is newer
 *				than this library
 *		-EACCES, -EIO, -EMFILE, ...	a file cannot be opened or read
 *		-EAGAIN, -EPROTO	of the map, as gpumap_layers_read()
 *		-ENODEV, -ENOMEM, -ESHUTDOWN, -ECONNRESET, -EOWNERDEAD
 *				as gpumap_alloc()
 *		of a name: -EDQUOT, this session has claimed 16; -EPERM, the
 *		administrator keeps shares to one's own user; and as
 *		gpumap_model_open() when it is there
 *		gpumap_refusal() says which file, and what to do
 * Cost		an open and two reads for each file; with a name, one more round
 *		trip on the control socket, or what gpumap_model_open() costs
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_load_model(struct gpumap_session *session,
				 const struct gpumap_model_opts *opts,
				 struct gpumap_model **ret_model);

/*
 * gpumap_model_progress - how far is it?
 *
 * ret_progress	set its @size before the call; may be NULL; stored always
 *
 * Returns	1	it is LOADED
 *		0	it is on its way, or is giving back what it had; while
 *			it is WAITING, gpumap_refusal() says who loads it
 *		what has failed, once nothing is left of it:
 *		-ENOMEM		a device is full
 *		-EDQUOT		this user would have more there than it may
 *		-ENODATA	a file has become shorter since its header was
 *				read
 *		-ESTALE		a file has been changed or replaced since then;
 *				or a buffer was freed meanwhile
 *		-EREMOTEIO	the storage, or its file system, failed a read
 *		-EACCES, -ENOENT, ...	a file cannot be opened any more
 *		-EIO		the worker of a row died
 *		-ECANCELED	gpumap_model_cancel()
 *		-ENODEV, -ECONNRESET, -EOPNOTSUPP, ...	as gpumap_submit()
 *		with a name, as gpumap_share() and gpumap_load_model() too
 *		gpumap_refusal() says which file or row, and what to do
 *		-E2BIG, -EINVAL	ret_progress->size; nothing was stored then
 *		-EOWNERDEAD
 * Cost		takes completions and submits what comes next; waits for nobody,
 *		but for the agent on the first use of a file on a row, after its
 *		last, and with a name for each buffer before the reading and
 *		behind it.  While it is WAITING the agent is asked ten times a
 *		second, and nothing wakes who sleeps on gpumap_session_fd()
 * Threads	the session's own thread
 */
GPUMAP_API int
gpumap_model_progress(struct gpumap_model *model,
		      struct gpumap_model_progress *ret_progress);

/*
 * gpumap_model_wait - until it is LOADED, or has failed
 *
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE
 *
 * Returns	0		it is LOADED
 *		-ETIME		the deadline passed; call again
 *		-EAGAIN		jobs have ended that fill a row's queue: take
 *				their completions, and call again
 *		what has failed, as gpumap_model_progress()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_wait(struct gpumap_model *model,
				 uint64_t deadline_ns);

/*
 * gpumap_model_open - have a model that another session has loaded by this name
 *
 * Nothing is read, and no file is looked at: the tensors are as they were
 * shared, with names, shapes and places, and the buffers are imported.
 *
 * flags	GPUMAP_SHARE_READ_ONLY, as it must be where it is shared so, or
 *		0
 * ret_model	LOADED; give it back with gpumap_model_free()
 *
 * Returns	0
 *		-ENOENT		nothing has this name; it may be on its way
 *		-EINVAL		no name; or what has it is no model
 *		-EPROTO		it was shared by another release of the library
 *		-EACCES, -EALREADY, -EDQUOT, -E2BIG, -EOPNOTSUPP, -EMFILE,
 *		-ENOMEM,
 *		-ECONNRESET, -EOWNERDEAD	as gpumap_share_open() and
 *				gpumap_buffer_import()
 *		gpumap_refusal() says more
 * Cost		that of gpumap_share_open(), of a row's first use, and of
 *		gpumap_share_buffer() for each buffer
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_open(struct gpumap_session *session,
				 const char *name, uint32_t flags,
				 struct gpumap_model **ret_model);

/*
 * gpumap_model_renew - have its buffers again where a worker has died
 *
 * Of a model with a name, after jobs with its buffers have ended with -ESTALE
 * or -EIO: the memory of a host's row is still there, and so is a GPU's where
 * the administrator keeps it.  Handles of that row are others from then on: ask
 * gpumap_model_find() again.  Nothing is done for rows whose worker lives.
 *
 * Returns	0
 *		-ENOENT		the share has ended: load it again
 *		-EAGAIN		it is not LOADED; or jobs have ended that fill a
 *				row's queue: take their completions, and call
 *				again
 *		-EINVAL		it has no name
 *		-ECONNRESET, -EPROTO, -EOWNERDEAD, ...	as gpumap_share_buffer()
 * Cost		that of gpumap_share_buffer() for each buffer of such a row
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_renew(struct gpumap_model *model);

/*
 * gpumap_model_cancel - load no more of it, and give back its memory
 *
 * What is in flight ends first; gpumap_model_progress() says when nothing is
 * left.  Where storage does not answer that is never, and only
 * gpumap_session_close() helps.
 *
 * Returns	0; also when it was over: then nothing is done
 *		-EOWNERDEAD
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_cancel(struct gpumap_model *model);

/*
 * gpumap_model_free - give back a model, and all its memory; NULL is allowed
 *
 * Of a model with a name only this session lets go: the memory stays as long as
 * any other has it.
 *
 * Waits for what is in flight of it.  Jobs that name its buffers and were
 * submitted before have them still, as after gpumap_buffer_free().  May follow
 * gpumap_session_close(), which gives back the memory, too.
 *
 * Returns	0
 *		-EAGAIN		jobs have ended that fill a row's queue: take
 *				their completions, and call again
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_model_free(struct gpumap_model *model);

/*
 * gpumap_model_find - a tensor by its name
 *
 * ret_tensor	set its @size before the call; the strings and the shape are the
 *		model's, and live as long
 *
 * Returns	0
 *		-ENOENT		the checkpoint has none of this name
 *		-E2BIG, -EINVAL	ret_tensor->size is larger than this library
 *				knows, or smaller than its first fields
 * Cost		a binary search
 * Threads	any, while none has another call with this model
 */
GPUMAP_API int gpumap_model_find(const struct gpumap_model *model,
				 const char *name,
				 struct gpumap_tensor *ret_tensor);

/*
 * gpumap_model_next - all tensors, one a call, by name
 *
 * cursor	0 for the first call, then as it was left by the last
 *
 * Returns	1 with a tensor, 0 when there is none left, or as
 *		gpumap_model_find()
 * Threads	any, while none has another call with this model
 */
GPUMAP_API int gpumap_model_next(const struct gpumap_model *model,
				 uint32_t *cursor,
				 struct gpumap_tensor *ret_tensor);

struct gpumap_model_buffer {
	uint64_t buffer; /* 0: the model is not LOADED */
	uint64_t bytes;
	uint32_t row;
	uint32_t reserved;
};

/*
 * gpumap_model_buffers - what it has taken, or will have
 *
 * They are the model's: free it, not them.  An export of one may be made and
 * forgotten as of any buffer.
 *
 * ret_buffers	room for @n
 *
 * Returns	how many there are, which may be more than @n
 * Threads	any, while none has another call with this model
 */
GPUMAP_API uint32_t
gpumap_model_buffers(const struct gpumap_model *model,
		     struct gpumap_model_buffer *ret_buffers, uint32_t n);

/* ---- counts ------------------------------------------------------------- */

struct gpumap_session_counts {
	size_t size;        /* sizeof(struct gpumap_session_counts) */
	uint64_t submitted; /* jobs, tiles, buffers made and freed */
	uint64_t completed;
	uint64_t doorbells; /* system calls that woke a worker */
	uint64_t parks;     /* times that this side went to sleep */
};

/*
 * gpumap_session_counts - what this session has done so far
 *
 * Returns	0, -E2BIG, or -EINVAL as gpumap_health()
 * Threads	the session's own thread
 */
GPUMAP_API int gpumap_session_counts(const struct gpumap_session *session,
				     struct gpumap_session_counts *ret_counts);

#ifdef __cplusplus
}
#endif
#endif
