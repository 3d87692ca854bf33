/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a client's: scanning in any pieces gives one result; what is
 * accepted renders to a head that the same parser accepts, with one Host, one
 * framing, no credential and no byte that could end it early; a chunked body
 * walks the same in any pieces.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/body.h"
#include "gateway/request.h"

static enum head_result scan_in_pieces(const char *buf, size_t len, size_t step, size_t *ret)
{
	enum head_result r = HEAD_MORE;
	size_t scanned = 0;

	for (size_t have = step; r == HEAD_MORE; have += step) {
		r = head_scan(buf, have < len ? have : len, &scanned);
		if (have >= len)
			break;
	}
	*ret = scanned;
	return r;
}

static void check_rendered(const struct head *h, const struct request *r)
{
	static char out[2 * HEAD_MAX];
	struct head again;
	size_t n = request_render(h, r, out, sizeof(out)), scanned = 0;
	unsigned count;
	uint64_t length;

	assert(n);
	assert(head_scan(out, n, &scanned) == HEAD_DONE && scanned == n);
	assert(head_parse_request(out, n, &again));
	head_find(&again, "host", &count);
	assert(count == 1);
	head_find(&again, "proxy-authorization", &count);
	assert(count == 0);
	assert(head_request_framing(&again, &length) == r->framing);
	assert(r->framing != FRAMING_LENGTH || length == r->length);
	assert(again.target.at[0] == '/' || (again.target.len == 1 && again.target.at[0] == '*'));
}

static void check_body(const struct request *r, const char *buf, size_t len)
{
	struct body whole, pieces;
	size_t used = 0, total = 0;
	bool ok, ok_pieces = true;

	body_init(&whole, r->framing, r->length, true);
	pieces = whole;
	ok = body_walk(&whole, buf, len, &used);
	for (size_t i = 0; i < len && ok_pieces && !body_is_done(&pieces); i++) {
		size_t one = 0;
		ok_pieces = body_walk(&pieces, buf + i, 1, &one);
		total += one;
	}
	assert(ok == ok_pieces);
	assert(!ok || (used == total && used <= len));
	assert(!ok || body_is_done(&whole) == body_is_done(&pieces));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of the exact size: reading beyond it is found. */
	char *buf = malloc(size ? size : 1);
	struct head h;
	struct request r;
	size_t at, at_pieces, step = size ? 1 + data[0] % 7 : 1;
	char refusal[1024];

	memcpy(buf, data, size);
	enum head_result whole = scan_in_pieces(buf, size, size ? size : 1, &at);
	assert(scan_in_pieces(buf, size, step, &at_pieces) == whole);
	if (whole == HEAD_DONE) {
		assert(at == at_pieces && at <= size);
		if (head_parse_request(buf, at, &h)) {
			bool ok = request_read(&h, &r);
			assert(refusal_render(EGRESS_BAD_REQUEST, r.has_target ? &r.target : NULL,
					      refusal, sizeof(refusal)));
			if (ok && !r.is_connect) {
				check_rendered(&h, &r);
				check_body(&r, buf + at, size - at);
			}
		}
		if (head_parse_response(buf, at, &h)) {
			static char out[2 * HEAD_MAX];
			uint64_t length = 0;
			enum framing f = head_response_framing(&h, false, &length);
			if (f != FRAMING_BAD)
				assert(response_render(&h, f, true, out, sizeof(out)));
		}
	}
	free(buf);
	return 0;
}
