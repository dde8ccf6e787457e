/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks models with a name: a model is loaded once, however many sessions ask
 * for it at once, is there as long as any session has it, and is freed with the
 * last.
 */

#include <gpumap/model.h>
#include <sys/inotify.h>

#include "tests/support/story_rows.h"
#include "tests/support/shards.h"
#include "tests/support/share_sessions.h"

#define NAME "two"
#define ALL  (262144 + 30 + 524288 + 66000)

static const struct shard_tensor small[] = {
	{ "layers.0.a", "F32", "[1024,64]", 262144, 0, false },
	{ "layers.2.b", "BF16", "[3,5]", 30, 0, false },
	{ "layers.1.a", "BF16", "[512,512]", 524288, 0, false },
	{ "embed.weight", "BF16", "[1000,33]", 66000, 1, false },
	{ "layers.1.empty", "F16", "[0,9]", 0, 1, false },
};

#define N_SMALL (sizeof(small) / sizeof(small[0]))

/* A model may be charged so many bytes more, for two buffers are rounded up. */
#ifdef STAGE_CUDA
#define ROUNDED (2 * UINT64_C(2) * MIB)
#else
#define ROUNDED (2 * UINT64_C(65536))
#endif

/* This model takes a while to load. */
static const struct shard_tensor large[] = {
	{ "layers.0.a", "U8", "[167772160]", 160 * MIB, 0, true },
	{ "layers.1.a", "U8", "[5]", 5, 0, false },
	{ "layers.2.a", "U8", "[7]", 7, 0, false },
};

static struct shards s;

/* ---- helpers ----------------------------------------------------------- */

static int begin_with(struct gpumap_session *session, const char *path,
		      uint32_t share_flags, struct gpumap_model **ret_model)
{
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = path,
					  .layers = "m",
					  .name = NAME,
					  .share_flags = share_flags };

	return gpumap_model_load(session, &opts, ret_model);
}

static int begin_at(struct gpumap_session *session, const char *path,
		    struct gpumap_model **ret_model)
{
	return begin_with(session, path, GPUMAP_SHARE_READ_ONLY, ret_model);
}

static int wait_for(struct gpumap_model *model)
{
	return gpumap_model_wait(model, story_now() + STORY_LIMIT_NS);
}

static struct gpumap_model *have(struct gpumap_session *session,
				 const char *path)
{
	struct gpumap_model *model = NULL;
	int ret = begin_at(session, path, &model);

	if (ret == 0)
		ret = wait_for(model);
	if (ret != 0) {
		NOTE("%s: %s", gpumap_strerror(ret), gpumap_refusal(map));
		exit(1);
	}
	return model;
}

static struct gpumap_model_progress look(struct gpumap_model *model)
{
	struct gpumap_model_progress p = { .size = sizeof(p) };

	gpumap_model_progress(model, &p);
	return p;
}

/* Copy a tensor to its row's arena, and compare it. */
static bool is_right(struct gpumap_session *session, const struct shards *of,
		     size_t i, const struct gpumap_tensor *t)
{
	void *memory = NULL;
	bool right;
	struct gpumap_job job = { .op = GPUMAP_OP_COPY,
				  .n = t->bytes,
				  .src_buffer = t->buffer,
				  .src_at = t->at };

	if (gpumap_alloc(session, t->row, MIB, &memory) != 0)
		return false;
	job.dst = memory;
	memset(memory, 0x55, t->bytes);
	right = story_run(session, t->row, &job) == 0 &&
		shards_match(of, i, memory, 0, t->bytes);
	gpumap_free(session, memory);
	return right;
}

/* Returns how many tensors are as the files have them. */
static size_t n_right(struct gpumap_session *session,
		      struct gpumap_model *model)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		struct gpumap_tensor t = { .size = sizeof(t) };

		if (gpumap_model_find(model, s.v[i].name, &t) != 0 ||
		    strcmp(t.name, s.v[i].name) != 0 ||
		    strcmp(t.type, s.v[i].type) != 0 || t.bytes != s.v[i].bytes)
			continue;
		n += t.bytes == 0 ? t.buffer == 0
				  : is_right(session, &s, i, &t);
	}
	return n;
}

/* Is one model charged?  Charges of a session are in whole pages, those of a
 * user alone are not. */
