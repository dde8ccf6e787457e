/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * The service manager hands back to an agent what an earlier one has not given
 * it: descriptors of other kinds, files that can shrink, records that lie, a
 * name twice.  This test is the manager.  The agent says which shares it cannot
 * take back and why, has the others, and serves.
 */

#include <sys/eventfd.h>

#include "agent/daemon/sharing/share_record.h"
#include "tests/support/share_manager.h"

#define MOST 4096u

/* Row 2 is a dummy. */
static const char config[] = "[socket]\nmode = 0666\n[host]\nrows = 2\n"
			     "[limits]\nsessions-per-second = 1000\n"
			     "[cuda]\nenabled = off\nshare = any\n"
			     "keep-shares = yes\n";
static const char node[] =
	"rows:\n"
	"- { name: A, kind: cuda, memory: 24G, compute-capability: 9.0,\n"
	"    sm-count: 100, threads-per-sm: 2048 }\n";

static unsigned index_of(const char *name)
{
	unsigned i = 0;

	while (i < store.n && strcmp(store.kept[i].name, name) != 0)
		i++;
	return i;
}

static struct kept *part_of(uint64_t id, const char *part)
{
	char name[64];
	unsigned i;

	snprintf(name, sizeof(name), "share-%u%s", (unsigned)id, part);
	i = index_of(name);
	if (i == store.n) {
		printf("Bail out! the agent has not sent %s\n", name);
		exit(99);
	}
	return &store.kept[i];
}

static void replace(uint64_t id, const char *part, int fd)
{
	struct kept *kept = part_of(id, part);

	close(kept->fd);
	kept->fd = fd;
}

static void add(const char *name, int fd)
{
	struct kept *kept = &store.kept[store.n++];

	kept->fd = fd;
	snprintf(kept->name, sizeof(kept->name), "%s", name);
}

static void lose(uint64_t id, const char *part)
{
	struct kept *kept = part_of(id, part);

	close(kept->fd);
	*kept = store.kept[--store.n];
}

/* Does the manager have anything of this share? */
static bool has_any(uint64_t id)
{
	char name[64];
	size_t n =
		(size_t)snprintf(name, sizeof(name), "share-%u", (unsigned)id);

	for (unsigned i = 0; i < store.n; i++) {
		const char *at = store.kept[i].name;

		if (strncmp(at, name, n) == 0 && (!at[n] || at[n] == '-'))
			return true;
	}
	return false;
}

/* ---- files --------------------------------------------------------------- */

static int memory(uint64_t bytes, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0 ||
	    fcntl(fd, F_ADD_SEALS, seals) != 0)
		exit(99);
	return fd;
}

/* The first @bytes of a file, in another one. */
static int copy(int from, uint64_t bytes, int seals)
{
	char *text = calloc(1, bytes);
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (!text || pread(from, text, bytes, 0) < 0 ||
	    pwrite(fd, text, bytes, 0) != (ssize_t)bytes ||
	    fcntl(fd, F_ADD_SEALS, seals) != 0)
		exit(99);
	free(text);
	return fd;
}

static int read_only(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int some_pipe(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) != 0)
		exit(99);
	close(ends[1]);
	return ends[0];
}

static int file_on_disk(int from)
{
	char path[160], text[4096] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/record", agent.dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	unlink(path);
	if (pread(from, text, sizeof(text), 0) < 0 ||
	    write(fd, text, sizeof(text)) != sizeof(text))
		exit(99);
	return fd;
}

/* ---- what is done to a share --------------------------------------------- */

static struct gm_share_head *head; /* of the share that it is done to */
static struct gm_share_part *parts;
static uint64_t its_id;
static struct gpumap_device dummy;

#define FILE_IS(part, fd) replace(its_id, part, fd)

static int record_fd(void)
{
	return part_of(its_id, "")->fd;
}

