/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/*
 * Exports and imports of sessions, from gpumapd's side: which users may import
 * one, until when, and which user is charged.  Stand-ins take the workers'
 * place.
 */

#include "tests/support/scripted_worker_agent.h"
#include "tests/support/users.h"

#include <sys/stat.h>
#include <sys/wait.h>

#define STRANGER 61357u /* a uid without a user */

static const char config[] = "[socket]\n"
			     "mode = 0666\n"
			     "[host]\n"
			     "rows = 2\n"
			     "[limits]\n"
			     "exports-per-uid = 3\n";
static const char shared[] = "[socket]\n"
			     "mode = 0666\n"
			     "[host]\n"
			     "rows = 2\n"
			     "[limits]\n"
			     "exports-per-uid = 3\n"
			     "imports-per-uid = 5\n"
			     "import-bytes-per-uid = 24K\n"
			     "[cuda]\n"
			     "share = any\n";

static int import_into(struct raw *c, uint64_t id, uint32_t row,
		       uint64_t *ret_handle)
{
	struct gm_import ask = { .id = id,
				 .handle = buffer(row, 9),
				 .row = row };
	struct gm_import_reply reply = { 0 };
	int error = raw_import(c, &ask, &reply, NULL);

	if (ret_handle)
		*ret_handle = ask.handle;
	if (error == 0 && (reply.bytes != ODD_EXPORT_BYTES || reply.row != row))
		return -EBADMSG;
	return error;
}

static int take_fd(struct raw *c, uint64_t id)
{
	struct gm_import ask = { .id = id };
	struct gm_import_reply reply = { 0 };
	int fd, error = raw_import(c, &ask, &reply, &fd);

	if (error)
		return error;
	if (reply.bytes != ODD_EXPORT_BYTES)
		return -EBADMSG;
	return fd;
}

static void exports_are_had_by_many(void)
{
	struct gm_export_reply export = { 0 }, again = { 0 };
	uint64_t handle = buffer(1, 1), theirs;
	int fd;
	struct raw owner, other, plain;
	struct stat st = { 0 };

	if (!open_both(&owner) || !open_both(&other) ||
	    !EQ(raw_open(&plain, path), 0))
		return;
	EQ(raw_export(&owner, handle, &export), 0);
	EQ(export.bytes, ODD_EXPORT_BYTES);
	EQ(gm_export_row(export.id), 1);
	EQ(raw_export(&owner, handle, &again), 0);
	EQ(again.id, export.id);

	EQ(import_into(&other, export.id, 1, &theirs), 0);
	answered(&other, "into another row",
		 import_into(&other, export.id, 0, NULL), -EOPNOTSUPP, "row 1");
	answered(&plain, "into no session",
		 import_into(&plain, export.id, 1, NULL), -EINVAL,
		 "no session");
	fd = take_fd(&plain, export.id);
	if (OK(fd >= 0) && EQ(fstat(fd, &st), 0))
		EQ(st.st_size, ODD_EXPORT_BYTES);
	close(fd);
	EQ(raw_forget(&other, theirs), 0);
	answered(&other, "forgotten twice", raw_forget(&other, theirs), -ENOENT,
		 "neither exported nor imported");
	EQ(import_into(&other, export.id, 1, &theirs), 0);

	EQ(raw_forget(&owner, handle), 0);
	answered(&other, "what was forgotten",
		 import_into(&other, export.id, 1, NULL), -ENOENT, "forgotten");
	EQ(take_fd(&plain, export.id), -ENOENT);
	EQ(take_fd(&plain, 0), -ENOENT);
	EQ(raw_export(&owner, handle, &again), 0);
	OK(again.id != export.id);
	raw_close(&owner);
	raw_close(&other);
	raw_close(&plain);
	gives_back();
}

static uint64_t kept(uint32_t *ret_importers)
{
	struct gpumap_usage list[8] = { { .size = sizeof(list[0]) } };
	int n = gpumap_usage_list(map, list, 8);

	*ret_importers = n > 0 && list[0].session == 0 ? list[0].importers : 0;
	return n > 0 && list[0].session == 0 ? list[0].bytes : 0;
}

