/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_PROTO_WORKER_H
#define CORDON_PROTO_WORKER_H

/*
 * broker <-> worker, over one SEQPACKET pair. The life of a command:
 *
 *   broker                         worker
 *   W_SLOT_GET  ---------------->          a slot of this shape, please
 *               <----------------  W_SLOT  slot id, kernel id; descriptors:
 *                                          stdin write, stdout read, stderr read
 *   (the broker registers egress for the slot: gateway and kernel)
 *   W_RUN       ---------------->          descriptor: argv (sealed memfd)
 *               <---------------- W_STARTED   the command has been exec'ed
 *   W_KILL      ---------------->          any time; the answer is still W_DONE
 *               <---------------- W_DONE      exactly one per W_RUN
 *
 * W_SLOT_GET or W_RUN that cannot be served is answered by W_FAIL instead of
 * W_SLOT or W_DONE. A slot that was got and not run is given back by W_DROP.
 * When the broker's end closes, the worker kills everything and exits.
 * @req is the broker's, echoed in every answer.
 */
#include <stdint.h>

#include "policy/limits.h"

enum worker_msg {
	W_SLOT_GET = 1,
	W_SLOT,
	W_RUN,
	W_STARTED,
	W_KILL,
	W_DONE,
	W_DROP,
	W_FAIL,
	W_WORKSPACE_REMOVE, /* -> W_WORKSPACE_REMOVED */
	W_WORKSPACE_REMOVED,
	W_WORKSPACE_LIST, /* -> W_WORKSPACE_ENTRY..., W_WORKSPACE_END */
	W_WORKSPACE_ENTRY,
	W_WORKSPACE_END,
	W_READY, /* worker -> broker, once, when it can serve; [0] root of the skills, if any */
};

enum {
	PROTO_CWD_MAX = 1024,
	PROTO_IMAGE_MAX = 128,
	PROTO_LABEL_MAX = 256,
	ARGV_COUNT_MAX = 4096,
	ARGV_BYTES_MAX = 1024 * 1024,   /* all elements with their NULs */
	ARGV_ELEMENT_MAX = 128 * 1024 - 1, /* the kernel's MAX_ARG_STRLEN */
};

enum net_kind {
	NET_NONE = 1,	 /* own loopback, nothing else (E2) */
	NET_GATEWAY = 2, /* the room with one door (E3) */
};

enum workspace_kind {
	WORKSPACE_EPHEMERAL = 1, /* ends with its command: tmpfs */
	WORKSPACE_KEYED = 2,	 /* survives: an ext4 image named by the key */
};

/* Guards a receipt lists (B12, T3): bit set = was on for this command. */
enum guard {
	GUARD_USERNS = 1u << 0,
	GUARD_SECCOMP = 1u << 1,
	GUARD_NO_NEW_PRIVS = 1u << 2,
	GUARD_MEMORY = 1u << 3,
	GUARD_PIDS = 1u << 4,
	GUARD_CPU = 1u << 5,
	GUARD_SWAP = 1u << 6,
	GUARD_IDMAP = 1u << 7,
	GUARD_MOUNT_CHECK = 1u << 8,
	GUARD_EGRESS_BPF = 1u << 9,
	GUARD_NFT = 1u << 10,
	GUARD_LANDLOCK = 1u << 11,
	GUARD_LSM = 1u << 12,
};

struct w_slot_get {
	uint64_t req;
	char image[PROTO_IMAGE_MAX]; /* sha256:HEX of an image in the store, or "" for the pinned one */
	uint32_t net;		     /* enum net_kind */
	uint32_t pad;
};
_Static_assert(sizeof(struct w_slot_get) == 8 + 128 + 8, "w_slot_get");

struct w_slot {
	uint64_t req;
	uint64_t slot;		/* never reused while the worker lives */
	uint64_t cgroup_id;	/* inode of the slot's v2 directory: its id in the kernel */
	uint32_t host_uid;	/* the sandbox's id outside */
	uint32_t pad;
	uint8_t image_digest[32];
};

struct w_run {
	uint64_t req;
	uint64_t slot;
	struct limits limits;
	uint32_t workspace;	   /* enum workspace_kind */
	uint32_t workspace_expect; /* 1: it must exist already, else workspace_lost */
	uint8_t workspace_key[32];
	char workspace_label[PROTO_LABEL_MAX]; /* for retention: kept beside the image (W2) */
	char cwd[PROTO_CWD_MAX]; /* below /workspace, or "" */
	uint32_t argc;
	uint32_t flags;
	char proxy[256]; /* NET_GATEWAY: the proxy URL for B7's variables, else "" */
	/* NET_GATEWAY: the kernel's side of the registration (E5, E6), else 0. */
	uint64_t egress_token;	   /* the broker's number for the job's token */
	uint64_t egress_max_bytes; /* the ceiling; 0: none */
	uint64_t egress_used;	   /* w_done.egress_used of the job's command before */
};

/*
 * Descriptors with W_RUN: [0] argv memfd (argc strings, each ended by NUL, sealed),
 * [1] the handle of the job's skills view (K_VIEW) when RUN_HAS_SKILLS.
 */
enum {
	RUN_HAS_SKILLS = 1u << 0,
	/* The caller named a workspace size: one that exists with another is refused. */
	RUN_WORKSPACE_SIZE_ASKED = 1u << 1,
};

struct w_started {
	uint64_t req;
	uint64_t realtime_ns; /* when exec'ed: the receipt's timestamp */
	uint64_t workspace_bytes; /* the quota in force: a workspace keeps the one it was made with */
};

struct w_kill {
	uint64_t req;
	uint32_t reason;      /* enum reason, or 0 */
	uint32_t termination; /* enum termination the end is to be booked under */
};

struct w_drop {
	uint64_t req;
	uint64_t slot;
};

struct w_done {
	uint64_t req;
	uint32_t termination; /* enum termination */
	uint32_t reason;      /* enum reason; set for ends from outside and failures */
	int32_t exit_code;    /* -1: none */
	int32_t signal;	      /* 0: none */
	uint32_t oom_killed;
	uint32_t workspace_over; /* measured above its quota or out of inodes */
	uint64_t workspace_bytes; /* 0: not measured */
	uint64_t wall_ns;
	uint64_t cpu_ns;
	uint64_t memory_peak_bytes;
	uint32_t guards; /* enum guard: on */
	uint32_t guards_missing; /* wanted, and the host cannot give them */
	/* NET_GATEWAY: what the kernel counted (E6), as IP packets with their headers. */
	uint64_t egress_out_bytes, egress_in_bytes, egress_packets;
	uint64_t egress_denied; /* packets and calls refused */
	uint64_t egress_used;	/* of the token, over all its commands */
	uint64_t egress_lost;	/* events the kernel could not deliver */
	uint64_t egress_again;	/* bytes of egress_out_bytes that were sent before */
};

struct w_fail {
	uint64_t req;
	uint32_t reason; /* enum reason */
	uint32_t pad;
	char text[248];
};

struct w_workspace_remove {
	uint64_t req;
	uint8_t key[32];
};

struct w_workspace_entry {
	uint64_t req;
	uint8_t key[32];
	uint64_t used_bytes, quota_bytes, mtime_s;
	uint32_t in_use, lost;
	char label[PROTO_LABEL_MAX];
};

struct w_reply { /* W_WORKSPACE_REMOVED, W_WORKSPACE_END */
	uint64_t req;
	uint32_t reason; /* 0: done */
	uint32_t pad;
};

struct w_ready {
	uint8_t image_digest[32]; /* the pinned L0 */
	uint32_t guards;
	uint32_t pool;
};

#endif
