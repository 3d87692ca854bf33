/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every request of the broker with any body, against a real database in a
 * temporary directory: no crash, one outcome each, and the chain stays whole.
 * The first byte chooses the request; NUL bytes part several of one batch.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "digest/secrets.h"
#include "json/json.h"
#include "ledger/batch.h"
#include "ledger/privileges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint16_t types[] = {
	L_ROW, L_INTENT, L_QUERY, L_RECEIPT, L_VERIFY, L_COMMAND_ID, L_HELLO, L_EXPORT, L_ACK,
	L_EXPORT_DROP, L_HEALTH, L_NONCE, L_RUN_SET, L_RUN_GET, L_RUN_LIST, L_RUN_DROP, L_KEEP,
	L_KEPT, L_RETAIN,
};

static char dir[] = "/tmp/fuzz-ledger-XXXXXX";

static void remove_dir(void)
{
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	if (system(cmd) != 0)
		fprintf(stderr, "left %s behind\n", dir);
}

static struct ledger *open_ledger(void)
{
	struct ledger *l = calloc(1, sizeof(*l));
	struct err e;

	assert(l && mkdtemp(dir) && chdir(dir) == 0 && mkdir("ledger", 0700) == 0);
	atexit(remove_dir);
	l->keys_fd = l->keeper.fd = -1;
	l->dir_fd = open("ledger", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(secrets_from_key(1, "key", 3, &l->keys, &e) == 0);
	assert(store_make_files(getuid(), getgid(), &e) == 0);
	assert(spool_open(&l->spool, l->dir_fd, &e) == 0 && ledger_open_store(l, &e) == 0);
	return l;
}

static void check_chain(struct ledger *l)
{
	static unsigned runs;
	json_t *result = NULL;
	uint64_t req;

	if (++runs % 4096)
		return;
	l->verify_waiting = 1;
	memset(&l->verify[0], 0, sizeof(l->verify[0]));
	while (!result)
		verify_turn(l, &req, &result);
	assert(json_is_true(json_object_get(result, "ok")));
	json_decref(result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ledger *l;
	static struct batch b;
	static uint8_t body[LEDGER_JSON_MAX + sizeof(struct ledger_head)];
	static int home = -1; /* the fuzzer reads its corpus by relative names */

	if (size < 1 || size > LEDGER_JSON_MAX)
		return 0;
	if (!l) {
		home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		l = open_ledger();
	}
	assert(chdir(dir) == 0);
	uint16_t type = types[data[0] % (sizeof(types) / sizeof(types[0]))];
	for (data++, size--; !batch_is_full(&b);) {
		const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
		size_t len = nul ? (size_t)(nul - data) : size;
		if (len)
			memcpy(body + sizeof(struct ledger_head), data, len);
		batch_add(l, &b, type, body, sizeof(struct ledger_head) + len);
		if (!nul)
			break;
		data += len + 1;
		size -= len + 1;
	}
	batch_run(l, &b);
	for (size_t i = 0; i < b.n; i++) {
		const struct request *r = &b.r[i];
		assert(r->code <= 0 && !(r->code < 0 && r->result));
		size_t len = 0;
		char *text = r->result ? json_dump_compact(r->result, &len) : NULL;
		assert(!r->result || (text && len <= LEDGER_JSON_MAX));
		free(text);
	}
	batch_clear(&b);
	assert(!l->down_until_ms && !l->keeper.is_frozen && !l->store.is_in_tx);
	l->verify_waiting = 0;
	check_chain(l);
	assert(fchdir(home) == 0);
	return 0;
}
