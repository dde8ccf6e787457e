/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/state/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/common/write_all.h"

#include "shm/point.h"

#define NEW         "new"
#define OLD         "old"
#define ASIDE       ".replaced"
#define LOCK_STEPS  200
#define LOCK_NAP_NS 10000000L
#define REFUSED_MAX 1000

static bool fits_file(char c, bool is_first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '_' || c == '-' ||
	       (c == '.' && !is_first);
}

void gm_state_dir_escape(const char *text, char ret_text[GM_STATE_NAME_BYTES])
{
	char *to = ret_text;

	for (const char *c = text; *c != '\0'; c++) {
		if (fits_file(*c, c == text))
			*to++ = *c;
		else
			to += sprintf(to, "%%%02X", (unsigned char)*c);
	}
	*to = '\0';
}

/* ---- the directory ----------------------------------------------------- */

/* A user who can write there, or give the directory away, could forge
 * reservations. */
static int check_dir(int fd, const char *path, char *ret_why)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return gm_why(ret_why, -errno, "%s: %s", path, strerror(errno));
	if (st.st_uid != geteuid())
		return gm_why(ret_why, -EPERM,
			      "%s belongs to uid %u: run as that user, or give "
			      "another --state-dir",
			      path, (unsigned int)st.st_uid);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return gm_why(ret_why, -EPERM,
			      "others may write %s: chmod go-w it, or give "
			      "another --state-dir",
			      path);
	return 0;
}

/* Open @name in @at, made if need be; a made one lasts from here on.  Workers
 * may go through it to a folder of theirs, and see no names. */
static int open_dir(int at, const char *name, int flags, const char *path,
		    char *ret_why)
{
	bool is_made = mkdirat(at, name, 0711) == 0;
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	int above, ret;

	if (fd < 0)
		return gm_why(ret_why, -errno,
			      "%s: %s: make it, owned by uid %u, or give "
			      "another --state-dir",
			      path, strerror(errno), (unsigned int)geteuid());
	ret = check_dir(fd, path, ret_why);
	if (ret != 0) {
		close(fd);
		return ret;
	}
	above = is_made ? openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
			: -1;
	if (above >= 0) {
		fsync(above);
		close(above);
	}
	return fd;
}

/* A child of an agent that was killed has a copy of its descriptor until it
 * execs: that takes no time, unless the machine has none. */
static int lock(int fd, const char *path, char *ret_why)
{
	const struct timespec nap = { .tv_nsec = LOCK_NAP_NS };
	int ret = 0;

	for (int i = 0; i < LOCK_STEPS; i++) {
		ret = flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : -errno;
		if (ret != -EWOULDBLOCK && ret != -EINTR)
			break;
		nanosleep(&nap, NULL);
	}
	if (ret == -EWOULDBLOCK)
		return gm_why(ret_why, -EBUSY,
			      "another gpumapd has %s: stop it, or give "
			      "another --state-dir",
			      path);
	return ret == 0 ? 0
			: gm_why(ret_why, ret, "%s cannot be locked: %s", path,
				 strerror(-ret));
}

/* A file that a killed agent was writing is visible to this agent, but may not
 * be on the disk: sync it before any client is told of it. */
static int settle(const struct gm_state_dir *dir, char *ret_why)
{
	unlinkat(dir->fd, NEW, 0);
	unlinkat(dir->fd, OLD, 0);
	if (fsync(dir->fd) == 0)
		return 0;
	return gm_why(ret_why, -errno,
		      "%s cannot be synced: %s; look at the "
		      "disk",
		      dir->path, strerror(errno));
}

int gm_state_dir_open(const char *parent, const char *instance,
		      char ret_why[GM_WHY_BYTES], struct gm_state_dir *ret_dir)
{
	struct gm_state_dir dir = { .fd = -1 };
	char name[GM_STATE_NAME_BYTES];
	int above, n, ret;

	gm_state_dir_escape(instance, name);
	n = snprintf(dir.path, sizeof(dir.path), "%s/%s", parent, name);
	if (n < 0 || (size_t)n >= sizeof(dir.path))
		return gm_why(ret_why, -ENAMETOOLONG,
			      "give a shorter --state-dir");
	above = open_dir(AT_FDCWD, parent, 0, parent, ret_why);
	if (above < 0)
		return above;
	dir.fd = open_dir(above, name, O_NOFOLLOW, dir.path, ret_why);
	close(above);
	if (dir.fd < 0)
		return dir.fd;
	ret = lock(dir.fd, dir.path, ret_why);
	if (ret == 0)
		ret = settle(&dir, ret_why);
	if (ret != 0) {
		close(dir.fd);
		return ret;
	}
	*ret_dir = dir;
	return 0;
}

