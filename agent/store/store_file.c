/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * store_file - a store in a directory that nodes share (store_folder.h).
 *
 * A watch looks at all keys whenever inotify tells of a change that a process
 * of this node has made, and every 200 ms for those of other nodes: less often
 * where a look takes so long that it would be more than a twentieth of the
 * time.
 *
 * Leases know no wall clock and compare no time of two machines.  The owner
 * writes another number into the lease's file each quarter of the lease's time.
 * Each watch looks at it each tenth, with the next look at the keys, at least
 * twice a second unless looks take long, and remembers, by its own clock, when
 * it last saw the number change: a lease whose number stays for three quarters
 * of the time has ended, so that watches know of an owner's end within the time
 * where looks are quick.  Each deletes the lease's keys by their revisions.
 * The time in which the watching process did not run does not count.  The
 * owner, by its own clock, holds a lease for no longer than three quarters from
 * before the last number was written, so it knows of the end before any watch
 * does.  A watch or a list that begins gives each lease as long.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "agent/common/running_clock.h"
#include "agent/store/keys.h"
#include "agent/store/store_folder.h"

#define LOOK_NS   (200 * GM_STORE_NS_MS) /* from one look to the next */
#define LATEST_NS (2000 * GM_STORE_NS_MS)
#define SOON_NS   (10 * GM_STORE_NS_MS)  /* changes come together */
#define BEATS_NS  (500 * GM_STORE_NS_MS) /* at most between two looks at them */
#define DELETE_NS (20 * GM_STORE_NS_MS)  /* of a look, for what has ended */
#define WORK_NS   (20 * GM_STORE_NS_MS)  /* of requests, until leases are due */
#define SWEEP_NS  (60000 * GM_STORE_NS_MS)
#define RACY_NS   (2000 * GM_STORE_NS_MS) /* stamps are coarser than changes */
#define DUTY      20u
#define MISSES    3u  /* looks that do not list a key that is there */
#define LOOKS     100 /* at a key whose value is replaced meanwhile */

/* The revision of a key that is refused before it is known. */
#define NO_REVISION UINT64_C(1)

/* A key of the directory. */
struct file_key {
	struct gm_key key; /* its mark is the last look that listed it */
	uint64_t lease;
	uint32_t ttl_ms;
	bool ended;   /* its lease has */
	bool refused; /* its value may not be believed, or is not there */
	bool fresh;   /* its directory is as at @stamp */
	struct stat stamp;
	uint64_t changed_ns; /* when @stamp was another, as we saw */
};

/* A lease of any node's. */
struct file_lease {
	struct gm_key
		key; /* its name; the mark is the last look that needed it */
	char beat[GM_STORE_BEAT_BYTES];
	uint64_t changed_ns; /* of the running clock */
};

/* A lease of ours. */
struct own_lease {
	struct own_lease *next;
	struct gm_store_lease *lease;
	uint64_t id; /* 0: not held */
	uint64_t number;
	uint64_t since_ns; /* before the last beat that was written */
	uint64_t due_ns;
};

struct file_watch {
	struct file_watch *next;
	struct gm_store_watch *watch;
	struct gm_keys said;
	bool is_synced;
	bool is_cut; /* and that was said */
};

struct gm_store_file {
	struct gm_store store;
	struct gm_store_folder folder;
	char *path;
	int inotify;
	struct gm_keys keys;   /* struct file_key */
	struct gm_keys leases; /* struct file_lease */
	struct own_lease *own;
	struct file_watch *watches;
	struct gm_running_clock clock;
	uint64_t n_looks;
	uint64_t looked_ns; /* the end of the last look */
	uint64_t took_ns;
	uint64_t look_ns; /* when the next is due */
	uint64_t beats_ns;
	uint64_t sweep_ns;
};

static struct gm_store_file *file_of(struct gm_store *store)
{
	return (struct gm_store_file *)(void *)store;
}

/* ---- looking at the keys ------------------------------------------------- */

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Is there nothing new about it?  A stamp that has only just changed may stay
 * the same over another change. */
