/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/sync/config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/sync/node_name.h"
#include "gpumap.h"

#define NS_PER_MS      UINT64_C(1000000)
#define NS_PER_S       UINT64_C(1000000000)
#define PASSWORD_BYTES 1024

/* ---- keys ---------------------------------------------------------------- */

static char **text_at(void *config, const struct gm_ini_key *key)
{
	return (char **)((char *)config + key->at);
}

static int set_name(void *config, const struct gm_ini_key *key,
		    const char *value, char *ret_right)
{
	return gm_ini_value_text(text_at(config, key), value,
				 gm_node_name_check(value),
				 "1 to 63 letters, digits, dots, hyphens or "
				 "underscores, and no dot or hyphen first",
				 ret_right);
}

static bool is_plain(const char *text)
{
	for (; *text != '\0'; text++)
		if (*text <= ' ' || *text == 0x7f)
			return false;
	return true;
}

static int set_address(void *config, const struct gm_ini_key *key,
		       const char *value, char *ret_right)
{
	return gm_ini_value_text(text_at(config, key), value,
				 gm_node_name_check_address(value),
				 "an IP address or a host name, at most 63 "
				 "bytes",
				 ret_right);
}

static int set_text(void *config, const struct gm_ini_key *key,
		    const char *value, char *ret_right)
{
	return gm_ini_value_text(text_at(config, key), value,
				 *value != '\0' && is_plain(value),
				 "a text without blanks", ret_right);
}

#define KEY(section, name, form, field, least, most)                     \
	{                                                                \
		section, name, GM_INI_##form,                            \
			offsetof(struct gm_sync_config, field), (least), \
			(most), NULL, NULL                               \
	}

#define OWN(section, name, set, field)                                      \
	{                                                                   \
		section, name, GM_INI_OWN,                                  \
			offsetof(struct gm_sync_config, field), 0, 0, NULL, \
			set                                                 \
	}

static const struct gm_ini_key keys[] = {
	OWN("cluster", "address", set_address, address),
	KEY("cluster", "forget", TIME, forget_ns, NS_PER_S,
	    31 * 86400 * NS_PER_S),
	KEY("cluster", "gangs", SWITCH, gangs, 0, 1),
	OWN("cluster", "name", set_name, cluster),
	OWN("cluster", "node", set_name, node),
	KEY("cluster", "ttl", TIME, ttl_ns, GM_STORE_LEASE_MIN *NS_PER_MS,
	    GM_STORE_LEASE_MAX *NS_PER_MS),
	KEY("store", "ca", PATH, ca, 0, 0),
	KEY("store", "cert", PATH, cert, 0, 0),
	KEY("store", "directory", PATH, directory, 0, 0),
	OWN("store", "etcd", set_text, etcd),
	KEY("store", "key", PATH, key, 0, 0),
	KEY("store", "password-file", PATH, password_file, 0, 0),
	KEY("store", "timeout", TIME, timeout_ns, 10 * NS_PER_MS,
	    600 * NS_PER_S),
	OWN("store", "user", set_text, user),
	KEY("socket", "group", GROUP, socket_gid, 0, 0),
	KEY("socket", "mode", MODE, socket_mode, 0, 0777),
	KEY("socket", "path", PATH, socket_path, 0, 0),
	OWN("agent", "instance", set_text, instance),
	KEY("agent", "runtime-dir", PATH, runtime_dir, 0, 0),
};

/* ---- defaults ------------------------------------------------------------ */

static int set_defaults(struct gm_sync_config *config)
{
	const struct group *group = getgrnam("gpumap");
	char host[HOST_NAME_MAX + 1] = "";

	*config = (struct gm_sync_config){
		.cluster = strdup("gpumap"),
		.gangs = true,
		.ttl_ns = 5 * NS_PER_S,
		.forget_ns = 3600 * NS_PER_S,
		.timeout_ns = 5 * NS_PER_S,
		.socket_path = strdup("/run/gpumap-sync/node"),
		.socket_gid = group != NULL ? group->gr_gid : (gid_t)-1,
		.socket_mode = 0660,
		.instance = strdup("node"),
		.runtime_dir = strdup("/run/gpumap"),
	};
	gethostname(host, sizeof(host) - 1);
	if (gm_node_name_check(host)) {
		config->node = strdup(host);
		config->address = strdup(host);
	}
	return config->cluster == NULL || config->socket_path == NULL ||
			       config->instance == NULL ||
			       config->runtime_dir == NULL
		       ? -ENOMEM
		       : 0;
}

/* ---- the password -------------------------------------------------------- */