int gm_state_dir_of_workers(const struct gm_state_dir *dir, const char *name,
			    uid_t uid, gid_t gid,
			    char ret_path[GM_STATE_PATH_BYTES])
{
	int n = snprintf(ret_path, GM_STATE_PATH_BYTES, "%s/%s", dir->path,
			 name);
	int fd, error = 0;

	if (n < 0 || n >= GM_STATE_PATH_BYTES)
		return -ENAMETOOLONG;
	if (mkdirat(dir->fd, name, 0700) != 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir->fd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fchmod(fd, 0700) != 0 ||
	    (geteuid() == 0 && fchown(fd, uid, gid) != 0))
		error = -errno;
	close(fd);
	return error;
}

void gm_state_dir_close(struct gm_state_dir *dir)
{
	if (dir->fd > 0)
		close(dir->fd);
	dir->fd = 0;
}

/* ---- reading ----------------------------------------------------------- */

static bool ends_in(const char *name, const char *suffix)
{
	size_t n = strlen(name), most = strlen(suffix);

	return n > most && strcmp(name + n - most, suffix) == 0;
}

int gm_state_dir_list(const struct gm_state_dir *dir, const char *suffix,
		      char ***ret_names)
{
	struct dirent **entries;
	int n = scandirat(dir->fd, ".", &entries, NULL, alphasort), used = 0;
	bool is_short;
	char **names;

	if (n < 0)
		return -errno;
	names = calloc((size_t)n + 1, sizeof(*names));
	is_short = names == NULL;
	for (int i = 0; i < n; i++) {
		if (!is_short && ends_in(entries[i]->d_name, suffix)) {
			names[used] = strdup(entries[i]->d_name);
			is_short = names[used++] == NULL;
		}
		free(entries[i]);
	}
	free(entries);
	if (!is_short) {
		*ret_names = names;
		return used;
	}
	while (used > 0)
		free(names[--used]);
	free(names);
	return -ENOMEM;
}

int gm_state_dir_list_aside(const struct gm_state_dir *dir, const char *suffix,
			    char ***ret_names)
{
	char aside[64];
	int n;

	snprintf(aside, sizeof(aside), "%s" ASIDE, suffix);
	n = gm_state_dir_list(dir, aside, ret_names);
	for (int i = 0; i < n; i++)
		(*ret_names)[i][strlen((*ret_names)[i]) - strlen(ASIDE)] = '\0';
	return n;
}

static int read_all(int fd, char *text, size_t bytes)
{
	size_t used = 0;

	while (used < bytes) {
		ssize_t n = read(fd, text + used, bytes - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO; /* we alone write it */
		used += (size_t)n;
	}
	return 0;
}

static int check_file(int fd, char *ret_why, size_t *ret_bytes)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return gm_why(ret_why, -EPROTO, "it is no regular file");
	if (st.st_uid != geteuid())
		return gm_why(ret_why, -EPROTO, "it belongs to uid %u",
			      (unsigned int)st.st_uid);
	if (st.st_size > GM_STATE_BYTES_MAX)
		return gm_why(ret_why, -EPROTO, "it is too long");
	*ret_bytes = (size_t)st.st_size;
	return 0;
}

