/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Checks gpumapctl's commands for masks: publish by a rule and from a file,
 * list, show, release, and the refusals of wrong command lines and wrong files.
 */

#include <signal.h>

#include "tests/support/ctl.h"

#define CONFIG "[host]\nrows = 2\n[map model]\nspec = 0:2;1:3\n"

#define MASK_FIELDS                                                          \
	"name version published_ns owner_uid kind form dtype shape strides " \
	"bytes hash map rows tgt_len past_kv_len sliding_window chunk_size"

#define PUBLISH(...) CTL("mask", "publish", __VA_ARGS__)
#define SHOW(...)    CTL("mask", "show", __VA_ARGS__)

static bool is_null(const json_t *json, const char *key)
{
	return json_is_null(json_object_get(json, key));
}

static json_int_t at(const json_t *json, const char *key, size_t i)
{
	return json_integer_value(
		json_array_get(json_object_get(json, key), i));
}

/* ---- by a rule ----------------------------------------------------------- */

static void masks_are_published_by_a_rule(void)
{
	json_t *json;

	EQ(PUBLISH("a", "--kind", "sliding", "--size", "3", "--past", "2",
		   "--window", "1", "--dtype", "f32", "--json"),
	   DONE);
	json = object();
	OK(has_fields(json, MASK_FIELDS " n_copies n_shared"));
	STR(text(json, "name"), "a");
	STR(text(json, "kind"), "custom");
	STR(text(json, "form"), "sliding");
	STR(text(json, "dtype"), "F32");
	OK(at(json, "shape", 0) == 3 && at(json, "shape", 1) == 5);
	OK(at(json, "strides", 0) == 20 && at(json, "strides", 1) == 4);
	EQ(number(json, "bytes"), 60);
	EQ(number(json, "tgt_len"), 3);
	EQ(number(json, "past_kv_len"), 2);
	EQ(number(json, "sliding_window"), 1);
	OK(is_null(json, "chunk_size") && is_null(json, "map"));
	/* No row was named, so every row has the mask. */
	list(json, "rows", 2);
	EQ(number(json, "owner_uid"), geteuid());
	OK(number(json, "n_copies") >= 1);
	EQ(number(json, "n_shared"), 0);
	json_decref(json);
	EQ(PUBLISH("b", "--kind", "causal", "--size", "4", "--rows", "1"),
	   DONE);
	OK(prints("b: version ") &&
	   prints(", causal, 4 x 4 of BF16, 32 B, on 1 row: written 1 "
		  "time, 0 times there already\n"));
	EQ(PUBLISH("c", "--kind", "causal", "--size", "4", "--rows", "1"),
	   DONE);
	OK(prints(": written 0 times, 1 time there already\n"));
}

static void every_kind_can_be_had(void)
{
	json_t *json;

	EQ(PUBLISH("k", "--kind", "chunked", "--size", "4", "--chunk", "2",
		   "--dtype", "u8"),
	   DONE);
	EQ(SHOW("k"), DONE);
	OK(prints("\n.###\n..##\n##.#\n##..\n"));
	EQ(PUBLISH("k", "--kind", "bidirectional_sliding", "--size", "4",
		   "--window", "18446744073709551615", "--json"),
	   DONE);
	OK(prints("\"sliding_window\":18446744073709551615") &&
	   prints("\"past_kv_len\":null") && prints("\"chunk_size\":null"));
	EQ(SHOW("k"), DONE);
	OK(prints("\n....\n....\n....\n....\n"));
	EQ(PUBLISH("k", "--kind", "none"), DONE);
	OK(prints(", none, on 2 rows"));
	EQ(SHOW("k"), DONE);
	OK(prints(", none\n  rows 0 1\n"));
	EQ(PUBLISH("k", "--kind", "causal_flash", "--map", "model"), DONE);
	EQ(SHOW("k", "--json"), DONE);
	json = object();
	OK(has_fields(json, MASK_FIELDS " row picture"));
	STR(text(json, "kind"), "causal_flash");
	STR(text(json, "map"), "model");
	OK(is_null(json, "form") && is_null(json, "dtype") &&
	   is_null(json, "tgt_len") && is_null(json, "past_kv_len") &&
	   is_null(json, "sliding_window") && is_null(json, "picture"));
	list(json, "shape", 0);
	json_decref(json);
	EQ(CTL("mask", "release", "k"), DONE);
	OK(prints("k: released\n"));
}

static void masks_are_listed(void)
{
	const json_t *m;
	json_t *json;

	EQ(CTL("mask", "list"), DONE);
	OK(prints("\na ") && prints(" sliding ") && prints(" 3 x 5 "));
	EQ(CTL("mask", "list", "--json"), DONE);
	json = object();
	m = json_array_get(list(json, "masks", 3), 0);
	OK(has_fields(m, MASK_FIELDS));
	STR(text(m, "name"), "a");
	/* The same bytes have the same hash. */
	STR(text(json_array_get(json_object_get(json, "masks"), 1), "hash"),
	    text(json_array_get(json_object_get(json, "masks"), 2), "hash"));
	json_decref(json);
}

