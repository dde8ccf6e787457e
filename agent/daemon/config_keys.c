/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/config_keys.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/idset.h"
#include "agent/common/numa_bind.h"
#include "agent/common/wire.h"
#include "agent/daemon/worker_uid.h"
#include "gpumap.h"
#include "shm/journal.h"
#include "shm/layout.h"

#define NS_PER_MS     UINT64_C(1000000)
#define NS_PER_S      UINT64_C(1000000000)
#define KIB           (UINT64_C(1) << 10)
#define TIB           (UINT64_C(1) << 40)

#define SEGMENT_LEAST (UINT64_C(1) << 20)

_Static_assert(SEGMENT_LEAST > GM_HEAP_AT + 256 * 1024,
	       "the fixed tables, and a heap that holds a few maps");

#define KEY(section, name, form, field, least, most)                        \
	{                                                                   \
		section, name, GM_INI_##form,                               \
			offsetof(struct gm_config, field), (least), (most), \
			NULL, NULL                                          \
	}

#define WORD(section, name, field, words)                                      \
	{                                                                      \
		section, name, GM_INI_WORD, offsetof(struct gm_config, field), \
			0, 0, words, NULL                                      \
	}

#define OWN(section, name, set, field, least, most)                           \
	{                                                                     \
		section, name, GM_INI_OWN, offsetof(struct gm_config, field), \
			(least), (most), NULL, set                            \
	}

static int set_spin(void *config, const struct gm_ini_key *key,
		    const char *value, char *ret_right)
{
	uint32_t *to = &((struct gm_config *)config)->spin_limit;

	if (strcmp(value, "auto") == 0) {
		*to = GM_CONFIG_SPIN_AUTO;
		return 0;
	}
	if (gm_ini_value_count(to, key, value, ret_right) == 0)
		return 0;
	snprintf(ret_right, GM_INI_RIGHT_BYTES,
		 "auto, or a number from %" PRIu64 " to %" PRIu64, key->least,
		 key->most);
	return -EINVAL;
}

static int set_node(void *arg, const struct gm_ini_key *key, const char *value,
		    char *ret_right)
{
	struct gm_config *config = arg;
	uint64_t node;

	if (strcmp(value, "auto") == 0) {
		config->node = GM_CONFIG_NODE_AUTO;
	} else if (strcmp(value, "none") == 0) {
		config->node = GM_CONFIG_NODE_NONE;
	} else if (gm_ini_value_number(value, key->least, key->most, &node) ==
		   0) {
		config->node = (int)node;
	} else {
		snprintf(ret_right, GM_INI_RIGHT_BYTES,
			 "auto, none, or a number from %" PRIu64 " to %" PRIu64,
			 key->least, key->most);
		return -EINVAL;
	}
	return 0;
}

static const struct passwd *find_user(const char *value, char *ret_right)
{
	const struct passwd *user = getpwnam(value);
	uint64_t id;

	if (user == NULL &&
	    gm_ini_value_number(value, 0, UINT32_MAX - 1, &id) == 0)
		user = getpwuid((uid_t)id);
	if (user == NULL)
		snprintf(ret_right, GM_INI_RIGHT_BYTES,
			 "a user of this machine, or its number");
	return user;
}

static int set_cluster_user(void *arg, const struct gm_ini_key *key,
			    const char *value, char *ret_right)
{
	struct gm_config *config = arg;
	const struct passwd *user = find_user(value, ret_right);

	(void)key;
	if (user == NULL)
		return -EINVAL;
	config->cluster_uid = user->pw_uid;
	return 0;
}

static int set_user(void *arg, const struct gm_ini_key *key, const char *value,
		    char *ret_right)
{
	struct gm_config *config = arg;
	const struct passwd *user = find_user(value, ret_right);

	if (user == NULL)
		return -EINVAL;
	if (gm_worker_uid_is_nobody(NULL, user->pw_uid)) {
		snprintf(ret_right, GM_INI_RIGHT_BYTES,
			 "a user of its own, as useradd --system gpumap makes "
			 "one; others run processes as this one, which could "
			 "kill workers");
		return -EINVAL;
	}
	config->worker_uid = user->pw_uid;
	config->worker_gid = user->pw_gid;
	config->worker_is_unnamed = false;
	return 0;
}

