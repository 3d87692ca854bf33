/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORDON_PROOF_NONDET_H
#define CORDON_PROOF_NONDET_H

/*
 * One property, three ways to look at it. A harness defines `proof_name` and
 * proof(), draws every value by choose() and states what holds by hold().
 *
 *   by default  exhaustive: proof() runs once for every sequence of choices.
 *               Complete over the domain the file names, and over no other.
 *   -DFUZZING   libFuzzer draws the choices; DEPTH() is larger.
 *   CBMC        the same file, symbolically (`cbmc FILE sources`). Debian has
 *               no package of it: what make proofs runs is the enumeration.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern const char proof_name[];
void proof(void);

#ifdef FUZZING
#define DEPTH(small, large) (large)
#else
#define DEPTH(small, large) (small)
#endif

#if defined(__CPROVER)

unsigned nondet_unsigned(void);

static inline unsigned choose(unsigned n)
{
	unsigned v = nondet_unsigned();

	__CPROVER_assume(v < n);
	return v;
}
#define hold(what) __CPROVER_assert(what, #what)

int main(void)
{
	proof();
	return 0;
}

#else

#define hold(what) ((what) ? (void)0 : proof_broken(#what, __FILE__, __LINE__))

#ifdef FUZZING

static const uint8_t *choices;
static size_t nchoices;

/* What the bytes do not say is 0, so that every input is whole. */
static inline unsigned choose(unsigned n)
{
	unsigned v = 0;

	for (unsigned i = 0; i < (n > 256 ? 2 : 1) && nchoices; i++, nchoices--)
		v = v << 8 | *choices++;
	return v % n;
}

static inline void proof_broken(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	choices = data;
	nchoices = size;
	proof();
	return 0;
}

#else

/* An odometer: the last choice that has a next value takes it, those behind it begin anew. */
enum { CHOICES_MAX = 64 };
static unsigned taken[CHOICES_MAX], of[CHOICES_MAX], nchoices, ndrawn;

static inline unsigned choose(unsigned n)
{
	if (ndrawn == nchoices) {
		if (n == 0 || nchoices == CHOICES_MAX) {
			fprintf(stderr, "more than %d choices, or a choice of none\n", CHOICES_MAX);
			exit(2);
		}
		of[nchoices] = n;
		taken[nchoices++] = 0;
	}
	return taken[ndrawn++];
}

static inline void proof_broken(const char *what, const char *file, int line)
{
	printf("# %s:%d: does not hold: %s\n# after the choices", file, line, what);
	for (unsigned i = 0; i < ndrawn; i++)
		printf(" %u", taken[i]);
	printf("\nnot ok 1 - %s\n", proof_name);
	exit(1);
}

int main(void)
{
	unsigned long long cases = 0;

	printf("1..1\n");
	do {
		ndrawn = 0;
		proof();
		cases++;
		while (nchoices && taken[nchoices - 1] + 1 == of[nchoices - 1])
			nchoices--;
		if (nchoices)
			taken[nchoices - 1]++;
	} while (nchoices);
	printf("# %llu cases\nok 1 - %s\n", cases, proof_name);
	return 0;
}

#endif
#endif
#endif
