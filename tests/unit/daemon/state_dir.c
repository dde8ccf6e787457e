/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* state_dir: files that last, whose directory it may be, and disks that do not
 * do what they are asked. */

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/daemon/state/dir.h"
#include "tests/support/tap.h"

#define OTHER 54321u /* a uid that is not ours */

static char parent[64];
static char why[GM_WHY_BYTES];

static int open_dir(struct gm_state_dir *ret_dir)
{
	why[0] = '\0';
	return gm_state_dir_open(parent, "it", why, ret_dir);
}

static int put(const struct gm_state_dir *dir, const char *file,
	       const char *text)
{
	return gm_state_dir_write(dir, file, text, strlen(text), why);
}

/* Does a file say this?  NULL: is it not there? */
static bool says(const struct gm_state_dir *dir, const char *file,
		 const char *text)
{
	char *got = NULL;
	size_t bytes = 0;
	bool same;
	int ret = gm_state_dir_read(dir, file, why, &got, &bytes);

	if (text == NULL)
		return ret == -ENOENT;
	same = ret == 0 && bytes == strlen(text) && strcmp(got, text) == 0;
	free(got);
	return same;
}

static int count(const struct gm_state_dir *dir)
{
	char **names;
	int n = gm_state_dir_list(dir, ".layers", &names);

	for (int i = 0; i < n; i++)
		free(names[i]);
	if (n >= 0)
		free(names);
	return n;
}