static int set_cpus(void *arg, const struct gm_ini_key *key, const char *value,
		    char *ret_right)
{
	struct gm_config *config = arg;
	struct gm_idset cpus;

	if (gm_idset_parse(value, &cpus) <= 0) {
		snprintf(ret_right, GM_INI_RIGHT_BYTES,
			 "a list of CPUs, as 0-3,8");
		return -EINVAL;
	}
	config->host_cpus = cpus;
	config->host_cpus_set = true;
	return 0;
}

/* Words that variables can have for names. */
static bool are_names(const char *text)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz"
				      "0123456789_";
	static const char blanks[] = " \t";
	size_t n;

	text += strspn(text, blanks);
	for (; *text != '\0'; text += n + strspn(text + n, blanks)) {
		n = strspn(text, letters);
		if (n == 0 || isdigit((unsigned char)*text) ||
		    strchr(blanks, text[n]) == NULL)
			return false;
	}
	return true;
}

static int set_names(void *config, const struct gm_ini_key *key,
		     const char *value, char *ret_right)
{
	return gm_ini_value_text((char **)((char *)config + key->at), value,
				 are_names(value),
				 "names of environment variables, with blanks "
				 "between them",
				 ret_right);
}

/* A kind of devices, or names of files without their suffix, or of cards. */
static bool are_vendors(const char *text)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz"
				      "0123456789_-.+: \t";

	return text[0] != '\0' && text[strspn(text, letters)] == '\0';
}

static int set_devices(void *config, const struct gm_ini_key *key,
		       const char *value, char *ret_right)
{
	return gm_ini_value_text((char **)((char *)config + key->at), value,
				 are_vendors(value),
				 "gpu, cpu or all, or names of vendors or "
				 "cards, with blanks between them",
				 ret_right);
}

/* ---- the keys ------------------------------------------------------------ */

/* In the order of enum gm_config_cuda, gm_config_nccl, gm_config_share,
 * gm_config_programs. */
static const char *const enabled_words[] = { "auto", "off", "required", NULL };
static const char *const nccl_words[] = { "auto", "no", "yes", NULL };
static const char *const share_words[] = { "same-user", "any", NULL };
static const char *const policy_words[] = { "operators-only", "same-user",
					    "any", NULL };

/* The keys of a driver, and of one of several vendors. */
#define DRIVER(section, of, folder)                                         \
	KEY(section, "cpu-memory", SIZE, of.cpu_memory, UINT64_C(64) << 20, \
	    1024 * TIB),                                                    \
		OWN(section, "devices", set_devices, of.devices, 0, 0),     \
		WORD(section, "enabled", of.enabled, enabled_words),        \
		KEY(section, "list-limit", TIME, of.list_limit_ns,          \
		    10 * NS_PER_MS, 3600 * NS_PER_S),                       \
		OWN(section, "pass-environment", set_names, of.pass, 0, 0), \
		KEY(section, folder, PATH, of.vendors, 0, 0)
#define VENDORS(section, of)                         \
	KEY(section, "cache", PATH, of.cache, 0, 0), \
		DRIVER(section, of, "vendors")
#define CLIQUES(section, name, of)                                             \
	WORD(section, name, of.may, nccl_words),                               \
		KEY(section, name "-library", PATH, of.library, 0, 0),         \
		KEY(section, name "-limit", TIME, of.limit_ns, 10 * NS_PER_MS, \
		    GM_NCCL_GROUP_LIMIT_NS)

