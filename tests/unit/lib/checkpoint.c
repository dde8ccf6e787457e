/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * checkpoint: directories as hubs serve them, damaged ones, and two published
 * models at their real size.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpumap.h"
#include "gpumap/model.h"
#include "lib/model/checkpoint/checkpoint.h"
#include "tests/support/tap.h"

#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define CONFIG     "config.json"
#define SINGLE     "model.safetensors"
#define INDEX      "model.safetensors.index.json"
#define ONE_LAYER  "{\"num_hidden_layers\":1}"
#define TWO_LAYERS "{\"num_hidden_layers\":2}"

extern char **environ;

static char dir[256];
static struct gm_reason why;

static void make_dir(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/gpumap-test.%d.XXXXXX",
		 tmp ? tmp : "/tmp", (int)getpid());
	if (!mkdtemp(dir)) {
		perror(dir);
		exit(1);
	}
}

static const char *in_dir(const char *name)
{
	static char path[640];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void remove_dir(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (unlink(in_dir(e->d_name)) && e->d_name[0] != '.')
			rmdir(in_dir(e->d_name));
	if (d)
		closedir(d);
	rmdir(dir);
}

static FILE *create(const char *name)
{
	FILE *f = fopen(in_dir(name), "we");

	if (!f) {
		perror(name);
		exit(1);
	}
	return f;
}

static void write_text(const char *name, const char *text)
{
	FILE *f = create(name);

	fputs(text, f);
	fclose(f);
}

/* A tensor with @n elements. */
struct named {
	const char *name;
	uint64_t n;
	const char *dtype;
	unsigned int size; /* of an element, bytes */
};

#define U8(name, n)   ((struct named){ (name), (n), "U8", 1 })
#define F16(name, n)  ((struct named){ (name), (n), "F16", 2 })
#define BF16(name, n) ((struct named){ (name), (n), "BF16", 2 })
#define END           ((struct named){ NULL, 0, NULL, 0 })

/* Ends at a NULL name.  The data is a hole. */
static void write_tensors(const char *file, const struct named *t)
{
	char header[4096] = "{", length[8] = { 0 };
	size_t n = 1;
	uint64_t at = 0;
	FILE *f = create(file);

	for (; t->name; t++) {
		uint64_t end = at + t->n * t->size;

		n += (size_t)snprintf(
			header + n, sizeof(header) - n,
			"%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64
			"],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
			at || n > 1 ? "," : "", t->name, t->dtype, t->n, at,
			end);
		at = end;
	}
	header[n++] = '}';
	length[0] = (char)(n & 0xff);
	length[1] = (char)(n >> 8);
	fwrite(length, sizeof(length), 1, f);
	fwrite(header, n, 1, f);
	fflush(f);
	if (ftruncate(fileno(f), (off_t)(sizeof(length) + n + at)))
		perror(file);
	fclose(f);
}

#define TENSORS(file, ...) \
	write_tensors(file, (const struct named[]){ __VA_ARGS__, END })

/* The model is as told.  @layers ends at 0. */
static void is_read(const uint64_t *layers, uint64_t non_mapped)
{
	struct gm_weights_sizes c = { 0 };
	uint64_t total = non_mapped;
	uint32_t n = 0;

	EQ(gm_weights_measure(dir, NULL, &why, &c), 0);
	STR(why.text, "");
	while (layers[n]) {
		if (n < c.n_layers)
			EQ(c.layer_bytes[n], layers[n]);
		total += layers[n++];
	}
	EQ(c.n_layers, n);
	EQ(c.other_bytes, non_mapped);
	EQ(c.total_bytes, total);
	gm_weights_sizes_free(&c);
}

#define READS(non_mapped, ...) \
	is_read((const uint64_t[]){ __VA_ARGS__, 0 }, non_mapped)

/* The checkpoint at @path is refused, with a sentence that ends in @text and a
 * remedy. */
static void is_refused_at(const char *path, int code, const char *text)
{
	struct gm_weights_sizes c = { .n_tensors = 77 };
	const char *at;

	why.text[0] = '\0';
	EQ(gm_weights_measure(path, NULL, &why, &c), code);
	at = strstr(why.text, text);
	if (!OK(at != NULL && strncmp(at + strlen(text), "; ", 2) == 0 &&
		c.n_tensors == 77))
		NOTE("it says: %s", why.text);
}

static void is_refused(int code, const char *text)
{
	is_refused_at(dir, code, text);
}

static void a_single_file_is_summed_by_layer(void)
{
	struct gm_weights_sizes c = { 0 };

	make_dir();
	write_text(CONFIG, TWO_LAYERS);
	TENSORS(SINGLE, BF16("model.embed_tokens.weight", 100),
		U8("model.layers.0.q", 10), U8("model.layers.0.k", 5),
		U8("model.layers.1.q", 7), F16("lm_head.weight", 100),
		F16("model.norm.weight", 1));
	/* The head and the norm before it are with the last layer. */
	READS(200, 15, 7 + 202);
	EQ(gm_weights_measure(dir, NULL, &why, &c), 0);
	EQ(c.n_tensors, 6);
	EQ(c.n_files, 1);
	STR(gm_weights_type(c.type),
	    "F16"); /* 202 bytes of it, 200 of BF16, 22 of U8 */
	gm_weights_sizes_free(&c);
	remove_dir();
}

/* The same for any program, and without an agent. */
static void programs_may_measure(void)
{
	struct gpumap_model_sizes *sizes = NULL;

	EQ(gpumap_model_measure(NULL, &sizes), -EINVAL);
	EQ(gpumap_model_measure("", &sizes), -EINVAL);
	EQ(gpumap_model_measure("/nowhere", &sizes), -ENOENT);
	STR(gpumap_refusal(NULL),
	    "/nowhere/: No such file or directory; give a checkpoint's "
	    "directory: nothing is fetched by a model's name");
	OK(sizes == NULL);
	gpumap_model_sizes_free(sizes);
	make_dir();
	write_text(CONFIG, "{\"num_hidden_layers\":2,\"model_type\":\"llama\","
			   "\"num_nextn_predict_layers\":1,"
			   "\"num_attention_heads\":4,\"hidden_size\":64,"
			   "\"num_key_value_heads\":2}");
	TENSORS(SINGLE, BF16("h.0.w", 3), BF16("h.1.w", 4), U8("h.2.w", 5));
	if (EQ(gpumap_model_measure(dir, &sizes), 0)) {
		STR(gpumap_refusal(NULL), "");
		EQ(sizes->n_layers, 2);
		OK(sizes->layer_bytes[0] == 6 && sizes->layer_bytes[1] == 8);
		EQ(sizes->other_bytes, 5);
		EQ(sizes->total_bytes, 19);
		EQ(sizes->n_extra_layers, 1);
		EQ(sizes->n_tensors, 3);
		EQ(sizes->n_files, 1);
		STR(sizes->type, "BF16");
		EQ(sizes->dtype, GPUMAP_DTYPE_BF16);
		STR(sizes->architecture, "llama");
		EQ(sizes->n_heads, 4);
		EQ(sizes->n_caches, 1);
		EQ(sizes->caches[0].n_layers, 2);
		EQ(sizes->caches[0].n_heads, 2);
		EQ(sizes->caches[0].token_elements, 2 * 2 * 16);
	}
	gpumap_model_sizes_free(sizes);
	remove_dir();
}

static void layers_are_known_by_their_names(void)
{
	static const char *const prefixes[] = {
		"model.layers.",
		"layers.",
		"h.",
		"blk.",
		"transformer.h.",
		"language_model.model.layers.",
		"model.language_model.layers.",
		"gpt_neox.layers.",
		"base_model.model.model.layers.",
		"transformer.blocks.", /* MPT, DBRX */
		"encoder.block.",      /* T5 */
		"encoder.layer.",      /* BERT */
	};

	make_dir();
	write_text(CONFIG, TWO_LAYERS);
	for (size_t i = 0; i < COUNT(prefixes); i++) {
		char first[64], second[64];

		snprintf(first, sizeof(first), "%s0.w", prefixes[i]);
		snprintf(second, sizeof(second), "%s1.layers.9.w", prefixes[i]);
		TENSORS(SINGLE, U8(first, 3), U8(second, 4), U8("norm", 5));
		READS(5, 3, 4);
	}
	remove_dir();
}

static void names_that_only_look_like_layers_are_not(void)
{
	make_dir();
	write_text(CONFIG, ONE_LAYER);
	TENSORS(SINGLE, U8("model.layers.0.w", 1), U8("model.layers.1", 2),
		U8("model.layers.01.w", 4), U8("model.layers.1.", 8),
		U8("model.layers.1a.w", 16), U8("model.layers..w", 32),
		U8("model.xlayers.1.w", 64), U8("layers", 128), U8("", 256),
		U8("model.layers.-1.w", 512));
	READS(1022, 1);
	remove_dir();
}

static void numbers_are_not_ordered_as_text(void)
{
	struct named t[13] = { END };
	char names[12][32];

	make_dir();
	write_text(CONFIG, "{}");
	for (unsigned int i = 0; i < 12; i++) {
		snprintf(names[i], sizeof(names[i]), "h.%u.w", 11 - i);
		t[i] = U8(names[i], 12 - i);
	}
	write_tensors(SINGLE, t);
	READS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
	remove_dir();
}

static void the_language_model_is_told_from_other_towers(void)
{
	make_dir();
	/* By the number of layers, although the tower is larger. */
	write_text(CONFIG, "{\"text_config\":" TWO_LAYERS ","
			   "\"vision_config\":{\"num_hidden_layers\":1}}");
	TENSORS(SINGLE, U8("language_model.model.layers.0.w", 3),
		U8("language_model.model.layers.1.w", 3),
		U8("vision_tower.vision_model.encoder.layers.0.w", 900));
	READS(900, 3, 3);
	TENSORS(SINGLE, U8("model.layers.0.w", 3), U8("model.layers.1.w", 3),
		U8("visual.h.0.w", 900));
	READS(900, 3, 3);
	/* By size where config.json does not say. */
	write_text(CONFIG, "{}");
	READS(6, 900);
	remove_dir();
}

static void layers_past_the_last_are_known_by_config(void)
{
	make_dir();
	TENSORS(SINGLE, U8("model.layers.0.w", 3), U8("model.layers.1.w", 4),
		U8("model.layers.2.w", 5));
	write_text(CONFIG, "{\"num_hidden_layers\":2,"
			   "\"num_nextn_predict_layers\":1}");
	READS(5, 3, 4);
	write_text(CONFIG, TWO_LAYERS);
	is_refused(-EINVAL, ": its metadata say 2 layers, there are tensors "
			    "of 3 (model.layers.N.)");
	write_text(CONFIG, "{\"n_layer\":4}");
	is_refused(-EINVAL, ": its metadata say 4 layers, there are tensors "
			    "of 3 (model.layers.N.)");
	write_text(CONFIG, "{\"num_layers\":3,\"num_hidden_layers\":null}");
	READS(0, 3, 4, 5);
	remove_dir();
}

static void layers_must_be_there(void)
{
	make_dir();
	write_text(CONFIG, TWO_LAYERS);
	TENSORS(SINGLE, U8("norm", 1));
	is_refused(-EINVAL, ": no tensor's name has the number of a layer");
	TENSORS(SINGLE, U8("h.0.w", 1), U8("h.2.w", 1), U8("h.3.w", 1));
	is_refused(-EINVAL, ": no tensor of layer h.1, but there are of layer "
			    "3");
	TENSORS(SINGLE, U8("h.1.w", 1));
	is_refused(-EINVAL, ": no tensor of layer h.0, but there are of layer "
			    "1");
	TENSORS(SINGLE, U8("h.65536.w", 1));
	is_refused(-E2BIG, ": tensor h.65536.w: more than the 65536 layers "
			   "that a map may have");
	TENSORS(SINGLE, U8("h.99999999999999999999999.w", 1));
	is_refused(-E2BIG, "more than the 65536 layers that a map may have");
	remove_dir();
}

static void a_directory_has_a_config(void)
{
	char file[640];

	make_dir();
	TENSORS(SINGLE, U8("h.0.w", 1), U8("h.1.w", 2));
	is_refused(-ENOENT, "/config.json is not there, or empty");
	write_text(CONFIG, "");
	is_refused(-ENOENT, "/config.json is not there, or empty");
	write_text(CONFIG, "{\"n_layers\":\"2\"}");
	is_refused(-EINVAL, "config.json: n_layers is not a whole number from "
			    "1 to 65536");
	/* A file's is the one beside it, if there is one. */
	snprintf(file, sizeof(file), "%s", in_dir(SINGLE));
	is_refused_at(file, -EINVAL,
		      "config.json: n_layers is not a whole number from 1 to "
		      "65536");
	write_text(CONFIG, ONE_LAYER);
	is_refused_at(file, -EINVAL,
		      ": its metadata say 1 layers, there are tensors of 2 "
		      "(h.N.)");
	unlink(in_dir(CONFIG));
	snprintf(dir + strlen(dir), sizeof(dir) - strlen(dir), "/" SINGLE);
	READS(0, 1, 2);
	*strrchr(dir, '/') = '\0';
	write_text(CONFIG, "{}");
	if (truncate(in_dir(CONFIG), (256 << 20) + 1))
		perror(CONFIG);
	is_refused(-E2BIG, "/config.json is longer than a model's metadata may "
			   "be");
	remove_dir();
}

/* Without an index the names tell which files are the model's. */
static void files_are_told_by_their_names(void)
{
	static const char first[] = "model-00001-of-00003.safetensors";
	static const char second[] = "model-00002-of-00003.safetensors";
	static const char third[] = "model-00003-of-00003.safetensors";

	make_dir();
	write_text(CONFIG, TWO_LAYERS);
	TENSORS("adapter_model.safetensors", U8("b.layers.0.lora_A.w", 9));
	is_refused(-EINVAL, "adapter_model.safetensors adapts a model");
	TENSORS("consolidated-00001-of-00001.safetensors", U8("layers.0.w", 3),
		U8("layers.1.w", 4));
	READS(0, 3, 4);
	TENSORS(first, U8("model.layers.0.w", 3), U8("norm", 5));
	is_refused(-ENOENT, "/model-00002-of-00003.safetensors: No such file "
			    "or directory");
	TENSORS(third, U8("model.layers.1.w", 4));
	is_refused(-ENOENT, "/model-00002-of-00003.safetensors: No such file "
			    "or directory");
	TENSORS(second, U8("head", 6));
	READS(11, 3, 4);
	unlink(in_dir(first));
	is_refused(-ENOENT, "/model-00001-of-00003.safetensors: No such file "
			    "or directory");
	unlink(in_dir(second));
	unlink(in_dir(third));
	TENSORS("model-1-of-3.safetensors", U8("h.0.w", 3), U8("h.1.w", 4));
	READS(0, 3, 4);
	remove_dir();
}

/* transformers reads the one file. */
static void a_file_beside_an_index_is_named(void)
{
	make_dir();
	write_text(CONFIG, TWO_LAYERS);
	TENSORS(SINGLE, U8("h.0.w", 1));
	is_refused(-EINVAL, ": its metadata say 2 layers, there are tensors "
			    "of 1 (h.N.)");
	OK(strstr(why.text, "; fetch what is missing") != NULL);
	write_text(INDEX, "{}");
	is_refused(-EINVAL, "of 1 (h.N.)");
	OK(strstr(why.text, "; model.safetensors is read, not the files of the "
			    "index beside it: remove one") != NULL);
	remove_dir();
}

static void a_cache_has_its_models_in_snapshots(void)
{
	make_dir();
	is_refused(-ENOENT, ": no .safetensors file");
	write_text("snapshots", "");
	is_refused(-ENOENT, ": no .safetensors file");
	OK(strstr(why.text, "; give a directory in its snapshots/") != NULL);
	remove_dir();
}

static void an_index_is_held_to_its_word(void)
{
	static const struct {
		const char *map;
		int code;
		const char *text;
	} table[] = {
		{ "{\"h.0.w\":\"a\",\"h.1.w\":\"c\"}", -ENOENT,
		  "/c: No such file or directory" },
		{ "{\"h.0.w\":\"a\",\"h.1.w\":\"a\"}", -EINVAL,
		  "a: tensor h.1.w, which the index says is in it, is not" },
		{ "{\"h.0.w\":\"a\",\"h.1.w\":\"b\",\"h.2.w\":\"b\"}", -EINVAL,
		  "b: tensor h.2.w, which the index says is in it, is not" },
		{ "{\"h.0.w\":\"../a\"}", -EINVAL, "the index" },
		{ "{\"h.0.w\":\"..\"}", -EINVAL, "the index" },
		{ "{\"h.0.w\":\"\"}", -EINVAL, "the index" },
		{ "{\"h.0.w\":1}", -EINVAL,
		  "/" INDEX ": the file of tensor h.0.w is not the name of "
		  "one beside the index" },
		{ "{}", -EINVAL, "/" INDEX ": it names no tensor" },
		{ "[]", -EINVAL,
		  "/" INDEX " is not the JSON that it should be" },
		{ "null", -EINVAL,
		  "/" INDEX " is not the JSON that it should be" },
		{ "{", -EINVAL,
		  "/" INDEX " is not the JSON that it should be" },
		{ "{\"h.0.w\":\"a\"},\"weight_map\":{}", -EINVAL,
		  "/" INDEX ": it names no tensor" },
	};
	char index[512];

	make_dir();
	write_text(CONFIG, TWO_LAYERS);
	TENSORS("a", U8("h.0.w", 3), U8("not in the index", 9));
	TENSORS("b", U8("h.1.w", 4));
	/* Not named, so not read. */
	write_text("other.safetensors", "damaged");
	write_text(INDEX, "{\"weight_map\":{\"h.1.w\":\"b\",\"h.0.w\":\"a\"}}");
	READS(9, 3, 4);
	/* As Python reads it: the last counts. */
	write_text(INDEX, "{\"weight_map\":{\"h.0.w\":\"c\"},\"x\":NaN,"
			  "\"weight_map\":{\"h.0.w\":\"b\",\"h.1.w\":\"b\","
			  "\"h.0.w\":\"a\"}}");
	READS(9, 3, 4);
	write_text(INDEX, "{}");
	is_refused(-EINVAL, "/" INDEX ": it names no tensor");
	write_text(INDEX, "");
	is_refused(-EINVAL, "/" INDEX " is not the JSON that it should be");
	for (size_t i = 0; i < COUNT(table); i++) {
		snprintf(index, sizeof(index), "{\"weight_map\":%s}",
			 table[i].map);
		write_text(INDEX, index);
		is_refused(table[i].code, table[i].text);
	}
	remove_dir();
}

static void an_index_names_so_many_shards_at_most(void)
{
	FILE *f;

	make_dir();
	write_text(CONFIG, "{}");
	f = create(INDEX);
	fputs("{\"weight_map\":{", f);
	for (unsigned int i = 0; i <= GM_WEIGHTS_FILES; i++)
		fprintf(f, "%s\"h.%u.w\":\"%u\"", i ? "," : "", i, i);
	fputs("}}", f);
	fclose(f);
	is_refused(-E2BIG, " has more than 4096 files");
	remove_dir();
}

static void without_an_index_every_shard_counts(void)
{
	make_dir();
	write_text(CONFIG, TWO_LAYERS);
	is_refused(-ENOENT, ": no .safetensors file");
	TENSORS("x-2.safetensors", U8("h.1.w", 4), U8("norm", 1));
	TENSORS("x-1.safetensors", U8("h.0.w", 3));
	write_text(".x-3.safetensors", "hidden");
	write_text("pytorch_model.bin", "ignored");
	READS(1, 3, 4);
	TENSORS("x-3.safetensors", U8("norm", 1));
	is_refused(-EINVAL, "tensor norm is in x-2.safetensors and in "
			    "x-3.safetensors");
	/* The name that loaders take before all others. */
	TENSORS(SINGLE, U8("h.0.w", 5), U8("h.1.w", 6));
	READS(0, 5, 6);
	remove_dir();
}

static void damaged_files_are_told_apart(void)
{
	make_dir();
	write_text(CONFIG, ONE_LAYER);
	TENSORS(SINGLE, U8("h.0.w", 100));
	READS(0, 100);

	if (truncate(in_dir(SINGLE), 150))
		perror(SINGLE);
	is_refused(-ENODATA, SINGLE " is truncated: its tensors have 100 "
				    "bytes, the file holds 81 of them");
	if (truncate(in_dir(SINGLE), 20))
		perror(SINGLE);
	is_refused(-ENODATA, SINGLE " is truncated: its header has 61 "
				    "bytes, the file holds 12 of them");
	if (truncate(in_dir(SINGLE), 5))
		perror(SINGLE);
	is_refused(-ENODATA, "/" SINGLE " is truncated: it ends inside its "
			     "header");
	write_text(SINGLE, "version https://git-lfs.github.com/spec/v1\n");
	is_refused(-EINVAL, SINGLE " is a Git LFS pointer, not the file "
				   "that it stands for");
	write_text(SINGLE, "PK\3\4 a zip archive");
	is_refused(-EINVAL, SINGLE " is not a safetensors file: its header "
				   "would have 8800140462016121680 bytes");
	remove_dir();
}

static void only_regular_files_are_read(void)
{
	make_dir();
	write_text(CONFIG, ONE_LAYER);
	if (mkdir(in_dir(SINGLE), 0700))
		perror(SINGLE);
	is_refused(-EINVAL, "/" SINGLE " is not a regular file");
	rmdir(in_dir(SINGLE));
	/* No process writes to the pipe: the call must not wait. */
	if (mkfifo(in_dir(SINGLE), 0600))
		perror(SINGLE);
	is_refused(-EINVAL, "/" SINGLE " is not a regular file");
	unlink(in_dir(SINGLE));
	/* A download cache is a farm of these. */
	TENSORS("blob", U8("h.0.w", 3));
	if (symlink("blob", in_dir(SINGLE)))
		perror(SINGLE);
	READS(0, 3);
	remove_dir();
}

static int run(const char *const argv[])
{
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, argv[0], &actions, NULL, (char **)argv,
			 environ) == 0)
		waitpid(pid, &status, 0);
	posix_spawn_file_actions_destroy(&actions);
	return status;
}

