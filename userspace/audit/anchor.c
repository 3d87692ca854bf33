/* SPDX-License-Identifier: Apache-2.0 */
/* Anchors as text. Whether one holds is the verifier's business (verify.c). */
#include "audit/anchor.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "audit/checkpoint.h"
#include "base/fd.h"
#include "json/json.h"

enum { DIGITS_MAX = 18, JSON_DEPTH_MAX = 4 };

/* "20:0123...": SEQ:HEAD and nothing behind it. */
static bool parse_pair(const char *text, size_t len, struct audit_point *ret)
{
	char hex[DIGEST_HEX_MAX];
	uint64_t n = 0;
	size_t i = 0;

	for (; i < len && i < DIGITS_MAX && text[i] >= '0' && text[i] <= '9'; i++)
		n = n * 10 + (uint64_t)(text[i] - '0');
	if (i == 0 || (text[0] == '0' && i > 1) || len - i != 1 + 2 * DIGEST_LEN || text[i] != ':')
		return false;
	memcpy(hex, text + i + 1, 2 * DIGEST_LEN);
	hex[2 * DIGEST_LEN] = '\0';
	ret->sequence = n;
	return digest_unhex(hex, ret->link, DIGEST_LEN) == 0;
}

/* An earlier verification's answer: its last row and its head, of a chain it found good. */
static int parse_json(const char *text, size_t len, struct audit_point *ret, struct err *e)
{
	auto_json json_t *o = json_parse_strict(text, len, JSON_DEPTH_MAX, e);
	const json_t *last = json_object_get(o, "last");
	const char *head = json_string_value(json_object_get(o, "head"));

	if (!o)
		return -e->code;
	if (!json_is_integer(last) || json_integer_value(last) < 0 || !head ||
	    strlen(head) != 2 * DIGEST_LEN || digest_unhex(head, ret->link, DIGEST_LEN) < 0)
		return err_set(e, EINVAL, "no 'last' and 'head' of a verification in it");
	if (!json_is_true(json_object_get(o, "ok")))
		return err_set(e, EINVAL, "it is of a ledger that was not found good");
	ret->sequence = (uint64_t)json_integer_value(last);
	return 0;
}

int audit_anchor_parse(const char *text, size_t len, struct audit_point *ret, struct err *e)
{
	struct audit_point p;

	while (len && strchr(" \t\r\n", text[len - 1]) && text[len - 1])
		len--;
	if (!parse_pair(text, len, &p) && parse_json(text, len, &p, e) < 0)
		return err_wrap(e, "anchor");
	*ret = p;
	return 0;
}

int audit_anchor_read(const char *given, struct audit_point *ret, struct err *e)
{
	autofree char *text = NULL;
	size_t len;

	if (parse_pair(given, strlen(given), ret))
		return 0;
	if (fd_read_file(AT_FDCWD, given, AUDIT_ANCHOR_MAX, &text, &len, e) < 0)
		return err_set(e, EINVAL, "an anchor is SEQ:HEAD or a file of it, not '%.100s'",
			       given);
	return audit_anchor_parse(text, len, ret, e);
}

void audit_anchor_text(const struct audit_point *p, char ret[AUDIT_ANCHOR_TEXT])
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(p->link, DIGEST_LEN, hex);
	snprintf(ret, AUDIT_ANCHOR_TEXT, "%" PRIu64 ":%s", p->sequence, hex);
}
