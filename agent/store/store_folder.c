/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/store/store_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/point.h"

#define TMP        ".tmp."
#define TMP_BYTES  32u
#define HEAD       "gpumap-value 1 %016" PRIx64 " %08" PRIx32 " %08" PRIx32 "\n"
#define HEAD_BYTES 50u
#define BEAT       "gpumap-lease 1 %016" PRIx64 "\n"
#define LOOKS      100  /* at a key that changes meanwhile */
#define TRIES      1000 /* to change a key that others change meanwhile */
#define OLD_S      3600

/* ---- names --------------------------------------------------------------- */

void gm_store_folder_name(const char *key, char ret_name[GM_STORE_NAME_BYTES])
{
	size_t i = 0;

	ret_name[0] = '+';
	for (; key[i] != '\0'; i++)
		ret_name[i + 1] = key[i] == '/' ? '+' : key[i];
	ret_name[i + 1] = '\0';
}

bool gm_store_folder_key(const char *name, char ret_key[GM_STORE_KEY_BYTES])
{
	size_t i = 0;

	if (*name++ != '+')
		return false;
	for (; name[i] != '\0' && i < GM_STORE_KEY_BYTES - 1; i++)
		ret_key[i] = name[i] == '+' ? '/' : name[i];
	ret_key[i] = '\0';
	return name[i] == '\0' && gm_store_check_key(ret_key);
}

void gm_store_folder_id(char mark, uint64_t id,
			char ret_name[GM_STORE_ID_BYTES])
{
	snprintf(ret_name, GM_STORE_ID_BYTES, "%c%016" PRIx64, mark, id);
}

uint64_t gm_store_folder_read_id(char mark, const char *name)
{
	char again[GM_STORE_ID_BYTES];
	uint64_t id;

	if (name[0] != mark)
		return 0;
	id = strtoull(name + 1, NULL, 16);
	gm_store_folder_id(mark, id, again);
	return strcmp(name, again) == 0 ? id : 0;
}

static void make_tmp_name(char ret_name[TMP_BYTES])
{
	snprintf(ret_name, TMP_BYTES, TMP "%016" PRIx64, gm_store_random());
}

/* ---- failures ------------------------------------------------------------ */

static const char *remedy(int error)
{
	switch (error) {
	case ENOSPC:
	case EDQUOT:
		return ": make room there";
	case EROFS:
		return ": mount it for writing";
	case EACCES:
	case EPERM:
		return ": let this user read and write it";
	case ENOENT:
		return ": make it, or mount it";
	case ESTALE:
	case ETIMEDOUT:
		return ": is the file server well?";
	default:
		return "";
	}
}

/* The last call has failed.  Returns its -errno. */
static int failed(struct gm_store_folder *folder, const char *what)
{
	int error = errno;

	return gm_store_fail(folder->store, -error, "%s: %s: %s%s",
			     folder->path, what, strerror(error),
			     remedy(error));
}

static bool is_believed(const struct gm_store_folder *folder,
			const struct stat *st)
{
	return (st->st_uid == 0 || st->st_uid == geteuid() ||
		st->st_uid == folder->owner) &&
	       (st->st_mode & 022) == 0;
}

/* ---- the directory ------------------------------------------------------- */

int gm_store_folder_open(struct gm_store_folder *folder)
{
	struct stat st;

	folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder->fd < 0)
		return failed(folder, "open");
	if (fstat(folder->fd, &st) != 0) {
		int ret = failed(folder, "fstat");

		gm_store_folder_close(folder);
		return ret;
	}
	folder->owner = st.st_uid;
	if ((st.st_mode & 002) == 0)
		return 0;
	gm_store_folder_close(folder);
	return gm_store_fail(folder->store, -EPERM,
			     "%s: every user may write it: chmod o-w %s",
			     folder->path, folder->path);
}

void gm_store_folder_close(struct gm_store_folder *folder)
{
	if (folder->fd >= 0)
		close(folder->fd);
	folder->fd = -1;
}

static DIR *open_list(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy >= 0 ? fdopendir(copy) : NULL;

	if (list == NULL && copy >= 0)
		close(copy);
	return list;
}

/* ---- looking ------------------------------------------------------------- */

/* Count the values that a listing of a key shows, and find the least.  Returns
 * -ENOTEMPTY if there is anything else. */
