/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * library_dirs - folders of a test's own with libraries in them.
 *
 * The libraries are copies, not links: the linker tells libraries apart by
 * their file, and the search checks the folder that a link leads to.
 */
#ifndef GM_TEST_SUPPORT_LIBRARY_DIRS_H
#define GM_TEST_SUPPORT_LIBRARY_DIRS_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char shelf_root[64];

struct shelf_path {
	char text[192];
};

static inline struct shelf_path shelf_path(const char *below)
{
	struct shelf_path path;

	snprintf(path.text, sizeof(path.text), "%s/%s", shelf_root, below);
	return path;
}

static inline void shelf_remove(void)
{
	char command[128];

	if (!shelf_root[0])
		return;
	snprintf(command, sizeof(command), "rm -rf '%s'", shelf_root);
	if (system(command) != 0)
		fprintf(stderr, "%s is left behind\n", shelf_root);
}

/* A folder that goes away with the process that made it. */
static inline bool shelf_make(void)
{
	strcpy(shelf_root, "/tmp/gpumap-test.shelf.XXXXXX");
	if (!mkdtemp(shelf_root)) {
		shelf_root[0] = '\0';
		return false;
	}
	atexit(shelf_remove);
	return true;
}

static inline bool shelf_folder(const char *below)
{
	return mkdir(shelf_path(below).text, 0700) == 0;
}

static inline bool shelf_write(const char *below, const void *bytes, size_t n)
{
	int fd = open(shelf_path(below).text,
		      O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
	bool done = fd >= 0 && write(fd, bytes, n) == (ssize_t)n;

	if (fd >= 0)
		close(fd);
	return done;
}

/* The module that the build made of tests/tiny; @ret_path as @below says. */
static inline bool shelf_copy(const char *module, const char *below)
{
	const char *top = getenv("abs_top_builddir");
	char path[512], *bytes;
	struct stat st;
	bool done = false;
	int fd;

	snprintf(path, sizeof(path), "%s/tests/tiny/.libs/%s.so",
		 top ? top : ".", module);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	bytes = malloc((size_t)st.st_size);
	if (bytes && read(fd, bytes, (size_t)st.st_size) == st.st_size)
		done = shelf_write(below, bytes, (size_t)st.st_size);
	free(bytes);
	close(fd);
	return done;
}

#endif
