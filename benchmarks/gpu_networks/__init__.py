"""Networks on a GPU: the checkpoint, none, and stock MetaSchedule, beside PyTorch.

    python -m benchmarks.gpu_networks --target cuda --dtype bfloat16 --networks resnet18 --runs 3

Each network is tuned with `checkpoint=cuda` and timed in turns with eager, torch.compile and max-autotune; then
with `checkpoint=null` and as many measured programs a task; then by MetaSchedule's own search (XGBoost, its
default strategy), with as many, and with the first seed with `--stock-trials` a task. Stock searches its tasks
one after the other, so that every task is kept, and the network is compiled as the others are. Seconds to a
runnable network are those of the whole command. Float32 is without TF32 in all of them.

Runs are kept in `--runs-in`: a benchmark that was stopped goes on where it was.
"""
