/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* config: what each line means, and the exact words for lines that mean
 * nothing. */

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon/config.h"
#include "tests/support/tap.h"

static char dir[] = "/tmp/gpumap-config.XXXXXX";
static char path[64];

static void write_file(const char *name, const char *text, size_t bytes)
{
	FILE *file = fopen(name, "we");

	if (file == NULL || fwrite(text, 1, bytes, file) != bytes ||
	    fclose(file) != 0)
		exit(99);
}

static int n_files; /* read by the last read_text(), or its error */

static int read_text(struct gm_config *config, const char *text,
		     char why[GM_CONFIG_WHY_BYTES])
{
	write_file(path, text, strlen(text));
	gm_config_init(config);
	why[0] = '\0';
	n_files = gm_config_read(config, path, true, why);
	return n_files < 0 ? n_files : 0;
}

static const struct {
	const char *text;
	const char *why; /* behind the file's name */
} wrong[] = {
	{ "rows = 2\n", ":1: rows stands before the first section" },
	{ "[hosts]\n", ":1: no section [hosts]: there are agent, segment, "
		       "socket, worker, limits, host, jobs, load, cuda, "
		       "hip, opencl, vulkan, dummy, cluster, masks,"
		       " programs, spin, map NAME and model "
		       "NAME" },
	{ "[host]\nrow = 2\n",
	  ":2: [host] has no key row: it has cpus, enabled, rows" },
	{ "[host\n", ":1: a section is one word or two: [host], [map NAME]" },
	{ "[host] # all\n",
	  ":1: a section is one word or two: [host], [map NAME]" },
	{ "[host]\n\n# two\nrows\n", ":4: neither [section] nor key = value" },
	{ "[host]\n= 2\n", ":2: neither [section] nor key = value" },
	{ "[host]\nrows = two\n", ":2: rows = two: a number from 1 to 256" },
	{ "[host]\nrows = 0\n", ":2: rows = 0: a number from 1 to 256" },
	{ "[host]\nrows = 257\n", ":2: rows = 257: a number from 1 to 256" },
	{ "[host]\nrows = -1\n", ":2: rows = -1: a number from 1 to 256" },
	{ "[host]\nrows = 2 # two\n",
	  ":2: rows = 2 # two: a number from 1 to 256" },
	{ "[host]\nrows = 18446744073709551618\n",
	  ":2: rows = 18446744073709551618: a number from 1 to 256" },
	{ "[host]\nrows =\n", ":2: rows = : a number from 1 to 256" },
	{ "[host]\nenabled = true\n", ":2: enabled = true: yes or no" },
	{ "[host]\ncpus = 3-1\n", ":2: cpus = 3-1: a list of CPUs, as 0-3,8" },
	{ "[host]\ncpus =\n", ":2: cpus = : a list of CPUs, as 0-3,8" },
	{ "[segment]\nsize = 16 M\n",
	  ":2: size = 16 M: a size from 1M to 1G, as 4096, 64K, 16M or 1G" },
	{ "[segment]\nsize = 4K\n",
	  ":2: size = 4K: a size from 1M to 1G, as 4096, 64K, 16M or 1G" },
	{ "[segment]\nsize = 2G\n",
	  ":2: size = 2G: a size from 1M to 1G, as 4096, 64K, 16M or 1G" },
	{ "[segment]\nsize = 17179869184G\n",
	  ":2: size = 17179869184G: a size from 1M to 1G, as 4096, 64K, 16M "
	  "or 1G" },
	{ "[agent]\nrefresh = 1\n", ":2: refresh = 1: a time from 10ms to "
				    "3600s, as 500ms or 2s" },
	{ "[agent]\nrefresh = 5ms\n", ":2: refresh = 5ms: a time from 10ms to "
				      "3600s, as 500ms or 2s" },
	{ "[agent]\nnode = first\n",
	  ":2: node = first: auto, none, or a number from 0 to 255" },
	{ "[socket]\nmode = 668\n", ":2: mode = 668: an octal mode, as 0660" },
	{ "[socket]\nmode = 4755\n",
	  ":2: mode = 4755: an octal mode, as 0660" },
	{ "[socket]\ngroup = no-such-group\n",
	  ":2: group = no-such-group: a group of this machine, or its "
	  "number" },
	{ "[worker]\nuser = no-such-user\n",
	  ":2: user = no-such-user: a user of this machine, or its number" },
	{ "[worker]\nuser = 65534\n",
	  ":2: user = 65534: a user of its own, as useradd --system gpumap "
	  "makes one; others run processes as this one, which could kill "
	  "workers" },
	{ "[cluster]\nuser = no-such-user\n",
	  ":2: user = no-such-user: a user of this machine, or its number" },
	{ "[cuda]\nenabled = yes\n",
	  ":2: enabled = yes: auto, off or required" },
	{ "[cuda]\nshare = all\n", ":2: share = all: same-user or any" },
	{ "[programs]\npolicy = all\n",
	  ":2: policy = all: operators-only, same-user or any" },
	{ "[programs]\ndirectory = programs\n",
	  ":2: directory = programs: an absolute path" },
	{ "[jobs]\nslice = 8M\n",
	  ":2: slice = 8M: a size from 64K to 4M, as 4096, 64K, 16M or 1G" },
	{ "[cuda]\nidle = 5\n",
	  ":2: idle = 5: a time from 0ms to 86400s, as 500ms or 2s" },
	{ "[cuda]\nlist-limit = 0\n",
	  ":2: list-limit = 0: a time from 10ms to 3600s, as 500ms or 2s" },
	{ "[cuda]\nlibrary = lib\n", ":2: library = lib: an absolute path" },
	{ "[cuda]\npass-environment = A 2B\n",
	  ":2: pass-environment = A 2B: names of environment variables, with "
	  "blanks between them" },
	{ "[cuda]\npass-environment = A=1\n",
	  ":2: pass-environment = A=1: names of environment variables, with "
	  "blanks between them" },
	{ "[dummy]\nfile = node.yaml\n",
	  ":2: file = node.yaml: an absolute path" },
	{ "[dummy]\nfile =\n", ":2: file = : an absolute path" },
	{ "[spin]\nlimit = all\n",
	  ":2: limit = all: auto, or a number from 0 to 256" },
	{ "[map]\n", ":1: a map's name has 1 to 63 characters and no blanks: "
		     "[map NAME]" },
	{ "[map a b]\n", ":1: a map's name has 1 to 63 characters and no "
			 "blanks: [map NAME]" },
	{ "[map a]\nlayers = 3\n\n[host]\n",
	  ":1: map a has no spec: add spec = 0:16;1:16" },
	{ "[host]\n[map a]\n", ":2: map a has no spec: add spec = 0:16;1:16" },
	{ "[map a]\nspec = 0:1\nlayers = 0\n",
	  ":3: layers = 0: a number from 1 to 65536" },
	{ "[model]\n", ":1: a model's name has 1 to 63 characters and no "
		       "blanks: [model NAME]" },
	{ "[model a b]\n", ":1: a model's name has 1 to 63 characters and no "
			   "blanks: [model NAME]" },
	{ "[host]\n[model a]\n[host]\n",
	  ":2: model a has no path: add path = /models/a" },
	{ "[model a]\nmap = b\n",
	  ":1: model a has no path: add path = /models/a" },
	{ "[model a]\npath = models/a\n",
	  ":2: path = models/a: an absolute path" },
	{ "[model a]\nmap = b c\n",
	  ":2: map = b c: the name of a layer map, without blanks" },
	{ "[model a]\nmap =\n",
	  ":2: map = : the name of a layer map, without blanks" },
	{ "[model a]\nuser = no-such-user\n",
	  ":2: user = no-such-user: a user of this machine, or its number" },
	{ "[model a]\nusers = ann, bob\n",
	  ":2: users = ann, bob: any, or users with commas between them, as "
	  "ann,bob" },
	{ "[model a]\nusers = ann,,bob\n",
	  ":2: users = ann,,bob: any, or users with commas between them, as "
	  "ann,bob" },
	{ "[model a]\nusers =\n",
	  ":2: users = : any, or users with commas between them, as ann,bob" },
	{ "[model a]\nfingerprint = 12ab\n",
	  ":2: fingerprint = 12ab: 64 hexadecimal digits, not all of them 0" },
	{ "[model a]\nfingerprint = 00000000000000000000000000000000"
	  "00000000000000000000000000000000\n",
	  ":2: fingerprint = 0000000000000000000000000000000000000000: 64 "
	  "hexadecimal digits, not all of them 0" },
	{ "[model a]\nspec = 0:1\n",
	  ":2: [model NAME] has no key spec: it has path, map, user, users, "
	  "fingerprint" },
	{ "[model a]\npath = /a\n\nusers = ann\n[cuda]\nidle = 5s\n",
	  ":4: model a is for other users, and sessions share with their own "
	  "uid: add share = any to [cuda], or leave out users" },
	{ "[load]\nretry = 601s\n",
	  ":2: retry = 601s: a time from 10ms to 600s, as 500ms or 2s" },
	{ "[map a]\nrows = 2\n",
	  ":2: [map NAME] has no key rows: it has spec, layers" },
};

