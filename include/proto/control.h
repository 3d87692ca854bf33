/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_PROTO_CONTROL_H
#define CORDON_PROTO_CONTROL_H

/*
 * cordon (up, down, reload, health) <-> cordond, over ROOT/run/cordon/cordond.sock:
 * SEQPACKET, root only. One request per connection; C_STATUS is answered by a
 * C_DAEMON per daemon and then C_RESULT, the others by C_RESULT alone. C_DOWN
 * is answered when nothing of the instance is left; cordond then exits.
 */
#include <stdint.h>

enum control_msg {
	C_DOWN = 1, /* struct c_down */
	C_RELOAD,   /* empty */
	C_STATUS,   /* empty */
	C_DAEMON,   /* struct c_daemon */
	C_RESULT,   /* struct s_result of proto/supervisor.h */
};

struct c_down {
	uint32_t drain_ms;
	uint32_t pad;
};

struct c_daemon {
	char name[16];
	int32_t pid; /* 0: not running */
	uint32_t is_ready;
	uint32_t restarts;
	uint32_t pad;
};

#endif