static int wrong_file(const char *path, const char *what, char *ret_why)
{
	snprintf(ret_why, GM_INI_WHY_BYTES, "password-file %s: %s", path, what);
	return -EINVAL;
}

static int read_password(struct gm_sync_config *config, char *ret_why)
{
	char text[PASSWORD_BYTES + 1] = "";
	const char *path = config->password_file;
	struct stat st;
	ssize_t n = -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return wrong_file(path, strerror(errno), ret_why);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n < 0 || n == PASSWORD_BYTES)
		return wrong_file(path, "this is no file of one line", ret_why);
	if ((st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0)
		return wrong_file(path,
				  "others may read or write it: chmod 0640",
				  ret_why);
	text[strcspn(text, "\r\n")] = '\0';
	if (text[0] == '\0')
		return wrong_file(path, "its first line is empty", ret_why);
	config->password = strdup(text);
	explicit_bzero(text, sizeof(text));
	return config->password != NULL ? 0 : -ENOMEM;
}

/* ---- files --------------------------------------------------------------- */

int gm_sync_config_store(const struct gm_sync_config *config,
			 struct gm_store **ret_store,
			 char ret_why[GM_STORE_WHY_BYTES])
{
	char root[GM_STORE_KEY_BYTES];
	const struct gm_store_opts opts = {
		.directory = config->directory,
		.endpoints = config->etcd,
		.root = root,
		.ca = config->ca,
		.cert = config->cert,
		.key = config->key,
		.user = config->user,
		.password = config->password,
		.timeout_ms = (uint32_t)(config->timeout_ns / NS_PER_MS),
	};

	snprintf(root, sizeof(root), "/gpumap/v1/%s/", config->cluster);
	return gm_store_open(&opts, ret_store, ret_why);
}

/* Nothing is asked of the store. */
static int try_store(const struct gm_sync_config *config, const char *path,
		     char *ret_why)
{
	char why[GM_STORE_WHY_BYTES] = "";
	struct gm_store *store = NULL;
	int ret = gm_sync_config_store(config, &store, why);

	if (ret != 0)
		snprintf(ret_why, GM_INI_WHY_BYTES, "%s: [store]: %s", path,
			 why[0] != '\0' ? why : strerror(-ret));
	gm_store_close(store);
	return ret;
}

static int check(struct gm_sync_config *config, const char *path, char *ret_why)
{
	const char *what = NULL;
	int ret = 0;

	if (config->node == NULL)
		what = "this machine's host name is no name of a node: add "
		       "node = NAME to [cluster]";
	else if (config->directory == NULL && config->etcd == NULL)
		what = "no place where the nodes meet: add directory = DIR, "
		       "which all nodes have, or etcd = ENDPOINTS to [store]";
	else if (config->directory != NULL && config->etcd != NULL)
		what = "directory and etcd in [store]: leave one of them out";
	else if ((config->user != NULL) != (config->password_file != NULL))
		what = "user and password-file of [store] go together";
	else if ((config->cert != NULL) != (config->key != NULL))
		what = "cert and key of [store] go together";
	if (what != NULL) {
		snprintf(ret_why, GM_INI_WHY_BYTES, "%s: %s", path, what);
		return -EINVAL;
	}
	if (config->address == NULL)
		config->address = strdup(config->node);
	if (config->address == NULL)
		return -ENOMEM;
	if (config->password_file != NULL)
		ret = read_password(config, ret_why);
	return ret == 0 ? try_store(config, path, ret_why) : ret;
}

int gm_sync_config_read(struct gm_sync_config *ret_config, const char *path,
			bool must_exist, char ret_why[GM_INI_WHY_BYTES])
{
	struct gm_ini ini = { .keys = keys,
			      .n_keys = sizeof(keys) / sizeof(keys[0]),
			      .config = ret_config };
	int n = set_defaults(ret_config), ret = 0;

	snprintf(ret_why, GM_INI_WHY_BYTES, "out of memory");
	if (n == 0)
		n = gm_ini_read(&ini, path, must_exist, ret_why);
	if (n >= 0)
		ret = check(ret_config, path, ret_why);
	return ret != 0 ? ret : n;
}

void gm_sync_config_free(struct gm_sync_config *config)
{
	char *const texts[] = { config->cluster,     config->node,
				config->address,     config->directory,
				config->etcd,        config->ca,
				config->cert,        config->key,
				config->user,        config->password_file,
				config->socket_path, config->instance,
				config->runtime_dir };

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free(texts[i]);
	if (config->password != NULL)
		explicit_bzero(config->password, strlen(config->password));
	free(config->password);
	*config = (struct gm_sync_config){ .socket_gid = (gid_t)-1 };
}
