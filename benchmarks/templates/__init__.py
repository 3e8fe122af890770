"""Templates on the shapes of BERT, ResNet and MobileNetV2, as shares of the cores' peak (Bolt, Figure 1).

    python -m benchmarks.templates --parts shapes
    python -m benchmarks.templates --parts contest --threads 1 2 --extend

The contest compares the templates with MetaSchedule's default rules and oneDNN. Contests are kept in
`outputs/benchmarks/templates` until the commit changes.
"""
