/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * A store in a directory: what each store promises; processes that are killed
 * at each marked instant; files that must not be believed; a full disk, and
 * one that may not be written.
 */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/store/store_folder.h"
#include "tests/support/shm_names.h"
#include "tests/support/tap.h"
#include "tests/support/users.h"
#include "tests/support/nodes/store_rig.h"
#include "tests/unit/store/store_stories.h"

static char folder[64], link_to_it[72];
static char text[GM_STORE_VALUE_BYTES + 1];

static void cut(void)
{
	EQ(unlink(link_to_it), 0);
}

static void heal(void)
{
	EQ(symlink(folder, link_to_it), 0);
}

static struct store_place place = {
	.opts = { .directory = link_to_it },
	.direct = { .directory = folder },
	.ttl_ms = GM_STORE_LEASE_MIN,
	.cut = cut,
	.heal = heal,
};

static void make_place(void)
{
	snprintf(folder, sizeof(folder), "/dev/shm/gpumap-test.%d.store",
		 getpid());
	snprintf(link_to_it, sizeof(link_to_it), "%s.link", folder);
	EQ(mkdir(folder, 0755), 0);
	heal();
}

static const char *path_of(const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

/* How many names the directory has that begin so. */
static int count_names(const char *prefix)
{
	char command[256];
	int n = -1;
	FILE *list;

	snprintf(command, sizeof(command), "ls -A '%s' | grep -c '^%s'", folder,
		 prefix);
	list = popen(command, "re");
	if (list == NULL || fscanf(list, "%d", &n) != 1)
		n = -1;
	if (list != NULL)
		pclose(list);
	return n;
}

/* ---- deaths -------------------------------------------------------------- */

#ifdef GM_TESTPOINTS

/* The acts of killed processes, with a key that had "old" or nothing. */
static void put_new(struct gm_store *store)
{
	rig_put(store, "k", "new", NULL, NULL);
}

static void delete_it(struct gm_store *store)
{
	rig_put(store, "k", NULL, NULL, NULL);
}

static void put_with_lease(struct gm_store *store)
{
	struct rig_lease lease;

	if (rig_lease(store, &lease, GM_STORE_LEASE_MIN))
		rig_put(store, "k", "new", &lease.lease, NULL);
}

static void die_in(void (*act)(struct gm_store *store), const char *point)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("GM_POINT", point, 1);
		act(rig_open(&place.direct));
		_exit(0);
	}
	EQ(waitpid(pid, &status, 0), pid);
	OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void make_old(const char *path)
{
	struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	utimensat(AT_FDCWD, path, old, AT_SYMLINK_NOFOLLOW);
}

/* Age all that is there, for the next sweep. */
static void make_all_old(void)
{
	char command[160];

	snprintf(command, sizeof(command),
		 "find '%s' -mindepth 1 -exec touch -d @1 {} +", folder);
	EQ(system(command), 0);
	make_old(folder);
}

/* Others find the old value or the new one, go on, and clear up. */
static void a_death_harms_none(const char *before,
			       void (*act)(struct gm_store *store),
			       const char *point, const char *after)
{
	struct gm_store *store = rig_open(&place.opts);
	struct rig_watch watch;
	struct rig_result result;
	uint64_t revision;

	NOTE("%s", point);
	rig_put(store, "k", before, NULL, NULL);
	die_in(act, point);
	EQ(rig_get(store, "k", text, &revision), 0);
	STR(text, after);
	make_all_old();
	EQ(rig_cas(store, "k", "next", revision, &result), 0);
	EQ(rig_cas(store, "k", "wrong", revision, NULL), -ESTALE);
	EQ(rig_get(store, "k", text, NULL), 0);
	STR(text, "next");
	gm_store_close(store);
	/* The first look of a watch sweeps. */
	store = rig_open(&place.opts);
	rig_watch(store, &watch, "");
	OK(rig_resyncs(store, &watch, 1));
	STR(rig_seen(&watch, "k"), "next");
	EQ(count_names("="), 1);
	EQ(count_names("[.]tmp"), 0);
	EQ(rig_put(store, "k", NULL, NULL, NULL), 0);
	OK(rig_sees(store, &watch, "k", ""));
	gm_store_close(store);
	rig_watch_end(&watch);
	EQ(count_names("[^@]"), 0);
}