static bool charges_once(void)
{
	uint64_t bytes = charged();

	return bytes >= ALL && bytes <= ALL + ROUNDED;
}

/* Wait until one model is charged: a charge that moves from one session to
 * another may be seen twice, or not at all. */
static bool is_once(void)
{
	bool is;

	STORY_WAIT_WHILE(!(is = charges_once()));
	if (!is)
		NOTE("%lu bytes are charged", (unsigned long)charged());
	return is;
}

/* ---- finding a model --------------------------------------------------- */

static void the_second_finds_it(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct gpumap_model *first = have(a, s.path), *second, *third = NULL;
	struct gpumap_tensor t = { .size = sizeof(t) };
	struct gpumap_model_progress p = look(first);

	EQ(p.was_there, 0);
	OK(p.share != 0);
	OK(is_once());
	second = have(b, s.path);
	p = look(second);
	EQ(p.was_there, 1);
	EQ(p.state, GPUMAP_MODEL_LOADED);
	EQ(p.bytes, ALL);
	EQ(p.total_bytes, ALL);
	EQ(p.n_tensors, N_SMALL);
	EQ(p.share, look(first).share);
	EQ(gpumap_model_buffers(second, NULL, 0),
	   gpumap_model_buffers(first, NULL, 0));
	EQ(n_right(b, second), N_SMALL);
	OK(is_once());
	EQ(gpumap_model_find(second, "layers.1.a", &t), 0);
	EQ(t.row, 1);
	EQ(t.layer, 1);
	EQ(t.dtype, GPUMAP_DTYPE_BF16);
	OK(t.n_dims == 2 && t.shape[0] == 512 && t.shape[1] == 512);
	EQ(story_run(b, t.row,
		     &(struct gpumap_job){ .op = GPUMAP_OP_FILL,
					   .dtype = GPUMAP_DTYPE_U32,
					   .dst_buffer = t.buffer,
					   .n = 1 }),
	   -EACCES);
	EQ(gpumap_model_open(b, NAME, GPUMAP_SHARE_READ_ONLY, NULL, &third),
	   -EALREADY);
	EQ(gpumap_model_open(b, NAME, 0, NULL, &third), -EACCES);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	EQ(gpumap_model_open(b, NAME, GPUMAP_SHARE_READ_ONLY, NULL, &third), 0);
	/* The session that loaded the model leaves, and the model stays. */
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(a);
	EQ(n_right(b, third), N_SMALL);
	OK(is_once());
	EQ(gpumap_model_close(third, GPUMAP_NO_DEADLINE), 0);
	settles(0, 0);
	EQ(gpumap_model_open(b, NAME, 0, NULL, &third), -ENOENT);
	gpumap_session_close(b);
}

/* The headers of the very files that were loaded are not read again; those of
 * files whose times were set back are. */
static void headers_are_read_once(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	int reads = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), fd;
	static const char name[] = "model-00001-of-00002.safetensors";
	struct gpumap_model *first, *second;
	char path[160], event[4096];
	struct timespec times[2];
	struct stat then;

	EQ(begin_at(a, s.path, &first), 0);
	EQ(wait_for(first), 0);
	shards_path(&s, name, path);
	OK(inotify_add_watch(reads, path, IN_ACCESS) >= 0);
	EQ(begin_at(b, s.path, &second), 0);
	EQ(look(second).was_there, 1);
	EQ(n_right(b, second), N_SMALL);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	EQ(read(reads, event, sizeof(event)), -1);
	fd = shards_open(&s, name, O_RDWR);
	if (!OK(fstat(fd, &then) == 0 && pread(fd, event, 1, 8) == 1))
		exit(99);
	OK(read(reads, event + 1, sizeof(event) - 1) > 0);
	times[0] = then.st_atim;
	times[1] = then.st_mtim;
	OK(pwrite(fd, "?", 1, 8) == 1 && futimens(fd, times) == 0);
	EQ(begin_at(b, s.path, &second), -EINVAL);
	OK(pwrite(fd, event, 1, 8) == 1 && futimens(fd, times) == 0);
	EQ(begin_at(b, s.path, &second), 0); /* they are the same again */
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	times[1].tv_sec--;
	EQ(futimens(fd, times), 0);
	EQ(begin_at(b, s.path, &second), -EEXIST);
	times[1].tv_sec++;
	EQ(futimens(fd, times), 0);
	close(fd);
	close(reads);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(b);
	gpumap_session_close(a);
	settles(0, 0);
}

