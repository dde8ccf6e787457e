/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* Parts of all commands: attach, end with an error, print text and numbers in
 * JSON and in a line, and name users, processes and numbers. */

#include "agent/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/common/text.h"
#include "lib/model/checkpoint/checkpoint.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void gm_ctl_guard_streams(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null",
			 (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) |
				 O_CLOEXEC) != fd)
			_exit(GM_EXIT_FAILED);
}

void gm_ctl_print(json_t *object)
{
	int ret = -1;

	if (object != NULL)
		ret = json_dumpf(object, stdout, JSON_COMPACT);
	json_decref(object);
	if (ret != 0 || putchar('\n') == EOF)
		gm_ctl_failed("cannot print");
}

json_t *gm_ctl_text_json(const char *text)
{
	static const char other[] = "\xef\xbf\xbd";
	char *room = text != NULL ? malloc(3 * strlen(text) + 1) : NULL;
	char *to = room;
	json_t *string;

	if (room == NULL)
		return text != NULL ? NULL : json_null();
	while (*text != '\0') {
		uint32_t point, bytes = gm_text_decode(text, &point);
		uint32_t made = bytes > 0 ? bytes : sizeof(other) - 1;

		memcpy(to, bytes > 0 ? text : other, made);
		to += made;
		text += bytes > 0 ? bytes : 1;
	}
	string = json_stringn(room, (size_t)(to - room));
	free(room);
	return string;
}

void gm_ctl_print_plain(const char *text)
{
	char *plain = strdup(text);

	if (plain == NULL)
		return;
	gm_text_make_plain(plain, strlen(plain));
	fputs(plain, stdout);
	free(plain);
}

json_t *gm_ctl_list_json(const uint32_t *numbers, uint32_t n)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, json_integer(numbers[i]));
	return list;
}

void gm_ctl_print_word(const char *text)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789_-+./:,=@%";

	if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
		fputs(text, stdout);
		return;
	}
	putchar('\'');
	for (; *text != '\0'; text++)
		if (*text == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*text);
	putchar('\'');
}

/* ---- errors -------------------------------------------------------------- */

_Noreturn void gm_ctl_exit(int status)
{
	bool lost = ferror(stdout) != 0;

	errno = lost ? EIO : 0;
	if (fflush(stdout) != 0 || lost) {
		gm_ctl_say("cannot write: %s", strerror(errno));
		status = status == GM_EXIT_OK ? GM_EXIT_FAILED : status;
	}
	exit(status);
}

const char *gm_ctl_reason(const struct gm_ctl *ctl, int error)
{
	const char *refusal = gpumap_refusal(ctl->map);

	return refusal[0] != '\0' ? refusal : gpumap_strerror(error);
}

_Noreturn void gm_ctl_fail(const struct gm_ctl *ctl, int error,
			   const char *format, ...)
{
	va_list args;

	fputs("gpumapctl: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", gm_ctl_reason(ctl, error));
	gm_ctl_exit((error == -ENOENT && ctl->map == NULL) ||
				    error == -ECONNREFUSED ||
				    error == -ECONNRESET
			    ? GM_EXIT_NO_AGENT
			    : GM_EXIT_FAILED);
}

static void say(const char *format, va_list args)
	__attribute__((format(printf, 1, 0)));