struct published {
	const char *name;
	uint32_t n_layers, n_shards;
	uint64_t n_tensors, layer_bytes;
	uint64_t head_bytes; /* with the norm before it */
	uint64_t total_bytes;
	const char *dtype;
};

static void a_published_model_is_read_right(const struct published *m)
{
	const char *top = getenv("abs_top_srcdir");
	static const char *const python[] = { "python3", "-c", "", NULL };
	char script[512], model[512];
	const char *const make[] = { script, model, dir, NULL };
	struct gm_weights_sizes c = { 0 };
	uint32_t different = 0;

	snprintf(script, sizeof(script), "%s/../shared/models/make-checkpoint",
		 top ? top : ".");
	snprintf(model, sizeof(model), "%s/../shared/models/%s",
		 top ? top : ".", m->name);
	if (access(script, X_OK) || access(model, F_OK)) {
		SKIP(1, "the metadata of published models is not here");
		return;
	}
	if (run(python)) {
		SKIP(1, "making a checkpoint needs python3");
		return;
	}
	make_dir();
	EQ(run(make), 0);
	EQ(gm_weights_measure(dir, NULL, &why, &c), 0);
	EQ(c.n_layers, m->n_layers);
	EQ(c.n_files, m->n_shards);
	EQ(c.n_tensors, m->n_tensors);
	EQ(c.total_bytes, m->total_bytes);
	EQ(c.head_bytes, m->head_bytes);
	EQ(c.tied_bytes, 0);
	EQ(c.other_bytes,
	   m->total_bytes - m->n_layers * m->layer_bytes - m->head_bytes);
	STR(gm_weights_type(c.type), m->dtype);
	for (uint32_t i = 0; i < c.n_layers; i++)
		different += c.layer_bytes[i] !=
			     m->layer_bytes +
				     (i + 1 == c.n_layers ? m->head_bytes : 0);
	EQ(different, 0);
	gm_weights_sizes_free(&c);
	remove_dir();
}

static void published_models_are_read_right(void)
{
	/* Multiplied out by hand from each model's published shapes. */
	static const struct published models[] = {
		{ "llama-2-70b", 80, 15, 723, 1711308800, 1048592384,
		  139001872384, "F16" },
		{ "qwen2.5-14b", 48, 6, 579, 550537216, 1553059840, 29531895808,
		  "BF16" },
	};

	for (size_t i = 0; i < COUNT(models); i++)
		a_published_model_is_read_right(&models[i]);
}

TAP_CASE()
{
	a_single_file_is_summed_by_layer();
	programs_may_measure();
	layers_are_known_by_their_names();
	names_that_only_look_like_layers_are_not();
	numbers_are_not_ordered_as_text();
	the_language_model_is_told_from_other_towers();
	layers_past_the_last_are_known_by_config();
	layers_must_be_there();
	a_directory_has_a_config();
	files_are_told_by_their_names();
	a_file_beside_an_index_is_named();
	a_cache_has_its_models_in_snapshots();
	an_index_is_held_to_its_word();
	an_index_names_so_many_shards_at_most();
	without_an_index_every_shard_counts();
	damaged_files_are_told_apart();
	only_regular_files_are_read();
	published_models_are_read_right();
	return tap_done();
}
