/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/validate.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "agent/daemon/base/memfd.h"
#include "agent/daemon/base/parts.h"
#include "agent/daemon/config.h"
#include "agent/daemon/devices/rows.h"
#include "agent/daemon/segment/directory.h"
#include "agent/daemon/segment/segment.h"
#include "agent/daemon/sessions/register.h"
#include "gpumap.h"
#include "lib/model/plan/size_text.h"
#include "shm/layers.h"

_Static_assert(GPUMAP_MASK_RANK_MAX == GM_MASK_RANK_MAX, "one tensor");
_Static_assert(GPUMAP_MASK_CAUSAL == GM_MASK_CAUSAL + 1 &&
		       GPUMAP_MASK_SLIDING == GM_MASK_SLIDING + 1 &&
		       GPUMAP_MASK_CHUNKED == GM_MASK_CHUNKED + 1 &&
		       GPUMAP_MASK_BIDIRECTIONAL_SLIDING ==
			       GM_MASK_BIDIRECTIONAL_SLIDING + 1,
	       "forms are counted alike");

/* ---- what it is ---------------------------------------------------------- */

struct gm_mask_spec gm_mask_check_spec(const struct gm_mask_image *image)
{
	return (struct gm_mask_spec){
		.form = (enum gm_mask_form)(image->form - 1),
		.tgt_len = image->tgt_len,
		.past_kv_len = image->past_kv_len,
		.sliding_window = image->sliding_window,
		.chunk_size = image->chunk_size,
	};
}

/* The largest mask of a node, beside the header. */
static uint64_t limit_of(const struct gm_connection *c)
{
	const struct gm_config *config = c->server->d->config;
	uint64_t all =
		config->mask_bytes / GM_SPAN_UNIT * GM_SPAN_UNIT - GM_SPAN_UNIT;

	return gm_user_is_privileged(c->uid) || config->mask_bytes_per_uid > all
		       ? all
		       : config->mask_bytes_per_uid;
}

static void put_strides(struct gm_mask_image *image, uint64_t element)
{
	for (uint32_t i = image->rank; i-- > 0;) {
		image->strides[i] = element;
		element *= image->shape[i];
	}
}

static int check_generated(struct gm_mask_image *image, uint64_t limit,
			   char *ret_why)
{
	const struct gm_mask_spec spec = gm_mask_check_spec(image);
	struct gm_mask_size size;
	struct gm_plan_error error = { .text = "" };
	int ret = gm_mask_check(&spec, image->dtype, limit, &size, &error);

	if (ret != 0) {
		gm_error_explain(&error, ret_why, GM_WHY_BYTES);
		return ret;
	}
	if (size.bytes == 0)
		return gm_why(ret_why, -EINVAL,
			      "a mask without queries has nothing to "
			      "publish: tgt_len is at least 1");
	memset(image->shape, 0, sizeof(image->shape));
	image->rank = 2;
	image->shape[0] = size.rows;
	image->shape[1] = size.cols;
	image->bytes = size.bytes;
	put_strides(image, gm_mask_dtype_bytes(image->dtype));
	return 0;
}

static int check_loaded(struct gm_mask_image *image, uint64_t limit,
			char *ret_why)
{
	uint64_t bytes = gm_mask_dtype_bytes(image->dtype);

	if (bytes == 0)
		return gm_why(ret_why, -EINVAL,
			      "no mask can be of dtype %u: u8, f16, bf16 and "
			      "f32 can",
			      image->dtype);
	if (image->rank == 0 || image->rank > GM_MASK_RANK_MAX)
		return gm_why(ret_why, -EINVAL,
			      "rank %u: a mask has 1 to %u dimensions",
			      image->rank, GM_MASK_RANK_MAX);
	for (uint32_t i = 0; i < GM_MASK_RANK_MAX; i++) {
		if ((image->shape[i] == 0) != (i >= image->rank))
			return gm_why(ret_why, -EINVAL,
				      "dimension %u has %" PRIu64
				      " elements, and rank is %u",
				      i, image->shape[i], image->rank);
		if (i < image->rank &&
		    __builtin_mul_overflow(bytes, image->shape[i], &bytes))
			return gm_why(ret_why, -EOVERFLOW,
				      "a mask of 2^64 bytes or more");
	}
	if (bytes > limit)
		return gm_why(
			ret_why, -EFBIG,
			"the mask has %s, and masks here have at most %s: "
			"see bytes-per-uid in [masks] of gpumapd.conf",
			gm_size_up(bytes).text, gm_size_down(limit).text);
	image->bytes = bytes;
	put_strides(image, gm_mask_dtype_bytes(image->dtype));
	return 0;
}

