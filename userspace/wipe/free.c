/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program frees is zeroed first, whichever library held it: bodies,
 * carriers, command lines, keys and proxy credentials pass through jansson,
 * libmicrohttpd, libcrypto and the gateway's heads, and none of them wipes what
 * it lets go (S4, S6). Linked by the programs that such things pass through, it
 * stands before the C library's own free() and realloc(); of stacks, static
 * buffers and what is never freed it says nothing.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#if !defined(__SANITIZE_ADDRESS__) /* there the sanitizer owns both */

/* The C library's own, by the names it gives them for this. */
/* NOLINTBEGIN(bugprone-reserved-identifier,cert-*) */
extern void __libc_free(void *p);
extern void *__libc_realloc(void *p, size_t size);
/* NOLINTEND(bugprone-reserved-identifier,cert-*) */

void free(void *p)
{
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	__libc_free(p);
}

/* Never moved by the C library, which would leave the old bytes behind. */
void *realloc(void *p, size_t size)
{
	size_t has = p ? malloc_usable_size(p) : 0;

	if (!p || size == 0 || (size <= has && size > has / 2))
		return __libc_realloc(p, size);
	void *more = malloc(size);
	if (more) {
		memcpy(more, p, size < has ? size : has);
		free(p);
	}
	return more;
}

#endif
