/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Parse the command line: one table of commands, one of options. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/ctl/load_user.h"
#include "agent/ctl/parse.h"

static const struct gm_command commands[] = {
	{ "status", "", "is the agent alive, and what has it published", 0, 0,
	  gm_ctl_status, false },
	{ "wait", "[--timeout S]", "wait until the agent serves",
	  GM_OPT_TIMEOUT, 0, gm_ctl_wait, true },
	{ "devices", "", "the device table", 0, 0, gm_ctl_devices, false },
	{ "choose",
	  "[--prefer DEVICE] [--compute-capability V] [--cuda-version V] "
	  "[--memory SIZE] [--free SIZE] [--rows LIST] "
	  "[--by best|free-memory|free-compute]",
	  "the devices that meet these needs, best first",
	  GM_OPT_PREFER | GM_OPT_CAPABILITY | GM_OPT_CUDA_VERSION |
		  GM_OPT_MEMORY | GM_OPT_FREE | GM_OPT_ROWS | GM_OPT_BY |
		  GM_OPT_BATCH,
	  0, gm_ctl_choose, true },
	{ "policy", "[--rows LIST] [--calibrate [--rounds N] | --reset]",
	  "from which size of work each device is worth it",
	  GM_OPT_ROWS | GM_OPT_CALIBRATE | GM_OPT_ROUNDS | GM_OPT_RESET, 0,
	  gm_ctl_policy, false },
	{ "drain", "ROW [--dry-run]",
	  "end a row's worker and all memory there, and close its device",
	  GM_OPT_DRY_RUN, 1, gm_ctl_drain, false },
	{ "undrain", "ROW", "take a drained row into service again", 0, 1,
	  gm_ctl_undrain, false },
	{ "cordon", "ROW", "keep new sessions and plans away from a row", 0, 1,
	  gm_ctl_cordon, false },
	{ "uncordon", "ROW", "end that", 0, 1, gm_ctl_uncordon, false },
	{ "maps", "", "all layer maps", 0, 0, gm_ctl_maps, false },
	{ "layers", "NAME", "which row holds each layer of a map", 0, 1,
	  gm_ctl_layers, false },
	{ "publish", "NAME --spec SPEC [--model DIR | --layers N]",
	  "publish a layer map", GM_OPT_MODEL | GM_OPT_SPEC | GM_OPT_LAYERS, 1,
	  gm_ctl_publish, false },
	{ "release", "NAME", "take a layer map back", 0, 1, gm_ctl_release,
	  false },
	{ "load",
	  "NAME --model DIR | --as-file FILE [--link DIR] [--map MAP] "
	  "[--rows LIST] [--fingerprint HEX] [--writable] [--any-user | "
	  "--users LIST] "
	  "[--any-files] [--run-as USER] [--once | --detach]",
	  "load a model onto the rows of a layer map, and hold it there",
	  GM_OPT_MODEL | GM_OPT_ROWS | GM_OPT_ONCE | GM_OPT_WRITABLE |
		  GM_OPT_ANY_USER | GM_OPT_ANY_FILES | GM_OPT_AS_FILE |
		  GM_OPT_LINK | GM_OPT_MAP | GM_OPT_DETACH | GM_OPT_USERS |
		  GM_OPT_RUN_AS | GM_OPT_FINGERPRINT,
	  1, gm_ctl_load, false },
	{ "who", "", "who has reserved what", 0, 0, gm_ctl_who, false },
	{ "run",
	  "[--reserve BYTES | --map NAME | --model DIR [OPTIONS OF plan]] "
	  "[--rows LIST] [--any] [--wait S] [--gate] [--ready-file FILE] "
	  "[--ready-tcp PORT] "
	  "[--start-limit S] [--for ENGINE] [--name NAME] [--no-bind] "
	  "[--cache-dir DIR] [--no-agent run|fail] [--print-env] [--] "
	  "COMMAND...",
	  "reserve memory, wait for it, and become COMMAND",
	  GM_OPT_MODEL | GM_OPT_MAP | GM_OPT_ROWS | GM_OPT_FOR | GM_OPT_RUN |
		  GM_OPT_PLACING,
	  GM_ARGS_COMMAND, gm_ctl_run, true },
	{ "sessions", "", "who has a session", 0, 0, gm_ctl_sessions, false },
	{ "shares", "", "buffers that have a name, and who may open them", 0, 0,
	  gm_ctl_shares, false },
	{ "shares release", "NAME", "take a name of buffers back", 0, 1,
	  gm_ctl_shares_release, false },
	{ "scatter", "[--bytes N] [--op OP] [--rows LIST] [--rounds N]",
	  "scatter a job over the rows, and check every byte of the result",
	  GM_OPT_BYTES | GM_OPT_OP | GM_OPT_ROWS | GM_OPT_ROUNDS, 0,
	  gm_ctl_scatter, false },
	{ "collective",
	  "MESH GROUP [--op OP] [--bytes N] [--rounds N] [--nccl]",
	  "a collective over a group, and check every element of each rank",
	  GM_OPT_BYTES | GM_OPT_OP | GM_OPT_ROUNDS | GM_OPT_NCCL, 2,
	  gm_ctl_collective, false },
	{ "bench", "[--only PREFIX] [--rounds N]",
	  "measure this instance beside what the machine can do",
	  GM_OPT_ONLY | GM_OPT_ROUNDS, 0, gm_ctl_bench, false },
	{ "plan",
	  "--model DIR [--node FILE | --commit NAME] [--rows LIST] "
	  "[--strategy fill|balance|fewest | --spec SPEC | --topology FILE | "
	  "--split COUNTS | --weights WEIGHTS] [--setting SETTING] "
	  "[--base-row ROW] [--dtype DTYPE] [--isq TYPE] "
	  "[--max-seq-len N] [--max-batch N] "
	  "[--paged-mib N | --paged-share X | --paged-tokens N] "
	  "[--paged-block N] [--cache-type auto|f8e4m3]",
	  "where a model's layers would go, and what that takes of each row",
	  GM_OPT_MODEL | GM_OPT_ROWS | GM_OPT_PLACING | GM_OPT_NODE |
		  GM_OPT_COMMIT | GM_OPT_BATCH,
	  0, gm_ctl_plan, true },
	{ "export",
	  "NAME --for ENGINE [--format json|argv|env|yaml] [--model DIR] "
	  "[--topology FILE]",
	  "say a layer map in the settings of another engine",
	  GM_OPT_FOR | GM_OPT_FORMAT | GM_OPT_MODEL | GM_OPT_TOPOLOGY |
		  GM_OPT_NODE | GM_OPT_SPEC | GM_OPT_LAYERS | GM_OPT_BASE,
	  1, gm_ctl_export, true },
	{ "split", "--batch", "share units out over devices, by request",
	  GM_OPT_BATCH, 0, gm_ctl_split, true },
	{ "spec", "--batch", "read specs, by request", GM_OPT_BATCH, 0,
	  gm_ctl_spec, true },
	{ "mask publish",
	  "NAME --kind KIND [--size N] [--past N] [--window N] [--chunk N] "
	  "[--dtype DTYPE] [--map MAP | --rows LIST]",
	  "publish an attention mask made by a rule",
	  GM_OPT_MASK | GM_OPT_DTYPE | GM_OPT_ROWS, 1, gm_ctl_mask_publish,
	  false },
	{ "mask list", "", "all masks", 0, 0, gm_ctl_mask_list, false },
	{ "mask show", "NAME [--rows ROW] [--pgm FILE]",
	  "what a mask is, and a picture of it", GM_OPT_ROWS | GM_OPT_PGM, 1,
	  gm_ctl_mask_show, false },
	{ "mask release", "NAME", "take a mask back", 0, 1, gm_ctl_mask_release,
	  false },
	{ "mask", "--batch", "show masks, by request", GM_OPT_BATCH, 0,
	  gm_ctl_mask, true },
	{ "mesh publish",
	  "NAME --topology data|tensor=N|pipeline=N|mixed=TPxPPxDP "
	  "[--rows LIST] [--group NAME=RANKS]...",
	  "arrange rows as ranks, and publish that",
	  GM_OPT_TOPOLOGY | GM_OPT_ROWS | GM_OPT_GROUP, 1, gm_ctl_mesh_publish,
	  false },
	{ "mesh list", "", "all meshes", 0, 0, gm_ctl_mesh_list, false },
	{ "mesh show", "NAME", "where each rank is, and all groups", 0, 1,
	  gm_ctl_mesh_show, false },
	{ "mesh release", "NAME", "take a mesh back", 0, 1, gm_ctl_mesh_release,
	  false },
	{ "mesh", "--batch", "arrange ranks in groups, by request",
	  GM_OPT_BATCH, 0, gm_ctl_mesh, true },
	/* For the usage, and for takes(): find() takes the first command of
	 * a name. */
	{ "export",
	  "--node FILE --spec SPEC --for ENGINE [--format json|argv|env|yaml] "
	  "[--layers N] [--base-row ROW] [--model DIR] [--topology FILE]",
	  "say a spec for the rows of a node file so", GM_OPT_FOR, 0,
	  gm_ctl_export, true },
	{ "plan", "--batch", "plan layer maps, by request", GM_OPT_BATCH, 0,
	  gm_ctl_plan, true },
	{ "choose", "--batch", "choose devices and topologies, by request",
	  GM_OPT_BATCH, 0, gm_ctl_choose, true },
	{ "mask publish",
	  "NAME --file FILE [--tensor NAME] [--map MAP | --rows LIST]",
	  "publish an attention mask that a file holds",
	  GM_OPT_MASK | GM_OPT_DTYPE | GM_OPT_ROWS, 1, gm_ctl_mask_publish,
	  false },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* The form of an option's value, a COUNT from 1 up, and its place in struct
 * gm_ctl. */
enum value { NOTHING, FLAG, TEXT, NUMBER, COUNT, SIZE, ROWS, GROUP };

/* One for each bit of GM_OPT_*, in their order; those of run follow, and share
 * the bit GM_OPT_RUN. */
static const struct own_option {
	const char *name;
	enum value value;
	size_t offset;
} own_options[] = {
	{ "model", TEXT, offsetof(struct gm_ctl, model) },
	{ "spec", TEXT, offsetof(struct gm_ctl, spec) },
	{ "layers", COUNT, offsetof(struct gm_ctl, layers) },
	{ "bytes", SIZE, offsetof(struct gm_ctl, bytes) },
	{ "rows", ROWS, 0 },
	{ "op", TEXT, offsetof(struct gm_ctl, op) },
	{ "rounds", COUNT, offsetof(struct gm_ctl, rounds) },
	{ "only", TEXT, offsetof(struct gm_ctl, only) },
	{ "batch", NOTHING, 0 },
	{ "node", TEXT, offsetof(struct gm_ctl, plan.node) },
	{ "commit", TEXT, offsetof(struct gm_ctl, plan.commit) },
	{ "base-row", NUMBER, offsetof(struct gm_ctl, plan.base) },
	{ "paged-mib", COUNT, offsetof(struct gm_ctl, plan.paged_mib) },
	{ "paged-share", TEXT, offsetof(struct gm_ctl, plan.paged_share) },
	{ "paged-tokens", COUNT, offsetof(struct gm_ctl, plan.paged_tokens) },
	{ "paged-block", COUNT, offsetof(struct gm_ctl, plan.paged_block) },
	{ "cache-type", TEXT, offsetof(struct gm_ctl, plan.cache_type) },
	{ "strategy", TEXT, offsetof(struct gm_ctl, plan.strategy) },
	{ "setting", TEXT, offsetof(struct gm_ctl, plan.setting) },
	{ "topology", TEXT, offsetof(struct gm_ctl, plan.topology) },
	{ "split", TEXT, offsetof(struct gm_ctl, plan.split) },
	{ "weights", TEXT, offsetof(struct gm_ctl, plan.weights) },
	{ "dtype", TEXT, offsetof(struct gm_ctl, dtype) },
	{ "max-seq-len", COUNT, offsetof(struct gm_ctl, plan.max_seq_len) },
	{ "max-batch", COUNT, offsetof(struct gm_ctl, plan.max_batch) },
	{ "kind", TEXT, offsetof(struct gm_ctl, mask.kind) },
	{ "size", NUMBER, offsetof(struct gm_ctl, mask.size) },
	{ "past", NUMBER, offsetof(struct gm_ctl, mask.past) },
	{ "window", NUMBER, offsetof(struct gm_ctl, mask.window) },
	{ "chunk", NUMBER, offsetof(struct gm_ctl, mask.chunk) },
	{ "map", TEXT, offsetof(struct gm_ctl, mask.map) },
	{ "file", TEXT, offsetof(struct gm_ctl, mask.file) },
	{ "tensor", TEXT, offsetof(struct gm_ctl, mask.tensor) },
	{ "pgm", TEXT, offsetof(struct gm_ctl, mask.pgm) },
	{ "once", NOTHING, 0 },
	{ "group", GROUP, 0 },
	{ "writable", NOTHING, 0 },
	{ "any-user", NOTHING, 0 },
	{ "nccl", NOTHING, 0 },
	{ "timeout", NUMBER, offsetof(struct gm_ctl, timeout_s) },
	{ "isq", TEXT, offsetof(struct gm_ctl, plan.isq) },
	{ "any-files", NOTHING, 0 },
	{ "dry-run", NOTHING, 0 },
	{ "prefer", TEXT, offsetof(struct gm_ctl, choose.prefer) },
	{ "compute-capability", TEXT, offsetof(struct gm_ctl, choose.cc) },
	{ "cuda-version", TEXT, offsetof(struct gm_ctl, choose.cuda_version) },
	{ "memory", SIZE, offsetof(struct gm_ctl, choose.memory) },
	{ "free", SIZE, offsetof(struct gm_ctl, choose.free) },
	{ "by", TEXT, offsetof(struct gm_ctl, choose.by) },
	{ "for", TEXT, offsetof(struct gm_ctl, export.engine) },
	{ "format", TEXT, offsetof(struct gm_ctl, export.format) },
	{ "calibrate", NOTHING, 0 },
	{ "reset", NOTHING, 0 },
	{ "as-file", TEXT, offsetof(struct gm_ctl, load.as_file) },
	{ "link", TEXT, offsetof(struct gm_ctl, load.link) },
	{ "detach", NOTHING, 0 },
	{ "users", TEXT, offsetof(struct gm_ctl, load.users) },
	{ "run-as", TEXT, offsetof(struct gm_ctl, load.run_as) },
	{ "fingerprint", TEXT, offsetof(struct gm_ctl, load.fingerprint) },
	{ "reserve", TEXT, offsetof(struct gm_ctl, run.reserve) },
	{ "any", FLAG, offsetof(struct gm_ctl, run.any) },
	{ "wait", NUMBER, offsetof(struct gm_ctl, run.wait_s) },
	{ "gate", FLAG, offsetof(struct gm_ctl, run.gate) },
	{ "ready-file", TEXT, offsetof(struct gm_ctl, run.ready_file) },
	{ "ready-tcp", COUNT, offsetof(struct gm_ctl, run.ready_tcp) },
	{ "start-limit", COUNT, offsetof(struct gm_ctl, run.limit_s) },
	{ "name", TEXT, offsetof(struct gm_ctl, run.name) },
	{ "no-bind", FLAG, offsetof(struct gm_ctl, run.no_bind) },
	{ "cache-dir", TEXT, offsetof(struct gm_ctl, run.cache_dir) },
	{ "no-agent", TEXT, offsetof(struct gm_ctl, run.no_agent) },
	{ "print-env", FLAG, offsetof(struct gm_ctl, run.print_env) },
};

#define N_OWN (sizeof(own_options) / sizeof(own_options[0]))

_Static_assert(N_OWN >= GM_OPT_N, "each bit has an option");
_Static_assert(GM_OPT_RUN == UINT64_C(1) << GM_OPT_N, "and run has the next");

/* Values of long options that have no letter; those of own_options follow. */
enum { OPT_INSTANCE = 256, OPT_RUNTIME_DIR, OPT_JSON, OPT_VERSION, OPT_OWN };

static const struct option common_options[] = {
	{ "instance", required_argument, NULL, OPT_INSTANCE },
	{ "runtime-dir", required_argument, NULL, OPT_RUNTIME_DIR },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, OPT_VERSION },
};

