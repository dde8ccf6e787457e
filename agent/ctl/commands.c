/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* The tables of commands and options, and how their usage is read. */

#include "agent/ctl/commands.h"

#include <stdio.h>
#include <string.h>

#include "agent/ctl/run/run.h"

/* Options that every command takes. */
const char gm_ctl_common_usage[] =
	"[--instance NAME] [--runtime-dir DIR] [--json] [--progress] [--help] "
	"[--version]";

/* In the usage of run: these are how plan places a model. */
#define OPTIONS_OF_PLAN "OPTIONS OF plan"

/* A model on nodes of a cluster, and how it is placed there. */
#define NODES_MODEL "--model DIR | --layers N --bytes SIZE "
#define NODES_PLACING                                                      \
	"[--share MODEL] [--fingerprint HEX] [--only NODES] "              \
	"[--devices-per-node N] [--tp N] [--pp N] [--dtype DTYPE] "        \
	"[--isq TYPE] [--max-seq-len N] [--max-batch N] "                  \
	"[--kv-elements N] "                                               \
	"[--for torchrun|mpirun|vllm|sglang|llama.cpp|env] [--name NAME] " \
	"[--port PORT]"

static const struct gm_command commands[] = {
	{ "status", "", "is the agent alive, and what has it published", 0,
	  gm_ctl_status, false },
	{ "wait", "[--timeout S]", "wait until the agent serves", 0,
	  gm_ctl_wait, true },
	{ "doctor", "[--quiet] [--bundle FILE] [--root DIR]",
	  "what is wrong with this node, and what helps", GM_ARGS_TOOL, NULL,
	  true },
	{ "devices", "[--node FILE]", "the device table, or a node file's", 0,
	  gm_ctl_devices, true },
	{ "topo",
	  "[--format text|svg|dot|json|html] [--node FILE | --root DIR]",
	  "the node as a picture: where the layers of each model are",
	  GM_ARGS_TOOL, NULL, true },
	{ "top", "[--once] [--interval S]",
	  "the node on a screen, as it changes", GM_ARGS_TOOL, NULL, true },
	{ "choose",
	  "[--prefer DEVICE] [--compute-capability V] [--cuda-version V] "
	  "[--memory SIZE] [--free SIZE] [--rows LIST] "
	  "[--by best|free-memory|free-compute]",
	  "the devices that meet these needs, best first", 0, gm_ctl_choose,
	  true },
	{ "policy", "[--rows LIST] [--reset]",
	  "from which size of work each device is worth it", 0, gm_ctl_policy,
	  false },
	{ "calibrate", "[--rows LIST] [--rounds N]",
	  "measure from which size of work each device is worth it",
	  GM_ARGS_TOOL, NULL, true },
	{ "drain", "ROW [--dry-run]",
	  "end a row's worker and all memory there, and close its device", 1,
	  gm_ctl_drain, false },
	{ "undrain", "ROW", "take a drained row into service again", 1,
	  gm_ctl_undrain, false },
	{ "cordon", "ROW", "keep new sessions and plans away from a row", 1,
	  gm_ctl_cordon, false },
	{ "uncordon", "ROW", "end that", 1, gm_ctl_uncordon, false },
	{ "maps", "", "all layer maps", 0, gm_ctl_maps, false },
	{ "layers", "NAME", "which row holds each layer of a map", 1,
	  gm_ctl_layers, false },
	{ "publish", "NAME --spec SPEC [--model DIR | --layers N]",
	  "publish a layer map", 1, gm_ctl_publish, false },
	{ "release", "NAME", "take a layer map back", 1, gm_ctl_release,
	  false },
	{ "load",
	  "NAME --model DIR | --as-file FILE [--link DIR] [--map MAP] "
	  "[--rows LIST] [--fingerprint HEX] [--writable] [--any-user | "
	  "--users LIST] "
	  "[--any-files] [--run-as USER] [--once | --detach]",
	  "load a model onto the rows of a layer map, and hold it there", 1,
	  gm_ctl_load, false },
	{ "who", "", "who has reserved what", 0, gm_ctl_who, false },
	{ "run",
	  "[--reserve BYTES | --map NAME | --model DIR [OPTIONS OF plan]] "
	  "[--rows LIST] [--any] [--wait S] [--gate] [--ready-file FILE] "
	  "[--ready-tcp PORT] "
	  "[--start-limit S] [--for ENGINE] [--name NAME] [--no-bind] "
	  "[--cache-dir DIR] [--no-agent run|fail] [--print-env] [--] "
	  "COMMAND...",
	  "reserve memory, wait for it, and become COMMAND", GM_ARGS_COMMAND,
	  gm_ctl_run, true },
	{ "sessions", "", "who has a session", 0, gm_ctl_sessions, false },
	{ "shares", "", "buffers that have a name, and who may open them", 0,
	  gm_ctl_shares, false },
	{ "shares release", "NAME", "take a name of buffers back", 1,
	  gm_ctl_shares_release, false },
	{ "scatter", "[--bytes N] [--op OP] [--rows LIST] [--rounds N]",
	  "scatter a job over the rows, and check every byte of the result", 0,
	  gm_ctl_scatter, false },
	{ "collective",
	  "MESH GROUP [--op OP] [--bytes N] [--rounds N] [--nccl]",
	  "a collective over a group, and check every element of each rank", 2,
	  gm_ctl_collective, false },
	{ "trace", "FILE [--rows LIST] [--timeout S]",
	  "record jobs for some seconds, as a file for Perfetto", GM_ARGS_TOOL,
	  NULL, true },
	{ "cluster nodes", "", "the nodes that gpumap-sync knows of",
	  GM_ARGS_TOOL, NULL, true },
	{ "cluster devices",
	  "[--node NODE] [--free SIZE] [--sort node|free|total|name]",
	  "the devices of all nodes", GM_ARGS_TOOL, NULL, true },
	{ "cluster models", "MODEL", "which nodes have this model loaded",
	  GM_ARGS_TOOL, NULL, true },
	{ "cluster topo", "", "the nodes with their devices and models",
	  GM_ARGS_TOOL, NULL, true },
	{ "cluster plan", NODES_MODEL "[--nodes N|any] " NODES_PLACING,
	  "on which nodes and devices a model would be", GM_ARGS_TOOL, NULL,
	  true },
	{ "cluster run",
	  NODES_MODEL "[--nodes N|any] " NODES_PLACING
		      " [--wait S] [--stop-when-lost] [--no-bind] "
		      "[--cache-dir DIR] [--sync SOCKET] [--] COMMAND...",
	  "reserve that on all nodes or none, and become COMMAND", GM_ARGS_TOOL,
	  NULL, true },
	{ "cluster leave", "",
	  "forget the cluster, after its gpumap-sync was stopped", GM_ARGS_TOOL,
	  NULL, true },
	{ "completion", "bash|zsh|fish",
	  "print a shell's script for the completion of gpumapctl", 1,
	  gm_ctl_completion, true },
	{ "complete", "[--] GPUMAPCTL WORD...",
	  "how the last WORD can go on, for these scripts", GM_ARGS_COMMAND,
	  gm_ctl_complete, true },
	{ "plan",
	  "--model DIR [--node FILE | --commit NAME] [--rows LIST] "
	  "[--strategy fill|balance|fewest | --spec SPEC | --topology FILE | "
	  "--split COUNTS | --weights WEIGHTS] [--setting SETTING] "
	  "[--base-row ROW] [--dtype DTYPE] [--isq TYPE] "
	  "[--max-seq-len N] [--max-batch N] "
	  "[--paged-mib N | --paged-share X | --paged-tokens N] "
	  "[--paged-block N] [--cache-type auto|f8e4m3] [--kv-elements N] "
	  "[--like mistral.rs]",
	  "where a model's layers would go, and what that takes of each row", 0,
	  gm_ctl_plan, true },
	{ "export",
	  "NAME --for ENGINE [--format json|argv|env|yaml] [--model DIR] "
	  "[--topology FILE]",
	  "say a layer map in the settings of another engine", 1, gm_ctl_export,
	  true },
	{ "mask publish",
	  "NAME --kind KIND [--size N] [--past N] [--window N] [--chunk N] "
	  "[--dtype DTYPE] [--map MAP | --rows LIST]",
	  "publish an attention mask made by a rule", 1, gm_ctl_mask_publish,
	  false },
	{ "mask list", "", "all masks", 0, gm_ctl_mask_list, false },
	{ "mask show", "NAME [--rows ROW] [--pgm FILE]",
	  "what a mask is, and a picture of it", 1, gm_ctl_mask_show, false },
	{ "mask release", "NAME", "take a mask back", 1, gm_ctl_mask_release,
	  false },
	{ "mesh publish",
	  "NAME --topology data|tensor=N|pipeline=N|mixed=TPxPPxDP "
	  "[--rows LIST] [--group NAME=RANKS]...",
	  "arrange rows as ranks, and publish that", 1, gm_ctl_mesh_publish,
	  false },
	{ "mesh list", "", "all meshes", 0, gm_ctl_mesh_list, false },
	{ "mesh show", "NAME", "where each rank is, and all groups", 1,
	  gm_ctl_mesh_show, false },
	{ "mesh release", "NAME", "take a mesh back", 1, gm_ctl_mesh_release,
	  false },
	/* For the usage, and for takes(): find() takes the first command of
	 * a name. */
	{ "export",
	  "--node FILE --spec SPEC --for ENGINE [--format json|argv|env|yaml] "
	  "[--layers N] [--base-row ROW] [--model DIR] [--topology FILE]",
	  "say a spec for the rows of a node file so", 0, gm_ctl_export, true },
	{ "plan", "--nodes N|any " NODES_MODEL NODES_PLACING,
	  "where it would be on several nodes of the cluster", 0, gm_ctl_plan,
	  true },
	{ "cluster models", "", "which node has which model loaded",
	  GM_ARGS_TOOL, NULL, true },
	{ "mask publish",
	  "NAME --file FILE [--tensor NAME] [--map MAP | --rows LIST]",
	  "publish an attention mask that a file holds", 1, gm_ctl_mask_publish,
	  false },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct gm_ctl_option options[] = {
#define OPTION(id, name, value) { name, GM_VALUE_##value },
#include "agent/ctl/options.h"
};

const struct gm_command *gm_ctl_command_at(size_t i)
{
	return i < N_COMMANDS ? &commands[i] : NULL;
}

const struct gm_ctl_option *gm_ctl_option_at(size_t i)
{
	return i < GM_OPTIONS ? &options[i] : NULL;
}

gm_ctl_set gm_ctl_option_of(const struct gm_ctl_option *option)
{
	return option != NULL ? (gm_ctl_set)1 << (option - options) : 0;
}

const struct gm_ctl_option *gm_ctl_option_named(const char *name, size_t n)
{
	const struct gm_ctl_option *found = NULL;
	size_t n_found = 0;

	for (size_t i = 0; i < GM_OPTIONS; i++) {
		if (strncmp(options[i].name, name, n) != 0)
			continue;
		found = &options[i];
		if (found->name[n] == '\0')
			return found;
		n_found++;
	}
	return n_found == 1 ? found : NULL;
}

/* ---- usage --------------------------------------------------------------- */

static const char *take_term(const char *at, struct gm_ctl_term *ret_term)
{
	size_t n = strlen(OPTIONS_OF_PLAN);

	if (strncmp(at, OPTIONS_OF_PLAN, n) != 0)
		n = strcspn(at, " []");
	*ret_term = (struct gm_ctl_term){ .name = at, .n_name = n };
	at += n;
	if (strncmp(ret_term->name, "--", 2) != 0)
		return at;
	ret_term->option = gm_ctl_option_named(ret_term->name + 2, n - 2);
	if (at[0] != ' ' || strchr("[|-", at[1]) != NULL)
		return at;
	ret_term->value = at + 1;
	ret_term->n_value = strcspn(at + 1, " []");
	return at + 1 + ret_term->n_value;
}

bool gm_ctl_term_next(const char **text, struct gm_ctl_term *ret_term)
{
	const char *at = *text;

	/* Neither "--", nor the bar between two, nor the dots behind one. */
	do {
		at += strspn(at, " []");
		at = take_term(at, ret_term);
	} while (ret_term->n_name > 0 &&
		 strspn(ret_term->name, "-|.") >= ret_term->n_name);
	*text = at;
	return ret_term->n_name > 0;
}

static bool next_form(struct gm_ctl_terms *terms)
{
	for (; terms->form < N_COMMANDS; terms->form++) {
		if (strcmp(commands[terms->form].name, terms->name) == 0) {
			terms->text = commands[terms->form++].operands;
			return true;
		}
	}
	return false;
}

bool gm_ctl_terms_next(struct gm_ctl_terms *terms, struct gm_ctl_term *ret_term)
{
	for (;;) {
		if (!gm_ctl_term_next(&terms->text, ret_term)) {
			if (next_form(terms))
				continue;
			if (!terms->plan)
				return false;
			*terms = (struct gm_ctl_terms){ .name = "plan",
							.text = "",
							.of_plan = true };
		} else if (strncmp(ret_term->name, OPTIONS_OF_PLAN,
				   ret_term->n_name) == 0) {
			terms->plan = true;
		} else if (!terms->of_plan ||
			   (gm_ctl_option_of(ret_term->option) &
			    GM_OPTS_PLACING) != 0) {
			return true;
		}
	}
}

struct gm_ctl_terms gm_ctl_terms_of(const struct gm_command *command)
{
	return (struct gm_ctl_terms){ .name = command->name, .text = "" };
}

bool gm_ctl_takes_options(const struct gm_command *command,
			  const struct gm_ctl *ctl)
{
	struct gm_ctl_terms terms = gm_ctl_terms_of(command);
	gm_ctl_set takes = GM_OPTS_COMMON;
	struct gm_ctl_term term;

	while (gm_ctl_terms_next(&terms, &term))
		takes |= gm_ctl_option_of(term.option);
	return (ctl->given & ~takes) == 0;
}

/* Is @word the name of a command, or the first word of it? */
static bool begins(const char *name, const char *word)
{
	size_t n = strlen(word);

	return strncmp(name, word, n) == 0 &&
	       (name[n] == '\0' || name[n] == ' ');
}

void gm_ctl_usage(FILE *to, const char *word)
{
	bool known = false;

	for (size_t i = 0; i < N_COMMANDS && word != NULL; i++)
		known = known || begins(commands[i].name, word);
	fprintf(to, "usage: gpumapctl %s COMMAND ...\n\n", gm_ctl_common_usage);
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!known || begins(commands[i].name, word))
			fprintf(to, "  %s%s%s\n        %s\n", commands[i].name,
				commands[i].operands[0] != '\0' ? " " : "",
				commands[i].operands, commands[i].what);
	fprintf(to, "\nSizes take K, M and G.  See gpumapctl(1).\n");
}

/* ---- the command of a line ----------------------------------------------- */

bool gm_ctl_is_tool(const char *word)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (commands[i].n_args == GM_ARGS_TOOL &&
		    begins(commands[i].name, word))
			return true;
	return false;
}

bool gm_ctl_ends_options(const char *word)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (commands[i].n_args == GM_ARGS_COMMAND &&
		    strcmp(commands[i].name, word) == 0)
			return true;
	return false;
}

const struct gm_command *gm_ctl_find_command(struct gm_ctl *ctl,
					     const char *word)
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
