/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/config.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/cgroup.h"
#include "agent/common/wire.h"
#include "agent/daemon/config_keys.h"
#include "agent/daemon/worker_uid.h"
#include "shm/layout.h"

#define BLANKS     " \t\r\n"
#define MAP_WORD   "map"
#define MODEL_WORD "model"

/* Where in which file we are. */
struct reader {
	struct gm_config *config;
	const struct gm_config_key *keys;
	size_t n_keys;
	const char *path;
	int line;
	char section[32];
	struct gm_config_map *map;     /* in [map NAME] */
	struct gm_config_model *model; /* in [model NAME] */
	char *why;
};

static int wrong(const struct reader *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int wrong(const struct reader *r, const char *format, ...)
{
	va_list args;
	int n;

	n = snprintf(r->why, GM_CONFIG_WHY_BYTES, "%s:%d: ", r->path, r->line);
	if (n < 0 || n >= GM_CONFIG_WHY_BYTES)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(r->why + n, GM_CONFIG_WHY_BYTES - (size_t)n, format, args);
	va_end(args);
	return -EINVAL;
}

static int no_memory(const struct reader *r)
{
	wrong(r, "out of memory");
	return -ENOMEM;
}

/* A group or user of its own when a package made one. */
static void find_people(struct gm_config *config)
{
	const struct passwd *user;
	const struct group *group;

	config->socket_gid = (gid_t)-1;
	config->worker_uid = geteuid();
	config->worker_gid = getegid();
	if (geteuid() != 0)
		return;
	group = getgrnam("gpumap");
	if (group != NULL)
		config->socket_gid = group->gr_gid;
	user = getpwnam("gpumap");
	if (user != NULL) {
		config->worker_uid = user->pw_uid;
		config->worker_gid = user->pw_gid;
		return;
	}
	config->worker_uid = gm_worker_uid_free(NULL);
	config->worker_gid = config->worker_uid;
	config->worker_is_unnamed = true;
}

/* The memory of the machine, or the limit of our control group. */
static uint64_t find_memory(void)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			  (uint64_t)sysconf(_SC_PAGESIZE);
	struct gm_cgroup group;
	uint64_t limit;

	gm_cgroup_find(&group, NULL, "memory");
	limit = gm_cgroup_memory(&group, NULL);
	return limit < memory ? limit : memory;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void gm_config_init(struct gm_config *config)
{
	uint64_t memory = find_memory();

	*config = (struct gm_config){
		.node = GM_CONFIG_NODE_AUTO,
		.refresh_ns = UINT64_C(1000000000),
		.drain_ns = UINT64_C(5000000000),
		.drain_row_ns = UINT64_C(30000000000),
		.segment_bytes = UINT64_C(16) << 20,
		.socket_mode = 0660,
		.connections = 1024,
		.connections_per_uid = 256,
		.sessions = 256,
		.sessions_per_uid = 64,
		.sessions_per_second = 32,
		.arena_bytes = memory / 2,
		.arena_bytes_per_uid = memory / 2,
		.arena_bytes_of_all = memory / 4 * 3,
		.pins_per_uid = 256,
		.pin_bytes_per_uid = UINT64_C(4) << 20,
		.objects_per_uid = 256,
		.mask_bytes = least(UINT64_C(4) << 30, memory / 4),
		.mask_bytes_per_uid = least(UINT64_C(1) << 30, memory / 16),
		.object_bytes_per_uid = UINT64_C(4) << 20,
		.registrations_per_uid = 1024,
		.exports_per_uid = 256,
		.imports_per_uid = 1024,
		.reserve_per_uid = 50,
		.hello_timeout_ns = UINT64_C(5000000000),
		.host_enabled = true,
		.host_rows = 1,
		.slice_bytes = GM_SLICE_DEFAULT,
		.load_depth = 32,
		.load_bytes = UINT64_C(1) << 20,
		.load_retry_ns = UINT64_C(30000000000),
		.cuda_list_limit_ns = UINT64_C(5000000000),
		.cuda_nccl_limit_ns = UINT64_C(30000000000),
		.cuda_look_again_ns = UINT64_C(60000000000),
		.cuda_idle_ns = UINT64_C(60000000000),
		.program_limit_ns = UINT64_C(60000000000),
		.image_bytes = UINT64_C(64) << 20,
		.cuda_standby = true,
		.spin_limit = GM_CONFIG_SPIN_AUTO,
	};
	find_people(config);
}

static char *strip(char *text)
{
	size_t n;

	text += strspn(text, BLANKS);
	n = strlen(text);
	while (n > 0 && strchr(BLANKS, text[n - 1]) != NULL)
		n--;
	text[n] = '\0';
	return text;
}

static int check_name(const struct reader *r, const char *word,
		      const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= GM_NAME_BYTES || strpbrk(name, BLANKS) != NULL)
		return wrong(r,
			     "a %s's name has 1 to %u characters and no "
			     "blanks: [%s NAME]",
			     word, GM_NAME_BYTES - 1, word);
	return 0;
}

