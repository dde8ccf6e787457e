/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/map.h - attach to an agent, and read its table of devices.
 */
#ifndef GPUMAP_MAP_H
#define GPUMAP_MAP_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- attach -------------------------------------------------------------- */

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
 * The library believes the file of the runtime directory's owner; where this
 * process does not see that directory, a file of root's or of its own user.  If
 * it finds none, or another's, as in a container with a /dev/shm of its own,
 * the library requests the segment from the agent over its control socket.
 *
 * Returns	0
 *		-ENOENT		no agent has published under this name
 *		-EPROTO		the file is no segment, or one of another layout
 *				than this library's
 *		-EPERM		another user than the agent's could have written
 *				the file, or this user namespace does not tell
 *				who; it was not mapped, and no agent answers
 *		-EINVAL		an instance with a '/', longer than
 *				GPUMAP_NAME_MAX, empty, "." or ".."; or a
 *				runtime_dir longer than a path may be
 *		-E2BIG		opts uses a field or flag newer than this
 *				library
 *		-EACCES		there is none to be opened by its name, and this
 *				user may not have it of the agent
 *		-ENOMEM, -EMFILE	from the kernel
 *		gpumap_refusal(NULL) says more
 * Cost		about twice a bare open, mmap and first read, and a round
 *		trip on the control socket if the agent is asked
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
 * Cost		unmaps; a round trip on the control socket for each pin
 * Threads	no other thread may still use @map, or a view of it
 */
GPUMAP_API void gpumap_detach(struct gpumap *map);

enum gpumap_state {
	GPUMAP_STARTING = 1, /* the agent does not take requests yet */
	GPUMAP_READY = 2,
	GPUMAP_DRAINING = 3, /* the agent is shutting down */
	/* A new segment took this name: attach again.  Requests fail with
	 * -ESTALE, and the next one notices where the name was removed */
	GPUMAP_RETIRED = 4
};

struct gpumap_health {
	size_t size;     /* sizeof(struct gpumap_health), set by the caller */
	uint32_t state;  /* enum gpumap_state */
	uint32_t stale;  /* 1: the agent has not been seen for two seconds */
	uint64_t age_ns; /* since the last heartbeat */
	uint64_t epoch;  /* agents that have written this map, from 1 */
	uint64_t tick;   /* refreshes of the moving facts */
	uint32_t generation;    /* changes of objects and row states */
	uint32_t agent_pid;     /* in the agent's pid namespace */
	uint64_t bytes;         /* of the segment */
	uint32_t agent_version; /* as GPUMAP_VERSION */
	uint32_t layout_minor;  /* of the segment's layout */
};

/*
 * gpumap_health - is the agent alive, and is this still its map?
 *
 * Returns	0
 *		-E2BIG		ret_health->size is more than 4096 bytes
 *		-EINVAL		ret_health->size is smaller than its first
 *				fields
 * Cost		a few loads and clock_gettime (no system call); where the agent
 *		is not seen, up to four system calls, which do not wait
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
 * gpumap_wait_ready - wait until the agent answers and every row has its worker
 *
 * For a program that starts with the machine, and for one whose agent has died:
 * its sessions have ended with -ECONNRESET, and the next agent goes on with the
 * same map.  The call asks the agent for a sign of life, so it does not take
 * the map of a dead one for READY, and then waits while a host or a card is
 * PROBING or RESTARTING.  Rows that are FAILED, LOST, DRAINING or cordoned are
 * not waited for.  gpumap_session_open() and gpumap_alloc() need no row to be
 * READY; they wait by themselves.
 *
 * deadline_ns	on CLOCK_MONOTONIC, or GPUMAP_NO_DEADLINE; 0: look once
 *
 * Returns	0
 *		-ETIME		the deadline passed, and the agent's map was not
 *				READY, or a row was not: gpumap_refusal() says
 *				which
 *		-ECONNREFUSED, -ECONNRESET, -ESHUTDOWN
 *				the deadline passed, and no agent answered
 *		-ESTALE		the map was retired: attach again
 *		-EACCES, -EPROTO, -ETIMEDOUT, -E2BIG, -EUSERS, -EINVAL, -EMFILE,
 *		-ENFILE, -ENOMEM, -EOWNERDEAD	as a request: see below
 *		gpumap_refusal() says more
 * Cost		a round trip on the control socket, ten times a second and after
 *		each change of the generation; a futex wait between them.  Where
 *		the agent hangs, a round trip takes up to two seconds, also past
 *		the deadline
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_wait_ready(struct gpumap *map, uint64_t deadline_ns);

/*
 * gpumap_change_fd - get a descriptor that becomes readable after a change
 *
 * For programs that sleep on descriptors, with epoll, poll or an event loop;
 * others have gpumap_wait_change().  The descriptor is always the same, and
 * stays the attachment's.  A change of the generation since gpumap_change_arm()
 * makes it readable, and so does the agent's end.  Do not read from it: the
 * next gpumap_change_arm() makes it unreadable again.
 *
 * Returns	the descriptor, close-on-exec, or
 *		-EMFILE, -ENFILE, -ENOMEM, -EOWNERDEAD
 * Cost		a few system calls the first time, then none
 * Threads	any, in turn with gpumap_change_arm()
 */
