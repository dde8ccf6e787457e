/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/config_keys.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
		section, name, GM_CONFIG_##form,                            \
			offsetof(struct gm_config, field), (least), (most), \
			NULL                                                \
	}

#define WORD(section, name, field, words)                              \
	{                                                              \
		section, name, GM_CONFIG_WORD,                         \
			offsetof(struct gm_config, field), 0, 0, words \
	}

/* In the order of enum gm_config_cuda, gm_config_nccl, gm_config_share,
 * gm_config_programs. */
static const char *const enabled_words[] = { "auto", "off", "required", NULL };
static const char *const nccl_words[] = { "auto", "no", "yes", NULL };
static const char *const share_words[] = { "same-user", "any", NULL };
static const char *const policy_words[] = { "operators-only", "same-user",
					    "any", NULL };

static const struct gm_config_key keys[] = {
	KEY("agent", "drain", TIME, drain_ns, 0, 3600 * NS_PER_S),
	KEY("agent", "drain-row", TIME, drain_row_ns, 10 * NS_PER_MS,
	    3600 * NS_PER_S),
	KEY("agent", "node", NODE, node, 0, GM_PIN_NODES_MAX - 1),
	KEY("agent", "refresh", TIME, refresh_ns, 10 * NS_PER_MS,
	    3600 * NS_PER_S),
	KEY("segment", "size", SIZE, segment_bytes, SEGMENT_LEAST,
	    GM_SEGMENT_MAX),
	KEY("socket", "group", GROUP, socket_gid, 0, 0),
	KEY("socket", "mode", MODE, socket_mode, 0, 0777),
	KEY("worker", "user", USER, worker_uid, 0, 0),
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
	KEY("host", "cpus", CPUS, host_cpus, 0, 0),
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
	WORD("cuda", "nccl", cuda_nccl, nccl_words),
	KEY("cuda", "nccl-library", PATH, cuda_nccl_library, 0, 0),
	KEY("cuda", "nccl-limit", TIME, cuda_nccl_limit_ns, 10 * NS_PER_MS,
	    GM_NCCL_GROUP_LIMIT_NS),
	KEY("cuda", "pass-environment", NAMES, cuda_pass, 0, 0),
	WORD("cuda", "share", cuda_share, share_words),
	KEY("cuda", "standby", SWITCH, cuda_standby, 0, 1),
	KEY("cuda", "sysfs", PATH, cuda_sysfs, 0, 0),
	KEY("dummy", "file", PATH, dummy_file, 0, 0),
	KEY("masks", "bytes", SIZE, mask_bytes, UINT64_C(1) << 20, TIB),
	KEY("masks", "bytes-per-uid", SIZE, mask_bytes_per_uid, 0, 1024 * TIB),
	KEY("programs", "directory", PATH, programs_directory, 0, 0),
	KEY("programs", "image-limit", SIZE, image_bytes, 4 * KIB,
	    UINT64_C(1) << 30),
	KEY("programs", "limit", TIME, program_limit_ns, 0, 86400 * NS_PER_S),
	WORD("programs", "policy", programs_policy, policy_words),
	KEY("spin", "limit", SPIN, spin_limit, 0, GM_ROWS),
};

const struct gm_config_key *gm_config_keys(size_t *ret_n)
{
	*ret_n = sizeof(keys) / sizeof(keys[0]);
	return keys;
}

/* Digits, then one of the @units or nothing, for a value of at most 2^64 - 1;
 * scales are those of the units, the first of them that of no unit. */
static int parse_scaled(const char *text, const char *const *units,
			const uint64_t *scales, size_t n, uint64_t *ret_value)
{
	uint64_t value;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno != 0)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(end, units[i]) != 0)
			continue;
		return __builtin_mul_overflow(value, scales[i], ret_value)
			       ? -EINVAL
			       : 0;
	}
	return -EINVAL;
}

int gm_config_parse_number(const char *text, uint64_t least, uint64_t most,
			   uint64_t *ret_value)
{
	static const char *const none[] = { "" };
	static const uint64_t one[] = { 1 };
	uint64_t value;

	if (parse_scaled(text, none, one, 1, &value) != 0 || value < least ||
	    value > most)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

/* The largest unit that says it without a fraction. */
static void print_size(uint64_t bytes, char *ret_text, size_t n)
{
	static const char units[] = "KMGT";
	char unit[2] = "";

	for (int i = 0; units[i] != '\0' && bytes != 0 && bytes % KIB == 0;
	     i++) {
		bytes /= KIB;
		unit[0] = units[i];
	}
	snprintf(ret_text, n, "%" PRIu64 "%s", bytes, unit);
}

static int set_size(uint64_t *to, const struct gm_config_key *key,
		    const char *value, char *ret_right)
{
	static const char *const units[] = { "", "K", "M", "G", "T" };
	static const uint64_t scales[] = { 1, KIB, KIB << 10, KIB << 20, TIB };
	char least[32], most[32];
	uint64_t bytes;

	if (parse_scaled(value, units, scales, 5, &bytes) == 0 &&
	    bytes >= key->least && bytes <= key->most) {
		*to = bytes;
		return 0;
	}
	print_size(key->least, least, sizeof(least));
	print_size(key->most, most, sizeof(most));
	snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
		 "a size from %s to %s, as 4096, 64K, 16M or 1G", least, most);
	return -EINVAL;
}