static int add_map(struct reader *r, const char *name)
{
	struct gm_config *config = r->config;
	struct gm_config_map *maps;

	if (check_name(r, MAP_WORD, name) != 0)
		return -EINVAL;
	for (uint32_t i = 0; i < config->n_maps; i++) {
		if (strcmp(config->maps[i].name, name) == 0)
			return wrong(r, "map %s is described at %s:%d already",
				     name, config->maps[i].file,
				     config->maps[i].line);
	}
	maps = realloc(config->maps, (config->n_maps + 1) * sizeof(*maps));
	if (maps == NULL)
		return no_memory(r);
	config->maps = maps;
	r->map = &maps[config->n_maps];
	*r->map = (struct gm_config_map){ .name = strdup(name),
					  .file = strdup(r->path),
					  .line = r->line };
	config->n_maps++;
	if (r->map->name == NULL || r->map->file == NULL)
		return no_memory(r);
	return 0;
}

static int add_model(struct reader *r, const char *name)
{
	struct gm_config *config = r->config;
	struct gm_config_model *models;

	if (check_name(r, MODEL_WORD, name) != 0)
		return -EINVAL;
	for (uint32_t i = 0; i < config->n_models; i++) {
		if (strcmp(config->models[i].name, name) == 0)
			return wrong(r, "model %s is listed at %s:%d already",
				     name, config->models[i].file,
				     config->models[i].line);
	}
	models = realloc(config->models,
			 (config->n_models + 1) * sizeof(*models));
	if (models == NULL)
		return no_memory(r);
	config->models = models;
	r->model = &models[config->n_models];
	*r->model = (struct gm_config_model){ .name = strdup(name),
					      .uid = geteuid(),
					      .file = strdup(r->path),
					      .line = r->line };
	config->n_models++;
	if (r->model->name == NULL || r->model->file == NULL)
		return no_memory(r);
	return 0;
}

static int end_section(struct reader *r)
{
	if (r->model != NULL && r->model->path == NULL) {
		r->line = r->model->line;
		return wrong(r, "model %s has no path: add path = /models/%s",
			     r->model->name, r->model->name);
	}
	r->model = NULL;
	if (r->map != NULL && r->map->spec == NULL) {
		r->line = r->map->line;
		return wrong(r, "map %s has no spec: add spec = 0:16;1:16",
			     r->map->name);
	}
	r->map = NULL;
	return 0;
}

static int is_of(const char *section, const char *word)
{
	size_t n = strlen(word);

	return strncmp(section, word, n) == 0 &&
	       (section[n] == '\0' || strchr(BLANKS, section[n]) != NULL);
}

/* The names of a section's keys, or of all sections. */
static void list(const struct reader *r, const char *section, char *ret_list,
		 size_t bytes)
{
	const char *last = "";
	size_t n = 0;

	ret_list[0] = '\0';
	for (size_t i = 0; i < r->n_keys && n < bytes; i++) {
		const struct gm_config_key *key = &r->keys[i];
		const char *name = section != NULL ? key->name : key->section;

		if (section != NULL ? strcmp(key->section, section) != 0
				    : strcmp(name, last) == 0)
			continue;
		n += (size_t)snprintf(ret_list + n, bytes - n, "%s%s",
				      n != 0 ? ", " : "", name);
		last = name;
	}
}

