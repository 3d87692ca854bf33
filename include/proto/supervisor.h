/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_PROTO_SUPERVISOR_H
#define CORDON_PROTO_SUPERVISOR_H

/*
 * cordond <-> each daemon. A daemon is exec'ed as root with an empty
 * environment, argv[0] alone, descriptors 0 (/dev/null), 1 and 2 (the log) and
 * 3: this SEQPACKET. It reads one S_START, opens what only root can open,
 * drops what its privileges.c says, and answers S_READY when it can serve.
 * cordond's end closing means: the plane is gone, exit at once (the worker
 * kills everything first).
 */
#include <stdint.h>

enum { SUPERVISOR_FD = 3 };

enum supervisor_msg {
	S_START = 1, /* cordond -> daemon, once: struct s_start and its descriptors */
	S_READY,     /* daemon -> cordond, once, empty */
	S_PEER,	     /* cordond -> daemon: a peer was restarted: struct s_start with that one descriptor */
	S_RELOAD,    /* cordond -> daemon: struct s_start with a new SFD_CONFIG; -> S_RELOADED */
	S_RELOADED,  /* daemon -> cordond: struct s_result */
	S_STOP,	     /* cordond -> daemon: finish in an orderly way and exit 0: struct s_stop */
	S_FATAL,     /* daemon -> cordond: cannot start: struct s_result, then exit */
};

/* What a descriptor in S_START is. */
enum supervisor_fd {
	SFD_CONFIG = 1,	 /* sealed memfd: the daemon's slice of the configuration, text */
	SFD_LISTEN,	 /* listening stream socket (the broker's API) */
	SFD_BROKER,	 /* SEQPACKET to the broker */
	SFD_WORKER,
	SFD_LEDGER,
	SFD_GATEWAY,
	SFD_SKILLS,
	SFD_FUSE,	 /* the original /dev/fuse descriptor of the skills mount */
	SFD_LAUNCHER,	 /* sealed memfd: the launcher's program */
	SFD_SKILLS_STATE, /* memfd: what the skills mount shows; lives as long as the mount */
	SFD_SKILLS_MOUNT, /* detached mount of the skills, for the worker to attach */
};

struct s_start {
	char root[256];	   /* real path of ROOT, no trailing slash except "/" itself */
	char instance[24]; /* cordon-XXXXXXXX */
	uint32_t uid, gid; /* the daemon's own user; 0 for the worker */
	uint32_t nfds;
	uint32_t kinds[8]; /* enum supervisor_fd of descriptor i */
};

struct s_stop {
	uint32_t drain_ms; /* let running commands end for so long */
	uint32_t pad;
};

struct s_result {
	int32_t code; /* 0, or an errno value */
	char text[248];
};

#endif