static int list_tokens(int fd, unsigned int *ret_n, uint64_t *ret_revision)
{
	DIR *list = open_list(fd);
	const struct dirent *entry;
	int ret = 0;

	*ret_n = 0;
	*ret_revision = 0;
	if (list == NULL)
		return -errno;
	for (unsigned int i = 0; i < GM_STORE_NAMES_MOST; i++) {
		uint64_t id;

		entry = readdir(list);
		if (entry == NULL)
			break;
		id = gm_store_folder_read_id('t', entry->d_name);
		if (id == 0) {
			if (strcmp(entry->d_name, ".") != 0 &&
			    strcmp(entry->d_name, "..") != 0)
				ret = -ENOTEMPTY;
			continue;
		}
		if (*ret_revision == 0 || id < *ret_revision)
			*ret_revision = id;
		(*ret_n)++;
	}
	closedir(list);
	return ret;
}

static int open_key(struct gm_store_folder *folder, const char *name)
{
	int fd = openat(folder->fd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? -ENOENT : failed(folder, name);
	if (fstat(fd, &st) == 0 && is_believed(folder, &st))
		return fd;
	close(fd);
	return gm_store_fail(folder->store, -EPERM,
			     "%s: %s is another user's: remove it",
			     folder->path, name);
}

int gm_store_folder_look(struct gm_store_folder *folder, const char *key,
			 int *ret_fd, uint64_t *ret_revision)
{
	char name[GM_STORE_NAME_BYTES];
	unsigned int n = 0;

	gm_store_folder_name(key, name);
	*ret_fd = -1;
	*ret_revision = 0;
	for (int i = 0; i < LOOKS; i++) {
		int fd = open_key(folder, name), ret;

		if (fd == -ENOENT)
			return 0;
		if (fd < 0)
			return fd;
		ret = list_tokens(fd, &n, ret_revision);
		if (ret == 0 && n == 1) {
			*ret_fd = fd;
			return 0;
		}
		close(fd);
		if (ret == -ENOTEMPTY)
			return gm_store_fail(folder->store, -EBUSY,
					     "%s: %s has what is no value: "
					     "remove it",
					     folder->path, name);
		if (ret != 0 && ret != -ENOENT) {
			errno = -ret;
			return failed(folder, name);
		}
		/* A user who may not write sees nothing better than lists. */
		if (n == 0 && (unlinkat(folder->fd, name, AT_REMOVEDIR) == 0 ||
			       errno == ENOENT ||
			       (i > 2 && (errno == EACCES || errno == EROFS ||
					  errno == EPERM))))
			return 0;
		sched_yield();
	}
	return gm_store_fail(folder->store, -EBUSY,
			     "%s: %s has %u values: remove it", folder->path,
			     name, n);
}

/* ---- values -------------------------------------------------------------- */

/* Open a regular file of ours of at most @most bytes. */
static int open_file(struct gm_store_folder *folder, const char *name,
		     size_t most, size_t *ret_bytes)
{
	int fd = openat(folder->fd, name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
				O_CLOEXEC);
	struct stat st;
	int ret;

	if (fd < 0) {
		ret = errno == ELOOP ? -EBADMSG : -errno;
		if (ret != -ENOENT)
			failed(folder, name);
		return ret;
	}
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    is_believed(folder, &st) && (uint64_t)st.st_size <= most) {
		*ret_bytes = (size_t)st.st_size;
		return fd;
	}
	close(fd);
	return gm_store_fail(folder->store, -EBADMSG,
			     "%s: %s is no file of this user with at most %zu "
			     "bytes: remove it",
			     folder->path, name, most);
}

static int read_all(int fd, char *ret_text, size_t bytes)
{
	size_t at = 0;

	while (at < bytes) {
		ssize_t n = read(fd, ret_text + at, bytes - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? -EBADMSG : -errno;
		at += (size_t)n;
	}
	return 0;
}

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		ssize_t n = write(fd, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		bytes -= (size_t)n;
	}
	return 0;
}

/* A line that is written as this program writes it. */
static bool read_head(const char line[HEAD_BYTES],
		      struct gm_store_value_head *ret_head)
{
	char text[HEAD_BYTES + 1], again[HEAD_BYTES + 1];

