/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row message of any bytes: what is admitted is JSON to the general reader
 * too, means the same, and holds nothing but what the contract lists.
 */
#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "audit/row.h"
#include "json/json.h"
#include "ledger/admit.h"
#include "ledger/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same_text(const json_t *o, const char *key, const char *s)
{
	const json_t *v = json_object_get(o, key);

	assert(s ? json_is_string(v) && !strcmp(json_string_value(v), s) : !v || json_is_null(v));
}

static void check_row(const json_t *body, const struct admitted *a)
{
	const json_t *row = json_object_get(body, "row"), *meta = json_object_get(row, "metadata");
	char text[AUDIT_METADATA_MAX];
	struct err e;

	assert(json_object_size(row) == 6 && json_object_size(meta) == AUDIT_METADATA_KEYS);
	same_text(row, "organizationId", a->organization);
	same_text(row, "actorPrincipalId", a->actor);
	same_text(row, "resourceId", a->job);
	same_text(row, "runId", a->run);
	same_text(meta, "cwd", a->meta.cwd);
	same_text(meta, "reason", a->meta.reason);
	int n = audit_metadata_render(&a->meta, text, sizeof(text));
	assert(n > 0);
	auto_json json_t *again = json_parse_strict(text, (size_t)n, 2, &e);
	assert(again && json_equal(again, (json_t *)(uintptr_t)meta));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct row_message m;
	struct err e = { 0 };

	if (!text || size > 64 * 1024) {
		free(text);
		return 0;
	}
	memcpy(text, data, size);
	text[size] = '\0';
	int rc = admit_row_message(text, size, &m, &e);
	if (rc == 0) {
		auto_json json_t *body = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
		assert(body);
		check_row(body, &m.row);
		same_text(body, "commandId", m.command_id);
		same_text(body, "envelope", m.envelope);
		if (m.receipt_to) {
			auto_json json_t *r = json_loadb((const char *)data + m.receipt_from,
							 m.receipt_to - m.receipt_from,
							 JSON_REJECT_DUPLICATES, NULL);
			assert(r && json_equal(r, json_object_get(body, "receipt")));
		}
	} else {
		assert(rc == -EINVAL && e.msg[0]);
	}
	free(text);
	return 0;
}
