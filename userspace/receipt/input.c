/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digests that go into a receipt: what was run, and the egress policy that
 * was in force. Hashes piece by piece, so that standard input may stream.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "receipt/receipt.h"

struct digest *receipt_input_new(uint32_t argc, const void *blob, size_t blob_len)
{
	struct digest *d = digest_new();
	char count[16];
	int n = snprintf(count, sizeof(count), "%" PRIu32, argc);

	if (d) {
		digest_add(d, count, (size_t)n + 1); /* with its NUL */
		digest_add(d, blob, blob_len);
	}
	return d;
}

int receipt_input(const char *const *argv, size_t argc, const void *in, size_t in_len,
		  uint8_t ret[DIGEST_LEN], struct err *e)
{
	auto_(digest) d = receipt_input_new((uint32_t)argc, "", 0);

	if (!d)
		return err_set(e, ENOMEM, "receipt: out of memory");
	for (size_t i = 0; i < argc; i++)
		digest_add(d, argv[i], strlen(argv[i]) + 1);
	digest_add(d, in, in_len);
	digest_end(d, ret);
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The canonical JSON; jansson keeps insertion order. */
static json_t *egress_json(const char *tier, const char *const *sorted, size_t n, uint64_t max_bytes)
{
	json_t *v = json_object(), *hosts = json_array();
	int bad = !v || !hosts || json_add_text(v, "tier", tier);

	for (size_t i = 0; i < n && !bad; i++)
		bad = json_array_append_new(hosts, json_string(sorted[i]));
	if (json_object_set_new(v, "hosts", hosts))
		bad = 1;
	if (max_bytes)
		bad |= json_add_u64(v, "maxBytes", max_bytes);
	else
		bad |= json_add_text(v, "maxBytes", NULL);
	if (bad) {
		json_decref(v);
		v = NULL;
	}
	return v;
}

int receipt_egress(const char *tier, const char *const *hosts, size_t nhosts, uint64_t max_bytes,
		   uint8_t ret[DIGEST_LEN], struct err *e)
{
	autofree const char **sorted = calloc(nhosts + 1, sizeof(*sorted));

	if (!sorted)
		return err_set(e, ENOMEM, "receipt: out of memory");
	if (nhosts)
		memcpy(sorted, hosts, nhosts * sizeof(*sorted));
	qsort(sorted, nhosts, sizeof(*sorted), by_bytes);
	auto_json json_t *v = egress_json(tier, sorted, nhosts, max_bytes);
	size_t len;
	autofree char *text = v ? json_dump_compact(v, &len) : NULL;
	if (!text)
		return err_set(e, EINVAL, "receipt: the egress policy cannot be written as JSON");
	digest_sha256(text, len, ret);
	return 0;
}
