"""Networks on a GPU: the checkpoint, none, and stock MetaSchedule, beside PyTorch.

    python -m benchmarks.gpu_networks --target cuda --dtype bfloat16 --networks resnet18 --runs 3

Each network is tuned with `checkpoint=cuda` and timed in turns with eager, torch.compile and max-autotune.
Then it is tuned with `checkpoint=null` and as many measured programs a task, and by MetaSchedule's own search
(XGBoost, its default strategy) with as many; with the first seed also with `--stock-trials` a task. Stock
searches its tasks one after the other, so that each is kept, and the network is compiled as the others are.
The time to a runnable network is that of the whole command. Float32 is without TF32 in all of them.

Runs are kept in `--runs-in`: a benchmark that was stopped goes on where it was.
"""
