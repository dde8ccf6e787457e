/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* attach: which files are taken for a segment, and which are not. */

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>

#include "gpumap.h"
#include "tests/support/segment_file.h"
#include "tests/support/tap.h"

static struct segment_file file;

/* No agent listens there. */
#define NOWHERE "/nonexistent/gpumap"

/* A user with nothing here. */
#define STRANGER 1234567u

static int attach_to(const char *instance, struct gpumap **ret_map)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = instance,
					   .runtime_dir = NOWHERE };

	return gpumap_attach(&opts, ret_map);
}

/* Attach, and give it back at once. */
static int try_attach(void)
{
	struct gpumap *map = NULL;
	int ret = attach_to(file.instance, &map);

	gpumap_detach(map);
	return ret;
}

static void a_good_segment_is_mapped(void)
{
	struct gpumap_health health = { .size = sizeof(health) };
	struct gpumap *map = NULL;

	if (!EQ(attach_to(file.instance, &map), 0))
		return;
	EQ(gpumap_health(map, &health), 0);
	EQ(health.state, GPUMAP_READY);
	EQ(health.stale, 0);
	EQ(health.epoch, 1);
	EQ(health.bytes, SEGMENT_BYTES);
	EQ(health.layout_minor, GM_LAYOUT_MINOR);
	EQ(health.agent_version, 0); /* no agent has written this one */
	gpumap_detach(map);
	gpumap_detach(NULL);
}

static void the_version_is_the_packages(void)
{
	uint32_t v = gpumap_version();
	char release[] = PACKAGE_VERSION;
	char text[32];

	EQ(v, GPUMAP_VERSION);
	snprintf(text, sizeof(text), "%u.%u.%u", v / 10000, v / 100 % 100,
		 v % 100);
	release[strcspn(release, "~")] = '\0'; /* 0.2.0~dev precedes 0.2.0 */
	STR(text, release);
}

static void names_are_checked(void)
{
	char name[GPUMAP_NAME_MAX + 2];
	struct gpumap *map = NULL;

	memset(name, 'x', sizeof(name));
	name[GPUMAP_NAME_MAX + 1] = '\0';
	EQ(attach_to(name, &map), -EINVAL);
	EQ(attach_to("", &map), -EINVAL);
	EQ(attach_to("a/b", &map), -EINVAL);
	EQ(attach_to("../x", &map), -EINVAL);
	EQ(attach_to(".", &map), -EINVAL);
	EQ(attach_to("..", &map), -EINVAL);
	name[GPUMAP_NAME_MAX] = '\0';
	EQ(attach_to(name, &map), -ENOENT);
	OK(map == NULL);
}

static void options_may_be_older_or_newer(void)
{
	struct {
		struct gpumap_attach_opts opts;
		uint64_t later;
	} newer = { .opts = { .size = sizeof(newer),
			      .instance = file.instance,
			      .runtime_dir = NOWHERE } };
	struct gpumap *map = NULL;

	EQ(gpumap_attach(&newer.opts, &map), 0);
	gpumap_detach(map);
	newer.later = 1;
	EQ(gpumap_attach(&newer.opts, &map), -E2BIG);
	newer.opts.size = sizeof(newer.opts);
	newer.opts.flags = 1;
	EQ(gpumap_attach(&newer.opts, &map), -E2BIG);
	newer.opts.size = offsetof(struct gpumap_attach_opts, flags);
	EQ(gpumap_attach(&newer.opts, &map), 0);
	gpumap_detach(map);
	newer.opts.size = 0;
	EQ(gpumap_attach(&newer.opts, &map), -EINVAL);
}

static void files_that_others_may_write_are_refused(void)
{
	EQ(chmod(file.path, 0664), 0);
	EQ(try_attach(), -EPERM);
	EQ(chmod(file.path, 0646), 0);
	EQ(try_attach(), -EPERM);
	EQ(chmod(file.path, 0444), 0);
	EQ(try_attach(), 0);
	EQ(chmod(file.path, 0644), 0);
}