/* A model has the fingerprint that its program gave, or is refused. */
static void fingerprints_are_compared(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct gpumap_fingerprint f = { .size = sizeof(f),
					.hash = { 1 },
					.fields = "quant=none\n" };
	struct gpumap_fingerprint g = { .size = sizeof(g),
					.hash = { 2 },
					.fields = "quant=awq\n" };
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = s.path,
					  .rows = (uint32_t[]){ 0 },
					  .n_rows = 1,
					  .name = NAME,
					  .fingerprint = &f };
	struct gpumap_model *first = NULL, *second = NULL;

	EQ(gpumap_model_load(a, &opts, &first), 0);
	opts.fingerprint = &g;
	EQ(gpumap_model_load(b, &opts, &second), -EKEYREJECTED);
	OK(strstr(gpumap_refusal(map), "quant is \"none\""));
	EQ(wait_for(first), 0);
	EQ(gpumap_model_load(b, &opts, &second), -EKEYREJECTED);
	OK(strstr(gpumap_refusal(map), "quant is \"none\""));
	EQ(gpumap_model_open(b, NAME, 0, &g, &second), -EKEYREJECTED);
	OK(strstr(gpumap_refusal(map), "\"awq\" was asked for"));
	EQ(gpumap_model_open(b, NAME, 0, &f, &second), 0);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	opts.fingerprint = &f;
	EQ(gpumap_model_load(b, &opts, &second), 0);
	EQ(look(second).was_there, 1);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	/* Without a name there is nothing to compare with. */
	opts.name = NULL;
	EQ(gpumap_model_load(b, &opts, &second), -EINVAL);
	opts.name = NAME;
	g = (struct gpumap_fingerprint){ .size = sizeof(g) };
	opts.fingerprint = &g;
	EQ(gpumap_model_load(b, &opts, &second), -EINVAL);
	EQ(gpumap_model_open(b, NAME, 0, &g, &second), -EINVAL);
	gpumap_session_close(b);
	gpumap_session_close(a);
	settles(0, 0);
}

#ifndef STAGE_CUDA
/* Does the tensor lie within the buffer that it says it is a part of? */
static bool is_part(const struct gpumap_model *model,
		    const struct gpumap_tensor *t)
{
	struct gpumap_model_buffer buffers[16];
	uint32_t n = gpumap_model_buffers(model, buffers, 16);

	return n <= 16 && t->part < n && buffers[t->part].row == t->row &&
	       t->at + t->bytes <= buffers[t->part].bytes;
}

/* Tensors that are where they are: in this process. */
static size_t n_mapped(struct gpumap_model *model)
{
	size_t n = 0;

	for (size_t i = 0; i < s.n; i++) {
		struct gpumap_tensor t = { .size = sizeof(t) };

		if (gpumap_model_find(model, s.v[i].name, &t) != 0 ||
		    t.buffer != 0)
			continue;
		n += t.bytes == 0
			     ? t.data == NULL && t.part == UINT32_MAX
			     : t.data && is_part(model, &t) &&
				       shards_match(&s, i, t.data, 0, t.bytes);
	}
	return n;
}

static void memory_of_hosts_is_mapped(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct gpumap_model *first = have(a, s.path), *second = NULL;
	struct gpumap_tensor t = { .size = sizeof(t) };
	struct gpumap_device before = story_device(map, 0);
	uint32_t flags = GPUMAP_SHARE_READ_ONLY | GPUMAP_MODEL_MAPPED;

	EQ(gpumap_model_open(b, NAME, GPUMAP_MODEL_MAPPED, NULL, &second),
	   -EACCES);
	EQ(gpumap_model_open(b, NAME, flags, NULL, &second), 0);
	EQ(n_mapped(second), N_SMALL);
	EQ(gpumap_model_find(second, "layers.0.a", &t), 0);
	OK(mprotect((void *)((uintptr_t)t.data & ~UINT64_C(4095)), 4096,
		    PROT_READ | PROT_WRITE) != 0);
	EQ(gpumap_model_find(first, "layers.0.a", &t), 0);
	OK(t.buffer != 0 && t.data == NULL);
	/* Neither the worker nor the session that loaded it is needed. */
	kill((pid_t)before.worker_pid, SIGKILL);
	OK(story_back(map, 0, before.restarts));
	gpumap_session_close(a);
	EQ(gpumap_model_renew(second), 0);
	EQ(n_mapped(second), N_SMALL);
	gpumap_session_close(b);
	EQ(n_mapped(second), N_SMALL); /* the mapping keeps the memory */
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	settles(0, 0);
}
#endif

