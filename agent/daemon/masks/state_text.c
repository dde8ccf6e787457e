/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/daemon/masks/state_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent/common/name.h"
#include "agent/daemon/masks/validate.h"
#include "agent/daemon/state/field.h"
#include "agent/mask/mask.h"
#include "gpumap.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			     "abcdefghijklmnopqrstuvwxyz0123456789+/";

bool gm_mask_text_has_data(const struct gm_mask_image *image)
{
	return image->bytes != 0 && image->form == GPUMAP_MASK_LOADED &&
	       image->bytes <= GM_MASK_TEXT_DATA;
}

void gm_mask_text_name(const char *name, char ret_name[GM_STATE_NAME_BYTES])
{
	gm_state_text_escape(name, ret_name);
	strcat(ret_name, GM_STATE_MASK_SUFFIX);
}

/* ---- base64 -------------------------------------------------------------- */

static void put_data(FILE *to, const uint8_t *data, uint64_t bytes)
{
	char line[64];
	size_t n = 0;

	fputs("\"data\":\"", to);
	for (uint64_t i = 0; i < bytes; i += 3) {
		uint32_t left = bytes - i < 3 ? (uint32_t)(bytes - i) : 3;
		uint32_t word = (uint32_t)data[i] << 16;

		word |= left > 1 ? (uint32_t)data[i + 1] << 8 : 0;
		word |= left > 2 ? data[i + 2] : 0;
		for (uint32_t k = 0; k < 4; k++)
			line[n++] = k <= left
					    ? digits[word >> (18 - 6 * k) & 63]
					    : '=';
		if (n == sizeof(line)) {
			fwrite(line, 1, n, to);
			n = 0;
		}
	}
	fwrite(line, 1, n, to);
	fputs("\",\n", to);
}

/* There is one way only to write so many bytes.  Returns false for another. */
static bool get_data(const char *text, uint8_t *data, uint64_t bytes)
{
	uint8_t of[256];

	if (strlen(text) != (bytes + 2) / 3 * 4)
		return false;
	memset(of, 64, sizeof(of));
	for (uint8_t i = 0; i < 64; i++)
		of[(uint8_t)digits[i]] = i;
	for (uint64_t i = 0; i < bytes; i += 3, text += 4) {
		uint32_t left = bytes - i < 3 ? (uint32_t)(bytes - i) : 3;
		uint32_t word = 0;

		for (uint32_t k = 0; k < 4; k++) {
			uint8_t digit = of[(uint8_t)text[k]];

			if (k > left ? text[k] != '=' : digit == 64)
				return false;
			word |= k > left ? 0 : (uint32_t)digit << (18 - 6 * k);
		}
		if ((word & (0xffffffu >> (8 * left))) != 0 && left < 3)
			return false;
		for (uint32_t k = 0; k < left; k++)
			data[i + k] = (uint8_t)(word >> (16 - 8 * k));
	}
	return true;
}

/* ---- writing ------------------------------------------------------------- */

static void put_number(FILE *to, const char *key, uint64_t number)
{
	fprintf(to, "\"%s\":%" PRIu64 ",\n", key, number);
}

static void put_mask(FILE *to, const struct gm_mask_file *file)
{
	const struct gm_mask_image *image = &file->image;

	fputs("{\n", to);
	gm_state_text_put(to, "object", "mask");
	gm_state_text_put(to, "name", image->object.name);
	put_number(to, "owner_uid", image->object.owner_uid);
	put_number(to, "version", file->version);
	put_number(to, "published", image->object.published);
	put_number(to, "kind", image->kind);
	put_number(to, "form", image->form);
	put_number(to, "dtype", image->dtype);
	put_number(to, "tgt_len", image->tgt_len);
	put_number(to, "past_kv_len", image->past_kv_len);
	put_number(to, "sliding_window", image->sliding_window);
	put_number(to, "chunk_size", image->chunk_size);
	put_number(to, "bytes", image->bytes);
	fputs("\"shape\":[", to);
	for (uint32_t i = 0; i < image->rank; i++)
		fprintf(to, "%s[%" PRIu64 "]", i == 0 ? "" : ",",
			image->shape[i]);
	fputs("],\n", to);
	if (gm_mask_text_has_data(image))
		put_data(to, file->data, image->bytes);
	if (file->n_rows == 0) {
		gm_state_text_put(to, "map", image->map);
	} else {
		fputs("\"rows\":[", to);
		for (uint32_t i = 0; i < file->n_rows; i++) {
			fputs(i == 0 ? "\n" : ",\n", to);
			gm_state_text_put_uuid(to, file->uuids[i]);
		}
		fputs("],\n", to);
	}
	fprintf(to, "\"hash\":%" PRIu64 "\n}\n", image->hash);
}

int gm_mask_text_make(const struct gm_mask_file *file, char **ret_text,
		      size_t *ret_bytes)
{
	char *body = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&body, &bytes);

	if (to == NULL)
		return -ENOMEM;
	put_mask(to, file);
	return gm_state_text_frame(to, &body, &bytes, ret_text, ret_bytes);
}

/* ---- reading ------------------------------------------------------------- */

