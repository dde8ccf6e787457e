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

/* Read a file of a process.  Returns its bytes, up to @bytes - 1. */
static size_t read_of(uint32_t pid, const char *file, char *ret_text,
		      size_t bytes)
{
	char path[32];
	size_t n = 0;
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, file);
	from = fopen(path, "re");
	if (from != NULL) {
		n = fread(ret_text, 1, bytes - 1, from);
		fclose(from);
	}
	ret_text[n] = '\0';
	return n;
}

/* May process @pid be named?
 *
 * Pids are those of the agent's pid namespace.  Is this process there, too?
 * Then the agent's own pid leads to an agent.  And a pid may have gone to
 * another process: that of the same user may be named, as nothing tells the two
 * apart. */
static bool is_of(const struct gm_ctl *ctl, uint32_t pid, uint32_t uid)
{
	struct gpumap_health health = { .size = sizeof(health) };
	char text[GM_CTL_NAME];
	struct stat st;

	snprintf(text, sizeof(text), "/proc/%u", pid);
	return pid != 0 && stat(text, &st) == 0 &&
	       (st.st_uid == uid || st.st_uid == 0) &&
	       gpumap_health(ctl->map, &health) == 0 &&
	       read_of(health.agent_pid, "comm", text, sizeof(text)) > 0 &&
	       strstr(text, "gpumapd") != NULL;
}

const char *gm_ctl_command(const struct gm_ctl *ctl, uint32_t pid, uint32_t uid,
			   char ret_text[GM_CTL_NAME])
{
	if (!is_of(ctl, pid, uid) ||
	    read_of(pid, "comm", ret_text, GM_CTL_NAME) == 0)
		strcpy(ret_text, "-");
	make_plain(ret_text);
	return ret_text;
}

const char *gm_ctl_command_line(const struct gm_ctl *ctl, uint32_t pid,
				uint32_t uid, char ret_text[GM_CTL_LINE])
{
	size_t n = is_of(ctl, pid, uid)
			   ? read_of(pid, "cmdline", ret_text, GM_CTL_LINE)
			   : 0;

	/* Arguments end with NULs. */
	while (n > 0 && ret_text[n - 1] == '\0')
		n--;
	for (size_t i = 0; i < n; i++)
		if (ret_text[i] < ' ' || ret_text[i] > '~')
			ret_text[i] = ret_text[i] == '\0' ? ' ' : '?';
	strcpy(ret_text + n, n > 0 ? "" : "-");
	return ret_text;
}