static void say(const char *format, va_list args)
{
	fputs("gpumapctl: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

void gm_ctl_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
}

_Noreturn void gm_ctl_end(int status, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	gm_ctl_exit(status);
}

_Noreturn void gm_ctl_plan_error(const struct gm_plan_error *error)
{
	gm_ctl_failed("%s%s%s", error->text,
		      error->remedy[0] != '\0' ? "; " : "", error->remedy);
}

_Noreturn void gm_ctl_no_row(uint32_t row)
{
	gm_ctl_failed("there is no row %u: gpumapctl devices lists them", row);
}

_Noreturn void gm_ctl_unknown(const char *what, const char *name,
			      const char *list)
{
	gm_ctl_failed("there is no %s \"%s\"; gpumapctl %s lists those there "
		      "are",
		      what, name, list);
}

void *gm_ctl_alloc(size_t n, size_t bytes)
{
	void *memory = calloc(n > 0 ? n : 1, bytes);

	if (memory == NULL)
		gm_ctl_failed("%s", gpumap_strerror(-ENOMEM));
	return memory;
}

void gm_ctl_done(const struct gm_ctl *ctl, const char *done)
{
	if (ctl->json)
		gm_ctl_print(json_pack("{s:s}", done, ctl->args[0]));
	else
		printf("%s: %s\n", ctl->args[0], done);
}

void gm_ctl_released(const struct gm_ctl *ctl, int error, const char *what,
		     const char *list)
{
	if (error == -ENOENT)
		gm_ctl_unknown(what, ctl->args[0], list);
	if (error != 0)
		gm_ctl_fail(ctl, error, "release \"%s\"", ctl->args[0]);
	gm_ctl_done(ctl, "released");
}

const char *gm_ctl_choice_at(const struct gm_ctl_choice *choice, size_t i)
{
	const char *at = choice->entries;

	return i < choice->n ? *(const char *const *)(at + i * choice->bytes)
			     : NULL;
}

uint32_t gm_ctl_choose_word(const struct gm_ctl_choice *choice,
			    const char *word)
{
	const char *name;

	for (uint32_t i = 0; (name = gm_ctl_choice_at(choice, i)) != NULL; i++)
		if (strcmp(name, word) == 0)
			return i;
	fprintf(stderr, "gpumapctl: %s is ", choice->option);
	for (size_t i = 0; (name = gm_ctl_choice_at(choice, i)) != NULL; i++)
		fprintf(stderr, "%s%s", name,
			i + 2 < choice->n   ? ", "
			: i + 1 < choice->n ? " or "
					    : "");
	fprintf(stderr, ", not \"%s\"\n", word);
	gm_ctl_exit(GM_EXIT_USAGE);
}

/* ---- the agent ----------------------------------------------------------- */

_Noreturn void gm_ctl_not_attached(int error)
{
	gm_ctl_end(error == -ENOENT   ? GM_EXIT_NO_AGENT
		   : error == -EINVAL ? GM_EXIT_USAGE
				      : GM_EXIT_FAILED,
		   "%s", gpumap_refusal(NULL));
}

struct gpumap_attach_opts gm_ctl_where(const struct gm_ctl *ctl)
{
	return (struct gpumap_attach_opts){
		.size = sizeof(struct gpumap_attach_opts),
		.instance = ctl->instance,
		.runtime_dir = ctl->runtime_dir,
	};
}

void gm_ctl_attach(struct gm_ctl *ctl)
{
	struct gpumap_attach_opts opts = gm_ctl_where(ctl);
	int error = gpumap_attach(&opts, &ctl->map);

	if (error != 0)
		gm_ctl_not_attached(error);
}

void gm_ctl_check_rows(const struct gm_ctl *ctl)
{
	for (uint32_t i = 0; i < ctl->n_rows; i++)
		if (ctl->rows[i] >= gpumap_device_count(ctl->map))
			gm_ctl_no_row(ctl->rows[i]);
}

bool gm_ctl_next_device(const struct gpumap *map, uint32_t *cursor,
			struct gpumap_device *ret_device)
{
	while (*cursor < gpumap_device_count(map)) {
		*ret_device =
			(struct gpumap_device){ .size = sizeof(*ret_device) };
		if (gpumap_device_read(map, (*cursor)++, ret_device) == 0)
			return true;
	}
	return false;
}

/* ---- lists of words ------------------------------------------------------ */

void gm_ctl_words_add(struct gm_words *words, const char *format, ...)
{
	char **v = reallocarray(words->v, words->n + 2, sizeof(*v));
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (v == NULL || vasprintf(&text, format, args) < 0)
		gm_ctl_failed("no memory for a list of words");
	va_end(args);
	words->v = v;
	v[words->n++] = text;
	v[words->n] = NULL;
}

void gm_ctl_words_free(struct gm_words *words)
{
	for (uint32_t i = 0; i < words->n; i++)
		free(words->v[i]);
	free(words->v);
	*words = (struct gm_words){ 0 };
}

json_t *gm_ctl_words_json(const char *const *words, uint32_t n)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(list, gm_ctl_text_json(words[i]));
	return list;
}

json_t *gm_ctl_words_env_json(const char *const *words, uint32_t n)
{
	json_t *object = json_object();

	for (uint32_t i = 0; i < n; i++) {
		size_t length = strcspn(words[i], "=");

		json_object_setn_new(object, words[i], length,
				     gm_ctl_text_json(words[i] + length + 1));
	}
	return object;
}

void gm_ctl_words_print_env(const char *word)
{
	int n = (int)strcspn(word, "=") + 1;

	printf("%.*s", n, word);
	gm_ctl_print_word(word + n);
	putchar('\n');
}

/* ---- users and processes ------------------------------------------------- */

