/* SPDX-License-Identifier: Apache-2.0 */
/* vramcore.h in C++, in a program that is not recorded: everything does nothing. */
#include "capture/vramcore.h"

int main()
{
	vramcore_step(1);
	vramcore_phase("forward");
	vramcore_phase_push("layer");
	vramcore_phase_pop();
	vramcore_block(nullptr, 1, nullptr);
	vramcore_block_named(nullptr, 1, 1, nullptr, "name");
	vramcore_block_free(nullptr);
	vramcore_tensor(nullptr, 1, nullptr, nullptr);
	vramcore_tensor_free(nullptr);
	vramcore_snapshot();
	return vramcore_start();
}