int gm_mask_check_image(struct gm_mask_image *image, uint64_t limit,
			char ret_why[GM_WHY_BYTES])
{
	if (image->kind < GPUMAP_MASK_NONE || image->kind > GPUMAP_MASK_CUSTOM)
		return gm_why(ret_why, -EINVAL, "kind %u of masks is not known",
			      image->kind);
	if (image->form > GPUMAP_MASK_BIDIRECTIONAL_SLIDING)
		return gm_why(ret_why, -EINVAL, "form %u of masks is not known",
			      image->form);
	image->bytes = 0;
	if (image->kind != GPUMAP_MASK_CUSTOM)
		return 0;
	return image->form == GPUMAP_MASK_LOADED
		       ? check_loaded(image, limit, ret_why)
		       : check_generated(image, limit, ret_why);
}

static int check_tensor(struct gm_connection *c,
			const struct gm_mask_image *image, uint64_t at)
{
	uint64_t end;
	int ret;

	if (c->fd < 0)
		return gm_connection_bad(c, -EINVAL,
					 "a loaded mask comes with a memfd");
	if (__builtin_add_overflow(at, image->bytes, &end))
		return gm_connection_bad(c, -EOVERFLOW, "at is too large");
	ret = gm_memfd_check(c->fd, 0, end, false, c->server->why);
	return ret == 0 ? gm_memfd_check_fixed(c->fd, "the tensor",
					       c->server->why)
			: ret;
}

static int check_kind(struct gm_connection *c, const struct gm_mask_publish *p,
		      struct gm_mask_image *image)
{
	bool is_loaded =
		p->kind == GPUMAP_MASK_CUSTOM && p->form == GPUMAP_MASK_LOADED;
	int ret = gm_mask_check_image(image, limit_of(c), c->server->why);

	if (ret != 0)
		return ret;
	if (p->kind != GPUMAP_MASK_CUSTOM &&
	    (c->fd >= 0 || p->form != 0 || p->rank != 0))
		return gm_connection_bad(c, -EINVAL,
					 "a mask of kind %u has no "
					 "tensor",
					 p->kind);
	if (is_loaded)
		return check_tensor(c, image, p->at);
	if (c->fd >= 0 || p->rank != 0)
		return gm_connection_bad(c, -EINVAL,
					 "a mask is generated or loaded, not "
					 "both");
	return 0;
}

static int take_rows(struct gm_connection *c, const struct gm_request *r,
		     uint32_t n, struct gm_masks_rows *rows)
{
	if (n > GM_ROWS || r->tail_bytes != n * sizeof(rows->of[0]))
		return gm_connection_bad(c, -EINVAL,
					 "%u rows; a list has at most %u, each "
					 "once",
					 n, GM_ROWS);
	rows->n = n;
	if (n > 0)
		memcpy(rows->of, r->tail, r->tail_bytes);
	return 0;
}

int gm_mask_check_request(struct gm_connection *c, const struct gm_request *r,
			  struct gm_mask_image *ret_image,
			  struct gm_masks_rows *ret_rows, uint64_t *ret_at)
{
	struct gm_mask_image image = { .kind = 0 };
	struct gm_mask_publish p;
	int ret;

