/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* examine - all checks of a folder on one state of a node. */
#ifndef EXAMINE_H
#define EXAMINE_H

#include <string.h>

#include "agent/doctor/doctor.h"
#include "tests/support/tap.h"

#define CHECKS_MAX 64

/* The verdict of each check of a table on a state that is well. */
struct examined {
	const struct gm_check *table;
	enum gm_verdict verdicts[CHECKS_MAX];
	size_t n;
};

static inline struct gm_finding look(const struct gm_check *check,
				     const struct gm_doctor *doctor)
{
	struct gm_finding f = { .verdict = GM_VERDICT_SKIP };

	check->look(doctor, &f);
	return f;
}

static inline struct examined examine(const struct gm_check *table,
				      const struct gm_doctor *doctor)
{
	struct examined e = { .table = table };

	for (; table[e.n].id != NULL && e.n < CHECKS_MAX; e.n++)
		e.verdicts[e.n] = look(&table[e.n], doctor).verdict;
	return e;
}

/* Has the check @id this verdict now, with @text in the text and @remedy in the
 * remedy, and each other check the one that it had? */
static inline bool breaks(const struct examined *well,
			  const struct gm_doctor *doctor, const char *id,
			  enum gm_verdict verdict, const char *text,
			  const char *remedy)
{
	bool is_right = false;

	for (size_t i = 0; i < well->n; i++) {
		const struct gm_check *check = &well->table[i];
		struct gm_finding f = look(check, doctor);

		if (strcmp(check->id, id) == 0)
			is_right = f.verdict == verdict &&
				   strstr(f.text, text) != NULL &&
				   strstr(f.remedy, remedy) != NULL;
		else if (f.verdict == well->verdicts[i])
			continue;
		else
			is_right = false;
		if (is_right)
			continue;
		NOTE("%s: %d, \"%s\", remedy \"%s\"", check->id, f.verdict,
		     f.text, f.remedy);
		return false;
	}
	return is_right;
}

#endif
