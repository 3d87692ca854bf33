/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_DIGEST_BASE64_H
#define CORDON_DIGEST_BASE64_H

/*
 * RFC 4648, strict: one text per byte string, one byte string per text.
 * base64 is padded, base64url is not. Decoding refuses the other alphabet,
 * wrong or missing padding, white space, left-over bits and impossible lengths.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes of text for @n bytes, with its NUL (enough for either kind). */
#define BASE64_MAX(n) (((n) + 2) / 3 * 4 + 1)

/* Give the length of the text; @out holds BASE64_MAX(n) bytes. */
size_t base64_encode(const void *buf, size_t n, char *out);
size_t base64url_encode(const void *buf, size_t n, char *out);

/* Give the number of bytes, -EINVAL, or -ENOSPC when they are more than @cap. */
ssize_t base64_decode(const char *text, size_t len, uint8_t *out, size_t cap);
ssize_t base64url_decode(const char *text, size_t len, uint8_t *out, size_t cap);

#endif