static void make_file(const struct gm_state_dir *dir, const char *file)
{
	int fd = openat(dir->fd, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	OK(fd >= 0 && write(fd, "x", 1) == 1);
	close(fd);
}

static bool is_there(const struct gm_state_dir *dir, const char *file)
{
	return faccessat(dir->fd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void it_is_made_and_locked(void)
{
	struct gm_state_dir dir, second;
	char want[200];
	struct stat st;
	int status = 0;
	pid_t pid;

	EQ(open_dir(&dir), 0);
	snprintf(want, sizeof(want), "%s/it", parent);
	STR(dir.path, want);
	EQ(stat(parent, &st), 0);
	EQ(st.st_mode & 07777, 0711);
	EQ(stat(dir.path, &st), 0);
	EQ(st.st_mode & 07777, 0711);
	EQ(open_dir(&second), -EBUSY);
	OK(strstr(why, "another gpumapd has ") == why);

	/* A child keeps its copies until it execs. */
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		usleep(100000);
		_exit(0);
	}
	gm_state_dir_close(&dir);
	gm_state_dir_close(&dir);
	EQ(open_dir(&dir), 0);
	waitpid(pid, &status, 0);
	gm_state_dir_close(&dir);
}

/* The workers' user owns it, also where it is there already. */
static void workers_have_a_folder(void)
{
	struct gm_state_dir dir;
	char path[GM_STATE_PATH_BYTES], want[200];
	struct stat st;
	uid_t uid = geteuid() == 0 ? 12345 : geteuid();

	if (!EQ(open_dir(&dir), 0))
		return;
	for (int i = 0; i < 2; i++) {
		EQ(gm_state_dir_of_workers(&dir, "cuda-cache", uid, getegid(),
					   path),
		   0);
		snprintf(want, sizeof(want), "%s/it/cuda-cache", parent);
		STR(path, want);
		EQ(lstat(path, &st), 0);
		EQ(st.st_mode, S_IFDIR | 0700);
		EQ(st.st_uid, uid);
	}
	EQ(count(&dir), 0);
	EQ(rmdir(path), 0);
	/* No link leads elsewhere. */
	EQ(symlink("/tmp", path), 0);
	EQ(gm_state_dir_of_workers(&dir, "cuda-cache", uid, getegid(), path),
	   -ENOTDIR);
	EQ(unlink(path), 0);
	gm_state_dir_close(&dir);
}

static void an_instance_is_one_name(void)
{
	struct gm_state_dir dir;
	char want[200];

	EQ(gm_state_dir_open(parent, "..", why, &dir), 0);
	snprintf(want, sizeof(want), "%s/%%2E.", parent);
	STR(dir.path, want);
	gm_state_dir_close(&dir);
	rmdir(want);
}

static void files_come_and_go(void)
{
	struct gm_state_dir dir;
	char **names;

	EQ(open_dir(&dir), 0);
	OK(says(&dir, "a.layers", NULL));
	EQ(gm_state_dir_remove(&dir, "a.layers", why), 0);
	EQ(put(&dir, "b.layers", "one"), 0);
	EQ(put(&dir, "a.layers", ""), 0);
	EQ(put(&dir, "b.layers", "two"), 0);
	OK(says(&dir, "a.layers", ""));
	OK(says(&dir, "b.layers", "two"));
	make_file(&dir, "c.layers.refused-1");
	make_file(&dir, ".layers");
	make_file(&dir, "a.mesh");
	if (EQ(gm_state_dir_list(&dir, ".layers", &names), 2)) {
		STR(names[0], "a.layers");
		STR(names[1], "b.layers");
		free(names[0]);
		free(names[1]);
		free(names);
	}
	EQ(gm_state_dir_remove(&dir, "a.layers", why), 0);
	OK(says(&dir, "a.layers", NULL));
	OK(!is_there(&dir, "old"));
	OK(!is_there(&dir, "new"));
	unlinkat(dir.fd, "c.layers.refused-1", 0);
	unlinkat(dir.fd, "a.mesh", 0);
	unlinkat(dir.fd, ".layers", 0);

	/* An agent that died left these. */
	make_file(&dir, "new");
	make_file(&dir, "old");
	gm_state_dir_close(&dir);
	EQ(open_dir(&dir), 0);
	OK(!is_there(&dir, "old"));
	OK(!is_there(&dir, "new"));
	OK(says(&dir, "b.layers", "two"));
	EQ(gm_state_dir_remove(&dir, "b.layers", why), 0);
	gm_state_dir_close(&dir);
}

/* A map that a held one replaces. */
static void a_file_is_set_aside(void)
{
	struct gm_state_dir dir;
	bool was_there = true;
	char **names;

	EQ(open_dir(&dir), 0);
	EQ(gm_state_dir_set_aside(&dir, "a.layers", why, &was_there), 0);
	OK(!was_there);
	OK(!is_there(&dir, "a.layers.replaced"));
	EQ(gm_state_dir_drop_aside(&dir, "a.layers", why), 0);
	EQ(put(&dir, "a.layers", "one"), 0);
	EQ(gm_state_dir_set_aside(&dir, "a.layers", why, &was_there), 0);
	OK(was_there);
	OK(says(&dir, "a.layers", NULL));
	EQ(count(&dir), 0);
	if (EQ(gm_state_dir_list_aside(&dir, ".layers", &names), 1)) {
		STR(names[0], "a.layers");
		free(names[0]);
		free(names);
	}
	EQ(gm_state_dir_put_back(&dir, "a.layers", why), 0);
	OK(says(&dir, "a.layers", "one"));
	OK(!is_there(&dir, "a.layers.replaced"));
	EQ(gm_state_dir_put_back(&dir, "a.layers", why), -EIO);

	/* One that the disk would not remove is no hindrance. */
	make_file(&dir, "a.layers.replaced");
	EQ(gm_state_dir_set_aside(&dir, "a.layers", why, &was_there), 0);
	EQ(gm_state_dir_drop_aside(&dir, "a.layers", why), 0);
	OK(!is_there(&dir, "a.layers.replaced"));
	EQ(gm_state_dir_list_aside(&dir, ".layers", &names), 0);
	free(names);
	gm_state_dir_close(&dir);
}

static void bad_files_are_put_aside(void)
{
	struct gm_state_dir dir;

	EQ(open_dir(&dir), 0);
	for (int i = 0; i < 3; i++) {
		make_file(&dir, "a.layers");
		EQ(gm_state_dir_refuse(&dir, "a.layers"), 0);
	}
	EQ(gm_state_dir_refuse(&dir, "a.layers"), -ENOENT);
	OK(is_there(&dir, "a.layers.refused-1"));
	OK(is_there(&dir, "a.layers.refused-2"));
	OK(is_there(&dir, "a.layers.refused-3"));
	EQ(count(&dir), 0);
	unlinkat(dir.fd, "a.layers.refused-1", 0);
	unlinkat(dir.fd, "a.layers.refused-2", 0);
	unlinkat(dir.fd, "a.layers.refused-3", 0);
	gm_state_dir_close(&dir);
}

static void only_our_files_are_read(void)
{
	struct gm_state_dir dir;
	size_t bytes;
	char *text;

	EQ(open_dir(&dir), 0);
	EQ(symlinkat("/etc/passwd", dir.fd, "l.layers"), 0);
	EQ(gm_state_dir_read(&dir, "l.layers", why, &text, &bytes), -EPROTO);
	STR(why, "it is no regular file");
	EQ(unlinkat(dir.fd, "l.layers", 0), 0);
	EQ(mkfifoat(dir.fd, "f.layers", 0600), 0);
	EQ(gm_state_dir_read(&dir, "f.layers", why, &text, &bytes), -EPROTO);
	STR(why, "it is no regular file");
	EQ(unlinkat(dir.fd, "f.layers", 0), 0);
	EQ(mknodat(dir.fd, "s.layers", S_IFSOCK | 0600, 0), 0);
	EQ(gm_state_dir_read(&dir, "s.layers", why, &text, &bytes), -EPROTO);
	STR(why, "it is no regular file");
	EQ(unlinkat(dir.fd, "s.layers", 0), 0);
	make_file(&dir, "b.layers");
	if (fchownat(dir.fd, "b.layers", OTHER, (gid_t)-1, 0) == 0) {
		EQ(gm_state_dir_read(&dir, "b.layers", why, &text, &bytes),
		   -EPROTO);
		STR(why, "it belongs to uid 54321");
	} else {
		SKIP(2, "only root can give a file away");
	}
	EQ(unlinkat(dir.fd, "b.layers", 0), 0);
	gm_state_dir_close(&dir);
}

static void only_our_directory_is_used(void)
{
	struct gm_state_dir dir;
	char path[200];

	snprintf(path, sizeof(path), "%s/it", parent);
	EQ(chmod(path, 0770), 0);
	EQ(open_dir(&dir), -EPERM);
	OK(strstr(why, "others may write ") == why);
	EQ(chmod(path, 0700), 0);
	EQ(chmod(parent, 0702), 0);
	EQ(open_dir(&dir), -EPERM);
	EQ(chmod(parent, 0700), 0);
	if (chown(path, OTHER, (gid_t)-1) == 0) {
		EQ(open_dir(&dir), -EPERM);
		OK(strstr(why, " belongs to uid 54321: ") != NULL);
		EQ(chown(path, geteuid(), (gid_t)-1), 0);
	} else {
		SKIP(3, "only root can give a directory away");
	}
	EQ(rmdir(path), 0);
	EQ(symlink("/tmp", path), 0);
	OK(open_dir(&dir) < 0);
	EQ(unlink(path), 0);
	EQ(gm_state_dir_open("/nowhere/at/all", "it", why, &dir), -ENOENT);
	OK(strstr(why, "make it, owned by uid ") != NULL);
}

/* ---- disks that fail --------------------------------------------------- */

/* From here on a system call fails; with @fd, only for that descriptor. */
static int break_call(int call, int error, int fd)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	const struct scmp_arg_cmp is_fd = { .arg = 0,
					    .op = SCMP_CMP_EQ,
					    .datum_a = (scmp_datum_t)fd };
	int ret = filter != NULL ? 0 : -ENOMEM;

	if (ret == 0)
		ret = seccomp_rule_add_array(filter,
					     SCMP_ACT_ERRNO((uint16_t)error),
					     call, fd >= 0 ? 1 : 0, &is_fd);
	if (ret == 0)
		ret = seccomp_load(filter);
	seccomp_release(filter);
	return ret;
}

struct disk {
	int call;
	int error;
	bool is_dir; /* it is the directory's descriptor that fails */
	int status;
	const char *words;
};

/* The errors that a child found, as bits. */
enum {
	CANNOT = 1,
	WROTE = 2,
	REMOVED = 4,
	STATUS = 8,
	WORDS = 16,
	CHANGED = 32
};

static int with_disk(const struct gm_state_dir *dir, const struct disk *disk)
{
	int found = 0, ret;
	bool was_there;

	if (break_call(disk->call, disk->error, disk->is_dir ? dir->fd : -1))
		return CANNOT;
	ret = put(dir, "kept.layers", "other");
	found |= ret == 0 ? WROTE : 0;
	found |= ret != disk->status ? STATUS : 0;
	found |= strstr(why, disk->words) == NULL ? WORDS : 0;
	found |= strstr(why, dir->path) != why ? WORDS : 0;
	found |= put(dir, "fresh.layers", "one") == 0 ? WROTE : 0;
	if (disk->is_dir &&
	    gm_state_dir_remove(dir, "kept.layers", why) != disk->status)
		found |= REMOVED;
	if (disk->is_dir && gm_state_dir_set_aside(dir, "kept.layers", why,
						   &was_there) != disk->status)
		found |= REMOVED;
	if (!says(dir, "kept.layers", "as it was") ||
	    !says(dir, "fresh.layers", NULL) || count(dir) != 1)
		found |= CHANGED;
	return found;
}

/* Each refuses, and leaves what was there as it was. */
static void failing_disks_change_nothing(void)
{
	const struct disk disks[] = {
		{ SCMP_SYS(write), ENOSPC, false, -ENOSPC, "make room" },
		{ SCMP_SYS(write), EDQUOT, false, -ENOSPC, "make room" },
		{ SCMP_SYS(write), EIO, false, -EIO, "look at the disk" },
		{ SCMP_SYS(fsync), EIO, false, -EIO, "look at the disk" },
		{ SCMP_SYS(fsync), ENOSPC, false, -ENOSPC, "make room" },
		{ SCMP_SYS(fsync), EIO, true, -EIO, "look at the disk" },
		{ SCMP_SYS(renameat), EROFS, true, -EROFS, "for writing" },
	};
	struct gm_state_dir dir;

	EQ(open_dir(&dir), 0);
	EQ(put(&dir, "kept.layers", "as it was"), 0);
	for (size_t i = 0; i < sizeof(disks) / sizeof(disks[0]); i++) {
		int status = 0;
		pid_t pid;

		fflush(stdout);
		pid = fork();
		if (pid == 0)
			_exit(with_disk(&dir, &disks[i]));
		waitpid(pid, &status, 0);
		NOTE("%s: %s, of %s", strerror(disks[i].error), disks[i].words,
		     disks[i].is_dir ? "the directory" : "every file");
		if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
			SKIP(1, "no seccomp filter can be loaded here");
		else
			EQ(status, 0);
	}
	EQ(gm_state_dir_remove(&dir, "kept.layers", why), 0);
	gm_state_dir_close(&dir);
	OK(open_dir(&dir) == 0 && !is_there(&dir, "old"));
	gm_state_dir_close(&dir);
}

TAP_CASE()
{
	char path[200];

	snprintf(parent, sizeof(parent), "/tmp/gpumap-test-state-%d",
		 (int)getpid());
	it_is_made_and_locked();
	workers_have_a_folder();
	an_instance_is_one_name();
	files_come_and_go();
	a_file_is_set_aside();
	bad_files_are_put_aside();
	only_our_files_are_read();
	only_our_directory_is_used();
	failing_disks_change_nothing();
	snprintf(path, sizeof(path), "%s/it", parent);
	EQ(rmdir(path), 0);
	EQ(rmdir(parent), 0);
	return tap_done();
}