GPUMAP_API int gpumap_change_fd(struct gpumap *map);

/*
 * gpumap_change_arm - have the descriptor made readable by the next change
 *
 * Call it before each sleep.  After 1, read what the program needs of the map,
 * and call again with the generation from before that.  Any number of changes
 * between two calls wakes once.  A wake that comes late may end a sleep without
 * a change.
 *
 * An agent that hangs closes nothing: gpumap_health() tells.  While there is no
 * agent nothing wakes the program, so call again after a while: the descriptor
 * is good for the next agent that writes this map.
 *
 * seen		the generation, as gpumap_generation() has returned it
 *
 * Returns	0		sleep on the descriptor now
 *		1		do not sleep: the generation differs from @seen
 *		-ESTALE		the map was retired: attach again
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EINVAL, -EMFILE,
 *		-ENFILE, -ENOMEM, -EOWNERDEAD	as a request: see below
 *		-EOPNOTSUPP	the agent is of an earlier version
 *		gpumap_refusal() says more
 * Cost		two system calls that do not wait.  The first time, and after
 *		the agent has ended, a connection to the agent, which counts as
 *		any of this user's, and a round trip
 * Threads	any, in turn with gpumap_change_fd(); requests of the attachment
 *		do not hold it up
 */
GPUMAP_API int gpumap_change_arm(struct gpumap *map, uint32_t seen);

/* The limit that an attachment begins with. */
#define GPUMAP_REQUEST_LIMIT_NS UINT64_C(60000000000)

/*
 * gpumap_request_limit - how long requests of the attachment may wait
 *
 * An agent that is stopped, dead or hung ends a request with -ECONNRESET after
 * two seconds.  One that runs may still be unable to answer, for example while
 * the disk of its state directory hangs.  The limit is for that: a request that
 * has no answer by then fails with -ETIMEDOUT, and its connection is closed, so
 * that no later request takes its answer.  The next request makes a new one.
 * The agent may still do what it was asked for, as after -ECONNRESET: read the
 * map to know.
 *
 * A request's own wait, as of gpumap_mesh_join() or with wait_ns of a plan, is
 * added to the limit.  Drains, the opening of a session, and requests that a
 * session makes have none: the agent limits those, see gpumap(7).
 *
 * limit_ns	from the next request on; less than a second is a second;
 *		GPUMAP_NO_DEADLINE: none.  Requests look once a second whether
 *		the limit has passed, and count no time in which the machine
 *		stood still
 *
 * Returns	0
 * Cost		one store
 * Threads	any
 */
GPUMAP_API int gpumap_request_limit(struct gpumap *map, uint64_t limit_ns);