static void nonsense_is_explained(void)
{
	char why[GM_CONFIG_WHY_BYTES];
	struct gm_config config;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		EQ(read_text(&config, wrong[i].text, why), -EINVAL);
		OK(strncmp(why, path, strlen(path)) == 0);
		STR(why + strlen(path), wrong[i].why);
		gm_config_free(&config);
	}
}

static void second_map_names_the_first(void)
{
	char why[GM_CONFIG_WHY_BYTES], want[GM_CONFIG_WHY_BYTES];
	struct gm_config config;

	EQ(read_text(&config, "[map a]\nspec = 0:1\n[map a]\n", why), -EINVAL);
	snprintf(want, sizeof(want), "%s:3: map a is described at %s:2 already",
		 path, path);
	STR(why, want);
	gm_config_free(&config);
}

static void lines_mean_what_they_say(void)
{
	static const char text[] =
		"; two sorts of\n# comments\n\n[agent]\nnode=1\nrefresh=250ms\n"
		"  drain = 2s  \r\n[segment]\nsize = 1M\n[socket]\nmode = 600\n"
		"[host]\nenabled = no\nrows = 4\ncpus = 0-1,4\n[spin]\n"
		"limit = 3\n[limits]\narena = 1T\npins-per-uid = 0\n"
		"[map meta/llama-70b]\nspec = 0:40 ; 1:40\nlayers = 80\n"
		"[map b]\nspec = 7\n[spin]\nlimit = auto\n";
	char why[GM_CONFIG_WHY_BYTES];
	struct gm_config config;

	if (!EQ(read_text(&config, text, why), 0)) {
		NOTE("%s", why);
		return;
	}
	EQ(config.node, 1);
	EQ(config.refresh_ns, 250000000);
	EQ(config.drain_ns, 2000000000);
	EQ(config.segment_bytes, 1 << 20);
	EQ(config.socket_mode, 0600);
	OK(!config.host_enabled);
	EQ(config.host_rows, 4);
	OK(config.host_cpus_set && gm_idset_count(&config.host_cpus) == 3);
	EQ(config.spin_limit, GM_CONFIG_SPIN_AUTO);
	EQ(config.arena_bytes, INT64_C(1) << 40);
	EQ(config.pins_per_uid, 0);
	EQ(config.n_maps, 2);
	STR(config.maps[0].name, "meta/llama-70b");
	STR(config.maps[0].spec, "0:40 ; 1:40");
	EQ(config.maps[0].layers, 80);
	EQ(config.maps[0].line, 22);
	STR(config.maps[1].spec, "7");
	EQ(config.maps[1].layers, 0);
	gm_config_free(&config);
}