static bool is_meta(const struct gpumap_model *model, const char *text)
{
	struct gpumap_model_meta meta = { .size = sizeof(meta) };

	return gpumap_model_meta(model, &meta) == 0 &&
	       meta.format == GPUMAP_META_CONFIG_JSON &&
	       meta.bytes == strlen(text) &&
	       memcmp(meta.data, text, meta.bytes) == 0;
}

/* The metadata is in the share: a model of a share that was closed has none. */
static void metadata_ends_with_the_share(struct gpumap_session *b)
{
	struct gpumap_model_progress p = { .size = sizeof(p) };
	struct gpumap_model_meta meta = { .size = sizeof(meta) };
	struct gpumap_model *model = NULL;

	EQ(gpumap_model_open(b, NAME, GPUMAP_SHARE_READ_ONLY, NULL, &model), 0);
	EQ(gpumap_model_meta(model, &meta), 0);
	EQ(gpumap_model_progress(model, &p), 1);
	EQ(gpumap_share_close(b, p.share), 0);
	EQ(gpumap_model_meta(model, &meta), -ENODATA);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
}

/* The second session reads the configuration without a file. */
static void the_configuration_comes_along(void)
{
	static const char text[] = "{\"model_type\": \"llama\"}";
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct gpumap_model_meta meta = { .size = sizeof(meta) };
	struct gpumap_model *first = have(a, s.path), *second = NULL;
	char path[160];
	int fd;

	EQ(gpumap_model_meta(first, &meta), -ENODATA);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	shards_path(&s, "config.json", path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	OK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	first = have(a, s.path);
	OK(is_meta(first, text));
	EQ(unlink(path), 0);
	metadata_ends_with_the_share(b);
	EQ(gpumap_model_open(b, NAME, GPUMAP_SHARE_READ_ONLY, NULL, &second),
	   0);
	OK(is_meta(second, text));
	OK(shared(NAME).about_bytes > strlen(text));
	gpumap_session_close(a);
	OK(is_meta(first, text)); /* its own */
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	OK(is_meta(second, text));
	meta.size = 8;
	EQ(gpumap_model_meta(second, &meta), -EINVAL);
	meta.size = sizeof(meta);
	gpumap_session_close(b);
	EQ(gpumap_model_meta(second, &meta), -ENODATA);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	settles(0, 0);
	/* More than a share can have. */
	a = session_open(map);
	EQ(ftruncate(fd, 0), 0);
	close(fd);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	EQ(ftruncate(fd, (off_t)GPUMAP_SHARE_ABOUT_MAX + 1), 0);
	EQ(begin_at(a, s.path, &first), -E2BIG);
	OK(strstr(gpumap_refusal(map), "config.json is longer"));
	EQ(ftruncate(fd, (off_t)GPUMAP_SHARE_ABOUT_MAX), 0);
	EQ(begin_at(a, s.path, &first), -E2BIG);
	OK(strstr(gpumap_refusal(map), "more than a share says"));
	EQ(ftruncate(fd, 0), 0);
	first = have(a, s.path);
	EQ(gpumap_model_meta(first, &meta), -ENODATA);
	gpumap_session_close(a);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	EQ(unlink(path), 0);
	close(fd);
	EQ(mkdir(path, 0755), 0);
	a = session_open(map);
	EQ(begin_at(a, s.path, &first), -EINVAL);
	OK(strstr(gpumap_refusal(map), "config.json is not a regular file"));
	gpumap_session_close(a);
	EQ(rmdir(path), 0);
	settles(0, 0);
}

static void what_is_no_model_is_told(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct gpumap_model *model = NULL;
	struct gpumap_share_request request = { .size = sizeof(request),
						.name = NAME,
						.about = s.path,
						.about_bytes = sizeof(s.path),
						.n_buffers = 1 };
	uint64_t buffer, id;

	EQ(make(a, 0, 1, &buffer), 0);
	request.buffers = &buffer;
	EQ(gpumap_share_publish(a, &request, &id), 0);
	EQ(gpumap_model_open(b, NAME, 0, NULL, &model), -EINVAL);
	OK(strstr(gpumap_refusal(map), "is no model"));
	EQ(begin_with(b, s.path, 0, &model), -EINVAL);
	OK(strstr(gpumap_refusal(map), "is no model"));
	EQ(gpumap_share_close(a, id), 0);
	EQ(gpumap_model_open(b, "", 0, NULL, &model), -EINVAL);
	EQ(gpumap_model_open(b, NULL, 0, NULL, &model), -EINVAL);
	EQ(gpumap_model_open(b, NAME, 8, NULL, &model), -E2BIG);
	EQ(begin_with(b, s.path, 8, &model), -E2BIG);
	/* The configuration lets no other user have a share.  The refusal comes
	 * before anything is read. */
	EQ(begin_with(b, s.path, GPUMAP_SHARE_ANY_USER, &model), -EPERM);
	OK(strstr(gpumap_refusal(map), "share = any"));
	gpumap_session_close(b);
	gpumap_session_close(a);
	settles(0, 0);
}

/* ---- waiting ----------------------------------------------------------- */

static void one_loads_and_the_others_wait(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct shards big = { .v = large, .n = 3, .n_files = 1 };
	struct gpumap_model *first, *second, *third;
	char who[32];

	snprintf(big.path, sizeof(big.path), "agent-model-big.%d",
		 (int)getpid());
	if (mkdir(big.path, 0755) != 0)
		exit(99);
	shards_write_file(&big, 0);
	EQ(begin_at(a, big.path, &first), 0);
	EQ(begin_at(b, big.path, &second), 0);
	EQ(begin_at(b, s.path, &third), 0);
	EQ(gpumap_model_progress(second, NULL), 0);
	EQ(look(second).state, GPUMAP_MODEL_WAITING);
	snprintf(who, sizeof(who), "process %d of uid", (int)getpid());
	OK(strstr(gpumap_refusal(map), who));
	EQ(gpumap_model_wait(second, story_now() + 300000000), -ETIME);
	EQ(wait_for(first), 0);
	EQ(wait_for(second), 0);
	EQ(look(second).was_there, 1);
	EQ(look(second).total_bytes, 160 * MIB + 12);
	/* The name has come to hold other files than these. */
	EQ(wait_for(third), -EEXIST);
	OK(strstr(gpumap_refusal(map), NAME "\" holds other files") &&
	   strstr(gpumap_refusal(map), big.path));
	EQ(gpumap_model_close(third, GPUMAP_NO_DEADLINE), 0);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	settles(0, 0);
	/* The loading session cancels, so the waiting one loads the model. */
	EQ(begin_at(a, big.path, &first), 0);
	EQ(begin_at(b, s.path, &second), 0);
	EQ(look(second).state, GPUMAP_MODEL_WAITING);
	EQ(gpumap_model_cancel(first), 0);
	EQ(wait_for(first), -ECANCELED);
	EQ(wait_for(second), 0);
	EQ(look(second).was_there, 0);
	EQ(n_right(b, second), N_SMALL);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	/* A waiting session may cancel as well, and delays no other. */
	EQ(begin_at(a, big.path, &first), 0);
	EQ(begin_at(b, s.path, &second), 0);
	EQ(gpumap_model_cancel(second), 0);
	EQ(wait_for(second), -ECANCELED);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	EQ(wait_for(first), 0);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(b);
	gpumap_session_close(a);
	settles(0, 0);
	shards_remove(&big);
}

/* A model that fails to load leaves its name free. */
static void what_fails_is_free(void)
{
	struct gpumap_session *a = session_open(map);
	struct gpumap_model *model = NULL;
	char path[160];

	EQ(begin_at(a, "no-such-folder", &model), -ENOENT);
	OK(strstr(gpumap_refusal(map), "no-such-folder"));
	EQ(begin_at(a, s.path, &model), 0);
	shards_path(&s, "model-00002-of-00002.safetensors", path);
	EQ(truncate(path, 300), 0);
	EQ(wait_for(model), -ENODATA);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	shards_write_file(&s, 1);
	settles(0, 0);
	model = have(a, s.path);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(a);
	settles(0, 0);
}

/* ---- several processes ------------------------------------------------- */

/* Letters tell a session what to do: 'l' loads the model and answers whether it
 * was there, 'v' answers how many tensors are right, 'f' frees it; any other
 * loads and frees without end. */
static int64_t takes_part(struct gpumap_session *session, struct line *line)
{
	static struct gpumap_model *model;
	int ret;

	switch (line->what) {
	case 'l':
		ret = begin_at(session, s.path, &model);
		if (ret == 0)
			ret = wait_for(model);
		return ret == 0 ? (int64_t)look(model).was_there : ret;
	case 'v':
		return (int64_t)n_right(session, model);
	case 'f':
		return gpumap_model_close(model, GPUMAP_NO_DEADLINE);
	default:
		for (;;) {
			if (begin_at(session, s.path, &model) != 0)
				continue;
			wait_for(model);
			gpumap_model_close(model, GPUMAP_NO_DEADLINE);
		}
	}
}

#define PLAYERS 4

static void all_at_once(void)
{
	struct player p[PLAYERS];
	int64_t found = 0;

	for (int i = 0; i < PLAYERS; i++)
		p[i] = player_start(0, takes_part);
	for (int i = 0; i < PLAYERS; i++)
		tell_only(&p[i], 'l', "", 0);
	for (int i = 0; i < PLAYERS; i++) {
		struct line line = { .value = -EPIPE };

		(void)!read(p[i].fd, &line, sizeof(line));
		OK(line.value >= 0);
		found += line.value;
	}
	EQ(found, PLAYERS - 1);
	OK(is_once());
	for (int i = 0; i < PLAYERS; i++)
		EQ(tell(&p[i], 'v', "", 0), N_SMALL);
	EQ(shared(NAME).n_holders, PLAYERS);
	for (int i = 0; i < PLAYERS; i++)
		player_end(&p[i], i % 2 ? SIGKILL : 0);
	settles(0, 0);
}

/* A process is killed that loads the model, has it, or waits for it.  The next
 * session has the whole model, loaded once. */
static void anybody_may_die(void)
{
	for (int round = 0; round < story_rounds(); round++) {
		struct player killed = player_start(0, takes_part);
		struct player other = player_start(0, takes_part);

		tell_only(&killed, 'x', "", 0);
		if (round % 2 == 0)
			tell_only(&other, 'l', "", 0);
		story_nap(story_moment(round, 20000));
		player_end(&killed, SIGKILL);
		if (round % 2 == 0) {
			struct line line = { .value = -EPIPE };

			(void)!read(other.fd, &line, sizeof(line));
			OK(line.value >= 0);
		} else {
			OK(tell(&other, 'l', "", 0) >= 0);
		}
		EQ(tell(&other, 'v', "", 0), N_SMALL);
		player_end(&other, 0);
		settles(0, 0);
	}
}

/* ---- releases ---------------------------------------------------------- */

static void kill_worker(uint32_t row)
{
	struct gpumap_device before = story_device(map, row);

	kill((pid_t)before.worker_pid, SIGKILL);
	OK(story_back(map, row, before.restarts));
}

static void it_outlives_a_worker(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct gpumap_model *first = have(a, s.path);
	struct gpumap_model *second = have(b, s.path);

	EQ(gpumap_model_renew(second), 0);
	EQ(n_right(b, second), N_SMALL);
	kill_worker(1);
	OK(n_right(b, second) < N_SMALL);
	EQ(gpumap_model_renew(second), 0);
	EQ(n_right(b, second), N_SMALL);
	EQ(gpumap_model_renew(first), 0);
	EQ(n_right(a, first), N_SMALL);
	OK(is_once());
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(b);
	gpumap_session_close(a);
	settles(0, 0);
}

static void a_name_is_taken_back(void)
{
	struct gpumap_session *a = session_open(map), *b = session_open(map);
	struct gpumap_model *first = have(a, s.path);
	struct gpumap_model *second = have(b, s.path), *next;
	struct gpumap_session *c = session_open(map);

	EQ(gpumap_share_release(map, NAME), 0);
	EQ(gpumap_share_release(map, NAME), -ENOENT);
	EQ(gpumap_share_release(map, ""), -EINVAL);
	EQ(shares_n(), 0);
	/* A session that has the model keeps it, and others load another
	 * one. */
	EQ(n_right(b, second), N_SMALL);
	next = have(c, s.path);
	EQ(look(next).was_there, 0);
	EQ(gpumap_model_close(first, GPUMAP_NO_DEADLINE), 0);
	EQ(n_right(b, second), N_SMALL);
	EQ(gpumap_model_close(second, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(b);
	gpumap_session_close(a);
	OK(is_once());
	EQ(shares_n(), 1);
	EQ(gpumap_share_release(map, NAME), 0);
	EQ(gpumap_model_close(next, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(c);
	settles(0, 0);
}

/* ---- other users ------------------------------------------------------- */

/* Open the model, or release its name, as another user. */
static int64_t strange(struct gpumap_session *session, struct line *line)
{
	struct gpumap_model *model;

	if (line->what == 'r')
		return gpumap_share_release(story_attach(&agent), NAME);
	return gpumap_model_open(session, NAME, GPUMAP_SHARE_READ_ONLY, NULL,
				 &model);
}

static void users_that_are_named_have_it(void)
{
	const uint32_t uid = STRANGER;
	struct gpumap_session *a = session_open(map);
	struct gpumap_model_opts opts = { .size = sizeof(opts),
					  .path = s.path,
					  .layers = "m",
					  .name = NAME,
					  .share_flags = GPUMAP_SHARE_READ_ONLY,
					  .uids = &uid,
					  .n_uids = 1 };
	struct gpumap_model *model = NULL;
	struct player named, other;

	if (geteuid() != 0) {
		SKIP(4, "needs root, to be somebody else");
		gpumap_session_close(a);
		return;
	}
	EQ(gpumap_model_load(a, &opts, &model), 0);
	EQ(wait_for(model), 0);
	named = player_start(STRANGER, strange);
	other = player_start(STRANGER + 1, strange);
	EQ(tell(&named, 'o', "", 0), 0);
	EQ(tell(&other, 'o', "", 0), -EACCES);
	EQ(tell(&named, 'r', "", 0), -EPERM);
	EQ(shares_n(), 1);
	player_end(&named, 0);
	player_end(&other, 0);
	EQ(gpumap_model_close(model, GPUMAP_NO_DEADLINE), 0);
	gpumap_session_close(a);
	settles(0, 0);
}

static const char config[] = "[host]\nrows = 2\n";
static const char open_to_all[] =
	"[host]\nrows = 2\n[socket]\nmode = 0666\n[limits]\n"
	"sessions-per-second = 1000000\n";

static bool begin(const char *cuda, const char *more)
{
	shares_stage(cuda, more);
	if (!OK(agent_start(&agent)) || !OK((map = story_attach(&agent))))
		return false;
	EQ(shards_map(map, "m", "1:2;0:1"), 0);
	return true;
}

static void end(void)
{
	gpumap_layers_release(map, "m");
	gpumap_detach(map);
	EQ(agent_kill(&agent, SIGTERM), 0);
}

TAP_CASE()
{
	s = shards_make(small, N_SMALL, 2);
	if (begin("keep-shares = yes\n", config)) {
		the_second_finds_it();
#ifndef STAGE_CUDA
		memory_of_hosts_is_mapped();
#endif
		headers_are_read_once();
		fingerprints_are_compared();
		the_configuration_comes_along();
		what_is_no_model_is_told();
		one_loads_and_the_others_wait();
		what_fails_is_free();
		all_at_once();
		anybody_may_die();
		it_outlives_a_worker();
		a_name_is_taken_back();
		end();
	}
	if (begin("share = any\n", open_to_all)) {
		users_that_are_named_have_it();
		end();
	}
	if (tap_failures)
		agent_show_log(&agent);
	shards_remove(&s);
	stage_end(&agent);
	return tap_done();
}
