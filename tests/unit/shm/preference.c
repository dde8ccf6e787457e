/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

/* preference, version: which texts mean which devices. */

#include "shm/preference.h"
#include "shm/version.h"
#include "tests/support/tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct gm_preference_device card = {
	.name = "NVIDIA A100-SXM4-80GB",
	.backend = "cuda",
	.id = 2,
	.pci_bus_id = "0000:3b:00.0",
	.partition_id = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
};

static const struct gm_preference_device bare = { .id = 2 };

static bool is_preferred(const char *spec,
			 const struct gm_preference_device *device)
{
	struct gm_preference p = gm_preference_parse(spec);

	return gm_preference_matches(&p, device);
}

static void forms_are_told_apart(void)
{
	static const struct {
		const char *spec;
		enum gm_preference_kind kind;
		const char *text;
	} table[] = {
		{ "", GM_PREFERENCE_NONE, "" },
		{ " \xe2\x80\x83\t", GM_PREFERENCE_NONE, "" },
		{ "mig:MIG-c7885", GM_PREFERENCE_PARTITION, "MIG-c7885" },
		{ " MIG: x ", GM_PREFERENCE_PARTITION, "x" },
		{ "Partition:7", GM_PREFERENCE_PARTITION, "7" },
		{ "partition:mig:", GM_PREFERENCE_PARTITION, "mig:" },
		/* An empty id falls through to the later forms. */
		{ "mig:", GM_PREFERENCE_NAME, "mig:" },
		{ "cuda:2", GM_PREFERENCE_BACKEND, "cuda" },
		{ " CUDA : +2 ", GM_PREFERENCE_BACKEND, "CUDA" },
		{ ":2", GM_PREFERENCE_BACKEND, "" },
		{ "cuda:-2", GM_PREFERENCE_NAME, "cuda:-2" },
		{ "cuda:18446744073709551616", GM_PREFERENCE_NAME,
		  "cuda:18446744073709551616" },
		{ "0000:3b:00.0", GM_PREFERENCE_PCI, "0000:3b:00.0" },
		{ "cuda:1.5", GM_PREFERENCE_PCI, "cuda:1.5" },
		{ "0000:3b:00", GM_PREFERENCE_NAME, "0000:3b:00" },
		{ " a100 ", GM_PREFERENCE_NAME, "a100" },
	};

	for (size_t i = 0; i < COUNT(table); i++) {
		struct gm_preference p = gm_preference_parse(table[i].spec);

		if (!EQ(p.kind, table[i].kind) ||
		    !OK(gm_chars_equal(p.text, gm_chars_of(table[i].text))))
			NOTE("\"%s\"", table[i].spec);
	}
}

static void matching_ignores_case_and_nothing_else(void)
{
	static const char *const preferred[] = {
		"a100",
		"80gb",
		"NVIDIA A100-SXM4-80GB",
		"CUDA:2",
		"0000:3B:00.0",
		"mig:gpu-8932F937-d72c-4106-c12f-20bd9faed9f6",
		/* all that stands before a number is a backend's name */
		"cuda:02",
	};
	static const char *const other[] = {
		"",
		"h100",
		"cuda:1",
		"rocm:2",
		"0000:3b:00.1",
		"00000000:3b:00.0",
		"mig:GPU-8932f937",
		"NVIDIA A100-SXM4-80GB ltd",
		/* a UUID alone is a part of a name */
		"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
	};

	for (size_t i = 0; i < COUNT(preferred); i++) {
		if (!OK(is_preferred(preferred[i], &card)))
			NOTE("%s", preferred[i]);
		OK(!is_preferred(preferred[i], &bare));
	}
	for (size_t i = 0; i < COUNT(other); i++)
		if (!OK(!is_preferred(other[i], &card)))
			NOTE("%s", other[i]);
}

static void versions_are_compared_as_versions(void)
{
	static const struct {
		const char *text, *least;
		bool reaches;
	} table[] = {
		{ "12.4", "12.4", true },
		{ "12.4", "12.3", true },
		{ "12.4", "12.5", false },
		{ "12.0", "9.2", true },
		{ "9.2", "12.0", false },
		{ "12", "12.0.0", true },
		{ "12.0", "12", true },
		{ "12.10", "12.9", true },
		{ "012.4", "12.04", true },
		{ " 12.4 ", "12.4\n", true },
		{ "12.4", "", true },
		{ "", "0.0", true },
		{ "", "0.1", false },
		{ NULL, "", false },
		{ "12.x", "1", false },
		{ "12", "x", false },
		{ "12..4", "1", false },
		{ "12.", "1", false },
		{ ".4", "0", false },
		{ "-1", "0", false },
		{ "99999999999999999999.1", "99999999999999999999", true },
		{ "9999999999999999999", "99999999999999999999", false },
	};

	for (size_t i = 0; i < COUNT(table); i++)
		if (!EQ(gm_version_reaches(table[i].text, table[i].least),
			table[i].reaches))
			NOTE("%s, %s", table[i].text ? table[i].text : "NULL",
			     table[i].least);
}

TAP_CASE()
{
	forms_are_told_apart();
	matching_ignores_case_and_nothing_else();
	versions_are_compared_as_versions();
	return tap_done();
}
