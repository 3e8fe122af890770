"""Are CUDA programs right, and do ETO's cost functions count what they should? Without a GPU.

Executes random programs of MetaSchedule's space for an A100 on this CPU (`tests/support/cuda_emulation`):
every operator type, in two orders of threads, checked for races and accesses out of bounds. Then matrix
products with and without the copies that TVM compiles to wrong code, programs without one of their barriers
or waits, and the costs of BShape and TShape beside counted sectors and wavefronts. Needs g++; nothing here
is a speed.
"""