static bool is_unchanged(struct gm_store_file *f, struct file_key *key,
			 const char *name, uint64_t now_ns)
{
	struct stat st;

	if (fstatat(f->folder.fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		key->fresh = false;
		return false;
	}
	if (!is_same(&st, &key->stamp)) {
		key->stamp = st;
		key->changed_ns = now_ns;
		key->fresh = false;
	}
	return key->fresh && !key->refused &&
	       now_ns - key->changed_ns > RACY_NS;
}

static void listen_to(struct gm_store_file *f, int fd)
{
	char path[32];

	if (f->inotify < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	inotify_add_watch(f->inotify, path,
			  IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF |
				  IN_ONLYDIR);
}

static void set_revision(struct file_key *key, uint64_t revision,
			 const struct gm_store_value_head *head)
{
	if (revision != key->key.revision)
		key->ended = false;
	key->key.revision = revision;
	key->lease = head->lease;
	key->ttl_ms = head->ttl_ms;
}

/* Find the revision and the lease of a key. */
static void look_at(struct gm_store_file *f, struct file_key *key)
{
	uint64_t before = key->key.revision;
	bool was_refused = key->refused;

	for (int i = 0; i < LOOKS; i++) {
		struct gm_store_value_head head = { 0 };
		uint64_t revision;
		int fd, ret = gm_store_folder_look(&f->folder, key->key.key,
						   &fd, &revision);

		if (fd >= 0) {
			listen_to(f, fd);
			close(fd);
		}
		key->fresh = ret == 0;
		key->refused = ret != 0;
		if (ret != 0)
			revision = NO_REVISION;
		if (revision == before && !was_refused && ret == 0)
			return;
		if (revision != 0 && ret == 0)
			ret = gm_store_folder_value(&f->folder, revision, &head,
						    NULL);
		set_revision(key, revision, &head);
		key->refused = ret != 0;
		/* A value that is gone has been followed by another. */
		if (ret != -ENOENT)
			return;
	}
}

static int look_at_all(struct gm_store_file *f)
{
	char name_key[GM_STORE_KEY_BYTES];
	int copy =
		openat(f->folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = copy >= 0 ? fdopendir(copy) : NULL;
	const struct dirent *entry;
	uint64_t now_ns = gm_store_now();
	int ret = 0;

	if (list == NULL) {
		int error = errno;

		if (copy >= 0)
			close(copy);
		return gm_store_fail(&f->store, -error, "%s: list: %s", f->path,
				     strerror(error));
	}
	for (unsigned int i = 0; i < GM_STORE_NAMES_MOST; i++) {
		struct file_key *key;

		entry = readdir(list);
		if (entry == NULL)
			break;
		if (!gm_store_folder_key(entry->d_name, name_key))
			continue;
		key = (struct file_key *)(void *)gm_keys_add(&f->keys,
							     name_key);
		if (key == NULL) {
			ret = gm_store_fail(&f->store, -E2BIG,
					    "%s: there are more than %u keys",
					    f->path, GM_STORE_KEYS);
			break;
		}
		key->key.mark = f->n_looks;
		if (!is_unchanged(f, key, entry->d_name, now_ns))
			look_at(f, key);
	}
	closedir(list);
	return ret;
}

/* A key that was not listed is looked at by its name, and forgotten if it is
 * not there either. */
static void look_for_missing(struct gm_store_file *f)
{
	for (size_t i = f->keys.n; i-- > 0;) {
		struct file_key *key =
			(struct file_key *)(void *)f->keys.list[i];

		if (key->key.mark != f->n_looks)
			look_at(f, key);
		if (key->key.revision == 0 &&
		    key->key.mark + MISSES < f->n_looks)
			gm_keys_remove(&f->keys, i);
	}
}

/* ---- leases of all ------------------------------------------------------- */

/* How long a lease is held after a beat. */
static uint64_t hold_ns(uint32_t ttl_ms)
{
	return ttl_ms * GM_STORE_NS_MS / 4 * 3;
}

static struct file_lease *find_lease(struct gm_store_file *f, uint64_t id,
				     uint64_t running_ns)
{
	char name[GM_STORE_ID_BYTES];
	struct file_lease *lease;

	gm_store_folder_id('@', id, name);
	lease = (struct file_lease *)(void *)gm_keys_add(&f->leases, name);
	if (lease != NULL && lease->changed_ns == 0)
		lease->changed_ns = running_ns;
	return lease;
}

static void read_beat(struct gm_store_file *f, struct file_lease *lease,
		      uint64_t id, uint64_t running_ns)
{
	char beat[GM_STORE_BEAT_BYTES];

	if (lease->key.mark == f->n_looks)
		return;
	lease->key.mark = f->n_looks;
	gm_store_folder_read_beat(&f->folder, id, beat);
	/* A lease without a file has ended, or cannot be seen yet. */
	if (beat[0] == '\0' || memcmp(beat, lease->beat, sizeof(beat)) == 0)
		return;
	memcpy(lease->beat, beat, sizeof(beat));
	lease->changed_ns = running_ns;
}

static uint64_t live_revision(const struct file_key *key)
{
	return key->ended ? 0 : key->key.revision;
}

/* Find the keys whose leases have ended.  Returns how soon to look again. */
static uint64_t find_ended(struct gm_store_file *f, uint64_t running_ns)
{
	uint64_t again_ns = BEATS_NS;

	for (size_t i = 0; i < f->keys.n; i++) {
		struct file_key *key =
			(struct file_key *)(void *)f->keys.list[i];
		struct file_lease *lease;

		if (key->key.revision == 0 || key->lease == 0)
			continue;
		lease = find_lease(f, key->lease, running_ns);
		if (lease == NULL)
			continue;
		read_beat(f, lease, key->lease, running_ns);
		key->ended =
			running_ns - lease->changed_ns >= hold_ns(key->ttl_ms);
		if (key->ttl_ms * GM_STORE_NS_MS / 10 < again_ns)
			again_ns = key->ttl_ms * GM_STORE_NS_MS / 10;
	}
	return again_ns;
}

/* Delete keys that have ended, for a while: watches hear of all at once, and
 * what is left is deleted the next time. */
static void delete_ended(struct gm_store_file *f)
{
	uint64_t until_ns = gm_store_now() + DELETE_NS;
	char name[GM_STORE_ID_BYTES];

	for (size_t i = 0; i < f->keys.n && gm_store_now() < until_ns; i++) {
		struct file_key *key =
			(struct file_key *)(void *)f->keys.list[i];

		if (live_revision(key) != 0 || key->key.revision == 0 ||
		    gm_store_folder_delete(&f->folder, key->key.key,
					   key->key.revision) != 0)
			continue;
		key->key.revision = 0;
		/* Its owner sees that it has ended. */
		gm_store_folder_id('@', key->lease, name);
		unlinkat(f->folder.fd, name, 0);
	}
}

/* Returns how soon to do it again. */
static uint64_t end_leases(struct gm_store_file *f, uint64_t running_ns)
{
	uint64_t again_ns = find_ended(f, running_ns);

	delete_ended(f);
	for (size_t i = f->leases.n; i-- > 0;)
		if (f->leases.list[i]->mark != f->n_looks)
			gm_keys_remove(&f->leases, i);
	return again_ns;
}

/* ---- events -------------------------------------------------------------- */

/* Set the reason why a key is refused. */
static void find_why(struct gm_store_file *f, const struct file_key *key)
{
	struct gm_store_value_head head;
	uint64_t revision = 0;
	int fd, ret = gm_store_folder_look(&f->folder, key->key.key, &fd,
					   &revision);

	if (fd >= 0)
		close(fd);
	if (ret == 0 &&
	    gm_store_folder_value(&f->folder, revision, &head, NULL) == -ENOENT)
		gm_store_fail(&f->store, 0, "%s: the value of %s is gone",
			      f->path, key->key.key);
}

/* Say a value.  Returns false if it has been replaced. */
static bool say_put(struct gm_store_file *f, struct file_key *key,
		    void (*say)(void *data, const struct gm_store_event *),
		    void *data)
{
	static char value[GM_STORE_VALUE_BYTES];
	struct gm_store_value_head head = { 0 };
	struct gm_store_event event = { .kind = GM_STORE_PUT,
					.key = key->key.key,
					.revision = key->key.revision,
					.lease = key->lease,
					.why = "" };
	char why[GM_STORE_WHY_BYTES];
	int ret = -EBADMSG;

	if (key->refused)
		find_why(f, key);
	else
		ret = gm_store_folder_value(&f->folder, key->key.revision,
					    &head, value);
	if (ret == -ENOENT) {
		key->refused = true; /* until it was looked at again */
		return false;
	}
	if (ret == 0) {
		event.value = value;
		event.bytes = head.bytes;
	} else {
		memcpy(why, f->store.why, sizeof(why));
		event.why = why;
	}
	say(data, &event);
	return true;
}

static void say_to_watch(void *data, const struct gm_store_event *event)
{
	struct gm_store_watch *watch = data;

	watch->event(watch, event);
}

static void say_kind(struct file_watch *w, uint32_t kind, const char *why)
{
	struct gm_store_event event = { .kind = kind, .why = why };

	w->watch->event(w->watch, &event);
}

static void say_deleted(struct file_watch *w, uint64_t look)
{
	for (size_t i = w->said.n; i-- > 0;) {
		struct gm_key *said = w->said.list[i];
		struct gm_store_event event = { .kind = GM_STORE_DELETE,
						.key = said->key,
						.revision = said->revision };

		if (said->mark == look)
			continue;
		/* A key may be gone before its value could be said. */
		if (said->revision != 0)
			w->watch->event(w->watch, &event);
		gm_keys_remove(&w->said, i);
	}
}

/* Say what has changed.  Returns false if some of it has to be looked at
 * again. */
static bool say_changes(struct gm_store_file *f, struct file_watch *w)
{
	bool all = true;

	for (size_t i = 0; i < f->keys.n; i++) {
		struct file_key *key =
			(struct file_key *)(void *)f->keys.list[i];
		uint64_t revision = live_revision(key);
		struct gm_key *said;

		if (revision == 0 ||
		    !gm_keys_begins(key->key.key, w->watch->prefix))
			continue;
		said = gm_keys_add(&w->said, key->key.key);
		if (said == NULL) {
			all = false;
			continue;
		}
		said->mark = f->n_looks;
		/* A value that is refused may yet be believed. */
		if (key->refused)
			revision = ~revision;
		if (said->revision == revision)
			continue;
		if (say_put(f, key, say_to_watch, w->watch))
			said->revision = revision;
		else
			all = false;
	}
	say_deleted(w, f->n_looks);
	return all;
}

static void cut(struct gm_store_file *f)
{
	char why[GM_STORE_WHY_BYTES];

	memcpy(why, f->store.why, sizeof(why));
	for (struct file_watch *w = f->watches; w != NULL; w = w->next) {
		if (w->is_cut)
			continue;
		w->is_synced = false;
		w->is_cut = true;
		say_kind(w, GM_STORE_CUT, why);
	}
}

/* ---- a look -------------------------------------------------------------- */

/* Is it the value of a key, or perhaps of one that is refused? */
static bool is_named(void *data, uint64_t revision)
{
	const struct gm_store_file *f = data;

	for (size_t i = 0; i < f->keys.n; i++)
		if (f->keys.list[i]->revision == revision ||
		    ((struct file_key *)(void *)f->keys.list[i])->refused)
			return true;
	return false;
}

/* Bring what is known up to date.  Returns 0 or -errno. */
static int look(struct gm_store_file *f)
{
	uint64_t now_ns = gm_store_now();
	uint64_t running_ns;
	int ret;

	f->n_looks++;
	listen_to(f, f->folder.fd);
	ret = look_at_all(f);
	if (ret != 0)
		return ret;
	look_for_missing(f);
	running_ns = gm_running_clock_read(&f->clock, gm_store_now());
	if (now_ns >= f->beats_ns) {
		f->beats_ns = now_ns + end_leases(f, running_ns);
	}
	if (now_ns >= f->sweep_ns) {
		gm_store_folder_sweep(&f->folder, is_named, f);
		f->sweep_ns = now_ns + SWEEP_NS;
	}
	return 0;
}

/* Look soon, but not so often that nothing else is done. */
static void look_soon(struct gm_store_file *f)
{
	uint64_t soon_ns = f->looked_ns + SOON_NS + f->took_ns;

	if (soon_ns < f->look_ns)
		f->look_ns = soon_ns;
}

static void look_and_say(struct gm_store_file *f)
{
	uint64_t from_ns = gm_store_now(), wait_ns;
	bool again = false;

	if (f->folder.fd < 0 || look(f) != 0) {
		cut(f);
	} else {
		for (struct file_watch *w = f->watches; w != NULL;
		     w = w->next) {
			bool all = say_changes(f, w);

			again = again || !all;
			if (w->is_synced || !all)
				continue;
			w->is_synced = true;
			w->is_cut = false;
			say_kind(w, GM_STORE_RESYNC, NULL);
		}
	}
	f->looked_ns = gm_store_now();
	f->took_ns = f->looked_ns - from_ns;
	wait_ns = DUTY * f->took_ns;
	wait_ns = wait_ns < LOOK_NS ? LOOK_NS : wait_ns;
	f->look_ns = f->looked_ns + (wait_ns < LATEST_NS ? wait_ns : LATEST_NS);
	if (again)
		look_soon(f);
}

static void drain_inotify(struct gm_store_file *f)
{
	char buffer[16384];

	while (read(f->inotify, buffer, sizeof(buffer)) > 0)
		;
	look_soon(f);
}

/* ---- leases of ours ------------------------------------------------------ */

static void lose(struct gm_store_file *f, struct own_lease *own)
{
	own->id = 0;
	own->due_ns = 0;
	gm_store_hold(&f->store, own->lease, 0);
}

static void renew(struct gm_store_file *f, struct own_lease *own)
{
	uint64_t now_ns = gm_store_now();
	uint64_t limit_ns = hold_ns(own->lease->ttl_ms);
	bool is_new = own->id == 0;
	int ret;

	if (!is_new && now_ns - own->since_ns >= limit_ns) {
		gm_store_fail(&f->store, 0,
			      "the lease was not renewed for %u ms",
			      (unsigned int)(limit_ns / GM_STORE_NS_MS));
		lose(f, own);
		return;
	}
	if (now_ns < own->due_ns)
		return;
	if (is_new)
		own->id = gm_store_random();
	ret = f->folder.fd < 0 ? -EHOSTUNREACH
			       : gm_store_folder_beat(&f->folder, own->id,
						      ++own->number, is_new);
	own->due_ns = now_ns + (ret == 0 ? limit_ns / 3 : LOOK_NS);
	if (ret == 0)
		own->since_ns = now_ns;
	if (ret == 0 && is_new) {
		gm_store_hold(&f->store, own->lease, own->id);
	} else if (ret != 0 && is_new) {
		own->id = 0;
	} else if (ret == -ENOENT) {
		gm_store_fail(&f->store, 0, "another node has ended the lease");
		lose(f, own);
	}
}

static int add_lease(struct gm_store *store, struct gm_store_lease *lease)
{
	struct gm_store_file *f = file_of(store);
	struct own_lease *own = calloc(1, sizeof(*own));

	if (own == NULL)
		return -ENOMEM;
	own->lease = lease;
	own->next = f->own;
	f->own = own;
	lease->own = own;
	return 0;
}

/* The ID of the lease of a write, 0 without one.  Returns false: it is not
 * held. */
static bool find_own(const struct gm_store_lease *lease, uint64_t *ret_id)
{
	const struct own_lease *own = lease != NULL ? lease->own : NULL;

	*ret_id = own != NULL ? own->id : 0;
	if (lease == NULL)
		return true;
	return own != NULL && own->id != 0 &&
	       gm_store_now() - own->since_ns < hold_ns(lease->ttl_ms);
}

/* ---- requests ------------------------------------------------------------ */

static void write_key(struct gm_store_file *f, struct gm_store_link *request,
		      uint64_t lease)
{
	uint64_t revision = 0;
	int ret = gm_store_folder_write(&f->folder, GM_STORE_WRITE_OF(request),
					lease,
					request->kind == GM_STORE_REQUEST_CAS,
					&revision);

	gm_store_finish(&f->store, request, ret, revision);
}

static void say_to_list(void *data, const struct gm_store_event *event)
{
	struct gm_store_list *list = data;

	list->item(list, event);
}

static void list_key(struct gm_store_file *f, struct gm_store_list *list,
		     struct file_key *key)
{
	const struct gm_store_event event = { .kind = GM_STORE_PUT,
					      .key = key->key.key,
					      .revision = live_revision(key),
					      .lease = key->lease,
					      .why = "" };

	if (list->keys && event.revision != 0)
		list->item(list, &event);
	/* A value that is gone has been followed by another. */
	while (!list->keys && live_revision(key) != 0 &&
	       !say_put(f, key, say_to_list, list))
		look_at(f, key);
}

static void list_one(struct gm_store_file *f, struct gm_store_list *list)
{
	struct file_key new = { .lease = 0 }, *key;

	key = (struct file_key *)(void *)gm_keys_find(&f->keys, list->prefix);
	if (key == NULL) {
		key = &new;
		strcpy(new.key.key, list->prefix);
	}
	look_at(f, key);
	list_key(f, list, key);
}

static void list_keys(struct gm_store_file *f, struct gm_store_link *request)
{
	struct gm_store_list *list = GM_STORE_LIST_OF(request);
	int ret = list->one ? 0 : look(f);

	if (list->one)
		list_one(f, list);
	for (size_t i = 0; ret == 0 && !list->one && i < f->keys.n; i++)
		if (gm_keys_begins(f->keys.list[i]->key, list->prefix))
			list_key(f, list,
				 (struct file_key *)(void *)f->keys.list[i]);
	gm_store_finish(&f->store, request, ret, 0);
}

/* Carry requests out for a while: what is left comes after the leases. */
static void carry_out(struct gm_store_file *f)
{
	uint64_t until_ns = gm_store_now() + WORK_NS;
	struct gm_store_link *request;

	while (gm_store_now() < until_ns &&
	       (request = gm_store_take(&f->store)) != NULL) {
		bool is_list = request->kind == GM_STORE_REQUEST_LIST;
		uint64_t lease = 0;

		if (!is_list &&
		    !find_own(GM_STORE_WRITE_OF(request)->lease, &lease)) {
			gm_store_fail(&f->store, 0, "the lease is not held");
			gm_store_finish(&f->store, request, -EOWNERDEAD, 0);
			continue;
		}
		/* A failure to open it is the reason of the request's. */
		if (f->folder.fd < 0 && gm_store_folder_open(&f->folder) != 0)
			gm_store_finish(&f->store, request, -EHOSTUNREACH, 0);
		else if (is_list)
			list_keys(f, request);
		else
			write_key(f, request, lease);
	}
}

/* ---- the store ----------------------------------------------------------- */

static int add_watch(struct gm_store *store, struct gm_store_watch *watch)
{
	struct gm_store_file *f = file_of(store);
	struct file_watch *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return -ENOMEM;
	w->said.entry_bytes = sizeof(struct gm_key);
	w->watch = watch;
	w->next = f->watches;
	f->watches = w;
	watch->own = w;
	f->look_ns = 0;
	return 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* When there is something to do without any request. */
static uint64_t find_due(const struct gm_store_file *f)
{
	uint64_t due_ns = f->watches != NULL ? f->look_ns : GM_STORE_NEVER;

	for (const struct own_lease *own = f->own; own != NULL;
	     own = own->next) {
		due_ns = least(due_ns, own->due_ns);
		if (own->id != 0)
			due_ns = least(due_ns,
				       own->since_ns +
					       hold_ns(own->lease->ttl_ms));
	}
	return due_ns;
}

static uint64_t run(struct gm_store *store, const struct epoll_event *events,
		    int n, uint64_t now_ns)
{
	struct gm_store_file *f = file_of(store);
	uint64_t due_ns;

	gm_running_clock_read(&f->clock, now_ns);
	if (n > 0)
		drain_inotify(f);
	/* The name may be that of another directory by now: a mount. */
	gm_store_folder_close(&f->folder);
	gm_store_folder_open(&f->folder);
	for (struct own_lease *own = f->own; own != NULL; own = own->next)
		renew(f, own);
	carry_out(f);
	if (f->watches != NULL && gm_store_now() >= f->look_ns)
		look_and_say(f);
	due_ns = find_due(f);
	now_ns = gm_store_now();
	gm_running_clock_sleep(&f->clock,
			       due_ns > now_ns ? due_ns - now_ns : 0);
	return due_ns;
}

static void close_file(struct gm_store *store)
{
	struct gm_store_file *f = file_of(store);

	gm_store_folder_close(&f->folder);
	gm_store_folder_open(&f->folder);
	if (f->own != NULL && f->folder.fd >= 0)
		look_at_all(f);
	while (f->own != NULL) {
		struct own_lease *own = f->own;
		char name[GM_STORE_ID_BYTES];

		for (size_t i = 0; i < f->keys.n && f->folder.fd >= 0; i++) {
			struct file_key *key =
				(struct file_key *)(void *)f->keys.list[i];

			if (own->id != 0 && key->lease == own->id)
				gm_store_folder_delete(&f->folder, key->key.key,
						       key->key.revision);
		}
		gm_store_folder_id('@', own->id, name);
		if (own->id != 0 && f->folder.fd >= 0)
			unlinkat(f->folder.fd, name, 0);
		f->own = own->next;
		free(own);
	}
	while (f->watches != NULL) {
		struct file_watch *w = f->watches;

		f->watches = w->next;
		gm_keys_free(&w->said);
		free(w);
	}
	gm_keys_free(&f->keys);
	gm_keys_free(&f->leases);
	gm_store_folder_close(&f->folder);
	gm_store_release(store);
	if (f->inotify >= 0)
		close(f->inotify);
	free(f->path);
	free(f);
}

static const struct gm_store_backend backend = {
	.lease = add_lease, .watch = add_watch, .run = run, .close = close_file
};

int gm_store_file_open(const struct gm_store_opts *opts,
		       struct gm_store **ret_store,
		       char ret_why[GM_STORE_WHY_BYTES])
{
	struct gm_store_file *f = calloc(1, sizeof(*f));
	struct epoll_event in = { .events = EPOLLIN };
	int ret;

	if (f == NULL)
		return -ENOMEM;
	ret = gm_store_prepare(&f->store, &backend);
	f->path = strdup(opts->directory);
	if (ret != 0 || f->path == NULL) {
		free(f->path);
		free(f);
		return ret != 0 ? ret : -ENOMEM;
	}
	f->folder = (struct gm_store_folder){ .store = &f->store,
					      .path = f->path,
					      .fd = -1 };
	f->keys.entry_bytes = sizeof(struct file_key);
	f->leases.entry_bytes = sizeof(struct file_lease);
	/* Without it changes of this node are seen as those of others are. */
	f->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	in.data.fd = f->inotify;
	if (f->inotify >= 0)
		epoll_ctl(f->store.epoll, EPOLL_CTL_ADD, f->inotify, &in);
	*ret_store = &f->store;
	return 0;
}
