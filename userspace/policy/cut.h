/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_POLICY_CUT_H
#define CORDON_POLICY_CUT_H

/*
 * Where output that went over its cap is cut (Q3).
 */
#include <stddef.h>
#include <stdint.h>

enum { CUT_TAIL = 3 }; /* an unfinished sequence is at most so long */

/*
 * How many of the first @len bytes stay when text is cut there: without the
 * beginning of a UTF-8 sequence that the cut would split. Bytes that are no
 * UTF-8 are cut where they are. Never takes away more than CUT_TAIL bytes.
 */
size_t cut_utf8(const uint8_t *buf, size_t len);

#endif
