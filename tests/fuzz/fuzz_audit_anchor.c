/* SPDX-License-Identifier: Apache-2.0 */
/* An anchor of any bytes: what is taken is written back as one that means the same. */
#include <assert.h>
#include <string.h>

#include "audit/anchor.h"
#include "audit/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[AUDIT_ANCHOR_TEXT];
	struct audit_point p, again;
	struct err e;

	if (audit_anchor_parse((const char *)data, size, &p, &e) < 0)
		return 0;
	if (p.sequence > 999999999999999999)
		return 0; /* JSON says more than a person would write */
	audit_anchor_text(&p, text);
	assert(audit_anchor_parse(text, strlen(text), &again, &e) == 0);
	assert(again.sequence == p.sequence && !memcmp(again.link, p.link, DIGEST_LEN));
	return 0;
}
