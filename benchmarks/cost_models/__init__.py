"""Shipped cost models compared with XGBoost and random order, on tasks that none of them has seen.

    python -m benchmarks.cost_models
    python -m benchmarks.cost_models --tables cpu --models xgb trees mlp random --epochs 15
    python -m benchmarks.cost_models --tables cpu --models xgb_task trees random \
        --curve-models xgb_task trees --curve-tasks 100 200 400 all --curve-records 8 16 all

Checkpoints that were trained on the same records share a table. Every other model of the table is trained on
these very records, and all are tested on the same tasks: the test tasks of the checkpoints' cards, and the
tasks of whole networks. Test tasks whose shape (`foretune.dataset.records.task_shapes`) is among the training
or validation tasks are left out and counted.

Fits are kept in `outputs/benchmarks/cost_models`, so a stopped benchmark resumes. Words after `--` override
settings of `foretune compare`.
"""