	memcpy(&p, r->body, sizeof(p));
	if (memchr(p.name, '\0', sizeof(p.name)) == NULL ||
	    memchr(p.map, '\0', sizeof(p.map)) == NULL || p.reserved != 0 ||
	    (p.map[0] != '\0') != (p.n_rows == 0))
		return gm_connection_bad(c, -EINVAL,
					 "a mask is for the rows of a map, or "
					 "for a list of rows: name one of the "
					 "two");
	image.object.owner_uid = c->uid;
	memcpy(image.object.name, p.name, strlen(p.name));
	memcpy(image.map, p.map, strlen(p.map));
	image.kind = p.kind;
	image.form = p.form;
	image.dtype = p.dtype;
	image.rank = p.rank;
	memcpy(image.shape, p.shape, sizeof(image.shape));
	image.tgt_len = p.tgt_len;
	image.past_kv_len = p.past_kv_len;
	image.sliding_window = p.sliding_window;
	image.chunk_size = p.chunk_size;
	ret = check_kind(c, &p, &image);
	if (ret == 0)
		ret = take_rows(c, r, p.n_rows, ret_rows);
	if (ret != 0)
		return ret;
	*ret_image = image;
	*ret_at = p.at;
	return 0;
}

/* ---- for whom ------------------------------------------------------------ */

static int rows_of_map(const struct gm_daemon *d, const char *map,
		       struct gm_masks_rows *rows, char *ret_why)
{
	const struct gm_block *block =
		gm_directory_find(d, GM_KIND_LAYERS, map);
	gm_a64 slot =
		block != NULL ? gm_seq_word(block->version, block->unit) : 0;
	struct gm_layers_image image;
	struct gm_object object;

	if (block == NULL)
		return gm_why(ret_why, -ENOENT, "no layer map is called %s",
			      map);
	if (gm_object_open(&d->segment->map, &slot, &object) != 0 ||
	    gm_layers_image(&object, &image) != 0)
		return gm_why(ret_why, -EPROTO, "map %s is damaged", map);
	rows->n = image.n_rows;
	for (uint32_t i = 0; i < image.n_rows; i++) {
		struct gm_charge_image charge;

		gm_object_read(&object, image.charges_at + i * sizeof(charge),
			       &charge, sizeof(charge));
		rows->of[i] = charge.row;
	}
	return 0;
}

static const char *why_not(const struct gm_row_image *facts)
{
	if ((facts->flags & GPUMAP_DEVICE_SERVES) == 0)
		return "is a dummy row, which holds no data";
	if ((facts->flags & GPUMAP_DEVICE_EXPORTS) == 0)
		return "is of a card whose memory is nobody else's to read";
	if ((facts->flags & GPUMAP_DEVICE_MAPPED) != 0 &&
	    (facts->numa_node < 0 || (uint32_t)facts->numa_node >= GM_NODES))
		return "is of a host whose NUMA node is not known";
	return NULL;
}

int gm_mask_check_rows(const struct gm_daemon *d, const char *map,
		       bool has_tensor, struct gm_masks_rows *rows,
		       char ret_why[GM_WHY_BYTES])
{
	uint64_t seen[GM_ROWS / 64] = { 0 };
	uint32_t n = 0;
	int ret = map[0] != '\0' ? rows_of_map(d, map, rows, ret_why) : 0;

	if (ret != 0)
		return ret;
	for (uint32_t i = 0; i < rows->n; i++) {
		uint32_t row = rows->of[i];
		const char *why;
		uint64_t bit;

		if (row >= d->devices->n)
			return gm_why(ret_why, -ENODEV,
				      "there is no row %u: gpumapctl devices "
				      "lists them",
				      row);
		bit = UINT64_C(1) << row % 64;
		if ((seen[row / 64] & bit) != 0)
			return gm_why(ret_why, -EINVAL,
				      "row %u is in the list twice", row);
		seen[row / 64] |= bit;
		why = has_tensor ? why_not(&d->devices->of[row]->facts) : NULL;
		if (why != NULL && map[0] == '\0')
			return gm_why(ret_why, -EOPNOTSUPP,
				      "row %u %s: take it off the list", row,
				      why);
		if (why == NULL)
			rows->of[n++] = row;
	}
	rows->n = n;
	if (n > 0)
		return 0;
	return gm_why(ret_why, -EOPNOTSUPP,
		      "map %s has dummy rows alone, which hold no data", map);
}