#define N_COMMON (sizeof(common_options) / sizeof(common_options[0]))

static void usage(FILE *to)
{
	fprintf(to, "usage: gpumapctl [--instance NAME] [--runtime-dir DIR] "
		    "[--json] COMMAND ...\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(to, "  %s%s%s\n        %s\n", commands[i].name,
			commands[i].operands[0] != '\0' ? " " : "",
			commands[i].operands, commands[i].what);
	fprintf(to, "\nSizes take K, M and G.  See gpumapctl(1).\n");
}

/* Report that "@what" is wrong, because @why. */
static int bad(const char *what, const char *why)
{
	fprintf(stderr, "gpumapctl: \"%s\" %s; see gpumapctl --help\n", what,
		why);
	return GM_EXIT_USAGE;
}

/* Report that "@text" cannot be the value of option @name, because @why. */
static int bad_value(const char *name, const char *text, const char *why)
{
	fprintf(stderr, "gpumapctl: --%s: \"%s\" %s; see gpumapctl --help\n",
		name, text, why);
	return GM_EXIT_USAGE;
}

/* Report the error for which getopt_long() returned @c. */
static int bad_option(int c, char **argv)
{
	const char letter[] = { '-', (char)optopt, '\0' };

	if (c == ':')
		return bad(argv[optind - 1], "wants a value");
	if (optopt >= OPT_INSTANCE)
		return bad(argv[optind - 1], "takes no value");
	if (optopt != 0)
		return bad(letter, "is no option");
	return bad(argv[optind - 1],
		   "is no option, or the beginning of several");
}

