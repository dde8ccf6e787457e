/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/ptx_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The rest of one line. */
struct line {
	const char *at, *end;
};

static void skip_blanks(struct line *l)
{
	while (l->at < l->end && isspace((unsigned char)*l->at))
		l->at++;
}

static bool take(struct line *l, char c)
{
	skip_blanks(l);
	if (l->at == l->end || *l->at != c)
		return false;
	l->at++;
	return true;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '%';
}

static bool take_word(struct line *l, char word[PTX_WORD])
{
	size_t n = 0;

	skip_blanks(l);
	for (; l->at < l->end && is_word(*l->at) && n < PTX_WORD - 1; l->at++)
		word[n++] = *l->at;
	word[n] = '\0';
	return n > 0;
}

static bool find(char (*names)[PTX_WORD], uint32_t n, const char *word,
		 uint32_t *ret_at)
{
	for (uint32_t i = 0; i < n; i++) {
		if (strcmp(names[i], word) == 0) {
			*ret_at = i;
			return true;
		}
	}
	return false;
}

static bool add(char (*names)[PTX_WORD], uint32_t *n, size_t max,
		const char *word)
{
	if (*n == max)
		return false;
	strcpy(names[(*n)++], word);
	return true;
}

/* 10, -1, 0x1f, and floats by their bits: 0f00000000, 0d0000000000000000. */
static bool take_number(struct line *l, uint64_t *ret_number)
{
	char word[PTX_WORD];
	bool minus = take(l, '-');
	char *end;

	if (!take_word(l, word))
		return false;
	if (word[0] == '0' && (word[1] == 'f' || word[1] == 'd'))
		*ret_number = strtoull(word + 2, &end, 16);
	else
		*ret_number = strtoull(word, &end, 0);
	if (minus)
		*ret_number = -*ret_number;
	return *end == '\0';
}

static bool take_register(struct line *l, struct ptx_kernel *k,
			  uint32_t *ret_reg)
{
	char word[PTX_WORD];

	return take_word(l, word) && find(k->reg, k->n_regs, word, ret_reg);
}

static bool take_bracket(struct line *l, struct ptx_kernel *k,
			 struct ptx_operand *o)
{
	char word[PTX_WORD];

	if (!take_word(l, word))
		return false;
	if (find(k->param, k->n_params, word, &o->reg)) {
		o->kind = PTX_PARAM;
		return take(l, ']');
	}
	o->kind = PTX_MEMORY;
	if (!find(k->reg, k->n_regs, word, &o->reg))
		return false;
	if (take(l, '+') && !take_number(l, &o->number))
		return false;
	return take(l, ']');
}

static bool take_name(struct line *l, struct ptx_kernel *k,
		      struct ptx_operand *o)
{
	static char specials[][PTX_WORD] = { "%tid", "%ntid", "%ctaid",
					     "%nctaid" };
	char word[PTX_WORD], x[PTX_WORD];

	if (!take_word(l, word))
		return false;
	if (find(k->reg, k->n_regs, word, &o->reg)) {
		o->kind = PTX_REGISTER;
		return true;
	}
	if (find(specials, N_OF(specials), word, &o->reg)) {
		o->kind = PTX_SPECIAL;
		return take(l, '.') && take_word(l, x) && strcmp(x, "x") == 0;
	}
	o->kind = PTX_LABEL;
	return find(k->label, k->n_labels, word, &o->reg);
}

static bool take_operand(struct line *l, struct ptx_kernel *k,
			 struct ptx_operand *o)
{
	skip_blanks(l);
	if (take(l, '['))
		return take_bracket(l, k, o);
	if (take(l, '{')) {
		o->kind = PTX_PAIR;
		return take_register(l, k, &o->reg) && take(l, ',') &&
		       take_register(l, k, &o->high) && take(l, '}');
	}
	if (l->at < l->end &&
	    (*l->at == '-' || isdigit((unsigned char)*l->at))) {
		o->kind = PTX_NUMBER;
		return take_number(l, &o->number);
	}
	return take_name(l, k, o);
}

