"""Networks on a GPU: the checkpoint, no checkpoint, and stock MetaSchedule, compared with PyTorch.

    python -m benchmarks.gpu_networks --target cuda --dtype bfloat16 --networks resnet18 --runs 3

Each network is tuned with `checkpoint=cuda` and timed in turns with eager, torch.compile and max-autotune.
Then it is tuned with the same number of measured programs per task in two other ways: with `checkpoint=null`,
and by MetaSchedule's own search (XGBoost, its default strategy). With the first seed, that search also runs
with `--stock-trials` per task. Stock searches its tasks sequentially, so that each is kept, and the network
is compiled like the others. The time to a runnable network is the time of the whole command. Float32 is
without TF32 in all of them.

Runs are kept in `--runs-in`, so a stopped benchmark resumes.
"""