/* Does an earlier command have the same name? */
static bool is_again(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(commands[k].name, commands[i].name) == 0)
			return true;
	return false;
}

/* Report that a command's form is wrong, because @why.  Prints its usage; if
 * others share its first word, theirs too. */
static int bad_form(const struct gm_command *command, const char *why)
{
	size_t n = strlen(command->name);
	unsigned shared = 0;

	fprintf(stderr, "gpumapctl: \"%s\" %s: ", command->name, why);
	for (size_t i = 0; i < N_COMMANDS; i++) {
		const char *name = commands[i].name;

		if (strncmp(name, command->name, n) == 0 && name[n] == ' ' &&
		    !is_again(i))
			fprintf(stderr, "%s%s", shared++ > 0 ? ", " : "", name);
	}
	fprintf(stderr, "%s%s%s%s; see gpumapctl --help\n",
		shared > 0 ? " or " : "", command->name,
		command->operands[0] != '\0' ? " " : "", command->operands);
	return GM_EXIT_USAGE;
}

/* Has the command, or another of its forms, so many operands? */
static bool takes(const struct gm_command *command, int n)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i].name, command->name) == 0 &&
		    (commands[i].n_args == n ||
		     (commands[i].n_args == GM_ARGS_COMMAND && n > 0)))
			return true;
	return false;
}

