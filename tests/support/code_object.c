/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/code_object.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>

#define NOTE_METADATA 32 /* NT_AMDGPU_METADATA */
#define MODE_AT       48 /* of compute_pgm_rsrc1, in a descriptor */

/* ---- MessagePack --------------------------------------------------------- */

struct value {
	enum { NUMBER, TEXT, LIST, MAP } kind;
	uint64_t n;       /* the number; bytes of the text; members */
	const char *text; /* of TEXT */
};

static uint64_t big(const unsigned char *at, unsigned int bytes)
{
	uint64_t n = 0;

	while (bytes--)
		n = n << 8 | *at++;
	return n;
}

/* The members of a list or a map follow. */
static const unsigned char *take(const unsigned char *at, struct value *ret)
{
	unsigned char c = *at++;
	unsigned int bytes = 0;

	if (c < 0x80 || c >= 0xe0)
		*ret = (struct value){ NUMBER, c, NULL };
	else if (c < 0xc0)
		*ret = (struct value){ c < 0x90   ? MAP
				       : c < 0xa0 ? LIST
						  : TEXT,
				       c < 0xa0 ? c & 15u : c & 31u, NULL };
	else if (c <= 0xc3) /* nil, false, true */
		*ret = (struct value){ NUMBER, c == 0xc3, NULL };
	else if (c >= 0xcc && c <= 0xd3) {
		bytes = 1u << ((c - 0xccu) & 3);
		*ret = (struct value){ NUMBER, big(at, bytes), NULL };
	} else {
		bytes = c <= 0xdb ? 1u << (c - 0xd9u) : 2u << (c & 1u);
		*ret = (struct value){ c <= 0xdb   ? TEXT
				       : c <= 0xdd ? LIST
						   : MAP,
				       big(at, bytes), NULL };
	}
	at += bytes;
	if (ret->kind == TEXT) {
		ret->text = (const char *)at;
		at += ret->n;
	}
	return at;
}

static const unsigned char *skip(const unsigned char *at)
{
	struct value v;
	uint64_t n;

	at = take(at, &v);
	n = v.kind == LIST ? v.n : v.kind == MAP ? 2 * v.n : 0;
	while (n--)
		at = skip(at);
	return at;
}

static bool is(const struct value *key, const char *text)
{
	return key->kind == TEXT && key->n == strlen(text) &&
	       memcmp(key->text, text, key->n) == 0;
}

static void copy(char *to, size_t room, const struct value *v)
{
	snprintf(to, room, "%.*s", (int)v->n, v->text);
}

/* ---- the notes ----------------------------------------------------------- */

static const unsigned char *read_arg(const unsigned char *at,
				     struct code_kernel *k)
{
	struct value map, key, v;

	at = take(at, &map);
	for (uint64_t i = 0; i < map.n; i++) {
		at = take(at, &key);
		take(at, &v);
		at = skip(at);
		if (is(&key, ".size"))
			k->sizes[k->n_args] = (uint8_t)v.n;
		else if (is(&key, ".offset"))
			k->offsets[k->n_args] = (uint32_t)v.n;
		else if (is(&key, ".value_kind") && !is(&v, "by_value") &&
			 !is(&v, "global_buffer"))
			k->is_hidden = true;
	}
	k->n_args++;
	return at;
}

static const unsigned char *read_kernel(const unsigned char *at,
					struct code_kernel *k)
{
	struct value map, key, v;
	const unsigned char *next;

	at = take(at, &map);
	for (uint64_t i = 0; i < map.n; i++) {
		at = take(at, &key);
		next = take(at, &v);
		if (is(&key, ".name"))
			copy(k->name, sizeof(k->name), &v);
		else if (is(&key, ".max_flat_workgroup_size"))
			k->group = (uint32_t)v.n;
		else if (is(&key, ".group_segment_fixed_size"))
			k->shared_bytes = (uint32_t)v.n;
		else if (is(&key, ".private_segment_fixed_size"))
			k->stack_bytes = (uint32_t)v.n;
		else if (is(&key, ".args"))
			for (uint64_t j = 0; j < v.n && k->n_args < CODE_ARGS;
			     j++)
				next = read_arg(next, k);
		at = skip(at);
	}
	return at;
}

static void read_notes(const unsigned char *at, struct code_object *ret)
{
	struct value map, key, v;
	const unsigned char *next;

	at = take(at, &map);
	for (uint64_t i = 0; i < map.n; i++) {
		at = take(at, &key);
		next = take(at, &v);
		if (is(&key, "amdhsa.target"))
			copy(ret->target, sizeof(ret->target), &v);
		for (uint64_t j = 0; is(&key, "amdhsa.kernels") && j < v.n &&
				     ret->n < CODE_KERNELS;
		     j++)
			next = read_kernel(next, &ret->kernels[ret->n++]);
		at = skip(at);
	}
}

/* ---- the file ------------------------------------------------------------ */

static void read_mode(const char *image, const Elf64_Shdr *sections,
		      const Elf64_Shdr *table, struct code_object *ret)
{
	const Elf64_Sym *symbols = (const void *)(image + table->sh_offset);
	const char *names = image + sections[table->sh_link].sh_offset;

	for (size_t i = 0; i < table->sh_size / sizeof(*symbols); i++) {
		const char *name = names + symbols[i].st_name;
		const Elf64_Shdr *in = &sections[symbols[i].st_shndx];

		for (uint32_t k = 0; k < ret->n; k++) {
			size_t n = strlen(ret->kernels[k].name);

			if (strncmp(name, ret->kernels[k].name, n) == 0 &&
			    strcmp(name + n, ".kd") == 0)
				memcpy(&ret->kernels[k].mode,
				       image + in->sh_offset +
					       symbols[i].st_value -
					       in->sh_addr + MODE_AT,
				       4);
		}
	}
}

bool code_object_read(const void *image, struct code_object *ret)
{
	const char *bytes = image;
	const Elf64_Ehdr *head = image;
	const Elf64_Shdr *sections;

	memset(ret, 0, sizeof(*ret));
	if (memcmp(image, ELFMAG, SELFMAG) != 0 || head->e_machine != EM_AMDGPU)
		return false;
	sections = (const void *)(bytes + head->e_shoff);
	for (int i = 0; i < head->e_shnum; i++) {
		const Elf64_Nhdr *note =
			(const void *)(bytes + sections[i].sh_offset);

		if (sections[i].sh_type == SHT_NOTE &&
		    note->n_type == NOTE_METADATA)
			read_notes((const unsigned char *)(note + 1) +
					   (note->n_namesz + 3) / 4 * 4,
				   ret);
	}
	for (int i = 0; i < head->e_shnum; i++)
		if (sections[i].sh_type == SHT_DYNSYM)
			read_mode(bytes, sections, &sections[i], ret);
	return ret->n > 0;
}