static int open_section(struct reader *r, char *text)
{
	char *end = strchr(text, ']');
	char names[128];
	int ret;

	if (end == NULL || end[1] != '\0')
		return wrong(r, "a section is one word or two: [host], "
				"[map NAME]");
	ret = end_section(r);
	if (ret != 0)
		return ret;
	*end = '\0';
	text = strip(text + 1);
	if (is_of(text, MAP_WORD)) {
		snprintf(r->section, sizeof(r->section), "%s", MAP_WORD);
		return add_map(r, strip(text + strlen(MAP_WORD)));
	}
	if (is_of(text, MODEL_WORD)) {
		snprintf(r->section, sizeof(r->section), "%s", MODEL_WORD);
		return add_model(r, strip(text + strlen(MODEL_WORD)));
	}
	for (size_t i = 0; i < r->n_keys; i++) {
		if (strcmp(r->keys[i].section, text) != 0)
			continue;
		snprintf(r->section, sizeof(r->section), "%s", text);
		return 0;
	}
	list(r, NULL, names, sizeof(names));
	return wrong(
		r, "no section [%.40s]: there are %s, map NAME and model NAME",
		text, names);
}

static int set_map(struct reader *r, const char *name, const char *value)
{
	uint64_t layers;

	if (strcmp(name, "spec") == 0) {
		free(r->map->spec);
		r->map->spec = strdup(value);
		r->map->line = r->line;
		return r->map->spec != NULL ? 0 : no_memory(r);
	}
	if (strcmp(name, "layers") != 0)
		return wrong(r,
			     "[map NAME] has no key %.40s: it has spec, "
			     "layers",
			     name);
	if (gm_config_parse_number(value, 1, GM_LAYERS_MAX, &layers) != 0)
		return wrong(r, "layers = %.40s: a number from 1 to %u", value,
			     GM_LAYERS_MAX);
	r->map->layers = (uint32_t)layers;
	return 0;
}

static int set_model(struct reader *r, const char *name, const char *value)
{
	char right[GM_CONFIG_RIGHT_BYTES];
	int ret = gm_config_set_model(r->model, name, value, right);

	if (ret == -ENOENT)
		return wrong(r, "[model NAME] has no key %.40s: it has %s",
			     name, gm_config_model_keys);
	if (ret != 0)
		return wrong(r, "%s = %.40s: %s", name, value, right);
	if (strcmp(name, "users") == 0)
		r->model->line = r->line;
	return 0;
}

static int set(struct reader *r, const char *name, const char *value)
{
	char names[512];

	if (r->section[0] == '\0')
		return wrong(r, "%.40s stands before the first section", name);
	if (r->map != NULL)
		return set_map(r, name, value);
	if (r->model != NULL)
		return set_model(r, name, value);
	for (size_t i = 0; i < r->n_keys; i++) {
		const struct gm_config_key *key = &r->keys[i];
		char right[GM_CONFIG_RIGHT_BYTES];

		if (strcmp(key->section, r->section) != 0 ||
		    strcmp(key->name, name) != 0)
			continue;
		if (gm_config_set(r->config, key, value, right) == 0)
			return 0;
		return wrong(r, "%s = %.40s: %s", name, value, right);
	}
	list(r, r->section, names, sizeof(names));
	return wrong(r, "[%s] has no key %.40s: it has %s", r->section, name,
		     names);
}

static int read_line(struct reader *r, char *line)
{
	char *text = strip(line);
	char *equals;

	if (*text == '\0' || *text == '#' || *text == ';')
		return 0;
	if (*text == '[')
		return open_section(r, text);
	equals = strchr(text, '=');
	if (equals == NULL || equals == text)
		return wrong(r, "neither [section] nor key = value");
	*equals = '\0';
	return set(r, strip(text), strip(equals + 1));
}

static int read_stream(struct reader *r, FILE *file)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int ret = 0;

	while (ret == 0 && (n = getline(&line, &room, file)) >= 0) {
		r->line++;
		if (memchr(line, '\0', (size_t)n) != NULL)
			ret = wrong(r, "a NUL byte: this is no text");
		else
			ret = read_line(r, line);
	}
	if (ret == 0 && ferror(file)) {
		wrong(r, "%s", strerror(errno));
		ret = -EIO;
	}
	free(line);
	return ret != 0 ? ret : end_section(r);
}