/*
 * gpumap_version - the library's version, as GPUMAP_VERSION
 *
 * A program that was built with later headers than the library's uses this to
 * tell which calls and fields the library knows; gpumap_health() tells the
 * version of the agent.
 *
 * Returns	the version
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API uint32_t gpumap_version(void);

/*
 * gpumap_strerror - a sentence about a return value of this library
 *
 * error	negative, as returned
 *
 * Returns	constant text, never NULL
 * Cost		a search of a table; no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API const char *gpumap_strerror(int error);

/*
 * A request is a message to the agent on its control socket.  In addition to
 * the errors of their own comments, requests of an attachment may fail with one
 * of
 *
 *	-EACCES		this user may not talk to the agent
 *	-ESTALE		the map was retired: attach again
 *	-ECONNREFUSED	no agent answers
 *	-ECONNRESET	the agent went away, or was not seen for two seconds,
 *			before it answered: it may have done the request
 *	-EPROTO		the answer violates the protocol
 *	-E2BIG		the answer has more than this library knows
 *	-EINVAL		runtime_dir is too long for the path of a socket
 *	-EMFILE, -ENFILE, -ENOMEM	from the kernel
 *	-EOWNERDEAD	called in a forked child
 *
 * and so may requests of a session, except with -EACCES, -ESTALE,
 * -ECONNREFUSED and -EINVAL: its connection exists already.
 */

/*
 * gpumap_refusal - why this thread's last call failed
 *
 * map		the attachment of that call, or of the session that it used;
 *		NULL: the call was gpumap_attach(), which has always a reason
 *
 * Each call that fails stores its reason: gpumap_strerror()'s text where there
 * is no more to say.  Errors -EINVAL, -EDQUOT and -ENOMEM always have a reason
 * of their own.  A call that succeeds may store "", but those that give back
 * memory, a buffer, a session or the attachment leave the reason of an earlier
 * one.  Calls that are async-signal-safe, and those about the tensors of a
 * model, store nothing.
 *
 * Returns	text that names the error and its remedy, the agent's own where
 *		the agent refused; or "", also when this thread's last reason
 *		was of another attachment.  Valid until this thread's next call
 * Cost		no system call
 * Threads	any; each thread has its own text, as it has its own errno
 */
GPUMAP_API const char *gpumap_refusal(const struct gpumap *map);

/* ---- devices ------------------------------------------------------------- */

enum gpumap_device_kind {
	GPUMAP_DEVICE_HOST = 1,
	GPUMAP_DEVICE_CUDA = 2,
	GPUMAP_DEVICE_DUMMY = 3, /* plans and accounts, holds no data */
	GPUMAP_DEVICE_OPENCL = 4,
	GPUMAP_DEVICE_VULKAN = 5,
	GPUMAP_DEVICE_HIP = 6
};

enum gpumap_device_state {
	GPUMAP_DEVICE_PROBING = 1,
	GPUMAP_DEVICE_READY = 2,
	GPUMAP_DEVICE_RESTARTING = 3,
	GPUMAP_DEVICE_DRAINING = 4,
	GPUMAP_DEVICE_FAILED = 5,
	GPUMAP_DEVICE_LOST = 6
};

/* The known facts: one bit for each, in gpumap_device.known. */
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

/* Properties of a device: bits of gpumap_device.flags. */
#define GPUMAP_DEVICE_ECC        (UINT32_C(1) << 0)
#define GPUMAP_DEVICE_INTEGRATED (UINT32_C(1) << 1)
#define GPUMAP_DEVICE_MIG        (UINT32_C(1) << 2) /* split into instances */
#define GPUMAP_DEVICE_FP16       (UINT32_C(1) << 3)
#define GPUMAP_DEVICE_BF16       (UINT32_C(1) << 4)
#define GPUMAP_DEVICE_INT8       (UINT32_C(1) << 5)
/* Its memory is the node's main memory: plans treat it as a host.  Every host
 * row has this flag, and a dummy row that represents a host. */
#define GPUMAP_DEVICE_MAIN_MEMORY (UINT32_C(1) << 6)
/* The row takes no new sessions and no plans: gpumap_device_cordon(). */
#define GPUMAP_DEVICE_CORDONED (UINT32_C(1) << 7)
/* Device code reaches all memory of its process by address, and not only that
 * which the driver was told of: HMM or ATS, attribute 88 of CUDA's.  A client's
 * program can so read and write its worker. */