/* ---- pictures ------------------------------------------------------------ */

/* The command says how many keys a window has. */
static void windows_are_counted_out(void)
{
	EQ(PUBLISH("w", "--kind", "sliding", "--size", "8", "--window", "3"),
	   DONE);
	OK(prints("\n  window 3: each query sees its own key and the 3 before "
		  "it; for vLLM and transformers that is window 4\n"));
	EQ(PUBLISH("w", "--kind", "bidirectional_sliding", "--size", "8",
		   "--window", "3"),
	   DONE);
	OK(prints("\n  window 3: each query sees its own key and 2 on either "
		  "side\n"));
	EQ(CTL("mask", "release", "w"), DONE);
}

static void masks_are_drawn(void)
{
	char pgm[96], bytes[64];
	json_t *json;

	snprintf(pgm, sizeof(pgm), "%s/mask.pgm", agent.dir);
	EQ(SHOW("a"), DONE);
	OK(prints("a  version ") &&
	   prints(", sliding, 3 x 5 of F32, 60 B, "
		  "hash ") &&
	   prints("\n  rows 0 1\n#..##\n##..#\n###..\n"));
	EQ(SHOW("a", "--rows", "1", "--json", "--pgm", pgm), DONE);
	json = object();
	EQ(number(json, "row"), 1);
	STR(json_string_value(json_array_get(list(json, "picture", 3), 1)),
	    "##..#");
	json_decref(json);
	ctl_read(pgm, bytes, sizeof(bytes));
	OK(memcmp(bytes,
		  "P5\n5 3\n255\n"
		  "\0\xff\xff\0\0"
		  "\0\0\xff\xff\0"
		  "\0\0\0\xff\xff",
		  11 + 15) == 0);
	EQ(SHOW("a", "--pgm", "/dev/full"), FAILED);
	OK(complains("/dev/full: No space left on device"));
	EQ(SHOW("a", "--pgm", "/nowhere/x"), FAILED);
	OK(complains("/nowhere/x: No such file or directory"));
	EQ(SHOW("b", "--rows", "0"), FAILED);
	OK(complains(
		"mask \"b\" has no replica on row 0: give --rows one of 1; "));
	EQ(SHOW("b", "--rows", "0,1"), USAGE);
	EQ(SHOW("x"), FAILED);
	OK(complains("there is no mask \"x\"; gpumapctl mask list lists those "
		     "there are"));
	EQ(PUBLISH("n", "--kind", "none"), DONE);
	EQ(SHOW("n", "--pgm", pgm), FAILED);
	OK(complains("mask \"n\" has nothing to draw on row 0"));
	EQ(CTL("mask", "release", "n", "--json"), DONE);
	OK(prints("{\"released\":\"n\"}\n"));
	EQ(CTL("mask", "release", "n"), FAILED);
	OK(complains("there is no mask \"n\"; gpumapctl mask list"));
}

static void large_masks_are_drawn_small(void)
{
	EQ(PUBLISH("large", "--kind", "causal", "--size", "512"), DONE);
	EQ(SHOW("large"), DONE);
	/* Two cells wide where it is one high. */
	OK(prints("\n++######") && prints("\n..++####") && prints("....++\n"));
	EQ(CTL("mask", "release", "large"), DONE);
}

/* ---- files --------------------------------------------------------------- */

static char file[96];

