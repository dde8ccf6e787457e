/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* probe_tree - a test's own /sys and /proc. */
#ifndef GM_TEST_SUPPORT_SYSFS_TREE_H
#define GM_TEST_SUPPORT_SYSFS_TREE_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/tap.h"

static struct {
	char root[64];
} tree;

static inline bool tree_begin(void)
{
	strcpy(tree.root, "/tmp/gpumap-tree.XXXXXX");
	return OK(mkdtemp(tree.root) != NULL);
}

/* The path below the root, with every folder that leads there. */
static inline void tree_path(char path[512], const char *name)
{
	int n = snprintf(path, 512, "%s/", tree.root);

	for (; *name; name++) {
		path[n] = '\0';
		if (*name == '/')
			mkdir(path, 0755);
		path[n++] = *name;
	}
	path[n] = '\0';
}

static inline void tree_file(const char *name, const char *text)
{
	char path[512];
	FILE *file;

	tree_path(path, name);
	file = fopen(path, "w");
	if (!OK(file != NULL))
		return;
	fputs(text, file);
	fclose(file);
}

static inline void tree_link(const char *name, const char *target)
{
	char path[512];

	tree_path(path, name);
	EQ(symlink(target, path), 0);
}

static inline void tree_unlink(const char *name)
{
	char path[512];

	tree_path(path, name);
	EQ(unlink(path), 0);
}

static inline int tree_forget(const char *path, const struct stat *st, int type,
			      struct FTW *where)
{
	(void)st;
	(void)type;
	(void)where;
	return remove(path);
}

static inline void tree_end(void)
{
	EQ(nftw(tree.root, tree_forget, 8, FTW_DEPTH | FTW_PHYS), 0);
}

#endif
