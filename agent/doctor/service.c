/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "agent/common/read_file.h"
#include "agent/doctor/doctor.h"
#include "agent/plan/size_text.h"

#define STATE_DIR "/var/lib/gpumap"

/* ---- the map ------------------------------------------------------------- */

static void look_at_map(const struct gm_doctor *d, struct gm_finding *f)
{
	if (d->map == NULL)
		gm_finding_fail(f,
				"systemctl start gpumapd, or gpumapd; "
				"--instance and --runtime-dir name another",
				"%s", d->not_attached);
	else
		gm_finding_pass(f, "the map of instance %s is there",
				d->instance);
}

static void look_at_state(const struct gm_doctor *d, struct gm_finding *f)
{
	const struct gpumap_health *h = &d->health;

	if (d->map == NULL)
		gm_finding_skip(f, "there is no map");
	else if (h->stale)
		gm_finding_fail(f,
				"systemctl status gpumapd; journalctl -u "
				"gpumapd",
				"the agent has not been seen for %.1f s",
				(double)h->age_ns / 1e9);
	else if (h->state != GPUMAP_READY)
		gm_finding_fail(f, "gpumapctl wait; journalctl -u gpumapd",
				"the agent does not take requests: it is %s",
				h->state == GPUMAP_STARTING ? "starting"
							    : "ending");
	else
		gm_finding_pass(f, "the agent was seen %.1f s ago",
				(double)h->age_ns / 1e9);
}

static void look_at_versions(const struct gm_doctor *d, struct gm_finding *f)
{
	uint32_t agent = d->health.agent_version, ours = gpumap_version();

	if (d->map == NULL)
		gm_finding_skip(f, "there is no map");
	else if (agent != ours)
		gm_finding_warn(f,
				"upgrade the older one, and restart it: its "
				"features are those that both have",
				"the agent is of version %u.%u.%u, and this "
				"libgpumap of %u.%u.%u",
				agent / 10000, agent / 100 % 100, agent % 100,
				ours / 10000, ours / 100 % 100, ours % 100);
	else
		gm_finding_pass(f, "the agent and this libgpumap are of one "
				   "version");
}

static void look_at_socket(const struct gm_doctor *d, struct gm_finding *f)
{
	int ret;

	if (d->map == NULL || d->health.stale) {
		gm_finding_skip(f, "there is no agent");
		return;
	}
	ret = gpumap_wait_list(d->map, NULL, 0);
	if (ret >= 0)
		gm_finding_pass(f, "the agent answers this user");
	else if (ret == -EACCES)
		gm_finding_fail(f,
				"usermod -aG gpumap USER and log in again, or "
				"group and mode of [socket] in gpumapd.conf",
				"this user may not talk to the agent");
	else
		gm_finding_fail(f, "journalctl -u gpumapd", "%s",
				gpumap_strerror(ret));
}

/* ---- folders ------------------------------------------------------------- */

static void look_at_runtime_dir(const struct gm_doctor *d, struct gm_finding *f)
{
	struct stat st;

	if (stat(d->runtime_dir, &st) != 0)
		gm_finding_warn(
			f,
			"start the agent, or mount the folder into "
			"this container",
			"%s: %s: the agent cannot be asked for anything",
			d->runtime_dir, strerror(errno));
	else if ((st.st_mode & 0022) != 0)
		gm_finding_fail(f, "chmod 0711 the folder",
				"others may write %s, and answer in the "
				"agent's place",
				d->runtime_dir);
	else if ((st.st_mode & 0044) != 0)
		gm_finding_warn(f, "chmod 0711 the folder",
				"others may list %s, and hold its lock",
				d->runtime_dir);
	else
		gm_finding_pass(f, "%s has mode %04o", d->runtime_dir,
				(unsigned int)st.st_mode & 07777);
}

/* The value of --state-dir on the agent's command line, or the default. */
static void find_state_dir(const struct gm_doctor *d, char *ret_path,
			   size_t bytes)
{
	static const char option[] = "--state-dir";
	char path[PATH_MAX], words[4096];
	int n = -1;

	snprintf(ret_path, bytes, "%s", STATE_DIR);
	if (d->agent != 0 &&
	    gm_read_file_path(path, sizeof(path), d->root, "/proc/%d/cmdline",
			      (int)d->agent) == 0)
		n = gm_read_file(path, words, sizeof(words));
	for (char *w = words; w < words + n; w += strlen(w) + 1) {
		if (strncmp(w, option, sizeof(option) - 1) != 0)
			continue;
		w += sizeof(option) - 1; /* at the = or the NUL */
		if (w + 1 < words + n)
			snprintf(ret_path, bytes, "%s", w + 1);
		return;
	}
}

static void look_at_state_dir(const struct gm_doctor *d, struct gm_finding *f)
{
	char path[512], room[GM_SIZE_TEXT];
	struct statvfs space;
	uint64_t left;

	find_state_dir(d, path, sizeof(path));
	if (statvfs(path, &space) != 0) {
		gm_finding_skip(f, "%s: %s", path, strerror(errno));
		return;
	}
	left = (uint64_t)space.f_bavail * space.f_frsize;
	gm_size_text(left, room);
	if ((space.f_flag & ST_RDONLY) != 0)
		gm_finding_fail(f,
				"mount it to be written, or give --state-dir "
				"another",
				"%s is read-only: published maps do not "
				"outlast the agent",
				path);
	else if (left < UINT64_C(16) << 20)
		gm_finding_fail(f, "free some of the disk",
				"%s has %s left: publications will be refused",
				path, room);
	else
		gm_finding_pass(f, "%s has %s left", path, room);
}

