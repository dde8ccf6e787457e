/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * replay - a fuzz target over the inputs kept for it, without a fuzzer.
 *
 * One check per file of corpus/FUZZ_NAME, or of the arguments: to have been
 * survived.  The name comes first, so that a crash has one.
 */

#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <string.h>

#include "tests/support/tap.h"

static void replay(const char *path)
{
	FILE *f = fopen(path, "re");
	uint8_t *data = NULL;
	long size = -1;

	if (f && fseek(f, 0, SEEK_END) == 0)
		size = ftell(f);
	/* Exactly as large as the input: reading past it must be seen. */
	if (size >= 0)
		data = malloc(size ? (size_t)size : 1);
	if (!data) {
		OK(!"cannot read the input");
		return;
	}
	rewind(f);
	NOTE("%s", path);
	fflush(stdout);
	if (OK(fread(data, 1, (size_t)size, f) == (size_t)size))
		LLVMFuzzerTestOneInput(data, (size_t)size);
	free(data);
	fclose(f);
}

static int not_hidden(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static void replay_corpus(void)
{
	const char *top = getenv("abs_top_srcdir");
	char dir[1024], path[2048];
	struct dirent **entries = NULL;
	int n;

	snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/" FUZZ_NAME,
		 top ? top : ".");
	n = scandir(dir, &entries, not_hidden, alphasort);
	OK(n > 0);
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, entries[i]->d_name);
		replay(path);
		free(entries[i]);
	}
	free(entries);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		replay_corpus();
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	return tap_done();
}
