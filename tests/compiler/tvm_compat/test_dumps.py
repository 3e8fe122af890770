"""TVM's own lines about a conversion that fails."""

from __future__ import annotations

import os

import pytest
from foretune.compiler.tvm_compat.dumps import without_dumps


class Builder:
    """Warns on the process's standard error when it is destroyed, as TVM's builder does."""

    def __init__(self) -> None:
        self.myself = self  # only the garbage collector destroys it

    def __del__(self) -> None:
        os.write(2, b"BlockBuilder destroyed with remaining blocks!\n")


def convert(fails: bool) -> int:
    builder = Builder()
    os.write(2, b"deep warning\n")
    print("Error converting operator Conv, with inputs: [...]")
    if fails:
        try:
            raise KeyError("weight")
        except KeyError as error:
            raise ValueError("cannot be lowered") from error
    builder.myself = None  # type: ignore[assignment]
    return 1


def test_a_failure_is_told_by_its_error_alone(capfd) -> None:
    with pytest.raises(ValueError, match="cannot be lowered"), without_dumps():
        convert(fails=True)
    assert capfd.readouterr() == ("", "")


def test_a_success_keeps_the_warnings(capfd) -> None:
    with without_dumps():
        assert convert(fails=False) == 1
    printed = capfd.readouterr()
    assert printed.out == "" and "deep warning\n" in printed.err
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"
