/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strict door for JSON. Depth is counted before jansson sees a byte,
 * because its parser recurses. Does not know any body's meaning.
 */
#include "json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void json_start(void)
{
	size_t seed = 0;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		seed = 0; /* jansson then looks for a seed itself */
	json_object_seed(seed);
}

/* The deepest nesting of brackets outside strings. */
static unsigned depth_of(const char *buf, size_t len)
{
	unsigned depth = 0, deepest = 0;
	bool in_string = false;

	for (size_t i = 0; i < len; i++) {
		if (in_string) {
			if (buf[i] == '\\')
				i++;
			else if (buf[i] == '"')
				in_string = false;
			continue;
		}
		if (buf[i] == '"')
			in_string = true;
		else if (buf[i] == '{' || buf[i] == '[')
			deepest = ++depth > deepest ? depth : deepest;
		else if ((buf[i] == '}' || buf[i] == ']') && depth > 0)
			depth--;
	}
	return deepest;
}

json_t *json_parse_strict(const char *buf, size_t len, unsigned depth, struct err *e)
{
	json_error_t why;

	if (depth_of(buf, len) > depth) {
		err_set(e, EINVAL, "json: nested deeper than %u", depth);
		return NULL;
	}
	json_t *v = json_loadb(buf, len, JSON_REJECT_DUPLICATES, &why);
	if (!v) /* jansson's text may quote the input: its position is enough */
		err_set(e, json_error_code(&why) == json_error_out_of_memory ? ENOMEM : EINVAL,
			"json: malformed at byte %d", why.position);
	return v;
}

static const struct json_field *field_find(const struct json_field *fields, size_t n,
					   const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(fields[i].key, key) == 0)
			return &fields[i];
	return NULL;
}

static int read_string(const json_t *v, const struct json_field *f, void *at, struct err *e)
{
	size_t len = json_string_length(v);
	size_t max = f->max;

	if (!json_is_string(v))
		return err_set(e, EINVAL, "'%s' must be a string", f->key);
	if (f->want == FIELD_TEXT && (max == 0 || max > f->size - 1))
		max = f->size - 1;
	if (max && len > max)
		return err_set(e, EINVAL, "'%s' is longer than %zu bytes", f->key, max);
	if (f->want == FIELD_TEXT)
		memcpy(at, json_string_value(v), len + 1);
	else
		*(const char **)at = json_string_value(v);
	return 0;
}

static int read_number(const json_t *v, const struct json_field *f, void *at, struct err *e)
{
	json_int_t value = json_integer_value(v);
	uint64_t max = f->max ? f->max : f->want == FIELD_U32 ? UINT32_MAX : INT64_MAX;

	if (!json_is_integer(v))
		return err_set(e, EINVAL, "'%s' must be an integer", f->key);
	if (value < 0 && f->want != FIELD_I64)
		return err_set(e, EINVAL, "'%s' must not be negative", f->key);
	if (value > 0 && (uint64_t)value > max)
		return err_set(e, EINVAL, "'%s' is above %llu", f->key, (unsigned long long)max);
	if (f->want == FIELD_U32)
		*(uint32_t *)at = (uint32_t)value;
	else if (f->want == FIELD_U64)
		*(uint64_t *)at = (uint64_t)value;
	else
		*(int64_t *)at = value;
	return 0;
}

static int field_read(const json_t *v, const struct json_field *f, void *at, struct err *e)
{
	switch (f->want) {
	case FIELD_TEXT:
	case FIELD_PTR:
		return read_string(v, f, at, e);
	case FIELD_U64:
	case FIELD_U32:
	case FIELD_I64:
		return read_number(v, f, at, e);
	case FIELD_BOOL:
		if (!json_is_boolean(v))
			return err_set(e, EINVAL, "'%s' must be true or false", f->key);
		*(bool *)at = json_is_true(v);
		return 0;
	case FIELD_OBJECT:
	case FIELD_ARRAY:
	case FIELD_ANY:
		if (f->want == FIELD_OBJECT && !json_is_object(v))
			return err_set(e, EINVAL, "'%s' must be an object", f->key);
		if (f->want == FIELD_ARRAY && !json_is_array(v))
			return err_set(e, EINVAL, "'%s' must be an array", f->key);
		*(const json_t **)at = v;
		return 0;
	}
	return err_set(e, EINVAL, "'%s' has no kind", f->key);
}

int json_fields_read(const json_t *obj, const struct json_field *fields, size_t n, void *ret,
		     struct err *e)
{
	const char *key;
	json_t *v;

	if (!json_is_object(obj))
		return err_set(e, EINVAL, "not an object");
	json_object_foreach((json_t *)(uintptr_t)obj, key, v) {
		const struct json_field *f = field_find(fields, n, key);
		if (!f)
			return err_set(e, EINVAL, "unknown key '%.64s'", key);
		int rc = field_read(v, f, (char *)ret + f->offset, e);
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < n; i++)
		if ((fields[i].flags & FIELD_REQUIRED) && !json_object_get(obj, fields[i].key))
			return err_set(e, EINVAL, "'%s' is missing", fields[i].key);
	return 0;
}

int json_add_text(json_t *obj, const char *key, const char *text_or_null)
{
	return json_object_set_new(obj, key,
				   text_or_null ? json_string(text_or_null) : json_null());
}

int json_add_u64(json_t *obj, const char *key, uint64_t v)
{
	return v > INT64_MAX ? -1 : json_object_set_new(obj, key, json_integer((json_int_t)v));
}