/* The memory counts for as long as any client is known to have it. */
static void exports_are_charged_to_the_last(void)
{
	struct gm_export_reply export[3], more;
	struct raw owner, other;
	uint64_t handles[3];
	uint32_t importers;

	if (!open_both(&owner) || !open_both(&other))
		return;
	for (uint32_t i = 0; i < 3; i++) {
		handles[i] = buffer(0, i);
		EQ(raw_export(&owner, handles[i], &export[i]), 0);
	}
	answered(&owner, "one too many",
		 raw_export(&owner, buffer(0, 5), &more), -EDQUOT,
		 "3 exports|exports-per-uid");
	EQ(import_into(&other, export[0].id, 0, NULL), 0);
	EQ(take_fd(&other, export[1].id) >= 0, true);
	EQ(kept(&importers), 0);
	for (int i = 0; i < 2; i++)
		EQ(raw_forget(&owner, handles[i]), 0);
	EQ(kept(&importers), 2 * ODD_EXPORT_BYTES);
	EQ(importers, 2);
	/* These can no longer be imported: they are no exports any more. */
	EQ(raw_export(&owner, buffer(0, 5), &more), 0);
	EQ(raw_export(&owner, buffer(0, 6), &more), 0);
	EQ(raw_export(&owner, buffer(0, 7), &more), -EDQUOT);
	raw_close(&other);
	for (int i = 0; i < STORY_LOOKS && kept(&importers); i++)
		story_nap(1000);
	EQ(kept(&importers), 0);
	raw_close(&owner);
}

static void exports_end_with_their_worker(void)
{
	struct gm_export_reply export = { 0 }, here = { 0 };
	struct raw owner, other;

	if (!open_both(&owner) || !open_both(&other))
		return;
	EQ(raw_export(&owner, buffer(0, 1), &export), 0);
	EQ(raw_export(&owner, buffer(1, 1), &here), 0);
	EQ(import_into(&other, export.id, 0, NULL), 0);
	kill_worker(0);
	EQ(import_into(&other, export.id, 0, NULL), -ENOENT);
	EQ(import_into(&other, here.id, 1, NULL), 0);
	/* And with their session. */
	raw_close(&owner);
	for (int i = 0;
	     i < STORY_LOOKS && !import_into(&other, here.id, 1, NULL); i++)
		story_nap(1000);
	EQ(import_into(&other, here.id, 1, NULL), -ENOENT);
	raw_close(&other);
}

static void exports_have_a_size(void)
{
	struct gm_export_reply export;
	struct raw one, *c = &one;

	if (!open_both(c))
		return;
	answered(c, "more than half of the row",
		 raw_export(c, buffer(0, ODD_HUGE), &export), -EDQUOT,
		 "may export|reserve more");
	answered(c, "what the worker refuses",
		 raw_export(c, buffer(0, ODD_REFUSED), &export), -ENOMEM, "");
	answered(c, "a registration", raw_export(c, registration(1), &export),
		 -EINVAL, "handle");
	answered(c, "a row that there is not",
		 raw_export(c, buffer(2, 1), &export), -ENODEV, "row 2");
	answered(c, "no generation",
		 raw_export(c, gm_handle_make(0, 0, 0, 1), &export), -EINVAL,
		 "handle");
	EQ(raw_export(c, buffer(0, 1), &export), 0);
	raw_close(c);
	gives_back();
}

/* A user that keeps much of a row may not export as much again, although no
 * session of it has any of that. */
static void what_is_kept_counts(void)
{
	uint64_t total = story_device(map, 0).total_bytes, handle;
	struct gm_share_ask body = { .name = "kept",
				     .flags = GPUMAP_SHARE_KEEP,
				     .n_buffers = 1 };
	struct gm_export_reply export;
	uint32_t power = 0;
	struct raw owner;

	while ((UINT64_C(2) << power) <= total / 2)
		power++;
	handle = buffer(0, ODD_POWER + power);
	if (!open_both(&owner))
		return;
	EQ(raw_export(&owner, handle, &export), 0);
	EQ(export.bytes, UINT64_C(1) << power);
	EQ(raw_ask_tail(&owner, GM_CONTROL_SHARE, &body, sizeof(body), &handle,
			sizeof(handle)),
	   0);
	raw_close(&owner);
	for (int i = 0; i < STORY_LOOKS && kept(&power) == 0; i++)
		story_nap(1000);
	EQ(kept(&power), export.bytes);
	if (!open_both(&owner))
		return;
	handle = buffer(0,
			(uint32_t)(ODD_POWER + __builtin_ctzll(export.bytes)));
	answered(&owner, "as much again", raw_export(&owner, handle, &export),
		 -EDQUOT, "may export|reserve more");
	EQ(gpumap_share_release(map, "kept"), 0);
	EQ(raw_export(&owner, handle, &export), 0);
	raw_close(&owner);
	gives_back();
}

/* ---- strangers --------------------------------------------------------- */

