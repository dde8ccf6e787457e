/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/answers/providers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/model/plan/number.h"
#include "shm/version.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Providers that are added to a list, in their order; the CPU follows. */
#define ADDED_MOST   5u
#define NO_PROVIDERS "give a provider that the node has"

static bool is_called(struct gm_chars text, const char *name)
{
	return gm_chars_equal(gm_chars_trim(text), gm_chars_of(name));
}

static bool is_of(const struct gm_provider_device *device,
		  struct gm_chars backend)
{
	return gm_chars_equal(gm_chars_trim(gm_chars_of(device->backend)),
			      backend);
}

static bool any_of(const struct gm_provider_device *devices, size_t n,
		   const char *backend)
{
	for (size_t i = 0; i < n; i++)
		if (is_of(&devices[i], gm_chars_of(backend)))
			return true;
	return false;
}

/* ---- best ---------------------------------------------------------------- */

static bool read_u32(const char *at, size_t n, uint32_t *ret)
{
	uint64_t value = 0;

	if (gm_number_parse(at, n, &value) || value > UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

/* Major and minor as one number that orders them; 0 for anything else. */
static uint64_t capability_of(const struct gm_provider_device *device)
{
	struct gm_chars text;
	const char *dot;
	uint32_t major, minor;
	size_t n;

	if (!device->compute_capability)
		return 0;
	text = gm_chars_trim(gm_chars_of(device->compute_capability));
	dot = text.n ? memchr(text.at, '.', text.n) : NULL;
	if (!dot)
		return 0;
	n = (size_t)(dot - text.at);
	if (!read_u32(text.at, n, &major) ||
	    !read_u32(dot + 1, text.n - n - 1, &minor))
		return 0;
	return (uint64_t)major << 32 | minor;
}

static bool is_less(const struct gm_provider_device *a,
		    const struct gm_provider_device *b)
{
	if (a->memory_mb != b->memory_mb)
		return a->memory_mb < b->memory_mb;
	return capability_of(a) < capability_of(b);
}

const char *gm_providers_best(const struct gm_provider_device *devices,
			      size_t n, size_t *ret_index)
{
	static const char *const order[] = { "cuda", "metal", "rocm", "oneapi",
					     "directml" };
	size_t best = n;

	for (size_t i = 0; i < n; i++)
		if (!is_of(&devices[i], gm_chars_of("cpu")) &&
		    (best == n || !is_less(&devices[i], &devices[best])))
			best = i;
	*ret_index = best;
	for (size_t i = 0; i < COUNT(order); i++)
		if (any_of(devices, n, order[i]))
			return order[i];
	return "cpu";
}

/* ---- select -------------------------------------------------------------- */

static bool uses_several(const char *strategy)
{
	static const char *const several[] = {
		"pool", "round-robin",       "data-parallel",   "pipeline",
		"auto", "pipeline-parallel", "tensor-parallel",
	};

	for (size_t i = 0; strategy && i < COUNT(several); i++)
		if (gm_chars_equal(gm_chars_of(strategy),
				   gm_chars_of(several[i])))
			return true;
	return false;
}

static bool only_cpus(const struct gm_provider_request *q)
{
	for (size_t i = 0; i < q->n_providers; i++) {
		struct gm_chars name = gm_chars_of(q->providers[i]);

		if (gm_chars_trim(name).n > 0 && !is_called(name, "cpu"))
			return false;
	}
	return true;
}

/* Append a provider unless the list has it, as it is written. */
static void append(const char **list, size_t *n, const char *provider)
{
	for (size_t i = 0; i < *n; i++)
		if (gm_chars_equal(gm_chars_of(list[i]), gm_chars_of(provider)))
			return;
	list[(*n)++] = provider;
}

/* The request's providers, and those that are added.  NULL: out of memory. */
static const char **list_providers(const struct gm_provider_request *q,
				   const struct gm_provider_device *devices,
				   size_t n, size_t *ret_n)
{
	static const struct {
		const char *backend, *provider;
	} added[ADDED_MOST - 1] = {
		{ "cuda", "cuda" },
		{ "metal", "coreml" },
		{ "rocm", "rocm" },
		{ "directml", "directml" },
	};
	const char **list =
		calloc(q->n_providers + ADDED_MOST, sizeof(list[0]));

	if (!list)
		return NULL;
	*ret_n = q->n_providers;
	for (size_t i = 0; i < q->n_providers; i++)
		list[i] = q->providers[i];
	if (!q->is_fastest || !only_cpus(q))
		return list;
	for (size_t i = 0; i < COUNT(added); i++)
		if (any_of(devices, n, added[i].backend))
			append(list, ret_n, added[i].provider);
	append(list, ret_n, "cpu");
	return list;
}

static bool suits(const struct gm_provider_request *q,
		  const struct gm_provider_device *device)
{
	if (device->memory_mb < q->min_vram_mb)
		return false;
	return !q->min_cuda_version || !is_of(device, gm_chars_of("cuda")) ||
	       gm_version_reaches(device->cuda_version, q->min_cuda_version);
}

static bool has_id(const struct gm_provider_request *q,
		   const struct gm_provider_device *device)
{
	return !q->has_id || uses_several(q->strategy) || device->id == q->id;
}

/* The backend that runs a provider's models. */
static struct gm_chars backend_of(struct gm_chars provider)
{
	if (is_called(provider, "tensorrt"))
		return gm_chars_of("cuda");
	if (is_called(provider, "coreml"))
		return gm_chars_of("metal");
	return gm_chars_trim(provider);
}

/* Take the devices of one backend.  @is_best: as kapsl does where a request has
 * no providers, which then asks for nothing but the id. */
static void take(const struct gm_provider_request *q,
		 const struct gm_provider_device *devices, size_t n,
		 struct gm_chars backend, bool is_best,
		 struct gm_provider_choice *choice)
{
	bool is_cpu = gm_chars_equal(backend, gm_chars_of("cpu"));

	for (size_t i = 0; i < n; i++)
		if (is_of(&devices[i], backend) &&
		    (is_cpu || ((is_best || suits(q, &devices[i])) &&
				has_id(q, &devices[i]))))
			choice->devices[choice->n_devices++] = i;
}

/* Print a list as Rust does, for a message. */
static void print_list(const char *const *list, size_t n, char *to, size_t room)
{
	FILE *file = fmemopen(to, room, "w");

	to[0] = '\0';
	if (!file)
		return;
	for (size_t i = 0; i < n; i++) {
		fputs(i == 0 ? "\"" : ", \"", file);
		for (const char *c = list[i]; *c; c++) {
			if (*c == '"' || *c == '\\')
				fprintf(file, "\\%c", *c);
			else if (*c == '\t' || *c == '\n' || *c == '\r')
				fprintf(file, "\\%c",
					*c == '\t'   ? 't'
					: *c == '\n' ? 'n'
						     : 'r');
			else if ((unsigned char)*c < ' ' || *c == 0x7f)
				fprintf(file, "\\u{%x}", *c);
			else
				fputc(*c, file);
		}
		fputc('"', file);
	}
	fclose(file);
}

static int none_found(const struct gm_provider_request *q,
		      const char *const *list, size_t n,
		      struct gm_plan_error *err)
{
	bool by_id = q->has_id && !uses_several(q->strategy);
	char names[4096];

	print_list(list, n, names, sizeof(names));
	if (by_id && n == 0)
		return gm_error_set(err, -ENODEV, "give another id",
				    "Device ID %" PRIu64
				    " not found in available devices",
				    q->id);
	if (by_id)
		return gm_error_set(err, -ENODEV, "give another id",
				    "Device ID %" PRIu64
				    " not found for providers [%s]",
				    q->id, names);
	if (n == 0)
		return gm_error_set(err, -ENODEV, NO_PROVIDERS,
				    "No devices found");
	return gm_error_set(err, -ENODEV, NO_PROVIDERS,
			    "No devices found for providers [%s]", names);
}

int gm_providers_select(const struct gm_provider_request *q,
			const struct gm_provider_device *devices, size_t n,
			struct gm_provider_choice *ret_choice,
			struct gm_plan_error *ret_err)
{
	struct gm_provider_choice choice = { .n_devices = 0 };
	const char **list;
	size_t n_list = 0, best;
	int r = 0;

	if (q->min_cuda_version && !gm_version_valid(q->min_cuda_version))
		return gm_error_set(ret_err, -EINVAL, "give one such as 12.4",
				    "\"%.64s\" is no version",
				    q->min_cuda_version);
	list = list_providers(q, devices, n, &n_list);
	choice.devices = calloc(n + 1, sizeof(choice.devices[0]));
	if (!list || !choice.devices) {
		free(list);
		free(choice.devices);
		return gm_error_no_memory(ret_err);
	}
	if (n_list == 0) {
		choice.provider =
			gm_chars_of(gm_providers_best(devices, n, &best));
		take(q, devices, n, choice.provider, true, &choice);
	}
	for (size_t i = 0; i < n_list && choice.n_devices == 0; i++) {
		choice.provider = gm_chars_trim(gm_chars_of(list[i]));
		take(q, devices, n, backend_of(choice.provider), false,
		     &choice);
	}
	if (choice.n_devices == 0) {
		free(choice.devices);
		r = none_found(q, list, n_list, ret_err);
	} else {
		*ret_choice = choice;
	}
	free(list);
	return r;
}
