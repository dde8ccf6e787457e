/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * config - gpumapd.conf and its drop-ins; every option has a default.
 *
 * The main file is read first, then FILE.d/NAME.conf in the order of their
 * names; a later value replaces an earlier one.  A line that means nothing is
 * an error, never skipped.
 */
#ifndef GM_CONFIG_H
#define GM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/common/idset.h"
#include "agent/common/ini.h"
#include "gpumap.h"

/* [map NAME]: a layer map to publish at start. */
struct gm_config_map {
	char *name;
	char *spec;      /* NULL until the key was met */
	uint32_t layers; /* of the model; 0: as the spec says */
	char *file;      /* where it was asked for, for errors */
	int line;        /* of the section's first key, then of the spec */
};

/* [model NAME]: a model to load when the agent is ready, and to keep. */
struct gm_config_model {
	char *name;
	char *path;  /* NULL until the key was met */
	char *map;   /* the layer map, NULL: that of the model's name */
	char *users; /* may open it, beside @uid: names and uids with commas
		       * between them, or "any"; NULL: none */
	char *fingerprint; /* that it gets, 64 digits; NULL: none */
	uint32_t uid;      /* loads it, and is charged for it */
	char *file;        /* where it was asked for, for errors */
	int line;          /* of the section, then of @users */
};

#define GM_CONFIG_SPIN_AUTO UINT32_MAX
#define GM_CONFIG_NODE_NONE (-1)
#define GM_CONFIG_NODE_AUTO (-2)

/* enabled in [cuda], [hip], [opencl] and [vulkan] */
enum gm_config_cuda {
	GM_CONFIG_CUDA_AUTO = 0, /* rows for what there is */
	GM_CONFIG_CUDA_OFF = 1,
	GM_CONFIG_CUDA_REQUIRED = 2 /* no start without */
};

/* Drivers beside CUDA: the first that shows a card has it. */
enum gm_config_driver_kind {
	GM_CONFIG_HIP = 0,
	GM_CONFIG_OPENCL = 1,
	GM_CONFIG_VULKAN = 2,
	GM_CONFIG_DRIVERS = 3
};

struct gm_config_driver {
	uint32_t enabled;       /* enum gm_config_cuda */
	uint64_t list_limit_ns; /* for one vendor to name its devices */
	uint64_t cpu_memory;    /* bytes of a row whose memory is the node's */
	char *cache;            /* folder of what vendors compile, or NULL */
	/* "gpu", "cpu", "all", or names of vendors, or of HIP's cards; NULL:
	 * gpu */
	char *devices;
	char *vendors; /* folder, HIP: of the library; NULL: the system's */
	char *pass;    /* names of variables handed on, or NULL */
};

enum gm_config_nccl {
	GM_CONFIG_NCCL_AUTO = 0, /* where there are two of them */
	GM_CONFIG_NCCL_NO = 1,
	GM_CONFIG_NCCL_YES = 2
};

/* [cuda] nccl, [hip] rccl: collectives that cards do among themselves. */
struct gm_config_cliques {
	uint32_t may;      /* enum gm_config_nccl */
	uint64_t limit_ns; /* for cards to meet */
	char *library;     /* folder of it; NULL: the system's */
};

/* The uids that may import a session's exports: [cuda] share. */
enum gm_config_share { GM_CONFIG_SHARE_SAME_USER = 0, GM_CONFIG_SHARE_ANY = 1 };

/* The uids that may run programs: [programs] policy. */
enum gm_config_programs {
	GM_CONFIG_PROGRAMS_OPERATORS_ONLY = 0, /* no uid */
	GM_CONFIG_PROGRAMS_SAME_USER = 1,      /* root, and the agent's user */
	GM_CONFIG_PROGRAMS_ANY = 2             /* who may open a session */
};

#define GM_PROGRAMS_DIRECTORY GM_PKGLIBDIR "/programs"

struct gm_config {
	/* [agent] */
	int node; /* to run on; GM_CONFIG_NODE_NONE: wherever the kernel likes,
		   * GM_CONFIG_NODE_AUTO: see devices/home_node.h */
	uint64_t refresh_ns;   /* between two looks at moving facts */
	uint64_t drain_ns;     /* for everything to end after SIGTERM */
	uint64_t drain_row_ns; /* for a row's worker and its card to be done */

	/* [segment] */
	uint64_t segment_bytes;

	/* [socket] */
	mode_t socket_mode;
	gid_t socket_gid; /* (gid_t)-1: left alone */

	/* [worker]; the agent's own unless it is root */
	uid_t worker_uid; /* (uid_t)-1: none is free, see worker_uid.h */
	gid_t worker_gid;
	bool worker_is_unnamed; /* a uid that no user has */