static void deaths(void)
{
	a_death_harms_none(NULL, put_new, "sync_value_written:kill", "");
	a_death_harms_none(NULL, put_new, "sync_key_made:kill", "");
	a_death_harms_none(NULL, put_new, "sync_value_named:kill", "new");
	a_death_harms_none("old", put_new, "sync_value_written:kill", "old");
	a_death_harms_none("old", put_new, "sync_value_named:kill", "new");
	a_death_harms_none("old", delete_it, "sync_value_named:kill", "");
	a_death_harms_none("old", put_with_lease, "sync_lease_written:kill",
			   "old");
}

#else

static void deaths(void)
{
	SKIP(1, "needs --enable-testpoints");
}

#endif

/* ---- hostile files ------------------------------------------------------- */

static void write_file(const char *name, const char *bytes, size_t n)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
		      0644);

	OK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
	close(fd);
}

/* The file of the one value that there is. */
static const char *value_path(struct gm_store *store)
{
	static char path[512];
	char name[GM_STORE_ID_BYTES];
	uint64_t revision = 0;

	rig_get(store, "bad", text, &revision);
	gm_store_folder_id('=', revision, name);
	snprintf(path, sizeof(path), "%s", path_of(name));
	return path;
}

static void fifo(const char *path)
{
	unlink(path);
	EQ(mkfifo(path, 0644), 0);
}

static void symbolic(const char *path)
{
	unlink(path);
	EQ(symlink("/etc/passwd", path), 0);
}

static void folder_there(const char *path)
{
	unlink(path);
	EQ(mkdir(path, 0755), 0);
}

static void huge(const char *path)
{
	EQ(truncate(path, (off_t)1 << 40), 0);
}

static void cut_short(const char *path)
{
	EQ(truncate(path, 20), 0);
}

static void longer(const char *path)
{
	EQ(truncate(path, 60), 0);
}

static void another_line(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	EQ(pwrite(fd, "gpumap-value 1 -", 16, 0), 16);
	close(fd);
}

static void open_to_all(const char *path)
{
	EQ(chmod(path, 0666), 0);
}

static void gone(const char *path)
{
	EQ(unlink(path), 0);
}

static void not_ours(const char *path)
{
	if (geteuid() == 0)
		EQ(chown(path, 4242, 4242), 0);
	else
		gone(path);
}

/* The value is refused, with a reason, and nothing else is harmed. */
static void it_is_refused(void (*spoil)(const char *path))
{
	struct gm_store *store = rig_open(&place.opts);
	struct rig_watch watch;

	EQ(rig_put(store, "bad", "value", NULL, NULL), 0);
	EQ(rig_put(store, "good", "value", NULL, NULL), 0);
	spoil(value_path(store));
	EQ(rig_get(store, "bad", text, NULL), 0);
	STR(text, "?");
	rig_watch(store, &watch, "");
	OK(rig_resyncs(store, &watch, 1));
	STR(rig_seen(&watch, "bad"), "?");
	STR(rig_seen(&watch, "good"), "value");
	OK(strstr(watch.why, folder) != NULL);
	NOTE("%s", watch.why);
	/* Another value is believed. */
	EQ(rig_put(store, "bad", "new", NULL, NULL), 0);
	OK(rig_sees(store, &watch, "bad", "new"));
	EQ(rig_put(store, "bad", NULL, NULL, NULL), 0);
	EQ(rig_put(store, "good", NULL, NULL, NULL), 0);
	OK(rig_sees(store, &watch, "good", ""));
	gm_store_close(store);
	rig_watch_end(&watch);
}

static void hostile_values(void)
{
	it_is_refused(fifo);
	it_is_refused(symbolic);
	it_is_refused(folder_there);
	it_is_refused(huge);
	it_is_refused(cut_short);
	it_is_refused(longer);
	it_is_refused(another_line);
	it_is_refused(open_to_all);
	it_is_refused(not_ours);
	it_is_refused(gone);
	shm_names_remove_dir(folder);
	EQ(mkdir(folder, 0755), 0);
}

/* Names that are no keys are left alone, as those of other programs; keys that
 * are no directories of ours are refused. */
