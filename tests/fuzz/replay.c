/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a harness every file of the directories named, once, and searches for
 * nothing: what make coverage counts of the seeds, without a fuzzer's build.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* A harness with something to set up has this too. */
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay(const char *path)
{
	enum { INPUT_MAX = 1 << 20 };
	uint8_t *data = malloc(INPUT_MAX);
	FILE *f = fopen(path, "re");

	if (!data || !f) {
		perror(path);
		exit(1);
	}
	size_t n = fread(data, 1, INPUT_MAX, f);
	fclose(f);
	LLVMFuzzerTestOneInput(data, n);
	free(data);
}

int main(int argc, char **argv)
{
	if (LLVMFuzzerInitialize && LLVMFuzzerInitialize(&argc, &argv) != 0)
		return 1;
	for (int i = 1; i < argc; i++) {
		DIR *d = opendir(argv[i]);
		if (!d)
			continue; /* a harness may have nothing learnt */
		for (struct dirent *de; (de = readdir(d));) {
			char path[4096];
			snprintf(path, sizeof(path), "%s/%s", argv[i], de->d_name);
			if (de->d_name[0] != '.')
				replay(path);
		}
		closedir(d);
	}
	return 0;
}
