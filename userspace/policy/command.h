/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_POLICY_COMMAND_H
#define CORDON_POLICY_COMMAND_H

/*
 * Allow and block lists of commands (Q8): hygiene against accidents. No claim
 * rests on them, because a program can start another under any name.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * May this command go on? @args is @argc strings, each with its NUL, @len bytes
 * in all. @allow and @block are names separated by blanks; "" is no list. The
 * program's base name is what is looked up. A command string (`bash`, `-c`, X)
 * is judged by the words of X: the first of each simple command against
 * @allow, every one against @block.
 */
bool command_is_allowed(const char *allow, const char *block, const char *args, size_t len,
			uint32_t argc);

#endif
