/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/common/ini.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int gm_ini_wrong(const struct gm_ini *ini, const char *format, ...)
{
	va_list args;
	int n;

	n = snprintf(ini->why, GM_INI_WHY_BYTES, "%s:%d: ", ini->path,
		     ini->line);
	if (n < 0 || n >= GM_INI_WHY_BYTES)
		return -EINVAL;
	va_start(args, format);
	vsnprintf(ini->why + n, GM_INI_WHY_BYTES - (size_t)n, format, args);
	va_end(args);
	return -EINVAL;
}

char *gm_ini_strip(char *text)
{
	size_t n;

	text += strspn(text, GM_INI_BLANKS);
	n = strlen(text);
	while (n > 0 && strchr(GM_INI_BLANKS, text[n - 1]) != NULL)
		n--;
	text[n] = '\0';
	return text;
}

/* ---- sections and keys --------------------------------------------------- */

/* The names of a section's keys, or of all sections. */
static void list(const struct gm_ini *ini, const char *section, char *ret_list,
		 size_t bytes)
{
	const char *last = "";
	size_t n = 0;

	ret_list[0] = '\0';
	for (size_t i = 0; i < ini->n_keys && n < bytes; i++) {
		const struct gm_ini_key *key = &ini->keys[i];
		const char *name = section != NULL ? key->name : key->section;

		if (section != NULL ? strcmp(key->section, section) != 0
				    : strcmp(name, last) == 0)
			continue;
		n += (size_t)snprintf(ret_list + n, bytes - n, "%s%s",
				      n != 0 ? ", " : "", name);
		last = name;
	}
}

static int end_section(struct gm_ini *ini)
{
	int ret = ini->is_named ? ini->named->end(ini) : 0;

	ini->is_named = false;
	return ret;
}

static int no_section(const struct gm_ini *ini, const char *text)
{
	char names[128];

	list(ini, NULL, names, sizeof(names));
	return gm_ini_wrong(ini, "no section [%.40s]: there are %s%s%s", text,
			    names, ini->named != NULL ? ", " : "",
			    ini->named != NULL ? ini->named->names : "");
}

static int open_section(struct gm_ini *ini, char *text)
{
	char *end = strchr(text, ']');
	int ret;

	if (end == NULL || end[1] != '\0')
		return gm_ini_wrong(ini, "a section is one word%s",
				    ini->named != NULL
					    ? " or two: [host], [map NAME]"
					    : " in brackets: [store]");
	ret = end_section(ini);
	if (ret != 0)
		return ret;
	*end = '\0';
	text = gm_ini_strip(text + 1);
	if (ini->named != NULL) {
		ret = ini->named->open(ini, text);
		ini->is_named = ret == 1;
		if (ret != 0)
			return ret == 1 ? 0 : ret;
	}
	for (size_t i = 0; i < ini->n_keys; i++) {
		if (strcmp(ini->keys[i].section, text) != 0)
			continue;
		snprintf(ini->section, sizeof(ini->section), "%s", text);
		return 0;
	}
	return no_section(ini, text);
}

static int set(struct gm_ini *ini, const char *name, const char *value)
{
	char names[512];

	if (ini->is_named)
		return ini->named->set(ini, name, value);
	if (ini->section[0] == '\0')
		return gm_ini_wrong(
			ini, "%.40s stands before the first section", name);
	for (size_t i = 0; i < ini->n_keys; i++) {
		const struct gm_ini_key *key = &ini->keys[i];
		char right[GM_INI_RIGHT_BYTES];

		if (strcmp(key->section, ini->section) != 0 ||
		    strcmp(key->name, name) != 0)
			continue;
		if (gm_ini_value_set(ini->config, key, value, right) == 0)
			return 0;
		return gm_ini_wrong(ini, "%s = %.40s: %s", name, value, right);
	}
	list(ini, ini->section, names, sizeof(names));
	return gm_ini_wrong(ini, "[%s] has no key %.40s: it has %s",
			    ini->section, name, names);
}

/* ---- lines and files ----------------------------------------------------- */

static int read_line(struct gm_ini *ini, char *line)
{
	char *text = gm_ini_strip(line);
	char *equals;

	if (*text == '\0' || *text == '#' || *text == ';')
		return 0;
	if (*text == '[')
		return open_section(ini, text);
	equals = strchr(text, '=');
	if (equals == NULL || equals == text)
		return gm_ini_wrong(ini, "neither [section] nor key = value");
	*equals = '\0';
	return set(ini, gm_ini_strip(text), gm_ini_strip(equals + 1));
}

static int read_stream(struct gm_ini *ini, FILE *file)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int ret = 0;

	while (ret == 0 && (n = getline(&line, &room, file)) >= 0) {
		ini->line++;
		if (memchr(line, '\0', (size_t)n) != NULL)
			ret = gm_ini_wrong(ini, "a NUL byte: this is no text");
		else
			ret = read_line(ini, line);
	}
	if (ret == 0 && ferror(file)) {
		gm_ini_wrong(ini, "%s", strerror(errno));
		ret = -EIO;
	}
	free(line);
	return ret != 0 ? ret : end_section(ini);
}

static int read_file(struct gm_ini *ini, const char *path, bool must_exist)
{
	FILE *file = fopen(path, "re");
	int ret;

	if (file == NULL && errno == ENOENT && !must_exist)
		return 0;
	if (file == NULL) {
		ret = -errno;
		snprintf(ini->why, GM_INI_WHY_BYTES, "%s: %s", path,
			 strerror(-ret));
		return ret;
	}
	ini->path = path;
	ini->line = 0;
	ini->section[0] = '\0';
	ini->is_named = false;
	ret = read_stream(ini, file);
	fclose(file);
	ini->n_files++;
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

static int read_drop_ins(struct gm_ini *ini, const char *path)
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
		snprintf(ini->why, GM_INI_WHY_BYTES, "%.*s: %s",
			 GM_INI_WHY_BYTES / 2, name, strerror(-ret));
		return ret;
	}
	for (int i = 0; i < n; i++) {
		if (ret == 0 &&
		    snprintf(name, sizeof(name), "%s.d/%s", path,
			     entries[i]->d_name) < (int)sizeof(name))
			ret = read_file(ini, name, true);
		free(entries[i]);
	}
	free(entries);
	return ret;
}

int gm_ini_read(struct gm_ini *ini, const char *path, bool must_exist,
		char ret_why[GM_INI_WHY_BYTES])
{
	int ret;

	ini->why = ret_why;
	ret = read_file(ini, path, must_exist);
	if (ret == 0)
		ret = read_drop_ins(ini, path);
	return ret != 0 ? ret : ini->n_files;
}
