/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies that ask for a command: whatever the bytes, a request that is taken
 * keeps what request.h promises, and a refused one says why.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/request.h"
#include "proto/worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void hold(int what)
{
	if (!what)
		abort();
}

static void check(const struct exec_request *r)
{
	uint32_t n = 0;

	hold(r->argc >= 1 && r->argc <= ARGV_COUNT_MAX && r->args_len <= ARGV_BYTES_MAX);
	for (size_t at = 0; at < r->args_len; at += strlen(r->args + at) + 1)
		n++;
	hold(n == r->argc && r->args[r->args_len - 1] == '\0');
	hold(r->cwd[0] != '/' && strlen(r->cwd) < PROTO_CWD_MAX && !strstr(r->cwd, "/../"));
	hold(strcmp(r->cwd, "..") != 0 && strncmp(r->cwd, "../", 3) != 0);
	hold(strlen(r->image) < PROTO_IMAGE_MAX && r->image[0] != '-');
	hold(!r->command_id || request_is_id(r->command_id, REQUEST_ID_MAX));
	hold(r->stdin_len <= REQUEST_STDIN_MAX + 6);
	hold(!r->egress || r->egress->tier == EGRESS_TIER_COUNT || egress_policy_valid(r->egress));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct exec_request r;
	struct err e = { 0 };
	enum request_kind kind = size && data[0] == ' ' ? REQUEST_RUN : REQUEST_EXEC;
	enum reason why = request_parse((const char *)data, size, kind, &r, &e);

	if (why == REASON_NONE)
		check(&r);
	else
		hold(e.msg[0] != '\0');
	request_done(&r);
	return 0;
}
