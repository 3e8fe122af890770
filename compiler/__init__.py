"""Knowledge of TVM and of generated code: networks, operators, templates, code generation, loop structure.

The lowest package: it imports nothing of foretune but the files of the root. `networks` turns a network into
tasks, `operators` describes tasks by settings, `structure` reads their loops and decisions, `spaces` and
`templates` define the programs, `codegen` compiles them, `counts` counts their work, and `tvm_compat`
holds what changes between versions of TVM.
"""
