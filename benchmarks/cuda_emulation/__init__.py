"""Are CUDA programs correct, and do ETO's cost functions count the right quantities? Without a GPU.

Executes programs for an A100 on this CPU (`tests/support/cuda_emulation`), in two orders of threads, and
checks them for races and accesses out of bounds. The programs are random programs from MetaSchedule's space
for every operator type, and programs of the reuse tuner for a pair of each of ETO's types. Further parts are
matrix products with and without the copies that TVM compiles to wrong code, programs without one of their
barriers or waits, and the costs of BShape and TShape compared with counted sectors and wavefronts.
`--tensor-cores 24` instead executes 24 programs of each kind for tensor cores. Needs g++; no figure here is a
speed.
"""