	memcpy(text, line, HEAD_BYTES);
	text[HEAD_BYTES] = '\0';
	if (sscanf(text, "gpumap-value 1 %16" SCNx64 " %8" SCNx32 " %8" SCNx32,
		   &ret_head->lease, &ret_head->ttl_ms, &ret_head->bytes) != 3)
		return false;
	snprintf(again, sizeof(again), HEAD, ret_head->lease, ret_head->ttl_ms,
		 ret_head->bytes);
	return strcmp(text, again) == 0 &&
	       ret_head->bytes <= GM_STORE_VALUE_BYTES &&
	       (ret_head->lease == 0 ||
		(ret_head->ttl_ms >= GM_STORE_LEASE_MIN &&
		 ret_head->ttl_ms <= GM_STORE_LEASE_MAX));
}

int gm_store_folder_value(struct gm_store_folder *folder, uint64_t revision,
			  struct gm_store_value_head *ret_head,
			  char ret_value[GM_STORE_VALUE_BYTES])
{
	char name[GM_STORE_ID_BYTES], line[HEAD_BYTES];
	size_t bytes = 0;
	int fd, ret;

	gm_store_folder_id('=', revision, name);
	fd = open_file(folder, name, HEAD_BYTES + GM_STORE_VALUE_BYTES, &bytes);
	if (fd < 0)
		return fd;
	ret = bytes < HEAD_BYTES ? -EBADMSG : read_all(fd, line, HEAD_BYTES);
	if (ret == 0 && (!read_head(line, ret_head) ||
			 bytes - HEAD_BYTES != ret_head->bytes))
		ret = -EBADMSG;
	if (ret == 0 && ret_value != NULL)
		ret = read_all(fd, ret_value, ret_head->bytes);
	close(fd);
	if (ret == -EBADMSG)
		gm_store_fail(folder->store, ret,
			      "%s: %s is damaged: remove it", folder->path,
			      name);
	else if (ret != 0) {
		errno = -ret;
		failed(folder, name);
	}
	return ret;
}

/* A new file of ours, whatever the umask. */
static int create(struct gm_store_folder *folder, int at, const char *name)
{
	int fd = openat(at, name,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0644);

	if (fd < 0)
		return failed(folder, "create a file");
	if (fchmod(fd, 0644) == 0)
		return fd;
	failed(folder, "chmod");
	close(fd);
	unlinkat(at, name, 0);
	return -EIO;
}

/* Write a value that no key has yet. */
static int write_value(struct gm_store_folder *folder, uint64_t revision,
		       const struct gm_store_write *write, uint64_t lease)
{
	char name[GM_STORE_ID_BYTES], line[HEAD_BYTES + 1];
	int fd, ret;

	gm_store_folder_id('=', revision, name);
	snprintf(line, sizeof(line), HEAD, lease,
		 lease != 0 ? write->lease->ttl_ms : 0, (uint32_t)write->bytes);
	fd = create(folder, folder->fd, name);
	if (fd < 0)
		return fd;
	ret = write_all(fd, line, HEAD_BYTES);
	if (ret == 0)
		ret = write_all(fd, write->value, write->bytes);
	if (ret == 0 && fsync(fd) != 0)
		ret = -errno;
	if (close(fd) != 0 && ret == 0)
		ret = -errno;
	if (ret == 0 && fsync(folder->fd) != 0)
		ret = -errno;
	if (ret != 0) {
		errno = -ret;
		failed(folder, "write a value");
		unlinkat(folder->fd, name, 0);
	}
	GM_POINT("sync_value_written");
	return ret;
}

/* ---- changes ------------------------------------------------------------- */

/* A change that was made is durable, and the old value is of no use. */
static int settle(struct gm_store_folder *folder, int fd, uint64_t old)
{
	char name[GM_STORE_ID_BYTES];

	GM_POINT("sync_value_named");
	if (fsync(fd) != 0) {
		failed(folder, "fsync");
		return -ETIMEDOUT;
	}
	gm_store_folder_id('=', old, name);
	if (old != 0)
		unlinkat(folder->fd, name, 0);
	return 0;
}

/* A key that has no value gets one, if it has none.  Returns -EAGAIN if it has
 * one by now. */
