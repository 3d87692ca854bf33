/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_BASE_SCOPE_H
#define CORDON_BASE_SCOPE_H

/*
 * Cleanup by scope. Ownership leaves a scope by take_fd(&fd) or take_ptr(p);
 * an early return is then always right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void scope_free(void *p)
{
	free(*(void **)p);
}

static inline void scope_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void scope_fclose(FILE **f)
{
	if (*f)
		fclose(*f);
}

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

#define autofree __attribute__((cleanup(scope_free)))
#define autoclose __attribute__((cleanup(scope_close)))
#define autofclose __attribute__((cleanup(scope_fclose)))
#define auto_(type) __attribute__((cleanup(type##_cleanup))) struct type *
#define DEFINE_CLEANUP(type) \
	static inline void type##_cleanup(struct type **p) \
	{ \
		type##_free(*p); \
	}
#define take_ptr(p) \
	({ \
		__auto_type _pp = &(p); \
		__auto_type _v = *_pp; \
		*_pp = NULL; \
		_v; \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