static bool put(const char *name, const void *bytes, size_t n)
{
	FILE *f;

	snprintf(file, sizeof(file), "%s/%s", agent.dir, name);
	f = fopen(file, "we");
	return OK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

#define NPY(order)                                                    \
	"\x93NUMPY\1\0\x42\0{'descr': '|u1', 'fortran_order': " order \
	", 'shape': (1, 2, 3), }   \n\0\1\1\0\0\1"
#define TENSORS                                                         \
	"\x71\0\0\0\0\0\0\0{\"x\":{\"dtype\":\"U8\",\"shape\":[2],"     \
	"\"data_offsets\":[0,2]},\"mask\":{\"dtype\":\"F16\",\"shape\"" \
	":[1,2],\"data_offsets\":[2,6]}}  ab\0\xfc\0\0"

static void masks_are_published_from_files(void)
{
	json_t *json;

	if (!put("m.npy", NPY("False"), sizeof(NPY("False")) - 1))
		return;
	EQ(PUBLISH("npy", "--file", file, "--json"), DONE);
	json = object();
	STR(text(json, "form"), "loaded");
	STR(text(json, "dtype"), "U8");
	OK(is_null(json, "tgt_len"));
	list(json, "shape", 3);
	json_decref(json);
	EQ(SHOW("npy"), DONE);
	OK(prints(", loaded, 1 x 2 x 3 of U8, 6 B") && prints("\n.##\n..#\n"));
	EQ(PUBLISH("npy", "--file", file, "--tensor", "mask"), FAILED);
	OK(complains("m.npy is a .npy file: its array has no name; name no "
		     "tensor"));
	EQ(CTL("mask", "release", "npy"), DONE);
	if (!put("m.safetensors", TENSORS, sizeof(TENSORS) - 1))
		return;
	EQ(PUBLISH("st", "--file", file, "--tensor", "mask"), DONE);
	EQ(SHOW("st"), DONE);
	OK(prints(", loaded, 1 x 2 of F16, 4 B") && prints("\n#.\n"));
	EQ(PUBLISH("st", "--file", file), FAILED);
	OK(complains("m.safetensors has 2 tensors: x, mask; say which tensor "
		     "is the mask"));
	EQ(PUBLISH("st", "--file", file, "--tensor", "x"), FAILED);
	OK(complains("tensor x has rank 1: a mask has rank 2"));
	EQ(CTL("mask", "release", "st"), DONE);
}

static void bad_files_are_refused(void)
{
	EQ(PUBLISH("f", "--file", "/nowhere/x.npy"), FAILED);
	OK(complains("/nowhere/x.npy: No such file or directory"));
	if (put("fortran.npy", NPY("True "), sizeof(NPY("True ")) - 1))
		EQ(PUBLISH("f", "--file", file), FAILED);
	OK(complains("fortran.npy is in Fortran order: a mask lies row by "
		     "row"));
	if (put("short.npy", NPY("False"), sizeof(NPY("False")) - 2))
		EQ(PUBLISH("f", "--file", file), FAILED);
	OK(complains("short.npy is truncated: its data has 6 bytes, the file "
		     "holds 5 of them"));
	if (put("text.npy", "0 1\n", 4))
		EQ(PUBLISH("f", "--file", file), FAILED);
	OK(complains("text.npy is neither a .npy nor a safetensors file"));
}

/* ---- command lines ------------------------------------------------------- */

static void wrong_command_lines_are_refused(void)
{
	EQ(PUBLISH("w"), USAGE);
	OK(complains("mask publish needs --kind, or --file"));
	EQ(PUBLISH("w", "--kind", "causal", "--size", "2", "--file", "x"),
	   USAGE);
	EQ(PUBLISH("w", "--kind", "causal", "--size", "2", "--tensor", "x"),
	   USAGE);
	EQ(PUBLISH("w", "--kind", "causal", "--size", "2", "--map", "model",
		   "--rows", "0"),
	   USAGE);
	EQ(PUBLISH("w", "--kind", "round", "--size", "2"), USAGE);
	OK(complains("--kind is none, causal_flash, causal, sliding, chunked "
		     "or bidirectional_sliding, not \"round\""));
	EQ(PUBLISH("w", "--kind", "causal"), USAGE);
	OK(complains("a mask of kind causal needs --size"));
	EQ(PUBLISH("w", "--kind", "sliding", "--size", "2"), USAGE);
	OK(complains("a mask of kind sliding needs --window"));
	EQ(PUBLISH("w", "--kind", "causal", "--size", "2", "--chunk", "2"),
	   USAGE);
	OK(complains("a mask of kind causal does not take --chunk"));
	EQ(PUBLISH("w", "--kind", "bidirectional_sliding", "--size", "2",
		   "--window", "1", "--past", "1"),
	   USAGE);
	EQ(PUBLISH("w", "--kind", "none", "--size", "2"), USAGE);
	EQ(PUBLISH("w", "--file", "x", "--dtype", "u8"), USAGE);
	OK(complains("a mask from a file does not take --dtype"));
	EQ(PUBLISH("w", "--kind", "causal", "--size", "2", "--dtype", "f64"),
	   USAGE);
	OK(complains("mask dtype \"f64\" is not u8, bool, f16, bf16 or f32"));
	EQ(PUBLISH("w", "--kind", "causal", "--size", "2x"), USAGE);
	EQ(CTL("mask"), USAGE);
	EQ(CTL("mask", "paint"), USAGE);
	EQ(CTL("mask", "list", "w"), USAGE);
	EQ(CTL("mask", "show"), USAGE);
	EQ(CTL("mask", "list", "--size", "2"), USAGE);
}

static void the_agents_words_are_told(void)
{
	EQ(PUBLISH("w", "--kind", "chunked", "--size", "2", "--chunk", "0"),
	   FAILED);
	OK(complains("chunk_size is 0"));
	EQ(PUBLISH("w", "--kind", "causal", "--size", "2", "--map", "other"),
	   FAILED);
	OK(complains("no layer map is called other"));
	EQ(PUBLISH("w", "--kind", "causal", "--size", "2", "--rows", "7"),
	   FAILED);
	OK(complains("there is no row 7"));
	EQ(PUBLISH("two words", "--kind", "none"), FAILED);
	EQ(SHOW("w"), FAILED);
}

TAP_CASE()
{
	if (ctl_start(CONFIG)) {
		masks_are_published_by_a_rule();
		masks_are_listed();
		windows_are_counted_out();
		masks_are_drawn();
		large_masks_are_drawn_small();
		every_kind_can_be_had();
		masks_are_published_from_files();
		bad_files_are_refused();
		wrong_command_lines_are_refused();
		the_agents_words_are_told();
		EQ(agent_kill(&agent, SIGTERM), 0);
	}
	if (tap_failures)
		agent_show_log(&agent);
	agent_remove(&agent);
	return tap_done();
}