static const struct gm_ini_key keys[] = {
	KEY("agent", "drain", TIME, drain_ns, 0, 3600 * NS_PER_S),
	KEY("agent", "drain-row", TIME, drain_row_ns, 10 * NS_PER_MS,
	    3600 * NS_PER_S),
	OWN("agent", "node", set_node, node, 0, GM_PIN_NODES_MAX - 1),
	KEY("agent", "refresh", TIME, refresh_ns, 10 * NS_PER_MS,
	    3600 * NS_PER_S),
	KEY("segment", "size", SIZE, segment_bytes, SEGMENT_LEAST,
	    GM_SEGMENT_MAX),
	KEY("socket", "group", GROUP, socket_gid, 0, 0),
	KEY("socket", "mode", MODE, socket_mode, 0, 0777),
	OWN("worker", "user", set_user, worker_uid, 0, 0),
	KEY("limits", "arena", SIZE, arena_bytes, KIB, 1024 * TIB),
	KEY("limits", "arena-per-uid", SIZE, arena_bytes_per_uid, KIB,
	    1024 * TIB),
	KEY("limits", "arenas", SIZE, arena_bytes_of_all, KIB, 1024 * TIB),
	KEY("limits", "connections", COUNT, connections, 1, 65536),
	KEY("limits", "connections-per-uid", COUNT, connections_per_uid, 1,
	    65536),
	KEY("limits", "exports-per-uid", COUNT, exports_per_uid, 0, 65536),
	KEY("limits", "hello-timeout", TIME, hello_timeout_ns, 10 * NS_PER_MS,
	    3600 * NS_PER_S),
	KEY("limits", "import-bytes-per-uid", SIZE, import_bytes_per_uid, 0,
	    1024 * TIB),
	KEY("limits", "imports-per-uid", COUNT, imports_per_uid, 0, 65536),
	KEY("limits", "kept-shares-per-uid", COUNT, kept_shares_per_uid, 0,
	    65536),
	KEY("limits", "object-bytes-per-uid", SIZE, object_bytes_per_uid, 0,
	    GM_SEGMENT_MAX),
	KEY("limits", "objects-per-uid", COUNT, objects_per_uid, 0, GM_OBJECTS),
	KEY("limits", "pin-bytes-per-uid", SIZE, pin_bytes_per_uid, 0,
	    GM_SEGMENT_MAX),
	KEY("limits", "pins-per-uid", COUNT, pins_per_uid, 0, GM_HOLDERS),
	KEY("limits", "registrations-per-uid", COUNT, registrations_per_uid, 0,
	    65536),
	KEY("limits", "reserve-per-uid", COUNT, reserve_per_uid, 0, 100),
	KEY("limits", "sessions", COUNT, sessions, 0, GM_JOURNAL_PLACES),
	KEY("limits", "sessions-per-second", COUNT, sessions_per_second, 1,
	    1000000),
	KEY("limits", "sessions-per-uid", COUNT, sessions_per_uid, 0,
	    GM_JOURNAL_PLACES),
	OWN("host", "cpus", set_cpus, host_cpus, 0, 0),
	KEY("host", "enabled", SWITCH, host_enabled, 0, 1),
	KEY("host", "rows", COUNT, host_rows, 1, GM_ROWS),
	KEY("jobs", "slice", SIZE, slice_bytes, GM_SLICE_LEAST, GM_SLICE_MOST),
	KEY("load", "depth", COUNT, load_depth, 1, GM_LOAD_DEPTH_MAX),
	KEY("load", "read", SIZE, load_bytes, 4 * KIB, GM_LOAD_BYTES_MAX),
	KEY("load", "retry", TIME, load_retry_ns, 10 * NS_PER_MS,
	    GM_LOAD_RETRY_MAX_NS),
	KEY("cuda", "cache", PATH, cuda_cache, 0, 0),
	WORD("cuda", "enabled", cuda_enabled, enabled_words),
	KEY("cuda", "idle", TIME, cuda_idle_ns, 0, 86400 * NS_PER_S),
	KEY("cuda", "keep-shares", SWITCH, cuda_keep_shares, 0, 1),
	KEY("cuda", "kernel-limit", TIME, cuda_kernel_limit_ns, 0,
	    86400 * NS_PER_S),
	KEY("cuda", "library", PATH, cuda_library, 0, 0),
	KEY("cuda", "list-limit", TIME, cuda_list_limit_ns, 10 * NS_PER_MS,
	    3600 * NS_PER_S),
	KEY("cuda", "look-again", TIME, cuda_look_again_ns, 10 * NS_PER_MS,
	    86400 * NS_PER_S),
	KEY("cuda", "mps", SWITCH, cuda_mps, 0, 1),
	CLIQUES("cuda", "nccl", nccl),
	OWN("cuda", "pass-environment", set_names, cuda_pass, 0, 0),
	WORD("cuda", "share", cuda_share, share_words),
	KEY("cuda", "standby", SWITCH, cuda_standby, 0, 1),
	KEY("cuda", "sysfs", PATH, cuda_sysfs, 0, 0),
	DRIVER("hip", drivers[GM_CONFIG_HIP], "library"),
	CLIQUES("hip", "rccl", rccl),
	VENDORS("opencl", drivers[GM_CONFIG_OPENCL]),
	VENDORS("vulkan", drivers[GM_CONFIG_VULKAN]),
	KEY("dummy", "file", PATH, dummy_file, 0, 0),
	OWN("cluster", "user", set_cluster_user, cluster_uid, 0, 0),
	KEY("masks", "bytes", SIZE, mask_bytes, UINT64_C(1) << 20, TIB),
	KEY("masks", "bytes-per-uid", SIZE, mask_bytes_per_uid, 0, 1024 * TIB),
	KEY("programs", "directory", PATH, programs_directory, 0, 0),
	KEY("programs", "image-limit", SIZE, image_bytes, 4 * KIB,
	    UINT64_C(1) << 30),
	KEY("programs", "limit", TIME, program_limit_ns, 0, 86400 * NS_PER_S),
	WORD("programs", "policy", programs_policy, policy_words),
	OWN("spin", "limit", set_spin, spin_limit, 0, GM_ROWS),
};