static int bad_operands(const struct gm_command *command, int n)
{
	char why[64];

	if (command->n_args == GM_ARGS_COMMAND)
		return bad_form(command, "needs a command to run");
	snprintf(why, sizeof(why), "takes %d operand%s, not %d",
		 command->n_args, command->n_args == 1 ? "" : "s", n);
	return bad_form(command, why);
}

/* Take an option of a single command; returns GM_EXIT_OK or GM_EXIT_USAGE. */
static int take_own(struct gm_ctl *ctl, size_t i, const char *text)
{
	const struct own_option *own = &own_options[i];
	char *at = (char *)ctl + own->offset;
	int ret = 0;

	ctl->given |= i < GM_OPT_N ? UINT64_C(1) << i : GM_OPT_RUN;
	switch (own->value) {
	case NOTHING:
		break;
	case FLAG:
		*(bool *)at = true;
		break;
	case TEXT:
		*(const char **)at = text;
		break;
	case NUMBER:
		ret = gm_parse_number(text, (uint64_t *)at);
		break;
	case COUNT:
		ret = gm_parse_number(text, (uint64_t *)at);
		if (ret == 0 && *(uint64_t *)at == 0)
			return bad_value(own->name, text, "is less than one");
		break;
	case SIZE:
		if (gm_parse_size(text, (uint64_t *)at) == 0)
			break;
		return bad_value(own->name, text,
				 "is no size: bytes, or K, M or G of them");
	case ROWS:
		if (gm_parse_rows(text, ctl->rows, &ctl->n_rows) == 0)
			break;
		return bad(text, "is no list of rows: give each once, such as "
				 "0,2 or 0-3");
	case GROUP:
		if (ctl->n_groups == GM_CTL_GROUPS)
			return bad(text, "is one group too many");
		ctl->groups[ctl->n_groups++] = text;
		break;
	}
	return ret == 0 ? GM_EXIT_OK
			: bad_value(own->name, text,
				    "is not a number that fits");
}