static void cuda_has_its_keys(void)
{
	static const char text[] =
		"[cuda]\nenabled = required\nshare = any\nlist-limit = 1s\n"
		"idle = 0\nkernel-limit = 90s\nmps = yes\nstandby = no\n"
		"library = /opt/compat\ncache = /var/cache/gpumap\n"
		"nccl = yes\nnccl-library = /opt/nccl\nnccl-limit = 2s\n"
		"pass-environment = A_1 \t_b\nsysfs = /tmp/sys\n";
	char why[GM_CONFIG_WHY_BYTES];
	struct gm_config config;

	EQ(read_text(&config, "", why), 0);
	EQ(config.cuda_enabled, GM_CONFIG_CUDA_AUTO);
	EQ(config.slice_bytes, 1 << 20);
	EQ(config.cuda_share, GM_CONFIG_SHARE_SAME_USER);
	EQ(config.cuda_kernel_limit_ns, 0);
	OK(config.cuda_standby && !config.cuda_mps);
	OK(config.cuda_library == NULL && config.cuda_pass == NULL);
	EQ(config.nccl.may, GM_CONFIG_NCCL_AUTO);
	OK(config.nccl.library == NULL);
	EQ(config.nccl.limit_ns, 30000000000);
	gm_config_free(&config);

	if (!EQ(read_text(&config, text, why), 0)) {
		NOTE("%s", why);
		return;
	}
	EQ(config.cuda_enabled, GM_CONFIG_CUDA_REQUIRED);
	EQ(config.cuda_share, GM_CONFIG_SHARE_ANY);
	EQ(config.cuda_list_limit_ns, 1000000000);
	EQ(config.cuda_idle_ns, 0);
	EQ(config.cuda_kernel_limit_ns, 90000000000);
	OK(!config.cuda_standby && config.cuda_mps);
	EQ(config.nccl.may, GM_CONFIG_NCCL_YES);
	STR(config.nccl.library, "/opt/nccl");
	EQ(config.nccl.limit_ns, 2000000000);
	STR(config.cuda_library, "/opt/compat");
	STR(config.cuda_cache, "/var/cache/gpumap");
	STR(config.cuda_pass, "A_1 \t_b");
	STR(config.cuda_sysfs, "/tmp/sys");
	gm_config_free(&config);
}