/* Each is one way to be wrong, and what the log says of it. */
#define WAYS(WAY)                                                              \
	WAY(a_pipe, "another build", FILE_IS("", some_pipe()))                 \
	WAY(a_directory, "another build",                                      \
	    FILE_IS("", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)))        \
	WAY(a_device, "another build",                                         \
	    FILE_IS("", open("/dev/zero", O_RDWR | O_CLOEXEC)))                \
	WAY(an_eventfd, "another build", FILE_IS("", eventfd(0, EFD_CLOEXEC))) \
	WAY(a_path, "another build",                                           \
	    FILE_IS("", open("/", O_PATH | O_CLOEXEC)))                        \
	WAY(on_disk, "another build", FILE_IS("", file_on_disk(record_fd())))  \
	WAY(may_shrink, "another build",                                       \
	    FILE_IS("", copy(record_fd(), 2000, 0)))                           \
	WAY(is_sealed, "another build",                                        \
	    FILE_IS("",                                                        \
		    copy(record_fd(), 2000, F_SEAL_SHRINK | F_SEAL_WRITE)))    \
	WAY(cannot_be_written, "another build",                                \
	    FILE_IS("", read_only(record_fd())))                               \
	WAY(is_cut, "another build",                                           \
	    FILE_IS("", copy(record_fd(), 190, F_SEAL_SHRINK)))                \
	WAY(is_empty, "another build", FILE_IS("", memory(0, F_SEAL_SHRINK)))  \
	WAY(is_endless, "another build",                                       \
	    FILE_IS("", memory(UINT64_C(1) << 45, F_SEAL_SHRINK)))             \
	WAY(other_magic, "another build", head->magic++)                       \
	WAY(no_buffers, "another build", head->n_buffers = 0)                  \
	WAY(many_buffers, "another build", head->n_buffers = 1025)             \
	WAY(all_buffers, "another build", head->n_buffers = UINT32_MAX)        \
	WAY(many_uids, "another build", head->n_uids = 65)                     \
	WAY(long_fields, "another build", head->fields_bytes = 4097)           \
	WAY(long_about, "another build", head->about_bytes = UINT64_MAX)       \
	WAY(endless_name, "another build",                                     \
	    memset(head->name, 'x', sizeof(head->name)))                       \
	WAY(another_id, "its record is wrong", head->id++)                     \
	WAY(no_name, "its record is wrong", head->name[0] = '\0')              \
	WAY(odd_name, "its record is wrong", head->name[0] = '\n')             \
	WAY(odd_flags, "its record is wrong", head->flags |= 1u << 30)         \
	WAY(no_user, "its record is wrong", head->uid = UINT32_MAX)            \
	WAY(odd_fields, "its record is wrong",                                 \
	    ((char *)(parts + 2) + 8)[2] = '\0')                               \
	WAY(name_of_another, "another share has its name",                     \
	    snprintf(head->name, sizeof(head->name), "good0"))                 \
	WAY(one_buffer_more, "its record is wrong", head->n_buffers = 3)       \
	WAY(no_buffer, "a buffer of it is missing", lose(its_id, "-1"))        \
	WAY(no_record, NULL, lose(its_id, ""))                                 \
	WAY(two_records, "another build", add_again(""))                       \
	WAY(two_buffers, "a buffer of it is missing", add_again("-1"))         \
	WAY(two_abouts, "what is said about it is missing",                    \
	    add_again("-about"))                                               \
	WAY(odd_part, "its record is wrong", parts[1].flags |= 4)              \
	WAY(no_row, "a row of it is not there", parts[1].uuid[3] ^= 1)         \
	WAY(dummy_row, "a row of it is not there",                             \
	    memcpy(parts[1].uuid, dummy.uuid, sizeof(parts[1].uuid)))          \
	WAY(no_bytes, "0 bytes from 0", parts[0].bytes = 0)                    \
	WAY(a_byte_more, "but the memfd has", parts[0].bytes++)                \
	WAY(all_bytes, "but the memfd has", parts[1].bytes = UINT64_MAX)       \
	WAY(can_be_written, "not sealed as its record",                        \
	    parts[0].flags &= ~GM_SHARE_PART_SEALED)                           \
	WAY(is_for_writing, "the memfd cannot be written",                     \
	    parts[0].flags &= ~GM_SHARE_PART_READ_ONLY)                        \
	WAY(buffer_pipe, "is no memfd", FILE_IS("-0", some_pipe()))            \
	WAY(buffer_directory, "is no memfd",                                   \
	    FILE_IS("-1", open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)))      \
	WAY(buffer_on_disk, "no memfd",                                        \
	    FILE_IS("-1", file_on_disk(record_fd())))                          \
	WAY(buffer_shrinks, "could shrink",                                    \
	    FILE_IS("-0", memory(BYTES, F_SEAL_FUTURE_WRITE)))                 \
	WAY(buffer_is_small, "but the memfd has",                              \
	    FILE_IS("-0",                                                      \
		    memory(BYTES / 2, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK)))   \
	WAY(buffer_is_open, "not sealed as its record",                        \
	    FILE_IS("-0", memory(BYTES, F_SEAL_SHRINK)))                       \
	WAY(about_pipe, "is no memfd", FILE_IS("-about", some_pipe()))         \
	WAY(about_is_missing, "what is said about it is missing",              \
	    lose(its_id, "-about"))                                            \
	WAY(about_changes, "could change",                                     \
	    FILE_IS("-about", memory(sizeof(ABOUT), F_SEAL_SHRINK)))           \
	WAY(about_is_longer, "does not have",                                  \
	    FILE_IS("-about",                                                  \
		    memory(4096, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))) \
	WAY(about_is_shorter, "but the memfd has",                             \
	    FILE_IS("-about",                                                  \
		    memory(4, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)))    \
	WAY(it_has_ended, NULL, gm_put(&head->ended, 1))

