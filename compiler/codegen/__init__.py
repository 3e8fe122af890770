"""Code generation: passes around TVM's own, compilation and linking."""