/* A process chooses its own name: let no terminal obey it. */
static void make_plain(char *text)
{
	text[strcspn(text, "\n")] = '\0';
	for (; *text != '\0'; text++)
		if (*text <= ' ' || *text > '~')
			*text = '?';
}

const char *gm_ctl_user(uint32_t uid, char ret_text[GM_CTL_NAME])
{
	const struct passwd *user = getpwuid((uid_t)uid);

	if (user != NULL)
		snprintf(ret_text, GM_CTL_NAME, "%s", user->pw_name);
	else
		snprintf(ret_text, GM_CTL_NAME, "%u", uid);
	make_plain(ret_text);
	return ret_text;
}

/* Read a file of a process.  Returns its bytes, up to @bytes - 1. */
static size_t read_of(uint32_t pid, const char *file, char *ret_text,
		      size_t bytes)
{
	char path[32];
	size_t n = 0;
	FILE *from;

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, file);
	from = fopen(path, "re");
	if (from != NULL) {
		n = fread(ret_text, 1, bytes - 1, from);
		fclose(from);
	}
	ret_text[n] = '\0';
	return n;
}

/* May process @pid be named?
 *
 * Pids are those of the agent's pid namespace.  Is this process there, too?
 * Then the agent's own pid leads to an agent.  And a pid may have gone to
 * another process: that of the same user may be named, as nothing tells the two
 * apart. */
static bool is_of(const struct gm_ctl *ctl, uint32_t pid, uint32_t uid)
{
	struct gpumap_health health = { .size = sizeof(health) };
	char text[GM_CTL_NAME];
	struct stat st;

	snprintf(text, sizeof(text), "/proc/%u", pid);
	return pid != 0 && stat(text, &st) == 0 &&
	       (st.st_uid == uid || st.st_uid == 0) &&
	       gpumap_health(ctl->map, &health) == 0 &&
	       read_of(health.agent_pid, "comm", text, sizeof(text)) > 0 &&
	       strstr(text, "gpumapd") != NULL;
}

const char *gm_ctl_command(const struct gm_ctl *ctl, uint32_t pid, uint32_t uid,
			   char ret_text[GM_CTL_NAME])
{
	if (!is_of(ctl, pid, uid) ||
	    read_of(pid, "comm", ret_text, GM_CTL_NAME) == 0)
		return strcpy(ret_text, "-");
	make_plain(ret_text);
	return ret_text;
}

const char *gm_ctl_command_line(const struct gm_ctl *ctl, uint32_t pid,
				uint32_t uid, char ret_text[GM_CTL_LINE])
{
	size_t n = is_of(ctl, pid, uid)
			   ? read_of(pid, "cmdline", ret_text, GM_CTL_LINE)
			   : 0;

	/* Arguments end with NULs. */
	while (n > 0 && ret_text[n - 1] == '\0')
		n--;
	if (n == 0)
		return strcpy(ret_text, "-");
	for (size_t i = 0; i < n; i++)
		if (ret_text[i] < ' ' || ret_text[i] > '~')
			ret_text[i] = ret_text[i] == '\0' ? ' ' : '?';
	ret_text[n] = '\0';
	return ret_text;
}

/* ---- words for numbers --------------------------------------------------- */

static const char *const settings[] = { "unknown",  "manual", "auto",
					"topology", "dummy",  "nccl",
					"pipeline" };

const char *gm_ctl_setting(uint32_t setting)
{
	return settings[setting < COUNT(settings) ? setting : 0];
}

uint32_t gm_ctl_setting_named(const char *name)
{
	for (uint32_t i = 1; i < COUNT(settings); i++)
		if (strcmp(name, settings[i]) == 0)
			return i;
	return 0;
}

/* The first of the types that have it is the one of this name. */
const char *gm_ctl_dtype(uint32_t dtype)
{
	for (uint32_t i = 0; i < GM_WEIGHTS_TYPES; i++)
		if (gm_weights_dtype(i) == dtype)
			return gm_weights_type(i);
	return "unknown";
}

const char *gm_ctl_no_figures(uint32_t figures)
{
	switch (figures) {
	case GPUMAP_FIGURES_PARTLY:
		return "the driver does not tell what every process has";
	case GPUMAP_FIGURES_REFUSED:
		return "the driver does not tell what processes have";
	case GPUMAP_FIGURES_NAMESPACE:
		return "the driver tells pids of the initial pid namespace, "
		       "and the agent is in another";
	default:
		return NULL;
	}
}