#define GPUMAP_DEVICE_PAGEABLE (UINT32_C(1) << 8)
/* Abilities: ask for these, and not for a kind, as other kinds will come. */
#define GPUMAP_DEVICE_SERVES (UINT32_C(1) << 9) /* holds data, does jobs */
/* A device with a driver of its own.  Rows that serve without this flag are
 * hosts. */
#define GPUMAP_DEVICE_CARD (UINT32_C(1) << 10)
/* Its memory is files, which programs can map: gpumap_share_fds(). */
#define GPUMAP_DEVICE_MAPPED (UINT32_C(1) << 11)
/* Its memory can be exported to other processes, and have replicas of masks. */
#define GPUMAP_DEVICE_EXPORTS (UINT32_C(1) << 12)
/* Does collectives with others of its kind by a library of theirs, as NCCL. */
#define GPUMAP_DEVICE_CLIQUES (UINT32_C(1) << 13)

/* The action that a device needs before it works again, as its driver
 * reports. */
enum gpumap_recovery {
	GPUMAP_RECOVERY_NONE = 0,
	GPUMAP_RECOVERY_GPU_RESET = 1,
	GPUMAP_RECOVERY_NODE_REBOOT = 2,
	GPUMAP_RECOVERY_DRAIN_P2P = 3,
	GPUMAP_RECOVERY_DRAIN_AND_RESET = 4
};

/* Does the driver tell what memory each process has of a device? */
enum gpumap_figures {
	GPUMAP_FIGURES_NONE = 0, /* no driver reports on the row, or not yet */
	GPUMAP_FIGURES_KNOWN = 1,
	GPUMAP_FIGURES_PARTLY = 2,  /* not of every process */
	GPUMAP_FIGURES_REFUSED = 3, /* the driver does not tell */
	/* The agent is not in the initial pid namespace, whose pids the driver
	 * tells. */
	GPUMAP_FIGURES_NAMESPACE = 4
};