static void files_of_strangers_are_refused(void)
{
	if (geteuid() != 0) {
		SKIP(4, "only root gives files away");
		return;
	}
	EQ(chown(file.path, 12345, (gid_t)-1), 0);
	EQ(try_attach(), -EPERM);
	EQ(chown(file.path, 0, (gid_t)-1), 0);
	EQ(try_attach(), 0);
}

/* The file of one more instance, in the folder of the agents of @uid. */
static bool give_away(uid_t uid, const char *instance)
{
	char user[GM_NAMES_BYTES], folder[GM_NAMES_BYTES];
	char path[GM_NAMES_BYTES];

	gm_names_user(user, uid);
	gm_names_file(folder, uid, instance, "");
	gm_names_file(path, uid, instance, "map");
	return mkdir(user, GM_NAMES_MODE) == 0 &&
	       mkdir(folder, GM_NAMES_MODE) == 0 && link(file.path, path) == 0;
}

static bool own(uid_t uid, uid_t owner)
{
	char user[GM_NAMES_BYTES];

	gm_names_user(user, uid);
	return chown(user, owner, (gid_t)-1) == 0 &&
	       chown(file.path, owner, (gid_t)-1) == 0;
}

static void take_back(uid_t uid, const char *instance)
{
	char path[GM_NAMES_BYTES];

	EQ(chown(file.path, 0, (gid_t)-1), 0);
	gm_names_file(path, uid, instance, "");
	shm_names_remove_dir(path);
	gm_names_user(path, uid);
	EQ(rmdir(path), 0);
}

/* The map of another user's agent is found where that user owns the runtime
 * directory, and so decides which process answers on the socket there. */
static void the_owner_of_the_runtime_directory_is_believed(void)
{
	char dir[] = "/tmp/gpumap-test.attach.XXXXXX";
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = "other",
					   .runtime_dir = dir };
	uid_t uid = STRANGER + (uid_t)getpid();
	struct gpumap *map = NULL;

	if (geteuid() != 0) {
		SKIP(9, "only root gives files away");
		return;
	}
	OK(mkdtemp(dir) != NULL);
	EQ(chown(dir, uid, (gid_t)-1), 0);
	if (!OK(give_away(uid, "other")))
		return;
	OK(own(uid, uid));
	EQ(gpumap_attach(&opts, &map), 0);
	gpumap_detach(map);
	/* Root's files in another's folder, and the other way round. */
	OK(own(uid, 0));
	EQ(gpumap_attach(&opts, &map), -EPERM);
	EQ(chown(file.path, uid, (gid_t)-1), 0);
	EQ(gpumap_attach(&opts, &map), -EPERM);
	take_back(uid, "other");
	rmdir(dir);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) > 0;

	if (fd >= 0)
		close(fd);
	return good;
}

/* In a user namespace that has one uid alone, every other one looks the same.
 * Returns what gpumap_attach() does, or 1: there is no such namespace. */
static int attach_among_strangers(struct gpumap_attach_opts *opts)
{
	struct gpumap *map = NULL;
	int ret;

	if (unshare(CLONE_NEWUSER) != 0 ||
	    !write_text("/proc/self/uid_map", "0 0 1"))
		return 1;
	ret = gpumap_attach(opts, &map);
	gpumap_detach(map);
	return ret;
}

/* There a file of any user looks as if it were the runtime directory's
 * owner's. */
static void an_owner_who_cannot_be_told_is_not_believed(void)
{
	char dir[] = "/tmp/gpumap-test.attach.XXXXXX";
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = file.instance,
					   .runtime_dir = dir };
	const uid_t overflow = 65534;
	int status = -1;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(4, "only root gives files away");
		return;
	}
	OK(mkdtemp(dir) != NULL);
	EQ(chown(dir, STRANGER, (gid_t)-1), 0);
	if (!give_away(overflow, file.instance) ||
	    !own(overflow, STRANGER + 1)) {
		SKIP(2, "user 65534 has a folder in /dev/shm");
		return;
	}
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(-attach_among_strangers(&opts) & 0xff);
	EQ(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 0xff)
		SKIP(1, "no user namespace");
	else
		EQ(WEXITSTATUS(status), EPERM);
	take_back(overflow, file.instance);
	rmdir(dir);
}

