/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * gpumap/cluster.h - read the devices and models of all nodes of a cluster.
 *
 * Where gpumap-sync runs, the agent publishes what each node says of itself.
 * Lists go node by node, in the order of the nodes' names, and each call reads
 * the publication of that moment: where @version differs from that of the
 * previous call, begin again.
 */
#ifndef GPUMAP_CLUSTER_H
#define GPUMAP_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include <gpumap/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUMAP_CLUSTER_NODES_MAX  1024 /* nodes of a cluster */
#define GPUMAP_CLUSTER_ROWS_MAX   64   /* rows that a node tells of */
#define GPUMAP_CLUSTER_SHARES_MAX 64   /* shares that a node tells of */

struct gpumap_cluster {
	size_t size;           /* sizeof(struct gpumap_cluster) */
	char name[64];         /* of the cluster */
	char node[64];         /* this node's name in it */
	uint64_t version;      /* grows with every publication */
	uint64_t published_ns; /* since 1970 */
	/* Since gpumap-sync last knew that it sees every change; UINT64_MAX: it
	 * never has.  When that is more than @limit_ns the whole cluster is
	 * stale: what other nodes have now is not known. */
	uint64_t age_ns;
	uint64_t limit_ns;
	uint32_t stale; /* 1, or 0 */
	uint32_t n_nodes;
	uint32_t n_gone;    /* of these */
	uint32_t n_refused; /* likewise */
	uint32_t n_devices; /* listed, of all nodes */
	uint32_t n_shares;
};

/* The knowledge of a node. */
enum gpumap_cluster_state {
	GPUMAP_CLUSTER_LIVE = 1,
	/* it has told nothing for its lease's time: it was stopped, is cut off,
	 * or has died; what it had is still listed */
	GPUMAP_CLUSTER_GONE = 2,
	/* what it says was refused: it is of another format, or damaged */
	GPUMAP_CLUSTER_REFUSED = 3
};

#define GPUMAP_CLUSTER_SELF     (UINT32_C(1) << 0) /* this node */
#define GPUMAP_CLUSTER_NO_GANGS (UINT32_C(1) << 1) /* it takes no gangs */
#define GPUMAP_CLUSTER_DRAINING (UINT32_C(1) << 2) /* its agent is ending */

struct gpumap_cluster_node {
	size_t size;      /* sizeof(struct gpumap_cluster_node) */
	uint64_t version; /* of the publication */
	char name[64];
	char address[64]; /* for other nodes: an IP address or a host name */
	uint32_t state;   /* enum gpumap_cluster_state */
	uint32_t flags;   /* GPUMAP_CLUSTER_* */
	uint64_t age_ns;  /* since it changed; GONE: since it went */
	uint64_t epoch;   /* of its agent */
	uint32_t agent_version; /* as GPUMAP_VERSION */
	uint32_t n_devices;     /* listed */
	uint32_t n_shares;
	uint32_t more_devices; /* that are not listed for want of room */
	uint32_t more_shares;
	uint32_t index; /* for the other lists */
};

struct gpumap_cluster_device {
	size_t size;      /* sizeof(struct gpumap_cluster_device) */
	uint64_t version; /* of the publication */
	uint32_t node;    /* index of the node */
	uint32_t row;     /* on that node */
	uint8_t uuid[16];
	char name[64];
	uint32_t kind;     /* enum gpumap_device_kind */
	uint32_t state;    /* enum gpumap_device_state */
	uint32_t flags;    /* GPUMAP_DEVICE_* */
	int32_t numa_node; /* -1: none */
	uint32_t cc_major;
	uint32_t cc_minor;
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t reserved_bytes;
	uint64_t used_by_holders; /* as in struct gpumap_device */
	/* NVLinks to the node's other listed devices, in all */
	uint32_t links;
	uint32_t reserved;
};

struct gpumap_cluster_share {
	size_t size;      /* sizeof(struct gpumap_cluster_share) */
	uint64_t version; /* of the publication */
	uint32_t node;    /* index of the node */
	uint32_t uid;     /* the user who is charged */
	uint32_t flags;   /* GPUMAP_SHARE_* */
	uint32_t reserved;
	char name[64];
	uint64_t bytes;
	uint64_t rows[4];        /* a bit for each */
	uint8_t fingerprint[32]; /* its hash; all 0: it has none */
};

/* The index that stands for all nodes. */
#define GPUMAP_CLUSTER_ANY UINT32_MAX

/*
 * gpumap_cluster_read - read what the cluster has in all
 *
 * ret_cluster	set its @size before the call
 *
 * Returns	0
 *		-ENOENT		this node is in no cluster
 *		-EAGAIN		the agent published again during each of our
 *				attempts
 *		-EPROTO		the segment is damaged
 *		-EINVAL, -E2BIG	ret_cluster->size
 * Cost		no system call, unless the agent is silent
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_cluster_read(const struct gpumap *map,
				   struct gpumap_cluster *ret_cluster);

/*
 * gpumap_cluster_next_node - list the nodes, one for each call
 *
 * cursor	0 for the first call, then as the last call left it
 * ret_node	set its @size before the call
 *
 * Returns	1 with a node, 0 when there is none left
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL, -E2BIG	as
 *				gpumap_cluster_read()
 * Cost		as gpumap_cluster_read()
 * Threads	any; async-signal-safe
 */