/* Returns @status, or an error if the output could not be written. */
static int printed(int status)
{
	bool lost = ferror(stdout) != 0;

	errno = lost ? EIO : 0;
	if (fflush(stdout) == 0 && !lost)
		return status;
	fprintf(stderr, "gpumapctl: cannot write: %s\n", strerror(errno));
	return status == GM_EXIT_OK ? GM_EXIT_FAILED : status;
}

/* List the options for getopt_long(), the last one empty. */
static void list_options(struct option ret[N_COMMON + N_OWN + 1])
{
	memcpy(ret, common_options, sizeof(common_options));
	for (size_t i = 0; i < N_OWN; i++)
		ret[N_COMMON + i] =
			(struct option){ own_options[i].name,
					 own_options[i].value <= FLAG
						 ? no_argument
						 : required_argument,
					 NULL, OPT_OWN + (int)i };
	ret[N_COMMON + N_OWN] = (struct option){ NULL, 0, NULL, 0 };
}

/* Take the options of @argv, from its second word on, as getopt_long() finds
 * them by @form.  Leaves the rest of @argv at optind. */
static int take_options(int argc, char **argv, const char *form,
			struct gm_ctl *ctl)
{
	struct option options[N_COMMON + N_OWN + 1];
	int c, ret = GM_EXIT_OK;

