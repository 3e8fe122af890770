"""Are pretuned schedules of other tasks good starts? By predicted scores, without any measurement.

    python -m benchmarks.pretuned --tasks 40

The file of schedules is made of the bundled records without the tasks that the checkpoint was tested on, and
without other tasks of their shapes. Those tasks judge it: the cost model has not been trained on them either.
For each of them the model rates

- the starts of `search.starts=pretuned`, with thresholds of 0.6 (Fasor's) and of 0.9;
- as many programs drawn at random from the design space;
- the fastest measured program of the task.

A score is the fastest latency over the latency of the program, by the model's prediction.
"""