static void add_again(const char *part)
{
	char name[64];

	snprintf(name, sizeof(name), "share-%u%s", (unsigned)its_id, part);
	add(name, fcntl(part_of(its_id, part)->fd, F_DUPFD_CLOEXEC, 0));
}

#define DO(way, why, what)         \
	static void do_##way(void) \
	{                          \
		what;              \
	}
WAYS(DO)

#define NAME_OF(way, why, what) { #way, why, do_##way },
static const struct {
	const char *name, *why;
	void (*spoil)(void);
} ways[] = { WAYS(NAME_OF) };

#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

static void *map_record(uint64_t id)
{
	int fd = part_of(id, "")->fd;
	void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		exit(99);
	return at;
}

static void spoil(uint64_t id, void (*how)(void))
{
	its_id = id;
	head = map_record(id);
	parts = (void *)(head + 1);
	how();
	munmap(head, 4096);
}

/* ---- the stories --------------------------------------------------------- */

static void what_is_wrong_is_told_and_removed(void)
{
	uint64_t id[N_WAYS];
	unsigned n_wrong = 0;

	if (!start())
		return;
	dummy = story_device(map, 2);
	EQ(dummy.kind, GPUMAP_DEVICE_DUMMY);
	make_one("good0", 10);
	for (size_t i = 0; i < N_WAYS; i++)
		id[i] = make_one(ways[i].name, 20);
	make_one("good1", 30);
	stop(SIGKILL);
	for (size_t i = 0; i < N_WAYS; i++)
		spoil(id[i], ways[i].spoil);
	add("share-", some_pipe());
	add("share-0", some_pipe());
	add("share-18446744073709551615", some_pipe());
	add("share--5", some_pipe());
	add("share-7000-1", some_pipe());
	add("mask-1", some_pipe());
	if (!start())
		return;
	comes_to(2 * 4);
	for (size_t i = 0; i < N_WAYS; i++) {
		if (ways[i].why)
			n_wrong += !says(id[i], ways[i].why);
		if (has_any(id[i]))
			NOTE("%s is there still", ways[i].name);
		n_wrong += has_any(id[i]);
	}
	EQ(n_wrong, 0);
	EQ(shares_n(), 2);
	OK(agent_logged(&agent, "event=fd_store_tidied"));
	/* Number 7000 may still be removed by its name. */
	EQ(make_one("next", 40), 7001);
	/* And over another start. */
	stop(SIGTERM);
	if (!start())
		return;
	OK(!agent_logged(&agent, "event=share_not_restored"));
	OK(!agent_logged(&agent, "event=fd_store_tidied"));
	EQ(value_in("good0"), 11);
	EQ(value_in("good1"), 31);
	EQ(value_in("next"), 41);
	EQ(gpumap_share_release(map, "good0"), 0);
	EQ(gpumap_share_release(map, "good1"), 0);
	EQ(gpumap_share_release(map, "next"), 0);
	settles(0, 0);
	comes_to(0);
	stop(SIGTERM);
}

#define N_ODD 7

/* ---- holders ------------------------------------------------------------- */