static int give_birth(struct gm_store_folder *folder, const char *key,
		      uint64_t revision)
{
	char name[GM_STORE_NAME_BYTES], tmp[TMP_BYTES],
		token[GM_STORE_ID_BYTES];
	int fd, token_fd, ret = 0;

	gm_store_folder_name(key, name);
	gm_store_folder_id('t', revision, token);
	make_tmp_name(tmp);
	if (mkdirat(folder->fd, tmp, 0755) != 0)
		return failed(folder, "mkdir");
	fd = openat(folder->fd, tmp,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fchmod(fd, 0755) != 0) {
		ret = failed(folder, tmp);
	} else {
		token_fd = create(folder, fd, token);
		ret = token_fd < 0 ? token_fd : 0;
		if (token_fd >= 0)
			close(token_fd);
		if (ret == 0 && fsync(fd) != 0)
			ret = failed(folder, "fsync");
	}
	GM_POINT("sync_key_made");
	if (ret == 0 && renameat(folder->fd, tmp, folder->fd, name) == 0)
		ret = settle(folder, folder->fd, 0);
	else if (ret == 0 && (errno == ENOTEMPTY || errno == EEXIST))
		ret = -EAGAIN;
	else if (ret == 0)
		ret = failed(folder, name);
	if (fd >= 0) {
		if (ret != 0 && ret != -ETIMEDOUT)
			unlinkat(fd, token, 0);
		close(fd);
	}
	if (ret != 0)
		unlinkat(folder->fd, tmp, AT_REMOVEDIR);
	return ret;
}

/* The value of a key is replaced, if it is still @old.  Returns as above. */
static int replace(struct gm_store_folder *folder, int fd, uint64_t old,
		   uint64_t revision)
{
	char from[GM_STORE_ID_BYTES], to[GM_STORE_ID_BYTES];

	gm_store_folder_id('t', old, from);
	gm_store_folder_id('t', revision, to);
	if (renameat(fd, from, fd, to) == 0)
		return settle(folder, fd, old);
	/* A server that carried it out may be asked again by its client. */
	if (errno == ENOENT && faccessat(fd, to, F_OK, 0) == 0)
		return settle(folder, fd, old);
	return errno == ENOENT ? -EAGAIN : failed(folder, "rename");
}

/* Likewise: the key is deleted. */
static int erase(struct gm_store_folder *folder, const char *key, int fd,
		 uint64_t old)
{
	char token[GM_STORE_ID_BYTES], name[GM_STORE_NAME_BYTES];
	int ret;

	gm_store_folder_id('t', old, token);
	if (unlinkat(fd, token, 0) != 0)
		return errno == ENOENT ? -EAGAIN : failed(folder, "unlink");
	ret = settle(folder, fd, old);
	gm_store_folder_name(key, name);
	unlinkat(folder->fd, name, AT_REMOVEDIR);
	return ret;
}

