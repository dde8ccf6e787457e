/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include <gpumap/plan.h>

#include "tests/support/shards.h"

static void shards_name(const struct shards *s, unsigned file,
			char ret_name[64])
{
	if (s->n_files == 1)
		snprintf(ret_name, 64, "model.safetensors");
	else
		snprintf(ret_name, 64, "model-%05u-of-%05u.safetensors",
			 file + 1, s->n_files);
}

void shards_path(const struct shards *s, const char *name, char ret_path[160])
{
	snprintf(ret_path, 160, "%s/%s", s->path, name);
}

int shards_open(const struct shards *s, const char *name, int flags)
{
	char path[160];
	int fd;

	shards_path(s, name, path);
	fd = open(path, flags | O_CLOEXEC, 0600);
	if (fd < 0)
		exit(99);
	return fd;
}

uint64_t shards_write_file(const struct shards *s, unsigned file)
{
	static char text[1 << 16], block[1 << 20];
	char name[64];
	uint64_t at = 0, n;
	size_t end = 8;
	int fd;

	end += (size_t)sprintf(text + end,
			       "{\"__metadata__\":{\"format\":\"pt\"}");
	for (size_t i = 0; i < s->n; i++) {
		const struct shard_tensor *t = &s->v[i];

		if (t->file != file)
			continue;
		end += (size_t)snprintf(
			text + end, sizeof(text) - end,
			",\"%s\":{\"dtype\":\"%s\",\"shape\":%s,"
			"\"data_offsets\":[%lu,%lu]}",
			t->name, t->type, t->shape, (unsigned long)at,
			(unsigned long)(at + t->bytes));
		at += t->bytes;
	}
	text[end++] = '}';
	for (unsigned i = 0; i < 8; i++)
		text[i] = (char)((end - 8) >> 8 * i);
	shards_name(s, file, name);
	fd = shards_open(s, name, O_RDWR | O_CREAT | O_TRUNC);
	if (write(fd, text, end) != (ssize_t)end ||
	    ftruncate(fd, (off_t)(end + at)) != 0)
		exit(99);
	at = end;
	for (size_t i = 0; i < s->n; i++) {
		uint64_t left = s->v[i].bytes, from = i * SHARD_STEP;

		if (s->v[i].file != file)
			continue;
		for (; left > 0 && !s->v[i].is_hole; left -= n, from += n) {
			n = left < sizeof(block) ? left : sizeof(block);
			load_fill(block, from, n);
			if (pwrite(fd, block, n,
				   (off_t)(at + s->v[i].bytes - left)) !=
			    (ssize_t)n)
				exit(99);
		}
		at += s->v[i].bytes;
	}
	close(fd);
	return at;
}

void shards_write_index(const struct shards *s)
{
	int fd = shards_open(s, "model.safetensors.index.json",
			     O_RDWR | O_CREAT | O_TRUNC);
	FILE *index = fdopen(fd, "w");

	fprintf(index, "{\"metadata\":{\"total_size\":1},\"weight_map\":{");
	for (size_t i = 0; i < s->n; i++) {
		char name[64];

		shards_name(s, s->v[i].file, name);
		fprintf(index, "%s\"%s\": \"%s\"", i ? ",\n" : "", s->v[i].name,
			name);
	}
	fprintf(index, "}}\n");
	fclose(index);
}

void shards_remove(const struct shards *s)
{
	DIR *folder = opendir(s->path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)) != NULL)
		if (entry->d_name[0] != '.' &&
		    unlinkat(dirfd(folder), entry->d_name, 0) != 0)
			unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
	if (folder)
		closedir(folder);
	rmdir(s->path);
}

struct shards shards_make(const struct shard_tensor *v, size_t n,
			  unsigned n_files)
{
	struct shards s = { .v = v, .n = n, .n_files = n_files };

	snprintf(s.path, sizeof(s.path), "agent-model.%d", (int)getpid());
	if (mkdir(s.path, 0755) != 0)
		exit(99);
	for (unsigned i = 0; i < n_files; i++)
		shards_write_file(&s, i);
	if (n_files > 1)
		shards_write_index(&s);
	return s;
}

bool shards_match(const struct shards *s, size_t i, const char *at,
		  uint64_t from, uint64_t n)
{
	uint64_t wrong = 0;

	if (!s->v[i].is_hole)
		return load_matches(at, i * SHARD_STEP + from, n);
	for (uint64_t j = 0; j < n; j++)
		wrong += at[j] != 0;
	return wrong == 0;
}

int shards_map(struct gpumap *map, const char *name, const char *spec)
{
	struct gpumap_layers_request request = { .size = sizeof(request),
						 .name = name,
						 .spec = spec,
						 .dtype = GPUMAP_DTYPE_BF16 };

	return gpumap_layers_publish(map, &request);
}

bool shards_taken(struct gpumap *map, uint64_t bytes)
{
	static struct gpumap_usage list[64];
	uint64_t until = story_now() + STORY_LIMIT_NS, sum;

	do {
		int n;

		list[0].size = sizeof(list[0]);
		n = gpumap_usage_list(map, list, 64);
		sum = 0;
		for (int i = 0; i < n && i < 64; i++)
			sum += list[i].bytes;
		if (sum == bytes)
			return true;
		story_nap(1000);
	} while (story_now() < until);
	NOTE("%lu bytes are taken", (unsigned long)sum);
	return false;
}

void shards_let_go(struct gpumap *map)
{
	for (uint32_t row = 0; row < gpumap_device_count(map); row++) {
		pid_t pid = (pid_t)story_device(map, row).worker_pid;

		if (pid > 0)
			story_lets_go(pid, "agent-model.");
	}
}