static void drivers_have_their_keys(void)
{
	static const char text[] = "[hip]\nenabled = required\n"
				   "library = /opt/rocm/lib\n"
				   "devices = GPU-0011223344556677 "
				   "0000:0d:00.0\n"
				   "rccl = no\nrccl-library = /opt/rccl\n"
				   "rccl-limit = 3s\n"
				   "[vulkan]\nvendors = /tmp\ncache = /v\n";
	char why[GM_CONFIG_WHY_BYTES];
	const struct gm_config_driver *of;
	struct gm_config config;

	if (!EQ(read_text(&config, text, why), 0)) {
		NOTE("%s", why);
		return;
	}
	of = &config.drivers[GM_CONFIG_HIP];
	EQ(of->enabled, GM_CONFIG_CUDA_REQUIRED);
	STR(of->vendors, "/opt/rocm/lib");
	STR(of->devices, "GPU-0011223344556677 0000:0d:00.0");
	OK(of->cache == NULL);
	EQ(config.rccl.may, GM_CONFIG_NCCL_NO);
	STR(config.rccl.library, "/opt/rccl");
	EQ(config.rccl.limit_ns, 3000000000);
	EQ(config.nccl.may, GM_CONFIG_NCCL_AUTO);
	of = &config.drivers[GM_CONFIG_VULKAN];
	EQ(of->enabled, GM_CONFIG_CUDA_OFF);
	STR(of->vendors, "/tmp");
	STR(of->cache, "/v");
	gm_config_free(&config);
	EQ(read_text(&config, "[hip]\nvendors = /tmp\n", why), -EINVAL);
	OK(strstr(why, "[hip] has no key vendors") != NULL);
	gm_config_free(&config);
}

/* Not even two of them, and all together leave the machine something. */
static void no_user_may_take_everything(void)
{
	char why[GM_CONFIG_WHY_BYTES];
	struct gm_config config;
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			  (uint64_t)sysconf(_SC_PAGESIZE);

	EQ(read_text(&config, "", why), 0);
	EQ(config.reserve_per_uid, 50);
	EQ(config.node, GM_CONFIG_NODE_AUTO);
	OK(config.arena_bytes <= memory / 2);
	OK(config.arena_bytes_per_uid <= memory / 2);
	OK(config.arena_bytes_of_all > config.arena_bytes_per_uid);
	OK(config.arena_bytes_of_all <= memory / 4 * 3);
	gm_config_free(&config);
	EQ(read_text(&config, "[agent]\nnode = none\n", why), 0);
	EQ(config.node, GM_CONFIG_NODE_NONE);
	gm_config_free(&config);
	EQ(read_text(&config, "[limits]\narenas = 8G\n", why), 0);
	EQ(config.arena_bytes_of_all, INT64_C(8) << 30);
	gm_config_free(&config);
}