static int set_time(uint64_t *to, const struct gm_config_key *key,
		    const char *value, char *ret_right)
{
	static const char *const units[] = { "ms", "s" };
	static const uint64_t scales[] = { NS_PER_MS, NS_PER_S };
	uint64_t ns;

	/* Nothing is nothing in any unit. */
	if (strcmp(value, "0") == 0)
		value = "0ms";
	if (parse_scaled(value, units, scales, 2, &ns) == 0 &&
	    ns >= key->least && ns <= key->most) {
		*to = ns;
		return 0;
	}
	snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
		 "a time from %" PRIu64 "ms to %" PRIu64 "s, as 500ms or 2s",
		 key->least / NS_PER_MS, key->most / NS_PER_S);
	return -EINVAL;
}

static int set_count(uint32_t *to, const struct gm_config_key *key,
		     const char *value, char *ret_right)
{
	uint64_t n;

	if (gm_config_parse_number(value, key->least, key->most, &n) == 0) {
		*to = (uint32_t)n;
		return 0;
	}
	snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
		 "a number from %" PRIu64 " to %" PRIu64, key->least,
		 key->most);
	return -EINVAL;
}

/* A number that may also be a word. */
static int set_or(uint32_t *to, const char *word, uint32_t meaning,
		  const struct gm_config_key *key, const char *value,
		  char *ret_right)
{
	int ret;

	if (strcmp(value, word) == 0) {
		*to = meaning;
		return 0;
	}
	ret = set_count(to, key, value, ret_right);
	if (ret != 0)
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
			 "%s, or a number from %" PRIu64 " to %" PRIu64, word,
			 key->least, key->most);
	return ret;
}

static int set_node(struct gm_config *config, const struct gm_config_key *key,
		    const char *value, char *ret_right)
{
	uint64_t node;

	if (strcmp(value, "auto") == 0) {
		config->node = GM_CONFIG_NODE_AUTO;
	} else if (strcmp(value, "none") == 0) {
		config->node = GM_CONFIG_NODE_NONE;
	} else if (gm_config_parse_number(value, key->least, key->most,
					  &node) == 0) {
		config->node = (int)node;
	} else {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
			 "auto, none, or a number from %" PRIu64 " to %" PRIu64,
			 key->least, key->most);
		return -EINVAL;
	}
	return 0;
}

static int set_switch(bool *to, const char *value, char *ret_right)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES, "yes or no");
		return -EINVAL;
	}
	*to = strcmp(value, "yes") == 0;
	return 0;
}

static int set_mode(mode_t *to, const char *value, char *ret_right)
{
	size_t n = strlen(value);

	if (n < 3 || n > 4 || strspn(value, "01234567") != n ||
	    strtoul(value, NULL, 8) > 0777) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
			 "an octal mode, as 0660");
		return -EINVAL;
	}
	*to = (mode_t)strtoul(value, NULL, 8);
	return 0;
}

static int set_group(gid_t *to, const char *value, char *ret_right)
{
	const struct group *group = getgrnam(value);
	uint64_t id;

	if (group != NULL) {
		*to = group->gr_gid;
	} else if (gm_config_parse_number(value, 0, UINT32_MAX - 1, &id) == 0) {
		*to = (gid_t)id;
	} else {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
			 "a group of this machine, or its number");
		return -EINVAL;
	}
	return 0;
}

static int set_user(struct gm_config *config, const char *value,
		    char *ret_right)
{
	const struct passwd *user = getpwnam(value);
	uint64_t id;

	if (user == NULL &&
	    gm_config_parse_number(value, 0, UINT32_MAX - 1, &id) == 0)
		user = getpwuid((uid_t)id);
	if (user == NULL) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
			 "a user of this machine, or its number");
		return -EINVAL;
	}
	if (gm_worker_uid_is_nobody(NULL, user->pw_uid)) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
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

static int set_cpus(struct gm_config *config, const char *value,
		    char *ret_right)
{
	struct gm_idset cpus;

	if (gm_idset_parse(value, &cpus) <= 0) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
			 "a list of CPUs, as 0-3,8");
		return -EINVAL;
	}
	config->host_cpus = cpus;
	config->host_cpus_set = true;
	return 0;
}

