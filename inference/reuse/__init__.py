"""Reuse between tasks after ETO: whose program a task may reuse, and which task is searched from which.

Fang, Shen, Wang, Chen: ETO: Accelerating Optimization of DNN Operators by High-Performance Tensor Program
Reuse, PVLDB 15(2), 2022. In its words, a child α reuses the information of a performant program S* of its
parent β. The search of the child is `inference.eto.search`.
"""
