/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * ctl - gpumapctl: the library's functions as commands.
 *
 * All output comes through libgpumap; gpumapctl never reads the agent's own
 * memory.  With --json each command prints one JSON object on one line, whose
 * fields are documented in gpumapctl(1); fields are only added.
 */
#ifndef GM_CTL_H
#define GM_CTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "gpumap.h"
#include "lib/model/plan/error.h"
#include "lib/model/plan/size_text.h"

/* Exit statuses, documented in gpumapctl(1). */
enum gm_ctl_exit {
	GM_EXIT_OK = 0,
	GM_EXIT_FAILED = 1,   /* refused, or failed */
	GM_EXIT_USAGE = 2,    /* the command line is wrong */
	GM_EXIT_NO_AGENT = 3, /* no map is published, or no agent answers */
	GM_EXIT_UNWELL = 4,   /* status, wait: the map is not READY, or stale */
	GM_EXIT_STALE = 5     /* cluster: other nodes may have changed */
};

enum gm_ctl_id {
#define OPTION(id, name, value) GM_ID_##id,
#include "agent/ctl/options.h"
	GM_OPTIONS
};

/* A set of options. */
typedef unsigned __int128 gm_ctl_set;

_Static_assert(GM_OPTIONS <= 8 * sizeof(gm_ctl_set), "each has a bit");

#define GM_OPT(id) ((gm_ctl_set)1 << GM_ID_##id)
/* Those before --model: every command takes them. */
#define GM_OPTS_COMMON (GM_OPT(MODEL) - 1)
/* How much a plan has for a KV cache in blocks: one of these. */
#define GM_OPTS_PAGED \
	(GM_OPT(PAGED_MIB) | GM_OPT(PAGED_SHARE) | GM_OPT(PAGED_TOKENS))
#define GM_OPTS_MAX (GM_OPT(MAX_SEQ_LEN) | GM_OPT(MAX_BATCH))
/* How a plan places a model, which run takes as well. */
#define GM_OPTS_PLACING                                                \
	(GM_OPT(SPEC) | GM_OPT(ISQ) | GM_OPT(BASE) | GM_OPTS_PAGED |   \
	 GM_OPT(PAGED_BLOCK) | GM_OPT(CACHE_TYPE) | GM_OPT(STRATEGY) | \
	 GM_OPT(SETTING) | GM_OPT(TOPOLOGY) | GM_OPT(SPLIT) |          \
	 GM_OPT(WEIGHTS) | GM_OPT(DTYPE) | GM_OPT(KV_ELEMENTS) |       \
	 GM_OPT(ENGINE) | GM_OPT(LIKE) | GM_OPTS_MAX)
/* Those of plan --nodes only; and all that it takes. */
#define GM_OPTS_OF_NODES                                                      \
	(GM_OPT(LAYERS) | GM_OPT(BYTES) | GM_OPT(ONLY) | GM_OPT(FOR) |        \
	 GM_OPT(FINGERPRINT) | GM_OPT(NAME) | GM_OPT(SHARE) | GM_OPT(NODES) | \
	 GM_OPT(DEVICES) | GM_OPT(TP) | GM_OPT(PP) | GM_OPT(PORT))
#define GM_OPTS_NODES                                                        \
	(GM_OPTS_COMMON | GM_OPTS_OF_NODES | GM_OPT(MODEL) | GM_OPT(DTYPE) | \
	 GM_OPT(ISQ) | GM_OPT(KV_ELEMENTS) | GM_OPTS_MAX)

#define GM_CTL_GROUPS 64u /* --group, as many as a mesh may have */

/* The parsed command line. */
struct gm_ctl {
	const char *instance;
	const char *runtime_dir;
	bool json;
	bool progress; /* --progress: without a terminal as well */
	gm_ctl_set given;
	/* Each option's, by its form; NULL or 0 for one that is not given. */
	union {
		const char *text;
		uint64_t number;
	} value[GM_OPTIONS];
	uint32_t rows[GPUMAP_ROWS_MAX];
	uint32_t n_rows;
	const char *groups[GM_CTL_GROUPS];
	uint32_t n_groups;
	char **args; /* operands after the command */
	int n_args;
	struct gpumap *map; /* attached, or NULL for an offline command */
};

#define GM_GIVEN(ctl, id)  (((ctl)->given & GM_OPT(id)) != 0)
#define GM_TEXT(ctl, id)   ((ctl)->value[GM_ID_##id].text)
#define GM_NUMBER(ctl, id) ((ctl)->value[GM_ID_##id].number)

