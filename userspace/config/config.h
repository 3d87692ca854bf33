/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_CONFIG_CONFIG_H
#define CORDON_CONFIG_CONFIG_H

/*
 * The configuration of an instance: `key = value` lines, parsed once into a
 * struct that nobody changes afterwards. One table says for every key what it
 * is, what it is when absent, who may read it and what the manual says.
 *
 * A daemon never sees the file: cordond hands it the lines whose row names it
 * (config_slice), and it parses those with the same function.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/limits.h"

enum {
	CONFIG_KEYS_MAX = 96,
	CONFIG_TEXT_MAX = 64 * 1024, /* bytes of a configuration file */
	CONFIG_VALUE_MAX = 1024,     /* bytes of one value */
	CONFIG_PATH_MAX = 256,
	CONFIG_IMAGE_MAX = 128,
	CONFIG_GROUP_MAX = 64,
	CONFIG_ADDRESS_MAX = 64,
	CONFIG_FAULT_MAX = 96,
	CONFIG_SOCKET_MAX = 108, /* sockaddr_un */
};

/* Who is handed a key (bit set). The operator's tools see all of them. */
enum config_reader {
	FOR_SUPERVISOR = 1u << 0,
	FOR_BROKER = 1u << 1,
	FOR_WORKER = 1u << 2,
	FOR_LEDGER = 1u << 3,
	FOR_GATEWAY = 1u << 4,
	FOR_SKILLS = 1u << 5,
	AT_START_ONLY = 1u << 8, /* a reload that changes it is refused */
};

enum config_audit {
	AUDIT_BEST_EFFORT = 0,
	AUDIT_REQUIRED,
};

enum config_lsm {
	LSM_OFF = 0,
	LSM_ON,
	LSM_REQUIRED,
};

/* Values of egress.default and egress.maximum, narrow to wide. */
enum config_egress {
	EGRESS_NONE = 0,
	EGRESS_ALLOWLIST,
	EGRESS_DEFAULT_INTERNET,
};

struct id_range {
	uint32_t base, count;
};

struct config {
	bool rollout;
	char image[CONFIG_IMAGE_MAX];	   /* sha256:HEX, or "" */
	char image_store[CONFIG_PATH_MAX]; /* "": below the instance's state */
	uint32_t pool;
	struct limits dflt, max;
	struct id_range host_ids; /* count 0: auto, see config_resolve_ids() */
	uint32_t image_ids;
	uint32_t guard_lsm; /* enum config_lsm */
	uint32_t daemon_ids;
	uint64_t carrier_ttl_ms;
	uint32_t audit; /* enum config_audit */
	uint64_t audit_retention_ms; /* 0: for ever */
	char group[CONFIG_GROUP_MAX];
	char peers[CONFIG_VALUE_MAX]; /* broker/peer.h */
	uint32_t run_registry;	      /* 1: the ledger says which runs live */
	char run_probe[CONFIG_SOCKET_MAX]; /* who says it instead; neither: every run is alive */
	uint64_t run_probe_ms;
	uint32_t vouchers;	      /* 1: required */
	char voucher_audience[CONFIG_GROUP_MAX];
	char command_allow[CONFIG_VALUE_MAX], command_block[CONFIG_VALUE_MAX]; /* names (Q8) */
	char retain[CONFIG_SOCKET_MAX]; /* "": no output is kept */
	char redact[CONFIG_SOCKET_MAX]; /* a path, or none */
	uint32_t running_per_org, running;
	uint32_t queued_per_org, queued;
	uint32_t open_jobs_per_org;
	uint32_t egress_default, egress_maximum; /* enum config_egress */
	char egress_maximum_hosts[CONFIG_VALUE_MAX];
	uint64_t egress_maximum_bytes; /* 0: none */
	uint32_t gateway; /* 1: on */
	char gateway_address[CONFIG_ADDRESS_MAX];
	uint32_t gateway_port;
	char gateway_resolver[CONFIG_ADDRESS_MAX]; /* "": the host's */
	char gateway_protected[CONFIG_VALUE_MAX];
	char gateway_exceptions[CONFIG_VALUE_MAX];
	uint32_t gateway_connections;
	uint64_t gateway_head_ms, gateway_dial_ms, gateway_idle_ms;
	char skill_roots[CONFIG_VALUE_MAX], skill_plugins[CONFIG_VALUE_MAX]; /* ':'-separated */
	char file_allow[CONFIG_VALUE_MAX], file_deny[CONFIG_VALUE_MAX];
	char fault[CONFIG_FAULT_MAX];  /* base/fault.h; "" outside tests */
};

enum config_type {
	CONFIG_ROLLOUT = 1, /* exactly `on`, else off */
	CONFIG_TEXT,
	CONFIG_PATH,   /* absolute */
	CONFIG_DIGEST, /* sha256:HEX */
	CONFIG_COUNT,  /* uint32_t, decimal */
	CONFIG_SIZE,   /* uint64_t, bytes */
	CONFIG_SECONDS, /* uint64_t, milliseconds */
	CONFIG_MILLI,  /* uint32_t, thousandths */
	CONFIG_IDS,    /* struct id_range: auto or BASE:COUNT */
	CONFIG_WORD,   /* uint32_t, index into words */
};

struct config_key {
	const char *name;
	enum config_type type;
	uint32_t offset, size; /* of its field in struct config */
	uint64_t min, max;     /* of a number, in the field's unit */
	const char *const *words;
	const char *preset; /* what it is when absent, as one would write it */
	uint32_t readers;   /* enum config_reader */
	const char *help;   /* one or more sentences for the manual */
};

/* The table, in the order the manual shows it. Gives its length in *ret_n. */
const struct config_key *config_keys(size_t *ret_n);

/* Every key at its preset. */
void config_default(struct config *ret);

/*
 * Parses @text. 0, or -EINVAL with *e naming line, key and what is wrong:
 * unknown keys, keys given twice, values out of range, a default above its
 * maximum.
 */
int config_parse(const char *text, size_t len, struct config *ret, struct err *e);

/* The first AT_START_ONLY key in which @a and @b differ, or NULL. */
const char *config_fixed_difference(const struct config *a, const struct config *b);

/* Gives host_ids its value where it says auto: a block of the instance's own. */
void config_resolve_ids(struct config *c, const char *instance);

/*
 * The lines of @text for @reader, as text that config_parse() accepts; the ids
 * are written out. Gives *ret (caller frees).
 */
int config_slice(const char *text, size_t len, enum config_reader reader, const char *instance,
		 char **ret, struct err *e);

/* The ids of the daemons: broker 1, ledger 2, gateway 3, skills 4. 0 for the worker. */
uint32_t config_daemon_id(const struct config *c, enum config_reader who);

#endif
