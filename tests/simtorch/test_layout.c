/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's structures are as in the real header, where that is of the same major release. */
#include <stddef.h>
#include <stdio.h>

struct fact {
	const char *name;
	size_t value;
};

extern const struct fact layout_facts_ours[], layout_facts_real[];
extern const size_t layout_count_ours, layout_count_real;
extern const int layout_version_ours, layout_version_real;

int main(void)
{
	int wrong = 0;

	if (layout_version_ours / 1000 != layout_version_real / 1000) {
		printf("SKIPPED: the header is of CUDA %d\n", layout_version_real / 1000);
		return 77;
	}
	for (size_t i = 0; i < layout_count_ours && i < layout_count_real; i++) {
		if (layout_facts_ours[i].value == layout_facts_real[i].value)
			continue;
		printf("%s: %zu, really %zu\n", layout_facts_ours[i].name,
		       layout_facts_ours[i].value, layout_facts_real[i].value);
		wrong++;
	}
	printf("%zu facts, %d wrong\n", layout_count_ours, wrong);
	return wrong || layout_count_ours != layout_count_real || layout_count_ours < 100;
}
