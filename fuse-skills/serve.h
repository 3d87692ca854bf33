/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_SKILLS_SERVE_H
#define CORDON_SKILLS_SERVE_H

/*
 * The file system: what each of the kernel's requests is answered with. Every
 * function is called by any thread; nothing here knows the device.
 */
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>

#include "cache.h"
#include "skill/store.h"
#include "state.h"

enum {
	SERVE_READ_MAX = 1024 * 1024, /* the largest read the kernel is told to send */
	SERVE_BUFFER = SERVE_READ_MAX + 2 * SKILL_CHUNK,
};

/* What one thread has at hand: the chunks it read last. */
struct serve_desk {
	uint64_t node; /* 0: none */
	uint64_t first_byte;
	long bytes;
	uint8_t *buffer; /* SERVE_BUFFER */
};

struct serve {
	struct state *state;
	struct skill_store store;
	struct cache *cache;
	pthread_key_t desk; /* each thread's struct serve_desk */
	_Atomic uint64_t said_s; /* when the last event was written */
	_Atomic uint32_t unsaid; /* events since, not written */
};

extern const struct fuse_lowlevel_ops serve_ops;

#endif