	/* [limits] */
	uint32_t connections;
	uint32_t connections_per_uid;
	uint32_t sessions;
	uint32_t sessions_per_uid;
	uint32_t sessions_per_second; /* of one uid */
	uint64_t arena_bytes;         /* of one session */
	uint64_t arena_bytes_per_uid;
	uint64_t arena_bytes_of_all; /* users together */
	uint32_t pins_per_uid;
	uint64_t pin_bytes_per_uid;
	uint32_t objects_per_uid; /* published by others than the agent */
	uint64_t object_bytes_per_uid;
	uint32_t registrations_per_uid;
	uint32_t exports_per_uid;
	uint32_t imports_per_uid;
	uint64_t import_bytes_per_uid; /* of others', per row; 0: a quarter */
	uint32_t kept_shares_per_uid;  /* of users without privileges */
	uint32_t reserve_per_uid;      /* per cent of each row */
	uint64_t hello_timeout_ns;     /* and for the rest of a half request */

	/* [host] */
	bool host_enabled;
	uint32_t host_rows; /* per NUMA node */
	bool host_cpus_set;
	struct gm_idset host_cpus; /* only these, when set */

	/* [jobs] */
	uint64_t slice_bytes; /* of what is done at once for one session */

	/* [load] */
	uint32_t load_depth;    /* reads under way, of a row */
	uint64_t load_bytes;    /* of one of them */
	uint64_t load_retry_ns; /* from one load of a listed model to the
				 * next, the first time */

	/* [dummy] */
	char *dummy_file; /* node file, NULL: none */

	/* [cuda] */
	uint32_t cuda_enabled;         /* enum gm_config_cuda */
	uint32_t cuda_share;           /* enum gm_config_share */
	uint64_t cuda_list_limit_ns;   /* for the probe to name every card */
	uint64_t cuda_look_again_ns;   /* for a driver, where there was none */
	uint64_t cuda_idle_ns;         /* of a worker without attachments */
	uint64_t cuda_kernel_limit_ns; /* of one job on a card; 0: none */
	bool cuda_keep_shares;         /* what has a name outlives its worker */
	bool cuda_mps;                 /* join a running MPS daemon */
	bool cuda_standby;             /* one stands by for each worker */
	struct gm_config_cliques nccl;
	char *cuda_library; /* folder of the driver; NULL: the system's */
	char *cuda_cache;   /* folder of what the driver compiles, or NULL */
	char *cuda_pass;    /* names of variables handed on, or NULL */
	char *cuda_sysfs;   /* before /sys, or NULL */

	struct gm_config_cliques rccl; /* [hip] */

	/* [hip], [opencl], [vulkan] */
	struct gm_config_driver drivers[GM_CONFIG_DRIVERS];

	/* [masks] */
	uint64_t mask_bytes;         /* of one node; counts for a new file */
	uint64_t mask_bytes_per_uid; /* on all nodes, published; pinned; used */

	/* [cluster] */
	uid_t cluster_uid; /* may publish what nodes say; (uid_t)-1: none */

	/* [programs] */
	uint32_t programs_policy;  /* enum gm_config_programs */
	char *programs_directory;  /* NULL: GM_PROGRAMS_DIRECTORY */
	uint64_t program_limit_ns; /* of one run, or start; 0: none */
	uint64_t image_bytes;      /* of device code, at most */

	/* [spin] */
	uint32_t spin_limit; /* workers that may spin, or _AUTO */

	uint32_t n_maps;
	struct gm_config_map *maps; /* in the order of the files */
	uint32_t n_models;
	struct gm_config_model *models; /* likewise */
};

#define GM_CONFIG_WHY_BYTES GM_INI_WHY_BYTES

/* Every default; some depend on the machine and on who we are. */
void gm_config_init(struct gm_config *config);

/* The settings of rows of @kind, which can do cliques. */
static inline const struct gm_config_cliques *
gm_config_cliques(const struct gm_config *config, uint32_t kind)
{
	return kind == GPUMAP_DEVICE_HIP ? &config->rccl : &config->nccl;
}

/*
 * gm_config_read - read @path and its drop-ins over what is there
 *
 * must_exist	a missing main file is an error; missing drop-ins never are
 * ret_why	"file:line: what is wrong, and what would be right"
 *
 * Returns	how many files were read, 0 where there is none
 *		-EINVAL		a line means nothing
 *		-ENOMEM, and what open and read return, with ret_why set
 */
int gm_config_read(struct gm_config *config, const char *path, bool must_exist,
		   char ret_why[GM_CONFIG_WHY_BYTES]);

void gm_config_free(struct gm_config *config);

#endif