const struct gm_ini_key *gm_config_keys(size_t *ret_n)
{
	*ret_n = sizeof(keys) / sizeof(keys[0]);
	return keys;
}

/* ---- [model NAME] ------------------------------------------------------- */

/* Names and uids, with commas between them and no blanks. */
static bool are_users(const char *text)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz"
				      "0123456789_-.$";
	uint32_t n = 0;

	for (;; text++) {
		size_t bytes = strspn(text, letters);

		if (bytes == 0 || ++n > GPUMAP_SHARE_UIDS_MAX)
			return false;
		text += bytes;
		if (*text != ',')
			return *text == '\0';
	}
}

/* An agent without privileges cannot become another user. */
static int set_model_user(uint32_t *to, const char *value, char *ret_right)
{
	const struct passwd *user = find_user(value, ret_right);

	if (user == NULL)
		return -EINVAL;
	if (geteuid() != 0 && user->pw_uid != geteuid()) {
		snprintf(ret_right, GM_INI_RIGHT_BYTES,
			 "gpumapd is not root, so it loads models as its own "
			 "user: leave it out");
		return -EINVAL;
	}
	*to = user->pw_uid;
	return 0;
}

static bool is_hash(const char *text)
{
	return strlen(text) == 64 &&
	       strspn(text, "0123456789abcdefABCDEF") == 64 &&
	       strspn(text, "0") < 64;
}

const char gm_config_model_keys[] = "path, map, user, users, fingerprint";

int gm_config_set_model(struct gm_config_model *model, const char *name,
			const char *value, char ret_right[GM_INI_RIGHT_BYTES])
{
	size_t bytes = strlen(value);

	if (strcmp(name, "path") == 0)
		return gm_ini_value_path(&model->path, value, ret_right);
	if (strcmp(name, "map") == 0)
		return gm_ini_value_text(
			&model->map, value,
			bytes > 0 && bytes <= GPUMAP_NAME_MAX &&
				strpbrk(value, " \t") == NULL,
			"the name of a layer map, without blanks", ret_right);
	if (strcmp(name, "user") == 0)
		return set_model_user(&model->uid, value, ret_right);
	if (strcmp(name, "users") == 0)
		return gm_ini_value_text(
			&model->users, value, are_users(value),
			"any, or users with commas between them, as "
			"ann,bob",
			ret_right);
	if (strcmp(name, "fingerprint") == 0)
		return gm_ini_value_text(
			&model->fingerprint, value, is_hash(value),
			"64 hexadecimal digits, not all of them 0", ret_right);
	return -ENOENT;
}
