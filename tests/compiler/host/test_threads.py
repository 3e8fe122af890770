"""Tests of the thread limit of linear algebra within a block."""

import numpy as np
import pytest
import torch
from foretune.compiler.host.threads import linear_algebra_threads
from threadpoolctl import threadpool_info


def threads_of_numpy():
    assert np.linalg.eigvalsh(np.eye(2)).tolist() == [1, 1]  # loads NumPy's library
    return {pool["num_threads"] for pool in threadpool_info() if "numpy" in pool["filepath"]}


@pytest.mark.parametrize("count", [1, 2])
def test_torch_and_numpy_keep_to_it(count):
    before = torch.get_num_threads(), threads_of_numpy()
    with linear_algebra_threads(count):
        assert torch.get_num_threads() == count and threads_of_numpy() == {count}
    assert (torch.get_num_threads(), threads_of_numpy()) == before


def test_an_error_and_a_block_within_leave_the_threads_as_they_were():
    before = torch.get_num_threads(), threads_of_numpy()
    with linear_algebra_threads(2):
        with pytest.raises(KeyError), linear_algebra_threads(1):
            raise KeyError
        assert torch.get_num_threads() == 2 and threads_of_numpy() == {2}
    assert (torch.get_num_threads(), threads_of_numpy()) == before
