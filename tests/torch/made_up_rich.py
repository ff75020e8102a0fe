# SPDX-License-Identifier: Apache-2.0
"""A made-up snapshot with what is hard to write in every form."""
import made_up
from made_up import BASE, block, event, segment

MIB = 1 << 20


def rich():
    """A snapshot with what is hard to write: escapes, large numbers, pools, host memory."""
    value = made_up.plain()
    strange = made_up.frame('fo"rw\\ard\n\t/', "/home/\u00fc/\U0001f600/\ud800.py", 3)
    value["segments"].append(segment([block(BASE + (1 << 30), MIB, "active_allocated", [strange])],
                                     BASE + (1 << 30), segment_pool_id=(2**40, 2**50)))
    value["segments"].append(segment([block(0xffff_8000_0000_0000, MIB, "inactive")],
                                     0xffff_8000_0000_0000, stream=-1))
    value["device_traces"].append([event("alloc", size=i, user_metadata=f"m{i}", pool_id=(0, i))
                                   for i in range(2500)])
    value["host_segments"] = [segment([block(0x5000, 4096, "active_allocated")], 0x5000)]
    value["host_traces"] = [[event("alloc", 0x5000, 4096)]]
    value["allocator_settings"]["small"] = 1.5e-7
    value["allocator_settings"]["nothing"] = None
    value["allocator_settings"]["endless"] = float("inf")
    return value
