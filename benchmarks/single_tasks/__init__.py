"""Single tasks searched by `foretune.inference.tune_tasks`, several seeds each, one process per search.

    python -m benchmarks.single_tasks
    python -m benchmarks.single_tasks --against ../before --seeds 3
    python -m benchmarks.single_tasks --tasks C2D:0 GMM:0 --settings "" "top_k=24 rounds=3"

Tasks, seeds and contestants take turns. Contestants are this checkout and another one, or each of the
settings, which are fields of OneShotConfig such as `stop.minimum=4`, or `checkpoint=PATH`. One evaluator of
this checkout times the best program of each search in turns, with cold caches and with warm ones. Searches
are kept in `outputs/benchmarks/single_tasks` until the commit changes.
"""