	list_options(options);
	opterr = 0;
	optind = 0; /* begin anew */
	while (ret == GM_EXIT_OK &&
	       (c = getopt_long(argc, argv, form, options, NULL)) != -1) {
		switch (c) {
		case OPT_INSTANCE:
			ctl->instance = optarg;
			break;
		case OPT_RUNTIME_DIR:
			ctl->runtime_dir = optarg;
			break;
		case OPT_JSON:
			ctl->json = true;
			break;
		case 'h':
			usage(stdout);
			exit(printed(GM_EXIT_OK));
		case OPT_VERSION:
			puts("gpumapctl " PACKAGE_VERSION);
			exit(printed(GM_EXIT_OK));
		case '?':
		case ':':
			ret = bad_option(c, argv);
			break;
		default:
			ret = take_own(ctl, (size_t)(c - OPT_OWN), optarg);
		}
	}
	return ret;
}

/* Is this the name of a command that another program's words follow? */
static bool ends_options(const char *word)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i].name, word) == 0)
			return commands[i].n_args == GM_ARGS_COMMAND;
	return false;
}

/* Options stand before and after the word of a command, also between its
 * operands; but those behind the COMMAND of run are COMMAND's own. */
static int parse(int argc, char **argv, struct gm_ctl *ctl,
		 const char **ret_word)
{
	int ret = take_options(argc, argv, "+:h", ctl);

	*ret_word = optind < argc ? argv[optind] : NULL;
	if (ret != GM_EXIT_OK || *ret_word == NULL)
		return ret;
	argc -= optind;
	argv += optind;
	ret = take_options(argc, argv, ends_options(*ret_word) ? "+:h" : ":h",
			   ctl);
	ctl->args = argv + optind;
	ctl->n_args = argc - optind;
	return ret;
}

/* Find the command @word.  If the next operand is the second word of a
 * command's name, find that command and remove the operand. */
