/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/config.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/common/cgroup.h"
#include "agent/common/wire.h"
#include "agent/daemon/config_keys.h"
#include "agent/daemon/worker_uid.h"
#include "shm/layout.h"

#define MAP_WORD   "map"
#define MODEL_WORD "model"

/* The section at hand. */
struct reader {
	struct gm_ini ini;
	struct gm_config *config;
	struct gm_config_map *map;     /* in [map NAME] */
	struct gm_config_model *model; /* in [model NAME] */
};

static struct reader *reader_of(struct gm_ini *ini)
{
	return (struct reader *)ini; /* its first field */
}

static int no_memory(const struct reader *r)
{
	gm_ini_wrong(&r->ini, "out of memory");
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
	user = getpwnam("gpumap-sync");
	config->cluster_uid = user != NULL ? user->pw_uid : (uid_t)-1;
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
		.nccl.limit_ns = UINT64_C(30000000000),
		.rccl.limit_ns = UINT64_C(30000000000),
		.cuda_look_again_ns = UINT64_C(60000000000),
		.cuda_idle_ns = UINT64_C(60000000000),
		.program_limit_ns = UINT64_C(60000000000),
		.image_bytes = UINT64_C(64) << 20,
		.cuda_standby = true,
		.spin_limit = GM_CONFIG_SPIN_AUTO,
	};
	for (uint32_t i = 0; i < GM_CONFIG_DRIVERS; i++)
		config->drivers[i] = (struct gm_config_driver){
			.enabled = GM_CONFIG_CUDA_OFF,
			.list_limit_ns = UINT64_C(10000000000),
			.cpu_memory = memory / 4,
		};
	find_people(config);
}

static int check_name(const struct reader *r, const char *word,
		      const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= GM_NAME_BYTES ||
	    strpbrk(name, GM_INI_BLANKS) != NULL)
		return gm_ini_wrong(&r->ini,
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
			return gm_ini_wrong(
				&r->ini, "map %s is described at %s:%d already",
				name, config->maps[i].file,
				config->maps[i].line);
	}
	maps = realloc(config->maps, (config->n_maps + 1) * sizeof(*maps));
	if (maps == NULL)
		return no_memory(r);
	config->maps = maps;
	r->map = &maps[config->n_maps];
	*r->map = (struct gm_config_map){ .name = strdup(name),
					  .file = strdup(r->ini.path),
					  .line = r->ini.line };
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
			return gm_ini_wrong(
				&r->ini, "model %s is listed at %s:%d already",
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
					      .file = strdup(r->ini.path),
					      .line = r->ini.line };
	config->n_models++;
	if (r->model->name == NULL || r->model->file == NULL)
		return no_memory(r);
	return 0;
}

static int end_named(struct gm_ini *ini)
{
	struct reader *r = reader_of(ini);

	if (r->model != NULL && r->model->path == NULL) {
		r->ini.line = r->model->line;
		return gm_ini_wrong(
			&r->ini, "model %s has no path: add path = /models/%s",
			r->model->name, r->model->name);
	}
	r->model = NULL;
	if (r->map != NULL && r->map->spec == NULL) {
		r->ini.line = r->map->line;
		return gm_ini_wrong(&r->ini,
				    "map %s has no spec: add spec = 0:16;1:16",
				    r->map->name);
	}
	r->map = NULL;
	return 0;
}

static int is_of(const char *section, const char *word)
{
	size_t n = strlen(word);

	return strncmp(section, word, n) == 0 &&
	       (section[n] == '\0' ||
		strchr(GM_INI_BLANKS, section[n]) != NULL);
}

static int set_map(struct reader *r, const char *name, const char *value)
{
	uint64_t layers;

	if (strcmp(name, "spec") == 0) {
		free(r->map->spec);
		r->map->spec = strdup(value);
		r->map->line = r->ini.line;
		return r->map->spec != NULL ? 0 : no_memory(r);
	}
	if (strcmp(name, "layers") != 0)
		return gm_ini_wrong(&r->ini,
				    "[map NAME] has no key %.40s: it has spec, "
				    "layers",
				    name);
	if (gm_ini_value_number(value, 1, GM_LAYERS_MAX, &layers) != 0)
		return gm_ini_wrong(&r->ini,
				    "layers = %.40s: a number from 1 to %u",
				    value, GM_LAYERS_MAX);
	r->map->layers = (uint32_t)layers;
	return 0;
}

static int set_model(struct reader *r, const char *name, const char *value)
{
	char right[GM_INI_RIGHT_BYTES];
	int ret = gm_config_set_model(r->model, name, value, right);

	if (ret == -ENOENT)
		return gm_ini_wrong(&r->ini,
				    "[model NAME] has no key %.40s: it has %s",
				    name, gm_config_model_keys);
	if (ret != 0)
		return gm_ini_wrong(&r->ini, "%s = %.40s: %s", name, value,
				    right);
	if (strcmp(name, "users") == 0)
		r->model->line = r->ini.line;
	return 0;
}

static int open_named(struct gm_ini *ini, char *text)
{
	struct reader *r = reader_of(ini);
	int ret;

	if (is_of(text, MAP_WORD))
		ret = add_map(r, gm_ini_strip(text + strlen(MAP_WORD)));
	else if (is_of(text, MODEL_WORD))
		ret = add_model(r, gm_ini_strip(text + strlen(MODEL_WORD)));
	else
		return 0;
	return ret != 0 ? ret : 1;
}

static int set_named(struct gm_ini *ini, const char *name, const char *value)
{
	struct reader *r = reader_of(ini);

	return r->map != NULL ? set_map(r, name, value)
			      : set_model(r, name, value);
}

static const struct gm_ini_named named = {
	.names = "map NAME and model NAME",
	.open = open_named,
	.set = set_named,
	.end = end_named,
};

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
	struct reader r = { .ini = { .named = &named, .config = config },
			    .config = config };
	int n, ret = 0;

	r.ini.keys = gm_config_keys(&r.ini.n_keys);
	n = gm_ini_read(&r.ini, path, must_exist, ret_why);
	if (n >= 0)
		ret = check_models(config, ret_why);
	if (n < 0 || ret != 0 || config->worker_uid != (uid_t)-1)
		return ret != 0 ? ret : n;
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
	free(config->nccl.library);
	free(config->rccl.library);
	config->nccl.library = config->rccl.library = NULL;
	free(config->programs_directory);
	config->programs_directory = NULL;
	free(config->cuda_cache);
	free(config->cuda_pass);
	free(config->cuda_sysfs);
	for (uint32_t i = 0; i < GM_CONFIG_DRIVERS; i++) {
		struct gm_config_driver *driver = &config->drivers[i];

		free(driver->cache);
		free(driver->devices);
		free(driver->vendors);
		free(driver->pass);
		driver->cache = driver->devices = NULL;
		driver->vendors = driver->pass = NULL;
	}
	config->dummy_file = NULL;
	config->cuda_library = config->cuda_cache = NULL;
	config->cuda_pass = config->cuda_sysfs = NULL;
	config->maps = NULL;
	config->n_maps = 0;
}