/* A daemon's working directory is not known to its administrator. */
static int set_path(char **to, const char *value, char *ret_right)
{
	char *path = value[0] == '/' ? strdup(value) : NULL;

	if (path == NULL) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES, "%s",
			 value[0] == '/' ? "out of memory"
					 : "an absolute path");
		return -EINVAL;
	}
	free(*to);
	*to = path;
	return 0;
}

static int set_word(uint32_t *to, const struct gm_config_key *key,
		    const char *value, char *ret_right)
{
	size_t n = 0;

	for (uint32_t i = 0; key->words[i] != NULL; i++) {
		const char *before = i == 0                      ? ""
				     : key->words[i + 1] == NULL ? " or "
								 : ", ";

		if (strcmp(value, key->words[i]) == 0) {
			*to = i;
			return 0;
		}
		n += (size_t)snprintf(ret_right + n, GM_CONFIG_RIGHT_BYTES - n,
				      "%s%s", before, key->words[i]);
	}
	return -EINVAL;
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

static int set_names(char **to, const char *value, char *ret_right)
{
	char *names = are_names(value) ? strdup(value) : NULL;

	if (names == NULL) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
			 "names of environment variables, with blanks between "
			 "them");
		return -EINVAL;
	}
	free(*to);
	*to = names;
	return 0;
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

static int set_text(char **to, const char *value, bool is_right,
		    const char *right, char *ret_right)
{
	char *text = is_right ? strdup(value) : NULL;

	if (text == NULL) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES, "%s",
			 is_right ? "out of memory" : right);
		return -EINVAL;
	}
	free(*to);
	*to = text;
	return 0;
}

/* An agent without privileges cannot become another user. */
static int set_model_user(uint32_t *to, const char *value, char *ret_right)
{
	const struct passwd *user = getpwnam(value);
	uint64_t id;

	if (user == NULL &&
	    gm_config_parse_number(value, 0, UINT32_MAX - 1, &id) == 0)
		user = getpwuid((uid_t)id);
	if (user == NULL) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
			 "a user of this machine, or its number");
		return -EINVAL;
	}
	if (geteuid() != 0 && user->pw_uid != geteuid()) {
		snprintf(ret_right, GM_CONFIG_RIGHT_BYTES,
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
			const char *value,
			char ret_right[GM_CONFIG_RIGHT_BYTES])
{
	size_t bytes = strlen(value);

	if (strcmp(name, "path") == 0)
		return set_path(&model->path, value, ret_right);
	if (strcmp(name, "map") == 0)
		return set_text(&model->map, value,
				bytes > 0 && bytes <= GPUMAP_NAME_MAX &&
					strpbrk(value, " \t") == NULL,
				"the name of a layer map, without blanks",
				ret_right);
	if (strcmp(name, "user") == 0)
		return set_model_user(&model->uid, value, ret_right);
	if (strcmp(name, "users") == 0)
		return set_text(&model->users, value, are_users(value),
				"any, or users with commas between them, as "
				"ann,bob",
				ret_right);
	if (strcmp(name, "fingerprint") == 0)
		return set_text(&model->fingerprint, value, is_hash(value),
				"64 hexadecimal digits, not all of them 0",
				ret_right);
	return -ENOENT;
}

int gm_config_set(struct gm_config *config, const struct gm_config_key *key,
		  const char *value, char ret_right[GM_CONFIG_RIGHT_BYTES])
{
	void *to = (char *)config + key->at;

	switch (key->form) {
	case GM_CONFIG_COUNT:
		return set_count(to, key, value, ret_right);
	case GM_CONFIG_SIZE:
		return set_size(to, key, value, ret_right);
	case GM_CONFIG_TIME:
		return set_time(to, key, value, ret_right);
	case GM_CONFIG_SWITCH:
		return set_switch(to, value, ret_right);
	case GM_CONFIG_MODE:
		return set_mode(to, value, ret_right);
	case GM_CONFIG_GROUP:
		return set_group(to, value, ret_right);
	case GM_CONFIG_USER:
		return set_user(config, value, ret_right);
	case GM_CONFIG_CPUS:
		return set_cpus(config, value, ret_right);
	case GM_CONFIG_PATH:
		return set_path(to, value, ret_right);
	case GM_CONFIG_WORD:
		return set_word(to, key, value, ret_right);
	case GM_CONFIG_NAMES:
		return set_names(to, value, ret_right);
	case GM_CONFIG_SPIN:
		return set_or(to, "auto", GM_CONFIG_SPIN_AUTO, key, value,
			      ret_right);
	case GM_CONFIG_NODE:
		return set_node(config, key, value, ret_right);
	}
	return -EINVAL;
}