static void hostile_names(void)
{
	struct gm_store *store = rig_open(&place.opts);
	struct rig_watch watch;
	char apart[80], kept[128];

	write_file("a b", "x", 1);
	write_file("@123", "x", 1);
	write_file("=zz", "x", 1);
	EQ(mkdir(path_of("lost+found"), 0700), 0);
	EQ(mkdir(path_of("other"), 0755), 0);
	write_file("other/file", "x", 1);
	write_file("+file", "x", 1);
	snprintf(apart, sizeof(apart), "%s.apart", folder);
	snprintf(kept, sizeof(kept), "%s/t0000000000000007", apart);
	EQ(mkdir(apart, 0755), 0);
	close(open(kept, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	EQ(symlink(apart, path_of("+link")), 0);
	EQ(mkfifo(path_of("+fifo"), 0644), 0);
	EQ(mkdir(path_of("+wide"), 0777), 0);
	EQ(chmod(path_of("+wide"), 0777), 0);
	write_file("+wide/t0000000000000007", "", 0);
	EQ(mkdir(path_of("+two"), 0755), 0);
	write_file("+two/t0000000000000007", "", 0);
	write_file("+two/t0000000000000008", "", 0);
	EQ(mkdir(path_of("+full"), 0755), 0);
	write_file("+full/other", "", 0);
	EQ(rig_put(store, "good", "value", NULL, NULL), 0);
	rig_watch(store, &watch, "");
	OK(rig_resyncs(store, &watch, 1));
	STR(rig_seen(&watch, "good"), "value");
	STR(rig_seen(&watch, "file"), "?");
	STR(rig_seen(&watch, "link"), "?");
	STR(rig_seen(&watch, "fifo"), "?");
	STR(rig_seen(&watch, "wide"), "?");
	STR(rig_seen(&watch, "two"), "?");
	STR(rig_seen(&watch, "full"), "?");
	EQ(watch.values.n, 7);
	OK(rig_put(store, "link", "x", NULL, NULL) < 0);
	OK(rig_put(store, "wide", "x", NULL, NULL) < 0);
	OK(access(kept, F_OK) == 0);
	EQ(unlink(path_of("+link")), 0);
	OK(rig_sees(store, &watch, "link", ""));
	EQ(access(path_of("lost+found"), F_OK), 0);
	gm_store_close(store);
	rig_watch_end(&watch);
	shm_names_remove_dir(apart);
	shm_names_remove_dir(folder);
	EQ(mkdir(folder, 0755), 0);
}

/* ---- directories --------------------------------------------------------- */

/* The status of a put, and a reason that has these words. */
static void put_fails(int status, const char *words)
{
	struct gm_store *store = rig_open(&place.direct);
	struct rig_result result;

	EQ(rig_put(store, "k", "value", NULL, &result), status);
	if (!OK(strstr(result.why, words) != NULL))
		NOTE("%s", result.why);
	gm_store_close(store);
}

static void directories(void)
{
	EQ(chmod(folder, 0777), 0);
	put_fails(-EHOSTUNREACH, "chmod o-w");
	EQ(chmod(folder, 0755), 0);
	EQ(rmdir(folder), 0);
	put_fails(-EHOSTUNREACH, "make it, or mount it");
	close(open(folder, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	put_fails(-EHOSTUNREACH, "Not a directory");
	EQ(unlink(folder), 0);
	EQ(mkdir(folder, 0755), 0);
	put_fails(0, "");
	shm_names_remove_dir(folder);
	EQ(mkdir(folder, 0755), 0);
}

/* A user who may only read sees all, and is told what to do. */
static int read_only_user(void)
{
	struct gm_store *store = rig_open(&place.direct);
	struct rig_result result;
	struct rig_watch watch;
	bool good;

	rig_watch(store, &watch, "");
	good = rig_resyncs(store, &watch, 1) &&
	       strcmp(rig_seen(&watch, "k"), "value") == 0 &&
	       rig_put(store, "k", "x", NULL, &result) == -EACCES &&
	       strstr(result.why, "let this user") != NULL;
	gm_store_close(store);
	return good ? 0 : 1;
}

static void readers(void)
{
	struct gm_store *store = rig_open(&place.direct);

	EQ(rig_put(store, "k", "value", NULL, NULL), 0);
	if (geteuid() == 0)
		EQ(user_run(4242, read_only_user), 0);
	else
		SKIP(1, "needs root");
	EQ(rig_put(store, "k", NULL, NULL, NULL), 0);
	gm_store_close(store);
}

#define MANY 3000

/* Put many keys under a lease, and live on. */
static void own_many(int tell)
{
	struct gm_store *store = rig_open(&place.direct);
	struct rig_lease lease;
	char key[32];

	if (!rig_lease(store, &lease, 4 * GM_STORE_LEASE_MIN))
		_exit(1);
	for (int i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "many/%d", i);
		if (rig_put(store, key, "value", &lease.lease, NULL) != 0)
			_exit(1);
	}
	if (write(tell, "", 1) != 1)
		_exit(1);
	for (;;)
		rig_run(store, GM_STORE_LEASE_MIN);
}

static bool has_many(void *data)
{
	return ((struct rig_watch *)data)->values.n == MANY;
}

static bool has_none(void *data)
{
	return ((struct rig_watch *)data)->values.n == 0;
}

/* However many keys end, and however long a disk takes to delete each. */
static void what_has_ended_is_said_before_it_is_deleted(void)
{
	struct gm_store *store = rig_open(&place.direct);
	struct rig_watch watch;
	int said[2], n_left;
	char byte;
	pid_t pid;

	EQ(pipe(said), 0);
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		own_many(said[1]);
	EQ(read(said[0], &byte, 1), 1);
	rig_watch(store, &watch, "many/");
	OK(rig_until(store, has_many, &watch));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	OK(rig_until(store, has_none, &watch));
	n_left = count_names("+many+");
	NOTE("%d keys were left when the last was said", n_left);
	OK(n_left > 0);
	for (int i = 0; i < 600 && n_left > 0; i++) {
		rig_run(store, 100);
		n_left = count_names("+many+");
	}
	EQ(n_left, 0);
	EQ(watch.n_puts, MANY);
	EQ(watch.n_deletes, MANY);
	gm_store_close(store);
	rig_watch_end(&watch);
	close(said[0]);
	close(said[1]);
}

/* When the disk is full, all that was acknowledged is there, and a lease is
 * renewed. */
static void full_disk(void)
{
	static char most[GM_STORE_VALUE_BYTES];
	struct rig_result result = { 0 };
	struct gm_store *store;
	struct rig_lease lease;
	char key[32];
	int n = 0;

	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", folder, "tmpfs", 0, "size=512k,mode=755") != 0) {
		SKIP(1, "cannot mount a small disk");
		return;
	}
	memset(most, 'x', sizeof(most) - 1);
	store = rig_open(&place.direct);
	OK(rig_lease(store, &lease, GM_STORE_LEASE_MIN));
	EQ(rig_put(store, "leased", "value", &lease.lease, NULL), 0);
	for (; n < 100; n++) {
		snprintf(key, sizeof(key), "n/%d", n);
		if (rig_put(store, key, most, NULL, &result) != 0)
			break;
	}
	OK(n > 10 && n < 100);
	EQ(result.status, -ENOSPC);
	OK(strstr(result.why, "make room") != NULL);
	EQ(rig_count(store, "n/"), n);
	EQ(rig_put(store, "n/0", most, NULL, NULL), -ENOSPC);
	rig_run(store, 2 * GM_STORE_LEASE_MIN);
	EQ(lease.n_lost, 0);
	EQ(rig_count(store, "leased"), 1);
	EQ(rig_get(store, "n/0", text, NULL), 0);
	STR(text, most);
	EQ(rig_put(store, "n/1", NULL, NULL, NULL), 0);
	EQ(rig_put(store, "n/0", "small", NULL, NULL), 0);
	if (mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0)
		EQ(rig_put(store, "n/0", "x", NULL, &result), -EROFS);
	OK(strstr(result.why, "for writing") != NULL);
	EQ(rig_get(store, "n/0", text, NULL), 0);
	STR(text, "small");
	gm_store_close(store);
	EQ(umount(folder), 0);
}

TAP_CASE()
{
	make_place();
	stories_of_values(&place);
	stories_of_cas(&place);
	stories_of_watches(&place);
	stories_of_leases(&place);
	stories_of_cuts(&place);
	deaths();
	hostile_values();
	hostile_names();
	directories();
	readers();
	what_has_ended_is_said_before_it_is_deleted();
	full_disk();
	unlink(link_to_it);
	shm_names_remove_dir(folder);
	return tap_done();
}