/* ---- limits -------------------------------------------------------------- */

/* The soft limit of the agent that is called @name; UINT64_MAX: none. */
static bool find_limit(const struct gm_doctor *d, const char *name,
		       uint64_t *ret_limit)
{
	char path[48], text[4096];
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/limits", (int)d->agent);
	if (d->agent == 0 || !gm_doctor_file(d, path, text, sizeof(text)))
		return false;
	line = strstr(text, name);
	if (line == NULL)
		return false;
	line += strlen(name);
	line += strspn(line, " ");
	*ret_limit = UINT64_MAX;
	return strncmp(line, "unlimited", 9) == 0 ||
	       sscanf(line, "%" SCNu64, ret_limit) == 1;
}

static void look_at_memlock(const struct gm_doctor *d, struct gm_finding *f)
{
	char text[GM_SIZE_TEXT];
	uint64_t limit;

	if (!find_limit(d, "Max locked memory", &limit))
		gm_finding_skip(f, "the agent's limits are not seen");
	else if (limit < UINT64_C(64) << 20)
		gm_finding_warn(f,
				"LimitMEMLOCK=infinity, ulimit -l unlimited, "
				"docker --ulimit memlock=-1",
				"the agent may lock %s: cards copy from locked "
				"memory",
				gm_size_text(limit, text));
	else
		gm_finding_pass(f, "the agent may lock %s of memory",
				limit == UINT64_MAX
					? "any amount"
					: gm_size_text(limit, text));
}

static void look_at_nofile(const struct gm_doctor *d, struct gm_finding *f)
{
	uint64_t limit;

	if (!find_limit(d, "Max open files", &limit))
		gm_finding_skip(f, "the agent's limits are not seen");
	else if (limit < 65536)
		gm_finding_warn(f, "LimitNOFILE=524288, ulimit -n 524288",
				"the agent may have %" PRIu64
				" descriptors: each session and buffer takes "
				"some",
				limit);
	else
		gm_finding_pass(f, "the agent may have %" PRIu64 " descriptors",
				limit);
}

/* The number in a file of the agent's control group; -1: none. */
static int64_t group_limit(const struct gm_doctor *d, const char *file)
{
	char path[1100], group[512];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)d->agent);
	if (d->agent == 0 || !gm_doctor_line(d, path, group, sizeof(group)) ||
	    strncmp(group, "0::", 3) != 0)
		return -1;
	snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group + 3, file);
	return gm_doctor_number(d, path, -1);
}

static void look_at_group_memory(const struct gm_doctor *d,
				 struct gm_finding *f)
{
	int64_t limit = group_limit(d, "memory.max");
	uint64_t total = gm_doctor_meminfo(d, "MemTotal");
	char text[GM_SIZE_TEXT];

	if (d->agent == 0)
		gm_finding_skip(f, "the agent's control group is not seen");
	else if (limit >= 0 && (uint64_t)limit < total / 4)
		gm_finding_warn(f,
				"MemoryMax=infinity, or as much as host rows "
				"may hold",
				"the agent's control group may have %s: "
				"buffers of host rows are in it",
				gm_size_text((uint64_t)limit, text));
	else
		gm_finding_pass(f, "no control group keeps memory from the "
				   "agent");
}

static void look_at_group_pids(const struct gm_doctor *d, struct gm_finding *f)
{
	int64_t limit = group_limit(d, "pids.max");

	if (d->agent == 0)
		gm_finding_skip(f, "the agent's control group is not seen");
	else if (limit >= 0 && limit < 256)
		gm_finding_warn(f, "TasksMax=infinity, docker --pids-limit -1",
				"the agent's control group may have %" PRId64
				" threads",
				limit);
	else
		gm_finding_pass(f, "no control group keeps threads from the "
				   "agent");
}

static void look_at_oom(const struct gm_doctor *d, struct gm_finding *f)
{
	char path[48];
	int64_t score;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)d->agent);
	score = d->agent != 0 ? gm_doctor_number(d, path, INT64_MIN)
			      : INT64_MIN;
	if (score == INT64_MIN)
		gm_finding_skip(f, "the agent's score is not seen");
	else if (score >= 0)
		gm_finding_warn(f, "OOMScoreAdjust=-900, choom -n -900 -p PID",
				"a shortage of memory may end the agent: its "
				"oom_score_adj is %" PRId64,
				score);
	else
		gm_finding_pass(f, "the agent's oom_score_adj is %" PRId64,
				score);
}

const struct gm_check gm_doctor_service[] = {
	{ "agent.map", look_at_map },
	{ "agent.state", look_at_state },
	{ "agent.version", look_at_versions },
	{ "agent.socket", look_at_socket },
	{ "agent.runtime_dir", look_at_runtime_dir },
	{ "agent.state_dir", look_at_state_dir },
	{ "agent.memlock", look_at_memlock },
	{ "agent.descriptors", look_at_nofile },
	{ "agent.cgroup_memory", look_at_group_memory },
	{ "agent.cgroup_pids", look_at_group_pids },
	{ "agent.oom_score", look_at_oom },
	{ NULL, NULL },
};