static bool take_instruction(struct line *l, struct ptx_kernel *k,
			     uint32_t number)
{
	struct ptx_instruction *in = &k->code[k->n_code];

	if (k->n_code == N_OF(k->code))
		return false;
	memset(in, 0, sizeof(*in));
	in->line = number;
	if (take(l, '@')) {
		in->guarded = true;
		if (!take_register(l, k, &in->guard))
			return false;
	}
	do {
		if (in->n_parts == PTX_PARTS ||
		    !take_word(l, in->part[in->n_parts++]))
			return false;
	} while (l->at < l->end && *l->at == '.' && l->at++);
	while (!take(l, ';')) {
		if (in->n_operands == N_OF(in->operand) ||
		    !take_operand(l, k, &in->operand[in->n_operands++]))
			return false;
		take(l, ',');
	}
	k->n_code++;
	return true;
}

/* ".reg .b64 dst, src;" */
static bool take_registers(struct line *l, struct ptx_kernel *k)
{
	char word[PTX_WORD];
	uint32_t bits;

	if (!take(l, '.') || !take_word(l, word))
		return false;
	bits = strcmp(word, "pred") == 0 ? 1 : (uint32_t)atoi(word + 1);
	while (!take(l, ';')) {
		if (!take_word(l, word))
			return false;
		k->bits[k->n_regs % N_OF(k->bits)] = bits;
		if (!add(k->reg, &k->n_regs, N_OF(k->reg), word))
			return false;
		take(l, ',');
	}
	return bits > 0;
}

static bool is_label(const struct line *l)
{
	return l->end > l->at + 1 && l->end[-1] == ':';
}

/*
 * One line, in the first pass for what it declares and in the second for what
 * it does.
 */
static bool read_line(struct line l, struct ptx_kernel *k, uint32_t number,
		      bool second)
{
	char word[PTX_WORD];
	uint32_t at;

	skip_blanks(&l);
	if (l.at == l.end || *l.at == '{' || *l.at == ')')
		return true;
	if (is_label(&l)) {
		if (!take_word(&l, word))
			return false;
		if (!second)
			return add(k->label, &k->n_labels, N_OF(k->label),
				   word);
		return find(k->label, k->n_labels, word, &at) &&
		       (k->target[at] = k->n_code, true);
	}
	if (*l.at != '.')
		return !second || take_instruction(&l, k, number);
	if (second)
		return true;
	l.at++;
	if (!take_word(&l, word))
		return false;
	if (strcmp(word, "reg") == 0)
		return take_registers(&l, k);
	/* ".param .u64 p_dst," */
	return strcmp(word, "param") == 0 && take(&l, '.') &&
	       take_word(&l, word) && take_word(&l, word) &&
	       add(k->param, &k->n_params, N_OF(k->param), word);
}

int ptx_parse(const char *text, const char *name, struct ptx_kernel *ret_kernel,
	      char *ret_why)
{
	char entry[64];
	const char *body;

	snprintf(entry, sizeof(entry), ".entry %s(\n", name);
	body = strstr(text, entry);
	if (!body) {
		snprintf(ret_why, PTX_WHY_BYTES, "no kernel %s", name);
		return -ENOENT;
	}
	body += strlen(entry);
	memset(ret_kernel, 0, sizeof(*ret_kernel));
	for (int pass = 0; pass < 2; pass++) {
		const char *at = body;

		for (uint32_t n = 1; *at && *at != '}'; n++) {
			struct line l = { at, at + strcspn(at, "\n") };

			if (!read_line(l, ret_kernel, n, pass == 1)) {
				snprintf(ret_why, PTX_WHY_BYTES,
					 "%s, line %u: cannot read \"%.*s\"",
					 name, n, (int)(l.end - l.at), l.at);
				return -EINVAL;
			}
			at = *l.end ? l.end + 1 : l.end;
		}
	}
	return 0;
}
