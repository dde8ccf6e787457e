/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "tests/support/ptx.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/ptx_parse.h"

#define WARP  32u
#define STEPS 2000000u /* of one thread; more is a loop without an end */

struct thread {
	uint64_t reg[64];
	uint32_t at; /* instruction */
	bool ended;
	uint32_t tid, ctaid;
};

struct machine {
	const struct ptx_launch *launch;
	const struct ptx_kernel *kernel;
	struct thread thread[WARP];
	char *why;
};

static bool fault(struct machine *m, const struct ptx_instruction *in,
		  const char *what)
{
	snprintf(m->why, PTX_WHY_BYTES, "%s, line %u, %s.%s: %s",
		 m->launch->kernel, in->line, in->part[0],
		 in->part[in->n_parts - 1], what);
	return false;
}

/* ---- types and values --------------------------------------------------- */

/* The last part of an instruction's name: "u32" is 'u' and 32. */
struct type {
	char kind;
	uint32_t bits;
};

static struct type type_at(const struct ptx_instruction *in, uint32_t back)
{
	const char *text = in->part[in->n_parts - back];
	struct type t = { text[0], 0 };

	for (text++; *text >= '0' && *text <= '9'; text++)
		t.bits = t.bits * 10 + (uint32_t)(*text - '0');
	return t;
}

/* Most differ in the first letter, and there are many of them. */
static inline bool same(const char *a, const char *b)
{
	return *a == *b && strcmp(a, b) == 0;
}

static bool has_part(const struct ptx_instruction *in, const char *part)
{
	for (uint32_t i = 1; i < in->n_parts; i++) {
		if (same(in->part[i], part))
			return true;
	}
	return false;
}

static uint64_t cut(uint64_t value, uint32_t bits)
{
	return bits >= 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

static int64_t with_sign(uint64_t value, uint32_t bits)
{
	uint64_t sign = UINT64_C(1) << (bits - 1);

	return (int64_t)((cut(value, bits) ^ sign) - sign);
}

static float to_f32(uint64_t bits)
{
	uint32_t low = (uint32_t)bits;
	float f;

	memcpy(&f, &low, sizeof(f));
	return f;
}

static uint64_t from_f32(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(f));
	return bits;
}

