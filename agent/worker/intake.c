/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/worker/intake.h"

#include <errno.h>

#include "agent/worker/beat.h"

/* The second slot of the entry before it. */
static int take_second(struct gm_session *s, const uint64_t *words,
		       struct gm_verdict *v)
{
	*v = (struct gm_verdict){ 0 };
	s->second = false;
	if ((words[0] >> 32 & 0xff) == GM_OP_MORE)
		return 0;
	v->why = "a second slot was taken back";
	return -EPROTO;
}

int gm_intake(struct gm_session *session, const uint64_t words[GM_ENTRY_WORDS],
	      struct gm_verdict *ret_verdict)
{
	struct gm_session *s = session;
	uint64_t more[GM_ENTRY_WORDS];
	int rc;

	if (s->second)
		return take_second(s, words, ret_verdict);
	if (!gm_entry_has_more(words[0]))
		return gm_judge_entry(&s->judge, words, NULL, ret_verdict);
	rc = gm_judge_entry(&s->judge, words,
			    gm_ring_peek(&s->entries, GM_ENTRY_WORDS, 1, more)
				    ? more
				    : NULL,
			    ret_verdict);
	if (rc == -EPROTO)
		return rc;
	s->second = true;
	if (rc == 0 && ret_verdict->deadline_ns &&
	    gm_now_ns() >= ret_verdict->deadline_ns)
		return -ETIME;
	return rc;
}
