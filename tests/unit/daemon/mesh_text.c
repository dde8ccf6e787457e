/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* state_text of meshes: what is written is read, and no field is read as
 * something else. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/daemon/meshes/state_text.h"
#include "tests/support/tap.h"

static const uint8_t uuids[2][16] = { { 1 }, { 2 } };

/* A mesh of two rows as its file has it, for the caller to free. */
static char *made(const char *name, uint32_t uid, size_t *ret_bytes)
{
	static const uint32_t rows[] = { 4, 7 };
	struct gm_arrange_ask ask = {
		.name = name, .uid = uid, .rows = rows, .n_rows = 2
	};
	struct gm_arranged arranged;
	struct gm_plan_error err;
	char why[GM_WHY_BYTES] = "";
	char *text = NULL;

	if (!EQ(gm_mesh_parse("tensor=2", &ask.shape, &err), 0) ||
	    !EQ(gm_arrange(&ask, why, &arranged), 0))
		return NULL;
	EQ(gm_mesh_text_make(&arranged.mesh, 5, 99, uuids, &text, ret_bytes),
	   0);
	gm_arranged_free(&arranged);
	return text;
}

static void a_mesh_comes_back(void)
{
	struct gm_mesh_file file = { 0 };
	char why[GM_WHY_BYTES] = "";
	size_t bytes = 0;
	char *text = made("pair", UINT32_MAX, &bytes);

	if (text == NULL ||
	    !EQ(gm_mesh_text_read("pair.mesh", text, bytes, &file, why), 0)) {
		NOTE("%s", why);
		free(text);
		return;
	}
	STR(file.ask.name, "pair");
	EQ(file.ask.uid, UINT32_MAX);
	EQ(file.ask.n_rows, 2);
	EQ(file.version, 5);
	EQ(file.ask.published, 99);
	OK(memcmp(file.uuids, uuids, sizeof(uuids)) == 0);
	gm_mesh_text_free(&file);
	free(text);
}

/* The same text with one field of another value, in a frame that is right.
 * Returns why it is refused. */
static const char *changed(const char *field, const char *to)
{
	static char why[GM_WHY_BYTES];
	struct gm_mesh_file file = { 0 };
	size_t bytes = 0, body_bytes = 0;
	char *text = made("pair", 7, &bytes), *body = NULL, *framed = NULL;
	FILE *stream = open_memstream(&body, &body_bytes);
	char *at, *from;

	why[0] = '\0';
	if (!OK(text != NULL && stream != NULL))
		return why;
	from = strchr(text, '{');
	at = strstr(text, field);
	OK(from != NULL && at != NULL);
	fprintf(stream, "%.*s%s%s", (int)(at - from), from, to,
		at + strlen(field));
	EQ(gm_state_text_frame(stream, &body, &body_bytes, &framed, &bytes), 0);
	EQ(gm_mesh_text_read("pair.mesh", framed, bytes, &file, why), -EPROTO);
	gm_mesh_text_free(&file);
	free(framed);
	free(text);
	return why;
}

static void no_number_is_cut(void)
{
	/* 2^32 would be root's. */
	OK(strstr(changed("\"owner_uid\":7", "\"owner_uid\":4294967296"),
		  "owner_uid is too large"));
	OK(strstr(changed("\"owner_uid\":7", "\"owner_uid\":-1"), "owner_uid"));
	OK(strstr(changed("\"version\":5", "\"version\":0"), "version"));
	OK(strstr(changed("\"version\":5", "\"version\":18446744073709551615"),
		  "version"));
	OK(strstr(changed("\"name\":\"pair\"", "\"name\":\"other\""),
		  "name is not its file's"));
	OK(strstr(changed("tensor=2", "tensor=3"), "3"));
}

TAP_CASE()
{
	a_mesh_comes_back();
	no_number_is_cut();
	return tap_done();
}