/* One attempt.  Returns -EAGAIN if the key was changed meanwhile. */
static int try_to_write(struct gm_store_folder *folder,
			const struct gm_store_write *write, uint64_t revision,
			bool is_cas, uint64_t *ret_revision)
{
	uint64_t old;
	int fd, ret = gm_store_folder_look(folder, write->key, &fd, &old);

	if (ret != 0)
		return ret;
	*ret_revision = revision;
	if (is_cas && old != write->expected) {
		*ret_revision = old;
		ret = gm_store_fail(folder->store, -ESTALE,
				    "%s has another revision", write->key);
	} else if (write->value == NULL) {
		ret = old == 0 ? 0 : erase(folder, write->key, fd, old);
	} else {
		ret = old == 0 ? give_birth(folder, write->key, revision)
			       : replace(folder, fd, old, revision);
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

int gm_store_folder_write(struct gm_store_folder *folder,
			  const struct gm_store_write *write, uint64_t lease,
			  bool is_cas, uint64_t *ret_revision)
{
	uint64_t revision = write->value != NULL ? gm_store_random() : 0;
	char name[GM_STORE_ID_BYTES];
	int ret = 0;

	if (revision != 0)
		ret = write_value(folder, revision, write, lease);
	if (ret != 0)
		return ret;
	for (int i = 0; i < TRIES; i++) {
		ret = try_to_write(folder, write, revision, is_cas,
				   ret_revision);
		if (ret != -EAGAIN)
			break;
	}
	if (ret == -EAGAIN)
		ret = gm_store_fail(folder->store, -EBUSY,
				    "%s: %s is changed all the time",
				    folder->path, write->key);
	gm_store_folder_id('=', revision, name);
	if (ret != 0 && ret != -ETIMEDOUT && revision != 0)
		unlinkat(folder->fd, name, 0);
	return ret;
}

int gm_store_folder_delete(struct gm_store_folder *folder, const char *key,
			   uint64_t revision)
{
	struct gm_store_write write = { .key = key, .expected = revision };
	uint64_t ignored;

	return gm_store_folder_write(folder, &write, 0, true, &ignored);
}

/* ---- leases -------------------------------------------------------------- */

int gm_store_folder_beat(struct gm_store_folder *folder, uint64_t lease,
			 uint64_t number, bool is_new)
{
	char name[GM_STORE_ID_BYTES], text[GM_STORE_BEAT_BYTES];
	int fd, ret = 0, n = snprintf(text, sizeof(text), BEAT, number);

	gm_store_folder_id('@', lease, name);
	if (is_new) {
		fd = create(folder, folder->fd, name);
		if (fd < 0)
			return fd;
	} else {
		fd = openat(folder->fd, name,
			    O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return errno == ENOENT ? -ENOENT : failed(folder, name);
	}
	if (pwrite(fd, text, (size_t)n, 0) != n || fdatasync(fd) != 0)
		ret = failed(folder, "write a lease");
	if (close(fd) != 0 && ret == 0)
		ret = failed(folder, "write a lease");
	if (ret != 0 && is_new)
		unlinkat(folder->fd, name, 0);
	GM_POINT("sync_lease_written");
	return ret;
}

void gm_store_folder_read_beat(struct gm_store_folder *folder, uint64_t lease,
			       char ret_beat[GM_STORE_BEAT_BYTES])
{
	char name[GM_STORE_ID_BYTES];
	size_t bytes = 0;
	int fd;

	gm_store_folder_id('@', lease, name);
	memset(ret_beat, 0, GM_STORE_BEAT_BYTES);
	fd = open_file(folder, name, GM_STORE_BEAT_BYTES - 1, &bytes);
	if (fd < 0)
		return;
	if (read_all(fd, ret_beat, bytes) != 0)
		memset(ret_beat, 0, GM_STORE_BEAT_BYTES);
	close(fd);
}

/* ---- what killed processes have left ------------------------------------- */

/* The time by the clock that stamps the directory's files. */
static bool read_clock(struct gm_store_folder *folder, time_t *ret_now)
{
	char tmp[TMP_BYTES];
	struct stat st;
	bool done;
	int fd;

	make_tmp_name(tmp);
	fd = create(folder, folder->fd, tmp);
	if (fd < 0)
		return false;
	done = write_all(fd, "", 1) == 0 && fsync(fd) == 0 &&
	       fstat(fd, &st) == 0;
	*ret_now = done ? st.st_mtim.tv_sec : 0;
	close(fd);
	unlinkat(folder->fd, tmp, 0);
	return done;
}

static void remove_key_that_was_not_ready(struct gm_store_folder *folder,
					  const char *tmp)
{
	char token[GM_STORE_ID_BYTES];
	unsigned int n = 0;
	uint64_t id;
	int fd = open_key(folder, tmp);

	if (fd < 0)
		return;
	if (list_tokens(fd, &n, &id) == 0 && n > 0) {
		gm_store_folder_id('t', id, token);
		unlinkat(fd, token, 0);
	}
	close(fd);
	unlinkat(folder->fd, tmp, AT_REMOVEDIR);
}

void gm_store_folder_sweep(struct gm_store_folder *folder,
			   bool (*is_named)(void *data, uint64_t revision),
			   void *data)
{
	const struct dirent *entry;
	struct stat st;
	time_t now;
	DIR *list;

	if (!read_clock(folder, &now))
		return;
	list = open_list(folder->fd);
	if (list == NULL)
		return;
	for (unsigned int i = 0; i < GM_STORE_NAMES_MOST; i++) {
		const char *name;
		uint64_t id;

		entry = readdir(list);
		if (entry == NULL)
			break;
		name = entry->d_name;
		id = gm_store_folder_read_id('=', name);
		if (id == 0 && gm_store_folder_read_id('@', name) == 0 &&
		    strncmp(name, TMP, strlen(TMP)) != 0)
			continue;
		if (fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !is_believed(folder, &st) ||
		    st.st_mtim.tv_sec > now - OLD_S ||
		    (id != 0 && is_named(data, id)))
			continue;
		if (S_ISDIR(st.st_mode))
			remove_key_that_was_not_ready(folder, name);
		else
			unlinkat(folder->fd, name, 0);
	}
	closedir(list);
}