static int read_file(struct gm_config *config, const char *path,
		     bool must_exist, char *ret_why)
{
	struct reader r = { .config = config, .path = path, .why = ret_why };
	FILE *file = fopen(path, "re");
	int ret;

	if (file == NULL && errno == ENOENT && !must_exist)
		return 0;
	if (file == NULL) {
		ret = -errno;
		snprintf(ret_why, GM_CONFIG_WHY_BYTES, "%s: %s", path,
			 strerror(-ret));
		return ret;
	}
	r.keys = gm_config_keys(&r.n_keys);
	ret = read_stream(&r, file);
	fclose(file);
	return ret;
}

static int is_drop_in(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return entry->d_name[0] != '.' && n > 5 &&
	       strcmp(entry->d_name + n - 5, ".conf") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int read_drop_ins(struct gm_config *config, const char *path,
			 char *ret_why)
{
	char name[PATH_MAX];
	struct dirent **entries;
	int n, ret = 0;

	if (snprintf(name, sizeof(name), "%s.d", path) >= (int)sizeof(name))
		return 0;
	n = scandir(name, &entries, is_drop_in, by_name);
	if (n < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (n < 0) {
		ret = -errno;
		snprintf(ret_why, GM_CONFIG_WHY_BYTES, "%.*s: %s",
			 GM_CONFIG_WHY_BYTES / 2, name, strerror(-ret));
		return ret;
	}
	for (int i = 0; i < n; i++) {
		if (ret == 0 &&
		    snprintf(name, sizeof(name), "%s.d/%s", path,
			     entries[i]->d_name) < (int)sizeof(name))
			ret = read_file(config, name, true, ret_why);
		free(entries[i]);
	}
	free(entries);
	return ret;
}

/* The other key may be in a later file. */
static int check_models(const struct gm_config *config, char *ret_why)
{
	for (uint32_t i = 0; i < config->n_models; i++) {
		const struct gm_config_model *model = &config->models[i];

		if (model->users == NULL ||
		    config->cuda_share == GM_CONFIG_SHARE_ANY)
			continue;
		snprintf(ret_why, GM_CONFIG_WHY_BYTES,
			 "%s:%d: model %s is for other users, and sessions "
			 "share with their own uid: add share = any to [cuda], "
			 "or leave out users",
			 model->file, model->line, model->name);
		return -EINVAL;
	}
	return 0;
}

int gm_config_read(struct gm_config *config, const char *path, bool must_exist,
		   char ret_why[GM_CONFIG_WHY_BYTES])
{
	int ret = read_file(config, path, must_exist, ret_why);

	if (ret == 0)
		ret = read_drop_ins(config, path, ret_why);
	if (ret == 0)
		ret = check_models(config, ret_why);
	if (ret != 0 || config->worker_uid != (uid_t)-1)
		return ret;
	snprintf(ret_why, GM_CONFIG_WHY_BYTES,
		 "no uid is free for workers: make a user, as by useradd "
		 "--system gpumap, or name one as user in [worker] of "
		 "gpumapd.conf");
	return -EINVAL;
}

void gm_config_free(struct gm_config *config)
{
	for (uint32_t i = 0; i < config->n_maps; i++) {
		free(config->maps[i].name);
		free(config->maps[i].spec);
		free(config->maps[i].file);
	}
	free(config->maps);
	for (uint32_t i = 0; i < config->n_models; i++) {
		free(config->models[i].name);
		free(config->models[i].path);
		free(config->models[i].map);
		free(config->models[i].users);
		free(config->models[i].fingerprint);
		free(config->models[i].file);
	}
	free(config->models);
	config->models = NULL;
	config->n_models = 0;
	free(config->dummy_file);
	free(config->cuda_library);
	free(config->cuda_nccl_library);
	config->cuda_nccl_library = NULL;
	free(config->programs_directory);
	config->programs_directory = NULL;
	free(config->cuda_cache);
	free(config->cuda_pass);
	free(config->cuda_sysfs);
	config->dummy_file = NULL;
	config->cuda_library = config->cuda_cache = NULL;
	config->cuda_pass = config->cuda_sysfs = NULL;
	config->maps = NULL;
	config->n_maps = 0;
}