static double to_f64(uint64_t bits)
{
	double f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint64_t from_f64(double f)
{
	uint64_t bits;

	memcpy(&bits, &f, sizeof(f));
	return bits;
}

static float half_to_f32(uint32_t h)
{
	float sign = h & 0x8000 ? -1.0f : 1.0f;
	uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;

	if (exponent == 31)
		return mantissa ? NAN : sign * INFINITY;
	if (exponent == 0)
		return sign * ldexpf((float)mantissa, -24);
	return sign * ldexpf((float)(mantissa + 1024), (int)exponent - 25);
}

/* By value: the distance between halves of this size, and rint(). */
static uint32_t f32_to_half(float f)
{
	uint32_t sign = signbit(f) ? 0x8000 : 0;
	double size = fabs((double)f);
	int exponent;

	if (isnan(f))
		return 0x7fff;
	if (size >= 65520.0)
		return sign | 0x7c00;
	if (size < 0x1p-14)
		return sign | (uint32_t)rint(ldexp(size, 24));
	frexp(size, &exponent); /* size is in [2^(e-1), 2^e) */
	return sign + (uint32_t)rint(ldexp(size, 11 - exponent)) - 1024u +
	       ((uint32_t)(exponent + 14) << 10);
}

/* ---- operands ----------------------------------------------------------- */

static uint64_t value_of(const struct machine *m, const struct thread *t,
			 const struct ptx_operand *o)
{
	switch (o->kind) {
	case PTX_REGISTER:
		return t->reg[o->reg];
	case PTX_PAIR:
		return cut(t->reg[o->reg], 32) | t->reg[o->high] << 32;
	case PTX_PARAM:
		return m->launch->params[o->reg];
	case PTX_SPECIAL:
		switch (o->reg) {
		case PTX_TID:
			return t->tid;
		case PTX_NTID:
			return m->launch->threads;
		case PTX_CTAID:
			return t->ctaid;
		default:
			return m->launch->blocks;
		}
	default:
		return o->number;
	}
}

static uint64_t operand(const struct machine *m, const struct thread *t,
			const struct ptx_instruction *in, uint32_t i)
{
	return value_of(m, t, &in->operand[i]);
}

static void set(const struct machine *m, struct thread *t,
		const struct ptx_operand *o, uint64_t value)
{
	if (o->kind == PTX_PAIR) {
		t->reg[o->reg] = cut(value, 32);
		t->reg[o->high] = value >> 32;
	} else {
		t->reg[o->reg] = cut(value, m->kernel->bits[o->reg]);
	}
}

/* ---- memory ------------------------------------------------------------- */

static void *memory(struct machine *m, const struct thread *t,
		    const struct ptx_instruction *in,
		    const struct ptx_operand *o, uint32_t bytes, bool write)
{
	uint64_t address = t->reg[o->reg] + o->number;

	if (address % bytes) {
		fault(m, in, "a misaligned address");
		return NULL;
	}
	for (uint32_t i = 0; i < m->launch->n_spans; i++) {
		const struct ptx_span *span = &m->launch->spans[i];
		uint64_t start = (uint64_t)(uintptr_t)span->start;

		if (address >= start && span->bytes >= bytes &&
		    address - start <= span->bytes - bytes &&
		    (!write || span->writable))
			return (void *)(uintptr_t)address;
	}
	fault(m, in, "an address that is not the launch's");
	return NULL;
}

static bool load(struct machine *m, struct thread *t,
		 const struct ptx_instruction *in)
{
	struct type type = type_at(in, 1);
	uint64_t value = 0;
	const void *from;

	if (in->operand[1].kind == PTX_PARAM) {
		value = operand(m, t, in, 1);
	} else {
		from = memory(m, t, in, &in->operand[1], type.bits / 8, false);
		if (!from)
			return false;
		memcpy(&value, from, type.bits / 8);
	}
	if (type.kind == 's')
		value = (uint64_t)with_sign(value, type.bits);
	set(m, t, &in->operand[0], value);
	return true;
}

static bool store(struct machine *m, struct thread *t,
		  const struct ptx_instruction *in)
{
	struct type type = type_at(in, 1);
	uint32_t bytes = type.bits / 8;
	const struct ptx_operand *from = &in->operand[1];
	uint64_t values[2] = { 0, 0 };
	uint32_t n = has_part(in, "v2") ? 2 : 1;
	void *to = memory(m, t, in, &in->operand[0], n * bytes, true);

	if (!to)
		return false;
	values[0] = t->reg[from->reg];
	if (n == 2)
		values[1] = t->reg[from->high];
	for (uint32_t i = 0; i < n; i++)
		memcpy((char *)to + i * bytes, &values[i], bytes);
	return true;
}

/* ---- arithmetic --------------------------------------------------------- */

static bool float_result(const struct ptx_instruction *in, struct type type,
			 uint64_t a, uint64_t b, uint64_t *ret)
{
	/* Without .rn a compiler may fuse, and the result is not known. */
	if (!has_part(in, "rn"))
		return false;
	if (type.bits == 32) {
		volatile float x = to_f32(a), y = to_f32(b);
		volatile float z = same(in->part[0], "add") ? x + y : x * y;

		*ret = from_f32(z);
	} else {
		volatile double x = to_f64(a), y = to_f64(b);
		volatile double z = same(in->part[0], "add") ? x + y : x * y;

		*ret = from_f64(z);
	}
	return true;
}

static bool two_to_one(const struct ptx_instruction *in, uint64_t a, uint64_t b,
		       uint64_t *ret)
{
	struct type type = type_at(in, 1);
	const char *op = in->part[0];
	bool less = type.kind == 's'
			    ? with_sign(a, type.bits) < with_sign(b, type.bits)
			    : cut(a, type.bits) < cut(b, type.bits);

	if (type.kind == 'f')
		return (same(op, "add") || same(op, "mul")) &&
		       float_result(in, type, a, b, ret);
	if (same(op, "add"))
		*ret = a + b;
	else if (same(op, "sub"))
		*ret = a - b;
	else if (same(op, "mul") && has_part(in, "wide"))
		*ret = cut(a, type.bits) * cut(b, type.bits);
	else if (same(op, "and"))
		*ret = a & b;
	else if (same(op, "or"))
		*ret = a | b;
	else if (same(op, "xor"))
		*ret = a ^ b;
	else if (same(op, "min"))
		*ret = less ? a : b;
	else if (same(op, "max"))
		*ret = less ? b : a;
	else if (same(op, "rem") && b)
		*ret = a % b;
	else
		return false;
	if (!has_part(in, "wide"))
		*ret = cut(*ret, type.bits);
	return true;
}

/* Amounts are not taken modulo the width, as C's compilers would. */
static uint64_t shifted(const struct ptx_instruction *in, uint64_t a,
			uint64_t by)
{
	struct type type = type_at(in, 1);
	bool far = cut(by, 32) >= type.bits;

	if (same(in->part[0], "shl"))
		return far ? 0 : cut(a << by, type.bits);
	if (type.kind == 's')
		return cut((uint64_t)(with_sign(a, type.bits) >>
				      (far ? type.bits - 1 : by)),
			   type.bits);
	return far ? 0 : cut(a, type.bits) >> by;
}

static bool converted(const struct ptx_instruction *in, uint64_t a,
		      uint64_t *ret)
{
	struct type to = type_at(in, 2), from = type_at(in, 1);

	if (to.kind == 'f' && from.kind == 'f') {
		if (to.bits == 32 && from.bits == 16)
			*ret = from_f32(half_to_f32((uint32_t)a));
		else if (to.bits == 16 && has_part(in, "rn"))
			*ret = f32_to_half(to_f32(a));
		else
			return false;
		return true;
	}
	if (to.kind == 'f' || from.kind == 'f')
		return false;
	*ret = from.kind == 's' ? (uint64_t)with_sign(a, from.bits)
				: cut(a, from.bits);
	return true;
}

static bool compared(const struct ptx_instruction *in, uint64_t a, uint64_t b,
		     uint64_t *ret)
{
	struct type type = type_at(in, 1);
	const char *how = in->part[1];

	if (type.kind != 'u')
		return false;
	a = cut(a, type.bits);
	b = cut(b, type.bits);
	if (same(how, "ge"))
		*ret = a >= b;
	else if (same(how, "gt"))
		*ret = a > b;
	else if (same(how, "lt"))
		*ret = a < b;
	else if (same(how, "ne"))
		*ret = a != b;
	else
		return false;
	return true;
}

static bool compute(const struct machine *m, const struct thread *t,
		    const struct ptx_instruction *in, uint64_t *ret)
{
	const char *op = in->part[0];
	uint64_t a = operand(m, t, in, 1), b = operand(m, t, in, 2);
	uint64_t c = operand(m, t, in, 3);

	if (same(op, "mov"))
		*ret = a;
	else if (same(op, "neg"))
		*ret = -a;
	else if (same(op, "mad") && has_part(in, "lo"))
		*ret = a * b + c;
	else if (same(op, "shl") || same(op, "shr"))
		*ret = shifted(in, a, b);
	else if (same(op, "selp"))
		*ret = c ? a : b;
	else if (same(op, "setp"))
		return compared(in, a, b, ret);
	else if (same(op, "cvt"))
		return converted(in, a, ret);
	else
		return two_to_one(in, a, b, ret);
	return true;
}

/* ---- threads and warps -------------------------------------------------- */

static bool is_exchange(const struct ptx_instruction *in)
{
	return same(in->part[0], "shfl") || same(in->part[0], "bar");
}

/* One instruction that concerns this thread alone. */
static bool step(struct machine *m, struct thread *t,
		 const struct ptx_instruction *in)
{
	uint64_t value;

	t->at++;
	if (in->guarded && !t->reg[in->guard])
		return true;
	if (same(in->part[0], "bra")) {
		t->at = m->kernel->target[in->operand[0].reg];
		return true;
	}
	if (same(in->part[0], "ret")) {
		t->ended = true;
		return true;
	}
	if (same(in->part[0], "ld"))
		return load(m, t, in);
	if (same(in->part[0], "st"))
		return store(m, t, in);
	if (!compute(m, t, in, &value))
		return fault(m, in, "not understood");
	set(m, t, &in->operand[0], value);
	return true;
}

/* To the next exchange, or the end. */
static bool advance(struct machine *m, struct thread *t)
{
	for (uint32_t steps = 0; steps < STEPS; steps++) {
		const struct ptx_instruction *in = &m->kernel->code[t->at];

		if (t->at >= m->kernel->n_code) {
			snprintf(m->why, PTX_WHY_BYTES, "%s runs past its end",
				 m->launch->kernel);
			return false;
		}
		if (is_exchange(in))
			return true;
		if (!step(m, t, in))
			return false;
		if (t->ended)
			return true;
	}
	return fault(m, &m->kernel->code[t->at], "no end in sight");
}

/* "shfl.sync.bfly.b32 to, from, mask, 31, -1;" of all lanes at once. */
static bool exchange(struct machine *m, const struct ptx_instruction *in)
{
	uint64_t given[WARP];
	uint32_t lane;

	if (same(in->part[0], "bar"))
		return true;
	if (!has_part(in, "bfly") || operand(m, m->thread, in, 3) != 31 ||
	    (uint32_t)operand(m, m->thread, in, 4) != UINT32_MAX)
		return fault(m, in, "not understood");
	lane = (uint32_t)operand(m, m->thread, in, 2) % WARP;
	for (uint32_t i = 0; i < WARP; i++)
		given[i] = operand(m, &m->thread[i], in, 1);
	for (uint32_t i = 0; i < WARP; i++)
		set(m, &m->thread[i], &in->operand[0], given[i ^ lane]);
	return true;
}

static bool run_warp(struct machine *m)
{
	struct thread *first = &m->thread[0];

	for (;;) {
		for (uint32_t i = 0; i < WARP; i++) {
			struct thread *t = &m->thread[i];

			if (!advance(m, t))
				return false;
			if (t->ended != first->ended ||
			    (!t->ended && t->at != first->at))
				return fault(m, &m->kernel->code[first->at],
					     "the warp is not together");
		}
		if (first->ended)
			return true;
		if (!exchange(m, &m->kernel->code[first->at]))
			return false;
		for (uint32_t i = 0; i < WARP; i++)
			m->thread[i].at++;
	}
}

int ptx_run(const struct ptx_launch *launch, char *ret_why)
{
	static struct ptx_kernel kernel;
	static struct machine m;
	int rc = ptx_parse(launch->text, launch->kernel, &kernel, ret_why);

	if (rc < 0)
		return rc;
	if (kernel.n_params != launch->n_params || launch->threads % WARP) {
		snprintf(ret_why, PTX_WHY_BYTES, "%s has %u parameters",
			 launch->kernel, kernel.n_params);
		return -EINVAL;
	}
	for (uint32_t at = 0; at < launch->blocks * launch->threads;
	     at += WARP) {
		memset(&m, 0, sizeof(m));
		m.launch = launch;
		m.kernel = &kernel;
		m.why = ret_why;
		for (uint32_t i = 0; i < WARP; i++) {
			/* A read of memory that was never written must show. */
			memset(m.thread[i].reg, 0xa5, sizeof(m.thread[i].reg));
			m.thread[i].tid = (at + i) % launch->threads;
			m.thread[i].ctaid = at / launch->threads;
		}
		if (!run_warp(&m))
			return -EFAULT;
	}
	return 0;
}
