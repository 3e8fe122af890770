"""Reuse between tasks, following ETO: which programs a task may reuse, and which task is its parent.

Fang, Shen, Wang, Chen: ETO: Accelerating Optimization of DNN Operators by High-Performance Tensor Program
Reuse, PVLDB 15(2), 2022. In the terms of the paper, a child α reuses the information of a performant program
S* of its parent β. `inference.eto.search` implements the search of the child.
"""