/* Behind the places that the agent has made, so many more. */
static void add_places(uint64_t id, const struct gm_share_place *place,
		       uint32_t n)
{
	int fd = part_of(id, "")->fd;
	off_t end = lseek(fd, 0, SEEK_END);
	uint32_t wrong = 0;

	for (uint32_t i = 0; i < n; i++)
		wrong += pwrite(fd, place, sizeof(*place),
				end + (off_t)(i * sizeof(*place))) !=
			 sizeof(*place);
	EQ(wrong, 0);
}

/* How many of the places, from where the parts end on, are taken? */
static unsigned taken_places(uint64_t id)
{
	struct gm_share_place place;
	int fd = part_of(id, "")->fd;
	off_t at = lseek(fd, 0, SEEK_END);
	unsigned n = 0;

	/* The first ones have 64 places. */
	for (int i = 0; i < 64 + N_ODD; i++) {
		at -= (off_t)sizeof(place);
		if (pread(fd, &place, sizeof(place), at) != sizeof(place))
			return UINT32_MAX;
		n += gm_get(&place.word) != 0;
	}
	return n;
}

static void holders_that_are_no_process_do_not_count(void)
{
	static const uint64_t pids[N_ODD] = {
		GM_SHARE_PLACE_FIRST,     1,          INT32_MAX,
		UINT64_C(1) << 32,        UINT64_MAX, UINT32_MAX,
		GM_SHARE_PLACE_FIRST | 1,
	};
	uint64_t id;

	if (!start())
		return;
	id = make_one("odd", 50);
	stop(SIGKILL);
	for (size_t i = 0; i < N_ODD; i++) {
		struct gm_share_place place = { .start = 1, .uid = UINT32_MAX };

		gm_put(&place.word, pids[i]);
		add_places(id, &place, 1);
	}
	EQ(taken_places(id), N_ODD);
	if (!start())
		return;
	EQ(shares_n(), 1);
	EQ(shared("odd").n_holders, 0);
	EQ(taken_places(id), 0);
	EQ(value_in("odd"), 51);
	EQ(gpumap_share_release(map, "odd"), 0);
	settles(0, 0);
	comes_to(0);
	stop(SIGTERM);
}

/* ---- limits -------------------------------------------------------------- */

/* This process, as often as there are no descriptors to hold it. */
static void a_share_without_descriptors_is_let_go(void)
{
	struct gm_share_place place = { .uid = 0 };
	struct gm_lineage_member self;
	uint64_t id, needed;

	if (!start())
		return;
	needed = agent_logged_number(&agent, "few_descriptors", "needed");
	make_one("before", 60);
	id = make_one("many", 70);
	make_one("behind", 80);
	stop(SIGKILL);
	EQ(gm_lineage_stat(getpid(), &self), 0);
	place.start = self.start;
	gm_put(&place.word, (uint64_t)getpid());
	add_places(id, &place, 40);
	if (!start())
		return;
	/* They are counted, where that can be seen. */
	EQ(shared("many").n_holders, 40);
	while (agent_count_log(&agent, "event=few_descriptors") < 2)
		story_nap(1000);
	EQ(agent_logged_number(&agent, "few_descriptors", "needed"),
	   needed + 40);
	stop(SIGKILL);
	add_places(id, &place, 400);
	if (!start())
		return;
	OK(says(id, "raise LimitNOFILE"));
	comes_to(8);
	OK(!has_any(id));
	EQ(shares_n(), 2);
	EQ(value_in("before"), 61);
	EQ(value_in("behind"), 81);
	EQ(gpumap_share_release(map, "before"), 0);
	EQ(gpumap_share_release(map, "behind"), 0);
	settles(0, 0);
	comes_to(0);
	stop(SIGTERM);
}

TAP_CASE()
{
	if (geteuid() != 0) {
		SKIP(1, "needs root, for shares of other users");
		return tap_done();
	}
	shares_stage("", "");
	agent_configure_dummies(&agent, node, config);
	if (!EQ(store_open(&store, MOST), 0))
		return tap_done();
	what_is_wrong_is_told_and_removed();
	holders_that_are_no_process_do_not_count();
	files = 300;
	a_share_without_descriptors_is_let_go();
	if (tap_failures)
		agent_show_log(&agent);
	store_close(&store);
	stage_end(&agent);
	return tap_done();
}
