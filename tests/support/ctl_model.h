/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* ctl_model.h - a model's directory, as gpumapctl is given it: config.json and
 * one safetensors file whose data is a hole. */
#ifndef GM_TEST_SUPPORT_CTL_MODEL_H
#define GM_TEST_SUPPORT_CTL_MODEL_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/tap.h"

static char model[128]; /* the directory */

static inline void in_model(char ret_path[192], const char *name)
{
	snprintf(ret_path, 192, "%s/%s", model, name);
}

static inline void remove_model(void)
{
	DIR *dir = opendir(model);
	struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir != NULL)
		closedir(dir);
	rmdir(model);
}

/* @n bytes of @text, and a hole behind them up to @bytes. */
static inline void write_file(const char *name, const void *text, size_t n,
			      off_t bytes)
{
	char path[192];
	FILE *file;

	in_model(path, name);
	file = fopen(path, "we");
	OK(file != NULL && fwrite(text, 1, n, file) == n && fflush(file) == 0 &&
	   ftruncate(fileno(file), bytes) == 0);
	if (file != NULL)
		fclose(file);
}

/* @header is of the safetensors file, with @data_bytes behind it. */
static inline void write_model(const char *config, const char *header,
			       off_t data_bytes)
{
	char whole[8 + 4096] = { 0 };
	size_t n = strlen(header);

	whole[0] = (char)(n % 256);
	whole[1] = (char)(n / 256);
	snprintf(whole + 8, sizeof(whole) - 8, "%s", header);
	EQ(mkdir(model, 0700), 0);
	write_file("config.json", config, strlen(config),
		   (off_t)strlen(config));
	write_file("model.safetensors", whole, 8 + n,
		   (off_t)(8 + n) + data_bytes);
}

#endif
