"""Lowering of Relax operators to fused TIR functions: layouts, fusion and rewriting."""
