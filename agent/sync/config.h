/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * config - gpumap-sync.conf and its drop-ins.
 */
#ifndef GM_SYNC_CONFIG_H
#define GM_SYNC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/common/ini.h"
#include "agent/store/store.h"

/* Strings are NULL where nothing was said and there is no default. */
struct gm_sync_config {
	/* [cluster] */
	char *cluster;
	char *node;
	char *address; /* for other nodes */
	bool gangs;    /* take those of other nodes */
	uint64_t ttl_ns;
	uint64_t forget_ns; /* of a node that is gone */

	/* [store] */
	char *directory; /* or @etcd */
	char *etcd;      /* endpoints */
	char *ca;
	char *cert;
	char *key;
	char *user;
	char *password_file;
	char *password; /* in that file */
	uint64_t timeout_ns;

	/* [socket] */
	char *socket_path;
	gid_t socket_gid; /* (gid_t)-1: left alone */
	mode_t socket_mode;

	/* [agent] */
	char *instance;
	char *runtime_dir;
};

/*
 * gm_sync_config_read - the defaults, then what the files say
 *
 * must_exist	a missing main file is an error
 * ret_why	what is wrong, and what would be right
 *
 * Returns	how many files were read, or a negative errno; free @ret_config
 *		in any case
 */
int gm_sync_config_read(struct gm_sync_config *ret_config, const char *path,
			bool must_exist, char ret_why[GM_INI_WHY_BYTES]);

/* Open the store that it names, see gm_store_open(). */
int gm_sync_config_store(const struct gm_sync_config *config,
			 struct gm_store **ret_store,
			 char ret_why[GM_STORE_WHY_BYTES]);

void gm_sync_config_free(struct gm_sync_config *config);

#endif