static const struct gm_command *find(struct gm_ctl *ctl, const char *word)
{
	const struct gm_command *plain = NULL;
	size_t n = strlen(word);

	for (size_t i = 0; i < N_COMMANDS; i++) {
		const char *name = commands[i].name;

		if (strncmp(name, word, n) != 0)
			continue;
		if (name[n] == '\0' && plain == NULL)
			plain = &commands[i];
		if (name[n] == ' ' && ctl->n_args > 0 &&
		    strcmp(name + n + 1, ctl->args[0]) == 0) {
			ctl->args++;
			ctl->n_args--;
			return &commands[i];
		}
	}
	return plain;
}

int gm_ctl_not_attached(int error)
{
	fprintf(stderr, "gpumapctl: %s\n", gpumap_refusal(NULL));
	return error == -ENOENT   ? GM_EXIT_NO_AGENT
	       : error == -EINVAL ? GM_EXIT_USAGE
				  : GM_EXIT_FAILED;
}

int gm_ctl_attach(struct gm_ctl *ctl)
{
	struct gpumap_attach_opts opts = { .size = sizeof(opts),
					   .instance = ctl->instance,
					   .runtime_dir = ctl->runtime_dir };
	int error = gpumap_attach(&opts, &ctl->map);

	return error == 0 ? GM_EXIT_OK : gm_ctl_not_attached(error);
}

/* Warn of the map's age: if its agent is gone, the output may be outdated. */
static void tell_age(const struct gm_ctl *ctl)
{
	struct gpumap_health health = { .size = sizeof(health) };

	if (gpumap_health(ctl->map, &health) == 0 && health.stale)
		fprintf(stderr,
			"gpumapctl: the agent has not been seen for %.1f s: "
			"this is what it said last; is gpumapd running?\n",
			(double)health.age_ns / 1e9);
}

/* Are the operands names, and the rows those of the agent? */
static int validate(const struct gm_ctl *ctl, const struct gm_command *command)
{
	for (int i = 0; i < ctl->n_args; i++) {
		size_t n = strlen(ctl->args[i]);

		if (strcmp(command->operands, "ROW") != 0 &&
		    command->run != gm_ctl_drain &&
		    command->n_args != GM_ARGS_COMMAND &&
		    (n == 0 || n > GPUMAP_NAME_MAX))
			return bad(ctl->args[i],
				   "is no name, which has 1 to 63 bytes");
	}
	for (uint32_t i = 0; i < ctl->n_rows && ctl->map != NULL; i++) {
		if (ctl->rows[i] >= gpumap_device_count(ctl->map))
			return gm_ctl_no_row(ctl->rows[i]);
	}
	return GM_EXIT_OK;
}

int main(int argc, char **argv)
{
	struct gm_ctl ctl = { .instance = "node",
			      .runtime_dir = "/run/gpumap" };
	const struct gm_command *command;
	const char *word;
	int ret;

	gm_ctl_guard_streams();
	ret = parse(argc, argv, &ctl, &word);
	if (ret != GM_EXIT_OK)
		return ret;
	if (word == NULL) {
		usage(stderr);
		return GM_EXIT_USAGE;
	}
	command = find(&ctl, word);
	if (command == NULL)
		return bad(word, "is no command");
	if (!takes(command, ctl.n_args))
		return bad_operands(command, ctl.n_args);
	if ((ctl.given & ~command->options) != 0)
		return bad_form(command, "does not take one of these options");
	if (strcmp(command->operands, "--batch") == 0 && ctl.given == 0)
		return bad_form(command, "alone does nothing");
	if (ctl.load.run_as != NULL)
		ret = gm_load_user_become(ctl.load.run_as);
	if (ret == GM_EXIT_OK && !command->offline)
		ret = gm_ctl_attach(&ctl);
	if (ret == GM_EXIT_OK)
		ret = validate(&ctl, command);
	if (ret == GM_EXIT_OK)
		ret = command->run(&ctl);
	if (ret == GM_EXIT_OK && ctl.map != NULL)
		tell_age(&ctl);
	gpumap_detach(ctl.map);
	return printed(ret);
}