static void links_and_other_things_are_refused(void)
{
	char other[sizeof(file.path) + 8];

	snprintf(other, sizeof(other), "%s.real", file.path);
	EQ(rename(file.path, other), 0);
	EQ(symlink(other, file.path), 0);
	EQ(try_attach(), -EPERM);
	unlink(file.path);
	EQ(mkfifo(file.path, 0644), 0);
	EQ(try_attach(), -EPROTO);
	unlink(file.path);
	EQ(mkdir(file.path, 0755), 0);
	EQ(try_attach(), -EPROTO);
	rmdir(file.path);
	EQ(try_attach(), -ENOENT);
	EQ(rename(other, file.path), 0);
	EQ(try_attach(), 0);
}

static void short_and_foreign_files_are_refused(void)
{
	struct gm_header *h = file.segment.map.header;
	uint64_t hash = gm_get(&h->layout);
	char aside[sizeof(file.path) + 8];
	int fd;

	gm_put(&h->layout, hash + 1);
	EQ(try_attach(), -EPROTO);
	gm_put(&h->layout, hash);
	gm_put(&h->major, GM_LAYOUT_MAJOR + 1);
	EQ(try_attach(), -EPROTO);
	gm_put(&h->major, GM_LAYOUT_MAJOR);
	gm_put(&h->magic, 0);
	EQ(try_attach(), -EPROTO);
	gm_put(&h->magic, GM_MAGIC);
	gm_put(&h->size, SEGMENT_BYTES + 4096);
	EQ(try_attach(), -EPROTO);
	gm_put(&h->size, SEGMENT_BYTES);
	/* A newer minor only appends. */
	gm_put(&h->minor, GM_LAYOUT_MINOR + 1);
	EQ(try_attach(), 0);
	gm_put(&h->minor, GM_LAYOUT_MINOR);

	snprintf(aside, sizeof(aside), "%s.aside", file.path);
	EQ(rename(file.path, aside), 0);
	fd = open(file.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	EQ(try_attach(), -EPROTO); /* empty */
	EQ(write(fd, "GPUMAP", 6), 6);
	EQ(try_attach(), -EPROTO);
	EQ(ftruncate(fd, (off_t)GM_SEGMENT_MAX + 4096), 0);
	EQ(try_attach(), -EPROTO);
	close(fd);
	EQ(rename(aside, file.path), 0);
}

static void a_retired_segment_is_none(void)
{
	struct gm_header *h = file.segment.map.header;
	struct gpumap_health health = { .size = sizeof(health) };
	struct gpumap *map = NULL;

	EQ(attach_to(file.instance, &map), 0);
	gm_put(&h->state, GM_STATE_RETIRED);
	EQ(try_attach(), -ENOENT);
	EQ(gpumap_health(map, &health), 0);
	EQ(health.state, GPUMAP_RETIRED);
	EQ(gpumap_wait_change(map, gpumap_generation(map), 0), -ESTALE);
	gm_put(&h->state, GM_STATE_READY);
	segment_file_beat(&file); /* this machine may be slow */
	EQ(gpumap_wait_change(map, gpumap_generation(map), 0), -ETIME);
	EQ(gpumap_wait_change(map, gpumap_generation(map) - 1, 0), 0);
	gpumap_detach(map);
}

static void silence_is_seen(void)
{
	struct gm_header *h = file.segment.map.header;
	struct gpumap_health health = { .size = sizeof(health) };
	uint64_t beat = gm_get(&h->heartbeat);
	struct gpumap *map = NULL;

	EQ(attach_to(file.instance, &map), 0);
	gm_put(&h->heartbeat, beat - GM_STALE_NS);
	EQ(gpumap_health(map, &health), 0);
	EQ(health.stale, 1);
	OK(health.age_ns >= GM_STALE_NS);
	EQ(gpumap_wait_change(map, gpumap_generation(map), GPUMAP_NO_DEADLINE),
	   -ESTALE);
	health.size = 4097;
	EQ(gpumap_health(map, &health), -E2BIG);
	health.size = 8;
	EQ(gpumap_health(map, &health), -EINVAL);
	segment_file_beat(&file);
	gpumap_detach(map);
}

/* There is no attachment to ask for the reason yet. */
static void each_refusal_has_a_reason(void)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = file.instance,
					   .runtime_dir = NOWHERE };
	char longest[PATH_MAX + 1];
	struct gpumap *map = NULL;

	EQ(attach_to("nobody", &map), -ENOENT);
	OK(strstr(gpumap_refusal(NULL), "\"nobody\": no agent") != NULL);
	OK(strstr(gpumap_refusal(NULL), NOWHERE) != NULL);
	EQ(attach_to("a/b", &map), -EINVAL);
	OK(strstr(gpumap_refusal(NULL), "\"a/b\" is no name") != NULL);
	EQ(chmod(file.path, 0646), 0);
	EQ(attach_to(file.instance, &map), -EPERM);
	OK(strstr(gpumap_refusal(NULL), "runtime directory") != NULL);
	EQ(chmod(file.path, 0644), 0);
	memset(longest, '/', PATH_MAX);
	longest[PATH_MAX] = '\0';
	opts.runtime_dir = longest;
	EQ(gpumap_attach(&opts, &map), -EINVAL);
	OK(strstr(gpumap_refusal(NULL), "4096 bytes") != NULL);
	opts.flags = 2;
	EQ(gpumap_attach(&opts, &map), -E2BIG);
	OK(strstr(gpumap_refusal(NULL), "0x2") != NULL);
	opts.size = 0;
	EQ(gpumap_attach(&opts, &map), -EINVAL);
	OK(strstr(gpumap_refusal(NULL), "sizeof") != NULL);
	OK(map == NULL);
	EQ(attach_to(file.instance, &map), 0);
	STR(gpumap_refusal(NULL), "");
	STR(gpumap_refusal(map), "");
	gpumap_detach(map);
}