static uint32_t read_small(struct gm_fields *f, const char *key, uint64_t most)
{
	uint64_t number = gm_json_field_number(f, key);

	if (number > most)
		gm_json_field_refuse(f, key, "is too large");
	return (uint32_t)number;
}

static void read_head(struct gm_fields *f, const char *name,
		      struct gm_mask_file *file)
{
	struct gm_mask_image *image = &file->image;
	char want[GM_STATE_NAME_BYTES], why[GM_WHY_BYTES];

	gm_state_field_name(f, "name", image->object.name);
	if (f->r == 0 && gm_name_check(image->object.name, why) != 0)
		gm_json_field_refuse(f, "name", "cannot be one");
	if (f->r == 0)
		gm_mask_text_name(image->object.name, want);
	if (f->r == 0 && strcmp(want, name) != 0)
		gm_json_field_refuse(f, "name", "is not its file's");
	image->object.owner_uid = read_small(f, "owner_uid", UINT32_MAX);
	image->object.published = gm_json_field_number(f, "published");
	file->version = gm_json_field_number(f, "version");
	if (file->version == 0 || file->version >> (64 - GM_UNIT_BITS) != 0)
		gm_json_field_refuse(f, "version", "can be no mask's");
	image->kind = read_small(f, "kind", GPUMAP_MASK_CUSTOM);
	image->form = read_small(f, "form", GPUMAP_MASK_BIDIRECTIONAL_SLIDING);
	image->dtype = read_small(f, "dtype", GPUMAP_DTYPE_U64);
	image->tgt_len = gm_json_field_number(f, "tgt_len");
	image->past_kv_len = gm_json_field_number(f, "past_kv_len");
	image->sliding_window = gm_json_field_number(f, "sliding_window");
	image->chunk_size = gm_json_field_number(f, "chunk_size");
	image->bytes = gm_json_field_number(f, "bytes");
	image->hash = gm_json_field_number(f, "hash");
}

static void read_shape(struct gm_fields *f, struct gm_mask_image *image)
{
	const json_t *list = gm_json_field_list(f, "shape");
	size_t n = json_array_size(list);

	if (n > GM_MASK_RANK_MAX) {
		gm_json_field_refuse(f, "shape", "has too many dimensions");
		return;
	}
	image->rank = (uint32_t)n;
	for (size_t i = 0; i < n; i++)
		gm_json_field_tuple(f, "shape", list, i, &image->shape[i], 1);
}

static void read_rows(struct gm_fields *f, struct gm_mask_file *file)
{
	uint32_t n = gm_state_field_rows(f, "rows");

	if (n == 0)
		return;
	file->memory = calloc(n, sizeof(*file->uuids));
	if (file->memory == NULL) {
		f->r = gm_error_no_memory(f->err);
		return;
	}
	file->uuids = file->memory;
	file->n_rows = n;
	gm_state_field_uuids(f, "rows", file->uuids);
}

static void read_data(struct gm_fields *f, struct gm_mask_file *file)
{
	const char *text = gm_json_field_text(f, "data");

	if (text == NULL)
		return;
	/* As words, eight bytes at a time, the last with zeroes. */
	file->data = calloc(1, (file->image.bytes + 7) / 8 * 8);
	if (file->data == NULL)
		f->r = gm_error_no_memory(f->err);
	else if (!get_data(text, file->data, file->image.bytes))
		gm_json_field_refuse(f, "data",
				     "is not as many bytes in base64");
}

/* Does it make sense by itself, wherever it is to be? */
static void check(struct gm_fields *f, struct gm_mask_file *file)
{
	char why[GM_WHY_BYTES];
	uint64_t bytes = file->image.bytes;
	int ret = gm_mask_check_image(&file->image, UINT64_MAX, why);

	if (ret == 0 && file->image.bytes != bytes)
		ret = gm_why(why, -EINVAL, "its bytes are not its shape's");
	if (ret != 0)
		f->r = gm_error_set(f->err, -EPROTO, NULL, "%s", why);
}

static void read_mask(struct gm_fields *f, const char *name,
		      struct gm_mask_file *file)
{
	read_head(f, name, file);
	read_shape(f, &file->image);
	if (gm_json_field_given(f, "rows"))
		read_rows(f, file);
	else
		gm_state_field_name(f, "map", file->image.map);
	if (f->r == 0)
		check(f, file);
	if (f->r == 0 && gm_mask_text_has_data(&file->image))
		read_data(f, file);
}

int gm_mask_text_read(const char *name, const char *text, size_t bytes,
		      struct gm_mask_file *ret_file, char ret_why[GM_WHY_BYTES])
{
	struct gm_state_reading reading;
	struct gm_mask_file file = { .version = 0 };
	int ret = gm_state_reading_begin(&reading, text, bytes, ret_why);

	if (ret != 0)
		return ret;
	read_mask(&reading.fields, name, &file);
	ret = gm_state_reading_end(&reading, ret_why);
	if (ret == 0)
		*ret_file = file;
	else
		gm_mask_file_free(&file);
	return ret;
}

void gm_mask_file_free(struct gm_mask_file *file)
{
	free(file->memory);
	free(file->data);
	file->memory = NULL;
	file->uuids = NULL;
	file->data = NULL;
}