/* Operands of a command that are another program and its arguments: one or
 * more, with whose first the options end. */
#define GM_ARGS_COMMAND (-1)

/* The words of a command are the options and operands of another program,
 * gpumapctl-NAME. */
#define GM_ARGS_TOOL (-2)

/* The commands: one file per family; run has a folder of its own. */
#define COMMAND(name, operands, what, n_args, run, offline) \
	void run(struct gm_ctl *ctl);
#define TOOL(name, operands, what)
#include "agent/ctl/commands.h"

/* Become the user of --run-as, with its groups, before anything is opened. */
void gm_ctl_become(const char *name);

/* Attach to the instance. */
void gm_ctl_attach(struct gm_ctl *ctl);

/* Are the rows of --rows the agent's? */
void gm_ctl_check_rows(const struct gm_ctl *ctl);

/* Where that attaches. */
struct gpumap_attach_opts gm_ctl_where(const struct gm_ctl *ctl);

/* Read the device of the row *cursor, or of the next that can be read.  Returns
 * false behind the last. */
bool gm_ctl_next_device(const struct gpumap *map, uint32_t *cursor,
			struct gpumap_device *ret_device);

/* Are the bits of @rows set for @row? */
static inline bool gm_ctl_has_row(const uint64_t rows[GPUMAP_ROWS_MAX / 64],
				  uint32_t row)
{
	return (rows[row / 64] >> row % 64 & 1) != 0;
}

/* @n numbers as a list. */
json_t *gm_ctl_list_json(const uint32_t *numbers, uint32_t n);

/* Print as a word of a shell: in quotes where it needs them. */
void gm_ctl_print_word(const char *text);

/* @text as JSON, and NULL as null: a byte that is no UTF-8, as a path may have,
 * becomes U+FFFD. */
json_t *gm_ctl_text_json(const char *text);

/* Print text for people: '?' stands for each byte that a terminal would
 * obey. */
void gm_ctl_print_plain(const char *text);

/* Print one JSON object on one line and free it. */
void gm_ctl_print(json_t *object);

/* Put a file that can only be used the wrong way in the place of each standard
 * stream that is closed, until exec.  Else the next descriptor would have its
 * number: a connection to the agent, to which messages would go. */
void gm_ctl_guard_streams(void);

/* ---- errors -------------------------------------------------------------- */

/* All but the last two print "gpumapctl: ..." to stderr, and do not return. */

/* End the process when what is printed is written, or with an error if that
 * fails. */
_Noreturn void gm_ctl_exit(int status);

/* End it after a message; with GM_EXIT_USAGE where the command line is
 * wrong. */