static int be_stranger(uint64_t id, bool may)
{
	struct raw c;
	int fd;

	if (!user_become(STRANGER, STRANGER))
		return 1;
	if (raw_open_queue(&c, path, 0, 64, 64 * KIB) != 0)
		return 2;
	fd = take_fd(&c, id);
	if (may ? fd < 0 : fd != -EACCES || !says(c.refusal, "uid|share"))
		return 3;
	if (import_into(&c, id, 0, NULL) != (may ? 0 : -EACCES))
		return 4;
	return 0;
}

/* All imports of the user count for the user itself. */
static int be_greedy(const struct gm_export_reply *exports, int ready,
		     int forgotten)
{
	struct raw c, more;
	char byte = 0;

	if (!user_become(STRANGER, STRANGER))
		return 1;
	if (raw_open_queue(&c, path, 0, 64, 64 * KIB) != 0 ||
	    raw_open(&more, path) != 0)
		return 2;
	for (int i = 0; i < 3; i++) {
		if (take_fd(&c, exports[i].id) < 0)
			return 3;
	}
	/* The same memory once more, and the same descriptor. */
	if (import_into(&c, exports[0].id, 0, NULL) != 0 ||
	    take_fd(&more, exports[0].id) < 0 ||
	    take_fd(&more, exports[0].id) < 0)
		return 4;
	if (take_fd(&more, exports[1].id) != -EDQUOT ||
	    !says(more.refusal, "5 imports|imports-per-uid"))
		return 5;
	raw_close(&more);
	if (write(ready, "", 1) != 1 || read(forgotten, &byte, 1) != 1)
		return 6;
	for (int i = 0; i < STORY_LOOKS; i++) {
		int fd = take_fd(&c, exports[3].id);

		if (fd == -EDQUOT &&
		    says(c.refusal, "24 KiB|import-bytes-per-uid"))
			break;
		if (fd >= 0)
			return 7;
		story_nap(1000);
	}
	if (write(ready, "", 1) != 1 || read(forgotten, &byte, 1) != 1)
		return 8;
	return 0;
}

static void a_stranger_pays_himself(void)
{
	struct gm_export_reply exports[6];
	int ready[2], forgotten[2], status = 0;
	uint64_t handles[6];
	uint32_t importers;
	struct raw owner;
	char byte;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(1, "this needs root, to be somebody else");
		return;
	}
	if (!open_both(&owner) || pipe(ready) != 0 || pipe(forgotten) != 0)
		return;
	for (uint32_t i = 0; i < 6; i++)
		handles[i] = buffer(0, i);
	for (int i = 0; i < 3; i++)
		EQ(raw_export(&owner, handles[i], &exports[i]), 0);
	/* The fourth import succeeds only after the first three. */
	exports[3].id = exports[2].id + 1;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(be_greedy(exports, ready[1], forgotten[0]));
	EQ(read(ready[0], &byte, 1), 1);
	for (int i = 0; i < 3; i++)
		EQ(raw_forget(&owner, handles[i]), 0);
	EQ(kept(&importers), 3 * ODD_EXPORT_BYTES);
	for (int i = 3; i < 6; i++)
		EQ(raw_export(&owner, handles[i], &exports[i]), 0);
	EQ(write(forgotten[1], "", 1), 1);
	EQ(read(ready[0], &byte, 1), 1);
	EQ(kept(&importers), 3 * ODD_EXPORT_BYTES);
	EQ(importers, 4);
	EQ(write(forgotten[1], "", 1), 1);
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	for (int i = 0; i < STORY_LOOKS && kept(&importers); i++)
		story_nap(1000);
	EQ(kept(&importers), 0);
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(forgotten[i]);
	}
	raw_close(&owner);
}

static void a_stranger_imports(bool may)
{
	struct gm_export_reply export = { 0 };
	struct raw owner;
	int status;
	pid_t pid;

	if (geteuid() != 0) {
		SKIP(1, "this needs root, to be somebody else");
		return;
	}
	if (!open_both(&owner) ||
	    !EQ(raw_export(&owner, buffer(0, 1), &export), 0))
		return;
	pid = fork();
	if (pid == 0)
		_exit(be_stranger(export.id, may));
	EQ(waitpid(pid, &status, 0), pid);
	EQ(status, 0);
	raw_close(&owner);
}

/* ---- all of it --------------------------------------------------------- */

TAP_CASE()
{
	if (begin(config)) {
		EQ(gpumap_usage_list(map, NULL, 0), 0);
		held = story_holds_at_rest(agent.pid);
		exports_are_had_by_many();
		exports_are_charged_to_the_last();
		exports_end_with_their_worker();
		exports_have_a_size();
		what_is_kept_counts();
		a_stranger_imports(false);
		end();
	}
	if (begin(shared)) {
		a_stranger_imports(true);
		a_stranger_pays_himself();
		end();
	}
	return tap_done();
}