static void requests_without_an_agent_say_so(void)
{
	struct gpumap_session *session = NULL;
	struct gpumap *map = NULL;

	EQ(attach_to(file.instance, &map), 0);
	STR(gpumap_refusal(map), "");
	EQ(gpumap_layers_release(map, "m"), -ECONNREFUSED);
	OK(strstr(gpumap_refusal(map), NOWHERE) != NULL);
	OK(strstr(gpumap_refusal(map), "gpumapd") != NULL);
	EQ(gpumap_session_open(map, NULL, &session), -ECONNREFUSED);
	OK(session == NULL);
	EQ(gpumap_layers_release(map, ""), -EINVAL);
	STR(gpumap_refusal(map), "a name has between 1 and 63 bytes");
	gpumap_detach(map);
}

/* A session may be opened by any thread, also while another makes the first
 * request of the attachment: that is no fork. */
static void *open_one(void *map)
{
	struct gpumap_session *session = NULL;
	intptr_t ret = gpumap_session_open(map, NULL, &session);

	return (void *)ret;
}

static void threads_are_no_children(void)
{
	int taken_for_one = 0;

	for (int i = 0; i < 500; i++) {
		struct gpumap *map = NULL;
		pthread_t thread;
		void *ret = NULL;

		if (attach_to(file.instance, &map) != 0 ||
		    pthread_create(&thread, NULL, open_one, map) != 0)
			break;
		for (int n = 0; n < i % 20; n++)
			gm_pause();
		taken_for_one += gpumap_layers_release(map, "x") == -EOWNERDEAD;
		pthread_join(thread, &ret);
		taken_for_one += (intptr_t)ret == -EOWNERDEAD;
		gpumap_detach(map);
	}
	EQ(taken_for_one, 0);
}

TAP_CASE()
{
	if (segment_file_make("attach", &file) != 0) {
		SKIP(1, "no segment in /dev/shm");
		return tap_done();
	}
	a_good_segment_is_mapped();
	threads_are_no_children();
	the_version_is_the_packages();
	names_are_checked();
	options_may_be_older_or_newer();
	files_that_others_may_write_are_refused();
	files_of_strangers_are_refused();
	the_owner_of_the_runtime_directory_is_believed();
	an_owner_who_cannot_be_told_is_not_believed();
	links_and_other_things_are_refused();
	short_and_foreign_files_are_refused();
	a_retired_segment_is_none();
	silence_is_seen();
	each_refusal_has_a_reason();
	requests_without_an_agent_say_so();
	segment_file_remove(&file);
	return tap_done();
}
