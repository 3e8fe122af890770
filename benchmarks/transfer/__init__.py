"""Few-shot transfer of a cost model to another device (Fasor, section 4.2), with baselines.

    python -m benchmarks.transfer --dataset data/cpu
    python -m benchmarks.transfer --dataset data/cpu --target ID --train model=transformer --seeds 1
    python -m benchmarks.transfer --dataset data/cpu-targets --source cpu data/cpu

Each device of the dataset is in turn the new one, and all others together are the source; or the source is a
checkpoint, given with its training dataset. A third of the new device's tasks, whose shapes the source does
not have, form the test; from the rest, the pool, k tasks are chosen. Compared on the test
tasks: the unchanged source model (none), fine-tuned on k tasks chosen by Fasor's clusters, by k-means and at
random, trained from scratch on Fasor's k tasks, and, as the goal, trained and fine-tuned on the whole pool.
The seed decides random choices, batches and initial weights; the source model and the split are the same for
all.

Cells run seed by seed, with the devices in turn, and none begins after --minutes. The same command resumes
after a stop or a time-out. Finished cells are kept in `--work` with a page of curves; `cells_left` in the
result counts the others. `--train` and `--finetune` take Hydra overrides of foretune train and foretune
finetune, and `--epochs` bounds the trainings of both.
"""
