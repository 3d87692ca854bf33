/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_AUDIT_ANCHOR_H
#define CORDON_AUDIT_ANCHOR_H

/*
 * An exported anchor (A5): where a chain had come to, kept where neither
 * database nor checkpoint can be restored. Written as SEQ:HEAD, or as the line
 * of JSON that `cordon audit verify --json` printed.
 */
#include "audit/row.h"
#include "base/err.h"

enum {
	AUDIT_ANCHOR_MAX = 16 * 1024, /* of a file */
	AUDIT_ANCHOR_TEXT = 24 + DIGEST_HEX_MAX,
};

struct audit_point;

/* -EINVAL: neither. White space at the end is fine. */
int audit_anchor_parse(const char *text, size_t len, struct audit_point *ret, struct err *e);

/* What a person gave: SEQ:HEAD itself, else the name of a file that holds an anchor. */
int audit_anchor_read(const char *given, struct audit_point *ret, struct err *e);

/* As SEQ:HEAD. */
void audit_anchor_text(const struct audit_point *p, char ret[AUDIT_ANCHOR_TEXT]);

#endif
