"""The function of a task's module, whatever its name."""

from __future__ import annotations

import pytest
import tvm
from foretune.compiler.tvm_compat import NoEntryError, argument_buffers, entry_function, named_main
from tvm import te


def copy(length, name):
    a = te.placeholder((length,), name="a")
    return te.create_prim_func([a, te.compute((length,), lambda i: a[i])]).with_attr("global_symbol", name)


def test_the_entry_is_the_marked_function_then_main_then_the_only_one():
    one, main, marked = (
        copy(1, "one"),
        copy(2, "main"),
        copy(3, "three").with_attr("tirx.is_entry_func", True),
    )
    assert entry_function(tvm.IRModule({"one": one})).same_as(one)
    assert entry_function(tvm.IRModule({"one": one, "main": main})).same_as(main)
    every = tvm.IRModule({"one": one, "main": main, "three": marked})
    assert entry_function(every).same_as(marked)
    assert argument_buffers(every) == [((3,), "float32")] * 2  # TVM finds the same function


@pytest.mark.parametrize("functions", [{}, {"one": copy(1, "one"), "two": copy(2, "two")}])
def test_a_module_that_does_not_tell_its_entry_is_an_error(functions):
    with pytest.raises(
        NoEntryError, match=f"these: {', '.join(functions) or 'none'}; pass one module for each"
    ):
        entry_function(tvm.IRModule(functions))


def test_a_module_is_named_main_by_key_and_symbol():
    for mod in (tvm.IRModule({"one": copy(4, "one")}), tvm.IRModule({"main": copy(4, "one")})):
        found = named_main(mod)
        assert [var.name_hint for var in found.get_global_vars()] == ["main"]
        assert found["main"].attrs["global_symbol"] == "main"
    right = tvm.IRModule({"main": copy(4, "main")})
    assert named_main(right).same_as(right)
