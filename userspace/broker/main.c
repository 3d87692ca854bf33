/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cordon-broker: the one process a caller speaks to.
 *
 * Theory of operation. One process, one thread, one user of its own, no
 * capability, no network, no child. cordond starts it with descriptor 3 and
 * hands it the listening socket of the API and one socket each to the worker
 * and the ledger. Phases, and what is held after each:
 *
 *   start     root; S_START read, descriptors in hand
 *   early     root without a way to more; the directory of secrets open
 *   final     its user; may read its secrets and the names of accounts. After
 *	       this it cannot gain privilege.
 *   open      secrets in memory, rules of peers, the door, both peers
 *   serve     requests, until cordond says stop or is gone
 *
 * It decides and records; it never touches a sandbox. A request becomes a
 * command (request.c), waits its turn (policy/admission.h), is given a slot by
 * the worker and runs there (command.c, run.c); the broker reads its output,
 * signs its receipt, has its row written and answers. When the broker dies its
 * end of the worker's socket closes and the worker kills everything.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log.h"
#include "base/scope.h"
#include "broker/broker.h"
#include "broker/privileges.h"
#include "json/json.h"

static int open_secrets(struct broker *b, char *path, size_t size, struct err *e)
{
	const char *root = b->start.s.root;

	snprintf(path, size, "%s/etc/cordon/secrets", strcmp(root, "/") ? root : "");
	snprintf(b->voucher_path, sizeof(b->voucher_path), "%s/etc/cordon/" VOUCHER_KEYS_FILE,
		 strcmp(root, "/") ? root : "");
	b->secrets_fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return b->secrets_fd < 0 ? err_set(e, errno, "'%s': %s", path, strerror(errno)) : 0;
}

static int confine(struct broker *b, const char *secrets, struct err *e)
{
	const struct confine_as as = {
		.uid = b->start.s.uid,
		.gid = b->start.s.gid,
		.args = { [PATH_SECRETS] = secrets, [PATH_VOUCHERS] = b->voucher_path },
	};

	bool dials = b->config.retain[0] || b->config.run_probe[0];
	const struct confinement *how = dials ? &broker_dials_confinement : &broker_confinement;

	return confine_final(how, &as, &b->guards_missing, e);
}

static int make_buffers(struct broker *b, struct err *e)
{
	b->buf = malloc(sizeof(*b->buf));
	b->scratch = malloc(BROKER_SCRATCH);
	return b->buf && b->scratch ? 0 : err_set(e, ENOMEM, "out of memory");
}

static int open_all(struct broker *b, struct err *e)
{
	int listen_fd = start_take_fd(&b->start, SFD_LISTEN);

	if (listen_fd < 0)
		return err_set(e, EPROTO, "no socket to listen on");
	if (fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK) < 0)
		return err_set(e, errno, "listening socket: %s", strerror(errno));
	if (keys_load(b->secrets_fd, b->start.s.uid, &b->keys, e) < 0 ||
	    loop_open(&b->loop, e) < 0 || make_buffers(b, e) < 0 || life_open(b, e) < 0)
		return -e->code;
	return http_open(&b->http, b, &b->loop, listen_fd, api_routes, api_nroutes, &b->peers, e);
}

static int run(struct broker *b, struct err *e)
{
	char secrets[512];
	struct admission_ceilings ceilings;

	if (start_receive(&b->start, e) < 0 || fault_arm(b->start.config.fault, e) < 0)
		return -e->code;
	b->config = b->start.config;
	json_start();
	if (confine_early(&broker_confinement, e) < 0 ||
	    open_secrets(b, secrets, sizeof(secrets), e) < 0 ||
	    peer_rules_parse(b->config.peers, b->config.group, &b->peers, e) < 0 ||
	    voucher_rules_load(&b->config, b->voucher_path, &b->vouchers, e) < 0)
		return -e->code;
	if (confine(b, secrets, e) < 0) /* after this we cannot gain privilege */
		return -e->code;
	ceilings = broker_ceilings(&b->config);
	admission_init(&b->admission, &ceilings);
	b->jobs.admission = &b->admission;
	if (open_all(b, e) < 0) /* after this no error may stop us */
		return -e->code;
	return loop_run(&b->loop, e);
}

enum { LARGE_BYTES = 64 << 10 };

int main(void)
{
	struct broker *b = calloc(1, sizeof(*b));
	struct err e = { 0 };

	log_open("cordon-broker");
	signal(SIGPIPE, SIG_IGN);
	/* Bodies in mappings of their own, always: what a crowd sent goes back to the host. */
	mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	if (!b)
		return EXIT_FAILURE;
	b->secrets_fd = -1;
	if (run(b, &e) < 0) {
		log_error("fatal", "%s", e.msg);
		start_fatal(&e);
		return EXIT_FAILURE;
	}
	keys_done(&b->keys); /* zeroed; the rest goes with the process */
	return EXIT_SUCCESS;
}