_Noreturn void gm_ctl_end(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
#define gm_ctl_failed(...) gm_ctl_end(GM_EXIT_FAILED, __VA_ARGS__)
#define gm_ctl_wrong(...)  gm_ctl_end(GM_EXIT_USAGE, __VA_ARGS__)

/* Say that this failed, with the library's or the agent's reason, and end with
 * the matching exit status. */
_Noreturn void gm_ctl_fail(const struct gm_ctl *ctl, int error,
			   const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Say why gpumap_attach() returned @error. */
_Noreturn void gm_ctl_not_attached(int error);

/* Say that there is no such row; or no @what of the name @name, and which
 * command lists the existing ones. */
_Noreturn void gm_ctl_no_row(uint32_t row);
_Noreturn void gm_ctl_unknown(const char *what, const char *name,
			      const char *list);

/* Say what was wrong with a file or a plan. */
_Noreturn void gm_ctl_plan_error(const struct gm_plan_error *error);

/* Print that, and return. */
void gm_ctl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The reason of the library or the agent for @error. */
const char *gm_ctl_reason(const struct gm_ctl *ctl, int error);

/* Memory for @n of @bytes each, of which all bytes are 0. */
void *gm_ctl_alloc(size_t n, size_t bytes);

/* Print that the first operand is @done, "released". */
void gm_ctl_done(const struct gm_ctl *ctl, const char *done);

/* Print that the first operand, the name of a @what, is released; or why not,
 * where the release returned @error. */
void gm_ctl_released(const struct gm_ctl *ctl, int error, const char *what,
		     const char *list);

/* Words of which an option or an operand takes one: @n entries of @bytes each,
 * which start with their names. */
struct gm_ctl_choice {
	const char *option; /* "--op" */
	const void *entries;
	size_t bytes;
	size_t n;
};

#define GM_CHOICE(option, array)                           \
	{                                                  \
		option, array, sizeof((array)[0]),         \
			sizeof(array) / sizeof((array)[0]) \
	}

extern const struct gm_ctl_choice gm_ctl_scatter_ops, gm_ctl_collective_ops,
	gm_ctl_mask_rules, gm_ctl_engines;

/* The name of the @i-th; NULL past the last. */
const char *gm_ctl_choice_at(const struct gm_ctl_choice *choice, size_t i);

/* The index of @word; or print the names and end with GM_EXIT_USAGE. */
uint32_t gm_ctl_choose_word(const struct gm_ctl_choice *choice,
			    const char *word);

/* The engine, of enum gpumap_engine, that --for names. */
uint32_t gm_ctl_engine(const struct gm_ctl *ctl);

/* The bytes of a row's range of the arena that an allocation may need, wherever
 * the range begins: large ones start at a multiple of 2 MiB. */
static inline uint64_t gm_ctl_room(uint64_t bytes)
{
	return bytes + (UINT64_C(2) << 20);
}

/* The bytes that a layer map takes of a row. */
static inline uint64_t gm_ctl_charged(const struct gpumap_charge *charge)
{
	return charge->weight_bytes + charge->kv_bytes +
	       charge->activation_bytes + charge->reserve_bytes;
}

/* May it come into service, or is it there? */
static inline bool gm_ctl_is_usable(const struct gpumap_device *device)
{
	return device->state != GPUMAP_DEVICE_FAILED &&
	       device->state != GPUMAP_DEVICE_LOST;
}

/* The bytes of a row that a plan may take: those that are free, and that
 * holders of reservations do not need yet. */
static inline uint64_t gm_ctl_avail(uint64_t free, uint64_t reserved,
				    uint64_t used_by_holders)
{
	uint64_t kept =
		reserved > used_by_holders ? reserved - used_by_holders : 0;

	return free > kept ? free - kept : 0;
}

/* Why the memory that processes have of a row is not known; NULL: it is, or no
 * driver reports on the row. */
const char *gm_ctl_no_figures(uint32_t figures);

#define GM_CTL_NAME 33 /* bytes of a user's or a command's name */

/* The name of a user, or the uid where it has none. */
const char *gm_ctl_user(uint32_t uid, char ret_text[GM_CTL_NAME]);

/* The name of the command that process @pid of user @uid runs, or "-": the
 * process is gone, is 0, or this process does not see those of the agent. */
const char *gm_ctl_command(const struct gm_ctl *ctl, uint32_t pid, uint32_t uid,
			   char ret_text[GM_CTL_NAME]);

#define GM_CTL_LINE 256 /* bytes of a command line; a longer one is cut */

/* The same with its arguments. */
const char *gm_ctl_command_line(const struct gm_ctl *ctl, uint32_t pid,
				uint32_t uid, char ret_text[GM_CTL_LINE]);

/* The end of a noun in the plural, for @n of them. */
static inline const char *gm_ctl_s(uint64_t n)
{
	return n == 1 ? "" : "s";
}
const char *gm_ctl_dtype(uint32_t dtype);
const char *gm_ctl_setting(uint32_t setting);

/* The number of a setting; 0: there is none of this name. */
uint32_t gm_ctl_setting_named(const char *name);

/* ---- the line of requests that wait -------------------------------------- */

#define GM_CTL_WAIT_REASON 256 /* bytes; a longer one is cut */
#define GM_CTL_WAIT_ROWS   64  /* bytes; a longer list is cut */

/* For whom it waits: the one that has most of its rows, or is in its start
 * window there, and how many wait before.  "": for none. */
const char *gm_ctl_line_reason(const struct gm_ctl *ctl,
			       const struct gpumap_wait_info *wait,
			       char ret_text[GM_CTL_WAIT_REASON]);

/* Its rows, "0,2-5". */
const char *gm_ctl_line_rows(const struct gpumap_wait_info *wait,
			     char ret_text[GM_CTL_WAIT_ROWS]);

/* ---- lists of words: a command line, or variables as "NAME=VALUE" -------- */

/* Words, with a NULL behind the last. */
struct gm_words {
	char **v;
	uint32_t n;
};

/* Append a word.  Ends the process where there is no memory for it. */
void gm_ctl_words_add(struct gm_words *words, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void gm_ctl_words_free(struct gm_words *words);

/* @n of them as a list; and as an object, those that are variables. */
json_t *gm_ctl_words_json(const char *const *words, uint32_t n);
json_t *gm_ctl_words_env_json(const char *const *words, uint32_t n);

/* Print a variable so that a shell can read it. */
void gm_ctl_words_print_env(const char *word);

#endif