/* Many a program runs as uid 65534, and would be able to kill workers. */
static void workers_are_no_other_user(void)
{
	char why[GM_CONFIG_WHY_BYTES];
	struct gm_config config;

	EQ(read_text(&config, "", why), 0);
	OK(config.worker_uid != 65534);
	if (geteuid() != 0) {
		EQ(config.worker_uid, geteuid());
		OK(!config.worker_is_unnamed);
	} else {
		EQ(config.worker_is_unnamed, getpwnam("gpumap") == NULL);
		OK(config.worker_uid != 0);
	}
	gm_config_free(&config);
	EQ(read_text(&config, "[worker]\nuser = 0\n", why), 0);
	EQ(config.worker_uid, 0);
	OK(!config.worker_is_unnamed);
	gm_config_free(&config);

	write_file(path, "", 0);
	gm_config_init(&config);
	config.worker_uid = (uid_t)-1;
	EQ(gm_config_read(&config, path, true, why), -EINVAL);
	STR(why, "no uid is free for workers: make a user, as by useradd "
		 "--system gpumap, or name one as user in [worker] of "
		 "gpumapd.conf");
	gm_config_free(&config);
}

/* No user, unless there is the one that gpumap-sync runs as. */
static void one_user_may_publish_nodes(void)
{
	const struct passwd *user = getpwnam("gpumap-sync");
	char why[GM_CONFIG_WHY_BYTES];
	struct gm_config config;

	EQ(read_text(&config, "", why), 0);
	OK(config.cluster_uid == (user != NULL ? user->pw_uid : (uid_t)-1));
	gm_config_free(&config);
	EQ(read_text(&config, "[cluster]\nuser = root\n", why), 0);
	EQ(config.cluster_uid, 0);
	gm_config_free(&config);
	EQ(read_text(&config, "[cluster]\nuser = 65534\n", why), 0);
	EQ(config.cluster_uid, 65534);
	gm_config_free(&config);
}

static void long_specs_are_whole(void)
{
	char text[8192] = "[map a]\nspec = ", why[GM_CONFIG_WHY_BYTES];
	struct gm_config config;
	size_t n = strlen(text), from = n;

	for (int row = 0; row < 250; row++)
		n += (size_t)sprintf(text + n, "%s%d:10", row ? ";" : "", row);
	EQ(read_text(&config, text, why), 0);
	if (EQ(config.n_maps, 1))
		STR(config.maps[0].spec, text + from);
	gm_config_free(&config);
}

static void no_text_is_refused(void)
{
	char why[GM_CONFIG_WHY_BYTES] = "";
	struct gm_config config;

	write_file(path, "[host]\nrows\0= 2\n", 16);
	gm_config_init(&config);
	EQ(gm_config_read(&config, path, true, why), -EINVAL);
	STR(why + strlen(path), ":2: a NUL byte: this is no text");
	gm_config_free(&config);
}

static void drop_ins_come_in_order(void)
{
	char name[96], why[GM_CONFIG_WHY_BYTES] = "";
	struct gm_config config;

	snprintf(name, sizeof(name), "%s.d", path);
	mkdir(name, 0755);
	snprintf(name, sizeof(name), "%s.d/20-b.conf", path);
	write_file(name, "[host]\nrows = 8\n", 16);
	snprintf(name, sizeof(name), "%s.d/10-a.conf", path);
	write_file(name, "[host]\nrows = 6\nenabled = no\n", 29);
	snprintf(name, sizeof(name), "%s.d/30-c.conf~", path);
	write_file(name, "nonsense\n", 9);
	EQ(read_text(&config, "[host]\nrows = 2\n", why), 0);
	EQ(n_files, 3);
	EQ(config.host_rows, 8);
	OK(!config.host_enabled);
	gm_config_free(&config);

	snprintf(name, sizeof(name), "%s.d/20-b.conf", path);
	write_file(name, "nonsense\n", 9);
	EQ(read_text(&config, "", why), -EINVAL);
	OK(strstr(why, "/gpumapd.conf.d/20-b.conf:1: neither") != NULL);
	gm_config_free(&config);
}

