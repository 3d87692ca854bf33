/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_JSON_JSON_H
#define CORDON_JSON_JSON_H

/*
 * JSON from outside, strict: jansson with duplicate keys, trailing bytes, a
 * BOM, invalid UTF-8, \u0000, unrepresentable numbers and deep nesting
 * refused. A table says what an object may hold; anything else is an error.
 */
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/scope.h"

enum { JSON_DEPTH = 8 }; /* enough for every body of the API */

static inline void json_cleanup(json_t **p)
{
	json_decref(*p);
}
/* auto_json json_t *v = NULL; */
#define auto_json __attribute__((cleanup(json_cleanup)))

/*
 * Seeds jansson's hashing from the kernel. Programs call it once, before they
 * confine themselves: jansson itself would open a device at its first object.
 */
void json_start(void);

/*
 * An object or array of at most @depth levels, or NULL with *e set (EINVAL,
 * ENOMEM). The caller owns the value (json_decref).
 */
json_t *json_parse_strict(const char *buf, size_t len, unsigned depth, struct err *e);

/*
 * Compact text of an object or array, in insertion order and with a NUL behind it; NULL: out of
 * memory, or nested deeper than 64. Caller frees. @ret_len may be NULL.
 */
char *json_dump_compact(const json_t *v, size_t *ret_len);

enum json_want {
	FIELD_TEXT = 1, /* string into char[size] */
	FIELD_PTR,	/* string into const char *, borrowed from the object */
	FIELD_U64,	/* integer >= 0 into uint64_t */
	FIELD_U32,	/* integer >= 0 into uint32_t */
	FIELD_I64,	/* integer into int64_t */
	FIELD_BOOL,	/* into bool */
	FIELD_OBJECT,	/* const json_t *, borrowed from the object */
	FIELD_ARRAY,
	FIELD_ANY, /* also null */
};

enum { FIELD_REQUIRED = 1u << 0 };

struct json_field {
	const char *key;
	enum json_want want;
	unsigned flags;
	size_t offset; /* of the member in the struct read into */
	size_t size;   /* of the member */
	uint64_t max;  /* strings: bytes; numbers: value; 0: what the member holds */
};

/* FIELD(struct request, cwd, "cwd", FIELD_TEXT, 0, 0) */
#define FIELD(type, member, name, kind, bits, most) \
	{ name, kind, bits, offsetof(type, member), sizeof(((type *)0)->member), most }

/*
 * Reads @obj by the table into *ret. Absent optional members stay as they
 * were. A key that is not in the table, a wrong type, a string too long, a
 * number out of range and an absent required key are -EINVAL, @e naming the key.
 */
int json_fields_read(const json_t *obj, const struct json_field *fields, size_t n, void *ret,
		     struct err *e);

/*
 * Adds a member; a NULL text is null. Failure (out of memory, invalid UTF-8)
 * is remembered by the return value only: 0 or -1, as jansson's.
 */
int json_add_text(json_t *obj, const char *key, const char *text_or_null);
int json_add_u64(json_t *obj, const char *key, uint64_t v);

#endif