GPUMAP_API int gpumap_cluster_next_node(const struct gpumap *map,
					uint32_t *cursor,
					struct gpumap_cluster_node *ret_node);

/*
 * gpumap_cluster_next_device - list the devices of a node, or of all
 *
 * node		the index of a node, or GPUMAP_CLUSTER_ANY
 * cursor	as for gpumap_cluster_next_node()
 * ret_device	set its @size before the call
 *
 * Returns	1 with a device, 0 when there is none left
 *		-ERANGE		there is no such node
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL, -E2BIG	as
 *				gpumap_cluster_read()
 * Cost		as gpumap_cluster_read()
 * Threads	any; async-signal-safe
 */
GPUMAP_API int
gpumap_cluster_next_device(const struct gpumap *map, uint32_t node,
			   uint32_t *cursor,
			   struct gpumap_cluster_device *ret_device);

/*
 * gpumap_cluster_next_share - list the shares of a node, or of all
 *
 * node		the index of a node, or GPUMAP_CLUSTER_ANY
 * name		of the shares to list; NULL: all
 * cursor	as for gpumap_cluster_next_node()
 * ret_share	set its @size before the call
 *
 * Returns	1 with a share, 0 when there is none left
 *		-ERANGE		there is no such node
 *		-EINVAL		no share can have this name
 *		-ENOENT, -EAGAIN, -EPROTO, -EINVAL, -E2BIG	as
 *				gpumap_cluster_read()
 * Cost		as gpumap_cluster_read(); with a name a pass over the shares
 * Threads	any; async-signal-safe
 */
GPUMAP_API int
gpumap_cluster_next_share(const struct gpumap *map, uint32_t node,
			  const char *name, uint32_t *cursor,
			  struct gpumap_cluster_share *ret_share);

/* A node for gpumap_cluster_publish().  The @size of each struct is set; that
 * of the first device and of the first share is that of all.  The fields that
 * only readers get (@version, @index, @node, and @n_devices and @n_shares of
 * the node) are ignored. */
struct gpumap_cluster_entry {
	const struct gpumap_cluster_node *node;
	const struct gpumap_cluster_device *devices;
	const struct gpumap_cluster_share *shares;
	uint32_t n_devices; /* at most GPUMAP_CLUSTER_ROWS_MAX */
	uint32_t n_shares;  /* at most GPUMAP_CLUSTER_SHARES_MAX */
	uint32_t remove;    /* 1: forget the node; only its name is read */
	uint32_t reserved;
};

/* Bits of gpumap_cluster_request.flags. */
/* forget all nodes that came before */
#define GPUMAP_CLUSTER_BEGIN (UINT32_C(1) << 0)
/* more is coming: readers see nothing of this yet */
#define GPUMAP_CLUSTER_MORE (UINT32_C(1) << 1)
/* with what comes here, all that other nodes have said is known: @age_ns begins
 * at 0 again; without effect beside MORE */
#define GPUMAP_CLUSTER_HEARD (UINT32_C(1) << 2)

struct gpumap_cluster_request {
	size_t size;      /* sizeof(struct gpumap_cluster_request) */
	const char *name; /* of the cluster */
	const char *node; /* this node's name */
	uint64_t limit_ns;
	const struct gpumap_cluster_entry *entries; /* put, or removed */
	uint32_t n_entries;
	uint32_t flags; /* GPUMAP_CLUSTER_* */
};

/*
 * gpumap_cluster_publish - have the agent publish what nodes say
 *
 * For gpumap-sync: root, the agent's user, and the user that the administrator
 * names (gpumapd.conf(5), [cluster] user).  Where nothing changes but
 * GPUMAP_CLUSTER_HEARD and @limit_ns, the agent stores words in place, and
 * wakes no reader.  When no node is left, this node is in no cluster any more.
 *
 * After a failure readers find what was published before.  The nodes of a
 * request that was refused for want of room are published with the next one.
 *
 * Returns	0
 *		-EPERM		another user
 *		-EINVAL		a name, a number, or two entries of one node
 *		-E2BIG		more nodes, devices or shares than there may be
 *		-ESTALE		without BEGIN: the agent has started anew, or
 *				another connection has published since, and
 *				nothing is left of what came before: send all
 *		-ENOSPC		the segment is full: gpumapd.conf(5), [segment]
 *				size
 *		-EMSGSIZE	too much for one request: use MORE
 *		-ENOMEM, -EACCES, -ECONNREFUSED, -ECONNRESET, -ETIMEDOUT,
 *		-EPROTO, -EOWNERDEAD	as gpumap_plan_make()
 *		gpumap_refusal() says what was wrong
 * Cost		a round trip on the control socket
 * Threads	any, in turn
 */
GPUMAP_API int
gpumap_cluster_publish(struct gpumap *map,
		       const struct gpumap_cluster_request *request);

#ifdef __cplusplus
}
#endif

#endif