static void missing_file_is_told_when_asked_for(void)
{
	char why[GM_CONFIG_WHY_BYTES] = "";
	struct gm_config config;

	gm_config_init(&config);
	EQ(gm_config_read(&config, "/nonexistent/gpumapd.conf", false, why), 0);
	EQ(gm_config_read(&config, "/nonexistent/gpumapd.conf", true, why),
	   -ENOENT);
	STR(why, "/nonexistent/gpumapd.conf: No such file or directory");
	gm_config_free(&config);
}

static void clean(void)
{
	static const char *const names[] = { ".d/10-a.conf", ".d/20-b.conf",
					     ".d/30-c.conf~", ".d", "" };
	char name[96];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", path, names[i]);
		remove(name);
	}
	rmdir(dir);
}

static void models_are_listed(void)
{
	static const char text[] =
		"[model meta/llama-70b]\npath = /models/llama\nmap = two\n"
		"users = ann,61000\n[model b]\npath = /models/b\n"
		"path = /models/c\nusers = any\nfingerprint = "
		"00000000000000000000000000000000"
		"0000000000000000000000000000aBc0\n[load]\nretry = 50ms\n"
		"[cuda]\nshare = any\n";
	char why[GM_CONFIG_WHY_BYTES], own[32 + 64];
	struct gm_config config;

	EQ(read_text(&config, text, why), 0);
	STR(why, "");
	if (EQ(config.n_models, 2)) {
		STR(config.models[0].name, "meta/llama-70b");
		STR(config.models[0].path, "/models/llama");
		STR(config.models[0].map, "two");
		STR(config.models[0].users, "ann,61000");
		EQ(config.models[0].uid, geteuid());
		EQ(config.models[0].line, 4);
		STR(config.models[1].path, "/models/c");
		OK(config.models[1].map == NULL);
		STR(config.models[1].users, "any");
		OK(config.models[0].fingerprint == NULL);
		EQ(strlen(config.models[1].fingerprint), 64);
	}
	EQ(config.load_retry_ns, 50000000);
	gm_config_free(&config);

	EQ(read_text(&config, "[model a]\npath = /a\n[model a]\n", why),
	   -EINVAL);
	OK(strstr(why, ":3: model a is listed at ") != NULL);
	OK(strstr(why, ":1 already") != NULL);
	gm_config_free(&config);

	snprintf(own, sizeof(own), "[model a]\npath = /a\nuser = %u\n",
		 (unsigned)geteuid());
	if (getpwuid(geteuid()) == NULL) {
		SKIP(1, "this user has no name");
		return;
	}
	EQ(read_text(&config, own, why), 0);
	gm_config_free(&config);
	if (geteuid() == 0) {
		EQ(read_text(&config, "[model a]\npath = /a\nuser = 65534\n",
			     why),
		   0);
		EQ(config.models[0].uid, 65534);
	} else {
		EQ(read_text(&config, "[model a]\npath = /a\nuser = root\n",
			     why),
		   -EINVAL);
		OK(strstr(why, "leave it out") != NULL);
	}
	gm_config_free(&config);
}

TAP_CASE()
{
	if (mkdtemp(dir) == NULL)
		return 99;
	snprintf(path, sizeof(path), "%s/gpumapd.conf", dir);
	nonsense_is_explained();
	second_map_names_the_first();
	models_are_listed();
	lines_mean_what_they_say();
	cuda_has_its_keys();
	drivers_have_their_keys();
	no_user_may_take_everything();
	workers_are_no_other_user();
	one_user_may_publish_nodes();
	long_specs_are_whole();
	no_text_is_refused();
	drop_ins_come_in_order();
	missing_file_is_told_when_asked_for();
	clean();
	return tap_done();
}
