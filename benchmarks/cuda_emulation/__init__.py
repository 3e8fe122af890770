"""Are CUDA programs right, and do ETO's cost functions count what they should? Without a GPU.

Executes programs for an A100 on this CPU (`tests/support/cuda_emulation`), in two orders of threads, and
checks them for races and accesses out of bounds. They are random programs of MetaSchedule's space for every
operator type, and programs of the reuse tuner for a pair of each of ETO's types. Further parts are matrix
products with and without the copies that TVM compiles to wrong code, programs without one of their barriers
or waits, and the costs of BShape and TShape beside counted sectors and wavefronts. `--tensor-cores 24`
executes so many programs of each kind for tensor cores instead. Needs g++; nothing here is a speed.
"""