struct gpumap_device {
	size_t size;  /* sizeof(struct gpumap_device) */
	uint32_t row; /* this device's place; maps name rows */
	/* of the row: changes when the row is given to another device */
	uint32_t generation;
	uint32_t kind;     /* enum gpumap_device_kind */
	uint32_t known;    /* GPUMAP_KNOWN_* */
	uint32_t flags;    /* GPUMAP_DEVICE_* */
	int32_t numa_node; /* -1: none */
	uint8_t uuid[16];
	char name[64];
	char cpus[256]; /* local CPUs, "0-3,8" */
	uint32_t pci_domain;
	uint32_t pci_bus;   /* bus << 8 | device << 3 | function */
	int32_t nvml_index; /* -1: none; likewise the next five */
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
	/* NVIDIA's, 1000 * major + minor: 550163 of 550.163.01; 0: not known */
	uint32_t driver_version;
	uint32_t cuda_version; /* 1000 * major + 10 * minor; 0: not known */
	/* Moving facts, of one refresh. */
	uint32_t state;  /* enum gpumap_device_state */
	int32_t error;   /* errno or driver code behind @reason, or 0 */
	char reason[56]; /* why the state is not READY */
	/* CLOCK_MONOTONIC, of this process's time namespace: when the state was
	 * entered */
	uint64_t since_ns;
	uint64_t free_bytes;
	uint64_t reserved_bytes;
	uint64_t budget_bytes; /* min(free, total / 2): a limit for programs
				* that share a device without reservations, see
				* also gpumap_buffer_alloc().  A plan may take
				* free_bytes less what is reserved and not
				* used: reserved_bytes less used_by_holders */
	double score;          /* weight in a scatter; higher is faster.  For a
				* host row its CPUs */
	uint32_t utilisation;  /* per mille */
	int32_t temperature;   /* millidegrees Celsius */
	uint32_t power;        /* milliwatts */
	uint32_t worker_pid;   /* 0: none */
	uint32_t restarts;     /* of the worker */
	/* For cards. */
	uint32_t recovery; /* enum gpumap_recovery; UINT32_MAX: not known */
	uint32_t last_xid; /* of the newest Xid; 0: none seen */
	uint32_t reserved;
	uint64_t xids; /* Xids seen since the row was given out; most are from
			* other processes and leave the device healthy */
	/* the part of reserved_bytes that the processes which hold the
	 * reservations have already, and that is missing in free_bytes */
	uint64_t used_by_holders;
	uint32_t figures; /* enum gpumap_figures; unless KNOWN, the memory that
			   * some processes have is not in used_by_holders */
	uint32_t reserved_too;
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
 * gpumap_device_read - read all facts about the device in one row
 *
 * ret_device	set its @size before the call
 *
 * Returns	0
 *		-ENODEV		no such row
 *		-EAGAIN		the agent was publishing all through our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-E2BIG, -EINVAL	ret_device->size is more than 4096 bytes, or
 *				smaller than its first fields
 * Cost		no system call; one pass over about 700 bytes
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_device_read(const struct gpumap *map, uint32_t row,
				  struct gpumap_device *ret_device);

/*
 * gpumap_device_find - find the row of a UUID
 *
 * Returns	the row, >= 0
 *		-ENODEV		no row has it
 *		-EAGAIN, -EPROTO	as gpumap_device_read()
 * Cost		no system call; reads every row
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_device_find(const struct gpumap *map,
				  const uint8_t uuid[16]);

/* May one card copy from another's memory directly? */
enum gpumap_peer {
	GPUMAP_PEER_NONE = 0,     /* the driver does not say so */
	GPUMAP_PEER_REPORTED = 1, /* it does, and it was not tried */
	GPUMAP_PEER_RIGHT = 2,    /* a copy was tried, and was right */
	GPUMAP_PEER_WRONG = 3     /* one was wrong or failed: none is made */
};

/* The path from the memory of the card in row @from to the card in row @to. */
struct gpumap_device_path {
	size_t size; /* sizeof(struct gpumap_device_path) */
	uint32_t to;
	uint32_t from;
	uint32_t nvlinks; /* between the two, also through a switch */
	uint32_t peer;    /* enum gpumap_peer */
};

/*
 * gpumap_device_path_read - read how two cards are linked
 *
 * The agent asks the driver when it starts; all is 0 until then, and for rows
 * that are no cards.
 *
 * ret_path	set its @size before the call
 *
 * Returns	0
 *		-ENODEV		no such rows
 *		-E2BIG, -EINVAL	ret_path->size is more than 4096 bytes, or
 *				smaller than its first fields
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_device_path_read(const struct gpumap *map, uint32_t to,
				       uint32_t from,
				       struct gpumap_device_path *ret_path);

#define GPUMAP_JOB_TIMES 13u /* spans of time that jobs are counted in */

/*
 * gpumap_job_time - the span that a time is in
 *
 * Each span but the first begins where the one before it ends: after 1 us, 4
 * us, 16 us, and so on by four up to 4.2 s.  The last has no end.
 *
 * Returns	0 to GPUMAP_JOB_TIMES - 1
 * Cost		a few instructions
 * Threads	any; async-signal-safe
 */
static inline uint32_t gpumap_job_time(uint64_t ns)
{
	uint64_t us = ns == 0 ? 0 : (ns - 1) / 1000;
	uint32_t span =
		us == 0 ? 0 : (uint32_t)(63 - __builtin_clzll(us)) / 2 + 1;

	return span < GPUMAP_JOB_TIMES ? span : GPUMAP_JOB_TIMES - 1;
}

/*
 * gpumap_job_time_end - the longest time of a span, in ns
 *
 * Returns	it; of the last span and behind UINT64_MAX
 * Cost		a few instructions
 * Threads	any; async-signal-safe
 */
static inline uint64_t gpumap_job_time_end(uint32_t span)
{
	return span < GPUMAP_JOB_TIMES - 1 ? UINT64_C(1000) << 2 * span
					   : UINT64_MAX;
}

/*
 * The jobs of a row since the row was given out, over restarts of its worker
 * and of the agent, as of the last refresh.  Jobs that a program of a client
 * does run in a process which the client's code can write: they are not
 * counted.  An allocation and the release of one count as jobs.
 *
 * The time of a job is from when the worker has read its entry until it has
 * ended.  Long jobs, and all that a device does by itself, are timed; of small
 * ones of host rows some are, by chance, and each counts for those that were
 * not.  So the sum of @times is about @ended.
 */
struct gpumap_device_jobs {
	size_t size; /* sizeof(struct gpumap_device_jobs) */
	uint32_t row;
	uint32_t generation; /* of the row, see gpumap_device */
	uint64_t ended;
	uint64_t failed;                  /* of these, with an error */
	uint64_t ns;                      /* the time of those in @times */
	uint64_t times[GPUMAP_JOB_TIMES]; /* how many were in each span */
	uint64_t loaded_bytes;            /* of files, that LOADs have stored,
					   * also those that have not ended */
};

/*
 * gpumap_device_jobs_read - read how many jobs a row has done, and their times
 *
 * Each figure only grows, until the row is given to another device.  They are
 * read one after the other, so some may be of a later refresh than others.
 *
 * ret_jobs	set its @size before the call
 *
 * Returns	0
 *		-ENODEV		no such row
 *		-EAGAIN, -EPROTO	as gpumap_device_read()
 *		-E2BIG, -EINVAL	ret_jobs->size is more than 4096 bytes, or
 *				smaller than its first fields
 * Cost		no system call
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_device_jobs_read(const struct gpumap *map, uint32_t row,
				       struct gpumap_device_jobs *ret_jobs);

/* The order in which gpumap_device_choose() lists rows. */
enum gpumap_choose_by {
	/* the most memory in all; where two have as much, the higher compute
	 * capability */
	GPUMAP_CHOOSE_BEST = 0,
	/* the most memory that is free and not reserved */
	GPUMAP_CHOOSE_FREE_MEMORY = 1,
	/* the highest score, less the part of the device that is in use */
	GPUMAP_CHOOSE_FREE_COMPUTE = 2
};

/* The needs of a program.  A fact that is not known of a device meets none. */
struct gpumap_choice {
	size_t size; /* sizeof(struct gpumap_choice) */
	/*
	 * NULL or blank: any device; or one of
	 *
	 *	"GPU-8932f937-..."	a UUID, with or without "GPU-" or "MIG-"
	 *	"mig:ID", "partition:ID"	likewise
	 *	"cuda:1"		a kind, and nvidia-smi's index of a
	 *				GPU, the NUMA node of a host row, the
	 *				row of a dummy, or how many rows of its
	 *				kind come before one of HIP's ("rocm",
	 *				too), OpenCL's or Vulkan's
	 *	"0000:17:00.0"		a PCI id, as sysfs or as nvidia-smi
	 *				prints it
	 *	"h100"			a part of the name
	 *
	 * The case of letters does not matter.
	 */
	const char *prefer;
	/* The least versions; "12.4" or NULL.  They are compared number by
	 * number: "9.2" is less than "12.0". */
	const char *compute_capability;
	const char *cuda_version;
	uint64_t total_bytes; /* the least memory in all */
	uint64_t free_bytes;  /* the least that is free and not reserved */
	/* NULL: all rows except dummies; or those to choose from, where a tie
	 * goes to the one that comes first */
	const uint32_t *rows;
	uint32_t n_rows;
	uint32_t by; /* enum gpumap_choose_by */
};

/*
 * gpumap_device_choose - list the rows that meet a program's needs, best first
 *
 * A row is listed if its state is READY and it is neither cordoned nor a card
 * that is split into instances.  Rows whose memory is the node's main memory
 * come after all others.
 *
 * ret_rows	receives the first @n of them
 *
 * Returns	the number of rows listed, which may be more than @n
 *		-ENODEV		no row meets the needs, or @rows names one that
 *				does not exist; gpumap_refusal() says more
 *		-EINVAL		an unknown order, a version that is none
 *		-E2BIG		@choice has a field newer than this library
 *		-EAGAIN, -EPROTO	as gpumap_device_read()
 * Cost		no system call; reads every row
 * Threads	any
 */
GPUMAP_API int gpumap_device_choose(const struct gpumap *map,
				    const struct gpumap_choice *choice,
				    uint32_t *ret_rows, size_t n);

/*
 * gpumap_device_drain - take a device out of service
 *
 * The jobs in the row's queues end, its worker ends, and every handle to the
 * device that gpumap holds is closed: the device may then be reset, split or
 * removed.  For a MIG instance only the worker ends; its card is closed when
 * the card is drained.  Buffers on the row are lost with the worker, except for
 * sessions and processes that have imported them.  Later jobs end with -ENODEV.
 * The row's state is DRAINING, and so is that of the instances of a card that
 * is split, until gpumap_device_undrain() or the end of the agent.
 *
 * Returns	0		it is done
 *		-EPERM		only root and the agent's own user may
 *		-ENODEV		no such row, or a dummy
 *		-EBUSY		the row is being put into service again; or, of
 *				undrain, the row was drained with its card
 *		-ECANCELED	the row was put into service again meanwhile
 *		-ETIMEDOUT	the worker has not ended, or the probe has not
 *				closed the card, within the time that the
 *				administrator set (drain-row, a minute or half
 *				of one); the row is drained once they have;
 *				repeat the call to wait for that
 *		-ESHUTDOWN	the agent is draining itself
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket, which takes as long as the
 *		jobs do
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_device_drain(struct gpumap *map, uint32_t row);

/*
 * gpumap_device_undrain - put a device into service again
 *
 * Returns	as gpumap_device_drain(); also 0 when it was not drained;
 *		-ETIMEDOUT when the card has not been found within drain-row
 *		(half a minute): the row is LOST until it is
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_device_undrain(struct gpumap *map, uint32_t row);

/*
 * gpumap_device_cordon - keep new sessions and plans away from a row
 *
 * Sessions that were open before go on, and open queues there, too.  A session
 * that was opened later gets no queue of the row, gpumap_scatter() without a
 * list of rows leaves the row out, and no plan takes it.  Memory, shares, maps
 * and reservations stay.  The cordon lasts until gpumap_device_uncordon(), over
 * restarts of the agent and of the machine.
 *
 * Returns	0		it is done, or was
 *		-EPERM		only root and the agent's own user may
 *		-ENODEV		no such row
 *		-ENOSPC, -EROFS, -EIO	the agent's disk; nothing has changed
 *		-EACCES, -ECONNREFUSED, -ECONNRESET, -EPROTO, -EOWNERDEAD
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket, and a write to the agent's
 *		disk
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_device_cordon(struct gpumap *map, uint32_t row);

/*
 * gpumap_device_uncordon - let new sessions and plans have a row again
 *
 * Returns	as gpumap_device_cordon()
 * Cost		likewise
 * Threads	any, in turn
 */
GPUMAP_API int gpumap_device_uncordon(struct gpumap *map, uint32_t row);

/*
 * gpumap_device_visible - find the rows of this process's CUDA ordinals
 *
 * The call interprets CUDA_VISIBLE_DEVICES as CUDA does, over the device table:
 * ordinals in either order, whole and abbreviated UUIDs, and MIG instances in
 * all their forms.  Only devices whose nodes in /dev this process may open are
 * counted, so the result is also right inside of a container.
 *
 * visible_devices	the value of CUDA_VISIBLE_DEVICES, NULL if it is not
 *			set; the library does not read the environment
 * device_order		likewise of CUDA_DEVICE_ORDER
 * ret_rows		receives the row of ordinal 0, 1 and so on
 * n			room in ret_rows
 *
 * An entry that CUDA does not accept ends the list, which is no error:
 * gpumap_refusal() names it and the reason, and is "" when all entries are
 * valid.
 *
 * Returns	the number of devices that the process sees, which may be more
 *		than @n
 *		-EAGAIN, -EPROTO	as gpumap_device_read()
 * Cost		reads every row; a system call for each card, and some more for
 *		each MIG instance
 * Threads	any
 */
GPUMAP_API int gpumap_device_visible(struct gpumap *map,
				     const char *visible_devices,
				     const char *device_order,
				     uint32_t *ret_rows, size_t n);

#ifdef __cplusplus
}
#endif
#endif