/* A socket cannot be opened, nor a folder of another user. */
static int unread(const struct gm_state_dir *dir, const char *file, int error,
		  char *ret_why)
{
	struct stat st;

	if (fstatat(dir->fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !S_ISREG(st.st_mode))
		return gm_why(ret_why, -EPROTO, "it is no regular file");
	gm_why(ret_why, error, "%s", strerror(-error));
	return error == -ENOENT || error == -ENOMEM || error == -EMFILE ||
			       error == -ENFILE
		       ? error
		       : -EIO;
}

int gm_state_dir_read(const struct gm_state_dir *dir, const char *file,
		      char ret_why[GM_WHY_BYTES], char **ret_text,
		      size_t *ret_bytes)
{
	int fd = openat(dir->fd, file,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	size_t bytes = 0;
	char *text = NULL;
	int ret;

	if (fd < 0)
		return unread(dir, file, -errno, ret_why);
	ret = check_file(fd, ret_why, &bytes);
	if (ret == 0) {
		text = malloc(bytes + 1);
		ret = text != NULL ? read_all(fd, text, bytes) : -ENOMEM;
	}
	close(fd);
	if (ret != 0) {
		free(text);
		return ret == -EPROTO ? ret : unread(dir, file, ret, ret_why);
	}
	text[bytes] = '\0';
	*ret_text = text;
	*ret_bytes = bytes;
	return 0;
}

/* ---- writing ----------------------------------------------------------- */

static int refusal(const struct gm_state_dir *dir, const char *file, int error,
		   char *ret_why)
{
	const char *remedy = "look at the disk";

	switch (error) {
	case -ENOSPC:
	case -EDQUOT:
		remedy = "make room on its disk";
		error = -ENOSPC;
		break;
	case -EROFS:
		remedy = "mount it for writing";
		break;
	default:
		break;
	}
	gm_why(ret_why, error, "%s/%s: %s; %s", dir->path, file,
	       strerror(-error), remedy);
	return error == -ENOSPC || error == -EROFS ? error : -EIO;
}

static int write_new(const struct gm_state_dir *dir, const char *text,
		     size_t bytes)
{
	int fd, ret;

	unlinkat(dir->fd, NEW, 0);
	fd = openat(dir->fd, NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return -errno;
	GM_POINT("state_created");
	ret = gm_write_all(fd, text, bytes);
	GM_POINT("state_written");
	if (ret == 0 && fsync(fd) != 0)
		ret = -errno;
	if (close(fd) != 0 && ret == 0)
		ret = -errno;
	GM_POINT("state_synced");
	if (ret != 0)
		unlinkat(dir->fd, NEW, 0);
	return ret;
}

/* The file of before gets a second name to come back from.  Without one, on a
 * disk that knows no links, a directory that cannot be synced stays as the
 * disk has it. */
static int replace(const struct gm_state_dir *dir, const char *file)
{
	int at = dir->fd, ret = 0;
	bool is_kept, is_first;

	unlinkat(at, OLD, 0);
	is_kept = linkat(at, file, at, OLD, 0) == 0;
	is_first = !is_kept && errno == ENOENT;
	if (renameat(at, NEW, at, file) != 0) {
		ret = -errno;
		unlinkat(at, NEW, 0);
		unlinkat(at, OLD, 0);
		return ret;
	}
	GM_POINT("state_renamed");
	if (fsync(at) == 0) {
		GM_POINT("state_lasting");
		unlinkat(at, OLD, 0);
		return 0;
	}
	ret = -errno;
	if (is_kept)
		renameat(at, OLD, at, file);
	else if (is_first)
		unlinkat(at, file, 0);
	return ret;
}

int gm_state_dir_write(const struct gm_state_dir *dir, const char *file,
		       const char *text, size_t bytes,
		       char ret_why[GM_WHY_BYTES])
{
	int ret = write_new(dir, text, bytes);

	if (ret == 0)
		ret = replace(dir, file);
	return ret == 0 ? 0 : refusal(dir, file, ret, ret_why);
}

bool gm_state_dir_has(const struct gm_state_dir *dir, const char *file)
{
	struct stat st;

	return fstatat(dir->fd, file, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	       errno != ENOENT;
}

int gm_state_dir_remove(const struct gm_state_dir *dir, const char *file,
			char ret_why[GM_WHY_BYTES])
{
	int at = dir->fd, ret;

	/* Renaming would be refused by a disk that is read-only, though there
	 * is nothing to rename. */
	if (!gm_state_dir_has(dir, file))
		return 0;
	if (renameat(at, file, at, OLD) != 0)
		return refusal(dir, file, -errno, ret_why);
	GM_POINT("state_removed");
	if (fsync(at) != 0) {
		ret = -errno;
		renameat(at, OLD, at, file);
		return refusal(dir, file, ret, ret_why);
	}
	GM_POINT("state_forgotten");
	unlinkat(at, OLD, 0);
	return 0;
}

static void name_aside(const char *file, char ret_name[NAME_MAX + 1])
{
	snprintf(ret_name, NAME_MAX + 1, "%s" ASIDE, file);
}

/* A rename that lasts, or is taken back. */
static int move_over(const struct gm_state_dir *dir, const char *from,
		     const char *to, const char *file, char *ret_why)
{
	int ret;

	if (renameat(dir->fd, from, dir->fd, to) != 0)
		return refusal(dir, file, -errno, ret_why);
	GM_POINT("state_moved");
	if (fsync(dir->fd) == 0)
		return 0;
	ret = -errno;
	renameat(dir->fd, to, dir->fd, from);
	return refusal(dir, file, ret, ret_why);
}

int gm_state_dir_set_aside(const struct gm_state_dir *dir, const char *file,
			   char ret_why[GM_WHY_BYTES], bool *ret_is_there)
{
	char aside[NAME_MAX + 1];

	*ret_is_there = gm_state_dir_has(dir, file);
	if (!*ret_is_there)
		return 0;
	name_aside(file, aside);
	return move_over(dir, file, aside, file, ret_why);
}

int gm_state_dir_put_back(const struct gm_state_dir *dir, const char *file,
			  char ret_why[GM_WHY_BYTES])
{
	char aside[NAME_MAX + 1];

	name_aside(file, aside);
	return move_over(dir, aside, file, file, ret_why);
}

int gm_state_dir_drop_aside(const struct gm_state_dir *dir, const char *file,
			    char ret_why[GM_WHY_BYTES])
{
	char aside[NAME_MAX + 1];

	name_aside(file, aside);
	if (unlinkat(dir->fd, aside, 0) != 0)
		return errno == ENOENT ? 0
				       : refusal(dir, aside, -errno, ret_why);
	return fsync(dir->fd) == 0 ? 0 : refusal(dir, aside, -errno, ret_why);
}

int gm_state_dir_refuse(const struct gm_state_dir *dir, const char *file)
{
	char name[NAME_MAX + 32];
	struct stat st;

	for (int i = 1; i <= REFUSED_MAX; i++) {
		snprintf(name, sizeof(name), "%s.refused-%d", file, i);
		if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		if (errno != ENOENT)
			return -errno;
		return renameat(dir->fd, file, dir->fd, name) == 0 ? 0 : -errno;
	}
	return -EEXIST;
}
