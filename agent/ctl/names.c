/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Name users and processes. */

#include "agent/ctl/ctl.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A process chooses its own name: let no terminal obey it. */
static void make_plain(char *text)
{
	text[strcspn(text, "\n")] = '\0';
	for (; *text != '\0'; text++)
		if (*text <= ' ' || *text > '~')
			*text = '?';
}

const char *gm_ctl_user(uint32_t uid, char ret_text[GM_CTL_NAME])
{
	const struct passwd *user = getpwuid((uid_t)uid);

	if (user != NULL)
		snprintf(ret_text, GM_CTL_NAME, "%s", user->pw_name);
	else
		snprintf(ret_text, GM_CTL_NAME, "%u", uid);
	make_plain(ret_text);
	return ret_text;
}

static bool read_name(uint32_t pid, char ret_text[GM_CTL_NAME])
{
	char path[32];
	FILE *file;
	bool got;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	got = fgets(ret_text, GM_CTL_NAME, file) != NULL;
	fclose(file);
	if (got)
		make_plain(ret_text);
	return got;
}

/* Pids are those of the agent's pid namespace.  Is this process there, too?
 * Then the agent's own pid leads to an agent. */
static bool sees_processes(const struct gm_ctl *ctl)
{
	struct gpumap_health health = { .size = sizeof(health) };
	char name[GM_CTL_NAME];

	return gpumap_health(ctl->map, &health) == 0 &&
	       read_name(health.agent_pid, name) &&
	       strstr(name, "gpumapd") != NULL;
}

/* A pid may have gone to another process: that of the same user may be named,
 * as nothing tells the two apart. */
static bool is_of(uint32_t pid, uint32_t uid)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u", pid);
	return stat(path, &st) == 0 && (st.st_uid == uid || st.st_uid == 0);
}

const char *gm_ctl_command(const struct gm_ctl *ctl, uint32_t pid, uint32_t uid,
			   char ret_text[GM_CTL_NAME])
{
	if (pid == 0 || !is_of(pid, uid) || !sees_processes(ctl) ||
	    !read_name(pid, ret_text))
		strcpy(ret_text, "-");
	return ret_text;
}

/* Arguments end with NULs. */
static bool read_line(uint32_t pid, char ret_text[GM_CTL_LINE])
{
	char path[32];
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	n = fread(ret_text, 1, GM_CTL_LINE - 1, file);
	fclose(file);
	while (n > 0 && ret_text[n - 1] == '\0')
		n--;
	for (size_t i = 0; i < n; i++)
		if (ret_text[i] < ' ' || ret_text[i] > '~')
			ret_text[i] = ret_text[i] == '\0' ? ' ' : '?';
	ret_text[n] = '\0';
	return n > 0;
}

const char *gm_ctl_command_line(const struct gm_ctl *ctl, uint32_t pid,
				uint32_t uid, char ret_text[GM_CTL_LINE])
{
	if (pid == 0 || !is_of(pid, uid) || !sees_processes(ctl) ||
	    !read_line(pid, ret_text))
		strcpy(ret_text, "-");
	return ret_text;
}

void gm_ctl_name_json(const struct gm_ctl *ctl, json_t *object, uint32_t uid,
		      uint32_t pid)
{
	char text[GM_CTL_NAME];

	json_object_set_new(object, "user",
			    json_string(gm_ctl_user(uid, text)));
	gm_ctl_command(ctl, pid, uid, text);
	json_object_set_new(object, "command",
			    strcmp(text, "-") != 0 ? json_string(text)
						   : json_null());
}
